"""Disks that are full, closed or unplugged: told in a sentence, and what can go on goes on."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path

import pytest

from explorer.cli.main import main
from tests.helpers.disks import disk_with, read_only_disk, small_disk
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
_KEYS = {"block_count": 8, "embedding_length": 512, "context_length": 512}
_SHAPES = {f"blk.{layer}.attn_q.weight": (512, 512) for layer in range(8)}

# Every command that keeps something, and then the window.
_PROGRAM = """
import os, sys
from explorer.cli.main import main
from PySide6.QtCore import QTimer

model, out = sys.argv[1:]
for arguments in (
    ["survey", model],
    ["survey", model, "--json"],
    ["stats", model, "blk.0.attn_q.weight"],
    ["library", "--root", "folder=" + os.path.dirname(model)],
):
    code = main(arguments)
    assert code == 0, (arguments, code)
for arguments in (
    ["survey", model, "--csv", out + "/table.csv"],
    ["export", model, "blk.0.attn_q.weight", "--to", out + "/weights.npy"],
    ["report", model, "--gpu", "24GiB", "-o", out + "/report.html"],
):
    code = main(arguments)
    print(arguments[0], code, file=sys.stderr)

from explorer.qt import app

def look(window):
    if not window.documents or window.runner.jobs:
        QTimer.singleShot(20, lambda: look(window))
        return
    print("TOLD", *(message.label.text() for message in window.message_bar.messages))
    window.panels.setCurrentIndex(window.panels.currentIndex() + 1)
    window.runner.run("", lambda job: 1 // 0, print, print)  # a report of it cannot be written
    QTimer.singleShot(200, lambda: close(window))

def close(window):
    if window.runner.jobs:
        QTimer.singleShot(20, lambda: close(window))
    else:
        window.close()

plain_show = app.MainWindow.show

def show(window):
    plain_show(window)
    look(window)

app.MainWindow.show = show
sys.exit(app.run([model], fresh=False))
"""


def nowhere(base: Path) -> AbstractContextManager[Path]:
    """Return a folder that cannot be made: there is a file in its way."""
    (base / "file").write_text("")
    return nullcontext(base / "file" / "folder")


def full(base: Path) -> AbstractContextManager[Path]:
    """Return a folder on a disk with room for next to nothing."""
    return small_disk(base, 8192)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of eight tensors of a megabyte."""
    return write_gguf(tmp_path / "model.gguf", "llama", arrays_of(_SHAPES), **_KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("place", [nowhere, full, read_only_disk])
def test_no_room_for_cache_settings_and_files(
    tmp_path: Path, model: Path, place: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    with place(tmp_path) as folder:
        surroundings = {
            **{key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"},
            "QT_QPA_PLATFORM": "offscreen",
            "GGUF_EXPLORER_CACHE": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "HOME": str(folder / "home"),
        }
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(model), str(folder)],
            cwd=ROOT,
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "mistake of the program" not in done.stderr
    assert done.stderr.count("Traceback") == done.stderr.count("ZeroDivisionError: ") == 1
    # a table of eight rows may be all that a full disk has room for
    written = ("survey 0", "survey 1") if place is full else ("survey 1",)
    assert any(one in done.stderr for one in written), done.stderr
    for command in ("export 1", "report 1"):
        assert command in done.stderr, done.stderr
    assert "TOLD" in done.stdout
    assert ("Settings cannot be saved" in done.stdout) == (place is not full)


@pytest.fixture
def unplugged(tmp_path: Path, model: Path) -> Iterator[Path]:
    """A model on a disk that was unplugged after half of it was read."""
    with disk_with(tmp_path, model) as disk:
        path = disk.folder / model.name
        disk.unplug(path, model.stat().st_size // 2)
        yield path


@pytest.mark.parametrize("options", [[], ["--json"], ["--no-cache", "--workers", "1"]])
def test_a_disk_unplugged_in_the_middle_of_a_survey(
    unplugged: Path, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["survey", str(unplugged), *options]) == 1
    out, err = capfd.readouterr()
    assert err.count("\n") == 1
    assert "cannot be read: input/output error" in err
    if options == ["--json"]:
        rows = json.loads(out)["tensors"]
        told = [row["problem"] for row in rows]
        assert told[:3] == [None] * 3
        assert all("input/output error" in problem for problem in told[-3:])
    else:
        assert "blk.0.attn_q.weight" in out
        assert "input/output error" in out


def test_commands_on_a_disk_that_was_unplugged(
    unplugged: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, name, out = str(unplugged), "blk.7.attn_q.weight", str(tmp_path)
    for arguments in (
        ["stats", model, name],
        ["export", model, name, "--to", f"{out}/weights.npy"],
        ["requantize", model, name, "--to", "Q8_0"],
        ["compare", f"{out}/model.gguf", model],
        ["report", model, "--gpu", "24GiB", "-o", f"{out}/report.html"],
    ):
        assert main(arguments) == 1, arguments
        err = capfd.readouterr().err
        assert "input/output error" in err, arguments
        assert "Traceback" not in err
        assert "mistake" not in err
    assert not list(tmp_path.glob("*.npy*"))


_DEMO = """
import sys
from explorer.cli.main import main
from explorer.paths import demo_model
sys.exit(main(["survey", str(demo_model()), "--json"]))
"""


@pytest.mark.slow  # several programs
def test_programs_that_begin_at_once_share_one_cache(own_cache: Path) -> None:
    """The survey of the demo model is made by three programs at a time."""
    environment = {**os.environ, "GGUF_EXPLORER_CACHE": str(own_cache)}
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", _DEMO],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    answers = [program.communicate(timeout=PROGRAM_S) for program in programs]
    assert [program.returncode for program in programs] == [0, 0, 0], answers
    assert [err for _, err in answers] == [""] * 3
    assert len({out for out, _ in answers}) == 1
    (survey,) = (own_cache / "surveys").iterdir()
    with closing(sqlite3.connect(survey)) as database:
        values = [value for (value,) in database.execute("SELECT value FROM results")]
    assert values
    assert all(json.loads(value) for value in values)
    again = subprocess.run(
        [sys.executable, "-c", _DEMO],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=True,
    )
    assert again.stdout == answers[0][0]
