"""All models of a folder in one go: `compare FOLDER`, `survey --each`, `recipes --each`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from explorer.analysis import surveys
from explorer.cli.main import main
from tests.helpers.model_pairs import arrays_of, write_gguf

Capture = pytest.CaptureFixture[str]
ARRAYS = arrays_of({f"blk.{i}.ffn_up.weight": (16, 256) for i in range(2)} | {"x.bias": (64,)})
TYPES = {"four": "Q4_0", "eight": "Q8_0", "worse": "Q4_1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    write_gguf(folder / "original.gguf", "llama", ARRAYS)
    for name, kind in TYPES.items():
        types = {name: kind for name in ARRAYS if "bias" not in name}
        write_gguf(folder / f"{name}.gguf", "llama", ARRAYS, types)
    return folder


def test_all_models_of_a_folder_against_their_original(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, table = str(folder / "original.gguf"), tmp_path / "errors.csv"
    asked = ["compare", str(folder), "--original", original, "--json"]
    assert main([*asked, "--csv", str(table)]) == 0
    text = capsys.readouterr().out
    models = {one["model"]: one for one in json.loads(text)["models"]}
    assert set(models) == {f"{name}.gguf" for name in TYPES}
    for name in TYPES:
        assert main(["compare", original, str(folder / f"{name}.gguf"), "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)["sums"]["matrices"]
        for figure in ("relative_rmse", "sqnr_db", "rmse", "max_abs_error"):
            assert models[f"{name}.gguf"][figure] == alone[figure], figure
    assert models["four.gguf"]["type"] == "Q4_0"
    assert models["four.gguf"]["on_front"]
    assert models["eight.gguf"]["on_front"]
    with table.open() as lines:
        rows = {row["model"]: row for row in csv.DictReader(lines)}
    assert float(rows["four.gguf"]["rmse"]) == models["four.gguf"]["rmse"]
    monkeypatch.setattr(surveys, "measure_pairs", None)  # nothing is read again
    assert main(asked) == 0
    assert capsys.readouterr().out == text
    assert main(asked[:-1]) == 0
    assert "Best trade-off" in capsys.readouterr().out


def test_a_stopped_comparison_goes_on_where_it_was(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["compare", str(folder), "--original", str(folder / "original.gguf"), "--json"]
    measure, read = surveys.measure_pairs, []

    def stops(pairs: list[object], *rest: object, **more: object) -> object:
        if len(read) == 2 * len(TYPES):
            raise KeyboardInterrupt
        read.extend(pairs)
        return measure(pairs, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(surveys, "measure_pairs", stops)
    assert main([*asked, "--workers", "1"]) != 0
    capsys.readouterr()
    read.clear()
    monkeypatch.setattr(
        surveys, "measure_pairs", lambda *a, **b: (read.extend(a[0]), measure(*a, **b))[1]
    )
    assert main(asked) == 0
    assert len(json.loads(capsys.readouterr().out)["models"]) == 3
    assert len(read) == len(TYPES) * (len(ARRAYS) - 2)


def test_a_model_that_cannot_be_read_hides_no_other(folder: Path, capsys: Capture) -> None:
    (folder / "broken.gguf").write_bytes(b"GGUF")
    for asked in (
        ["compare", str(folder), "--original", str(folder / "original.gguf"), "--json"],
        ["survey", str(folder), "--each", "--json"],
    ):
        assert main(asked) == 1
        output = capsys.readouterr()
        models = {one["model"]: one for one in json.loads(output.out)["models"]}
        assert models["broken.gguf"]["problem"]
        assert models["four.gguf"]["problem"] is None
        assert "broken.gguf" in output.err


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("compare", ["--original", "{}/original.gguf"]),
        ("survey", ["--each"]),
        ("recipes", ["--each", "--recipe", "Q8_0"]),
    ],
)
def test_what_is_no_whole_model_is_left_out(
    folder: Path, command: str, more: list[str], capsys: Capture
) -> None:
    asked = [command, str(folder), *(one.format(folder) for one in more), "--json"]
    assert main(asked) == 0
    alone = capsys.readouterr().out
    factors = {"blk.0.ffn_up.weight.lora_a": (16, 256), "blk.0.ffn_up.weight.lora_b": (2, 16)}
    write_gguf(folder / "adapter.gguf", "llama", arrays_of(factors))
    write_gguf(folder / "mmproj.gguf", "clip", arrays_of({"v.blk.0.ffn_up.weight": (16, 256)}))
    assert main(asked) == 0
    assert capsys.readouterr().out == alone


def test_statistics_of_all_models(folder: Path, capsys: Capture) -> None:
    assert main(["survey", str(folder), "--each", "--json"]) == 0
    models = {one["model"]: one for one in json.loads(capsys.readouterr().out)["models"]}
    assert set(models) == {"original.gguf", *(f"{name}.gguf" for name in TYPES)}
    assert main(["survey", str(folder / "four.gguf"), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)["sums"]["matrices"]
    assert models["four.gguf"]["std"] == alone["std"]
    assert main(["survey", str(folder), "--each"]) == 0
    assert "Outlier ratio" in capsys.readouterr().out


def test_recipes_of_all_models_that_are_not_quantized(
    folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(folder / "second.gguf", "llama", ARRAYS, {"blk.1.ffn_up.weight": "BF16"})
    (folder / "broken.gguf").write_bytes(b"GGUF")
    table, recipes = tmp_path / "recipes.csv", ["--recipe", "Q4_0,Q8_0"]
    asked = ["recipes", str(folder), "--each", *recipes, "--json", "--csv", str(table)]
    measure, read = surveys.measure_pairs, []

    def stops(pairs: list[object], *rest: object, **more: object) -> object:
        if len(read) == 3:
            raise KeyboardInterrupt
        read.extend(pairs[:1])
        return measure(pairs, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(surveys, "measure_pairs", stops)
    assert main([*asked, "--workers", "1"]) == 130
    assert not capsys.readouterr().out
    read.clear()  # two tensors of the first model are kept, one of the second
    assert main(asked) == 1
    assert len(read) == 1
    output = capsys.readouterr()
    assert "broken.gguf: is cut short" in output.err
    found = json.loads(output.out)
    models = {one["model"]: one for one in found["models"]}
    assert set(models) == {"original.gguf", "second.gguf", "broken.gguf"}
    for name in ("original.gguf", "second.gguf"):
        assert main(["recipes", str(folder / name), *recipes, "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        assert models[name] == {"model": name, "problem": None} | {
            key: alone[key] for key in alone.keys() - {"original", "imatrix", "notes"}
        }
    assert models["broken.gguf"]["recipes"] == []
    assert {(Path(one["path"]).stem, one["reason"]) for one in found["skipped"]} == {
        (name, "quantized already") for name in TYPES
    }
    with table.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["recipe"] for row in rows] == ["Q4_0", "Q8_0", "Q4_0", "Q8_0", ""]
    monkeypatch.setattr(surveys, "measure_pairs", None)  # nothing is read again
    assert main(asked[:5]) == 1
    text = capsys.readouterr().out
    assert "Best trade-off" in text
    assert "Left out, quantized already: eight.gguf, four.gguf, worse.gguf" in text


@pytest.mark.parametrize("more", [["--original", "x"], ["--root", "x"]])
def test_what_belongs_to_one_model_is_refused_for_a_folder(folder: Path, more: list[str]) -> None:
    assert main(["recipes", str(folder), "--each", *more]) == 2


def test_a_folder_of_quantized_models_has_nothing_to_try(folder: Path, capsys: Capture) -> None:
    (folder / "original.gguf").unlink()
    assert main(["recipes", str(folder), "--each"]) == 1
    assert "nothing to try recipes on; eight.gguf: quantized already" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--original", "x", "--tensor", "y"]])
def test_one_path_alone_is_refused(folder: Path, more: list[str], capsys: Capture) -> None:
    assert main(["compare", str(folder), *more]) == 2
    assert "--original" in capsys.readouterr().err


def test_a_folder_without_models_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    assert main(["survey", str(tmp_path), "--each"]) == 1
    assert "holds no models" in capsys.readouterr().err
