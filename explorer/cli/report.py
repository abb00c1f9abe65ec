"""`gguf-explorer report`: a model as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import click

from explorer.cli import options, output
from explorer.cli.machine import named_gpus
from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.hardware.detect import detect
from explorer.model_files import refuse_model_file
from explorer.planner import Device
from explorer.planner.devices import parse_context
from explorer.report.gather import gather, plan_targets, weights_to_read
from explorer.report.sections import report_html
from explorer.text import bytes_text, plain_text


@click.command("report")
@options.path_argument
@click.option(
    "target",
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The HTML file to make.",
)
@click.option(
    "--reference", type=click.Path(), metavar="PATH", help="Compare the weights with this model's."
)
@click.option("--survey/--no-survey", default=True, help="Read all weights, or the header alone.")
@options.workers_option
@click.option(
    "gpus",
    "--gpu",
    multiple=True,
    metavar="SPEC",
    callback=named_gpus,
    help="Plan for this GPU, as in `plan`; once for each. Default: this machine's, or usual ones.",
)
@click.option(
    "contexts",
    "--context",
    multiple=True,
    metavar="N",
    type=options.parsed_by(parse_context),
    help="Plan for so many tokens; may be given several times.",
)
@options.root_option
def report_command(  # noqa: PLR0913 - one for each argument and option
    path: str,
    target: Path,
    reference: str | None,
    *,
    survey: bool,
    workers: int,
    gpus: Sequence[Device],
    contexts: Sequence[int],
    root: str | None,
) -> int:
    """Write what is known of the model at PATH into one HTML file.

    Metadata, types and recipe, checks, the tensors that stand out, maps of the model, histograms
    and a memory plan, each picture with its data. The file needs no other and runs no script; it
    names files, but no folders.

    All weights are read, which takes some seconds for each billion; the results are kept, so that
    the next report takes no time. The exit code is 1 if weights that should be there cannot be
    read; the report says which.

    \b
    Examples:
      gguf-explorer report model.gguf -o model.html
      gguf-explorer report model-Q4_K_M.gguf --reference model-bf16.gguf -o loss.html
      gguf-explorer report model.gguf --no-survey --gpu "RTX 3090" --context 32k -o model.html
    """
    if reference is not None and not survey:
        raise click.UsageError("--reference compares weights, which --no-survey leaves unread")
    with ExitStack() as stack:
        model = stack.enter_context(open_model(options.model_path(path, root)))
        other = None
        if reference is not None:
            other = stack.enter_context(open_model(options.model_path(reference)))
        _check_target(target)
        machine = None if gpus else detect()
        with output.Progress(weights_to_read(model, other)) as line:
            data = gather(
                model,
                other,
                survey=survey,
                workers=workers,
                targets=plan_targets(gpus, machine),
                contexts=contexts,
                progress=line.counter("weights"),
            )
        page = report_html(data, datetime.now().astimezone().date())
    with output.open_target(target) as stream:
        stream.write(page)
    output.write(f"{plain_text(str(target))} written, {bytes_text(len(page.encode()))}\n")
    if data.damaged is not None:
        output.write_error(str(data.damaged))
    return 0 if data.damaged is None else 1


def _check_target(target: Path) -> None:
    """Raise before weights are read if the target is a model, or its folder does not exist."""
    refuse_model_file(target)
    if not target.parent.is_dir():
        raise ExplorerError("cannot be written: there is no such folder", target)
