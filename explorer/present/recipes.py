"""Types by role and recipes of a model: a verdict in a sentence, and rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from explorer.analysis.recipes.fits import Deviation, RecipeFit, expected_types, why_not_compared
from explorer.analysis.recipes.ollama import SOURCE
from explorer.analysis.recipes.rules import EARLIER, RECIPES, RecipeError, declared_recipe
from explorer.analysis.recipes.tensors import RecipeModel
from explorer.formats.model import Model
from explorer.present.tables.table import layer_runs
from explorer.text import part_text, plain_text, sentence, shorten

_SHOWN_DEVIATIONS: Final = 2
_LONGEST_ROLE: Final = 60


def shown_fits(fits: Sequence[RecipeFit], count: int) -> list[RecipeFit]:
    """Return the best recipes, and the declared one wherever it stands."""
    return [fit for place, fit in enumerate(fits) if place < count or fit.declared]


class Differences(NamedTuple):
    """How a model differs from its declared recipe, or from the best one."""

    recipe: str  # that recipe
    lines: list[str]  # the largest differences, as sentences
    more: int  # number of groups of tensors that are left out


def differences(fits: Sequence[RecipeFit], count: int) -> Differences:
    """Return at most `count` differences; `fits` is not empty."""
    fit = next((fit for fit in fits if fit.declared), fits[0])
    lines = [deviation_text(one) for one in fit.deviations[:count]]
    return Differences(fit.recipe, lines, len(fit.deviations) - len(lines))


def verdict(model: Model, fits: Sequence[RecipeFit]) -> str:
    """Return a sentence: what the file says it is, and what is in it. Safe to show."""
    reason = why_not_compared(model)
    if reason is not None:
        return f"{sentence(reason)}."
    label = declared_recipe(model)
    declared = next((fit for fit in fits if fit.declared), None)
    if declared is not None:
        better = ""
        if fits[0].agreeing > declared.agreeing:
            share = part_text(fits[0].share)
            better = f" {fits[0].recipe} agrees better, with {share} of the weights."
        return f"The file says {label}, and {_finding(declared)}.{better}"
    best = f" The closest recipe is {fits[0].recipe}: {_finding(fits[0])}." if fits else ""
    if label is None:
        return f"The file does not say which recipe it was made by.{best}"
    if label in RECIPES:
        return f"The file says {label}, but {_refusal(model, label)}.{best}"
    return f"The file says {shorten(plain_text(label), 80)}, for which no rule is known.{best}"


def _finding(fit: RecipeFit) -> str:
    parts = [f"as it was {EARLIER.name}"] if fit.revision is EARLIER else []
    parts += ["with an importance matrix"] if fit.imatrix else []
    variant = f" ({', '.join(parts)})" if parts else ""
    rule = f"the type that {fit.by}'s {fit.recipe} rule{variant} gives"
    if not fit.deviations:
        return f"every weight has {rule}"
    shown = "; ".join(map(deviation_text, fit.deviations[:_SHOWN_DEVIATIONS]))
    left = len(fit.deviations) - _SHOWN_DEVIATIONS
    more = f", and {left} more such groups differ" if left > 0 else ""
    return f"{part_text(fit.share)} of the weights have {rule}. {shown}{more}"


def _refusal(model: Model, label: str) -> str:
    tensors = RecipeModel.of(model)
    try:
        expected_types(tensors, RECIPES[label], imatrix=tensors.imatrix)
    except RecipeError as error:
        return error.what
    return "that recipe was not compared"


def deviation_text(deviation: Deviation) -> str:
    """Return ``"ffn_down of layers 3–7 is Q8_0 instead of Q6_K"``. Safe to show."""
    role = shorten(plain_text(deviation.role), _LONGEST_ROLE)
    where = f" of {layers_text(deviation.layers)}" if deviation.layers else ""
    instead = f"instead of {deviation.expected}"
    if deviation.expected is None:
        instead = "though the recipe leaves it unquantized"
    return f"{role}{where} is {plain_text(deviation.present)} {instead}"


def layers_text(layers: Sequence[int]) -> str:
    """Return ``"layer 3"`` or ``"layers 0, 3–7"``; very scattered ones are only counted."""
    runs = layer_runs(layers)
    return runs if runs.endswith("layers") else f"layer{'s' if len(layers) > 1 else ''} {runs}"


# What llama-quantize would make of a model.

_ABOUT_TRIALS: Final = (
    "Types are those that llama-quantize of build 11434 gives, its fallbacks for rows that hold no "
    "whole blocks included. Norms, biases and what it leaves alone keep their types, and "
    "are in no error. An importance matrix steers the search for scales, and errors are given "
    "weighted by it, too. Without one all weights count alike."
)


def about_trials(model: Model) -> str:
    """Return what is shown wherever recipes are tried."""
    if model.format == "gguf":
        return _ABOUT_TRIALS
    rest = "What it leaves alone keeps its type, and is in no error."
    return f"Types are those of `ollama create --quantize`: {SOURCE} {rest}"
