"""Spans of a tensor: they cover it, give the same on any number of threads, and pass on errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from explorer.errors import SourceError
from explorer.formats import Tensor
from explorer.formats.weights import SPAN_WEIGHTS, Span, spans_of
from explorer.parallel import Check, map_in_order
from explorer.sources import MemorySource
from tests.helpers.tensors import float_tensor, random_blocks, tensor_of

_COUNT = 5 * SPAN_WEIGHTS + 12_345


@pytest.fixture(scope="module")
def bytes_tensor() -> Tensor:
    return tensor_of("U8", np.arange(_COUNT, dtype=np.uint8).tobytes(), (_COUNT,))


def _runs(span: Span, check: Check) -> list[tuple[int, int]]:
    return [(chunk.start, chunk.start + chunk.values.size) for chunk in span.chunks(check)]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_spans_come_in_order_and_cover_everything(bytes_tensor: Tensor, workers: int) -> None:
    with map_in_order(spans_of(bytes_tensor), _runs, workers=workers) as results:
        found = list(results)
    runs = [run for _, of_span in found for run in of_span]
    assert [start for start, _ in runs] == [0, *(stop for _, stop in runs[:-1])]
    assert runs[-1][1] == _COUNT
    assert [(of_span[0][0], of_span[-1][1]) for _, of_span in found] == [
        (span.start, span.stop) for span, _ in found
    ]


def test_runs_are_whole_blocks_that_are_not_decoded() -> None:
    blocks = random_blocks("Q6_K", 10_000)
    tensor = tensor_of("Q6_K", blocks.tobytes(), (10_000, 256))
    spans = list(spans_of(tensor))
    assert len(spans) == 2
    assert all(span.start % 256 == span.stop % 256 == 0 for span in spans)
    runs = [np.copy(run) for span in spans for run in span.runs(lambda: None)]
    np.testing.assert_array_equal(np.concatenate(runs), blocks)


def test_the_result_is_the_same_on_any_number_of_threads() -> None:
    random = np.random.default_rng(3)
    tensor = float_tensor(random.normal(size=3 * SPAN_WEIGHTS).astype(np.float32))

    def work(span: Span, check: Check) -> float:
        total = 0.0
        for chunk in span.chunks(check):
            total = total * 0.999 + float(chunk.values.sum())  # depends on the order
        return total

    found = []
    for workers in (1, 2, 4):
        with map_in_order(spans_of(tensor), work, workers=workers) as results:
            found.append([part for _, part in results])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_the_check_raises_arrives(bytes_tensor: Tensor, workers: int) -> None:
    lock, calls = threading.Lock(), [0]

    def check() -> None:
        with lock:
            calls[0] += 1
            if calls[0] > 20:
                raise InterruptedError

    with (
        pytest.raises(InterruptedError),
        map_in_order(spans_of(bytes_tensor), _runs, workers=workers, check=check) as results,
    ):
        list(results)
    assert calls[0] <= 20 + workers


class _Cut(MemorySource):
    """Loses its second half, as a truncated file does."""

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        if offset + len(buffer) > self.size // 2:
            raise SourceError("became shorter while it was open", self.path, offset)
        super().read_into(offset, buffer)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_source_that_fails_in_a_thread(workers: int) -> None:
    tensor = tensor_of("U8", _Cut(bytes(_COUNT), "cut.gguf"), (_COUNT,))
    with (
        pytest.raises(SourceError, match=r"cut\.gguf.*became shorter"),
        map_in_order(spans_of(tensor), _runs, workers=workers) as results,
    ):
        list(results)
