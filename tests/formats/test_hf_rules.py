"""Weights of Hugging Face's methods against the formulas of docs/hf_quantization.md, in NumPy.

Parts are random numbers in shapes that no golden folder has: partial blocks, odd numbers of rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.formats.weights import WeightReader
from explorer.quantization.types import E2M1, E4M3, E4M3_FNUZ, E5M2, E5M2_FNUZ
from tests.helpers.safetensors_writer import safetensors_bytes
from tests.helpers.tensors import assert_same_bits

Part: TypeAlias = tuple[str, Any]  # type by safetensors' name; bytes in an array's shape
Floats: TypeAlias = NDArray[np.float32]

STEM = "model.layers.0.mlp.up_proj"


def write_folder(
    folder: Path,
    parts: Mapping[str, Part],
    quantization: Mapping[str, Any] | None = None,
    shapes: Mapping[str, list[int]] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write a model's folder; `shapes` are what the header says instead of the truth."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for name, (dtype, array) in parts.items():
        raw = array.tobytes()
        shape = (shapes or {}).get(name, list(array.shape))
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(safetensors_bytes(header, data))
    config = {"model_type": "llama", "hidden_size": 320, "quantization_config": quantization or {}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def decoded(folder: Path, name: str = f"{STEM}.weight") -> Floats:
    with open_model(folder) as model:
        assert model.problems == ()
        tensor = next(one for one in model.tensors.rows if one.name == name)
        assert tensor.companions is not None
        values: Floats = tensor.dequantize()
    return values


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def small_floats(random: np.random.Generator, *shape: int) -> NDArray[np.uint8]:
    """Return bytes of E4M3 that are numbers."""
    found = random.integers(0, 256, shape, np.uint8)
    found[found & 0x7F == 0x7F] = 0  # not a number
    return found


def numbers(random: np.random.Generator, *shape: int) -> Floats:
    return random.normal(size=shape).astype(np.float32)


def spread(scales: NDArray[Any], rows: int, columns: int, shape: tuple[int, int]) -> NDArray[Any]:
    """Return the scale of each weight of a matrix with tiles of some rows and columns."""
    return scales.repeat(rows, 0).repeat(columns, 1)[: shape[0], : shape[1]]


# FP8


@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (128, 128), (16, 48)])
def test_fp8_blocks_may_be_partial(
    tmp_path: Path, random: np.random.Generator, rows: int, columns: int
) -> None:
    shape = (200, 144)
    weight, scale = (
        small_floats(random, *shape),
        numbers(random, -(-200 // rows), -(-144 // columns)),
    )
    parts = {f"{STEM}.weight": ("F8_E4M3", weight), f"{STEM}.weight_scale_inv": ("F32", scale)}
    said = {"quant_method": "fp8", "weight_block_size": [rows, columns]}
    found = decoded(write_folder(tmp_path, parts, said))
    assert_same_bits(found, E4M3[weight] * spread(scale, rows, columns, shape))


@pytest.mark.parametrize("shape", [(), (1,), (48,), (48, 1), (1, 1)])
def test_fp8_scales_of_tensors_and_of_rows(
    tmp_path: Path, random: np.random.Generator, shape: tuple[int, ...]
) -> None:
    weight, scale = small_floats(random, 48, 48), numbers(random, *shape)
    parts = {
        f"{STEM}.weight": ("F8_E4M3", weight),
        f"{STEM}.weight_scale": ("F32", np.asarray(scale)),
    }
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "fp8"}))
    assert_same_bits(found, E4M3[weight] * np.asarray(scale).reshape(-1, 1))


def test_fp8_blocks_of_modelopt_have_four_dimensions(
    tmp_path: Path, random: np.random.Generator
) -> None:
    weight, scale = small_floats(random, 300, 130), numbers(random, 3, 1, 2, 1)
    parts = {f"{STEM}.weight": ("F8_E4M3", weight), f"{STEM}.weight_scale": ("F32", scale)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "modelopt"}))
    assert_same_bits(found, E4M3[weight] * spread(scale.reshape(3, 2), 128, 128, (300, 130)))


def test_mxfp8_has_a_power_of_two_for_32_weights(
    tmp_path: Path, random: np.random.Generator
) -> None:
    weight = small_floats(random, 6, 96)
    scale = random.integers(90, 160, (6, 3)).astype(np.uint8)
    parts = {f"{STEM}.weight": ("F8_E4M3", weight), f"{STEM}.weight_scale": ("U8", scale)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "compressed-tensors"}))
    powers = np.exp2(scale.astype(np.float64) - 127).astype(np.float32)
    assert_same_bits(found, E4M3[weight] * spread(powers, 1, 32, (6, 96)))


def test_fused_experts_have_tiles_of_their_own(tmp_path: Path, random: np.random.Generator) -> None:
    weight, scale = small_floats(random, 3, 40, 70), numbers(random, 3, 2, 3)
    name = "model.layers.0.mlp.experts.gate_up_proj"
    parts = {name: ("F8_E4M3", weight), f"{name}_scale_inv": ("F32", scale)}
    said = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    found = decoded(write_folder(tmp_path, parts, said), name)
    tiles = np.stack([spread(one, 32, 32, (40, 70)) for one in scale])
    assert_same_bits(found, E4M3[weight] * tiles)


@pytest.mark.parametrize("role", ["weight_scale_inv", "scale", "qscale_weight"])
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "F8_E8M0", "U8"])
def test_fp8_scales_of_every_name_and_type(
    tmp_path: Path, random: np.random.Generator, role: str, kind: str
) -> None:
    weight = small_floats(random, 70, 100)
    grid = (3, 4)
    raw: NDArray[Any] = numbers(random, *grid)
    scale = raw
    if kind == "F16":
        raw = raw.astype(np.float16)
        scale = raw.astype(np.float32)
    elif kind == "BF16":
        raw = (raw.view(np.uint32) >> 16).astype(np.uint16)
        scale = (raw.astype(np.uint32) << 16).view(np.float32)
    elif kind != "F32":
        raw = random.integers(100, 150, grid).astype(np.uint8)
        scale = np.exp2(raw.astype(np.float64) - 127).astype(np.float32)
    parts = {f"{STEM}.weight": ("F8_E4M3", weight), f"{STEM}.{role}": (kind, raw)}
    said = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    found = decoded(write_folder(tmp_path, parts, said))
    assert_same_bits(found, E4M3[weight] * spread(scale, 32, 32, (70, 100)))


@pytest.mark.parametrize("shape", [(6, 4, 3, 3), (6, 4, 3), (24,)])
@pytest.mark.parametrize("each", [False, True])
def test_fp8_of_convolutions_and_vectors(
    tmp_path: Path, random: np.random.Generator, shape: tuple[int, ...], each: bool
) -> None:
    """ComfyUI scales a kernel as a whole, and others each of its outputs."""
    weight = small_floats(random, shape[0], math.prod(shape[1:])).reshape(shape)
    raw = numbers(random, *(shape[:1] if each else ()))
    if each and len(shape) == 3:
        raw = raw.reshape(-1, 1, 1)
    parts = {f"{STEM}.weight": ("F8_E4M3", weight), f"{STEM}.scale_weight": ("F32", raw)}
    found = decoded(write_folder(tmp_path, parts))
    assert_same_bits(found, E4M3[weight] * raw.reshape(-1, *(1,) * (len(shape) - 1)))


@pytest.mark.parametrize("kind", ["F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"])
def test_other_floats_of_8_bits(tmp_path: Path, random: np.random.Generator, kind: str) -> None:
    levels = {"F8_E5M2": E5M2, "F8_E4M3FNUZ": E4M3_FNUZ, "F8_E5M2FNUZ": E5M2_FNUZ}[kind]
    weight = np.arange(256, dtype=np.uint8).repeat(8).reshape(64, 32)
    scale = numbers(random, 64, 1)
    parts = {f"{STEM}.weight": (kind, weight), f"{STEM}.weight_scale": ("F32", scale)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "fp8"}))
    assert_same_bits(found, levels[weight] * scale)


def test_experts_of_deepseek_are_fp4(tmp_path: Path, random: np.random.Generator) -> None:
    packed = random.integers(-128, 128, (10, 48)).astype(np.int8)
    scale = random.integers(100, 150, (10, 3)).astype(np.uint8)
    parts = {f"{STEM}.weight": ("I8", packed), f"{STEM}.scale": ("F8_E8M0", scale)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "fp8", "expert_dtype": "fp4"}))
    powers = np.exp2(scale.astype(np.float64) - 127).astype(np.float32)
    assert_same_bits(found, E2M1[nibbles(packed.view(np.uint8))] * powers.repeat(32, 1))


# torchao


@pytest.mark.parametrize("tile", [(1, 96), (1, 32), (16, 32), (40, 96)])
@pytest.mark.parametrize(
    "kind",
    [
        *("Int8Tensor", "Float8Tensor", "Int8Tensor with zeros"),
        "IntxUnpackedToInt8Tensor with zeros",  # of torchao 0.18: the same values but for BF16
    ],
)
def test_torchao(
    tmp_path: Path, random: np.random.Generator, tile: tuple[int, int], kind: str
) -> None:
    shape = (40, 96)
    grid = tuple(-(-side // part) for side, part in zip(shape, tile, strict=True))
    scale, zero = numbers(random, *grid), random.integers(-9, 9, grid).astype(np.int8)
    stem = f"{STEM}._weight"
    parts: dict[str, Part] = {f"{stem}_scale": ("F32", scale)}
    if kind == "Float8Tensor":
        codes: NDArray[Any] = small_floats(random, *shape)
        parts[f"{stem}_qdata"] = ("F8_E4M3", codes)
        levels = E4M3[codes]
    else:
        codes = random.integers(-128, 128, shape).astype(np.int8)
        parts[f"{stem}_qdata"] = ("I8", codes)
        levels = codes.astype(np.float32)
    if kind.endswith("with zeros"):
        parts[f"{stem}_zero_point"] = ("I8", zero)
        levels = levels - spread(zero, *tile, shape).astype(np.float32)
    about = {"_type": kind.partition(" ")[0], "_data": {"block_size": list(tile)}}
    said = {f"{STEM}.weight": json.dumps(about)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "torchao"}, None, said))
    assert_same_bits(found, levels * spread(scale, *tile, shape))


@pytest.mark.parametrize(
    ("kind", "codes", "shape", "said"),
    [
        ("Int4Tensor", ("I8", (64, 64)), (64, 128), True),
        ("Int4PlainInt32Tensor", ("I32", (64, 16)), (64, 128), True),
        ("Int4TilePackedTo4dTensor", ("I32", (8, 1, 32, 4)), (64, 128), True),
        ("Int4Tensor", ("I8", (64, 64)), (64, 256), False),
        ("Int4Tensor", ("I8", (64, 64)), "no shape", False),
    ],
)
def test_torchao_s_int4_is_counted_by_the_shape_that_it_says(
    tmp_path: Path, kind: str, codes: tuple[str, tuple[int, ...]], shape: object, *, said: bool
) -> None:
    dtype, size = codes
    stored = np.zeros(size, {"I8": np.int8, "I32": np.int32}[dtype])
    scale = np.ones((4, 64), np.float16)
    parts: dict[str, Part] = {
        f"{STEM}._weight_qdata": (dtype, stored),
        f"{STEM}._weight_scale": ("F16", scale),
    }
    about = {f"{STEM}.weight": json.dumps({"_type": kind, "_data": {"shape": shape}})}
    with open_model(
        write_folder(tmp_path, parts, {"quant_method": "torchao"}, None, about)
    ) as model:
        assert model.parameters == (64 * 128 if said else stored.size + scale.size)
        assert any("not read" in problem.what for problem in model.problems) == said


# FP4


def nibbles(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return two codes for each byte, the low one first, along the last dimension."""
    pairs = np.stack([packed & 15, packed >> 4], -1)
    return pairs.reshape(*packed.shape[:-1], -1)


@pytest.mark.parametrize("maker", ["compressed-tensors", "modelopt"])
def test_nvfp4(tmp_path: Path, random: np.random.Generator, maker: str) -> None:
    packed = random.integers(0, 256, (7, 24), np.uint8)
    scale = random.integers(0, 0x7F, (7, 3), np.uint8)
    factor = np.array([0.0173], np.float32)
    levels = E2M1[nibbles(packed)]
    if maker == "modelopt":
        names, total = ("weight", "weight_scale", "weight_scale_2"), E4M3[scale] * factor
        levels = np.where(levels == 0, np.float32(0), levels)
    else:
        names, total = (
            ("weight_packed", "weight_scale", "weight_global_scale"),
            E4M3[scale] / factor,
        )
    arrays = (("U8", packed), ("F8_E4M3", scale), ("F32", factor))
    parts = {f"{STEM}.{name}": part for name, part in zip(names, arrays, strict=True)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": maker}))
    assert_same_bits(found, levels * total.repeat(16, 1))


@pytest.mark.parametrize("scale", ["weight_scale", "weight_quantizer.scale"])
def test_quark_reads_fp4_of_powers_of_two(
    tmp_path: Path, random: np.random.Generator, scale: str
) -> None:
    """AMD Quark, pack.py, `Pack_fp4`: the first weight in the low half of a byte."""
    codes, scales = (random.integers(0, 255, (6, count), np.uint8) for count in (48, 3))
    parts = {f"{STEM}.weight": ("U8", codes), f"{STEM}.{scale}": ("U8", scales)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "quark"}))
    powers = np.ldexp(np.float32(1), scales.astype(np.int32) - 127).astype(np.float32)
    assert_same_bits(found, E2M1[nibbles(codes)] * powers.repeat(32, 1))


def test_turbodiffusion_has_a_scale_for_each_tile(
    tmp_path: Path, random: np.random.Generator
) -> None:
    codes, scales = random.integers(-128, 128, (200, 300), np.int8), numbers(random, 2, 3)
    parts = {f"{STEM}.int8_weight": ("I8", codes), f"{STEM}.scale": ("F32", scales)}
    found = decoded(write_folder(tmp_path, parts))
    spread = scales.repeat(128, 0)[:200].repeat(128, 1)[:, :300]
    assert_same_bits(found, codes * spread)


@pytest.mark.parametrize("suffixes", [("_blocks", "_scales"), (".blocks", ".scales")])
def test_gpt_oss_reads_any_exponent(
    tmp_path: Path, random: np.random.Generator, suffixes: tuple[str, str]
) -> None:
    blocks = random.integers(0, 256, (2, 5, 3, 16), np.uint8)
    scales = random.integers(0, 256, (2, 5, 3), np.uint8)
    scales[0, 0] = 0, 255, 1
    name = "model.layers.0.mlp.experts.down_proj"
    parts = {name + suffixes[0]: ("U8", blocks), name + suffixes[1]: ("U8", scales)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "mxfp4"}), name)
    with np.errstate(all="ignore"):
        powers = np.append(np.exp2(np.arange(255) - 127.0), np.inf).astype(np.float32)[scales]
        wanted = E2M1[nibbles(blocks)] * powers[..., None]
    assert_same_bits(found, wanted.reshape(2, 5, 96))


def test_two_rows_in_a_byte(tmp_path: Path, random: np.random.Generator) -> None:
    packed, scale = random.integers(0, 256, (5, 64), np.uint8), numbers(random, 10, 2)
    parts = {f"{STEM}.weight": ("U8", packed), f"{STEM}.weight_scale": ("F32", scale)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "modelopt"}))
    codes = np.stack([packed & 15, packed >> 4], 1).reshape(10, 64).astype(np.int32)
    signed = (codes - 16 * (codes > 7)).astype(np.float32)
    assert_same_bits(found, signed * scale.repeat(32, 1))


# Integers


def packed_words(codes: NDArray[np.uint8], bits: int, *, padded: bool) -> NDArray[np.int32]:
    """Return codes of lines, [n, m], as words; independent of how they are unpacked."""
    each = 32 // bits
    lines = []
    for line in codes.tolist():
        stream = 0
        for place, code in enumerate(line):
            at = place // each * 32 + place % each * bits if padded else place * bits
            stream |= code << at
        words = -(-len(line) // each) if padded else -(-len(line) * bits // 32)
        lines.append(np.frombuffer(stream.to_bytes(4 * words, "little"), np.int32))
    return np.array(lines)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_packed_integers(
    tmp_path: Path, random: np.random.Generator, bits: int, padded: bool, zeros: bool
) -> None:
    rows, columns, group = 37, 96, 32
    codes = random.integers(0, 1 << bits, (rows, columns), np.uint8)
    scale = numbers(random, rows, columns // group)
    parts: dict[str, Part] = {
        f"{STEM}.weight_packed": ("I32", packed_words(codes, bits, padded=padded)),
        f"{STEM}.weight_scale": ("F32", scale),
        f"{STEM}.weight_shape": ("I64", np.array([rows, columns])),
    }
    zero = random.integers(0, 1 << bits, scale.shape, np.uint8)
    if zeros:
        down = np.ascontiguousarray(packed_words(zero.T, bits, padded=padded).T)
        parts[f"{STEM}.weight_zero_point"] = ("I32", down)
    group_0 = {"targets": ["Linear"], "weights": {"num_bits": bits, "group_size": group}}
    said = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group_0}}
    found = decoded(write_folder(tmp_path, parts, said))
    middle = zero.repeat(group, 1).astype(np.int32) if zeros else 1 << bits >> 1
    wanted = (codes.astype(np.int32) - middle).astype(np.float32) * scale.repeat(group, 1)
    assert_same_bits(found, wanted)


def test_columns_of_packed_integers_in_another_order(
    tmp_path: Path, random: np.random.Generator
) -> None:
    codes, scale = random.integers(0, 16, (9, 64), np.uint8), numbers(random, 9, 2)
    groups = random.permutation(np.repeat(np.arange(2, dtype=np.int32), 32))
    parts: dict[str, Part] = {
        f"{STEM}.weight_packed": ("I32", packed_words(codes, 4, padded=False)),
        f"{STEM}.weight_scale": ("F32", scale),
        f"{STEM}.weight_g_idx": ("I32", groups),
        f"{STEM}.weight_shape": ("I64", np.array([9, 64])),
    }
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "compressed-tensors"}))
    assert_same_bits(found, (codes.astype(np.float32) - np.float32(8)) * scale[:, groups])


@pytest.mark.parametrize("shape", [(1,), (48, 1), (48, 3)])
def test_int8_with_zero_points(
    tmp_path: Path, random: np.random.Generator, shape: tuple[int, ...]
) -> None:
    weight, zero = (random.integers(-128, 128, one).astype(np.int8) for one in ((48, 96), shape))
    scale = numbers(random, *shape)
    names = "weight", "weight_scale", "weight_zero_point"
    arrays = (("I8", weight), ("F32", scale), ("I8", zero))
    parts = {f"{STEM}.{name}": part for name, part in zip(names, arrays, strict=True)}
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "compressed-tensors"}))
    grid = (1, 1) if len(shape) == 1 else shape
    each = spread(scale.reshape(grid), 48 // grid[0], 96 // grid[1], (48, 96))
    zeros = spread(zero.reshape(grid), 48 // grid[0], 96 // grid[1], (48, 96))
    assert_same_bits(found, (weight.astype(np.int32) - zeros).astype(np.float32) * each)


# Codes of rows that lie far apart

HQQ = {
    "1bit_u8": (1, 8),
    "2bit_u8": (2, 4),
    "4bit_u8": (4, 2),
    "8bit_u8": (8, 1),
    "3bit_32": (3, 10),
}


def stacked(codes: NDArray[np.uint8], bits: int, each: int, *, high_first: bool) -> NDArray[Any]:
    """Return a matrix of codes in words that hold rows far apart."""
    rows = -(-len(codes) // each)
    filled = np.zeros((rows * each, codes.shape[1]), np.int64)
    filled[: len(codes)] = codes
    shifts = [bits * (each - 1 - part if high_first else part) for part in range(each)]
    words = sum(
        filled[part * rows : (part + 1) * rows] << shift for part, shift in enumerate(shifts)
    )
    return np.asarray(words).astype(np.int32 if bits == 3 else np.uint8)


@pytest.mark.parametrize("packing", HQQ)
@pytest.mark.parametrize("axis", [0, 1])
def test_hqq(tmp_path: Path, random: np.random.Generator, packing: str, axis: int) -> None:
    bits, each = HQQ[packing]
    shape, group = (36, 40), 24 if axis else 60
    groups = shape[0] * shape[1] // group
    matrix = (groups, group) if axis else (group, groups)
    codes = random.integers(0, 1 << bits, matrix, np.uint8)
    scale, zero = (numbers(random, *((groups, 1) if axis else (1, groups))) for _ in range(2))
    text = np.frombuffer(packing.encode(), np.uint8)
    fields: dict[str, Part] = {
        "W_q": ("I32" if bits == 3 else "U8", stacked(codes, bits, each, high_first=True)),
        "scale": ("F32", scale),
        "zero": ("F32", zero),
        "shape": ("I64", np.array(shape)),
        "axis": ("I32", np.array(axis, np.int32)),
        "nbits": ("I32", np.array(bits, np.int32)),
        "packing": ("U8", text),
    }
    parts = {f"{STEM}.{name}": part for name, part in fields.items()}
    wanted = ((codes.astype(np.float32) - zero) * scale).reshape(shape)
    folder = write_folder(tmp_path, parts, {"quant_method": "hqq"})
    assert_same_bits(decoded(folder), wanted)
    with open_model(folder) as model:
        reader = WeightReader(model.tensors[f"{STEM}.weight"])
        for start, stop in ((0, 7), (37, 38), (41, 1333), (500, 1440)):  # of groups that lie apart
            run = np.empty(stop - start, np.float32)
            reader.read_into(start, run)
            assert_same_bits(run, wanted.reshape(-1)[start:stop])


@pytest.mark.parametrize(("key", "number"), [("nbits", 3), ("nbits", 99), ("group_size", 32)])
def test_settings_of_hqq_that_contradict_its_codes_are_told(
    tmp_path: Path, random: np.random.Generator, key: str, number: int
) -> None:
    fields: dict[str, Part] = {
        "W_q": ("U8", random.integers(0, 256, (8, 64), np.uint8)),
        "scale": ("F32", numbers(random, 16, 1)),
        "zero": ("F32", numbers(random, 16, 1)),
        "shape": ("I64", np.array((16, 64))),
        "axis": ("I32", np.array(1, np.int32)),
        "nbits": ("I32", np.array(4, np.int32)),
        "group_size": ("I32", np.array(64, np.int32)),
        "packing": ("U8", np.frombuffer(b"4bit_u8", np.uint8)),
    }
    parts = {f"{STEM}.{name}": part for name, part in fields.items()}
    decoded(write_folder(tmp_path, parts, {"quant_method": "hqq"}))  # as they are: no problem
    parts[f"{STEM}.{key}"] = ("I32", np.array(number, np.int32))
    with open_model(write_folder(tmp_path, parts, {"quant_method": "hqq"})) as model:
        assert model.tensors[f"{STEM}.weight"].companions is not None
        assert f"its {key} is {number}" in model.problems[0].what


@pytest.mark.parametrize("each", [2, 4])
@pytest.mark.parametrize("integer_shift", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_quanto_of_few_bits(
    tmp_path: Path, random: np.random.Generator, each: int, integer_shift: bool, with_bias: bool
) -> None:
    bits, rows, columns, group = 8 // each, 6, 320, 64
    codes = random.integers(0, 1 << bits, (rows * columns // group, group), np.uint8)
    scale = numbers(random, len(codes), 1)
    shift: NDArray[Any] = numbers(random, len(codes), 1)
    wanted = codes.astype(np.float32) * scale - shift
    if integer_shift:
        shift = random.integers(0, 1 << bits, scale.shape).astype(np.int8)
        wanted = (codes.astype(np.float32) - shift.astype(np.float32)) * scale
    parts: dict[str, Part] = {
        f"{STEM}.weight._data._data": ("U8", stacked(codes, bits, each, high_first=False)),
        f"{STEM}.weight._scale": ("F32", scale),
        f"{STEM}.weight._shift": ("I8" if integer_shift else "F32", shift),
    }
    if with_bias:
        parts[f"{STEM}.bias"] = ("F32", numbers(random, rows))
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "quanto"}))
    assert_same_bits(found, wanted.reshape(rows, columns))


@pytest.mark.parametrize(
    ("module", "columns"),
    [
        ("self_attn.q_proj", 320),
        ("self_attn.o_proj", 256),  # heads are not as wide together as what layers hand on
        ("mlp.down_proj", 640),
        ("mlp.experts.3.down_proj", 384),
        ("mlp.experts.3.up_proj", 320),
    ],
)
def test_lengths_of_the_model_tell_the_shape_of_quanto(
    tmp_path: Path, random: np.random.Generator, module: str, columns: int
) -> None:
    group = 64 if columns == 320 else 128
    name = f"model.layers.0.{module}"
    codes = random.integers(0, 16, (10 * columns // group, group), np.uint8)
    scale, shift = (numbers(random, len(codes), 1) for _ in range(2))
    parts: dict[str, Part] = {
        f"{name}.weight._data._data": ("U8", stacked(codes, 4, 2, high_first=False)),
        f"{name}.weight._scale": ("F32", scale),
        f"{name}.weight._shift": ("F32", shift),
    }
    folder = write_folder(tmp_path, parts, {"quant_method": "quanto"})
    config = json.loads((folder / "config.json").read_text())
    config |= {"intermediate_size": 640, "moe_intermediate_size": 384}
    config |= {"num_attention_heads": 4, "head_dim": 64}
    (folder / "config.json").write_text(json.dumps(config))
    found = decoded(folder, f"{name}.weight")
    assert_same_bits(found, (codes.astype(np.float32) * scale - shift).reshape(10, columns))


@pytest.mark.parametrize("kind", ["autobitlinear", "bitlinear"])
def test_bitnet(tmp_path: Path, random: np.random.Generator, kind: str) -> None:
    codes = random.integers(0, 3, (12, 20), np.uint8)
    scale = np.array([0.37], np.float32)
    packed = stacked(codes, 2, 4, high_first=False)
    parts = {f"{STEM}.weight": ("U8", packed), f"{STEM}.weight_scale": ("F32", scale)}
    said = {"quant_method": "bitnet", "linear_class": kind}
    found = decoded(write_folder(tmp_path, parts, said))
    values = codes.astype(np.float32) - np.float32(1)
    assert_same_bits(found, values * scale if kind == "autobitlinear" else values / scale)


# Anything in a header

_SUFFIXES = (
    *("weight", "weight_scale", "weight_scale_inv", "weight_packed", "weight_shape", "scale"),
    *("weight_zero_point", "weight_g_idx", "weight_global_scale", "weight_scale_2", "W_q", "zero"),
    *("shape", "axis", "packing", "weight._data", "weight._data._data", "weight._scale"),
    *("weight._shift", "_weight_qdata", "_weight_scale", "blocks", "scales", "qweight", "qzeros"),
    *("g_idx", "SCB", "weight.absmax", "weight.quant_map", "bias", "input_scale"),
)
_WIDTHS = {
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "U8": 1,
    "I8": 1,
    "I32": 4,
    "I64": 8,
    "F8_E4M3": 1,
    "F8_E8M0": 1,
}


@st.composite
def any_parts(draw: st.DrawFn) -> dict[str, Part]:
    names = draw(st.lists(st.sampled_from(_SUFFIXES), min_size=2, max_size=6, unique=True))
    parts: dict[str, Part] = {}
    for name in names:
        dtype = draw(st.sampled_from(sorted(_WIDTHS)))
        shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 8, 16, 32]), max_size=4))
        count = int(np.prod(shape, dtype=np.int64)) if shape else 1
        if count > 1 << 12:
            continue
        raw = draw(st.binary(min_size=1, max_size=8))
        data = np.resize(np.frombuffer(raw, np.uint8), (*shape, _WIDTHS[dtype]))
        parts[f"{STEM}.{name}"] = (dtype, data)
    return parts


@given(
    parts=any_parts(), method=st.sampled_from(["", "fp8", "modelopt", "compressed-tensors", "hqq"])
)
def test_every_stored_key_is_in_one_place_and_nothing_else_goes_wrong(
    tmp_path_factory: pytest.TempPathFactory, parts: dict[str, Part], method: str
) -> None:
    shapes = {name: list(array.shape[:-1]) for name, (_, array) in parts.items()}
    folder = write_folder(tmp_path_factory.mktemp("any"), parts, {"quant_method": method}, shapes)
    with open_model(folder) as model:
        listed: list[str] = []
        for tensor in model.tensors.rows:
            if tensor.companions is None:
                listed.append(tensor.name)
                continue
            listed += [*tensor.companions.keys.values(), *tensor.companions.attached]
            try:
                assert tensor.dequantize().shape == tensor.shape
            except ExplorerError:
                continue
        assert sorted(listed) == sorted(parts)
