"""Undo and redo over values that are never changed, only replaced.

Not `QUndoStack`: its commands say how to do and undo a change, which a whole value makes needless,
and this one also runs where there is no Qt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Value = TypeVar("Value")

_MOST_STEPS: Final = 200
_ONE_STEP_S: Final = 1.0


class History(Generic[Value]):
    """A value and the ones before it.

    Changes of one kind in quick succession, or while `held`, are one step: a person who drags a
    slider through a hundred values takes them back at once.

    Attributes:
        value: The current one.
        held: Whether a drag is under way.
    """

    def __init__(self, value: Value, clock: Callable[[], float] = time.monotonic) -> None:
        self.value = value
        self.held = False
        self._clock = clock
        self._before: list[Value] = []
        self._after: list[Value] = []
        self._kind: str | None = None
        self._changed = 0.0

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to take back."""
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        """Whether a step was taken back."""
        return bool(self._after)

    def put(self, value: Value, kind: str) -> None:
        """Go on to another value.

        Args:
            value: The value.
            kind: What was changed; changes of another kind are another step.
        """
        now = self._clock()
        soon = self.held or now - self._changed < _ONE_STEP_S
        if kind != self._kind or not soon:
            self._before.append(self.value)
            del self._before[:-_MOST_STEPS]
        self._kind, self._changed = kind, now
        self._after.clear()
        self.value = value

    def amend(self, value: Value) -> None:
        """Replace the current value without a step: what a program found, not what one did."""
        self.value = value

    def end_step(self) -> None:
        """Let the next change be a step of its own."""
        self._kind = None

    def undo(self) -> None:
        """Take the last step back, if there is one."""
        self._move(self._before, self._after)

    def redo(self) -> None:
        """Take the last step that was taken back again."""
        self._move(self._after, self._before)

    def _move(self, source: list[Value], target: list[Value]) -> None:
        if source:
            target.append(self.value)
            self.value = source.pop()
            self.end_step()
