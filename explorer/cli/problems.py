"""Problems of a model as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.cli.output import style
from explorer.formats import Problem, Severity
from explorer.text import plain_text


def problem_lines(problems: Sequence[Problem]) -> str:
    """Return a line for each problem: how grave, where, what."""
    lines = []
    for problem in problems:
        grave = problem.severity is Severity.ERROR
        word = style(f"{problem.severity:<7}", fg="red" if grave else "yellow")
        where = f"{plain_text(problem.where)}: " if problem.where else ""
        lines.append(f"  {word}  {where}{plain_text(problem.what)}\n")
    return "".join(lines)
