"""Which tensors are shown together: the same role in every layer, and never too many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from explorer.formats.tensors import TensorName, parse_name
from explorer.qt.models.document import Document

MOST_TENSORS: Final = 32
"""Most tensors that are shown together: more lines cannot be told apart."""


def same_role(document: Document, row: int) -> list[int]:
    """Return the tensors that do in other layers what one does in its own, by layer.

    A tensor outside the layers stands for itself.

    Args:
        document: The model.
        row: Content row of a tensor.
    """
    arrays = document.arrays
    names = document.model.tensors.columns.names
    parsed = parse_name(names[row])
    if parsed.layer is None:
        return [row]
    rest = _behind_layer(names[row], parsed)
    alike = np.flatnonzero((arrays.role_codes == arrays.role_codes[row]) & (arrays.layers >= 0))
    found = []
    for other in alike.tolist():
        its = parse_name(names[other])
        if its.stack == parsed.stack and _behind_layer(names[other], its) == rest:
            found.append(other)
    return sorted(found, key=lambda other: int(arrays.layers[other]))


def spread(rows: Sequence[int], most: int = MOST_TENSORS) -> list[int]:
    """Return at most so many of some rows, the first and the last among them, evenly spread."""
    if len(rows) <= most:
        return list(rows)
    return [rows[place] for place in np.linspace(0, len(rows) - 1, most).round().astype(int)]


def sibling_factors(document: Document, row: int) -> list[str]:
    """Return tensors whose factor applies to an NVFP4 tensor's weights but is not in its blocks.

    gguf.md section 8: converted files carry a further float32 factor in `….scale`, and one for the
    activations in `….input_scale`; ggml's own decoding does not apply them either.
    """
    tensor = document.model.tensors.rows[row]
    if tensor.type.name != "NVFP4" or tensor.grouped is not None:
        return []
    base = tensor.name.removesuffix(".weight")
    names = (f"{base}.scale", f"{base}.input_scale")
    return [name for name in names if name in document.model.tensors]


def _behind_layer(name: str, parsed: TensorName) -> str:
    return name.removeprefix(f"{parsed.stack}.{parsed.layer}.")
