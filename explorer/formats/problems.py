"""A list of problems that a hostile file cannot make endless."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from explorer.formats.model import Problem, Severity

_MOST = 200

T = TypeVar("T", list[str], NDArray[np.int64])


@dataclass
class ProblemLog:
    """Collects problems; beyond the first 200 it only counts."""

    _problems: list[Problem] = field(default_factory=list)
    _left_out: int = 0

    def add(self, severity: Severity, where: str, what: str) -> None:
        """Note a problem."""
        if len(self._problems) < _MOST:
            self._problems.append(Problem(severity, where, what))
        else:
            self._left_out += 1

    def first(self, faults: T) -> T:
        """Return as many of the faults as there is room for; the others are only counted."""
        room = _MOST - len(self._problems)
        self._left_out += max(0, len(faults) - room)
        return faults[:room]

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems, and how many more there were."""
        if not self._left_out:
            return tuple(self._problems)
        more = Problem(Severity.ERROR, "", f"{self._left_out} more problems are not listed")
        return (*self._problems, more)
