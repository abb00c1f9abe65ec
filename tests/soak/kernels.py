"""Compile all kernels, for what is measured afterwards: `python -m tests.soak.kernels`.

No list of kernels and argument types has to follow the code: a tensor of a few zeros of each type
goes the way that every tensor goes, through statistics, block statistics, maps, errors, rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from explorer.analysis import rounding
from explorer.analysis.blocks import block_statistics
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.errors.pictures import picture_errors
from explorer.analysis.histogram import Binning, RunningCounts
from explorer.analysis.kernel_api import PIECE
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView
from explorer.analysis.statistics import GrowingStatistics
from explorer.analysis.tensor_map.draw import Quantity, draw_map, tensor_source
from explorer.analysis.tensor_map.map import Grid, Window
from explorer.formats.model import ProblemLog
from explorer.formats.quantized.declaration import Declaration
from explorer.formats.safetensors.groups import Stored, StoredTensors, join_companions
from explorer.formats.tensors import Extent, Spec, Tensor
from explorer.quantization.grouped.layout import AFFINE_SCALES
from explorer.quantization.registry import has_decoder
from explorer.quantization.types import TENSOR_TYPES
from explorer.sources import MemorySource
from tests.helpers.grouped_tensors import LAYOUTS, grouped_tensor


def compile_all_kernels() -> None:
    """Compile the kernels of all types, or load them from disk."""
    for tensor in zero_tensors():
        compile_analysis(tensor)
    for name in rounding.rounding_types():
        for scale_type in AFFINE_SCALES:
            compile_rounding(name, scale_type)
    compile_rounding("nf4", columns=60)  # what fills no word of codes has a kernel of its own
    values = np.ones(1, np.float32)  # a range that float32 cannot divide has a kernel of its own
    RunningCounts([Binning.of_range(1.0, 1.0 + 2.0**-40, 1)]).add([values])


def compile_analysis(tensor: Tensor) -> None:
    """Compile what statistics, maps and errors of a tensor need.

    Raises:
        FormatError: Weights of its type cannot be decoded.
    """
    growing = GrowingStatistics(tensor, 1, rough=True)
    for _ in growing.walk():
        growing.so_far()
    block_statistics(tensor, 1)
    list(draw_map(tensor_source(tensor, Quantity.VALUE), Grid(Window(0, 0, 1, 1), 1, 1)))
    view = TensorView.of(tensor)
    list(picture_errors(MatchedPair(Match(view, view))))


def compile_rounding(type_name: str, scale_type: str = "BF16", columns: int = 256) -> None:
    """Compile what rounding weights to a type and back needs, with importance and without.

    Raises:
        ExplorerError: Weights cannot be rounded to it.
    """
    wanted = rounding.scheme_of(type_name)
    rows = 256 if wanted is not None and columns == 256 else 1
    shape = rows, columns  # if 256, whole blocks of every type
    whole = None if wanted is None else rounding.whole_finder(wanted, shape).whole()
    rounder = rounding.rounder(type_name, scale_type, shape, whole)
    size = math.prod(shape)
    rounder.round(np.zeros(size, np.float32), np.ones(size, np.float32))
    if rounding.rounding_problem(type_name, weighed=False) is None:
        rounder.round(np.zeros(size, np.float32), None)
    if rounder.levels is not None:
        rounder.codes()


def zero_tensors() -> Iterator[Tensor]:
    """Yield a tensor of `PIECE` zeros, or one group of them, for each type that can be decoded."""
    for kind in TENSOR_TYPES.values():
        if has_decoder(kind.name):
            shape = kind.rows, max(PIECE // kind.rows, kind.block_weights)
            stored = kind.nbytes_of(shape)
            assert stored is not None  # its rows are whole
            yield Tensor("zeros", shape, kind, (_zero_bytes(stored),), shape[0] * shape[1])
    for layout in LAYOUTS:
        yield grouped_tensor(layout, np.zeros((1, layout.group_size), np.float32))
    yield from companion_zeros()


_COMPANIONS: Final[dict[str, dict[str, tuple[str, tuple[int, ...]]]]] = {
    "gptq": {
        **{"qweight": ("I32", (8, 64)), "qzeros": ("I32", (2, 8)), "scales": ("F16", (2, 64))},
        "g_idx": ("I32", (64,)),  # zeros are an order of columns that needs the other kernel
    },
    "awq": {"qweight": ("I32", (64, 8)), "qzeros": ("I32", (2, 8)), "scales": ("F16", (2, 64))},
    "int8": {"weight": ("I8", (2, 64)), "SCB": ("F32", (2,))},
    "fp8": {"weight": ("F8_E4M3", (128, 128)), "weight_scale_inv": ("F32", (1, 1))},
    "table": {"weight": ("F8_E5M2", (128, 128)), "weight_scale_inv": ("F32", (1, 1))},
    "fp4": {"weight_packed": ("U8", (2, 32)), "weight_scale": ("U8", (2, 2))},
}
"""Stored parts of a weight of each kind; others have the same kernels."""


def companion_zeros() -> Iterator[Tensor]:
    """Yield a weight with companions for each of the ways that their codes are packed."""
    for name, parts in _COMPANIONS.items():
        stored = []
        for part, (dtype, shape) in parts.items():
            kind, count = TENSOR_TYPES[dtype], math.prod(shape)
            nbytes = count * kind.block_bytes
            spec = Spec(kind, shape, count, nbytes)
            key = f"{name}.{part}"
            stored.append(Stored(key, spec, _zero_bytes(nbytes), None, key, {}))
        tensors = StoredTensors.of(stored)
        yield from join_companions(tensors, {}, Declaration(), {}, ProblemLog()).table.rows


def _zero_bytes(count: int) -> Extent:
    return Extent(MemorySource(bytes(count)), 0, count)


if __name__ == "__main__":
    compile_all_kernels()
