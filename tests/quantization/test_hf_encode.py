"""Weights rounded to Hugging Face methods: stored as libraries do it, readers give the same.

Each result is packed here into the parts that a file has, by the layouts of
docs/hf_quantization.md, and read again as a model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.errors.pairs import RUN_WEIGHTS, RoundedPair
from explorer.analysis.requantization import requantize
from explorer.analysis.rounding import rounded_type, rounder, shape_problem
from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.parallel import never
from explorer.quantization import dequantize, quantize
from explorer.quantization.huggingface.encode import RunningWhole, SchemeRounder, dynamic_map
from explorer.quantization.huggingface.schemes import SCHEME_NAMES, Method, Scheme, scheme
from explorer.quantization.types import E2M1, E4M3
from tests.formats.test_hf_quantized import FOLDER
from tests.formats.test_hf_rules import STEM, Part, decoded, packed_words, stacked, write_folder
from tests.helpers.tensors import assert_same_bits, float_tensor

Floats = NDArray[np.float32]


def _weights(*shape: int, seed: int = 0) -> Floats:
    random = np.random.default_rng(seed)
    values = (random.standard_t(4, shape) * 0.02).astype(np.float32)
    return dequantize(quantize(values.reshape(-1), "BF16"), "BF16").reshape(shape)


def _known(name: str) -> Scheme:
    found = scheme(name)
    assert found is not None
    return found


class Made:
    """Weights rounded at once, with codes and scales as matrices of their rows."""

    def __init__(self, name: str, values: Floats) -> None:
        self.scheme, self.shape, self.original = _known(name), values.shape, values
        flat = values.reshape(-1)
        finder = RunningWhole(self.scheme, values.shape)
        finder.add(flat, 0)
        self.whole = finder.whole()
        self.made = SchemeRounder(self.scheme, values.shape, self.whole)
        self.rounded = np.empty(values.shape, np.float32)
        self.made.round(flat, 0, self.rounded.reshape(-1))
        self.codes = self.made.codes().reshape(values.shape)
        lines = self.made.encoded
        rows = values.shape[0]
        self.scales, self.zeros = (
            np.concatenate([getattr(one, part).reshape(-1) for one in lines]).reshape(shape)
            for part, shape in (("scales", self._grid(rows)), ("zeros", (rows, -1)))
        )

    def _grid(self, rows: int) -> tuple[int, ...]:
        return (-1,) if self.scheme.in_blocks else (rows, -1)


def _f16(values: Floats) -> Part:
    assert np.array_equal(values.astype(np.float16).astype(np.float32), values)
    return "F16", np.ascontiguousarray(values.astype("<f2"))


def _bf16(values: Floats) -> Part:
    raw = quantize(np.ascontiguousarray(values.reshape(-1)), "BF16")
    assert np.array_equal(dequantize(raw, "BF16").reshape(values.shape), values)
    return "BF16", raw.view("<u2").reshape(values.shape)


def _e8m0(values: Floats) -> Part:
    exponents, rest = np.log2(values), np.log2(values) % 1
    assert not rest.any()
    return "U8", (exponents + 127).astype(np.uint8)


Stored = tuple[dict[str, Part], dict[str, Any]]


def _packed(made: Made) -> Stored:
    bits = made.scheme.bits
    zeros = made.zeros.T.astype(np.uint8)
    parts: dict[str, Part] = {
        "weight_packed": ("I32", packed_words(made.codes, bits, padded=False)),
        "weight_scale": _bf16(made.scales),
        "weight_shape": ("I64", np.array(made.shape)),
    }
    if made.scheme.asymmetric:
        down = np.ascontiguousarray(packed_words(zeros, bits, padded=False).T)
        parts["weight_zero_point"] = ("I32", down)
    else:
        assert (made.zeros == 1 << bits >> 1).all()
    weights = {"num_bits": bits, "group_size": made.scheme.group or None}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return parts, {"quant_method": "compressed-tensors", "config_groups": groups}


def _int8(made: Made) -> Stored:
    parts = {
        "weight": ("I8", (made.codes ^ np.uint8(0x80)).view(np.int8)),
        "weight_scale": _bf16(made.scales),
    }
    return parts, {"quant_method": "compressed-tensors"}


def _llm_int8(made: Made) -> Stored:
    weight = (made.codes ^ np.uint8(0x80)).view(np.int8)
    parts = {"weight": ("I8", weight), "SCB": ("F32", made.scales.reshape(-1))}
    return parts, {"quant_method": "bitsandbytes", "load_in_8bit": True}


def _four_bits(made: Made) -> Stored:
    kind, block = made.scheme.method.value.label, made.scheme.group
    codes = made.codes.reshape(-1)
    codes = np.append(codes, np.zeros(codes.size % 2, np.uint8))
    state: dict[str, Any] = {"quant_type": kind, "blocksize": block, "dtype": "bfloat16"}
    state["shape"] = list(made.shape)
    parts: dict[str, Part] = {
        "weight": ("U8", (codes[::2] << 4 | codes[1::2]).reshape(-1, 1)),
        "weight.quant_map": ("F32", made.made.levels),
    }
    if made.scheme.double:
        parts |= _nested(made, state)
    else:
        parts["weight.absmax"] = ("F32", made.scales)
    text = np.frombuffer(json.dumps(state).encode(), np.uint8)
    parts[f"weight.quant_state.bitsandbytes__{kind}"] = ("U8", text)
    return parts, {"quant_method": "bitsandbytes", "load_in_4bit": True}


def _nested(made: Made, state: dict[str, Any]) -> dict[str, Part]:
    """Find the codes of scales again, by trying all."""
    table, offset = dynamic_map(), made.whole.mean_scale
    single = Made(made.scheme.name.removesuffix("/double"), made.original).scales - offset
    codes, absmax = np.empty(single.size, np.uint8), []
    for first in range(0, single.size, 256):
        block = single[first : first + 256]
        absmax.append(np.abs(block).max())
        scaled = np.clip(block * (np.float32(1) / absmax[-1]), -1, 1)
        middles = (table[:-1] + table[1:]) / np.float32(2)
        codes[first : first + 256] = np.searchsorted(middles, scaled)
    state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(offset)}
    return {
        "weight.absmax": ("U8", codes),
        "weight.nested_absmax": ("F32", np.array(absmax, np.float32)),
        "weight.nested_quant_map": ("F32", table),
    }


def _fp8(made: Made) -> Stored:
    scales = made.scales
    if made.scheme.rows == 1:
        parts: dict[str, Part] = {"weight_scale": ("F32", scales)}
    elif made.scheme.rows == 0:
        parts = {"weight_scale": ("F32", scales[0, 0])}
    else:
        parts = {"weight_scale_inv": ("F32", np.ascontiguousarray(scales[:: made.scheme.rows]))}
    sides = [made.scheme.rows, made.scheme.group]
    said = {"weight_block_size": sides} if made.scheme.group else {}
    return {"weight": ("F8_E4M3", made.codes), **parts}, {"quant_method": "fp8", **said}


def _nibbles(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return codes[:, ::2] | codes[:, 1::2] << np.uint8(4)


def _nvfp4(made: Made) -> Stored:
    wide = np.float32(448 * 6) / made.whole.largest
    scales = np.rint(made.scales * wide * 4096) / 4096  # E4M3 has no finer steps that matter here
    nearest = np.abs(scales[..., None] - np.nan_to_num(E4M3[:128], nan=np.inf)).argmin(-1)
    parts: dict[str, Part] = {
        "weight_packed": ("U8", _nibbles(made.codes)),
        "weight_scale": ("F8_E4M3", nearest.astype(np.uint8)),
        "weight_global_scale": ("F32", wide),
    }
    return parts, {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}


def _mxfp4(made: Made) -> Stored:
    parts: dict[str, Part] = {
        "weight_packed": ("U8", _nibbles(made.codes)),
        "weight_scale": _e8m0(made.scales),
    }
    return parts, {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}


def _hqq(made: Made) -> Stored:
    bits, group = made.scheme.bits, made.scheme.group
    packing, each = {2: ("2bit_u8", 4), 3: ("3bit_32", 10), 4: ("4bit_u8", 2), 8: ("8bit_u8", 1)}[
        bits
    ]
    words = stacked(made.codes.reshape(-1, group), bits, each, high_first=True)
    parts: dict[str, Part] = {
        "W_q": ("I32" if bits == 3 else "U8", words),
        "scale": _f16(made.scales.reshape(-1, 1)),
        "zero": _f16(made.zeros.reshape(-1, 1)),
        "shape": ("I64", np.array(made.shape)),
        "axis": ("I32", np.array(1, np.int32)),
        "nbits": ("I32", np.array(bits, np.int32)),
        "packing": ("U8", np.frombuffer(packing.encode(), np.uint8)),
    }
    return parts, {"quant_method": "hqq"}


def _mxfp8(made: Made) -> Stored:
    parts: dict[str, Part] = {"weight": ("F8_E4M3", made.codes), "weight_scale": _e8m0(made.scales)}
    return parts, {"quant_method": "compressed-tensors", "format": "mxfp8-quantized"}


def _quanto_few_bits(made: Made) -> Stored:
    bits, group = made.scheme.bits, made.scheme.group
    words = stacked(made.codes.reshape(-1, group), bits, 8 // bits, high_first=False)
    parts = {
        "weight._data._data": ("U8", words),
        "weight._scale": _bf16(made.scales.reshape(-1, 1)),
        "weight._shift": _bf16(made.zeros.reshape(-1, 1)),
        "bias": ("F32", np.zeros(made.shape[0], np.float32)),
    }
    return parts, {"quant_method": "quanto", "weights": f"int{bits}"}


def _quanto_bytes(made: Made) -> Stored:
    is_integer = made.scheme.method is Method.QINT8
    codes = (made.codes ^ np.uint8(0x80)).view(np.int8) if is_integer else made.codes
    parts = {
        "weight._data": ("I8" if is_integer else "F8_E4M3", codes),
        "weight._scale": _bf16(made.scales),
    }
    return parts, {"quant_method": "quanto", "weights": "int8" if is_integer else "float8"}


def _torchao(made: Made) -> Stored:
    parts: dict[str, Part] = {
        "_weight_qdata": ("I8", (made.codes ^ np.uint8(0x80)).view(np.int8)),
        "_weight_scale": ("F32", made.scales),
        "_weight_zero_point": ("I8", np.zeros(made.scales.shape, np.int8)),
    }
    return parts, {"quant_method": "torchao"}


def _bitnet(made: Made) -> Stored:
    assert len(set(made.scales.reshape(-1).tolist())) == 1
    parts = {
        "weight": ("U8", stacked(made.codes, 2, 4, high_first=False)),
        "weight_scale": _bf16(made.scales[:1, 0]),
    }
    return parts, {"quant_method": "bitnet", "linear_class": "autobitlinear"}


PACKERS: dict[Method, Callable[[Made], Stored]] = {
    Method.PACKED: _packed,
    Method.INT8: _int8,
    Method.LLM_INT8: _llm_int8,
    Method.NF4: _four_bits,
    Method.FP4: _four_bits,
    Method.FP8: _fp8,
    Method.NVFP4: _nvfp4,
    Method.MXFP4: _mxfp4,
    Method.HQQ: _hqq,
    Method.MXFP8: _mxfp8,
    Method.QINT: _quanto_few_bits,
    Method.QINT8: _quanto_bytes,
    Method.QFLOAT8: _quanto_bytes,
    Method.INT8_ALONE: _torchao,
    Method.BITNET: _bitnet,
}
SETTINGS = {Method.HQQ: 16 + 4 + 4 + 7, Method.NF4: 0, Method.FP4: 0}
"""Bytes of small parts that a size leaves out."""


def _check_round_trip(folder: Path, name: str, values: Floats) -> None:
    made = Made(name, values)
    parts, said = PACKERS[made.scheme.method](made)
    stored = {f"{STEM}.{part}": array for part, array in parts.items()}
    assert_same_bits(decoded(write_folder(folder, stored, said)), made.rounded)
    with open_model(folder) as model:
        nbytes = model.tensors[f"{STEM}.weight"].nbytes
    wanted = made.scheme.nbytes(values.shape) + SETTINGS.get(made.scheme.method, 0)
    slack = 16 if made.scheme.double else 0  # of a number's digits
    assert abs(nbytes - wanted) <= slack


@pytest.mark.parametrize("name", SCHEME_NAMES)
def test_what_is_rounded_is_what_a_reader_gives(tmp_path: Path, name: str) -> None:
    _check_round_trip(tmp_path, name, _weights(96, 384, seed=1))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("nf4", (7, 33)),  # blocks run over the ends of rows; an odd number of weights
        ("fp4/128/double", (33, 70)),
        ("nf4/double", (129, 512)),  # two scales of scales and a part of one
        ("fp8/128x128", (130, 150)),  # tiles are cut off at both edges
        ("fp8/64x32", (130, 150)),
        ("w4a16/32/asym", (37, 96)),
        ("w8a16/channel", (5, 50)),
        ("w8a8", (5, 33)),
        ("llm.int8", (5, 33)),
        ("qint4/32", (7, 160)),  # 35 groups fill no whole rows of words
        ("qint2/32", (7, 160)),
        ("qint8", (5, 33)),
        ("qfloat8", (5, 33)),
        ("int8wo", (5, 33)),
        ("bitnet", (12, 33)),
    ],
)
def test_shapes_that_fill_no_whole_groups(
    tmp_path: Path, name: str, shape: tuple[int, int]
) -> None:
    _check_round_trip(tmp_path, name, _weights(*shape, seed=2))


@pytest.mark.parametrize(
    "name",
    [
        *("w4a16/32", "w4a16/32/asym", "nf4", "fp8/channel", "w8a8", "nvfp4a16", "mxfp8a16"),
        *("qint4/128", "qint8", "qfloat8", "int8wo", "bitnet"),
    ],
)
def test_groups_of_zeros_and_of_one_sign(tmp_path: Path, name: str) -> None:
    values = _weights(32, 128, seed=3)
    values[4], values[5] = 0, np.abs(values[5])
    _check_round_trip(tmp_path, name, values)
    assert not Made(name, values).rounded[4].any()


def test_scales_of_scales_have_the_values_of_bitsandbytes() -> None:
    path = FOLDER / "bnb_nf4_double"
    if not path.exists():
        pytest.skip("the golden folders are not here")
    with open_model(path) as model:
        weight = next(one for one in model.tensors.rows if one.companions is not None)
        assert weight.companions is not None
        stored = dict(weight.companions.parts)["weight.nested_quant_map"].extent
        table = np.frombuffer(stored.source.read(stored.offset, stored.nbytes), "<f4")
    assert np.array_equal(dynamic_map(), table)


# Formulas, written again for one group


def _group(name: str, values: Floats) -> Made:
    return Made(name, values.reshape(1, -1))


_GROUPS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=32, max_size=32).map(
    lambda found: np.array(found, np.float32)
)


@given(_GROUPS)
def test_integers_are_the_nearest_of_a_range(values: Floats) -> None:
    for name, symmetric in (("w4a16/32", True), ("w4a16/32/asym", False), ("w8a16/32", True)):
        made = _group(name, values)
        scale, zero, top = (
            float(made.scales[0, 0]),
            float(made.zeros[0, 0]),
            2**made.scheme.bits - 1,
        )
        most = np.abs(values).max()
        extent = 2 * most if symmetric else max(values.max(), 0) - min(values.min(), 0)
        if extent > 1e-30:
            assert scale == pytest.approx(extent / top, rel=2**-7)
        assert zero == (2 ** (made.scheme.bits - 1) if symmetric else np.clip(zero, 0, top))
        # no code of the range is nearer
        possible = ((np.arange(top + 1) - zero) * scale).astype(np.float32)
        best = np.abs(values[:, None].astype(np.float64) - possible).min(1)
        assert np.abs(made.rounded[0].astype(np.float64) - values) == pytest.approx(
            best, abs=float(1e-4 * most)
        )


@given(_GROUPS)
def test_tables_give_the_nearest_value(values: Floats) -> None:
    for name in ("nf4", "fp4"):
        made = _group(f"{name}/32", values)
        most = np.abs(values).max()
        if most < 1e-30:
            continue
        table = made.made.levels
        scaled = np.clip(values * (np.float32(1) / most), -1, 1)
        best = np.abs(scaled[:, None] - table).min(1)
        assert np.abs(scaled - table[made.codes[0]]) == pytest.approx(best, abs=1e-7)
        assert made.scales[0] == most


@given(_GROUPS)
def test_small_floats_are_the_nearest(values: Floats) -> None:
    names = (("fp8/channel", E4M3), ("mxfp4a16", E2M1), ("nvfp4a16", E2M1), ("mxfp8a16", E4M3))
    for name, table in (*names, ("qfloat8", E4M3)):
        made = _group(name, values)
        for group in range(made.scales.shape[1]):
            size = values.size // made.scales.shape[1]
            part = slice(group * size, (group + 1) * size)
            scale = np.float64(made.scales[0, group])
            if scale < 1e-30:
                continue
            finite = table[np.isfinite(table)].astype(np.float64) * scale
            best = np.abs(values[part, None] - finite).min(1)
            found = np.abs(made.rounded[0, part] - values[part].astype(np.float64))
            assert found == pytest.approx(best, rel=1e-3, abs=float(1e-4 * np.abs(values).max()))


@given(_GROUPS)
def test_integers_of_quanto_and_torchao(values: Floats) -> None:
    low, high = values.min(), values.max()
    most = np.abs(values).max()
    for name, steps in (("qint4/32", 15), ("qint2/32", 3)):
        made = _group(name, values)
        scale, shift = made.scales[0, 0], made.zeros[0, 0]
        assert scale == pytest.approx((high - low) / steps, rel=2**-8, abs=1e-38)
        assert shift == pytest.approx(-low, rel=2**-8, abs=1e-38)
        if scale > 1e-30:
            codes = np.clip(np.rint((values + shift) / scale), 0, steps)
            assert np.array_equal(made.codes[0], codes)
    for name, steps, least in (("qint8", 127, 0), ("int8wo", 127.5, 2**-23)):
        made = _group(name, values)
        scale = made.scales[0, 0]
        assert scale == pytest.approx(max(most / steps, least), rel=2**-8, abs=1e-38)
        if scale > 1e-30:
            exact = np.clip(values.astype(np.float64) / scale, -128, 127)
            assert (np.abs(made.codes[0] - 128.0 - exact) <= 0.5 + 1e-4).all()


def test_bitnet_divides_by_the_mean_magnitude() -> None:
    values = _weights(64, 96, seed=8)
    made = Made("bitnet", values)
    mean = np.abs(values).mean(dtype=np.float64)
    assert made.scales[0, 0] == pytest.approx(mean, rel=2**-8)
    assert np.array_equal(made.codes, np.clip(np.rint(values / mean), -1, 1) + 1)


def test_ties_of_e2m1_go_to_even_codes() -> None:
    values = np.array([6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5] * 4, np.float32)
    assert _group("mxfp4a16", values).rounded[0, :8].tolist() == [6, 0, 1, 1, 2, 2, 4, 4]


# Of a whole tensor


def test_runs_threads_and_places_change_nothing() -> None:
    values = _weights(3, 416, 640, seed=4)  # runs are cut within tiles and matrices
    assert values[0].size > RUN_WEIGHTS
    values[1] *= 8
    names = [
        "fp8/tensor",
        "fp8/128x128",
        "nf4/double",
        "nvfp4a16",
        "w4a16/128/asym",
        "w4a16/channel",
    ]
    names += ["bitnet", "qint4/128", "int8wo"]
    tensor = float_tensor(values)
    one = list(requantize(tensor, names))
    assert list(requantize(tensor, names, workers=2)) == one
    for row in one:
        pair = RoundedPair(tensor, row.type)
        reader = pair.reader()
        whole = reader.read((0, values.size), never)[1].copy()
        assert row.errors is not None
        error = whole.astype(np.float64) - values.reshape(-1)
        assert row.errors.rmse == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-12)
        other = pair.reader()
        for start, count in ((5, 1), (values.size // 3 - 7, 20), (values.size - 3, 3)):
            found = other.read((start, count), never)
            assert np.array_equal(found[0], values.reshape(-1)[start : start + count])
            assert np.array_equal(found[1], whole[start : start + count])


def test_matrices_have_scales_of_their_own() -> None:
    values = _weights(2, 160, 256, seed=5)
    values[1] *= 100
    for name in ("fp8/tensor", "fp8/128x128", "nvfp4a16", "bitnet"):
        pair = RoundedPair(float_tensor(values), name)
        both = pair.reader().read((0, values.size), never)[1].reshape(values.shape)
        for number in range(2):
            assert np.array_equal(both[number], Made(name, values[number]).rounded)


@given(
    st.sampled_from(SCHEME_NAMES),
    st.lists(st.floats(width=32, allow_nan=True), min_size=1, max_size=64),
)
def test_weights_may_be_anything(name: str, found: list[float]) -> None:
    values = np.resize(np.array(found, np.float32), (32, 128))
    pair = RoundedPair(float_tensor(values), name)
    given_back, rounded = pair.reader().read((0, values.size), never)
    assert np.array_equal(given_back, values.reshape(-1), equal_nan=True)
    assert rounded.shape == given_back.shape


# Names


@pytest.mark.parametrize(
    "name",
    [
        *(
            "gptq4/128",
            "awq4",
            "w4a16/100",
            "w4a16/double",
            "nf4/asym",
            "nf4/channel",
            "llm.int8/64",
        ),
        *("fp8/128", "fp8/axb", "fp8/channel/tensor", "hqq4/channel", "w8a8/asym", "nvfp4a16/16"),
    ],
)
def test_what_no_method_has_is_refused(name: str) -> None:
    with pytest.raises(ExplorerError, match=name.split("/", maxsplit=1)[0]):
        rounder(name)


@pytest.mark.parametrize(
    ("name", "shape", "what"),
    [
        ("w4a16/128", (32, 64), "shorter than a group"),
        ("w4a16/64", (32, 100), "whole number of groups"),
        ("nvfp4a16", (32, 100), "whole number of groups"),
        ("fp8/128x128", (1 << 10, 1 << 20), "too long"),
        ("nf4", (0, 4), "no weights"),
    ],
)
def test_shapes_that_cannot_have_a_type(name: str, shape: tuple[int, int], what: str) -> None:
    problem = shape_problem(name, shape)
    assert problem is not None
    assert what in problem


def test_bits_of_a_weight_count_all_companions() -> None:
    shape = (4096, 4096)
    bits = {name: rounded_type(name, "BF16", shape).bits_per_weight for name in SCHEME_NAMES}
    assert bits["w4a16/128/asym"] == 4 + (16 + 4) / 128 + 16 * 8 / 4096**2
    assert bits["w4a16/channel"] == 4 + 16 / 4096 + 16 * 8 / 4096**2
    assert bits["nf4"] == pytest.approx(4.5, abs=1e-4)
    assert bits["nf4/double"] == pytest.approx(4 + 8 / 64 + 32 / 64 / 256, abs=1e-3)
    assert bits["fp8/128x128"] == 8 + 32 / 128**2
    assert bits["nvfp4a16"] == 4.5 + 32 / 4096**2
    assert bits["mxfp4a16"] == 4.25
