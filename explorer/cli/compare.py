"""`gguf-explorer compare`: what one model's weights lost against another's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from explorer.analysis.errors.compare import ComparedRow, Comparison, TotalErrors
from explorer.analysis.matching import Match, Matching, Mismatch, TensorView, match_models
from explorer.cli.options import (
    csv_option,
    json_option,
    model_path,
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
    line_width,
    on_terminal,
    printed,
    style,
    write,
    write_error,
    write_json,
)
from explorer.errors import ExplorerError
from explorer.formats import Model, open_model
from explorer.formats.ollama.manifest import is_name
from explorer.present.errors import (
    ABOUT_ERRORS,
    COLUMNS,
    SHOWN_FIGURES,
    cells,
    compared_record,
    document,
    error_label,
    error_text,
)
from explorer.tabular import write_csv
from explorer.text import float_text, integer_text, plain_text

# What `compare` prints for people: a row for each pair as it is done, and what is left to say.


_LONGEST_NAME: Final = 48
_SHOWN_NAMES: Final = 8
_TOTAL: Final = ("rmse", "relative_rmse", "sqnr_db")


def printed_rows(
    comparison: Comparison, rows: Iterable[ComparedRow], *, needed: bool
) -> Iterator[ComparedRow]:
    """Print each row when it comes; see `tensor_lines.printed`."""
    titles = [*map(error_label, SHOWN_FIGURES)]
    subjects = (_subject(match.candidate) for match in comparison.matches)
    lines = TensorLines("candidate", titles, subjects, _LONGEST_NAME)

    def line_of(row: ComparedRow) -> str:
        subject = _subject(row.match.candidate)
        if row.errors is None:
            return lines.problem_line(subject, row.problem)
        figures = (error_text(name, getattr(row.errors, name)) for name in SHOWN_FIGURES)
        return lines.line(subject, figures)

    write(lines.head)
    yield from printed(rows, line_of, needed=needed)


def _subject(view: TensorView) -> Subject:
    return view.name, view.type_name, view.shape


def summary(matching: Matching, total: TotalErrors, *, whole: bool) -> str:
    """Return what is printed below the rows."""
    figures = total.figures
    told = ", ".join(
        f"{error_label(name)} {error_text(name, getattr(figures, name))}" for name in _TOTAL
    )
    lines = [
        "",
        style("All together", bold=True),
        f"  {integer_text(figures.count)} weights, {told}, "
        f"{float_text(total.bits_per_weight, 5)} bits per weight",
    ]
    if whole:
        lines += _left_over(matching)
    wrapped = click.wrap_text(ABOUT_ERRORS, min(100, line_width()))
    return "\n".join([*lines, "", wrapped]) + "\n"


def _left_over(matching: Matching) -> Iterator[str]:
    """Yield lines about what was not compared."""
    if matching.not_comparable:
        yield "\n" + style("Not comparable", bold=True)
    for pair in matching.not_comparable[:_SHOWN_NAMES]:
        yield f"  {plain_text(_called(pair))}: {plain_text(pair.reason)}"
    yield from _more(len(matching.not_comparable))
    for side, names in (
        ("reference", matching.unmatched_reference),
        ("candidate", matching.unmatched_candidate),
    ):
        if names:
            yield "\n" + style(f"Only in the {side}", bold=True)
            yield from (f"  {plain_text(name)}" for name in names[:_SHOWN_NAMES])
            yield from _more(len(names))


def _called(pair: Mismatch) -> str:
    return " and ".join(dict.fromkeys(filter(None, (pair.reference_name, pair.candidate_name))))


def _more(count: int) -> Iterator[str]:
    if count > _SHOWN_NAMES:
        yield f"  and {integer_text(count - _SHOWN_NAMES)} more; --json lists all"


@click.command("compare")
@click.argument("reference", type=click.Path())
@click.argument("candidate", type=click.Path())
@click.option(
    "names",
    "--tensor",
    multiple=True,
    metavar="NAME",
    help="Compare only this tensor, named as in either model; may be given several times.",
)
@csv_option
@workers_option
@root_option
@json_option
def compare_command(  # noqa: PLR0913 - one for each argument and option
    reference: str,
    candidate: str,
    *,
    names: tuple[str, ...],
    csv_path: Path | None,
    workers: int,
    root: str | None,
    as_json: bool,
) -> int:
    """Show what the weights of CANDIDATE lost against those of REFERENCE, tensor by tensor.

    Every weight is compared. The two may be of different formats: names are matched, and what a
    converter did to the weights (rows of llama's q and k permuted, 1 added to Gemma's norms,
    experts stacked) is undone. What cannot be compared is listed with the reason.

    Weight error ranks tensors of one role (all ffn_down, say) and types of one tensor. It does not
    by itself predict the quality of a model's answers.

    \b
    Examples:
      gguf-explorer compare model-bf16.gguf model-Q4_K_M.gguf
      gguf-explorer compare Llama-3-8B/ llama-3-8b-Q4_K_M.gguf --csv errors.csv
      gguf-explorer compare a.gguf b.gguf --json | jq '.tensors | max_by(.relative_rmse)'
    """
    paths = list(_paths((reference, candidate), root))
    with ExitStack() as stack:
        one, two = (stack.enter_context(open_model(path)) for path in paths)
        for model in (one, two):
            if csv_path is not None:
                refuse_model_file(model, csv_path)
        matching = match_models(one, two)
        comparison = Comparison(_chosen(matching, names, (one, two)))
        with Progress(comparison.parameters) as line:
            # On a terminal the rows themselves show how far it is.
            tell = teller(line, "weights") if as_json or not on_terminal() else None
            rows = comparison.rows(workers, progress=tell)
            needed = csv_path is not None
            found = list(rows if as_json else printed_rows(comparison, rows, needed=needed))
        total = comparison.total()
    records = [compared_record(row) for row in found]
    if csv_path is not None:
        with writing(csv_path) as stream:
            write_csv(stream, COLUMNS, map(cells, records))
    if as_json:
        write_json(document((reference, candidate), records, matching, total))
    else:
        write(summary(matching, total, whole=not names))
    damaged = [row.problem for row in found if row.problem is not None]
    if damaged:
        write_error(str(damaged[0]))
    return 1 if damaged else 0


def _paths(given: tuple[str, str], root: str | None) -> Iterator[Path]:
    """Return what to open; --root is for those of the two that are names."""
    if root is not None and not any(map(is_name, given)):
        raise click.UsageError("--root belongs to a name of a model, such as ollama:llama3")
    for path in given:
        if not path:
            raise click.UsageError("the path of a model is empty")
        yield model_path(path, root if is_name(path) else None)


def _chosen(matching: Matching, names: Sequence[str], models: Sequence[Model]) -> list[Match]:
    """Return the pairs that are asked for; all if none are.

    Raises:
        ExplorerError: A name is not known, or its tensor is not comparable.
    """
    if not names:
        return list(matching.matches)
    places: dict[str, list[int]] = {}
    for place, match in enumerate(matching.matches):
        for name in _names_of(match):
            places.setdefault(name, []).append(place)
    chosen: dict[int, None] = {}
    for name in names:
        if name not in places:
            raise ExplorerError(_why_not(matching, name, list(places)), models[0].path)
        chosen |= dict.fromkeys(places[name])
    return [matching.matches[place] for place in chosen]


def _names_of(match: Match) -> set[str]:
    views = (match.reference, match.candidate)
    return {view.name for view in views} | {t.name for view in views for t in view.tensors}


def _why_not(matching: Matching, name: str, known: Sequence[str]) -> str:
    for pair in matching.not_comparable:
        if name in {pair.reference_name, pair.candidate_name}:
            return f"tensor {name!r} is not comparable: {pair.reason}"
    if name in {*matching.unmatched_reference, *matching.unmatched_candidate}:
        return f"tensor {name!r} is only in one of the two models"
    similar = get_close_matches(name, known, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else "compare without --tensor lists them"
    return f"neither model has a tensor {name!r}; {hint}"
