"""How large tensors and their file would be in other types. Reads nothing but the header."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.analysis.what_if.losses import PRESENT, Piece
from explorer.formats.model import Model
from explorer.quantization import TensorType


@dataclass(frozen=True, slots=True)
class SizeThen:
    """How large some tensors of a model would be.

    Attributes:
        parameters: Weights of the tensors that are looked at.
        nbytes: Their bytes.
        model_nbytes: Bytes of all the model's tensors.
        file_nbytes: Bytes of its files; headers and padding are taken as they are.
        types: The type of each tensor that would have another one, by row.
        kept: How many of those that would get the type cannot have it, and stay as they are.
        substitutes: How many get another type in its place, by that type; see `Piece.fitting`.
        problem: Why none can have it, or None.
    """

    parameters: int
    nbytes: int
    model_nbytes: int
    file_nbytes: int
    types: Mapping[int, TensorType] = field(default_factory=dict)
    kept: int = 0
    substitutes: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None

    @property
    def bits_per_weight(self) -> float:
        """Bits that a weight of the tensors would take; NaN without weights."""
        return 8 * self.nbytes / self.parameters if self.parameters else float("nan")


def present_size(model: Model, rows: Collection[int]) -> SizeThen:
    """Return how large tensors are.

    Args:
        model: The model.
        rows: The tensors, by row.
    """
    columns = model.tensors.columns
    return SizeThen(
        parameters=sum(columns.parameters[row] for row in rows),
        nbytes=sum(columns.nbytes[row] for row in rows),
        model_nbytes=model.nbytes,
        file_nbytes=sum(file.source.size for file in model.files),
    )


def size_then(model: Model, present: SizeThen, pieces: Sequence[Piece], type_name: str) -> SizeThen:
    """Return how large tensors would be if their pieces had a type.

    A tensor of which only some pieces can have the type stays as it is.

    Args:
        model: The model.
        present: How large they are; the pieces' tensors are among them.
        pieces: What gets the type.
        type_name: The type; see `rounders.rounder`.
    """
    problems = [piece.problem(type_name) for piece in pieces]
    if None not in problems:
        return replace(present, problem=problems[0] if problems else None)
    chosen = _chosen(pieces, type_name)
    columns = model.tensors.columns
    types: dict[int, TensorType] = {}
    more = more_in_model = 0
    for row, (_, kind) in chosen.items():
        nbytes = None if kind is None else kind.nbytes(columns.parameters[row])
        if kind is not None and nbytes is not None:
            types[row] = kind
            more += nbytes - columns.nbytes[row]
            if row < model.tensors.main_rows:
                more_in_model += nbytes - columns.nbytes[row]
    names = Counter(chosen[row][0] for row in types)
    del names[type_name]
    return replace(
        present,
        nbytes=present.nbytes + more,
        model_nbytes=present.model_nbytes + more_in_model,
        file_nbytes=present.file_nbytes + more,
        types=types,
        kept=len(chosen) - len(types),
        substitutes=dict(names),
    )


def _chosen(pieces: Sequence[Piece], type_name: str) -> dict[int, tuple[str, TensorType | None]]:
    """Return the type of each tensor, by row; None where its pieces do not agree on one."""
    chosen: dict[int, tuple[str, TensorType | None]] = {}
    for piece in pieces:
        name = piece.fitting(type_name)
        found = (name, None if name == PRESENT else piece.kind(name))
        for row in piece.rows:
            chosen[row] = found if chosen.get(row, found) == found else (PRESENT, None)
    return chosen
