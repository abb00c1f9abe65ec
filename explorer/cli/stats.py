"""`gguf-explorer stats`: exact statistics and a histogram of one tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import click

from explorer.analysis import Histogram, TensorStatistics, tensor_statistics
from explorer.analysis.histogram import FINE_BINS, MAX_BINS, Binning
from explorer.cli.options import (
    find_tensor,
    json_option,
    model_path,
    notes_on,
    path_argument,
    root_option,
    teller,
    tensor_argument,
    workers_option,
)
from explorer.cli.output import Progress, style, table, write, write_json
from explorer.formats import Tensor, open_model
from explorer.present.statistics import (
    moment_figures,
    percentile_figures,
    statistics_record,
    step_error_figures,
)
from explorer.text import float_text, integer_text, plain_text, shape_text

_BAR_LINES: Final = 16
_BAR_WIDTH: Final = 40


def _checked_range(
    context: click.Context, parameter: click.Parameter, value: tuple[float, float] | None
) -> tuple[float, float] | None:
    if value is not None and not (all(map(math.isfinite, value)) and value[0] <= value[1]):
        raise click.BadParameter("LOW must not be above HIGH, both finite", context, parameter)
    return value


@click.command("stats")
@path_argument
@tensor_argument
@click.option("--bins", type=click.IntRange(1, MAX_BINS), default=256, show_default=True)
@click.option(
    "limits",
    "--range",
    type=(float, float),
    default=None,
    metavar="LOW HIGH",
    callback=_checked_range,
    help="First and last edge of the histogram; default: least and greatest weight.",
)
@workers_option
@root_option
@json_option
def stats_command(  # noqa: PLR0913 - one for each option
    path: str,
    name: str,
    *,
    bins: int,
    limits: tuple[float, float] | None,
    workers: int,
    root: str | None,
    as_json: bool,
) -> int:
    """Show exact statistics of the tensor named TENSOR in the model at PATH.

    Every weight is decoded; nothing is sampled. NaN and infinities are counted apart.

    \b
    Examples:
      gguf-explorer stats model.gguf blk.0.attn_q.weight
      gguf-explorer stats model.gguf output.weight --bins 512 --range -0.1 0.1 --json
    """
    _refuse_narrow(limits, bins)
    with open_model(model_path(path, root)) as model:
        tensor = find_tensor(model, name)
        found = _statistics(tensor, bins, limits, workers)
        notes = notes_on(model, tensor)
    if as_json:
        histogram = found.histogram
        write_json(
            statistics_record(found)
            | {
                "histogram": {
                    "low": histogram.low,
                    "high": histogram.high,
                    "counts": histogram.counts.tolist(),
                },
                "notes": notes,
            }
        )
    else:
        write(_text(found, notes))
    return 0


def _refuse_narrow(limits: tuple[float, float] | None, bins: int) -> None:
    if limits is None:
        return
    try:
        Binning.of_range(*limits, bins)
    except ValueError as error:
        raise click.UsageError(f"--range: {error}") from error


def _statistics(
    tensor: Tensor, bins: int, limits: tuple[float, float] | None, workers: int
) -> TensorStatistics:
    with Progress(2 * tensor.parameters) as line:
        tell = teller(line, tensor.name)
        return tensor_statistics(tensor, bins, limits, workers, steps=tell)


def _text(found: TensorStatistics, notes: list[str]) -> str:
    title = f"{plain_text(found.tensor)}  {plain_text(found.type)}  {shape_text(found.shape)}"
    percentiles = [(one.label, one.text) for one in percentile_figures(found.percentiles)]
    low, high = float_text(found.histogram.low), float_text(found.histogram.high)
    bins = found.histogram.counts.size
    parts = [
        style(title, bold=True) + "\n",
        table(_facts(found)),
        _heading(f"Percentiles (from a histogram of {integer_text(FINE_BINS)} bins or more)"),
        table(percentiles),
        _heading(f"Histogram ({integer_text(bins)} bins from {low} to {high})"),
        table(_bars(found.histogram), right=(0, 1)),
    ]
    if bins > _BAR_LINES:
        parts.append(f"  {integer_text(-(-bins // _BAR_LINES))} bins to a line; --json has all\n")
    parts += [f"\nNote: {plain_text(note)}\n" for note in notes]
    return "".join(parts)


def _heading(text: str) -> str:
    return f"\n{style(text, bold=True)}\n"


def _facts(found: TensorStatistics) -> Iterator[tuple[str, str]]:
    for figure in moment_figures(found):
        yield figure.label, figure.text
    for figure in step_error_figures(found):
        yield figure.label, f"{figure.text} (from the block scales)"


def _bars(histogram: Histogram) -> Iterator[tuple[str, str, str]]:
    """Yield a line for a few bins each: where they begin, how many weights, a bar."""
    together = -(-histogram.counts.size // _BAR_LINES)
    starts = range(0, histogram.counts.size, together)
    counts = [int(histogram.counts[start : start + together].sum()) for start in starts]
    most = max(1, *counts)
    for start, count in zip(starts, counts, strict=True):
        bar = "#" * -(-_BAR_WIDTH * count // most)
        yield float_text(float(histogram.edges[start]), 4), integer_text(count), bar
