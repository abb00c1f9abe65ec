"""`compare`: rows as text, JSON and CSV, across formats."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.analysis import surveys
from explorer.cli.main import main
from explorer.formats import open_model
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors

Capture = pytest.CaptureFixture[str]

# docs/interface.md, `compare`
_PROMISED = {
    *("reference_name", "candidate_name", "type", "shape", "count", "rmse", "relative_rmse"),
    *("max_abs_error", "mean_error", "sqnr_db", "cosine"),
}


def _permuted(array: Any) -> Any:
    return array.reshape(2, 2, array.shape[0] // 4, -1).swapaxes(1, 2).reshape(array.shape)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    """A model of Hugging Face, and what a converter made of it: one tensor quantized."""
    start = "model.layers.0."
    arrays = arrays_of(
        {
            f"{start}self_attn.q_proj.weight": (16, 64),
            f"{start}mlp.up_proj.weight": (32, 64),
            f"{start}input_layernorm.weight": (64,),
            f"{start}post_attention_layernorm.weight": (64,),
            "extra.weight": (3,),
        }
    )
    q, up, norm, _wrong, _ = arrays.values()
    made = {
        "blk.0.attn_q.weight": _permuted(q),
        "blk.0.ffn_up.weight": up,
        "blk.0.attn_norm.weight": norm,
        "blk.0.ffn_norm.weight": norm[:32],
        "=evil\x1b[0m": norm,
        "rope_freqs.weight": norm,
    }
    types = {"blk.0.ffn_up.weight": "Q4_0"}
    gguf = write_gguf(tmp_path / "model.gguf", "llama", made, types, attention__head_count=2)
    return str(write_safetensors(tmp_path / "hf", arrays)), str(gguf)


def test_json(paths: tuple[str, str], capsys: Capture) -> None:
    assert main(["compare", *paths, "--json", "--workers", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    record = json.loads(out)
    assert (record["reference"], record["candidate"]) == paths
    rows = {row["candidate_name"]: row for row in record["tensors"]}
    assert list(rows) == ["blk.0.attn_q.weight", "blk.0.ffn_up.weight", "blk.0.attn_norm.weight"]
    assert len({tuple(row) for row in rows.values()}) == 1
    assert set(rows["blk.0.ffn_up.weight"]) >= _PROMISED
    q, up = rows["blk.0.attn_q.weight"], rows["blk.0.ffn_up.weight"]
    assert q["reference_name"] == "model.layers.0.self_attn.q_proj.weight"
    assert q["rmse"] == 0
    assert q["cosine"] == 1
    assert q["sqnr_db"] is None  # infinite
    assert "permuted" in q["notes"][0]
    assert (up["type"], up["reference_type"], up["shape"]) == ("Q4_0", "F32", [32, 64])
    assert up["count"] == 32 * 64
    assert up["sqnr_db"] == pytest.approx(-20 * math.log10(up["relative_rmse"]), abs=1e-9)
    assert 0 < up["saturated_codes"] < 0.2
    assert up["percentiles"]["50"] < up["percentiles"]["99"] <= up["max_abs_error"]
    assert record["unmatched"] == {"reference": ["extra.weight"], "candidate": ["=evil\x1b[0m"]}
    reasons = {pair["candidate_name"]: pair["reason"] for pair in record["not_comparable"]}
    assert reasons["blk.0.ffn_norm.weight"] == "shapes differ: [64] and [32]"
    assert "converter computes it" in reasons["rope_freqs.weight"]
    total = record["total"]
    weights = 16 * 64 + 32 * 64 + 64
    assert total["rmse"] == pytest.approx(up["rmse"] * math.sqrt(32 * 64 / weights), rel=1e-12)
    bits = 32 * (16 * 64 + 64) + 4.5 * 32 * 64
    assert total["bits_per_weight"] == pytest.approx(bits / weights, rel=1e-12)
    assert set(total) >= {"rmse", "relative_rmse", "sqnr_db", "bits_per_weight"}
    assert "does not by itself predict" in record["notes"][0]


def test_the_other_way_round(paths: tuple[str, str], capsys: Capture) -> None:
    assert main(["compare", *paths, "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert main(["compare", *reversed(paths), "--json"]) == 0
    two = json.loads(capsys.readouterr().out)
    assert two["unmatched"]["reference"] == one["unmatched"]["candidate"]
    first, second = one["tensors"][1], two["tensors"][1]
    assert first["rmse"] == second["rmse"]
    assert first["mean_error"] == -second["mean_error"]
    assert second["reference_name"] == "blk.0.ffn_up.weight"
    assert second["type"] == "F32"


def test_text(paths: tuple[str, str], capsys: Capture) -> None:
    assert main(["compare", *paths]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["Candidate", "Type", "Shape"]
    assert lines[1].split()[-5:] == ["0", "0", "no", "error", "0"]
    assert lines[2].startswith("  blk.0.ffn_up.weight")
    assert "Only in the candidate\n  =evil\\x1b[0m" in out
    assert "Only in the reference\n  extra.weight" in out
    assert "blk.0.ffn_norm.weight: shapes differ" in out
    assert "does not by itself predict" in " ".join(lines[-2:]).replace("\n", " ")
    assert "perplexity" not in out


def test_csv(paths: tuple[str, str], tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "errors.csv"
    assert main(["compare", *paths, "--csv", str(target)]) == 0
    assert capsys.readouterr().out.startswith("  Candidate")
    rows = list(csv.DictReader(target.read_text("utf-8").splitlines()))
    assert [row["type"] for row in rows] == ["F32", "Q4_0", "F32"]
    assert rows[1]["shape"] == "32x64"
    assert float(rows[1]["rmse"]) > 0
    assert float(rows[1]["percentile_50"]) > 0
    assert "permuted" in rows[0]["notes"]


def test_some_tensors(paths: tuple[str, str], capsys: Capture) -> None:
    chosen = ["--tensor", "blk.0.attn_norm.weight", "--tensor", "model.layers.0.mlp.up_proj.weight"]
    assert main(["compare", *paths, "--json", *chosen]) == 0
    record = json.loads(capsys.readouterr().out)
    names = [row["candidate_name"] for row in record["tensors"]]
    assert names == ["blk.0.attn_norm.weight", "blk.0.ffn_up.weight"]
    assert record["total"]["count"] == 64 + 32 * 64


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("blk.0.ffn_norm.weight", "is not comparable: shapes differ"),
        ("extra.weight", "only in one of the two models"),
        ("blk.0.ffn_up.weigth", "Did you mean 'blk.0.ffn_up.weight'?"),
        ("zzz", "`compare` without --tensor lists them"),
    ],
)
def test_tensors_that_are_not_compared(
    name: str, message: str, paths: tuple[str, str], capsys: Capture
) -> None:
    assert main(["compare", *paths, "--tensor", name]) == 1
    assert message in capsys.readouterr().err


def test_damage_fails_it_but_not_the_other_rows(paths: tuple[str, str], capsys: Capture) -> None:
    path = Path(paths[1])
    path.write_bytes(path.read_bytes()[: -(256 * 2 + 128 + 10)])
    assert main(["compare", *paths, "--json"]) == 1
    out, err = capsys.readouterr()
    rows = json.loads(out)["tensors"]
    assert rows[0]["rmse"] == 0
    assert rows[2]["rmse"] is None
    assert "cut short" in rows[2]["problem"]
    assert err.count("\n") == 1


def test_nothing_in_common(tmp_path: Path, capsys: Capture) -> None:
    one = write_gguf(tmp_path / "1.gguf", "llama", {"a": np.ones(3)})
    two = write_gguf(tmp_path / "2.gguf", "llama", {"b": np.ones(3)})
    assert main(["compare", str(one), str(two), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["tensors"] == []
    assert record["total"]["rmse"] is None
    assert record["unmatched"] == {"reference": ["a"], "candidate": ["b"]}
    assert main(["compare", str(one), str(two)]) == 0


@pytest.mark.parametrize("arguments", [[], ["one"], ["one", ""], ["a", "b", "--root", "c"]])
def test_wrong_usage(arguments: list[str], capsys: Capture) -> None:
    assert main(["compare", *arguments]) == 2
    assert capsys.readouterr().err


def test_help_says_what_errors_are_good_for(capsys: Capture) -> None:
    for command in ("compare", "requantize"):
        assert main([command, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "does not by itself predict the quality of a model's answers" in text


def test_errors_count_by_importance_where_a_matrix_is_given(
    paths: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    name, importance = "blk.0.ffn_up.weight", np.linspace(0, 8, 64, dtype="<f4")
    matrix = _matrix(tmp_path, name, importance)
    assert main(["compare", *paths, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    table = tmp_path / "errors.csv"
    asked = ["compare", *paths, "--imatrix", matrix, "--csv", str(table), "--json"]
    assert main(asked) == 0
    record = json.loads(capsys.readouterr().out)
    rows = {row["candidate_name"]: row for row in record["tensors"]}
    reference, candidate = (
        open_model(Path(path)).tensors[tensor].dequantize().reshape(32, 64).astype(np.float64)
        for path, tensor in zip(paths, (rows[name]["reference_name"], name), strict=True)
    )
    squares = (importance / 2 * (candidate - reference) ** 2).sum()  # of two tokens
    relative = math.sqrt(squares / (importance / 2 * reference**2).sum())
    assert rows[name]["weighted_relative_rmse"] == pytest.approx(relative, rel=1e-12)
    assert rows[name]["weighted_sqnr_db"] == pytest.approx(-20 * math.log10(relative), abs=1e-9)
    assert rows["blk.0.attn_q.weight"]["weighted_relative_rmse"] is None  # not in the matrix
    assert record["imatrix"] == matrix
    assert record["total"]["weighted_relative_rmse"] == pytest.approx(relative, rel=1e-12)
    layer = record["sums"]["layers"][0]
    assert layer["weighted_relative_rmse"] == pytest.approx(relative, rel=1e-12)
    with table.open() as lines:
        found = float(list(csv.DictReader(lines))[1]["weighted_relative_rmse"])
    assert found == rows[name]["weighted_relative_rmse"]
    assert main(["compare", *paths, "--imatrix", matrix]) == 0
    assert "Weighted SQNR" in capsys.readouterr().out
    for row in record["tensors"]:
        del row["weighted_relative_rmse"], row["weighted_sqnr_db"]
    assert record["tensors"] == plain["tensors"]  # and without one nothing is said of it


def test_what_was_compared_once_is_not_read_again(
    paths: tuple[str, str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = _matrix(tmp_path, "blk.0.ffn_up.weight", np.linspace(0, 8, 64, dtype="<f4"))
    asked = [["compare", *paths, "--json"], ["diff", *paths, "--errors", "--json"]]
    texts = []
    for command in asked:
        assert main(command) == 0
        texts.append(capsys.readouterr().out)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr(surveys, "measure_pairs", fail)
    for command, text in zip(asked, texts, strict=True):
        assert main(command) == 0
        assert capsys.readouterr().out == text
    assert main([*asked[0], "--imatrix", matrix]) == 0  # and a matrix costs no reading
    assert json.loads(capsys.readouterr().out)["total"]["weighted_relative_rmse"] > 0


def test_a_matrix_of_another_model_is_refused(
    paths: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    other = _matrix(tmp_path, "blk.0.ffn_up.weight", np.ones(32, "<f4"))
    for path, reason in ((paths[1], "is not an importance matrix"), (other, "does not fit tensor")):
        assert main(["compare", *paths, "--imatrix", path]) == 1
        assert reason in capsys.readouterr().err


def _matrix(folder: Path, name: str, sums: NDArray[np.float32]) -> str:
    """Return an importance matrix of one tensor, made of two tokens."""
    tensors = [
        TensorSpec(f"{name}.in_sum2", (sums.size, 1), 0, sums.tobytes()),
        TensorSpec(f"{name}.counts", (1, 1), 0, np.full(1, 2, "<f4").tobytes()),
    ]
    keys = [("general.type", STRING, "imatrix")]
    return str(GgufFile(keys=keys, tensors=tensors).write(folder / "imatrix.gguf"))


def test_two_models_against_their_original(tmp_path: Path, capsys: Capture) -> None:
    """Figures are those of each comparison alone; the worst tensor comes first."""
    arrays = arrays_of({f"blk.{n}.ffn_up.weight": (16, 64) for n in range(3)})
    arrays["blk.1.ffn_up.weight"][0, 0] = 40  # which Q4_0 takes the precision of its block for
    original = write_gguf(tmp_path / "f32.gguf", "llama", arrays)
    made = [
        str(write_gguf(tmp_path / f"{kind}.gguf", "llama", arrays, dict.fromkeys(arrays, kind)))
        for kind in ("Q4_0", "Q8_0")
    ]
    table = tmp_path / "both.csv"
    both = ["compare", *made, "--original", str(original)]
    assert main([*both, "--json", "--csv", str(table)]) == 0
    record = json.loads(capsys.readouterr().out)
    for side, path in zip("ab", made, strict=True):
        assert main(["compare", str(original), path, "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        for row, one in zip(record["tensors"], alone["tensors"], strict=True):
            assert row["tensor"] == one["reference_name"]
            for name in ("type", "relative_rmse", "sqnr_db", "rmse", "max_abs_error"):
                assert row[side][name] == one[name]
        assert record["total"][side] == alone["total"]
        assert record["sums"][side] == alone["sums"]
    for row in record["tensors"]:
        assert row["difference"] == row["b"]["relative_rmse"] - row["a"]["relative_rmse"] < 0
        assert row["bytes_difference"] == row["b"]["bytes"] - row["a"]["bytes"] > 0
    with table.open(newline="") as file:
        flat = list(csv.DictReader(file))
    assert [float(row["relative_rmse_b"]) for row in flat] == [
        row["b"]["relative_rmse"] for row in record["tensors"]
    ]
    assert main(both) == 0
    lines = capsys.readouterr().out.splitlines()
    worst = max(record["tensors"], key=lambda row: row["a"]["relative_rmse"])
    head = next(place for place, line in enumerate(lines) if "Relative RMSE A" in line)
    assert lines[head + 1].split()[0] == worst["tensor"]
