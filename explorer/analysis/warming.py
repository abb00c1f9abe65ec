"""Compiles what the first histogram of a tensor type needs, before anybody asks for it.

By doing it: a tensor of a few zeros goes the way that all tensors go. So no list of kernels and
their argument types has to be kept in step with the code. What all types need is apart from what
one type needs, so that two processes can compile them at the same time; and what a first look takes
is apart from what makes it exact, so that there is something to look at meanwhile.
"""

from __future__ import annotations

import contextlib

import numpy as np

from explorer.analysis.blocks import RunningScales, block_statistics, unpacker_of
from explorer.analysis.histogram import Binning, RunningCounts
from explorer.analysis.kernel_api import PIECE, BlockDecoding
from explorer.analysis.moments import RunningMoments
from explorer.analysis.statistics import tensor_statistics
from explorer.formats.tensors import Extent, GroupedWeights, StoredArray, Tensor
from explorer.formats.weights import WeightReader
from explorer.quantization.grouped import AFFINE_SCALES, GroupedLayout, Mode
from explorer.quantization.kernel_sets import (
    GENERAL,
    grouped_layout,
    is_exact,
    is_later,
    is_rounding,
    is_weighed,
    meant_by,
    rounds_to,
)
from explorer.quantization.types import TENSOR_TYPES
from explorer.sources import MemorySource


def warm_up(kernel_set: str) -> None:
    """Compile one of `explorer.quantization.kernel_sets`, or load it from disk.

    Raises:
        FormatError: It is a type whose weights cannot be decoded.
    """
    name = meant_by(kernel_set)
    if is_later(kernel_set):
        if name == GENERAL:
            warm_up_narrow_ranges()
        else:
            warm_up_blocks(name)
            warm_up_errors(name)
    elif is_rounding(kernel_set):
        warm_up_rounding(rounds_to(kernel_set), is_weighed(kernel_set))
    elif is_exact(kernel_set):
        if name == GENERAL:
            warm_up_statistics()
        else:
            warm_up_splitting(name)
    elif name == GENERAL:
        warm_up_first_look()
    else:
        warm_up_reading(name)


def warm_up_first_look() -> None:
    """Compile what a first histogram of any type needs, or load it from disk."""
    with contextlib.suppress(_Enough):
        tensor_statistics(_zeros("F32"), 1, progress=lambda _snapshot: None, between=_stop)


def warm_up_statistics() -> None:
    """The same for exact statistics and histograms of any type."""
    tensor_statistics(_zeros("F32"), 1, progress=lambda _snapshot: None)
    kind = TENSOR_TYPES["Q8_0"]  # whose decoder takes least to compile
    blocks = np.zeros((PIECE // kind.block_weights, kind.block_bytes), np.uint8)
    decoding = BlockDecoding(kind)
    RunningMoments().add_blocks(blocks, decoding)
    RunningCounts([Binning.of_weights(0, 0, 1)]).add_blocks(blocks, decoding)
    RunningScales().add(np.zeros(1, np.float32))


def warm_up_reading(type_name: str) -> None:
    """The same for what one type needs besides for a first look: to decode its blocks.

    Args:
        type_name: A type that can be decoded, such as ``"Q4_K"``, or a quantization whose scales
            are arrays of their own, such as ``"int4"``.

    Raises:
        FormatError: Weights of that type cannot be decoded.
    """
    for _chunk in _zeros(type_name).chunks():
        pass


def warm_up_splitting(type_name: str) -> None:
    """The same for what statistics take of the blocks of one type: their scales.

    Raises:
        FormatError: Weights of that type cannot be decoded.
    """
    tensor = _zeros(type_name)
    unpacker = unpacker_of(tensor)
    if unpacker is not None:
        for stored in WeightReader(tensor).runs(0, tensor.parameters):
            unpacker.scales(stored)


def warm_up_rounding(type_name: str, weighed: bool = False) -> None:
    """The same for rounding weights to a type and back.

    Args:
        type_name: The type.
        weighed: Whether columns count by importance.

    Raises:
        ExplorerError: Weights cannot be rounded to it.
    """
    # what one looks at first is not to wait for this module
    from explorer.analysis.rounding import rounder  # noqa: PLC0415 - see above

    layout = grouped_layout(type_name)
    has_scale_types = layout is not None and layout.mode is Mode.AFFINE
    for scale_type in AFFINE_SCALES if has_scale_types else AFFINE_SCALES[:1]:
        rounding = rounder(type_name, scale_type)
        size = rounding.type.block_weights
        rounding.round(np.zeros(size, np.float32), np.ones(size, np.float32) if weighed else None)
        if rounding.levels is not None:
            rounding.codes()


def warm_up_blocks(type_name: str) -> None:
    """The same for maps, and for the statistics of codes and scales, if the type has any.

    Raises:
        FormatError: Weights of that type cannot be decoded.
    """
    # what one looks at first is not to wait for these modules
    from explorer.analysis.tensor_map.draw import (  # noqa: PLC0415 - see above
        Quantity,
        draw_map,
        tensor_source,
    )
    from explorer.analysis.tensor_map.map import Grid, Window  # noqa: PLC0415 - see above

    tensor = _zeros(type_name)
    block_statistics(tensor, 1)
    draw_map(tensor_source(tensor, Quantity.VALUE), Grid(Window(0, 0, 1, 1), 1, 1))


def warm_up_errors(type_name: str) -> None:
    """The same for figures and pictures of errors.

    Raises:
        FormatError: Weights of that type cannot be decoded.
    """
    # what one looks at first is not to wait for these modules
    from explorer.analysis.errors.pairs import MatchedPair  # noqa: PLC0415 - see above
    from explorer.analysis.errors.pictures import picture_errors  # noqa: PLC0415 - see above
    from explorer.analysis.matching import Match, TensorView  # noqa: PLC0415 - see above

    view = TensorView.of(_zeros(type_name))
    picture_errors(MatchedPair(Match(view, view)), progress=lambda _picture: None)


def warm_up_narrow_ranges() -> None:
    """The same for histograms over a range that float32 cannot divide."""
    values = np.ones(1, np.float32)
    RunningCounts([Binning.of_range(1.0, 1.0 + 2.0**-40, 1)]).add([values])


class _Enough(Exception):
    """Ends statistics after their first walk."""


def _stop() -> None:
    raise _Enough


def _zeros(type_name: str) -> Tensor:
    """Return a tensor of one block, or of one group, whose bytes are zeros."""
    layout = grouped_layout(type_name)
    if layout is not None:
        return _grouped_zeros(layout)
    kind = TENSOR_TYPES[type_name]
    weights = kind.block_weights
    return Tensor("zeros", (weights,), kind, (_zero_bytes(kind.block_bytes),), weights)


def _grouped_zeros(layout: GroupedLayout) -> Tensor:
    def stored(type_name: str | None, nbytes: int) -> StoredArray | None:
        if type_name is None:
            return None
        return StoredArray(_zero_bytes(nbytes), TENSOR_TYPES[type_name], (1, nbytes))

    codes = stored("U8", layout.packed_bytes)
    scales = stored(layout.scale_type, layout.scale_bytes)
    assert codes is not None
    assert scales is not None
    grouped = GroupedWeights(
        codes, scales, stored(layout.bias_type, layout.bias_bytes), None, layout
    )
    extents = tuple(array.extent for array in grouped.arrays)
    weights = layout.group_size
    return Tensor("zeros", (1, weights), layout.type, extents, weights, grouped=grouped)


def _zero_bytes(count: int) -> Extent:
    return Extent(MemorySource(bytes(count)), 0, count)
