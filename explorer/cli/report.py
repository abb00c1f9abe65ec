"""`gguf-explorer report`: a model, or each model of a folder, as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from explorer.cli import options, output
from explorer.cli.folders import models_in
from explorer.cli.machine import context_option, gpu_option
from explorer.errors import ExplorerError, system_reason
from explorer.formats import open_model
from explorer.formats.attachments import open_matrix
from explorer.hardware.detect import detect
from explorer.model_files import refuse_folder_in_store, refuse_model_file
from explorer.planner import Device
from explorer.present.tables.statistics import REPORTED
from explorer.report.gather import ReportData, gather, plan_targets, weights_to_read
from explorer.report.privacy import Privacy, environment, shown_name
from explorer.report.sections import report_html, sections
from explorer.report.svg import pictures_in
from explorer.text import bytes_text, plain_text

_UNSAFE: Final = re.compile(r"[^\w.\-]+")
_LONGEST_NAME: Final = 120


@click.command("report")
@options.path_argument
@click.option(
    *("target", "-o", "--output"),
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The HTML file to make. With --each, the folder for them.",
)
@options.path_option("--reference", "Compare the weights with this model's.", "PATH")
@options.path_option(
    "--imatrix",
    "With --reference: an importance matrix of llama.cpp that errors are weighted by, too.",
)
@click.option("--survey/--no-survey", default=True, help="Read all weights, or the header alone.")
@options.workers_option
@gpu_option(
    "Plan for this GPU, as in `plan`. Once for each. Default: this machine's, or usual ones."
)
@context_option("Plan for so many tokens. May be given several times.", "contexts", multiple=True)
@click.option(
    "each", "--each", is_flag=True, help="PATH is a folder: a report of each model that it holds."
)
@options.path_option(
    "--pictures",
    "Also write every picture as SVG. With --each, into a folder for each model.",
    "FOLDER",
    kind=options.PATH,
)
@options.table_files
@options.root_option
@options.fetch_option
def report_command(  # noqa: PLR0913 - one for each argument and option
    path: str,
    target: Path,
    reference: str | None,
    imatrix: str | None,
    *,
    survey: bool,
    workers: int,
    gpus: Sequence[Device],
    contexts: Sequence[int],
    each: bool,
    pictures: Path | None,
    files: output.TableFiles,
    root: str | None,
    fetch: bool,
) -> int:
    """Write what is known of the model at PATH into one HTML file.

    Metadata, types and recipe, checks, the tensors that stand out, maps of the model, histograms
    and a memory plan, each picture with its data. The file needs no other and runs no script; it
    names files, but no folders. --csv and --parquet write the statistics of all tensors, with
    --each those of all models.

    All weights are read, which takes some seconds for each billion; the results are kept, so that
    the next report takes no time. The exit code is 1 if weights that should be there cannot be
    read; the report says which.

    \b
    Examples:
      gguf-explorer report model.gguf -o model.html
      gguf-explorer report model-Q4_K_M.gguf --reference model-bf16.gguf -o loss.html
      gguf-explorer report ~/models --each -o reports --pictures reports --parquet all.parquet
    """
    if reference is not None and not survey:
        raise click.UsageError("--reference compares weights, which --no-survey leaves unread")
    if imatrix is not None and reference is None:
        raise click.UsageError("--imatrix weights errors, which need a --reference")
    if each and root is not None:
        raise click.UsageError("--root belongs to a name of a model, not to a folder")
    files.check()
    how = _How(reference, imatrix, survey, workers, gpus, contexts, fetch, files.wanted)
    lines: list[list[Any]] = []
    if each:
        failed = False
        for one, report, folder in _models_in(Path(path), target, pictures):
            try:
                failed |= _write_report(one, report, folder, how, lines)
            except ExplorerError as error:  # the others are still wanted
                output.write_error(str(error))
                failed = True
    else:
        failed = _write_report(options.model_path(path, root), target, pictures, how, lines)
    files.save(["model", *REPORTED.names], lines)
    return int(failed)


class _How(NamedTuple):
    """How reports are made, of one model or of several."""

    reference: str | None
    imatrix: str | None
    survey: bool
    workers: int
    gpus: Sequence[Device]
    contexts: Sequence[int]
    fetch: bool
    with_records: bool


def _models_in(
    folder: Path, target: Path, pictures: Path | None
) -> Iterator[tuple[Path, Path, Path | None]]:
    """Yield the models of a folder: path, report and folder of pictures of each.

    Raises:
        ExplorerError: There is none, or what is to hold the reports is not a folder.
    """
    entries = models_in(folder)
    _make_folder(target)
    taken: set[str] = set()
    for entry in entries:
        stem = _UNSAFE.sub("_", entry.name).strip("._")[:_LONGEST_NAME] or "model"
        name = next(name for name in _numbered(stem) if name.lower() not in taken)
        taken.add(name.lower())
        yield entry.path, target / f"{name}.html", None if pictures is None else pictures / name


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}-{number}" for number in count(2))


def _make_folder(folder: Path) -> None:
    refuse_folder_in_store(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExplorerError(f"cannot be made: {system_reason(error)}", folder) from error


def _write_report(
    path: Path, target: Path, pictures: Path | None, how: _How, lines: list[list[Any]]
) -> bool:
    """Write the report of a model; return whether weights that should be there cannot be read."""
    with ExitStack() as stack:
        model = stack.enter_context(open_model(path))
        other = options.open_given(stack, how.reference, open_model)
        matrix = options.open_given(stack, how.imatrix, open_matrix)
        _check_target(target)
        refuse_folder_in_store(pictures)
        options.agree_to_fetch((model, other), how.fetch or not how.survey)
        with output.Progress(weights_to_read(model, other)) as line:
            data = gather(
                model,
                other,
                matrix,
                survey=how.survey,
                every=how.with_records,
                workers=how.workers,
                targets=plan_targets(how.gpus, None if how.gpus else detect()),
                contexts=how.contexts,
                progress=line.counter(path.name),
            )
        page = report_html(data, datetime.now().astimezone().date())
        drawn = [] if pictures is None else list(_pictures(data))
        if how.with_records:
            lines.extend([path.name, *REPORTED.flat(one)] for one in data.tensors)
    with output.open_target(target) as stream:
        stream.write(page)
    output.write(f"{plain_text(str(target))} written, {bytes_text(len(page.encode()))}\n")
    if pictures is not None:
        _make_folder(pictures)
        for name, text in drawn:
            with output.open_target(pictures / name) as stream:
                stream.write(text)
        output.write(f"{plain_text(str(pictures))}: {len(drawn)} pictures written\n")
    return bool(output.exit_code(data.damaged))


def _pictures(data: ReportData) -> Iterator[tuple[str, str]]:
    models = [one for one in (data.model, data.reference) if one is not None]
    template = environment(Privacy.of(*models)).get_template("picture.svg")
    for number, picture in enumerate(pictures_in(sections(data)), start=1):
        words = "-".join(re.findall(r"[a-z0-9]+", picture.title.lower()))[:60]
        yield (
            f"{number:02}-{words}.svg",
            template.render(picture=picture, title=shown_name(data.model)),
        )


def _check_target(target: Path) -> None:
    """Raise before weights are read if the target is a model, or its folder does not exist."""
    refuse_model_file(target)
    if not target.parent.is_dir():
        raise ExplorerError("cannot be written: there is no such folder", target)
