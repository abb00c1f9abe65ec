"""Arguments that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from explorer.cli.output import Progress
from explorer.errors import ExplorerError, system_reason
from explorer.tabular import write_atomically
from explorer.text import PLAIN, ByteUnits, writing

if TYPE_CHECKING:  # `--version` needs no NumPy
    from explorer.formats import Model, Tensor

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


# The argument TENSOR, and what has to be said beside a tensor's figures.


def tensor_argument(function: _Command) -> _Command:
    """Add the argument TENSOR: a tensor's name."""
    return click.argument("name", metavar="TENSOR")(function)


def find_tensor(model: Model, name: str) -> Tensor:
    """Return the tensor of that name.

    Raises:
        ExplorerError: There is none.
    """
    if name in model.tensors:
        return model.tensors[name]
    similar = get_close_matches(name, model.tensors, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else "inspect --tensors lists them"
    raise ExplorerError(f"it has no tensor {name!r}; {hint}", model.path)


def notes_on(model: Model, tensor: Tensor) -> list[str]:
    """Return what a reader of the tensor's figures must know.

    Converters keep the second factor of NVFP4 weights in a tensor beside them, which ggml's decoder
    does not apply, nor does this program (docs/gguf.md, section 8).
    """
    factor = tensor.name.removesuffix(".weight") + ".scale"
    if tensor.type.name == "NVFP4" and tensor.grouped is None and factor in model.tensors:
        return [f"the factor in tensor {factor!r} is not applied to these weights"]
    return []


# What the commands share that walk over weights: threads, progress, files to write.


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
    from explorer.formats.export import refuse_to_overwrite_model  # noqa: PLC0415 - brings NumPy

    refuse_to_overwrite_model((file.path for file in model.files), target)


@contextmanager
def writing_atomically(target: Path) -> Iterator[TextIO]:
    """Open a file that appears under its name only when it is complete.

    Raises:
        ExplorerError: It cannot be written: the disk is full, the folder is missing …
    """
    try:
        with write_atomically(target) as stream:
            yield stream
    except OSError as error:
        raise ExplorerError(f"cannot be written: {system_reason(error)}", target) from error
