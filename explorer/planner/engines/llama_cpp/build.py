"""The graphs of architectures: which tensors a batch passes through, block after block.

Read in `src/models/*.cpp` and `llama-graph.cpp` of build 11434. What a block holds is seen from its
weights; `architectures` says the rest. Order matters: memory is given out in this order.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.planner.engines.llama_cpp.altup import MERGED, SPREAD, merged, spread
from explorer.planner.engines.llama_cpp.block import (
    Block,
    attention,
    experts,
    experts_or_network,
    gated,
    network,
    of_own_embedding,
    self_attention,
    shared_attention,
)
from explorer.planner.engines.llama_cpp.graph import (
    Tensor,
    UnknownGraphError,
    concat,
    get_rows,
    like,
    made,
    mul_mat,
    permute,
    reshape,
    view,
)
from explorer.planner.engines.llama_cpp.recurrent import begin_with_state, mamba2


def build_graph(block: Block, numbers: Sequence[int]) -> None:
    """Make the graph of the embeddings, of these blocks, and of the logits.

    Raises:
        UnknownGraphError: The model lacks what every model of its architecture has.
    """
    current = _guessed_from(block) if block.header.is_drafting else _embedded(block)
    for number in numbers:
        block.early_state = begin_with_state(block, number)
        block.graph.expand(current)
        block.index = number
        current = block.rules.block(block, current, number == block.header.loaded - 1)
    block.graph.expand(current)
    block.graph.expand(_logits(block, current))


def latent_attention(block: Block, current: Tensor) -> Tensor:
    """Return multi-head latent attention: keys and values share a compressed form."""
    header, tokens = block.header, block.batch.tokens
    heads, turned = header.heads[block.index], header.rope_size
    if not heads:
        raise UnknownGraphError(f"block {block.index} has no heads")
    if block.has("attn_q.weight"):
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
        if block.has("attn_gate.weight"):
            attended = gated(block, attended, current)
            attended = made("cont", attended.extent, attended)
        return block.linear("attn_output", attended)
    both = mul_mat(block.need("attn_kv_b.weight"), compressed)
    k_plain = view(both, length - turned, heads, tokens)
    v = made("cont", (header.value_length, heads, tokens), both)
    q = block.rotated(q)
    k = concat(k_plain, made("repeat", (turned, heads, tokens), k_turned))
    return block.linear("attn_output", attention(block, q, k, v))


def gated_attention(block: Block, current: Tensor) -> Tensor:
    """Return attention whose queries bring a gate for what they find (`qwen3next.cpp`)."""
    block.graph.expand(current)
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
    revision = block.batch.revision
    if revision.given:
        block.graph.expand(block.input("embeddings", width, tokens))
    if revision.mixed and block.rules.mixed:
        mixed = like("dup", block.input("mixed embeddings", width, tokens))
        rows = get_rows(table, block.input("mixed tokens", tokens))
        slots = block.input("slots", tokens, width=8)
        block.graph.expand(Tensor("write", mixed.extent, [rows, slots, mixed], 4, mixed))
    if block.rules.scaled_input == "rows" and revision.mixed:
        current = like("mul", current, block.input("scales", 1, tokens))
    block.graph.expand(current)
    match block.rules.scaled_input:
        case "rows" if not revision.mixed:
            current = like("scale", current)
        case "all":
            return like("scale", current)
        case "if set":
            return like("scale", current) if "embedding_scale" in block.header.scales else current
    if "per_layer_model_proj.weight" in block.header.weights_by_name:
        block.of_layers = _of_layers(block, current)
    if SPREAD in block.header.weights_by_name:
        current = spread(block, current)
    return _placed(block, current)


def _guessed_from(block: Block) -> Tensor:
    """Return what a block that guesses ahead reads: the last token, and what was found for it."""
    tokens, width = block.batch.tokens, block.header.embedding
    block.index = block.header.first
    own = block.weight("nextn.embed_tokens.weight")
    table = block.stored("token_embd.weight", -1) if own is None else own
    words = block.norm(get_rows(table, block.input("tokens", tokens)), "nextn.enorm")
    found = block.norm(block.input("hidden", width, tokens), "nextn.hnorm")
    return mul_mat(block.need("nextn.eh_proj.weight"), concat(words, found))


def _of_layers(block: Block, current: Tensor) -> Tensor:
    """Return the embeddings that each block has of its own: of the words, and of their sum."""
    count, tokens = block.header.loaded, block.batch.tokens
    if not count:
        raise UnknownGraphError("there are no blocks")
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
        both = (current, positions) if block.rules.makes_words else (positions, current)
        current = like("add", *both)
    if "token_embd_norm.weight" in names and not block.rules.token_norm_last:
        current = block.normed(current, "token_embd_norm.", 0)
    return current


def _logits(block: Block, current: Tensor) -> Tensor:
    rules = block.rules
    if MERGED in block.header.weights_by_name:
        current = merged(block, current)
    if not rules.makes_words:
        current.is_output = True
        return current
    if block.outputs == "before norm":
        current.is_output = True
        current = get_rows(current, block.chosen_outputs)
    elif block.outputs == "rows before norm":
        current = get_rows(current, block.chosen_outputs)
        current.is_output = True
    names, blocks = block.header.weights_by_name, block.header.blocks
    own = f"blk.{block.header.first}.nextn.shared_head_" if block.header.is_drafting else ""
    norm = "output_norm" if "output_norm.weight" in names else "token_embd_norm"
    norm = f"{own}norm" if own and f"{own}norm.weight" in names else norm
    current = block.normed(current, f"{norm}.", blocks)
    if block.outputs == "behind norm":
        current.is_output = True
        current = get_rows(current, block.chosen_outputs)
    current.is_output = True
    if not rules.has_logits:
        return current
    if rules.scaled_last_norm:
        current = like("scale", current)
    output = "output.weight" if block.header.has_output else "token_embd.weight"
    output = f"{own}head.weight" if own and f"{own}head.weight" in names else output
    current = mul_mat(block.stored(output, blocks), current)
    if "output.bias" in block.header.weights_by_name:
        current = like("add", current, block.stored("output.bias", blocks))
    for _ in range(rules.scaled_logits):
        current = like("scale", current)
    current.is_output = True
    return current


def decoder_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block of attention or a recurrent layer, and a network or experts."""
    rules, residual, normed = block.rules, current, current
    if rules.always_normed or block.has("attn_norm.weight"):
        normed = block.norm(current, "attn_norm")
    layer = rules.recurrence if block.header.recurrent[block.index] else rules.attention
    second = block.has("attn_norm_2.weight")  # of large falcons
    attended = layer(block, block.norm(current, "attn_norm_2") if second else normed)
    if _is_parallel(block):
        return _parallel(block, (attended, residual, normed), is_last)
    attended, residual, normed = block.rows_for_output(is_last, attended, residual, normed)
    if _scales_residual(block):
        attended = like("scale", attended)
    if block.has_norm("post_attention_norm") and not _is_norm_of_network(block):
        attended = block.norm(attended, "post_attention_norm")
    pair = (residual, attended) if rules.residual_first == "both" else (attended, residual)
    middle = like("add", *pair)
    found = experts_or_network(block, _normed_for_network(block, middle, normed))
    if block.has_norm("post_ffw_norm"):
        found = block.norm(found, "post_ffw_norm")
    if _scales_residual(block):
        found = like("scale", found)
    pair = (found, middle) if rules.residual_first == "no" else (middle, found)
    return like("add", *pair)


def _normed_for_network(block: Block, middle: Tensor, normed: Tensor) -> Tensor:
    """Return what the network of a block reads."""
    if block.rules.always_normed or block.has("ffn_norm.weight"):
        return block.norm(middle, "ffn_norm")
    if _is_norm_of_network(block):
        return block.norm(middle, "post_attention_norm")
    if block.has("attn_output_norm.weight"):  # of dbrx
        return block.norm(middle, "attn_output_norm")
    if block.has_norm("post_ffw_norm"):
        return middle  # it is normed behind instead
    if block.rules.network_without_norm:
        return normed
    return block.norm(middle, "ffn_norm")


def _is_norm_of_network(block: Block) -> bool:
    """Return whether the norm behind attention is that before the network."""
    alone = not block.has_norm("ffn_norm") and not block.has_norm("post_ffw_norm")
    return alone and block.has_norm("post_attention_norm")


def _scales_residual(block: Block) -> bool:
    return block.rules.scaled_residual and "residual_scale" in block.header.scales


def _is_parallel(block: Block) -> bool:
    if block.rules.parallel == "residual if set":
        return block.header.parallel_residual
    return block.rules.parallel != "no"


def _parallel(block: Block, parts: tuple[Tensor, Tensor, Tensor], is_last: bool) -> Tensor:
    """Return the sum of residual, attention, and a network that does not read it."""
    attended, residual, normed = block.rows_for_output(is_last, *parts)
    if block.has("ffn_norm.weight"):
        normed = block.norm(residual, "ffn_norm")
    found = experts_or_network(block, normed)
    match block.rules.parallel:
        case "attention":
            return like("add", like("add", found, attended), residual)
        case "attention first":
            return like("add", like("add", attended, found), residual)
    return like("add", like("add", found, residual), attended)


def deci_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
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
    if not block.has("ffn_up.weight"):
        return current  # what attention made is not used
    middle = like("add", attended, residual) if has_heads else attended
    return like("add", network(block, block.norm(middle, "ffn_norm")), middle)


def nemotron_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block that is a recurrent layer, attention, or a network."""
    index, normed = block.index, block.norm(current, "attn_norm")
    if block.header.recurrent[index]:
        found = mamba2(block, normed)
    elif block.header.attention[index]:
        found = self_attention(block, normed)
    elif not block.has("ffn_gate_inp.weight"):
        found = network(block, normed)
    else:
        found = _nemotron_experts(block, normed)
    return like("add", found, current)


def nemotron_ahead_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build the block that guesses ahead: attention and experts in one (`nemotron-h-moe.cpp`)."""
    attended = self_attention(block, block.norm(current, "attn_norm"))
    (middle,) = block.rows_for_output(is_last, like("add", attended, current))
    return like("add", _nemotron_experts(block, block.norm(middle, "post_attention_norm")), middle)


def _nemotron_experts(block: Block, normed: Tensor) -> Tensor:
    """Return what experts, which may read a projection of their own, and the shared one make."""
    latent = normed
    if block.has("ffn_latent_down.weight"):
        latent = mul_mat(block.need("ffn_latent_down.weight"), normed)
    found = experts(block, latent, block.linear("ffn_gate_inp", normed))
    if block.has("ffn_latent_up.weight"):
        found = mul_mat(block.need("ffn_latent_up.weight"), found)
    return like("add", found, network(block, normed, "_shexp"))


def gemma4_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block that may have experts beside its network, and embeddings of its own."""
    attended = shared_attention(block, block.norm(current, "attn_norm"))
    attended = block.norm(attended, "post_attention_norm")
    middle = like("add", attended, current)
    found = network(block, block.norm(middle, "ffn_norm"))
    if block.has("ffn_gate_inp.weight"):
        found = block.norm(found, "post_ffw_norm_1")
        normed = block.norm(middle, "pre_ffw_norm_2")
        logits = like("scale", like("rms_norm", middle))
        logits = like("mul", logits, block.need("ffn_gate_inp.scale"))
        mixed = experts(block, normed, mul_mat(block.need("ffn_gate_inp.weight"), logits))
        found = like("add", found, block.norm(mixed, "post_ffw_norm_2"))
    found = like("add", block.norm(found, "post_ffw_norm"), middle)
    if block.of_layers is not None:
        found = like("add", found, of_own_embedding(block, found))
    if block.has("layer_output_scale.weight"):
        found = like("mul", found, block.need("layer_output_scale.weight"))
    return found


def bert_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block that is normed behind its parts."""
    attended = self_attention(block, current)
    attended, residual = block.rows_for_output(is_last, attended, current)
    middle = block.norm(like("add", attended, residual), "attn_output_norm")
    if block.has("attn_norm_2.weight"):
        middle = block.norm(like("add", middle, residual), "attn_norm_2")
    found = like("add", experts_or_network(block, middle), middle)
    return block.norm(found, "layer_output_norm")


def mamba_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block of a recurrent layer alone."""
    residual = current
    current = block.rules.recurrence(block, block.norm(current, "attn_norm"))
    current, residual = block.rows_for_output(is_last, current, residual)
    return like("add", current, residual)


def falcon_h1_block(block: Block, current: Tensor, is_last: bool) -> Tensor:
    """Build a block of attention beside a recurrent layer."""
    residual = current
    attended = self_attention(block, block.norm(current, "attn_norm"))
    recurrent = mamba2(block, block.norm(current, "attn_norm"))
    middle = like("add", like("add", attended, recurrent), residual)
    (middle,) = block.rows_for_output(is_last, middle)
    return like("add", network(block, block.norm(middle, "ffn_norm")), middle)
