"""`gguf-explorer recipes`: what llama-quantize would make of a whole model, by each recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from explorer.analysis.matching.pairing import match_models
from explorer.analysis.recipes.fits import recipe_names, why_no_recipe
from explorer.analysis.recipes.ollama import BITS
from explorer.analysis.recipes.rules import RECIPES
from explorer.analysis.what_if import PRESENT, SizeAfter, TypeErrors
from explorer.cli import options, output
from explorer.cli.folders import exit_code, models_in, opened
from explorer.cli.machine import context_option, find_machine, gpu_option
from explorer.errors import ExplorerError, PlanError
from explorer.formats import Model, open_model
from explorer.formats.attachments import OpenMatrix
from explorer.parallel import LruCache
from explorer.planner import Device
from explorer.planner.inputs import PlanInputs
from explorer.present import recipes as words
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.tables.recipes import ROLES
from explorer.present.tables.table import Table
from explorer.present.tables.what_if import FolderTrial, Trial, folder_trials_table, trials_table
from explorer.present.what_if import (
    SourceModel,
    WhatIfCache,
    WhatIfEstimate,
    WhatIfRequest,
    estimate_of,
    measure,
    trials_of,
    with_front,
)
from explorer.text import bits_text, bytes_text, integer_text, plain_text

_MOST_TASKS: Final = 1 << 24  # whose errors are held: more than any model has
_SHOWN_ROLES: Final = 3  # recipes up to which each is shown by role


def _recipe_names(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> list[str]:
    """Return the recipes that are asked for, spelled as they are; none for all that quantize."""
    known = {name.upper(): name for name in (*RECIPES, *BITS)}
    wanted = [word.strip().upper() for words in value for word in words.split(",")]
    for name in wanted if wanted != ["ALL"] else ():
        if name not in known:
            names = ", ".join(known.values())
            raise click.BadParameter(f"{plain_text(name)!r} is not a recipe. Known are {names}")
    return [] if wanted == ["ALL"] else list(dict.fromkeys(known[name] for name in wanted))


@click.command("recipes")
@options.path_argument
@click.option(
    "each",
    "--each",
    is_flag=True,
    help="PATH is a folder: recipes of each model in it that is not quantized.",
)
@click.option(
    "names",
    "--recipe",
    multiple=True,
    metavar="NAME[,NAME…]",
    callback=_recipe_names,
    help="Recipes of llama-quantize (Q4_K_M), or of Ollama (int4). Default: all that quantize.",
)
@options.path_option(
    "--original",
    "Round the weights of this model, which PATH was made of.",
    "PATH",
    name="original_path",
)
@options.path_option("--imatrix", "Importance matrix of llama.cpp, in GGUF. Some recipes need one.")
@click.option("--errors/--no-errors", default=True, help="Round all weights, or count bytes alone.")
@gpu_option("Plan memory for this GPU, as in `plan`. Once for each. Default: this machine's.")
@context_option("Plan memory for so many tokens.")
@options.table_files
@options.workers_option
@options.root_option
@options.fetch_option
@options.json_option
def recipes_command(  # noqa: PLR0913 - one for each option
    path: str,
    *,
    each: bool,
    names: list[str],
    original_path: str | None,
    imatrix: str | None,
    errors: bool,
    gpus: Sequence[Device],
    context: int | None,
    files: output.TableFiles,
    workers: int,
    root: str | None,
    fetch: bool,
    as_json: bool,
) -> int:
    """Show what llama-quantize would make of the model at PATH, by each recipe.

    Of a folder of safetensors, what `ollama create --quantize` would make (int4, int8, nvfp4,
    mxfp4, mxfp8). Types by the program's rules, with llama-quantize's fallbacks for rows that hold
    no whole blocks; size, bits per weight, memory; and the errors of all weights that it would
    round, in all and by role. They are rounded in memory; no file is written. Recipes that nothing
    beats in size and error are marked.

    Of a model that is quantized already, errors come on top of those it has; --original rounds the
    weights that it was made of instead. With --each, PATH is a folder: its quantized models are
    left out. All recipes of a model of 8 billion weights take hours: name some. What was measured
    is kept: after Ctrl+C the same command continues.

    \b
    Examples:
      gguf-explorer recipes model-f16.gguf --recipe Q4_K_M,Q5_K_M,IQ4_XS
      gguf-explorer recipes model-f16.gguf --no-errors
      gguf-explorer recipes FOLDER --recipe int4,mxfp8
      gguf-explorer recipes ~/models --each --recipe Q4_K_M
      gguf-explorer recipes model-f16.gguf --imatrix imatrix.gguf --recipe IQ2_M --json
    """
    if each and (original_path is not None or root is not None):
        raise click.UsageError("--original and --root belong to one model, not to a folder")
    with ExitStack() as stack:
        matrix = None if imatrix is None else OpenMatrix.load(options.model_path(imatrix))
        if matrix is not None:
            stack.enter_context(matrix.model)
        asked = _Asked(names, matrix, _machine(gpus, context), workers, errors)
        if each:
            about = {"folder": path, "imatrix": imatrix}
            return _try_each(stack, asked, about, files, as_json=as_json)
        model = stack.enter_context(open_model(options.model_path(path, root)))
        refusal = asked.refusal(model)
        if refusal is not None:
            raise ExplorerError(refusal, model.path)
        original = options.open_given(stack, original_path, open_model)
        files.check()
        options.agree_to_fetch((model if original is None else original,), fetch or not errors)
        work = _Work(asked, model, original)
        with output.Progress(work.weights) as line:
            trials = work.trials(line.counter("rounding"))
    described = trials_table(weighted=matrix is not None)
    files.save(described.names, map(described.flat, trials))
    notes = [words.about_trials(model), ABOUT_ERRORS]
    if as_json:
        about = {"path": path, "original": original_path, "imatrix": imatrix}
        record = _trials_record(work.estimate.present, trials, described)
        output.write_json({**about, **record, "notes": notes})
    else:
        output.write(_above(work.estimate.present) + output.table_of(described, trials))
        output.write(_planned([work.estimate]) + _after(trials, work.failures, notes))
    return 0


@dataclass(frozen=True)
class _Asked:
    """What is asked of each model.

    Attributes:
        names: The recipes; none for all that quantize.
        matrix: The importance matrix.
        machine: What memory is planned for.
        workers: Threads.
        measured: Whether weights are rounded; else sizes are all that is found.
    """

    names: Sequence[str]
    matrix: OpenMatrix | None
    machine: PlanInputs
    workers: int
    measured: bool

    def refusal(self, model: Model) -> str | None:
        """Return why the recipes cannot be tried on a model; None if they can."""
        reason, possible = why_no_recipe(model), recipe_names(model)
        others = [name for name in self.names if (name in BITS) != (possible[0] in BITS)]
        if reason is not None or not others:
            return reason
        program = "llama-quantize" if possible[0] in BITS else "Ollama"
        return f"{others[0]} is a recipe of {program}. Of this model are {', '.join(possible)}"


class _Work:
    """What the recipes would make of a model.

    Attributes:
        estimate: What follows from headers.
        weights: How many weights there are to round, for the progress.
        failures: Tensors that could not be read and are left out, with the reason.
    """

    def __init__(self, asked: _Asked, model: Model, original: Model | None = None) -> None:
        """Read headers.

        Raises:
            ExplorerError: They are damaged, or the original is that of another model.
        """
        names = tuple(asked.names or recipe_names(model))
        request = WhatIfRequest(model, None, names, by_recipe=True, matrix=asked.matrix)
        if original is not None:
            source = SourceModel(None, original, "", match_models(original, model))
            request = replace(request, source=source)
        try:
            estimate = estimate_of(request, asked.machine)
        except PlanError as error:  # of its projector
            raise ExplorerError(str(error), model.path) from error
        if original is not None and not estimate.against_source:
            raise ExplorerError("has no tensor that matches one of the model", original.path)
        tasks = {name: some for name, some in estimate.tasks.items() if name != PRESENT}
        self.estimate = replace(estimate, tasks=tasks)
        self._asked, self._cache = asked, WhatIfCache(LruCache(_MOST_TASKS))
        missing = self.estimate.missing(self._cache)
        self.weights = sum(task.tensor_set.parameters for task in missing)
        self.failures: Sequence[tuple[str, ExplorerError]] = ()

    def trials(self, progress: Callable[[int], object]) -> list[Trial]:
        """Round what is not kept, and return the rows of the table.

        Args:
            progress: Called with the weights that are done.

        Raises:
            ExplorerError: The importance matrix is that of another model.
        """
        errors: Mapping[str, TypeErrors] = {}
        if self._asked.measured:
            found = measure(
                *(self.estimate, self._cache, self._asked.workers),
                progress=lambda done, _state: progress(done),
            )
            errors, self.failures = found.errors, found.failures
        trials = trials_of(self.estimate, errors)[1:]
        return [
            replace(one, roles=self.estimate.roles(one.title, self._cache))
            for one in with_front(trials)
        ]


def _try_each(
    stack: ExitStack,
    asked: _Asked,
    about: Mapping[str, str | None],
    files: output.TableFiles,
    *,
    as_json: bool,
) -> int:
    """Try recipes on each model of a folder that is not quantized, and show one table."""
    skipped: list[tuple[Path, str]] = []
    notes: dict[str, None] = {}

    def prepare(model: Model) -> tuple[int, _Work] | None:
        quantized = any(kind.quantized for kind in model.tensors.columns.types)
        reason = "quantized already" if quantized else asked.refusal(model)
        if reason is not None:
            skipped.append((model.path, reason))
            return None
        notes[words.about_trials(model)] = None
        work = _Work(asked, model)
        return work.weights, work

    files.check()
    folder = Path(str(about["folder"]))
    models, works = opened(stack, models_in(folder), prepare)
    if not models:
        path, reason = skipped[0] if skipped else (folder, "no whole model")
        raise ExplorerError(f"holds nothing to try recipes on; {path.name}: {reason}", folder)
    tried: dict[int, list[Trial]] = {}
    with output.Progress(sum(weights for weights, _ in works.values())) as line:
        for place, (_, work) in works.items():
            try:
                tried[place] = work.trials(line.counter(models[place].model))
                problems = [error for _, error in work.failures]
            except ExplorerError as error:
                problems = [error]
            if problems:
                models[place] = replace(models[place], problem=problems[0].what)
    weighted = asked.matrix is not None
    described, trials = folder_trials_table(weighted=weighted), trials_table(weighted=weighted)
    rows = [FolderTrial(model, row) for n, model in enumerate(models) for row in tried.get(n, ())]
    rows += [FolderTrial(model, None) for n, model in enumerate(models) if n not in tried]
    files.save(described.names, map(described.flat, rows))
    if as_json:
        present = {place: work.estimate.present for place, (_, work) in works.items()}
        records = [
            {"model": model.model, "path": model.path, "problem": model.problem}
            | _trials_record(present.get(place), tried.get(place, ()), trials)
            for place, model in enumerate(models)
        ]
        left_out = [{"path": str(path), "reason": reason} for path, reason in skipped]
        more = {"models": records, "skipped": left_out, "notes": [*notes, ABOUT_ERRORS]}
        output.write_json({**about, **more})
    else:
        estimates = [work.estimate for _, work in works.values()]
        output.write(output.table_of(described, rows) + _planned(estimates))
        output.write("".join(map(_paragraph, [*notes, ABOUT_ERRORS])))
        for reason in dict.fromkeys(reason for _, reason in skipped):
            names = ", ".join(path.name for path, why in skipped if why == reason)
            output.write(_paragraph(plain_text(f"Left out, {reason}: {names}")))
    return exit_code(models)


def _above(present: SizeAfter) -> str:
    bits = bits_text(present.bits_per_weight)
    return f"as it is: {bytes_text(present.nbytes)}, {bits} bits per weight\n\n"


def _machine(gpus: Sequence[Device], context: int | None) -> PlanInputs:
    devices, host, _ = find_machine(gpus, None)
    inputs = PlanInputs(devices=tuple(devices), host=host)
    return inputs if context is None else inputs.with_settings(context=context)


def _paragraph(text: str) -> str:
    return f"\n{output.wrapped(text)}\n"


def _planned(estimates: Sequence[WhatIfEstimate]) -> str:
    """Return what memory is planned for, or why there are no plans."""
    contexts = sorted({plan.context for one in estimates for plan in one.plans.values()})
    if contexts:
        text = " or ".join(map(integer_text, contexts))
        return f"\nMemory is planned for {text} tokens of context.\n"
    reasons = dict.fromkeys(one.plan_problem for one in estimates)
    return "".join(_paragraph(f"There is no memory plan: {plain_text(why)}.") for why in reasons)


def _after(
    trials: Sequence[Trial], failures: Sequence[tuple[str, ExplorerError]], notes: Sequence[str]
) -> str:
    """Return what stands below the rows: the front, errors by role, notes."""
    parts = []
    made = [one for one in trials if one.size.problem is None]
    front = sorted((one for one in made if one.front), key=lambda one: one.size.bits_per_weight)
    if front:
        names = ", ".join(one.title for one in front)
        parts.append(output.heading("Not beaten in size and error") + f"  {names}\n")
    for one in made if len(made) <= _SHOWN_ROLES else ():
        body = output.table_of(ROLES, one.roles)
        parts.append(output.heading(f"{one.title} by role") + body)
    parts += map(_paragraph, notes)
    for name, error in failures:
        parts.append(f"\nLeft out: {plain_text(name)}: {plain_text(error.what)}\n")
    return "".join(parts)


def _trials_record(
    present: SizeAfter | None, trials: Sequence[Trial], described: Table[Trial]
) -> dict[str, Any]:
    """Return what JSON says of a model: as it is, if it can be read, and by recipe."""
    return {
        "parameters": present and present.parameters,
        "bytes": present and present.nbytes,
        "file_bytes": present and present.file_nbytes,
        "bits_per_weight": present and present.bits_per_weight,
        "recipes": list(map(described.record, trials)),
    }
