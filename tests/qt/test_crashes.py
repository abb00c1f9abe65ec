"""Faults of the program itself: told, written down once, and survived."""

from __future__ import annotations

import faulthandler
import os
import re
import stat
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from PySide6.QtCore import QTimer, qCritical
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from explorer.crash_reports import MOST_BYTES, MOST_REPORTS, CrashReports, error_report
from explorer.private_folder import PrivateFolder
from explorer.qt.crashes import catching
from explorer.qt.main_window import MainWindow
from tests.helpers.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the window's reports go; see `no_user_files` in conftest.py."""
    return tmp_path / "cache" / "crashes"


@pytest.fixture
def caught(make_window: Callable[..., MainWindow], demo_path: Path) -> Iterator[MainWindow]:
    """A window that is told of what nobody caught."""
    window = make_window(demo_path, expect_crash=True)
    with catching(window.crashes):
        yield window


def fail() -> None:
    _ = 1 / 0


def reports(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob("report-*.txt"))]


def shows_the_crash(qtbot: QtBot, window: MainWindow, folder: Path) -> None:
    """The message is there with its details, a report is written, and the window works on."""
    qtbot.waitUntil(window.message_bar.isVisible)
    assert "ZeroDivisionError" in window.message_bar.messages[-1].label.text()
    window.message_bar.messages[-1].copy.click()
    details = QGuiApplication.clipboard().text()
    assert "Traceback" in details
    assert "in fail" in details
    assert reports(folder) == [details]
    assert str(next(folder.glob("report-*"))) in window.message_bar.messages[-1].label.text()
    window.panels.setCurrentWidget(window.panels.tensors)
    assert window.panels.tensors.widget.model.rowCount() == 22


def test_an_error_of_a_slot(qtbot: QtBot, caught: MainWindow, folder: Path) -> None:
    try:
        fail()
    except ZeroDivisionError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    shows_the_crash(qtbot, caught, folder)


def test_an_error_of_another_thread(qtbot: QtBot, caught: MainWindow, folder: Path) -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    shows_the_crash(qtbot, caught, folder)


def test_an_error_of_a_job(qtbot: QtBot, caught: MainWindow, folder: Path) -> None:
    caught.runner.run("", lambda _job: fail(), lambda _: None, caught.show_error)
    shows_the_crash(qtbot, caught, folder)


_OVERRIDES = """
import sys
import explorer.qt
from PySide6.QtCore import QCoreApplication, QEvent, QTimer
from PySide6.QtWidgets import QApplication, QWidget

told = []
sys.excepthook = lambda kind, error, trace: told.append(f"{kind.__name__}: {error}")
app = QApplication([])

class Failing(QWidget):
    def paintEvent(self, event):
        [][1]

    def changeEvent(self, event):
        [].index(5)

widget = Failing()
widget.show()
QTimer.singleShot(0, lambda: QCoreApplication.sendEvent(widget, QEvent(QEvent.Type.LocaleChange)))
QTimer.singleShot(300, app.quit)
try:
    app.exec()
except Exception as error:  # PySide may hand it on to what called into Qt
    told.append(f"{type(error).__name__}: {error}")
print(told)
"""


def test_an_error_that_c_raises_in_an_override_ends_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OVERRIDES],
        cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "list index out of range" in done.stdout
    assert "5 is not in list" in done.stdout


def test_an_error_that_nobody_can_catch(qtbot: QtBot, caught: MainWindow, folder: Path) -> None:
    class Thing:
        pass

    thing = Thing()
    reference = weakref.ref(thing, lambda _: fail())
    del thing
    assert reference() is None
    shows_the_crash(qtbot, caught, folder)


def test_what_qt_calls_critical(qtbot: QtBot, caught: MainWindow, folder: Path) -> None:
    qCritical("the clipboard is \x1b[31m gone")
    qtbot.waitUntil(caught.message_bar.isVisible)
    (report,) = reports(folder)
    assert "QtFault: the clipboard is \\x1b[31m gone" in report


@pytest.mark.qt_no_exception_capture
def test_a_panel_that_fails_does_not_keep_a_model_from_the_others(
    qtbot: QtBot, caught: MainWindow, small_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caught.panels.overview.widget, "show_document", lambda _document: fail())
    caught.open_paths([small_path])
    qtbot.waitUntil(caught.message_bar.isVisible)
    assert caught.panels.tensors.widget.model.rowCount() == 12
    assert caught.panels.metadata.widget.list.table.model().rowCount() == 5
    assert "twelve" in caught.windowTitle()


@pytest.mark.qt_no_exception_capture
def test_a_panel_that_fails_does_not_keep_the_window_open(
    qtbot: QtBot, caught: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caught.panels.memory, "save", fail)
    QTimer.singleShot(0, caught.close)
    qtbot.waitUntil(lambda: not caught.isVisible())
    assert caught.settings.session == [caught.documents[0].path]


def test_no_place_to_write_is_no_second_fault(
    qtbot: QtBot, caught: MainWindow, folder: Path
) -> None:
    caught.crashes.reports.stop_watching()
    folder.rmdir()
    folder.write_text("a file where the folder would be")
    caught.crashes.note(ZeroDivisionError("no traceback"))
    qtbot.waitUntil(caught.message_bar.isVisible)
    assert "in /" not in caught.message_bar.messages[-1].label.text()


def test_a_full_disk_leaves_no_half_report(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_some(_file: PrivateFolder, name: str) -> BinaryIO:
        (folder / name).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    folder.mkdir(mode=0o700, parents=True)
    monkeypatch.setattr(PrivateFolder, "create", write_some)
    assert CrashReports().write("a report") is None
    assert list(folder.iterdir()) == []


def test_few_reports_are_kept(folder: Path) -> None:
    kept = CrashReports()
    paths = [kept.write(f"report {number}") for number in range(MOST_REPORTS + 5)]
    assert len(set(paths)) == MOST_REPORTS + 5
    assert sorted(folder.iterdir()) == sorted(path for path in paths[5:] if path is not None)


def _report_of(error: BaseException) -> str:
    try:
        raise error
    except type(error) as caught:
        return error_report(caught, ", PySide6 6.10")


def test_a_report_is_short_and_plain() -> None:
    report = _report_of(ValueError("\x1b[31m\u202e" + "n" * 10_000_000))
    assert "\\x1b[31m\\u202ennn" in report
    assert re.search(r"GGUF Explorer \d.*\nPython 3\..*PySide6 6\.", report)
    assert 'File "<path>", line' in report  # of this test
    error: BaseException = ValueError("the first")
    for _ in range(400):  # more links than anybody reads
        error = _linked(error)
    report = error_report(error)
    assert len(report.encode()) <= MOST_BYTES
    assert "\n…\n" in report


def _link(cause: BaseException) -> None:
    raise ValueError("\U0001f600 what came of it") from cause


def _linked(cause: BaseException) -> BaseException:
    try:
        _link(cause)
    except ValueError as error:
        return error
    return cause


_PLACES = (
    "/home/ada/{}/{}.gguf",
    "/home/ada/{}/{} and more.gguf",
    r"C:\Users\ada\{}\{}.gguf",
    r"\\ada\{}\{}.gguf",
    "~/{}/{}.safetensors",
    "hf://ada/{}/{}.gguf",
    "../{}/{}",
)
_MESSAGES = (
    "{}: is damaged (at byte 3)",
    "[Errno 2] No such file or directory: '{}'",
    'line one\n    {}\n  File "{}", line 1, in f',
    "Document(path=PosixPath('{}'), model=Model(format='gguf', title='{}'))",
    "[Tensor(name='{}', shape=(1, 2))] is not in list",
)


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("message", _MESSAGES)
def test_a_report_has_no_path_and_nothing_of_a_model(place: str, message: str) -> None:
    path = place.format("secret", "model")
    report = _report_of(ValueError(message.format(path, path)))
    assert "ValueError: " in report
    for word in ("secret", "model", "ada"):
        assert word not in report
    assert str(ROOT) not in report


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_a_report_is_for_its_user_alone(folder: Path) -> None:
    path = CrashReports().write("a report")
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# The program as `gguf-explorer` starts it, and something that goes wrong in it.
_CRASHING = """
import faulthandler, os, sys
from PySide6.QtCore import QTimer, qFatal
from PySide6.QtWidgets import QWidget
from explorer.qt import app

class Failing(QWidget):
    painted = 0

    def paintEvent(self, event):
        self.painted += 1
        if self.painted == 120:
            self.window().close()
        _ = 1 / 0

def act(window):
    if sys.argv[1] == "segfault":
        faulthandler._sigsegv()
    elif sys.argv[1] == "fatal":
        qFatal("cannot go on")
    elif sys.argv[1] == "killed":
        os.kill(os.getpid(), 9)
    elif sys.argv[1] == "paint":
        view = Failing(window.panels)
        window.panels.setCurrentIndex(window.panels.addWidget(view))
        timer = QTimer(window)
        timer.timeout.connect(view.update)
        timer.start(1)
    else:
        window.close()

def start(window):
    if window.documents and not window.runner.jobs:
        act(window)
    else:
        QTimer.singleShot(10, lambda: start(window))

plain_show = app.MainWindow.show

def show(window):
    plain_show(window)
    window.crashes.happened.connect(lambda sentence, _: print("TOLD", sentence, flush=True))
    start(window)

app.MainWindow.show = show
sys.exit(app.run(sys.argv[2:], fresh=True))
"""


@pytest.fixture
def run(tmp_path: Path, small_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run the program with something that goes wrong in it, or with "close" until it is closed."""

    def run_once(action: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _CRASHING, action, str(small_path)],
            cwd=ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "missing")},
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )

    return run_once


def test_a_view_that_fails_at_every_frame_is_told_of_once(
    run: Callable[[str], subprocess.CompletedProcess[str]], folder: Path
) -> None:
    result = run("paint")
    assert result.returncode == 0
    first, tenth, hundredth = result.stdout.splitlines()
    assert "ZeroDivisionError" in first
    assert "It has happened 10 times." in tenth
    assert "It has happened 100 times." in hundredth
    assert result.stderr.count("in paintEvent") == 1
    assert len(reports(folder)) == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="crashes by signals")
def test_a_crash_of_the_process_is_told_at_the_next_start_once(
    run: Callable[[str], subprocess.CompletedProcess[str]], folder: Path
) -> None:
    """Each start is the one after the way in which the start before ended."""
    told: list[str] = []
    before: str | None = None
    for how, words in (
        ("segfault", "Segmentation fault"),
        ("fatal", "A qFatal() call was made"),  # a message of Qt
        ("killed", None),  # from outside, as at a power failure: no fault of the program
        ("close", None),
    ):
        result = run(how)
        assert (result.returncode < 0) == (how != "close"), result.stderr
        assert ("The program crashed the last time" in result.stdout) == (before is not None), how
        told += [] if before is None else [before]
        kept = reports(folder)
        assert len(kept) == len(told)
        assert all(words in report for words, report in zip(told, kept, strict=True))
        assert len(list(folder.glob("running-*"))) == (how != "close")
        before = words
    assert CrashReports().take_crash() is None


def test_a_program_that_runs_is_not_taken_for_one_that_crashed(folder: Path) -> None:
    running, other = CrashReports(), CrashReports()
    running.watch()
    try:
        running.note_before_abort("this one will crash soon")
        assert other.take_crash() is None
    finally:
        running.stop_watching()
    assert other.take_crash() is None
    assert list(folder.iterdir()) == []


def test_a_crash_is_told_where_every_process_has_the_same_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a sandbox: the next program must not begin by emptying what the crash has left."""
    monkeypatch.setattr(os, "getpid", lambda: 2)
    crashed, following = CrashReports(), CrashReports()
    crashed.watch()
    crashed.note_before_abort("Segmentation fault")
    faulthandler.disable()
    assert crashed._fault is not None
    crashed._fault.close()  # as the system does when a process ends
    following.watch()
    try:
        found = following.take_crash()
    finally:
        following.stop_watching()
    assert found is not None
    assert "Segmentation fault" in found[0]


@pytest.mark.parametrize(
    ("left", "removed"),
    [("Fatal Python error: Bus error", True), ("A qFatal() call was made", False)],
)
def test_after_a_death_in_machine_code_kernels_are_compiled_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str, removed: bool
) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir(mode=0o700)
    kept = kernels / "decode.nbc"
    kept.write_bytes(b"code")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kernels))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "running-1-2.txt").write_text(left)
    assert CrashReports().take_crash() is not None
    assert kept.exists() != removed
