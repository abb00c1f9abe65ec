"""`report --each`: a report, pictures and statistics of every model of a folder."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from explorer.cli.main import main
from tests.helpers.model_pairs import arrays_of, write_gguf

Capture = pytest.CaptureFixture[str]
SHAPES = {f"blk.{layer}.attn_q.weight": (16, 64) for layer in range(3)} | {"norm.weight": (64,)}
GPU = ["--gpu", "8GiB", "--context", "1024"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    (models / "a <b>").mkdir(parents=True)
    types = {name: "Q8_0" for name, shape in SHAPES.items() if len(shape) > 1}
    arrays = arrays_of(SHAPES)
    write_gguf(models / "one.gguf", "llama", arrays, types)
    write_gguf(models / "a <b>" / "two.gguf", "llama", arrays)
    return models


def test_each_model_of_a_folder(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out, table = tmp_path / "reports", tmp_path / "all.csv"
    asked = ["report", str(folder), "--each", "-o", str(out), "--pictures", str(out)]
    assert main([*asked, "--csv", str(table), *GPU]) == 0
    pages = sorted(out.glob("*.html"))
    assert len(pages) == 2
    assert all("<script" not in page.read_text("utf-8") for page in pages)
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert {row["model"] for row in rows} == {"one.gguf", "two.gguf"}
    assert len(rows) == 2 * len(SHAPES)
    assert all(float(row["std"]) > 0 for row in rows)
    pictures = sorted(out.glob("*/*.svg"))
    assert len(pictures) > 4
    for picture in pictures:
        root = ElementTree.fromstring(picture.read_text("utf-8"))
        assert root.tag.endswith("svg")
        assert float(root.attrib["width"]) > 0
    assert "pictures written" in capsys.readouterr().out


def test_a_damaged_model_ends_only_its_own_report(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    (folder / "bad.gguf").write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 16)
    out = tmp_path / "reports"
    assert main(["report", str(folder), "--each", "-o", str(out), *GPU]) == 1
    text = capsys.readouterr()
    assert "bad.gguf" in text.err
    assert text.err.count("error:") == 1
    assert len(list(out.glob("*.html"))) == 2


def test_pictures_of_one_model(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "pictures"
    target = tmp_path / "one.html"
    asked = ["report", str(folder / "one.gguf"), "-o", str(target), "--pictures", str(out)]
    assert main([*asked, *GPU]) == 0
    names = [picture.name for picture in sorted(out.iterdir())]
    assert names[0].startswith("01-bytes-by-type")
    assert target.read_text("utf-8").count("<svg") > len(names) - 1


def test_what_each_is_not_for(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = str(tmp_path / "reports")
    assert main(["report", str(folder / "one.gguf"), "--each", "-o", out]) == 1
    assert "is not a folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty"), "--each", "-o", out]) == 1
    assert "holds no models" in capsys.readouterr().err
