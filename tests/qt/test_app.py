"""The program from start to end: what it opens first. How it is ended: test_ends.py."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.paths import demo_model
from explorer.qt.app import _open_first
from explorer.qt.main_window import MainWindow
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.patience import PATIENCE_S, PROGRAM_S
from tests.helpers.window import wait_idle

ROOT = Path(__file__).resolve().parents[2]

# The program as `gguf-explorer` starts it, with a look at it once nothing moves any more.
_PROGRAM = """
import sys
from PySide6.QtCore import QTimer
from explorer.cli.main import main
from explorer.qt.main_window import MainWindow

action = sys.argv.pop(1)
plain_show = MainWindow.show

def look(window):
    if window.documents and not window.runner.jobs:
        window.findChild(QTimer, "look").stop()
        print(*(document.title for document in window.documents), flush=True)
        if action == "close":
            window.close()

def show(window):
    plain_show(window)
    timer = QTimer(window, objectName="look", interval=10)
    timer.timeout.connect(lambda: look(window))
    timer.start()

MainWindow.show = show
sys.exit(main())
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start the program with an empty home of the test's own."""
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "GGUF_EXPLORER_CACHE": str(tmp_path / "cache"),
        "NUMBA_CACHE_DIR": str(tmp_path / "missing"),  # so that nothing is compiled ahead
        "PYTHONPATH": str(ROOT),
    }
    (tmp_path / "home").mkdir()

    def start_one(action: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, action, *arguments],
            env=environment,
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return start_one


def end(process: subprocess.Popen[str]) -> str:
    """Wait for the end of a program in which nothing went wrong; return what it printed."""
    output, errors = process.communicate(timeout=PROGRAM_S)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    return output.strip()


@pytest.mark.slow
def test_a_session_is_left_and_found_again(
    start: Callable[..., subprocess.Popen[str]], small_path: Path
) -> None:
    assert end(start("close", str(small_path))) == "twelve.gguf"
    assert end(start("close")) == "twelve.gguf"


@pytest.mark.parametrize("given", [True, False])
def test_a_path_ranks_before_the_last_session(
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    small_path: Path,
    hostile_path: Path,
    given: bool,
) -> None:
    window = make_window()
    window.settings.session = [hostile_path, small_path, Path("/gone/model.gguf")]
    _open_first(window, [small_path] if given else [])
    expected = [small_path] if given else [hostile_path, small_path]
    qtbot.waitUntil(lambda: [document.path for document in window.documents] == expected)
    wait_idle(qtbot, window)
    assert not window.message_bar.isVisible()


def test_a_share_that_does_not_answer_does_not_hold_the_window_up(
    *,
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    small_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share, answer, plain_exists = Path("/share/model.gguf"), threading.Event(), os.path.exists
    asked: list[threading.Thread] = []

    def exists(path: str | Path) -> bool:
        if Path(path) == share:
            asked.append(threading.current_thread())
            answer.wait(PATIENCE_S)
            return False
        return plain_exists(path)

    window = make_window()
    window.settings.session = [share, small_path]
    monkeypatch.setattr(os.path, "exists", exists)
    try:
        _open_first(window, [])
        qtbot.waitUntil(lambda: bool(asked))
        assert threading.main_thread() not in asked
        assert [job.title for job in window.runner.jobs] == [
            "Looking for the models of the last session"
        ]
    finally:
        answer.set()
    qtbot.waitUntil(lambda: [document.path for document in window.documents] == [small_path])
    wait_idle(qtbot, window)


def test_a_session_is_kept_by_a_window_that_is_closed_before_it_is_open(
    make_window: Callable[..., MainWindow], small_path: Path, hostile_path: Path
) -> None:
    window = make_window()
    session = [small_path, hostile_path]
    window.settings.session = session
    _open_first(window, [])
    window.close()
    assert window.settings.session == session


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, in which no program has downloaded a model yet."""
    for name in ("OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("session", [[], [Path("/gone/model.gguf")]])
def test_with_nothing_to_open_it_opens_the_demo(
    qtbot: QtBot, make_window: Callable[..., MainWindow], session: list[Path]
) -> None:
    window = make_window()
    window.settings.session = session
    _open_first(window, [])
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    assert window.documents[0].path == demo_model()
    assert window.settings.recent == [], "an AppImage has it in another folder at each start"
    wait_idle(qtbot, window)
    assert window.panels.currentWidget() is window.panels.overview


def test_with_downloaded_models_it_shows_the_library(
    qtbot: QtBot, make_window: Callable[..., MainWindow], home: Path, demo_path: Path
) -> None:
    store = OllamaStore(home / ".ollama" / "models")
    store.manifest([store.layer("model", demo_path.read_bytes())])
    window = make_window()
    _open_first(window, [])
    library = window.panels.library.widget
    qtbot.waitUntil(lambda: library.model.rowCount() == 1)
    wait_idle(qtbot, window)
    assert window.documents == []
    assert window.panels.currentWidget() is window.panels.library
    models = library.model.index(0, 0)
    library.tree.setCurrentIndex(library.model.index(0, 0, models))
    qtbot.keyClick(library.tree, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    wait_idle(qtbot, window)
    assert window.panels.currentWidget() is window.panels.overview


def test_a_model_of_ollama_s_store_opens_by_its_name(
    qtbot: QtBot, make_window: Callable[..., MainWindow], home: Path, demo_path: Path
) -> None:
    store = OllamaStore(home / ".ollama" / "models")
    manifest = store.manifest([store.layer("model", demo_path.read_bytes())])
    window = make_window()
    _open_first(window, [], ["ollama:tiny", "ollama:missing"])
    qtbot.waitUntil(lambda: [document.path for document in window.documents] == [manifest])
    wait_idle(qtbot, window)
    assert "missing" in window.message_bar.messages[-1].label.text()
