"""Small GGUF files, byte by byte (docs/gguf.md, section 1), and models opened from memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from explorer.formats.gguf.open import assemble, read_shard
from explorer.formats.model import Model, ProblemLog
from explorer.sources import ByteSource, MemorySource


@dataclass
class SmallGguf:
    """What to write.

    Attributes:
        version: 1, 2 or 3.
        big: Big-endian.
        keys: (key, value); a value is int (uint32), str, a list of int (int32) or of str.
        tensors: (name, dims in ggml order, type id, offset in the data).
        data: The tensor data.
        trailing: Bytes behind it.
    """

    version: int = 3
    big: bool = False
    keys: Sequence[tuple[str, int | str | list[int] | list[str]]] = ()
    tensors: Sequence[tuple[str, tuple[int, ...], int, int]] = ()
    data: bytes = b""
    trailing: bytes = field(default=b"")

    def u32(self, number: int) -> bytes:
        return struct.pack(">I" if self.big else "<I", number)

    def u64(self, number: int) -> bytes:
        return struct.pack(">Q" if self.big else "<Q", number)

    def count(self, number: int) -> bytes:
        return self.u32(number) if self.version == 1 else self.u64(number)

    def text(self, text: str) -> bytes:
        raw = text.encode("utf-8", "surrogateescape")
        return self.count(len(raw)) + raw

    def value(self, value: int | str | list[int] | list[str]) -> bytes:
        if isinstance(value, int):
            return self.u32(4) + self.u32(value)
        if isinstance(value, str):
            return self.u32(8) + self.text(value)
        kind = 8 if value and isinstance(value[0], str) else 5
        parts = [self.text(v) if isinstance(v, str) else self.u32(v) for v in value]
        return self.u32(9) + self.u32(kind) + self.count(len(value)) + b"".join(parts)

    def write(self) -> bytes:
        """Return the whole file."""
        parts = [b"GGUF", self.u32(self.version)]
        parts += [self.count(len(self.tensors)), self.count(len(self.keys))]
        parts += [self.text(key) + self.value(value) for key, value in self.keys]
        for name, dims, kind, offset in self.tensors:
            parts += [self.text(name), self.u32(len(dims)), *map(self.count, dims)]
            parts += [self.u32(kind), self.u64(offset)]
        header = b"".join(parts)
        if self.tensors:
            header = header.ljust(-(-len(header) // 32) * 32, b"\0")
        return header + self.data + self.trailing


def example(version: int = 3, *, big: bool = False) -> SmallGguf:
    """Return a file with every kind of field: a gap, padding, trailing bytes."""
    return SmallGguf(
        version,
        big,
        keys=[
            ("general.architecture", "llama"),
            ("llama.block_count", 2),
            ("tokenizer.ggml.tokens", ["<s>", "", "a"]),
            ("some.numbers", [1, 2, 3]),
        ],
        tensors=[("second", (8,), 0, 32), ("first", (4,), 0, 0), ("third.weight", (2, 2), 0, 128)],
        data=bytes(range(160)),
        trailing=b"behind",
    )


def model_from(*contents: bytes | ByteSource) -> Model:
    """Open files in memory, as `open_gguf` does with shards on a disk."""
    sources = [c if isinstance(c, ByteSource) else MemorySource(c) for c in contents]
    shards = [read_shard(source, i) for i, source in enumerate(sources)]
    return assemble(Path("memory.gguf"), shards[0], shards, ProblemLog())
