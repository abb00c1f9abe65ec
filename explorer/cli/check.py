"""`gguf-explorer check`: whether a model, or a store, keeps every structural rule of its format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from explorer.cli.inspect import problem_record
from explorer.cli.options import json_option, model_path, path_argument, root_option
from explorer.cli.output import Progress, problem_lines, style, write, write_error, write_json
from explorer.errors import FormatError
from explorer.formats import Problem, Severity, open_model
from explorer.formats.ollama.manifest import is_manifest_path
from explorer.stores import Place, Store, StoreKind, read_details, read_library
from explorer.stores.huggingface import is_hub_cache
from explorer.stores.ollama import digest_fault, is_ollama_store, manifest_blobs
from explorer.text import plain_text


@dataclass(frozen=True)
class _Result:
    """What a check found.

    Attributes:
        format: Format of a model, kind of a store; None if it did not open.
        problems: What is wrong.
        failure: What kept a model from opening.
    """

    format: str | None
    problems: Sequence[Problem]
    failure: FormatError | None = None


@click.command("check")
@path_argument
@root_option
@json_option
@click.option(
    "--digests", is_flag=True, help="In a store: also compare each blob's digest with its name."
)
def check_command(path: str, root: str | None, as_json: bool, digests: bool) -> int:
    """Check the model or the store at PATH; list everything that is wrong with its structure.

    PATH is a model, ollama:NAME[:TAG], or the folder of an Ollama store or a Hugging Face cache.
    The exit code is 0 only if nothing is wrong: errors and warnings give 1.

    \b
    Examples:
      gguf-explorer check model.gguf
      gguf-explorer check model.gguf --json | jq '.problems'
      gguf-explorer check ollama:llama3 --digests
      gguf-explorer check ~/.ollama/models --digests
    """
    target = model_path(path, root)
    store_kind = _store_kind(target)
    if store_kind is not None:
        result = _examine_store(Place(store_kind, target), digests)
    elif digests and not is_manifest_path(target):
        raise click.UsageError(
            "--digests compares blobs of a store with their names; "
            f"{path} is no store and carries no digests to compare with"
        )
    else:
        result = _examine(target, digests)
    problems = result.problems
    if as_json:
        write_json(
            {
                "path": path,
                "format": result.format,
                "ok": not problems,
                "problems": [problem_record(problem) for problem in problems],
            }
        )
    elif result.failure is None:
        write(_report(path, problems))
    if result.failure is not None:
        write_error(str(result.failure))
    return 1 if problems else 0


def _store_kind(path: Path) -> StoreKind | None:
    """Tell which kind of store a path is the root of, or None if it is none."""
    if is_ollama_store(path):
        return StoreKind.OLLAMA
    return StoreKind.HUGGINGFACE if is_hub_cache(path) else None


def _examine(path: Path, digests: bool) -> _Result:
    try:
        with open_model(path) as model:
            problems = list(model.problems)
            kind = model.format
    except FormatError as error:
        place = "" if error.path is None else str(error.path)
        where = f"{place} {error.where}".strip()
        return _Result(None, [Problem(Severity.ERROR, where, error.what)], error)
    if digests:
        problems += _digest_problems(list(manifest_blobs(path)))
    return _Result(kind, problems)


def _examine_store(place: Place, digests: bool) -> _Result:
    (store,) = read_library([place]).stores
    problems = [*store.problems, *_model_problems(store)]
    if digests:
        blobs = [(blob.digest, blob.path, blob.digest) for blob in store.blobs]
        problems += _digest_problems(blobs)
    return _Result(str(place.kind), problems)


def _model_problems(store: Store) -> Iterator[Problem]:
    """Yield the problems of every model, each with the model's name."""
    with Progress(len(store.entries)) as progress:
        for entry in store.entries:
            progress.add(1, entry.name)
            for problem in read_details(entry).problems:
                where = problem.where if problem.where != entry.name else ""
                full = f"{entry.name}: {where}" if where else entry.name
                yield Problem(problem.severity, full, problem.what)


def _digest_problems(blobs: Sequence[tuple[str, Path, str]]) -> Iterable[Problem]:
    """Yield a problem for each blob whose content is not what its name says.

    Args:
        blobs: What to call it, its file, its digest.
    """
    with Progress(sum(path.stat().st_size for _, path, _ in blobs)) as progress:
        for title, path, digest in blobs:
            fault = digest_fault(path, digest, partial(progress.add, what=title))
            if fault is not None:
                yield Problem(Severity.ERROR, title, fault)


def _report(path: str, problems: Sequence[Problem]) -> str:
    title = style(plain_text(path), bold=True)
    if not problems:
        return f"{title}: nothing wrong found\n"
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    counts = (_number(errors, "error"), _number(len(problems) - errors, "warning"))
    return f"{title}: {', '.join(filter(None, counts))}\n{problem_lines(problems)}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}" if count else ""
