"""Statistics of every tensor of a model, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from explorer.analysis.statistics import TensorStatistics, tensor_statistics
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Check


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

    Threads share the work on one tensor, so that the largest one does not keep a single thread
    busy at the end, and files are read front to back.

    Args:
        model: An open model.
        workers: Threads.
        cancel: Called before every chunk, in the thread that reads it; what it raises is passed on.
        progress: Called now and then with the weights walked over so far; in all there will be
            twice those of the model.
    """
    before = 0
    for tensor in model.tensors.rows:
        start = before

        def tell(done: int, start: int = start) -> None:
            if progress is not None:
                progress(start + done)

        yield survey_row(tensor, workers, cancel, None if progress is None else tell)
        before += 2 * tensor.parameters
        tell(2 * tensor.parameters)


def survey_row(
    tensor: Tensor, workers: int, cancel: Check | None, tell: Callable[[int], None] | None
) -> SurveyRow:
    """Return what a survey tells of one tensor.

    Args:
        tensor: The tensor.
        workers: Threads.
        cancel: Called before every chunk; what it raises is passed on.
        tell: Called now and then with the weights walked over so far, of twice those that it has.
    """
    try:
        found = tensor_statistics(
            tensor,
            workers=workers,
            cancel=cancel,
            progress=None if tell is None else lambda snapshot: tell(snapshot.done),
        )
    except ExplorerError as error:
        return SurveyRow(tensor, None, error)
    return SurveyRow(tensor, found)
