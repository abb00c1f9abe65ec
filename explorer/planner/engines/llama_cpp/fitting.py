"""What llama.cpp decides by itself: a context and a placement that free memory holds.

Source: llama.cpp build 11434, `common/fit.cpp`. `llama-server` does so when it starts, for what is
left at its default. Each step asks how much a placement would take, so a decision is as exact as
`allocate` is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner.devices import GIB, MAX_DEVICES, MAX_MEMORY, whole
from explorer.planner.engines.llama_cpp.allocation import Allocation, Buffer, Settings, allocate
from explorer.planner.engines.llama_cpp.header import Header

DEFAULT_MARGIN: Final = GIB
"""Bytes that are left free on each GPU (`--fit-target`)."""

LEAST_CONTEXT: Final = 4096
"""Positions below which no context is lowered (`--fit-ctx`)."""

ALL_LAYERS: Final = -1
"""The number of GPU layers that stands for all of them."""

Allocate = Callable[[Header, Settings], Allocation]

_STEP: Final = 256
_UNSIGNED: Final = (1 << 32) - 1  # counts are unsigned in the source, and may wrap
_LEAST_SHARE: Final = 2  # a compute buffer is at least half of that with one layer less
_MOST_TRIALS: Final = 1000  # a placement takes some ten
_MOST_NAMED_LAYERS: Final = 1000  # for which the source has names of overrides

# What of its last layers a GPU does not hold: patterns of tensor names, after that of the block
_EXPERTS: Final = "ffn_(up|down|gate_up|gate)_(ch|)exps"
_NETWORK: Final = "ffn_(gate|up|gate_up|down).*"
_GATE_AND_DOWN: Final = "ffn_(gate|gate_up|down).*"
_DOWN: Final = "ffn_down.*"
_ALL_EXPERTS: Final = rf"blk\.\d+\.{_EXPERTS}"


@dataclass(frozen=True, slots=True)
class Decision:
    """What llama.cpp starts with.

    Attributes:
        settings: The arguments that it comes to, for `allocate`.
        fits: Whether it found a way; without one it tries to load all the same.
        n_ctx: Positions of all sequences, before they are rounded up.
        gpu_layers: Layers on GPUs, the output being one; -1 for all.
        tensor_split: Layers of each GPU, zeros where they share by free memory; None of one GPU.
        overrides: Patterns of tensors that lie elsewhere, and the buffer that holds them.
        exact: Whether every figure that it was decided by is exact, not the end of a band.
    """

    settings: Settings
    fits: bool
    n_ctx: int
    gpu_layers: int
    tensor_split: tuple[int, ...] | None
    overrides: tuple[tuple[str, str], ...]
    exact: bool = True


_SIMULATED: Final[Allocate] = partial(allocate, simulated=True)
"""What llama.cpp finds out without loading anything."""


def fit(  # noqa: PLR0913 - the first four are docs/interface.md's promise
    model: Model | Header,
    settings: Settings,
    free: Sequence[int],
    margin: int | Sequence[int] = DEFAULT_MARGIN,
    *,
    host: int | None = None,
    placed: bool = False,
    as_server: bool = False,
    measure: Allocate = _SIMULATED,
) -> Decision:
    """Return what llama.cpp decides by itself.

    Args:
        model: The model, or its header.
        settings: What is asked for; a context of 0 is open. The placement in it is ignored.
        free: Free bytes of each GPU.
        margin: Bytes to leave free on each GPU.
        host: Bytes of main memory, which matter where there is no GPU; None for no limit.
        placed: Whether the placement of `settings` was asked for. Then only a context may be found.
        as_server: Whether blocks with a window are measured as `settings.swa_full` says, which is
            what `llama-server` does. llama.cpp's library itself measures them with a whole cache,
            unless it is told otherwise, and the golden decisions were made so.
        measure: What says how much a placement takes.

    Raises:
        PlanError: The header is damaged, or llama.cpp refuses these settings.
    """
    header = model if isinstance(model, Header) else Header.from_model(model)
    count = len(free)
    if count > MAX_DEVICES:
        raise PlanError(f"{count} GPUs are more than {MAX_DEVICES}")
    margins = [margin] * max(count, 1) if isinstance(margin, int) else list(margin)
    for nbytes in (*free, *margins):
        whole(nbytes, "memory of a GPU", MAX_MEMORY)
    streams = 1 if settings.kv_unified else settings.parallel
    if not settings.context and not header.trained_context:
        raise PlanError("the model does not say for which context it was trained. Give a context")
    start = replace(
        settings,
        context=settings.context or header.trained_context * streams,
        devices=count,
        tensor_split=tuple(map(float, free)) if count > 1 else None,
        swa_full=settings.swa_full or not as_server,
    )
    if not placed:
        start = replace(start, gpu_layers=header.blocks + 1, cpu_moe_layers=0, overrides=())
    elif settings.tensor_split is not None:
        start = replace(start, tensor_split=settings.tensor_split)
    bare = partial(allocate, with_compute=False) if measure is _SIMULATED else measure
    search = _Search(header, start, tuple(free), tuple(margins), host, measure, bare)
    needed = search.shrink(streams, LEAST_CONTEXT * streams, is_open=not settings.context)
    if needed and count and not placed:
        return search.place()
    return search.unchanged(fits=not needed)


@dataclass(frozen=True, slots=True)
class _Share:
    """What one GPU gets: so many layers, of which the last `part` lie elsewhere in part."""

    layers: int = 0
    part: int = 0
    lacking: str = _EXPERTS  # what the first of these lacks; the others lack their experts

    @property
    def full(self) -> int:
        return (self.layers - self.part) & _UNSIGNED

    def more(self, layers: int, part: int) -> _Share:
        """Return a share with so many more, or fewer, of both."""
        return replace(
            self, layers=self.layers + layers & _UNSIGNED, part=self.part + part & _UNSIGNED
        )


@dataclass(frozen=True, slots=True)
class _Placement:
    """Shares of all GPUs, and what they take."""

    shares: tuple[_Share, ...]
    places: tuple[str, ...]  # where what the first partial layer of each GPU lacks is put
    taken: tuple[int, ...] = ()  # bytes on each GPU
    dense: int = 0  # the first GPU with layers that lack their experts

    def changed(self, changes: dict[int, _Share]) -> _Placement:
        shares = tuple(changes.get(i, share) for i, share in enumerate(self.shares))
        return replace(self, shares=shares)


@dataclass
class _Search:
    header: Header
    start: Settings  # with the context that was found so far
    free: tuple[int, ...]
    margins: tuple[int, ...]
    host: int | None
    measure: Allocate
    bare: Allocate  # the same without compute buffers
    exact: bool = True
    blocks: int = 0  # that llama.cpp counts: those that guess ahead only where they are used
    trials: int = 0
    computes: list[int] = field(default_factory=list)  # of each GPU, as last seen

    def __post_init__(self) -> None:
        self.computes = [0] * len(self.free)
        self.blocks = self.header.blocks if self.start.mtp else self.header.loaded

    @property
    def last(self) -> int:
        return len(self.free) - 1

    def unchanged(self, *, fits: bool) -> Decision:
        """Return the decision to leave the placement to llama.cpp's defaults, or as it was."""
        start = self.start
        split = (0,) * len(self.free) if len(self.free) > 1 else None
        return Decision(start, fits, start.context, ALL_LAYERS, split, (), self.exact)

    # Steps 1 and 2: the context

    def shrink(self, streams: int, least: int, *, is_open: bool) -> bool:
        """Lower the context to what is free; return whether the placement must change too."""
        if self.free and not is_open:  # then it is enough to know that something is short
            left = self.left(self.without_compute(self.start))
            if any(margin > free for margin, free in zip(self.margins, left, strict=True)):
                return True
        full = self.allocation(self.start)
        used = self.on_devices(full)
        self.computes = self.computes_of(full)
        if all(margin <= free for margin, free in zip(self.margins, self.left(used), strict=True)):
            return False
        most, target = self.start.context, sum(self.rooms()) - sum(self.margins)
        if sum(used) <= target or not is_open or most <= least:
            return True
        if len(self.free) > 1:  # only whole layers move, or whole tensors: about a third of one
            weights = sum(buffer.weights for buffer in self.gpu_buffers(full))
            layer = weights // max(1, min(self.start.gpu_layers, self.blocks))
            parts = 6 if self.header.experts_used else 2
            target -= (len(self.free) + 1) * layer // parts
        self.start = replace(self.start, context=least)
        used_least = sum(self.on_devices(self.allocation(self.start)))
        if target <= used_least:
            return True
        context = least + (most - least) * (target - used_least) // (sum(used) - used_least)
        context = max(context - context % (_STEP * streams), least)
        self.start = replace(self.start, context=context)
        return len(self.free) > 1

    def rooms(self) -> tuple[int, ...]:
        """Return the free bytes of each GPU; without one, those of main memory."""
        return self.free or (MAX_MEMORY if self.host is None else self.host,)

    def left(self, used: Sequence[int]) -> list[int]:
        return [free - nbytes for free, nbytes in zip(self.rooms(), used, strict=True)]

    def allocation(self, settings: Settings) -> Allocation:
        self.trials += 1
        if self.trials > _MOST_TRIALS:
            raise PlanError(f"no placement was found in {_MOST_TRIALS:,} trials")
        return self.measure(self.header, settings)

    def on_devices(self, allocation: Allocation) -> tuple[int, ...]:
        """Return the bytes on each GPU; without one, those of main memory."""
        if self.free:
            return tuple(map(self.bytes_of, self.gpu_buffers(allocation)))
        contexts = (allocation, *([allocation.draft] if allocation.draft else ()))
        rest = (
            one
            for context in contexts
            for name, one in context.buffers.items()
            if name != "CPU_REPACK"
        )
        return (sum(map(self.bytes_of, rest)),)

    def computes_of(self, allocation: Allocation) -> list[int]:
        return [buffer.compute or 0 for buffer in self.gpu_buffers(allocation)]

    def bytes_of(self, buffer: Buffer) -> int:
        compute = buffer.compute
        if compute is None:
            self.exact = False
            compute = buffer.compute_high or 0
        return buffer.weights + buffer.cache + compute

    # Step 3: whole layers, from the last GPU to the first

    def place(self) -> Decision:
        """Place layers so that each GPU keeps its margin."""
        experts, surplus = self.header.experts_used > 0, 0
        if experts:
            moved = replace(self.start, overrides=((_ALL_EXPERTS, "CPU"),))
            used = self.without_compute(moved)
            surplus = sum(self.free) - sum(used) - sum(self.margins)
            if surplus > 0:
                computes = self.allocation(moved)
                used = self.on_devices(computes)
                surplus = sum(self.free) - sum(used) - sum(self.margins)
                self.computes = self.computes_of(computes)
        count = len(self.free)
        best = _Placement((_Share(),) * count, ("CPU",) * count)
        for device in reversed(range(count)):
            best = self.filled(best, device)
        if experts and surplus > 0:
            best = self.with_experts(best)
        return self.decision(best)

    def target(self, device: int) -> int:
        return self.free[device] - self.margins[device]

    def filled(self, low: _Placement, device: int) -> _Placement:
        """Return a placement with as many of the layers that are left as a GPU holds."""
        others = sum(share.layers for share in low.shares[device + 1 :])
        layers, experts = self.blocks + 1 - others, self.header.experts_used > 0

        def with_layers(count: int) -> _Placement:
            # the output, which is the last GPU's first layer, is always whole
            part = count - (device == self.last) if experts else 0
            share = replace(low.shares[device], layers=count, part=part)
            return low.changed({device: share})

        return self.most(low, with_layers, layers, device)

    def most(
        self, low: _Placement, make: Callable[[int], _Placement], count: int, device: int
    ) -> _Placement:
        """Return the placement with the most layers that a GPU holds: all, or one that is found.

        Source: the method of false position in `common_params_fit_impl`. What a GPU holds grows
        with its layers, so the same is found with fewer trials: what weights and cache alone
        exceed need not be tried, and compute buffers differ little between neighbours.
        """
        target, below, above = self.target(device), 0, count + 1
        number = count
        while above - below > 1:
            placement = make(number)
            held = self.held(placement)[device]
            if held <= target:
                placement = self.tried(placement)
                self.computes[device] = placement.taken[device] - held
            if held <= target and placement.taken[device] <= target:
                below, low = number, placement
                room = target - self.computes[device] // _LEAST_SHARE
                if above - below > 1 and self.held(make(below + 1))[device] > room:
                    break
            else:
                above = number
            guess = self.guess(make, below, above, device, target - self.computes[device])
            number = max(guess, below + 1)
        return low

    def guess(
        self, make: Callable[[int], _Placement], below: int, above: int, device: int, room: int
    ) -> int:
        """Return how many layers have weights and cache that fit into so many bytes."""
        while above - below > 1:
            middle = (below + above) // 2
            if self.held(make(middle))[device] <= room:
                below = middle
            else:
                above = middle
        return below

    # Step 4: layers with their experts, from the first GPU to the last

    def with_experts(self, best: _Placement) -> _Placement:
        """Turn layers without experts into whole ones, GPU after GPU."""
        dense = self.last + 1
        while dense > 0 and best.shares[dense - 1].layers:
            dense -= 1
        if dense > self.last:
            return best
        best, device = replace(best, dense=dense), 0
        while device <= best.dense <= self.last:
            best = self.with_part(self.converted(best, device), device)
            device += 1
        return best

    def converted(self, low: _Placement, device: int) -> _Placement:
        """Return a placement with as many whole layers as a GPU holds, taken from those behind."""
        changes = {device: low.shares[device]}
        for other in range(low.dense, len(self.free)):
            share = changes.get(other, low.shares[other])
            moved = max(0, share.layers - (other == self.last))  # it would wrap
            changes[device] = changes.get(device, low.shares[device]).more(moved, 0)
            share = changes.get(other, share)
            changes[other] = replace(share, layers=share.layers - moved, part=0)
        everything = replace(low.changed(changes), dense=self.last)
        count = changes[device].full - low.shares[device].full
        if count <= 0:
            return everything

        def with_whole(number: int) -> _Placement:
            return everything if number == count else self.moved(low, device, number)

        return self.most(low, with_whole, count, device)

    def moved(self, low: _Placement, device: int, count: int) -> _Placement:
        """Return a placement with so many more whole layers on a GPU."""
        shares, dense = list(low.shares), low.dense
        while dense <= self.last:
            moved = min(count, shares[dense].part)
            shares[dense] = shares[dense].more(-moved, -moved)
            shares[device] = shares[device].more(moved, 0)
            count -= moved
            if shares[dense].part:
                break
            dense += 1
        return replace(low, shares=tuple(shares), dense=dense)

    def with_part(self, best: _Placement, device: int) -> _Placement:
        """Return a placement with part of one more layer on a GPU, if that fits."""
        dense = best.dense
        if dense > self.last or best.shares[dense].layers <= (device == self.last):
            return best
        shares = list(best.shares)
        shares[dense] = shares[dense].more(-1, -1)
        shares[device] = shares[device].more(1, 1)
        places = list(best.places)
        if device < self.last:
            places[device] = f"GPU{device + 1}"
        dense += shares[dense].part == 0
        one_more = _Placement(tuple(shares), tuple(places), dense=dense)
        found = self.lacking(one_more, device, _GATE_AND_DOWN)
        if found is None:
            return self.lacking(one_more, device, _NETWORK) or best
        return self.lacking(one_more, device, _DOWN) or found

    def lacking(self, one_more: _Placement, device: int, what: str) -> _Placement | None:
        """Return a placement whose partial layer lacks so much; None if it does not fit."""
        share = replace(one_more.shares[device], lacking=what)
        trial = one_more.changed({device: share})
        asked = range(device, min(device + 1, self.last) + 1)  # the next one holds what overflows
        held = self.held(trial)
        if any(held[one] >= self.target(one) for one in asked):
            return None
        trial = self.tried(trial)
        return None if any(trial.taken[one] >= self.target(one) for one in asked) else trial

    def tried(self, placement: _Placement) -> _Placement:
        return replace(placement, taken=self.on_devices(self.allocation(self.settings(placement))))

    def held(self, placement: _Placement) -> tuple[int, ...]:
        """Return the bytes of weights and cache on each GPU."""
        return self.without_compute(self.settings(placement))

    def without_compute(self, settings: Settings) -> tuple[int, ...]:
        allocation = self.bare(self.header, settings)
        return tuple(one.weights + one.cache for one in self.gpu_buffers(allocation))

    def gpu_buffers(self, allocation: Allocation) -> list[Buffer]:
        """Return what each GPU holds, with the context that drafts tokens."""
        names = [f"GPU{i}" for i in range(len(self.free))]
        held = [allocation.buffers[name] for name in names]
        if allocation.draft is None:
            return held
        return [
            one.with_other(allocation.drafted(name)) for name, one in zip(names, held, strict=True)
        ]

    def settings(self, placement: _Placement) -> Settings:
        layers = [share.layers for share in placement.shares]
        split = self.start.tensor_split  # by free memory, as long as there is nothing to split
        if len(layers) > 1 and any(layers):
            split = tuple(map(float, layers))
        return replace(
            self.start,
            gpu_layers=sum(layers),
            tensor_split=split,
            overrides=tuple(self.overrides(placement)),
        )

    def overrides(self, placement: _Placement) -> list[tuple[str, str]]:
        layer = self.blocks + 1 - sum(share.layers for share in placement.shares)
        found = []
        for share, place in zip(placement.shares, placement.places, strict=True):
            # The count from the whole layers on is the source's: on the last GPU, whose output is
            # one of them, the names are one layer late.
            layer = layer + share.full & _UNSIGNED
            end = layer + share.part & _UNSIGNED
            if end > _MOST_NAMED_LAYERS:
                raise PlanError(f"llama.cpp places no more than {_MOST_NAMED_LAYERS:,} layers")
            for one in range(layer, end):
                first = one == layer
                lacking = share.lacking if first else _EXPERTS
                found.append((rf"blk\.{one}\.{lacking}", place if first else "CPU"))
            layer = end
        return found

    def decision(self, placement: _Placement) -> Decision:
        settings = self.settings(placement)
        layers = tuple(share.layers for share in placement.shares)
        return Decision(
            settings=settings,
            fits=True,
            n_ctx=settings.context,
            gpu_layers=settings.gpu_layers,
            tensor_split=layers if len(layers) > 1 else None,
            overrides=tuple(settings.overrides),
            exact=self.exact,
        )
