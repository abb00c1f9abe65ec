"""What `gguf-explorer inspect` says and measures of LoRA adapters and importance matrices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from explorer.cli import options, output
from explorer.errors import ExplorerError
from explorer.formats import Model, open_model
from explorer.formats.attachments import is_adapter, is_importance_matrix
from explorer.present.attachments import EntryRow, UpdateRow, measure_matrix, measure_updates
from explorer.present.tables.attachments import ENTRIES, UPDATES, adapter_record, matrix_record
from explorer.present.tables.table import Table

Row = TypeVar("Row")

_LONGEST_NAME: Final = 200


@dataclass(frozen=True)
class Attached:
    """What was measured of an adapter or an importance matrix; None of what was not."""

    updates: list[UpdateRow] | None = None
    entries: list[EntryRow] | None = None

    @classmethod
    def of(cls, model: Model, measure: bool, base: str | None) -> Attached:
        """Measure it, if that is asked for.

        Raises:
            ExplorerError: It is neither.
        """
        if not measure:
            return cls()
        with output.Progress(1) as line, ExitStack() as stack:

            def progress(done: int, total: int) -> None:
                line.show(done, total, "tensors")

            if is_importance_matrix(model):
                found = measure_matrix(model, progress=progress)
                return cls(entries=list(found))
            if not is_adapter(model):
                what = "is neither an adapter nor an importance matrix. `survey` measures models"
                raise ExplorerError(what, model.path)
            other = options.open_given(stack, base, open_model)
            return cls(list(measure_updates(model, other, progress=progress)))

    def record(self, model: Model) -> dict[str, Any]:
        """Return what JSON has of it; nothing of another model."""
        if is_importance_matrix(model):
            return {"imatrix": matrix_record(model, self.entries)}
        if is_adapter(model):
            return {"adapter": adapter_record(model, self.updates)}
        return {}

    def text(self) -> str:
        """Return its table for people."""
        if self.updates is not None:
            return _measured(UPDATES, self.updates)
        return "" if self.entries is None else _measured(ENTRIES, self.entries)


def _measured(described: Table[Row], rows: Sequence[Row]) -> str:
    heading = output.heading(described.title, len(rows))
    return heading + output.table_of(described, rows, _LONGEST_NAME)
