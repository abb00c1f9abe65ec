"""What a what-if does in a worker: a walk over the weights for each type, one type at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from explorer.analysis.surveys import SurveyControl
from explorer.analysis.what_if import (
    PRESENT,
    RunningTotal,
    SetErrors,
    Task,
    TypeErrors,
    measure_set,
)
from explorer.errors import ExplorerError
from explorer.formats.weights import Values
from explorer.qt.jobs import Job, all_cores, drop_frames
from explorer.qt.what_if.estimate import WhatIfCache, WhatIfEstimate, piece_name
from explorer.quantization.registry import uses_importance

_MOST_WORKERS: Final = 8  # each holds about 6 MiB


@dataclass(frozen=True, slots=True)
class WhatIfState:
    """What is known by now.

    Attributes:
        errors: By type, and for `PRESENT`.
        done: Work done.
        total: What that will be.
        type_name: The type that is being measured; None before the first and behind the last.
        failures: Tensors that cannot be read, by name, with the reason.
    """

    errors: Mapping[str, TypeErrors]
    done: int
    total: int
    type_name: str | None
    failures: Sequence[tuple[str, ExplorerError]] = ()


class WhatIfWork:
    """Measures what an estimate does not know; made on the GUI thread, runs in a worker.

    Attributes:
        control: Pauses it.
    """

    def __init__(self, estimate: WhatIfEstimate, cache: WhatIfCache) -> None:
        self.control = SurveyControl()
        self._estimate = estimate
        self._request = estimate.request
        self._cache = cache
        self._errors: dict[str, TypeErrors] = {}
        self._failures: dict[tuple[object, ...], tuple[str, ExplorerError]] = {}
        self._total = 0
        self._done = 0

    def run(self, job: Job) -> WhatIfState:
        """Do it; in a worker.

        Raises:
            ExplorerError: The only tensor cannot be read.
        """
        self.control.obey(job.check)
        # what is known is shown first: a type that takes minutes must not hide the others
        self._errors = self._estimate.known(self._cache)
        self._total = sum(task.cost for task in self._estimate.missing(self._cache))
        for name, tasks in self._estimate.tasks.items():
            if self._estimate.total(name, self._cache) is None:
                self._measure_type(name, tasks, job)
        return self._state(None, self._done)

    def _measure_type(self, name: str, tasks: Sequence[Task], job: Job) -> None:
        total = RunningTotal(self._estimate.parameters)
        for task in tasks:
            errors = self._task(name, task, total, job)
            if errors is None:
                total.leave_out(task.tensor_set)
            else:
                total.add(task.tensor_set, errors)
        whole = total.errors()
        self._errors = {**self._errors, name: whole}
        if not self._failures:
            self._cache.totals.put(self._request.total_key(name), whole)

    def _task(self, name: str, task: Task, total: RunningTotal, job: Job) -> SetErrors | None:
        """Measure a piece unless it is known; None if it cannot be read."""
        if task.tensor_set.key in self._failures:
            return None
        key = self._request.key(task)
        found = self._cache.pieces.get(key)
        if isinstance(found, SetErrors):
            return found
        rate = task.cost / max(1, task.tensor_set.parameters)

        def tell(done: int) -> None:
            def state() -> WhatIfState:
                self._errors = {**self._errors, name: total.errors()}
                return self._state(name, self._done + round(done * rate))

            job.publish(state)

        try:
            found = measure_set(
                task.tensor_set,
                task.type_name,
                self._importance(task) if task.type_name != PRESENT else None,
                min(_MOST_WORKERS, all_cores()),
                check=self.control.check,
                progress=tell,
            )
        except ExplorerError as error:
            if len(self._estimate.pieces) == 1:
                raise
            called = piece_name(self._request.document, task.tensor_set)
            drop_frames(error)
            self._failures[task.tensor_set.key] = (called, error)
            found = None
        else:
            self._cache.pieces.put(key, found)
        self._done += task.cost
        return found

    def _importance(self, task: Task) -> Values | None:
        matrix = self._request.matrix
        if matrix is None or not uses_importance(task.type_name):
            return None
        return matrix.importance(
            task.tensor_set, piece_name(self._request.document, task.tensor_set)
        )

    def _state(self, name: str | None, done: int) -> WhatIfState:
        return WhatIfState(self._errors, done, self._total, name, tuple(self._failures.values()))
