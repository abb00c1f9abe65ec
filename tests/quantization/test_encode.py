"""`quantize`: bytes and errors as ggml's C code, any float bits, and what it refuses."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.quantization import TENSOR_TYPES, QuantizationError, dequantize, quantize
from explorer.quantization.grids import Grid, stored_grid
from explorer.quantization.iq_search import neighbours
from explorer.quantization.jit import _half_of_float32_portable, half_of_float32, kernel
from explorer.quantization.registry import (
    FAMILIES,
    LANES,
    WITHOUT_ENCODER,
    block_layout,
    encoder,
    has_encoder,
    uses_importance,
)

# those of ik_llama.cpp: test_ik
ENCODED = [name for name in TENSOR_TYPES if has_encoder(name) and name not in FAMILIES["ik"]]
EXACT = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q1_0", "Q2_0", "TQ1_0", "TQ2_0")
EXACT += ("MXFP4", "NVFP4", "IQ4_NL", "IQ4_XS")
EXACT += ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_M", "IQ2_S", "IQ3_XXS", "IQ3_S")
NEEDING = ("IQ1_S", "IQ2_XXS", "IQ2_XS")
OF_GRIDS = ("IQ1_M", "IQ2_S", "IQ3_XXS", "IQ3_S", *NEEDING)
BY_BLOCK = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", *OF_GRIDS)
BY_ROW = ("Q4_0", "Q4_1", "Q5_0", "Q5_1")
WEIGHTED = (*BY_BLOCK, *BY_ROW)
_DATA = Path(__file__).parents[1] / "data"

Weights = NDArray[np.float32]


@pytest.fixture(scope="module")
def golden() -> Iterator[Any]:
    """Weights of 16 kinds, 256 of each, and what ggml makes of them (make_golden.py)."""
    with np.load(_DATA / "encoders_golden.npz", allow_pickle=False) as file:
        yield file


@pytest.fixture(scope="module")
def all_golden(shared_reference: Path) -> Iterator[Any]:
    with np.load(shared_reference / "ggml_golden.npz", allow_pickle=False) as file:
        yield file


@pytest.mark.parametrize("name", TENSOR_TYPES)
def test_every_type_has_an_encoder_or_a_reason_for_having_none(name: str) -> None:
    assert has_encoder(name) == (name not in WITHOUT_ENCODER)
    if has_encoder(name):
        assert callable(encoder(name))
    else:
        assert len(WITHOUT_ENCODER[name]) > 10
        with pytest.raises(KeyError):
            encoder(name)


@pytest.fixture(scope="module")
def encoder_golden(shared_reference: Path) -> Iterator[Any]:
    with np.load(shared_reference / "encoder_golden.npz", allow_pickle=False) as file:
        yield file


@pytest.mark.parametrize("name", EXACT)
def test_the_same_bytes_as_ggml(name: str, golden: Any) -> None:
    assert np.array_equal(quantize(golden["weights"], name), golden[f"{name}.blocks"].reshape(-1))


@pytest.mark.parametrize("name", EXACT)
def test_the_same_bytes_as_ggml_for_all_golden_weights(name: str, all_golden: Any) -> None:
    assert np.array_equal(quantize(all_golden["src"], name), all_golden[f"{name}.quant_raw"])


@pytest.mark.parametrize("name", BY_BLOCK)
def test_the_same_bytes_as_ggml_with_importance(name: str, golden: Any) -> None:
    wanted = golden[f"{name}.blocks" if name in NEEDING else f"{name}.weighted"]
    ours = quantize(golden["weights"], name, golden["importance"])
    assert np.array_equal(ours, wanted.reshape(-1))


@pytest.mark.parametrize("name", BY_ROW)
def test_the_same_bytes_as_ggml_with_importance_for_whole_rows(name: str, golden: Any) -> None:
    ours = quantize(golden["rows"], name, golden["row_importance"])
    assert np.array_equal(ours, golden[f"{name}.rows"].reshape(-1))


@pytest.mark.parametrize("name", WEIGHTED)
def test_the_same_bytes_as_ggml_with_importance_for_all_golden_weights(
    name: str, all_golden: Any
) -> None:
    wanted = all_golden[f"{name}.quant_raw" if name in NEEDING else f"{name}.imat_raw"]
    assert np.array_equal(quantize(all_golden["src"], name, all_golden["imatrix"]), wanted)


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("how", ["plain", "weighted"])
def test_the_same_bytes_as_ggml_for_weights_of_another_seed(
    name: str, how: str, encoder_golden: Any
) -> None:
    if f"{name}_{how}" not in encoder_golden:
        assert name in {"F32", "F16", "BF16", "Q1_0", "Q2_0"} or (
            name in NEEDING and how == "plain"
        )
        pytest.skip("the golden file does not have it")
    importance = encoder_golden["importance"] if how == "weighted" else None
    ours = quantize(encoder_golden["x"], name, importance)
    assert np.array_equal(ours, encoder_golden[f"{name}_{how}"].reshape(-1))


@pytest.mark.parametrize("name", [name for name in ENCODED if TENSOR_TYPES[name].quantized])
@pytest.mark.parametrize("how", ["plain", "weighted"])
def test_the_same_bytes_as_ggml_where_rounding_hangs_on_the_last_bit(name: str, how: str) -> None:
    if name in NEEDING and how == "plain":
        pytest.skip("ggml makes it with importance only")
    with np.load(_DATA / "encoders_hard.npz", allow_pickle=False) as hard:
        wanted = hard[f"{name}.{how}"].tolist()
        ours = [
            quantize(row, name, importance if how == "weighted" else None)
            for row, importance in zip(hard["weights"], hard["importance"], strict=True)
        ]
    assert [zlib.crc32(blocks) for blocks in ours] == wanted


def test_scales_beyond_float32_have_the_codes_that_c_gives_them() -> None:
    """Sums of huge weights by huge importance are infinite: the scale is 0, its codes are not."""
    weights = np.linspace(-1e16, 1e16, 256, dtype=np.float32)
    blocks = quantize(weights, "Q3_K", np.full(256, 1e10, np.float32))
    assert blocks[96:].tolist() == [0] * 8 + [170] * 4 + [0, 0]  # ggml, build 11434


@pytest.mark.parametrize("grid", Grid)
def test_every_point_is_a_row_or_has_the_nearest_rows(grid: Grid) -> None:
    """Against a plain search, for some points of each grid."""
    stored = stored_grid(grid).astype(int)
    bits, shells = {4: 3, 8: 2}[stored.shape[1]], {"iq2s": 1, "iq1s": 3, "iq3s": 3}
    levels = np.unique(stored)
    codes = np.searchsorted(levels, stored)
    shifts = bits * np.arange(stored.shape[1])
    points = (codes << shifts).sum(axis=1)
    table = neighbours(grid)
    assert table.rows[points].tolist() == list(range(len(points)))
    assert np.count_nonzero(table.rows >= 0) == len(points)
    generator = np.random.default_rng(9)
    for own in generator.integers(0, len(levels), (200, stored.shape[1])):
        point = int((own << shifts).sum())
        if table.rows[point] >= 0:
            continue
        distances = ((codes - own) ** 2).sum(axis=1)
        near = np.unique(distances)[: shells.get(grid.value, 2)]
        wanted = np.concatenate([points[distances == distance] for distance in near])
        start, count = table.starts[point], LANES * table.chunks[point]
        found = table.near[start : start + count]
        assert found[: len(wanted)].tolist() == wanted.tolist()
        assert set(found[len(wanted) :]) <= {wanted[0]}
        assert count - len(wanted) < LANES


def test_importance_changes_what_is_searched() -> None:
    assert {name for name in ENCODED if uses_importance(name)} == set(WEIGHTED)


@pytest.mark.parametrize("name", NEEDING)
def test_types_that_ggml_makes_with_importance_only(name: str) -> None:
    values = np.random.default_rng(1).standard_normal(512).astype(np.float32)
    with pytest.raises(QuantizationError, match="only with an importance matrix"):
        quantize(values, name)
    assert quantize(values, name, np.ones(256, np.float32)).size == TENSOR_TYPES[name].nbytes(512)


def test_importance_moves_the_error_to_columns_that_matter_less() -> None:
    values = np.random.default_rng(2).standard_normal((64, 256)).astype(np.float32)
    importance = np.ones(256, np.float32)
    importance[::4] = 100
    errors = (
        dequantize(quantize(values, "Q4_K", importance), "Q4_K").reshape(64, 256) - values
    ) ** 2
    plain = (dequantize(quantize(values, "Q4_K"), "Q4_K").reshape(64, 256) - values) ** 2
    assert errors[:, ::4].mean() < 0.8 * plain[:, ::4].mean()
    assert errors.mean() > plain.mean()


def test_weights_far_beyond_what_a_type_holds_are_rounded_as_in_c() -> None:
    """NVFP4: of distances that are alike in float32, the first counts, which is that of 0."""
    values = np.array([3e38, -3e38, 1e16, 1.0], np.float32).repeat(16)
    weights = dequantize(quantize(values, "NVFP4"), "NVFP4").reshape(4, 16)
    assert weights[:3].any() == np.False_
    assert np.array_equal(weights[3], np.full(16, 1.03125, np.float32))


def test_types_without_a_search_do_not_use_importance() -> None:
    values = np.random.default_rng(3).standard_normal(512).astype(np.float32)
    for name in ("Q8_0", "MXFP4", "TQ2_0", "F16"):
        assert not uses_importance(name)
        given_importance = quantize(values, name, np.arange(256, dtype=np.float32))
        assert np.array_equal(given_importance, quantize(values, name))


_BITS = st.integers(0, 2**32 - 1)
_USUAL = st.floats(-4, 4, width=32)
_SPECIAL = st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, 65504.0])


@st.composite
def _blocks_of_any_bits(draw: st.DrawFn) -> Weights:
    """256 floats that repeat some drawn ones: any bits, usual weights and special values."""
    some = np.array(draw(st.lists(_BITS, min_size=1, max_size=8)), np.uint32).view(np.float32)
    more = np.array(draw(st.lists(_USUAL | _SPECIAL, min_size=1, max_size=40)), np.float32)
    return np.resize(np.concatenate([some, more]), 256)


@given(values=_blocks_of_any_bits(), seed=_BITS)
def test_any_bits_give_blocks_and_nan_counts_as_zero(values: Weights, seed: int) -> None:
    importance = np.random.default_rng(seed).random(256, np.float32)
    cleaned = np.where(np.isfinite(values), values, np.float32(0))
    for name in ENCODED:
        kind = TENSOR_TYPES[name]
        for given_importance in (None, importance):
            if given_importance is None and name in NEEDING:
                continue
            blocks = quantize(values, name, given_importance)
            assert blocks.size == kind.nbytes(256)
            if kind.quantized:
                assert np.array_equal(blocks, quantize(cleaned, name, given_importance))


@pytest.mark.parametrize("name", ["Q4_0", "Q5_0", "Q8_0", "Q4_1", "Q5_1"])
@given(seed=_BITS, spread=st.floats(0.1, 1e3), shift=st.floats(-2, 2))
def test_no_weight_is_off_by_more_than_half_a_step(
    name: str, seed: int, spread: float, shift: float
) -> None:
    """But for the one end that Q4_0 and Q5_0 have no code for, and the half float's rounding."""
    generator = np.random.default_rng(seed)
    values = ((generator.standard_normal(256) + shift) * spread).astype(np.float32)
    blocks = quantize(values, name)
    weights = dequantize(blocks, name).reshape(8, 32)
    kind, parts = TENSOR_TYPES[name], block_layout(name)
    codes, scales = np.empty((8, 32), np.uint8), np.empty((8, 1), np.float32)
    parts.unpack(blocks.reshape(-1, kind.block_bytes), codes, scales, scales.copy())
    step = np.abs(scales)
    farthest = np.abs(values).reshape(8, 32).max(axis=1, keepdims=True)
    limit = step * (1.0 if name in ("Q4_0", "Q5_0") else 0.5)
    error = np.abs(weights - values.reshape(8, 32))
    assert (error <= limit * 1.001 + 2.0**-10 * farthest + 1e-6).all()


@pytest.mark.parametrize("name", [name for name in ENCODED if TENSOR_TYPES[name].quantized])
def test_more_bits_lose_less_and_levels_stay(name: str) -> None:
    """What a type can hold exactly comes back: zeros, and one level of a block.

    No grid has a row for each level, and ggml scales IQ types by 0.99 to 1.13.
    """
    alike = np.ones(256, np.float32) if name in NEEDING else None
    assert not dequantize(quantize(np.zeros(512, np.float32), name, alike), name).any()
    flat = np.full(256, 0.5, np.float32)
    off = np.abs(dequantize(quantize(flat, name, alike), name) - 0.5)
    assert off.mean() < 0.2 if name in OF_GRIDS else off.max() < 2e-2


def test_errors_are_ranked_as_bits_are() -> None:
    values = np.random.default_rng(4).standard_normal(1 << 14).astype(np.float32)
    errors = [
        float(np.square(dequantize(quantize(values, name), name) - values).mean())
        for name in ("F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K", "TQ2_0")
    ]
    assert errors == sorted(errors)


@given(st.integers(0, 7), st.integers(1, 8))
def test_blocks_do_not_depend_on_their_neighbours(first: int, count: int) -> None:
    values = np.random.default_rng(5).standard_normal((16, 256)).astype(np.float32)
    for name in ("Q4_0", "Q4_K", "IQ4_NL", "TQ1_0"):
        whole = quantize(values, name).reshape(16, -1)
        part = quantize(values[first : first + count], name).reshape(count, -1)
        assert np.array_equal(part, whole[first : first + count])


@pytest.mark.parametrize("name", BY_ROW)
def test_rows_of_any_number_of_blocks_are_weighed_one_by_one(name: str) -> None:
    """Eight blocks are searched side by side, and a row may end between them."""
    generator = np.random.default_rng(10)
    for columns in (32, 96, 288):
        spread = np.exp(generator.normal(0, 3, (7, 1)))
        values = (generator.standard_normal((7, columns)) * spread).astype(np.float32)
        importance = generator.random(columns, np.float32)
        rows = [quantize(row, name, importance) for row in values]
        assert np.array_equal(quantize(values, name, importance), np.concatenate(rows))


def test_any_layout_of_the_array() -> None:
    values = np.random.default_rng(6).standard_normal((64, 64)).astype(np.float32)
    wanted = quantize(values.reshape(-1), "Q8_0")
    assert np.array_equal(quantize(np.asfortranarray(values), "Q8_0"), wanted)
    values.flags.writeable = False
    assert np.array_equal(quantize(values, "Q8_0"), wanted)
    assert quantize(np.empty(0, np.float32), "Q4_K").size == 0


_OK = np.zeros(256, np.float32)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((_OK, "Q9_9"), "unknown tensor type 'Q9_9'"),
        (
            (_OK, "IQ2_XXS"),
            "cannot be rounded to type IQ2_XXS as they are: ggml makes it only with",
        ),
        ((_OK, "IQ2_XXS", _OK[:32]), "importance of 32 columns does not fit"),
        ((_OK, "Q8_1"), "ggml makes it of activations"),
        ((_OK, "I8"), "it has no scales"),
        ((_OK[:33], "Q8_0"), "33 weights are not a whole number of Q8_0 blocks of 32 weights"),
        ((_OK.astype(np.float64), "Q8_0"), "float32 array, not float64"),
        (([0.0] * 32, "Q8_0"), "float32 array, not list"),
        ((_OK, "Q4_K", _OK[:32]), "importance of 32 columns does not fit"),
        ((_OK, "Q4_0", _OK[:0]), "importance of 0 columns does not fit"),
        ((_OK, "Q4_0", np.zeros(96, np.float32)), "importance of 96 columns does not fit"),
        ((_OK, "Q4_0", np.zeros(32)), "importance must be a float32 array"),
        ((_OK, "Q4_0", np.full(32, -1, np.float32)), "finite and not negative"),
        ((_OK, "Q4_0", np.full(32, np.nan, np.float32)), "finite and not negative"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(QuantizationError) as caught:
        quantize(*arguments)
    assert words in str(caught.value)


@kernel
def _narrow(values: Any, native: Any, portable: Any) -> None:
    for i in range(values.size):
        native[i] = half_of_float32(values[i])
        portable[i] = _half_of_float32_portable(values[i])


def test_both_ways_to_round_to_a_half() -> None:
    generator = np.random.default_rng(7)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(invalid="ignore"):
        beside = [np.nextafter(halves, np.float32(side)) for side in (-np.inf, np.inf)]
        middles = (halves[:-1].astype(np.float64) + halves[1:]) / 2
    any_bits = generator.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    values = np.concatenate([halves, *beside, middles.astype(np.float32), any_bits])
    native, portable = np.empty((2, values.size), np.uint16)
    _narrow(values, native, portable)
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float16)
    number = ~np.isnan(wanted)
    for ours in (native, portable):
        assert np.array_equal(ours[number], wanted.view(np.uint16)[number])
        assert np.isnan(ours[~number].view(np.float16)).all()


def test_float_bits_survive_where_nothing_is_rounded() -> None:
    values = np.random.default_rng(8).integers(0, 1 << 32, 4096, np.uint32).view(np.float32)
    assert quantize(values, "F32").tobytes() == values.tobytes()
