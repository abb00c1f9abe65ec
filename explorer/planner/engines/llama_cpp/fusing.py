"""What CUDA computes at once of experts, which makes tensors live longer than the graph says.

Read in build 11434, `ggml_backend_cuda_graph_optimize` of `ggml-cuda.cu`, and run: that code with
CUDA's runtime replaced (`tests/data/planner/no_cuda.cpp`). ROCm is compiled from the same source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from explorer.planner.engines.llama_cpp.builds import Revision
from explorer.planner.engines.llama_cpp.graph import Tensor, is_closed, weighs_experts

_MOST_SUMMED: Final = 15  # experts that are weighted and added at once
_MOST_CHOSEN_FROM: Final = 512  # experts, a power of two,
_CHOSEN_FROM: Final = frozenset((288, 576))  # or so many, that are chosen from at once
_NORMED: Final = ("reshape", "sum_rows", "clamp")
_SHARED: Final = ("mul_mat_id", "mul_mat_id", "glu", "mul_mat", "mul_mat", "glu")
_F16_BYTES: Final = 2


class Fusing:
    """The nodes of one split after the other, with what keeps the sources of what is fused.

    Args:
        uses: How many nodes of the graph read each tensor, by its `id`.
        kept: Returns a node that keeps a tensor until it was computed.
        revision: What the build does; at least it sums experts at once.
    """

    def __init__(
        self, uses: Mapping[int, int], kept: Callable[[Tensor], Tensor], revision: Revision
    ) -> None:
        self._uses, self._kept, self._revision = uses, kept, revision
        self._late: list[Tensor] = []  # what the first node of the next split keeps

    def __call__(self, split: list[Tensor], *, on_host: bool) -> list[Tensor]:
        """Return the nodes of a split in the order of computation."""
        until: dict[int, list[Tensor]] = {0: self._late} if self._late else {}
        self._late = []
        nodes = split
        if not on_host:
            nodes = [*split]
            if self._revision.shared_at_once:
                self._share(nodes, until)
            self._fuse(nodes, until)
            self._late = until.pop(len(nodes), [])
        if not until:
            return nodes
        found: list[Tensor] = []
        for index, node in enumerate(nodes):
            found.append(node)
            found += map(self._kept, until.get(index, ()))
        return found

    def _share(self, nodes: list[Tensor], until: dict[int, list[Tensor]]) -> None:
        """Move the shared expert behind the others that read the same."""
        i = 0
        while i + 5 < len(nodes):
            if nodes[i].op == "mul_mat_id":
                for j in range(i + 3, len(nodes) - 2):
                    if nodes[j].op == nodes[j + 1].op == "mul_mat_id":
                        break
                    if nodes[j].op == "mul_mat" and self._is_shared(nodes, i, j):
                        nodes[i + 3 : j + 3] = nodes[j : j + 3] + nodes[i + 3 : j]
                        until.setdefault(i + 5, []).extend(nodes[i + 1].sources[1:])
                        i += 5
                        break
            i += 1

    def _is_shared(self, nodes: Sequence[Tensor], i: int, j: int) -> bool:
        """Return whether the network at `j` is like the experts at `i`, and reads the same."""
        both = [*nodes[i : i + 3], *nodes[j : j + 3]]
        if tuple(node.op for node in both) != _SHARED or not is_closed(both, (2, 5), self._uses):
            return False
        gate, up, hidden, shared_gate, shared_up, shared = both
        if hidden.sources != [gate, up] or shared.sources != [shared_gate, shared_up]:
            return False
        if gate.sources[1:] != up.sources[1:] or shared_gate.sources[1:] != shared_up.sources[1:]:
            return False
        matrices = [one.sources[0] for one in (gate, up, shared_gate, shared_up)]
        a, b, count, _ = matrices[0].extent
        if any(one.extent[:2] != (a, b) for one in matrices) or not matrices[0].weights:
            return False
        own = matrices[2].nbytes
        is_like = [one.nbytes for one in matrices] == [own * count, own * count, own, own]
        seen = up.sources[1]
        return (
            is_like
            and own < _F16_BYTES * a * b
            and seen.name == "reshape"
            and seen.sources[0] is shared_up.sources[1]
        )

    def _fuse(self, nodes: Sequence[Tensor], until: dict[int, list[Tensor]]) -> None:
        """Keep what choices of experts and their weighted sums read until they are computed."""
        i = 0
        while i < len(nodes):
            count = self._sum_at(nodes, i) if nodes[i].op == "mul" else 0
            if count:
                i += count - 1
                until.setdefault(i, []).extend(nodes[i - count + 1].sources)
            if self._revision.chosen_at_once and nodes[i].op in ("unary", "soft_max"):
                length = self._choice_at(nodes, i)
                if length:
                    chosen = nodes[i : i + length]
                    read = [one for node in chosen for one in (node, *node.sources)]
                    kept = {id(one): one for one in read}
                    until.setdefault(i + length, []).extend(kept.values())
                    i += length - 1
            i += 1

    def _sum_at(self, nodes: Sequence[Tensor], i: int) -> int:
        """Return how many nodes weight experts and add them up; 0 if these do not."""
        product = nodes[i]
        width, used, tokens, _ = product.extent
        count = 2 * used
        if not 2 <= used <= _MOST_SUMMED or i + count > len(nodes):
            return 0
        if not weighs_experts(product):
            return 0
        behind = nodes[i + 1 : i + count]
        views, sums = behind[:used], behind[used:]
        is_sum = (
            all(one.name == "view" and one.sources[0] is product for one in views)
            and all(one.op == "add" and one.extent[:2] == (width, tokens) for one in sums)
            and is_closed([product, *behind], (count - 1,), self._uses)
        )
        return count if is_sum else 0

    def _choice_at(self, nodes: Sequence[Tensor], start: int) -> int:
        """Return how many nodes choose experts at once; 0 if these do not."""
        i = start
        if nodes[i].op == "unary" and i + 1 < len(nodes) and nodes[i + 1].op == "sqrt":
            i += 1
        names = [node.name for node in nodes[i : i + 12]]
        has_bias = names[2:3] == ["add"]
        middle = ["reshape", *(["add"] if has_bias else []), "argsort", "view", "get_rows"]
        end = 1 + len(middle)
        if names[1:end] != middle:
            return 0
        odds, reshaped = nodes[i], nodes[i + 1]
        order, chosen, rows = nodes[i + end - 3 : i + end]
        scored = nodes[i + 2] if has_bias else odds
        is_choice = (
            reshaped.sources[0] is odds
            and (not has_bias or scored.sources[0] is odds)
            and order.sources[0] is scored
            and chosen.sources[0] is order
            and rows.sources == [reshaped, chosen]
        )
        count = order.extent[0]
        is_usual = count & (count - 1) == 0 and count <= _MOST_CHOSEN_FROM
        if not is_choice or not (is_usual or count in _CHOSEN_FROM):
            return 0
        view_at = i + end - 2 - start
        if tuple(names[end : end + 5]) == (*_NORMED, "div", "reshape"):
            end += 5
        last = nodes[i + end - 1]
        if names[end : end + 1] == ["scale"] and nodes[i + end].sources[0] is last:
            end += 1
        fused = nodes[start : i + end]
        return len(fused) if is_closed(fused, (view_at, len(fused) - 1), self._uses) else 0
