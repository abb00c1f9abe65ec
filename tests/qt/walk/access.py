"""Checks for those who cannot see or point: names, the way of Tab, keys that are listed, menus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QContextMenuEvent, QKeySequence, QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QProgressBar,
    QTableView,
    QTabWidget,
    QToolButton,
    QTreeView,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.qt.help.guide import PANEL_KEYS
from explorer.qt.planner.picture import LayerStrip, MemoryBars
from explorer.qt.raw.hex_view import HexView
from explorer.qt.survey.by_layer import LayerLines
from explorer.qt.survey.map_page import ModelMap
from explorer.qt.weights.block.strip import BlockStrip
from explorer.qt.widgets.curves import SmallMultiples
from explorer.qt.widgets.plot import ThemedPlot
from tests.helpers.everywhere import named, visible
from tests.qt.walk.walking import Place

_MOST_STOPS = 120
_CLIENT = QAccessible.Role.Client
_NAMELESS = (  # a screen reader has nothing else to tell what they are
    *(QAbstractScrollArea, QLineEdit, QComboBox, QPlainTextEdit, QProgressBar, QTabWidget),
)
_LISTS = (QTableView, QTreeView, HexView)
_PICTURES = (ThemedPlot, ModelMap, LayerLines, SmallMultiples, MemoryBars, LayerStrip, BlockStrip)
ARROWS = ("Left", "Right", "Up", "Down")
LEAD = ["Show in", "Compare with", "Show in file manager"]


def everything_has_a_name(place: Place) -> Iterator[str]:
    """What takes the keyboard, or is a picture of ours, says what it is and what it shows.

    No two tables have one name: they would be told apart by nothing.
    """
    for widget in place.widgets:
        if _takes_keys(widget) or hasattr(widget, "accessible_role"):
            yield ""
            yield from (f"{named(widget)}: {what}" for what in _complaints(widget))
        inner = isinstance(widget, QHeaderView) or isinstance(
            widget.parent(), QComboBox | QAbstractSpinBox | QAbstractItemView | QLineEdit
        )
        if isinstance(widget, _NAMELESS) and not (widget.accessibleName() or inner):
            yield f"{named(widget)}: no name of its own"
    tables = [widget.accessibleName() for widget in place.widgets if isinstance(widget, QTableView)]
    yield from (f"{name}: of several tables" for name in tables if tables.count(name) > 1)


def buttons_say_what_they_do(place: Place) -> Iterator[str]:
    """Every button has words, and in a bar a tip, too."""
    for button in place.widgets:
        # not the corner of a table, the arrows of a menu, Qt's own button that clears a line
        qts = type(button) is QAbstractButton or button.objectName().startswith("qt_")
        if not isinstance(button, QAbstractButton) or qts or isinstance(button.parent(), QLineEdit):
            continue
        name = button.accessibleName() or button.text()
        yield "" if name.strip() else f"{named(button)} has no words"
        in_bar = isinstance(button, QToolButton) and place.is_page and button.text()
        if in_bar and not button.toolTip():
            yield f"{named(button)} has no tip"


def _complaints(widget: QWidget) -> Iterator[str]:
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


def tab_comes_everywhere(place: Place) -> Iterator[str]:
    """Tab and Shift+Tab come by everything of the window that takes keys, and back."""
    keyed = [widget for widget in visible(place.top) if _takes_keys(widget)]
    place.top.activateWindow()
    place.qtbot.waitUntil(place.top.isActiveWindow)
    for key in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
        stops = _round(keyed[0], key)
        if QApplication.focusWidget() is not keyed[0]:
            yield f"{key.name} is trapped: {[named(stop) for stop in stops[-3:]]}"
        for widget in keyed:
            yield "" if widget in stops else f"{key.name} does not reach {named(widget)}"


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


def keys_are_listed(place: Place) -> Iterator[str]:
    """The guide lists every key of a page."""
    if not place.is_page:
        return
    page = place.window.panels.currentWidget()
    known = {key for line in PANEL_KEYS[page.objectName()].values() for key in _listed(line)}
    known |= {"=", "Cancel"}  # "+" without Shift; a key that few keyboards have
    known |= {keys.toString() for action in place.window.actions() for keys in action.shortcuts()}
    for keys, name in _keys_of(page):
        yield "" if keys in known else f"{keys} ({name})"


def _keys_of(top: QWidget) -> Iterator[tuple[str, str]]:
    """Yield the keys of all commands in a widget, with their names."""
    for widget in (top, *top.findChildren(QWidget)):
        for action in widget.actions():
            for keys in action.shortcuts():
                yield keys.toString(), action.text()
    for shortcut in top.findChildren(QShortcut):
        sequences = shortcut.keys()
        yield from ((keys.toString(), type(shortcut.parent()).__name__) for keys in sequences)


def _listed(lines: str) -> set[str]:
    """Return the single keys of a line: "Ctrl+arrow keys" are four."""
    found = set()
    for part in lines.split(", "):
        before, _, _ = part.partition("arrow keys")
        found |= {before + arrow for arrow in ARROWS} if part.endswith("arrow keys") else {part}
    return {QKeySequence(keys).toString() for keys in found}


def menus_lead_on(place: Place) -> Iterator[str]:
    """Lists and pictures have a menu with where one can go on, in which no key is there twice."""
    if not place.is_page or place.window.panels.page == "library":
        return  # its models are not open yet: see its own tests
    for part in place.widgets:
        if isinstance(part, (*_LISTS, *_PICTURES)):
            within = part.viewport() if isinstance(part, QAbstractScrollArea) else part
            menu = open_menu(place.qtbot, within)
            leads = [plain(each.text()) for each in menu.actions()][-3:] == LEAD
            yield "" if leads else f"{named(part)} leads nowhere"
            yield from repeated(menu, named(part))
            menu.close()
            place.qtbot.waitUntil(lambda: QApplication.activePopupWidget() is None)


def pictures_are_copied(place: Place) -> Iterator[str]:
    """A key copies every picture, and another what it shows, in words with figures."""
    clipboard, window = QApplication.clipboard(), place.window
    for part in place.widgets if place.is_page else ():
        if isinstance(part, _PICTURES):
            clipboard.clear()
            window.activateWindow()
            part.setFocus()
            place.qtbot.waitUntil(part.hasFocus)
            control = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
            place.qtbot.keyClick(part, Qt.Key.Key_C, control)
            yield f"{named(part)} is not copied" if clipboard.image().isNull() else ""
            place.qtbot.keyClick(part, Qt.Key.Key_T, control)
            said = clipboard.text()
            yield "" if any(map(str.isdigit, said)) else f"{named(part)} says {said!r}"


def plain(text: str) -> str:
    """Return the text of a command without its mnemonic."""
    return text.replace("&", "")


def open_menu(qtbot: QtBot, widget: QWidget, place: QPoint | None = None) -> QMenu:
    """Open the context menu of a widget as the right button does; return it."""
    place = widget.rect().center() if place is None else place
    reason = QContextMenuEvent.Reason.Mouse
    QApplication.sendEvent(widget, QContextMenuEvent(reason, place, widget.mapToGlobal(place)))
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is not None)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    return menu


def repeated(menu: QMenu, where: str) -> Iterator[str]:
    """Yield each key that two entries of a menu have, there or below."""
    texts = [action.text() for action in menu.actions() if action.isVisible()]
    keys = [text.replace("&&", "").partition("&")[2][:1].lower() for text in texts]
    for key, count in Counter(filter(None, keys)).items():
        if count > 1:
            yield f"{where}: {key} in {[text for text in texts if f'&{key}' in text.lower()]}"
    for action in menu.actions():  # the wrapper of a submenu lives as long as its action's
        if isinstance(below := action.menu(), QMenu):
            yield from repeated(below, f"{where} / {plain(action.text())}")
