"""The graphs of architectures: which tensors a batch passes through, block after block.

Read in `src/models/*.cpp` and `llama-graph.cpp` of build 11434. What a block holds is seen from its
weights; `STYLES` says what they do not tell. Order matters: memory is given out in this order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from explorer.planner.engines.llama_cpp.block import (
    Block,
    Style,
    attention,
    experts,
    experts_or_network,
    network,
    self_attention,
)
from explorer.planner.engines.llama_cpp.graph import (
    Tensor,
    UnknownGraphError,
    concat,
    get_rows,
    leaf,
    like,
    made,
    mul_mat,
    permute,
    reshape,
    view,
)
from explorer.planner.engines.llama_cpp.recurrent import (
    begin_with_state,
    delta_network,
    mamba,
    mamba2,
    short_convolution,
)

STYLES: Final[dict[str, Style]] = {
    "llama": Style(biased=True),
    "qwen2": Style(),
    "qwen3": Style(),
    "qwen2moe": Style(summed_experts=False),
    "qwen3moe": Style(),
    "gemma2": Style(scaled_input="scale", scaled_query=True, scaled_logits=3, softcap=True),
    "gemma3": Style(scaled_input="mul", scaled_query=True),
    "phi2": Style(norm="norm", parallel="attended", scaled_query=True, biased=True),
    "phi3": Style(scaled_query=True),
    "command-r": Style(norm="norm", parallel="residual", scaled_logits=1),
    "cohere2": Style(norm="norm", parallel="residual", scaled_logits=1, rotated="windowed"),
    "olmo2": Style(normed_before_heads=True),
    "granite": Style(scaled_input="scale", scaled_residual=True, scaled_logits=1, biased=True),
    "glm4": Style(),
    "starcoder2": Style(norm="norm", biased=True),
    "gpt-oss": Style(summed_experts=False, gate="late", biased=True, outputs_last=True),
    "llama4": Style(
        rotated="three of four",
        norm_without_weights=True,
        summed_experts=False,
        gate="sigmoid",
        weighted_first=True,
    ),
    "deepseek2": Style(summed_experts=False),
    "mamba": Style(),
    "mamba2": Style(),
    "jamba": Style(rotated="none", summed_experts=False),
    "falcon-h1": Style(biased=True),
    "lfm2": Style(),
    "qwen3next": Style(outputs_last=True),
    "qwen35": Style(outputs_last=True),
    "gemma4": Style(scaled_input="mul", scaled_logits=3, outputs_last=True),
    "nemotron_h": Style(rotated="none", outputs_last=True, biased=True, summed_experts=False),
    "nemotron_h_moe": Style(rotated="none", outputs_last=True, biased=True, summed_experts=False),
    "qwen35moe": Style(outputs_last=True),
    # no golden case: compared with libllama itself on a small model (docs/planner.md)
    **dict.fromkeys(
        (
            *("arcee", "bailingmoe2", "chatglm", "dbrx", "dream", "ernie4_5", "exaone"),
            *("exaone-moe", "internlm2", "lfm2moe", "llada", "llada-moe", "maincoder", "mellum"),
            *("minicpm", "minimax-m2", "paddleocr", "plamo3", "pockettts", "qwen", "qwen2vl"),
            *("qwen3tts", "qwen3vl", "qwen3vlmoe", "rnd1", "seed_oss", "xverse"),
        ),
        Style(),
    ),
    **dict.fromkeys(("deepseek", "bailingmoe", "dots1", "glm4moe"), Style(summed_experts=False)),
    **dict.fromkeys(
        ("gpt2", "starcoder", "bloom", "jais", "mpt"),
        Style(norm="norm", rotated="none", biased=True),
    ),
    **dict.fromkeys(("gemma", "gemma-embedding"), Style(scaled_input="scale", scaled_query=True)),
    "granitemoe": Style(scaled_input="scale", scaled_residual=True, scaled_logits=1),
    "granitehybrid": Style(
        scaled_input="scale", scaled_residual=True, scaled_logits=1, biased=True
    ),
    **dict.fromkeys(
        ("hunyuan-moe", "hunyuan-dense", "hunyuan_vl"), Style(normed_when_rotated=True)
    ),
    **dict.fromkeys(("stablelm", "orion"), Style(norm="norm")),
    "falcon": Style(norm="norm", parallel="attended"),
    **dict.fromkeys(("codeshell", "jais2"), Style(norm="norm", biased=True)),
    **dict.fromkeys(
        ("deci", "granite_swa", "mistral3", "nanbeige", "pangu-embedded"), Style(biased=True)
    ),
    "hy_v3": Style(biased=True, outputs_last=True),
    "mimo2": Style(tried=False, biased=True),
    "gptneox": Style(norm="norm", parallel="residual", biased=True),
    "olmo": Style(norm="norm", always_normed=True),
    "olmoe": Style(normed_before_heads=True, summed_experts=False),
    "nemotron": Style(norm="norm", biased=True),
    "smollm3": Style(rotated="three of four", biased=True),
    "exaone4": Style(rotated="windowed"),
    "afmoe": Style(rotated="three of four"),
    "maple": Style(rotated="windowed"),
    "cohere2moe": Style(
        tried=False,
        parallel="residual",
        rotated="windowed",
        outputs_last=True,
        summed_experts=False,
    ),
    **dict.fromkeys(("laguna", "spark2_5"), Style()),
    "phimoe": Style(scaled_query=True),
    "baichuan": Style(rotated="small"),
    # the same, but not within 1 % in every circumstance
    **dict.fromkeys(
        (
            *("ernie4_5-moe", "eurobert", "grok", "grovemoe"),
            *("llama-embed", "muse-glimmer", "openelm"),
        ),
        Style(tried=False),
    ),
    "bert": Style(tried=False, norm="norm", rotated="none", biased=True),
    "jina-bert-v2": Style(
        tried=False, norm="norm", rotated="none", biased=True, normed_before_heads=True
    ),
    "jina-bert-v3": Style(tried=False, norm="norm", biased=True),
    "nomic-bert": Style(tried=False, norm="norm"),
    "nomic-bert-moe": Style(tried=False, norm="norm", biased=True, summed_experts=False),
}
"""Architecture → what its graph does differently from that of llama."""


def build_part(block: Block, part: int, current: Tensor | None) -> Tensor:
    """Add a part to the graph, and return what the next part reads.

    A part is the embeddings (`EMBEDDINGS`), a block by its number, or the logits behind the last.

    Raises:
        UnknownGraphError: The model lacks what every model of its architecture has.
    """
    if current is None:
        found = _embedded(block)
    elif part == block.header.loaded:
        found = _logits(block, current)
    else:
        block.index = part
        build_block = _BLOCKS.get(block.header.architecture, _decoder_block)
        found = build_block(block, current, part == block.header.loaded - 1)
    if part + 1 < block.header.loaded:
        block.early_state = begin_with_state(block, part + 1)
    return block.graph.expand(found)


def _latent_attention(block: Block, current: Tensor) -> Tensor:
    """Return multi-head latent attention: keys and values share a compressed form."""
    header, tokens = block.header, block.batch.tokens
    heads, turned = header.heads[block.index], header.rope_size
    if not heads:
        raise UnknownGraphError(f"block {block.index} has no heads")
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
    if block.style.scaled_input != "scale":
        if "per_layer_model_proj.weight" in block.header.weights_by_name:
            block.of_layers = _of_layers(block, current)
        return _placed(block, current)
    scaled = "embedding_scale" in block.header.scales or "granite" not in block.header.architecture
    return like("scale", current) if scaled else current


def _of_layers(block: Block, current: Tensor) -> Tensor:
    """Return the embeddings that each block has of its own: of the words, and of their sum."""
    count, tokens = block.header.loaded, block.batch.tokens
    rows = get_rows(
        block.stored("per_layer_token_embd.weight", -1), block.input("words again", tokens)
    )
    width = rows.extent[0] // count
    words = block.graph.expand(like("scale", reshape(rows, width, count, tokens)))
    projected = mul_mat(block.stored("per_layer_model_proj.weight", 0), current)
    projected = reshape(like("scale", projected), width, count, tokens)
    projected = like("rms_norm", projected)
    projected = like("mul", projected, block.stored("per_layer_proj_norm.weight", 0))
    joined = like("scale", like("add", projected, words))
    return made("cont", (width, tokens, count), permute(joined))


def _placed(block: Block, current: Tensor) -> Tensor:
    """Return embeddings with what is learned of kinds and positions of tokens, normed."""
    names = block.header.weights_by_name
    if "token_types.weight" in names:
        kinds = block.stored("token_types.weight", -1)
        current = like("add", current, view(kinds, block.header.embedding))
    if "position_embd.weight" in names:
        positions = get_rows(block.stored("position_embd.weight", -1), block.positions)
        both = (current, positions) if block.header.makes_words else (positions, current)
        current = like("add", *both)
    if "token_embd_norm.weight" in names and block.header.architecture[:4] != "lfm2":
        current = block.normed(current, "token_embd_norm.", 0)
    return current


def _logits(block: Block, current: Tensor) -> Tensor:
    if not block.header.makes_words:
        current.is_output = True
        return current
    if block.style.outputs_last and block.header.architecture == "gpt-oss":
        current.is_output = True
        current = get_rows(current, block.chosen_outputs)
    norm = "output_norm"
    if norm + ".weight" not in block.header.weights_by_name:
        norm = "token_embd_norm"  # of lfm2
    blocks = block.header.blocks
    current = block.normed(current, f"{norm}.", blocks)
    if block.style.outputs_last and block.header.architecture != "gpt-oss":
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
    return current


def _decoder_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    style, residual, normed = block.style, current, current
    if style.always_normed or block.weight("attn_norm.weight") is not None:
        normed = block.norm(current, "attn_norm")
    layer = mamba2 if block.header.recurrent[block.index] else self_attention
    second = block.weight("attn_norm_2.weight") is not None  # of large falcons
    attended = layer(block, block.norm(current, "attn_norm_2") if second else normed)
    if style.parallel and _is_parallel(block):
        return _parallel(block, (attended, residual, normed), is_last)
    attended, residual, normed = block.rows_for_output(is_last, attended, residual, normed)
    if _scales_residual(block):
        attended = like("scale", attended)
    if block.weight("post_attention_norm.weight") is not None and not _is_norm_of_network(block):
        attended = block.norm(attended, "post_attention_norm")
    middle = like("add", attended, residual)
    found = experts_or_network(block, _normed_for_network(block, middle, normed))
    if block.weight("post_ffw_norm.weight") is not None:
        found = block.norm(found, "post_ffw_norm")
    if _scales_residual(block):
        found = like("scale", found)
    if block.header.architecture in ("phi3", "phimoe"):
        return like("add", middle, found)
    return like("add", found, middle)


def _normed_for_network(block: Block, middle: Tensor, normed: Tensor) -> Tensor:
    """Return what the network of a block reads."""
    if block.style.always_normed or block.weight("ffn_norm.weight") is not None:
        return block.norm(middle, "ffn_norm")
    if _is_norm_of_network(block):
        return block.norm(middle, "post_attention_norm")
    if block.weight("post_ffw_norm.weight") is not None:
        return middle  # it is normed behind instead
    if block.header.architecture == "stablelm":
        return normed
    return block.norm(middle, "ffn_norm")


def _is_norm_of_network(block: Block) -> bool:
    """Return whether the norm behind attention is that before the network."""
    names = ("ffn_norm.weight", "post_ffw_norm.weight")
    alone = all(block.weight(name) is None for name in names)
    return alone and block.weight("post_attention_norm.weight") is not None


def _scales_residual(block: Block) -> bool:
    return block.style.scaled_residual and "residual_scale" in block.header.scales


def _is_parallel(block: Block) -> bool:
    return block.header.architecture != "gptneox" or block.header.parallel_residual


def _parallel(block: Block, parts: tuple[Tensor, Tensor, Tensor], is_last: bool) -> Tensor:
    """Return the sum of residual, attention, and a network that does not read it."""
    attended, residual, normed = block.rows_for_output(is_last, *parts)
    if block.weight("ffn_norm.weight") is not None:
        normed = block.norm(residual, "ffn_norm")
    found = experts_or_network(block, normed)
    if block.style.parallel == "residual":
        return like("add", like("add", found, residual), attended)
    pair = (attended, found) if block.header.architecture == "phi2" else (found, attended)
    return like("add", like("add", *pair), residual)


def _deci_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block that may lack heads, keys and values, or the network."""
    header, residual, attended = block.header, current, current
    has_heads = header.heads[block.index] > 0
    if has_heads:
        attended = block.norm(current, "attn_norm")
        if header.kv_heads[block.index]:
            attended = self_attention(block, attended)
        else:
            attended = block.linear("attn_output", attended)
    attended, residual = block.rows_for_output(is_last, attended, residual)
    if block.weight("ffn_up.weight") is None:
        return current  # what attention made is not used
    middle = like("add", attended, residual) if has_heads else attended
    return like("add", network(block, block.norm(middle, "ffn_norm")), middle)


def _nemotron_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block that is a recurrent layer, attention, or a network."""
    index, normed = block.index, block.norm(current, "attn_norm")
    if block.header.recurrent[index]:
        found = mamba2(block, normed)
    elif block.header.attention[index]:
        found = self_attention(block, normed)
    elif block.weight("ffn_gate_inp.weight") is None:
        found = network(block, normed)
    else:
        latent = normed
        if block.weight("ffn_latent_down.weight") is not None:
            latent = mul_mat(block.need("ffn_latent_down.weight"), normed)
        found = experts(block, latent, block.linear("ffn_gate_inp", normed))
        if block.weight("ffn_latent_up.weight") is not None:
            found = mul_mat(block.need("ffn_latent_up.weight"), found)
        found = like("add", found, network(block, normed, "_shexp"))
    return like("add", found, current)


def _gemma4_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    attended = _shared_attention(block, block.norm(current, "attn_norm"))
    attended = block.norm(attended, "post_attention_norm")
    middle = like("add", attended, current)
    found = network(block, block.norm(middle, "ffn_norm"))
    if block.weight("ffn_gate_inp.weight") is not None:
        found = block.norm(found, "post_ffw_norm_1")
        normed = block.norm(middle, "pre_ffw_norm_2")
        logits = like("scale", like("rms_norm", middle))
        logits = like("mul", logits, block.need("ffn_gate_inp.scale"))
        mixed = experts(block, normed, mul_mat(block.need("ffn_gate_inp.weight"), logits))
        found = like("add", found, block.norm(mixed, "post_ffw_norm_2"))
    found = like("add", block.norm(found, "post_ffw_norm"), middle)
    if block.of_layers is not None:
        gate = like("unary", mul_mat(block.need("inp_gate.weight"), found))
        own = view(block.of_layers, *block.of_layers.extent[:2], plain=True)
        own = mul_mat(block.need("proj.weight"), like("mul", gate, own))
        found = like("add", found, block.norm(own, "post_norm"))
    if block.weight("layer_output_scale.weight") is not None:
        found = like("mul", found, block.need("layer_output_scale.weight"))
    return found


def _shared_attention(block: Block, current: Tensor) -> Tensor:
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
    if block.weight("attn_v.weight") is not None:
        v = block.linear("attn_v", current)
    k, v = reshape(k, key, kv_heads, tokens), reshape(v, value, kv_heads, tokens)
    k, v = block.norm(k, "attn_k_norm"), like("rms_norm", v)
    return block.linear("attn_output", attention(block, q, block.rotated(k), v))


def _bert_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block that is normed behind its parts."""
    attended = self_attention(block, current)
    attended, residual = block.rows_for_output(is_last, attended, current)
    middle = block.norm(like("add", attended, residual), "attn_output_norm")
    if block.weight("attn_norm_2.weight") is not None:
        middle = block.norm(like("add", middle, residual), "attn_norm_2")
    found = like("add", experts_or_network(block, middle), middle)
    return block.norm(found, "layer_output_norm")


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
    "deci": _deci_block,
    "gemma4": _gemma4_block,
    "nemotron_h": _nemotron_block,
    "nemotron_h_moe": _nemotron_block,
    **dict.fromkeys(
        ("bert", "jina-bert-v2", "jina-bert-v3", "nomic-bert", "nomic-bert-moe"), _bert_block
    ),
    "lfm2": _lfm2_block,
    "lfm2moe": _lfm2_block,
    "jamba": _jamba_block,
    "falcon-h1": _falcon_block,
    "qwen3next": _qwen3next_block,
    "qwen35": _qwen3next_block,
    "qwen35moe": _qwen3next_block,
    "deepseek2": _deepseek_block,
}
"""Architecture → how a block of it is built; else as llama's."""
