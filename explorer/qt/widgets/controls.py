"""Controls as a page describes them: a text, what it does, what one chooses among."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from PySide6.QtCore import Qt, SignalInstance
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLabel,
    QSizePolicy,
    QSplitter,
    QToolButton,
    QWidget,
)

from explorer.qt.widgets.labels import plain_label

Slot: TypeAlias = Callable[[], object] | SignalInstance


def button(owner: QWidget, text: str, tip: str, slot: Slot | None = None) -> QToolButton:
    made = QToolButton(owner)
    made.setText(text)
    made.setToolTip(tip)
    if slot is not None:
        made.clicked.connect(slot)
    return made


def picture_buttons(
    owner: QWidget, copy: Slot, save: Slot, *, place: str = "plot"
) -> tuple[QToolButton, QToolButton]:
    """Return the buttons that copy and save a picture; `place` is where their keys work."""
    return (
        button(owner, "Copy picture", f"Copy the picture (Ctrl+Shift+C in the {place})", copy),
        button(owner, "Save…", f"Save the picture or its data (Ctrl+S in the {place})", save),
    )


def check(owner: QWidget, text: str, tip: str = "", *, on: bool = False) -> QCheckBox:
    """Return a box that is checked or not."""
    made = QCheckBox(text, owner)
    made.setToolTip(tip)
    made.setChecked(on)
    return made


MOST_VISIBLE: Final = 30
"""Items of a list that drops down: it is as tall as they are, and scrolls beyond that."""


def choice(owner: QWidget, name: str, tip: str, *items: str | tuple[object, ...]) -> QComboBox:
    """Return a list to choose from.

    Args:
        owner: Where it stands.
        name: What screen readers call it.
        tip: Its tool tip.
        items: A text each, or a text, the data behind it, and perhaps a tool tip.
    """
    made = QComboBox(owner)
    made.setAccessibleName(name)
    made.setToolTip(tip)
    made.setMaxVisibleItems(MOST_VISIBLE)
    for item in items:
        text, data, about = (*((item,) if isinstance(item, str) else item), None, None)[:3]
        made.addItem(str(text), data)
        made.setItemData(made.count() - 1, about, Qt.ItemDataRole.ToolTipRole)
    return made


def label_of(control: QWidget, text: str) -> QLabel:
    """Return the label before a control, whose letter behind ``&`` leads there."""
    label = plain_label(control.parentWidget(), text)
    label.setBuddy(control)
    return label


BETWEEN: Final = "   ·\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}"
"""What stands between the parts of a read-out: no line of it ends with the sign."""

LONGEST_READOUT: Final = 1024
"""Characters of a read-out: laying out a name of 65,000 letters takes Qt 50 ms."""


def readout(owner: QWidget, lines: int, name: str = "Under the pointer") -> QLabel:
    """Return the text below a picture, always so many lines high: the picture must not jump."""
    label = plain_label(owner, wraps=True)
    label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    label.setFixedHeight(lines * label.fontMetrics().lineSpacing() + 4)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    label.setAccessibleName(name)
    return label


def split(
    owner: QWidget, *parts: tuple[QWidget, int], vertical: bool = False, grows: int | None = None
) -> QSplitter:
    """Return widgets side by side, or above each other, between which the user can move borders.

    Args:
        owner: Where they stand; Tab comes to them in the order in which widgets get it.
        parts: The widgets, with their widths or heights in pixels.
        vertical: Whether they stand above each other.
        grows: The one that a larger window makes larger; None for all.
    """
    splitter = QSplitter(Qt.Orientation.Vertical if vertical else Qt.Orientation.Horizontal, owner)
    for widget, _ in parts:
        splitter.addWidget(widget)
    if grows is not None:
        splitter.setStretchFactor(grows, 1)
    splitter.setChildrenCollapsible(False)
    splitter.setSizes([size for _, size in parts])
    return splitter
