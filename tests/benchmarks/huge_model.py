"""A split model of 700 GB that takes no room on the disk: its weights are holes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.helpers.gguf_writer import ARRAY, F32, I32, STRING, U16, U32, Array, GgufFile, TensorSpec

SHARDS = 15
TENSORS = 20_000
TOKENS = 151_936  # as Qwen has, with its number of merges
MERGES = 151_387

_Q4_K, _Q6_K, _F32 = 12, 14, 0
_BLOCK_BYTES = {_Q4_K: (256, 144), _Q6_K: (256, 210), _F32: (1, 4)}


def _tensors() -> list[tuple[str, tuple[int, ...], int]]:
    """Return name, dimensions and type of 20,000 tensors: 62 layers, experts one by one."""
    table: list[tuple[str, tuple[int, ...], int]] = [
        ("token_embd.weight", (7168, TOKENS), _Q4_K),
        ("output.weight", (7168, TOKENS), _Q6_K),
        ("output_norm.weight", (7168,), _F32),
    ]
    layer = 0
    while len(table) < TENSORS:
        block: list[tuple[str, tuple[int, ...], int]] = [
            ("attn_norm.weight", (7168,), _F32),
            ("attn_q.weight", (7168, 16384), _Q4_K),
            ("attn_k.weight", (7168, 1024), _Q4_K),
            ("attn_v.weight", (7168, 1024), _Q6_K),
            ("attn_output.weight", (16384, 7168), _Q4_K),
            ("ffn_norm.weight", (7168,), _F32),
            ("ffn_gate_inp.weight", (7168, 105), _F32),
        ]
        for expert in range(105):
            block += [
                (f"ffn_gate.{expert}.weight", (7168, 8704), _Q4_K),
                (f"ffn_up.{expert}.weight", (7168, 8704), _Q4_K),
                (f"ffn_down.{expert}.weight", (8704, 7168), _Q6_K if expert % 8 == 0 else _Q4_K),
            ]
        table += [(f"blk.{layer}.{name}", dims, kind) for name, dims, kind in block]
        layer += 1
    return table[:TENSORS]


def _vocabulary() -> list[tuple[str, int, Array]]:
    """Return tokens, types and merges with the lengths that real BPE vocabularies have."""
    random = np.random.default_rng(0)
    letters = np.frombuffer(b"etaoinshrdlcumwfgypbvk", dtype=np.uint8)
    text = random.choice(letters, 1 << 20).tobytes()

    def words(count: int, mean: float) -> list[bytes]:
        lengths = np.clip(random.poisson(mean, count), 1, 60).tolist()
        starts = random.integers(0, (1 << 20) - 64, count).tolist()
        return [text[at : at + size] for at, size in zip(starts, lengths, strict=True)]

    tokens = words(TOKENS, 6.4)
    merges = [a + b" " + b for a, b in zip(words(MERGES, 3.9), words(MERGES, 2.9), strict=True)]
    return [
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, Array(I32, [1] * TOKENS)),
        ("tokenizer.ggml.merges", ARRAY, Array(STRING, merges)),
    ]


def write_huge_model(folder: Path) -> list[Path]:
    """Write the shards and return their paths."""
    table = _tensors()
    share = -(-len(table) // SHARDS)
    paths = []
    for number in range(SHARDS):
        file = GgufFile(
            keys=[
                ("split.no", U16, number),
                ("split.count", U16, SHARDS),
                ("split.tensors.count", I32, len(table)),
            ]
        )
        if number == 0:
            file.keys = [
                ("general.architecture", STRING, "llama"),
                ("general.name", STRING, "Huge 1.2T"),
                ("general.file_type", U32, 15),
                ("llama.block_count", U32, 62),
                ("llama.context_length", U32, 131_072),
                ("llama.embedding_length", U32, 7168),
                ("llama.attention.head_count", U32, 128),
                ("llama.attention.head_count_kv", U32, 8),
                ("llama.attention.layer_norm_rms_epsilon", F32, 1e-6),
                ("llama.expert_count", U32, 105),
                ("tokenizer.ggml.model", STRING, "gpt2"),
                *_vocabulary(),
                ("tokenizer.chat_template", STRING, "{% for message in messages %}" * 150),
                *file.keys,
            ]
        offset = 0
        for name, dims, kind in table[number * share : (number + 1) * share]:
            file.tensors.append(TensorSpec(name, dims, kind, b"", offset))
            weights, size = _BLOCK_BYTES[kind]
            offset += -(-int(np.prod(dims)) // weights * size // 32) * 32
        header = file.header()
        path = folder / f"Huge-1.2T-Q4_K_M-{number + 1:05d}-of-{SHARDS:05d}.gguf"
        with path.open("wb") as target:
            target.write(header)
            target.truncate(-(-len(header) // 32) * 32 + offset)
        paths.append(path)
    return paths
