"""`gguf-explorer completion`: the script that a shell needs to complete our arguments."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from explorer.cli.output import write

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
