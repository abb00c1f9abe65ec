"""Tables of what an adapter changes, and of what an importance matrix knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import nan
from typing import Any, Final

from explorer.analysis.adapters import read_adapter
from explorer.analysis.importance import EntryStatistics, read_matrix
from explorer.formats.attachments import is_importance_matrix
from explorer.formats.model import Model
from explorer.parallel import Check, never
from explorer.present.attachments import (
    EntryRow,
    UpdateRow,
    kind_text,
    measure_matrix,
    measure_updates,
)
from explorer.present.tables.table import (
    BYTES,
    FIGURE,
    INTEGER,
    LIST,
    RATIO,
    SHAPE,
    TEXT,
    Column,
    Kind,
    Table,
)
from explorer.text import count_text, integer_text

_TENSOR: Final = "The tensor of the model that it belongs to."
_PROBLEM: Final = "Why there are no figures."
_SUM: Final = "Shape of the weight that the product of the factors is added to, rows first."
_NORM: Final = (
    "Frobenius norm of what is added: the root of the sum of its squares. It follows from the two "
    "factors. The product is never formed."
)
_BASE: Final = "Frobenius norm of the tensor of the model that the adapter is compared with."
_RELATIVE: Final = "Norm of what is added by the norm of the weight that it is added to."


def _update(name: str) -> Callable[[UpdateRow], Any]:
    return lambda row: getattr(row.update, name)


UPDATES: Final = Table[UpdateRow](
    Column("name", "Tensor", TEXT, _TENSOR, _update("name")),
    Column("rank", "Rank", INTEGER, "Columns of factor B: fewer are simpler.", _update("rank")),
    Column("shape", "Shape", SHAPE, _SUM, _update("shape")),
    Column("scale", "Scale", FIGURE, "Alpha divided by the rank.", _update("scale")),
    Column("norm", "Norm of the update", FIGURE, _NORM),
    Column("base_norm", "Norm of the base", FIGURE, _BASE),
    Column("relative", "Relative", RATIO, _RELATIVE),
    Column("bytes", "Size", BYTES, "Stored bytes of both factors.", _update("nbytes")),
    Column("problem", "Problem", TEXT, _PROBLEM, lambda row: row.problem or None, sparse=True),
    title="What the adapter changes",
)


def _found(value: Callable[[EntryStatistics], Any]) -> Callable[[EntryRow], Any]:
    return lambda row: None if row.found is None else value(row.found)


def _figure(name: str, title: str, kind: Kind, tip: str) -> Column[EntryRow]:
    return Column(name, title, kind, tip, _found(lambda found: getattr(found, name)))


def _stacked(count: Callable[[EntryRow], int]) -> Callable[[EntryRow], str]:
    """Return what writes a number of matrices, of stacked ones only."""
    return lambda row: integer_text(count(row)) if row.entry.matrices > 1 else ""


_SHOWN_COLUMNS: Final = 4


def _uses(row: EntryRow) -> str:
    """Return how often a tensor was used: "65,536", "12 to 4,096"."""
    if row.found is None:
        return ""
    low, high = (count_text(round(one)) for one in (row.found.count_min, row.found.count_max))
    return low if low == high else f"{low} to {high}"


def _top_columns(row: EntryRow) -> str:
    """Return the columns that matter most: "512 (8.1 %), 17 (2 %)"; of experts "3: 512 (8.1 %)"."""
    stacked = row.entry.matrices > 1
    return ", ".join(
        (f"{one.matrix}: " if stacked else "") + f"{one.column} ({RATIO.write(one.share)})"
        for one in ([] if row.found is None else row.found.columns[:_SHOWN_COLUMNS])
    )


_USES: Final = Kind(lambda uses: count_text(round(uses)))
_MATRICES: Final = "Matrices stacked in the tensor, such as experts."
_UNUSED: Final = "Matrices that no token was sent through: nothing is known of their columns."
_USED: Final = (
    "How often the tensor was used: tokens, in the older form pieces of text. Where experts "
    "differ, the least and the most."
)
_TOP: Final = "The columns that matter most, with their share of the sum."
_TOP_SHARE: Final = "Part of the sum that the most important hundredth of the columns has."
_EVENNESS: Final = "Entropy of the shares of all columns: 100 % if all matter alike."
_LEAST: Final = "Importance of the column that matters least, of matrices that were used."
_MEAN: Final = "Mean importance of a column: the mean square of what it was multiplied with."
_STD: Final = "Standard deviation of the importance of the columns."
_PEAK: Final = "Maximum by mean: how far the most important column stands out."

ENTRIES: Final = Table[EntryRow](
    Column("name", "Tensor", TEXT, _TENSOR, lambda row: row.entry.name),
    Column("columns", "Columns", INTEGER, "Each has an importance.", lambda row: row.entry.columns),
    Column(
        *("matrices", "Matrices", INTEGER, _MATRICES),
        lambda row: row.entry.matrices,
        text=_stacked(lambda row: row.entry.matrices),
        sparse=True,
    ),
    Column(
        *("unused", "Not used", INTEGER, _UNUSED),
        _found(lambda found: found.unused),
        text=_stacked(lambda row: row.found.unused if row.found else 0),
        sparse=True,
    ),
    replace(_figure("count_max", "Uses", _USES, _USED), text=_uses),
    replace(_figure("count_min", "Least uses", _USES, ""), extra=True),
    Column(
        *("top_columns", "Columns that matter most", LIST, _TOP),
        _found(lambda found: [asdict(one) for one in found.columns]),
        text=_top_columns,
    ),
    _figure("top_share", "Share of the top 1 %", RATIO, _TOP_SHARE),
    _figure("evenness", "Evenness", RATIO, _EVENNESS),
    _figure("minimum", "Minimum", FIGURE, _LEAST),
    _figure("mean", "Mean", FIGURE, _MEAN),
    _figure("std", "Standard deviation", FIGURE, _STD),
    _figure("maximum", "Maximum", FIGURE, "Importance of the column that matters most."),
    Column(
        *("peak", "Maximum / mean", FIGURE, _PEAK),
        _found(lambda found: found.maximum / found.mean if found.mean else None),
    ),
    Column("problem", "Problem", TEXT, _PROBLEM, lambda row: row.problem or None, sparse=True),
    title="Importance of columns",
)


@dataclass(frozen=True, slots=True)
class AttachedTable:
    """An adapter or an importance matrix as a table; its rows are empty if it was not measured."""

    kind: str
    table: Table[Any]
    rows: Sequence[Any]
    is_measured: bool = True

    def record(self, model: Model) -> dict[str, Any]:
        """Return what JSON says of it, by what it is; figures only where they were measured."""
        rows = self.rows if self.is_measured else None
        if self.table is ENTRIES:
            return {"imatrix": matrix_record(model, rows)}
        return {"adapter": adapter_record(model, rows)}


def attached_table(
    model: Model,
    base: Model | None,
    check: Check = never,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
    *,
    measured: bool = True,
) -> AttachedTable | None:
    """Return the table of an adapter or an importance matrix; None of a model.

    Args:
        model: The file.
        base: The model that an adapter changes, or None.
        check: Called for each run of weights; raises to stop.
        progress: Called with the number of tensors done, and of all.
        measured: Whether to read the numbers.
    """
    kind = kind_text(model)
    if kind is None:
        return None
    if is_importance_matrix(model):
        entries = measure_matrix(model, check, progress) if measured else ()
        return AttachedTable(kind, ENTRIES, tuple(entries), measured)
    updates = measure_updates(model, base, check, progress) if measured else ()
    return AttachedTable(kind, UPDATES, tuple(updates), measured)


def adapter_record(model: Model, rows: Sequence[UpdateRow] | None) -> dict[str, Any]:
    """Return what JSON says of an adapter; norms only where they were measured."""
    adapter = read_adapter(model)
    table = UPDATES
    if rows is None:
        table = UPDATES.without("norm", "base_norm", "relative")
        rows = [UpdateRow(one, nan, nan, one.problem) for one in adapter.updates]
    return {
        "kind": adapter.kind,
        "alpha": adapter.alpha,
        "ranks": list(adapter.ranks),
        "parameters": adapter.parameters,
        "base": adapter.base or None,
        "trigger": adapter.trigger or None,
        "tags": [{"tag": tag, "count": count} for tag, count in adapter.tags],
        "tensors": [table.record(row) for row in rows],
        "others": list(adapter.others),
    }


def matrix_record(model: Model, rows: Sequence[EntryRow] | None) -> dict[str, Any]:
    """Return what JSON says of an importance matrix; figures only where they were measured."""
    matrix = read_matrix(model)
    table = ENTRIES
    if rows is None:
        table = ENTRIES.only("name", "columns", "matrices")
        rows = [EntryRow(entry, None) for entry in matrix.entries]
    return {
        "datasets": list(matrix.datasets),
        "chunks": matrix.chunks,
        "chunk_size": matrix.chunk_size,
        "legacy": matrix.legacy,
        "tensors": [table.record(row) for row in rows],
    }
