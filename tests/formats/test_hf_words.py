"""Weights in words of GPTQ and AWQ, and of bitsandbytes, against the formulas in NumPy.

Parts are random numbers in shapes that no golden folder has; docs/hf_quantization.md, 3.1 to 3.3.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.formats.test_hf_rules import STEM, Part, decoded, numbers, packed_words, write_folder
from tests.helpers.tensors import assert_same_bits


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(11)


def down_words(codes: NDArray[np.uint8], bits: int) -> NDArray[np.int32]:
    """Return codes [n, m] as words down the first dimension."""
    return np.ascontiguousarray(packed_words(np.ascontiguousarray(codes.T), bits, padded=False).T)


def words_of(
    kind: str, codes: NDArray[np.uint8], zeros: NDArray[np.uint8], bits: int = 4
) -> dict[str, Part]:
    """Return codes [in, out] and zero points [groups, out] in the words of "gptq" or "awq"."""
    if kind == "awq":
        return {"qweight": ("I32", awq_words(codes)), "qzeros": ("I32", awq_words(zeros))}
    stored = packed_words(zeros, bits, padded=False)
    return {"qweight": ("I32", down_words(codes, bits)), "qzeros": ("I32", stored)}


def of_module(parts: dict[str, Part]) -> dict[str, Part]:
    """Return parts under the names that a module's have."""
    return {f"{STEM}.{name}": part for name, part in parts.items()}


def halves(random: np.random.Generator, *shape: int) -> NDArray[np.float16]:
    return random.normal(size=shape).astype(np.float16)


_EVERY_FIELD = {2: 0x55555555, 4: 0x11111111, 8: 0x01010101}


@pytest.mark.parametrize(
    ("bits", "version"),
    [
        *((bits, version) for bits in (2, 3, 4, 8) for version in ("gptq", "gptq_v2", None)),
        *((bits, "gptq_p") for bits in (2, 4, 8)),  # others are stored in planes
    ],
)
@pytest.mark.parametrize("order", ["none", "in order", "any"])
def test_gptq(
    tmp_path: Path, random: np.random.Generator, bits: int, version: str | None, order: str
) -> None:
    inputs, outputs, group = 96 + 64, 64, 64  # the last group is short
    groups = -(-inputs // group)
    codes = random.integers(0, 1 << bits, (inputs, outputs), np.uint8)
    zeros = random.integers(0, 1 << bits, (groups, outputs), np.uint8)
    scales = halves(random, groups, outputs)
    words = packed_words(zeros, bits, padded=False).view(np.uint32)
    own = np.arange(inputs, dtype=np.int32) // group
    if order == "any":
        own = random.permutation(own)
    wanted_zeros = zeros.astype(np.int32)
    if version in {"gptq", None}:
        if bits == 3:  # each field, without a carry
            wanted_zeros = (wanted_zeros + 1) & 7
        else:  # the whole word, with carries: zeros of all ones change their neighbours
            more = words + np.uint32(_EVERY_FIELD[bits])
            shifts = np.arange(0, 32, bits, dtype=np.uint32)
            fields = more[..., None] >> shifts & np.uint32((1 << bits) - 1)
            wanted_zeros = fields.reshape(groups, -1).astype(np.int32)
    parts = of_module(words_of("gptq", codes, zeros, bits) | {"scales": ("F16", scales)})
    if order != "none":
        parts[f"{STEM}.g_idx"] = ("I32", own)
    said = {"quant_method": "gptq", "bits": bits, "group_size": group}
    if version is not None:
        said["checkpoint_format"] = version
    found = decoded(write_folder(tmp_path, parts, said))
    steps = (codes.astype(np.int32) - wanted_zeros[own]).astype(np.float32)
    assert_same_bits(found, (steps * scales.astype(np.float32)[own]).T)


def test_gptq_with_a_group_for_each_column(tmp_path: Path, random: np.random.Generator) -> None:
    codes, zeros = (random.integers(0, 16, (64, 32), np.uint8) for _ in range(2))
    scales, own = halves(random, 64, 32), random.permutation(64).astype(np.int32)
    parts = of_module(words_of("gptq", codes, zeros) | {"scales": ("F16", scales)})
    said = {"quant_method": "gptq", "bits": 4, "group_size": 1, "checkpoint_format": "gptq_v2"}
    for order in (np.arange(64), own):
        folder = tmp_path / str(order[0])
        indexed = parts | {f"{STEM}.g_idx": ("I32", order.astype(np.int32))}
        found = decoded(write_folder(folder, indexed, said))
        steps = codes.astype(np.float32) - zeros.astype(np.float32)[order]
        assert_same_bits(found, (steps * scales.astype(np.float32)[order]).T)


@pytest.mark.parametrize(
    ("packing", "less"),
    [("auto_round:auto_gptq", 1), ("auto_round", 0), ("auto_round:gptqmodel", 0)],
)
def test_auto_round_says_how_zero_points_are_stored(
    tmp_path: Path, random: np.random.Generator, packing: str, less: int
) -> None:
    codes = random.integers(0, 16, (64, 32), np.uint8)
    zeros = random.integers(0, 15, (2, 32), np.uint8)
    scales = halves(random, 2, 32)
    parts = of_module(words_of("gptq", codes, zeros) | {"scales": ("F16", scales)})
    said = {"quant_method": "auto-round", "packing_format": packing, "bits": 4, "group_size": 32}
    found = decoded(write_folder(tmp_path, parts, said))
    own = np.arange(64) // 32
    steps = codes.astype(np.float32) - (zeros + np.uint8(less)).astype(np.float32)[own]
    assert_same_bits(found, (steps * scales.astype(np.float32)[own]).T)


def awq_words(codes: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return codes [n, 8 m] as words in AWQ's order of nibbles: 0, 2, 4, 6, 1, 3, 5, 7."""
    eights = codes.reshape(len(codes), -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]]
    return packed_words(eights.reshape(len(codes), -1), 4, padded=False)


@pytest.mark.parametrize("group", [16, 32, 96])
@pytest.mark.parametrize("where", ["quantization_config", "quant_config.json", "auto-round", ""])
def test_awq_gemm(tmp_path: Path, random: np.random.Generator, group: int, where: str) -> None:
    inputs, outputs = 96, 40
    codes = random.integers(0, 16, (inputs, outputs), np.uint8)
    zeros = random.integers(0, 16, (inputs // group, outputs), np.uint8)
    scales = halves(random, inputs // group, outputs)
    parts = of_module(words_of("awq", codes, zeros) | {"scales": ("F16", scales)})
    said: dict[str, Any] = {"bits": 4, "group_size": group, "version": "GEMM"}
    kinds = {"quantization_config": "awq", "auto-round": "auto-round"}
    if where in kinds:
        said |= {"quant_method": kinds[where], "packing_format": "auto_round:auto_awq"}
    folder = write_folder(tmp_path, parts, said if where in kinds else {})
    if where == "quant_config.json":
        old = {"w_bit": 4, "q_group_size": group, "zero_point": True, "version": "GEMM"}
        (folder / where).write_text(json.dumps(old))
        (folder / "config.json").write_text("{}")
    found = decoded(folder)
    own = np.arange(inputs) // group
    steps = codes.astype(np.float32) - zeros.astype(np.float32)[own]
    assert_same_bits(found, (steps * scales.astype(np.float32)[own]).T)


@pytest.mark.parametrize(("inputs", "group"), [(128, 64), (320, 64), (64, 32), (1280, 128)])
def test_awq_gemv(tmp_path: Path, random: np.random.Generator, inputs: int, group: int) -> None:
    outputs, groups = 24, inputs // group
    step = {128: 1, 64: 2, 32: 4}[group]
    words = (-(-groups // 8) + step - 1) // step * step
    codes = random.integers(0, 16, (outputs, inputs), np.uint8)
    zeros = np.zeros((outputs, 8 * words), np.uint8)
    zeros[:, :groups] = random.integers(0, 16, (outputs, groups), np.uint8)
    scales = np.zeros(zeros.shape, np.float16)
    scales[:, :groups] = halves(random, outputs, groups)
    parts: dict[str, Part] = {
        f"{STEM}.qweight": ("I32", packed_words(codes, 4, padded=False)),
        f"{STEM}.qzeros": ("I32", packed_words(zeros, 4, padded=False)),
        f"{STEM}.scales": ("F16", scales),
    }
    said = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemv"}
    found = decoded(write_folder(tmp_path, parts, said))
    steps = codes.astype(np.float32) - zeros[:, :groups].astype(np.float32).repeat(group, 1)
    assert_same_bits(found, steps * scales[:, :groups].astype(np.float32).repeat(group, 1))


# bitsandbytes


@pytest.mark.parametrize("shape", [(36, 50), (7, 9), (64, 128), (3, 5, 2, 8), (33,), (16, 4160)])
@pytest.mark.parametrize("block", [32, 64, 4096])
@pytest.mark.parametrize("form", ["U8", "BF16", "F32", "U8, double", "F16, double"])
def test_four_bits_of_bitsandbytes(
    tmp_path: Path, random: np.random.Generator, shape: tuple[int, ...], block: int, form: str
) -> None:
    storage, _, double = form.partition(", ")
    count = int(np.prod(shape))
    blocks, kind = -(-count // block), "fp4" if block == 32 else "nf4"
    codes = random.integers(0, 16, count + count % 2, np.uint8)
    table = np.sort(numbers(random, 16))
    packed = codes[::2] << 4 | codes[1::2]
    width = {"U8": 1, "BF16": 2, "F16": 2, "F32": 4}[storage]
    packed = np.append(packed, np.zeros(-len(packed) % width, np.uint8))
    state: dict[str, Any] = {"quant_type": kind, "blocksize": block, "dtype": "float16"}
    state["shape"] = list(shape)
    absmax: NDArray[Any] = np.abs(numbers(random, blocks))
    scales = absmax
    parts: dict[str, Part] = {f"{STEM}.weight.quant_map": ("F32", table)}
    if double:
        state |= {"nested_blocksize": 16, "nested_dtype": "float32", "nested_offset": 0.171875}
        absmax = random.integers(0, 256, blocks, np.uint8)
        nested, values = numbers(random, -(-blocks // 16)), np.sort(numbers(random, 256))
        scales = values[absmax] * nested.repeat(16)[:blocks] + np.float32(0.171875)
        parts[f"{STEM}.weight.nested_absmax"] = ("F32", nested)
        parts[f"{STEM}.weight.nested_quant_map"] = ("F32", values)
    parts[f"{STEM}.weight.absmax"] = ("U8" if double else "F32", absmax)
    parts[f"{STEM}.weight"] = (storage, packed)
    text = np.frombuffer(json.dumps(state).encode(), np.uint8)
    parts[f"{STEM}.weight.quant_state.bitsandbytes__{kind}"] = ("U8", text)
    shapes = {f"{STEM}.weight": [len(packed) // width, 1]}
    folder = write_folder(tmp_path, parts, {"quant_method": "bitsandbytes"}, shapes)
    wanted = table[codes[:count]] * scales.repeat(block)[:count]
    assert_same_bits(decoded(folder), wanted.reshape(shape))


@pytest.mark.parametrize("form", [None, 0])
def test_int8_of_bitsandbytes(
    tmp_path: Path, random: np.random.Generator, form: int | None
) -> None:
    weight = random.integers(-128, 128, (13, 77)).astype(np.int8)
    largest = np.abs(numbers(random, 13))
    parts: dict[str, Part] = {f"{STEM}.weight": ("I8", weight), f"{STEM}.SCB": ("F32", largest)}
    if form is not None:
        parts[f"{STEM}.weight_format"] = ("U8", np.array(form, np.uint8))
    found = decoded(write_folder(tmp_path, parts, {"quant_method": "bitsandbytes"}))
    factor = np.float32(0.007874015718698502)
    assert_same_bits(found, weight.astype(np.float32) * largest[:, None] * factor)
