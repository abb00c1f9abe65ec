"""The order in which Vulkan computes: what can run at the same time is moved together.

That changes how long tensors live, and so the size of the compute buffer. Read in build 11434,
`ggml_vk_graph_optimize` of `ggml-vulkan.cpp`, patterns in `ggml-vulkan-types.h`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from explorer.planner.engines.llama_cpp.graph import Tensor, read_by, view

_WINDOW: Final = 20  # nodes that are looked at beyond the next one
_PULLED: Final = 15  # nodes within which the next part of a pattern is looked for
_MOST_EXPANDED: Final = 64  # experts whose sum is built of its parts


def _pattern(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_CHOICES: Final = (
    _pattern("soft_max reshape argsort view get_rows reshape sum_rows clamp div reshape"),
    _pattern("unary reshape add argsort view get_rows reshape sum_rows clamp div reshape"),
    _pattern("unary sqrt reshape add argsort view get_rows reshape sum_rows clamp div reshape"),
    _pattern("soft_max reshape argsort view get_rows"),
    _pattern("argsort view get_rows reshape soft_max reshape"),
)
"""How experts are chosen. What these read lives until all of it is computed."""
_KEPT: Final = (
    _pattern("rms_norm mul add mul"),
    _pattern("rms_norm mul add"),
    _pattern("rms_norm mul rope view set_rows"),
    _pattern("rms_norm view set_rows"),
    _pattern("rope view set_rows"),
)
"""What else is computed at once."""
_TOGETHER: Final = frozenset({
    ("mul_mat", "add"), ("mul_mat_id", "add_id"), ("mul_mat_id", "mul"), ("add", "add"),
    ("ssm_conv", "add"), ("ssm_conv", "unary"),
})  # fmt: skip
"""Pairs whose second operation may directly follow the first, although it reads its result."""
_AFTER_EMPTY: Final = frozenset({("rms_norm", "mul"), ("unary", "mul")})
"""The same where only views lie between them."""


def with_parts(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Return the nodes with sums of experts as they are computed: views first, then additions."""
    found: list[Tensor] = []
    for tensor in nodes:
        experts = tensor.sources[0] if tensor.op == "sum" else None
        if experts is None or not 1 < experts.extent[1] <= _MOST_EXPANDED:
            found.append(tensor)
            continue
        width, count, tokens = experts.extent[:3]
        parts = [view(experts, width, tokens) for _ in range(count)]
        found += parts
        total = parts[0]
        for number, part in enumerate(parts[1:], 2):
            is_last = number == count
            added = tensor if is_last else Tensor("add", tensor.extent, [])
            added.op = added.name = "add"
            added.in_place = True
            added.sources = [total, part]
            added.backend = tensor.backend
            found.append(added)
            total = added
        for part in parts:
            part.backend = tensor.backend
    return found


def reordered(nodes: Sequence[Tensor], kept: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Return the nodes of a split in the order in which Vulkan computes them.

    `kept` returns a node that keeps a tensor until it was computed.
    """
    return [*_Order(nodes, kept).run()]


class _Order:
    """Nodes of a split, of which some have their place already. Sets of nodes are bits of a number.

    Attributes:
        left: The nodes without a place.
        needs: For each node those before it that it may not overtake.
    """

    def __init__(self, nodes: Sequence[Tensor], kept: Callable[[Tensor], Tensor]) -> None:
        self.nodes, self.kept = nodes, kept
        self.left = (1 << len(nodes)) - 1
        self.first, self.done = 0, set[int]()
        self.names = [node.name for node in nodes]
        self.empty = [node.op == "view" for node in nodes]
        self.place = {id(node): i for i, node in enumerate(nodes)}
        self.uses = Counter(id(source) for node in nodes for source in node.sources)
        self.needs = self._needs()
        self.begins = [self._patterns_at(i) for i in range(len(nodes))]

    def _needs(self) -> list[int]:
        written, computed, read = dict[int, int](), dict[int, int](), dict[int, int]()
        found = []
        for i, node in enumerate(self.nodes):
            bit, own = 1 << i, id(node.base)
            needed = written.get(own, 0)
            for source in node.sources:
                place = self.place.get(id(source))
                if place is not None:
                    needed |= 1 << place
                if not self.empty[i]:
                    needed |= computed.get(id(source.base), 0)
            if not self.empty[i]:
                needed |= read.get(own, 0)
                computed[own] = computed.get(own, 0) | bit
                for source in node.sources:
                    base = id(source.base)
                    read[base] = read.get(base, 0) | bit
            written[own] = written.get(own, 0) | bit
            found.append(needed)
        return found

    def _patterns_at(self, start: int) -> list[tuple[bool, int, int]]:
        """Return what begins at a node: whether it chooses experts, its length, its nodes."""
        found = []
        for chooses, patterns in ((True, _CHOICES), (False, _KEPT)):
            for pattern in patterns:
                if tuple(self.names[start : start + len(pattern)]) == pattern:
                    found.append((chooses, len(pattern), ((1 << len(pattern)) - 1) << start))
        return found

    def _pattern_at(self, start: int) -> tuple[bool, int] | None:
        for chooses, length, nodes in self.begins[start]:
            if self.left & nodes == nodes:
                return chooses, length
        return None

    def run(self) -> Iterator[Tensor]:
        nodes = self.nodes
        while self.left:
            self.first = (self.left & -self.left).bit_length() - 1
            pattern = self._pattern_at(self.first)
            if pattern is None:
                chosen = self._together()
                yield from (nodes[i] for i in chosen)
            else:
                chooses, length = pattern
                chosen = [*range(self.first, self.first + length)]
                yield from (nodes[i] for i in chosen)
                if chooses:
                    yield from map(self.kept, read_by([nodes[i] for i in chosen]))
            for i in chosen:
                self.left &= ~(1 << i)
            self.done.update(chosen)

    def _together(self) -> list[int]:
        """Return the next node, and those behind it that need nothing that has no place yet."""
        found = [self.first]
        end = min(self.first + _WINDOW, len(self.nodes))
        for i in range(self.first + 1, end):
            if not self.left >> i & 1 or self.empty[i] or self._pattern_at(i) is not None:
                continue
            waits = self.needs[i] & self.left & ~((1 << self.first) - 1)
            if waits and not (waits == 1 << found[-1] and self._may_follow(found[-1], i)):
                continue
            found.append(i)
            self._pull(i, found)
        if self.names[found[-1]] != "add":
            for i in range(self.first + 1, end):
                if self.left >> i & 1 and self.empty[i]:
                    waits = self.needs[i] & self.left & ~((1 << self.first) - 1)
                    if not waits & ~sum(1 << one for one in found):
                        found.append(i)
        return found

    def _may_follow(self, before: int, i: int) -> bool:
        pair = self.names[before], self.names[i]
        if pair in _AFTER_EMPTY:
            return all(self.empty[j] or not self.left >> j & 1 for j in range(before + 1, i))
        return i == before + 1 and pair in _TOGETHER

    def _pull(self, i: int, found: list[int]) -> None:
        """Take what would be computed at once with a node that was taken."""
        names, rope = self.names, i
        before = names[i - 1]
        if names[i] == "mul" and before == "rms_norm":
            for k in self._behind(i):
                sources = self.nodes[k].sources
                if (
                    names[k] == "rope"
                    and sources[0] is self.nodes[i]
                    and all(one.op == "leaf" for one in sources[1:])
                ):
                    rope = k
                    self._take(k, found)
                    break
        if names[rope] in ("rope", "rms_norm"):
            self._pull_write(rope, found)
        pulled = {
            ("mul_mat_id", "add_id"): "mul",
            ("mul_mat", "add"): "add",
            ("ssm_conv", "add"): "unary",
        }.get((before, names[i]))
        if pulled is not None:
            for k in self._behind(i):
                sources = self.nodes[k].sources
                if (
                    names[k] == pulled
                    and sources[0] is self.nodes[i]
                    and (len(sources) < 2 or self._is_there(sources[1]))
                ):
                    self._take(k, found)
                    break
        if names[i] == "unary":
            self._pull_product(i, found)

    def _behind(self, i: int) -> range:
        return range(i + 1, min(i + _PULLED, len(self.nodes)))

    def _take(self, i: int, found: list[int]) -> None:
        found.append(i)
        self.left &= ~(1 << i)

    def _is_there(self, tensor: Tensor) -> bool:
        """Return whether a tensor needs no computing, or has its place in an earlier round."""
        place = self.place.get(id(tensor))
        if tensor.op == "leaf" or place is None:
            return tensor.op == "leaf"
        return place in self.done

    def _pull_product(self, i: int, found: list[int]) -> None:
        unary = self.nodes[i]
        for k in self._behind(i):
            product = self.nodes[k]
            if self.names[k] != "mul" or not any(one is unary for one in product.sources):
                continue
            first = product.sources[0] is unary
            other = product.sources[1 if first else 0]
            if not self._is_there(other) or not _fuses(unary, other, first=first):
                continue
            self._take(k, found)
            break

    def _pull_write(self, rope: int, found: list[int]) -> None:
        """Take the view and the write into the cache that belong to a rotation or a norm."""
        seen = write = -1
        for k in self._behind(rope):
            if not self.left >> k & 1:
                continue
            source = self.nodes[k].sources[0]
            if seen < 0 and self.names[k] == "view" and source is self.nodes[rope]:
                seen = k
            elif seen >= 0 and self.names[k] == "set_rows" and source is self.nodes[seen]:
                write = k
                break
        if write < 0 or any(self.uses[id(self.nodes[one])] != 1 for one in (rope, seen)):
            return
        between = self.needs[write] & self.left & ~((1 << (rope + 1)) - 1) & ~(1 << seen)
        between &= ~sum(1 << j for j in range(rope + 1, write) if self.empty[j])
        if not between:
            self._take(seen, found)
            self._take(write, found)


def _fuses(unary: Tensor, other: Tensor, *, first: bool) -> bool:
    """Return whether a product with what a function makes is computed at once with it."""
    if other.width != unary.width or not (other.plain and unary.sources[0].plain):
        return False
    small, large = (other, unary) if first else (unary, other)
    return all(b % a == 0 if a else not b for a, b in zip(small.extent, large.extent, strict=True))
