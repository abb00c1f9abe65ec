"""What the commands share that walk over weights: threads, progress, files to write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from explorer.cli.progress import Progress
from explorer.errors import ExplorerError, system_reason
from explorer.formats import Model
from explorer.formats.export import refuse_own_file
from explorer.tabular import write_atomically

_Command = TypeVar("_Command", bound=Callable[..., Any])


def workers_option(function: _Command) -> _Command:
    """Add the option --workers; all cores if it is not given."""
    return click.option(
        "--workers",
        type=click.IntRange(1, 256),
        default=lambda: os.cpu_count() or 1,
        show_default="all cores",
        metavar="N",
        help="Threads that decode.",
    )(function)


def csv_option(function: _Command) -> _Command:
    """Add the option --csv: a file for the table that is printed."""
    return click.option(
        "csv_path",
        "--csv",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Also write the table to a file, as comma-separated values.",
    )(function)


def teller(line: Progress, what: str) -> Callable[[int], None] | None:
    """Return what notes on a progress line how much is done; None if nobody would see it."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    last = 0

    def tell(done: int) -> None:
        nonlocal last
        line.add(done - last, what)
        last = done

    return tell


def refuse_model_file(model: Model, target: Path) -> None:
    """Raise if a file to be written is one of the model's own, whatever it is called.

    Raises:
        ExplorerError: It is.
    """
    refuse_own_file((file.path for file in model.files), target)


@contextmanager
def writing(target: Path) -> Iterator[TextIO]:
    """Open a file that appears under its name only when it is complete.

    Raises:
        ExplorerError: It cannot be written: the disk is full, the folder is missing …
    """
    try:
        with write_atomically(target) as stream:
            yield stream
    except OSError as error:
        raise ExplorerError(f"cannot be written: {system_reason(error)}", target) from error
