"""`gguf-explorer completion`, and the one door from the command line to the window."""

from __future__ import annotations

import os
import sys
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
