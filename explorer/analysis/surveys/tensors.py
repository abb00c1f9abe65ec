"""Statistics of every tensor of a model, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from explorer.analysis.remembering import remembered_bytes
from explorer.analysis.sharing import Portion, Tell, share_out
from explorer.analysis.statistics import TensorStatistics, tensor_statistics
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.parallel import Check, never

WALKS: Final = 2
"""How often the weights of a tensor are walked over."""


@dataclass(frozen=True, slots=True)
class SurveyRow:
    """What a survey tells of one tensor.

    Attributes:
        tensor: The tensor.
        statistics: Its statistics; None if its weights cannot be told.
        error: Why they cannot, or None.
    """

    tensor: Tensor
    statistics: TensorStatistics | None
    error: ExplorerError | None = None


def survey(
    model: Model,
    workers: int = 1,
    cancel: Check | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[SurveyRow]:
    """Yield a row for each tensor, in the order of the model, as soon as it is known.

    Args:
        model: An open model.
        workers: Threads, which take a tensor each, or share the work on a large one.
        cancel: Called before every chunk, in the thread that reads it; what it raises is passed on.
        progress: Called in the caller's thread now and then with the weights walked over so far; in
            all there will be twice those of the model.
    """
    portions = (
        Portion(one, one.parameters, remembered_bytes(one), WALKS) for one in model.tensors.rows
    )
    return share_out(
        portions, survey_row, workers=workers, check=cancel or never, progress=progress
    )


def survey_row(tensor: Tensor, workers: int, cancel: Check | None, tell: Tell) -> SurveyRow:
    """Return what a survey tells of one tensor.

    Args:
        tensor: The tensor.
        workers: Threads.
        cancel: Called before every chunk; what it raises is passed on.
        tell: Called now and then with the weights walked over so far, of twice those that it has.
    """
    try:
        found = tensor_statistics(tensor, workers=workers, cancel=cancel, steps=tell)
    except ExplorerError as error:
        return SurveyRow(tensor, None, error)
    return SurveyRow(tensor, found)
