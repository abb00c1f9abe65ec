"""`survey`: rows as text, JSON and CSV."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.statistics import TensorStatistics
from explorer.cli.main import main
from explorer.errors import FormatError
from explorer.formats import Tensor
from explorer.present.survey import ABOUT_SUMS
from explorer.present.tables.survey import metric_named
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.tensors import random_blocks

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    specs = [
        TensorSpec("=evil\x1b[0m", (256, 2), 12, random_blocks("Q4_K", 2).tobytes()),
        TensorSpec("newer", (4,), 999, b""),
        TensorSpec("none", (0,), 0, b""),
        TensorSpec("norm", (3,), 0, np.array([1, 2, 4], "<f4").tobytes()),
    ]
    return GgufFile(tensors=specs).write(tmp_path / "model.gguf")


def test_json(path: Path, capsys: Capture) -> None:
    assert main(["survey", str(path), "--json", "--workers", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    record = json.loads(out)
    assert record["path"] == str(path)
    rows = {row["tensor"]: row for row in record["tensors"]}
    assert list(rows) == ["=evil\x1b[0m", "newer", "none", "norm"]
    assert len({tuple(row) for row in rows.values()}) == 1  # the same keys in every row
    assert "histogram" not in rows["norm"]
    assert rows["norm"]["mean"] == pytest.approx(7 / 3)
    assert rows["norm"]["percentiles"]["50"] == pytest.approx(2, abs=1e-4)
    assert rows["norm"]["problem"] is None
    assert rows["newer"]["mean"] is None
    assert "cannot be decoded" in rows["newer"]["problem"]
    assert rows["none"]["min"] is None
    main(["stats", str(path), "norm", "--json"])
    single = json.loads(capsys.readouterr().out)
    assert {key: single[key] for key in rows["norm"] if key != "problem"} == {
        key: value for key, value in rows["norm"].items() if key != "problem"
    }


def test_text(path: Path, capsys: Capture) -> None:
    assert main(["survey", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[5:7] == ["", "By role"]
    assert lines[0].startswith("  Tensor")
    assert lines[1].startswith("  =evil\\x1b[0m")
    assert "cannot be decoded" in lines[2]
    assert lines[4].split()[:3] == ["norm", "F32", "3"]
    assert lines[0].index("Minimum") + 7 == lines[4].index(" 1.0000 ") + 7


def test_csv(path: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "table.csv"
    assert main(["survey", str(path), "--csv", str(target)]) == 0
    assert len(capsys.readouterr().out.split("By role")[0].splitlines()) == 6
    rows = list(csv.DictReader(target.read_text("utf-8").splitlines()))
    assert [row["tensor"] for row in rows] == ["'=evil\\x1b[0m", "newer", "none", "norm"]
    assert rows[0]["shape"] == "2x256"
    assert float(rows[3]["mean"]) == pytest.approx(7 / 3)
    assert float(rows[3]["percentile_50"]) == pytest.approx(2, abs=1e-4)
    assert rows[1]["mean"] == ""


def test_csv_where_nothing_can_be_written(path: Path, tmp_path: Path, capsys: Capture) -> None:
    missing = tmp_path / "no folder" / "table.csv"
    assert main(["survey", str(path), "--csv", str(missing)]) == 1
    assert f"error: {missing}: cannot be written: no such file" in capsys.readouterr().err


def test_damage_fails_the_survey_but_not_the_other_rows(path: Path, capsys: Capture) -> None:
    path.write_bytes(path.read_bytes()[:-4])
    assert main(["survey", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    rows = json.loads(out)["tensors"]
    assert rows[0]["mean"] is not None
    assert "cut short" in rows[3]["problem"]
    assert err.count("\n") == 1
    assert "tensor 'norm': cut short" in err


def test_a_model_without_tensors(tmp_path: Path, capsys: Capture) -> None:
    path = GgufFile().write(tmp_path / "none.gguf")
    target = tmp_path / "none.csv"
    assert main(["survey", str(path), "--json", "--csv", str(target)]) == 0
    assert json.loads(capsys.readouterr().out)["tensors"] == []
    assert target.read_text().startswith("tensor,type,shape,count")


def test_the_second_survey_reads_no_weights(
    path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    for options in ([], ["--json"]):
        assert main(["survey", str(path), *options]) == 0
        outputs.append(capsys.readouterr().out)
    read: list[str] = []

    def refuse(tensor: Tensor, **_rest: object) -> TensorStatistics:
        read.append(tensor.name)
        raise FormatError("weights of that type cannot be decoded")

    with monkeypatch.context() as patch:
        patch.setattr("explorer.analysis.surveys.tensor_statistics", refuse)
        assert main(["survey", str(path)]) == 0
        assert capsys.readouterr().out.splitlines()[3:] == outputs[0].splitlines()[3:]
        assert read == ["newer"]  # of which nothing can be kept
        assert main(["survey", str(path), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["tensors"]
        assert rows[0] == json.loads(outputs[1])["tensors"][0]
        read.clear()
        main(["survey", str(path), "--no-cache"])
        assert read == ["=evil\x1b[0m", "newer", "none", "norm"]


def test_a_changed_file_is_surveyed_again(path: Path, capsys: Capture) -> None:
    main(["survey", str(path)])
    content = path.read_bytes()
    path.write_bytes(content[:-4] + np.array([8], "<f4").tobytes())
    capsys.readouterr()
    main(["survey", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["tensors"][3]["max"] == 8


def test_without_a_cache_nothing_is_written(path: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["survey", str(path), "--no-cache"]) == 0
    assert not (tmp_path / "cache" / "surveys").exists()
    main(["survey", str(path)])
    assert len(list((tmp_path / "cache" / "surveys").iterdir())) == 1
    assert capsys.readouterr().out.count("  norm ") == 4  # the rows, and their sums


ROLES = {
    **{f"blk.{layer}.attn_q.weight": (8, 64) for layer in range(2)},
    **{f"blk.{layer}.attn_norm.weight": (64,) for layer in range(2)},
    "output.weight": (16, 64),
}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A model, and what it was made of."""
    arrays = arrays_of(ROLES)
    types = {name: "Q4_0" for name in arrays if "norm" not in name}
    made = write_gguf(tmp_path / "made.gguf", "llama", arrays, types)
    return write_gguf(tmp_path / "original.gguf", "llama", arrays), made


def test_sums_are_the_same_wherever_they_are_shown(
    pair: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    original, made = map(str, pair)
    main(["survey", made, "--json"])
    survey = json.loads(capsys.readouterr().out)
    rows = {row["tensor"]: row for row in survey["tensors"]}
    sums = survey["sums"]
    assert [one["role"] for one in sums["roles"]] == ["attn_norm", "attn_q", "output"]
    assert [one["layer"] for one in sums["layers"]] == [0, 1]
    queries = [rows[f"blk.{layer}.attn_q.weight"] for layer in range(2)]
    role = sums["roles"][1]
    assert role["parameters"] == sum(row["count"] for row in queries)
    assert role["bits_per_weight"] == 4.5
    assert role["range"] == max(r["max"] for r in queries) - min(r["min"] for r in queries)
    assert role["kurtosis"] == pytest.approx(sum(r["kurtosis"] for r in queries) / 2)
    assert sums["matrices"]["tensors"] == 3

    main(["compare", original, made, "--json"])
    compare = json.loads(capsys.readouterr().out)
    total = compare["total"]
    for name in ("rmse", "relative_rmse", "sqnr_db"):
        assert compare["sums"]["all"][name] == pytest.approx(total[name], rel=1e-12)
    assert compare["sums"]["roles"][0]["rmse"] == 0
    assert compare["sums"]["roles"][0]["sqnr_db"] is None  # without an error it is infinite

    main(["survey", made])
    text = capsys.readouterr().out
    for heading in ("By role", "By layer"):
        assert heading in text
    assert "layer 1" in text
    main(["compare", original, made])
    text += capsys.readouterr().out
    shown = metric_named("relative_rmse").shown(compare["sums"]["matrices"]["relative_rmse"])
    report = tmp_path / "report.html"
    main(["report", made, "--reference", original, "-o", str(report)])
    page = report.read_text("utf-8")
    for where in (text, page):
        assert shown in where
    assert "Errors by layer" in page
    assert ABOUT_SUMS in page


def test_parquet_has_the_figures_of_csv(
    pair: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    target, text = tmp_path / "table.parquet", tmp_path / "table.csv"
    asked = ["--parquet", str(target), "--csv", str(text)]
    for command in (["survey", str(pair[1])], ["compare", *map(str, pair)]):
        assert main([*command, *asked]) == 0
        found = parquet.read_table(target).to_pydict()
        rows = list(csv.DictReader(text.read_text("utf-8").splitlines()))
        assert list(found) == list(rows[0])
        assert all(type(count) is int for count in found["count"])
        assert [str(value) for value in found["count"]] == [row["count"] for row in rows]
        name = "rmse" if "rmse" in found else "rms"
        assert [repr(value) for value in found[name]] == [row[name] for row in rows]


def test_a_missing_library_is_told_before_weights_are_read(
    path: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.tabular.find_spec", lambda _name: None)
    target = tmp_path / "table.parquet"
    assert main(["survey", str(path), "--parquet", str(target)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "pip install 'gguf-explorer[parquet]'" in err
    assert not target.exists()


def test_a_role_for_each_tensor(tmp_path: Path, capsys: Capture) -> None:
    """A hostile file has 100,000: sums are made for those that are shown, and the rest counted."""
    specs = [TensorSpec(f"t{i}", (0,), 0, b"", 0) for i in range(2_500)]
    path = GgufFile(tensors=specs).write(tmp_path / "model.gguf")
    assert main(["survey", str(path)]) == 0
    rows, sums = capsys.readouterr().out.split("By role")
    assert len([line for line in rows.splitlines() if line.startswith("  t")]) == 2_500
    assert len([line for line in sums.splitlines() if line.startswith("  t")]) == 1_998
    assert "  … and 502 more; --json lists all\n" in sums
    assert main(["survey", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["sums"]["roles"]) == 2_500


def test_what_tells_nothing_is_counted_and_not_listed(tmp_path: Path, capsys: Capture) -> None:
    """Tensors without weights, and those of unknown types: the first ones stand for the others."""
    row = bytes(16)
    specs = [TensorSpec(f"t{i}", (0,), 0, b"", 0) for i in range(3_000)]
    specs += [TensorSpec(f"u{i}", (4,), 77, b"", 0) for i in range(3_000)]
    specs += [TensorSpec("whole", (4,), 0, row, 0), TensorSpec("cut", (4, 99), 0, b"", 0)]
    path = GgufFile(tensors=specs).write(tmp_path / "model.gguf")
    assert main(["survey", str(path)]) == 1  # of the one that is cut
    out, err = capsys.readouterr()
    names = [
        line.split()[0]
        for line in out.split("By role")[0].splitlines()
        if line[:2] == "  " and line[2] in "Ttuwc"
    ]
    assert names == ["Tensor", *(spec.name for spec in specs[:3_000]), "whole", "cut"]
    more = (
        "  … and 3,000 more without weights, or of a type that cannot be decoded; --json lists all"
    )
    assert more in out.splitlines()
    assert "cut short" in err
    assert main(["survey", str(path), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["tensors"]) == 6_002


def test_two_tensors_of_one_name(tmp_path: Path, capsys: Capture) -> None:
    """Each is surveyed; the first is compared, as ggml would find it."""
    same, other = np.arange(32, dtype="<f4").tobytes(), np.ones(32, "<f4").tobytes()
    one = GgufFile(tensors=[TensorSpec("a", (32,), 0, same), TensorSpec("b", (32,), 0, other)])
    specs = [TensorSpec(name, (32,), 0, data) for name, data in (("a", other), ("b", other))]
    two = GgufFile(tensors=[TensorSpec("a", (32,), 0, same), *specs])
    first, second = one.write(tmp_path / "one.gguf"), two.write(tmp_path / "two.gguf")
    assert main(["survey", str(second), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tensors"]
    assert [(row["tensor"], row["max"]) for row in rows] == [("a", 31), ("a", 1), ("b", 1)]
    for reference, candidate in ((first, second), (second, first)):
        assert main(["compare", str(reference), str(candidate), "--json"]) == 0
        compared = json.loads(capsys.readouterr().out)
        assert [row["rmse"] for row in compared["tensors"]] == [0, 0]
        assert compared["sums"]["all"]["tensors"] == (3 if candidate == second else 2)
        out = ["-o", str(tmp_path / "report.html")]
        assert main(["report", str(candidate), "--reference", str(reference), *out]) == 0
        capsys.readouterr()
