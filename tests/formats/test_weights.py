"""Weights of tensors: any slice, any byte order, damaged files, and the values that ggml gives."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import FormatError, SourceError
from explorer.formats import Tensor, open_model
from explorer.formats.weights import (
    CHUNK_WEIGHTS,
    RUN_WEIGHTS,
    SPAN_WEIGHTS,
    Span,
    WeightReader,
    spans_of,
)
from explorer.parallel import AHEAD, Check, map_in_order
from explorer.quantization import TENSOR_TYPES, dequantize, ggml_type
from explorer.sources import MemorySource
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.tensors import CountingSource, float_tensor, random_blocks, read_rows, tensor_of

_ROOT = Path(__file__).resolve().parents[2]

_MANY = 3 * CHUNK_WEIGHTS // 256 + 5  # blocks of 256 weights: three chunks and a bit


def _example(name: str, blocks: int) -> Tensor:
    kind = TENSOR_TYPES[name]
    return tensor_of(name, random_blocks(name, blocks).tobytes(), (blocks * kind.block_weights,))


def _run(tensor: Tensor, start: int, stop: int) -> np.ndarray:
    out = np.empty(stop - start, np.float32)
    WeightReader(tensor).read_into(start, out)
    return out


@pytest.fixture(scope="module")
def wholes() -> dict[str, tuple[Tensor, np.ndarray]]:
    """Tensors of several kinds of blocks, with all their weights."""
    counts = {"Q4_K": 7, "Q8_0": 20, "BF16": 100, "F6_E2M3": 25, "F4": 31}
    tensors = {name: _example(name, count) for name, count in counts.items()}
    return {name: (tensor, tensor.dequantize()) for name, tensor in tensors.items()}


@given(st.data())
def test_any_slice_is_that_slice_of_the_whole(
    wholes: dict[str, tuple[Tensor, np.ndarray]], data: st.DataObject
) -> None:
    tensor, whole = wholes[data.draw(st.sampled_from(sorted(wholes)))]
    start = data.draw(st.integers(0, tensor.parameters))
    stop = data.draw(st.integers(start, tensor.parameters))
    np.testing.assert_array_equal(_run(tensor, start, stop), whole[start:stop])
    chunks = [chunk.values.tobytes() for chunk in tensor.chunks(start, stop)]
    assert b"".join(chunks) == whole[start:stop].tobytes()


def test_chunks_follow_each_other_and_reuse_their_memory() -> None:
    tensor = _example("Q4_K", _MANY)
    whole = tensor.dequantize()
    position, places = 0, set()
    for chunk in tensor.chunks(100):
        assert chunk.start == 100 + position
        assert 0 < chunk.values.size <= CHUNK_WEIGHTS
        start, stop = chunk.start, chunk.start + chunk.values.size
        np.testing.assert_array_equal(chunk.values, whole[start:stop])
        places.add(chunk.values.__array_interface__["data"][0] // (4 * CHUNK_WEIGHTS))
        position += chunk.values.size
    assert position == tensor.parameters - 100
    assert len(places) <= 2


def test_only_the_blocks_asked_for_are_read() -> None:
    kind = TENSOR_TYPES["Q4_K"]
    source = CountingSource(random_blocks("Q4_K", 64).tobytes())
    tensor = tensor_of("Q4_K", source, (32, 512))
    read_rows(tensor, 10, 12)
    assert source.runs == [(20 * kind.block_bytes, 4 * kind.block_bytes)]
    source.runs.clear()
    _run(tensor, 300, 301)
    assert source.runs == [(kind.block_bytes, kind.block_bytes)]


def test_rows_that_begin_and_end_inside_blocks() -> None:
    whole = _example("F6_E2M3", 15)  # four weights to a block
    tensor = replace(whole, shape=(2, 5, 6))
    rows = tensor.dequantize().reshape(10, 6)
    assert tensor.dequantize().shape == (2, 5, 6)
    for start in range(10):
        for stop in range(start, 11):
            np.testing.assert_array_equal(read_rows(tensor, start, stop), rows[start:stop])


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (0, 3)])
def test_one_weight_and_none(shape: tuple[int, ...]) -> None:
    tensor = tensor_of("F32", np.full(shape, 2.5, "<f4").tobytes(), shape)
    whole = tensor.dequantize()
    assert (whole.shape, whole.dtype) == (shape, np.float32)
    assert (whole == 2.5).all()
    assert sum(chunk.values.size for chunk in tensor.chunks()) == whole.size
    rows = int(np.prod(shape[:-1])) if shape else 1
    assert read_rows(tensor, 0, rows).size == whole.size


def test_runs_outside_the_tensor_are_refused() -> None:
    tensor = _example("Q8_0", 4)
    attempts: list[Callable[[], object]] = [
        lambda: list(tensor.chunks(0, 129)),
        lambda: list(tensor.chunks(-1, 5)),
        lambda: list(tensor.chunks(7, 5)),
        lambda: read_rows(tensor, 0, 2),
        lambda: read_rows(tensor, -1, 1),
        lambda: WeightReader(tensor).block(4),
        lambda: WeightReader(tensor).block(-1),
    ]
    for attempt in attempts:
        with pytest.raises(IndexError):
            attempt()


def test_a_block_is_its_stored_bytes() -> None:
    blocks = random_blocks("Q4_K", 3)
    big = tensor_of("Q4_K", blocks.tobytes(), (768,), "big")
    assert WeightReader(big).block(1) == blocks[1].tobytes()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("F16", "f2"), ("F32", "f4"), ("F64", "f8"), ("I16", "i2"), ("I32", "i4"), ("I64", "i8")],
)
def test_plain_numbers_of_both_byte_orders(name: str, dtype: str) -> None:
    values = np.arange(-300, 300).astype(dtype)
    for order, sign in (("little", "<"), ("big", ">")):
        raw = values.astype(sign + dtype).tobytes()
        tensor = tensor_of(name, raw, (600,), order)  # type: ignore[arg-type]
        np.testing.assert_array_equal(tensor.dequantize(), values.astype(np.float32))


@pytest.mark.parametrize(("name", "halves"), [("Q4_0", [0]), ("Q4_K", [0, 2]), ("Q6_K", [208])])
def test_a_big_endian_file_has_the_weights_of_a_little_endian_one(
    name: str, halves: list[int], tmp_path: Path
) -> None:
    """Fields as gguf_convert_endian.py of llama.cpp turns them round."""
    blocks = random_blocks(name, 8)
    turned = blocks.copy()
    for offset in halves:
        turned[:, [offset, offset + 1]] = blocks[:, [offset + 1, offset]]
    kind = TENSOR_TYPES[name]
    dims = (8 * kind.block_weights,)
    found = []
    for order, content in (("little", blocks), ("big", turned)):
        spec = TensorSpec("t", dims, kind.id or 0, content.tobytes())
        path = GgufFile(order=order, tensors=[spec]).write(tmp_path / f"{order}.gguf")  # type: ignore[arg-type]
        with open_model(path) as model:
            assert model.tensors["t"].byte_order == order
            found.append(model.tensors["t"].dequantize())
    np.testing.assert_array_equal(found[0], found[1])


def test_what_cannot_be_decoded_says_why() -> None:
    unknown = replace(
        tensor_of("F32", b"", (0,)), type=ggml_type(77), parameters=5, damage="no size"
    )
    cases = [
        (unknown, r"weights of type unknown \(77\) cannot be decoded"),
        (tensor_of("C64", bytes(16), (2,)), "complex numbers have no order"),
        (tensor_of("Q4_K", bytes(144), (512,)), "512 weights of type Q4_K do not take the 144"),
        (tensor_of("F32", bytes(8), (2,), damage="cut short"), "made.weight.*cut short"),
    ]
    for tensor, message in cases:
        calls = (
            tensor.dequantize,
            lambda t=tensor: list(t.chunks()),
            lambda t=tensor: WeightReader(t).block(0),
        )
        for call in calls:
            with pytest.raises(FormatError, match=message) as caught:
                call()
            assert caught.value.path == tensor.file
            assert caught.value.offset == 0


def test_a_truncated_file_names_file_and_byte(tmp_path: Path) -> None:
    spec = TensorSpec("t", (1 << 20,), 0, bytes(4 << 20))
    path = GgufFile(tensors=[spec]).write(tmp_path / "cut.gguf")
    path.write_bytes(path.read_bytes()[:-1000])
    with open_model(path) as model, pytest.raises(FormatError, match="cut short") as caught:
        model.tensors["t"].dequantize()
    assert (caught.value.path, caught.value.offset) == (path, model.data_offset)


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    spec = TensorSpec("t", (1 << 20,), 0, bytes(4 << 20))
    path = GgufFile(tensors=[spec]).write(tmp_path / "shrinks.gguf")
    with open_model(path) as model:
        chunks = model.tensors["t"].chunks()
        next(chunks)
        with path.open("r+b") as file:
            file.truncate(1 << 20)
        with pytest.raises(SourceError, match=r"shrinks\.gguf"):
            list(chunks)


def test_check_is_called_before_every_chunk_and_can_stop() -> None:
    tensor = _example("Q4_K", _MANY)
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        tensor.dequantize(check)
    assert len(calls) == 3
    calls.clear()
    with pytest.raises(InterruptedError):
        list(tensor.chunks(check=check))
    assert len(calls) == 3


def test_opening_and_listing_load_no_numba(tmp_path: Path) -> None:
    spec = TensorSpec("t", (256,), 12, bytes(144))
    path = GgufFile(tensors=[spec]).write(tmp_path / "small.gguf")
    script = f"""
import sys
import explorer.analysis
from explorer.formats import open_model
with open_model({str(path)!r}) as model:
    [(t.name, t.shape, t.nbytes) for t in model.tensors.rows]
    assert "numba" not in sys.modules
    model.tensors["t"].dequantize()
    assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=_ROOT)


def test_weights_with_scales_in_arrays_of_their_own(
    shared_data: Path, shared_reference: Path
) -> None:
    golden = np.load(shared_reference / "blob_golden.npz")
    manifests = shared_data / "ollama_store" / "models" / "manifests"
    seen: set[str] = set()
    for key in golden:
        place, _, what = key.partition("|")
        if what != "dequant":
            continue
        manifest, _, name = place.rpartition("/")
        with open_model(manifests / manifest.replace(":", "/")) as model:
            tensor = model.tensors[name]
            assert tensor.companions is not None
            seen.add(tensor.type.name)
            whole = tensor.dequantize()
            np.testing.assert_array_equal(whole, golden[key].reshape(whole.shape))
            flat = whole.reshape(-1)
            np.testing.assert_array_equal(_run(tensor, 7, 201), flat[7:201])
            factor = 4 * ("global_scale" in tensor.companions.parts)
            assert len(WeightReader(tensor).block(0)) == tensor.type.block_bytes + factor
    assert {"int4", "int8", "nvfp4", "mxfp4", "mxfp8"} <= seen


def test_readers_share_nothing() -> None:
    tensor = _example("Q8_0", 8)
    first, second = WeightReader(tensor), WeightReader(tensor)
    one = next(first.chunks(0, 64)).values
    kept = one.copy()
    next(second.chunks(128, 256))
    np.testing.assert_array_equal(one, kept)


@pytest.mark.network
def test_weights_of_the_real_model(real_model: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="the gguf package is the oracle")
    with open_model(real_model) as model:
        kinds: dict[str, Tensor] = {}
        for tensor in model.tensors.rows:
            if tensor.parameters < 2_000_000:
                kinds.setdefault(tensor.type.name, tensor)
        assert set(kinds) == {"F32", "Q5_0", "Q4_K", "Q6_K", "Q8_0"}
        for tensor in kinds.values():
            raw = np.frombuffer(tensor.read(), np.uint8).reshape(tensor.shape[0], -1)
            kind = gguf.GGMLQuantizationType[tensor.type.name]
            expected = gguf.dequantize(raw.reshape(-1) if raw.shape[1] == 4 else raw, kind)
            expected = expected.view(np.float32).reshape(tensor.shape)
            np.testing.assert_array_equal(tensor.dequantize(), expected)


@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_runs_are_the_blocks_that_are_decoded(byte_order: Literal["little", "big"]) -> None:
    blocks = random_blocks("Q4_K", RUN_WEIGHTS // 256 + 5)
    shape = (len(blocks) * 256,)
    tensor = tensor_of("Q4_K", blocks.tobytes(), shape, byte_order=byte_order)
    calls: list[None] = []
    runs = WeightReader(tensor).runs(256, shape[0], lambda: calls.append(None))
    found = [dequantize(np.array(run).reshape(-1), "Q4_K") for run in runs]
    assert [weights.size for weights in found] == [RUN_WEIGHTS, 4 * 256]
    assert len(calls) == 2
    np.testing.assert_array_equal(np.concatenate(found), tensor.dequantize()[256:])


@pytest.mark.parametrize(("start", "stop"), [(0, 100), (1, 256), (-256, 256), (0, 768)])
def test_runs_are_of_whole_blocks_of_the_tensor(start: int, stop: int) -> None:
    reader = WeightReader(_example("Q4_K", 2))
    with pytest.raises(IndexError):
        next(reader.runs(start, stop))


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
    assert calls[0] <= 21 + AHEAD * workers  # of what is under way, each once


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
