"""The window ended from outside: the session is on the disk, and the end is quiet."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt import app as application
from explorer.qt import main_window
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from tests.helpers.patience import PATIENCE_S, PROGRAM_S

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

ROOT = Path(__file__).resolve().parents[2]

# The program, which says when it is loaded, and what is open once nothing moves any more.
_PROGRAM = """
import sys
from explorer.__main__ import main
print("loaded", flush=True)
if sys.argv[1] == "look":
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication
    from explorer.qt.main_window import MainWindow

    def look(window):
        if window.documents and not window.runner.jobs:
            window.findChild(QTimer, "look").stop()
            print(*sorted(document.path.name for document in window.documents), flush=True)

    def show(window):
        plain_show(window)
        timer = QTimer(window, objectName="look", interval=10)
        timer.timeout.connect(lambda: look(window))
        timer.start()

    plain_show, MainWindow.show = MainWindow.show, show
del sys.argv[1]
sys.exit(main())
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the program with an empty home of the test's own."""
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "QT_LOGGING_RULES": "qt.qpa.plugin=false",
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "GGUF_EXPLORER_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    (tmp_path / "home").mkdir()
    started = []

    def start_one(*arguments: str, **other: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments],
            env={**environment, **other},
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def shown(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str], number: int) -> str:
    """Send a signal; return what the program said of it, without what Qt says of the screen."""
    process.send_signal(number)
    errors = process.communicate(timeout=PROGRAM_S)[1]
    return "".join(line for line in errors.splitlines(True) if "This plugin does not" not in line)


def written(home: Path) -> str:
    return "".join(path.read_text() for path in home.rglob("*.ini"))


def models(folder: Path, small_path: Path, *names: str) -> list[str]:
    for name in names:
        shutil.copy(small_path, folder / name)
    return [str(folder / name) for name in names]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_the_program_as_its_window_would(
    start: Start, small_path: Path, tmp_path: Path, number: int
) -> None:
    process = start("look", str(small_path))
    assert shown(process) == "twelve.gguf"
    assert end(process, number) == ""
    assert process.returncode == 128 + number
    assert f"\\session={small_path}\n" in written(tmp_path / "home")
    assert not list((tmp_path / "home").rglob("window-*"))
    assert not list((tmp_path / "cache" / "crashes").glob("running-*"))


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.4])
def test_ctrl_c_ends_a_start_quietly(start: Start, small_path: Path, delay_s: float) -> None:
    process = start("", str(small_path))
    time.sleep(delay_s + 0.01)
    assert end(process, signal.SIGINT) == ""
    assert process.returncode == 130


@pytest.mark.slow
def test_what_is_open_is_on_the_disk_some_seconds_later(
    start: Start, small_path: Path, tmp_path: Path
) -> None:
    process = start("look", str(small_path))
    assert shown(process) == "twelve.gguf"
    most = time.monotonic() + PATIENCE_S
    while "session=" not in written(tmp_path / "home") and time.monotonic() < most:
        time.sleep(0.05)
    end(process, signal.SIGKILL)
    process = start("look")
    assert shown(process) == "twelve.gguf"


@pytest.mark.slow
def test_windows_that_ran_together_come_back_together(
    start: Start, small_path: Path, tmp_path: Path
) -> None:
    paths = models(tmp_path, small_path, "a.gguf", "b.gguf", "c.gguf", "d.gguf")
    first, second = start("look", paths[0]), start("look", paths[1], paths[2])
    assert shown(first) == "a.gguf"
    while "c.gguf" not in shown(second):
        pass
    for process in (second, first):
        end(process, signal.SIGTERM)
    third = start("look")
    while (found := shown(third)) != "a.gguf b.gguf c.gguf":
        assert found
    end(third, signal.SIGTERM)
    alone = start("look", paths[3])
    assert shown(alone) == "d.gguf"
    end(alone, signal.SIGTERM)
    again = start("look")
    assert shown(again) == "d.gguf"
    remembered = written(tmp_path / "home")
    assert all(f" {path}\n" in remembered for path in paths)


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="Xvfb is not installed")
def test_a_display_that_dies_takes_no_session_with_it(
    start: Start, small_path: Path, tmp_path: Path
) -> None:
    read, write = os.pipe()
    display = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "800x600x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    try:
        os.close(write)
        with open(read, encoding="ascii") as told:
            name = f":{told.readline().strip()}"
        process = start("look", str(small_path), QT_QPA_PLATFORM="xcb", DISPLAY=name)
        assert shown(process) == "twelve.gguf"
    finally:
        display.kill()
        display.wait(PATIENCE_S)
    errors = process.communicate(timeout=PROGRAM_S)[1]
    assert process.returncode == 1
    assert "The X11 connection broke" in errors
    assert "Traceback" not in errors
    assert f"\\session={small_path}\n" in written(tmp_path / "home")
    assert not list((tmp_path / "cache" / "crashes").glob("*"))


# Within this process


def test_settings_are_written_by_a_worker_a_moment_after_they_change(
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    small_path: Path,
    settings_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main_window, "_WRITE_AFTER_MS", 50)
    window = make_window(small_path)
    qtbot.waitUntil(lambda: settings_file.exists() and "session=" in settings_file.read_text())
    window.close_document(window.documents[0])
    qtbot.waitUntil(lambda: str(small_path) not in _session_line(settings_file))


def _session_line(file: Path) -> str:
    return next(line for line in file.read_text().splitlines() if "session=" in line)


def test_a_logout_saves_and_names_the_program_to_start_again(
    *,
    qapp: QApplication,
    make_window: Callable[..., MainWindow],
    small_path: Path,
    settings_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Manager:
        command: tuple[str, ...] = ()

        def setRestartCommand(self, command: list[str]) -> None:
            self.command = tuple(command)

    monkeypatch.setattr(application, "on_signals", lambda act: None)
    window, manager = make_window(small_path), Manager()
    ending = application._Ending(qapp, window)
    try:
        ending._log_out(manager)
    finally:
        ending.findChild(QTimer).stop()
        ending.deleteLater()
    assert f"\\session={small_path}\n" in settings_file.read_text()
    version = subprocess.run(
        [*manager.command, "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith("gguf-explorer ")


def test_the_event_loop_writes_nothing(settings: Settings, settings_file: Path) -> None:
    before = settings_file.exists()
    settings.add_recent(Path("/a.gguf"))
    for _ in range(3):
        QCoreApplication.processEvents()
    assert settings_file.exists() == before
    settings.write()
    assert "/a.gguf" in settings_file.read_text()
