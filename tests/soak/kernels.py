"""Which kernels there are before a soak, and which the window compiled all the same.

A kernel that Numba compiles leaves 4 to 9 MiB in the process for good, one that it loads from disk
0.4 to 1 MiB. So all are compiled before, as the window has it done, by a program of its own: what
is held then does not hang on whether somebody has used the program before. What the window's
process compiles after that is a kernel that its page did not ask for; see
`explorer.qt.kernel_compiler`.
"""

from __future__ import annotations

import gc
import subprocess

from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from explorer.analysis.rounding import rounding_types
from explorer.qt.kernel_compiler import compile_command
from explorer.quantization.grouped import AFFINE_BITS, FIXED_SIZES, Mode, quantization_name
from explorer.quantization.kernel_sets import GENERAL, exact, has_kernels, later, rounding_to
from explorer.quantization.types import TENSOR_TYPES


def kernel_set_names() -> list[str]:
    """Return the names of all sets of kernels."""
    grouped = [quantization_name(Mode.AFFINE, bits) for bits in AFFINE_BITS]
    grouped += [quantization_name(mode, sizes[0]) for mode, sizes in FIXED_SIZES.items()]
    names = [name for name in (GENERAL, *TENSOR_TYPES, *grouped) if has_kernels(name)]
    rounded = (*rounding_types(), *grouped)
    roundings = dict.fromkeys(
        rounding_to(name, weighed=weighed) for name in rounded for weighed in (False, True)
    )
    return [*names, *map(exact, names), *map(later, names), *filter(has_kernels, roundings)]


def compile_all_kernels() -> None:
    """Have all kernels compiled that are not in the cache yet: 40 s, or a second.

    Raises:
        subprocess.CalledProcessError: The program that compiles failed.
    """
    program, arguments = compile_command()
    command = [program, *arguments, *kernel_set_names()]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:  # it ends with its input
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, command)


def compiled_here() -> list[str]:
    """Return the kernels that this process has compiled and not loaded, with argument types."""
    dispatchers = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return sorted(
        f"{one.py_func.__module__}.{one.py_func.__name__}{signature}"
        for one in dispatchers
        if isinstance(one._cache, FunctionCache)
        for signature in one.stats.cache_misses
    )
