"""`report`: the file that is made, and all the ways in which none is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from explorer.cli.main import main
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.report.parsing import check_html

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tensor = TensorSpec("blk.0.attn_q.weight", (64, 2), 8, bytes(136))
    keys = [("general.architecture", STRING, "llama")]
    return GgufFile(keys=keys, tensors=[tensor]).write(tmp_path / "model.gguf")


def test_makes_a_file(path: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "report.html"
    command = ["report", str(path), "-o", str(target), "--gpu", "24GiB", "--context", "4k"]
    assert main([*command, "--reference", str(path), "--workers", "2"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{target} written")
    assert err == ""
    page = check_html(target.read_text(encoding="utf-8"))
    assert "4,096" in page.texts
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "model.gguf", "report.html"]


def test_the_header_alone_touches_no_weights(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("explorer.report.gather.run_survey")
    assert main(["report", str(path), "--no-survey", "-o", str(tmp_path / "r.html")]) == 0
    assert not list(tmp_path.glob("cache/**/*.sqlite*"))  # nor is a survey kept


def test_neither_the_header_report_nor_recipes_load_numba(path: Path, tmp_path: Path) -> None:
    program = f"""
import sys
from explorer.cli.main import main
main(["report", {str(path)!r}, "--no-survey", "-o", {str(tmp_path / "r.html")!r}])
main(["inspect", {str(path)!r}, "--recipe"])
assert not {{"numba", "PySide6"}} & sys.modules.keys()
"""
    command = [sys.executable, "-c", program]
    root = Path(__file__).parents[2]
    assert subprocess.run(command, check=False, cwd=root, capture_output=True).returncode == 0


def test_a_missing_folder_is_reported_before_weights_are_read(
    path: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("explorer.report.gather.run_survey")
    target = tmp_path / "nowhere" / "report.html"
    assert main(["report", str(path), "-o", str(target)]) == 1
    assert "no such folder" in capsys.readouterr().err


def test_interrupting_leaves_nothing_behind(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    target.write_text("the one before")

    def interrupt(*_arguments: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("explorer.cli.report.report_html", interrupt)
    assert main(["report", str(path), "-o", str(target)]) == 130
    assert target.read_text() == "the one before"
    assert not list(tmp_path.glob(".report*"))


def test_damaged_weights_are_named_in_the_report_and_by_the_exit_code(
    path: Path, tmp_path: Path, capsys: Capture
) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(path.read_bytes()[:-40])
    target = tmp_path / "report.html"
    assert main(["report", str(short), "-o", str(target)]) == 1
    assert str(short) in capsys.readouterr().err
    page = check_html(target.read_text(encoding="utf-8"))
    assert "Weights of 1 tensor cannot be read:" in page.texts
    assert str(tmp_path) not in page.text


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-o", "x.html", "--reference", "y.gguf", "--no-survey"],
        ["-o", "x.html", "--gpu", "no such card"],
        ["-o", "x.html", "--context", "many"],
    ],
)
def test_wrong_usage(path: Path, arguments: list[str]) -> None:
    assert main(["report", str(path), *arguments]) == 2


def test_inspect_shows_the_recipe(path: Path, capsys: Capture) -> None:
    import json

    assert main(["inspect", str(path), "--recipe"]) == 0
    text = capsys.readouterr().out
    assert "The file does not say which recipe it was made by." in text
    assert "Types by role" in text
    assert "Rules: llama.cpp" in text
    assert main(["inspect", str(path), "--recipe", "--json"]) == 0
    recipes = json.loads(capsys.readouterr().out)["recipes"]
    best = recipes["fits"][0]
    assert (best["share"], best["bytes"], best["deviations"]) == (1.0, 136, [])
    assert recipes["declared"] is None
    assert recipes["type_mix"][0]["role"] == "attn_q"
    assert main(["inspect", str(path), "--json"]) == 0
    assert "recipes" not in json.loads(capsys.readouterr().out)
