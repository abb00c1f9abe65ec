"""`gguf-explorer check`: whether a model keeps every structural rule of its format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from explorer.cli.arguments import json_option, path_argument
from explorer.cli.output import style, write, write_error, write_json
from explorer.cli.problems import problem_lines
from explorer.cli.records import problem_record
from explorer.errors import FormatError
from explorer.formats import Problem, Severity, open_model
from explorer.text import plain_text


@click.command("check")
@path_argument
@json_option
@click.option("--digests", is_flag=True, help="For a store: also compute the SHA-256 of each blob.")
def check_command(path: str, as_json: bool, digests: bool) -> int:
    """Check the model at PATH; list everything that is wrong with its structure.

    The exit code is 0 only if nothing is wrong: errors and warnings give 1.

    \b
    Examples:
      gguf-explorer check model.gguf
      gguf-explorer check model.gguf --json | jq '.problems'
    """
    if digests and not _is_store(Path(path)):
        raise click.UsageError(
            "--digests compares blobs of a store with their manifest; "
            f"{path} is no store and carries no digests to compare with"
        )
    kind, problems, failure = _examine(path)
    code = 1 if problems else 0
    if as_json:
        write_json(
            {
                "path": path,
                "format": kind,
                "ok": not problems,
                "problems": [problem_record(problem) for problem in problems],
            }
        )
    elif failure is None:
        write(_report(path, problems))
    if failure is not None:
        write_error(str(failure))
    return code


def _is_store(path: Path) -> bool:
    """Tell whether a path is an Ollama store or lies among its manifests."""
    return (path / "manifests").is_dir() or "manifests" in path.absolute().parts


def _examine(path: str) -> tuple[str | None, Sequence[Problem], FormatError | None]:
    """Return the format, the problems, and what kept the model from opening."""
    try:
        with open_model(path) as model:
            return model.format, model.problems, None
    except FormatError as error:
        place = "" if error.path is None else str(error.path)
        where = f"{place} {error.where}".strip()
        return None, [Problem(Severity.ERROR, where, error.what)], error


def _report(path: str, problems: Sequence[Problem]) -> str:
    title = style(plain_text(path), bold=True)
    if not problems:
        return f"{title}: nothing wrong found\n"
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    counts = (_number(errors, "error"), _number(len(problems) - errors, "warning"))
    return f"{title}: {', '.join(filter(None, counts))}\n{problem_lines(problems)}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}" if count else ""
