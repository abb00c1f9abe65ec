"""The quick way through a safetensors header: columns cut out of the text by a regular expression.

A file of 10,000 tensors is listed while a user waits, and `json.loads` with a loop over its objects
took twice as long. This accepts only what it understands to the last character: the headers of the
writers in use. All else is left to `header.py`.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from explorer.formats.bounded_json import CAREFUL, JsonText, read_strings
from explorer.formats.limits import SAFETENSORS_MAX_TENSORS
from explorer.formats.safetensors.entry import (
    METADATA,
    U64,
    Header,
    make_spec,
    read_dtype,
    read_integers,
)


def _pattern(order: str, colon: str, comma: str) -> re.Pattern[str]:
    """Return what matches a comma and an entry, as one writer writes them.

    Loose where a later check is cheaper, and linear in time: no run of characters can cross the
    beginning of another match, or half a header without brackets would be scanned for every entry.
    """
    parts = {
        "spec": rf'("dtype"{colon}[^\]{{]*\])',
        "place": rf'"data_offsets"{colon}\[(0|[1-9][^,{{]*){comma}(0|[1-9][^\]{{]*)\]',
    }
    fields = comma.join(parts[name] for name in order.split())
    return re.compile(rf'{comma}"([^"]*)"{colon}\{{{fields}\}}')


# The official writer and MLX (keys sorted), without and with the spaces of Python's json.dumps; and
# which groups are type and shape, begin, and end.
_STYLES: Final = {
    (spaced, place_first): (_pattern(order, colon, comma), groups)
    for spaced, colon, comma in ((False, ":", ","), (True, ": ", ", "))
    for place_first, order, groups in (
        (False, "spec place", (2, 3, 4)),
        (True, "place spec", (4, 2, 3)),
    )
}


def read_usual(text: JsonText, header: Header) -> bool:
    """Read the entries of a header that is written in a usual way.

    Args:
        text: The header's text; its bounds need not have been checked.
        header: Where to put them; unusable if the answer is no.

    Returns:
        Whether it was, to the last character, and keeps rules 4, 5, 6, 8 and 9.
    """
    content = text.text.rstrip(" \t\r\n")
    spec, place = content.find('"dtype":'), content.find('"data_offsets":')
    if (
        min(spec, place) < 0
        or not (content.startswith("{") and content.endswith("}"))
        or content.count('"dtype"') > SAFETENSORS_MAX_TENSORS
    ):
        return False
    spaced = content.startswith(" ", spec + len('"dtype":'))
    parts = _without_metadata(text, content, header, ": " if spaced else ":")
    pattern, groups = _STYLES[spaced, place < spec]
    return (
        parts is not None
        and all(not part or _cut(part, header, pattern, groups) for part in parts)
        and len(set(header.names)) == len(header.names)
        and max((*header.begins, *header.ends), default=0) < U64
    )


def _without_metadata(
    text: JsonText, content: str, header: Header, colon: str
) -> tuple[str, str] | None:
    """Read `__metadata__`; return the text before and after it, each entry behind a comma."""
    comma = ", " if colon == ": " else ","
    key = f'"{METADATA}"{colon}'
    start = content.find(key)
    if start < 0:
        return "", comma + content[1:-1]
    before = content[1:start]
    if before and not before.endswith(comma):
        return None
    strings = read_strings(text, start + len(key), colon, comma)
    if strings is None:
        return None
    header.metadata, end = strings
    return comma + before[: -len(comma)] if before else "", content[end:-1]


def _cut(text: str, header: Header, pattern: re.Pattern[str], groups: tuple[int, int, int]) -> bool:
    """Add the entries of a text; False if it holds anything else."""
    if "\\" in text or np.frombuffer(text.encode(), np.uint8).min() < ord(" "):
        return False
    parts = pattern.split(text)
    columns = [parts[group::5] for group in groups]
    names, begins, ends = parts[1::5], columns[1], columns[2]
    digits = "".join(begins) + "".join(ends)
    between = parts[0::5]
    if any(between) or not (digits.isdecimal() and digits.isascii()) or METADATA in names:
        return False
    specs = {}
    try:
        for spec in set(columns[0]):
            entry = CAREFUL.decode("{" + spec + "}")
            key = read_dtype(entry["dtype"]), tuple(read_integers(entry["shape"], "shape"))
            specs[spec] = make_spec(*key)
            if specs[spec].fault is not None or len(entry) != 2 or spec.count('"') != 6:
                return False
        header.begins += map(int, begins)
        header.ends += map(int, ends)
    except (ValueError, KeyError):
        return False
    header.names += names
    header.specs += map(specs.__getitem__, columns[0])
    return True
