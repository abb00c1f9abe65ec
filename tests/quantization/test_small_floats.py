"""Floats of eight bits and less, against their formats' definitions, worked out here with exact
fractions, and against the values that the specifications print."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.quantization import TENSOR_TYPES
from explorer.quantization.registry import decoder, has_decoder
from tests.helpers.tensors import assert_same_bits

_SPLIT = {  # exponent bits, mantissa bits, bias
    "F8_E4M3": (4, 3, 7),
    "F8_E5M2": (5, 2, 15),
    "F8_E4M3FNUZ": (4, 3, 8),
    "F8_E5M2FNUZ": (5, 2, 16),
    "F6_E2M3": (2, 3, 1),
    "F6_E3M2": (3, 2, 3),
    "F4": (2, 1, 1),
}
_NAN = {
    "F8_E4M3": {0x7F, 0xFF},
    "F8_E5M2": {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF},
    "F8_E8M0": {0xFF},
    "F8_E4M3FNUZ": {0x80},
    "F8_E5M2FNUZ": {0x80},
}
_INFINITE = {"F8_E5M2": {0x7C: math.inf, 0xFC: -math.inf}}
_ALL = [*_SPLIT, "F8_E8M0"]


def _value(name: str, code: int) -> float:
    """Return what a code is worth, bit by bit."""
    if code in _NAN.get(name, ()):
        return math.nan
    if code in _INFINITE.get(name, {}):
        return _INFINITE[name][code]
    if name == "F8_E8M0":
        return float(Fraction(2) ** (code - 127))
    exponent_bits, mantissa_bits, bias = _SPLIT[name]
    exponent = (code >> mantissa_bits) % (1 << exponent_bits)
    fraction = Fraction(code % (1 << mantissa_bits), 1 << mantissa_bits)
    if exponent:
        magnitude = (1 + fraction) * Fraction(2) ** (exponent - bias)
    else:
        magnitude = fraction * Fraction(2) ** (1 - bias)
    return math.copysign(float(magnitude), -1 if code >> (exponent_bits + mantissa_bits) else 1)


def _values(name: str, codes: list[int]) -> NDArray[np.float32]:
    return np.array([_value(name, code) for code in codes], np.float32)


def _bits(name: str) -> int:
    return int(TENSOR_TYPES[name].bits_per_weight)


def _pack(codes: list[int], bits: int) -> bytes:
    """Write codes one behind the other, lowest bit first: one big number, little-endian."""
    stream = sum(code << (bits * i) for i, code in enumerate(codes))
    return stream.to_bytes(len(codes) * bits // 8, "little")


def _decode(name: str, codes: list[int]) -> NDArray[np.float32]:
    kind = TENSOR_TYPES[name]
    blocks = np.frombuffer(_pack(codes, _bits(name)), np.uint8).reshape(-1, kind.block_bytes)
    out = np.full((len(blocks), kind.block_weights), 77, np.float32)
    decoder(name)(blocks, out)
    return out.reshape(-1)


@pytest.mark.parametrize("name", _ALL)
def test_every_code_by_the_definition(name: str) -> None:
    codes = list(range(1 << _bits(name)))
    assert_same_bits(_decode(name, codes), _values(name, codes))


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        # OFP8 1.0, table 2: largest, smallest normal, largest and smallest subnormal
        ("F8_E4M3", 0x7E, 448.0),
        ("F8_E4M3", 0x08, 2.0**-6),
        ("F8_E4M3", 0x07, 0.875 * 2.0**-6),
        ("F8_E4M3", 0x01, 2.0**-9),
        ("F8_E5M2", 0x7B, 57344.0),
        ("F8_E5M2", 0x04, 2.0**-14),
        ("F8_E5M2", 0x03, 0.75 * 2.0**-14),
        ("F8_E5M2", 0x01, 2.0**-16),
        # MX 1.0, tables 3, 4, 5 and 7
        ("F6_E2M3", 0x1F, 7.5),
        ("F6_E2M3", 0x01, 0.125),
        ("F6_E3M2", 0x1F, 28.0),
        ("F6_E3M2", 0x01, 0.0625),
        ("F4", 0x7, 6.0),
        ("F4", 0x1, 0.5),
        ("F8_E8M0", 0x00, 2.0**-127),
        ("F8_E8M0", 0x7F, 1.0),
        ("F8_E8M0", 0xFE, 2.0**127),
        # ml_dtypes, finfo of float8_e4m3fnuz and float8_e5m2fnuz
        ("F8_E4M3FNUZ", 0x7F, 240.0),
        ("F8_E4M3FNUZ", 0x08, 2.0**-7),
        ("F8_E4M3FNUZ", 0x01, 2.0**-10),
        ("F8_E5M2FNUZ", 0x7F, 57344.0),
        ("F8_E5M2FNUZ", 0x04, 2.0**-15),
        ("F8_E5M2FNUZ", 0x01, 2.0**-17),
    ],
)
def test_values_that_the_specifications_print(name: str, code: int, value: float) -> None:
    assert _decode(name, [code] * 4).tolist() == [value] * 4


def test_f4_holds_the_low_nibble_first() -> None:
    assert _decode("F4", [1, 7, 15, 8]).tolist() == [0.5, 6.0, -6.0, 0.0]
    out = np.empty((1, 2), np.float32)
    decoder("F4")(np.array([[0x71]], np.uint8), out)
    assert out.tolist() == [[0.5, 6.0]]


@given(st.sampled_from(["F6_E2M3", "F6_E3M2", "F4"]), st.data())
def test_packed_codes_of_any_order(name: str, data: st.DataObject) -> None:
    highest = (1 << _bits(name)) - 1
    count = 4 * data.draw(st.integers(1, 9))
    codes = data.draw(st.lists(st.integers(0, highest), min_size=count, max_size=count))
    assert_same_bits(_decode(name, codes), _values(name, codes))


@pytest.mark.parametrize("name", _ALL)
def test_no_weights(name: str) -> None:
    assert has_decoder(name)
    assert _decode(name, []).size == 0


@pytest.mark.parametrize("name", [name for name in _ALL if name.startswith("F8")])
def test_against_ml_dtypes(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    theirs = {"F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu"}
    dtype = getattr(ml_dtypes, theirs.get(name, name.lower().replace("f8_", "float8_")))
    codes = np.arange(256, dtype=np.uint8)
    assert_same_bits(_decode(name, codes.tolist()), codes.view(dtype).astype(np.float32))
