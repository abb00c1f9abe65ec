"""What is said of files that belong to a model and are none: LoRA adapters, importance matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import nan
from typing import Final

from explorer.analysis.adapters import (
    Adapter,
    Update,
    base_tensors,
    read_adapter,
    tensor_norm,
    update_norm,
)
from explorer.analysis.importance import (
    EntryStatistics,
    ImportanceMatrix,
    MatrixEntry,
    entry_statistics,
    read_matrix,
)
from explorer.errors import ExplorerError
from explorer.formats.attachments import is_adapter, is_importance_matrix
from explorer.formats.model import Model
from explorer.parallel import Check, never
from explorer.text import counted, float_text, integer_text, listed, shape_text, shorten


def kind_text(model: Model) -> str | None:
    """Say in a line what a file is that is not a whole model; None of a model.

    "LoRA adapter of rank 16, alpha 32, for 112 tensors". Names of data sets come from the file.
    """
    if is_importance_matrix(model):
        return _matrix_text(read_matrix(model))
    return _adapter_text(read_adapter(model)) if is_adapter(model) else None


_KINDS: Final = {
    **{"lora": "LoRA", "loha": "LoHa", "lokr": "LoKr", "dora": "DoRA", "oft": "OFT"},
    **{"boft": "BOFT", "ia3": "(IA)³", "vera": "VeRA", "glora": "GLoRA"},
}
_SHOWN_CHARACTERS: Final = 80
_SHOWN_TAGS: Final = 5


def _adapter_text(adapter: Adapter) -> str:
    kind = f"{_KINDS.get(adapter.kind, adapter.kind)} adapter"
    ranks = adapter.ranks
    parts = []
    if ranks:
        shown = integer_text(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        parts.append(f"{kind} of rank {shown}")
    parts = parts or [kind]
    if adapter.alpha is not None:
        parts.append(f"alpha {float_text(adapter.alpha, 4)}")
    parts.append(f"for {counted(len(adapter.updates), 'tensor')}")
    if adapter.base:
        parts.append(f"made for {shorten(adapter.base, _SHOWN_CHARACTERS)}")
    if adapter.trigger:
        parts.append(f"trigger words {shorten(adapter.trigger, _SHOWN_CHARACTERS)}")
    elif adapter.tags:
        parts.append(f"trained with {listed((tag for tag, _ in adapter.tags), _SHOWN_TAGS)}")
    return ", ".join(parts)


def _matrix_text(matrix: ImportanceMatrix) -> str:
    parts = [f"Importance matrix of {counted(len(matrix.entries), 'tensor')}"]
    if matrix.chunks:
        size = f" of {integer_text(matrix.chunk_size)} tokens" if matrix.chunk_size else ""
        parts.append(f"from {counted(matrix.chunks, 'chunk')}{size}")
    if matrix.datasets:
        parts.append(f"made of {', '.join(matrix.datasets[:3])}")
    return ", ".join(parts) + (" (the older form)" if matrix.legacy else "")


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


# Importance matrices


@dataclass(frozen=True, slots=True)
class EntryRow:
    """What is known of the importance of a tensor's columns; None, and why, if it is damaged."""

    entry: MatrixEntry
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
            yield EntryRow(entry, entry_statistics(model, entry, check))
        except ExplorerError as error:
            yield EntryRow(entry, None, error.what)
