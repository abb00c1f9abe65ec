"""Names that are searched as one types: which hold every word, and which of them are best.

Everything that a search needs is made once, in a worker. 262,144 names are then searched in some
hundredths of a second, in pieces that leave room for the window and for a change of mind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import contains
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.formats.columns import text_ranks

_PIECE: Final = 16_384
_NO_WORD: Final = re.compile(r"[^\w\n]|_")


class Match(NamedTuple):
    """A name that was found; the smaller, the better.

    Attributes:
        misses: Words of the query that are only a part of a word of the name.
        inside: Whether the name begins with something else than the query's first word.
        rank: Place of the name in natural order.
        position: Position of the name.
    """

    misses: int
    inside: bool
    rank: int
    position: int


@dataclass(frozen=True, eq=False)
class NameList:
    """Names with what a search needs.

    Attributes:
        folded: The names in lower case.
        ranks: Place of each in natural order, int64 [n].
    """

    folded: Sequence[str]
    ranks: NDArray[np.int64]
    _spaced: Sequence[str]  # " blk 0 attn norm weight ": a word is whole if blanks are around it

    def __len__(self) -> int:
        return len(self.folded)

    def search(
        self, words: Sequence[str], most: int, check: Callable[[], None] = lambda: None
    ) -> tuple[list[Match], int]:
        """Find the names that hold every word.

        Args:
            words: In lower case; none finds every name.
            most: Most matches to return.
            check: Called every few thousand names; raises to give up.

        Returns:
            The best matches in order, and the number of all.
        """
        if not words:
            count = len(self)
            first = range(min(most, count))
            return [Match(0, False, position, position) for position in first], count
        keys, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for start in range(0, len(self), _PIECE):
            check()
            rows, key = self._search_piece(words, start)
            positions.append(rows)
            keys.append(key)
        return self._best(np.concatenate(keys), np.concatenate(positions), most)

    def _search_piece(
        self, words: Sequence[str], start: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the names are that a piece holds, and twice the misses, plus 1 if inside."""
        stop = start + _PIECE
        names, spaced = self.folded[start:stop], self._spaced[start:stop]
        rows = np.arange(start, start + len(names))
        for word in words:
            found = bytes(map(contains, names, repeat(word)))
            rows = rows[np.frombuffer(found, np.bool_)]
            names, spaced = list(compress(names, found)), list(compress(spaced, found))
        misses = np.zeros(len(rows), dtype=np.int64)
        for word in words:
            whole = bytes(map(contains, spaced, repeat(f" {_NO_WORD.sub(' ', word)} ")))
            misses += ~np.frombuffer(whole, np.bool_)
        starts = np.frombuffer(bytes(map(str.startswith, names, repeat(words[0]))), np.bool_)
        return rows, 2 * misses + ~starts

    def _best(
        self, keys: NDArray[np.int64], positions: NDArray[np.int64], most: int
    ) -> tuple[list[Match], int]:
        count = len(positions)
        ranks = self.ranks[positions]
        whole_keys = keys * (len(self) + 1) + ranks  # a rank is below the number of names
        chosen = np.arange(count)
        if count > most:
            chosen = np.argpartition(whole_keys, most)[:most]
        chosen = chosen[np.lexsort((positions[chosen], whole_keys[chosen]))]
        matches = [
            Match(key >> 1, bool(key & 1), rank, position)
            for key, rank, position in zip(
                keys[chosen].tolist(),
                ranks[chosen].tolist(),
                positions[chosen].tolist(),
                strict=True,
            )
        ]
        return matches, count


def name_list(
    folded: Sequence[str],
    ranks: NDArray[np.int64] | None = None,
    check: Callable[[], None] = lambda: None,
) -> NameList:
    """Make names ready for searching.

    Args:
        folded: Any texts, in lower case.
        ranks: Place of each in natural order, int64 [n], if known.
        check: Called every few thousand names; raises to give up.
    """
    spaced: list[str] = []
    for start in range(0, len(folded), _PIECE):
        check()
        names = folded[start : start + _PIECE]
        pieces = _NO_WORD.sub(" ", "\n".join(names)).split("\n")  # in one go: five times faster
        if len(pieces) != len(names):
            pieces = [_NO_WORD.sub(" ", name.replace("\n", " ")) for name in names]
        spaced += [f" {piece} " for piece in pieces]
    return NameList(folded, text_ranks(folded, check) if ranks is None else ranks, spaced)
