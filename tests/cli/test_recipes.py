"""`recipes`: what llama-quantize would make of a model, as text, JSON and a table."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis import surveys
from explorer.analysis.recipes.ollama import BITS
from explorer.analysis.recipes.rules import RECIPES
from explorer.cli.main import main
from explorer.formats import open_model
from explorer.quantization import dequantize, quantize
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors

Capture = pytest.CaptureFixture[str]
SHAPES = {
    "token_embd.weight": (64, 256),
    **{f"blk.{layer}.attn_q.weight": (16, 256) for layer in range(3)},
    **{f"blk.{layer}.attn_v.weight": (16, 256) for layer in range(3)},
    **{f"blk.{layer}.ffn_down.weight": (32, 96) for layer in range(3)},
    "output_norm.weight": (256,),
}
NAMES = [name for name, shape in SHAPES.items() if len(shape) > 1]
KEYS = {
    **{"block_count": 3, "embedding_length": 256, "attention__head_count": 4},
    **{"context_length": 4096, "feed_forward_length": 96},
}
GPU = ["--gpu", "8GiB", "--context", "1024"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    types = dict.fromkeys(NAMES, "F16")
    return str(write_gguf(tmp_path / "f16.gguf", "llama", arrays_of(SHAPES), types, **KEYS))


@pytest.fixture
def matrix(tmp_path: Path) -> str:
    tensors = []
    for name in NAMES:
        columns = SHAPES[name][1]
        sums = np.linspace(1, 4, columns, dtype="<f4")
        tensors.append(TensorSpec(f"{name}.in_sum2", (columns, 1), 0, sums.tobytes()))
        tensors.append(TensorSpec(f"{name}.counts", (1, 1), 0, np.ones(1, "<f4").tobytes()))
    keys = [("general.type", STRING, "imatrix")]
    return str(GgufFile(keys=keys, tensors=tensors).write(tmp_path / "imatrix.gguf"))


def test_what_ollama_would_make_of_a_folder(tmp_path: Path, capsys: Capture) -> None:
    start = "model.layers.0."
    arrays = arrays_of(
        {
            "model.embed_tokens.weight": (64, 256),
            f"{start}self_attn.q_proj.weight": (64, 256),
            f"{start}self_attn.v_proj.weight": (64, 256),
            f"{start}input_layernorm.weight": (256,),
        }
    )
    halves = {name: array.astype(np.float16) for name, array in arrays.items()}
    config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}
    folder = write_safetensors(tmp_path / "m", halves, **config)
    assert main(["recipes", str(folder), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [one["recipe"] for one in record["recipes"]] == list(BITS)
    four = record["recipes"][0]
    assert four["types"] == {
        f"{start}self_attn.q_proj.weight": "int4",
        f"{start}self_attn.v_proj.weight": "int8",
    }
    weights, groups = 64 * 256, 64 * 4
    assert record["bytes"] - four["bytes"] == 2 * 2 * weights - (
        weights // 2 + weights + 2 * 2 * 2 * groups
    )
    assert 0.05 < four["relative_rmse"] < 0.15
    assert "Ollama, x/create" in record["notes"][0]


def test_recipes_of_the_other_program_are_refused(path: str, capsys: Capture) -> None:
    assert main(["recipes", path, "--recipe", "int4"]) == 1
    assert "int4 is a recipe of Ollama. Of this model are Q4_0, " in capsys.readouterr().err


def test_json(path: str, capsys: Capture) -> None:
    asked = ["recipes", path, "--recipe", "q4_k_m,Q8_0,IQ2_XS", *GPU, "--json"]
    assert main(asked) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["path"] == path
    assert record["bits_per_weight"] > 16
    mixed, eight, refused = record["recipes"]
    assert [one["recipe"] for one in record["recipes"]] == ["Q4_K_M", "Q8_0", "IQ2_XS"]
    assert mixed["types"]["blk.0.ffn_down.weight"] in {"Q5_0", "Q8_0"}  # too narrow for 256
    assert "output_norm.weight" not in mixed["types"]
    assert mixed["bytes"] < eight["bytes"] < record["bytes"]
    assert mixed["relative_rmse"] > eight["relative_rmse"] > 0
    assert mixed["memory"] < eight["memory"]
    assert mixed["on_front"]
    assert eight["on_front"]
    assert sum(role["bytes"] for role in eight["roles"]) == eight["bytes"] - 4 * 256
    roles = {role["role"] for role in mixed["roles"]}
    assert roles == {"token_embd", "attn_q", "attn_v", "ffn_down"}
    assert "importance matrix is missing" in refused["problem"]
    assert refused["bytes"] is None
    assert refused["relative_rmse"] is None
    assert not refused["on_front"]


def test_text_and_table(path: str, tmp_path: Path, capsys: Capture) -> None:
    table = tmp_path / "recipes.csv"
    asked = ["recipes", path, "--recipe", "Q4_K_M", "--recipe", "Q8_0", "--csv", str(table)]
    assert main([*asked, *GPU]) == 0
    text = capsys.readouterr().out
    for part in ("Q4_K_M by role", "Not beaten", "1,024 tokens", "llama-quantize of build 11434"):
        assert part in text
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [row["recipe"] for row in rows] == ["Q4_K_M", "Q8_0"]
    assert float(rows[1]["relative_rmse"]) > 0


def test_all_recipes_without_reading_weights(path: str, capsys: Capture) -> None:
    assert main(["recipes", path, "--no-errors", *GPU, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["recipes"]
    assert [one["recipe"] for one in found] == [n for n, r in RECIPES.items() if r.quantized]
    assert all(one["relative_rmse"] is None for one in found)
    assert sum(one["problem"] is None for one in found) > 20


def test_an_importance_matrix_makes_more_recipes_possible(
    path: str, matrix: str, capsys: Capture
) -> None:
    asked = ["recipes", path, "--recipe", "IQ2_XS,Q4_0", "--imatrix", matrix, *GPU, "--json"]
    assert main(asked) == 0
    low, old = json.loads(capsys.readouterr().out)["recipes"]
    assert low["problem"] is None
    assert low["imatrix"]
    assert old["relative_rmse"] < low["relative_rmse"]
    assert main(["recipes", path, "--imatrix", path]) == 1
    assert "is not an importance matrix" in capsys.readouterr().err


def test_the_original_is_rounded_where_there_is_one(
    path: str, tmp_path: Path, capsys: Capture
) -> None:
    arrays, types = arrays_of(SHAPES), dict.fromkeys(NAMES, "Q4_0")
    made = str(write_gguf(tmp_path / "made.gguf", "llama", arrays, types, **KEYS))
    found = []
    for more in ([], ["--original", path]):
        assert main(["recipes", made, "--recipe", "Q8_0", *more, *GPU, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["recipes"][0])
    main(["recipes", path, "--recipe", "Q8_0", *GPU, "--json"])
    direct = json.loads(capsys.readouterr().out)["recipes"][0]
    assert found[1]["relative_rmse"] == direct["relative_rmse"] != found[0]["relative_rmse"]
    assert found[1]["bytes"] == direct["bytes"] == found[0]["bytes"]


def test_what_it_is_not_for(tmp_path: Path, path: str, capsys: Capture) -> None:
    folder = write_safetensors(tmp_path / "hf", arrays_of(SHAPES))
    assert main(["recipes", str(folder)]) == 1
    assert "no config.json, so Ollama makes no model of it" in capsys.readouterr().err
    assert main(["recipes", path, "--recipe", "Q4_K_X"]) == 2
    assert "Known are" in capsys.readouterr().err


def test_errors_are_weighted_by_a_matrix_and_kept(
    path: str, matrix: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["recipes", path, "--recipe", "Q8_0,Q4_K_M", "--imatrix", matrix, *GPU, "--json"]
    assert main(asked) == 0
    text = capsys.readouterr().out
    eight, mixed = json.loads(text)["recipes"]
    assert 0 < eight["weighted_relative_rmse"] < mixed["weighted_relative_rmse"] < 1
    model, squares, signal = open_model(Path(path)), 0.0, 0.0
    for name in NAMES:
        r = model.tensors[name].dequantize().reshape(-1, SHAPES[name][1])
        c = dequantize(quantize(r, "Q8_0"), "Q8_0").reshape(r.shape).astype(np.float64)
        importance = np.linspace(1, 4, r.shape[1], dtype="<f4").astype(np.float64)
        squares += (importance * (c - r) ** 2).sum()
        signal += (importance * r.astype(np.float64) ** 2).sum()
    assert eight["weighted_relative_rmse"] == pytest.approx(np.sqrt(squares / signal), rel=1e-12)
    monkeypatch.setattr(surveys, "measure_pairs", None)  # nothing is read
    assert main(asked) == 0
    assert capsys.readouterr().out == text
    assert main([*asked[:-1]]) == 0
    assert "Weighted relative RMSE" in capsys.readouterr().out
