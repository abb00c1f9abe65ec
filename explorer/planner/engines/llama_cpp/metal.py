"""How Metal computes: what at once, in which order, and what it takes beside results.

Read in build 11434 (`ggml-metal-fusion.cpp`, `ggml-metal-common.cpp`, `ggml-metal.cpp` and
`ggml-metal-ops.cpp`), and run: that code with Metal's devices and buffers replaced
(`tests/data/planner/no_metal.cpp`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

from explorer.planner.engines.llama_cpp.builds import Revision
from explorer.planner.engines.llama_cpp.graph import (
    Tensor,
    elements,
    is_closed,
    padded,
    read_by,
    weighs_experts,
)
from explorer.quantization import TENSOR_TYPES

_MOST_AT_ONCE: Final = 16  # nodes
_FORWARD: Final = 64  # nodes that are looked at beyond one that must wait
_MOVED: Final = frozenset({
    "mul_mat", "mul_mat_id", "rope", "norm", "rms_norm", "sum_rows", "ssm_conv", "ssm_scan",
    "clamp", "mul", "add", "sub", "div", "glu", "scale", "unary", "get_rows", "set_rows", "write",
    "cast", "cont", "repeat",
})  # fmt: skip
"""Operations that may be computed earlier; no other is passed by."""

# What is computed at once

_Fits: TypeAlias = Callable[[Sequence[Tensor]], bool]
_Nodes: TypeAlias = Sequence[Tensor]
_MOST_CHOSEN_FROM: Final = 1024  # experts
_OF_FEW_ROWS: Final = frozenset({
    "", "F32", "F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K",
})  # fmt: skip
"""Types of matrices whose products with few rows have a kernel that adds to them."""


def _any(_: _Nodes) -> bool:
    return True


def _is_normed(chain: _Nodes) -> bool:
    width = chain[0].extent[0]
    return all(
        node.sources[0] is before and all(one.extent[0] == width for one in node.sources[1:])
        for before, node in pairwise(chain)
    )


def _is_sum(chain: _Nodes) -> bool:
    return all(
        node.sources[0] is before and _layout(node.sources[1]) == _layout(before.sources[1])
        for before, node in pairwise(chain)
    )


def _layout(tensor: Tensor) -> tuple[object, ...]:
    return tensor.extent, tensor.width, tensor.plain


def _adds_to_product(chain: _Nodes) -> bool:
    product, total = chain
    matrix, rows = product.sources
    first, second = total.sources
    other = second if first is product else first
    is_known = matrix.kind in _OF_FEW_ROWS and rows.width == other.width == total.width
    return first is not second and is_known and not other.base.weights


def _is_written(chain: _Nodes) -> bool:
    return chain[1].sources[0].root is chain[0]


def _is_choice(nodes: _Nodes) -> bool:
    odds, reshaped, order, chosen, rows = nodes[:5]
    return (
        len(odds.sources) == 1
        and odds.extent[0] <= _MOST_CHOSEN_FROM
        and reshaped.sources[0] is order.sources[0] is odds
        and chosen.sources[0] is order
        and rows.sources == [reshaped, chosen]
    )


def _is_weighted_sum(nodes: _Nodes) -> bool:
    product, used = nodes[0], len(nodes) // 2
    return (
        product.extent[1] == used
        and weighs_experts(product)
        and all(one.sources[0] is product for one in nodes[1 : used + 1])
    )


class _Pattern(NamedTuple):
    """Operations that may be computed at once.

    Attributes:
        names: What they are called, with the views between them.
        fits: Returns whether such nodes may.
        way: "chain": each reads the one before it, as nothing else does, and other views may lie
            between them; "apart": such views may, and only `fits` decides; "closed": none may, and
            others read only the outputs.
        output: One beside the last that others may read.
        computing: How many are no views.
    """

    names: tuple[str, ...]
    fits: _Fits
    way: Literal["chain", "apart", "closed"]
    output: int
    computing: int


@cache
def _patterns(*, keeps: bool, adds: bool) -> Mapping[str, Sequence[_Pattern]]:
    """Return what a build computes at once, by the first operation; see `builds.CHANGES`."""
    found: dict[str, list[_Pattern]] = {}
    for pattern in _patterns_of(keeps=keeps, adds=adds):
        found.setdefault(pattern.names[0], []).append(pattern)
    return found


def _patterns_of(*, keeps: bool, adds: bool) -> Iterator[_Pattern]:
    def pattern(
        text: str, fits: _Fits, way: Literal["chain", "apart", "closed"] = "chain", output: int = -1
    ) -> _Pattern:
        names = tuple(text.split())
        computing = sum(name not in ("view", "reshape") for name in names)
        return _Pattern(names, fits, way, output, computing)

    for norm in ("norm", "rms_norm"):
        for end in ("mul", "mul add", *(["scale"] if keeps else [])):
            yield pattern(f"{norm} {end}", _is_normed)
    for count in range(2, 8):
        yield pattern(count * "add ", _is_sum)
    yield pattern("delta write", _is_written, "apart")
    if adds:
        yield pattern("mul_mat add", _adds_to_product)
    if not keeps:
        return
    choice = "soft_max reshape argsort view get_rows"
    for end in ("", " reshape sum_rows clamp div reshape"):
        for scale in ("", " scale"):
            yield pattern(f"{choice}{end}{scale}", _is_choice, "closed", 3)
    for used in range(2, 9):
        yield pattern(f"mul{used * ' view'}{(used - 1) * ' add'}", _is_weighted_sum, "closed")
    yield pattern("ssm_conv unary", _any)


class _Split:
    """The nodes of a split on a GPU.

    Args:
        nodes: In the order of the graph.
        uses: How many nodes of the graph read each, by its `id`.
        patterns: What may be computed at once, by its first operation.
    """

    def __init__(
        self, nodes: _Nodes, uses: Mapping[int, int], patterns: Mapping[str, Sequence[_Pattern]]
    ) -> None:
        self._nodes, self._uses, self._patterns = nodes, uses, patterns
        self._names = [node.name for node in nodes]
        self._computing = [i for i, node in enumerate(nodes) if node.op != "view"]
        self._number = {i: number for number, i in enumerate(self._computing)}

    def groups(self) -> Iterator[list[Tensor]]:
        """Yield all nodes, those together that are computed at once, with views between them."""
        i = 0
        while i < len(self._nodes):
            end = i + self._length(i)
            yield [*self._nodes[i:end]]
            i = end

    def _length(self, start: int) -> int:
        if start not in self._number:
            return 1
        number, taken = self._number[start], 0
        places = self._computing[number : number + _MOST_AT_ONCE]
        while taken < len(places):  # one pattern behind the other
            count = self._longest(places[taken:])
            if not count or taken + count > _MOST_AT_ONCE:
                break
            taken += count
        return min(_MOST_AT_ONCE, places[taken - 1] - start + 1) if taken else 1

    def _longest(self, places: Sequence[int]) -> int:
        """Return how many nodes of these may be computed at once, views left out; 0: none."""
        most = 0
        for pattern in self._patterns.get(self._names[places[0]], ()):
            count = pattern.computing
            if most < count <= len(places) and self._matches(pattern, places[:count]):
                most = count
        return most

    def _matches(self, pattern: _Pattern, places: Sequence[int]) -> bool:
        if pattern.way == "closed":
            start, stop = places[0], places[0] + len(pattern.names)
            nodes = self._nodes[start:stop]
            return (
                pattern.names == tuple(self._names[start:stop])
                and pattern.fits(nodes)
                and is_closed(nodes, (pattern.output, len(nodes) - 1), self._uses)
            )
        nodes = [self._nodes[i] for i in places]
        return (
            pattern.names == tuple(self._names[i] for i in places)
            and (pattern.way == "apart" or self._is_chain(nodes))
            and pattern.fits(nodes)
        )

    def _is_chain(self, nodes: _Nodes) -> bool:
        return all(
            any(one is before for one in node.sources[:2])
            and node.extent == before.extent
            and self._uses[id(before)] == sum(one is before for one in node.sources)
            for before, node in pairwise(nodes)
        )

    def kept(self) -> dict[int, list[Tensor]]:
        """Return what patterns read, which lives until their last node, by its `id`, is computed.

        Here only the names count.
        """
        found: dict[int, list[Tensor]] = {}
        i = 0
        while i < len(self._nodes):
            length = max(
                (
                    len(names)
                    for names, *_ in self._patterns.get(self._names[i], ())
                    if names == tuple(self._names[i : i + len(names)])
                ),
                default=0,
            )
            if length:
                run = self._nodes[i : i + length]
                found[id(run[-1])] = read_by(run)
            i += length or 1
        return found


# The order


def concurrent(
    nodes: _Nodes, uses: Mapping[int, int], keeping: Callable[[Tensor], Tensor], revision: Revision
) -> list[Tensor]:
    """Return the nodes of a split in the order in which Metal computes them.

    A node that must wait for one that runs lets those behind it go first that need not wait.

    Args:
        nodes: In the order of the graph.
        uses: How many nodes of the graph read each, by its `id`.
        keeping: Returns a node that keeps a tensor until it was computed.
        revision: What the build does.
    """
    keeps, adds = revision.kept_at_once, revision.adds_at_once
    split = _Split(nodes, uses, _patterns(keeps=keeps, adds=adds))
    groups, kept = [*split.groups()], split.kept() if keeps else {}
    touched = [*map(_touched, groups)]
    order, used = list[int](), [False] * len(groups)
    running = _Touched()
    for i, group in enumerate(groups):
        if used[i]:
            continue
        if group[0].op != "view" and not running.leave(touched[i]):
            waiting = _Touched().joined(touched[i])
            for k in range(i + 1, min(i + _FORWARD, len(groups))):
                if used[k]:
                    continue
                first = groups[k][0]
                if first.op != "view" and first.name not in _MOVED:
                    break
                is_free = first.op == "view" or running.leave(touched[k])
                if is_free and waiting.leave(touched[k]):
                    running.joined(touched[k])
                    order.append(k)
                    used[k] = True
                else:
                    waiting.joined(touched[k])
            running = _Touched()
        running.joined(touched[i])
        order.append(i)
    found = []
    for node in (node for i in order for node in groups[i]):
        found.append(node)
        found += map(keeping, kept.get(id(node), ()))
    return found


class _Touched:
    """What nodes read and write, by the `id` of what holds it.

    Attributes:
        near_read: With what lies directly behind what is read: it is taken for a part of that.
        near_written: The same of what is written.
    """

    def __init__(self) -> None:
        self.read, self.written = set[int](), set[int]()
        self.near_read, self.near_written = set[int](), set[int]()

    def joined(self, other: _Touched) -> _Touched:
        """Add what others touch; return this."""
        self.read |= other.read
        self.written |= other.written
        return self

    def leave(self, other: _Touched) -> bool:
        """Return whether others may run beside these."""
        return (
            self.written.isdisjoint(other.near_read)
            and self.written.isdisjoint(other.near_written)
            and self.read.isdisjoint(other.near_written)
        )


def _touched(group: _Nodes) -> _Touched:
    found, own = _Touched(), {id(node) for node in group}
    read = [one for node in group for one in node.sources if id(one) not in own]
    for tensors, exact, near in (
        (read, found.read, found.near_read),
        (group, found.written, found.near_written),
    ):
        for tensor in tensors:
            base = tensor.base
            exact.add(id(base))
            near.add(id(base))
            if base.behind is not None:
                near.add(id(base.behind))
    return found


# What it leaves to a Mac's CPU

_KEPT_BY_CPU: Final = frozenset(("Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4"))
"""Types that the CPU keeps in an order of its own (`repack.cpp`)."""
_ACCELERATED: Final = 32  # rows and columns of matrices that Accelerate multiplies, at least


def stays_on_cpu(tensor: Tensor, weights: Tensor) -> bool:
    """Return whether a Mac's CPU computes with weights that it has, for however many rows.

    Metal takes over nothing but products (`ggml-metal.cpp`), and Accelerate multiplies those that
    are large enough (`ggml-blas.cpp`).
    """
    if tensor.op not in ("mul_mat", "mul_mat_id") or weights.kind in _KEPT_BY_CPU:
        return True
    seen = tensor.sources[1]
    large = min(*tensor.extent[:2], seen.extent[0]) >= _ACCELERATED
    return tensor.op == "mul_mat" and large and seen.plain


# What it takes beside results

_SCALES: Final = 8 + 4 * 256  # bytes of what chosen experts are scaled by
_QUERIES, _CELLS, _GROUPS = 8, 64, 32  # of attention
_VECTOR_ROWS: Final = 20  # fewer are attended to one by one
_COPIED_ROWS: Final = 32
_HALVES: Final = ("F16", "BF16")


def add_scratch(nodes: _Nodes) -> None:
    """Add what operations but attention take beside results (`ggml-metal.cpp`)."""
    for tensor in nodes:
        if tensor.op == "argsort":
            tensor.scratch = tensor.nbytes
        elif tensor.op == "mul_mat_id":
            experts, tokens = tensor.sources[0].extent[2], tensor.sources[2].extent[1]
            tensor.scratch = 4 * experts * (1 + tokens) + _SCALES


def attention_scratch(
    qkv: tuple[Tensor, Tensor, Tensor],
    kinds: Sequence[str],
    *,
    copies: bool,
    in_keys: bool,
    is_one: bool,
) -> int:
    """Return what attention takes beside its result (`ggml-metal-ops.cpp`).

    That is one more piece of cells, a mark for each piece of the mask, results of 32 groups of
    threads, and since PR 27390 copies in 16 bits of keys and values, whatever their type is.

    Args:
        qkv: Queries, keys and values.
        kinds: Types of the latter in the cache.
        copies: Whether the build makes copies.
        in_keys: Whether the values are the first elements of the keys.
        is_one: Whether they still are on this device.
    """
    q, keys, values = qkv
    length, rows, heads, streams = q.extent
    is_one = is_one and kinds[1] != "F32"  # such values are cast to a tensor of their own
    total = 2 * rows * streams
    for one, kind in ((keys, kinds[0]), (values, kinds[1])):
        is_copied = kind == "F32" or (copies and rows >= _COPIED_ROWS and kind not in _HALVES)
        holder = keys if one is values and (is_one if is_copied else in_keys) else one
        own, count = holder.extent[:2]
        width = 2 * own if is_copied else TENSOR_TYPES[kind].nbytes(own * count) or 0
        total += width * count * streams
    is_vector = rows < _VECTOR_ROWS and length % 32 == 0
    pieces = -(-rows // (1 if is_vector else _QUERIES))
    pieces *= -(-keys.extent[2] // (_GROUPS if is_vector else _CELLS))
    scratch = _CELLS * total + padded(pieces * streams, 32)
    scratch += 4 * min(rows, _GROUPS) * heads * streams * _GROUPS * (values.extent[0] + 2)
    if copies:
        scratch += padded(2 * elements(keys.extent), 16)
        scratch += 0 if is_one else padded(2 * elements(values.extent), 16)
    return scratch
