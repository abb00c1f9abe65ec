"""Arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from explorer.text import PLAIN, ByteUnits, writing

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value:  # would name the current folder
        raise click.BadParameter("it is empty", context, parameter)
    return value


def path_argument(function: _Command) -> _Command:
    """Add the argument PATH: a model. Whether it is there is found out by opening it."""
    return click.argument("path", type=click.Path(), callback=_not_empty)(function)


def root_option(function: _Command) -> _Command:
    """Add the option --root: the Ollama store in which a name is looked up."""
    return click.option(
        "--root",
        type=click.Path(),
        metavar="DIR",
        help="Look ollama:NAME up in this store, not in the user's.",
    )(function)


def json_option(function: _Command) -> _Command:
    """Add the option --json."""
    return click.option(
        "as_json",
        "--json",
        is_flag=True,
        callback=_same_everywhere,
        help="Print one JSON object, for programs.",
    )(function)


def _same_everywhere(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    """Have the sentences in JSON say the same whatever --units asks for."""
    if value:
        context.with_resource(writing(PLAIN))
    return value


def units_option(function: _Command) -> _Command:
    """Add the option --units to the program itself."""
    return click.option(
        "--units",
        type=click.Choice([units.value for units in ByteUnits]),
        help="Tell sizes in KiB, MiB, GiB (binary, as by default) or in kB, MB, GB (decimal).",
    )(function)


def model_path(path: str, root: str | None = None) -> Path:
    """Return what to open for an argument: a path as it is, a name's manifest.

    Args:
        path: A path, or ``ollama:NAME[:TAG]``.
        root: The Ollama store to look into; None for those of this machine.

    Raises:
        ExplorerError: The name is not valid, or no store has it.
    """
    from explorer.formats.ollama.manifest import (  # noqa: PLC0415 - --version needs no formats
        is_name,
    )
    from explorer.stores.entries import this_machine_ollama  # noqa: PLC0415 - as above
    from explorer.stores.library import resolve  # noqa: PLC0415 - as above

    if is_name(path):
        return resolve(path, this_machine_ollama() if root is None else [Path(root)])
    if root is not None:
        raise click.UsageError("--root belongs to a name of a model, such as ollama:llama3")
    return Path(path)
