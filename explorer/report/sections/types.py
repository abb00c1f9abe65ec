"""What is stored as which type, and which recipe that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from explorer.analysis.recipes import CURRENT, RULES_SOURCE, MixRow, RecipeFit, deviation_text
from explorer.analysis.recipes.fits import percent_text
from explorer.report.components import cut, details, figure, paragraph, section, table
from explorer.report.elements import Element, element
from explorer.report.gathering import Evidence
from explorer.report.pictures.bars import Bar, Part, draw_bars
from explorer.report.pictures.drawing import legend
from explorer.report.pictures.palette import OTHER, SERIES, colours_of
from explorer.text import bytes_text, count_text, float_text, integer_text

_SHOWN_ROLES: Final = 24
_OTHERS: Final = "other types"
_SHOWN_FITS: Final = 10
_SHOWN_DEVIATIONS: Final = 20


def types(evidence: Evidence) -> Element:
    """Return the type mix by role, and how the recipes agree with it."""
    return section(
        "types", "Tensor types", _mix(evidence), element("h3", "Recipe"), *_recipes(evidence)
    )


def _mix(evidence: Evidence) -> Element:
    totals = evidence.model.tensors.totals_by_type
    colours = colours_of(list(totals)[: len(SERIES)])
    by_type = [(name, total.nbytes) for name, total in totals.items()]
    whole = Bar("whole model", _parts(by_type, colours), bytes_text(evidence.model.nbytes))
    roles = [(role, list(rows)) for role, rows in groupby(evidence.mix, lambda row: row.role)]
    bars = [_bar(role, rows, colours) for role, rows in roles[:_SHOWN_ROLES]]
    left = len(roles) - len(bars)
    more = f" {integer_text(left)} smaller roles are in the table only." if left > 0 else ""
    rows = (
        (
            cut(row.role),
            cut(row.type),
            integer_text(row.tensors),
            count_text(row.parameters),
            bytes_text(row.nbytes),
            float_text(row.bits_per_weight, 4),
        )
        for row in evidence.mix
    )
    head = ("role", "type", "tensors", "parameters", "bytes", "bits per weight")
    data = table(head, rows, total=len(evidence.mix), numbers=(2, 3, 4, 5), names=(0,))
    entries = [(cut(name, 40), colour) for name, colour in colours.items()]
    if len(totals) > len(colours):
        entries.append((_OTHERS, OTHER))
    return element(
        "div",
        legend(entries),
        figure(draw_bars("Bytes by type", [whole]), "Bytes of the whole model by type."),
        figure(
            draw_bars("Bytes by role and type", bars),
            f"Bytes of each role by type.{more}",
            details("Data of both pictures", data),
        ),
    )


def _bar(role: str, rows: Sequence[MixRow], colours: Mapping[str, str]) -> Bar:
    nbytes, weights = sum(row.nbytes for row in rows), sum(row.parameters for row in rows)
    bits = f", {float_text(8 * nbytes / weights, 3)} bits" if weights else ""
    parts = _parts([(row.type, row.nbytes) for row in rows], colours)
    return Bar(cut(role, 60), parts, f"{bytes_text(nbytes)}{bits}")


def _parts(by_type: Sequence[tuple[str, int]], colours: Mapping[str, str]) -> list[Part]:
    """Return the parts of a bar in the order of the colours; types without one are together."""
    amounts: dict[str, int] = dict.fromkeys(colours, 0)
    for name, nbytes in by_type:
        known = name if name in colours else _OTHERS
        amounts[known] = amounts.get(known, 0) + nbytes
    return [
        Part(cut(name, 40), amount, bytes_text(amount), colours.get(name, OTHER))
        for name, amount in amounts.items()
        if amount
    ]


def _recipes(evidence: Evidence) -> list[Element]:
    fits = evidence.fits
    found = [paragraph(evidence.recipe_verdict, "verdict")]
    if not fits:
        return found
    declared = next((fit for fit in fits if fit.declared), fits[0])
    shown = [fit for place, fit in enumerate(fits) if place < _SHOWN_FITS or fit.declared]
    rows = [_fit(fit) for fit in shown]
    marked = [number for number, fit in enumerate(shown) if fit.declared]
    head = ("recipe", "weights that agree", "bytes by it", "bits per weight", "remarks")
    found.append(table(head, rows, numbers=(1, 2, 3), marked=marked))
    deviations = declared.deviations
    if deviations:
        lines = [element("li", deviation_text(one)) for one in deviations[:_SHOWN_DEVIATIONS]]
        left = len(deviations) - len(lines)
        if left:
            lines.append(element("li", f"and {integer_text(left)} more groups of tensors"))
        title = f"What is not as {declared.recipe} has it"
        found.append(details(title, element("ul", *lines)))
    found.append(paragraph(f"Rules: {RULES_SOURCE}", "faint"))
    return found


def _fit(fit: RecipeFit) -> tuple[str, ...]:
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
