"""How far a long command is: one line on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

from explorer.text import plain_text, shorten

_SECONDS_BETWEEN: Final = 0.1
_WIDTH: Final = 78


class Progress:
    """A line that is written over; a context manager, which clears it in the end.

    Args:
        total: How much there is to do, in any unit.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._written_at = 0.0
        self._on = sys.stderr is not None and sys.stderr.isatty()

    def add(self, count: int, what: str = "") -> None:
        """Count work that was done, and say what it is about."""
        self._done += count
        now = time.monotonic()
        if self._on and now - self._written_at >= _SECONDS_BETWEEN:
            self._written_at = now
            share = self._done / self._total if self._total else 1.0
            self._write(shorten(f"{min(share, 1.0):4.0%}  {plain_text(what)}", _WIDTH))

    def _write(self, line: str) -> None:
        sys.stderr.write(f"\r{line}\x1b[K")  # erases what is left of the line before
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._on and self._written_at:
            self._write("")
            sys.stderr.write("\r")
