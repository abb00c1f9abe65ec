"""The graph of Gemma 3n, which keeps several streams (AltUp).

Each block predicts all of them, computes one, and corrects the others by it. Read in
`src/models/gemma3n.cpp` of build 11434.
"""

from __future__ import annotations

from typing import Final

from explorer.planner.engines.llama_cpp.block import Block, of_own_embedding, shared_attention
from explorer.planner.engines.llama_cpp.graph import (
    Tensor,
    get_rows,
    like,
    made,
    mul_mat,
    permute,
    reshape,
    transpose,
    view,
)

SPREAD: Final = "altup_proj.weight"
MERGED: Final = "altup_unembd_proj.weight"


def spread(block: Block, current: Tensor) -> Tensor:
    """Return the streams, made of the embeddings."""
    matrix = block.stored(SPREAD, block.header.blocks)
    target = _magnitude(current)
    repeated = made("repeat", (*current.extent[:2], matrix.extent[2]), current)
    added = _as_large(mul_mat(matrix, repeated), target)
    return _joined(current, added)


def merged(block: Block, current: Tensor) -> Tensor:
    """Return the mean of the streams, of the tokens whose logits are asked for."""
    target = _magnitude(_first(current))
    others = mul_mat(block.stored(MERGED, block.header.blocks), _others(current))
    others = _as_large(others, target)
    total = _first(current)
    for _ in range(others.extent[2]):
        total = like("add", total, _first(others))
    return get_rows(like("scale", total), block.chosen_outputs)


def gemma3n_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block: it predicts all streams, computes the first, and corrects all by it."""
    predicted = _predicted(block, current)
    active = _first(predicted)
    normed = block.norm(active, "attn_norm")
    low = mul_mat(block.need("laurel_r.weight"), mul_mat(block.need("laurel_l.weight"), normed))
    low = like("add", block.norm(low, "laurel_post_norm"), normed)
    attended = block.norm(shared_attention(block, normed), "post_attention_norm")
    middle = like("scale", like("add", like("add", attended, active), low))
    found = block.norm(_network(block, block.norm(middle, "ffn_norm")), "post_ffw_norm")
    corrected = _corrected(block, predicted, like("add", found, middle))
    first = like("mul", _first(corrected), block.need("altup_correct_scale.weight"))
    others = like("add", _others(corrected), of_own_embedding(block, first))
    return _joined(_first(corrected), others)


def _network(block: Block, current: Tensor) -> Tensor:
    up = block.linear("ffn_up", current)
    gate = block.linear("ffn_gate", current)
    if block.index < block.rules.sparse_blocks:
        mean = made("mean", (1, gate.extent[1]), gate)
        squares = like("sqr", like("sub", gate, mean))
        deviation = like("sqrt", like("scale", made("sum_rows", (1, gate.extent[1]), squares)))
        least = like("add", mean, like("scale", deviation))
        gate = like("unary", like("sub", gate, least))
    return block.linear("ffn_down", like("mul", up, like("unary", gate)))


def _predicted(block: Block, current: Tensor) -> Tensor:
    width, tokens, count, _ = current.extent
    routes = _routed(block, _first(current))
    weights = mul_mat(block.need("altup_predict_coef.weight"), routes)
    weights = reshape(weights, count, count, tokens)
    turned = made("cont", (count, width, tokens), permute(current))
    found = permute(mul_mat(turned, weights))
    return like("add", made("cont", (width, tokens, count), found), current)


def _corrected(block: Block, predicted: Tensor, activated: Tensor) -> Tensor:
    width, tokens, count, _ = predicted.extent
    routes = _routed(block, activated)
    innovation = like("sub", activated, _first(predicted))
    weights = like("scale", mul_mat(block.need("altup_correct_coef.weight"), routes))
    weights = made("cont", (1, tokens, count), transpose(weights))
    innovation = made("repeat", (width, tokens, count), innovation)
    return like("add", like("mul", innovation, weights), predicted)


def _routed(block: Block, current: Tensor) -> Tensor:
    normed = like("scale", block.norm(current, "altup_router_norm"))
    return like("unary", mul_mat(block.need("altup_router.weight"), normed))


def _magnitude(current: Tensor) -> Tensor:
    _, tokens, count, _ = current.extent
    return like("sqrt", made("sum_rows", (1, tokens, count), like("sqr", current)))


def _as_large(current: Tensor, target: Tensor) -> Tensor:
    magnitude = _magnitude(current)
    return like("div", like("mul", current, target), magnitude)


def _first(streams: Tensor) -> Tensor:
    """Return the stream that is computed, or any other: their places do not matter."""
    return view(streams, *streams.extent[:2], plain=True)


def _others(streams: Tensor) -> Tensor:
    width, tokens, count, _ = streams.extent
    return view(streams, width, tokens, count - 1, plain=True)


def _joined(first: Tensor, others: Tensor) -> Tensor:
    width, tokens, count, _ = others.extent
    return made("concat", (width, tokens, count + 1), first, others)
