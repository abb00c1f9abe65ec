"""Parts of graphs: what blocks of many architectures have in common.

Read in `llama-graph.cpp` and `llama-kv-cache.cpp` of build 11434.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from explorer.planner.engines.llama_cpp.backends import Backend
from explorer.planner.engines.llama_cpp.builds import Revision
from explorer.planner.engines.llama_cpp.graph import (
    GPU_ALIGNMENT,
    Extent,
    Graph,
    Tensor,
    UnknownGraphError,
    elements,
    get_rows,
    leaf,
    like,
    made,
    mul_mat,
    mul_mat_id,
    padded,
    permute,
    reshape,
    row_padding,
    stored,
    transpose,
    view,
    written,
)
from explorer.planner.engines.llama_cpp.kernels import has_kernel
from explorer.planner.engines.llama_cpp.metal import attention_scratch
from explorer.quantization import TensorType

if TYPE_CHECKING:
    from explorer.planner.engines.llama_cpp.header import Header

_I32: Final = 4
_I64: Final = 8


class Batch(NamedTuple):
    """What is computed at once."""

    tokens: int  # of all sequences
    sequences: int
    outputs: int  # tokens whose logits are asked for
    streams: int  # caches that sequences have of their own; 1: a unified one
    cells: int  # positions of a stream
    window_cells: int  # the same in blocks with a window
    flash_attention: bool
    type_k: TensorType
    type_v: TensorType
    turned_values: bool  # the cache holds values transposed
    rollback: int  # states that are kept beside the last one, of tokens that may be refused
    revision: Revision
    library: str  # of the devices
    backend: Backend  # how they take memory


@dataclass(frozen=True)
class Placement:
    """Where things lie."""

    gpus: int
    host: str  # the buffer of what is on no GPU
    of_layer: Sequence[str]  # buffer of each layer, the output last
    moved: Mapping[str, str]  # names of weights that lie elsewhere → buffer
    offload_kv: bool
    offloaded: bool  # all layers, the output's among them, are on GPUs
    pipelined: bool  # GPUs work on different batches at a time
    pinned: bool  # norms stay on the device of their layer

    def of_weights(self, name: str, layer: int) -> int:
        """Return the device of a weight that is used in a layer; -1 for the input."""
        moved = self.moved.get(name)
        if moved is not None:
            return self._devices.get(moved, self.gpus)
        return self.gpus if layer < 0 else self.of_block(layer)

    def of_block(self, layer: int) -> int:
        """Return the device of a layer."""
        return self._devices.get(self.of_layer[layer], self.gpus)

    def of_cache(self, block: int) -> int:
        """Return the device of a block's cache and state."""
        return self.of_block(block) if self.offload_kv else self.gpus

    @property
    def is_whole(self) -> bool:
        """Whether one GPU has all weights but the input's."""
        return self.gpus == 1 and self.offloaded and not self.moved

    @property
    def any_on_host(self) -> bool:
        """Whether weights but the input's lie in main memory, or the cache."""
        return bool(self.moved) or not (self.offloaded and self.offload_kv)

    @property
    def key(self) -> Hashable:
        """What makes two placements equal."""
        places, moved = tuple(self.of_layer), tuple(self.moved.items())
        return self.gpus, places, moved, self.offload_kv, self.pipelined, self.pinned

    @cached_property
    def _devices(self) -> dict[str, int]:
        return {f"GPU{i}": i for i in range(self.gpus)}


class Block:
    """A graph in the making, at one block."""

    def __init__(self, header: Header, batch: Batch, placement: Placement) -> None:
        self.header, self.batch, self.placement = header, batch, placement
        self.rules = header.rules
        self.graph = Graph()
        self.index = 0
        self.early_state: Tensor | None = None  # that was read for the next recurrent block
        self.of_layers: Tensor | None = None  # embeddings of their own for each block
        self._made: dict[tuple[str, int], Tensor] = {}
        self._inputs: dict[str, Tensor] = {}

    def has(self, name: str) -> bool:
        """Return whether the present block has a weight."""
        return name in self.header.block_weights[self.index]

    def weight(self, name: str) -> Tensor | None:
        """Return a weight of the present block, if it has it."""
        return self.stored(f"blk.{self.index}.{name}", self.index) if self.has(name) else None

    def has_norm(self, name: str) -> bool:
        """Return whether the present block has a norm; some lack the ending of its name."""
        return self.has(f"{name}.weight") or self.has(name)

    def need(self, name: str) -> Tensor:
        """Return a weight of the present block."""
        return self.stored(f"blk.{self.index}.{name}", self.index)

    def stored(self, name: str, layer: int) -> Tensor:
        place = self.placement.of_weights(name, layer)
        key = name, place
        if key not in self._made:
            weights = self.header.weights_by_name.get(name)
            if weights is None:
                raise UnknownGraphError(f"there is no {name}")
            self._made[key] = stored(
                weights.extent, weights.stored, place, weights=True, scratch=weights.row_padding
            )
            self._made[key].kind = weights.kind
        return self._made[key]

    def input(self, name: str, *extent: int, width: int = _I32) -> Tensor:
        """Return an input of the graph, the same one for each use."""
        if name not in self._inputs:
            self._inputs[name] = leaf((*extent, 1, 1, 1)[:4], width)  # type: ignore[arg-type]
        return self._inputs[name]

    def part_of_input(self, name: str, count: int) -> Tensor:
        """Return the first elements of an input, the same tensor for each block."""
        key = f"{count} of {name}"
        if key not in self._inputs:
            self._inputs[key] = view(self._inputs[name], count)
        return self._inputs[key]

    def mask(self, side: str, cells: int, tokens: int, streams: int) -> Tensor:
        """Return which positions each token sees; older builds make 16 bits of it in the graph."""
        flash, narrow = self.batch.flash_attention, self.batch.revision.narrow_masks
        width = 2 if flash and narrow else 4
        mask = self.input(f"mask{side}", cells, tokens, 1, streams, width=width)
        if not flash or narrow:
            return mask
        key = f"narrow mask{side}"
        if key not in self._inputs:
            self._inputs[key] = made("cast", mask.extent, mask, width=2)
        return self._inputs[key]

    def cells(self, name: str, count: int) -> tuple[Tensor, ...]:
        """Return the input that says where a cache is written; older builds write into a part."""
        return (self.input(name, count, width=_I64),) if self.batch.revision.rows else ()

    @property
    def positions(self) -> Tensor:
        return self.input("positions", self.batch.tokens * self.header.position_numbers)

    @property
    def chosen_outputs(self) -> Tensor:
        return self.input("outputs", self.batch.outputs)

    def norm(self, current: Tensor, name: str) -> Tensor:
        """Return a tensor normed with a weight of the block, and with its bias if there is one."""
        return self.normed(current, f"blk.{self.index}.{name}.", self.index)

    def normed(self, current: Tensor, prefix: str, layer: int) -> Tensor:
        is_other = layer == self.header.blocks and self.rules.last_norm != "as others"
        current = like(self.rules.last_norm if is_other else self.rules.norm, current)
        names = self.header.weights_by_name
        # falcon-h1 and plamo3 have norms without the ending
        name = f"{prefix}weight" if f"{prefix}weight" in names else prefix[:-1]
        pinned = self.rules.pinned_last_norm or not prefix.endswith("post_ffw_norm.")
        is_weighed = name in names or f"{prefix}bias" in names
        if pinned and is_weighed and layer < self.header.blocks and self.placement.pinned:
            current.pinned = self.placement.of_block(layer)
        if name in names:
            current = like("mul", current, self.stored(name, layer))
        if f"{prefix}bias" in names:
            current = like("add", current, self.stored(f"{prefix}bias", layer))
        return current

    def linear(self, name: str, current: Tensor, *, biased: bool = True) -> Tensor:
        """Return a tensor times a matrix of the block, plus its bias if there is one."""
        current = mul_mat(self.need(f"{name}.weight"), current)
        bias = self.weight(f"{name}.bias") if biased else None
        return current if bias is None else like("add", current, bias)

    @property
    def outputs(self) -> str:
        """Where the rows are chosen whose logits are asked for: of `Rules.outputs`."""
        is_drafted = self.batch.revision.build >= self.rules.drafted_since
        return self.rules.outputs if is_drafted else "last block"

    def rows_for_output(self, is_last: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return of the last block only the rows whose logits are asked for."""
        if not is_last or self.outputs != "last block":
            return tensors
        return tuple(get_rows(tensor, self.chosen_outputs) for tensor in tensors)

    def rotated(self, tensor: Tensor) -> Tensor:
        factors = self.header.rope_factors
        if self.rules.rope_factors.startswith("full") and self.header.windowed[self.index]:
            factors = None
        if factors is None:
            return like("rope", tensor, self.positions)
        table = self.stored(factors, self.index)
        return like("rope", tensor, self.positions, table)

    def cache(
        self, which: str, kind: TensorType, current: Tensor, cells: int, width: int = 0
    ) -> Tensor:
        index = self.header.cache_block(self.index)
        key = which, index
        if key not in self._made:
            width = width or current.extent[0] * current.extent[1]
            nbytes = (kind.nbytes(width) or 0) * cells * self.batch.streams
            place = self.placement.of_cache(index)
            extent = (width, cells, self.batch.streams, 1)
            self._made[key] = stored(extent, nbytes, place, weights=False)
            if which == "v":
                self._made["k", index].behind = self._made[key]
        return self._made[key]

    def cache_view(self, cache: Tensor, kind: TensorType, extent: Extent) -> Tensor:
        seen = view(cache, *extent)
        seen.nbytes = cache.nbytes
        if self.batch.backend.fills_rows:
            seen.scratch = row_padding(kind, extent[0])
        return seen

    def per_sequence(self) -> tuple[int, int]:
        return self.batch.tokens // self.batch.sequences, self.batch.sequences


def self_attention(block: Block, current: Tensor) -> Tensor:
    rules = block.rules
    q, k, v = projected(block, current)
    normed = block.has("attn_q_norm.weight") and not rules.normed_before_heads
    if normed and not rules.normed_when_rotated:
        q, k = block.norm(q, "attn_q_norm"), block.norm(k, "attn_k_norm")
    if _is_rotated(block):
        q, k = block.rotated(q), block.rotated(k)
        if rules.norm_without_weights:
            q, k = like("rms_norm", q), like("rms_norm", k)
    elif rules.norm_without_weights:
        q = like("mul", q, block.input("attention scales", 1, 1, block.batch.tokens))
    if normed and rules.normed_when_rotated:
        q, k = block.norm(q, "attn_q_norm"), block.norm(k, "attn_k_norm")
    if rules.scaled_query:
        q = like("scale", q)
    attended = gated(block, attention(block, q, k, v), current)
    return block.linear("attn_output", attended, biased=rules.output_bias)


def shared_attention(block: Block, current: Tensor) -> Tensor:
    """Return attention that may read what another block keeps (`gemma4.cpp`)."""
    header, tokens = block.header, block.batch.tokens
    heads, kv_heads = header.heads[block.index], header.kv_heads[block.index]
    key, value = header.lengths_of(block.index)
    q = reshape(block.linear("attn_q", current), key, heads, tokens)
    q = block.rotated(block.norm(q, "attn_q_norm"))
    if not header.cached[block.index]:
        k, v = leaf((key, kv_heads, tokens, 1)), leaf((value, kv_heads, tokens, 1))
        return block.linear("attn_output", attention(block, q, k, v))
    k = v = block.linear("attn_k", current)
    if block.has("attn_v.weight"):
        v = block.linear("attn_v", current)
    k, v = reshape(k, key, kv_heads, tokens), reshape(v, value, kv_heads, tokens)
    k, v = block.norm(k, "attn_k_norm"), like("rms_norm", v)
    return block.linear("attn_output", attention(block, q, block.rotated(k), v))


def of_own_embedding(block: Block, current: Tensor) -> Tensor:
    """Return what a block adds of the embeddings that it has of its own (`gemma4.cpp`)."""
    if block.of_layers is None:
        raise UnknownGraphError("there are no embeddings of blocks")
    gate = like("unary", mul_mat(block.need("inp_gate.weight"), current))
    own = view(block.of_layers, *block.of_layers.extent[:2], plain=True)
    own = mul_mat(block.need("proj.weight"), like("mul", gate, own))
    return block.norm(own, "post_norm")


def gated(block: Block, attended: Tensor, current: Tensor) -> Tensor:
    """Return what attention found, weighed by elements or by heads where there is a gate."""
    matrix = block.weight("attn_gate.weight")
    if matrix is None:
        return attended
    gate = like("unary", mul_mat(matrix, current))
    width, count = attended.extent[0], gate.extent[0]
    if width == count:
        return like("mul", attended, gate)
    if not count or width % count:
        raise UnknownGraphError(f"a gate of {count} rows for {width} elements")
    attended = reshape(attended, width // count, count, block.batch.tokens)
    weighed = like("mul", attended, reshape(gate, 1, count, block.batch.tokens))
    return reshape(weighed, width, block.batch.tokens)


def _is_rotated(block: Block) -> bool:
    """Return whether a block's queries and keys are rotated by their positions."""
    windows, is_fourth = block.header.windowed, (block.index + 1) % 4 == 0
    is_dense = not block.has("ffn_gate_inp.weight")
    return {
        "all": block.header.rotated,
        "file": block.header.rotated,
        "windowed": windows[block.index] or not any(windows),
        "windowed or dense": windows[block.index] or is_dense,
        "3 of 4": not is_fourth,
        "3 of 4 if windowed": not is_fourth or not any(windows),
        "32 blocks": block.header.blocks == 32,
        "none": False,
    }[block.rules.rotated]


def projected(block: Block, current: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, by heads."""
    header, tokens = block.header, block.batch.tokens
    heads, kv_heads = header.heads[block.index], header.kv_heads[block.index]
    key, value = header.lengths_of(block.index)
    if block.has("attn_qkv.weight"):
        joined = block.linear("attn_qkv", current, biased=block.rules.qkv_bias)
        return (
            view(joined, key, heads, tokens),
            view(joined, key, kv_heads, tokens),
            view(joined, value, kv_heads, tokens),
        )
    q, k, v = (block.linear(f"attn_{name}", current, biased=block.rules.qkv_bias) for name in "qkv")
    if block.rules.normed_before_heads:
        q, k = block.norm(q, "attn_q_norm"), block.norm(k, "attn_k_norm")
    return (
        reshape(q, key, heads, tokens),
        reshape(k, key, kv_heads, tokens),
        reshape(v, value, kv_heads, tokens),
    )


def attention(
    block: Block, q: Tensor, k: Tensor, v: Tensor, *, decompress: Tensor | None = None
) -> Tensor:
    """Store keys and values, and return what the queries find, heads joined."""
    batch, header = block.batch, block.header
    if header.reads_at_once:
        return _attention_at_once(block, q, k, v)
    windowed = header.windowed[block.index]
    is_own = header.cache_block(block.index) == block.index
    rotation_k, rotation_v = _rotations(block)
    if rotation_k is not None:
        q = _hadamard(q, rotation_k)
        k = _hadamard(k, rotation_k) if is_own else k
    if rotation_v is not None and is_own:
        v = _hadamard(v, rotation_v)
    block.graph.expand(q)
    for tensor in ((k, v) if any(header.windowed) else (v, k)) if is_own else ():
        block.graph.expand(tensor)
    cells = batch.window_cells if windowed else batch.cells
    side = " of windows" if windowed else ""
    k_cache = block.cache("k", batch.type_k, k, cells)
    if is_own:
        index = block.cells(f"key cells{side}", batch.tokens)
        rows = view(k, k.extent[0] * k.extent[1], batch.tokens)
        block.graph.expand(written(_of_all_streams(block, k_cache), rows, *index))
    keys = block.cache_view(k_cache, batch.type_k, (k.extent[0], k.extent[1], cells, batch.streams))
    if decompress is not None:
        values = block.cache_view(k_cache, batch.type_k, (v.extent[0], 1, cells, batch.streams))
        rest = k.extent[0] - v.extent[0]  # of the last row
        values.nbytes -= batch.type_k.nbytes(rest) or 0
    else:
        values = _stored_values(block, v, cells, side, is_own=is_own)
    per_stream = batch.tokens // batch.streams
    q = permute(view(q, q.extent[0], q.extent[1], per_stream, batch.streams))
    mask = block.mask(side, cells, per_stream, batch.streams)
    sinks = block.weight("attn_sinks.weight")
    masks = [mask] if sinks is None else [mask, sinks]
    if batch.flash_attention:
        types = (batch.type_k.name, batch.type_v.name)
        # copies of a cache on the host: the values are not those in the keys any more
        copied = block.placement.of_cache(block.index) == block.placement.gpus
        is_one = decompress is not None and not copied
        found = _in_one_kernel(block, (q, keys, values), masks, decompress, types, is_one=is_one)
    else:
        values = permute(values)
        if decompress is None and not batch.turned_values:
            values = _turned(values, batch.type_v)
        found = _by_scores(block, (q, keys, values), masks, decompress)
    block.graph.expand(found)
    return found if rotation_v is None else _hadamard(found, rotation_v)


def _rotations(block: Block) -> tuple[Tensor | None, Tensor | None]:
    """Return the matrices that a quantized cache's keys and values are turned with."""
    found: list[Tensor | None] = []
    if not block.batch.revision.rotated:
        return None, None
    if any(block.header.windowed) and any(block.header.recurrent):
        return None, None  # `llama-memory-hybrid-iswa.cpp` knows none
    lengths = block.header.lengths_of(block.index)
    for name, kind, length in zip(
        "kv", (block.batch.type_k, block.batch.type_v), lengths, strict=True
    ):
        if not kind.quantized or length == 0 or length % 64 or block.header.mla:
            found.append(None)
            continue
        size = 64 if name == "v" else length & -length  # the largest power of two that divides it
        side = " of windows" if block.header.windowed[block.index] else ""
        found.append(block.input(f"rotation {name}{side}", size, size))
    return found[0], found[1]


def _hadamard(tensor: Tensor, rotation: Tensor) -> Tensor:
    size = rotation.extent[0]
    count = elements(tensor.extent)
    rows = reshape(tensor, size, count // size)
    if not tensor.plain:
        rows = made("cont", (size, count // size), tensor)
    return reshape(mul_mat(rotation, rows), *tensor.extent)


def _attention_at_once(block: Block, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return what the queries find in the batch itself, heads joined."""
    batch = block.batch
    for tensor in (q, k, v):
        block.graph.expand(tensor)
    side = " of windows" if block.header.windowed[block.index] else ""
    mask = block.mask(side, batch.tokens, batch.tokens, 1)
    q = permute(view(q, q.extent[0], q.extent[1], batch.tokens))
    if batch.flash_attention:
        found = _in_one_kernel(block, (q, k, v), [mask], None, ("F32", "F32"))
    else:
        turned = transpose(permute(v))
        found = _by_scores(block, (q, k, made("cont", turned.extent, turned)), [mask], None)
    return block.graph.expand(found)


def _in_one_kernel(  # noqa: PLR0913 - what a kernel is given
    block: Block,
    qkv: tuple[Tensor, Tensor, Tensor],
    masks: list[Tensor],
    decompress: Tensor | None,
    kinds: tuple[str, str],
    *,
    is_one: bool = False,  # whether the keys hold the values
) -> Tensor:
    """Return softmax(q · keys + mask) · values, heads joined, by flash attention."""
    q, keys, values = qkv
    _, per_stream, heads, streams = q.extent
    extent = (values.extent[0], heads, per_stream, streams)
    types = list(kinds)
    turned = [permute(keys), permute(values)]
    for index, kind in enumerate(types):
        if kind == "F32":  # a copy in the graph
            turned[index] = made("cast", turned[index].extent, turned[index], width=2)
            types[index] = "F16"
    found = made("flash_attention", extent, q, *turned, *masks)
    found.layer = block.placement.of_block(block.index)
    # a kernel makes f16 copies of other types (`fattn.cu`)
    end = found.nbytes
    copies = block.batch.revision.kernel_copies and block.batch.backend.scratch == "copies"
    if copies and types[0] != "F16":
        end = padded(end, GPU_ALIGNMENT) + 2 * elements(keys.extent)
    if copies and types[1] != "F16" and not is_one:
        end = padded(end, GPU_ALIGNMENT) + 2 * elements(values.extent)
    found.scratch = end - found.nbytes
    if block.batch.backend.scratch == "metal":
        copies = block.batch.revision.metal_copies
        in_keys = decompress is not None
        found.scratch = attention_scratch(qkv, kinds, copies=copies, in_keys=in_keys, is_one=is_one)
    queries = heads // max(keys.extent[1], 1)
    shape = keys.extent[0], values.extent[0], queries
    names = types[0].lower(), types[1].lower()
    if not has_kernel(block.batch.library, shape, names, block.batch.revision):
        found.on_host, found.scratch = True, 0  # the CPU computes it
    if decompress is not None:
        found = permute(_decompressed(block, decompress, permute(found)))
        found = made("cont", found.extent, found)
    a, b, c, d = found.extent
    return reshape(found, a * b, c * d)


def _by_scores(
    block: Block, qkv: tuple[Tensor, Tensor, Tensor], masks: list[Tensor], decompress: Tensor | None
) -> Tensor:
    """Return the same with a score for each pair of a query and a key."""
    q, keys, values = qkv
    scores = mul_mat(permute(keys), q)
    if block.rules.softcap:
        scores = like("scale", like("unary", like("scale", scores)))
    scores = like("soft_max", scores, *masks)
    if decompress is not None:
        values = _turned(values, block.batch.type_k)
    found = mul_mat(values, scores)
    if decompress is not None:
        found = _decompressed(block, decompress, found)
    found = permute(found)
    a, b, c, d = found.extent
    joined = made("cont", (a * b, c * d), found)
    if not block.placement.offload_kv:  # all from the cache to here is left to the CPU
        joined.pinned = block.placement.gpus
    return joined


def _decompressed(block: Block, decompress: Tensor, values: Tensor) -> Tensor:
    found = mul_mat(decompress, values)
    found.on_host = values.extent[3] > 1 and not block.batch.backend.broadcasts
    return found


def _turned(values: Tensor, kind: TensorType) -> Tensor:
    turned = transpose(values)
    values = made("cont", turned.extent, turned)
    values.nbytes = kind.nbytes(elements(turned.extent)) or 0
    return values


def _of_all_streams(block: Block, cache: Tensor) -> Tensor:
    """Return a cache as it is written: of several sequences in another shape."""
    return cache if block.batch.streams == 1 else reshape(cache, *cache.extent)


def _stored_values(block: Block, v: Tensor, cells: int, side: str, *, is_own: bool) -> Tensor:
    """Write values into their cache, which may hold them transposed."""
    batch = block.batch
    length, heads = v.extent[:2]
    width = length * heads
    if not batch.turned_values:
        cache = block.cache("v", batch.type_v, v, cells)
        if is_own:
            index = block.cells(f"value cells{side}", batch.tokens)
            rows = view(v, width, batch.tokens)
            block.graph.expand(written(_of_all_streams(block, cache), rows, *index))
        return block.cache_view(cache, batch.type_v, (length, heads, cells, batch.streams))
    widest = block.header.widest_values
    cache = block.cache("v", batch.type_v, v, cells, widest)
    if is_own:
        index = block.cells(f"value cells{side}", batch.tokens * widest)
        rows = reshape(v, width, batch.tokens)
        if not v.plain:
            rows = made("cont", (width, batch.tokens), v)
        if width < widest:
            rows = made("pad", (widest, batch.tokens), rows)
        target = reshape(cache, *cache.extent)
        block.graph.expand(written(target, reshape(rows, 1, widest * batch.tokens), *index))
    values = block.cache_view(cache, batch.type_v, (cells, heads, length, batch.streams))
    values.nbytes -= batch.type_v.nbytes(cells * (widest - width)) or 0  # of the last stream
    return values


def network(block: Block, current: Tensor, suffix: str = "") -> Tensor:
    """Return what a network of two or three matrices makes."""
    biased = block.rules.biased
    up = block.linear(f"ffn_up{suffix}", current, biased=biased)
    down = block.need(f"ffn_down{suffix}.weight")
    if block.has(f"ffn_gate{suffix}.weight"):
        gate = block.linear(f"ffn_gate{suffix}", current, biased=biased)
        hidden = made("glu", gate.extent, gate, up)
    elif up.extent[0] == 2 * down.extent[0]:
        hidden = made("glu", (down.extent[0], *up.extent[1:]), up)
    else:
        hidden = like("unary", up)
    return block.linear(f"ffn_down{suffix}", hidden, biased=biased)


def experts_or_network(block: Block, current: Tensor) -> Tensor:
    if not block.has("ffn_gate_inp.weight"):
        return network(block, current)
    mixed = experts(block, current)
    if not block.has("ffn_up_shexp.weight"):
        return mixed
    gate = None
    if block.has("ffn_gate_inp_shexp.weight"):
        logits = block.linear("ffn_gate_inp_shexp", current)
        gate = like("unary", logits)
        if block.rules.divided_gate:
            gate = like("div", gate, logits)
    shared = network(block, current, "_shexp")
    if gate is not None:
        shared = like("mul", shared, gate)
    both = like("add", mixed, shared)
    return like("scale", both) if block.rules.halved_experts else both


def experts(block: Block, current: Tensor, logits: Tensor | None = None) -> Tensor:
    """Return the sum of what the chosen experts make; of how well each fits, or what is given."""
    header, rules = block.header, block.rules
    width, tokens = current.extent[:2]
    used = header.experts_used
    if logits is None:
        logits = block.linear("ffn_gate_inp", current)
    chosen, weights = _choice(block, logits, tokens)
    block.graph.expand(weights)
    current = reshape(current, width, 1, tokens)
    if rules.weighted_first:
        current = like("mul", made("repeat", (width, used, tokens), current), weights)
    if block.has("ffn_gate_up_exps.weight"):
        both = _of_experts(block, "gate_up", current, chosen)
        extent = (both.extent[0] // 2, *both.extent[1:])
        hidden = made("glu", extent, view(both, *extent), view(both, *extent))
    else:
        up = _of_experts(block, "up", current, chosen)
        if not block.has("ffn_gate_exps.weight"):
            hidden = like("unary", up)
        else:
            gate = _of_experts(block, "gate", current, chosen)
            hidden = made("glu", gate.extent, gate, up)
    found = _of_experts(block, "down", hidden, chosen)
    if not rules.weighted_first:
        found = like("mul", found, weights)
    # llama.cpp adds one expert after the other to the first sum: one tensor beside theirs
    return block.graph.expand(made("sum", (width, tokens), found))


def _choice(block: Block, logits: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """Return which experts are used, and with which weights."""
    header, rules = block.header, block.rules
    used = header.experts_used
    count = logits.extent[0]
    probabilities = logits
    if rules.gate != "late":
        sigmoid = rules.gate == "sigmoid" or header.expert_gating == 2
        probabilities = like("unary" if sigmoid else "soft_max", logits)
    choosing = logits if rules.weighted_first else probabilities
    bias = block.weight("exp_probs_b.bias") or block.weight("exp_probs_b")
    if bias is not None:
        choosing = like("add", choosing, bias)
    if header.expert_groups > 1:
        choosing = _of_best_groups(block, choosing, count, tokens)
    chosen = view(argsort(choosing), used, tokens)
    weights = get_rows(reshape(probabilities, 1, count, tokens), chosen)
    if rules.gate == "late":
        weights = reshape(weights, used, tokens)
        weights = reshape(like("soft_max", weights), 1, used, tokens)
    if rules.summed_experts or header.experts_normed:
        weights = reshape(weights, used, tokens)
        total = like("clamp", made("sum_rows", (1, tokens), weights))
        weights = reshape(like("div", weights, total), 1, used, tokens)
    if header.experts_scaled:
        weights = like("scale", weights)
    return chosen, weights


def _of_best_groups(block: Block, choosing: Tensor, count: int, tokens: int) -> Tensor:
    """Return the probabilities of experts in the groups whose two best are best."""
    groups, kept = block.header.expert_groups, block.header.expert_groups_used
    size = count // groups
    grouped = reshape(choosing, size, groups, tokens)
    best = view(argsort(grouped), 2, groups, tokens)
    scores = get_rows(reshape(grouped, 1, size, groups, tokens), best)
    scores = made("sum_rows", (1, groups, tokens), reshape(scores, 2, groups, tokens))
    order = argsort(reshape(scores, groups, tokens))
    winners = view(order, kept, tokens)
    rows = get_rows(grouped, winners)
    target = like("fill", grouped)
    masked = Tensor("write", target.extent, [rows, winners, target], 4, target)
    return reshape(masked, count, tokens)


def _of_experts(block: Block, part: str, current: Tensor, chosen: Tensor) -> Tensor:
    found = mul_mat_id(block.need(f"ffn_{part}_exps.weight"), current, chosen)
    is_wide = part == "down" and block.rules.wide_experts
    found.on_host = is_wide and not block.batch.backend.wide_experts
    bias = block.weight(f"ffn_{part}_exps.bias")
    return found if bias is None else like("add_id", found, bias, chosen)


def argsort(source: Tensor) -> Tensor:
    """Return the order of each row, as integers."""
    return Tensor("argsort", source.extent, [source], _I32)
