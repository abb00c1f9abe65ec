"""What is said of files that belong to a model and are none: LoRA adapters, importance matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, Final

from explorer.analysis.adapters import (
    Adapter,
    Update,
    base_tensors,
    is_adapter,
    read_adapter,
    tensor_norm,
    update_norm,
)
from explorer.analysis.importance import (
    EntryStatistics,
    ImportanceMatrix,
    entry_statistics,
    read_matrix,
)
from explorer.analysis.what_if import is_importance_matrix
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.parallel import Check, never
from explorer.text import (
    count_text,
    digits_text,
    float_text,
    integer_text,
    percent_text,
    shape_text,
)

TEXTS: Final = {
    "tensor": "The tensor of the model that it belongs to.",
    "rank": "Columns of the factor B: the fewer, the simpler the change.",
    "shape": "Shape of the weight that the product of the factors is added to, rows first.",
    "scale": "What the product is multiplied with: alpha divided by the rank.",
    "norm": (
        "Frobenius norm of what is added: the root of the sum of its squares. It follows from the "
        "two factors; the product is never formed."
    ),
    "base_norm": "Frobenius norm of the tensor of the model that the adapter is compared with.",
    "relative": "Norm of what is added by the norm of the weight that it is added to.",
    "bytes": "Stored bytes of both factors.",
    "columns": "Columns of the weight: each has an importance.",
    "matrices": "Matrices stacked in the tensor, such as experts.",
    "unused": "Matrices that no token was sent through: nothing is known of their columns.",
    "uses": (
        "How often the tensor was used: tokens, in the older form pieces of text. Where experts "
        "differ, the least and the most."
    ),
    "minimum": "Importance of the column that matters least, of matrices that were used.",
    "std": "Standard deviation of the importance of the columns.",
    "mean": "Mean importance of a column: the mean square of what it was multiplied with.",
    "maximum": "Importance of the column that matters most.",
    "peak": "Maximum by mean: how far the most important column stands out.",
    "evenness": "Entropy of the shares of all columns: 100 % if all matter alike.",
    "top_share": "Part of the sum that the most important hundredth of the columns has.",
    "top_columns": "The columns that matter most, with their share of the sum.",
    "problem": "Why there are no figures.",
}
"""What the columns of both tables mean."""

WORDS: Final = ("tensor", "shape", "top columns")
"""Columns of both tables that hold no numbers."""

_SHOWN_COLUMNS: Final = 4


def kind_text(model: Model) -> str | None:
    """Say in a line what a file is that is no whole model; None of a model.

    "LoRA adapter of rank 16, alpha 32, for 112 tensors". Names of data sets come from the file.
    """
    if is_importance_matrix(model):
        return _matrix_text(read_matrix(model))
    return _adapter_text(read_adapter(model)) if is_adapter(model) else None


def _adapter_text(adapter: Adapter) -> str:
    kind = {"lora": "LoRA adapter"}.get(adapter.kind, f"{adapter.kind} adapter")
    ranks = adapter.ranks
    parts = []
    if ranks:
        shown = integer_text(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        parts.append(f"{kind} of rank {shown}")
    parts = parts or [kind]
    if adapter.alpha is not None:
        parts.append(f"alpha {float_text(adapter.alpha, 4)}")
    parts.append(f"for {_counted(len(adapter.updates), 'tensor')}")
    return ", ".join(parts)


def _matrix_text(matrix: ImportanceMatrix) -> str:
    parts = [f"Importance matrix of {_counted(len(matrix.entries), 'tensor')}"]
    if matrix.chunks:
        size = f" of {integer_text(matrix.chunk_size)} tokens" if matrix.chunk_size else ""
        parts.append(f"from {_counted(matrix.chunks, 'chunk')}{size}")
    if matrix.datasets:
        parts.append(f"made of {', '.join(matrix.datasets[:3])}")
    return ", ".join(parts) + (" (the older form)" if matrix.legacy else "")


def _counted(count: int, what: str) -> str:
    return f"{integer_text(count)} {what}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class AttachedTable:
    """An adapter or an importance matrix as a table: its kind in a line, its figures.

    Attributes:
        kind: See `kind_text`.
        head: `UPDATE_HEAD` or `ENTRY_HEAD`.
        rows: A line for each tensor; none if nothing was measured. Names come from the file.
    """

    kind: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def attached_table(
    model: Model, base: Model | None, check: Check = never, *, measured: bool = True
) -> AttachedTable | None:
    """Return the table of an adapter or an importance matrix; None of a model.

    Args:
        model: The file.
        base: The model that an adapter changes, or None.
        check: Called for each run of weights; raises to stop.
        measured: Whether to read the numbers.
    """
    kind = kind_text(model)
    if kind is None:
        return None
    if is_importance_matrix(model):
        entries = measure_matrix(model, check) if measured else iter(())
        return AttachedTable(kind, ENTRY_HEAD, tuple(map(entry_cells, entries)))
    updates = measure_updates(model, base, check) if measured else iter(())
    return AttachedTable(kind, UPDATE_HEAD, tuple(map(update_cells, updates)))


# Adapters


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """An update with its norms; NaN where one is not known.

    Attributes:
        update: The update.
        norm: Norm of what it adds.
        base_norm: Norm of the weight of the base.
        problem: Why a norm is not known; "" if there is nothing to say.
    """

    update: Update
    norm: float
    base_norm: float
    problem: str = ""

    @property
    def relative(self) -> float:
        """The one by the other."""
        return self.norm / self.base_norm if self.base_norm else nan


def measure_updates(
    model: Model,
    base: Model | None,
    check: Check = never,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Iterator[UpdateRow]:
    """Yield each update of an adapter with its norm, and that of its base.

    Args:
        model: The adapter.
        base: The model that it changes, or None.
        check: Called for each run of weights; raises to stop.
        progress: Called with the number of updates done, and of all.
    """
    adapter = read_adapter(model)
    bases = {} if base is None else base_tensors(adapter, base)
    for done, update in enumerate(adapter.updates):
        progress(done, len(adapter.updates))
        norm, base_norm, problem = nan, nan, ""
        try:
            norm = update_norm(update, check)
            if base is not None:
                tensor = bases.get(update.name)
                if tensor is None:
                    problem = "the base has no such tensor"
                elif update.shape and tensor.shape != update.shape:
                    shapes = f"{shape_text(tensor.shape)}, not {shape_text(update.shape)}"
                    problem = f"the base's tensor is {shapes}"
                else:
                    base_norm = tensor_norm(tensor, check)
        except ExplorerError as error:
            problem = error.what
        yield UpdateRow(update, norm, base_norm, problem)


def adapter_record(model: Model, rows: list[UpdateRow] | None) -> dict[str, Any]:
    """Return what JSON says of an adapter; norms only where they were measured."""
    adapter = read_adapter(model)
    measured = {} if rows is None else {row.update.name: row for row in rows}
    return {
        "kind": adapter.kind,
        "alpha": adapter.alpha,
        "ranks": list(adapter.ranks),
        "parameters": adapter.parameters,
        "base": adapter.base or None,
        "tensors": [_update_record(one, measured.get(one.name)) for one in adapter.updates],
        "others": list(adapter.others),
    }


def _update_record(update: Update, row: UpdateRow | None) -> dict[str, Any]:
    record = {
        "name": update.name,
        "rank": update.rank,
        "scale": update.scale,
        "shape": list(update.shape),
        "bytes": update.nbytes,
    }
    if row is not None:
        record |= {"norm": row.norm, "base_norm": row.base_norm, "relative": row.relative}
    problem = update.problem if row is None else row.problem
    return record | {"problem": problem or None}


UPDATE_HEAD: Final = ("tensor", "rank", "shape", "norm", "base's norm", "relative")


def update_cells(row: UpdateRow) -> tuple[str, ...]:
    """Return a line of `UPDATE_HEAD`; the name comes from the file."""
    update = row.update
    figures = (norm_text(row.norm), norm_text(row.base_norm), share_text(row.relative))
    if row.problem:
        figures = (figures[0], row.problem, "")
    return (update.name, integer_text(update.rank), shape_text(update.shape), *figures)


def norm_text(value: float) -> str:
    """Return a norm or another figure of any size; "" if it is not known."""
    return "" if isnan(value) else digits_text(value, 4)


def share_text(value: float) -> str:
    """Return a share of 1 in per cent; "" if it is not known."""
    return "" if isnan(value) else percent_text(value)


# Importance matrices


@dataclass(frozen=True, slots=True)
class EntryRow:
    """What is known of the importance of a tensor's columns; None, and why, if it is damaged."""

    name: str
    found: EntryStatistics | None
    problem: str = ""


def measure_matrix(
    model: Model,
    check: Check = never,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Iterator[EntryRow]:
    """Yield the statistics of each tensor of an importance matrix; arguments as above."""
    entries = read_matrix(model).entries
    for done, entry in enumerate(entries):
        progress(done, len(entries))
        try:
            yield EntryRow(entry.name, entry_statistics(model, entry, check))
        except ExplorerError as error:
            yield EntryRow(entry.name, None, error.what)


def matrix_record(model: Model, rows: list[EntryRow] | None) -> dict[str, Any]:
    """Return what JSON says of an importance matrix; figures only where they were measured."""
    matrix = read_matrix(model)
    measured = {} if rows is None else {row.name: row for row in rows}
    return {
        "datasets": list(matrix.datasets),
        "chunks": matrix.chunks,
        "chunk_size": matrix.chunk_size,
        "legacy": matrix.legacy,
        "tensors": [
            {"name": one.name, "columns": one.columns, "matrices": one.matrices}
            | _entry_record(measured.get(one.name))
            for one in matrix.entries
        ],
    }


def _entry_record(row: EntryRow | None) -> dict[str, Any]:
    if row is None:
        return {}
    found = row.found
    if found is None:
        return {"problem": row.problem}
    names = ("count_min", "count_max", "unused", "minimum", "maximum", "mean", "std", "evenness")
    return {name: getattr(found, name) for name in (*names, "top_share")} | {
        "top_columns": [
            {"matrix": one.matrix, "column": one.column, "value": one.value, "share": one.share}
            for one in found.columns
        ],
        "problem": None,
    }


ENTRY_HEAD: Final = ("tensor", "columns", "uses", "mean", "max / mean", "evenness", "top columns")


def entry_cells(row: EntryRow) -> tuple[str, ...]:
    """Return a line of `ENTRY_HEAD`; the name comes from the file."""
    found = row.found
    if found is None:
        return (row.name, "", "", "", "", "", row.problem)
    return (
        row.name,
        integer_text(found.entry.columns),
        uses_text(found),
        norm_text(found.mean),
        norm_text(peak(found)),
        share_text(found.evenness),
        columns_text(found),
    )


def peak(found: EntryStatistics) -> float:
    """Return the maximum by the mean."""
    return found.maximum / found.mean if found.mean else nan


def uses_text(found: EntryStatistics) -> str:
    """Return how often a tensor was used: "65,536", "12 to 4,096"."""
    low, high = (count_text(round(one)) for one in (found.count_min, found.count_max))
    return low if low == high else f"{low} to {high}"


def columns_text(found: EntryStatistics) -> str:
    """Return the columns that matter most: "512 (8.1 %), 17 (2 %)"; of experts "3: 512 (8.1 %)"."""
    stacked = found.entry.matrices > 1
    return ", ".join(
        (f"{one.matrix}: " if stacked else "") + f"{one.column} ({share_text(one.share)})"
        for one in found.columns[:_SHOWN_COLUMNS]
    )
