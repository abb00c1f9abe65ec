"""Ranges of whole numbers as people type them: ``3``, ``3-7``, ``9-``, ``3,5,9-``."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Range: TypeAlias = tuple[int, int | None]

_RANGE: Final = re.compile(r"(?P<first>[0-9]{0,18})(?P<to>-?)(?P<last>[0-9]{0,18})")


def parse_ranges(text: str) -> tuple[Range, ...] | None:
    """Return the inclusive ranges of a list with commas, or None if it is none.

    ``9-`` has no end and ``-5`` starts at 0. An empty part is left out, so that the comma that one
    has just typed changes nothing.
    """
    ranges: list[Range] = []
    for part in filter(None, text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None or not (match["first"] or match["last"]):
            return None
        first = int(match["first"] or 0)
        if match["to"]:
            ranges.append((first, int(match["last"]) if match["last"] else None))
        else:
            ranges.append((first, first))
    return tuple(ranges) or None


def in_ranges(values: NDArray[np.int64], ranges: tuple[Range, ...]) -> NDArray[np.bool_]:
    """Tell for each value, int64 [n], whether one of the ranges holds it: bool [n]."""
    found = np.zeros(len(values), dtype=np.bool_)
    for first, last in ranges:
        found |= (values >= first) if last is None else (values >= first) & (values <= last)
    return found
