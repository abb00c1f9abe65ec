"""All models of a folder in one go: `survey --each`, `compare FOLDER`, `recipes --each`.

There is one progress for all and one table. What was read is kept tensor by tensor, so that a
command that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from explorer.analysis.columns import Source, StatisticsColumns, model_summaries
from explorer.analysis.errors.compare import Comparison, unread
from explorer.analysis.errors.models import comparison_of, measured
from explorer.analysis.errors.pairs import WeightsPair
from explorer.analysis.survey_cache import CachedSurvey, SurveyCache
from explorer.analysis.surveys import run_survey
from explorer.analysis.what_if import pareto_front
from explorer.cli import options, output
from explorer.errors import ExplorerError
from explorer.formats import Model, open_model
from explorer.formats.attachments import open_matrix
from explorer.formats.facts import describe
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.model import kind_of
from explorer.present.survey import ABOUT_SUMS
from explorer.present.tables.errors import WEIGHTED
from explorer.present.tables.survey import FolderRow, folder_table
from explorer.stores.entries import Entry, Place, StoreKind
from explorer.stores.library import read_stores

Work = TypeVar("Work")
_Found = tuple[Mapping[str, float], ExplorerError | None]  # figures, and what could not be read


def models_in(folder: Path) -> list[Entry]:
    """Return the models of a folder.

    Raises:
        ExplorerError: It is no folder, or holds none.
    """
    if not folder.is_dir():
        raise ExplorerError("is not a folder", folder)
    stores = read_stores([Place(StoreKind.FOLDER, folder)])
    entries = [entry for store in stores for entry in store.entries]
    if not entries:
        raise ExplorerError("holds no models", folder)
    return entries


def compare_folder(  # noqa: PLR0913 - the options of the command
    folder: str,
    original_path: str,
    matrix_path: str | None,
    files: output.TableFiles,
    workers: int,
    *,
    fetch: bool,
    as_json: bool,
) -> int:
    """Compare each model of a folder with the model that they were made of."""
    with ExitStack() as stack:
        original = stack.enter_context(open_model(options.model_path(original_path)))
        options.agree_to_fetch([original], fetch)
        matrix = options.open_given(stack, matrix_path, open_matrix)
        left: list[WeightsPair] = []

        def prepare(model: Model) -> tuple[int, tuple[Model, Comparison]]:
            comparison = comparison_of(original, model, matrix)
            left.extend(comparison.left())  # a matrix of another model is this one's problem
            return comparison.parameters, (model, comparison)

        def read(
            works: Sequence[tuple[Model, Comparison]], line: output.Progress
        ) -> Iterable[_Found]:
            output.write_to_read(*unread(left), workers)
            return measured(works, workers, progress=line.counter("weights"))

        own = {file.path.absolute() for file in original.files}
        entries = [one for one in models_in(Path(folder)) if one.path.absolute() not in own]
        more = () if matrix is None else WEIGHTED.names
        about = {"folder": folder, "original": original_path, "imatrix": matrix_path}
        how = _How(Source.ERRORS, more, about, ABOUT_ERRORS, files, as_json)
        return _show(stack, entries, prepare, read, how)


def survey_folder(
    folder: str, files: output.TableFiles, workers: int, *, as_json: bool, cache: bool
) -> int:
    """Show the statistics of each model of a folder."""

    def prepare(model: Model) -> tuple[int, Model]:
        return 2 * model.parameters, model

    def read(models: Sequence[Model], line: output.Progress) -> Iterator[_Found]:
        for model in models:
            yield _statistics(model, workers, line.counter(model.path.name), cache=cache)

    with ExitStack() as stack:
        entries, about = models_in(Path(folder)), {"folder": folder}
        how = _How(Source.STATISTICS, (), about, ABOUT_SUMS, files, as_json)
        return _show(stack, entries, prepare, read, how)


def _statistics(
    model: Model, workers: int, report: Callable[[int], object], *, cache: bool
) -> _Found:
    columns, damage = StatisticsColumns(len(model.tensors.columns)), None
    kept = SurveyCache() if cache else None
    with CachedSurvey(kept, model, slim=True) as cached:
        found = run_survey(model, cached, workers, progress=report)
        for number, row in enumerate(found):
            damage = damage or row.damage
            if row.statistics is not None:
                columns.put(number, row.statistics)
    return dict(model_summaries(model, columns, None).matrices.figures), damage


class _How(NamedTuple):
    """How the table of a folder is shown."""

    source: Source
    more: Sequence[str]  # names of further metrics
    about: Mapping[str, str | None]  # what JSON says first
    note: str
    files: output.TableFiles
    as_json: bool


def _show(
    stack: ExitStack,
    entries: Sequence[Entry],
    prepare: Callable[[Model], tuple[int, Work]],
    read: Callable[[Sequence[Work], output.Progress], Iterable[_Found]],
    how: _How,
) -> int:
    """Read all models with one progress, and show one table; what cannot be read has a problem.

    Args:
        prepare: Returns how many weights there are to read of a model, and what `read` needs.
        read: Returns what is known then of each.
    """
    how.files.check()
    rows, works = opened(stack, entries, prepare)
    with output.Progress(sum(weights for weights, _ in works.values())) as line:
        found = read([work for _, work in works.values()], line)
        for place, (figures, damage) in zip(works, found, strict=True):
            problem = None if damage is None else damage.what
            rows[place] = replace(rows[place], figures=figures, problem=problem)
    if how.source is Source.ERRORS:
        rows = _with_front(rows)
    described = folder_table(how.source, *how.more)
    how.files.save(described.names, map(described.flat, rows))
    if how.as_json:
        records = [described.record(row) for row in rows]
        output.write_json({**how.about, "models": records, "notes": [how.note]})
    else:
        output.write(f"{output.table_of(described, rows)}\n{output.wrapped(how.note)}\n")
    return exit_code(rows)


def opened(
    stack: ExitStack, entries: Sequence[Entry], prepare: Callable[[Model], tuple[int, Work] | None]
) -> tuple[list[FolderRow], dict[int, tuple[int, Work]]]:
    """Open the models of a folder, and prepare what is to be read of them.

    Args:
        stack: Closes them.
        entries: Where they are; adapters, projectors and importance matrices are left out.
        prepare: Returns how many weights there are to read of a model, and what is needed for
            that; None leaves it out. What it raises is the model's problem.

    Returns:
        A row for each, without figures; and what `prepare` returned, by the place of the row.
    """
    rows: list[FolderRow] = []
    works: dict[int, tuple[int, Work]] = {}
    for entry in entries:
        row = FolderRow(entry.name, str(entry.path))
        try:
            model = stack.enter_context(open_model(entry.path))
            if kind_of(model) is not None or model.architecture == "clip":
                continue
            row = replace(row, type=describe(model).main_type, size=model)
            prepared = prepare(model)
            if prepared is None:
                continue
            works[len(rows)] = prepared
        except ExplorerError as error:
            row = replace(row, problem=error.what)
        rows.append(row)
    return rows, works


def exit_code(rows: Sequence[FolderRow]) -> int:
    """Return the exit code of a command over a folder, and write what its models lack."""
    problems = [row for row in rows if row.problem is not None]
    for row in problems:
        output.write_error(f"{row.path}: {row.problem}")
    return 1 if problems else 0


def _with_front(rows: Sequence[FolderRow]) -> list[FolderRow]:
    """Mark the models that no other beats in size and error."""
    nan = float("nan")
    points = [(float(row.nbytes or nan), row.figures.get("relative_rmse", nan)) for row in rows]
    front = pareto_front(points)
    return [replace(row, on_front=on) for row, on in zip(rows, front, strict=True)]
