"""Names and tips for those who cannot see the window, or do not know it yet."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QTableView,
    QTabWidget,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.qt.main_window import MainWindow
from explorer.qt.quick_open import QuickOpen

_NAMELESS = (  # a screen reader has nothing else to tell what they are
    QAbstractScrollArea, QLineEdit, QComboBox, QPlainTextEdit, QProgressBar, QTabWidget,
)  # fmt: skip


def without_name(parent: QWidget) -> list[str]:
    """Return the widgets that take the keyboard or show something, and have no name."""
    found = []
    for widget in parent.findChildren(QWidget):
        inner = type(widget).__module__.startswith("PySide6") and isinstance(
            widget.parent(), QComboBox | QAbstractItemView | QLineEdit
        )
        inner = inner or isinstance(widget, QHeaderView)
        popup = widget.window() is not parent
        if isinstance(widget, _NAMELESS) and not widget.accessibleName() and not (inner or popup):
            found.append(f"{type(widget).__name__} in {type(widget.parent()).__name__}")
    return found


def test_everything_that_takes_the_keyboard_has_a_name(qtbot: QtBot, window: MainWindow) -> None:
    assert without_name(window) == []
    names = [
        view.accessibleName()
        for view in window.findChildren(QTableView)
        if view.isVisibleTo(window)
    ]
    assert len(names) == len(set(names))  # two of one name would be told apart by nothing


def test_dialogs_have_names_too(qtbot: QtBot, window: MainWindow) -> None:
    window.show_quick_open()
    dialog = window.findChildren(QuickOpen)[0]
    assert without_name(dialog) == []
    qtbot.waitUntil(lambda: not window.runner.jobs)
    dialog.reject()
    window.actions_.shortcuts.trigger()
    guide = window.help.guide
    assert guide is not None
    assert without_name(guide) == []
    guide.reject()


def test_every_button_says_what_it_does(window: MainWindow) -> None:
    for button in window.findChildren(QAbstractButton):
        if type(button).__name__ == "QAbstractButton" or button.objectName().startswith("qt_"):
            continue  # the corner of a table, the arrows of a menu
        if isinstance(button.parent(), QLineEdit):
            continue  # Qt's own button that clears the line
        if button.isHidden() and not button.text():
            continue  # it gets its words when it is shown
        name = button.accessibleName() or button.text()
        assert name.strip(), button
        if isinstance(button, QToolButton) and button.window() is window and button.text():
            assert button.toolTip(), button.text()


def test_every_command_tells_itself_in_the_status_bar(window: MainWindow) -> None:
    for action in window.actions_.all():
        assert action.text()
        assert action.objectName()
        if action not in window.actions_.schemes.values():
            assert action.statusTip(), action.text()


def test_columns_whose_names_do_not_explain_them_have_tips(window: MainWindow) -> None:
    columns = {column.name: column for column in window.panels.tensors.widget.model.columns}
    header = window.panels.tensors.widget.model.headerData
    for name in ("role", "shape", "bits_per_weight", "offset"):
        number = list(columns).index(name)
        role = Qt.ItemDataRole.ToolTipRole
        assert header(number, Qt.Orientation.Horizontal, role) == columns[name].tip != ""
    assert "type:q4_k" in window.panels.tensors.widget.bar.edit.toolTip()


def test_the_panels_describe_what_is_under_the_cursor(qtbot: QtBot, window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.raw)
    qtbot.waitUntil(lambda: window.panels.raw.widget.hex.field_at(0) is not None)
    assert window.panels.raw.widget.hex.accessibleDescription().startswith("Magic")
    assert window.panels.raw.widget._legend.accessibleDescription().startswith("Magic, Version")
    qtbot.waitUntil(lambda: not window.runner.jobs)
