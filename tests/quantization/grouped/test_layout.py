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

from explorer.quantization.grouped.detection import resolve
from explorer.quantization.grouped.kernels import (
    decode_groups,
    quantize_groups,
    unpack_group_codes,
    unpack_group_scales,
)
from explorer.quantization.grouped.layout import (
    AFFINE_BITS,
    AFFINE_GROUPS,
    AFFINE_SCALES,
    FIXED_SIZES,
    GroupedLayout,
    GroupParts,
    Mode,
    Part,
    StoredGroups,
    group_layout,
)
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


def _reference(layout: GroupedLayout, stored: StoredGroups) -> Floats:
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


def _random(layout: GroupedLayout, groups: int, seed: int, *, factors: int = 0) -> StoredGroups:
    """Return random bytes, so scales of every kind: subnormal, negative, infinite, NaN."""
    draw = np.random.default_rng(seed)

    def stored(width: int) -> NDArray[np.uint8]:
        return draw.integers(0, 256, groups * width, dtype=np.uint8)

    biases = stored(layout.bias_bytes) if layout.bias_bytes else None
    global_scales = draw.normal(size=factors).astype(np.float32) if factors else None
    packed, scales = stored(layout.packed_bytes), stored(layout.scale_bytes)
    return StoredGroups(packed, scales, biases, global_scales)


def _run(layout: GroupedLayout, stored: StoredGroups, first: int, last: int) -> StoredGroups:
    """Return the bytes of the groups from `first` up to `last`."""

    def part(raw: NDArray[Any] | None, width: int) -> Any:
        return None if raw is None else raw[first * width : last * width]

    return StoredGroups(
        part(stored.packed, layout.packed_bytes),
        part(stored.scales, layout.scale_bytes),
        part(stored.biases, layout.bias_bytes),
        part(stored.global_scales, 1),
    )


def _decode(layout: GroupedLayout, stored: StoredGroups, groups: int) -> Floats:
    out = np.full((groups, layout.group_size), 77, np.float32)
    decode_groups(layout, stored, out)
    return out


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
            out = np.empty(found.shape, np.float32)
            decode_groups(found.layout, StoredGroups(raw[0], raw[1], raw[2], factor), out)
            assert_same_bits(out, golden[f"{key}|dequant"])
            if factor is None:
                made = quantize_groups(found.layout, golden[f"{key}|original"])
                for ours, stored in zip((made.packed, made.scales, made.biases), raw, strict=False):
                    assert ours is stored is None or np.array_equal(ours, stored)
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
    groups = 24  # three rows of eight: a run may be rows, or begin and end within one
    stored = _random(layout, groups, 1, factors=groups if layout.mode is Mode.NVFP4 else 0)
    first = data.draw(st.integers(0, groups))
    last = data.draw(st.integers(first, groups))
    part = _decode(layout, _run(layout, stored, first, last), last - first)
    assert_same_bits(part, _decode(layout, stored, groups)[first:last])


@pytest.mark.parametrize("mode", [Mode.MXFP4, Mode.MXFP8, Mode.NVFP4])
def test_every_code_with_every_scale(mode: Mode) -> None:
    bits, size = FIXED_SIZES[mode]
    layout = GroupedLayout(mode, bits, size, "U8")
    codes = np.arange(256 if bits == 8 else 16)
    groups_of_all = len(codes) // size or 1
    one = np.resize(codes, groups_of_all * size).astype(np.uint8)
    one = one if bits == 8 else one[::2] | one[1::2] << 4
    scales = np.repeat(np.arange(256, dtype=np.uint8), groups_of_all)
    stored = StoredGroups(np.tile(one, 256), scales)
    assert_same_bits(_decode(layout, stored, len(scales)), _reference(layout, stored))


def test_a_small_example_by_hand() -> None:
    # codes 0 … 7 of 3 bits fill three bytes from the lowest bit on; four times that is a group
    eight = sum(code << (3 * code) for code in range(8)).to_bytes(3, "little")
    assert eight.hex() == "88c6fa"
    stored = StoredGroups(
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
    stored = StoredGroups(np.full(32, 255, np.uint8), *raw)
    assert _decode(_affine(8, 32, "F32"), stored, 1).tolist() == [[0.0] * 32]
    nibbles = StoredGroups(np.full(16, 0xFF, np.uint8), *raw)
    assert_same_bits(
        _decode(_affine(4, 32, "F32"), nibbles, 1), _reference(_affine(4, 32, "F32"), nibbles)
    )


def test_a_global_scale_for_all_or_for_each_group() -> None:
    layout = GroupedLayout(Mode.NVFP4, 4, 16, "U8")
    packed, scales = np.full(24, 0x72, np.uint8), np.full(3, 0x38, np.uint8)  # 1.0 and 6.0; 1.0
    for factors in ([0.25], [0.25] * 3, [1.0, -2.0, 0.5]):
        stored = StoredGroups(packed, scales, None, np.array(factors, np.float32))
        wanted = np.resize(np.array(factors), 3)[:, None] * np.tile([1.0, 6.0], 8)
        assert _decode(layout, stored, 3).tolist() == wanted.tolist()


def test_the_byte_255_of_e8m0_is_infinite_as_in_mlx_or_nan_where_the_type_says_e8m0() -> None:
    stored = StoredGroups(np.full(16, 0x22, np.uint8), np.array([255], np.uint8))
    assert np.isposinf(_decode(GroupedLayout(Mode.MXFP4, 4, 32, "U8"), stored, 1)).all()
    assert np.isnan(_decode(GroupedLayout(Mode.MXFP4, 4, 32, "F8_E8M0"), stored, 1)).all()


def test_bytes_that_are_not_aligned() -> None:
    layout = _affine(4, 64, "F32")
    stored = _random(layout, 5, 3)

    def moved(raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
        buffer = np.zeros(len(raw) + 8, np.uint8)
        start = 1 + -buffer.ctypes.data % 4
        buffer[start : start + len(raw)] = raw
        return buffer[start : start + len(raw)]

    assert stored.biases is not None
    odd = StoredGroups(moved(stored.packed), moved(stored.scales), moved(stored.biases))
    assert odd.scales.ctypes.data % 4 == 1
    assert_same_bits(_decode(layout, odd, 5), _decode(layout, stored, 5))


def test_no_groups() -> None:
    for layout in _LAYOUTS:
        assert _decode(layout, _random(layout, 0, 0), 0).size == 0


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ({"packed": np.zeros(63, np.uint8)}, "packed codes"),
        ({"scales": np.zeros(5, np.uint8)}, "scales"),
        ({"biases": np.zeros(3, np.uint8)}, "biases"),
        ({"biases": None}, "biases"),
    ],
)
def test_arrays_of_a_wrong_length_are_refused(broken: dict[str, Any], what: str) -> None:
    good = {name: np.zeros(size, np.uint8) for name, size in (("packed", 64), ("scales", 4))}
    stored = StoredGroups(**{**good, "biases": np.zeros(4, np.uint8), **broken})
    with pytest.raises(ValueError, match=what):
        decode_groups(_affine(4, 64), stored, np.empty((2, 64), np.float32))


def test_other_arrays_that_would_go_wrong_are_refused() -> None:
    layout = GroupedLayout(Mode.NVFP4, 4, 16, "U8")
    factors = np.ones(2, np.float32)
    stored = StoredGroups(np.zeros(24, np.uint8), np.zeros(3, np.uint8), None, factors)
    with pytest.raises(ValueError, match="global scales"):
        decode_groups(layout, stored, np.empty(48, np.float32))
    with pytest.raises(ValueError, match="whole groups"):
        decode_groups(layout, stored, np.empty(47, np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        decode_groups(layout, stored, np.empty((48, 2), np.float32)[:, 0])
    scales = np.empty((3, 1), np.float32)
    with pytest.raises(ValueError, match="contiguous"):
        unpack_group_codes(layout, stored, np.empty((16, 3), np.uint8).T)
    with pytest.raises(ValueError, match="contiguous"):
        unpack_group_scales(layout, stored, np.empty((3, 2), np.float32)[:, :1], scales)


@given(st.sampled_from(_LAYOUTS), st.integers(0, 1 << 32))
def test_codes_scales_and_minima_make_the_weights(layout: GroupedLayout, seed: int) -> None:
    groups = 6
    stored = _random(layout, groups, seed, factors=groups if layout.mode is Mode.NVFP4 else 0)
    coding = group_layout(layout)
    codes = np.empty((groups, layout.group_size), np.uint8)
    scales = np.empty((groups, 1), np.float32)
    minima = np.zeros((groups, int(coding.has_minimum)), np.float32)
    unpack_group_codes(layout, stored, codes)
    unpack_group_scales(layout, stored, scales, minima)
    assert codes.tobytes() == bytes(_read_codes(stored.packed.tobytes(), layout.bits))
    assert coding.levels.shape == (1 << layout.bits,)
    assert coding.weights_per_scale == layout.group_size
    assert coding.has_minimum is (layout.mode is Mode.AFFINE)
    with np.errstate(all="ignore"):
        weights = scales * coding.levels[codes] - (minima if coding.has_minimum else 0)
    decoded = _decode(layout, stored, groups)
    finite = np.isfinite(decoded)
    # One rounding more where there is a global scale; none in the other modes.
    np.testing.assert_allclose(weights[finite], decoded[finite], rtol=2e-7, atol=1e-44)


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
