"""Figures are asked what they mean by pointing and by keys; all of them: `tests/qt/walk`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import QAbstractItemView, QApplication, QLabel, QWhatsThis, QWidget
from pytestqt.qtbot import QtBot

from explorer.formats import open_model
from explorer.planner import Device, Hyperparameters, Settings, plan
from explorer.planner.engines.registry import engines_for
from explorer.planner.plans import Plan
from explorer.present import explanations
from explorer.present.panels import PANELS
from explorer.present.tables.survey import METRICS
from explorer.present.tables.table import PLACE, Column, Table
from explorer.qt.help.menu import explain_focus
from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.table_model import TableModel
from tests.helpers.everywhere import settle
from tests.planner.vllm_cases import folder_of
from tests.present.test_tables import tables
from tests.qt.walk.texts import meaning_of

ACROSS = Qt.Orientation.Horizontal


def test_the_map_of_the_model_tells_of_the_figure_that_it_shows(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.panels.setCurrentWidget(window.panels.survey)
    settle(qtbot, window)
    body = window.panels.survey.widget
    for place in range(1, body.map.colour_by.count()):
        body.map.colour_by.setCurrentIndex(place)
        assert METRICS[place - 1].tip in body.map.map.whatsThis()
    settle(qtbot, window)


@pytest.mark.parametrize("free", [(), (1 << 20, 8 << 20), (8 << 30,)])
def test_every_figure_of_a_plan_says_what_it_is(demo_path: Path, free: tuple[int, ...]) -> None:
    devices = tuple(Device(str(n), "CUDA", free=size) for n, size in enumerate(free))
    with open_model(demo_path) as model:
        for engine in engines_for(Hyperparameters.from_model(model)):
            explain(plan(model, Settings(context=512), devices, profile=engine.name))


def test_every_figure_of_a_plan_of_a_folder_says_what_it_is() -> None:
    folder = folder_of("llama-3.1-8b|none")
    devices = {
        library: Device("0", library, free=24 << 30, total=32 << 30, compute=(8, 9))
        for library in ("CUDA", "Metal")
    }
    programs = {"vllm": "CUDA", "transformers": "CUDA", "mlx": "Metal", "ollama-mlx": "Metal"}
    for profile, library in programs.items():
        where = "blobs" if profile == "ollama-mlx" else "folder"
        h = Hyperparameters(
            block_count=folder.layers,
            layer_bytes=16 << 30,
            **{where: folder},  # type: ignore[arg-type]
        )
        explain(plan(h, Settings(context=512), (devices[library],), profile=profile))


def explain(made: Plan) -> None:
    """See that each figure of a plan has a sentence."""
    assert made.terms
    for term in made.terms:
        assert explanations.plan_text(term.name).endswith("."), (made.engine.name, term.name)


def all_texts() -> list[str]:
    """Return every text of the program that says what something means."""
    dictionaries = [table for name, table in vars(explanations).items() if name.endswith("_TEXTS")]
    found = [text for texts in dictionaries for text in texts.values()]
    found += [panel.explanation for panel in PANELS.values()]
    found += [column.tip for _, table in tables() for column in table if column.tip]
    return [*found, *(metric.tip for metric in METRICS)]


def test_the_texts_are_sentences_of_plain_text() -> None:
    texts = all_texts()
    assert len(texts) > 150
    for text in texts:
        assert text == text.strip()
        assert text[:1].isupper()
        assert not GuiQt.mightBeRichText(text)
    assert len({panel.explanation for panel in PANELS.values()}) == len(PANELS)


# what the offscreen platform cannot do for a pop-up
without_grabs = pytest.mark.qt_log_ignore("does not support (raise|grabbing)", extend=True)


def popups() -> list[QWidget]:
    return [
        widget
        for widget in QApplication.topLevelWidgets()
        if widget.metaObject().className() == "QWhatsThat" and widget.isVisible()
    ]


def point_at(widget: QWidget, place: QPoint) -> bool:
    """Click somewhere as one does in the mode "What's this?"; return whether a text is shown."""
    event = QHelpEvent(QEvent.Type.WhatsThis, place, widget.mapToGlobal(place))
    QApplication.sendEvent(widget, event)
    shown = bool(popups())
    QWhatsThis.hideText()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    return shown


@without_grabs
def test_pointing_at_a_fact_a_cell_and_a_header_explains_it(window: MainWindow) -> None:
    overview, table = window.panels.overview.widget, window.panels.tensors.widget.table
    fact = next(label for label in overview.findChildren(QLabel) if label.text() == "Parameters")
    assert point_at(fact, QPoint(3, 3))
    window.panels.setCurrentWidget(window.panels.tensors)
    assert point_at(table.viewport(), table.visualRect(table.model().index(3, 3)).center())
    assert point_at(table.horizontalHeader().viewport(), QPoint(5, 5))


@without_grabs
def test_the_mode_is_entered_by_its_command(window: MainWindow) -> None:
    window.actions_.whats_this.trigger()
    try:
        assert QWhatsThis.inWhatsThisMode()
    finally:
        QWhatsThis.leaveWhatsThisMode()


@without_grabs
def test_the_keyboard_explains_the_current_cell_or_else_the_panel(
    qtbot: QtBot, window: MainWindow
) -> None:
    table: QAbstractItemView = window.panels.tensors.widget.table
    window.panels.setCurrentWidget(window.panels.tensors)
    table.setFocus()
    table.setCurrentIndex(table.model().index(2, 3))
    said = explain_focus()
    QWhatsThis.hideText()
    assert said == table.model().headerData(3, ACROSS, Qt.ItemDataRole.WhatsThisRole) != ""
    window.panels.tensors.widget.bar.edit.setFocus()
    assert explain_focus() == PANELS["tensors"].explanation
    QWhatsThis.hideText()
    window.setFocus()
    qtbot.waitUntil(lambda: not popups())


def test_tool_tips_do_not_cover_tables_whose_columns_explain_themselves() -> None:
    column = Column[int]("n", "N", PLACE, "a number", int)
    model = TableModel()
    told = replace(column, row_tip=lambda row: f"number {row}")
    model.set_content(Table(column, told), range(2))
    tip = Qt.ItemDataRole.ToolTipRole
    assert [model.index(1, c).data(tip) for c in range(2)] == [None, "number 1"]
    assert [meaning_of(model.index(1, c)) for c in range(2)] == ["a number", "number 1"]
    assert model.headerData(1, ACROSS, tip) == "a number"
