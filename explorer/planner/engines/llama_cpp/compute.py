"""Compute buffers: what llama.cpp reserves for the graph of a full batch.

There is no formula in its sources. So the graph is built (`architectures`) and its memory given
out as llama.cpp does it (`llama-context.cpp`, `sched_reserve`), part after part: the embeddings,
each block, the logits. What a part does to memory depends on its kind and on how memory is when it
begins. Blocks are alike, so few parts are worked out, and the others looked up.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from explorer.planner.engines.llama_cpp.block import EMBEDDINGS, Batch, Block, Placement
from explorer.planner.engines.llama_cpp.build import build_part
from explorer.planner.engines.llama_cpp.graph import (
    GPU_ALIGNMENT,
    HOST_ALIGNMENT,
    Allocator,
    Free,
    Tensor,
    UnknownGraphError,
    view,
)
from explorer.planner.engines.llama_cpp.header import Header

_REMEMBERED: Final = 256  # results of a model
_REMEMBERED_BATCHES: Final = 4
_LIMITS: Final = {"exact": (99, 101), "band": (90, 110), "unknown architecture": (70, 145)}
"""Per cent of the figure, as measured (docs/planner.md)."""
_OFFLOADED_ROWS: Final = 32  # from which on a GPU computes with weights of the host
_COPIES: Final = 4  # of what crosses, where devices work in a pipeline
_NOTHING: Final[frozenset[str]] = frozenset()

_Slot: TypeAlias = tuple[int, int]  # device, address
_Copies: TypeAlias = tuple[tuple[Tensor, Tensor], ...]  # what is copied, and the copy


class Compute(NamedTuple):
    """Bytes of a compute buffer, and the limits of what is known about them."""

    size: int | None
    low: int
    high: int


def compute_buffers(
    header: Header, batch: Batch, placement: Placement
) -> tuple[str, list[Compute]]:
    """Return the compute buffer of each GPU, and last that of the host.

    With them how well they are known: "exact" where the graph of the architecture was within 1 %
    of llama.cpp's in all cases, "band" where it was not in some, else "unknown architecture".
    """
    accuracy = header.rules.accuracy
    low, high = _LIMITS[accuracy]
    try:
        sizes = _remembered(header, batch, placement)
    except UnknownGraphError:
        most = _most(header, batch)
        return "unknown architecture", [Compute(None, 0, most)] * (placement.gpus + 1)
    found = [Compute(size, size * low // 100, -(-size * high // 100)) for size in sizes]
    return accuracy, found


def _remembered(header: Header, batch: Batch, placement: Placement) -> list[int]:
    """Return the sizes of a batch; a slider or `fit` asks for the same graph again and again."""
    if header.rules.accuracy == "unknown architecture" and any(header.index_lengths):
        raise UnknownGraphError("positions are chosen")
    fixed = batch, placement.gpus, placement.offload_kv, placement.pipelined
    key = (fixed, tuple(placement.of_layer), tuple(placement.moved.items()))
    known, runs = header.computed, header.runs
    if key not in known:
        run = runs.pop(fixed, None) or _Run(header, batch, placement)
        known[key] = run.sizes(header, placement)
        runs[fixed] = run
        for table, most in ((known, _REMEMBERED), (runs, _REMEMBERED_BATCHES)):
            for oldest in list(table)[: max(0, len(table) - most)]:
                table.pop(oldest, None)
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


# How a graph is cut where devices change, with copies of what crosses (`ggml-backend.cpp`,
# `ggml_backend_sched_split_graph`), and how memory is given out and taken back in the order of
# computation (`ggml-alloc.c`); a buffer is as large as its highest address.


class _IrregularError(Exception):
    """A part depends on more than what the one before hands to it: all are done at once."""


@dataclass(eq=False)
class _Piece:
    """One or more parts of a graph that are next to one another, as built."""

    nodes: list[Tensor]
    leaves: list[Tensor]
    before: tuple[Tensor, ...]  # what the piece before made
    made: tuple[Tensor, ...]  # what the next piece reads: its input, and perhaps a state
    handed: int  # the number of the shapes of that
    first: int  # device of the first operation that weights or caches decide about; -1: none
    last: int
    is_cut: bool = False


@dataclass(eq=False)
class _Cut:
    """A piece with all devices known: its nodes with copies of what crosses between them.

    The copies of a split are made where it begins, also for later pieces that it goes on in.
    """

    piece: _Piece
    nodes: list[Tensor] = field(default_factory=list)
    at: int = -1  # where copies for later pieces go; -1: the split began in a piece before
    device: int = -1  # of the last split
    brought: bool = False  # whether it begins with copies
    known: frozenset[str] = frozenset()  # shared things made up to here: views and copies
    early: list[Tensor] = field(default_factory=list)  # copies for the split before
    crossing: list[Tensor] = field(default_factory=list)  # all copies that are made
    shared: dict[str, Tensor] = field(default_factory=dict)  # what is read of shared things
    here: set[str] = field(default_factory=set)  # those of them that are made here
    left: int = -1  # the number of what the cut of the next piece depends on


class _Memory(NamedTuple):
    """How memory is between two pieces."""

    free: tuple[Free, ...]
    made: tuple[_Slot, ...]  # of what the next piece reads
    copied: tuple[_Slot, ...]  # of copies of that, on other devices
    shared: tuple[tuple[str, _Slot], ...]  # inputs, and their copies


def pieces_of(blocks: int) -> list[tuple[int, ...]]:
    """Return the parts of a graph as they are worked out: one after the other."""
    parts = range(EMBEDDINGS, blocks + 1)
    # the split that the embeddings end with goes on in the first block
    return [tuple(parts[:2]), *((part,) for part in parts[2:])]


def _pieces(header: Header) -> list[tuple[int, ...]]:
    # where each block has embeddings of its own, it reads what the first part made
    alone = "per_layer_token_embd.weight" in header.weights_by_name
    return _one_piece(header) if alone else pieces_of(header.loaded)


def _one_piece(header: Header) -> list[tuple[int, ...]]:
    return [tuple(range(EMBEDDINGS, header.loaded + 1))]


class _Run:
    """Parts of the graph of one batch, with any placement of one model.

    It does not hold the model, which holds it: together they go when the model does.
    """

    def __init__(self, header: Header, batch: Batch, placement: Placement) -> None:
        self._batch = batch
        self._alignments = (*[GPU_ALIGNMENT] * placement.gpus, HOST_ALIGNMENT)
        self._pipelined = placement.pipelined
        self._inputs: dict[str, Tensor] = {}
        self._twins: dict[str, Tensor] = {}
        self._numbers: dict[Hashable, int] = {}  # of what is compared again and again
        self._pieces: dict[tuple[int, int], _Piece] = {}
        self._cuts: dict[tuple[int, ...], _Cut] = {}
        self._memories: dict[_Memory, _Memory] = {}
        self._steps: dict[Hashable, tuple[_Memory, tuple[int, ...]]] = {}
        self._lock = Lock()  # tensors are used again and again

    def sizes(self, header: Header, placement: Placement) -> list[int]:
        """Return the bytes of each GPU's compute buffer, and last those of the host's."""
        with self._lock:
            if len(self._cuts) > _REMEMBERED:
                for known in (self._pieces, self._cuts, self._memories, self._steps):
                    known.clear()
                self._numbers.clear()
            try:
                return self._sizes(header, placement, _pieces(header))
            except _IrregularError:
                return self._sizes(header, placement, _one_piece(header))

    def _number(self, compared: Hashable) -> int:
        return self._numbers.setdefault(compared, len(self._numbers))

    def _sizes(
        self, header: Header, placement: Placement, parts: Sequence[tuple[int, ...]]
    ) -> list[int]:
        keys: list[tuple[int, int]] = []
        pieces: list[_Piece] = []
        made: tuple[Tensor, ...] = ()
        handed = -1
        for kind, numbers in zip(self._kinds(header, placement, parts), parts, strict=True):
            key = kind, handed
            piece = self._pieces.get(key)
            if piece is None:
                piece = self._pieces[key] = self._built(header, placement, numbers, made)
            keys.append(key)
            pieces.append(piece)
            made, handed = piece.made, piece.handed
        gaps = [_between(one.last, two.first, placement.gpus) for one, two in pairwise(pieces)]
        gaps = [pieces[0].first, *gaps, pieces[-1].last]
        cuts: list[_Cut] = []
        last, left = None, -1
        for index, key in enumerate(keys):
            asked = (*key, gaps[index], gaps[index + 1], left)
            cut = self._cuts.get(asked)
            if cut is None:
                piece = pieces[index]
                if piece.is_cut:  # in another way
                    before = last.piece.made if last else ()
                    piece = self._built(header, placement, parts[index], before)
                cut = self._cuts[asked] = self._cut(piece, last, gaps[index : index + 2], placement)
            cuts.append(cut)
            last, left = cut, cut.left
        return self._given_out(cuts)

    def _kinds(
        self, header: Header, placement: Placement, parts: Sequence[tuple[int, ...]]
    ) -> list[int]:
        """Return a number for each piece, the same for those that are alike in all that matters."""
        moved = placement.moved
        if len(parts) == 1:
            return [self._number((tuple(placement.of_layer), tuple(moved.items())))]
        of_block: dict[int, tuple[Hashable, ...]] = {}
        others = []
        for name, place in moved.items():
            tensor = header.weights_by_name[name]
            if name.startswith("blk."):
                told = (name.split(".", 2)[-1], place, tensor.stored)
                of_block[tensor.layer] = (*of_block.get(tensor.layer, ()), told)
            else:
                others.append((name, place))
        ends = tuple(others)
        of_factors = ends if header.rope_factors else ()
        turns = 4 if header.rules.rotated.startswith("3 of 4") else 1
        last = header.loaded - 1
        kinds: list[Hashable] = [(EMBEDDINGS, ends)]
        for block, place in enumerate(placement.of_layer[: header.loaded]):
            # a recurrent block's state is read before its input is made
            is_read = block < last and header.recurrent[block + 1]
            kinds.append((
                *(place, header.kinds[block], (block + 1) % turns, block == last),
                # weights of the host are copied to a GPU, so their sizes count
                None if place.startswith("GPU") else header.sizes[block],
                *(of_block.get(block), of_factors),
                placement.of_cache(block + 1) if is_read else -1,
                placement.of_cache(header.cache_block(block)),
            ))  # fmt: skip
        kinds.append((header.loaded, placement.of_layer[-1], ends))
        return [self._number(one) for one in [tuple(kinds[:2]), *kinds[2:]]]

    def _built(
        self, header: Header, placement: Placement, parts: tuple[int, ...], last: tuple[Tensor, ...]
    ) -> _Piece:
        for tensor in self._inputs.values():
            tensor.visited = False
        block = Block(header, self._batch, placement, self._inputs)
        before = tuple(map(_stand_in, last))
        current = before[0] if before else None
        block.early_state = before[1] if len(before) > 1 else None
        for part in parts:
            current = build_part(block, part, current)
        made = tuple(one for one in (current, block.early_state) if one is not None)
        host, nodes = placement.gpus, block.graph.nodes
        if current is None or current in before or current.root is not None:
            raise _IrregularError
        for tensor in nodes:
            if tensor.op != "view":
                tensor.decided = _decided(tensor, host)
        marks = [tensor.decided for tensor in nodes if tensor.decided >= 0]
        first, last_one = (marks[0], marks[-1]) if marks else (-1, -1)
        if not marks and len(parts) == 1:
            raise _IrregularError
        handed = self._number(tuple((one.extent, one.width, one.nbytes) for one in made))
        return _Piece(nodes, block.graph.leaves, before, made, handed, first, last_one)

    def _cut(
        self, piece: _Piece, last: _Cut | None, gaps: Sequence[int], placement: Placement
    ) -> _Cut:
        """Give each tensor a device, and add copies of what crosses."""
        host, piece.is_cut = placement.gpus, True
        for tensor in self._inputs.values():
            tensor.backend = host
        if last is not None:
            for tensor, made in zip(piece.before, last.piece.made, strict=True):
                for one in _shown(tensor):
                    one.backend = made.backend
        _assign(piece, host, gaps)
        cut = _Cut(piece)
        if last is not None:
            cut.device, cut.brought, cut.known = last.device, last.brought, last.known
        self._split(cut, pipelined=placement.pipelined)
        for tensor in cut.nodes:
            for source in tensor.sources:
                root = source.root
                if source.shared:
                    cut.shared[source.shared] = source
                if root is not None and root.shared:
                    cut.shared[root.shared] = root
        devices = tuple(one.backend for one in piece.made)
        cut.left = self._number((cut.device, cut.brought, cut.known, devices))
        return cut

    def _split(self, cut: _Cut, *, pipelined: bool) -> None:
        done, part, known = cut.nodes, list[Tensor](), set(cut.known)
        own: dict[tuple[int, int], Tensor] = {}
        for tensor in cut.piece.nodes:
            if tensor.op == "view":
                if tensor.shared and tensor.shared in known:
                    continue
                if tensor.shared:
                    known.add(tensor.shared)
                    cut.here.add(tensor.shared)
                part.append(tensor)
                continue
            if cut.device < 0:
                cut.device, cut.at = tensor.backend, 0
            if tensor.backend != cut.device or (
                cut.brought and _brings_weights(tensor, cut.device)
            ):
                done += part
                part = []
                cut.device, cut.brought, cut.at = tensor.backend, False, len(done)
            for index, source in enumerate(tensor.sources):
                place = (source if source.root is None else source.root).place
                if (source.backend if place < 0 else place) == cut.device:
                    continue  # it can be read where it lies
                twin, is_new = self._twin(source, cut.device, own, known, pipelined)
                tensor.sources[index] = twin
                if not is_new:
                    continue
                cut.brought = True
                cut.crossing.append(twin)
                if cut.at >= 0:
                    done += (_dependency(source), twin)
                    cut.at = len(done)
                    cut.here.add(twin.shared)
                elif twin.shared or source in cut.piece.before:
                    cut.early.append(twin)
                else:
                    raise _IrregularError
            part.append(tensor)
        done += part
        cut.known = frozenset(known)

    def _twin(
        self,
        source: Tensor,
        device: int,
        own: dict[tuple[int, int], Tensor],
        known: set[str],
        pipelined: bool,
    ) -> tuple[Tensor, bool]:
        """Return the copy of a tensor on a device, and whether it is a new one."""
        if not source.shared:
            key = id(source), device
            is_new = key not in own
            if is_new:
                own[key] = _copy(source, device, pipelined=pipelined)
            return own[key], is_new
        name = f"{source.shared} for {device}"
        twin = self._twins.get(name)
        if twin is None:
            twin = self._twins[name] = _copy(source, device, pipelined=pipelined)
            twin.shared = name
        is_new = name not in known
        known.add(name)
        return twin, is_new

    def _given_out(self, cuts: Sequence[_Cut]) -> list[int]:
        """Give out memory to all pieces; return the highest address of each device."""
        added = _copies_for_later(cuts)
        dying = _last_reads(cuts, added)
        memory, peaks = self._start(cuts)
        memory = self._memories.setdefault(memory, memory)
        reached = {peaks}
        for cut, copies, ends in zip(cuts, added, dying, strict=True):
            key = cut, copies, ends, id(memory)
            step = self._steps.get(key)
            if step is None:
                memory, highest = self._step(cut, copies, ends, memory)
                step = self._steps[key] = self._memories.setdefault(memory, memory), highest
            memory, highest = step
            reached.add(highest)
        return list(map(max, *reached)) if len(reached) > 1 else list(peaks)

    def _start(self, cuts: Sequence[_Cut]) -> tuple[_Memory, tuple[int, ...]]:
        """Give out the memory of inputs, and in a pipeline that of all copies."""
        allocator = Allocator(self._alignments)
        copies = _COPIES if self._pipelined else 1
        leaves = chain.from_iterable(cut.piece.leaves for cut in dict.fromkeys(cuts))
        inputs = {one.shared: one for one in leaves if one.is_input}
        for tensor in inputs.values():
            tensor.owned, tensor.is_output = False, copies > 1
            allocator.take(tensor)
            for _ in range(copies - 1):
                allocator.take(_copy(tensor, tensor.backend))
        for tensor in chain.from_iterable(cut.crossing for cut in cuts if copies > 1):
            for _ in range(copies):
                tensor.owned = False
                allocator.take(tensor)
        shared = tuple((name, _slot(one)) for name, one in inputs.items())
        return _Memory(allocator.free, (), (), shared), allocator.peaks

    def _step(
        self, cut: _Cut, copies: _Copies, ends: frozenset[str], memory: _Memory
    ) -> tuple[_Memory, tuple[int, ...]]:
        """Give out the memory of a piece; `ends` are shared things that no later piece reads."""
        allocator = Allocator(self._alignments, memory.free)
        nodes, shared, here = cut.nodes, cut.shared, cut.here
        if copies and not self._pipelined:
            added = [one for pair in copies for one in (_dependency(pair[0]), pair[1])]
            nodes = nodes[: cut.at] + added + nodes[cut.at :]
            of_copies = (one for pair in copies for one in (pair[1], *_shown(pair[0])))
            shared = shared | {one.shared: one for one in of_copies if one.shared}
            here = here | {twin.shared for _, twin in copies}
        for tensor in nodes:
            tensor.children = tensor.views = 0
            tensor.owned = self._pipelined and tensor.is_input
            for source in tensor.sources:
                source.children = source.views = 0
        slots = dict(memory.shared)
        for name, tensor in shared.items():
            tensor.children, tensor.views = int(name not in ends), 0
            is_held = self._pipelined or name not in here
            tensor.owned = is_held and tensor.root is None and tensor.place < 0
            if name in slots:
                tensor.buffer, tensor.offset = slots[name]
        for name, tensor in shared.items():
            if tensor.root is not None and name not in here:
                tensor.root.views += 1
        _take_over(cut.piece.before, memory.made)
        _take_over([one for one in cut.early if not one.shared], memory.copied)
        handed = [twin for _, twin in copies if not twin.shared]
        for tensor in (*cut.piece.made, *handed):
            tensor.children = 1  # for the next piece
        allocator.run(nodes)
        kept = [(name, slot) for name, slot in memory.shared if name not in ends]
        for tensor in nodes:
            if tensor.shared and tensor.owned and tensor.shared not in ends:
                kept.append((tensor.shared, _slot(tensor)))
        made, copied = (tuple(map(_slot, tensors)) for tensors in (cut.piece.made, handed))
        return _Memory(allocator.free, made, copied, tuple(kept)), allocator.peaks


def _copies_for_later(cuts: Sequence[_Cut]) -> list[_Copies]:
    """Return for each piece what it copies for those in which its last split goes on."""
    found: list[_Copies] = []
    carried: list[tuple[Tensor, Tensor]] = []
    behind: _Cut | None = None
    for cut in reversed(cuts):
        if not carried and not cut.early:
            found.append(())
            behind = cut
            continue
        began_here = cut.at >= 0
        if behind is not None:
            before, made = behind.piece.before, cut.piece.made
            for index, (original, twin) in enumerate(carried):
                if twin.shared:
                    continue
                if not began_here:
                    raise _IrregularError
                carried[index] = made[before.index(original)], twin
        found.append(tuple(carried) if began_here else ())
        early = [(twin.original, twin) for twin in cut.early]
        carried = early if began_here else early + carried
        behind = cut
    return found[::-1]


def _last_reads(cuts: Sequence[_Cut], added: Sequence[_Copies]) -> list[frozenset[str]]:
    """Return for each piece the shared things that no piece behind it reads."""
    found: list[frozenset[str]] = []
    seen: set[str] = set()
    behind: _Cut | None = None
    for cut, copies in zip(reversed(cuts), reversed(added), strict=True):
        names: set[str] = set()
        if cut is not behind:  # of blocks that are alike the last one reads last
            names.update(cut.shared.keys() - seen)
        for original, _ in copies:
            names.update(one.shared for one in _shown(original) if one.shared)
        found.append(frozenset(names - seen) if names else _NOTHING)
        seen |= names
        behind = cut
    return found[::-1]


def _shown(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return a tensor, and of a view what it shows."""
    return (tensor,) if tensor.root is None else (tensor, tensor.root)


def _take_over(tensors: Sequence[Tensor], slots: Sequence[_Slot]) -> None:
    """Begin with tensors that the piece before made, and of views with what they show."""
    for tensor, slot in zip(tensors, slots, strict=True):
        tensor.children = tensor.views = 0
        owner = tensor if tensor.root is None else tensor.root
        owner.views = int(owner is not tensor)
        owner.owned, (owner.buffer, owner.offset) = True, slot


def _slot(tensor: Tensor) -> _Slot:
    owner = tensor if tensor.root is None else tensor.root
    return owner.buffer, owner.offset


def _stand_in(made: Tensor) -> Tensor:
    """Return a tensor that another piece made, as the next piece sees it."""
    owner = made if made.root is None else made.root
    whole = Tensor("leaf", owner.extent, [], owner.width)
    seen = whole if owner is made else view(whole, *made.extent, plain=made.plain)
    whole.visited = seen.visited = True
    return seen


def _assign(piece: _Piece, host: int, gaps: Sequence[int]) -> None:
    """Give every tensor a device; `gaps` are those of what is decided by no weight at the ends."""
    for tensor in piece.leaves:
        tensor.backend = host if tensor.is_input else tensor.place
    own = []
    for tensor in piece.nodes:
        if tensor.op != "view":
            own.append(tensor)
            tensor.backend = tensor.decided
        elif tensor.root is not None and not tensor.shared:
            tensor.backend = tensor.pinned if tensor.pinned >= 0 else tensor.root.place
    backward = own[::-1]
    for order, gap in ((own, gaps[0]), (backward, gaps[1])):
        for tensor in order:
            if tensor.backend >= 0:
                break
            tensor.backend = gap
    _spread(own, host)
    _spread(backward, host)
    _spread(own, -1)
    _spread(backward, -1)
    for tensor in piece.nodes:
        if tensor.backend < 0:
            tensor.backend = tensor.root.backend if tensor.root is not None else 0
        for source in tensor.sources:
            if source.backend < 0:  # a leaf that lies nowhere
                source.backend = tensor.backend if source.root is None else source.root.backend


def _between(before: int, behind: int, host: int) -> int:
    """Return the device of operations between two that weights decide about."""
    if before == host and behind >= 0:
        return behind
    return before if before >= 0 else behind


def _decided(tensor: Tensor, host: int) -> int:
    """Return the device that weights or caches decide about; -1 if none do."""
    return tensor.pinned if tensor.pinned >= 0 else _of_stored(tensor, host)


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
        backend = tensor.backend
        if backend >= 0:
            current = -1 if backend == skipped else backend
        elif current >= 0:
            tensor.backend = current


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
    twin.original = source
    return twin


def _dependency(source: Tensor) -> Tensor:
    """Return what keeps a tensor until it was copied."""
    kept = Tensor("dependency", source.extent, [source], source.width, source)
    kept.backend = source.backend
    return kept
