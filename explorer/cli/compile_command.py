"""`gguf-explorer compile-kernels`: what the window starts beside itself, and nobody types.

Compiling is a second of Python for each type, which in a thread of the window would take the
interpreter's lock from it again and again.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import deque
from typing import Final

import click

_LESS_PRIORITY: Final = 10  # of the Unix kind: the window and other programs go first
_GARBAGE: Final = 100_000  # the compiler makes many objects, of which few are garbage


@click.command("compile-kernels", hidden=True)
@click.argument("names", nargs=-1)
def compile_command(names: tuple[str, ...]) -> int:
    """Compile sets of kernels, such as tensor types, by NAMES and in that order, into the cache.

    A name on a line of standard input goes first. When standard input ends, so does the program.
    """
    from explorer.analysis.warming import warm_up  # noqa: PLC0415 - when it runs
    from explorer.quantization.kernel_cache import (  # noqa: PLC0415 - when it runs
        choose_kernel_cache,
        is_compiled,
        note_compiled,
    )
    from explorer.quantization.kernel_sets import has_kernels  # noqa: PLC0415 - when it runs

    if hasattr(os, "nice"):
        os.nice(_LESS_PRIORITY)
    choose_kernel_cache()
    waiting = deque(names)
    threading.Thread(target=_listen, args=(waiting,), daemon=True).start()
    gc.set_threshold(_GARBAGE)
    while waiting:
        name = waiting.popleft()
        if has_kernels(name) and not is_compiled(name):
            warm_up(name)
            note_compiled(name)
    return 0


def _listen(waiting: deque[str]) -> None:
    """Put types in front that are wanted at once; end with whoever started the program."""
    if sys.stdin is None:  # a frozen program without a console
        return
    for line in sys.stdin:
        waiting.appendleft(line.strip())
    os._exit(0)  # in the middle of a compilation too: Numba's files appear whole or not at all
