"""The largest value of a setting that still fits, found exactly.

A layout need not behave monotonically: a longer context can move a model to another library, or
change how many GPUs are charged with a graph. So bisection alone could be wrong, and trying each of
131,072 contexts takes half a minute. What helps is that all quantities which a layout compares are
monotone in the context (and in the number of sequences): sizes of layers, buffer and graph never
fall, so what is left on a GPU never rises. Then fewer layers fit on the same GPUs, never more. (Of
gptoss the graph falls where the cache grows from nothing to 6 bytes; no context is so small.)

- A comparison with one outcome at both ends of a range has it throughout, as long as all
  comparisons before it do. Hence two layouts with equal traces of decisions enclose a range in
  which every layout decides alike, and which fits throughout or nowhere. So ranges are halved
  until their ends agree, the upper half first.
- A layout of which one pass does not place all layers does not fit: later passes have less room.
  The trace ends there.
- Which GPUs a pass charges with a graph follows from few comparisons, unless a GPU may be left out;
  only then every step of the search for the capacity factor is in the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from explorer.planner.fitting import Trace

MOST_LAYOUTS: Final = 20_000
"""With one GPU, some seconds' worth; with more GPUs, so many fewer, as each takes longer.

Nearly all questions take some hundred. Eight uneven GPUs, some of them left out, may take more.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a value.

    Attributes:
        fits: Whether it fits.
        trace: Every decision on the way.
    """

    fits: bool
    trace: Trace


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search.

    Attributes:
        value: The largest value that fits, or None.
        exact: Whether it surely is the largest. If not, the search was cut short: the value fits
            and the one above it does not, but a still larger one might.
    """

    value: int | None
    exact: bool = True


def largest(
    outcome: Callable[[int], Outcome],
    hopeless: Callable[[int], bool],
    low: int,
    high: int,
    most_layouts: int = MOST_LAYOUTS,
) -> Found:
    """Return the largest value from low to high that fits.

    Args:
        outcome: What becomes of a value; asked once for each.
        hopeless: Whether neither a value nor any above it can fit; may say no when unsure.
        low: The least value.
        high: The most.
        most_layouts: How often to ask before settling for a bisection.
    """
    known: dict[int, Outcome] = {}
    least = low

    def ask(value: int) -> Outcome:
        if value not in known:
            known[value] = outcome(value)
        return known[value]

    ranges = [(low, high)]
    while ranges:
        low, high = ranges.pop()
        if hopeless(low):
            continue
        if ask(high).fits:
            return Found(high)
        if ask(low).trace == ask(high).trace:
            continue  # decided alike, and the upper end does not fit
        if high - low == 1:
            if ask(low).fits:
                return Found(low)
            continue
        if len(known) > most_layouts:
            return Found(_bisect(ask, least, high), exact=False)
        middle = (low + high) // 2
        ranges += [(low, middle), (middle, high)]
    return Found(None)


def _bisect(ask: Callable[[int], Outcome], low: int, high: int) -> int | None:
    """Return a value that fits, below one that does not; None if the least does not fit."""
    if not ask(low).fits:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if ask(middle).fits:
            low = middle
        else:
            high = middle
    return low
