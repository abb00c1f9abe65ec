"""What a map is of: values, errors, scales and minima, weight for weight."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.blocks import BlockUnpacker
from explorer.analysis.errors.pairs import MatchedPair, RoundedPair
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorPart, TensorView
from explorer.analysis.tensor_map.draw import Quantity, Source, pair_source, tensor_source
from explorer.analysis.tensor_map.map import pair_facts, places_agree, weight_facts
from explorer.errors import ExplorerError, FormatError, SourceError
from explorer.formats import open_model
from explorer.formats.tensors import Tensor
from explorer.parallel import never
from explorer.quantization import TENSOR_TYPES, dequantize, quantize
from tests.helpers.model_pairs import write_gguf
from tests.helpers.tensors import QUANTIZED, float_tensor, random_blocks, tensor_of


def all_of(source: Source) -> NDArray[np.float32]:
    return source.make().read(0, source.rows * source.columns, never).copy()


def pair_of(reference: NDArray[np.float32], candidate: NDArray[np.float32]) -> MatchedPair:
    sides = (TensorView.of(float_tensor(side)) for side in (reference, candidate))
    return MatchedPair(Match(*sides))


@pytest.mark.parametrize("name", QUANTIZED)
def test_weights_are_made_of_what_the_maps_of_blocks_show(name: str) -> None:
    kind = TENSOR_TYPES[name]
    tensor = tensor_of(name, random_blocks(name, 6).tobytes(), (2, 3 * kind.block_weights))
    values = all_of(tensor_source(tensor, Quantity.VALUE))
    scales = all_of(tensor_source(tensor, Quantity.SCALE))
    minima = np.zeros_like(values)
    if BlockUnpacker(tensor).has_minimum:
        minima = all_of(tensor_source(tensor, Quantity.MINIMUM))
    else:
        with pytest.raises(ExplorerError, match="no minimum"):
            tensor_source(tensor, Quantity.MINIMUM).make()
    np.testing.assert_array_equal(values, dequantize(tensor.read(), name))
    for index in (0, 17, kind.block_weights, tensor.parameters - 1):
        facts = weight_facts(tensor, index)
        assert (facts.block, facts.place) == divmod(index, kind.block_weights)
        np.testing.assert_equal(facts.value, float(values[index]))  # some are NaN
        np.testing.assert_equal(facts.scale, float(scales[index]))
        np.testing.assert_equal(facts.minimum or 0.0, float(minima[index]))
        assert facts.level is not None
        made = scales[index] * np.float32(facts.level) - minima[index]
        np.testing.assert_allclose(made, values[index], rtol=1e-5)


@given(st.integers(0, 767), st.integers(1, 768), st.sampled_from(list(Quantity)))
def test_any_run_is_that_of_the_whole(start: int, count: int, quantity: Quantity) -> None:
    count = min(count, 768 - start)
    tensor = tensor_of("Q4_K", random_blocks("Q4_K", 3).tobytes(), (3, 256))
    if quantity.needs_reference:
        random = np.random.default_rng(0)
        reference, candidate = random.normal(size=(2, 3, 256)).astype(np.float32)
        source = pair_source(pair_of(reference, candidate), quantity)
    else:
        source = tensor_source(tensor, quantity)
    run = source.make().read(start, count, never)
    np.testing.assert_array_equal(run, all_of(source)[start : start + count])


def test_errors_against_numpy() -> None:
    random = np.random.default_rng(1)
    reference = random.normal(size=(3, 50)).astype(np.float32)  # the last group has 22 weights
    candidate = (reference + random.normal(0, 0.01, (3, 50))).astype(np.float32)
    pair = pair_of(reference, candidate)
    error = np.abs(candidate - reference).reshape(-1)
    np.testing.assert_array_equal(all_of(pair_source(pair, Quantity.ABSOLUTE_ERROR)), error)
    relative = all_of(pair_source(pair, Quantity.RELATIVE_ERROR))
    flat = reference.reshape(-1).astype(np.float64)
    for first in range(0, 150, 32):
        group = slice(first, min(150, first + 32))
        expected = error[group] / np.sqrt(np.mean(flat[group] ** 2))
        np.testing.assert_allclose(relative[group], expected, rtol=1e-6)
    assert pair_facts(pair, 77) == (reference[1, 27], candidate[1, 27])


def test_errors_of_zeros_infinities_and_no_numbers() -> None:
    reference = np.zeros((4, 32), np.float32)
    candidate = np.zeros((4, 32), np.float32)
    candidate[1, 3] = 2
    reference[2] = 1
    reference[2, 5] = candidate[2, 5] = np.inf
    reference[3] = 1
    candidate[3] = 1
    candidate[3, 0] = np.nan
    pair = pair_of(reference, candidate)
    relative = all_of(pair_source(pair, Quantity.RELATIVE_ERROR)).reshape(4, 32)
    assert (relative[0] == 0).all()
    assert relative[1, 3] == np.inf
    assert np.isnan(relative[2]).all()  # divided by an infinite RMS, any error would be 0
    assert np.isnan(relative[3, 0])
    assert (relative[3, 1:] == 0).all()
    absolute = all_of(pair_source(pair, Quantity.ABSOLUTE_ERROR)).reshape(4, 32)
    assert np.isnan(absolute[2, 5])
    assert absolute[2, 4] == 1


def test_a_rounded_tensor_and_its_errors() -> None:
    weights = np.random.default_rng(2).normal(size=(4, 256)).astype(np.float32)
    tensor = float_tensor(weights)
    pair = RoundedPair(tensor, "Q4_0")
    rounded = dequantize(quantize(weights, "Q4_0"), "Q4_0")
    found = all_of(pair_source(pair, Quantity.ABSOLUTE_ERROR))
    np.testing.assert_array_equal(found, np.abs(rounded - weights.reshape(-1)))
    assert places_agree(pair, tensor)
    assert not places_agree(pair, float_tensor(weights))


def test_places_of_joined_or_reordered_tensors_do_not_agree() -> None:
    one, two = float_tensor(np.ones((4, 6))), float_tensor(np.ones((4, 6)))
    whole = TensorPart.whole(one)

    def agree(*parts: TensorPart, shape: tuple[int, ...] = (4, 6)) -> bool:
        reference = TensorView.of(float_tensor(np.ones(shape)))
        candidate = TensorView("candidate", shape, parts)
        return places_agree(MatchedPair(Match(reference, candidate)), one)

    assert agree(whole)
    assert agree(whole.added(1))
    assert not agree(TensorPart.whole(two))
    assert not agree(whole.sliced(0, 0, 4, 2), shape=(2, 6))
    rows = whole.reshaped(2, 2, 6).transposed(1, 0, 2)  # as llama's q and k are brought in order
    assert not agree(rows)
    assert not agree(whole, TensorPart.whole(two), shape=(8, 6))


def test_facts_of_weights_without_blocks() -> None:
    facts = weight_facts(float_tensor(np.arange(6, dtype=np.float32).reshape(2, 3)), 4)
    assert (facts.value, facts.block, facts.code, facts.scale) == (4, None, None, None)
    with pytest.raises(IndexError):
        weight_facts(float_tensor(np.ones(3)), 3)


def test_scales_in_arrays_of_their_own(shared_data: Path) -> None:
    folder = shared_data / "ollama_store/models/manifests/registry.ollama.ai/library/tinydense"
    with open_model(folder / "int4") as model:
        kinds = {t.type.name: t for t in model.tensors.rows if t.companions is not None}
        assert kinds
        for tensor in kinds.values():
            check_groups(tensor)


def check_groups(tensor: Tensor) -> None:
    values = tensor.dequantize().reshape(-1)
    scales = all_of(tensor_source(tensor, Quantity.SCALE))
    for index in (0, 33, tensor.parameters - 1):
        facts = weight_facts(tensor, index)
        assert facts.value == values[index]
        assert facts.scale == scales[index]
        assert facts.level is not None
        made = facts.scale * facts.level - (facts.minimum or 0)
        assert made == pytest.approx(facts.value, rel=1e-5)


def test_a_damaged_tensor_is_one_clear_error() -> None:
    tensor = tensor_of("Q4_K", bytes(144), (1, 256), damage="it is cut off")
    for quantity in (Quantity.VALUE, Quantity.SCALE):
        with pytest.raises(FormatError, match="cut off"):
            tensor_source(tensor, quantity).make()


def test_a_file_that_was_cut_is_one_clear_error(tmp_path: Path) -> None:
    weights = np.ones((64, 256), np.float32)
    path = write_gguf(tmp_path / "cut.gguf", "llama", {"a": weights}, {"a": "Q4_K"})
    with open_model(path) as model:
        tensor = model.tensors.rows[0]
        os.truncate(path, path.stat().st_size - 200)
        for quantity in (Quantity.VALUE, Quantity.SCALE, Quantity.MINIMUM):
            with pytest.raises(SourceError):
                all_of(tensor_source(tensor, quantity))
        with pytest.raises(SourceError):
            weight_facts(tensor, tensor.parameters - 1)
