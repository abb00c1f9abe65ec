"""The outcome of the comparison as a sentence for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from explorer.analysis.recipes.expected import expected_types, why_no_recipe
from explorer.analysis.recipes.fits import Deviation, RecipeFit
from explorer.analysis.recipes.revisions import EARLIER
from explorer.analysis.recipes.rules import RecipeError
from explorer.analysis.recipes.table import RECIPES, declared_recipe
from explorer.formats.model import Model
from explorer.text import fixed_text, plain_text, shorten

_SHOWN_DEVIATIONS = 2
_SHOWN_RUNS = 6
_LONGEST_ROLE = 60


def verdict(model: Model, fits: Sequence[RecipeFit]) -> str:
    """Return a sentence: what the file says it is, and what is in it. Safe to show.

    Args:
        model: The model.
        fits: What `compare_with_recipes` says of it.
    """
    reason = why_no_recipe(model)
    if reason is not None:
        return f"{reason[0].upper()}{reason[1:]}."
    label = declared_recipe(model)
    declared = next((fit for fit in fits if fit.declared), None)
    if declared is not None:
        return f"The file says {label}; {_finding(declared)}.{_better(declared, fits[0])}"
    best = f" The closest recipe is {fits[0].recipe}: {_finding(fits[0])}." if fits else ""
    if label is None:
        return f"The file does not say which recipe it was made by.{best}"
    if label in RECIPES:
        return f"The file says {label}, but {_refusal(model, label)}.{best}"
    return f"The file says {shorten(plain_text(label), 80)}, for which no rule is known.{best}"


def _finding(fit: RecipeFit) -> str:
    variant = f" ({', '.join(_variant(fit))})" if _variant(fit) else ""
    rule = f"the type that llama.cpp's {fit.recipe} rule{variant} gives"
    if not fit.deviations:
        return f"every weight has {rule}"
    shown = [deviation_text(one) for one in fit.deviations[:_SHOWN_DEVIATIONS]]
    left = len(fit.deviations) - len(shown)
    more = f"; {left} more such groups differ" if left else ""
    return f"{percent_text(fit.share)} of the weights have {rule}; {'; '.join(shown)}{more}"


def _variant(fit: RecipeFit) -> list[str]:
    parts = [f"as it was {EARLIER.name}"] if fit.revision is EARLIER else []
    return [*parts, "with an importance matrix"] if fit.imatrix else parts


def _better(declared: RecipeFit, best: RecipeFit) -> str:
    if best.agreeing <= declared.agreeing:
        return ""
    return f" {best.recipe} agrees better, with {percent_text(best.share)} of the weights."


def _refusal(model: Model, label: str) -> str:
    try:
        expected_types(model, label)
    except RecipeError as error:
        return error.what
    return "that recipe was not compared"


def percent_text(share: float) -> str:
    """Return a share in per cent; rounding makes neither a whole nor a nothing of it."""
    text = f"{100 * share:.1f}"
    if share < 1 and text == "100.0":
        return "more than 99.9 %"
    if share > 0 and text == "0.0":
        return "less than 0.1 %"
    return f"{fixed_text(100 * share, 1)} %"


def deviation_text(deviation: Deviation) -> str:
    """Return ``"ffn_down of layers 3–7 is Q8_0 instead of Q6_K"``. Safe to show."""
    role = shorten(plain_text(deviation.role), _LONGEST_ROLE)
    instead = (
        "though llama-quantize leaves it unquantized"
        if deviation.expected is None
        else f"instead of {deviation.expected}"
    )
    where = f" of {layers_text(deviation.layers)}" if deviation.layers else ""
    return f"{role}{where} is {plain_text(deviation.present)} {instead}"


def layers_text(layers: Sequence[int]) -> str:
    """Return ``"layer 3"`` or ``"layers 0, 3–7"``; very scattered ones are only counted."""
    if len(layers) == 1:
        return f"layer {layers[0]}"
    # within a run of neighbours, number minus position is the same
    runs = [
        [layer for _, layer in run]
        for _, run in groupby(enumerate(layers), lambda pair: pair[1] - pair[0])
    ]
    if len(runs) > _SHOWN_RUNS:
        return f"{len(layers)} layers"
    texts = [f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"layers {', '.join(texts)}"
