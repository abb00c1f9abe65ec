"""`requantize`: a tensor in other types, as text, JSON and CSV."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.rounding import rounding_types
from explorer.cli.main import main
from explorer.quantization.huggingface.schemes import SCHEME_NAMES
from tests.helpers.model_pairs import arrays_of, write_gguf

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> str:
    arrays = arrays_of({"w": (4, 256), "odd": (4, 96), "quantized": (4, 256)})
    return str(write_gguf(tmp_path / "m.gguf", "llama", arrays, {"quantized": "Q8_0"}))


def test_json(path: str, capsys: Capture) -> None:
    assert main(["requantize", path, "w", "--to", "Q8_0, q4_k", "--to", "int4", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    record = json.loads(out)
    assert (record["path"], record["tensor"], record["type"]) == (path, "w", "F32")
    assert (record["shape"], record["count"], record["bytes"]) == ([4, 256], 1024, 4096)
    assert record["bits_per_weight"] == 32
    results = {row["type"]: row for row in record["results"]}
    assert list(results) == ["Q8_0", "q4_k", "int4"]
    assert results["Q8_0"]["bytes"] == 1024 * 34 // 32
    assert results["q4_k"]["bits_per_weight"] == 4.5
    assert 0 < results["Q8_0"]["rmse"] < results["q4_k"]["rmse"]
    for row in results.values():
        assert row["sqnr_db"] == pytest.approx(-20 * math.log10(row["relative_rmse"]), abs=1e-9)
        assert row["problem"] is None
    assert "does not by itself predict" in record["notes"][0]


def test_text(path: str, capsys: Capture) -> None:
    assert main(["requantize", path, "odd", "--to", "Q4_K,Q4_0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "odd  F32  4 × 96"
    assert lines[4].split()[:2] == ["Q4_K", "rows"]
    assert lines[5].split()[:4] == ["Q4_0", "216", "B", "4.500"]
    assert "does not by itself predict" in " ".join(lines)


def test_all_types(path: str, capsys: Capture) -> None:
    assert main(["requantize", path, "w", "--to", "all", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [row["type"] for row in results] == list(rounding_types())
    without = {row["type"]: row["problem"] for row in results if row["rmse"] is None}
    needing = "ggml makes it only with an importance matrix"
    assert {name for name, problem in without.items() if problem == needing} == {
        *("IQ1_S", "IQ2_XXS", "IQ2_XS")
    }
    assert all(name in SCHEME_NAMES for name, problem in without.items() if problem != needing)
    assert all(without.values())


def test_types_of_hugging_face_models(path: str, capsys: Capture) -> None:
    assert main(["requantize", path, "w", "--to", "nf4,fp8/channel", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["problem"] for row in found["results"]] == [None, None]
    assert any("rounded" in note and "sample texts" in note for note in found["notes"])
    assert main(["requantize", path, "w", "--to", "Q8_0", "--json"]) == 0
    assert not any("sample texts" in note for note in json.loads(capsys.readouterr().out)["notes"])


def test_csv(path: str, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "types.csv"
    assert main(["requantize", path, "w", "--to", "Q8_0,Q4_0", "--csv", str(target)]) == 0
    assert "Q4_0" in capsys.readouterr().out
    rows = list(csv.DictReader(target.read_text().splitlines()))
    assert [row["type"] for row in rows] == ["Q8_0", "Q4_0"]
    assert float(rows[0]["rmse"]) < float(rows[1]["rmse"])


def test_a_type_that_the_tensor_has_already(path: str, capsys: Capture) -> None:
    """Rounding again finds the same codes."""
    assert main(["requantize", path, "quantized", "--to", "Q8_0", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]
    assert row["relative_rmse"] < 1e-3


def test_importance(path: str, tmp_path: Path, capsys: Capture) -> None:
    sums = np.ones((1, 256), np.float32)
    sums[:, ::3] = 1000
    matrix = write_gguf(tmp_path / "i.gguf", "", {"w.in_sum2": sums, "w.counts": np.ones((1, 1))})
    found = []
    for options in ([], ["--imatrix", str(matrix)]):
        assert main(["requantize", path, "w", "--to", "Q4_K", "--json", *options]) == 0
        found.append(json.loads(capsys.readouterr().out)["results"][0]["rmse"])
    assert found[0] < found[1]  # what matters is elsewhere
    assert main(["requantize", path, "odd", "--to", "Q4_0", "--imatrix", str(matrix)]) == 1
    assert "the importance matrix has no tensor 'odd'" in capsys.readouterr().err
    assert main(["requantize", path, "w", "--to", "Q4_0", "--imatrix", path]) == 1
    assert "is not an importance matrix" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("types", "message"),
    [("Q9_9", "unknown type"), ("Q8_K", "cannot be rounded"), ("int4/3", "sizes"), ("", "unknown")],
)
def test_wrong_types(types: str, message: str, path: str, capsys: Capture) -> None:
    assert main(["requantize", path, "w", "--to", types]) == 2
    assert message in capsys.readouterr().err


def test_wrong_usage(path: str, capsys: Capture) -> None:
    assert main(["requantize", path, "w"]) == 2
    assert "--to" in capsys.readouterr().err
    assert main(["requantize", path, "ww", "--to", "Q8_0"]) == 1
    assert "Did you mean 'w'?" in capsys.readouterr().err
