"""What holds for everything that the window shows, found by walking over all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.qt.app import install_roles
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.qt.widgets.labels import ElidedLabel
from tests.helpers.everywhere import dialogs, everywhere, named, settle, visible

pytestmark = pytest.mark.slow

_WIDTH, _HEIGHT = 1280, 800
_MOST_STOPS = 120


@pytest.fixture
def full(make_window: Callable[..., MainWindow], demo_path: Path, qtbot: QtBot) -> MainWindow:
    """A window of the usual size, with a tensor selected."""
    install_roles()
    window = make_window(demo_path)
    window.resize(_WIDTH, _HEIGHT)
    window.reveal_tensor(window.documents[0], 3)
    settle(qtbot, window)
    return window


def _all_places(qtbot: QtBot, window: MainWindow) -> Iterator[tuple[str, QWidget]]:
    """Walk over everything, compared with nothing and with a type; then the dialogs and the frame.

    Without the reference the walk is over the one panel that then shows other pages.
    """
    window.panels.references.choose(None)
    window.panels.setCurrentWidget(window.panels.errors)
    settle(qtbot, window)
    yield "Errors without a reference", window.panels.errors
    window.panels.references.choose(Rounding("Q4_0"))
    yield from everywhere(qtbot, window)
    yield from dialogs(qtbot, window)
    yield "Open models", window.open_models
    yield "Status bar", window.statusBar()


def _cut(widget: QWidget) -> str:
    """Return the text that a widget has no room for, unless it loses its middle by design."""
    width = widget.width() + 1
    match widget:
        case ElidedLabel():
            return ""
        case QLabel() if not widget.wordWrap() and not widget.pixmap():
            lines = widget.text().replace("&", "").split("\n")
            needed = max(map(widget.fontMetrics().horizontalAdvance, lines))
            return widget.text() if width < needed else ""
        case QAbstractButton() if widget.text():
            return widget.text() if width < widget.sizeHint().width() else ""
        case QComboBox():
            text = widget.currentText()
            return text if width < widget.fontMetrics().horizontalAdvance(text) + 24 else ""
        case QHeaderView() if widget.orientation() == Qt.Orientation.Horizontal:
            return " ".join(_cut_sections(widget))
    return ""


def _cut_sections(header: QHeaderView) -> Iterator[str]:
    """Yield the titles of columns that are cut and that nobody can make wider."""
    for section in range(header.count() if header.model() is not None else 0):
        fixed = header.sectionResizeMode(section) == QHeaderView.ResizeMode.Fixed
        if not fixed or header.isSectionHidden(section):
            continue
        if header.sectionSize(section) + 1 < header.sectionSizeHint(section):
            yield str(header.model().headerData(section, Qt.Orientation.Horizontal))


def test_nothing_is_cut_off(qtbot: QtBot, full: MainWindow) -> None:
    cut = set()
    for place, page in _all_places(qtbot, full):
        assert full.width() == _WIDTH, place  # nothing asks for a wider window
        assert full.height() == _HEIGHT, place
        for widget in visible(page):
            if _cut(widget):
                cut.add(f"{place}: {named(widget)}: {_cut(widget)}")
    _none(cut)


def _none(found: set[str]) -> None:
    if found:
        pytest.fail("\n".join(sorted(found)))


_CLIENT = QAccessible.Role.Client


def _complaints(widget: QWidget) -> Iterator[str]:
    """Yield what those who cannot see a widget that takes the keyboard would miss."""
    interface = QAccessible.queryAccessibleInterface(widget)
    name = interface.text(QAccessible.Text.Name).strip()
    if not (widget.accessibleName().strip() or name):
        yield "no name"
    if name == type(widget).__name__ or widget.accessibleName() == type(widget).__name__:
        yield "is called by its class"
    if interface.role() in (_CLIENT, QAccessible.Role.NoRole):
        yield f"role {interface.role().name}"
    if isinstance(widget, QComboBox) and not _labelled(interface) and not widget.toolTip():
        # on X11 and Wayland the name of a combo box is its value: a label or a tip must tell
        yield "a list of choices without a label or a tip"
    ours = type(widget).__module__.startswith("explorer.")
    told = interface.text(QAccessible.Text.Description) or interface.text(QAccessible.Text.Value)
    if ours and hasattr(widget, "accessible_role") and not told:
        yield "says nothing of what it shows"


def _labelled(interface: object) -> bool:
    label = QAccessible.RelationFlag.Label
    return any(flag & label for _, flag in interface.relations(label))  # type: ignore[attr-defined]


def _takes_keys(widget: QWidget) -> bool:
    """Whether Tab has to come here."""
    policy = widget.focusPolicy()
    inner = isinstance(widget, QLineEdit) and isinstance(
        widget.parent(), QAbstractSpinBox | QComboBox
    )
    return (
        bool(policy & Qt.FocusPolicy.TabFocus)
        and widget.isEnabled()
        and widget.focusProxy() is None
        and not inner
    )


def _round(start: QWidget, key: Qt.Key) -> list[QWidget]:
    """Press Tab, or Shift+Tab, until the focus is where it has been; return where it went."""
    start.setFocus(Qt.FocusReason.TabFocusReason)
    stops: list[QWidget] = []
    for _ in range(_MOST_STOPS):
        focus = QApplication.focusWidget()
        if focus is None or focus in stops:
            break
        stops.append(focus)
        QTest.keyClick(focus, key)
    return stops


def test_those_who_cannot_see_or_point_get_everywhere(qtbot: QtBot, full: MainWindow) -> None:
    missing, unreached, trapped, counted = set(), set(), set(), 0
    for place, page in _all_places(qtbot, full):
        keyed = [widget for widget in visible(page) if _takes_keys(widget)]
        for widget in visible(page):
            if _takes_keys(widget) or hasattr(widget, "accessible_role"):
                counted += 1
                missing.update(f"{place}: {named(widget)}: {what}" for what in _complaints(widget))
        if not keyed or page in (full.open_models, full.statusBar()):
            continue
        for key in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
            stops = _round(keyed[0], key)
            if QApplication.focusWidget() is not keyed[0]:
                trapped.add(f"{place}: {key.name}: {[named(stop) for stop in stops[-3:]]}")
            unreached.update(f"{place}: {key.name}: {named(w)}" for w in keyed if w not in stops)
    assert counted > 300
    _none(missing)
    _none(trapped)
    _none(unreached)
