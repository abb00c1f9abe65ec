"""The names of a tensor table, left as bytes until somebody looks.

Opening a file has to know one thing about them, whether one occurs twice, and hashes of their bytes
tell that without 20,000 pieces of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from explorer.formats.gguf.chains import Places
from explorer.formats.metadata import decode_text

PIECE_BYTES: Final = 32
"""Names are hashed in pieces of so many bytes: most are not longer."""

# The first n bytes of a piece, for n from 0 to 32, as words of 8 bytes.
_MASKS: Final = np.where(
    np.arange(PIECE_BYTES) < np.arange(PIECE_BYTES + 1)[:, np.newaxis], np.uint8(255), np.uint8(0)
).view(np.uint64)
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: odd, mixes well
_UPPER_HALF: Final = np.uint64(32)
_SLOTS: Final = 1 << 16


class TensorNames(Sequence[str]):
    """Names by position; one is decoded when it is asked for, or all at once by `listed`.

    Attributes:
        text: Bytes with the names in them; at least `PIECE_BYTES` follow each name.
        starts: First byte of each name, int64 [n].
        ends: The byte behind each name, int64 [n].
    """

    def __init__(self, text: bytes, starts: Places, ends: Places) -> None:
        self.text = text
        self.starts = starts
        self.ends = ends

    @classmethod
    def joined(cls, parts: Sequence[TensorNames]) -> TensorNames:
        """Return the names of all parts."""
        shifts = np.cumsum([0, *(len(part.text) for part in parts)]).tolist()
        return cls(
            b"".join(part.text for part in parts),
            np.concatenate([part.starts + at for part, at in zip(parts, shifts, strict=False)]),
            np.concatenate([part.ends + at for part, at in zip(parts, shifts, strict=False)]),
        )

    @cached_property
    def listed(self) -> list[str]:
        """All names: pieces of one text if all are ASCII, which is four times faster."""
        starts, ends = self.starts.tolist(), self.ends.tolist()
        text = self.text.decode("latin-1")
        names = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        if "".join(names).isascii():
            return names
        raw = self.text
        return [decode_text(raw[start:end]) for start, end in zip(starts, ends, strict=True)]

    def repeated(self) -> list[str]:
        """Return each further occurrence of a name that occurred before, in order."""
        if not _any_equal(self._hashes()):
            return []
        seen: set[str] = set()
        again = []
        for name in self.listed:  # equal hashes may come from different names
            if name in seen:
                again.append(name)
            seen.add(name)
        return again

    def _hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each name's bytes, uint64 [n]: equal names have equal hashes."""
        left = self.ends - self.starts
        result = left.astype(np.uint64)
        if not len(left):
            return result
        pieces = np.ndarray(
            len(self.text) - PIECE_BYTES + 1, f"V{PIECE_BYTES}", buffer=self.text, strides=(1,)
        )
        places = self.starts
        rows: NDArray[np.int64] | slice = slice(None)  # the names that go on
        while len(left):
            words = pieces[places].view(np.uint64).reshape(len(left), -1)
            words &= _MASKS.take(np.minimum(left, PIECE_BYTES), axis=0)
            mixed = result[rows]
            for word in words.T:
                mixed = (mixed ^ word) * _MULTIPLIER
                mixed ^= mixed >> _UPPER_HALF
            result[rows] = mixed
            longer = np.flatnonzero(left > PIECE_BYTES)
            rows = longer if isinstance(rows, slice) else rows[longer]
            places, left = places[longer] + PIECE_BYTES, left[longer] - PIECE_BYTES
        return result

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self.listed[index]
        return decode_text(self.text[self.starts[index] : self.ends[index]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.starts)


def _any_equal(hashes: NDArray[np.uint64]) -> bool:
    """Tell whether two hashes are equal.

    To sort them all would take twice as long as to compute them. So those are left out first that
    share 16 of their bits with no other one.
    """
    for part in (1, 3):
        slots = hashes.view(np.uint16)[part::4].astype(np.intp)
        rows = np.arange(len(hashes), dtype=np.uint32)
        last = np.empty(_SLOTS, dtype=np.uint32)  # row of each slot; only what is set is read
        last[slots] = rows
        shared = np.zeros(_SLOTS, dtype=np.bool_)
        shared[slots[last[slots] != rows]] = True
        hashes = hashes[shared[slots]]
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())
