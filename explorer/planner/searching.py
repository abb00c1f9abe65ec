"""The largest value that fits, of plans that only grow with it and of plans that do not.

Every answer comes from plans themselves, never from a formula solved for the unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from explorer.planner.plans import Trial

MOST_TRIALS: Final = 20_000
"""With one GPU, some seconds' worth; with more GPUs, so many fewer, as each takes longer.

Nearly all questions take some hundred. Eight uneven GPUs, some of them left out, may take more.
"""

_FIRST_TRIAL: Final = 16  # small, for what does not fit there needs no further look


# Of plans that only grow


def largest_held(
    room: Callable[[int], int | None], most: int, known: tuple[int, int] | None = None
) -> int:
    """Return the largest value from 1 to `most` that has room; 0 if none has.

    What a plan takes grows in proportion to a context, or as the largest of several such things
    does. So the line through two values that have room ends near the answer, or above it; before
    two are known, the line between the ends of the range does. Every fourth step halves the range,
    for what bends otherwise.

    Args:
        room: The bytes that are left at a value; never grows with it. None or negative: no room.
        most: The largest value.
        known: A value that has room, and the bytes that are left there.
    """
    if known is not None and known[0] >= most:
        return most
    above = room(most)
    if above is not None and above >= 0:
        return most
    below: int | None
    (low, below), high, steps = known or (0, None), most, 0
    slower: tuple[int, int] | None = None  # a rise, and what room it takes
    while high - low > 1:
        steps += 1
        value = (low + high) // 2
        if steps % 4 and below is not None and above is not None:
            guess = low + (high - low) * below // max(1, below - above)
            if slower is not None and slower[1] > 0:
                farther = low + slower[0] * below // slower[1]
                guess = farther if farther < high else guess
            value = min(max(guess, low + 1), high - 1)
        elif steps == 1:
            value = max(low + 1, min(_FIRST_TRIAL, value))
        elif steps == 2 and below is None:
            value = low + 1  # where even the least has no room, as a rule, that ends it
        left = room(value)
        if left is not None and left >= 0:
            if below is not None:
                slower = value - low, below - left
            low, below = value, left
        else:
            high, above = value, left
    return low


# Of plans that need not grow. A longer context can move a model to another library, or change how
# many GPUs are charged with a graph, so bisection alone could be wrong, and trying each of 131,072
# contexts takes half a minute. But all that such a plan compares grows. So a comparison with one
# outcome at both ends of a range has it throughout, as long as all comparisons before it do: ranges
# are halved until the decisions at their ends agree, the upper half first.


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search."""

    value: int | None  # the largest value that fits, or None
    # Whether it surely is the largest. If not, the search was cut short: the value fits and the one
    # above it does not, but a still larger one might.
    exact: bool = True


def largest(
    attempt: Callable[[int], Trial], low: int, high: int, most_trials: int = MOST_TRIALS
) -> Found:
    """Return the largest value from low to high that fits.

    Args:
        attempt: Tries a value; called once for each.
        low: The smallest value.
        high: The largest value.
        most_trials: How often to try before settling for a bisection.
    """
    known: dict[int, Trial] = {}
    least = low

    def ask(value: int) -> Trial:
        if value not in known:
            known[value] = attempt(value)
        return known[value]

    ranges = [(low, high)]
    while ranges:
        low, high = ranges.pop()
        if ask(low).is_hopeless:
            continue
        if ask(high).fits:
            return Found(high)
        if ask(low).decisions == ask(high).decisions:
            continue  # decided alike, and the upper end does not fit
        if high - low == 1:
            if ask(low).fits:
                return Found(low)
            continue
        if len(known) > most_trials:
            return Found(_bisect(ask, least, high), exact=False)
        middle = (low + high) // 2
        ranges += [(low, middle), (middle, high)]
    return Found(None)


def _bisect(ask: Callable[[int], Trial], low: int, high: int) -> int | None:
    """Return a value that fits, below one that does not; None if the least does not fit."""
    if not ask(low).fits:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ask(middle).fits else (low, middle)
    return low
