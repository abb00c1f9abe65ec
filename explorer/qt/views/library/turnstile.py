"""Lets a worker of pure Python rest while the window is being drawn.

A view asks its model a thousand questions to paint itself, and each of them must get hold of the
interpreter, which a busy worker gives up only every 5 ms: a repaint of 10 ms was measured at 250.
Changing the interpreter's interval would change the whole program. So the GUI thread says when it
is at work, and the worker waits for it between two models.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MOST_SECONDS: Final = 0.2  # a window that is drawn all the time must not stop the work for good


class Turnstile:
    """One side says when it is at work, the other side waits meanwhile."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()
        self._depth = 0  # of the GUI thread alone

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Be at work; called in the GUI thread."""
        self._depth += 1
        self._free.clear()
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._free.set()

    def give_way(self) -> None:
        """Wait until the GUI thread is not at work; called in a worker."""
        if not self._free.is_set():
            self._free.wait(_MOST_SECONDS)
