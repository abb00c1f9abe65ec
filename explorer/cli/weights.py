"""`gguf-explorer stats`, `survey` and `export`: the weights of one tensor, or of all."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from explorer.analysis.columns import Source, StatisticsColumns, Summaries, model_summaries
from explorer.analysis.histogram import FINE_BINS, MAX_BINS, Binning, Histogram
from explorer.analysis.statistics import TensorStatistics, tensor_statistics
from explorer.analysis.survey_cache import CachedSurvey, SurveyCache
from explorer.analysis.surveys import SurveyRow, run_survey, telling_rows
from explorer.cli import options, output
from explorer.cli.folders import survey_folder
from explorer.errors import ExplorerError
from explorer.formats import Model, Tensor, open_model
from explorer.formats.export import npy_bytes, write_npy
from explorer.formats.weights import check_decodable
from explorer.model_files import refuse_model_file
from explorer.present.quantization import companions_record
from explorer.present.survey import summaries_record
from explorer.present.tables.lines import lines_of
from explorer.present.tables.statistics import PERCENTILES, PRINTED, STATISTICS, SURVEYED
from explorer.text import bytes_text, float_text, integer_text, plain_text, scale_writer, shape_text

_BAR_LINES: Final = 16
_BAR_WIDTH: Final = 40


def _checked_range(
    _context: click.Context, _parameter: click.Parameter, value: tuple[float, float] | None
) -> tuple[float, float] | None:
    if value is not None and not (all(map(math.isfinite, value)) and value[0] <= value[1]):
        raise click.BadParameter("LOW must not be above HIGH, both finite")
    return value


@click.command("stats")
@options.path_argument
@options.tensor_argument
@click.option("--bins", type=click.IntRange(1, MAX_BINS), default=256, show_default=True)
@click.option(
    "limits",
    "--range",
    type=(float, float),
    default=None,
    metavar="LOW HIGH",
    callback=_checked_range,
    help="First and last edge of the histogram. Default: minimum and maximum weight.",
)
@options.workers_option
@options.root_option
@options.json_option
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
    if limits is not None:
        try:
            Binning.of_range(*limits, bins)
        except ValueError as error:  # too narrow for so many bins
            raise click.UsageError(f"--range: {error}") from error
    with open_model(options.model_path(path, root)) as model:
        tensor = options.find_tensor(model, name)
        with output.Progress(2 * tensor.parameters) as line:
            steps = line.counter(tensor.name)
            found = tensor_statistics(tensor, bins, limits, workers, steps=steps)
        notes = options.notes_on(model, tensor)
    if as_json:
        histogram = found.histogram
        counts = histogram.counts.tolist()
        record = {"low": histogram.low, "high": histogram.high, "counts": counts}
        more = {"histogram": record, "notes": notes} | companions_record(tensor)
        output.write_json(_STATS.record(SurveyRow(tensor, found)) | more)
    else:
        output.write(_stats_text(found, notes))
    return 0


_STATS: Final = SURVEYED.without("problem")
_LISTED: Final = STATISTICS.without("not_finite", "inf", *PERCENTILES.names)


def _stats_text(found: TensorStatistics, notes: list[str]) -> str:
    title = f"{plain_text(found.tensor)}  {plain_text(found.type)}  {shape_text(found.shape)}"
    facts = [(line.title, line.text) for line in lines_of(_LISTED, found)]
    percentiles = [(line.title, line.text) for line in lines_of(PERCENTILES, found)]
    low, high = float_text(found.histogram.low), float_text(found.histogram.high)
    bins = found.histogram.counts.size
    fine = integer_text(FINE_BINS)
    parts = [
        output.style(title, bold=True) + "\n",
        output.table(facts),
        output.heading(f"Percentiles (from a histogram of {fine} bins or more)"),
        output.table(percentiles),
        output.heading(f"Histogram ({integer_text(bins)} bins from {low} to {high})"),
        output.table(_bars(found.histogram), right=(0, 1)),
    ]
    if bins > _BAR_LINES:
        parts.append(f"  {integer_text(-(-bins // _BAR_LINES))} bins to a line; --json has all\n")
    parts += [f"\nNote: {plain_text(note)}\n" for note in notes]
    return "".join(parts)


def _bars(histogram: Histogram) -> Iterator[tuple[str, str, str]]:
    """Yield a line for a few bins each: first edge, number of weights, a bar."""
    together = -(-histogram.counts.size // _BAR_LINES)
    starts = range(0, histogram.counts.size, together)
    edges = histogram.edges.tolist()
    write = scale_writer(edges[together] - edges[0], max(abs(edges[0]), abs(edges[-1])))
    counts = [int(histogram.counts[start : start + together].sum()) for start in starts]
    most = max(1, *counts)
    for start, count in zip(starts, counts, strict=True):
        bar = "#" * -(-_BAR_WIDTH * count // most)
        yield write(edges[start]), integer_text(count), bar


# survey

_LONGEST_NAME: Final = 64
_WITHOUT_WEIGHTS: Final = " without weights, or of a type that cannot be decoded"


@click.command("survey")
@options.path_argument
@options.table_files
@options.workers_option
@click.option(
    "--no-cache",
    is_flag=True,
    help="Read all weights, also those that an earlier survey has read. Keep nothing.",
)
@click.option("each", "--each", is_flag=True, help="PATH is a folder: a line for each model in it.")
@options.root_option
@options.fetch_option
@options.json_option
def survey_command(  # noqa: PLR0913 - options of the command line
    path: str,
    *,
    files: output.TableFiles,
    workers: int,
    no_cache: bool,
    each: bool,
    root: str | None,
    fetch: bool,
    as_json: bool,
) -> int:
    """Show exact statistics of every tensor of the model at PATH, each as it is done.

    Sums and means by role, by layer and of the model follow. Tensors of a type that cannot be
    decoded are listed without figures. The exit code is 1 if weights that should be there cannot be
    read.

    Results are kept in the user's cache folder, so that the second survey of a file that has not
    changed takes no time, and one that was interrupted goes on where it was.

    \b
    Examples:
      gguf-explorer survey model.gguf
      gguf-explorer survey model.gguf --csv model.csv
      gguf-explorer survey ~/models --each
      gguf-explorer survey model.gguf --json | jq '.tensors | max_by(.abs_max) | .tensor'
    """
    if each:
        return survey_folder(path, files, workers, as_json=as_json, cache=not no_cache)
    with open_model(options.model_path(path, root)) as model:
        files.check()
        options.agree_to_fetch([model], fetch)
        shown = as_json or not output.on_terminal()
        with (
            _cached(model, no_cache) as cached,
            output.Progress(2 * model.parameters, shown=shown) as line,
        ):
            all_of_them = as_json or files.wanted
            count = len(model.tensors.columns)
            numbers = range(count) if all_of_them else telling_rows(model)
            count_weights = line.counter("weights")
            rows = run_survey(model, cached, workers, progress=count_weights, rows=numbers)
            found = _Found(model, as_json=as_json, in_files=files.wanted)
            if not as_json:
                known = [SurveyRow(model.tensors.rows[number], None) for number in numbers]
                rows = output.print_rows(
                    PRINTED, known, rows, needed=files.wanted, longest=_LONGEST_NAME
                )
            found.take(zip(numbers, rows, strict=False))
        sums = found.sums()
    files.save(SURVEYED.names, found.lines)
    if as_json:
        record = summaries_record(sums, Source.STATISTICS)
        output.write_json({"path": path, "tensors": found.records, "sums": record})
    elif found.count == len(numbers):  # else the reader went away
        left_out = output.left_out_text(sums.total.tensors - found.count, _WITHOUT_WEIGHTS)
        output.write(left_out + output.sums_text(sums, Source.STATISTICS))
    return output.exit_code(found.damaged)


def _cached(model: Model, no_cache: bool) -> CachedSurvey:
    """Return the cached results of a model without histograms, which are not printed."""
    return CachedSurvey(None, model) if no_cache else SurveyCache().open(model, slim=True)


class _Found:
    """What a survey found, without its rows: a hostile file has 100,000, each an error."""

    def __init__(self, model: Model, *, as_json: bool, in_files: bool) -> None:
        self._model = model
        self._columns = StatisticsColumns(len(model.tensors.columns))
        self._as_json, self._in_files = as_json, in_files
        self.count = 0
        self.records: list[dict[str, Any]] = []
        self.lines: list[Sequence[Any]] = []
        self.damaged: ExplorerError | None = None  # the first of weights that should be there

    def take(self, rows: Iterable[tuple[int, SurveyRow]]) -> None:
        """Walk over the rows, each with its place in the model's table."""
        for place, row in rows:
            if row.statistics is not None:
                self._columns.put(place, row.statistics)
            if self._as_json:
                self.records.append(SURVEYED.record(row))
            if self._in_files:
                self.lines.append(SURVEYED.flat(row))
            self.damaged = self.damaged or row.damage
            self.count += 1

    def sums(self) -> Summaries:
        """Return sums and means by role, by layer and of the model, as far as they are known."""
        return model_summaries(self._model, self._columns, None)


# export


def _npy_path(_context: click.Context, _parameter: click.Parameter, value: Path) -> Path:
    if value.suffix.lower() != ".npy":
        raise click.BadParameter("the name must end with .npy")
    return value


@click.command("export")
@options.path_argument
@options.tensor_argument
@click.option(
    "target",
    "--to",
    type=click.Path(path_type=Path),
    required=True,
    callback=_npy_path,
    metavar="FILE.npy",
    help="The file to write. It appears when it is complete.",
)
@options.root_option
def export_command(path: str, name: str, target: Path, root: str | None) -> int:
    """Write the weights of TENSOR in the model at PATH to a file, as float32.

    \b
    Examples:
      gguf-explorer export model.gguf blk.0.attn_q.weight --to attn_q.npy
      python -c "import numpy; print(numpy.load('attn_q.npy', mmap_mode='r').shape)"
    """
    with open_model(options.model_path(path, root)) as model:
        tensor = options.find_tensor(model, name)
        check_decodable(tensor)
        refuse_model_file(target)
        _refuse_full_disk(tensor, target)
        with output.open_target(target) as stream, output.Progress(tensor.parameters) as line:
            write_npy(tensor, stream.buffer, progress=line.counter(tensor.name))
    output.write(f"{plain_text(str(target))}: {bytes_text(target.stat().st_size)}\n")
    return 0


def _refuse_full_disk(tensor: Tensor, target: Path) -> None:
    """Raise at once if the file will not fit, rather than after minutes."""
    try:
        free = shutil.disk_usage(target.absolute().parent).free
    except OSError:  # opening the target reports what is wrong with the folder
        return
    needed = npy_bytes(tensor)
    if needed > free:
        what = f"needs {bytes_text(needed)}, and {bytes_text(free)} are free on its disk"
        raise ExplorerError(what, target)
