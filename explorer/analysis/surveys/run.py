"""A survey that one can pause, cancel and take up again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from explorer.analysis.errors.figures import ErrorFigures
from explorer.analysis.errors.lockstep import flat_spans, measure_pairs
from explorer.analysis.errors.weights_pair import WeightsPair
from explorer.analysis.remembering import remembered_bytes
from explorer.analysis.sharing import Portion, Tell, share_out
from explorer.analysis.surveys.cache import KeptErrors, KeptSurvey
from explorer.analysis.surveys.tensors import WALKS, SurveyRow, survey_row
from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.parallel import Check, never

_POLL_S: Final = 0.05


class SurveyCancelled(Exception):
    """Ends a survey that somebody cancelled. What was known by then is kept."""


class SurveyControl:
    """Pauses and cancels a survey, from any thread; the survey obeys at its next chunk."""

    def __init__(self) -> None:
        self._going = threading.Event()
        self._going.set()
        self._cancelled = threading.Event()
        self._beside: Check = never

    def obey(self, check: Check) -> None:
        """Have somebody else end the survey too.

        Args:
            check: Called as often as `check`, and every 50 ms of a pause; raises to end it.
        """
        self._beside = check

    @property
    def paused(self) -> bool:
        """Whether the survey waits."""
        return not self._going.is_set()

    @property
    def cancelled(self) -> bool:
        """Whether the survey ends, or has ended, before its end."""
        return self._cancelled.is_set()

    def pause(self) -> None:
        """Have the survey wait, unless it is cancelled."""
        self._going.clear()
        if self.cancelled:  # by another thread, meanwhile or before
            self._going.set()

    def resume(self) -> None:
        """Have a paused survey go on."""
        self._going.set()

    def cancel(self) -> None:
        """End the survey, paused or not."""
        self._cancelled.set()
        self._going.set()

    def check(self) -> None:
        """Wait while the survey is paused.

        Raises:
            SurveyCancelled: Somebody cancelled it.
        """
        self._beside()
        while not self._going.wait(_POLL_S):
            self._beside()
        if self.cancelled:
            raise SurveyCancelled


def run_survey(  # noqa: PLR0913 - all but the first two have a default
    model: Model,
    kept: KeptSurvey,
    workers: int = 1,
    control: SurveyControl | None = None,
    progress: Callable[[int], object] | None = None,
    *,
    rows: Sequence[int] | None = None,
) -> Iterator[SurveyRow]:
    """Yield a row for each tensor, in the order of the model; what is known comes at once.

    Args:
        model: An open model.
        kept: What is known already; what gets known is added.
        workers: Threads, which take a tensor each, or share the work on a large one.
        control: Pauses and cancels.
        progress: Called now and then with the weights walked over so far, of twice the tensors'.
        rows: Rows of the model's table, if not all of them.

    Raises:
        SurveyCancelled: Somebody cancelled it. Another run with what was kept goes on from there.
    """
    control = control or SurveyControl()
    tensors = model.tensors.rows
    numbers = range(len(tensors)) if rows is None else rows

    def work(number: int, workers: int, check: Check, tell: Tell) -> SurveyRow:
        known = kept.rows.get(number)
        if known is not None:
            return SurveyRow(tensors[number], known)
        return survey_row(tensors[number], workers, check, tell)

    portions = (
        Portion(number, tensors[number].parameters, remembered_bytes(tensors[number]), WALKS)
        for number in numbers
    )
    found = share_out(portions, work, workers=workers, check=control.check, progress=progress)
    for number, row in zip(numbers, found, strict=True):
        if row.statistics is not None and number not in kept.rows:
            kept.add(number, row.statistics)
        yield row


@dataclass(frozen=True, slots=True)
class PairRow:
    """What a survey of errors tells of one pair.

    Attributes:
        number: Its place among the pairs.
        pair: The pair.
        figures: Its errors; None if its weights cannot be told.
        error: Why they cannot, or None.
    """

    number: int
    pair: WeightsPair
    figures: ErrorFigures | None
    error: ExplorerError | None = None


def run_errors(  # noqa: PLR0913 - all but the first two have a default
    pairs: Sequence[WeightsPair],
    kept: KeptErrors,
    workers: int = 1,
    control: SurveyControl | None = None,
    progress: Callable[[int], object] | None = None,
    *,
    numbers: Sequence[int] | None = None,
) -> Iterator[PairRow]:
    """Yield the errors of each pair in order; what is known comes at once.

    Args:
        pairs: The pairs.
        kept: What is known already; what gets known is added.
        workers: Threads, which take a pair each, or share the work on a large one.
        control: Pauses and cancels.
        progress: Called now and then with the number of pairs of weights done.
        numbers: Places of pairs, if not all of them.

    Raises:
        SurveyCancelled: Somebody cancelled it. Another run with what was kept goes on from there.
    """
    control = control or SurveyControl()

    def work(number: int, workers: int, check: Check, tell: Tell) -> PairRow:
        known = kept.rows.get(number)
        if known is not None:
            return PairRow(number, pairs[number], known)
        return _measure(number, pairs[number], workers, check, tell)

    wanted = range(len(pairs)) if numbers is None else numbers
    portions = (Portion(number, pairs[number].parameters, 0) for number in wanted)
    for row in share_out(portions, work, workers=workers, check=control.check, progress=progress):
        if row.figures is not None and row.number not in kept.rows:
            kept.add(row.number, row.figures)
        yield row


def _measure(number: int, pair: WeightsPair, workers: int, check: Check, tell: Tell) -> PairRow:
    spans = flat_spans(pair.parameters)
    try:
        found = measure_pairs(spans, pair.pairs, workers=workers, check=check, progress=tell)
    except ExplorerError as error:
        return PairRow(number, pair, None, error)
    return PairRow(number, pair, found.figures())
