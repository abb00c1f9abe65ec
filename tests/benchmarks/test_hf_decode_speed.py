"""Decoding weights of Hugging Face's methods, against the formula in NumPy on the same bytes.

Ours: 16 Mi weights streamed from a file in chunks, as the program reads them. NumPy's: the formula
of docs/hf_quantization.md for the whole matrix, from arrays in memory, in C order. One core, time
of the processor, best of several; both give the same bits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.formats import open_model
from explorer.formats.weights import WeightReader
from explorer.quantization.types import E2M1, E4M3, E5M2
from tests.benchmarks.report import Report, Row
from tests.benchmarks.timing import seconds
from tests.formats.test_hf_rules import STEM, Part, write_folder

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_SIDE, _GROUP, _FLOOR = 4096, 128, 5
_RANDOM = np.random.default_rng(20)

Floats: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[Any]


class Case(NamedTuple):
    """A weight: its parts, what is declared, and the formula."""

    parts: Mapping[str, Part]
    said: Mapping[str, Any]
    formula: Callable[[], Floats]
    folder: str = ""


def _bytes(*shape: int) -> NDArray[np.uint8]:
    return _RANDOM.integers(0, 256, shape, np.uint8)


def _words(*shape: int) -> NDArray[np.uint32]:
    return _RANDOM.integers(0, 1 << 32, shape, np.uint32)


def _halves(*shape: int) -> NDArray[np.float16]:
    return _RANDOM.uniform(0.001, 0.1, shape).astype(np.float16)


def _floats(*shape: int) -> Floats:
    return _RANDOM.uniform(0.001, 0.1, shape).astype(np.float32)


def _down(words: NDArray[np.uint32], bits: int) -> Integers:
    """Return the codes of words, dense down the rows."""
    each = 32 // bits
    if 32 % bits:
        flat = words.T.copy().view(np.uint8)  # a stream of bits for each column
        stream = np.unpackbits(flat, axis=1, bitorder="little").reshape(len(flat), -1, bits)
        codes = stream @ (1 << np.arange(bits, dtype=np.uint8))
        return np.ascontiguousarray(codes.T)
    shifts = np.arange(each, dtype=np.uint32)[None, :, None] * np.uint32(bits)
    codes = words[:, None, :] >> shifts & np.uint32((1 << bits) - 1)
    return codes.reshape(-1, words.shape[1])


def _gptq(bits: int, *, is_reordered: bool = False) -> Case:
    groups = _SIDE // _GROUP
    qweight, qzeros = _words(_SIDE * bits // 32, _SIDE), _words(groups, _SIDE * bits // 32)
    scales = _halves(groups, _SIDE)
    order = np.arange(_SIDE, dtype=np.int32) // _GROUP
    if is_reordered:
        order = _RANDOM.permutation(order)

    def formula() -> Floats:
        zeros = _down(np.ascontiguousarray(qzeros.T), bits).T.astype(np.float32)
        codes = _down(qweight, bits).astype(np.float32)
        return np.ascontiguousarray(((codes - zeros[order]) * scales.astype(np.float32)[order]).T)

    parts: dict[str, Part] = {
        **{"qweight": ("I32", qweight), "qzeros": ("I32", qzeros), "scales": ("F16", scales)},
        "g_idx": ("I32", order),
    }
    said = {"quant_method": "gptq", "bits": bits, "group_size": _GROUP}
    return Case(parts, {**said, "checkpoint_format": "gptq_v2"}, formula)


_AWQ_ORDER = np.array([0, 4, 1, 5, 2, 6, 3, 7], np.uint32) * np.uint32(4)


def _awq_gemm() -> Case:
    groups = _SIDE // _GROUP
    qweight, qzeros = _words(_SIDE, _SIDE // 8), _words(groups, _SIDE // 8)
    scales = _halves(groups, _SIDE)

    def codes(words: NDArray[np.uint32]) -> Floats:
        found = words[:, :, None] >> _AWQ_ORDER & np.uint32(15)
        return found.reshape(len(words), -1).astype(np.float32)

    def formula() -> Floats:
        zeros, factors = (
            one.repeat(_GROUP, 0) for one in (codes(qzeros), scales.astype(np.float32))
        )
        return np.ascontiguousarray(((codes(qweight) - zeros) * factors).T)

    arrays = {"qweight": ("I32", qweight), "qzeros": ("I32", qzeros), "scales": ("F16", scales)}
    return Case(arrays, {"quant_method": "awq", "bits": 4, "group_size": _GROUP}, formula)


def _nf4(*, is_double: bool = False) -> Case:
    blocks = _SIDE * _SIDE // 64
    weight, table = _bytes(_SIDE * _SIDE // 2, 1), np.sort(_floats(16))
    state: dict[str, Any] = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16"}
    state["shape"] = [_SIDE, _SIDE]
    parts: dict[str, Part] = {
        "weight": ("U8", weight),
        "weight.absmax": ("F32", _floats(blocks)),
        "weight.quant_map": ("F32", table),
    }
    if is_double:
        state |= {"nested_blocksize": 256, "nested_offset": 0.0625, "nested_dtype": "float32"}
        parts["weight.absmax"] = ("U8", _bytes(blocks))
        parts["weight.nested_absmax"] = ("F32", _floats(blocks // 256))
        parts["weight.nested_quant_map"] = ("F32", np.sort(_floats(256)))
    text = np.frombuffer(json.dumps(state).encode(), np.uint8)
    parts["weight.quant_state.bitsandbytes__nf4"] = ("U8", text)

    def formula() -> Floats:
        absmax = parts["weight.absmax"][1]
        if is_double:
            scales = parts["weight.nested_absmax"][1].repeat(256)
            absmax = parts["weight.nested_quant_map"][1][absmax] * scales + np.float32(0.0625)
        codes = np.empty((weight.size, 2), np.uint8)
        codes[:, 0], codes[:, 1] = weight[:, 0] >> 4, weight[:, 0] & 15
        return (table[codes].reshape(-1, 64) * absmax[:, None]).reshape(_SIDE, _SIDE)

    return Case(parts, {"quant_method": "bitsandbytes"}, formula)


def _llm_int8() -> Case:
    weight, largest = _bytes(_SIDE, _SIDE).view(np.int8), _floats(_SIDE)

    def formula() -> Floats:
        factor = np.float32(0.007874015718698502)
        return weight.astype(np.float32) * largest[:, None] * factor

    parts = {"weight": ("I8", weight), "SCB": ("F32", largest)}
    return Case(parts, {"quant_method": "bitsandbytes"}, formula)


def _fp8(rows: int, columns: int) -> Case:
    weight, scale = _bytes(_SIDE, _SIDE), _floats(_SIDE // rows, _SIDE // columns)
    weight[weight & 0x7F == 0x7F] = 0  # a NaN is equal to nothing

    def formula() -> Floats:
        return E4M3[weight] * scale.repeat(rows, 0).repeat(columns, 1)

    parts = {"weight": ("F8_E4M3", weight), "weight_scale_inv": ("F32", scale)}
    said = {"quant_method": "fp8", "weight_block_size": [rows, columns]}
    return Case(parts, said, formula)


def _fp8_e5m2() -> Case:
    weight, scale = _bytes(_SIDE, _SIDE), _floats(_SIDE, 1)
    weight[weight & 0x7F > 0x7C] = 0  # a NaN is equal to nothing
    parts = {"weight": ("F8_E5M2", weight), "weight_scale": ("F32", scale)}
    return Case(parts, {"quant_method": "fp8"}, lambda: E5M2[weight] * scale)


def _int8() -> Case:
    weight, scale = _bytes(_SIDE, _SIDE).view(np.int8), _floats(_SIDE, _SIDE // _GROUP)
    parts = {"weight": ("I8", weight), "weight_scale": ("F32", scale)}
    said = {"quant_method": "compressed-tensors"}
    return Case(parts, said, lambda: weight.astype(np.float32) * scale.repeat(_GROUP, 1))


def _nibbles(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    codes = np.empty((*packed.shape[:-1], 2 * packed.shape[-1]), np.uint8)
    codes[..., ::2], codes[..., 1::2] = packed & 15, packed >> 4
    return codes


def _ct_int4(*, has_zeros: bool = False) -> Case:
    packed, scale = _words(_SIDE, _SIDE // 8), _floats(_SIDE, _SIDE // _GROUP)
    zeros = _words(_SIDE // 8, _SIDE // _GROUP)
    parts: dict[str, Part] = {
        "weight_packed": ("I32", packed),
        "weight_scale": ("F32", scale),
        "weight_shape": ("I64", np.array([_SIDE, _SIDE])),
    }
    if has_zeros:
        parts["weight_zero_point"] = ("I32", zeros)

    def formula() -> Floats:
        levels = _nibbles(packed.view(np.uint8)).astype(np.float32)
        middle: Any = np.float32(8)
        if has_zeros:
            middle = _down(zeros, 4).astype(np.float32).repeat(_GROUP, 1)
        return (levels - middle) * scale.repeat(_GROUP, 1)

    return Case(parts, {"quant_method": "compressed-tensors"}, formula)


def _nvfp4() -> Case:
    packed, scale = _bytes(_SIDE, _SIDE // 2), _RANDOM.integers(1, 127, (_SIDE, _SIDE // 16))
    scale, divisor = scale.astype(np.uint8), np.array([31.5], np.float32)

    def formula() -> Floats:
        return E2M1[_nibbles(packed)] * (E4M3[scale] / divisor).repeat(16, 1)

    parts = {
        "weight_packed": ("U8", packed),
        "weight_scale": ("F8_E4M3", scale),
        "weight_global_scale": ("F32", divisor),
    }
    return Case(parts, {"quant_method": "compressed-tensors"}, formula)


def _gpt_oss() -> Case:
    blocks = _bytes(4, _SIDE // 4, _SIDE // 32, 16)
    scales = _RANDOM.integers(110, 130, blocks.shape[:-1]).astype(np.uint8)

    def formula() -> Floats:
        powers = np.exp2(scales.astype(np.float32) - np.float32(127))
        return (E2M1[_nibbles(blocks)] * powers[..., None]).reshape(4, _SIDE // 4, _SIDE)

    parts = {"_blocks": ("U8", blocks), "_scales": ("U8", scales)}
    return Case(parts, {"quant_method": "mxfp4"}, formula)


def _hqq(axis: int = 1) -> Case:
    """Return codes of 4 bits in groups that are rows (axis 1) or columns."""
    group, groups = 64, _SIDE * _SIDE // 64
    words = _bytes(groups // 2, group) if axis else _bytes(group // 2, groups)
    shape = (groups, 1) if axis else (1, groups)
    scale, zero = _halves(*shape), _halves(*shape)

    def formula() -> Floats:
        codes = np.concatenate([words >> 4, words & 15]).astype(np.float32)
        found = (codes - zero.astype(np.float32)) * scale.astype(np.float32)
        return found.reshape(_SIDE, _SIDE)

    fields: dict[str, Part] = {
        **{"W_q": ("U8", words), "scale": ("F16", scale), "zero": ("F16", zero)},
        "shape": ("I64", np.array([_SIDE, _SIDE])),
        "axis": ("I32", np.array(axis, np.int32)),
        "packing": ("U8", np.frombuffer(b"4bit_u8", np.uint8)),
    }
    return Case(fields, {"quant_method": "hqq"}, formula)


def _quanto() -> Case:
    groups, group = _SIDE * _SIDE // 128, 128
    words, scale, shift = _bytes(groups // 2, group), _floats(groups, 1), _floats(groups, 1)

    def formula() -> Floats:
        codes = np.concatenate([words & 15, words >> 4]).astype(np.float32)
        return (codes * scale - shift).reshape(_SIDE, _SIDE)

    parts: dict[str, Part] = {
        "weight._data._data": ("U8", words),
        "weight._scale": ("F32", scale),
        "weight._shift": ("F32", shift),
        "bias": ("F32", _floats(_SIDE)),
    }
    return Case(parts, {"quant_method": "quanto"}, formula)


def _bitnet() -> Case:
    words, scale = _bytes(_SIDE // 4, _SIDE), _floats(1)

    def formula() -> Floats:
        codes = np.concatenate([words >> shift & 3 for shift in (0, 2, 4, 6)])
        return (codes.astype(np.float32) - np.float32(1)) * scale

    parts = {"weight": ("U8", words), "weight_scale": ("F32", scale)}
    said = {"quant_method": "bitnet", "linear_class": "autobitlinear"}
    return Case(parts, said, formula)


def _awq_gemv() -> Case:
    words = _SIDE // _GROUP // 8
    qweight, qzeros = _words(_SIDE, _SIDE // 8), _words(_SIDE, words)
    scales = _halves(_SIDE, 8 * words)

    def formula() -> Floats:
        zeros, factors = (
            one.astype(np.float32).repeat(_GROUP, 1)
            for one in (_nibbles(qzeros.view(np.uint8)), scales)
        )
        return (_nibbles(qweight.view(np.uint8)).astype(np.float32) - zeros) * factors

    arrays = {"qweight": ("I32", qweight), "qzeros": ("I32", qzeros), "scales": ("F16", scales)}
    said = {"quant_method": "awq", "bits": 4, "group_size": _GROUP, "version": "gemv"}
    return Case(arrays, said, formula)


def _hqq_3_bits() -> Case:
    groups, group = _SIDE * _SIDE // 64, 64
    rows = -(-groups // 10)
    words = _RANDOM.integers(0, 1 << 30, (rows, group), np.int32)
    scale, zero = _halves(groups, 1), _halves(groups, 1)

    def formula() -> Floats:
        codes = np.concatenate([words >> shift & 7 for shift in range(27, -1, -3)])[:groups]
        found = (codes.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)
        return found.reshape(_SIDE, _SIDE)

    fields: dict[str, Part] = {
        **{"W_q": ("I32", words), "scale": ("F16", scale), "zero": ("F16", zero)},
        "shape": ("I64", np.array([_SIDE, _SIDE])),
        "axis": ("I32", np.array(1, np.int32)),
        "packing": ("U8", np.frombuffer(b"3bit_32", np.uint8)),
    }
    return Case(fields, {"quant_method": "hqq"}, formula)


def _ct_int3(*, is_padded: bool) -> Case:
    columns = _SIDE - 96 if is_padded else _SIDE  # ten codes a word
    groups, group = columns // 32, 32
    words = _words(_SIDE, columns // 10 if is_padded else columns * 3 // 32)
    scale = _floats(_SIDE, groups)
    parts: dict[str, Part] = {
        "weight_packed": ("I32", words),
        "weight_scale": ("F32", scale),
        "weight_shape": ("I64", np.array([_SIDE, columns])),
    }

    def formula() -> Floats:
        if is_padded:
            shifts = np.arange(10, dtype=np.uint32) * np.uint32(3)
            codes = (words[..., None] >> shifts & np.uint32(7)).reshape(_SIDE, -1)
        else:
            codes = _down(np.ascontiguousarray(words.T), 3).T
        return (codes.astype(np.float32) - np.float32(4)) * scale.repeat(group, 1)

    weights = {"num_bits": 3, "group_size": group}
    said = {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": weights}}}
    return Case(parts, said, formula)


def _paired_rows() -> Case:
    words, scale = _bytes(_SIDE // 2, _SIDE), _floats(_SIDE, _SIDE // _GROUP)

    def formula() -> Floats:
        codes = np.stack([words & 15, words >> 4], 1).reshape(_SIDE, _SIDE)
        levels = (codes ^ 8).astype(np.float32) - np.float32(8)
        return levels * scale.repeat(_GROUP, 1)

    parts = {"weight": ("U8", words), "weight_scale": ("F32", scale)}
    return Case(parts, {"quant_method": "modelopt"}, formula)


_CASES: Mapping[str, Callable[[], Case]] = {
    "GPTQ, 4 bits": lambda: _gptq(4),
    "GPTQ, 8 bits": lambda: _gptq(8),
    "GPTQ, 2 bits": lambda: _gptq(2),
    "GPTQ, 3 bits": lambda: _gptq(3),
    "GPTQ, 4 bits, reordered by g_idx": lambda: _gptq(4, is_reordered=True),
    "AWQ gemm": _awq_gemm,
    "NF4": _nf4,
    "NF4, double quantization": lambda: _nf4(is_double=True),
    "LLM.int8": _llm_int8,
    "FP8, tiles of 128 × 128": lambda: _fp8(128, 128),
    "FP8, a scale for each row": lambda: _fp8(1, _SIDE),
    "FP8 of E5M2, a scale for each row": _fp8_e5m2,
    "int8 of compressed-tensors, in groups": _int8,
    "int4 of compressed-tensors": _ct_int4,
    "int4 with zero points": lambda: _ct_int4(has_zeros=True),
    "NVFP4 of compressed-tensors": _nvfp4,
    "MXFP4 of gpt-oss": _gpt_oss,
    "HQQ, 4 bits": _hqq,
    "quanto, 4 bits": _quanto,
    "BitNet": _bitnet,
    "AWQ gemv": _awq_gemv,
    "HQQ, 4 bits, axis 0": partial(_hqq, 0),
    "HQQ, 3 bits": _hqq_3_bits,
    "int3 of compressed-tensors": lambda: _ct_int3(is_padded=False),
    "int3, ten codes a word": lambda: _ct_int3(is_padded=True),
    "int4 of ModelOpt, two rows in a byte": _paired_rows,
}


@pytest.mark.parametrize("name", _CASES)
def test_decode_5_times_faster_than_the_formula(tmp_path: Path, name: str, report: Report) -> None:
    case = _CASES[name]()
    parts = {
        f"{STEM}{'' if key.startswith('_') else '.'}{key}": part for key, part in case.parts.items()
    }
    with open_model(write_folder(tmp_path, parts, case.said)) as model:
        tensor = next(one for one in model.tensors.rows if one.companions is not None)
        wanted = case.formula()
        assert tensor.shape == wanted.shape
        assert tensor.dequantize().tobytes() == wanted.tobytes()  # compiles, too
        reader = WeightReader(tensor)
        ours, peer = _in_turn(
            lambda: sum(chunk.values.size for chunk in reader.chunks(0, tensor.parameters)),
            case.formula,
        )
    speeds = [tensor.parameters / one / 1e9 for one in (ours, peer)]
    ratio = peer / ours
    report.add(
        Row(
            f"decode {name}, 16 Mi weights",
            f"{speeds[0]:.2f} G weights/s",
            f"NumPy {speeds[1]:.3f} G weights/s",
            f"{ratio:.1f}× faster",
            f"≥ {_FLOOR}×",
            ratio >= _FLOOR,
        )
    )
    assert ratio >= _FLOOR


def _in_turn(ours: Callable[[], object], peer: Callable[[], object]) -> tuple[float, float]:
    """Return the processor's seconds of both, the best of several, in turn: others work too."""
    found = [(seconds(ours, time.process_time), seconds(peer, time.process_time)) for _ in range(6)]
    return min(one for one, _ in found), min(other for _, other in found)
