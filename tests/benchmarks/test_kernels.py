"""Kernels: decoding and quantizing, against NumPy code on the same numbers, which must be equal.

The peer is the `gguf` package where it knows a type, else the formula of docs/hf_quantization.md
in NumPy. One core, time of the processor, both in turn.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.formats import open_model
from explorer.formats.weights import CHUNK_WEIGHTS, WeightReader
from explorer.quantization import TENSOR_TYPES, dequantize, quantize
from explorer.quantization.registry import block_layout, has_block_layout
from explorer.quantization.types import E4M3
from tests.benchmarks.report import Report
from tests.benchmarks.timing import best_seconds
from tests.formats.test_hf_rules import STEM, Part, write_folder
from tests.helpers.tensors import QUANTIZED

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_WEIGHTS, _SIDE, _GROUP = 4 << 20, 4096, 128
_RANDOM = np.random.default_rng(20)
# How many times faster than the peer at least; types that are not named: four times
_DECODED = {
    name: 4
    for name, kind in TENSOR_TYPES.items()
    if name in (*QUANTIZED, "F16", "BF16") and name not in ("Q8_1", "Q8_K", "Q1_0", "Q2_0")
} | {"Q4_K": 12, "Q5_K": 12, "Q4_0": 7, "Q6_K": 7, "Q2_K": 7, "Q3_K": 7, "Q8_0": 6, "MXFP4": 6}
_QUANTIZED = {  # no peer in Python searches, as K types do: its Q4_0 is the measure of these
    **{"Q4_0": 7, "Q8_0": 10, "MXFP4": 10},
    **{"Q4_K": 0.2, "Q6_K": 0.2, "IQ4_XS": 0.2},
}
_FORMULA = 5

Floats: TypeAlias = NDArray[np.float32]


def _compare(
    report: Report,
    what: str,
    weights: int,
    floor: float,
    *,
    ours: Callable[[], object],
    peer: tuple[str, Callable[[], object]],
) -> None:
    name, theirs = peer
    fast, slow = best_seconds(ours, theirs, runs=15, clock=time.process_time)
    report.compare(what, fast, (name, slow), most=1 / floor, weights=weights)


def _rows(name: str) -> NDArray[np.uint8]:
    """Return rows of random codes whose half-float scales are of usual size."""
    kind = TENSOR_TYPES[name]
    count = _WEIGHTS // kind.block_weights
    blocks = np.random.default_rng(0).integers(0, 256, (count, kind.block_bytes), np.uint8)
    for field in block_layout(name).fields if has_block_layout(name) else ():
        if field.dtype == "f16":
            blocks[:, field.offset : field.offset + 2] = [0x00, 0x20]  # 2^-7
    return blocks.reshape(_WEIGHTS // _SIDE, -1)


@pytest.mark.parametrize("name", _DECODED)
def test_decoding_is_several_times_faster_than_the_gguf_package(name: str, report: Report) -> None:
    gguf = pytest.importorskip("gguf")
    kind = getattr(gguf.GGMLQuantizationType, name, None)
    if kind is None:
        pytest.skip(f"this gguf package does not know {name}")
    # in chunks, as the program reads: more at once measures how fast the memory is filled
    chunks = np.array_split(_rows(name), _WEIGHTS // CHUNK_WEIGHTS)
    out = np.empty(CHUNK_WEIGHTS, np.float32)
    dequantize(chunks[0], name, out)  # compiles
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, gguf.quants.dequantize(chunks[0], kind).reshape(-1))
        _compare(
            report,
            f"decode {name}",
            _WEIGHTS,
            _DECODED[name],
            ours=lambda: [dequantize(chunk, name, out) for chunk in chunks],
            peer=("`gguf`", lambda: [gguf.quants.dequantize(chunk, kind) for chunk in chunks]),
        )


@pytest.mark.parametrize("name", _QUANTIZED)
def test_quantizing_is_several_times_faster_than_the_gguf_package(
    name: str, report: Report
) -> None:
    gguf = pytest.importorskip("gguf")
    floor, count = _QUANTIZED[name], 1 << 20
    kind = gguf.GGMLQuantizationType[name if floor >= 1 else "Q4_0"]
    values = (_RANDOM.standard_normal((count // _SIDE, _SIDE)) * 0.02).astype(np.float32)
    made, wanted = quantize(values, name), gguf.quants.quantize(values, kind)
    assert floor < 1 or np.array_equal(made, wanted.view(np.uint8).reshape(-1))
    _compare(
        report,
        f"quantize {name}",
        count,
        floor,
        ours=lambda: quantize(values, name),
        peer=(f"`gguf`, {kind.name}", lambda: gguf.quants.quantize(values, kind)),
    )


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


def _nibbles(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    codes = np.empty((*packed.shape[:-1], 2 * packed.shape[-1]), np.uint8)
    codes[..., ::2], codes[..., 1::2] = packed & 15, packed >> 4
    return codes


def _gptq() -> Case:
    groups, order = _SIDE // _GROUP, np.arange(_SIDE, dtype=np.int32) // _GROUP
    qweight, qzeros = _words(_SIDE // 8, _SIDE), _words(groups, _SIDE // 8)
    scales = _halves(groups, _SIDE)

    def formula() -> Floats:
        zeros = _nibbles(qzeros.view(np.uint8)).astype(np.float32)
        codes = _nibbles(np.ascontiguousarray(qweight.T).view(np.uint8)).astype(np.float32)
        return (codes - zeros[order].T) * scales.astype(np.float32)[order].T

    parts: dict[str, Part] = {
        **{"qweight": ("I32", qweight), "qzeros": ("I32", qzeros), "scales": ("F16", scales)},
        "g_idx": ("I32", order),
    }
    said = {"quant_method": "gptq", "bits": 4, "group_size": _GROUP}
    return Case(parts, {**said, "checkpoint_format": "gptq_v2"}, formula)


def _nf4() -> Case:
    blocks = _SIDE * _SIDE // 64
    weight, table, absmax = _bytes(_SIDE * _SIDE // 2, 1), np.sort(_floats(16)), _floats(blocks)
    state: dict[str, Any] = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16"}
    text = np.frombuffer(json.dumps(state | {"shape": [_SIDE, _SIDE]}).encode(), np.uint8)

    def formula() -> Floats:
        codes = np.stack([weight[:, 0] >> 4, weight[:, 0] & 15], 1)
        return (table[codes].reshape(-1, 64) * absmax[:, None]).reshape(_SIDE, _SIDE)

    parts: dict[str, Part] = {
        "weight": ("U8", weight),
        "weight.absmax": ("F32", absmax),
        "weight.quant_map": ("F32", table),
        "weight.quant_state.bitsandbytes__nf4": ("U8", text),
    }
    return Case(parts, {"quant_method": "bitsandbytes"}, formula)


def _fp8() -> Case:
    rows = columns = 128
    weight, scale = _bytes(_SIDE, _SIDE), _floats(_SIDE // rows, _SIDE // columns)
    weight[weight & 0x7F == 0x7F] = 0  # a NaN is equal to nothing

    def formula() -> Floats:
        return E4M3[weight] * scale.repeat(rows, 0).repeat(columns, 1)

    parts = {"weight": ("F8_E4M3", weight), "weight_scale_inv": ("F32", scale)}
    said = {"quant_method": "fp8", "weight_block_size": [rows, columns]}
    return Case(parts, said, formula)


_CASES: Mapping[str, Callable[[], Case]] = {
    "GPTQ, 4 bits": _gptq,
    "NF4": _nf4,
    "FP8, tiles of 128 × 128": _fp8,
}


@pytest.mark.parametrize("name", _CASES)
def test_decoding_is_5_times_faster_than_the_formula(
    tmp_path: Path, name: str, report: Report
) -> None:
    """Streamed from a file in chunks, as the program reads; NumPy has all of it in memory."""
    case = _CASES[name]()
    parts = {f"{STEM}.{key}": part for key, part in case.parts.items()}
    with open_model(write_folder(tmp_path, parts, case.said)) as model:
        tensor = next(one for one in model.tensors.rows if one.companions is not None)
        assert tensor.dequantize().tobytes() == case.formula().tobytes()  # compiles, too
        reader = WeightReader(tensor)
        _compare(
            report,
            f"decode {name}",
            tensor.parameters,
            _FORMULA,
            ours=lambda: sum(each.values.size for each in reader.chunks(0, tensor.parameters)),
            peer=("NumPy", case.formula),
        )
