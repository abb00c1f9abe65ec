"""`gguf-explorer completion`: the script that a shell needs to complete our arguments."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

import click
from click.shell_completion import get_completion_class

from explorer.cli.output import write
from explorer.errors import ExplorerError

_VARIABLE: Final = "_GGUF_EXPLORER_COMPLETE"  # click makes this name from the program's


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> int:
    """Print the completion script for SHELL.

    \b
    Put it where the shell looks:
      gguf-explorer completion bash > ~/.local/share/bash-completion/completions/gguf-explorer
      gguf-explorer completion zsh > "${fpath[1]}/_gguf-explorer"
      gguf-explorer completion fish > ~/.config/fish/completions/gguf-explorer.fish
    """
    root = context.find_root()
    kind = get_completion_class(shell)
    assert kind is not None  # click has the three that the argument allows
    script = kind(root.command, {}, root.info_name or "", _VARIABLE)
    write(script.source_template % script.source_vars() + "\n")
    return 0


# `gguf-explorer compile-kernels`: what the window starts beside itself, and nobody types.
#
# Compiling is a second of Python for each type, which in a thread of the window would take the
# interpreter's lock from it again and again.


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


# Open the window, or say in one sentence why that cannot be.


_DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
_INSTALL = "install it with: pip install 'gguf-explorer[gui]'"


class WindowError(ExplorerError):
    """The window cannot be opened on this machine as it is."""


def open_window(paths: Sequence[str], *, fresh: bool) -> int:
    """Open the window on models and return its exit code.

    Args:
        paths: What to open; nothing opens the library.
        fresh: Start without the saved settings.

    Raises:
        WindowError: The Qt packages are missing or broken, or there is no screen.
    """
    missing = [name for name in ("PySide6", "pyqtgraph") if find_spec(name) is None]
    if missing:
        raise WindowError(
            f"the window needs {' and '.join(missing)}, which is not installed; {_INSTALL} "
            "(the commands work without; see --help)"
        )
    if sys.platform.startswith("linux") and not any(map(os.environ.get, _DISPLAY_VARIABLES)):
        raise WindowError(
            "there is no screen to open the window on (DISPLAY and WAYLAND_DISPLAY are not set); "
            "start it in a desktop session, or use a command: gguf-explorer inspect PATH"
        )
    try:
        from explorer.qt.app import run  # noqa: PLC0415 - Qt takes 300 ms, which no command needs
    except ImportError as error:
        if (error.name or "").startswith("explorer"):
            raise
        raise WindowError(f"Qt cannot be loaded: {error}; {_INSTALL}") from error
    return run(list(paths), fresh)
