"""Curves of many plans along one setting, and where a slider of that setting stops."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.planner import Hyperparameters
from explorer.planner.inputs import PlanInputs, plan_result
from explorer.planner.plans import MEMORY, CurveKind, CurveValue, Level, Plan
from explorer.present.plan import context_text
from explorer.text import bytes_text, integer_text

# The values that a slider stops at, spaced by their logarithm. A slider of Qt counts in integers
# from 0; here each of them is the place of a value.


LEAST_CONTEXT: Final = 512
MOST_CONTEXT: Final = 1 << 20
PER_OCTAVE: Final = 16
"""Stops from a context to twice that."""

MOST_REQUESTS: Final = 256
"""Most requests that a slider offers."""

_COPIES: Final = (1, 2, 4, 8)
_LEAST_SNAP: Final = 2048
_MOST_TRAINED: Final = 1 << 24  # a header may claim anything


class Stops:
    """Values in rising order; a slider's position is a place in `values`, drags snap to `snaps`.

    Attributes:
        names: What stands below the slider, by value.
        important: The value whose name goes before others; 0 for none.
        page: Positions that a page goes.
    """

    def __init__(
        self,
        values: Iterable[int],
        snaps: Iterable[int] = (),
        names: Mapping[int, str] = MappingProxyType({}),
        important: int = 0,
        page: int = 1,
    ) -> None:
        self.values = tuple(sorted(set(values)))
        known = set(self.values)
        self.snaps = tuple(snap for snap in sorted(set(snaps)) if snap in known)
        self.names = {value: name for value, name in names.items() if value in known}
        self.important, self.page = important, page

    @property
    def last(self) -> int:
        return len(self.values) - 1

    def position(self, value: int) -> int:
        """Return the position whose value is nearest, by ratio."""
        place = bisect_left(self.values, value)
        if place == 0:
            return 0
        if place > self.last:
            return self.last
        low, high = self.values[place - 1], self.values[place]
        return place if value * value >= low * high else place - 1

    def step(self, value: int, steps: int) -> int:
        """Return the value some stops further up or down; one between stops goes to the next."""
        place = bisect_left(self.values, value)
        exact = place <= self.last and self.values[place] == value
        if not exact and steps > 0:
            place -= 1
        return self.values[min(max(place + steps, 0), self.last)]


def context_stops(trained: int) -> Stops:
    """Return the contexts of a slider; it snaps to 2k, 4k, … and to the trained one (0: none)."""
    most = max(MOST_CONTEXT, min(trained, _MOST_TRAINED))
    octaves = math.ceil(math.log2(most / LEAST_CONTEXT))
    values = [
        _round(LEAST_CONTEXT * 2 ** (place / PER_OCTAVE))
        for place in range(octaves * PER_OCTAVE + 1)
    ]
    snaps = [1 << power for power in range(_LEAST_SNAP.bit_length() - 1, 25)]
    if LEAST_CONTEXT <= trained <= _MOST_TRAINED:
        nearest = Stops(values, ()).position(trained)
        if nearest > 0 and values[nearest] not in snaps:
            del values[nearest]  # it takes the place of its neighbour, so that places stay even
        values.append(trained)
        snaps.append(trained)
    names = {value: context_text(value) for value in (LEAST_CONTEXT, *snaps)}
    if trained in values:
        names[trained] = f"trained {names[trained]}"
    return Stops(values, snaps, names, trained, PER_OCTAVE)


def _requests(_trained: int, _gpus: int) -> Stops:
    """Return numbers of requests at once: four between each and twice that."""
    octaves = range(2, MOST_REQUESTS.bit_length() - 1)
    values = [1, 2, 3, *(1 << power | part << power - 2 for power in octaves for part in range(4))]
    powers = [1 << power for power in range(MOST_REQUESTS.bit_length())]
    names = {power: integer_text(power) for power in powers}
    return Stops([*values, MOST_REQUESTS], powers, names, page=4)


def _shares(_trained: int, _gpus: int) -> Stops:
    """Return parts of a GPU's memory, in per cent."""
    names = {share: f"{share} %" for share in range(10, 101, 20)}
    return Stops(range(10, 101), range(10, 101, 10), names, page=10)


def _copies(_trained: int, gpus: int) -> Stops:
    """Return how many GPUs may share a layer."""
    counts = [count for count in _COPIES if count <= max(1, gpus)]
    return Stops(counts, counts, {count: str(count) for count in counts})


def _round(value: float) -> int:
    """Return a value with seven significant bits, which is short to read."""
    power = max(0, math.floor(math.log2(value)) - 6)
    return round(value / (1 << power)) << power


# Curves of many plans: memory by context for each type of the KV cache, and what engines have


_EVERY: Final = 4  # stops of the slider from one point to the next; an octave has 16
_SHARES: Final = tuple(range(50, 99, 4))  # per cent


class Axis(NamedTuple):
    """What changes along curves, as whole numbers.

    Attributes:
        label: What stands below them.
        title: Its column.
        tip: What the column means.
        text: Returns the text of a number.
        value: Returns the value of the setting for a number.
        place: Returns the number of a plan.
        stops: Returns where a slider stops, for a model's trained context and a number of GPUs.
    """

    label: str
    title: str
    tip: str
    text: Callable[[int], str]
    value: Callable[[int], Any]
    place: Callable[[Plan], int]
    stops: Callable[[int, int], Stops]


AXES: Final[Mapping[str, Axis]] = MappingProxyType(
    {
        "context": Axis(
            *("Context, in tokens", "Context", "Tokens of each request.", context_text),
            *(int, lambda plan: plan.context_asked),
            lambda trained, _gpus: context_stops(trained),
        ),
        "parallel": Axis(
            *("Requests at once", "Requests", "Requests at once.", integer_text),
            *(int, lambda plan: int(plan.used("parallel", 1)), _requests),
        ),
        "utilization": Axis(
            *("Utilization, in per cent", "Utilization", "Part of each GPU that vLLM takes."),
            lambda share: f"{share} %",
            lambda share: share / 100,
            lambda plan: round(100 * plan.used("utilization", 0)),
            _shares,
        ),
        "tensor_parallel": Axis(
            *("GPUs that share each layer", "GPUs", "GPUs that share each layer.", str),
            *(int, lambda plan: int(plan.used("tensor_parallel", 1)), _copies),
        ),
    }
)


@dataclass(frozen=True)
class Curve:
    """One figure along one setting."""

    cache_type: str  # its name: the cache type that is asked for
    effective_type: str  # the type whose colour it has: the one that holds
    contexts: NDArray[np.int64]  # tokens, or numbers of another axis, int64 [n], rising
    # bytes in all, as `plan` gives them, or what is counted; int64 [n]; -1 where there is no plan
    totals: NDArray[np.int64]
    fits: NDArray[np.bool_]  # whether it is as `Curves.where` says, bool [n]


@dataclass(frozen=True)
class Curves:
    """The curves of one model and machine, and the free bytes of all its GPUs."""

    curves: tuple[Curve, ...]
    vram: int  # 0 where no memory is shown, or there are no GPUs
    kind: CurveKind = MEMORY

    @property
    def axis(self) -> Axis:
        return AXES[self.kind.along]

    @property
    def where(self) -> tuple[str, str]:
        """What solid lines mean, and what the others do."""
        if self.kind.figure != "total":
            return "it starts", "it does not"
        if self.vram:
            return "all layers fit on GPUs", "they do not"
        return "main memory holds it all", "it does not"

    def text(self, amount: int) -> str:
        """Return the text of what a curve has at a place."""
        return bytes_text(amount) if self.kind.figure == "total" else integer_text(amount)


def curve_end(trained: int, chosen: int = 0) -> int:
    """Return the last context of a curve: the trained one, or a power of two from a longer one on.

    Not the chosen one itself: a drag beyond the trained one would draw new curves at every stop.
    """
    end = trained or MOST_CONTEXT
    return end if chosen <= end else 1 << (chosen - 1).bit_length()


def curve_contexts(trained: int, end: int) -> tuple[int, ...]:
    """Return the contexts of a curve, in rising order; the trained one is among them."""
    some = {value for value in context_stops(max(trained, end)).values[::_EVERY] if value < end}
    some |= {trained} if trained else set()
    return (*sorted(some - {end}), end)


def curves_key(
    h: Hyperparameters, inputs: PlanInputs, end: int, kind: CurveKind = MEMORY
) -> tuple[Any, ...]:
    """Return what curves depend on: all but what changes along and between them."""
    left = {"context": None, kind.along: None, kind.setting: None}
    if kind.along != "context":  # it holds along them
        del left["context"]
    return id(h), inputs.with_settings(**left), end, kind


def _is_whole(plan: Plan | None) -> bool:
    """Return whether GPUs hold all layers; where there are none, whether main memory does."""
    if plan is None or plan.verdict.level is not Level.FITS:
        return False
    return plan.fully_offloaded or not plan.request.devices


def make_curves(  # noqa: PLR0913, PLR0917 - as `plan_result` has them
    h: Hyperparameters,
    inputs: PlanInputs,
    environment: Mapping[str, str],
    check: Callable[[], None],
    end: int,
    kind: CurveKind = MEMORY,
) -> Curves:
    """Plan each value at each place up to the last. For a worker: about 200 plans.

    `check` is called before each plan; it raises to stop.
    """
    axis, places = AXES[kind.along], _places(h, inputs, end, kind.along)

    def plan_of(asked: PlanInputs) -> Plan | None:
        return plan_result(h, asked, environment).plan

    curves: list[Curve] = []
    for one in kind.values:
        plans = []
        for place in places:
            check()
            asked = inputs.with_settings(**{kind.along: axis.value(place), kind.setting: one.value})
            plans.append((asked, plan_of(asked)))
        if kind.figure == "total":
            curves.append(_memory_curve(one, places, plans, plan_of))
        else:
            curves += _counted_curves(one, places, [plan for _, plan in plans], kind.figure)
    vram = sum(device.free for device in inputs.devices) if kind.figure == "total" else 0
    return Curves(tuple(curves), vram, kind)


def _places(h: Hyperparameters, inputs: PlanInputs, end: int, along: str) -> tuple[int, ...]:
    if along == "context":
        return curve_contexts(h.trained_context, end)
    if along == "utilization":
        return _SHARES
    return AXES[along].stops(h.trained_context, len(inputs.devices)).values


def _memory_curve(
    one: CurveValue,
    places: Sequence[int],
    plans: Iterable[tuple[PlanInputs, Plan | None]],
    plan_of: Callable[[PlanInputs], Plan | None],
) -> Curve:
    """Return the curve of all bytes."""
    totals, fits, like, is_hopeful = [], [], one.like or one.name.upper(), True
    for asked, plan in plans:
        totals.append(-1 if plan is None else plan.total)
        if plan is not None and not one.like:
            like = str(plan.used("kv_cache_type"))
        whole = _is_whole(plan)
        if plan is not None and is_hopeful and not whole and plan.request.devices:
            # as the largest context is found, with all layers asked onto GPUs
            forced = plan.engine.all_on_gpus(plan.request)
            whole = bool(forced) and _is_whole(plan_of(asked.with_settings(**forced)))
            is_hopeful = whole
        fits.append(whole)
    bytes_, fitting = np.array(totals, np.int64), np.array(fits, np.bool_)
    return Curve(one.name, like, np.array(places, np.int64), bytes_, fitting)


def _counted_curves(
    one: CurveValue, places: Sequence[int], plans: Iterable[Plan | None], figure: str
) -> Iterator[Curve]:
    """Yield the curves of both ends of what is counted."""
    for end, words in enumerate(("at least", "at most")):
        numbers, starts = [], []
        for plan in plans:
            both = None if plan is None else plan.details.counts().get(figure)
            numbers.append(-1 if both is None else both[end])
            level = Level.NOT if plan is None else plan.verdict.level
            starts.append(level is not Level.NOT if end else level is Level.FITS)
        counted, fitting = np.array(numbers, np.int64), np.array(starts, np.bool_)
        name = f"{one.name}, {words}"
        yield Curve(name, one.like, np.array(places, np.int64), counted, fitting)
