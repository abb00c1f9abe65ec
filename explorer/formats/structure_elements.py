"""How many bytes each element of a small metadata array takes, for the structure of raw bytes.

Arrays of any length are legal, and a vocabulary is no help as a million coloured fields: only
arrays that one can look through are taken apart, the others stay one run of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from explorer.errors import ExplorerError
from explorer.formats.gguf.arrays import NUMBER_TYPES
from explorer.formats.metadata import MetadataEntry, StringArray

MOST_ELEMENTS: Final = 512
_MOST_TEXT_BYTES: Final = 1 << 16
_NUMBER_BYTES: Final = {
    f"array[{name}]": np.dtype(code).itemsize for name, code in NUMBER_TYPES.values()
}


class ElementSize(NamedTuple):
    """The bytes of one element.

    Attributes:
        length_bytes: Bytes of the number in front that says how long a text is, else 0.
        value_bytes: Bytes of the element itself.
    """

    length_bytes: int
    value_bytes: int


def element_sizes(entry: MetadataEntry, width: int) -> Sequence[ElementSize]:
    """Return the size of each element in order, or nothing if they are too many or nested.

    May read the file, if the elements are texts; what cannot be read is not taken apart.

    Args:
        entry: An entry with a place in a GGUF file.
        width: Bytes of a text's length: 8, or 4 in version 1.
    """
    count = entry.length
    if count is None or not 0 < count <= MOST_ELEMENTS:
        return ()
    number_bytes = _NUMBER_BYTES.get(entry.type_name)
    if number_bytes is not None:
        return [ElementSize(0, number_bytes)] * count
    if entry.type_name != "array[string]" or entry.end - entry.value_offset > _MOST_TEXT_BYTES:
        return ()
    try:
        texts = entry.value
    except ExplorerError:
        return ()
    if not isinstance(texts, StringArray):
        return ()
    return [ElementSize(width, int(nbytes)) for nbytes in texts.lengths]
