"""Types by role and recipes of a model, as rows of tables for the command line and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from explorer.analysis.recipes import CURRENT, MixRow, RecipeFit, deviation_text
from explorer.analysis.recipes.fits import percent_text
from explorer.text import bytes_text, count_text, float_text, integer_text

MIX_HEAD: Final = ("role", "type", "tensors", "parameters", "bytes", "bits per weight")
FIT_HEAD: Final = ("recipe", "weights that agree", "bytes by it", "bits per weight", "remarks")


def mix_cells(row: MixRow) -> tuple[str, ...]:
    """Return the cells below `MIX_HEAD`; role and type come from the file and are not escaped."""
    return (
        row.role,
        row.type,
        integer_text(row.tensors),
        count_text(row.parameters),
        bytes_text(row.nbytes),
        float_text(row.bits_per_weight, 4),
    )


def fit_cells(fit: RecipeFit) -> tuple[str, ...]:
    """Return the cells below `FIT_HEAD`."""
    remarks = ["what the file says it is"] if fit.declared else []
    if fit.revision is not CURRENT:
        remarks.append(f"by the rules {fit.revision.name}")
    if fit.imatrix is not None:
        remarks.append(f"{'with' if fit.imatrix else 'without'} an importance matrix")
    return (
        fit.recipe,
        percent_text(fit.share),
        bytes_text(fit.nbytes),
        float_text(8 * fit.nbytes / fit.parameters, 4) if fit.parameters else "",
        ", ".join(remarks),
    )


def shown_fits(fits: Sequence[RecipeFit], count: int) -> list[RecipeFit]:
    """Return the best recipes, and the declared one wherever it stands."""
    return [fit for place, fit in enumerate(fits) if place < count or fit.declared]


class Differences(NamedTuple):
    """How a model differs from its declared recipe, or from the best one.

    Attributes:
        recipe: That recipe.
        lines: The largest differences, as sentences.
        more: Number of groups of tensors that are left out.
    """

    recipe: str
    lines: list[str]
    more: int


def differences(fits: Sequence[RecipeFit], count: int) -> Differences:
    """Return at most `count` differences; `fits` is not empty."""
    fit = next((fit for fit in fits if fit.declared), fits[0])
    lines = [deviation_text(one) for one in fit.deviations[:count]]
    return Differences(fit.recipe, lines, len(fit.deviations) - len(lines))
