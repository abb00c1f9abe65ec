"""Read in a worker what the weights panel shows of one or several tensors.

Statistics come first, with a fine histogram from which any range can be drawn roughly; then the
exact counts of the bins that were asked for. Both are cached. While a tensor streams, what is known
so far is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Final, Protocol

import numpy as np

from explorer.analysis.blocks import BlockStatistics, block_statistics
from explorer.analysis.histogram import Binning, Histogram, RunningCounts, count_weights
from explorer.analysis.statistics import GrowingStatistics, TensorStatistics
from explorer.errors import ExplorerError, drop_frames
from explorer.formats.tensors import TensorName, parse_name
from explorer.parallel import LruCache
from explorer.qt.document import Document
from explorer.qt.jobs import Job, worker_count
from explorer.qt.weights.curves import (
    HistogramRequest,
    HistogramResult,
    SelectedTensor,
    SubjectStatistics,
    binnings_of,
    curve_of,
    rough_curves,
)
from explorer.qt.widgets.curves import histogram_of
from explorer.qt.widgets.pages import Request

_FINE_BINS: Final = 8192  # 128 KiB for each tensor in the cache
_WALKS: Final = 3  # over the weights: two for statistics, one for the bins asked for
_BLOCK_BINS: Final = 256
_NO_COUNTS: Final = histogram_of(np.array([0.0, 1.0]), np.zeros(1, np.int64))


class Worker(Protocol):
    """What reading needs of its job."""

    def check(self) -> None:
        """Raise if the work is no longer wanted."""

    def publish(self, make: Callable[[], object]) -> None:
        """Show what there is so far."""


def read_histograms(
    subjects: Sequence[SelectedTensor], request: HistogramRequest, cache: LruCache, worker: Worker
) -> HistogramResult:
    """Read statistics and histograms; called in a worker.

    Of several tensors, those that cannot be read are left out and reported: a damaged one does
    not hide the others.

    Args:
        subjects: The tensors.
        request: How the histograms are to be.
        cache: What is known already; gets what is found.
        worker: Is asked whether to go on, and publishes what is known so far.

    Raises:
        ExplorerError: The only tensor cannot be read.
        ValueError: The typed range cannot be divided into so many bins.
    """
    return _Reading(subjects, request, cache, worker).run()


def known(
    subjects: Sequence[SelectedTensor], request: HistogramRequest, cache: LruCache
) -> HistogramResult | None:
    """Return what `read_histograms` would if all of it is cached; else None. Never reads."""
    found = [cache.find(_statistics_key(subject), TensorStatistics) for subject in subjects]
    complete = [each for each in found if each is not None]
    if len(complete) < len(subjects):
        return None
    statistics = tuple(map(SubjectStatistics, subjects, complete, complete))
    curves = []
    for each, binning in zip(statistics, binnings_of(complete, request), strict=True):
        counts = _known_counts(each.subject, binning, cache)
        if counts is None:
            return None
        curves.append(curve_of(each, counts))
    return HistogramResult(statistics, tuple(curves), exact=True)


def blocks_request(subject: SelectedTensor, cache: LruCache) -> Request[BlockStatistics]:
    """Return the request for codes and scales of a quantized tensor."""

    key = ("blocks", subject.row)

    def read(job: Job) -> BlockStatistics:
        blocks = block_statistics(subject.tensor, _BLOCK_BINS, worker_count(), job.check)
        assert blocks is not None  # it is quantized
        return blocks

    return Request(
        key=(*key, id(cache)),
        title=f"Reading the blocks of {subject.name}",
        heading="Reading the blocks…",
        failure="The blocks could not be read",
        work=cache.keeping(key, read),
        name=subject.name,
        known=lambda: cache.find(key, BlockStatistics),
        tensors=(subject.tensor,),
    )


class _Reading:
    """One run of `read_histograms`."""

    def __init__(
        self,
        subjects: Sequence[SelectedTensor],
        request: HistogramRequest,
        cache: LruCache,
        worker: Worker,
    ) -> None:
        self._subjects, self._request = subjects, request
        self._cache, self._worker = cache, worker
        self._statistics: list[SubjectStatistics] = []
        self._complete: list[TensorStatistics] = []
        self._failures: list[tuple[SelectedTensor, ExplorerError]] = []
        self._total = _WALKS * sum(subject.tensor.parameters for subject in subjects)
        self._done = 0
        self._nbytes = 0.0

    def run(self) -> HistogramResult:
        for subject in self._subjects:
            with self._forgiving(subject):
                self._describe(subject)
        binnings = binnings_of(self._complete, self._request)
        curves = []
        for each, binning in zip(self._statistics, binnings, strict=True):
            with self._forgiving(each.subject):
                curves.append(curve_of(each, self._count(each.subject, binning)))
        drawn = {curve.row for curve in curves}
        return HistogramResult(
            tuple(each for each in self._statistics if each.subject.row in drawn),
            tuple(curves),
            exact=True,
            done=self._total,
            total=self._total,
            nbytes=round(self._nbytes),
            failures=tuple(self._failures),
        )

    @contextmanager
    def _forgiving(self, subject: SelectedTensor) -> Iterator[None]:
        """Note what cannot be read, so that the others are shown; of one tensor, pass it on."""
        try:
            yield
        except ExplorerError as error:
            if len(self._subjects) == 1:
                raise
            drop_frames(error)
            self._failures.append((subject, error))

    def _describe(self, subject: SelectedTensor) -> None:
        """Read statistics and the fine histogram of a tensor."""
        key = _statistics_key(subject)
        found = self._cache.find(key, TensorStatistics)
        if found is None:
            reading = GrowingStatistics(
                subject.tensor, _FINE_BINS, None, worker_count(), self._worker.check, rough=True
            )
            with closing(reading.walk()) as walk:
                for _ in walk:
                    self._worker.publish(partial(self._growing, subject, reading))
            found = reading.statistics
            self._cache.put(key, found)
        self._advance(subject, 2)
        self._statistics.append(SubjectStatistics(subject, found, found))
        self._complete.append(found)

    def _growing(self, subject: SelectedTensor, reading: GrowingStatistics) -> HistogramResult:
        """Return what is known while the statistics of a tensor are read."""
        moments, rough = reading.so_far()
        statistics = *self._statistics, SubjectStatistics(subject, moments, None)
        return self._so_far(statistics, reading.done, subject, rough)

    def _count(self, subject: SelectedTensor, binning: Binning | None) -> Histogram:
        found = _known_counts(subject, binning, self._cache)
        if found is None:
            assert binning is not None
            counts = RunningCounts([binning])
            walk = count_weights(subject.tensor, counts, worker_count(), self._worker.check)
            with closing(walk):
                for done in walk:
                    self._worker.publish(partial(self._so_far, self._statistics, done, subject))
            found = binning.histogram(counts.totals[0])
            self._cache.put(_counts_key(subject, binning), found)
        self._advance(subject, 1)
        return found

    def _advance(self, subject: SelectedTensor, walks: int) -> None:
        self._done += walks * subject.tensor.parameters
        self._nbytes += walks * subject.tensor.nbytes

    def _so_far(
        self,
        statistics: Sequence[SubjectStatistics],
        done: int,
        subject: SelectedTensor,
        *growing: Histogram,
    ) -> HistogramResult:
        fine = [each.histogram for each in self._complete]
        curves = rough_curves(statistics, [*fine, *growing], self._request)
        nbytes = round(self._nbytes + done * subject.tensor.bits_per_weight / 8)
        return HistogramResult(
            tuple(statistics), curves, False, self._done + done, self._total, nbytes
        )


def _statistics_key(subject: SelectedTensor) -> tuple[object, ...]:
    return ("statistics", subject.row)


def _counts_key(subject: SelectedTensor, binning: Binning) -> tuple[object, ...]:
    edges = binning.edges
    return ("counts", subject.row, binning.bins, float(edges[0]), float(edges[-1]))


def _known_counts(
    subject: SelectedTensor, binning: Binning | None, cache: LruCache
) -> Histogram | None:
    if binning is None:  # no weight is finite
        return _NO_COUNTS
    return cache.find(_counts_key(subject, binning), Histogram)


MOST_TENSORS: Final = 32
"""Most tensors that are shown together: more lines cannot be distinguished."""


def same_role(document: Document, row: int) -> list[int]:
    """Return the tensors that do in other layers what one does in its own, by layer.

    A tensor outside the layers stands for itself.
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

    docs/gguf.md section 8: converted files have another float32 factor in `….scale`, and one
    for activations in `….input_scale`; ggml's own decoding does not apply them either.
    """
    tensor = document.model.tensors.rows[row]
    if tensor.type.name != "NVFP4":
        return []
    base = tensor.name.removesuffix(".weight")
    names = (f"{base}.scale", f"{base}.input_scale")
    return [name for name in names if name in document.model.tensors]


def _behind_layer(name: str, parsed: TensorName) -> str:
    return name.removeprefix(f"{parsed.stack}.{parsed.layer}.")
