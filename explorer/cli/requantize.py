"""`gguf-explorer requantize`: what a tensor would lose in other types, and its size there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from numpy.typing import NDArray

from explorer.analysis.requantization import Requantized, requantize
from explorer.analysis.rounding import rounder, rounding_types
from explorer.analysis.what_if import importance_of, is_importance_matrix
from explorer.cli.options import (
    csv_option,
    find_tensor,
    json_option,
    model_path,
    notes_on,
    path_argument,
    refuse_model_file,
    root_option,
    teller,
    tensor_argument,
    workers_option,
)
from explorer.cli.options import (
    writing_atomically as writing,
)
from explorer.cli.output import Progress, line_width, on_terminal, style, write, write_json
from explorer.errors import ExplorerError
from explorer.formats import Tensor, open_model
from explorer.present.errors import (
    ABOUT_ERRORS,
    SHOWN_FIGURES,
    error_label,
    error_text,
    errors_record,
)
from explorer.tabular import Cell, write_csv
from explorer.text import bytes_text, float_text, integer_text, plain_text, shape_text

_ALL: Final = "all"


def _checked_types(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> list[str]:
    words = [word.strip() for words in value for word in words.split(",")]
    names = [name for word in words for name in (rounding_types() if word == _ALL else (word,))]
    for name in names:
        try:
            rounder(name)
        except ExplorerError as error:
            raise click.BadParameter(error.what, context, parameter) from error
    return list(dict.fromkeys(names))


@click.command("requantize")
@path_argument
@tensor_argument
@click.option(
    "types",
    "--to",
    multiple=True,
    required=True,
    metavar="TYPE[,TYPE…]",
    callback=_checked_types,
    help="Types to round to: GGUF's (Q4_K) or Ollama's and MLX's (int4, int4/32, mxfp8); or all.",
)
@click.option(
    "matrix_path",
    "--imatrix",
    type=click.Path(),
    metavar="FILE",
    help="Weigh errors by an importance matrix of llama.cpp, in GGUF.",
)
@csv_option
@workers_option
@root_option
@json_option
def requantize_command(  # noqa: PLR0913 - one for each argument and option
    path: str,
    name: str,
    *,
    types: list[str],
    matrix_path: str | None,
    csv_path: Path | None,
    workers: int,
    root: str | None,
    as_json: bool,
) -> int:
    """Show what the tensor named TENSOR of the model at PATH would lose in other types.

    It is rounded in memory; no file is written. Errors are those against the tensor as it is: for
    one that is quantized already, they come on top of what it has lost before.

    Weight error ranks types of one tensor. It does not by itself predict the quality of a model's
    answers.

    \b
    Examples:
      gguf-explorer requantize model-bf16.gguf blk.0.ffn_down.weight --to Q4_K,Q5_K,IQ4_XS
      gguf-explorer requantize Llama-3-8B/ lm_head.weight --to all --json
    """
    with open_model(model_path(path, root)) as model:
        if csv_path is not None:
            refuse_model_file(model, csv_path)
        tensor = find_tensor(model, name)
        notes = notes_on(model, tensor)
        importance = None if matrix_path is None else _importance(matrix_path, name)
        with Progress(len(types) * tensor.parameters) as line:
            # On a terminal the rows themselves show how far it is.
            tell = teller(line, tensor.name) if as_json or not on_terminal() else None
            rows = requantize(tensor, types, importance, workers, progress=tell)
            needed = csv_path is not None
            found = list(rows if as_json else _printed(tensor, rows, needed=needed))
    records = [_record(row) for row in found]
    if csv_path is not None:
        with writing(csv_path) as stream:
            write_csv(stream, _COLUMNS, map(_cells, records))
    if as_json:
        write_json(
            {
                "path": path,
                "tensor": tensor.name,
                "type": tensor.type.name,
                "shape": list(tensor.shape),
                "count": tensor.parameters,
                "bytes": tensor.nbytes,
                "bits_per_weight": tensor.bits_per_weight,
                "results": records,
                "notes": [*notes, ABOUT_ERRORS],
            }
        )
    else:
        lines = [f"Note: {plain_text(note)}" for note in notes]
        lines.append(click.wrap_text(ABOUT_ERRORS, min(100, line_width())))
        write("\n" + "\n".join(lines) + "\n")
    return 0


def _importance(path: str, name: str) -> NDArray[np.float32]:
    with open_model(Path(path)) as matrix:
        if not is_importance_matrix(matrix):
            raise ExplorerError("is no importance matrix in GGUF", matrix.path)
        found = importance_of(matrix, name)
    if found is None:
        raise ExplorerError(f"the importance matrix has no tensor {name!r}", path)
    return found


def _record(row: Requantized) -> dict[str, Any]:
    """Return a result as the JSON object has it."""
    return {
        "type": row.type,
        "bytes": row.nbytes,
        "bits_per_weight": row.bits_per_weight,
        **errors_record(row.errors),
        "saturated_codes": row.saturated_codes,
        "problem": row.problem,
    }


_EMPTY: Final = _record(Requantized("", None, None, None))
_COLUMNS: Final = [name for name in _EMPTY if name != "percentiles"]


def _cells(record: dict[str, Any]) -> list[Cell]:
    return [record[name] for name in _COLUMNS]


def _printed(tensor: Tensor, rows: Iterable[Requantized], *, needed: bool) -> Iterator[Requantized]:
    """Print each type when it is done.

    Ends when nobody reads any more (`| head`), unless the rows are `needed` for something else.
    """
    kind, shape = plain_text(tensor.type.name), shape_text(tensor.shape)
    size = f"{bytes_text(tensor.nbytes)}, {float_text(tensor.bits_per_weight, 5)} bits per weight"
    title = f"{plain_text(tensor.name)}  {kind}  {shape}"
    heads = ("bytes", "bits/weight", *map(error_label, SHOWN_FIGURES))
    write(f"{style(title, bold=True)}\n  {size}\n\n{_line('type', heads)}")
    for row in rows:
        if row.errors is None or row.nbytes is None or row.bits_per_weight is None:
            line = f"  {row.type:<10}  {plain_text(row.problem or '')}\n"
        else:
            figures = (error_text(name, getattr(row.errors, name)) for name in SHOWN_FIGURES)
            bits = float_text(row.bits_per_weight, 6)
            line = _line(row.type, (integer_text(row.nbytes), bits, *figures))
        if not write(line) and not needed:
            return
        yield row


def _line(name: str, cells: Iterable[str]) -> str:
    return f"  {name:<10}" + "".join(f"  {cell:>13}" for cell in cells) + "\n"
