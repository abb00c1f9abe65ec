"""Where each layer of a model goes, and what every GPU then holds (planner.md sections 6 and 7).

Source: Ollama, llm/server.go, `llamaServer.Load`, `createLayout`, `buildLayout`, `verifyLayout`.
Where Ollama would wrap below zero or never end, memory is clamped at 0 and the search stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from explorer.errors import PlanError
from explorer.planner.checks import MAX_BYTES, MAX_MEMORY, sized, whole
from explorer.planner.devices import Device, Host, check_devices
from explorer.planner.fitting import Entry, Rooms, Trace, Wish, as_float32, assign_layers
from explorer.planner.graph.size import GraphSize, size_workload
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.workload import Workload
from explorer.text import bytes_text


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """What one GPU holds.

    Attributes:
        device: The GPU.
        layers: The run of layers on it, or None.
        weights: Bytes of their weights.
        kv_cache: Bytes of their caches.
        graph: Bytes of the compute graph charged to it.
        listed: Whether it is in the final assignment, which can be without layers.
        projector: Bytes of the projector on it.
        reserved: Bytes withheld while fitting, which are in no total: buffer, minimum, overhead.
    """

    device: Device
    layers: range | None
    weights: int
    kv_cache: int
    graph: int
    listed: bool
    projector: int
    reserved: int

    @property
    def total(self) -> int:
        """Bytes that it holds."""
        return self.weights + self.kv_cache + self.graph + self.projector

    @property
    def reserve_left(self) -> int:
        """Bytes of the reserve that are left in the end.

        Ollama keeps the reserve free only while it looks for a fit; a graph may take of it.
        """
        return min(self.reserved, max(0, self.device.free - self.total))

    @property
    def free_left(self) -> int:
        """Bytes that are neither held nor reserved."""
        return max(0, self.device.free - self.total - self.reserved)


@dataclass(frozen=True, slots=True)
class Layout:
    """The assignment of all layers.

    Attributes:
        devices: Each GPU in the given order.
        cpu_weights: Bytes of the weights left to the CPU.
        cpu_kv_cache: Bytes of the caches left to the CPU.
        placed: Number of layers on GPUs.
        total_layers: T, the blocks and the output layer.
        partial: Graph of a partial offload, after the fallback and Metal's rule.
        full: Graph of a full offload, after the fallback.
        layer_weights: Bytes of each layer's weights, [T].
        layer_kv_cache: Bytes of each layer's cache, [T]; the output layer has none.
        buffer: Bytes withheld on every GPU for one block.
        overhead: Bytes withheld on every GPU by a setting.
        sizes: The sizes before the fallback, with the batch that was used.
    """

    devices: tuple[DeviceLayout, ...]
    cpu_weights: int
    cpu_kv_cache: int
    placed: int
    total_layers: int
    partial: int
    full: int
    layer_weights: tuple[int, ...]
    layer_kv_cache: tuple[int, ...]
    buffer: int
    overhead: int
    sizes: GraphSize

    @property
    def fully_offloaded(self) -> bool:
        """Whether every layer is on a GPU."""
        return self.placed == self.total_layers

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


def lay_out(  # noqa: PLR0913 - the options by name are interface.md's promise
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
    wish = Wish(num_gpu, bool(require_full), bool(spread))
    machine = _Machine(check_devices(devices), host, overhead, projector)
    return _Search(h, size_workload(h, workload), machine, wish, trace).run()


@dataclass(frozen=True, slots=True)
class _Machine:
    """What the layers are placed on, and what is taken of it beforehand."""

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
        wish: Wish,
        trace: Trace | None,
    ) -> None:
        devices = machine.devices
        self.sizes = sizes
        self.devices = devices
        self.host = machine.host
        self.wish = wish
        self.overhead = machine.overhead
        self.trace = trace
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
        self.buffer = self._buffer(groups.get("blk.0"))
        self.projectors = self._place_projector(machine.projector)

    def _buffer(self, first_block: int | None) -> int:
        """Return the size of block 0 with its cache, or 0 if the file has no block 0."""
        if first_block is None:
            return 0
        caches = self.sizes.kv_per_layer
        return first_block + (caches[0] if caches else 0)

    def _place_projector(self, nbytes: int) -> list[int]:
        """Return what each GPU holds of the projector: the first discrete GPU, else the first."""
        placed = [0] * len(self.devices)
        if nbytes and placed:
            discrete = [i for i, device in enumerate(self.devices) if not device.integrated]
            placed[discrete[0] if discrete else 0] = nbytes
        return placed

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
        order = sorted(
            range(len(free)), key=lambda i: (self.devices[i].integrated, -free[i])
        )  # a stable sort: ties keep the given order
        if self.trace is not None:
            self.trace.append(tuple(order))
        libraries: dict[str, list[int]] = {}
        for i in order:
            libraries.setdefault(self.devices[i].library, []).append(i)
        best: list[Entry] = []
        most = 0
        for members in libraries.values():
            entries = assign_layers(self.ends, self._rooms(members, free), self.wish, self.trace)
            placed = sum(stop - start for _, start, stop in entries)
            if placed > most:
                most = placed
                best = [(members[position], start, stop) for position, start, stop in entries]
        if most < len(self.weights):
            self.trace = None  # rooms only shrink from pass to pass: it stays partial
        return best

    def _rooms(self, members: Sequence[int], free: Sequence[int]) -> Rooms:
        """Return what the GPUs of a library have left for layers."""
        rooms = []
        last_used = 0
        for position, i in enumerate(members):
            device, graph = self.devices[i], self.graphs[i]
            if graph:
                last_used = position
            withheld = device.minimum_bytes + self.overhead + graph
            rooms.append(as_float32(max(0, free[i] - withheld)))
        return Rooms(rooms, [self.devices[i].integrated for i in members], last_used)

    def _check(self, entries: Sequence[Entry]) -> None:
        """Refuse what Ollama refuses; on macOS give up offloading where memory would run out."""
        ends, wish, host = self.ends, self.wish, self.host
        on_gpus = sum(ends[stop] - ends[start] for _, start, stop in entries)
        on_cpu = ends[-1] - on_gpus
        placed = sum(stop - start for _, start, stop in entries)
        short = placed < len(self.weights) and (wish.num_gpu < 0 or placed < wish.num_gpu)
        if wish.require_full and self.devices and short:
            raise PlanError(
                f"only {placed} of {len(self.weights)} layers fit on the GPUs", "requires full"
            )
        if host is None:
            return
        if wish.require_full and on_cpu > host.free:
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
            self.wish = Wish(0, wish.require_full, wish.spread)

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
