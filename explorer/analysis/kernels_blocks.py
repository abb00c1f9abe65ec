"""Loops over stored blocks, which decode a piece and take it up while it is in the cache.

The other loops (`explorer.analysis.kernels`) get weights that somebody decoded. With these a thread
runs for milliseconds without Python in between, whose lock two threads would have to pass to each
other: a survey on two of them takes a quarter less time. They know no tensor type, but are given
its decoder, so that one of each is compiled for all types.
"""

from __future__ import annotations

from typing import Any

from explorer.analysis.kernel_fields import LANES
from explorer.analysis.kernels import count_bins, measure
from explorer.quantization.jit import kernel


@kernel
def measure_blocks(  # noqa: PLR0913, PLR0917 - a kernel makes no array
    decode: Any, blocks: Any, weights: Any, sums: Any, tops: Any, figures: Any
) -> Any:
    """Decode blocks piece by piece, and note the statistics of each as `measure` does.

    Args:
        decode: What `registry.decoder_callback` returns.
        blocks: uint8 [n, block_bytes], of whole pieces.
        weights: float32 [PIECE / block_weights, block_weights], to decode to.
        sums: See `measure`.
        tops: See `measure`.
        figures: float64 [at least as many as pieces, FIGURES], to be filled.

    Returns:
        Number of pieces done: fewer than all if one has a weight that is not finite.
    """
    step = weights.shape[0]
    rows = weights.reshape(-1, LANES)
    done = 0
    for first in range(0, blocks.shape[0], step):
        decode(blocks[first : first + step], weights)
        if measure(rows, sums, tops, figures[done:]) == 0:
            break
        done += 1
    return done


@kernel
def count_blocks(  # noqa: PLR0913, PLR0917 - a kernel makes no array
    decode: Any, blocks: Any, weights: Any, edges: Any, geometry: Any, work: Any, counts: Any
) -> None:
    """Decode blocks piece by piece, and count the weights as `count_bins` does.

    Args:
        decode: What `registry.decoder_callback` returns.
        blocks: uint8 [n, block_bytes].
        weights: float32 [PIECE / block_weights, block_weights], to decode to.
        edges: See `count_bins`.
        geometry: See `count_bins`.
        work: See `count_bins`.
        counts: See `count_bins`.
    """
    step = weights.shape[0]
    for first in range(0, blocks.shape[0], step):
        part = blocks[first : first + step]
        piece = weights[: part.shape[0]]
        decode(part, piece)
        count_bins(piece.reshape(-1), edges, geometry, work, counts)
