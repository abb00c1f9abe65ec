"""Where each layer of a model goes, and what each GPU then holds (docs/planner.md sections 6, 7).

Source: Ollama, llm/server.go, `llamaServer.Load`, `createLayout`, `buildLayout`, `verifyLayout`.
Where Ollama would wrap below zero or never end, memory is clamped at 0 and the search stops.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np

from explorer.errors import PlanError
from explorer.planner.devices import (
    MAX_BYTES,
    MAX_MEMORY,
    Device,
    Host,
    check_devices,
    sized,
    whole,
)
from explorer.planner.engines.ollama_013.sizes import GraphSize, Workload, size_workload
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import Layer
from explorer.text import bytes_text

# Which layers go to which GPU. Source: Ollama, llm/server.go, `greedyFit`, `findBestFit` and
# `assignLayers`. Layers are taken from the last to the first, so a GPU gets one run. Two things are
# done differently, with the same result:
#
# - A run is found by bisection in the prefix sums of the sizes instead of layer by layer.
# - The capacity factor is searched only for the number of GPUs that is returned. The search keeps
#   the number of layers placed, so the first greedy fit shows whether a number of GPUs suffices.
#
# The factor is a 32-bit float in Ollama; Python's floats give other layer counts at the edges.

_WHOLE: Final = np.float32(1)
_FORCED: Final = np.float32(1000)  # pretend to have almost infinite memory
_TWO: Final = np.float32(2)
_PRECISION: Final = np.float32(1e-6)
_LEVELS: Final = 32  # a power of two, so that the search for the factor passes through them

Entry: TypeAlias = tuple[int, int, int]
"""(position of the GPU in its list, first layer, layer behind the last); may hold no layers."""

Trace: TypeAlias = list[tuple[int, ...]]
"""The decisions from which it follows whether all layers are placed, and on which GPUs.

Each is a comparison whose outcome can change only once as sizes of layers and graph grow and rooms
shrink, given that the decisions before it are the same (`explorer.planner.plans.Trial`).
"""


def as_float32(number: int) -> np.float32:
    """Round an integer to the nearest 32-bit float.

    NumPy goes through a 64-bit float, which above 2^53 rounds twice. There the bits below the 50th
    are folded into one that only says "more than half".
    """
    shift = number.bit_length() - 50
    if shift <= 3:
        return np.float32(number)
    folded = number >> shift | ((number & ((1 << shift) - 1)) != 0)
    return np.float32(folded) * np.float32(1 << shift)


@dataclass(frozen=True, slots=True)
class Rooms:
    """GPUs of one library, best first, and what each has left for layers."""

    free: Sequence[np.float32]  # free bytes less everything withheld, as 32-bit floats
    integrated: Sequence[bool]  # whether each GPU is an integrated one
    last_used: int  # position of the last GPU with a graph on it; 0 if none has one


@dataclass(frozen=True, slots=True)
class Placement:
    """Requested layers on GPUs (negative: as many as fit), whether all must fit, and to spread."""

    num_gpu: int
    require_full: bool
    spread: bool


def assign_layers(
    ends: Sequence[int], rooms: Rooms, placement: Placement, trace: Trace | None = None
) -> list[Entry]:
    """Place layers on the GPUs of one library.

    Args:
        ends: Prefix sums of the layers' sizes, [T + 1], from 0.
        rooms: The GPUs.
        placement: How to place them.
        trace: Where decisions are noted.

    Returns:
        The GPUs used, in any order. Without the output layer unless all layers fit.
    """
    count, total = len(rooms.free), len(ends) - 1
    wanted = placement.num_gpu
    equal = wanted >= 0 or placement.spread  # then integrated GPUs count like the others
    integrated = [False] * count if equal else rooms.integrated
    for layers in (total, total - 1):
        wanted = min(layers, wanted)
        fit = _Fit(ends, rooms.free, integrated, wanted)
        for gpus in range(count if placement.spread else rooms.last_used + 1, count + 1):
            forced = gpus == count and not placement.require_full
            placed = fit.count(layers, gpus, forced)
            if trace is not None and layers == total:
                trace.append((gpus, placed == total))
            if placed in (layers, wanted):
                break
        if placed == layers:
            return fit.balance(layers, gpus, forced, trace if layers == total else None)
    return fit.balance(layers, gpus, forced)


@dataclass(frozen=True, slots=True)
class _Share:
    """What a group of GPUs, discrete or integrated, takes of the layers that are left."""

    group: Sequence[int]  # positions of its GPUs, the best first
    left: int  # number of layers that the groups before it left
    wanted: int  # how many it may take; negative for as many as fit
    high: np.float32  # capacity factor to begin with, at which it takes `fit`
    fit: list[Entry]

    @property
    def start(self) -> int:
        """First layer that it takes; those before it are left."""
        return self.fit[-1][1]


@dataclass(frozen=True, slots=True)
class _Fit:
    """Best fit on the first GPUs of a list."""

    ends: Sequence[int]
    free: Sequence[np.float32]
    integrated: Sequence[bool]
    wanted: int

    def count(self, layers: int, gpus: int, forced: bool) -> int:
        """Return how many of the first `layers` layers the first `gpus` GPUs take."""
        for share in self._shares(layers, gpus, forced):
            left = share.start
        return layers - left

    def balance(
        self, layers: int, gpus: int, forced: bool, trace: Trace | None = None
    ) -> list[Entry]:
        """Return the fit at the smallest factor that still places as many layers.

        That fills the GPUs in proportion to their memory.
        """
        entries: list[Entry] = []
        for share in self._shares(layers, gpus, forced):
            entries += self._shrink(share, trace)
        return entries

    def _shares(self, layers: int, gpus: int, forced: bool) -> Iterator[_Share]:
        """Yield what each group takes, in the order in which they are filled."""
        left, wanted = layers, self.wanted
        for group in self._groups(gpus):
            high = _FORCED if wanted >= 0 and forced else _WHOLE
            share = _Share(group, left, wanted, high, self._greedy(group, left, high, wanted))
            yield share
            left, wanted = share.start, wanted - (left - share.start)

    def _shrink(self, share: _Share, trace: Trace | None) -> list[Entry]:
        """Return a group's fit at the smallest factor that keeps the number of layers."""
        low, high = np.float32(0), share.high
        best = share.fit
        steps: Trace = []
        while high - low > _PRECISION:
            middle = (low + high) / _TWO
            if middle in (low, high):  # Ollama never ends here: steps are wider than 1e-6
                break
            found = self._greedy(share.group, share.left, middle, share.wanted)
            if trace is not None:
                steps.append(tuple(start for _, start, _ in found))
            if found[-1][1] == share.start:
                high, best = middle, found
            else:
                low = middle
        if trace is not None and self._note(share, trace):
            trace += steps
        return best

    def _note(self, share: _Share, trace: Trace) -> bool:
        """Note what decides which GPUs of a group are used; return whether that is not enough.

        A group that does not take all layers that are left uses all its GPUs. Of one that does,
        the best GPU, to which it comes last, is left out if it cannot hold the first layer; it is
        used if at some factor all layers fit, but not without it, for the factor found in the end
        is no larger.
        """
        trace.append((share.start == 0, share.left == 0))
        if share.start > 0 or share.left == 0:
            return False
        group = share.group
        while len(group) > 1 and self.ends[1] > int(self.free[group[0]] * share.high):
            group = group[1:]
        low, level = 0, _LEVELS
        while level - low > 1:
            middle = (low + level) // 2
            if self._takes_all(share, group, middle):
                level = middle
            else:
                low = middle
        fewer_suffice = len(group) > 1 and self._takes_all(share, group[1:], level)
        trace.append((len(group), level, fewer_suffice))
        return fewer_suffice

    def _takes_all(self, share: _Share, group: Sequence[int], level: int) -> bool:
        factor = share.high * np.float32(level) / np.float32(_LEVELS)
        return self._greedy(group, share.left, factor, share.wanted)[-1][1] == 0

    def _groups(self, gpus: int) -> list[list[int]]:
        """Return the GPUs by the integrated flag, in order of appearance."""
        groups: dict[bool, list[int]] = {}
        for position in range(gpus):
            groups.setdefault(self.integrated[position], []).append(position)
        return list(groups.values())

    def _greedy(
        self, group: Sequence[int], layers: int, factor: np.float32, wanted: int
    ) -> list[Entry]:
        """Fill GPUs from the last to the first with layers from the last to the first."""
        ends = self.ends
        top = layers
        floor = max(0, layers - wanted) if wanted >= 0 else 0
        entries: list[Entry] = []
        for position in reversed(group):
            room = int(self.free[position] * factor)
            start = bisect_left(ends, ends[top] - room, floor, top)
            entries.append((position, start, top))
            top = start
            if top == floor:
                break
        return entries


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """What one GPU holds."""

    device: Device  # the GPU
    layers: range | None  # the run of layers on it, or None
    weights: int  # bytes of their weights
    kv_cache: int  # bytes of their caches
    graph: int  # bytes of the compute graph charged to it
    listed: bool  # whether it is in the final assignment, which can be without layers
    projector: int  # bytes of the projector on it
    reserved: int  # bytes withheld while fitting, which are in no total: buffer, minimum, overhead

    @property
    def total(self) -> int:
        """Bytes that it holds."""
        return self.weights + self.kv_cache + self.graph + self.projector


@dataclass(frozen=True, slots=True)
class Layout:
    """The assignment of all layers."""

    devices: tuple[DeviceLayout, ...]  # each GPU in the given order
    cpu_weights: int  # bytes of the weights left to the CPU
    cpu_kv_cache: int  # bytes of the caches left to the CPU
    placed: int  # number of layers on GPUs
    total_layers: int  # T, the blocks and the output layer
    partial: int  # graph of a partial offload, after the fallback and Metal's rule
    full: int  # graph of a full offload, after the fallback
    layer_weights: tuple[int, ...]  # bytes of each layer's weights, [T]
    layer_kv_cache: tuple[int, ...]  # bytes of each layer's cache, [T]; the output layer has none
    buffer: int  # bytes withheld on every GPU for one block
    overhead: int  # bytes withheld on every GPU by a setting
    sizes: GraphSize  # the sizes before the fallback, with the batch that was used

    @property
    def fully_offloaded(self) -> bool:
        """Whether every layer is on a GPU."""
        return self.placed == self.total_layers

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer with its place, the output layer last, [T]."""
        owners = {layer: i for i, held in enumerate(self.devices) for layer in held.layers or ()}
        sizes = enumerate(zip(self.layer_weights, self.layer_kv_cache, strict=True))
        last = self.total_layers - 1
        return tuple(
            Layer(i, "output" if i == last else f"blk.{i}", weights, cache, owners.get(i))
            for i, (weights, cache) in sizes
        )

    @property
    def cpu_layers(self) -> list[int]:
        """The layers that stay on the CPU."""
        owned = {layer for held in self.devices for layer in held.layers or ()}
        return [layer for layer in range(self.total_layers) if layer not in owned]

    @property
    def graph_used(self) -> str:
        """Which of the two graphs is reported: ``"full"`` if all layers are placed."""
        return "full" if self.fully_offloaded else "partial"

    @property
    def batch(self) -> int:
        """The batch used, which for an embedding model holds the whole context."""
        return self.sizes.workload.batch

    @property
    def vram_total(self) -> int:
        """Bytes on all GPUs."""
        return sum(device.total for device in self.devices)

    @property
    def total(self) -> int:
        """Bytes on all GPUs and on the CPU."""
        return self.vram_total + self.cpu_weights + self.cpu_kv_cache


def lay_out(  # noqa: PLR0913 - the options by name are docs/interface.md's promise
    h: Hyperparameters,
    settings: Any,
    devices: Sequence[Device],
    *,
    host: Host | None = None,
    num_gpu: int = -1,
    require_full: bool = False,
    overhead: int = 0,
    spread: bool = False,
    projector: int = 0,
    trace: Trace | None = None,
) -> Layout:
    """Place a model's layers as Ollama would.

    Args:
        h: The model.
        settings: `EffectiveSettings`, or anything with its attributes. They are taken as given; the
            one rule applied is that an embedding model's batch holds its context.
        devices: The GPUs.
        host: Memory of the machine; None checks nothing against it.
        num_gpu: Layers to put on GPUs; -1 for as many as fit.
        require_full: Refuse what does not fit wholly.
        overhead: Bytes to hold back on each GPU.
        spread: Use all GPUs instead of as few as possible.
        projector: Bytes of a separate projector, which go to the first GPU. Ollama means to do so,
            but subtracts the size of the adapters; this is a deviation from it.
        trace: Where the decisions are noted that a search for the largest setting compares.

    Raises:
        PlanError: With `reason` ``"requires full"`` or ``"system memory"`` where Ollama would
            refuse to load the model; without where the input cannot be used.
    """
    whole(num_gpu, "number of GPU layers", MAX_BYTES, -1)
    whole(overhead, "overhead", MAX_MEMORY)
    whole(projector, "projector", MAX_MEMORY)
    workload = Workload.of(settings).for_loading(embedding_model=h.embedding_model)
    placement = Placement(num_gpu, bool(require_full), bool(spread))
    machine = _Machine(check_devices(devices), host, overhead, projector)
    return _Search(h, size_workload(h, workload), machine, placement, trace).run()


@dataclass(frozen=True, slots=True)
class _Machine:
    """What the layers are placed on, and what is withheld there."""

    devices: tuple[Device, ...]
    host: Host | None
    overhead: int
    projector: int


class _Search:
    """The state of one search."""

    def __init__(
        self,
        h: Hyperparameters,
        sizes: GraphSize,
        machine: _Machine,
        placement: Placement,
        trace: Trace | None,
    ) -> None:
        devices = machine.devices
        self.sizes, self.placement, self.trace = sizes, placement, trace
        self.devices, self.host, self.overhead = devices, machine.host, machine.overhead
        self.full, self.partial = sizes.full_resolved, sizes.partial_resolved
        if devices and devices[0].library == "Metal":
            self.partial = self.full
        self.graphs = [0] * len(devices)
        self.weights = h.layer_weights
        groups = h.tensors.nbytes
        caches = [
            cache if f"blk.{i}" in groups else 0 for i, cache in enumerate(sizes.kv_per_layer)
        ]
        self.caches = (*caches, 0)
        self.layer_bytes = [w + c for w, c in zip(self.weights, self.caches, strict=True)]
        self.ends = [0, *accumulate(self.layer_bytes)]
        sized(self.ends[-1], "the model")
        self.buffer = 0  # the size of block 0 with its cache, if the file has one
        if "blk.0" in groups:
            self.buffer = groups["blk.0"] + next(iter(sizes.kv_per_layer), 0)
        self.projectors = [0] * len(devices)
        if machine.projector and devices:  # the first discrete GPU holds it, else the first one
            discrete = (i for i, device in enumerate(devices) if not device.integrated)
            self.projectors[next(discrete, 0)] = machine.projector

    def run(self) -> Layout:
        """Repeat until a layout uses no more GPUs than the one before; charge graphs meanwhile."""
        used = 0
        while True:
            entries = self._build()
            self._check(entries)
            if len(entries) <= used:
                break
            used = len(entries)
            for device, _, _ in entries:
                self.graphs[device] = max(self.partial, self.full)
        return self._report(entries)

    def _build(self) -> list[Entry]:
        """Return the assignment of the library that places most layers."""
        free = [
            max(0, device.free - self.buffer - projector)
            for device, projector in zip(self.devices, self.projectors, strict=True)
        ]
        # a stable sort: ties keep the given order
        order = sorted(range(len(free)), key=lambda i: (self.devices[i].integrated, -free[i]))
        if self.trace is not None:
            self.trace.append(tuple(order))
        libraries: dict[str, list[int]] = {}
        for i in order:
            libraries.setdefault(self.devices[i].library, []).append(i)
        best: list[Entry] = []
        most = 0
        for members in libraries.values():
            rooms = self._rooms(members, free)
            entries = assign_layers(self.ends, rooms, self.placement, self.trace)
            placed = sum(stop - start for _, start, stop in entries)
            if placed > most:
                most = placed
                best = [(members[position], start, stop) for position, start, stop in entries]
        if most < len(self.weights):
            self.trace = None  # rooms only shrink from pass to pass: it stays partial
        return best

    def _rooms(self, members: Sequence[int], free: Sequence[int]) -> Rooms:
        """Return what the GPUs of a library have left for layers."""
        used = [position for position, i in enumerate(members) if self.graphs[i]]
        withheld = [self.devices[i].minimum_bytes + self.overhead + self.graphs[i] for i in members]
        rooms = [
            as_float32(max(0, free[i] - less)) for i, less in zip(members, withheld, strict=True)
        ]
        return Rooms(rooms, [self.devices[i].integrated for i in members], max(used, default=0))

    def _check(self, entries: Sequence[Entry]) -> None:
        """Refuse what Ollama refuses; on macOS give up offloading where memory would run out."""
        ends, placement, host = self.ends, self.placement, self.host
        on_gpus = sum(ends[stop] - ends[start] for _, start, stop in entries)
        on_cpu = ends[-1] - on_gpus
        placed = sum(stop - start for _, start, stop in entries)
        short = placed < len(self.weights) and (placement.num_gpu < 0 or placed < placement.num_gpu)
        if placement.require_full and self.devices and short:
            raise PlanError(
                f"only {placed} of {len(self.weights)} layers fit on the GPUs", "requires full"
            )
        if host is None:
            return
        if placement.require_full and on_cpu > host.free:
            raise PlanError(
                f"{bytes_text(on_cpu)} are left for the CPU, where {bytes_text(host.free)} of "
                "system memory are free",
                "requires full",
            )
        if not host.macos:
            if on_cpu > host.free + host.swap:
                raise PlanError(
                    f"{bytes_text(on_cpu)} are left for the CPU, more than the "
                    f"{bytes_text(host.free + host.swap)} of free system memory and swap",
                    "system memory",
                )
            return
        with_graphs = on_gpus + sum(self.graphs[device] for device, _, _ in entries)
        beyond = host.total is not None and with_graphs > host.total
        if self.trace is not None:
            self.trace.append((beyond,))
        if beyond:
            self.placement = Placement(0, placement.require_full, placement.spread)

    def _report(self, entries: Sequence[Entry]) -> Layout:
        placed = {device: range(start, stop) for device, start, stop in entries}
        count = sum(map(len, placed.values()))
        graph = self.full if count == len(self.weights) else self.partial
        devices = []
        for i, device in enumerate(self.devices):
            layers = placed.get(i, range(0))
            withheld = self.buffer + device.minimum_bytes + self.overhead
            devices.append(
                DeviceLayout(
                    device=device,
                    layers=layers or None,
                    weights=sum(self.weights[layers.start : layers.stop]),
                    kv_cache=sum(self.caches[layers.start : layers.stop]),
                    graph=graph if i in placed else self.graphs[i],
                    listed=i in placed,
                    projector=self.projectors[i],
                    reserved=min(device.free, withheld),
                )
            )
        return Layout(
            devices=tuple(devices),
            cpu_weights=sum(self.weights) - sum(device.weights for device in devices),
            cpu_kv_cache=sum(self.caches) - sum(device.kv_cache for device in devices),
            placed=count,
            total_layers=len(self.weights),
            partial=self.partial,
            full=self.full,
            layer_weights=self.weights,
            layer_kv_cache=self.caches,
            buffer=self.buffer,
            overhead=self.overhead,
            sizes=self.sizes,
        )
