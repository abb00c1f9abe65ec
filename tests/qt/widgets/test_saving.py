"""Where a file is saved: its suffix, whether it is replaced, and what a sandbox lends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.widgets.saving import FileSaver
from tests.helpers.services import RecordingServices

_KINDS = {"Pictures": ".png", "Tables": ".csv"}
_PORTAL = Path("/run/user/1000/doc/4a5b")


@pytest.fixture
def saver(qtbot: QtBot, app: RecordingServices, monkeypatch: pytest.MonkeyPatch) -> FileSaver:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    parent = QWidget()
    qtbot.addWidget(parent)
    return FileSaver(app, parent)


def _choose(monkeypatch: pytest.MonkeyPatch, path: Path | str, kind: str) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), kind))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("a.csv", "Pictures (*.png)", "a.csv"),
        ("a.PNG", "Tables (*.csv)", "a.PNG"),
        ("a", "Tables (*.csv)", "a.csv"),
        ("a.b", "another", "a.b.png"),
    ],
)
def test_a_name_gets_the_suffix_that_it_lacks(
    saver: FileSaver, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, expected: str
) -> None:
    _choose(monkeypatch, Path("/home/somebody", name), kind)
    assert saver.ask_path("Save", "plot", _KINDS) == Path("/home/somebody", expected)


def test_nobody_wants_to_save(saver: FileSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    _choose(monkeypatch, "", "")
    assert saver.ask_path("Save", "plot", _KINDS) is None


def test_a_sandbox_is_lent_one_name_and_no_other(
    saver: FileSaver, monkeypatch: pytest.MonkeyPatch, app: RecordingServices
) -> None:
    _choose(monkeypatch, _PORTAL / "a.csv", "Tables (*.csv)")
    assert saver.ask_path("Save", "plot", _KINDS) == _PORTAL / "a.csv"
    assert app.errors == []
    _choose(monkeypatch, _PORTAL / "a", "Tables (*.csv)")
    assert saver.ask_path("Save", "plot", _KINDS) is None
    assert "Choose a name such as a.csv" in str(app.errors[0])


class Typist:
    """Types names into the real dialog, and answers what is asked.

    Attributes:
        names: What to type, one after the other; then the dialog is cancelled.
        answers: The buttons to click.
        questions: What was asked.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.answers: list[str] = []
        self.questions: list[str] = []

    def act(self) -> None:
        dialog = QApplication.activeModalWidget()
        if isinstance(dialog, QMessageBox):
            self.questions.append(dialog.text())
            wanted = self.answers.pop(0)
            next(one for one in dialog.buttons() if one.text() == wanted).click()
        elif isinstance(dialog, QFileDialog) and self.names:
            edit = dialog.findChild(QLineEdit)
            assert edit is not None
            edit.setText(self.names.pop(0))
            QTest.keyClick(edit, Qt.Key.Key_Return)
        elif isinstance(dialog, QFileDialog):
            dialog.reject()


@pytest.fixture
def typist() -> Iterator[Typist]:
    typist = Typist()
    timer = QTimer(interval=1)
    timer.timeout.connect(typist.act)
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    timer.start()
    yield typist
    timer.stop()
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs, False)


@pytest.mark.parametrize(
    ("there", "typed", "written"),
    [
        ("a.png", "a", "a.png"),  # what is typed is not there, what would be written is
        ("a.png", "a.png", "a.png"),
        ("a.b.png", "a.b", "a.b.png"),
        ("A.PNG", "A.PNG", "A.PNG"),
        ("a.csv", "a.csv", "a.csv"),
    ],
)
@pytest.mark.parametrize("answer", ["Replace", "Cancel"])
def test_it_asks_about_the_file_that_it_will_write(
    *,
    saver: FileSaver,
    typist: Typist,
    tmp_path: Path,
    there: str,
    typed: str,
    written: str,
    answer: str,
) -> None:
    (tmp_path / there).write_text("before")
    typist.names = [str(tmp_path / typed)]
    typist.answers = [answer]
    expected = tmp_path / written if answer == "Replace" else None
    assert saver.ask_path("Save", "plot", _KINDS) == expected
    (question,) = typist.questions
    assert question.startswith(f"{written} exists already in {tmp_path}.")


@pytest.mark.parametrize(("there", "typed"), [("a", "a"), ("a.b", "a.b"), ("a.csv", "a")])
def test_it_does_not_ask_about_a_file_that_it_will_not_write(
    saver: FileSaver, typist: Typist, tmp_path: Path, there: str, typed: str
) -> None:
    (tmp_path / there).write_text("before")
    typist.names = [str(tmp_path / typed)]
    assert saver.ask_path("Save", "plot", _KINDS) == tmp_path / f"{typed}.png"
    assert typist.questions == []


def test_after_a_no_it_asks_for_another_name(
    saver: FileSaver, typist: Typist, tmp_path: Path
) -> None:
    (tmp_path / "<b>a.png").write_text("before")
    typist.names = [str(tmp_path / "<b>a"), str(tmp_path / "b")]
    typist.answers = ["Cancel"]
    assert saver.ask_path("Save", "plot", _KINDS) == tmp_path / "b.png"
    assert typist.questions[0].startswith("<b>a.png exists already")


def test_a_portal_has_asked_itself(
    saver: FileSaver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    portal = tmp_path / "doc" / "4a5b" / "a.csv"
    portal.parent.mkdir(parents=True)
    portal.write_text("before")
    _choose(monkeypatch, portal, "Tables (*.csv)")
    assert saver.ask_path("Save", "plot", _KINDS) == portal
