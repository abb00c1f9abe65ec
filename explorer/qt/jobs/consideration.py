"""Work in the background that makes very many objects, without holding up the GUI thread.

Loading Numba and compiling a kernel is a second of plain Python. Two things then stop the window:
the garbage collector, which walks over all of a million objects at once with the interpreter's lock
held (50 to 150 ms), and the 5 ms for which a thread may keep that lock each time the GUI thread
wants it back, many times in a single paint.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SWITCH_S: Final = 0.0005
_NEVER: Final = 1 << 30
_lock: Final = threading.Lock()
_before: list[tuple[float, tuple[int, int, int]]] = []  # for each user; the first is restored


@contextmanager
def consideration(*, lasting: bool) -> Iterator[None]:
    """Do something in a worker so that the GUI thread goes on meanwhile; several may at once.

    Args:
        lasting: Whether objects are made that stay, such as modules and machine code. The collector
            then leaves out all that there is, until `reconsider`.
    """
    with _lock:
        _before.append((sys.getswitchinterval(), gc.get_threshold()))
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)
        sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        with _lock:
            if lasting:
                gc.freeze()
            interval, threshold = _before[0]
            _before.pop()
            if not _before:
                sys.setswitchinterval(interval)
                gc.set_threshold(*threshold)


def reconsider() -> None:
    """Let the collector look at everything again: something large was closed."""
    gc.unfreeze()
