"""A survey that one can pause, cancel and take up again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from explorer.analysis.survey_cache import KeptSurvey
from explorer.analysis.tensor_survey import SurveyRow, survey_row
from explorer.formats.model import Model


class SurveyCancelled(Exception):
    """Ends a survey that somebody cancelled. What was known by then is kept."""


class SurveyControl:
    """Pauses and cancels a survey, from any thread; the survey obeys at its next chunk."""

    def __init__(self) -> None:
        self._going = threading.Event()
        self._going.set()
        self._cancelled = threading.Event()

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
        self._going.wait()
        if self.cancelled:
            raise SurveyCancelled


def run_survey(
    model: Model,
    kept: KeptSurvey,
    workers: int = 1,
    control: SurveyControl | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[SurveyRow]:
    """Yield a row for each tensor, in the order of the model; what is known comes at once.

    Args:
        model: An open model.
        kept: What is known already; what gets known is added.
        workers: Threads, which share the work on one tensor.
        control: Pauses and cancels.
        progress: Called now and then with the weights walked over so far, of twice the model's.

    Raises:
        SurveyCancelled: Somebody cancelled it. Another run with what was kept goes on from there.
    """
    control = control or SurveyControl()
    before = 0
    for number, tensor in enumerate(model.tensors.rows):
        start = before

        def tell(done: int, start: int = start) -> None:
            if progress is not None:
                progress(start + done)

        control.check()
        known = kept.rows.get(number)
        if known is not None:
            row = SurveyRow(tensor, known)
        else:
            row = survey_row(tensor, workers, control.check, None if progress is None else tell)
            if row.statistics is not None:
                kept.add(number, row.statistics)
        yield row
        before += 2 * tensor.parameters
        tell(2 * tensor.parameters)
