"""Quantized models of Hugging Face: folders that the libraries made, listed and decoded to the bit.

The folders and what is expected of them are reference data, beside the repository where it is.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.formats import Model, open_model
from explorer.formats.columns import tensor_arrays
from explorer.formats.tensor_filter import parse_filter
from explorer.formats.tensors import Tensor
from explorer.formats.weights import WeightReader
from explorer.present.quantization import declared_quantization

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "hf_quantized"
NAMES = sorted(path.name for path in FOLDER.glob("*/"))

pytestmark = pytest.mark.skipif(not NAMES, reason="the golden folders are not here")


@cache
def expected() -> dict[str, Any]:
    folders: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())["folders"]
    return folders


@cache
def golden() -> Any:
    return np.load(FOLDER / "golden.npz")


def weights_of(model: Model) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in model.tensors.rows if tensor.companions is not None}


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_listed_as_logical_tensors(name: str) -> None:
    wanted = expected()[name]
    with open_model(FOLDER / name) as model:
        weights = weights_of(model)
        plain = {tensor.name for tensor in model.tensors.rows if tensor.companions is None}
        assert model.parameters == wanted["parameters"]
        assert model.problems == ()
    assert plain == {one["name"] for one in wanted["unquantized"]}
    assert set(weights) == {one["name"] for one in wanted["tensors"]}
    for one in wanted["tensors"]:
        tensor = weights[one["name"]]
        companions = tensor.companions
        assert companions is not None
        assert list(tensor.shape) == one["shape"]
        assert companions.keys == one["parts"]
        assert sorted(companions.attached) == sorted(one["attached"])
        assert tensor.nbytes == one["nbytes"]
        assert round(tensor.bits_per_weight, 6) == one["bits_per_weight"]
        assert companions.layout.group_size == one["group_size"]
        assert companions.layout.bits == one["bits"]
        assert companions.layout.native == one["native_dtype"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("awq_gemm_g128", "AWQ, 4 bits, groups of 128; lm_head left alone"),
        ("gptq_4bit_dynamic", "GPTQ, 4 bits, groups of 64 and GPTQ, 8 bits, groups of 32; lm_head"),
        ("bnb_nf4_double", "bitsandbytes, NF4, groups of 64, double quantization; lm_head"),
        ("fp8_block_partial", "FP8, tiles of 128 × 128; lm_head left alone"),
        ("quanto_qint4", "quanto, 4 bits, groups of 64, 128; lm_head"),
        ("ct_int8_w8a8", "compressed-tensors, 8 bits; lm_head left alone"),
        ("gpt_oss_mxfp4", "MXFP4, groups of 32; lm_head, mlp.router left alone"),
    ],
)
def test_the_method_in_plain_words(name: str, text: str) -> None:
    with open_model(FOLDER / name) as model:
        found = declared_quantization(model)
    assert found is not None
    assert (found.sentence or "").startswith(text)


def test_the_filter_knows_methods_and_groups() -> None:
    with open_model(FOLDER / "gptq_4bit_dynamic") as model:
        arrays = tensor_arrays(model.tensors)
        found = {
            text: int(parse_filter(text).mask(arrays).sum())
            for text in ("scheme:gptq", "scheme:awq", "group:32", "group>32", "-scheme:gptq")
        }
        assert found["scheme:gptq"] == len(weights_of(model))
        assert found["scheme:awq"] == 0
        assert found["group:32"] + found["group>32"] == found["scheme:gptq"]
        assert found["-scheme:gptq"] == len(model.tensors) - found["scheme:gptq"]


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_the_library_to_the_bit(name: str) -> None:
    with open_model(FOLDER / name) as model:
        for tensor in weights_of(model).values():
            wanted = golden()[f"{name}/{tensor.name}|dequant"]
            found = tensor.dequantize()
            assert found.shape == wanted.shape
            assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32)), tensor.name


@pytest.mark.parametrize("name", NAMES)
def test_any_run_of_weights_is_that_run_of_the_whole(name: str) -> None:
    with open_model(FOLDER / name) as model:
        tensor = next(iter(weights_of(model).values()))
        whole = tensor.dequantize().reshape(-1)
        reader = WeightReader(tensor)
        random = np.random.default_rng(20)
        for start, stop in np.sort(random.integers(0, whole.size + 1, (40, 2)), axis=1).tolist():
            out = np.empty(stop - start, np.float32)
            reader.read_into(start, out)
            assert np.array_equal(out, whole[start:stop])
