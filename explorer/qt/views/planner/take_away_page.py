"""The settings for other programs, ready to copy; the picture and the tables, ready to save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtGui import QFontMetrics, QGuiApplication
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from explorer.present.plan_export import (
    environment_lines,
    modelfile_lines,
    plan_command,
    server_command,
)
from explorer.qt.jobs import JobRunner
from explorer.qt.models.planner.session import PlannerSession
from explorer.qt.theme import monospace_font
from explorer.qt.views.planner.late_page import LatePage
from explorer.qt.views.planner.picture import PlannerPicture, SavedPicture
from explorer.qt.views.plots.export import PlotExport
from explorer.text import plain_text

_LEAST_LINES: Final = 2


@dataclass(frozen=True)
class _Text:
    """One text to copy."""

    edit: QPlainTextEdit
    make: Callable[[], str]


class TakeAwayPage(LatePage):
    """Texts with a button each.

    Signals:
        exported: A file was written; its path.
        failed: A file could not be written.
    """

    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self,
        session: PlannerSession,
        runner: JobRunner,
        picture: PlannerPicture,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(session, parent)
        self._texts: dict[str, _Text] = {}
        self._buttons: dict[str, QPushButton] = {}
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(8)
        self._export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self._picture = SavedPicture(picture)
        for name, title, make in (
            ("command", self.tr("This plan"), self._command),
            ("environment", self.tr("Ollama's environment"), self._environment),
            ("modelfile", self.tr("Modelfile"), self._modelfile),
            ("server", self.tr("llama-server"), self._server),
        ):
            self._add(name, title, make)
        self.save = QPushButton(self.tr("&Save picture or data…"), self)
        self.save.setToolTip(self.tr("The bars and the layers as PNG, SVG or CSV"))
        self.save.clicked.connect(lambda: self._export.ask(self._picture, "memory-plan"))
        line = QHBoxLayout()
        line.addWidget(self.save)
        hint = QLabel(self.tr("The context menus of tables copy, and save CSV and JSON."), self)
        hint.setWordWrap(True)
        line.addWidget(hint, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 6)
        layout.addLayout(self._grid, 1)
        layout.addLayout(line)

    def text(self, name: str) -> str:
        """Return a text: ``"command"``, ``"environment"``, ``"modelfile"`` or ``"server"``."""
        return self._texts[name].make()

    def copy_button(self, name: str) -> QPushButton:
        """Return the button that copies a text."""
        return self._buttons[name]

    def save_picture(self, path: Path) -> None:
        """Save the picture, or its data, in the format that the suffix says."""
        self._export.save(self._picture, path)

    def refresh(self) -> None:
        """Show the texts of the current plan."""
        for text in self._texts.values():
            shown = plain_text(text.make(), lines=True)
            if shown != text.edit.toPlainText():
                text.edit.setPlainText(shown)

    def _add(self, name: str, title: str, make: Callable[[], str]) -> None:
        row = self._grid.rowCount()
        edit = QPlainTextEdit(self)
        edit.setReadOnly(True)
        edit.setTabChangesFocus(True)
        edit.setFont(monospace_font())
        edit.setAccessibleName(title)
        height = QFontMetrics(edit.font()).lineSpacing() * _LEAST_LINES
        edit.setMinimumHeight(height + 2 * int(edit.document().documentMargin()) + 4)
        label = QLabel(title, self)
        label.setBuddy(edit)
        button = QPushButton(self.tr("Copy"), self)
        button.setAccessibleName(self.tr("Copy {what}").format(what=title))
        button.setToolTip(self.tr("Copy {what}").format(what=title))
        button.clicked.connect(lambda: QGuiApplication.clipboard().setText(make()))
        for column, widget in enumerate((label, edit, button)):
            self._grid.addWidget(widget, row, column)
        self._texts[name] = _Text(edit, make)
        self._buttons[name] = button

    def _command(self) -> str:
        subject = self.session.state.subject
        return "" if subject is None else plan_command(subject.path, self.session.inputs)

    def _environment(self) -> str:
        outcome = self.session.outcome
        plan = None if outcome is None else outcome.plan
        return "" if plan is None else "\n".join(environment_lines(plan))

    def _modelfile(self) -> str:
        outcome = self.session.outcome
        plan = None if outcome is None else outcome.plan
        return "" if plan is None else "\n".join(modelfile_lines(plan))

    def _server(self) -> str:
        subject, outcome = self.session.state.subject, self.session.outcome
        if subject is None or outcome is None or outcome.plan is None:
            return ""
        return server_command(subject.path, outcome.plan, subject.projector)
