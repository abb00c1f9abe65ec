"""What must not be written over: the files that a model is read from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from explorer.errors import ExplorerError


def refuse_own_file(files: Iterable[Path], target: Path) -> None:
    """Raise if a file to be written is one of a model's own, whatever it is called.

    Args:
        files: Files of the model.
        target: Where something is to be written; links count as what they lead to.

    Raises:
        ExplorerError: It is.
    """
    for file in files:
        try:
            same = target.samefile(file)
        except OSError:  # the usual case: there is no such file yet
            continue
        if same:
            raise ExplorerError("is a file of the model itself; choose another name", target)
