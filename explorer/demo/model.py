"""The demo model's keys and weights: a tiny llama that nobody trained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import BinaryIO, Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from explorer.demo.gguf_writer import Key, Weights, encode, write_gguf
from explorer.paths import resource

# The demo model's vocabulary: every kind of token that real ones have, in small.


TOKEN_COUNT: Final = 2000
BOS, EOS, UNKNOWN = 1, 2, 0
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6  # docs/gguf.md, section 9
_SPACE: Final = "▁"  # SentencePiece's sign of a word's beginning
_CONTROL_TOKENS: Final = (
    "<|im_start|>",
    "<|im_end|>",
    "<|tool_call|>",
    "<|tool_result|>",
    "<|pad|>",
)
_USER_TOKENS: Final = ("\n\n", "\t", "    ", "```", "https://", "\u200d", "\u202e")
# Pieces that are no UTF-8 by themselves: parts of 你, of an emoji, and a byte of no encoding.
_BROKEN: Final = (b"\xe4\xbd", b"\xa0", b"\xf0\x9f\x98", b"\xff", b"caf\xe9")
_UNUSED_COUNT: Final = 20
_ENDINGS: Final = ("s", "ed", "ing", "er", "ly", "ness", "ment", "able", "ful", "less")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens with what is said of each.

    Attributes:
        tokens: The pieces; bytes where they are no UTF-8.
        scores: Log probabilities, falling; 0 for tokens that are no pieces of text.
        types: docs/gguf.md, section 9, `token_type`.
    """

    tokens: list[str | bytes]
    scores: list[float]
    types: list[int]


def make_vocabulary() -> Vocabulary:
    """Return the vocabulary, always the same."""
    special: list[tuple[str | bytes, int]] = [("<unk>", _UNKNOWN), ("<s>", _CONTROL)]
    special += [("</s>", _CONTROL)]
    special += [(f"<0x{byte:02X}>", _BYTE) for byte in range(256)]
    special += [(token, _CONTROL) for token in _CONTROL_TOKENS]
    special += [(token, _USER) for token in _USER_TOKENS]
    unused = [(f"<unused{i}>", _UNUSED) for i in range(_UNUSED_COUNT)]
    room = TOKEN_COUNT - len(special) - len(unused)
    taken = {token for token, _ in special}
    pieces = (piece for piece in dict.fromkeys(_pieces()) if piece not in taken)
    normal = list(islice(pieces, room))
    rows = [*special, *((piece, _NORMAL) for piece in normal), *unused]
    first = len(special)
    scores = [float(first - i) if kind == _NORMAL else 0.0 for i, (_, kind) in enumerate(rows)]
    return Vocabulary([token for token, _ in rows], scores, [kind for _, kind in rows])


def _pieces() -> Iterator[str | bytes]:
    words = resource("demo/words.txt").read_text("utf-8").split()
    other_scripts = "".join(resource("demo/characters.txt").read_text("utf-8").split())
    return chain(
        (_SPACE, "e", "t", "a", "in", "th", f"{_SPACE}t", f"{_SPACE}a"),
        _BROKEN,
        (_SPACE + word for word in words),
        (chr(code) for code in range(33, 127)),
        other_scripts,
        _ENDINGS,
        (_SPACE + word.capitalize() for word in words),
        words,
        (_SPACE + word + ending for word in words for ending in _ENDINGS),
    )


_SEED: Final = 20_261_121
_WIDTH, _INNER, _HEADS, _KV_HEADS, _HEAD, _CONTEXT = 256, 704, 4, 2, 64, 4096
_FILE_TYPE_Q4_0: Final = 2  # docs/gguf.md, section 6: what most tensors are

# Role, rows, columns, tensor type in layer 0 and in layer 1: all eight types occur.
_LAYER: Final = (
    ("attn_q", _HEADS * _HEAD, _WIDTH, "Q4_0", "Q5_0"),
    ("attn_k", _KV_HEADS * _HEAD, _WIDTH, "Q5_0", "BF16"),
    ("attn_v", _KV_HEADS * _HEAD, _WIDTH, "Q5_1", "Q8_0"),
    ("attn_output", _WIDTH, _HEADS * _HEAD, "Q4_1", "Q4_0"),
    ("ffn_gate", _INNER, _WIDTH, "Q4_0", "Q4_0"),
    ("ffn_up", _INNER, _WIDTH, "Q4_0", "Q4_1"),
    ("ffn_down", _WIDTH, _INNER, "Q8_0", "Q4_0"),
)


def write_model(file: BinaryIO) -> None:
    """Write the demo model as GGUF; always the same bytes with the same NumPy."""
    random = np.random.default_rng(_SEED)
    write_gguf(file, _keys(), list(_tensors(random)))


def _keys() -> list[Key]:
    vocabulary = make_vocabulary()
    template = resource("demo/chat_template.jinja").read_text("utf-8")
    return [
        Key("general.architecture", "string", "llama"),
        Key("general.type", "string", "model"),
        Key("general.name", "string", "Demo 2.5M"),
        Key("general.basename", "string", "Demo"),
        Key("general.size_label", "string", "2.5M"),
        Key("general.description", "string", "Random weights, made by GGUF Explorer to look at"),
        Key("general.license", "string", "cc0-1.0"),
        Key("general.tags", "string", ["demo", "text-generation"]),
        Key("general.languages", "string", ["en", "zh", "ja", "ru", "el"]),
        Key("general.file_type", "uint32", _FILE_TYPE_Q4_0),
        Key("general.quantization_version", "uint32", 2),
        Key("llama.block_count", "uint32", 2),
        Key("llama.context_length", "uint32", _CONTEXT),
        Key("llama.embedding_length", "uint32", _WIDTH),
        Key("llama.feed_forward_length", "uint32", _INNER),
        Key("llama.vocab_size", "uint32", TOKEN_COUNT),
        Key("llama.attention.head_count", "uint32", _HEADS),
        Key("llama.attention.head_count_kv", "uint32", _KV_HEADS),
        Key("llama.attention.key_length", "uint32", _HEAD),
        Key("llama.attention.value_length", "uint32", _HEAD),
        Key("llama.attention.layer_norm_rms_epsilon", "float32", 1e-5),
        Key("llama.rope.dimension_count", "uint32", _HEAD),
        Key("llama.rope.freq_base", "float32", 10_000.0),
        Key("llama.rope.scaling.type", "string", "linear"),
        Key("llama.rope.scaling.factor", "float32", 2.0),
        Key("tokenizer.ggml.model", "string", "llama"),
        Key("tokenizer.ggml.pre", "string", "default"),
        Key("tokenizer.ggml.tokens", "string", vocabulary.tokens),
        Key("tokenizer.ggml.scores", "float32", vocabulary.scores),
        Key("tokenizer.ggml.token_type", "int32", vocabulary.types),
        Key("tokenizer.ggml.bos_token_id", "uint32", BOS),
        Key("tokenizer.ggml.eos_token_id", "uint32", EOS),
        Key("tokenizer.ggml.unknown_token_id", "uint32", UNKNOWN),
        Key("tokenizer.ggml.add_bos_token", "bool", True),
        Key("tokenizer.ggml.add_eos_token", "bool", False),
        Key("tokenizer.chat_template", "string", template),
    ]


def _tensors(random: Generator) -> Iterator[Weights]:
    yield _matrix(random, "token_embd.weight", TOKEN_COUNT, _WIDTH, "Q8_0")
    # what llama 3 stores to stretch its positions: 1 for fast rotations, the factor for slow ones
    yield _vector("rope_freqs.weight", np.repeat([1.0, 8.0], [_HEAD // 4, _HEAD // 4]))
    for layer in range(2):
        prefix = f"blk.{layer}"
        yield _vector(f"{prefix}.attn_norm.weight", random.normal(1.0, 0.1, _WIDTH))
        for role, rows, columns, *types in _LAYER:
            if role == "ffn_gate":
                yield _vector(f"{prefix}.ffn_norm.weight", random.normal(1.0, 0.05, _WIDTH))
            yield _matrix(random, f"{prefix}.{role}.weight", rows, columns, types[layer])
    yield _vector("output_norm.weight", random.normal(2.0, 0.3, _WIDTH))
    yield _matrix(random, "output.weight", TOKEN_COUNT, _WIDTH, "F16")


def _vector(name: str, values: NDArray[np.float64]) -> Weights:
    return Weights(name, values.shape, "F32", encode(values.astype(np.float32), "F32"))


def _matrix(random: Generator, name: str, rows: int, columns: int, type_name: str) -> Weights:
    """Return weights as trained ones look: heavy tails, a scale for each channel, some outliers."""
    values = random.standard_t(5, (rows, columns)).astype(np.float32)
    row_scale = np.exp(random.normal(0.0, 0.2, (rows, 1)))
    column_scale = np.exp(random.normal(0.0, 0.3, columns))
    outliers = random.choice(columns, max(1, columns // 128), replace=False)
    column_scale[outliers] *= 6
    values *= (row_scale * column_scale / math.sqrt(columns)).astype(np.float32)
    return Weights(name, (rows, columns), type_name, encode(values, type_name))
