"""Weights in files of other programs: every value, of any shape, and nothing in memory at once."""

from __future__ import annotations

import io
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import FormatError
from explorer.formats import Tensor
from explorer.formats.export import npy_bytes, write_csv, write_npy
from explorer.formats.weights import CHUNK_WEIGHTS
from tests.helpers.tensors import float_tensor, random_blocks, tensor_of

_LEAST = np.float32(1e-45)  # the smallest number above zero
_ODD = [np.nan, np.inf, -np.inf, -0.0, 0.1, _LEAST, np.finfo("f4").max, 1 + np.finfo("f4").eps]
_BITS = st.integers(0, 2**32 - 1)


class Stop(Exception):
    """Somebody no longer wants the file."""


def _csv(tensor: Tensor) -> str:
    stream = io.StringIO()
    write_csv(tensor, stream)
    return stream.getvalue()


def _read(text: str) -> np.ndarray:
    """Return what another program reads: NumPy, which knows nothing of how it was written."""
    return np.loadtxt(io.StringIO(text), dtype=np.float32, delimiter=",", ndmin=2)


@given(st.lists(_BITS, min_size=6, max_size=6))
def test_csv_gives_the_same_float32_back(bits: list[int]) -> None:
    values = np.array(bits, "<u4").view("<f4")
    found = _read(_csv(float_tensor(values, (2, 3))))
    np.testing.assert_array_equal(found, values.reshape(2, 3))
    signs = ~np.isnan(values)  # of a NaN nothing but that it is one
    np.testing.assert_array_equal(np.signbit(found.ravel())[signs], np.signbit(values)[signs])


def test_csv_names_what_is_no_number() -> None:
    text = _csv(float_tensor(_ODD, (2, 4)))
    first, second = text.splitlines()
    assert first == "nan,inf,-inf,-0"
    np.testing.assert_array_equal(np.float32(second.split(",")), np.float32(_ODD[4:]))


@pytest.mark.parametrize(
    ("shape", "lines", "columns"),
    [
        ((), 1, 1),
        ((6,), 1, 6),
        ((6, 1), 6, 1),
        ((2, 3), 2, 3),
        ((2, 3, 4), 6, 4),
        ((1, 1, 5), 1, 5),
    ],
)
def test_csv_has_a_line_for_each_run_of_the_last_dimension(
    shape: tuple[int, ...], lines: int, columns: int
) -> None:
    values = np.arange(math.prod(shape))
    text = _csv(float_tensor(values, shape))
    assert text.endswith("\n")
    rows = [line.split(",") for line in text.splitlines()]
    assert [len(row) for row in rows] == [columns] * lines
    assert [float(cell) for row in rows for cell in row] == values.tolist()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_no_weights_are_an_empty_file(shape: tuple[int, ...]) -> None:
    assert _csv(float_tensor([], shape)) == ""


@pytest.fixture
def chunk(monkeypatch: pytest.MonkeyPatch) -> int:
    """Weights of a chunk: an eighth of the usual number, so that many chunks take little time."""
    monkeypatch.setattr("explorer.formats.weights.CHUNK_WEIGHTS", CHUNK_WEIGHTS // 4)
    return CHUNK_WEIGHTS // 4


@pytest.mark.parametrize("columns", [256, 3 * 256, 25_000 * 3, CHUNK_WEIGHTS // 2])
def test_lines_go_on_where_a_chunk_ends(columns: int, chunk: int) -> None:
    weights = columns * max(2, -(-(chunk + 7) // columns))
    bits = np.random.default_rng(3).integers(0, 2, weights)  # short texts, quickly read
    text = _csv(float_tensor(bits, (weights // columns, columns)))
    assert text == "\n".join(",".join(map(str, row)) for row in bits.reshape(-1, columns)) + "\n"


def test_csv_of_quantized_weights_is_what_they_decode_to() -> None:
    blocks = random_blocks("Q4_K", 4)
    tensor = tensor_of("Q4_K", blocks.tobytes(), (2, 512))
    np.testing.assert_array_equal(_read(_csv(tensor)), tensor.dequantize())


def test_a_line_of_many_chunks_needs_little_memory(chunk: int) -> None:
    class Nowhere:
        written = 0

        def write(self, text: str, /) -> None:
            self.written += len(text)

    weights = 4 * chunk
    tensor, stream = float_tensor(np.zeros(weights), (weights,)), Nowhere()
    write_csv(float_tensor([1], (1,)), stream)  # what is loaded once
    tracemalloc.start()
    try:
        write_csv(tensor, stream)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stream.written == 2 + 2 * weights
    assert peak < 16 * chunk  # four chunks; the line as a list of numbers has eight times as much


@pytest.mark.parametrize("write", [write_csv, write_npy])
def test_writing_reports_progress_and_can_be_cancelled(write: object) -> None:
    assert callable(write)
    tensor = float_tensor(np.zeros(CHUNK_WEIGHTS + 1024), (CHUNK_WEIGHTS // 1024 + 1, 1024))
    done: list[int] = []
    checks: list[None] = []

    def stop() -> None:
        checks.append(None)
        if done:
            raise Stop

    stream = io.StringIO() if write is write_csv else io.BytesIO()
    with pytest.raises(Stop):
        write(tensor, stream, stop, done.append)
    assert done == [CHUNK_WEIGHTS]
    assert checks
    done.clear()
    write(tensor, stream, progress=done.append)
    assert done == [CHUNK_WEIGHTS, tensor.parameters]


@pytest.mark.parametrize("write", [write_csv, write_npy])
def test_what_cannot_be_decoded_writes_nothing(write: object) -> None:
    assert callable(write)
    stream = io.StringIO() if write is write_csv else io.BytesIO()
    with pytest.raises(FormatError):
        write(tensor_of("I8", bytes(5), (7,)), stream)
    assert not stream.getvalue()


def test_the_size_of_a_numpy_file_is_known_before() -> None:
    tensor, stream = float_tensor(np.zeros(1000), (10, 100)), io.BytesIO()
    write_npy(tensor, stream)
    assert 4000 < len(stream.getvalue()) <= npy_bytes(tensor)
