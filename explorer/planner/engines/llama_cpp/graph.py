"""The graph of tensors that llama.cpp computes for a batch: shapes and bytes, and no numbers.

Its memory is what a compute buffer holds (`compute`), given out as `ggml-alloc.c` does it.
Operations are those of ggml (`ggml.c`); which of them may write over their first source is
`ggml_op_can_inplace` in `ggml-alloc.c`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from explorer.quantization import TensorType

Extent: TypeAlias = tuple[int, int, int, int]
"""Elements along each dimension, the fastest first."""

_IN_PLACE: Final = frozenset((
    "fill", "scale", "add", "add_id", "sub", "mul", "div", "sqr", "sqrt", "unary", "rope",
    "rms_norm", "clamp", "soft_max",
))  # fmt: skip
GPU_ALIGNMENT: Final = 128
HOST_ALIGNMENT: Final = 32
_ROW_WEIGHTS: Final = 512  # rows of quantized weights on a GPU are padded to a multiple
_F32: Final = 4
_ENDLESS: Final = 1 << 62
_MOST_PIECES: Final = 16  # of a buffer (`GGML_VBUFFER_MAX_CHUNKS`)


class UnknownGraphError(Exception):
    """A file lacks what the graph of its architecture needs: the graph is another one."""


class Tensor:
    """A tensor of the graph.

    Attributes:
        op: The operation; "leaf" of inputs and of what is stored, "view" of another's elements.
        extent: Elements along each dimension.
        width: Bytes of an element.
        plain: Whether its elements lie one after another.
        sources: What the operation reads, in ggml's order.
        root: The tensor that holds the elements, of views and of writes into a cache.
        place: The device of stored weights and caches; else -1. GPUs first, then the host.
        weights: Whether it is a model's weights.
        kind: Their type's name; "" of other tensors.
        nbytes: What it takes on the host.
        scratch: Bytes that a GPU takes beyond that.
        on_host: Whether no GPU can compute it.
        layer: Of flash attention, the device of its layer.
        behind: Of a cache, the one that lies directly behind it.

    Raises:
        UnknownGraphError: Its extent is negative: figures of a header contradict one another.
    """

    # what few tensors have differently is said here once: a graph has thousands of them
    plain = True
    place = -1
    weights = False
    kind = ""
    scratch = 0
    is_input = is_output = visited = owned = on_host = False
    backend = pinned = layer = -1
    children = views = buffer = offset = 0
    behind: Tensor | None = None

    def __init__(
        self,
        op: str,
        extent: Extent,
        sources: list[Tensor],
        width: int = _F32,
        root: Tensor | None = None,
    ) -> None:
        a, b, c, d = extent
        if a < 0 or b < 0 or c < 0 or d < 0:
            raise UnknownGraphError(f"{op} has an extent of {extent}")
        self.op = self.name = op
        self.extent = extent
        self.width = width
        self.sources = sources
        self.root: Tensor | None = root if root is None or root.root is None else root.root
        self.nbytes = width * a * b * c * d
        self.in_place = op in _IN_PLACE

    @property
    def base(self) -> Tensor:
        """The tensor that holds the elements: itself, but of views and of writes into a cache."""
        return self if self.root is None else self.root

    @property
    def rows(self) -> int:
        """How large a batch the operation is, for the choice of its device (`ggml-cuda.cu`)."""
        match self.op:
            case "get_rows":
                return 0
            case "mul_mat":
                return self.extent[1]
            case "mul_mat_id" | "rope":
                return self.extent[2]
            case _:
                return self.extent[1] * self.extent[2] * self.extent[3]


def leaf(extent: Extent, width: int = _F32) -> Tensor:
    """Return an input of the graph."""
    made = Tensor("leaf", extent, [], width)
    made.is_input = True
    return made


def stored(extent: Extent, nbytes: int, place: int, *, weights: bool, scratch: int = 0) -> Tensor:
    """Return a tensor that lies in a buffer already: weights, or a cache."""
    made = Tensor("leaf", extent, [], 0)
    made.place, made.weights, made.nbytes, made.scratch = place, weights, nbytes, scratch
    return made


class Graph:
    """Tensors in the order in which they are computed."""

    def __init__(self) -> None:
        self.nodes: list[Tensor] = []
        self.leaves: list[Tensor] = []

    def expand(self, tensor: Tensor) -> Tensor:
        """Compute a tensor next, and before it what it needs."""
        if not tensor.visited:
            tensor.visited = True
            for source in tensor.sources:
                if not source.visited:
                    self.expand(source)
            (self.nodes if tensor.sources else self.leaves).append(tensor)
        return tensor


def view(source: Tensor, *extent: int, plain: bool = False) -> Tensor:
    """Return some elements of a tensor: all of them, or a part of each row."""
    seen = Tensor("view", _extent(extent), [source], source.width, source)
    seen.plain = plain
    length, total = source.extent[0], elements(source.extent)
    rows = total // length if length else 0
    if rows and not plain and 0 < seen.nbytes < total * source.width:
        # a copy keeps the distances between rows
        seen.nbytes += (rows - 1) * (total * source.width - seen.nbytes) // rows
    elif source.op == "view" and not plain and seen.nbytes == total * source.width:
        seen.nbytes = source.nbytes  # all of it, with the distances that it has
    return seen


def reshape(source: Tensor, *extent: int) -> Tensor:
    """Return the same elements in another shape."""
    seen = Tensor("view", _extent(extent), [source], source.width, source)
    seen.name = "reshape"
    seen.plain = source.plain
    return seen


def permute(source: Tensor) -> Tensor:
    """Return a tensor with its second and third dimension exchanged."""
    a, b, c, d = source.extent
    turned = Tensor("view", (a, c, b, d), [source], source.width, source)
    turned.name = "permute"
    turned.plain = source.plain and 1 in (b, c)
    turned.nbytes = source.nbytes
    if source.op == "view":  # of a cache: a copy of it takes more, too
        turned.scratch = source.scratch
    return turned


def transpose(source: Tensor) -> Tensor:
    """Return a tensor with its first and second dimension exchanged."""
    a, b, c, d = source.extent
    turned = Tensor("view", (b, a, c, d), [source], source.width, source)
    turned.name = "transpose"
    turned.plain = source.plain and 1 in (a, b)
    turned.nbytes = source.nbytes
    return turned


def mul_mat(matrix: Tensor, source: Tensor) -> Tensor:
    """Return a matrix times the rows of another tensor."""
    _, b, c, d = source.extent
    return Tensor("mul_mat", (matrix.extent[1], b, c, d), [matrix, source])


def mul_mat_id(matrices: Tensor, source: Tensor, chosen: Tensor) -> Tensor:
    """Return the chosen matrices times each row."""
    extent = (matrices.extent[1], chosen.extent[0], source.extent[2], 1)
    return Tensor("mul_mat_id", extent, [matrices, source, chosen])


def like(op: str, source: Tensor, *others: Tensor) -> Tensor:
    """Return what an operation makes of a tensor, element by element."""
    return Tensor(op, source.extent, [source, *others], source.width)


def made(op: str, extent: tuple[int, ...], *sources: Tensor, width: int = _F32) -> Tensor:
    """Return what an operation makes, in a shape of its own."""
    return Tensor(op, _extent(extent), list(sources), width)


def concat(first: Tensor, second: Tensor) -> Tensor:
    """Return the rows of two tensors joined."""
    a, b, c, d = first.extent
    return Tensor("concat", (a + second.extent[0], b, c, d), [first, second])


def written(target: Tensor, source: Tensor, *others: Tensor) -> Tensor:
    """Return a cache after something was written into it."""
    made = Tensor("write", target.extent, [source, *others, target], target.width, target)
    made.name = "set_rows"
    return made


def get_rows(table: Tensor, chosen: Tensor) -> Tensor:
    """Return the chosen rows of a table."""
    a, b, c = chosen.extent[:3]
    return Tensor("get_rows", (table.extent[0], a, b, c), [table, chosen])


def _extent(given: tuple[int, ...]) -> Extent:
    a, b, c, d = (*given, 1, 1, 1)[:4]
    return a, b, c, d


def read_by(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Return what nodes read that none of those before them made, each once."""
    found: list[Tensor] = []
    seen = set[int]()
    for node in nodes:
        for source in node.sources:
            if id(source) not in seen:
                seen.add(id(source))
                found.append(source)
        seen.add(id(node))
    return found


def weighs_experts(product: Tensor) -> bool:
    """Return whether a product weighs what each expert made that a token chose."""
    experts, weights = product.sources
    _, used, tokens, rest = product.extent
    return experts.extent == product.extent and weights.extent == (1, used, tokens, rest)


def is_closed(nodes: Sequence[Tensor], outputs: Sequence[int], uses: Mapping[int, int]) -> bool:
    """Return whether only nodes among these read them, but for those that are outputs.

    Args:
        nodes: Some nodes of a graph.
        outputs: Places of those that others may read.
        uses: How many nodes of the graph read each tensor, by its `id`.
    """
    inside: dict[int, int] = {}
    for node in nodes:
        for source in node.sources:
            inside[id(source)] = inside.get(id(source), 0) + 1
    return all(
        i in outputs or inside.get(id(node), 0) == uses.get(id(node), 0)
        for i, node in enumerate(nodes)
    )


def elements(extent: Extent) -> int:
    """Return how many elements there are."""
    return math.prod(extent)


def padded(size: int, alignment: int) -> int:
    """Return a size filled up to a multiple."""
    return -(-size // alignment) * alignment


def row_padding(kind: TensorType, row: int) -> int:
    """Return the bytes that fill a row of quantized weights up to a multiple of 512."""
    if not kind.quantized or row % _ROW_WEIGHTS == 0:
        return 0
    return kind.nbytes(_ROW_WEIGHTS - row % _ROW_WEIGHTS) or 0


class Heap:
    """Free memory of one buffer: blocks by address, the last of them endless, or of a size."""

    def __init__(self, alignment: int, size: int = _ENDLESS) -> None:
        self.alignment = alignment
        self.peak = 0
        self._starts, self._sizes = [0], [size]
        self._has_empty = False

    def take(self, size: int) -> int:
        """Return the address of the smallest block that is large enough, the last only at need."""
        size = padded(size, self.alignment)
        best = self.fitting(size)
        return self.take_from(len(self._sizes) - 1 if best < 0 else best, size)

    def fitting(self, size: int) -> int:
        """Return the smallest block that is large enough, but the last; -1 if there is none."""
        sizes = self._sizes
        best, least = -1, _ENDLESS
        for index in range(len(sizes) - 1):
            if size <= sizes[index] <= least:
                best, least = index, sizes[index]
        return best

    def unused(self, size: int) -> int | None:
        """Return what stays unused if the last block is taken, negative: it grows; None: no."""
        if not self._sizes or self._sizes[-1] < size:
            return None
        return self.peak - self._starts[-1] - size

    def take_from(self, best: int, size: int) -> int:
        """Take so much of a block, the last one for -1; return its address."""
        sizes = self._sizes
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
        size = padded(size, self.alignment)
        starts, sizes = self._starts, self._sizes
        if not size or self._has_empty:  # there are states of no sequence
            self._has_empty = True
            self._give_among_empty(start, size)
            return
        index = bisect_left(starts, start)
        joins_next = index < len(starts) and start + size == starts[index]  # a piece may be full
        if index and starts[index - 1] + sizes[index - 1] == start:
            sizes[index - 1] += size
            if joins_next:
                sizes[index - 1] += sizes[index]
                del starts[index], sizes[index]
        elif joins_next:
            starts[index] = start
            sizes[index] += size
        else:
            starts.insert(index, start)
            sizes.insert(index, size)

    def _give_among_empty(self, start: int, size: int) -> None:
        """Take back a block as ggml does it.

        An empty one stays, and what lies behind it begins before it when its own beginning is
        given out: blocks are not in order any more, and neighbours are not always joined.
        """
        starts, sizes = self._starts, self._sizes
        for index, (begin, held) in enumerate(zip(starts, sizes, strict=True)):
            if begin + held == start:
                sizes[index] += size
                self._join(index)
                return
            if start + size == begin:
                starts[index] = start
                sizes[index] += size
                if index:
                    self._join(index - 1)
                return
        last = len(starts) - 1
        index = next((i for i, begin in enumerate(starts) if begin >= start), last)
        starts.insert(index, start)
        sizes.insert(index, size)

    def _join(self, index: int) -> None:
        """Join a block with the next one, if they touch."""
        starts, sizes = self._starts, self._sizes
        if index + 1 < len(starts) and starts[index] + sizes[index] == starts[index + 1]:
            sizes[index] += sizes[index + 1]
            del starts[index + 1], sizes[index + 1]


class Pieces:
    """Free memory of a buffer that is made of pieces, each of a size at most but for one tensor."""

    def __init__(self, alignment: int, piece: int) -> None:
        self.alignment = alignment
        self._piece = piece
        self._heaps: list[Heap] = []

    @property
    def peak(self) -> int:
        return sum(heap.peak for heap in self._heaps)

    def take(self, size: int) -> int:
        """Return an address, which begins with the number of the piece."""
        size = padded(size, self.alignment)
        best, block = -1, -1
        for number, heap in enumerate(self._heaps):
            found = heap.fitting(size)
            if found >= 0:
                best, block = number, found
        if best < 0:
            best = self._last_block(size)
        if best < 0:
            best = len(self._heaps)
            is_last = best == _MOST_PIECES - 1
            self._heaps.append(
                Heap(self.alignment, _ENDLESS if is_last else max(size, self._piece))
            )
        return best * _ENDLESS + self._heaps[best].take_from(block, size)

    def _last_block(self, size: int) -> int:
        """Return the piece that grows least, or keeps least unused; -1 if none has the space."""
        best, kept = -1, -_ENDLESS
        for number, heap in enumerate(self._heaps):
            unused = heap.unused(size)
            if unused is not None and (kept < unused if kept < 0 else 0 <= unused < kept):
                best, kept = number, unused
        return best

    def give(self, start: int, size: int) -> None:
        number, offset = divmod(start, _ENDLESS)
        self._heaps[number].give(offset, size)


class Allocator:
    """Memory of all devices, given out in the order of computation."""

    def __init__(self, alignments: Sequence[int], piece: int = 0) -> None:
        self.heaps = [Pieces(one, piece) if piece else Heap(one) for one in alignments]
        self._host = len(alignments) - 1

    def run(self, nodes: Sequence[Tensor]) -> None:
        """Give out memory to nodes in their order, and take back what none after them reads."""
        take, release = self.take, self._release
        for tensor in nodes:
            root = tensor.root
            if root is not None and tensor.op != "dependency":
                root.views += 1
            for source in tensor.sources:
                source.children += 1
        for tensor in nodes:
            sources = tensor.sources
            for source in sources:
                if not source.owned and source.place < 0 and source.root is None:
                    take(source)
            if tensor.root is None:
                take(tensor)
            for source in sources:
                left = source.children = source.children - 1
                if not left and not source.views:
                    release(source)

    def _size(self, tensor: Tensor) -> int:
        return tensor.nbytes + (tensor.scratch if tensor.buffer != self._host else 0)

    def take(self, tensor: Tensor) -> None:
        """Give a tensor its memory, unless it has it."""
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
            needed = padded(self._size(tensor), heap.alignment)
            freed = padded(self._size(source), heap.alignment) - needed
            if freed > 0:
                heap.give(tensor.offset + needed, freed)
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
