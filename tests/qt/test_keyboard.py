"""Everything by keys alone: a person without a mouse goes through every panel and does its work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QFileDialog,
    QMenu,
    QPushButton,
    QTabBar,
    QTableView,
    QTreeView,
    QWidget,
)
from pytestqt.qtbot import QtBot

from explorer.planner import Device
from explorer.present.panels import GROUPS, WORST_TENSORS, panels_of
from explorer.qt import main_window
from explorer.qt.main_window import MainWindow
from explorer.qt.planner.controls import StopSlider
from explorer.qt.planner.devices import MachineDialog
from explorer.qt.planner.picture import LayerStrip, MemoryBars
from explorer.qt.references import Rounding
from explorer.qt.survey.map_page import ModelMap
from explorer.qt.weights.block.strip import BlockStrip
from explorer.qt.weights.map.plot import MapPlot
from explorer.qt.widgets.figures import FigureDialog
from explorer.qt.widgets.histogram_plot import HistogramPlot
from explorer.qt.widgets.icons import FoldButton
from tests.helpers.everywhere import settle
from tests.helpers.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    # the offscreen platform has no window manager that could do these for a menu
    pytest.mark.qt_log_ignore("^This plugin does not support (raise|grabbing|propagateSizeHints)"),
]

_KEY, _MOD = Qt.Key, Qt.KeyboardModifier
_MOST_TABS = 60
_NUMBER = re.compile(r"-?[0-9][0-9.]*(e[-+]?[0-9]+)?")


class Hands:
    """Two hands on a keyboard: whatever they do goes to what has the focus."""

    def __init__(self, qtbot: QtBot, window: MainWindow) -> None:
        self.qtbot = qtbot
        self.window = window

    @property
    def focus(self) -> QWidget:
        """What hears the next key."""
        popup = QApplication.activePopupWidget()
        focus = popup or QApplication.focusWidget()
        assert focus is not None
        return focus

    def press(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = _MOD.NoModifier) -> None:
        """Press a key, and wait for what it starts."""
        QTest.keyClick(self.focus, key, modifiers)
        settle(self.qtbot, self.window)

    def type(self, text: str) -> None:
        """Type a text over what is selected."""
        self.press(_KEY.Key_A, _MOD.ControlModifier)
        QTest.keyClicks(self.focus, text)
        settle(self.qtbot, self.window)

    def panel(self, name: str) -> None:
        """Show a page: Ctrl and its number, or Alt and that of its group."""
        pages = [*panels_of("model"), "compare", "weights", "errors", "survey"]
        group = name not in pages
        number = 1 + (list(GROUPS) if group else pages).index(name)
        modifier = _MOD.AltModifier if group else _MOD.ControlModifier
        self.press(getattr(_KEY, f"Key_{number}"), modifier)
        assert self.window.panels.page == name

    def tab_to(self, wanted: type[QWidget] | QWidget, key: Qt.Key = _KEY.Key_Tab) -> QWidget:
        """Press Tab until a widget, or one of a kind, has the focus."""
        for _ in range(_MOST_TABS):
            focus = self.focus
            if focus is wanted or (isinstance(wanted, type) and isinstance(focus, wanted)):
                return focus
            QTest.keyClick(focus, key)
        pytest.fail(f"Tab does not come to {wanted}")

    def menu(self) -> QMenu:
        """Press the menu key; return the menu."""
        focus = self.focus
        place = focus.inputMethodQuery(Qt.InputMethodQuery.ImCursorRectangle).center()
        event = QContextMenuEvent(
            QContextMenuEvent.Reason.Keyboard, place, focus.mapToGlobal(QPoint(place))
        )
        QApplication.sendEvent(focus, event)
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu)
        return menu

    def choose(self, text: str) -> None:
        """Go down in an open menu to a command, and press Enter."""
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu)
        for _ in range(len(menu.actions()) + 1):
            QTest.keyClick(menu, _KEY.Key_Down)
            active = menu.activeAction()
            if active is not None and active.text().replace("&", "") == text:
                QTest.keyClick(menu, _KEY.Key_Return)
                self.come_back()
                return
        pytest.fail(f"{text} is not in the menu")

    def come_back(self) -> None:
        """Activate the window again, as a window manager does when a menu or a dialog closes."""
        self.window.activateWindow()
        self.qtbot.waitUntil(self.window.isActiveWindow)
        settle(self.qtbot, self.window)

    def page(self, bar: QTabBar, title: str) -> None:
        """Go to the tabs of a panel, and along them to a page."""
        self.tab_to(bar)
        for key in (_KEY.Key_Left, _KEY.Key_Right):
            for _ in range(bar.count()):
                if bar.tabText(bar.currentIndex()) == title:
                    return
                self.press(key)
        pytest.fail(f"there is no page {title}")


@pytest.fixture
def hands(
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    demo_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Hands]:
    """Hands in a window in which a model was opened with Ctrl+O."""
    window = make_window()
    monkeypatch.setattr(main_window, "ask_models", lambda _parent: [demo_path])
    hands = Hands(qtbot, window)
    qtbot.waitUntil(window.isActiveWindow)
    QTest.keyClick(window, _KEY.Key_O, _MOD.ControlModifier)
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    settle(qtbot, window)
    yield hands
    QTest.keyRelease(window, _KEY.Key_Control)  # else Qt still holds it down in the next test


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where every dialog that asks for a file to write points to."""
    path = tmp_path / "saved.csv"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: (str(path), ""))
    monkeypatch.setattr(FigureDialog, "open", FigureDialog.accept)
    return path


def _clipboard() -> str:
    return QGuiApplication.clipboard().text()


def test_the_table_of_tensors(hands: Hands, saved: Path) -> None:
    tensors = hands.window.panels.tensors.widget
    hands.panel("tensors")
    hands.press(_KEY.Key_F, _MOD.ControlModifier)
    hands.type("ffn type:q4_0")
    hands.press(_KEY.Key_Down)
    assert hands.focus is tensors.table
    assert 0 < tensors.model.rowCount() < tensors.model.content_count
    hands.press(_KEY.Key_Down)
    hands.press(_KEY.Key_C, _MOD.ControlModifier)
    assert "\t180224\t" in _clipboard()
    hands.press(_KEY.Key_A, _MOD.ControlModifier)
    hands.menu()
    hands.choose("Copy rows as JSON")
    assert _clipboard().count('"parameters": 180224') == tensors.model.rowCount()
    # sorting by the column of the cursor, and choosing columns
    names = [column.name for column in tensors.model.columns]
    for _ in names:
        if names[tensors.table.currentIndex().column()] == "bytes":
            break
        hands.press(_KEY.Key_Right)
    hands.press(_KEY.Key_S, _MOD.ControlModifier | _MOD.ShiftModifier)
    assert tensors.table.horizontalHeader().sortIndicatorSection() == names.index("bytes")
    assert tensors.table.isColumnHidden(names.index("role"))
    hands.press(_KEY.Key_L, _MOD.ControlModifier | _MOD.ShiftModifier)
    hands.choose("Role")
    assert not tensors.table.isColumnHidden(names.index("role"))
    hands.tab_to(tensors.table)
    hands.menu()
    hands.choose("Export table…")
    assert saved.read_text().startswith("name,")
    hands.press(_KEY.Key_Return)  # shows the weights
    assert hands.window.panels.currentWidget() is hands.window.panels.weights


def test_bytes(hands: Hands) -> None:
    raw = hands.window.panels.raw.widget
    hands.panel("raw")
    hands.tab_to(raw.goto)
    hands.type("0x20")
    hands.press(_KEY.Key_Return)
    assert hands.focus is raw.hex
    assert raw.hex.cursor_offset == 0x20
    hands.press(_KEY.Key_Right, _MOD.ShiftModifier)
    hands.press(_KEY.Key_C, _MOD.ControlModifier)
    hands.qtbot.waitUntil(lambda: len(_clipboard().split()) == 2)
    hands.press(_KEY.Key_F, _MOD.ControlModifier)
    hands.type("47 47 55 46")
    hands.press(_KEY.Key_Return)
    hands.press(_KEY.Key_F3)
    hands.tab_to(raw.hex)
    QTest.keyClick(hands.menu(), _KEY.Key_Escape)


def _choose_a_tensor(hands: Hands) -> None:
    """Choose the fourth tensor, in the table."""
    hands.panel("tensors")
    hands.tab_to(hands.window.panels.tensors.widget.table)
    hands.press(_KEY.Key_Home, _MOD.ControlModifier)
    for _ in range(3):
        hands.press(_KEY.Key_Down)


def test_weights(hands: Hands, saved: Path) -> None:
    _choose_a_tensor(hands)
    hands.panel("weights")
    view = hands.window.panels.weights.widget
    body = view
    bar = body.tabs.tabBar()
    hands.page(bar, "Histogram")
    plot = hands.tab_to(HistogramPlot)
    assert isinstance(plot, HistogramPlot)
    hands.press(_KEY.Key_Plus)
    assert plot.box.is_zoomed
    hands.press(_KEY.Key_Home)
    assert not plot.box.is_zoomed
    resting = plot.accessibleDescription()
    hands.press(_KEY.Key_Right)
    assert plot.accessibleDescription() != resting  # the bin is read out
    hands.press(_KEY.Key_S, _MOD.ControlModifier)
    assert saved.exists()
    bins = hands.tab_to(body.histogram.controls.bins)
    hands.press(_KEY.Key_Up)
    assert body.histogram.controls.bins.value() != 256
    assert bins is hands.focus
    hands.page(bar, "Map")
    tensor_map = hands.tab_to(MapPlot)
    hands.press(_KEY.Key_Right, _MOD.ControlModifier)
    assert "value" in tensor_map.accessibleDescription()
    QGuiApplication.clipboard().setText("nothing was copied")
    hands.press(_KEY.Key_C, _MOD.ControlModifier)
    assert _NUMBER.fullmatch(_clipboard())
    hands.page(bar, "Block")
    hands.press(_KEY.Key_PageDown, _MOD.ControlModifier)
    strip = hands.tab_to(BlockStrip)
    hands.press(_KEY.Key_Right)
    assert strip.accessibleDescription()
    hands.page(bar, "Values")
    hands.tab_to(QTableView)
    hands.press(_KEY.Key_Right)
    QGuiApplication.clipboard().setText("nothing was copied")
    hands.press(_KEY.Key_C, _MOD.ControlModifier)
    hands.qtbot.waitUntil(lambda: _NUMBER.fullmatch(_clipboard().strip()) is not None)


def test_errors_and_what_if(hands: Hands) -> None:
    _choose_a_tensor(hands)
    hands.panel("errors")
    original = hands.window.panels.compare_bar().original.list
    references = hands.tab_to(original)
    assert isinstance(references, QComboBox)
    QTest.keyClick(references, _KEY.Key_Down)  # opens the list, and starts nothing
    assert hands.window.panels.references.chosen is None
    QTest.keyClick(references.view(), _KEY.Key_End)
    QTest.keyClick(references.view(), _KEY.Key_Return)
    hands.come_back()
    assert isinstance(hands.window.panels.references.chosen, Rounding)
    body = hands.window.panels.errors.widget
    hands.page(body.tabs.tabBar(), "Density")
    hands.tab_to(body.pictures.density.panel.plot)
    hands.press(_KEY.Key_Right)
    hands.window.panels.show_page("what_if")
    hands.come_back()
    hands.tab_to(QTableView)
    hands.press(_KEY.Key_Down)


def test_survey(hands: Hands) -> None:
    hands.panel("survey")
    view = hands.window.panels.survey.widget
    body = view
    start = body.bar.button
    hands.tab_to(start)
    hands.press(_KEY.Key_Space)
    assert not view.session.missing
    assert hands.focus is body.tabs.tabBar()  # the button is gone
    chart = hands.tab_to(ModelMap)
    hands.press(_KEY.Key_Right)
    hands.press(_KEY.Key_C, _MOD.ControlModifier)
    assert "Tensor\t" in _clipboard()
    hands.tab_to(body.map.colour_by)
    hands.press(_KEY.Key_Down)
    assert chart.accessibleDescription()
    hands.page(body.tabs.tabBar(), WORST_TENSORS)
    hands.tab_to(body.worst_tensors.table)
    hands.press(_KEY.Key_Down)
    hands.press(_KEY.Key_Return)
    panels = hands.window.panels
    assert panels.currentWidget() in (panels.weights, panels.errors)


def test_a_survey_is_cancelled_with_escape(hands: Hands) -> None:
    hands.panel("survey")
    view = hands.window.panels.survey.widget
    body = view
    hands.tab_to(body.bar.button)
    QTest.keyClick(hands.focus, _KEY.Key_Space)
    hands.qtbot.waitUntil(lambda: body.bar.button.text() == "Cancel")
    QTest.keyClick(hands.focus, _KEY.Key_Escape)
    hands.qtbot.waitUntil(lambda: body.bar.button.text() != "Cancel")
    settle(hands.qtbot, hands.window)


def test_planner(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.qt.planner.state._ONE_STEP_S", PATIENCE_S)
    hands.panel("planner")
    view = hands.window.panels.planner.widget
    body = view.body
    assert body is not None
    hands.tab_to(body.controls.context_edit)
    hands.type("2k")
    hands.press(_KEY.Key_Return)
    assert view.state.inputs.settings.context == 2048
    slider = hands.tab_to(StopSlider)
    hands.press(_KEY.Key_Left)
    assert view.state.inputs.settings.context < 2048
    assert slider.accessibleDescription()
    hands.press(_KEY.Key_Z, _MOD.ControlModifier)
    assert view.state.inputs.settings.context == 4096  # the field and the slider are one step
    hands.press(_KEY.Key_Z, _MOD.ControlModifier | _MOD.ShiftModifier)
    assert view.state.inputs.settings.context < 2048
    assert not view.state.inputs.devices
    hands.tab_to(body.devices.add)  # the button where there is no GPU yet
    hands.press(_KEY.Key_Space)
    hands.type("rtx 3090")
    hands.press(_KEY.Key_Down)
    hands.press(_KEY.Key_Return)
    dialog = QApplication.activeModalWidget()
    if dialog is not None:
        QTest.keyClick(dialog, _KEY.Key_Escape)
    hands.come_back()
    assert len(view.state.inputs.devices) == 1  # Enter added it once
    assert "3090" in view.state.inputs.devices[0].name
    hands.tab_to(body.devices.add)  # that for one more
    hands.tab_to(body.devices.table)
    hands.press(_KEY.Key_Home)
    hands.press(_KEY.Key_Right)
    hands.press(_KEY.Key_F2)
    hands.type("2 MB")
    hands.press(_KEY.Key_Return)
    assert view.state.inputs.devices[0].free == 2 << 20


def test_pictures_of_the_planner(hands: Hands, saved: Path) -> None:
    hands.panel("planner")
    view = hands.window.panels.planner.widget
    body = view.body
    assert body is not None
    view.state.replace_inputs(devices=(Device("0", "CUDA", 2_000_000),))
    settle(hands.qtbot, hands.window)
    hands.tab_to(MemoryBars)
    hands.press(_KEY.Key_Right)
    hands.press(_KEY.Key_Return)
    assert body.pages.currentWidget() is body.details
    hands.tab_to(LayerStrip)
    hands.press(_KEY.Key_Right)
    hands.press(_KEY.Key_Left, _MOD.ControlModifier)
    assert view.state.inputs.settings.num_gpu is not None
    hands.page(body.pages.tabBar(), "Compare plans")
    hands.tab_to(body.compare.pin)
    hands.press(_KEY.Key_Space)
    assert len(view.state.scenarios) == 1
    hands.page(body.pages.tabBar(), "Use it")
    copy = hands.tab_to(QPushButton)
    hands.press(_KEY.Key_Space)
    assert copy.isEnabled()
    assert _clipboard().startswith("llama-server ")
    hands.page(body.pages.tabBar(), "Curves")
    hands.tab_to(body.curves.plot)
    hands.press(_KEY.Key_Left)
    context = view.state.inputs.settings.context
    hands.press(_KEY.Key_Right)
    assert context is not None
    assert view.state.inputs.settings.context > context
    hands.press(_KEY.Key_S, _MOD.ControlModifier)
    assert saved.exists()
    hands.tab_to(body.devices.table)
    hands.press(_KEY.Key_Down)
    hands.press(_KEY.Key_Delete)
    assert view.state.inputs.devices == ()


def test_the_frame(hands: Hands, tmp_path: Path) -> None:
    window = hands.window
    if not window.shell.tree.isVisible():  # in a narrow window
        hands.press(_KEY.Key_B, _MOD.ControlModifier)
    hands.tab_to(QTreeView, _KEY.Key_Backtab)
    hands.press(_KEY.Key_Home)
    for _ in range(4):
        hands.press(_KEY.Key_Down)
    hands.press(_KEY.Key_C, _MOD.ControlModifier)
    assert _clipboard()
    hands.menu()
    hands.choose("Copy path")
    assert _clipboard() == str(window.documents[0].path)
    hands.press(_KEY.Key_C, _MOD.ControlModifier | _MOD.AltModifier)
    hands.press(_KEY.Key_K, _MOD.ControlModifier)
    hands.type("attn_k")
    hands.press(_KEY.Key_Return)
    hands.come_back()
    assert window.panels.currentWidget() is window.panels.tensors
    hands.press(_KEY.Key_F1)
    dialog = QApplication.activeWindow()
    assert dialog is not None
    assert dialog is not window
    QTest.keyClick(dialog, _KEY.Key_Escape)
    hands.come_back()
    hands.panel("library")
    hands.press(_KEY.Key_F5)
    hands.press(_KEY.Key_W, _MOD.ControlModifier)
    assert window.documents == []


def test_tab_goes_down_a_page_of_weights(hands: Hands) -> None:
    window = hands.window
    window.resize(1280, 800)
    hands.panel("weights")
    hands.tab_to(window.open_models.bar.edit)
    QTest.keyClick(hands.focus, _KEY.Key_Tab)  # the filter is above the tree
    assert hands.focus is window.open_models.tree
    holder, tabs = window.panels.weights, window.panels.weights.widget.tabs
    for title in ("Histogram", "Map", "Values"):
        hands.page(tabs.tabBar(), title)
        tops = []
        for _ in range(_MOST_TABS):
            QTest.keyClick(hands.focus, _KEY.Key_Tab)
            if not holder.isAncestorOf(hands.focus):
                break
            tops.append(round(hands.focus.mapTo(holder, QPoint(0, 0)).y() / 16))
        assert tops == sorted(tops), title
        assert len(tops) > 1


def test_tab_comes_in_the_order_of_reading(hands: Hands) -> None:
    """Pictures before the tables beside them, bars before what they are above."""
    found = ["Go to offset, decimal or 0x…", "Find bytes", "Bytes of the file"]
    compared = ["A", "B", "Original", "Importance matrix"]
    for page, expected in {
        "raw": found,
        "weights": ["Number of bins", "Histogram of weights", "Statistics"],
        "compare": ["Pages", *compared],
    }.items():
        hands.panel(page)
        names: list[str] = []
        for _ in range(_MOST_TABS):
            names.append(hands.focus.accessibleName())
            QTest.keyClick(hands.focus, _KEY.Key_Tab)
        assert [one for one in dict.fromkeys(names) if one in expected] == expected, page


def test_the_search_means_the_model_that_is_shown(hands: Hands, tmp_path: Path) -> None:
    window = hands.window
    twin = tmp_path / "twin.gguf"
    twin.write_bytes(window.documents[0].path.read_bytes())
    window.open_paths([twin])
    hands.qtbot.waitUntil(lambda: len(window.documents) == 2)
    settle(hands.qtbot, window)
    for document in window.documents:
        window.reveal_model(document)
        settle(hands.qtbot, window)
        hands.press(_KEY.Key_K, _MOD.ControlModifier)
        hands.type("1.ffn_down errors")
        hands.press(_KEY.Key_Return)
        hands.come_back()
        assert window.panels.page == "errors"
        assert window.current is document


def test_the_machine_is_found_by_its_name(hands: Hands) -> None:
    hands.press(_KEY.Key_K, _MOD.ControlModifier)
    hands.type("machine")
    hands.press(_KEY.Key_Return)
    (dialog,) = hands.window.findChildren(MachineDialog)
    hands.qtbot.waitUntil(dialog.isVisible)
    dialog.reject()
    hands.come_back()


def test_keys_begin_on_the_page_in_front(hands: Hands) -> None:
    panels = hands.window.panels
    for name in ("overview", "metadata", "tensors", "raw", "library"):
        hands.panel(name)
        page = panels.currentWidget()
        assert page.isAncestorOf(hands.focus), name


def test_enter_presses_a_button(hands: Hands) -> None:
    window = hands.window
    hands.panel("overview")
    fold = hands.tab_to(FoldButton)
    assert isinstance(fold, FoldButton)
    hands.press(_KEY.Key_Return)
    assert window.panels.overview.widget.findChild(FoldButton).isChecked()
    hands.tab_to(window.top.appearance)
    menus = []

    def close_menu() -> None:  # an open menu of a button runs a loop of its own
        menus.append(QApplication.activePopupWidget())
        menus[0].close()

    QTimer.singleShot(200, close_menu)
    QTest.keyClick(hands.focus, _KEY.Key_Return)
    assert isinstance(menus[0], QMenu)
    hands.come_back()
    hands.panel("tensors")  # Enter in a list opens what is in it, and presses nothing
    hands.tab_to(QTableView)
    hands.press(_KEY.Key_Home)
    hands.press(_KEY.Key_Return)
    assert window.panels.currentWidget() is window.panels.weights
    assert QApplication.activeModalWidget() is None


def test_every_command_is_in_a_menu(hands: Hands) -> None:
    for menu in hands.window.findChildren(QMenu):
        menu.aboutToShow.emit()  # some are filled when they are opened
    listed = [action for menu in hands.window.findChildren(QMenu) for action in menu.actions()]
    for action in hands.window.actions_.all():
        assert action in listed, action.text()


@pytest.mark.parametrize("page", ["tensors", "metadata", "weights"])
def test_the_focus_stays_where_it_is_when_another_model_comes_in_front(
    qtbot: QtBot, hands: Hands, small_path: Path, page: str
) -> None:
    window = hands.window
    window.open_paths([small_path])
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    settle(qtbot, window)
    window.panels.show_page(page)
    settle(qtbot, window)
    tables = window.panels.currentWidget().findChildren(QTableView)
    table = next(each for each in tables if each.isVisible())
    table.setFocus()
    hands.press(_KEY.Key_W, _MOD.ControlModifier)
    assert len(window.documents) == 1
    assert table.hasFocus()
    settle(qtbot, window)
