"""Recurrent blocks: Mamba, short convolutions and gated delta networks.

Read in `src/models/mamba-base.cpp`, `lfm2.cpp`, `qwen3next.cpp` and `delta-net-base.cpp` of build
11434, and `build_rs` of `llama-graph.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.planner.engines.llama_cpp.block import Block
from explorer.planner.engines.llama_cpp.graph import (
    Tensor,
    UnknownGraphError,
    concat,
    elements,
    get_rows,
    like,
    made,
    mul_mat,
    reshape,
    stored,
    transpose,
    view,
    written,
)


def recurrent_state(
    block: Block, size: int, scan: Callable[[Tensor, Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Return a recurrent state's cache, and what is read of it: its rows, or what a scan makes.

    All sequences' states are there, so that none is left to be moved.
    """
    sequences = block.batch.sequences
    cache = stored(
        (size, sequences, 1, 1),
        4 * size * sequences,
        block.placement.of_cache(block.index),
        weights=False,
    )
    cache.width = 4
    if scan is None and block.early_state is not None:
        early, block.early_state = block.early_state, None
        return cache, early
    copied = block.input("copied states", sequences)
    states = reshape(cache, size, sequences)
    states.plain = True
    cleared = Tensor("write", (0, 1, 1, 1), [view(states, 0)], 4, cache)
    cleared.name = "scale"
    block.graph.expand(cleared)
    if scan is None:
        rows = get_rows(states, copied)
        seen = view(rows, size, sequences, plain=True)
    else:
        rows = get_rows(states, block.part_of_input("copied states", sequences - 1))
        seen = scan(states, block.part_of_input("copied states", sequences))
    block.graph.expand(seen)
    rest = written(cache, view(rows, size, 0), view(cache, size, 0))
    rest.name = "write"
    block.graph.expand(rest)
    return cache, seen


def begin_with_state(block: Block, index: int) -> Tensor | None:
    """Read the state that a block begins with, before what the block before it made is computed.

    Return what was read, or None of a block that begins with something else.
    """
    if not block.rules.state_first or not block.header.recurrent[index]:
        return None
    block.index = index
    kernel = block.weight("shortconv.conv.weight") or block.need("ssm_conv1d.weight")
    size, channels = kernel.extent[:2]
    block.early_state = None
    return recurrent_state(block, (size - 1) * channels)[1]


def keep_states(block: Block, cache: Tensor, row: Tensor, size: int, channels: int) -> None:
    """Write back the end of a row, and those before it that may be rolled back to."""
    for _ in range(1 + block.batch.rollback):
        keep_state(block, cache, view(row, size, channels, block.batch.sequences))


def keep_state(block: Block, cache: Tensor, state: Tensor) -> None:
    """Write a state back."""
    block.graph.expand(Tensor("write", state.extent, [state, view(cache, 1)], 4, cache))


def convolved(block: Block, current: Tensor, channels: int, kernel: str) -> Tensor:
    """Return a causal convolution over tokens of (channels, tokens, sequences)."""
    weights = block.need(kernel)
    size = weights.extent[0]
    tokens, sequences = block.per_sequence()
    cache, seen = recurrent_state(block, (size - 1) * channels)
    before = reshape(seen, size - 1, channels, sequences)
    joined = concat(before, transpose(current))
    keep_states(block, cache, joined, size - 1, channels)
    return made("ssm_conv", (channels, tokens, sequences), joined, weights)


def mamba(block: Block, current: Tensor) -> Tensor:
    """Return what a Mamba layer of the first kind makes."""
    header = block.header
    tokens, sequences = block.per_sequence()
    inner, state = header.inner_size, header.state_size
    current = reshape(current, header.embedding, tokens, sequences)
    joined = mul_mat(block.need("ssm_in.weight"), current)
    x, z = view(joined, inner, tokens, sequences), view(joined, inner, tokens, sequences)
    x = convolved(block, x, inner, "ssm_conv1d.weight")
    x = like("unary", like("add", x, block.need("ssm_conv1d.bias")))
    joined = mul_mat(block.need("ssm_x.weight"), x)
    rank = joined.extent[0] - 2 * state
    dt = view(joined, rank, tokens, sequences)
    b, c = (view(joined, state, 1, tokens, sequences) for _ in range(2))
    if block.has("ssm_dt_norm.weight"):
        dt, b, c = (
            block.norm(tensor, f"ssm_{name}_norm")
            for name, tensor in (("dt", dt), ("b", b), ("c", c))
        )
    else:
        dt = made("cont", dt.extent, dt)
    dt = like("add", mul_mat(block.need("ssm_dt.weight"), dt), block.need("ssm_dt.bias"))
    heads = reshape(x, 1, inner, tokens, sequences)

    def scan(states: Tensor, chosen: Tensor) -> Tensor:
        size = elements(heads.extent) + state * inner * sequences
        held = view(states, state, 1, inner, sequences, plain=True)
        found = made("ssm_scan", (size,), held, heads, dt, block.need("ssm_a"), b, c, chosen)
        found.on_host = block.header.scans_on_host(block.batch.backend)
        return found

    cache, scanned = recurrent_state(block, state * inner, scan)
    keep_state(block, cache, view(scanned, state * inner * sequences))
    y = view(scanned, inner, tokens, sequences, plain=True)
    y = like("add", y, like("mul", x, block.need("ssm_d")))
    y = made("glu", y.extent, made("cont", z.extent, z), y)
    found = mul_mat(block.need("ssm_out.weight"), y)
    return reshape(found, header.embedding, tokens * sequences)


def mamba2(block: Block, current: Tensor) -> Tensor:
    """Return what a Mamba layer of the second kind makes."""
    header = block.header
    tokens, sequences = block.per_sequence()
    inner, state, groups = header.inner_size, header.state_size, header.groups
    heads = header.ranks
    if not heads or not groups:
        raise UnknownGraphError("there are no heads or groups of a recurrent block")
    length = inner // heads
    channels = inner + 2 * groups * state
    size = block.need("ssm_conv1d.weight").extent[0]
    # llama.cpp reads the state before it projects; memory is given out in that order
    cache, seen = recurrent_state(block, (size - 1) * channels)
    joined = mul_mat(block.need("ssm_in.weight"), current)
    joined = reshape(joined, joined.extent[0], tokens, sequences)
    z = view(joined, length, heads, tokens, sequences)
    dt = view(joined, heads, tokens, sequences)
    before = reshape(seen, size - 1, channels, sequences)
    row = concat(before, transpose(view(joined, channels, tokens, sequences)))
    keep_states(block, cache, row, size - 1, channels)
    xbc = made("ssm_conv", (channels, tokens, sequences), row, block.need("ssm_conv1d.weight"))
    xbc = like("unary", like("add", xbc, block.need("ssm_conv1d.bias")))
    x = view(xbc, length, heads, tokens, sequences)
    b, c = (view(xbc, state, groups, tokens, sequences) for _ in range(2))
    dt = like("add", made("cont", dt.extent, dt), block.need("ssm_dt.bias"))

    def scan(states: Tensor, chosen: Tensor) -> Tensor:
        total = elements(x.extent) + state * inner * sequences * (1 + block.batch.rollback)
        held = view(states, state, length, heads, sequences, plain=True)
        found = made("ssm_scan", (total,), held, x, dt, block.need("ssm_a"), b, c, chosen)
        found.on_host = block.header.scans_on_host(block.batch.backend)
        return found

    cache, scanned = recurrent_state(block, state * inner, scan)
    keep_state(block, cache, view(scanned, state * inner, sequences))
    y = view(scanned, length, heads, tokens, sequences, plain=True)
    y = like("add", y, like("mul", x, block.need("ssm_d")))
    y = made("glu", y.extent, made("cont", z.extent, z), y)
    if block.has("ssm_norm.weight"):
        y = reshape(y, inner // groups, groups, tokens, sequences)
        y = block.norm(y, "ssm_norm")
    return mul_mat(block.need("ssm_out.weight"), reshape(y, inner, tokens * sequences))


def short_convolution(block: Block, current: Tensor) -> Tensor:
    """Return what a gated convolution of few tokens makes (`lfm2.cpp`)."""
    width = block.header.embedding
    tokens, sequences = block.per_sequence()
    current = reshape(current, width, tokens, sequences)
    joined = mul_mat(block.need("shortconv.in_proj.weight"), current)
    b, c, x = (view(joined, width, tokens, sequences) for _ in range(3))
    found = convolved(block, like("mul", b, x), width, "shortconv.conv.weight")
    found = mul_mat(block.need("shortconv.out_proj.weight"), like("mul", c, found))
    return reshape(found, width, tokens * sequences)


def delta_network(block: Block, current: Tensor) -> Tensor:
    """Return what a gated delta network makes (`delta-net-base.cpp`, in one operation)."""
    header, current = block.header, block.graph.expand(current)
    tokens, sequences = block.per_sequence()
    key, key_heads, heads = header.state_size, header.groups, header.ranks
    if not heads or not key_heads:
        raise UnknownGraphError("there are no heads or groups of a recurrent block")
    value = header.inner_size // heads
    channels = header.inner_size + 2 * key_heads * key
    mixed, z = _delta_inputs(block, current)
    beta, alpha = _delta_factors(block, current)
    alpha = like("unary", like("add", alpha, block.need("ssm_dt.bias")))
    gate = reshape(like("mul", alpha, block.need("ssm_a")), 1, heads, tokens, sequences)
    size = block.need("ssm_conv1d.weight").extent[0]
    cache, seen = recurrent_state(block, (size - 1) * channels)
    before = reshape(seen, size - 1, channels, sequences)
    row = concat(before, transpose(mixed))
    keep_states(block, cache, row, size - 1, channels)
    cache, seen = recurrent_state(block, value * value * heads)
    before = reshape(seen, value, value, heads, sequences)
    mixed = made("ssm_conv", (channels, tokens, sequences), row, block.need("ssm_conv1d.weight"))
    mixed = like("unary", mixed)
    q, k = (
        like("scale", like("rms_norm", view(mixed, key, key_heads, tokens, sequences)))
        for _ in range(2)
    )
    v = view(mixed, value, heads, tokens, sequences)
    share = heads // key_heads
    if share > 1 and block.rules.repeated_heads:
        q, k = (_repeated_heads(block, tensor, share) for tensor in (q, k))
    rows = tokens * sequences + value * sequences * (1 + block.batch.rollback)
    found = made("delta", (value * heads, rows), q, k, v, gate, beta, before)
    keep_state(block, cache, view(found, value, value, heads, sequences, plain=True))
    y = block.norm(view(found, value, heads, tokens, sequences, plain=True), "ssm_norm")
    gate = like("unary", reshape(z, value, heads, tokens, sequences))
    y = reshape(like("mul", y, gate), value * heads, tokens, sequences)
    found = mul_mat(block.need("ssm_out.weight"), y)
    return reshape(found, header.embedding, tokens * sequences)


def _delta_factors(block: Block, current: Tensor) -> tuple[Tensor, Tensor]:
    """Return how much is written, and how much of the state is kept, before its bias."""
    heads, groups = block.header.ranks, block.header.groups
    tokens, sequences = block.per_sequence()
    if not block.has("ssm_ba.weight"):
        beta = mul_mat(block.need("ssm_beta.weight"), current)
        beta = like("unary", reshape(beta, 1, heads, tokens, sequences))
        alpha = mul_mat(block.need("ssm_alpha.weight"), current)
        return beta, reshape(alpha, heads, tokens, sequences)
    share = heads // groups
    both = mul_mat(block.need("ssm_ba.weight"), current)
    both = reshape(both, 2 * share, groups, tokens, sequences)
    b, a = (view(both, share, groups, tokens, sequences) for _ in range(2))
    beta = reshape(like("unary", made("cont", b.extent, b)), 1, heads, tokens, sequences)
    return beta, made("cont", (heads, tokens, sequences), a)


def _repeated_heads(block: Block, tensor: Tensor, share: int) -> Tensor:
    length, heads, tokens, sequences = tensor.extent
    tensor = reshape(tensor, length, 1, heads, tokens * sequences)
    tensor = made("repeat", (length, share, heads, tokens * sequences), tensor)
    return reshape(tensor, length, heads * share, tokens, sequences)


def _delta_inputs(block: Block, current: Tensor) -> tuple[Tensor, Tensor]:
    """Return queries, keys and values in one, and the gate of the output."""
    header = block.header
    tokens, sequences = block.per_sequence()
    if block.has("attn_qkv.weight"):
        mixed = mul_mat(block.need("attn_qkv.weight"), current)
        mixed = reshape(mixed, mixed.extent[0], tokens, sequences)
        return mixed, mul_mat(block.need("attn_gate.weight"), current)
    key, groups = header.state_size, header.groups
    value = header.inner_size // groups
    joined = mul_mat(block.need("ssm_in.weight"), current)
    joined = reshape(joined, 2 * key + 2 * value, groups, tokens, sequences)
    z = view(joined, value, groups, tokens, sequences)
    z = made("cont", z.extent, z)
    parts = [
        made("cont", (size * groups, tokens, sequences), view(joined, size, groups, tokens))
        for size in (key, key, value)
    ]
    return concat(concat(parts[0], parts[1]), parts[2]), z
