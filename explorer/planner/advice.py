"""Inverse questions: what is the most that still fits, and what stands in the way of more.

Every answer comes from the layout itself, never from a formula solved for the unknown. "Fits" means
that all layers are on GPUs.

A layout need not behave monotonically: a longer context can move a model to another library, or
change how many GPUs are charged with a graph. So bisection alone could be wrong, and trying each of
131,072 contexts takes half a minute. But all quantities that a layout compares are monotone in the
context (and in the number of sequences): sizes of layers, buffer and graph never fall, so what is
left on a GPU never rises. Then fewer layers fit on the same GPUs, never more. (Of gptoss the graph
falls where the cache grows from nothing to 6 bytes; no context is so small.)

- A comparison with one outcome at both ends of a range has it throughout, as long as all
  comparisons before it do. Hence two layouts with equal traces of decisions enclose a range in
  which every layout decides alike, and which fits throughout or nowhere. So ranges are halved until
  their ends agree, the upper half first.
- A layout of which one pass does not place all layers does not fit: later passes have less room.
  The trace ends there.
- Which GPUs a pass charges with a graph follows from few comparisons, unless a GPU may be left out;
  only then every step of the search for the capacity factor is in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.parallel import Check, never
from explorer.planner.devices import quoted
from explorer.planner.engines.llama_cpp.allocation import allocate
from explorer.planner.engines.llama_cpp.outcome import Outcome
from explorer.planner.layout import Layout, Trace
from explorer.planner.profiles import (
    GRAPH_SIZE,
    LLAMA_CPP,
    OLLAMA,
    effective_for,
    layout_for,
    profile_named,
)
from explorer.planner.result import Plan, PlanRequest
from explorer.planner.settings import AUTOMATIC, EffectiveSettings
from explorer.planner.sizes import MAX_PARALLEL
from explorer.text import bytes_text, integer_text

MOST_LAYOUTS: Final = 20_000
"""With one GPU, some seconds' worth; with more GPUs, so many fewer, as each takes longer.

Nearly all questions take some hundred. Eight uneven GPUs, some of them left out, may take more.
"""
_CACHE_TYPES: Final = ("f16", "q8_0", "q4_0")  # the least lossy first
_MOST_TOKENS: Final = 1 << 30  # where neither the model nor the memory sets a limit


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a value fits, and every decision on the way."""

    fits: bool
    trace: Trace


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search."""

    value: int | None  # the largest value that fits, or None
    # Whether it surely is the largest. If not, the search was cut short: the value fits and the one
    # above it does not, but a still larger one might.
    exact: bool = True


def largest(
    attempt: Callable[[int], Trial],
    hopeless: Callable[[int], bool],
    low: int,
    high: int,
    most_layouts: int = MOST_LAYOUTS,
) -> Found:
    """Return the largest value from low to high that fits.

    Args:
        attempt: Tries a value; called once for each.
        hopeless: Whether neither a value nor any above it can fit; may say no when unsure.
        low: The smallest value.
        high: The largest value.
        most_layouts: How often to try before settling for a bisection.
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


def _bisect(ask: Callable[[int], Trial], low: int, high: int) -> int | None:
    """Return a value that fits, below one that does not; None if the least does not fit."""
    if not ask(low).fits:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ask(middle).fits else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Advice:
    """An answer."""

    what: str  # the question, one of `QUESTIONS`
    value: int | str | None  # the answer, or None if nothing fits
    limited_by: str  # what keeps it from being more (or, of the fewest, less)
    exact: bool = True  # whether no larger value can fit, see `Found`

    def record(self) -> dict[str, Any]:
        """Return what JSON shows of it."""
        return {"what": self.what, "value": self.value, "limited_by": self.limited_by}


def solve(
    what: str, request: PlanRequest, check: Check = never, profile: str = GRAPH_SIZE.name
) -> Advice:
    """Answer one of `QUESTIONS`; all settings but the one in question stay as they are.

    `check` is called before each layout; it raises to stop the search.

    Raises:
        PlanError: There is no such question, or the model cannot be planned at all.
    """
    if what not in QUESTIONS:
        raise PlanError(f"{quoted(what)!r} cannot be solved for; use one of {', '.join(QUESTIONS)}")
    if profile in (LLAMA_CPP.name, OLLAMA.name):
        return _ServerSearch(request, profile, check).solve(what)
    return QUESTIONS[what](_Search(request, check))


@dataclass(frozen=True, slots=True)
class _Search:
    """Layouts of one request with some settings changed."""

    request: PlanRequest
    check: Check

    def effective(self, **changes: Any) -> EffectiveSettings:
        return effective_for(self.request, **changes)

    def lay_out(self, trace: Trace | None = None, **changes: Any) -> Layout:
        self.check()
        return layout_for(self.request, self.effective(**changes), trace)

    def fits(self, **changes: Any) -> bool:
        try:
            return self.lay_out(**changes).fully_offloaded
        except PlanError as error:
            if error.reason is None:
                raise
            return False

    def without_host(self) -> _Search:
        return replace(self, request=replace(self.request, host=None))


def largest_context(search: _Search) -> Advice:
    """Return the largest context of each sequence at which all layers are on GPUs."""
    trained = search.request.h.trained_context
    key = search.request.h.origins.get("trained context", "the model")
    most = min(trained or _MOST_TOKENS, _MOST_TOKENS)
    limit = f"{integer_text(trained or most)} tokens"
    if trained:
        limit = f"{key}: trained for {limit}"
    least = search.effective(context=1).context  # what Ollama uses at least
    return _largest("context", search, (least, max(least, most)), limit)


def most_parallel(search: _Search) -> Advice:
    """Return the largest number of sequences at which all layers are on GPUs."""
    effective = search.effective(parallel=2)
    if effective.parallel == 1:
        return _largest("parallel", search, (1, 1), effective.origins["parallel"])
    limit = f"{integer_text(MAX_PARALLEL)} sequences"
    return _largest("parallel", search, (1, MAX_PARALLEL), limit)


def best_cache_type(search: _Search) -> Advice:
    """Return the least lossy type of the KV cache at which all layers are on GPUs."""
    limit = "nothing: it is the least lossy type that Ollama accepts"
    for name in _CACHE_TYPES:
        for difference in search.effective(kv_cache_type=name).differences:
            if difference.name == "kv_cache_type":
                return Advice("kv-cache-type", None, f"{limit}; {name}: {difference.reason}")
        if search.fits(kv_cache_type=name):
            return Advice("kv-cache-type", name, limit)
        limit = f"{name} does not fit: {_obstacle(search, kv_cache_type=name)}"
    return Advice("kv-cache-type", None, f"even {limit}")


def most_gpu_layers(search: _Search) -> Advice:
    """Return the most layers that can be asked for (`num_gpu`) without exceeding any GPU."""
    free: dict[str, int] = {}
    for device in search.request.devices:
        free[device.library] = free.get(device.library, 0) + device.free
    room = max(free.values(), default=0)  # a model never spans two libraries
    limit = "nothing: the model has no more layers"
    for count, nbytes in reversed(list(enumerate(_layer_sums(search)))):
        obstacle = f"they take {bytes_text(nbytes)}, {bytes_text(room)} are free"
        if nbytes <= room:
            obstacle = _layers_obstacle(search, count)
        if not obstacle:
            return Advice("gpu-layers", count, limit)
        limit = f"{count} layers: {obstacle}"
    return Advice("gpu-layers", None, limit)


def fewest_gpu_layers(search: _Search) -> Advice:
    """Return the fewest layers that must go to GPUs for the rest to fit into system memory."""
    host, sums = search.request.host, _layer_sums(search)
    memory = None if host is None or host.macos else host.free + host.swap
    limit = "nothing: system memory holds the whole model"
    for count, nbytes in enumerate(sums):
        rest = sums[-1] - nbytes
        obstacle = f"{bytes_text(rest)} are left for the CPU, more than is free of system memory"
        if memory is None or rest <= memory:
            obstacle = _layers_obstacle(search, count)
        if not obstacle:
            return Advice("fewest-gpu-layers", count, limit)
        limit = f"{count} layers: {obstacle}"
    return Advice("fewest-gpu-layers", None, limit)


def _layer_sums(search: _Search) -> list[int]:
    """Return the bytes that so many layers on GPUs take, [T + 1].

    All but the whole are counted from the last block; the output layer comes with the whole only.
    """
    layout = search.without_host().lay_out(num_gpu=0, require_full=False)
    sizes = [w + c for w, c in zip(layout.layer_weights, layout.layer_kv_cache, strict=True)]
    return [0, *accumulate(reversed(sizes[:-1])), sum(sizes)]


QUESTIONS: Final[Mapping[str, Callable[[_Search], Advice]]] = MappingProxyType(
    {
        "context": largest_context,
        "parallel": most_parallel,
        "kv-cache-type": best_cache_type,
        "gpu-layers": most_gpu_layers,
        "fewest-gpu-layers": fewest_gpu_layers,
    }
)
"""What can be asked for."""


def _largest(name: str, search: _Search, bounds: tuple[int, int], limit: str) -> Advice:
    """Return the largest value of a setting at which all layers are on GPUs."""

    def attempt(value: int) -> Trial:
        trace: Trace = []
        try:
            layout = search.lay_out(trace, **{name: value})
        except PlanError as error:
            trace.append((-1 if error.reason is None else -2,))  # sizes beyond 63 bits; refused
            return Trial(False, trace)
        return Trial(layout.fully_offloaded, trace)

    def hopeless(value: int) -> bool:
        return search.request.settings.num_gpu in (None, -1) and _exceeds(search, **{name: value})

    most_layouts = MOST_LAYOUTS // max(1, len(search.request.devices))
    found = largest(attempt, hopeless, *bounds, most_layouts)
    if found.value is None:
        return Advice(name, None, _obstacle(search, **{name: bounds[0]}))
    if found.value < bounds[1]:
        limit = f"{integer_text(found.value + 1)}: {_obstacle(search, **{name: found.value + 1})}"
    if not found.exact:
        limit += "; a still larger value might fit again, the search was cut short"
    return Advice(name, found.value, limit, found.exact)


def _exceeds(search: _Search, **changes: Any) -> bool:
    """Return whether the layers exceed the GPUs of every library, even without any graph.

    Then they do so for every larger value too.
    """
    try:
        layout = search.without_host().lay_out(require_full=False, num_gpu=0, **changes)
    except PlanError:
        return True
    needed = sum(layout.layer_weights) + sum(layout.layer_kv_cache)
    rooms: dict[str, int] = {}
    for held in layout.devices:
        room = held.device.free - held.projector - held.reserved
        rooms[held.device.library] = rooms.get(held.device.library, 0) + max(0, room)
    return needed > max(rooms.values(), default=0)


def _obstacle(search: _Search, **changes: Any) -> str:
    """Say why not all layers are on GPUs."""
    if not search.request.devices:
        return "there is no GPU"
    try:
        layout = search.lay_out(**changes)
    except PlanError as error:
        return str(error)
    if layout.fully_offloaded:
        return "nothing: all layers are on GPUs"
    wanted = search.request.settings.num_gpu
    if wanted is not None and 0 <= wanted < layout.total_layers:
        return f"setting num_gpu allows {wanted} of {layout.total_layers} layers"
    used = [held for held in layout.devices if held.listed] or layout.devices
    free = sum(held.device.free for held in used)
    names = ", ".join(quoted(held.device.label) for held in used[:3])
    names += f" and {len(used) - 3} more" if len(used) > 3 else ""
    return (
        f"memory of {names}: {bytes_text(free)} are free, and {layout.placed} of "
        f"{layout.total_layers} layers fit"
    )


def _layers_obstacle(search: _Search, count: int) -> str:
    """Say why so many layers cannot be on GPUs; empty if they can."""
    try:
        layout = search.lay_out(num_gpu=count)
    except PlanError as error:
        if error.reason is None:
            raise
        return str(error)
    if layout.placed != count:
        return f"only {layout.placed} can be placed"
    for held in layout.devices:
        over = held.total + held.reserved - held.device.free
        if held.layers is not None and over > 0:
            return f"{quoted(held.device.label)} is {bytes_text(over)} short"
    return ""


# What llama.cpp allocates grows with a context, a number of sequences or of layers. In between a
# compute buffer may fall a little, where what is copied meets larger holes: an answer fits, and the
# next value does not, but a still larger one might. With all layers on GPUs, flash attention and
# batches of a usual size it never falls.


_CELLS: Final = 256  # llama.cpp rounds contexts up to a multiple
_MOST_SEQUENCES: Final = 256
_FIRST_TRIAL: Final = 16  # small, for what does not fit there needs no further look
_USUAL_UBATCH: Final = 128


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
        left = room(value)
        if left is not None and left >= 0:
            if below is not None:
                slower = value - low, below - left
            low, below = value, left
        else:
            high, above = value, left
    return low


@dataclass(frozen=True, slots=True)
class _ServerSearch:
    """Plans by llama.cpp's rules with some settings changed."""

    request: PlanRequest
    profile: str
    check: Check

    def outcome(self, **changes: Any) -> Outcome:
        self.check()
        settings = replace(self.request.settings, **changes)
        plan = profile_named(self.profile).plan(replace(self.request, settings=settings))
        assert plan.llama_cpp is not None  # these profiles have it
        return plan.llama_cpp

    def solve(self, what: str) -> Advice:
        """Return the answer to a question; "fits" counts the reserve of each GPU."""
        layers = self.request.h.total_layers
        if not self.request.devices and what != "fewest-gpu-layers":
            return Advice(what, None, "there is no GPU")
        match what:
            case "context":
                trained = self.request.h.trained_context
                most = max(1, min(trained or _MOST_TOKENS, _MOST_TOKENS) // _CELLS)
                limit = f"the model was trained for {integer_text(trained)} tokens"
                found = self.most("context", most, limit if trained else "", _CELLS)
            case "parallel":
                limit = f"llama.cpp runs at most {_MOST_SEQUENCES} sequences"
                found = self.most("parallel", _MOST_SEQUENCES, limit)
            case "kv-cache-type":
                found = self.cache_type()
            case "gpu-layers":
                found = self.most_layers(layers)
            case _:
                found = self.fewest_layers()
        return replace(found, what=what)

    def obstacle(self, **changes: Any) -> str:
        """Say why it does not fit; empty if it does."""
        if not self.request.devices:
            return "there is no GPU"
        if "num_gpu" not in changes:
            changes["num_gpu"] = self.request.h.total_layers
        try:
            outcome = self.outcome(**changes)
        except PlanError as error:
            return str(error)
        for device, held in zip(outcome.devices, outcome.gpus, strict=True):
            if held.short:
                name = quoted(device.label)
                return f"{name} is {bytes_text(held.short)} short, its reserve counted"
        return _main_obstacle(outcome)

    def most(self, name: str, most: int, limit: str, step: int = 1) -> Advice:
        """Return the largest multiple of a step at which nothing is short."""
        low = largest_held(lambda value: self.room(**{name: value * step}), most)
        if low < most:
            value = (low + 1) * step
            limit = f"{integer_text(value)}: {self.obstacle(**{name: value})}"
            limit = limit if low else f"even at {limit}"
        return Advice(name, low * step or None, limit)

    def most_layers(self, layers: int) -> Advice:
        """Return the most layers that GPUs hold; main memory is asked for what is left by them.

        It has the more room the more layers they take: both together would not fall with the count.
        """
        gpus = replace(self, request=replace(self.request, host=None))
        found = gpus.most("num_gpu", layers, "nothing: the model has no more layers")
        count = found.value or 0
        if isinstance(count, int) and (obstacle := self.obstacle(num_gpu=count)):
            return Advice("", None, f"{count} layers: {obstacle}")
        return found

    def room(self, **changes: Any) -> int | None:
        """Return the bytes that the tightest memory has left; negative: missing; None: refused."""
        if not self.request.devices:
            return None
        if "num_gpu" not in changes:
            changes["num_gpu"] = self.request.h.total_layers
        try:
            return self.outcome(**changes).room
        except PlanError:
            return None

    def cache_type(self) -> Advice:
        limit = "nothing: it is the least lossy of them"
        for name in _CACHE_TYPES:
            asked = {"kv_cache_type": name, "cache_type_k": None, "cache_type_v": None}
            obstacle = self.obstacle(**asked)
            if not obstacle:
                return Advice("", name, limit)
            limit = f"{name} does not fit: {obstacle}"
        return Advice("", None, f"even {limit}")

    def fewest_layers(self) -> Advice:
        limit = "nothing: system memory holds the whole model"
        for count in range(self.request.h.total_layers + 1):
            obstacle = _main_obstacle(self.outcome(num_gpu=count))
            if not obstacle:
                return Advice("", count, limit)
            limit = f"{count} layers: {obstacle}"
        return Advice("", None, limit)


_PLACING: Final = ("num_gpu", "tensor_split", "cpu_moe_layers")


def automatic_placement(
    request: PlanRequest, profile: str, check: Check = never
) -> dict[str, None]:
    """Return the settings that place layers, to be taken back where that makes nothing short.

    Nothing where none is asked for, or where it does not help. `check` is called before each plan.
    """
    asked = (name for name in _PLACING if getattr(request.settings, name) not in (None, AUTOMATIC))
    changes, search = dict.fromkeys(asked), _ServerSearch(request, profile, check)
    if not changes or not request.devices:
        return {}
    try:
        helps = not search.outcome().fits and search.outcome(**changes).fits
    except PlanError:
        return {}
    return changes if helps else {}


def context_as_placed(request: PlanRequest, plan: Plan, check: Check = never) -> int | None:
    """Return the largest context of a sequence at which nothing is short; layers stay as planned.

    Where the plan has all layers on GPUs, that is the answer to the question ``"context"``.

    Args:
        request: What the plan was made of.
        plan: A plan by llama.cpp's rules, whose placement of layers holds.
        check: Called before each plan; it raises to stop the search.
    """
    placed = plan.llama_cpp
    assert placed is not None  # its rules were followed
    held = placed.settings
    search = _ServerSearch(request, plan.profile, check)
    layers = {"num_gpu": held.gpu_layers, "tensor_split": held.tensor_split}
    if placed.all_on_gpus and len(placed.devices) > 1:  # other shares may hold more
        answer = search.solve("context").value
        if isinstance(answer, int):
            return answer

    trained = request.h.trained_context
    most = max(1, min(trained or _MOST_TOKENS, _MOST_TOKENS) // _CELLS)
    fitting = placed  # with the longest context so far at which nothing is short
    is_usual = held.flash_attention and held.ubatch >= _USUAL_UBATCH
    never_falls = is_usual and placed.all_on_gpus

    def room(value: int) -> int | None:
        nonlocal fitting
        check()
        settings = replace(held, context=value * _CELLS)
        try:
            if plan.profile == OLLAMA.name:  # its batch follows from the context
                asked = search.outcome(context=value * _CELLS, **layers).settings
                settings = replace(asked, overrides=held.overrides)
            # compute buffers are most of the work, which need not be done where those of a shorter
            # context are too much
            least = allocate(placed.header, settings, with_compute=False)
            shorter = min(fitting.settings.context, settings.context)
            if never_falls and replace(settings, context=shorter) == fitting.settings:
                least = least.with_compute_of(fitting.allocation)
            left = replace(placed, settings=settings, allocation=least).room
            if left < 0 and value < most:
                return left
            allocation = allocate(placed.header, settings)
        except PlanError:
            return None
        found = replace(placed, settings=settings, allocation=allocation)
        if found.room >= 0:
            fitting = found
        return found.room

    value = plan.effective.context // _CELLS
    known = (value, placed.room) if value and placed.room >= 0 else None
    return largest_held(room, most, known) * _CELLS or None


def _main_obstacle(outcome: Outcome) -> str:
    short = outcome.main.short
    return f"system memory is {bytes_text(short)} short" if short else ""
