"""Arguments and options that several commands share, and what they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from explorer.cli.output import TableFiles
from explorer.errors import ExplorerError
from explorer.sources.remote import is_address, parse_address
from explorer.sources.remote.addresses import offline
from explorer.text import PLAIN, ByteUnits, bytes_text, writing

if TYPE_CHECKING:  # `--version` needs no NumPy
    from explorer.formats import Model, Tensor

_Value = TypeVar("_Value")
Command = TypeVar("Command", bound=Callable[..., object])


def parsed_by(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return a function for `type` of click, in which errors of parsing are wrong usage."""

    def parsed(text: str) -> _Value:
        try:
            return parse(text)
        except ExplorerError as error:
            raise click.BadParameter(str(error)) from error

    return parsed


def not_empty(
    _context: click.Context, _parameter: click.Parameter, value: str | Sequence[str]
) -> str | Sequence[str]:
    """Refuse empty paths, which would name the current folder; a callback of click."""
    if not value or not all(value):
        raise click.BadParameter("it is empty")
    return value


def _in_plain_notation(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    """Keep the sentences in JSON the same for any --units."""
    if value:
        context.with_resource(writing(PLAIN))
    return value


def _switch_off(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.with_resource(offline())


_MUCH: Final = 64 << 20  # bytes that are fetched without a question

_PATH_OR_NAME: Final = click.Path()
PATH: Final = click.Path(path_type=Path)
"""A path of this machine, as a `Path`; no name of a model, and no address."""

offline_option = click.option(
    "--offline",
    is_flag=True,
    expose_value=False,
    callback=_switch_off,
    help="Read no address; GGUF_EXPLORER_OFFLINE=1 does the same.",
)


fetch_option = click.option(
    "--fetch", is_flag=True, help="Fetch all weights of an address without a question."
)


def path_argument(command: Command) -> Command:
    """Give a command its PATH, and the option that refuses addresses."""
    return click.argument("path", type=click.Path(), callback=not_empty)(offline_option(command))


tensor_argument = click.argument("name", metavar="TENSOR")
root_option = click.option(
    "--root",
    type=click.Path(),
    metavar="DIR",
    help="Look ollama:NAME up in this store, not in the user's.",
)
json_option = click.option(
    "as_json",
    "--json",
    is_flag=True,
    callback=_in_plain_notation,
    help="Print one JSON object, for programs.",
)
units_option = click.option(
    "--units",
    type=click.Choice([units.value for units in ByteUnits]),
    help="Show sizes in KiB, MiB, GiB (binary, the default) or in kB, MB, GB (decimal).",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=lambda: os.cpu_count() or 1,
    show_default="all cores",
    metavar="N",
    help="Threads that decode.",
)


def path_option(  # noqa: PLR0913 - all but the first two have a default
    flag: str,
    text: str,
    metavar: str = "FILE",
    *,
    name: str | None = None,
    kind: click.Path = _PATH_OR_NAME,
    multiple: bool = False,
) -> Callable[[Command], Command]:
    """Return the option of a model or another file.

    Args:
        flag: The option: ``--imatrix``.
        text: Its help.
        metavar: What it names: FILE, or PATH of what may be a folder, a name or an address.
        name: Its parameter, if that has another name.
        kind: What it is parsed to: text, or a `PATH`.
        multiple: Whether it may be given several times.
    """
    names = [flag] if name is None else [name, flag]
    return click.option(*names, type=kind, metavar=metavar, multiple=multiple, help=text)


_CSV: Final = "Also write the table to a file, as comma-separated values."
_PARQUET: Final = "The same as Apache Parquet, for data frames. Needs the extra `parquet`."


def table_files(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command `files`, those of --csv and --parquet."""

    @wraps(command)
    def with_files(*, csv_path: Path | None, parquet_path: Path | None, **given: Any) -> int:
        return command(files=TableFiles(csv_path, parquet_path), **given)

    parquet = path_option("--parquet", _PARQUET, name="parquet_path", kind=PATH)
    return path_option("--csv", _CSV, name="csv_path", kind=PATH)(parquet(with_files))


def model_path(path: str, root: str | None = None) -> Path:
    """Return the path to open: a path as it is, or a name's manifest.

    Args:
        path: A path, an address, or ``ollama:NAME[:TAG]``.
        root: The Ollama store to look into; None for those of this machine.

    Raises:
        ExplorerError: The name is not valid, or no store has it.
    """
    from explorer.formats.ollama.manifest import is_name  # noqa: PLC0415 - not for --version

    if is_name(path):
        from explorer.stores.entries import this_machine_ollama  # noqa: PLC0415 - few need them
        from explorer.stores.library import resolve  # noqa: PLC0415 - as above

        return resolve(path, this_machine_ollama() if root is None else [Path(root)])
    if root is not None:
        raise click.UsageError("--root belongs to a name of a model, such as ollama:llama3")
    return parse_address(path) if is_address(path) else Path(path)


def open_given(
    stack: ExitStack, path: str | None, open_file: Callable[[Path], Model]
) -> Model | None:
    """Open the model or the matrix of an option for a stack to close; None where none is given."""
    return None if path is None else stack.enter_context(open_file(model_path(path)))


def agree_to_fetch(models: Sequence[Model | None], agreed: bool) -> None:
    """Ask before all weights of a model on the web are fetched; weights of this machine are free.

    Raises:
        ExplorerError: It takes more than `_MUCH` bytes, and there is no terminal to ask at.
    """
    remote = [model for model in models if model is not None and is_address(model.path)]
    nbytes = sum(model.nbytes for model in remote)
    if agreed or nbytes <= _MUCH:
        return
    what = f"reads all weights, which fetches {bytes_text(nbytes)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ExplorerError(f"{what}. Add --fetch to do so", remote[0].path)
    if not click.confirm(f"This {what}. Go on?", err=True):
        raise click.Abort


def find_tensor(model: Model, name: str) -> Tensor:
    """Return the tensor of that name.

    Raises:
        ExplorerError: There is none.
    """
    if name in model.tensors:
        return model.tensors[name]
    similar = get_close_matches(name, model.tensors, n=1)
    hint = f"Did you mean {similar[0]!r}?" if similar else "`inspect --tensors` lists them"
    raise ExplorerError(f"it has no tensor {name!r}. {hint}", model.path)


def notes_on(model: Model, tensor: Tensor) -> list[str]:
    """Return notes on a tensor's figures.

    Converters keep the second factor of NVFP4 weights in a tensor beside them, which neither ggml's
    decoder nor this program applies (docs/gguf.md, section 8).
    """
    factor = tensor.name.removesuffix(".weight") + ".scale"
    if tensor.type.name == "NVFP4" and factor in model.tensors:
        return [f"the factor in tensor {factor!r} is not applied to these weights"]
    return []
