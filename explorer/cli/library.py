"""`gguf-explorer library` and `check`: downloaded models, and what is wrong with files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from explorer.cli import machine, options, output
from explorer.errors import FormatError, SourceError
from explorer.formats import Problem, Severity, open_model
from explorer.formats.ollama.manifest import is_manifest_path
from explorer.parallel import Check, never
from explorer.planner.settings import CACHE_TYPES
from explorer.present.problems import problems_of
from explorer.present.stores import reclaimable, reclaimable_text, removal_of_files
from explorer.present.tables.library import (
    FILES,
    LIBRARY,
    DownloadedModel,
    StoredFile,
    model_record,
    time_text,
)
from explorer.present.tables.problems import PROBLEMS
from explorer.stores.entries import Entry, Place, Store, StoreKind, present_places, this_machine
from explorer.stores.huggingface import is_hub_cache
from explorer.stores.known import known_headers
from explorer.stores.library import Details, read_details, read_stores
from explorer.stores.ollama import digest_fault, is_ollama_store, manifest_blobs
from explorer.text import bytes_text, counted, integer_text, plain_text

if TYPE_CHECKING:
    from explorer.planner import Device
    from explorer.present.fits import ModelFit, Target

# what is printed may be read on another day
_DAY = replace(LIBRARY["modified"], text=lambda row: time_text(row.modified)[: len("2026-11-27")])
_LISTED = LIBRARY.replacing(_DAY)
_SHOWN = ("name", "architecture", "parameters", "bytes", "file_type", "modified")
_SHOWN_FIT = ("fits", "context", "speed")
_SHOWN_FILE = ("digest", "bytes", "used_by", "part")
_LONGEST_NAME = 80
_LONGEST_USERS = 1000


def _place(text: str) -> Place:
    """Parse KIND=DIR."""
    kind, _, folder = text.partition("=")
    if not folder or kind not in set(StoreKind):
        kinds = ", ".join(StoreKind)
        raise click.BadParameter(f"{text!r} is not KIND=DIR, where KIND is one of {kinds}")
    return Place(StoreKind(kind), Path(folder).expanduser())


@click.command("library")
@click.option(
    "roots",
    "--root",
    type=_place,
    multiple=True,
    metavar="KIND=DIR",
    help=f"List this store, not those found. KIND: {', '.join(StoreKind)}.",
)
@options.json_option
@click.option("--blobs", is_flag=True, help="Also list each file with the models that use it.")
@click.option("fits", "--fits", is_flag=True, help="Also say which models fit this machine.")
@machine.gpu_option("With --fits: a GPU as in plan. Once for each. Default: this machine's.")
@machine.memory_option("With --fits: free main memory.")
@machine.context_option(
    "With --fits: tokens that every model is planned with. Default: as its program starts it."
)
@click.option(
    "--kv-cache-type", type=click.Choice(CACHE_TYPES), help="With --fits: type of the KV cache."
)
def library_command(  # noqa: PLR0913, PLR0917 - one for each option; click passes them by name
    roots: Sequence[Place],
    as_json: bool,
    blobs: bool,
    fits: bool,
    gpus: Sequence[Device],
    memory: int | None,
    context: int | None,
    kv_cache_type: str | None,
) -> int:
    """List downloaded models: of Ollama, Hugging Face, LM Studio, llama.cpp, or in a folder.

    --fits plans each model as “plan” does, by its header alone: whether all layers go to GPUs, and
    the most tokens of one sequence with the layers that do.

    \b
    Examples:
      gguf-explorer library
      gguf-explorer library --fits --gpu "RTX 3060 12GB"
      gguf-explorer library --root folder=~/models --json
      gguf-explorer library --blobs --root ollama=/usr/share/ollama/.ollama/models
    """
    asked = context, kv_cache_type
    if not fits and (gpus or (memory, *asked) != (None, None, None)):
        given = "--gpu, --memory, --context and --kv-cache-type"
        raise click.UsageError(f"{given} say what --fits plans for. Add --fits")
    for place in roots:
        _refuse_missing(place.root)
    stores = read_stores(roots or present_places(this_machine()))
    target: Target | None = None
    notes: tuple[str, ...] = ()
    if fits:
        from explorer.planner import Settings  # noqa: PLC0415 - a plain list needs no planner
        from explorer.present.fits import Target  # noqa: PLC0415 - likewise

        devices, host, notes = machine.find_machine(gpus, memory)
        settings = Settings(context=context, kv_cache_type=kv_cache_type)
        target = Target(devices, host, os.environ, settings=settings)
    with output.Progress(sum(len(store.entries) for store in stores)) as progress:
        listings = [_Listing.of(store, target, progress) for store in stores]
    if as_json:
        record: dict[str, Any] = {"stores": [one.record(blobs) for one in listings]}
        if target is not None:
            record["machine"] = target.record() | {"notes": list(notes)}
        output.write_json(record)
    elif not listings:
        output.write("No store of downloaded models was found. Name one with --root KIND=DIR.\n")
    else:
        head = "" if target is None else f"{plain_text(target.text)}\n\n"
        output.write(head + "\n".join(one.text(blobs) for one in listings))
    return 0


def _refuse_missing(root: Path) -> None:
    try:
        if root.is_dir():
            return
    except OSError:  # no permission: the store's problems say so
        return
    raise SourceError("there is no such folder. Check the path", root)


def _details(
    store: Store, progress: output.Progress, read: Callable[[Entry, Check], Details] = read_details
) -> Iterator[Details]:
    for entry in store.entries:
        progress.add(1, entry.name)
        yield read(entry, never)


@dataclass(frozen=True)
class _Listing:
    """A store and its models; with fits, if they were asked for."""

    store: Store
    models: Sequence[DownloadedModel]
    with_fits: bool

    @classmethod
    def of(cls, store: Store, target: Target | None, progress: output.Progress) -> _Listing:
        """Open every model that changed since the last time, or that fitted another target."""
        with known_headers() as read:
            details = tuple(_details(store, progress, read))
        fits: Sequence[ModelFit | None] = [None] * len(details)
        if target is not None:
            from explorer.present.fits import known_fits  # noqa: PLC0415 - as above

            with known_fits(target) as fit:
                fits = [fit(entry, never) for entry in store.entries]
        models = list(map(DownloadedModel, store.entries, details, fits))
        return cls(store, models, target is not None)

    def record(self, blobs: bool) -> dict[str, Any]:
        """Return the JSON object of docs/interface.md."""
        store = self.store
        record: dict[str, Any] = {
            "kind": str(store.kind),
            "root": str(store.root),
            "bytes": store.nbytes,
            "problems": list(map(PROBLEMS.record, store.problems)),
            "models": list(map(model_record, self.models)),
        }
        if blobs:
            files = _files(store)
            table = FILES.only("digest", "bytes", "used_by")
            record["blobs"] = [table.record(file) for file in files]
            record["contents"] = {file.blob.digest: file.part for file in files}
            record["removal"] = _removal(store, files)
            record["partial_downloads"] = [
                {"path": str(one.path), "bytes": one.nbytes} for one in store.partials
            ]
        return record

    def text(self, blobs: bool) -> str:
        """Return a table of the models below the name of the store."""
        store, count = self.store, len(self.models)
        models = counted(count, "model")
        title = output.style(f"{store.kind}  {plain_text(str(store.root))}", bold=True)
        lines = [
            f"{title}  ({models}, {bytes_text(store.nbytes)})\n",
            output.problem_lines(store.problems),
        ]
        shown = _LISTED.only(*_SHOWN, *(_SHOWN_FIT if self.with_fits else ()))
        if count:
            lines.append(output.table_of(shown, self.models, _LONGEST_NAME))
        for model in self.models:
            if model.details.problems:
                name = output.name_cell(model.entry.name, _LONGEST_NAME)
                lines.append(f"{name}\n{output.problem_lines(model.details.problems)}")
        if blobs:
            lines += _blob_lines(store)
        return "".join(lines)


def _files(store: Store) -> list[StoredFile]:
    return [StoredFile.of(blob, store) for blob in store.blobs]


def _blob_lines(store: Store) -> Iterator[str]:
    files = _files(store)
    if files:
        yield "\n" + output.table_of(FILES.only(*_SHOWN_FILE), files, _LONGEST_USERS)
        orphans = [file.blob.nbytes for file in files if not file.blob.used_by]
        if orphans:
            yield f"  {integer_text(len(orphans))} unused: {bytes_text(sum(orphans))}\n"
    if store.partials:
        nbytes = sum(one.nbytes for one in store.partials)
        yield f"  {integer_text(len(store.partials))} unfinished: {bytes_text(nbytes)}\n"
    commands = _removal(store, files)
    if commands:
        text = reclaimable_text(*reclaimable([store]))
        yield f"  {text}. To remove them:\n" + "".join(f"    {line}\n" for line in commands)


def _removal(store: Store, files: Sequence[StoredFile]) -> list[str]:
    """Return the commands that remove what belongs to nobody."""
    unfinished = (removal_of_files([one.path]) for one in store.partials)
    return list(filter(None, (*(file.removal for file in files), *unfinished)))


# check


@click.command("check")
@options.path_argument
@options.root_option
@options.json_option
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
    target = options.model_path(path, root)
    failure: FormatError | None = None
    kind: str | None = _store_kind(target)
    if kind is not None:
        problems = _check_store(Place(StoreKind(kind), target), digests)
    elif digests and not is_manifest_path(target):
        raise click.UsageError(
            "--digests compares blobs of a store with their names. "
            f"{path} is not a store and carries no digests to compare with"
        )
    else:
        try:
            with open_model(target) as model:
                problems = [*problems_of(model)]
                kind = model.format
        except FormatError as error:
            failure = error
            where = f"{'' if error.path is None else error.path} {error.where}".strip()
            problems = [Problem(Severity.ERROR, where, error.what)]
        else:
            if digests:
                problems += _digest_problems(list(manifest_blobs(target)))
    if as_json:
        records = list(map(PROBLEMS.record, problems))
        output.write_json({"path": path, "format": kind, "ok": not problems, "problems": records})
    elif failure is None:
        output.write(_check_text(path, problems))
    if failure is not None:
        output.write_error(str(failure))
    return 1 if problems else 0


def _store_kind(path: Path) -> str | None:
    """Return the kind of the store that a path is the root of; None if it is none."""
    if is_ollama_store(path):
        return StoreKind.OLLAMA.value
    return StoreKind.HUGGINGFACE.value if is_hub_cache(path) else None


def _check_store(place: Place, digests: bool) -> list[Problem]:
    """Return the problems of a store and of every model, each with the model's name."""
    (store,) = read_stores([place])
    problems = list(store.problems)
    with output.Progress(len(store.entries)) as progress:
        for entry, details in zip(store.entries, _details(store, progress), strict=True):
            for problem in (*details.problems, *details.refusals):
                where = problem.where if problem.where != entry.name else ""
                full = f"{entry.name}: {where}" if where else entry.name
                problems.append(Problem(problem.severity, full, problem.what))
    if digests:
        blobs = [(blob.digest, blob.path, blob.digest) for blob in store.blobs]
        problems += _digest_problems(blobs)
    return problems


def _digest_problems(blobs: Sequence[tuple[str, Path, str]]) -> Iterable[Problem]:
    """Yield a problem for each blob (title, file, digest) whose content has another digest."""
    with output.Progress(sum(_size_of(path) for _, path, _ in blobs)) as progress:
        for title, path, digest in blobs:
            fault = digest_fault(path, digest, partial(progress.add, what=title))
            if fault is not None:
                yield Problem(Severity.ERROR, title, fault)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reading it, next, reports why
        return 0


def _check_text(path: str, problems: Sequence[Problem]) -> str:
    title = output.style(plain_text(path), bold=True)
    if not problems:
        return f"{title}: nothing wrong found\n"
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    counts = {"error": errors, "warning": len(problems) - errors}
    parts = [counted(count, noun) for noun, count in counts.items() if count]
    return f"{title}: {', '.join(parts)}\n{output.problem_lines(problems)}"
