"""Files that are no whole models: what each is, and which model of its folder it belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.formats import open_model
from explorer.present.belonging import Belonging, belonging_of
from explorer.present.problems import problems_of
from tests.helpers.gguf_writer import ARRAY, STRING, U32, Array, GgufFile, TensorSpec, Text
from tests.helpers.sparse_models import Shape
from tests.planner.test_attachments import write_lora

_Q = "blk.0.attn_q.weight"


def _belonging(path: Path) -> Belonging | None:
    with open_model(path) as model:
        return belonging_of(model)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of two models that differ in width and vocabulary."""
    Shape(blocks=2).write(tmp_path / "large.gguf")
    small = Shape(blocks=1, width=1024, heads=8, kv_heads=2, feed_forward=2048, vocabulary=50)
    small.write(tmp_path / "small.gguf")
    return tmp_path


def _write(path: Path, name: str, dims: tuple[int, int], **keys: str) -> Path:
    texts = [(key.replace("__", "."), STRING, value) for key, value in keys.items()]
    tensor = TensorSpec(name, dims, 0, bytes(4 * dims[0] * dims[1]))
    return GgufFile(keys=texts, tensors=[tensor]).write(path)


def test_what_is_no_model_belongs_to_one_of_its_folder(folder: Path) -> None:
    words = [Text(b"%d" % number) for number in range(50)]
    vocabulary = [
        ("general.architecture", STRING, "llama"),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, words)),
    ]
    clip = {"general__architecture": "clip"}
    for path, page, model, action in (
        (
            _write(folder / "mmproj.gguf", "mm.2.weight", (8, 1024), **clip),
            *("planner", "small.gguf", "Plan small.gguf with it"),
        ),
        (
            write_lora(folder / "style.gguf", "blk.1.attn_q.weight"),
            *("planner", "large.gguf", "Plan large.gguf with it"),
        ),
        (
            _write(folder / "imatrix.gguf", f"{_Q}.in_sum2", (4, 1)),
            *("what_if", "large.gguf", "Compare types for large.gguf with it"),
        ),
        (
            GgufFile(keys=vocabulary).write(folder / "vocab.gguf"),
            *("compare", "small.gguf", "Compare it with small.gguf"),
        ),
    ):
        found = _belonging(path)
        assert found is not None
        assert found.models
        assert (found.page, found.models[0].name, found.action) == (page, model, action)
        assert f"It belongs to {model}" in found.sentence
    assert _belonging(folder / "large.gguf") is None


def test_without_a_model_there_is_nothing_to_offer(tmp_path: Path) -> None:
    path = _write(tmp_path / "mmproj.gguf", "mm.2.weight", (8, 8), general__architecture="clip")
    found = _belonging(path)
    assert found is not None
    assert found.action == ""
    assert found.sentence.startswith("A projector (mmproj)")
    assert found.sentence.endswith("No model in its folder goes with it.")


def test_problems_name_what_llama_cpp_will_not_load(tmp_path: Path) -> None:
    keys = [("general.architecture", STRING, "zzz"), ("zzz.block_count", U32, 1)]
    path = GgufFile(keys=keys, tensors=[TensorSpec("a")]).write(tmp_path / "m.gguf")
    with open_model(path) as model:
        (problem,) = problems_of(model)
    assert problem.where == "llama.cpp"
    assert "'zzz'" in problem.what
