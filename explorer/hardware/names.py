"""Finds a product by what a person or a driver calls it.

"RTX 3090", "rtx3090", "3090" and "NVIDIA GeForce RTX 3090" are one card; "A100" is four, and which
one is meant nobody can tell. So there are steps from the strict to the lenient, and the first step
that fits anything decides: one product, or several to choose from. Plain similarity of texts is
only used for hints, since "RTX 3080" is as similar to "RTX 3090" as a typing mistake is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

_WORD: Final = re.compile(r"[a-z0-9]+")
_RUN: Final = re.compile(r"[a-z]+|[0-9]+")
_SIZE: Final = re.compile(r"\b([0-9]+)\s*gi?b\b")
_LONGEST: Final = 100

# Left out by many people, and never what tells two products apart.
_DECORATION: Final = frozenset(
    (
        *("nvidia", "geforce", "tesla", "amd", "radeon", "instinct", "intel", "apple"),
        *("gpu", "graphics", "generation", "edition"),
    )
)
_SERIES: Final = frozenset(["rtx", "gtx", "gt", "rx", "arc"])


class Names:
    """An index of product names.

    Args:
        entries: For each product its name, and words that may be said beside it.
    """

    def __init__(self, entries: Sequence[tuple[str, str]]) -> None:
        self._keys = [_keys(name) for name, _ in entries]
        self._spans = [_spans(name) for name, _ in entries]
        self._beside = [_numbers(name) | set(_words(beside)) for name, beside in entries]

    def matching(self, name: str) -> list[int]:
        """Return the places of all products that a name fits, on the first step that fits any.

        The last step takes a product if each word of the name is a word of the product, or several
        that follow each other: of ``"RTX 6000"`` the RTX 6000 Ada, but not the RTX A6000. Words
        that are only said beside it, and a size without its unit, do not name it alone.
        """
        words = set(_words(name))
        if not words:
            return []
        for step, key in enumerate(_keys(name)):
            found = [row for row, keys in enumerate(self._keys) if key and keys[step] == key]
            if found:
                return found
        return [
            row
            for row, (spans, beside) in enumerate(zip(self._spans, self._beside, strict=True))
            if words & spans and words <= spans | beside
        ]

    def similar(self, name: str, count: int = 3) -> list[int]:
        """Return the places of products with the most similar names."""
        keys = [keys[1] for keys in self._keys]
        near = get_close_matches(_keys(name)[1], keys, n=count, cutoff=0.5)
        return [keys.index(key) for key in dict.fromkeys(near)]


def _words(name: str) -> list[str]:
    """Return the words of a name; a size in GB or GiB is one word."""
    return _WORD.findall(_SIZE.sub(r"\1gb", name[:_LONGEST].casefold()))


def _spans(name: str) -> set[str]:
    """Return the words of a name, and each run of words as one: ``"rtx"``, ``"rtx4060ti"``."""
    words = _words(name)
    ends = range(1, len(words) + 1)
    return {"".join(words[start:end]) for end in ends for start in range(end)}


def _numbers(name: str) -> set[str]:
    """Return the sizes in a name, without their unit."""
    return {word[:-2] for word in _words(name) if re.fullmatch("[0-9]+gb", word)}


def _keys(name: str) -> tuple[str, str, str]:
    """Return the name in full, without decoration, and without the series as well."""
    runs = [run for word in _words(name) for run in _RUN.findall(word)]
    plain = [run for run in runs if run not in _DECORATION]
    bare = [run for run in plain if run not in _SERIES]
    return "".join(runs), "".join(plain), "".join(bare)
