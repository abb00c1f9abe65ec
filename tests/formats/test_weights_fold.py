"""Folding over chunks: order, threads that end, errors that arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from explorer.errors import SourceError
from explorer.formats import weights as weights_fold
from explorer.formats.weights import SPAN_WEIGHTS, Chunk, Fold, WeightReader, fold_parts, map_spans
from explorer.sources import MemorySource
from tests.helpers.tensors import float_tensor, tensor_of
from tests.helpers.threads import own_threads

_COUNT = 5 * SPAN_WEIGHTS + 12_345


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = own_threads()
    yield
    assert set(own_threads()) <= set(before)


@pytest.fixture(scope="module")
def bytes_tensor() -> object:
    return tensor_of("U8", np.arange(_COUNT, dtype=np.uint8).tobytes(), (_COUNT,))


def _runs(chunks: Iterator[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.start, chunk.start + chunk.values.size) for chunk in chunks]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_spans_come_in_order_and_cover_everything(bytes_tensor: object, workers: int) -> None:
    spans = list(map_spans(bytes_tensor, _runs, walk=WeightReader.chunks, workers=workers))  # type: ignore[arg-type]
    runs = [run for span in spans for run in span.result]
    assert [start for start, _ in runs] == [0, *(stop for _, stop in runs[:-1])]
    assert runs[-1][1] == _COUNT
    assert [(span.result[0][0], span.result[-1][1]) for span in spans] == [
        (span.start, span.stop) for span in spans
    ]


def test_the_result_is_the_same_on_any_number_of_threads() -> None:
    random = np.random.default_rng(3)
    tensor = float_tensor(random.normal(size=3 * SPAN_WEIGHTS).astype(np.float32))

    def add(total: list[float], chunk: Chunk) -> None:
        total[0] = total[0] * 0.999 + float(chunk.values.sum())  # depends on the order

    def combine(total: list[float], other: list[float]) -> None:
        total[0] = total[0] * 0.5 + other[0]

    fold = Fold(lambda: [0.0], add, combine, WeightReader.chunks)
    told: list[int] = []
    results = [
        fold_parts(tensor, fold, workers=workers, watch=lambda _state, done: told.append(done))
        for workers in (1, 2, 4)
    ]
    assert results[0] == results[1] == results[2]
    assert told == [SPAN_WEIGHTS, 2 * SPAN_WEIGHTS, 3 * SPAN_WEIGHTS] * 3


@pytest.mark.parametrize("workers", [1, 3])
def test_states_are_kept_where_order_does_not_matter(bytes_tensor: object, workers: int) -> None:
    made: list[list[int]] = []

    def begin() -> list[int]:
        made.append([0, 0])
        return made[-1]

    def add(state: list[int], chunk: Chunk) -> None:
        state[0] += chunk.values.size
        state[1] += int(chunk.values.astype(np.int64).sum())

    def combine(state: list[int], other: list[int]) -> None:
        state[0] += other[0]
        state[1] += other[1]

    told: list[int] = []
    fold = Fold(begin, add, combine, WeightReader.chunks, any_order=True)
    found = fold_parts(
        bytes_tensor,  # type: ignore[arg-type]
        fold,
        workers=workers,
        watch=lambda _state, done: told.append(done),
    )
    expected = int(np.arange(_COUNT, dtype=np.uint8).astype(np.int64).sum())
    assert found == [_COUNT, expected]
    assert len(made) <= 1 + workers
    assert told[-1] == _COUNT


@pytest.mark.parametrize("workers", [1, 3])
def test_what_the_check_raises_arrives(bytes_tensor: object, workers: int) -> None:
    lock, calls = threading.Lock(), [0]

    def check() -> None:
        with lock:
            calls[0] += 1
            if calls[0] > 20:
                raise InterruptedError

    with pytest.raises(InterruptedError):
        list(map_spans(bytes_tensor, _runs, walk=WeightReader.chunks, workers=workers, check=check))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_the_function_raises_arrives(bytes_tensor: object, workers: int) -> None:
    def work(chunks: Iterator[Chunk]) -> None:
        if next(chunks).start >= 2 * SPAN_WEIGHTS:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(map_spans(bytes_tensor, work, walk=WeightReader.chunks, workers=workers))  # type: ignore[arg-type]


def test_threads_do_not_run_far_ahead_of_a_slow_caller(
    bytes_tensor: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights_fold, "_AHEAD", 1)
    taken, ahead = [0], []

    def work(chunks: Iterator[Chunk]) -> None:
        ahead.append(next(chunks).start // SPAN_WEIGHTS - taken[0])

    for span in map_spans(bytes_tensor, work, walk=WeightReader.chunks, workers=2):  # type: ignore[arg-type]
        taken[0] = span.stop // SPAN_WEIGHTS
        time.sleep(0.005)  # the others could do everything meanwhile
    assert len(ahead) == 6
    assert max(ahead) <= 2


def test_threads_stop_when_nobody_takes_the_rest(bytes_tensor: object) -> None:
    started = []

    def work(chunks: Iterator[Chunk]) -> None:
        for chunk in chunks:
            started.append(chunk.start)

    before = own_threads()
    with closing(map_spans(bytes_tensor, work, walk=WeightReader.chunks, workers=2)) as spans:  # type: ignore[arg-type]
        next(spans)
    assert set(own_threads()) <= set(before)


class _Cut(MemorySource):
    """Loses its second half, as a file that somebody truncates."""

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        if offset + len(buffer) > self.size // 2:
            raise SourceError("became shorter while it was open", self.path, offset)
        super().read_into(offset, buffer)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_source_that_fails_in_a_thread(workers: int) -> None:
    tensor = tensor_of("U8", _Cut(bytes(_COUNT), "cut.gguf"), (_COUNT,))
    with pytest.raises(SourceError, match=r"cut\.gguf.*became shorter"):
        list(map_spans(tensor, _runs, walk=WeightReader.chunks, workers=workers))
