"""A vocabulary as columns for a table, and searching in them.

Made once, in a worker: 262,144 tokens take some tenths of a second. Searching then looks through
one list of lower-cased text, which takes some milliseconds, so it can follow the typing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress, repeat
from operator import contains
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.formats.enums import TOKEN_TYPES
from explorer.formats.metadata import StringArray
from explorer.formats.numbers import parse_bounds
from explorer.formats.ranges import in_ranges, parse_ranges
from explorer.formats.token_text import NO_TYPE, Scheme, decode_tokens
from explorer.text import plain_text

MAX_SHOWN: Final = 2000
"""Characters of a token that are shown and searched; the longest real ones have some hundred."""

_CHUNK: Final = 8192
_TERM: Final = re.compile(
    r"(?:^|(?<=\s))(?:(?P<key>id|type|len):(?P<value>\S*)|len(?P<sign>>=|<=|>|<|=)(?P<number>\d{0,9}))"
    r"(?=\s|$)",
    re.ASCII,
)


@dataclass(frozen=True, eq=False)
class VocabularyColumns:
    """A vocabulary's tokens as text, a row for each id.

    Attributes:
        stored: The tokens as the file has them, safe to show.
        decoded: What they stand for, safe to show.
        type_names: Names of their types, ``""`` where the file gives none.
        types: Their types, -1 where the file gives none, int64 [n].
        lengths: Characters of what they stand for, `MAX_SHOWN` at most, int64 [n].
    """

    stored: list[str]
    decoded: list[str]
    type_names: list[str]
    types: NDArray[np.int64]
    lengths: NDArray[np.int64]
    _haystacks: list[str]
    _kinds: dict[int, str]

    def __len__(self) -> int:
        return len(self.stored)

    def search(self, text: str) -> NDArray[np.int64]:
        """Find tokens; any text is accepted.

        ``id:123``, ``id:100-200``, ``type:control``, ``len>20`` (also ``>= < <= =``) narrow it.
        The rest of the text is looked for in the token as stored, as decoded and as shown, without
        regard to case. By itself it counts with its blanks, since " the" and "the" are two tokens;
        quotation marks keep blanks beside other terms.

        Returns:
            Ids in rising order, int64 [m].
        """
        mask = np.ones(len(self), dtype=np.bool_)
        needle = text
        for match in _TERM.finditer(text):
            found = self._term_mask(match)
            if found is not None:
                mask &= found
                needle = needle.replace(match[0], "", 1)
        if needle != text:
            needle = needle.strip()
        if len(needle) > 1 and needle[0] == needle[-1] == '"':
            needle = needle[1:-1]
        if needle:
            everything = bool(mask.all())
            hay = self._haystacks if everything else list(compress(self._haystacks, mask.tolist()))
            mask[mask] = np.frombuffer(bytes(map(contains, hay, repeat(needle.lower()))), np.bool_)
        return np.flatnonzero(mask).astype(np.int64, copy=False)

    def _term_mask(self, match: re.Match[str]) -> NDArray[np.bool_] | None:
        """Return what a term lets through, everything while it is being typed; None for no term."""
        key, value = match["key"], match["value"] or match["number"]
        if not value:
            return np.ones(len(self), dtype=np.bool_)
        if key == "type":
            return self._type_mask(value.lower())
        ranges = parse_ranges(value) if key is not None else None
        if key == "id":
            ids = np.arange(len(self), dtype=np.int64)
            return None if ranges is None else in_ranges(ids, ranges)
        if ranges is not None:
            return in_ranges(self.lengths, ranges)
        bounds = parse_bounds(match["sign"] or "=", value, "plain")
        return None if bounds is None else bounds.of_integers(self.lengths)

    def _type_mask(self, value: str) -> NDArray[np.bool_]:
        wanted = tuple(filter(None, value.split(",")))
        kinds = [
            kind
            for kind, name in self._kinds.items()
            if name.startswith(wanted) or str(kind) in wanted
        ]
        return np.isin(self.types, np.array(kinds, dtype=np.int64))


def type_name(kind: int) -> str:
    """Return a token type's name: the number if it has none, ``""`` if the file gives none."""
    return "" if kind == NO_TYPE else TOKEN_TYPES.get(kind, str(kind))


def make_columns(
    tokens: StringArray,
    types: NDArray[np.int64],
    scheme: Scheme,
    check: Callable[[], None],
) -> VocabularyColumns:
    """Make the columns of a vocabulary.

    Args:
        tokens: The tokens as stored.
        types: Their types, int64 [n].
        scheme: How the tokenizer writes them.
        check: Called every few thousand tokens; raises to give up.
    """
    stored: list[str] = []
    decoded: list[str] = []
    haystacks: list[str] = []
    lengths: list[int] = []
    kinds: list[int] = types.tolist()
    for first in range(0, len(tokens), _CHUNK):
        check()
        last = first + _CHUNK
        texts = tokens[first:last]
        if int(tokens.lengths[first:last].max()) > MAX_SHOWN:
            texts = [text[:MAX_SHOWN] for text in texts]
        meant = decode_tokens(texts, kinds[first:last], scheme)
        lengths += map(len, meant)
        for text, meaning in zip(texts, meant, strict=True):
            shown = plain_text(text)
            shown_meaning = shown if meaning is text else plain_text(meaning)
            stored.append(shown)
            decoded.append(shown_meaning)
            haystacks.append(_haystack(text, meaning, shown, shown_meaning))
    names = {kind: type_name(kind) for kind in set(kinds)}
    return VocabularyColumns(
        stored=stored,
        decoded=decoded,
        type_names=[names[kind] for kind in kinds],
        types=types,
        lengths=np.array(lengths, dtype=np.int64),
        _haystacks=haystacks,
        _kinds=names,
    )


def _haystack(text: str, meaning: str, shown: str, shown_meaning: str) -> str:
    """Return what is searched for one token, in lower case.

    A shown text that differs from the true one belongs to it: one may look for what one sees. The
    parts are set apart by NUL, which nobody types.
    """
    parts = text if meaning is text else f"{text}\0{meaning}"
    if shown != text or shown_meaning != meaning:
        parts = f"{parts}\0{shown}\0{shown_meaning}"
    return parts.lower()
