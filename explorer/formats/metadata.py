"""Metadata: ordered keys with typed values, of which the large ones stay on disk until looked at.

A vocabulary of 262,144 tokens is most of a header's bytes and seldom what one opens a file for, so
opening only notes where a large value lies. `MetadataEntry.value` reads it on first access. Small
values are plain Python objects from the start; decoding everything at once, as the `gguf` package
does, was measured at 9 s for such a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

Scalar: TypeAlias = int | float | bool | str
Value: TypeAlias = "Scalar | Sequence[Value]"


class StringArray(Sequence[str]):
    """Strings of an array, kept as one run of bytes and their positions in it.

    Attributes:
        starts: Position of each string's first byte in the run, int64 [n].
        lengths: Bytes of each string, int64 [n].
    """

    def __init__(self, blob: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        self._blob = blob
        self.starts = starts
        self.lengths = lengths

    def raw(self, index: int) -> bytes:
        """Return the bytes of one string as stored; real tokens need not be valid UTF-8."""
        start = int(self.starts[index])
        return self._blob[start : start + int(self.lengths[index])]

    def to_list(self) -> list[str]:
        """Decode every string at once; as indexing does, but several times faster."""
        blob = self._blob
        stops = (self.starts + self.lengths).tolist()
        return [
            str(blob[start:stop], "utf-8", "surrogateescape")
            for start, stop in zip(self.starts.tolist(), stops, strict=True)
        ]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [decode_text(self.raw(i)) for i in range(*index.indices(len(self)))]
        return decode_text(self.raw(index))

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())


class NumberArray(Sequence[int | float | bool]):
    """Numbers of an array; items are Python numbers.

    Attributes:
        values: The numbers in native byte order, [n] of the file's element type.
    """

    def __init__(self, values: NDArray[np.generic]) -> None:
        self.values = values

    @overload
    def __getitem__(self, index: int) -> int | float | bool: ...
    @overload
    def __getitem__(self, index: slice) -> list[int | float | bool]: ...
    def __getitem__(self, index: int | slice) -> int | float | bool | list[int | float | bool]:
        result: int | float | bool | list[int | float | bool] = self.values[index].tolist()
        return result

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[int | float | bool]:
        return iter(self.values.tolist())


@dataclass(frozen=True)
class MetadataEntry:
    """One key of the metadata.

    Attributes:
        key: The key, as decoded text (see `decode_text`).
        type_name: ``"uint32"``, ``"string"``, ``"array[string]"``, ``"array[array[int32]]"`` …
        length: Number of elements of an array, else None.
        offset: First byte of the entry in its file; -1 where the format has no such place.
        value_offset: First byte of the value.
        end: First byte behind the value.
        file_index: Which of the model's files holds the entry.
    """

    key: str
    type_name: str
    length: int | None
    load: Callable[[], Value] = field(repr=False, compare=False)
    offset: int = -1
    value_offset: int = -1
    end: int = -1
    file_index: int = 0

    @cached_property
    def value(self) -> Value:
        """The value; a large one is read and decoded on first access.

        Raises:
            ExplorerError: The file changed since it was opened, or the value is too large.
        """
        return self.load()


class Metadata(Mapping[str, Value]):
    """Keys and values in file order.

    Attributes:
        entries: Every entry, also one whose key occurs twice; a look-up by key finds the first.
    """

    def __init__(self, entries: Sequence[MetadataEntry] = ()) -> None:
        self.entries = tuple(entries)
        self._by_key: dict[str, MetadataEntry] = {}
        for entry in self.entries:
            self._by_key.setdefault(entry.key, entry)

    def entry(self, key: str) -> MetadataEntry | None:
        """Return the entry of a key without reading its value, or None."""
        return self._by_key.get(key)

    def text(self, key: str) -> str | None:
        """Return a value if it is a string."""
        entry = self._by_key.get(key)
        return entry.value if entry is not None and isinstance(entry.value, str) else None

    def integer(self, key: str) -> int | None:
        """Return a value if it is an integer (a Boolean is not)."""
        entry = self._by_key.get(key)
        if entry is None or entry.length is not None or entry.type_name == "string":
            return None  # without reading it: it may be long
        if isinstance(entry.value, bool):
            return None
        return entry.value if isinstance(entry.value, int) else None

    def __getitem__(self, key: str) -> Value:
        return self._by_key[key].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)


def decode_text(raw: bytes) -> str:
    """Decode UTF-8 without loss: a byte that is not valid becomes a lone surrogate (PEP 383)."""
    return raw.decode("utf-8", "surrogateescape")
