"""Weights with companions: decoded to the bit, whole or in any run of groups.

Against `blob_golden.npz` (values of MLX), and against a plain reader of bit streams here that
follows docs/safetensors_and_blobs.md, section 4 word by word.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.formats.weights import reader_of_lines
from explorer.quantization.grouped.detection import resolve
from explorer.quantization.grouped.layout import (
    AFFINE_BITS,
    AFFINE_GROUPS,
    AFFINE_SCALES,
    FIXED_SIZES,
    GroupedLayout,
    GroupParts,
    Mode,
    Part,
)
from explorer.quantization.types import TENSOR_TYPES
from tests.helpers.grouped_tensors import Groups, rounded, tensor_of_groups
from tests.helpers.tensors import assert_same_bits

Floats = NDArray[np.float32]

# Section 4, as printed there
_E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]


def _affine(bits: int, size: int, scales: str = "BF16") -> GroupedLayout:
    return GroupedLayout(Mode.AFFINE, bits, size, scales, scales)


_FIXED = [GroupedLayout(mode, *sizes, "U8") for mode, sizes in FIXED_SIZES.items()]
_LAYOUTS = [
    *(_affine(bits, size) for bits in AFFINE_BITS for size in AFFINE_GROUPS),
    *(_affine(4, 64, scales) for scales in AFFINE_SCALES),
    *_FIXED,
]


def _e4m3(code: int) -> float:
    exponent, mantissa = code >> 3 & 15, code & 7
    if code & 127 == 127:
        return float("nan")
    value = (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0**-9
    return -value if code & 128 else value


def _e8m0(code: int) -> float:
    return float("inf") if code == 255 else 2.0 ** (code - 127)


def _read_codes(packed: bytes, bits: int) -> list[int]:
    stream = int.from_bytes(packed, "little")
    return [stream >> (i * bits) & ((1 << bits) - 1) for i in range(8 * len(packed) // bits)]


def _read_floats(raw: bytes, type_name: str) -> Floats:
    if type_name == "BF16":
        halves = struct.unpack(f"<{len(raw) // 2}H", raw)
        raw = struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves))
    code = "e" if type_name == "F16" else "f"
    width = 2 if type_name == "F16" else 4
    return np.array(struct.unpack(f"<{len(raw) // width}{code}", raw), np.float32)


def _reference(layout: GroupedLayout, stored: Groups) -> Floats:
    """Decode as the document says; float32 [groups, group size], each operation rounded."""
    codes = np.array(_read_codes(stored.packed.tobytes(), layout.bits))
    codes = codes.reshape(-1, layout.group_size)
    with np.errstate(all="ignore"):
        if layout.mode is Mode.AFFINE:
            assert stored.biases is not None
            assert layout.bias_type is not None
            scales = _read_floats(stored.scales.tobytes(), layout.scale_type)
            biases = _read_floats(stored.biases.tobytes(), layout.bias_type)
            product: Floats = codes.astype(np.float32) * scales[:, None]
            return product + biases[:, None]
        value, scale = (_e4m3 if layout.bits == 8 else _E2M1.__getitem__), _e8m0
        if layout.mode is Mode.NVFP4:
            scale = _e4m3
        values = np.array([value(code) for code in codes.reshape(-1).tolist()], np.float32)
        scales = np.array([scale(code) for code in stored.scales.tolist()], np.float32)
        weights: Floats = values.reshape(codes.shape) * scales[:, None]
        if stored.global_scales is not None:
            weights = weights * stored.global_scales[:, None]
        return weights


def _random(layout: GroupedLayout, groups: int, seed: int, *, factors: int = 0) -> Groups:
    """Return random bytes, so scales of every kind: subnormal, negative, infinite, NaN."""
    draw = np.random.default_rng(seed)

    def stored(width: int) -> NDArray[np.uint8]:
        return draw.integers(0, 256, groups * width, dtype=np.uint8)

    width = TENSOR_TYPES[layout.scale_type].block_bytes
    biases = stored(width) if layout.mode is Mode.AFFINE else None
    global_scales = draw.normal(size=factors).astype(np.float32) if factors else None
    packed, scales = stored(layout.group_size * layout.bits // 8), stored(width)
    return Groups(packed, scales, biases, global_scales)


def _decode(layout: GroupedLayout, stored: Groups, groups: int) -> Floats:
    return tensor_of_groups(layout, stored, (groups, layout.group_size)).dequantize()


def _blobs(models: Path) -> list[tuple[str, dict[str, Any], bytes]]:
    """Return manifest, header and data of every tensor blob of a store."""
    found = []
    for manifest in sorted(path for path in (models / "manifests").rglob("*") if path.is_file()):
        *parts, tag = manifest.relative_to(models / "manifests").parts
        for layer in json.loads(manifest.read_text(encoding="utf-8"))["layers"] or ():
            if layer["mediaType"].endswith(".tensor"):
                raw = (models / "blobs" / layer["digest"].replace(":", "-")).read_bytes()
                start = 8 + struct.unpack_from("<Q", raw)[0]
                found.append((f"{'/'.join(parts)}:{tag}", json.loads(raw[8:start]), raw[start:]))
    return found


def test_golden_values_and_the_bytes_that_mlx_made(
    shared_data: Path, shared_reference: Path
) -> None:
    golden = np.load(shared_reference / "blob_golden.npz")
    info = json.loads(bytes(golden["__info__"]))
    seen = set()
    for model, header, data in _blobs(shared_data / "ollama_store" / "models"):
        metadata = header.pop("__metadata__", None) or {}
        for name in [key for key in header if f"{key}.scale" in header]:
            companions = ("", ".scale", ".bias", ".global_scale")
            entries = [header.get(name + companion) for companion in companions]
            parts = [e and Part(e["dtype"], tuple(e["shape"])) for e in entries]
            raw = [e and np.frombuffer(data[slice(*e["data_offsets"])], np.uint8) for e in entries]
            quant_type = metadata.get(f"{name}.quant_type", metadata.get("quant_type"))
            group_size = metadata.get(f"{name}.group_size", metadata.get("group_size"))
            found = resolve(GroupParts(*parts), quant_type, group_size)
            key = f"{model}/{name}"
            assert found.problem is found.guess is None
            assert found.layout is not None
            assert found.shape is not None
            described = (found.layout.name, found.layout.group_size, list(found.shape))
            assert described == tuple(info[key][f] for f in ("quant_type", "group_size", "shape"))
            factor = None if raw[3] is None else raw[3].view(np.float32)
            stored = Groups(raw[0], raw[1], raw[2], factor)
            tensor = tensor_of_groups(found.layout, stored, found.shape)
            assert_same_bits(tensor.dequantize(), golden[f"{key}|dequant"])
            if factor is None:
                made, _ = rounded(found.layout, golden[f"{key}|original"])
                for ours, theirs in zip(made, raw, strict=True):
                    assert ours is theirs is None or np.array_equal(ours, theirs)
            seen.add(key)
    assert seen == info.keys()
    assert len(seen) == 49


@pytest.mark.parametrize("layout", _LAYOUTS, ids=str)
@settings(max_examples=8)
@given(groups=st.integers(1, 7), seed=st.integers(0, 1 << 32))
def test_random_bytes_against_a_plain_reader(layout: GroupedLayout, groups: int, seed: int) -> None:
    factors = groups if layout.mode is Mode.NVFP4 and seed % 2 else 0
    stored = _random(layout, groups, seed, factors=factors)
    assert_same_bits(_decode(layout, stored, groups), _reference(layout, stored))


@given(st.sampled_from(_LAYOUTS), st.data())
def test_any_run_of_groups_is_a_slice_of_the_whole(
    layout: GroupedLayout, data: st.DataObject
) -> None:
    groups, size = 24, layout.group_size  # of three rows: a run may begin and end within one
    stored = _random(layout, groups, 1, factors=groups if layout.mode is Mode.NVFP4 else 0)
    tensor = tensor_of_groups(layout, stored, (3, 8 * size))
    whole = _decode(layout, stored, groups)
    assert_same_bits(tensor.dequantize().reshape(whole.shape), whole)
    first = data.draw(st.integers(0, groups))
    last = data.draw(st.integers(first, groups))
    runs = [chunk.values.copy() for chunk in tensor.chunks(first * size, last * size)]
    assert_same_bits(np.concatenate([*runs, whole[:0, 0]]), whole[first:last].reshape(-1))


@pytest.mark.parametrize("mode", [Mode.MXFP4, Mode.MXFP8, Mode.NVFP4])
def test_every_code_with_every_scale(mode: Mode) -> None:
    bits, size = FIXED_SIZES[mode]
    layout = GroupedLayout(mode, bits, size, "U8")
    codes = np.arange(256 if bits == 8 else 16)
    groups_of_all = len(codes) // size or 1
    one = np.resize(codes, groups_of_all * size).astype(np.uint8)
    one = one if bits == 8 else one[::2] | one[1::2] << 4
    scales = np.repeat(np.arange(256, dtype=np.uint8), groups_of_all)
    stored = Groups(np.tile(one, 256), scales)
    assert_same_bits(_decode(layout, stored, len(scales)), _reference(layout, stored))


def test_a_small_example_by_hand() -> None:
    # codes 0 … 7 of 3 bits fill three bytes from the lowest bit on; four times that is a group
    eight = sum(code << (3 * code) for code in range(8)).to_bytes(3, "little")
    assert eight.hex() == "88c6fa"
    stored = Groups(
        np.frombuffer(eight * 4, np.uint8),
        np.frombuffer(struct.pack("<f", -0.5), np.uint8),
        np.frombuffer(struct.pack("<f", 1.0), np.uint8),
    )
    out = _decode(_affine(3, 32, "F32"), stored, 1)
    assert out.tolist() == [[1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0, -2.5] * 4]


def test_product_and_sum_are_rounded_apart() -> None:
    # 255 / 3 has more digits than float32: a fused operation would leave the rest of them
    scale = np.float32(1 / 3)
    product = np.float32(255) * scale
    assert float(product) != 255 * float(scale)
    raw = [np.frombuffer(struct.pack("<f", number), np.uint8) for number in (scale, -product)]
    stored = Groups(np.full(32, 255, np.uint8), *raw)
    assert _decode(_affine(8, 32, "F32"), stored, 1).tolist() == [[0.0] * 32]
    nibbles = Groups(np.full(16, 0xFF, np.uint8), *raw)
    assert_same_bits(
        _decode(_affine(4, 32, "F32"), nibbles, 1), _reference(_affine(4, 32, "F32"), nibbles)
    )


def test_a_global_scale_for_all_or_for_each_group() -> None:
    layout = GroupedLayout(Mode.NVFP4, 4, 16, "U8")
    packed, scales = np.full(24, 0x72, np.uint8), np.full(3, 0x38, np.uint8)  # 1.0 and 6.0; 1.0
    for factors in ([0.25], [0.25] * 3, [1.0, -2.0, 0.5]):
        stored = Groups(packed, scales, None, np.array(factors, np.float32))
        wanted = np.resize(np.array(factors), 3)[:, None] * np.tile([1.0, 6.0], 8)
        assert _decode(layout, stored, 3).tolist() == wanted.tolist()


def test_the_byte_255_of_e8m0_is_infinite_as_in_mlx_or_nan_where_the_type_says_e8m0() -> None:
    stored = Groups(np.full(16, 0x22, np.uint8), np.array([255], np.uint8))
    assert np.isposinf(_decode(GroupedLayout(Mode.MXFP4, 4, 32, "U8"), stored, 1)).all()
    assert np.isnan(_decode(GroupedLayout(Mode.MXFP4, 4, 32, "F8_E8M0"), stored, 1)).all()


def test_no_groups() -> None:
    for layout in _LAYOUTS:
        assert _decode(layout, _random(layout, 0, 0), 0).size == 0


@given(st.sampled_from(_LAYOUTS), st.integers(0, 1 << 32))
def test_codes_are_those_of_the_stream_of_bits(layout: GroupedLayout, seed: int) -> None:
    stored = _random(layout, 6, seed)
    companions = tensor_of_groups(layout, stored, (2, 3 * layout.group_size)).companions
    assert companions is not None
    lines = companions.layout.lines(2)
    reader_of_lines(companions).fill(0, lines)
    assert lines.codes.tobytes() == bytes(_read_codes(stored.packed.tobytes(), layout.bits))
    assert companions.layout.level_values().shape == (1 << layout.bits,)
    assert companions.layout.unit == layout.group_size


def test_a_layout_as_a_tensor_type() -> None:
    kind = _affine(4, 64).type
    assert (kind.name, kind.block_weights, kind.block_bytes) == ("int4", 64, 36)
    assert (kind.bits_per_weight, kind.quantized, kind.known, kind.id) == (4.5, True, True, None)
    assert _affine(8, 32, "F32").type.nbytes(64) == 64 + 2 * 8
    names = [_affine(bits, 32).name for bits in AFFINE_BITS]
    assert names == ["affine1", "affine2", "affine3", "int4", "affine5", "affine6", "int8"]
    assert [(one.name, one.type.bits_per_weight) for one in _FIXED] == [
        ("nvfp4", 4.5),
        ("mxfp4", 4.25),
        ("mxfp8", 8.25),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        (Mode.AFFINE, 7, 64, "BF16", "BF16"),
        (Mode.AFFINE, 4, 48, "BF16", "BF16"),
        (Mode.AFFINE, 4, 64, "BF16", None),
        (Mode.AFFINE, 4, 64, "U8", "BF16"),
        (Mode.NVFP4, 4, 32, "U8", None),
        (Mode.MXFP8, 8, 32, "F8_E4M3", None),
        (Mode.MXFP4, 4, 32, "U8", "BF16"),
    ],
)
def test_layouts_that_do_not_exist(fields: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="no such layout"):
        GroupedLayout(*fields)


def test_resolving_and_listing_need_no_numba() -> None:
    program = (
        "import sys; from explorer.quantization.grouped.detection import resolve;"
        "assert not {'numba', 'llvmlite'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
