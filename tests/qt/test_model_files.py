"""Whatever the window saves replaces no file of a model, wherever the dialog points.

What saves is found by trying every command and button of every page, not by a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QAction, QDesktopServices
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QColorDialog,
    QDialog,
    QFileDialog,
    QInputDialog,
    QMenu,
    QPushButton,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from explorer import model_files
from explorer.present.panels import PANELS
from explorer.qt import actions
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.qt.widgets import saving
from explorer.qt.widgets.figures import FigureDialog
from explorer.sources.remote.addresses import refuse_all
from explorer.text import PLAIN, set_notation
from tests.helpers.descendants import descendants
from tests.helpers.everywhere import everywhere, settle
from tests.helpers.model_kinds import digests, safetensors_model
from tests.helpers.window import wait_idle

Command = QAction | QAbstractButton


class Dialog:
    """Answers in place of the user, and knows whether it was asked."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.answer: Path | None = None
        self.kinds: list[str] | None = None  # suffixes that it offered when it was last asked
        patch.setattr(QFileDialog, "getSaveFileName", self._save)
        patch.setattr(saving, "may_replace", lambda *_: True)
        patch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
        patch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([], ""))
        patch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "")
        patch.setattr(QInputDialog, "getText", lambda *_: ("", False))
        patch.setattr(QColorDialog, "getColor", lambda *_: None)
        patch.setattr(QDialog, "exec", lambda _: 0)
        patch.setattr(FigureDialog, "open", FigureDialog.accept)
        patch.setattr(QMenu, "exec", lambda *_: None)
        patch.setattr(QDesktopServices, "openUrl", lambda _: True)
        for restyle in ("apply_scheme", "apply_text_size"):  # a second each, and nothing is saved
            patch.setattr(actions, restyle, lambda _: None)

    def _save(self, _parent: object, _title: str, _name: str, filters: str, *_: Any) -> Any:
        asked_again, self.kinds = self.kinds is not None, _suffixes(filters)
        answer = "" if self.answer is None or asked_again else str(self.answer)
        return answer, filters.split(";;", maxsplit=1)[0]

    def asked_by(self, command: Command, answer: Path | None = None) -> bool:
        """Give a command; return whether it asked where to save."""
        self.answer, self.kinds = answer, None
        command.trigger() if isinstance(command, QAction) else command.click()
        return self.kinds is not None


def _suffixes(filters: str) -> list[str]:
    return [kind.split("(*", 1)[1].rstrip(")") for kind in filters.split(";;")]


def _commands(page: QWidget) -> Iterator[Command]:
    """Yield every command of a page: its buttons, and the actions of its widgets and menus."""
    seen: set[int] = set()
    for widget in (page, *descendants(page, QWidget, shown=True)):
        if not isValid(widget) or not widget.isVisible():
            continue
        menu = widget.menu() if isinstance(widget, QPushButton | QToolButton) else None
        if isinstance(widget, QAbstractButton) and menu is None:  # a menu waits for the mouse
            yield widget
        for action in _actions([*widget.actions(), *(menu.actions() if menu else ())]):
            if id(action) not in seen and action.isEnabled():
                seen.add(id(action))
                yield action


def _actions(found: Sequence[QAction]) -> Iterator[QAction]:
    """Yield actions, those of submenus too."""
    for action in found:
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from _actions(inner.actions())
        else:
            yield action


def _close_popups() -> None:
    while (popup := QApplication.activePopupWidget()) is not None:
        popup.close()
    for widget in QApplication.topLevelWidgets():
        if isinstance(widget, QDialog) and widget.isVisible():
            widget.close()


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what other tests opened, and what the commands of all pages set for the process."""
    monkeypatch.setattr(model_files, "_noted", set())
    monkeypatch.setattr(model_files, "_folders", set())
    yield
    set_notation(PLAIN)
    refuse_all(False)


@pytest.mark.slow
@pytest.mark.qt_log_ignore("^This plugin does not support grabbing the keyboard$", extend=True)
def test_nothing_that_the_window_saves_replaces_a_file_of_a_model(
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a model with files of every sort; for other kinds see tests/trust/test_model_files.py."""
    kept = tmp_path / "kept"
    kept.mkdir()
    window = make_window(safetensors_model(kept))
    window.reveal_tensor(window.documents[0], 0)
    window.panels.references.choose(
        Rounding("BF16")
    )  # of rows of any length, so that errors can be saved
    dialog = Dialog(monkeypatch)
    before = digests(kept)
    turns = cycle(before)

    def saves(command: Command) -> bool:
        """Try to save over each file, if a command saves at all; return whether it does.

        By its own name, and for each kind of file that is offered by a link to another of them.
        """
        if not dialog.asked_by(command):
            return False
        links = [_link(tmp_path, kind, next(turns)) for kind in dialog.kinds or []]
        window.setUpdatesEnabled(False)  # nobody looks
        for target in (*map(Path, before), *links):
            window.message_bar.clear()
            assert dialog.asked_by(command, target)
            wait_idle(qtbot, window)
            now = digests(kept)
            assert {path: now.get(path) for path in before} == before, (command, target)
            assert target not in links or window.message_bar.messages, (command, target)
        window.setUpdatesEnabled(True)
        return True

    saving_pages: set[str] = set()
    for name, page in everywhere(qtbot, window):
        window.panels.selection.show_document(window.documents[0])
        window.panels.selection.select_tensors([0])  # a command may have led elsewhere
        settle(qtbot, window)
        for command in list(_commands(page)):
            if isValid(command) and saves(command):
                saving_pages.add(name.split(" / ")[0])
            _close_popups()
        settle(qtbot, window)
    assert {
        PANELS[name].title for name in ("metadata", "tensors", "weights", "errors", "survey")
    } <= saving_pages
    for command in list(_actions(window.top.menus.actions())):
        if isValid(command) and command not in {window.actions_.quit, window.actions_.close_model}:
            saves(command)
            _close_popups()
    assert digests(kept).items() >= before.items()


def _link(folder: Path, suffix: str, file: str) -> Path:
    link = folder / f"link{suffix}"
    link.unlink(missing_ok=True)
    link.symlink_to(file)
    return link
