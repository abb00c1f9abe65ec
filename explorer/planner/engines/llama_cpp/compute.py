"""Compute buffers: what llama.cpp reserves for the graph of a full batch.

There is no formula in its sources. So the graph is built (`build`), cut where devices change, with
copies of what crosses (`ggml-backend.cpp`, `ggml_backend_sched_split_graph`), and its memory given
out in the order of computation (`ggml-alloc.c`); a buffer is as large as its highest address.
Blocks are alike, so only a few of them are built: `blocks_to_build`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

from explorer.parallel import collector_paused
from explorer.planner.engines.llama_cpp.backends import Backend
from explorer.planner.engines.llama_cpp.block import Batch, Block, Placement
from explorer.planner.engines.llama_cpp.build import build_graph
from explorer.planner.engines.llama_cpp.builds import Revision
from explorer.planner.engines.llama_cpp.fusing import Fusing
from explorer.planner.engines.llama_cpp.graph import (
    HOST_ALIGNMENT,
    Allocator,
    Graph,
    Tensor,
    UnknownGraphError,
)
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.engines.llama_cpp.kernels import lacks_kernel
from explorer.planner.engines.llama_cpp.metal import add_scratch, concurrent, stays_on_cpu
from explorer.planner.engines.llama_cpp.reordering import reordered, with_parts

_REMEMBERED: Final = 256  # results of a model
_LIMITS: Final = {"exact": (99, 101), "band": (90, 110), "unknown architecture": (70, 145)}
"""Per cent of the figure, as measured (docs/planner.md)."""
_OFFLOADED_ROWS: Final = 32  # from which on a GPU computes with weights of the host
_COPIES: Final = 4  # of what crosses, where devices work in a pipeline
_REPEATED: Final = 4  # after so many like blocks memory is as after any number
_SWINGS: Final = 2  # in some models only every second block leaves it so: those with Mamba 2
_LONGEST_PERIOD: Final = 12  # blocks after which their kinds repeat


Kept = TypeVar("Kept")
_Order: TypeAlias = Callable[[list[Tensor], int], list[Tensor]]
"""The order in which a device computes the nodes of a split."""


class Compute(NamedTuple):
    """Bytes of a compute buffer, and the limits of what is known about them."""

    size: int | None
    low: int
    high: int


def compute_buffers(
    header: Header,
    batch: Batch,
    placement: Placement,
    *,
    was_compared: bool = True,
    simulated: bool = False,
) -> tuple[str, list[Compute]]:
    """Return the compute buffer of each GPU, and last that of the host.

    With them how well they are known: "exact" where the graph of the architecture was within 1 %
    of llama.cpp's in all cases, "band" where it was not in some, else "unknown architecture". On
    devices of a kind that was not compared nothing is exact.
    """
    accuracy = header.rules.accuracy
    if accuracy == "exact" and not was_compared:
        accuracy = "band"
    low, high = _LIMITS[accuracy]
    one_each = batch._replace(tokens=batch.sequences, outputs=batch.sequences)

    def of_load(placement: Placement) -> list[int]:
        sizes = _remembered(header, batch, placement)
        if simulated or not placement.any_on_host:  # else the smaller graph needs no more
            return sizes
        return [*map(max, sizes, _remembered(header, one_each, placement))]

    pinned = replace(placement, pinned=placement.offloaded)
    try:
        sizes = most = of_load(placement)
        if placement.gpus > 1 and pinned != placement and not simulated:
            # a load pins norms, and a simulation, which golden data are, does not
            most = of_load(pinned)
    except UnknownGraphError:
        limit = _most(header, batch)
        return "unknown architecture", [Compute(None, 0, limit)] * (placement.gpus + 1)
    found = [
        Compute(size, min(size, other) * low // 100, -(-max(size, other) * high // 100))
        for size, other in zip(sizes, most, strict=True)
    ]
    return accuracy, found


def attends_elsewhere(header: Header, batch: Batch, placement: Placement) -> bool:
    """Return whether flash attention of a layer comes to lie on another device than the layer."""
    blocks, kind = kept(header.built, placement.key, lambda: _to_build(header, placement))

    def found() -> list[int]:
        block = Block(header, batch, placement)
        build_graph(block, blocks)
        _assign(block.graph, placement.gpus, batch.backend)
        return [one.backend - one.layer for one in block.graph.nodes if one.layer >= 0]

    try:
        distances = kept(header.computed, ("attention", batch, kind), found)
    except UnknownGraphError:
        return False
    return any(distances)


def _remembered(header: Header, batch: Batch, placement: Placement) -> list[int]:
    """Return the sizes of a batch; a slider or `fit` asks for the same graph again and again."""
    if header.rules.accuracy == "unknown architecture" and any(header.index_lengths):
        raise UnknownGraphError("positions are chosen")
    blocks, kind = kept(header.built, placement.key, lambda: _to_build(header, placement))
    types = batch.type_k.name.lower(), batch.type_v.name.lower()
    attends_on_cpu = batch.flash_attention and lacks_kernel(
        header, batch.library, types, batch.revision
    )
    if placement.pipelined and attends_on_cpu:  # each block leaves copies of its cache
        blocks = [*range(header.first, header.loaded)]

    def sizes() -> list[int]:
        with collector_paused():  # a graph has no cycles
            return _sizes(header, batch, placement, blocks)

    return kept(header.computed, (batch, kind), sizes)


def kept(known: dict[Hashable, Kept], key: Hashable, make: Callable[[], Kept]) -> Kept:
    """Return what is known by a key, made where it is not; the oldest is forgotten."""
    if key not in known:
        made = known[key] = make()
        for oldest in list(known)[: max(0, len(known) - _REMEMBERED)]:
            known.pop(oldest, None)
        return made
    return known[key]


def _most(header: Header, batch: Batch) -> int:
    """Return a generous limit for a graph that is not known: masks, and four of the widest rows.

    What chooses positions by keys of its own has some thirty scores for each of them.
    """
    used = max(header.experts_used, 1)
    scores = 1 if batch.flash_attention else max(header.heads, default=1)
    scores = max(scores, 32 if any(header.index_lengths) else 1)
    cells = scores * (batch.cells + batch.window_cells)
    return batch.tokens * 4 * (cells + 4 * header.widest_row * used)


# Blocks that are alike


def _to_build(header: Header, placement: Placement) -> tuple[list[int], Hashable]:
    """Return the blocks that are built, and all that their graph follows from but the batch."""
    kinds, ends = _kinds(header, placement)
    built = blocks_to_build(kinds)
    fixed = placement.gpus, placement.offload_kv, placement.pipelined, placement.pinned
    key = fixed, ends, tuple(kinds[block] for block in built)
    return [header.first + block for block in built], key


def _kinds(header: Header, placement: Placement) -> tuple[list[Hashable], Hashable]:
    """Return the kind of each block, the same of those that are alike; and what else matters."""
    moved: dict[int, list[Hashable]] = {}
    others = []
    for name, place in placement.moved.items():
        tensor = header.weights_by_name[name]
        if name.startswith("blk."):
            what = (name.split(".", 2)[-1], place, tensor.stored)
            moved.setdefault(tensor.layer, []).append(what)
        else:
            others.append((name, place))
    turns = 4 if header.rules.rotated.startswith("3 of 4") else 1
    last = header.loaded - 1
    kinds: list[Hashable] = []
    for block, place in enumerate(placement.of_layer[: header.loaded]):
        if block < header.first:
            continue
        # a recurrent block's state is read before its input is made
        is_read = block < last and header.recurrent[block + 1]
        kinds.append((
            *(place, header.kinds[block], (block + 1) % turns, block == last),
            block < header.rules.sparse_blocks,
            # weights of the host are copied to a GPU, so their sizes count
            None if place.startswith("GPU") else header.sizes[block],
            tuple(moved.get(block, ())),
            placement.of_cache(block + 1) if is_read else -1,
            placement.of_cache(header.cache_block(block)),
        ))  # fmt: skip
    return kinds, (tuple(others), placement.of_layer[-1])


def blocks_to_build(kinds: Sequence[Hashable]) -> list[int]:
    """Return the blocks that are built: of a run of like ones, or of like groups, the first few."""
    known: dict[Hashable, int] = {}
    numbers = [known.setdefault(kind, len(known)) for kind in kinds]
    found: list[int] = []
    block = 0
    while block < len(kinds):
        most, built = 0, 1
        longest = (len(numbers) - block) // (_REPEATED + _SWINGS)  # to drop some of the groups
        for period in range(1, min(longest, _LONGEST_PERIOD) + 1):
            if numbers[block] != numbers[block + period]:
                continue
            times = _times(numbers, block, period)
            dropped = max(0, times - _REPEATED) // _SWINGS * _SWINGS
            if dropped * period > most:
                most, built = dropped * period, (times - dropped) * period
        found += range(block, block + built)
        block += built + most
    return found


def _times(numbers: list[int], first: int, period: int) -> int:
    """Return how often the same group of numbers comes, one after the other."""
    group, end = numbers[first : first + period], first + period
    while numbers[end : end + period] == group:
        end += period
    return (end - first) // period


# The graph


def _sizes(header: Header, batch: Batch, placement: Placement, blocks: Sequence[int]) -> list[int]:
    block = Block(header, batch, placement)
    build_graph(block, blocks)
    _assign(block.graph, placement.gpus, batch.backend)
    copies = _COPIES if placement.pipelined else 1
    nodes = block.graph.nodes
    order: _Order = _unchanged
    if batch.backend.scratch == "metal":
        add_scratch(nodes)
    if batch.backend.order == "cuda" and header.experts_used and batch.revision.summed_at_once:
        nodes = with_parts(nodes)
        order = _fused(placement.gpus, nodes, batch.revision)
    elif batch.backend.order in ("vulkan", "metal"):
        nodes = with_parts(nodes)
        order = _reordered(placement.gpus, nodes, batch)
    nodes, crossing = _split(nodes, order, pipelined=copies > 1)
    backend = batch.backend
    host_alignment = backend.host_alignment if placement.gpus else HOST_ALIGNMENT
    allocator = Allocator((*[backend.alignment] * placement.gpus, host_alignment), backend.piece)
    read = {id(source) for tensor in nodes for source in tensor.sources} if copies > 1 else set()
    for tensor in (one for one in block.graph.leaves if one.is_input):
        tensor.is_output = copies > 1
        allocator.take(tensor)
        # given embeddings, which older builds reserve room for and do not read, are not copied
        is_copied = batch.revision.mixed or id(tensor) in read
        for _ in range(copies - 1 if is_copied else 0):
            allocator.take(_copy(tensor, tensor.backend))
    for tensor in crossing if copies > 1 else ():
        for _ in range(copies):
            tensor.owned = False
            allocator.take(tensor)
    allocator.run(nodes)
    return [heap.peak for heap in allocator.heaps]


def _assign(graph: Graph, host: int, backend: Backend) -> None:
    """Give every tensor a device: that of weights and caches that it needs, or its neighbour's."""
    for tensor in graph.leaves:
        tensor.backend = host if tensor.is_input else tensor.place
    for tensor in graph.nodes:
        if tensor.pinned >= 0:
            tensor.backend = tensor.pinned
        else:
            tensor.backend = _of_stored(tensor, host, backend)
    forward = [tensor for tensor in graph.nodes if tensor.op != "view"]
    backward = forward[::-1]
    for order in (forward, backward):
        end = next((i for i, tensor in enumerate(order) if tensor.backend >= 0), 0)
        for tensor in order[:end]:
            tensor.backend = order[end].backend
    for order, skipped in ((forward, host), (backward, host), (forward, -1), (backward, -1)):
        _spread(order, skipped, host)
    for tensor in graph.nodes:
        if tensor.backend < 0:
            first = host if tensor.on_host else 0
            tensor.backend = first if tensor.root is None else tensor.root.backend
        for source in tensor.sources:
            if source.backend < 0:  # a leaf that lies nowhere
                source.backend = tensor.backend if source.root is None else source.root.backend


def _of_stored(tensor: Tensor, host: int, backend: Backend) -> int:
    """Return the device where what an operation needs lies; -1 if it needs nothing stored."""
    if tensor.root is not None:
        return tensor.root.place
    if tensor.op in ("rope", "flash_attention"):
        return -1  # what they read of a model is too small to decide
    for source in tensor.sources:
        if source.weights:
            place = source.place
            if tensor.on_host:
                return host if place == host else -1
            is_many = place == host > 0 and tensor.rows >= _OFFLOADED_ROWS
            is_taken = is_many and not (backend.is_mac and stays_on_cpu(tensor, source))
            return 0 if is_taken else place
    return -1


def _spread(nodes: Sequence[Tensor], skipped: int, host: int) -> None:
    """Give tensors without a device that of their neighbour, if that can compute them."""
    current = -1
    for tensor in nodes:
        backend = tensor.backend
        if backend >= 0:
            current = -1 if backend == skipped else backend
        elif current >= 0 and (current == host or not tensor.on_host):
            tensor.backend = current


def _unchanged(split: list[Tensor], _device: int) -> list[Tensor]:
    return split


def _reordered(host: int, nodes: Sequence[Tensor], batch: Batch) -> _Order:
    """Return what puts the nodes of a split on a GPU into another order."""
    uses = _uses(nodes) if batch.backend.is_mac else {}

    def order(split: list[Tensor], device: int) -> list[Tensor]:
        if device == host:
            return split
        if batch.backend.is_mac:
            return concurrent(split, uses, _dependency, batch.revision)
        return reordered(split, _dependency)

    return order


def _fused(host: int, nodes: Sequence[Tensor], revision: Revision) -> _Order:
    """Return what keeps tensors for what CUDA computes at once."""
    fusing = Fusing(_uses(nodes), _dependency, revision)
    return lambda split, device: fusing(split, on_host=device == host)


def _uses(nodes: Sequence[Tensor]) -> Mapping[int, int]:
    """Return how many nodes read each tensor, by its `id`."""
    return Counter(id(source) for node in nodes for source in node.sources)


def _split(
    nodes: Sequence[Tensor], order: _Order, *, pipelined: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the nodes with copies of what crosses between devices, and these copies.

    A split is what one device computes at a time, in an order of its own; its copies are made where
    it begins.
    """
    done, split, copies = list[Tensor](), list[Tensor](), dict[tuple[int, int], Tensor]()
    device, has_copies = -1, False
    for tensor in nodes:
        if tensor.op == "view":
            split.append(tensor)
            continue
        if tensor.backend != device or (has_copies and _brings_weights(tensor, device)):
            if device >= 0:
                done += order(split, device)
                split = []
            device, has_copies = tensor.backend, False
        for index, source in enumerate(tensor.sources):
            place = source.base.place
            if (source.backend if place < 0 else place) == device:
                continue  # it can be read where it lies
            key = id(source), device
            if key not in copies:
                copies[key] = _copy(source, device, pipelined=pipelined)
                done += (_dependency(source), copies[key])
                has_copies = True
            tensor.sources[index] = copies[key]
        split.append(tensor)
    return done + order(split, device), [*copies.values()]


def _brings_weights(tensor: Tensor, device: int) -> bool:
    for source in tensor.sources:  # noqa: SIM110 - half of the time of any()
        if source.weights and source.place != device:
            return True
    return False


def _copy(source: Tensor, device: int, *, pipelined: bool = False) -> Tensor:
    twin = Tensor("leaf", source.extent, [], source.width)
    twin.plain = source.plain
    twin.nbytes, twin.backend = source.nbytes, device
    twin.scratch = source.scratch if source.op in ("leaf", "view") else 0
    twin.is_input = twin.is_output = pipelined
    return twin


def _dependency(source: Tensor) -> Tensor:
    """Return what keeps a tensor until it was copied."""
    kept = Tensor("dependency", source.extent, [source], source.width, source)
    kept.backend = source.backend
    return kept
