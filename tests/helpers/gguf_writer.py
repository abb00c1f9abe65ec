"""Write GGUF files byte by byte, right ones and wrong ones.

Made from the format's description alone (docs/gguf.md, sections 1 to 4), without the program's own
tables, so that a mistake there cannot hide itself. All that a file may claim can be overridden.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Order = Literal["little", "big"]

# Value types, docs/gguf.md, section 1.
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_CODES = {
    U8: "B",
    I8: "b",
    U16: "H",
    I16: "h",
    U32: "I",
    I32: "i",
    F32: "f",
    BOOL: "B",
    U64: "Q",
    I64: "q",
    F64: "d",
}


@dataclass(frozen=True)
class Raw:
    """Bytes to write as they are, in place of a value."""

    content: bytes


@dataclass(frozen=True)
class Text:
    """A string that may lie about its length."""

    content: bytes
    length: int | None = None


@dataclass(frozen=True)
class Array:
    """An array that may lie about its count."""

    kind: int
    values: Any = ()
    count: int | None = None


@dataclass(frozen=True)
class TensorSpec:
    """A line of the tensor table, and the tensor's bytes.

    Attributes:
        name: Name, or its bytes.
        dims: Dimensions in ggml order.
        type_id: ggml's type id.
        data: The tensor's bytes.
        offset: Offset to claim; None puts the tensor behind the one before.
        dims_count: Number of dimensions to claim; None for the true one.
    """

    name: str | bytes | Text
    dims: tuple[int, ...] = (4,)
    type_id: int = 0
    data: bytes = bytes(16)
    offset: int | None = None
    dims_count: int | None = None


@dataclass
class GgufFile:
    """The parts of a file to write.

    Attributes:
        version: Format version.
        order: Byte order of every number.
        keys: (key, value type, value) of each entry.
        tensors: The tensor table.
        key_count: Number of keys to claim; None for the true one.
        tensor_count: Number of tensors to claim; None for the true one.
        alignment: Alignment of the tensor data; only used for placing it, see `key_alignment`.
        magic: First four bytes.
        tail: Bytes behind the tensor data.
        pad: Whether to pad the header even when there are no tensors.
    """

    version: int = 3
    order: Order = "little"
    keys: list[tuple[str | bytes, int, Any]] = field(default_factory=list)
    tensors: list[TensorSpec] = field(default_factory=list)
    key_count: int | None = None
    tensor_count: int | None = None
    alignment: int = 32
    magic: bytes = b"GGUF"
    tail: bytes = b""
    pad: bool = False

    @property
    def prefix(self) -> str:
        """struct's sign of the byte order."""
        return "<" if self.order == "little" else ">"

    def number(self, code: str, value: Any) -> bytes:
        """Pack one number."""
        return struct.pack(self.prefix + code, value)

    def count(self, value: int) -> bytes:
        """Pack a count, a length or a dimension."""
        return self.number("I" if self.version == 1 else "Q", value)

    def string(self, text: str | bytes | Text) -> bytes:
        """Pack a string behind its length."""
        if isinstance(text, Text):
            length = len(text.content) if text.length is None else text.length
            return self.count(length) + text.content
        raw = text.encode() if isinstance(text, str) else text
        return self.count(len(raw)) + raw

    def value(self, kind: int, value: Any) -> bytes:
        """Pack a value without its type."""
        if isinstance(value, Raw):
            return value.content
        if kind == STRING:
            return self.string(value)
        if kind == ARRAY:
            count = len(value.values) if value.count is None else value.count
            head = self.number("I", value.kind) + self.count(count)
            if value.kind in _CODES:
                return head + struct.pack(
                    f"{self.prefix}{len(value.values)}{_CODES[value.kind]}", *value.values
                )
            return head + b"".join(self.value(value.kind, item) for item in value.values)
        return self.number(_CODES[kind], value)

    def entry(self, key: str | bytes, kind: int, value: Any) -> bytes:
        """Pack a key with its value."""
        return self.string(key) + self.number("I", kind) + self.value(kind, value)

    def record(self, tensor: TensorSpec, offset: int) -> bytes:
        """Pack a line of the tensor table."""
        dims_count = len(tensor.dims) if tensor.dims_count is None else tensor.dims_count
        return b"".join(
            (
                self.string(tensor.name),
                self.number("I", dims_count),
                *(self.count(size) for size in tensor.dims),
                self.number("I", tensor.type_id),
                self.number("Q", offset),
            )
        )

    def _aligned(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def places(self) -> list[int]:
        """Return the offset that each tensor claims."""
        places, end = [], 0
        for tensor in self.tensors:
            place = end if tensor.offset is None else tensor.offset
            places.append(place)
            end = max(end, self._aligned(place + len(tensor.data)))
        return places

    def header(self) -> bytes:
        """Return everything up to the end of the tensor table."""
        tensors = len(self.tensors) if self.tensor_count is None else self.tensor_count
        keys = len(self.keys) if self.key_count is None else self.key_count
        return b"".join(
            (
                self.magic,
                self.number("I", self.version),
                self.count(tensors),
                self.count(keys),
                *(self.entry(*key) for key in self.keys),
                *map(self.record, self.tensors, self.places()),
            )
        )

    def build(self) -> bytes:
        """Return the whole file."""
        content = bytearray(self.header())
        if self.tensors or self.pad:
            content += bytes(self._aligned(len(content)) - len(content))
            start = len(content)
            for tensor, place in zip(self.tensors, self.places(), strict=True):
                if tensor.data:
                    content += bytes(max(0, start + place + len(tensor.data) - len(content)))
                    content[start + place : start + place + len(tensor.data)] = tensor.data
        return bytes(content) + self.tail

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        path.write_bytes(self.build())
        return path


def small_model(version: int = 3, order: Order = "little") -> GgufFile:
    """Return a file that has every value type and four tensors of different types and ranks."""
    prefix = "<" if order == "little" else ">"
    floats = struct.pack(f"{prefix}12f", *(i / 4 for i in range(12)))
    return GgufFile(
        version=version,
        order=order,
        keys=[
            ("general.architecture", STRING, "llama"),
            ("general.name", STRING, "Ein Mädchen 模型"),
            ("t.u8", U8, 200),
            ("t.i8", I8, -3),
            ("t.u16", U16, 60_000),
            ("t.i16", I16, -30_000),
            ("t.u32", U32, 4_000_000_000),
            ("t.i32", I32, -2_000_000_000),
            ("t.f32", F32, 0.15625),
            ("t.bool", BOOL, 1),
            ("t.u64", U64, 1 << 63),
            ("t.i64", I64, -(1 << 62)),
            ("t.f64", F64, 0.1),
            ("a.i32", ARRAY, Array(I32, [1, -2, 3])),
            ("a.bool", ARRAY, Array(BOOL, [0, 1, 2])),
            ("a.empty", ARRAY, Array(F32)),
            ("a.nested", ARRAY, Array(ARRAY, [Array(I16, [1, 2]), Array(I16), Array(I16, [-3])])),
            (
                "tokenizer.ggml.tokens",
                ARRAY,
                Array(STRING, ["<s>", "", "\u2581hello", b"\xff\xfe", b"a\0b", "x" * 300]),
            ),
            ("tokenizer.ggml.scores", ARRAY, Array(F32, [0.0, -1.0, -2.5, 0.5, 1.5, 2.0])),
        ],
        tensors=[
            TensorSpec("token_embd.weight", (4, 3), 0, floats),
            TensorSpec("blk.0.attn_q.weight", (32, 2), 8, bytes(range(68))),
            TensorSpec("blk.1.attn_q.weight", (32, 1, 2), 2, bytes(range(36))),
            TensorSpec("scalar", (), 24, b"\x07"),
        ],
    )
