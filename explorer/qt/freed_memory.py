"""What is freed goes back to the system; by default, Python and the C library keep much of it."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any, Final

_ARENA_MAX: Final = -8  # `M_ARENA_MAX` of glibc's malloc.h
_ARENAS: Final = 2


def _of_glibc(name: str) -> Any:
    """Return a function of glibc's; None where the C library is another."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


_mallopt: Final = _of_glibc("mallopt")
_malloc_trim: Final = _of_glibc("malloc_trim")


def share_arenas() -> None:
    """Let all threads share two arenas of glibc's malloc; call it before there are threads.

    By default a thread has its own arena, whose free memory no other thread can use: after some
    thousand actions in the window 130 MiB were free in ten arenas, and 20 in a single one.
    """
    if _mallopt is not None:
        _mallopt(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Give the system back what a model took, once it is freed; a few milliseconds.

    Ten models of 60,000 keys take 600 MiB. Python keeps a whole MiB of it while a single small
    object lies there, and three things leave some behind, or keep memory of their own:

    - PySide looks attributes up by a new text `value` or `__name__` each time, and Python keeps the
      names of the last 4,096 look-ups: 150 MiB.
    - Tuples, lists and dicts that were freed are kept for new ones, some thousand, until all that
      is held is looked through: 60 MiB. Nothing is looked through here, for all is frozen.
    - glibc keeps what lies below anything that is in use: 60 MiB.
    """
    gc.freeze()
    gc.collect()
    gc.unfreeze()  # the collector may look at what a model left in cycles
    forget_names = getattr(sys, "_clear_internal_caches", None)  # Python 3.13 and later
    (forget_names or sys._clear_type_cache)()
    if _malloc_trim is not None:
        _malloc_trim(0)
