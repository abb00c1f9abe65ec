"""Another histogram of weights whose statistics are known: one walk instead of two.

Whoever looks at a histogram changes its bins and its range, which changes no other figure.
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.analysis.binning import Binning, Histogram, RunningCounts
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Chunk, Fold, WeightReader, fold_parts
from explorer.parallel import Check, never


def count_weights(
    tensor: Tensor,
    binning: Binning,
    workers: int = 1,
    *,
    cancel: Check | None = None,
    progress: Callable[[int], object] | None = None,
) -> Histogram:
    """Count a tensor's weights by bin; those outside the bins and those not finite are left out.

    Args:
        tensor: The tensor.
        binning: The bins.
        workers: Threads. The result is the same for any number.
        cancel: Called before every chunk, in the thread that reads it; what it raises is passed on.
        progress: Called in the caller's thread with the weights walked over so far.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """

    def begin() -> RunningCounts:
        return RunningCounts([binning])

    def count(counts: RunningCounts, chunk: Chunk) -> None:
        counts.add([chunk.values])

    def watch(_counts: RunningCounts, done: int) -> None:
        if progress is not None:
            progress(done)

    found = fold_parts(
        tensor,
        Fold(begin, count, RunningCounts.combine, WeightReader.chunks, any_order=True),
        workers=workers,
        check=never if cancel is None else cancel,
        watch=watch,
    )
    return binning.histogram(found.totals[0])
