"""Small GGUF files, byte by byte (docs/gguf.md, section 1), and models opened from memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.formats.gguf.open import assemble, read_shard
from explorer.formats.model import Model, ProblemLog
from explorer.sources import ByteSource, MemorySource
from tests.helpers.gguf_writer import ARRAY, I32, STRING, U32, Array, GgufFile, TensorSpec


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

    def write(self) -> bytes:
        """Return the whole file."""
        return GgufFile(
            version=self.version,
            order="big" if self.big else "little",
            keys=[(_raw(key), *_typed(value)) for key, value in self.keys],
            tensors=[
                TensorSpec(_raw(tensor[0]), *tensor[1:3], b"", tensor[3]) for tensor in self.tensors
            ],
            tail=self.data + self.trailing,
        ).build()


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _typed(value: int | str | list[int] | list[str]) -> tuple[int, Any]:
    if isinstance(value, int):
        return U32, value
    if isinstance(value, str):
        return STRING, _raw(value)
    if value and isinstance(value[0], str):
        return ARRAY, Array(STRING, [_raw(str(text)) for text in value])
    return ARRAY, Array(I32, value)


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
