"""`gguf-explorer recipes`: what llama-quantize would make of a whole model, by each recipe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import click

from explorer.analysis.importance import importance_for, known_names, open_matrix
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.recipes.fits import (
    RecipeTrial,
    recipe_names,
    recipe_size,
    trial_tasks,
    try_recipes,
    types_by_recipes,
    why_no_recipe,
)
from explorer.analysis.recipes.ollama import BITS
from explorer.analysis.recipes.rules import RECIPES
from explorer.analysis.what_if import (
    PRESENT,
    SizeAfter,
    TaskErrors,
    TensorSet,
    matrix_rows,
    original_sets,
    own_sets,
    present_size,
    weighed,
)
from explorer.cli import options, output
from explorer.cli.machine import find_machine, gpu_option
from explorer.errors import ExplorerError, PlanError
from explorer.formats import Model, open_model
from explorer.formats.weights import Values
from explorer.planner import Device
from explorer.planner.devices import parse_context
from explorer.planner.inputs import PlanInputs, PlannedMemory, completed, memory_plans
from explorer.present import recipes as words
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.tables.recipes import ROLES, trials_table
from explorer.text import bits_text, bytes_text, integer_text, plain_text

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


def _names_for(model: Model, wanted: list[str]) -> Sequence[str]:
    possible = recipe_names(model)
    others = [name for name in wanted if (name in BITS) != (possible[0] in BITS)]
    if others:
        program = "llama-quantize" if possible[0] in BITS else "Ollama"
        raise ExplorerError(
            f"{others[0]} is a recipe of {program}. Of this model are {', '.join(possible)}",
            model.path,
        )
    return wanted or possible


@click.command("recipes")
@options.path_argument
@click.option(
    "names",
    "--recipe",
    multiple=True,
    metavar="NAME[,NAME…]",
    callback=_recipe_names,
    help="Recipes of llama-quantize (Q4_K_M), or of Ollama (int4). Default: all that quantize.",
)
@click.option(
    "original_path",
    "--original",
    type=click.Path(),
    metavar="PATH",
    help="Round the weights of this model, which PATH was made of.",
)
@click.option(
    "matrix_path",
    "--imatrix",
    type=click.Path(),
    metavar="FILE",
    help="Importance matrix of llama.cpp, in GGUF. Some recipes need one.",
)
@click.option("--errors/--no-errors", default=True, help="Round all weights, or count bytes alone.")
@gpu_option("Plan memory for this GPU, as in `plan`. Once for each. Default: this machine's.")
@click.option(
    "context",
    "--context",
    metavar="N",
    type=options.parsed_by(parse_context),
    help="Plan memory for so many tokens.",
)
@options.csv_option
@options.parquet_option
@options.workers_option
@options.root_option
@options.fetch_option
@options.json_option
def recipes_command(  # noqa: PLR0913 - one for each option
    path: str,
    *,
    names: list[str],
    original_path: str | None,
    matrix_path: str | None,
    errors: bool,
    gpus: Sequence[Device],
    context: int | None,
    csv_path: Path | None,
    parquet_path: Path | None,
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
    weights that it was made of instead. All recipes of a model of 8 billion weights take hours:
    name some.

    \b
    Examples:
      gguf-explorer recipes model-f16.gguf --recipe Q4_K_M,Q5_K_M,IQ4_XS
      gguf-explorer recipes model-f16.gguf --no-errors
      gguf-explorer recipes FOLDER --recipe int4,mxfp8
      gguf-explorer recipes model-f16.gguf --imatrix imatrix.gguf --recipe IQ2_M --json
    """
    files = output.TableFiles(csv_path, parquet_path)
    described = trials_table(weighted=matrix_path is not None)
    with ExitStack() as stack:
        model = stack.enter_context(open_model(options.model_path(path, root)))
        reason = why_no_recipe(model)
        if reason is not None:
            raise ExplorerError(reason, model.path)
        matrix = None
        if matrix_path is not None:
            matrix = stack.enter_context(open_matrix(options.model_path(matrix_path)))
        original = _original(stack, original_path)
        files.check()
        options.agree_to_fetch((model if original is None else original,), fetch or not errors)
        sets = _sets(model, original, matrix)
        known = None if matrix is None else known_names(matrix)
        recipes = list(types_by_recipes(model, _names_for(model, names), known))
        present = present_size(model, range(model.tensors.main_rows))
        sized = [(one.recipe, recipe_size(model, present, sets, one)) for one in recipes]
        kinds = {name: size.types for name, size in sized if size.problem is None}
        inputs = _inputs(model, gpus, context)
        plans = memory_plans(model, inputs, {PRESENT: {}, **kinds}, lambda: None)
        kept = TaskErrors(model, original, partial(_importance, model, matrix))
        weights = sum(task.tensor_set.parameters for task in trial_tasks(sets, recipes))
        with output.Progress(weights) as line:
            found = try_recipes(
                *(model, present, sets, recipes, kept, workers),
                measured=errors,
                progress=line.counter("rounding"),
            )
    rows = words.tried(model, found, plans[0])
    files.save(described.names, map(described.flat, rows))
    if as_json:
        about = {"path": path, "original": original_path, "imatrix": matrix_path}
        output.write_json(words.trials_record(about, present, rows, words.about_trials(model)))
    else:
        output.write(_above(present) + output.table_of(described, rows))
        output.write(_after(found, *plans, words.about_trials(model)))
    return 0


def _above(present: SizeAfter) -> str:
    bits = bits_text(present.bits_per_weight)
    return f"as it is: {bytes_text(present.nbytes)}, {bits} bits per weight\n\n"


def _original(stack: ExitStack, path: str | None) -> Model | None:
    return None if path is None else stack.enter_context(open_model(options.model_path(path)))


def _sets(model: Model, original: Model | None, matrix: Model | None) -> list[TensorSet]:
    rows = matrix_rows(model)
    sets = own_sets(model, rows)
    if original is not None:
        sets = original_sets(model, rows, match_models(original, model))
        if not sets:
            raise ExplorerError("has no tensor that matches one of the model", original.path)
    return sets if matrix is None else weighed(model, sets, known_names(matrix))


def _importance(model: Model, matrix: Model | None, one: TensorSet) -> Values | None:
    if matrix is None:
        return None
    return importance_for(matrix, model.tensors.columns.names[one.rows[0]], one.original)


def _inputs(model: Model, gpus: Sequence[Device], context: int | None) -> PlanInputs:
    devices, host, _ = find_machine(gpus, None)
    inputs = PlanInputs(devices=tuple(devices), host=host)
    if context is not None:
        inputs = inputs.with_settings(context=context)
    try:
        return completed(inputs, model)
    except PlanError as error:
        raise ExplorerError(str(error), model.path) from error


def _after(
    found: Sequence[RecipeTrial], plans: dict[str, PlannedMemory], no_plan: str, about: str
) -> str:
    """Return what stands below the rows: the front, errors by role, notes."""
    parts = []
    made = [one for one in found if one.recipe.problem is None]
    if plans:
        context = integer_text(next(iter(plans.values())).context)
        parts.append(f"\nMemory is planned for {context} tokens of context.\n")
    elif made:
        parts.append(f"\nThere is no memory plan: {plain_text(no_plan)}.\n")
    front = words.front_of(made)
    if front:
        parts.append(output.heading("Not beaten in size and error") + f"  {', '.join(front)}\n")
    for one in made if len(made) <= _SHOWN_ROLES else ():
        body = output.table_of(ROLES, one.roles)
        parts.append(output.heading(f"{one.recipe.recipe} by role") + body)
    parts += [f"\n{output.wrapped(note)}\n" for note in (about, ABOUT_ERRORS)]
    for name, error in {pair for one in found for pair in one.failures}:
        parts.append(f"\nLeft out: {plain_text(name)}: {plain_text(error.what)}\n")
    return "".join(parts)
