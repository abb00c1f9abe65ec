"""An importance matrix that the user chose, for the types whose rounding it changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from explorer.analysis.requantization import checked_importance
from explorer.analysis.what_if import Piece, importance_of, is_importance_matrix
from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.formats.model import Model
from explorer.formats.weights import Values

_SUMS = ".in_sum2"


@dataclass(frozen=True, eq=False)
class ImportanceMatrix:
    """An open importance matrix.

    Attributes:
        model: The file.
        names: Tensors that it knows of.
        key: What tells it from others; keeps no file open.
    """

    model: Model
    names: frozenset[str]
    key: object = field(default_factory=object)

    @classmethod
    def load(cls, path: Path) -> ImportanceMatrix:
        """Open one; in a worker.

        Raises:
            ExplorerError: It cannot be opened, or is something else.
        """
        model = open_model(path)
        if not is_importance_matrix(model):
            model.close()
            raise ExplorerError("is no importance matrix in GGUF, as llama-imatrix writes it", path)
        names = model.tensors.columns.names
        found = frozenset(name.removesuffix(_SUMS) for name in names if name.endswith(_SUMS))
        return cls(model, found)

    def close(self) -> None:
        """Close the file."""
        self.model.close()

    def importance(self, piece: Piece, name: str) -> Values | None:
        """Return the importance of a piece's columns, float32 [matrices, columns]; may read.

        Args:
            piece: The piece.
            name: The model's name for it.

        Returns:
            None if the matrix does not have it.

        Raises:
            ExplorerError: The matrix is damaged, or is that of another model.
        """
        found = importance_of(self.model, name) if name in self.names else None
        return None if found is None else checked_importance(found, piece.original)
