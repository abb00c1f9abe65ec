"""Which kernels there are before a soak, and which the window compiled all the same.

A kernel that Numba compiles leaves 4 to 9 MiB in the process for good, one that it loads from disk
0.4 to 1 MiB. So all are compiled before, as the window has it done, by a program of its own: what
is held then does not hang on whether somebody has used the program before. What the window's
process compiles after that is a kernel that `explorer.cli.compile` forgot.
"""

from __future__ import annotations

import gc
import subprocess
import sys

from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher


def compile_all_kernels() -> None:
    """Have all kernels compiled that are not in the cache yet: a minute, or a second.

    Raises:
        subprocess.CalledProcessError: The program that compiles failed.
    """
    subprocess.run([sys.executable, "-m", "explorer", "compile-kernels"], check=True)


def compiled_here() -> list[str]:
    """Return the kernels that this process has compiled and not loaded, with argument types."""
    dispatchers = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return sorted(
        f"{one.py_func.__module__}.{one.py_func.__name__}{signature}"
        for one in dispatchers
        if isinstance(one._cache, FunctionCache)
        for signature in one.stats.cache_misses
    )
