"""Arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value:  # would name the current folder
        raise click.BadParameter("it is empty", context, parameter)
    return value


def path_argument(function: _Command) -> _Command:
    """Add the argument PATH: a model. Whether it is there is found out by opening it."""
    return click.argument("path", type=click.Path(), callback=_not_empty)(function)


def json_option(function: _Command) -> _Command:
    """Add the option --json."""
    return click.option(
        "as_json", "--json", is_flag=True, help="Print one JSON object, for programs."
    )(function)
