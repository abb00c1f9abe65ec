"""Gathers in a worker what the weights panel shows of one or several tensors.

Statistics come first, with a fine histogram of which any view can be drawn at once; then the very
counts of the bins that were asked for. What is known already is not gathered again. While a tensor
streams, what is known so far is published.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import numpy as np
from PySide6.QtCore import QCoreApplication

from explorer.analysis import (
    BlockStatistics,
    Histogram,
    Snapshot,
    TensorStatistics,
    block_statistics,
)
from explorer.analysis.histogram import Binning, RunningCounts, count_weights
from explorer.analysis.statistics import GrowingStatistics
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor, TensorName, parse_name
from explorer.qt.document import Document, LruCache
from explorer.qt.jobs import Job, drop_frames
from explorer.qt.weights.curves import (
    Figures,
    HistogramRequest,
    HistogramResult,
    SelectedTensor,
    binnings_of,
    curve_of,
    rough_curves,
)
from explorer.qt.widgets.curves import HistogramCurve, histogram_of
from explorer.qt.widgets.pages import Request

_FINE_BINS: Final = 8192  # 128 KiB for each tensor that is remembered
_WALKS: Final = 3  # over the weights: two for statistics, one for the bins asked for
_MOST_WORKERS: Final = 4
_BLOCK_BINS: Final = 256


class Worker(Protocol):
    """What the gathering needs of its job."""

    def check(self) -> None:
        """Raise if the work is no longer wanted."""

    def publish(self, make: Callable[[], object]) -> None:
        """Show what there is so far."""


def worker_count() -> int:
    """Return how many threads share the work on a tensor: one core stays for the window."""
    return max(1, min(_MOST_WORKERS, (os.cpu_count() or 1) - 1))


def read_histograms(
    subjects: Sequence[SelectedTensor], wish: HistogramRequest, recent: LruCache, worker: Worker
) -> HistogramResult:
    """Gather statistics and histograms; called in a worker.

    Of several tensors, those that cannot be read are left out and reported: a damaged one does
    not hide the others.

    Args:
        subjects: The tensors.
        wish: How the histograms are to be.
        recent: What is known already; gets what is found.
        worker: Asked whether to go on, and shown how far it is.

    Raises:
        ExplorerError: The only tensor cannot be read.
        ValueError: The typed range cannot be divided into so many bins.
    """
    return _HistogramJob(subjects, wish, recent, worker).run()


def known(
    subjects: Sequence[SelectedTensor], wish: HistogramRequest, recent: LruCache
) -> HistogramResult | None:
    """Return what `read_histograms` would if it has nothing to do; else None. Never reads."""
    found = [recent.get(_figures_key(subject)) for subject in subjects]
    figures = [each for each in found if isinstance(each, TensorStatistics)]
    if len(figures) < len(subjects):
        return None
    for subject, binning in zip(subjects, binnings_of(figures, wish), strict=True):
        if binning is not None and recent.get(_counts_key(subject, binning)) is None:
            return None
    try:
        return read_histograms(subjects, wish, recent, _Idle())
    except _NotKnown:  # a worker has just pushed something out
        return None


def block_figures(
    subject: SelectedTensor, recent: LruCache, check: Callable[[], None]
) -> BlockStatistics | None:
    """Return the statistics of codes and scales; None if the tensor is not quantized.

    Raises:
        ExplorerError: The tensor cannot be read.
    """
    key = ("blocks", subject.row)
    found = recent.get(key)
    if isinstance(found, BlockStatistics):
        return found
    statistics = block_statistics(subject.tensor, _BLOCK_BINS, worker_count(), check)
    if statistics is not None:
        recent.put(key, statistics)
    return statistics


def blocks_request(subject: SelectedTensor, recent: LruCache) -> Request[BlockStatistics]:
    """Return the request for codes and scales of a quantized tensor."""

    def read(job: Job) -> BlockStatistics:
        blocks = block_figures(subject, recent, job.check)
        assert blocks is not None  # it is quantized
        return blocks

    title = _tr("Reading the blocks of {name}").format(name=subject.name)
    return Request(
        key=("blocks", subject.row, id(recent)),
        title=title,
        heading=_tr("Reading the blocks…"),
        failure=_tr("The blocks could not be read"),
        work=read,
        name=subject.name,
    )


def _tr(text: str) -> str:
    return QCoreApplication.translate("Weights", text)


class _NotKnown(Exception):
    """Raised instead of reading."""


class _Idle:
    """A worker that refuses to read."""

    def check(self) -> None:
        """Refuse to read."""
        raise _NotKnown

    def publish(self, make: Callable[[], object]) -> None:
        """Show nothing."""


class _HistogramJob:
    """One run of `read_histograms`."""

    def __init__(
        self,
        subjects: Sequence[SelectedTensor],
        wish: HistogramRequest,
        recent: LruCache,
        worker: Worker,
    ) -> None:
        self._subjects = subjects
        self._wish = wish
        self._recent = recent
        self._worker = worker
        self._figures: list[Figures] = []
        self._complete: list[TensorStatistics] = []
        self._failures: list[tuple[SelectedTensor, ExplorerError]] = []
        self._total = _WALKS * sum(subject.tensor.parameters for subject in subjects)
        self._done = 0
        self._nbytes = 0.0

    def run(self) -> HistogramResult:
        for subject in self._subjects:
            with self._forgiving(subject):
                self._describe(subject)
        binnings = binnings_of(self._complete, self._wish)
        curves = []
        for figures, binning in zip(self._figures, binnings, strict=True):
            with self._forgiving(figures.subject):
                histogram = self._count(figures.subject, binning)
                curves.append(curve_of(figures, histogram))
        drawn = {curve.row for curve in curves}
        return HistogramResult(
            figures=tuple(each for each in self._figures if each.subject.row in drawn),
            curves=tuple(curves),
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
        """Gather statistics and the fine histogram of a tensor."""
        key = _figures_key(subject)
        found = self._recent.get(key)
        if not isinstance(found, TensorStatistics):
            growing = GrowingStatistics(
                subject.tensor, _FINE_BINS, None, worker_count(), self._worker.check, snapshots=True
            )
            with closing(growing.walk()) as walk:
                for _ in walk:
                    self._worker.publish(lambda: self._so_far(subject, growing.snapshot()))
            found = growing.statistics
            self._recent.put(key, found)
        self._advance(subject, 2 * subject.tensor.parameters)
        self._figures.append(Figures(subject, found, found))
        self._complete.append(found)

    def _count(self, subject: SelectedTensor, binning: Binning | None) -> Histogram:
        """Count the bins that were asked for."""
        if binning is None:  # of no finite weight
            return histogram_of(np.array([0.0, 1.0]), np.zeros(1, np.int64))
        key = _counts_key(subject, binning)
        found = self._recent.get(key)
        if not isinstance(found, Histogram):
            curves = self._rough_curves()
            counts = RunningCounts([binning])
            walk = count_weights(subject.tensor, counts, worker_count(), self._worker.check)
            with closing(walk):
                for done in walk:
                    self._worker.publish(partial(self._state, tuple(self._figures), curves, done))
            found = binning.histogram(counts.totals[0])
            self._recent.put(key, found)
        self._advance(subject, subject.tensor.parameters)
        return found

    def _advance(self, subject: SelectedTensor, weights: int) -> None:
        self._done += weights
        self._nbytes += weights * _bytes_per_weight(subject.tensor)

    def _so_far(self, subject: SelectedTensor, snapshot: Snapshot) -> HistogramResult:
        """Return what is known while a tensor streams."""
        growing = Figures(subject, snapshot.moments, None)
        fine = [figures.histogram for figures in self._complete] + [snapshot.histogram]
        figures = (*self._figures, growing)
        curves = rough_curves(figures, fine, self._wish)
        state = self._state(figures, curves, snapshot.done)
        return replace(
            state, nbytes=round(self._nbytes + snapshot.done * _bytes_per_weight(subject.tensor))
        )

    def _rough_curves(self) -> tuple[HistogramCurve, ...]:
        fine = [figures.complete.histogram for figures in self._figures if figures.complete]
        return rough_curves(self._figures, fine, self._wish)

    def _state(
        self, figures: tuple[Figures, ...], curves: tuple[HistogramCurve, ...], done: int
    ) -> HistogramResult:
        return HistogramResult(
            figures, curves, False, self._done + done, self._total, round(self._nbytes)
        )


def _figures_key(subject: SelectedTensor) -> tuple[object, ...]:
    return ("figures", subject.row)


def _counts_key(subject: SelectedTensor, binning: Binning) -> tuple[object, ...]:
    edges = binning.edges
    return ("counts", subject.row, binning.bins, float(edges[0]), float(edges[-1]))


def _bytes_per_weight(tensor: Tensor) -> float:
    return tensor.nbytes / tensor.parameters if tensor.parameters else 0.0


# Which tensors are shown together: the same role in every layer, and never too many at once.


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
