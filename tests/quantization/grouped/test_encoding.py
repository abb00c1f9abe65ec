"""Rounding to groups: small examples by hand, error bounds, any float bits.

`test_layout` compares with the bytes that MLX made.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.quantization.grouped.layout import FIXED_SIZES, GroupedLayout, Mode
from tests.helpers.grouped_tensors import rounded

Floats = NDArray[np.float32]


def _affine(bits: int, size: int = 64, scales: str = "F32") -> GroupedLayout:
    return GroupedLayout(Mode.AFFINE, bits, size, scales, scales)


_FIXED = [GroupedLayout(mode, *sizes, "U8") for mode, sizes in FIXED_SIZES.items()]
_ALL = [_affine(2), _affine(3, 32), _affine(4, 64, "BF16"), _affine(6, 128), _affine(8), *_FIXED]


def _there_and_back(layout: GroupedLayout, values: Floats) -> Floats:
    weights: Floats = rounded(layout, values)[1]
    return weights


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), shift=st.floats(-3, 3))
def test_no_weight_is_off_by_more_than_half_a_step(bits: int, seed: int, shift: float) -> None:
    """One end of the range is exact and zero is; the other end may be cut by half a step."""
    generator = np.random.default_rng(seed)
    values = (generator.standard_normal((4, 64)) + shift).astype(np.float32)
    stored, weights = rounded(_affine(bits), values)
    step = np.abs(stored.scales.view(np.float32))[:, None]
    biases = stored.biases
    assert biases is not None
    error = np.abs(weights - values)
    inside = np.abs(values - biases.view(np.float32)[:, None]) <= (2**bits - 1) * step
    assert (error[inside] <= np.broadcast_to(step * 0.5001 + 1e-5, error.shape)[inside]).all()
    assert (error <= step * 1.001 + 1e-5).all()


def test_int4_by_hand() -> None:
    """MLX's rule: -8 is the farther end and exact; the step is 1, so 0 is exact too."""
    values = np.resize(np.arange(-8, 8, dtype=np.float32), 32)
    stored, _ = rounded(_affine(4, 32), values)
    assert stored.scales.view(np.float32).tolist() == [1.0]
    assert stored.biases is not None
    assert stored.biases.view(np.float32).tolist() == [-8.0]
    assert stored.packed.tolist() == [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE] * 2


@pytest.mark.parametrize("layout", _FIXED, ids=lambda layout: layout.name)
def test_what_small_floats_hold_exactly_comes_back(layout: GroupedLayout) -> None:
    levels = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -1, -1.5, -2, -3, -4, -6, 0], np.float32)
    values = np.resize(levels, 64)
    assert np.array_equal(_there_and_back(layout, values), values)


@pytest.mark.parametrize("layout", _FIXED, ids=lambda layout: layout.name)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-20, 6))
def test_small_floats_lose_what_their_mantissas_lack(
    layout: GroupedLayout, seed: int, power: int
) -> None:
    values = np.ldexp(np.random.default_rng(seed).standard_normal(256), power).astype(np.float32)
    if layout.mode is Mode.NVFP4:
        values = np.ldexp(values, -power)  # whose scale has a range of its own
    groups = values.reshape(-1, layout.group_size)
    error = np.abs(_there_and_back(layout, groups) - groups)
    largest = np.abs(groups).max(axis=1, keepdims=True)
    # E2M1's widest gap is 2 of 6, and a power of two may be twice what is needed.
    limit = largest / 8 if layout.mode is Mode.MXFP8 else largest / 3
    assert (error <= limit).all()


@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=64))
def test_any_bits_give_groups_and_nan_counts_as_zero(bits: list[int]) -> None:
    values = np.resize(np.array(bits, np.uint32).view(np.float32), 128)
    cleaned = np.where(np.isfinite(values), values, np.float32(0))
    for layout in _ALL:
        ours, wanted = rounded(layout, values)[0], rounded(layout, cleaned)[0]
        assert np.array_equal(ours.packed, wanted.packed)
        assert np.array_equal(ours.scales, wanted.scales)
