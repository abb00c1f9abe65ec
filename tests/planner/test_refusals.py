"""What llama.cpp refuses is refused; what it loads is not. Verdicts are its compiled reader's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explorer.cli.main import main
from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.formats.model import Model
from explorer.planner import plan
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.engines.llama_cpp.refusals import refusal
from explorer.planner.inputs import header_to_plan
from explorer.present.tables.problems import PROBLEMS
from explorer.quantization import TENSOR_TYPES
from explorer.report.gather import gather
from tests.helpers.sparse_models import Shape
from tests.planner.models import header_model
from tests.planner.test_attachments import write_projector
from tests.planner.test_contexts import MODELS

_HEADER: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 3,
    "llama.embedding_length": 64,
    "llama.context_length": 4096,
    "llama.attention.head_count": 4,
}
_BLOCK = {
    "attn_norm.weight": [64],
    "attn_q.weight": [64, 64],
    "attn_k.weight": [64, 64],
    "attn_v.weight": [64, 64],
    "attn_output.weight": [64, 64],
    "ffn_norm.weight": [64],
    "ffn_gate.weight": [64, 128],
    "ffn_up.weight": [64, 128],
    "ffn_down.weight": [128, 64],
}
_TENSORS: dict[str, list[int]] = {
    "token_embd.weight": [64, 50],
    "output_norm.weight": [64],
    **{f"blk.{i}.{name}": shape for i in range(3) for name, shape in _BLOCK.items()},
}


def _small(header: dict[str, Any], tensors: dict[str, list[int]]) -> Model:
    kept = {key: value for key, value in header.items() if value is not None}
    return header_model(kept, [(name, "F16", shape) for name, shape in tensors.items()])


def _why(header: dict[str, Any], tensors: dict[str, list[int]]) -> str:
    found = header_to_plan(_small(header, tensors)).llama_cpp
    return found if isinstance(found, str) else ""


def _without(name: str) -> dict[str, list[int]]:
    return {key: shape for key, shape in _TENSORS.items() if key != name}


def test_a_whole_model_is_not_refused() -> None:
    assert _why(_HEADER, _TENSORS) == ""
    words = {"tokenizer.ggml.tokens": range(50)}
    assert _why(_HEADER | words, _TENSORS) == ""


def test_types_of_other_programs_are_refused() -> None:
    model = _small(_HEADER, {**_TENSORS, "blk.1.ffn_up.weight": [512, 128]})
    columns = model.tensors.columns
    columns.types[columns.names.index("blk.1.ffn_up.weight")] = TENSOR_TYPES["IQ4_KS"]
    found = header_to_plan(model).llama_cpp
    assert found == "llama.cpp does not load tensors of type IQ4_KS; ik_llama.cpp does"


@pytest.mark.parametrize("name", ["token_embd.weight", "output_norm.weight"])
def test_a_model_without_its_input_or_last_norm_is_refused(name: str) -> None:
    assert f"{name} is missing" in _why(_HEADER, _without(name))


@pytest.mark.parametrize("name", _BLOCK)
def test_a_block_that_lacks_a_tensor_is_refused(name: str) -> None:
    assert f"blk.1.{name} is missing" in _why(_HEADER, _without(f"blk.1.{name}"))


@pytest.mark.parametrize(
    "key", ["block_count", "embedding_length", "context_length", "attention.head_count"]
)
def test_a_model_that_does_not_say_its_lengths_is_refused(key: str) -> None:
    for value in (None, 0):
        assert f"llama.{key} is missing" in _why(_HEADER | {f"llama.{key}": value}, _TENSORS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda h, t: (h | {"llama.block_count": 5}, t), "block 3 are missing"),
        (lambda h, t: (h | {"llama.embedding_length": 128}, t), "64 wide, but the model has 128"),
        (lambda h, t: (h | {"tokenizer.ggml.tokens": range(40)}, t), "50 rows"),
        (lambda h, t: (h, t | {"blk.1.ffn_up.weight": [64, 96]}), "96 rows"),
        (lambda h, t: (h | {"general.architecture": "clip"}, t), "a projector"),
        (lambda h, t: (h | {"general.architecture": "controlvector"}, t), "a control vector"),
        (lambda h, t: (h | {"general.architecture": "flux"}, t), "the architecture 'flux'"),
    ],
)
def test_what_contradicts_itself_or_is_no_language_model_is_refused(
    change: Callable[[Any, Any], tuple[Any, Any]], said: str
) -> None:
    assert said in _why(*change(_HEADER, _TENSORS))


def test_no_model_that_llama_cpp_loaded_is_refused(families: dict[str, Any]) -> None:
    """The models of the golden cases, which its own code has loaded."""
    described = [*families["models"].values(), *MODELS.values()]
    models = [header_model(one["metadata"], one["tensors"]) for one in described]
    headers = [Header.from_model(model) for model in models]
    assert len(headers) > 150
    assert {
        header.architecture: why for header in headers if (why := refusal("llama.cpp", header))
    } == {}


def test_every_front_names_what_llama_cpp_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(Shape(blocks=2).write(tmp_path / "whole.gguf"))]) == 0
    without_context = Shape(blocks=2, context=0).write(tmp_path / "other.gguf")
    found = []
    for command, code in (("check", 1), ("inspect", 0)):
        capsys.readouterr()
        assert main([command, str(without_context), "--json"]) == code
        found += json.loads(capsys.readouterr().out)["problems"]
    with open_model(without_context) as model:
        found += map(PROBLEMS.record, gather(model, survey=False).problems)
        with pytest.raises(PlanError, match="context_length"):
            plan(model, profile="llama.cpp")
    assert main(["recipes", str(without_context), "--recipe", "Q4_0", "--no-errors"]) == 0
    assert "There is no memory plan: llama.cpp refuses the model" in capsys.readouterr().out
    assert len(found) == 3
    for problem in found:
        assert problem["where"] == "llama.cpp"
        assert "context_length" in problem["what"]
    projector = write_projector(tmp_path / "mmproj.gguf", "mlp")
    assert main(["check", str(projector)]) == 0, "it is loaded beside a model"
