"""Compute buffers: what llama.cpp reserves for the graph of a full batch.

There is no formula in its sources. So the graph is built (`architectures`) and its memory given
out as llama.cpp does it (`llama-context.cpp`, `sched_reserve`), with blocks that
repeat what came before left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple, TypeAlias

from explorer.planner.llama_cpp.architectures import STYLES, build_graph
from explorer.planner.llama_cpp.block import Batch, Placement, UnknownGraphError
from explorer.planner.llama_cpp.graph import Graph, Tensor
from explorer.planner.llama_cpp.header import GPU_ALIGNMENT, Header, padded

_REPEATED: Final = 3  # times that two kinds of blocks are looked at as neighbours
_REPEATED_ON_HOST: Final = 2
_LONGEST_WAY: Final = 64  # from a kind of block back to itself, that is looked at
_REMEMBERED: Final = 256  # results of a model
_KNOWN: Final = (99, 101)  # per cent of the figure, as measured (docs/planner.md)
_READ: Final = (90, 110)  # of what was read in the sources and never measured
_UNKNOWN: Final = (70, 145)  # the same, with the graphs of others
_HOST_ALIGNMENT: Final = 32
_OFFLOADED_ROWS: Final = 32  # from which on a GPU computes with weights of the host
_COPIES: Final = 4  # of what crosses, where devices work in a pipeline
_ENDLESS: Final = 1 << 62


_Kind: TypeAlias = tuple[Hashable, ...]


class Compute(NamedTuple):
    """Bytes of a compute buffer, and the limits of what is known about them."""

    size: int | None
    low: int
    high: int


def compute_buffers(
    header: Header, batch: Batch, placement: Placement
) -> tuple[str, list[Compute]]:
    """Return the compute buffer of each GPU, and last that of the host.

    With them how well they are known: "exact" where the graph of the architecture was tried on
    golden cases, "band" where it was only read in the sources, else "unknown architecture".
    """
    style = STYLES.get(header.architecture)
    accuracy, (low, high) = "unknown architecture", _UNKNOWN
    if style is not None:
        accuracy, (low, high) = ("exact", _KNOWN) if style.tried else ("band", _READ)
    try:
        sizes = _remembered(header, batch, placement)
    except UnknownGraphError:
        most = _most(header, batch)
        return "unknown architecture", [Compute(None, 0, most)] * (placement.gpus + 1)
    found = [Compute(size, size * low // 100, -(-size * high // 100)) for size in sizes]
    return accuracy, found


def _remembered(header: Header, batch: Batch, placement: Placement) -> list[int]:
    """Return the sizes of a batch; a slider or `fit` asks for the same graph again and again."""
    blocks, kinds = _different_blocks(header, placement)
    others = frozenset(item for item in placement.moved.items() if not item[0].startswith("blk."))
    key: Hashable = (batch, *placement.fixed, placement.of_layer[-1], kinds, others)
    known = header.computed
    if key not in known:
        if len(known) >= _REMEMBERED:
            known.pop(next(iter(known)))
        graph = build_graph(header, batch, placement, blocks)
        known[key] = reserve(graph, placement.gpus, pipelined=placement.pipelined)
    return known[key]


def _different_blocks(header: Header, placement: Placement) -> tuple[list[int], Hashable]:
    """Return the blocks that decide how large the buffers are, and what is in them.

    After a block, memory is as it was after the one before, if both are of one kind.
    """
    moved: dict[int, list[Hashable]] = {}
    for name, place in placement.moved.items():
        tensor = header.weights_by_name[name]
        told = (name.split(".", 2)[-1], place, tensor.stored)
        moved.setdefault(tensor.layer, []).append(told)
    kinds: list[_Kind] = []
    for block in range(header.blocks):
        place = placement.of_layer[block]
        # weights of the host are copied to a GPU, so their sizes count
        sizes: Hashable = None if place.startswith("GPU") else header.sizes[block]
        if block in moved:
            sizes = (sizes, *moved[block])
        kinds.append((place, header.kinds[block], len(moved.get(block, ())), sizes))
    walk = _Walk()
    for block, kind in enumerate(kinds):
        walk.step(block, kind)
    return walk.blocks, tuple(kinds[block] for block in walk.blocks)


class _Walk:
    """A walk from kind to kind without the ways around that it has been before.

    So a kind follows another only where it does in the model.
    """

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self._kinds: list[_Kind] = []
        self._seen: Counter[tuple[_Kind, _Kind]] = Counter()  # pairs of neighbours

    def step(self, block: int, kind: _Kind) -> None:
        """Go on to a block, or back to the last one of its kind if all between was seen before."""
        self.blocks.append(block)
        self._kinds.append(kind)
        if len(self._kinds) > 1:
            self._count(len(self._kinds) - 1, 1)
        behind = self._kinds[-2 : -2 - _LONGEST_WAY : -1]
        if kind not in behind:
            return
        last = len(self._kinds) - 2 - behind.index(kind)
        around = range(last + 1, len(self._kinds))
        for place in around:
            self._count(place, -1)
        if all(self._is_known(place) for place in around):
            del self.blocks[last:], self._kinds[last + 1 :]
            self.blocks.append(block)
        else:
            for place in around:
                self._count(place, 1)

    def _pairs(self, place: int) -> tuple[tuple[_Kind, _Kind], tuple[_Kind, _Kind]]:
        """Return a kind with the one before, and both without the sizes of their weights."""
        before, kind = self._kinds[place - 1], self._kinds[place]
        return (before, kind), (before[:-1], kind[:-1])

    def _count(self, place: int, times: int) -> None:
        for pair in self._pairs(place):
            self._seen[pair] += times

    def _is_known(self, place: int) -> bool:
        pair, alike = self._pairs(place)
        needed = _REPEATED if pair[1][-1] is None else _REPEATED_ON_HOST
        return self._seen[pair] >= 1 and self._seen[alike] >= needed


def _most(header: Header, batch: Batch) -> int:
    """Return a generous limit for a graph that is not known: masks, and four of the widest rows."""
    matrices = (one.extent for one in header.tensors if min(one.extent[:2]) > 1 and one.layer >= 0)
    widest = max((max(extent[:2]) for extent in matrices), default=header.embedding)
    used = max(header.experts_used, 1)
    return batch.tokens * 4 * (batch.cells + batch.window_cells + 4 * widest * used)


# How a graph is cut where devices change, with copies of what crosses (`ggml-backend.cpp`,
# `ggml_backend_sched_split_graph`), and how memory is given out and taken back in the order of
# computation (`ggml-alloc.c`); a buffer is as large as its highest address.


def reserve(graph: Graph, gpus: int, *, pipelined: bool = False) -> list[int]:
    """Return the bytes of each GPU's compute buffer, and last those of the host's."""
    _assign(graph.nodes, graph.leaves, gpus)
    nodes, leaves = _split(graph, _COPIES if pipelined else 1)
    allocator = _Allocator(gpus)
    allocator.run(nodes, leaves)
    return [heap.peak for heap in allocator.heaps]


def _assign(nodes: Sequence[Tensor], leaves: Sequence[Tensor], host: int) -> None:
    """Give every tensor a device."""
    for tensor in leaves:
        tensor.backend = host if tensor.is_input else tensor.place
    for tensor in nodes:
        tensor.backend = tensor.pinned if tensor.pinned >= 0 else _of_stored(tensor, host)
    own = [tensor for tensor in nodes if tensor.op != "view"]
    backward = own[::-1]
    _spread(own, host)
    _spread(backward, host)
    _spread(own, -1)
    _spread(backward, -1)
    for tensor in nodes:
        if tensor.backend < 0:
            tensor.backend = tensor.root.backend if tensor.root is not None else 0
        for source in tensor.sources:
            if source.backend < 0:
                root = source.root
                source.backend = tensor.backend if root is None else root.backend


def _of_stored(tensor: Tensor, host: int) -> int:
    """Return the device where what an operation needs lies; -1 if it needs nothing stored."""
    if tensor.root is not None:
        return tensor.root.place
    if tensor.op in ("rope", "flash_attention"):
        return -1  # what they read of a model is too small to decide
    for source in tensor.sources:
        if source.weights:
            place = source.place
            return 0 if place == host > 0 and tensor.rows >= _OFFLOADED_ROWS else place
    return -1


def _spread(nodes: Sequence[Tensor], skipped: int) -> None:
    """Give tensors without a device that of their neighbour."""
    current = -1
    for tensor in nodes:
        if tensor.backend >= 0:
            current = -1 if tensor.backend == skipped else tensor.backend
        elif current >= 0:
            tensor.backend = current


def _split(graph: Graph, copies: int) -> tuple[list[Tensor], list[Tensor]]:
    """Return the nodes with copies of what crosses between devices, and all leaves."""
    nodes: list[Tensor] = []
    crossing: list[Tensor] = []
    current, brought = -1, 0
    part: list[Tensor] = []
    for tensor in graph.nodes:
        if tensor.op == "view":
            part.append(tensor)
            continue
        if current < 0:
            current = tensor.backend
        if tensor.backend != current or (brought and _brings_weights(tensor, current)):
            nodes += part
            part, brought, current = [], 0, tensor.backend
        for index, source in enumerate(tensor.sources):
            place = (source if source.root is None else source.root).place
            if (source.backend if place < 0 else place) == current:
                continue  # it can be read where it lies
            known = source.copies
            if known is None:
                known = source.copies = {}
            if current not in known:
                known[current] = [_copy(source, current, copies) for _ in range(copies)]
                crossing += known[current]
                nodes += (_dependency(source), known[current][0])
                brought += 1
            tensor.sources[index] = known[current][0]
        part.append(tensor)
    nodes += part
    if copies == 1:
        return nodes, graph.leaves
    inputs = [tensor for tensor in graph.leaves if tensor.is_input]
    return nodes, [*_repeated(inputs, copies), *crossing, *graph.leaves]


def _brings_weights(tensor: Tensor, device: int) -> bool:
    for source in tensor.sources:  # noqa: SIM110 - half of the time of any()
        if source.weights and source.place != device:
            return True
    return False


def _copy(source: Tensor, device: int, copies: int) -> Tensor:
    twin = Tensor("leaf", source.extent, [], source.width)
    twin.plain = source.plain
    twin.nbytes, twin.backend = source.nbytes, device
    twin.scratch = source.scratch if source.weights else 0
    twin.is_input = twin.is_output = copies > 1
    return twin


def _dependency(source: Tensor) -> Tensor:
    """Return what keeps a tensor until it was copied."""
    kept = Tensor("dependency", source.extent, [source], source.width, source)
    kept.backend = source.backend
    return kept


def _repeated(inputs: Sequence[Tensor], copies: int) -> list[Tensor]:
    found = []
    for tensor in inputs:
        tensor.is_output = True
        found += [tensor, *(_copy(tensor, tensor.backend, copies) for _ in range(copies - 1))]
    return found


class _Heap:
    """Free memory of one buffer: blocks by address, the last of them endless."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.peak = 0
        self._starts = [0]
        self._sizes = [_ENDLESS]

    def take(self, size: int) -> int:
        """Return the address of the smallest block that is large enough, the last only at need."""
        size = -(-size // self.alignment) * self.alignment
        sizes = self._sizes
        best, least = len(sizes) - 1, _ENDLESS
        for index in range(best):
            if size <= sizes[index] <= least:
                best, least = index, sizes[index]
        start = self._starts[best]
        if sizes[best] == size:
            del sizes[best], self._starts[best]
        else:
            self._starts[best] = start + size
            sizes[best] -= size
        self.peak = max(self.peak, start + size)
        return start

    def give(self, start: int, size: int) -> None:
        """Take back a block, and join it with its neighbours."""
        if not size:
            return  # there are states of no sequence
        size = -(-size // self.alignment) * self.alignment
        starts, sizes = self._starts, self._sizes
        index = bisect_left(starts, start)
        if index and starts[index - 1] + sizes[index - 1] == start:
            sizes[index - 1] += size
            if start + size == starts[index]:
                sizes[index - 1] += sizes[index]
                del starts[index], sizes[index]
        elif start + size == starts[index]:
            starts[index] = start
            sizes[index] += size
        else:
            starts.insert(index, start)
            sizes.insert(index, size)


class _Allocator:
    """Memory of all devices, given out in the order of computation."""

    def __init__(self, gpus: int) -> None:
        self.heaps = [_Heap(GPU_ALIGNMENT) for _ in range(gpus)] + [_Heap(_HOST_ALIGNMENT)]
        self._host = gpus

    def run(self, nodes: Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
        for tensor in leaves:
            self._take(tensor)
        for tensor in nodes:
            if tensor.root is not None and tensor.op != "dependency":
                tensor.root.views += 1
            if tensor.is_input:
                self._take(tensor)
            for source in tensor.sources:
                source.children += 1
        for tensor in nodes:
            for source in tensor.sources:
                if not source.owned:
                    self._take(source)
            self._take(tensor)
            for source in tensor.sources:
                source.children -= 1
                if not source.children and not source.views:
                    self._release(source)

    def _size(self, tensor: Tensor) -> int:
        return tensor.nbytes + (tensor.scratch if tensor.buffer != self._host else 0)

    def _take(self, tensor: Tensor) -> None:
        if tensor.owned or tensor.place >= 0 or tensor.root is not None:
            return
        tensor.owned = True
        if tensor.in_place and self._takes_over(tensor):
            return
        tensor.buffer = tensor.backend
        tensor.offset = self.heaps[tensor.buffer].take(self._size(tensor))

    def _takes_over(self, tensor: Tensor) -> bool:
        """Write over a source that nothing else needs; return whether there is one."""
        for source in tensor.sources:
            if not source.owned or source.is_output or source.children != 1 or source.views:
                continue
            same = tensor.extent == source.extent and tensor.width == source.width
            if not same or not source.plain:
                continue
            tensor.buffer, tensor.offset = source.buffer, source.offset
            source.owned = False
            heap = self.heaps[tensor.buffer]
            kept = padded(self._size(tensor), heap.alignment)
            spare = padded(self._size(source), heap.alignment) - kept
            if spare > 0:
                heap.give(tensor.offset + kept, spare)
            return True
        return False

    def _release(self, tensor: Tensor) -> None:
        """Take back what is not needed any more: of a view, that which it shows."""
        holder = tensor
        if tensor.root is not None:
            holder = tensor.root
            holder.views -= 1
            if holder.views or holder.children:
                return
        if holder.owned and not holder.is_output:
            self.heaps[holder.buffer].give(holder.offset, self._size(holder))
            holder.owned = False
