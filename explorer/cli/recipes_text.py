"""What `inspect --recipe` says, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from explorer.analysis.recipes import (
    CURRENT,
    RULES_SOURCE,
    RecipeFit,
    compare_with_recipes,
    deviation_text,
    type_mix,
    verdict,
)
from explorer.analysis.recipes.fits import percent_text
from explorer.cli.output import name_cell, style, table
from explorer.formats import Model
from explorer.text import bytes_text, count_text, float_text, integer_text, plain_text

_LONGEST_ROLE: Final = 48
_SHOWN_FITS: Final = 6
_SHOWN_DEVIATIONS: Final = 12
_SHOWN_ROLES: Final = 200


def recipes_text(model: Model) -> str:
    """Return the verdict, the recipes that agree best, and the type mix by role."""
    fits = compare_with_recipes(model)
    parts = [_heading("Recipe"), f"  {verdict(model, fits)}\n"]
    if fits:
        parts += ["\n", _fits(fits), _deviations(fits), f"  Rules: {RULES_SOURCE}\n"]
    parts += [_heading("Types by role"), _mix(model)]
    return "".join(parts)


def _heading(text: str) -> str:
    return f"\n{style(text, bold=True)}\n"


def _fits(fits: Sequence[RecipeFit]) -> str:
    """Return the best recipes, and the declared one wherever it stands."""
    shown = [fit for place, fit in enumerate(fits) if place < _SHOWN_FITS or fit.declared]
    rows = [
        (
            fit.recipe,
            percent_text(fit.share),
            bytes_text(fit.nbytes),
            float_text(8 * fit.nbytes / fit.parameters, 4) if fit.parameters else "",
            "" if fit.revision is CURRENT else fit.revision.name,
            {None: "", True: "with", False: "without"}[fit.imatrix],
            "declared" if fit.declared else "",
        )
        for fit in shown
    ]
    head = ("recipe", "agrees", "bytes by it", "bits per weight", "rules", "imatrix", "")
    return table([head, *rows], right=(1, 2, 3))


def _deviations(fits: Sequence[RecipeFit]) -> str:
    """Return what differs from the declared recipe, or from the best one."""
    fit = next((fit for fit in fits if fit.declared), fits[0])
    lines = [f"    {deviation_text(one)}\n" for one in fit.deviations[:_SHOWN_DEVIATIONS]]
    left = len(fit.deviations) - len(lines)
    if left:
        lines.append(f"    … and {integer_text(left)} more groups of tensors\n")
    return f"  Not as {fit.recipe} has it:\n{''.join(lines)}" if lines else ""


def _mix(model: Model) -> str:
    mix = type_mix(model)
    rows = [
        (
            name_cell(row.role, _LONGEST_ROLE),
            plain_text(row.type),
            integer_text(row.tensors),
            count_text(row.parameters),
            bytes_text(row.nbytes),
            float_text(row.bits_per_weight, 4),
        )
        for row in mix[:_SHOWN_ROLES]
    ]
    head = ("role", "type", "tensors", "parameters", "bytes", "bits per weight")
    more = len(mix) - len(rows)
    rest = f"  … and {integer_text(more)} more\n" if more else ""
    return table([head, *rows], right=(2, 3, 4, 5)) + rest
