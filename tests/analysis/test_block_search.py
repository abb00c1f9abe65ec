"""Finding the block with the largest scale, and the one that lost most."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.analysis.block_search import largest_scale, worst_block
from explorer.analysis.errors.pairs import MatchedPair, RoundedPair
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorPart, TensorView
from explorer.errors import ExplorerError
from explorer.formats import Tensor
from explorer.quantization import TENSOR_TYPES, dequantize, quantize
from explorer.quantization.registry import block_layout
from tests.helpers.grouped_tensors import AFFINE_4, grouped_tensor
from tests.helpers.tensors import float_tensor, random_blocks, tensor_of

BLOCKS = 3 * (1 << 21) // 32 + 7  # three spans and a bit


class _Stop(Exception):
    pass


def _stop() -> None:
    raise _Stop


def _eights(blocks: int = BLOCKS) -> tuple[np.ndarray, Tensor]:
    stored = random_blocks("Q8_0", blocks)
    return stored, tensor_of("Q8_0", stored.tobytes(), (blocks, 32))


def _matched(reference: Tensor, candidate: Tensor) -> MatchedPair:
    return MatchedPair(Match(TensorView.of(reference), TensorView.of(candidate)))


@pytest.mark.parametrize("workers", [1, 3])
def test_the_largest_scale(workers: int) -> None:
    stored, _ = _eights()
    for place in (5, BLOCKS - 1):
        scales = stored[:, :2].copy().view("<f2")
        scales[place] = -7.5  # the largest without its sign
        stored[:, :2] = scales.view(np.uint8)
        tensor = tensor_of("Q8_0", stored.tobytes(), (BLOCKS, 32))
        done: list[int] = []
        found = largest_scale(tensor, workers, progress=done.append)
        assert found is not None
        assert (found.index, found.figure) == (5, -7.5)
        assert done[-1] == tensor.parameters


def test_the_largest_scale_of_sub_blocks() -> None:
    blocks = random_blocks("Q4_K", 50)
    scales = np.empty((50, 8), np.float32)
    block_layout("Q4_K").unpack(blocks, np.empty((50, 256), np.uint8), scales, scales.copy())
    found = largest_scale(tensor_of("Q4_K", blocks.tobytes(), (50, 256)))
    assert found is not None
    assert found.index == np.abs(scales).max(axis=1).argmax()
    assert abs(found.figure) == np.abs(scales).max()


def test_a_scale_that_is_no_number_is_the_largest() -> None:
    stored, _ = _eights(20)
    stored[[13, 17], :2] = np.array([[np.nan], [np.inf]], "<f2").view(np.uint8)
    found = largest_scale(tensor_of("Q8_0", stored.tobytes(), (20, 32)))
    assert found is not None
    assert found.index == 13
    assert np.isnan(found.figure)
    assert largest_scale(tensor_of("Q8_0", b"", (0, 32))) is None


def test_groups_have_scales_too() -> None:
    values = np.random.default_rng(1).normal(0, 1, (4, 256)).astype(np.float32)
    values[2, 70] = 50
    tensor = grouped_tensor(AFFINE_4, values)
    found = largest_scale(tensor)
    assert found is not None
    assert found.index == (2 * 256 + 70) // 64
    worst = worst_block([_matched(float_tensor(values), tensor)], tensor)
    assert worst is not None
    assert worst.index == found.index


@pytest.mark.parametrize("workers", [1, 3])
def test_the_worst_block_against_numpy(workers: int) -> None:
    _, tensor = _eights(40_000)
    values = tensor.dequantize()
    random = np.random.default_rng(2)
    reference = values + random.normal(0, 0.01, values.shape).astype(np.float32)
    reference[33_333, 7] += 5
    reference[100, 3] = np.nan
    errors = values.astype(np.float64) - reference
    squares = np.nan_to_num(errors) ** 2
    done: list[int] = []
    pair = _matched(float_tensor(reference), tensor)
    found = worst_block([pair], tensor, workers, progress=done.append)
    assert found is not None
    assert found.index == squares.mean(axis=1).argmax() == 33_333
    assert found.figure == pytest.approx(np.sqrt(squares.mean(axis=1).max()), rel=1e-12)
    assert done[-1] == tensor.parameters


def test_the_worst_block_of_a_rounding() -> None:
    _, tensor = _eights(400)
    values = tensor.dequantize()
    rounded = dequantize(quantize(values, "Q4_0"), "Q4_0").reshape(values.shape)
    errors = (rounded.astype(np.float64) - values) ** 2
    found = worst_block([RoundedPair(tensor, "Q4_0")], tensor)
    assert found is not None
    assert found.index == errors.mean(axis=1).argmax()


def test_permuted_rows_lead_to_the_stored_block() -> None:
    kind = TENSOR_TYPES["Q8_0"]
    stored = random_blocks("Q8_0", 16)
    tensor = tensor_of("Q8_0", stored.tobytes(), (8, 2 * kind.block_weights))
    values = tensor.dequantize()
    even = TensorView("even", (4, 64), (TensorPart.whole(tensor).sliced(0, 0, 8, 2),))
    odd = TensorView("odd", (4, 64), (TensorPart.whole(tensor).sliced(0, 1, 8, 2),))
    references = [values[0::2].copy(), values[1::2].copy()]
    references[1][2, 40] += 9  # row 5, second block
    pairs = [
        MatchedPair(Match(TensorView.of(float_tensor(reference)), view))
        for reference, view in zip(references, (even, odd), strict=True)
    ]
    found = worst_block(pairs, tensor)
    assert found is not None
    assert found.index == 5 * 2 + 1
    turned = TensorView("turned", (64, 8), (TensorPart.whole(tensor).transposed(1, 0),))
    across = MatchedPair(Match(TensorView.of(float_tensor(values.T.copy())), turned))
    with pytest.raises(ExplorerError, match="in several places"):
        worst_block([across], tensor)
    assert worst_block([], tensor) is None


@pytest.mark.parametrize("workers", [1, 3])
def test_searches_can_be_cancelled(workers: int) -> None:
    _, tensor = _eights()
    with pytest.raises(_Stop):
        largest_scale(tensor, workers, _stop)
    with pytest.raises(_Stop):
        worst_block([RoundedPair(tensor, "Q4_0")], tensor, workers, _stop)
