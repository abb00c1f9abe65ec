"""The types of ik_llama.cpp and of BitNet, read from rows as files hold them.

`tests/data/ik_golden.npz` has TYPE.rows, a tensor's bytes by row (of I2_S all in one), and
TYPE.weights, what the fork's own C makes of them: the first rows of `ik_golden_dev.npz` of the
shared reference, which the tests compare in full where it is there.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.block_detail import BlockReader
from explorer.analysis.blocks import BlockUnpacker, block_statistics
from explorer.analysis.errors.pairs import RoundedPair
from explorer.formats.tensors import Tensor
from explorer.formats.weights import CHUNK_WEIGHTS, WeightReader
from explorer.parallel import never
from explorer.quantization import (
    GGML_TYPES,
    TENSOR_TYPES,
    QuantizationError,
    dequantize,
    ggml_type,
    quantize,
)
from explorer.quantization.registry import (
    FAMILIES,
    WITHOUT_DECODER,
    block_layout,
    decoder,
    has_decoder,
    has_encoder,
)
from tests.helpers.tensors import assert_same_bits, same_bits, tensor_of

NAMES = FAMILIES["ik"]
GOLDEN = Path(__file__).parents[1] / "data" / "ik_golden.npz"
ROUNDED_GOLDEN = GOLDEN.with_name("ik_rounded.npz")  # of make_ik_golden.py
_DOCUMENT = Path(__file__).parents[2] / "docs" / "gguf.md"
ROUNDED = [name for name in NAMES if has_encoder(name)]
_OLD = "MXFP4 (old)"  # Ollama's, whose C code has no goldens
_LAYOUTS = [name for name in NAMES if TENSOR_TYPES[name].quantized]


def _golden(name: str) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    with np.load(GOLDEN, allow_pickle=False) as golden:
        return golden[f"{name}.rows"], golden[f"{name}.weights"]


def _tensor(name: str, rows: NDArray[np.uint8], shape: tuple[int, ...]) -> Tensor:
    return tensor_of(name, rows.tobytes(), shape)


def _wide(name: str, columns: int, seed: int = 3) -> Tensor:
    """Return a tensor of two times the rows that lie together, of bytes at random."""
    kind = TENSOR_TYPES[name]
    shape = (2 * kind.rows, columns)
    size = kind.nbytes_of(shape)
    assert size is not None
    return _tensor(name, np.random.default_rng(seed).integers(0, 256, size, np.uint8), shape)


@pytest.mark.parametrize("name", [name for name in NAMES if name != _OLD])
def test_golden_rows(name: str) -> None:
    rows, weights = _golden(name)
    assert_same_bits(_tensor(name, rows, weights.shape).dequantize(), weights)


@pytest.mark.parametrize("name", [name for name in NAMES if name != _OLD])
def test_all_golden_rows_are_equal_as_the_table_of_the_documents_says(
    name: str, shared_reference: Path
) -> None:
    blocks = equal = rounded = alike = 0
    kind = TENSOR_TYPES[name]
    with np.load(shared_reference / "ik" / "ik_golden_dev.npz", allow_pickle=False) as golden:
        for key in golden.files:
            start, _, what = key.rpartition("/")
            if start.split("@")[0].split("#")[0] == name and what.endswith("bytes"):
                weights = golden[f"{start}/{what.removesuffix('bytes')}values"]
                decoded = _tensor(name, golden[key], weights.shape).dequantize()
                same = same_bits(decoded, weights)
                blocks += weights.size // kind.block_weights
                equal += int(same.reshape(-1, kind.block_weights).all(axis=1).sum())
        if name in ROUNDED:
            source, wanted = golden[f"{name}/source"], golden[f"{name}/rounded_bytes"]
            ours = _as_stored(name, quantize(source, name), len(source))
            rounded = source.size // kind.block_weights
            alike = rounded if np.array_equal(ours, wanted) else 0
    assert (equal, alike) == (blocks, rounded)
    row = f"| {name} | {blocks:,} | {equal:,} | {f'{rounded}' if rounded else '–'} | "
    row += f"{f'{alike}' if rounded else '–'} |"
    assert row in _DOCUMENT.read_text(encoding="utf-8").splitlines(), row


def test_all_types_and_sizes(shared_reference: Path) -> None:
    import json

    known = json.loads((shared_reference / "ik" / "ik_types.json").read_text())["types"]
    names = {"Q1_0_G128": "Q1_0", "I2_S": "removed (IQ4_NL_4_4)"}
    for one in known:
        kind = ggml_type(one["id"])
        assert kind.name in {names.get(one["name"], one["name"]), f"removed ({one['name']})"}
        if one["name"] in {"I2_S", "Q8_K"}:  # a size of the tensor; no file has the other
            continue
        columns, rows = 4 * max(one["block_size"], 16), 2 * one["rows_per_unit"]
        row = one["row_meta_size"] + columns // one["block_size"] * one["type_size"]
        rows = max(rows, kind.rows)
        assert kind.nbytes_of((rows, columns)) == rows * row, kind.name


@pytest.mark.parametrize("name", _LAYOUTS)
def test_codes_and_scales_make_the_weights(name: str) -> None:
    tensor = _wide(name, 512)
    reader, unpacker = WeightReader(tensor), BlockUnpacker(tensor)
    chunk = next(reader.chunks(0, tensor.parameters))
    codes, found = unpacker.codes(chunk.stored), unpacker.scales(chunk.stored)
    per = unpacker.weights_per_scale
    with np.errstate(all="ignore"):
        made = unpacker.levels[codes] * np.repeat(found.scales, per, axis=1)
        if found.minima.size:
            made = made - np.repeat(found.minima, per, axis=1)
    assert_same_bits(made, chunk.values)


@pytest.mark.parametrize("name", _LAYOUTS)
def test_fields_cover_the_block(name: str) -> None:
    fields, kind = block_layout(name).fields, TENSOR_TYPES[name]
    ends = [field.offset + field.nbytes for field in fields]
    assert [field.offset for field in fields] == [0, *ends[:-1]]
    assert ends[-1] == kind.whole_bytes
    assert kind.block_weights % block_layout(name).weights_per_scale == 0


@pytest.mark.parametrize("name", NAMES)
def test_any_run_of_weights_is_that_part_of_all(name: str) -> None:
    """Also where a row is longer than what is decoded at once, so that rows are taken apart."""
    kind = TENSOR_TYPES[name]
    for columns in (512, 512 * (1 + CHUNK_WEIGHTS // (512 * kind.rows))):
        tensor = _wide(name, columns)
        whole, reader = tensor.dequantize().reshape(-1), WeightReader(tensor)
        random = np.random.default_rng(1)
        for _ in range(8):
            start, stop = sorted(random.integers(0, min(tensor.parameters, 9000), 2).tolist())
            part = np.empty(stop - start, np.float32)
            reader.read_into(start, part)
            assert_same_bits(part, whole[start:stop])


# One with a header, one of several rows, one with both, one with a trailer.
@pytest.mark.parametrize("name", ["IQ4_KS", "IQ3_K_R4", "IQ1_M_R4", "I2_S"])
def test_a_block_taken_apart_is_at_its_place(name: str) -> None:
    tensor = _wide(name, 512)
    whole = np.frombuffer(tensor.read(), np.uint8)
    reader = BlockReader(tensor)
    weights = tensor.dequantize().reshape(-1)
    for index in (0, 3, reader.count - 1):
        detail = reader.read(index)
        stored = b"".join(
            whole[part.extent.offset :][: part.extent.nbytes].tobytes() for part in detail.parts
        )
        assert stored == detail.stored
        assert [part.first for part in detail.parts] == list(
            np.cumsum([0, *(part.extent.nbytes for part in detail.parts)][:-1])
        )
        assert_same_bits(detail.values, weights[detail.start :][: detail.values.size])


def test_a_turned_bit_changes_only_the_weights_that_the_inspector_names() -> None:
    tensor = _wide("IQ2_KS", 256)
    detail = BlockReader(tensor).read(1)
    block = np.frombuffer(detail.stored, np.uint8)
    for byte in range(len(block)):
        turned = block.copy()
        turned[byte] ^= 0x21
        out = np.empty((1, 256), np.float32)
        decoder("IQ2_KS")(turned[None], out)
        differs = out[0].view(np.uint32) != detail.values.view(np.uint32)
        assert not (differs & ~detail.bits.acts_on(byte, detail.weights_per_scale)).any()


def test_the_old_mxfp4_is_the_new_with_neighbours_in_a_byte() -> None:
    """Ollama moves the halves of bytes so, when it loads such a file."""
    old = np.random.default_rng(2).integers(0, 256, (6, 17), np.uint8)
    codes = np.stack([old[:, 1:] & 15, old[:, 1:] >> 4], axis=2).reshape(6, 32)
    new = np.concatenate([old[:, :1], codes[:, :16] | codes[:, 16:] << 4], axis=1)
    weights = _tensor("MXFP4", new, (6, 32)).dequantize()
    assert_same_bits(_tensor(_OLD, old, (6, 32)).dequantize(), weights)


def _as_stored(name: str, blocks: NDArray[np.uint8], rows: int) -> NDArray[np.uint8]:
    """Return whole blocks as rows of a file: of each row the header once."""
    kind = TENSOR_TYPES[name]
    whole = blocks.reshape(rows, -1, kind.whole_bytes)
    own = whole[:, :, kind.row_header :].reshape(rows, -1)
    return np.concatenate([whole[:, 0, : kind.row_header], own], axis=1)


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("how", ["plain", "weighted"])
def test_rounds_to_the_bytes_of_the_fork(name: str, how: str) -> None:
    """Rows of eight kinds: tiny, mixed, zero, on the middle between levels, heavy tails, -0."""
    with np.load(ROUNDED_GOLDEN, allow_pickle=False) as golden:
        weights, wanted = golden["weights"], golden[f"{name}.{how}"].tolist()
        blocks = quantize(weights, name, golden["importance"] if how == "weighted" else None)
    assert [zlib.crc32(row) for row in _as_stored(name, blocks, len(weights))] == wanted


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("fill", [np.nan, np.inf, 3e38, 1e-40])
def test_rounds_any_weights(name: str, fill: float) -> None:
    blocks = quantize(np.full((3, 512), fill, np.float32), name)
    assert dequantize(blocks, name).shape == (3 * 512,)


def test_rows_are_rounded_by_themselves_wherever_a_run_ends() -> None:
    random = np.random.default_rng(4).standard_normal((8, 512)).astype(np.float32)
    tensor = tensor_of("F32", random.tobytes(), random.shape)
    wanted = dequantize(quantize(random, "IQ4_KS"), "IQ4_KS")
    reader = RoundedPair(tensor, "IQ4_KS").reader()
    for start, count in ((0, 4096), (700, 1), (1000, 2000)):
        _, rounded = reader.read((start, count), never)
        assert_same_bits(rounded, wanted[start : start + count])


def test_rows_that_are_no_whole_blocks_are_refused() -> None:
    with pytest.raises(QuantizationError, match="rows of 128 weights are not whole IQ4_KS blocks"):
        quantize(np.zeros((4, 128), np.float32), "IQ4_KS")


def test_statistics_of_blocks() -> None:
    rows, weights = _golden("IQ2_K_R4")
    found = block_statistics(_tensor("IQ2_K_R4", rows, weights.shape))
    assert found is not None
    assert found.code_counts.sum() == weights.size
    assert found.weights_per_scale == 16


def test_types_without_values_say_why() -> None:
    for kind in GGML_TYPES.values():
        if kind.known and not has_decoder(kind.name):
            assert len(WITHOUT_DECODER[kind.name]) > 20, kind.name


@given(
    name=st.sampled_from(NAMES),
    rows=st.integers(0, 40),
    columns=st.integers(0, 2000),
    experts=st.integers(0, 3),
)
def test_sizes_are_those_of_rows(name: str, rows: int, columns: int, experts: int) -> None:
    kind, found = TENSOR_TYPES[name], TENSOR_TYPES[name].nbytes_of((experts, rows, columns))
    if kind.lone:
        assert found == kind.nbytes(experts * rows * columns)
    elif columns % kind.block_weights or rows % kind.rows:
        assert found is None
    else:
        blocks = columns // kind.block_weights * kind.block_bytes
        of_rows = experts * rows * (blocks + kind.row_header) if columns else 0
        assert found == of_rows + kind.trailer
