"""The demo: a small model that the program makes itself, for a first look without a download.

A GGUF file of random weights. It is made in a temporary folder beside the place and renamed into
it, so that it is there completely or not at all, and two programs that start at once both end with
a good copy.
"""

from __future__ import annotations

import math
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from explorer.errors import SourceError, system_reason
from explorer.model_files import GGUF_MAGIC
from explorer.paths import resource
from explorer.private_folder import PrivateFolder
from explorer.quantization import TENSOR_TYPES

RECIPE_VERSION: Final = 2
"""Raised with every change of what is made; a demo of another version is made again."""

_PREFIX: Final = "recipe-"
_MODEL_NAME: Final = "Demo-2.5M-v1.0-Q4_0.gguf"
_RECORD: Final = "made.txt"
_TRIES: Final = 5


def make_demo(folder: Path | None = None) -> Path:
    """Return the demo model, after making it if it is not there.

    It is kept in the program's cache folder if no other is named.

    Raises:
        SourceError: The folder cannot be written.
    """
    base = PrivateFolder("demo") if folder is None else PrivateFolder(root=folder)
    try:
        target = base.make() / f"{_PREFIX}{RECIPE_VERSION}"
        if not _is_complete(target):
            with base.unfinished() as work:
                _make(work, target)
            _remove_others(target)
    except OSError as error:
        raise SourceError(
            f"the demo model cannot be made here: {system_reason(error)}. "
            "Name another folder with GGUF_EXPLORER_CACHE",
            error.filename,
        ) from error
    return target / _MODEL_NAME


def _is_complete(target: Path) -> bool:
    """Return whether it is there in its recorded size; users and cleaners delete files."""
    try:
        size = int((target / _RECORD).read_text("utf-8"))
        return (target / _MODEL_NAME).stat().st_size == size
    except (OSError, ValueError):
        return False


def _make(work: Path, target: Path) -> None:
    made = work / "demo"
    made.mkdir(parents=True)
    _fill(made)
    for attempt in range(_TRIES):
        if target.exists():  # damaged, or another program was faster
            if _is_complete(target):
                return
            with suppress(FileNotFoundError):
                os.rename(target, work / f"damaged-{attempt}")
        try:
            os.rename(made, target)
        except OSError:
            if not target.exists():
                raise
        else:
            return
    if not _is_complete(target):
        raise OSError("other programs keep changing the folder")


def _fill(folder: Path) -> None:
    model, record = folder / _MODEL_NAME, folder / _RECORD
    with open(model, "xb") as file:
        random = np.random.default_rng(_SEED)  # always the same bytes with the same NumPy
        write_gguf(file, _keys(), list(_tensors(random)))
    record.write_text(str(model.stat().st_size), "utf-8")
    for path, mode in ((folder, 0o700), (model, 0o600), (record, 0o600)):
        path.chmod(mode)  # as all that is kept


def _remove_others(target: Path) -> None:
    for path in target.parent.iterdir():
        if path.name.startswith(_PREFIX) and path != target:
            shutil.rmtree(path, ignore_errors=True)


# The model: a tiny llama without training, whose vocabulary has every kind of token.


TOKEN_COUNT: Final = 2000
BOS, EOS, UNKNOWN = 1, 2, 0
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6  # docs/gguf.md, section 9
_SPACE: Final = "▁"  # SentencePiece's sign of a word's beginning
_CONTROL_TOKENS: Final = (
    *("<|im_start|>", "<|im_end|>", "<|tool_call|>", "<|tool_result|>", "<|pad|>"),
)
_USER_TOKENS: Final = ("\n\n", "\t", "    ", "```", "https://", "\u200d", "\u202e")
# Pieces that are no UTF-8 by themselves: parts of 你, of an emoji, and a byte of no encoding.
_BROKEN: Final = (b"\xe4\xbd", b"\xa0", b"\xf0\x9f\x98", b"\xff", b"caf\xe9")
_UNUSED_COUNT: Final = 20
_ENDINGS: Final = ("s", "ed", "ing", "er", "ly", "ness", "ment", "able", "ful", "less")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens with what is said of each."""

    tokens: list[str | bytes]  # the pieces; bytes where they are no UTF-8
    scores: list[float]  # log probabilities, falling; 0 for tokens that are no pieces of text
    types: list[int]  # docs/gguf.md, section 9, `token_type`


def make_vocabulary() -> Vocabulary:
    """Return the vocabulary, always the same."""
    special: list[tuple[str | bytes, int]] = [
        *(("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)),
        *((f"<0x{byte:02X}>", _BYTE) for byte in range(256)),
        *((token, _CONTROL) for token in _CONTROL_TOKENS),
        *((token, _USER) for token in _USER_TOKENS),
    ]
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
    words = _resource_text("words.txt").split()
    other_scripts = "".join(_resource_text("characters.txt").split())
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


def _keys() -> list[Key]:
    vocabulary = make_vocabulary()
    numbers = {
        "block_count": 2,
        "context_length": _CONTEXT,
        "embedding_length": _WIDTH,
        "feed_forward_length": _INNER,
        "vocab_size": TOKEN_COUNT,
        "attention.head_count": _HEADS,
        "attention.head_count_kv": _KV_HEADS,
        "attention.key_length": _HEAD,
        "attention.value_length": _HEAD,
    }
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
        *(Key(f"llama.{name}", "uint32", value) for name, value in numbers.items()),
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
        *(
            Key(f"tokenizer.ggml.{name}_token_id", "uint32", token_id)
            for name, token_id in (("bos", BOS), ("eos", EOS), ("unknown", UNKNOWN))
        ),
        Key("tokenizer.ggml.add_bos_token", "bool", True),
        Key("tokenizer.ggml.add_eos_token", "bool", False),
        Key("tokenizer.chat_template", "string", _resource_text("chat_template.jinja")),
    ]


def _resource_text(name: str) -> str:
    return resource(f"demo/{name}").read_text("utf-8")


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


# Writing GGUF, version 3, little-endian (docs/gguf.md, section 1).

ALIGNMENT: Final = 32
_VERSION: Final = 3
_STRING: Final = 8
_ARRAY: Final = 9
# Value types: id and struct's code
_NUMBERS: Final = {"uint32": (4, "I"), "int32": (5, "i"), "float32": (6, "f"), "bool": (7, "?")}

Text: TypeAlias = str | bytes  # bytes where they are not UTF-8
Scalar: TypeAlias = Text | int | float | bool


class Key(NamedTuple):
    """A key, its type (``"uint32"``, ``"string"`` …) and its value; a list is an array of it."""

    name: str
    type_name: str
    value: Scalar | Sequence[Scalar]


class Weights(NamedTuple):
    """A tensor to write: its shape is row-major, its type one of ggml's."""

    name: Text
    shape: tuple[int, ...]
    type_name: str
    raw: bytes


def write_gguf(file: BinaryIO, keys: Sequence[Key], tensors: Sequence[Weights]) -> None:
    """Write a whole file from the current position on, which must be its start."""
    parts = [GGUF_MAGIC, struct.pack("<IQQ", _VERSION, len(tensors), len(keys))]
    parts += [_key_bytes(key) for key in keys]
    offset = 0
    for tensor in tensors:
        parts.append(_record_bytes(tensor, offset))
        offset += len(_padded(tensor.raw))
    file.write(_padded(b"".join(parts)))
    for tensor in tensors:
        file.write(_padded(tensor.raw))


def _padded(raw: bytes) -> bytes:
    return raw.ljust(-(-len(raw) // ALIGNMENT) * ALIGNMENT, b"\0")


def _text_bytes(text: Text) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _key_bytes(key: Key) -> bytes:
    kind = _STRING if key.type_name == "string" else _NUMBERS[key.type_name][0]
    value = key.value
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        head, values = struct.pack("<I", kind), [value]
    else:
        head, values = struct.pack("<IIQ", _ARRAY, kind, len(value)), list(value)
    if key.type_name == "string":
        raw = b"".join(_text_bytes(text) for text in values if isinstance(text, (str, bytes)))
    else:
        raw = struct.pack(f"<{len(values)}{_NUMBERS[key.type_name][1]}", *values)
    return _text_bytes(key.name) + head + raw


def _record_bytes(tensor: Weights, offset: int) -> bytes:
    kind = TENSOR_TYPES[tensor.type_name]
    if kind.id is None or kind.nbytes(math.prod(tensor.shape)) != len(tensor.raw):
        raise ValueError(f"{tensor.name!r}: {len(tensor.raw)} bytes do not fill {tensor.shape}")
    rank, dims = len(tensor.shape), reversed(tensor.shape)
    return _text_bytes(tensor.name) + struct.pack(f"<I{rank}QIQ", rank, *dims, kind.id, offset)


# Rounding to the tensor types of the demo, byte for byte as ggml does (docs/gguf.md, section 8;
# ggml/src/ggml-quants.c, `quantize_row_*_ref`): all rows at once in NumPy, every operation in
# float32 as in C. The kernels of `explorer.quantization` would have to be compiled first.


Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]

_BLOCK: Final = 32


def _f16(values: Floats) -> Bytes:
    return values.astype("<f2").view(np.uint8)


def _f32(values: Floats) -> Bytes:
    return values.astype("<f4").view(np.uint8)


def _bf16(values: Floats) -> Bytes:
    """Round to the nearest, halves to even (ggml_compute_fp32_to_bf16); a NaN stays a quiet one."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    quiet = (bits >> 16) | 64
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, quiet, rounded).astype("<u2").view(np.uint8)


def _inverse(scale: Floats) -> Floats:
    """Return 1 / scale, and 0 for a scale of 0: such a block is all zeros."""
    with np.errstate(divide="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def _packed(codes: Floats, bits: int) -> list[Bytes]:
    """Truncate to codes of 4 or 5 bits, as a C cast and a minimum do, and pack them.

    The fifth bits come first, weight 0 lowest; then weights 0 to 15 in the low nibbles and 16 to 31
    in the high ones.
    """
    whole = np.clip(np.trunc(codes), 0, (1 << bits) - 1).astype(np.uint8)
    low, high = whole[:, : _BLOCK // 2] & np.uint8(15), whole[:, _BLOCK // 2 :]
    fifth = [np.packbits(whole >> 4, axis=1, bitorder="little")] if bits == 5 else []
    return [*fifth, low | (high << np.uint8(4))]


def _symmetric(blocks: Floats, bits: int) -> Bytes:
    """Round to Q4_0 or Q5_0."""
    low = 1 << (bits - 1)
    place = np.abs(blocks).argmax(axis=1, keepdims=True)  # the first of equal ones, with its sign
    scale = np.take_along_axis(blocks, place, axis=1) / np.float32(-low)
    codes = blocks * _inverse(scale) + np.float32(low + 0.5)
    return np.hstack([_f16(scale), *_packed(codes, bits)])


def _offset(blocks: Floats, bits: int) -> Bytes:
    """Round to Q4_1 or Q5_1."""
    least = blocks.min(axis=1, keepdims=True)
    scale = (blocks.max(axis=1, keepdims=True) - least) / np.float32((1 << bits) - 1)
    codes = (blocks - least) * _inverse(scale) + np.float32(0.5)
    return np.hstack([_f16(scale), _f16(least), *_packed(codes, bits)])


def _q8_0(blocks: Floats) -> Bytes:
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    exact = blocks * _inverse(scale)
    # roundf: halves away from zero; adding 0.5 first would round 0.49999997 up
    size = np.floor(np.abs(exact))
    size += np.abs(exact) - size >= np.float32(0.5)
    codes = np.copysign(size, exact).astype(np.int8)
    return np.hstack([_f16(scale), codes.view(np.uint8)])


_ENCODERS: Final[Mapping[str, Callable[[Floats], Bytes]]] = MappingProxyType(
    {
        "F32": _f32,
        "F16": _f16,
        "BF16": _bf16,
        "Q4_0": lambda blocks: _symmetric(blocks, 4),
        "Q4_1": lambda blocks: _offset(blocks, 4),
        "Q5_0": lambda blocks: _symmetric(blocks, 5),
        "Q5_1": lambda blocks: _offset(blocks, 5),
        "Q8_0": _q8_0,
    }
)
DEMO_TYPES: Final = tuple(_ENCODERS)
"""Names of the tensor types that `encode` knows."""


def encode(values: Floats, type_name: str) -> bytes:
    """Return the stored bytes of weights.

    Args:
        values: float32 of any shape; for a quantized type a multiple of 32 values, whose blocks run
            along the last axis.
        type_name: One of `DEMO_TYPES`.
    """
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    blocks = flat.reshape(-1, _BLOCK) if TENSOR_TYPES[type_name].quantized else flat
    return _ENCODERS[type_name](blocks).tobytes()
