"""`gguf-explorer survey`: statistics of every tensor of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from explorer.analysis import SurveyRow
from explorer.analysis.moments import PERCENTS
from explorer.analysis.survey_cache import KeptSurvey, SurveyCache
from explorer.analysis.surveys import run_survey
from explorer.cli.options import (
    csv_option,
    json_option,
    model_path,
    path_argument,
    refuse_model_file,
    root_option,
    teller,
    workers_option,
)
from explorer.cli.options import (
    writing_atomically as writing,
)
from explorer.cli.output import (
    Progress,
    Subject,
    TensorLines,
    on_terminal,
    printed,
    write,
    write_error,
    write_json,
)
from explorer.formats import Model, Tensor, open_model
from explorer.present.statistics import statistic_figures, statistic_label, statistics_record
from explorer.quantization.registry import has_decoder
from explorer.tabular import Cell, write_csv
from explorer.text import integer_text

_LONGEST_NAME: Final = 64
_FIGURES: Final = (
    "min",
    "max",
    "mean",
    "std",
    "rms",
    "outlier_ratio",
    "kurtosis",
    "step_error_rms",
)


@click.command("survey")
@path_argument
@csv_option
@workers_option
@click.option(
    "--no-cache",
    is_flag=True,
    help="Read all weights, also those that an earlier survey has read; keep nothing.",
)
@root_option
@json_option
def survey_command(  # noqa: PLR0913, PLR0917 - options of the command line
    path: str,
    csv_path: Path | None,
    workers: int,
    no_cache: bool,
    root: str | None,
    as_json: bool,
) -> int:
    """Show exact statistics of every tensor of the model at PATH, each as it is done.

    Tensors of a type that cannot be decoded are listed without figures. The exit code is 1 if
    weights that should be there cannot be read.

    What is found is kept in the user's cache folder, so that the second survey of a file that has
    not changed takes no time, and one that was interrupted goes on where it was.

    \b
    Examples:
      gguf-explorer survey model.gguf
      gguf-explorer survey model.gguf --csv model.csv
      gguf-explorer survey model.gguf --json | jq '.tensors | max_by(.abs_max) | .tensor'
    """
    with open_model(model_path(path, root)) as model:
        if csv_path is not None:
            refuse_model_file(model, csv_path)
        with _kept(model, no_cache) as kept, Progress(2 * model.parameters) as line:
            # On a terminal the rows themselves show how far it is.
            tell = teller(line, "weights") if as_json or not on_terminal() else None
            rows = run_survey(model, kept, workers, progress=tell)
            found = list(rows if as_json else _printed(model, rows, needed=csv_path is not None))
    records = [_record(row) for row in found]
    if csv_path is not None:
        with writing(csv_path) as stream:
            write_csv(stream, list(_flat(_without_figures())), map(_cells, records))
    if as_json:
        write_json({"path": path, "tensors": records})
    damaged = [row.error for row in found if row.error is not None and _should_be_there(row)]
    if damaged:
        write_error(str(damaged[0]))
    return 1 if damaged else 0


def _kept(model: Model, no_cache: bool) -> KeptSurvey:
    """Return what is known of a model, without histograms: nobody prints them."""
    cache = None if no_cache else SurveyCache.of_user()
    return KeptSurvey(None, model) if cache is None else cache.open(model, slim=True)


def _should_be_there(row: SurveyRow) -> bool:
    """Tell whether a tensor without figures is damaged; a type may just be unknown."""
    return row.tensor.grouped is not None or has_decoder(row.tensor.type.name)


def _record(row: SurveyRow) -> dict[str, Any]:
    """Return a row of the JSON object; without statistics all figures are null."""
    problem = None if row.error is None else row.error.what
    if row.statistics is not None:
        return statistics_record(row.statistics) | {"problem": problem}
    tensor = row.tensor
    return _without_figures() | {
        "tensor": tensor.name,
        "type": tensor.type.name,
        "shape": list(tensor.shape),
        "count": tensor.parameters,
        "problem": problem,
    }


def _without_figures() -> dict[str, Any]:
    """Return a row in which nothing is known."""
    head = ("tensor", "type", "shape", "count", "finite", "nan", "inf", "zeros", "min", "max")
    figures = ("mean", "std", "rms", "abs_max", "skewness", "kurtosis")
    return {
        **dict.fromkeys((*head, *figures)),
        "percentiles": {f"{percent:g}": None for percent in PERCENTS},
        "step_error_rms": None,
        "problem": None,
    }


def _flat(record: dict[str, Any]) -> dict[str, Cell]:
    """Return a record with a column for each percentile and the shape as text."""
    flat: dict[str, Cell] = {}
    for key, value in record.items():
        if key == "percentiles":
            flat |= {f"percentile_{percent}": number for percent, number in value.items()}
        else:
            flat[key] = "x".join(map(str, value)) if isinstance(value, list) else value
    return flat


def _cells(record: dict[str, Any]) -> list[Cell]:
    return list(_flat(record).values())


def _printed(model: Model, rows: Iterable[SurveyRow], *, needed: bool) -> Iterator[SurveyRow]:
    """Print each row when it comes; see `tensor_lines.printed`."""
    titles = (statistic_label("zeros"), "Not finite", *map(statistic_label, _FIGURES))
    lines = TensorLines("tensor", titles, map(_subject, model.tensors.rows), _LONGEST_NAME)

    def line_of(row: SurveyRow) -> str:
        found = row.statistics
        if found is None:
            return lines.problem_line(_subject(row.tensor), row.error)
        texts = {figure.name: figure.text for figure in statistic_figures(found)}
        numbers = [texts["zeros"], integer_text(found.nan + found.inf)]
        numbers += [texts.get(name, "") for name in _FIGURES]
        return lines.line(_subject(row.tensor), numbers)

    write(lines.head)
    yield from printed(rows, line_of, needed=needed)


def _subject(tensor: Tensor) -> Subject:
    return tensor.name, tensor.type.name, tensor.shape
