"""What `compare` prints for people: a row for each pair as it is done, and what is left to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import click

from explorer.analysis.errors.compare import ComparedRow, Comparison, TotalErrors
from explorer.analysis.matching import Matching, Mismatch, TensorView
from explorer.cli.errors_record import ABOUT_ERRORS, SHOWN_FIGURES
from explorer.cli.output import line_width, style, write
from explorer.cli.tensor_lines import Subject, TensorLines, printed
from explorer.present.errors import error_label, error_text
from explorer.text import float_text, integer_text, plain_text

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
