"""One block, taken apart, against its bytes and the decoder; and what it is compared with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.block_detail import BlockDetail, BlockReader, place_of
from explorer.analysis.block_search import places_in_part, read_compared
from explorer.analysis.errors.pairs import MatchedPair, RoundedPair
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorPart, TensorView
from explorer.errors import ExplorerError, FormatError
from explorer.formats import Tensor, open_model
from explorer.formats.weights import WeightReader
from explorer.present.tables.blocks import block_record
from explorer.quantization import TENSOR_TYPES, dequantize, quantize
from explorer.quantization.convert import swap_byte_order
from explorer.quantization.grouped.layout import GroupedLayout, Mode
from tests.formats.test_hf_rules import Part, packed_words
from tests.formats.test_hf_rules import write_folder as write_parts
from tests.helpers.grouped_tensors import AFFINE_4, LAYOUTS, grouped_tensor
from tests.helpers.tensors import QUANTIZED, float_tensor, random_blocks, tensor_of
from tests.soak.quantized import MODELS, quantized_seeds, write_folder


def example(name: str, blocks: int = 6) -> Tensor:
    kind = TENSOR_TYPES[name]
    return tensor_of(name, random_blocks(name, blocks).tobytes(), (blocks, kind.block_weights))


def made(detail: BlockDetail) -> np.ndarray:
    """Return scale * level - minimum, each operation rounded to float32."""
    with np.errstate(all="ignore"):
        found = detail.scales.repeat(detail.weights_per_scale) * detail.weight_levels
        if detail.minima is not None:
            found = found - detail.minima.repeat(detail.weights_per_scale)
    return found


def covers(detail: BlockDetail) -> bool:
    ends = [field.offset + field.nbytes for field in detail.fields]
    starts = [field.offset for field in detail.fields]
    return [0, *ends] == [*starts, len(detail.stored)]


@pytest.mark.parametrize("name", QUANTIZED)
def test_parts_of_every_type_make_the_decoded_weights_to_the_bit(name: str) -> None:
    tensor = example(name, 40)
    reader = BlockReader(tensor)
    assert reader.count == 40
    whole = tensor.dequantize().reshape(40, -1)
    seen = 0
    for index in range(40):
        detail = reader.read(index)
        assert detail.values.tobytes() == whole[index].tobytes()
        assert detail.stored == WeightReader(tensor).block(index)
        assert detail.start == index * TENSOR_TYPES[name].block_weights
        assert covers(detail)
        usual = np.isfinite(detail.scales).all() and np.isfinite(made(detail)).all()
        if usual and not _subnormal(detail):
            np.testing.assert_array_equal(made(detail), detail.values)
            seen += 1
    assert seen > 20


def _subnormal(detail: BlockDetail) -> bool:
    """Tell whether a scale is so small that the order of products matters."""
    sizes = np.abs(detail.scales[detail.scales != 0])
    return bool((sizes < 1e-36).any())


@pytest.mark.parametrize("name", QUANTIZED)
def test_levels_of_a_sub_block_hold_its_weights(name: str) -> None:
    detail = BlockReader(example(name)).read(3)
    per = detail.weights_per_scale
    for sub in range(detail.scales.size):
        part = slice(sub * per, (sub + 1) * per)
        ruler = detail.values_of_levels(sub)[detail.codes[part]]
        if np.isfinite(ruler).all():
            np.testing.assert_allclose(detail.values[part], ruler, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_groups(layout: GroupedLayout) -> None:
    values = np.random.default_rng(1).normal(0, 1, (4, 256)).astype(np.float32)
    tensor = grouped_tensor(layout, values)
    whole = tensor.dequantize().reshape(-1, layout.group_size)
    reader = BlockReader(tensor)
    for index in (0, 3, reader.count - 1):
        detail = reader.read(index)
        np.testing.assert_array_equal(detail.values, whole[index])
        np.testing.assert_array_equal(made(detail), whole[index])
        assert covers(detail)
        assert [part.name for part in detail.parts] == [field.name for field in detail.fields]
        for part, field in zip(detail.parts, detail.fields, strict=True):
            assert part.first == field.offset
            assert part.extent.offset == 16 + index * field.nbytes
            raw = part.extent.source.read(part.extent.offset, part.extent.nbytes)
            assert raw == detail.stored[field.offset : field.offset + field.nbytes]
    assert reader.count == values.size // layout.group_size


def test_a_factor_that_groups_share_is_a_field_of_each() -> None:
    layout = GroupedLayout(Mode.NVFP4, 4, 16, "U8")
    values = np.random.default_rng(1).normal(0, 1, (4, 64)).astype(np.float32)
    factors = np.array([0.5, 2, 4, 8], np.float32)
    tensor = grouped_tensor(layout, values, factors)
    for index, factor in ((0, 0.5), (3, 0.5), (4, 2.0), (15, 8.0)):
        detail = BlockReader(tensor).read(index)
        assert detail.fields[-1].name == "global_scale"
        assert detail.numbers[-1] == (factor,)
        assert detail.parts[-1].extent.offset == 16 + 4 * factors.tolist().index(factor)
        assert detail.numbers[1][0] * factor == detail.scales[0]
        assert covers(detail)
        assert detail.bits.acts_on(len(detail.stored) - 1, 16).all()


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_bytes_of_a_block_with_companions_act_on_its_weights_alone(
    tmp_path: Path, number: int
) -> None:
    """A turned byte of the file changes no weight of the block that it is not said to act on.

    What is counted and not decoded has no blocks, and says so.
    """
    path, chance = tmp_path / "config.json", np.random.default_rng(number)
    write_folder(path, quantized_seeds()[number])
    file = tmp_path / "model.safetensors"
    content = bytearray(file.read_bytes())

    def weights_of(stored: bytes) -> NDArray[np.float32]:
        file.write_bytes(stored)
        with open_model(tmp_path) as model:
            return (
                next(one for one in model.tensors.rows if one.companions).dequantize().reshape(-1)
            )

    with open_model(tmp_path) as model:
        tensor = next(one for one in model.tensors.rows if one.companions)
        if not tensor.has_readable_parts:
            with pytest.raises(ExplorerError, match="has no blocks"):
                BlockReader(tensor)
            return
        reader = BlockReader(tensor)
        detail = reader.read(int(chance.integers(reader.count)))
    values, whole = made(detail), weights_of(bytes(content))
    run = slice(detail.start, detail.start + detail.values.size)
    assert np.array_equal(detail.values, whole[run], equal_nan=True)
    finite = np.isfinite(values) & np.isfinite(detail.values)
    np.testing.assert_allclose(values[finite], detail.values[finite], rtol=1e-4, atol=1e-3)
    assert covers(detail)
    for byte in chance.permutation(len(detail.stored))[:30].tolist():
        if detail.fields[detail.field_at(byte)].name.endswith("g_idx"):
            continue  # it would name no group
        place = detail.extent_of(byte, 1).offset
        turned = content.copy()
        turned[place] ^= 0xFF
        other = weights_of(bytes(turned))[run]
        changed = other.view(np.uint32) != detail.values.view(np.uint32)
        assert not (changed & ~detail.bits.acts_on(byte, detail.weights_per_scale)).any(), byte


@pytest.mark.parametrize("kind", ["gptq", "compressed-tensors"])
def test_columns_in_another_order_name_their_groups(tmp_path: Path, kind: str) -> None:
    """Each group that a block's columns are in stands there, with its scale and zero point."""
    chance = np.random.default_rng(4)
    order = chance.permutation(np.arange(128, dtype=np.int32) // 32)
    scales = np.arange(4, dtype=np.float16)[None] + np.arange(1, 9, dtype=np.float16)[:, None] * 8
    codes, zeros = chance.integers(0, 16, (8, 128), np.uint8), np.arange(32).reshape(8, 4) % 16
    words = [packed_words(one.astype(np.uint8), 4, padded=False) for one in (codes, zeros.T)]
    parts: dict[str, Part] = {
        "qweight": ("I32", np.ascontiguousarray(words[0].T)),
        "qzeros": ("I32", words[1]),
        "scales": ("F16", np.ascontiguousarray(scales.T)),
        "g_idx": ("I32", order),
    }
    said = {"quant_method": kind, "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"}
    names, low = ("g_idx", "scales", "qzeros"), 0
    if kind != "gptq":
        parts = {
            "weight_packed": ("I32", words[0]),
            "weight_scale": ("F16", scales),
            "weight_zero_point": ("I32", np.ascontiguousarray(words[1].T)),
            "weight_g_idx": ("I32", order),
            "weight_shape": ("I64", np.array([8, 128])),
        }
        names, low = ("weight_g_idx", "weight_scale", "weight_zero_point"), 8
    folder = write_parts(tmp_path, {f"m.{name}": part for name, part in parts.items()}, said)
    with open_model(folder) as model:
        reader = BlockReader(model.tensors["m.weight"])
        details = [reader.read(index) for index in range(reader.count)]
    for detail in details:
        row, column = place_of(detail)
        own = order[column : column + detail.values.size]
        groups = np.unique(own)
        assert tuple(field.name for field in detail.fields[1:]) == names
        assert "group of each column" in detail.fields[1].meaning
        assert detail.numbers[1:] == (
            tuple(own.tolist()),
            tuple(scales[row, groups].tolist()),
            tuple((zeros[row, groups] - low).tolist()),
        )
        assert detail.scales.tolist() == scales[row, own].tolist()


@pytest.mark.parametrize(("version", "zero"), [("gptq", 0), ("gptq", 8), ("gptq_v2", 15)])
def test_zero_points_that_programs_read_otherwise_are_told(
    tmp_path: Path, version: str, zero: int
) -> None:
    """Version 1 stores a zero point of 0 as a field of all ones, and borrows from the next one."""
    zeros = np.full((1, 8), 8, np.uint8)
    zeros[0, 2] = zero
    word = packed_words(zeros, 4, padded=False).view(np.uint32)
    stored = word - np.uint32(0x11111111 if version == "gptq" else 0)
    parts: dict[str, Part] = {
        "qweight": ("I32", np.zeros((4, 8), np.int32)),
        "qzeros": ("I32", stored.view(np.int32)),
        "scales": ("F16", np.ones((1, 8), np.float16)),
    }
    said = {"quant_method": "gptq", "checkpoint_format": version}
    folder = write_parts(tmp_path, {f"m.{name}": part for name, part in parts.items()}, said)
    with open_model(folder) as model:
        detail = BlockReader(model.tensors["m.weight"]).read(2)
    assert detail.numbers[2] == (float(zero),)
    assert ("AutoGPTQ" in detail.fields[2].meaning) == (zero == 0)


def test_exponents_of_gpt_oss_are_shown_as_scales(tmp_path: Path) -> None:
    parts: dict[str, Part] = {
        "m_blocks": ("U8", np.zeros((1, 2, 1, 16), np.uint8)),
        "m_scales": ("U8", np.array([[[122], [129]]], np.uint8)),
    }
    with open_model(write_parts(tmp_path, parts, {"quant_method": "mxfp4"})) as model:
        details = [BlockReader(model.tensors["m"]).read(index) for index in range(2)]
    assert [detail.numbers[1] for detail in details] == [(0.03125,), (4.0,)]
    assert details[0].fields[1].dtype == "E8M0"


def test_numbers_of_fields() -> None:
    block = np.zeros(20, np.uint8)
    block[:4] = [0x00, 0x3C, 0x00, 0xC0]  # Q4_1: d = 1, m = -2
    detail = BlockReader(tensor_of("Q4_1", block.tobytes(), (32,))).read(0)
    assert detail.numbers == ((1.0,), (-2.0,), ())
    assert detail.minima is not None
    assert detail.minima.tolist() == [2.0]
    assert detail.field_at(0) == 0
    assert detail.field_at(3) == 1
    assert detail.field_at(19) == 2
    six = BlockReader(example("Q6_K")).read(2)
    signed = np.frombuffer(six.stored, np.int8)[192:208]
    assert six.numbers[2] == tuple(signed.tolist())
    fp4 = BlockReader(tensor_of("MXFP4", bytes([129, *range(16)]), (32,))).read(0)
    assert fp4.numbers[0] == (4.0,)


@pytest.mark.parametrize("name", ["Q4_1", "Q5_0", "IQ2_XXS", "IQ1_M", "Q6_K"])
def test_a_big_endian_block(name: str) -> None:
    blocks = random_blocks(name, 3)
    little = BlockReader(tensor_of(name, blocks.tobytes(), (3, TENSOR_TYPES[name].block_weights)))
    swapped = blocks.copy()
    swap_byte_order(name, swapped)
    shape = (3, TENSOR_TYPES[name].block_weights)
    big = BlockReader(tensor_of(name, swapped.tobytes(), shape, byte_order="big"))
    one, other = little.read(1), big.read(1)
    assert other.stored == swapped[1].tobytes()
    np.testing.assert_array_equal(other.codes, one.codes)
    assert repr(other.numbers) == repr(one.numbers)
    size = blocks.shape[1]
    # a byte acts on the same weights wherever it is stored
    acting = [
        sorted(each.bits.acts_on(byte, each.weights_per_scale).tobytes() for byte in range(size))
        for each in (one, other)
    ]
    assert acting[0] == acting[1]
    at = next(i for i in range(size) if one.stored[i] != other.stored[i])
    order = np.arange(size)
    swap_byte_order(name, order[None])  # type: ignore[arg-type]
    np.testing.assert_array_equal(other.bits.codes[at], one.bits.codes[order[at]])


def test_a_tensor_without_blocks_is_refused() -> None:
    with pytest.raises(ExplorerError, match="not quantized"):
        BlockReader(float_tensor([1.0, 2.0]))
    with pytest.raises(FormatError, match="cut"):
        BlockReader(tensor_of("Q8_0", bytes(34), (32,), damage="cut"))
    with pytest.raises(FormatError, match="do not take"):
        BlockReader(tensor_of("Q8_0", bytes(30), (32,)))
    empty = BlockReader(tensor_of("Q8_0", b"", (0, 32)))
    assert empty.count == 0
    with pytest.raises(IndexError):
        empty.read(0)
    with pytest.raises(IndexError):
        BlockReader(example("Q8_0")).read(6)


def test_places_of_bytes() -> None:
    detail = BlockReader(example("Q4_K")).read(2)
    assert (detail.extent_of(0, 144).offset, detail.extent_of(0, 144).nbytes) == (288, 144)
    assert (detail.extent_of(16, 128).offset, detail.extent_of(16, 128).nbytes) == (304, 128)
    values = np.random.default_rng(1).normal(0, 1, (4, 256)).astype(np.float32)
    group = BlockReader(grouped_tensor(AFFINE_4, values)).read(3)
    assert (group.extent_of(33, 9).offset, group.extent_of(33, 9).nbytes) == (16 + 2 * 3 + 1, 1)


# What a block is compared with


def quantized_pair(shape: tuple[int, ...], name: str = "Q8_0") -> tuple[Tensor, Tensor]:
    values = np.random.default_rng(4).normal(0, 1, shape).astype(np.float32)
    return float_tensor(values, shape), tensor_of(name, quantize(values, name).tobytes(), shape)


def test_a_block_beside_the_same_weights_of_another_model() -> None:
    reference, candidate = quantized_pair((4, 64))
    pair = MatchedPair(Match(TensorView.of(reference), TensorView.of(candidate)))
    beside = read_compared([pair], candidate, (96, 32))
    np.testing.assert_array_equal(beside.reference, reference.dequantize().reshape(-1)[96:128])
    np.testing.assert_array_equal(beside.candidate, candidate.dequantize().reshape(-1)[96:128])
    assert not beside.is_rounding
    np.testing.assert_array_equal(
        beside.errors, beside.candidate.astype(np.float64) - beside.reference
    )


def test_a_block_beside_what_rounding_leaves_of_it() -> None:
    _, tensor = quantized_pair((4, 64))
    beside = read_compared([RoundedPair(tensor, "Q4_0")], tensor, (64, 32))
    own = tensor.dequantize().reshape(-1)[64:96]
    np.testing.assert_array_equal(beside.reference, own)
    np.testing.assert_array_equal(beside.candidate, dequantize(quantize(own, "Q4_0"), "Q4_0"))
    assert beside.is_rounding


def test_weights_that_the_pair_sees_in_another_order() -> None:
    """The candidate's rows are permuted as llama's are, and cut into two views."""
    _, tensor = quantized_pair((8, 64))
    whole = TensorPart.whole(tensor)
    even = TensorView("even", (4, 64), (whole.sliced(0, 0, 8, 2),))
    odd = TensorView("odd", (4, 64), (whole.sliced(0, 1, 8, 2),))
    values = tensor.dequantize()
    pairs = [
        MatchedPair(Match(TensorView.of(float_tensor(values[first::2] + 1)), view))
        for first, view in enumerate((even, odd))
    ]
    for row in range(8):
        beside = read_compared(pairs, tensor, (row * 64 + 32, 32))
        np.testing.assert_array_equal(beside.candidate, values[row, 32:])
        np.testing.assert_array_equal(beside.reference, values[row, 32:] + np.float32(1))
    with pytest.raises(ExplorerError, match="no tensor that these weights belong to"):
        read_compared(pairs[:1], tensor, (64, 32))


def test_weights_that_the_pair_sees_transposed() -> None:
    _, tensor = quantized_pair((8, 64))
    turned = TensorView("turned", (64, 8), (TensorPart.whole(tensor).transposed(1, 0),))
    values = tensor.dequantize()
    pair = MatchedPair(Match(TensorView.of(float_tensor(values.T * 2)), turned))
    beside = read_compared([pair], tensor, (64, 32))
    np.testing.assert_array_equal(beside.candidate, values[1, :32])
    np.testing.assert_array_equal(beside.reference, 2 * values[1, :32])


def test_a_joined_tensor_is_found_by_its_part() -> None:
    reference, first = quantized_pair((2, 64))
    _, second = quantized_pair((2, 64), "Q4_0")
    joined = TensorView("both", (4, 64), (TensorPart.whole(first), TensorPart.whole(second)))
    both = np.concatenate([reference.dequantize()] * 2)
    pair = MatchedPair(Match(TensorView.of(float_tensor(both, (4, 64))), joined))
    beside = read_compared([pair], second, (32, 32))
    np.testing.assert_array_equal(beside.candidate, second.dequantize().reshape(-1)[32:64])


def test_a_block_as_json() -> None:
    reference, candidate = quantized_pair((2, 512), "Q4_K")
    detail = BlockReader(candidate).read(1)
    pair = MatchedPair(Match(TensorView.of(reference), TensorView.of(candidate)))
    record = block_record(detail, read_compared([pair], candidate, (256, 256)))
    loaded = json.loads(json.dumps(record, allow_nan=False))
    assert loaded["tensor"] == "made.weight"
    assert (loaded["type"], loaded["block"], loaded["row"]) == ("Q4_K", 1, 0)
    assert loaded["columns"] == [256, 511]
    assert loaded["bytes"] == detail.stored.hex()
    assert [field["name"] for field in loaded["fields"]] == [f.name for f in detail.fields]
    assert len(loaded["weights"]) == 256
    first = loaded["weights"][0]
    assert first["value"] == float(detail.values[0])
    assert first["error"] == float(detail.values[0]) - float(reference.dequantize()[0, 256])
    assert loaded["sub_blocks"][1]["scale"] == float(detail.scales[1])
    broken = replace(detail, values=np.full(256, np.nan, np.float32))
    assert block_record(broken)["weights"][0]["value"] is None


def test_blobs_of_the_sample_store(shared_data: Path) -> None:
    from explorer.formats import open_model

    folder = shared_data / "ollama_store/models/manifests/registry.ollama.ai/library/tinydense"
    with open_model(folder / "int4") as model:
        kinds = {t.type.name: t for t in model.tensors.rows if t.companions is not None}
        assert len(kinds) >= 5
        for tensor in kinds.values():
            detail = BlockReader(tensor).read(1)
            values = tensor.dequantize().reshape(-1, detail.values.size)[1]
            np.testing.assert_array_equal(detail.values, values)
            np.testing.assert_allclose(made(detail), values, rtol=3e-7)
            assert covers(detail)


@st.composite
def parts(draw: st.DrawFn) -> tuple[TensorPart, np.ndarray]:
    """Return a part of a tensor, and the flat index of each of its weights, as NumPy moves them."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    count = int(np.prod(shape))
    part = TensorPart.whole(float_tensor(np.zeros(count), shape))
    indices = np.arange(count).reshape(shape)
    for _ in range(draw(st.integers(0, 3))):
        axis = draw(st.integers(0, len(shape) - 1))
        if draw(st.booleans()):
            start = draw(st.integers(0, part.shape[axis] - 1))
            stop = draw(st.integers(start + 1, part.shape[axis]))
            step = draw(st.integers(1, 3))
            part = part.sliced(axis, start, stop, step)
            indices = indices.take(range(start, stop, step), axis)
        else:
            order = draw(st.permutations(range(len(shape))))
            part, indices = part.transposed(*order), indices.transpose(order)
    return part, indices


@given(parts())
def test_places_in_a_part_are_those_of_numpy(drawn: tuple[TensorPart, np.ndarray]) -> None:
    part, indices = drawn
    expected = np.full(part.tensor.parameters, -1)
    expected[indices.reshape(-1)] = np.arange(indices.size)
    found = places_in_part(part, np.arange(part.tensor.parameters))
    np.testing.assert_array_equal(found, expected)
