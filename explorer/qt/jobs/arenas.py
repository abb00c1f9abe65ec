"""Has threads share the memory that they free."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_ARENA_MAX: Final = -8  # `M_ARENA_MAX` of glibc's malloc.h
_ARENAS: Final = 2


def share_arenas() -> None:
    """Have all threads take memory from two arenas; before there are any. For glibc only.

    It gives each thread an arena of its own, up to eight for each core. What is free in one is of
    no use to other threads, and up to 32 MiB at its end never go back to the system. After some
    thousand actions in the window 130 MiB were free in ten arenas, where a single one had 20. Two
    make no thread wait: who asks for memory mostly holds the interpreter's lock.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(_ARENA_MAX, _ARENAS)
