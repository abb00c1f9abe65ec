"""`diff`: two models side by side, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.cli.main import main
from explorer.formats import open_model
from explorer.present.differences import DISTANCE, LOSS
from tests.analysis.test_adapters import gguf_adapter
from tests.helpers.model_pairs import arrays_of, requantized, write_gguf, write_safetensors

Capture = pytest.CaptureFixture[str]
Run = Callable[..., Any]

# docs/interface.md, `diff`
_PROMISED = (
    *("a", "b", "equal", "summary", "size", "memory", "metadata", "tensors", "roles", "texts"),
    *("vocabulary", "errors", "measured"),
)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str, str]:
    """A model, and two that are made of it; names that should not reach the terminal."""
    shapes = {"blk.0.ffn_up.weight": (32, 64), "blk.0.ffn_down.weight": (64, 32), "\x1b[31m": (32,)}
    arrays = arrays_of(shapes)
    original = write_gguf(tmp_path / "f32.gguf", "llama", arrays)
    one = requantized(original, tmp_path / "one.gguf", {"ffn_up": "Q8_0"}, {"general.name": "One"})
    keys = {"general.name": "Zwei\x1b[0m", "tokenizer.chat_template": "new"}
    other = requantized(original, tmp_path / "two.gguf", {"ffn_up": "Q4_0"}, keys)
    return str(one), str(other), str(original)


def run_json(capsys: Capture, *arguments: str) -> Any:
    assert main(["diff", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_json(paths: tuple[str, str, str], capsys: Capture) -> None:
    one, other, _ = paths
    found = run_json(capsys, one, other)
    assert tuple(found) == _PROMISED
    assert (found["a"], found["b"], found["equal"]) == (one, other, False)
    assert [key["key"] for key in found["metadata"]["changed"]] == ["general.name"]
    assert [key["key"] for key in found["metadata"]["added"]] == ["tokenizer.chat_template"]
    (changed,) = found["tensors"]["changed"]
    assert [changed[side]["type"] for side in "ab"] == ["Q8_0", "Q4_0"]
    assert changed["a"]["bytes"] == 2048 // 32 * 34
    assert found["tensors"]["same"] == 2
    assert found["size"]["a"]["bytes"] - found["size"]["b"]["bytes"] == 2048 // 32 * 16
    assert found["errors"] is None


def test_errors_against_each_other_and_against_the_original(
    paths: tuple[str, str, str], capsys: Capture
) -> None:
    one, other, original = paths
    against = run_json(capsys, one, other, "--errors")["errors"]
    assert (against["original"], against["meaning"]) == (None, DISTANCE)
    assert against["total"]["a"] is None
    found = run_json(capsys, one, other, "--original", original, "--workers", "2")["errors"]
    assert found["meaning"] == LOSS
    with open_model(original) as reference, open_model(other) as candidate:
        name = "blk.0.ffn_up.weight"
        truth = reference.tensors[name].dequantize().astype(np.float64)
        error = candidate.tensors[name].dequantize() - truth
    roles = {role["role"]: role for role in found["roles"]}
    wanted = np.sqrt(np.mean(error**2) / np.mean(truth**2))
    assert roles["ffn_up"]["b"]["relative_rmse"] == pytest.approx(wanted, rel=1e-6)
    assert 0 < roles["ffn_up"]["a"]["relative_rmse"] < wanted
    assert roles["ffn_down"]["a"]["rmse"] == 0


def test_text_says_what_differs_and_what_it_means(
    paths: tuple[str, str, str], capsys: Capture
) -> None:
    one, other, original = paths
    assert main(["diff", one, other]) == 0
    out = capsys.readouterr().out
    for text in (
        "1 tensor has another type",
        "1 Q8_0",
        "1 Q4_0",
        "general.name",
        "Only the headers",
    ):
        assert text in out
    assert "\x1b[31m" not in out
    assert "\\x1b" in out or "\\u001b" in out
    assert main(["diff", one, other, "--original", original]) == 0
    out = capsys.readouterr().out
    assert "more error" in out
    assert "worse" in out
    assert "Relative RMSE A" in out


def test_a_model_and_itself_are_equal(paths: tuple[str, str, str], capsys: Capture) -> None:
    found = run_json(capsys, paths[0], paths[0], "--errors")
    assert found["equal"]
    assert found["errors"]["total"]["b"]["rmse"] == 0
    assert "The headers say the same." in found["summary"]


def test_a_model_without_a_plan_says_why(tmp_path: Path, capsys: Capture) -> None:
    one = str(write_safetensors(tmp_path / "hf", arrays_of({"a": (4,)})))
    found = run_json(capsys, one, one)
    assert found["memory"]["a"]["problem"]
    assert found["memory"]["a"]["total"] is None


def test_adapters_are_not_planned(tmp_path: Path, capsys: Capture) -> None:
    names = "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"
    arrays = arrays_of({names[0]: (4, 64), names[1]: (32, 4)})
    path = tmp_path / "lora.gguf"
    path.write_bytes(gguf_adapter(arrays, 8.0))
    found = run_json(capsys, str(path), str(path))
    names = "weights", "cache", "compute", "total"
    assert {found["memory"]["a"][name] for name in names} == {None}
    assert found["memory"]["a"]["problem"] == "it is not a whole model"
    assert not any("memory" in sentence for sentence in found["summary"])
    assert main(["diff", str(path), str(path)]) == 0
    out = capsys.readouterr().out
    assert "Size of files" in out
    assert "Memory" not in out


def test_what_cannot_be_opened_is_one_line(tmp_path: Path, paths: Any, capsys: Capture) -> None:
    assert main(["diff", paths[0], str(tmp_path / "none.gguf")]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert main(["diff", paths[0]]) == 2


def test_models_of_a_vocabulary_alone(shared_data: Path, capsys: Capture) -> None:
    one, other = (str(shared_data / f"ggml-vocab-{name}.gguf") for name in ("phi-3", "bert-bge"))
    assert main(["diff", one, other]) == 0
    out = capsys.readouterr().out
    assert "Neither model has tensors, and 36 metadata keys differ." in out
    assert "0 of 32,064 ids stand for the same token" in out
    assert "Only A has a chat template (tokenizer.chat_template)." in out
    assert "Types by role" not in out
    assert "No plan of memory: it holds no weights." in out
    assert "Memory in all" not in out


def test_what_others_measured(paths: tuple[str, str, str], tmp_path: Path, capsys: Capture) -> None:
    table = tmp_path / "results.csv"
    table.write_text("model,ppl\none,6.25\nelse,7\n")
    one, other, _ = paths
    assert run_json(capsys, one, other, "--measured", str(table))["measured"] == {
        "a": {"perplexity": 6.25},
        "b": None,
    }
    assert main(["diff", one, other, "--measured", str(table)]) == 0
    assert "Perplexity, measured elsewhere" in capsys.readouterr().out


def test_models_with_nothing_in_common(tmp_path: Path, capsys: Capture) -> None:
    names = "blk.0.ffn_up.weight", "blk.7.ffn_down.weight"
    files = [
        str(write_gguf(tmp_path / f"{place}.gguf", "llama", arrays_of({name: (32, 64)})))
        for place, name in enumerate(names)
    ]
    first = run_json(capsys, *files)["summary"][0]
    assert first == "A and B have no tensor in common. B is as large as A."
