"""The graphs of architectures: which tensors a batch passes through, block after block.

Read in `src/models/*.cpp` and `llama-graph.cpp` of build 11434. What a block holds is seen from its
weights; `STYLES` says what they do not tell. Order matters: memory is given out in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from explorer.planner.llama_cpp.block import (
    Batch,
    Block,
    Placement,
    Style,
    attention,
    experts_or_network,
    network,
    self_attention,
)
from explorer.planner.llama_cpp.graph import (
    Graph,
    Tensor,
    concat,
    get_rows,
    like,
    made,
    mul_mat,
    permute,
    reshape,
    view,
)
from explorer.planner.llama_cpp.header import Header
from explorer.planner.llama_cpp.recurrent import delta_network, mamba, mamba2, short_convolution

STYLES: Final[dict[str, Style]] = {
    "llama": Style(),
    "qwen2": Style(),
    "qwen3": Style(),
    "qwen2moe": Style(summed_experts=False),
    "qwen3moe": Style(),
    "gemma2": Style(scaled_input="scale", scaled_query=True, scaled_logits=3, softcap=True),
    "gemma3": Style(scaled_input="mul", scaled_query=True),
    "phi2": Style(norm="norm", parallel=True, scaled_query=True, biased=True),
    "phi3": Style(scaled_query=True),
    "command-r": Style(norm="norm", parallel=True, scaled_logits=1),
    "cohere2": Style(norm="norm", parallel=True, scaled_logits=1, rotated="windowed"),
    "olmo2": Style(normed_before_heads=True),
    "granite": Style(scaled_input="scale", scaled_residual=True, scaled_logits=1),
    "granitemoe": Style(scaled_input="scale", scaled_residual=True, scaled_logits=1),
    "glm4": Style(),
    "starcoder2": Style(norm="norm", biased=True),
    "gpt-oss": Style(summed_experts=False, gate="late", biased=True, outputs_last=True),
    "llama4": Style(
        rotated="windowed",
        norm_without_weights=True,
        summed_experts=False,
        gate="sigmoid",
        weighted_first=True,
    ),
    "deepseek2": Style(summed_experts=False),
    "mamba": Style(),
    "mamba2": Style(),
    "jamba": Style(rotated="none", summed_experts=False),
    "falcon-h1": Style(),
    "lfm2": Style(),
    "qwen3next": Style(outputs_last=True),
}
"""Architecture → what its graph does differently from that of llama."""


def build_graph(header: Header, batch: Batch, placement: Placement, blocks: Sequence[int]) -> Graph:
    """Return the graph of a batch through some of the blocks.

    Raises:
        UnknownGraphError: The model lacks what every model of its architecture has.
    """
    block = Block(header, batch, placement, STYLES.get(header.architecture, Style()))
    build_block = _BLOCKS.get(header.architecture, _decoder_block)
    current = _embedded(block)
    last = header.blocks - 1
    for block.index in blocks:
        current = build_block(block, current, block.index == last)
    _logits(block, current)
    return block.graph


def _latent_attention(block: Block, current: Tensor) -> Tensor:
    """Return multi-head latent attention: keys and values share a compressed form."""
    header, tokens = block.header, block.batch.tokens
    heads, turned = header.heads[block.index], header.rope_size
    if block.weight("attn_q.weight") is not None:
        q = mul_mat(block.need("attn_q.weight"), current)
    else:
        q = block.norm(mul_mat(block.need("attn_q_a.weight"), current), "attn_q_a_norm")
        q = mul_mat(block.need("attn_q_b.weight"), q)
    length = q.extent[0] // heads
    q = reshape(q, length, heads, tokens)
    joined = mul_mat(block.need("attn_kv_a_mqa.weight"), current)
    rank = joined.extent[0] - turned
    compressed, k_turned = view(joined, rank, tokens), view(joined, turned, 1, tokens)
    k_turned = block.rotated(k_turned)
    compressed = block.norm(compressed, "attn_kv_a_norm")
    if header.mla:
        q_turned = block.rotated(view(q, turned, heads, tokens))
        plain = permute(view(q, length - turned, heads, tokens))
        absorbed = permute(mul_mat(block.need("attn_k_b.weight"), plain))
        q = concat(absorbed, q_turned)
        compressed = reshape(compressed, rank, 1, tokens)
        k = concat(compressed, k_turned)
        decompress = block.need("attn_v_b.weight")
        attended = attention(block, q, k, compressed, decompress=decompress)
        return block.linear("attn_output", attended)
    both = mul_mat(block.need("attn_kv_b.weight"), compressed)
    k_plain = view(both, length - turned, heads, tokens)
    v = made("cont", (header.value_length, heads, tokens), both)
    q = block.rotated(q)
    k = concat(k_plain, made("repeat", (turned, heads, tokens), k_turned))
    return block.linear("attn_output", attention(block, q, k, v))


def _gated_attention(block: Block, current: Tensor) -> Tensor:
    header, tokens = block.header, block.batch.tokens
    heads, kv_heads = header.heads[block.index], header.kv_heads[block.index]
    length = header.key_length
    q, k, v = (block.linear(f"attn_{name}", current) for name in "qkv")
    q = reshape(q, 2 * length, heads, tokens)
    gate = view(q, length, heads, tokens)
    q = block.norm(view(q, length, heads, tokens), "attn_q_norm")
    k = block.norm(reshape(k, length, kv_heads, tokens), "attn_k_norm")
    v = reshape(v, length, kv_heads, tokens)
    attended = attention(block, block.rotated(q), block.rotated(k), v)
    gate = like("unary", made("cont", (length * heads, tokens), gate))
    return block.linear("attn_output", like("mul", attended, gate))


def _embedded(block: Block) -> Tensor:
    """Return the batch's embeddings; given ones and mixed ones are parts of the graph too."""
    tokens, width = block.batch.tokens, block.header.embedding
    table = block.stored("token_embd.weight", -1)
    current = block.graph.expand(get_rows(table, block.input("tokens", tokens)))
    block.graph.expand(block.input("embeddings", width, tokens))
    mixed = like("dup", block.input("mixed embeddings", width, tokens))
    rows = get_rows(table, block.input("mixed tokens", tokens))
    slots = block.input("slots", tokens, width=8)
    block.graph.expand(Tensor("write", mixed.extent, [rows, slots, mixed], 4, mixed))
    if block.style.scaled_input == "mul":
        current = like("mul", current, block.input("scales", 1, tokens))
    block.graph.expand(current)
    return like("scale", current) if block.style.scaled_input == "scale" else current


def _logits(block: Block, current: Tensor) -> None:
    if block.style.outputs_last and block.header.architecture == "gpt-oss":
        current.is_output = True
        current = get_rows(current, block.chosen_outputs)
    norm = "output_norm"
    if norm + ".weight" not in block.header.weights_by_name:
        norm = "token_embd_norm"  # of lfm2
    blocks = block.header.blocks
    current = block.normed(current, f"{norm}.", blocks)
    if block.header.architecture == "qwen3next":
        current.is_output = True
        current = get_rows(current, block.chosen_outputs)
    current.is_output = True
    output = "output.weight" if block.header.has_output else "token_embd.weight"
    current = mul_mat(block.stored(output, blocks), current)
    if "output.bias" in block.header.weights_by_name:
        current = like("add", current, block.stored("output.bias", blocks))
    for _ in range(block.style.scaled_logits):
        current = like("scale", current)
    current.is_output = True
    block.graph.expand(current)


def _decoder_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    residual = current
    normed = current
    if block.weight("attn_norm.weight") is not None:
        normed = block.norm(current, "attn_norm")
    attended = self_attention(block, normed)
    if block.style.parallel:
        attended, residual, normed = block.rows_for_output(is_last, attended, residual, normed)
        found = network(block, normed)
        if block.header.architecture == "phi2":
            return like("add", like("add", attended, found), residual)
        return like("add", like("add", found, residual), attended)
    attended, residual = block.rows_for_output(is_last, attended, residual)
    if block.style.scaled_residual:
        attended = like("scale", attended)
    first_norm = "ffn_norm"
    if block.weight("post_attention_norm.weight") is not None:
        if block.weight("ffn_norm.weight") is None and not block.style.normed_before_heads:
            first_norm = "post_attention_norm"
        else:
            attended = block.norm(attended, "post_attention_norm")
    middle = like("add", attended, residual)
    normed = middle if block.style.normed_before_heads else block.norm(middle, first_norm)
    found = experts_or_network(block, normed)
    if block.weight("post_ffw_norm.weight") is not None:
        found = block.norm(found, "post_ffw_norm")
    if block.style.scaled_residual:
        found = like("scale", found)
    if block.header.architecture == "phi3":
        return like("add", middle, found)
    return like("add", found, middle)


def _mamba_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    residual = current
    layer = mamba2 if block.header.architecture == "mamba2" else mamba
    current = layer(block, block.norm(current, "attn_norm"))
    current, residual = block.rows_for_output(is_last, current, residual)
    return like("add", current, residual)


def _jamba_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    residual = current
    current = block.norm(current, "attn_norm")
    layer = mamba if block.header.recurrent[block.index] else self_attention
    current = layer(block, current)
    current, residual = block.rows_for_output(is_last, current, residual)
    middle = like("add", residual, current)
    return like("add", middle, experts_or_network(block, block.norm(middle, "ffn_norm")))


def _falcon_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    residual = current
    attended = self_attention(block, block.norm(current, "attn_norm"))
    recurrent = mamba2(block, block.norm(current, "attn_norm"))
    middle = like("add", like("add", attended, recurrent), residual)
    (middle,) = block.rows_for_output(is_last, middle)
    return like("add", network(block, block.norm(middle, "ffn_norm")), middle)


def _lfm2_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    residual = current
    current = block.norm(current, "attn_norm")
    layer = short_convolution if block.header.recurrent[block.index] else self_attention
    current = layer(block, current)
    current, residual = block.rows_for_output(is_last, current, residual)
    middle = like("add", residual, current)
    return like("add", middle, experts_or_network(block, block.norm(middle, "ffn_norm")))


def _deepseek_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    residual = current
    attended = _latent_attention(block, block.norm(current, "attn_norm"))
    attended, residual = block.rows_for_output(is_last, attended, residual)
    middle = like("add", attended, residual)
    return like("add", experts_or_network(block, block.norm(middle, "ffn_norm")), middle)


def _qwen3next_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    residual = current
    current = block.graph.expand(block.norm(current, "attn_norm"))
    layer = delta_network if block.header.recurrent[block.index] else _gated_attention
    current = layer(block, current)
    middle = like("add", current, residual)
    normed = block.norm(middle, "post_attention_norm")
    return like("add", experts_or_network(block, normed), middle)


_BLOCKS: Final[dict[str, Callable[[Block, Tensor, bool], Tensor]]] = {
    "mamba": _mamba_block,
    "mamba2": _mamba_block,
    "lfm2": _lfm2_block,
    "jamba": _jamba_block,
    "falcon-h1": _falcon_block,
    "qwen3next": _qwen3next_block,
    "deepseek2": _deepseek_block,
}
"""Architecture → how a block of it is built; else as llama's."""
