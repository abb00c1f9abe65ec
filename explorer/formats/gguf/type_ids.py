"""What a tensor's type id means in the file at hand, and the bytes of types without a size.

Programs that share the format gave some ids meanings of their own (`types.OTHER_MEANINGS`); and a
file may hold types that nobody here knows. Where the next tensor begins settles both: tensors lie
one behind the other, padded to the alignment (docs/gguf.md, sections 1 and 12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from explorer.formats.tensors import FileTensors, Shape, Spec
from explorer.quantization.types import GGML_TYPES, OTHER_MEANINGS, TensorType
from explorer.text import AtLeast

_OWNERS: Final = {4: ("gptoss", "gpt-oss"), **dict.fromkeys((36, 37, 38, 39), ("bitnet",)), 42: ()}
"""How the architectures of files begin in which an id has its other meaning, if that tells."""

_MOST_SIZES: Final = 4096
"""Different tensors of unknown types that are sized; a model has a few, a hostile file many."""


_NO_HEADERS: Final = (
    "it is stored without the headers of its rows, in which their scales are, so there are no "
    "values. Quantize it anew"
)
"""Files of ik_llama.cpp that were split or copied by a program which counts blocks alone (its
pull request 2437 found published ones)."""


def settle_types(
    file: FileTensors,
    alignment: int,
    architecture: str | None,
    spec_of: Callable[[TensorType, Shape], Spec],
) -> None:
    """Correct the types that mean something else in this file, size those without a size, and tell
    tensors whose rows have lost their headers.

    Args:
        file: Whose specs of tensors are replaced.
        alignment: Of tensor data.
        architecture: The file's, if it says one.
        spec_of: Works out what a type and a shape amount to.
    """
    specs, begins = file.specs, file.begins
    found = (
        row
        for row, spec in enumerate(specs)
        if spec.parameters
        and (spec.type.id in OTHER_MEANINGS or not spec.type.known or spec.type.row_header)
    )
    rows = np.fromiter(found, np.int64)
    if not rows.size:
        return
    places = np.array(begins, np.uint64)
    ends = np.append(np.sort(places), np.uint64(file.available))
    following = np.searchsorted(ends[:-1], places, side="right")
    ends = np.minimum(ends, np.uint64(file.available))
    rooms = np.maximum(ends[following], places) - places  # none behind the end of the file

    def fit(kind: TensorType, of_type: Sequence[int]) -> bool:
        sizes = [(row, kind.nbytes_of(specs[row].shape)) for row in of_type]
        return all(size and size <= int(rooms[row]) < size + alignment for row, size in sizes)

    for number, other in OTHER_MEANINGS.items():
        own = [int(row) for row in rows if specs[row].type.id == number]
        usual = GGML_TYPES[number]
        by_name = (architecture or "").startswith(_OWNERS[number])
        if not own or (usual.known and fit(usual, own) and not (by_name and fit(other, own))):
            continue
        if by_name or fit(other, own):
            for row in own:
                specs[row] = spec_of(other, specs[row].shape)
    sized: dict[tuple[Spec, int], Spec] = {}
    for row in rows:
        spec, room = specs[row], int(rooms[row])
        if len(sized) >= _MOST_SIZES:
            break
        if not spec.type.known:
            specs[row] = sized.setdefault((spec, room), spec._replace(nbytes=AtLeast(room)))
        blocks = spec.type.nbytes(spec.parameters)
        is_short = spec.fault is None and blocks is not None and room < spec.nbytes
        if blocks is not None and is_short and blocks <= room < blocks + alignment:
            short = spec._replace(nbytes=blocks, fault=_NO_HEADERS)
            specs[row] = sized.setdefault((spec, room), short)
