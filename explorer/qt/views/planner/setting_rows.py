"""Lines of settings: what is asked for, what holds, and a way back to the default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import QEvent
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QGridLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from explorer.planner.profiles import PROFILES
from explorer.planner.result import Plan
from explorer.planner.settings import EffectiveSettings
from explorer.present.explanations import picture_text
from explorer.qt.models.planner.session import PlannerSession
from explorer.qt.theme import warning_colour
from explorer.qt.views.labels import plain_label
from explorer.qt.views.planner.editors import CalmSpinBox
from explorer.qt.views.planner.painting import plain_tip
from explorer.qt.views.planner.stop_slider import StopSlider
from explorer.text import plain_text

_DIFFERS: Final = "≠"
_WIDEST_HOLDING: Final = "≠ 1,048,576 "


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        title: What it is called, with its mnemonic.
        name: Its name in `Settings`.
        editor: Where it is typed or chosen.
        follow: Shows what is asked for, or what holds where nothing is.
        shown: Returns what holds as text.
        slider: Where it is dragged, or None.
        wide: Whether what is asked for always holds, so that the editor has the room of both.
    """

    title: str
    name: str
    editor: QWidget
    follow: Callable[[Any, EffectiveSettings | None], None]
    shown: Callable[[Plan], str]
    slider: StopSlider | None = None
    wide: bool = False


@dataclass(frozen=True)
class _Row:
    """A setting with what stands beside it.

    Attributes:
        setting: The setting.
        holds: Says what holds.
        reset: Asks for nothing again.
    """

    setting: Setting
    holds: QLabel
    reset: QToolButton


class SettingRows(QWidget):
    """A grid of settings that follows a session."""

    def __init__(self, session: PlannerSession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._rows: list[_Row] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(6)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        self._add_header()
        session.inputs_changed.connect(self.follow)
        session.planned.connect(self.follow)

    def holds_text(self, name: str) -> str:
        """Return what is said to hold for a setting."""
        return next(row.holds.text() for row in self._rows if row.setting.name == name)

    def reset_button(self, name: str) -> QToolButton:
        """Return the button that resets a setting."""
        return next(row.reset for row in self._rows if row.setting.name == name)

    def _add_header(self) -> None:
        for column, text in ((1, self.tr("Asked for")), (2, self.tr("Holds"))):
            label = QLabel(text, self)
            label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            self._grid.addWidget(label, 0, column)

    def add(self, setting: Setting) -> None:
        """Add a line, and the slider that belongs to it below."""
        plain = setting.title.replace("&", "")
        label = QLabel(setting.title, self)
        label.setBuddy(setting.editor)
        for part in (label, setting.editor, setting.slider):
            if part is not None:
                part.setWhatsThis(setting.editor.toolTip())
        setting.editor.setObjectName(f"planner_{setting.name}")
        setting.editor.setAccessibleName(plain)
        if isinstance(setting.editor, CalmSpinBox):
            setting.editor.lineEdit().setAccessibleName(plain)
        setting.editor.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        texts = isinstance(setting.editor, QAbstractButton)
        setting.editor.setMinimumWidth(setting.editor.sizeHint().width() if texts else 60)
        holds = plain_label(self)
        holds.setWhatsThis(picture_text("holds"))
        holds.setFixedWidth(self.fontMetrics().horizontalAdvance(_WIDEST_HOLDING))
        reset = QToolButton(self)
        reset.setText("↺")
        reset.setAutoRaise(True)
        reset.setAccessibleName(self.tr("Reset {setting}").format(setting=plain))
        reset.setToolTip(self.tr("Ask for nothing: {setting} as by default").format(setting=plain))
        reset.clicked.connect(lambda: self._reset(setting.name))
        row = self._grid.rowCount()
        for column, widget in enumerate((label, setting.editor, holds, reset)):
            self._grid.addWidget(widget, row, column)
        if setting.wide:
            self._grid.addWidget(setting.editor, row, 1, 1, 2)
            holds.hide()
        if setting.slider is not None:
            self._grid.addWidget(setting.slider, row + 1, 0, 1, 4)
        self._rows.append(_Row(setting, holds, reset))

    def _reset(self, name: str) -> None:
        if name == "profile":
            self._session.set_profile(next(iter(PROFILES)))
        else:
            self._session.apply({name: None})

    def tab_chain(self) -> list[QWidget]:
        """Return what takes the keyboard, in the order in which it is seen."""
        chain: list[QWidget] = []
        for row in self._rows:
            chain += [row.setting.editor, row.reset]
            if row.setting.slider is not None:
                chain.append(row.setting.slider)
        return chain

    def follow(self) -> None:
        """Show what is asked for, and what the latest plan makes of it."""
        inputs, outcome = self._session.inputs, self._session.outcome
        plan = None if outcome is None else outcome.plan
        reasons = {}
        if plan is not None:
            reasons = {one.name: one.reason for one in plan.effective.differences}
        for row in self._rows:
            asked = getattr(inputs.settings, row.setting.name, None)
            row.setting.follow(asked, None if plan is None else plan.effective)
            changed = asked is not None
            if row.setting.name == "profile":
                changed = inputs.profile != next(iter(PROFILES))
            row.reset.setEnabled(changed)
            self._show_holding(row, plan, reasons.get(row.setting.name, ""))

    def _show_holding(self, row: _Row, plan: Plan | None, reason: str) -> None:
        text = "–" if plan is None else row.setting.shown(plan)
        text = f"{_DIFFERS} {text}" if reason else text
        if text != row.holds.text():
            row.holds.setText(text)
        origin = "" if plan is None else plan.effective.origins.get(row.setting.name, "")
        tip = plain_text(reason or origin)
        if tip != row.holds.accessibleDescription():
            row.holds.setAccessibleDescription(tip)
            row.holds.setToolTip(plain_tip(tip))
            self._take_colours(row)

    @staticmethod
    def _take_colours(row: _Row) -> None:
        """Show what is not as it was asked for in the warning colour, beside its sign."""
        palette = QGuiApplication.palette()
        if row.holds.text().startswith(_DIFFERS):
            palette.setColor(QPalette.ColorRole.WindowText, warning_colour(palette))
        row.holds.setPalette(palette)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:  # dark has become light
            for row in self._rows:
                self._take_colours(row)
