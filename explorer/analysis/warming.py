"""Compiles what the first histogram of a tensor type needs, before anybody asks for it.

By doing it: a tensor of a few zeros goes the way that all tensors go. So no list of kernels and
their argument types has to be kept in step with the code.
"""

from __future__ import annotations

from typing import Final

from explorer.analysis.blocks import block_statistics
from explorer.analysis.statistics import tensor_statistics
from explorer.formats.tensors import Extent, Tensor
from explorer.quantization.types import TENSOR_TYPES
from explorer.sources import MemorySource

GENERAL: Final = "F32"
"""The type whose warming compiles next to nothing but what all types need."""


def warm_up_statistics(type_name: str) -> None:
    """Compile what statistics and histograms of a type need, or load it from disk.

    Args:
        type_name: A type that can be decoded, such as ``"Q4_K"``.

    Raises:
        FormatError: Weights of that type cannot be decoded.
    """
    tensor_statistics(_zeros(type_name), 1, progress=lambda _snapshot: None)


def warm_up_blocks(type_name: str) -> None:
    """The same for the statistics of codes and scales, if the type has any.

    Raises:
        FormatError: Weights of that type cannot be decoded.
    """
    block_statistics(_zeros(type_name), 1)


def _zeros(type_name: str) -> Tensor:
    """Return a tensor of one block whose bytes are zeros."""
    kind = TENSOR_TYPES[type_name]
    source = MemorySource(bytes(kind.block_bytes))
    extent = Extent(source, 0, source.size)
    return Tensor("zeros", (kind.block_weights,), kind, (extent,), kind.block_weights)
