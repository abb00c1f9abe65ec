"""`gguf-explorer plan`: how much memory a model needs, and where its layers go."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from explorer.cli.options import json_option, root_option
from explorer.cli.options import writing_atomically as writing
from explorer.cli.output import write, write_error, write_json
from explorer.cli.plan_text import CSV_HEADER, csv_rows, plan_text, plans_table, terms_text
from explorer.cli.plan_work import Answer, Question, answer_all, find_target, named_gpus
from explorer.errors import ExplorerError, PlanError
from explorer.planner import Device, Settings
from explorer.planner.advice import QUESTIONS
from explorer.planner.devices import parse_context, parse_size
from explorer.planner.profiles import GRAPH_SIZE, PROFILES
from explorer.tabular import write_csv

_ALL = "all"
_CACHE_TYPES = ("f16", "q8_0", "q4_0", "f32")
_Value = TypeVar("_Value")


def _parsed(
    parse: Callable[[str], _Value],
) -> Callable[[click.Context, click.Parameter, str | None], _Value | None]:
    """Return a callback of click that reads an option's text."""

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> _Value | None:
        if text is None:
            return None
        try:
            return parse(text)
        except ExplorerError as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return read


def _paths(context: click.Context, parameter: click.Parameter, paths: Sequence[str]) -> list[str]:
    if not all(paths):  # would name the current folder
        raise click.BadParameter("it is empty", context, parameter)
    return list(paths)


@click.command("plan")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, callback=_paths)
@root_option
@click.option(
    "--context",
    metavar="N",
    callback=_parsed(parse_context),
    help="Tokens of each sequence, such as 32768 or 32k.",
)
@click.option("--parallel", type=click.IntRange(min=1), metavar="N", help="Sequences at a time.")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Tokens computed at a time.")
@click.option(
    "--kv-cache-type",
    type=click.Choice(_CACHE_TYPES),
    help="Type of the KV cache; f32 is a what-if.",
)
@click.option("--flash-attention/--no-flash-attention", default=None, help="Ask for it or not.")
@click.option(
    "gpus",
    "--gpu",
    multiple=True,
    metavar="SPEC",
    callback=named_gpus,
    help="A GPU: its free memory, its name, or KEY=VALUE,… Once for each. Default: this machine's.",
)
@click.option("--num-gpu", type=click.IntRange(min=-1), metavar="N", help="Layers to put on GPUs.")
@click.option(
    "--overhead",
    metavar="SIZE",
    callback=_parsed(parse_size),
    help="Memory to hold back on each GPU.",
)
@click.option("--spread", is_flag=True, default=None, help="Use all GPUs, not as few as possible.")
@click.option(
    "--memory",
    metavar="SIZE",
    callback=_parsed(parse_size),
    help="Free main memory, for layers that stay on the CPU.",
)
@click.option(
    "--projector", type=click.Path(), metavar="FILE", help="A separate file with the projector."
)
@click.option(
    "--profile",
    type=click.Choice([*PROFILES, _ALL]),
    default=GRAPH_SIZE.name,
    help="Releases of Ollama whose rules to follow.",
)
@click.option(
    "question",
    "--solve",
    type=click.Choice(list(QUESTIONS)),
    help="Also find the most that fits.",
)
@click.option("--explain", is_flag=True, help="Print each figure with its formula.")
@click.option("csv_file", "--csv", type=click.Path(), metavar="FILE", help="Save a table as CSV.")
@json_option
def plan_command(  # noqa: PLR0913, PLR0917 - one for each option; click passes them by name
    paths: Sequence[str],
    root: str | None,
    gpus: Sequence[Device],
    memory: int | None,
    projector: str | None,
    profile: str,
    question: str | None,
    explain: bool,
    csv_file: str | None,
    as_json: bool,
    **settings: Any,
) -> int:
    """Show how much memory each model at PATH needs, and which layers each GPU gets.

    Follows the arithmetic of Ollama 0.13.3 to the byte. Reads headers only, never the weights.
    Where an option is left out, Ollama's environment variables and defaults count.

    A SPEC is 24GiB (free memory), "RTX 3090" (a name of the catalogue), or
    "name=NVIDIA L4,free=22.5GiB,total=24GiB,library=CUDA,integrated=no".

    \b
    Examples:
      gguf-explorer plan model.gguf --context 32k
      gguf-explorer plan model.gguf --context 8192 --gpu 24GiB --gpu "RTX 3060 12GB"
      gguf-explorer plan model.gguf --gpu "M3 Max 64GB" --solve context
      gguf-explorer plan *.gguf --context 16k --parallel 4 --csv plans.csv
      gguf-explorer plan ollama:llama3 --context 8k --profile all --json
    """
    profiles = list(PROFILES) if profile == _ALL else [profile]
    if question is not None and GRAPH_SIZE.name not in profiles:
        raise click.UsageError(f"--solve needs a layout of layers; {profile} predicts none")
    if csv_file is not None and any(_is_same(csv_file, path) for path in paths):
        raise click.UsageError("--csv names a model, which it would overwrite")
    asked = Question(
        settings=_settings(settings),
        target=find_target(gpus, memory),
        profiles=profiles,
        solve=question,
        root=root,
        projector=projector,
        environment=os.environ,
    )
    answers = list(answer_all(paths, asked))
    if csv_file is not None:
        with writing(Path(csv_file)) as stream:
            write_csv(stream, CSV_HEADER, csv_rows(answers))
    if len(answers) == 1:
        _print_one(answers[0], as_json=as_json, explain=explain)
    elif as_json:
        write_json({"plans": [{"path": answer.path} | answer.record() for answer in answers]})
    else:
        write(plans_table(answers))
    for failure in dict.fromkeys(answer.failure for answer in answers if answer.failure):
        write_error(failure)
    return 1 if any(answer.plan is None for answer in answers) else 0


def _settings(values: dict[str, Any]) -> Settings:
    try:
        return Settings(**values)
    except PlanError as error:  # a number that no computer has
        raise click.UsageError(str(error)) from error


def _is_same(csv_file: str, path: str) -> bool:
    return os.path.exists(csv_file) and os.path.exists(path) and os.path.samefile(csv_file, path)


def _print_one(answer: Answer, *, as_json: bool, explain: bool) -> None:
    if answer.plan is None:
        return
    if as_json:
        write_json(answer.record())
        return
    write(plan_text(answer.plan, answer.path, answer.advice, answer.notes))
    if explain:
        write(terms_text(answer.plan.terms))
