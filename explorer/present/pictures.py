"""What a picture shows, as one sentence: for screen readers, and for *Copy as text*."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.present.curves import Curves
from explorer.text import counted, float_text, integer_text, percent_text, plain_text

_SINGULAR: Final = {"minima": "minimum"}


def histogram_sentence(
    counts: NDArray[np.int64], edges: NDArray[np.float64], outside: int, unit: str = "weights"
) -> str:
    """Say how many lie where: range, middle half and fullest bin.

    Args:
        counts: What lies in each bin, int64 [bins].
        edges: Edges of the bins, float64 [bins + 1], rising.
        outside: How many lie in no bin.
        unit: What is counted, in the plural.
    """
    inside, many = int(counts.sum()), unit.lower()
    if not inside:
        return ""
    ends = edges[[0, -1]].tolist()
    sums = np.cumsum(counts)
    quarters = np.searchsorted(sums, [inside / 4, inside * 3 / 4])
    low, high = float(edges[quarters[0]]), float(edges[quarters[1] + 1])
    most = int(np.argmax(counts))
    one = _SINGULAR.get(many, many.removesuffix("s"))
    parts = [
        f"{counted(inside, one, many)} from {float_text(ends[0], 4)} to {float_text(ends[1], 4)}",
        f"half of them from about {float_text(low, 3)} to {float_text(high, 3)}",
        f"most, {percent_text(int(counts[most]) / inside)}, from "
        f"{float_text(float(edges[most]), 4)} to {float_text(float(edges[most + 1]), 4)}",
    ]
    if inside == 1:
        del parts[1]
    if outside:
        parts.append(f"{integer_text(outside)} more outside")
    return sentence(parts)


def curves_sentence(curves: Curves) -> str:
    """Say what each curve begins and ends with, and up to where everything fits."""
    parts = []
    for curve in curves.curves:
        known = np.flatnonzero(curve.totals >= 0)
        if not known.size:
            continue
        ends = [
            f"{curves.text(int(curve.totals[at]))} at {curves.axis.text(int(curve.contexts[at]))}"
            for at in known[[0, -1]]
        ]
        fitting = np.flatnonzero(curve.fits)
        fits = ""
        if fitting.size and (last := fitting[-1]) != known[-1]:
            fits, not_at = (curves.axis.text(int(n)) for n in curve.contexts[last : last + 2])
            fits = f", {curves.where[0]} at {fits}, no longer at {not_at}"
        parts.append(f"{plain_text(curve.cache_type)} from {ends[0]} to {ends[1]}{fits}")
    return sentence(parts, curves.kind.title)


def extremes_sentence(
    title: str, values: NDArray[np.float64], name_of: Callable[[int], str]
) -> str:
    """Say which of some named figures is the least and which the greatest.

    Args:
        title: What the figures are.
        values: float64 [n]; NaN where nothing is known.
        name_of: Returns one by its place, with its figure, as in "4.2 % in ffn_down of layer 3".
    """
    known = np.flatnonzero(np.isfinite(values))
    if not known.size:
        return ""
    least, most = (name_of(int(known[at(values[known])])) for at in (np.argmin, np.argmax))
    return f"{title}: from {least} to {most}."


def density_sentence(pairs: int, apart: int) -> str:
    """Say how many pairs of original and rounded weights lie apart from the diagonal."""
    if not pairs:
        return ""
    share = percent_text(apart / pairs)
    return f"{integer_text(pairs)} pairs of weights; {share} lie off the diagonal of equal ones."


def block_sentence(values: NDArray[np.float32]) -> str:
    """Say how many weights a block has, and from where to where they go."""
    if not values.size:
        return ""
    low, high = (float_text(float(end), 4) for end in (values.min(), values.max()))
    return f"{counted(values.size, 'weight')} from {low} to {high}."


def sentence(parts: Iterable[str], title: str = "") -> str:
    """Join what is said of a picture, behind its title; "" of nothing."""
    said = "; ".join(filter(None, parts))
    if not said:
        return ""
    return f"{title}: {said}." if title else f"{said}."
