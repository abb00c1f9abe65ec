"""`gguf-explorer inspect --recipe`: the types of a model by role beside llama.cpp's recipes."""

from __future__ import annotations

from typing import Any, Final

from explorer.analysis.recipes.fits import (
    compare_with_recipes,
    rules_source,
    type_mix,
    why_not_compared,
)
from explorer.analysis.recipes.rules import declared_recipe
from explorer.cli import output
from explorer.formats import Model
from explorer.present import recipes
from explorer.present.tables.recipes import FITS, MIX
from explorer.text import integer_text

_LONGEST_ROLE: Final = 48
_SHOWN_FITS: Final = 6
_SHOWN_DIFFERENCES: Final = 12
_SHOWN_ROLES: Final = 200


def recipes_record(model: Model) -> dict[str, Any]:
    """Return the type mix by role, and how well each recipe of llama-quantize agrees with it."""
    fits = compare_with_recipes(model)
    return {
        "declared": declared_recipe(model),
        "verdict": recipes.verdict(model, fits),
        "not_applicable": why_not_compared(model),
        "rules": rules_source(model),
        "fits": [FITS.record(fit) for fit in fits],
        "type_mix": [MIX.record(row) for row in type_mix(model)],
    }


def recipes_text(model: Model) -> str:
    """Return the verdict, the recipes that agree best, and the type mix by role."""
    fits = compare_with_recipes(model)
    parts = [output.heading("Recipe"), f"  {recipes.verdict(model, fits)}\n"]
    if fits:
        parts += ["\n", output.table_of(FITS, recipes.shown_fits(fits, _SHOWN_FITS))]
        found = recipes.differences(fits, _SHOWN_DIFFERENCES)
        if found.lines:
            parts.append(f"  Not as {found.recipe} has it:\n")
            parts += [f"    {line}\n" for line in found.lines]
        if found.more:
            parts.append(f"    … and {integer_text(found.more)} more groups of tensors\n")
        parts.append(f"  Rules: {rules_source(model)}\n")
    parts.append(output.heading(MIX.title))
    parts.append(output.table_of(MIX, type_mix(model), _LONGEST_ROLE, _SHOWN_ROLES))
    return "".join(parts)
