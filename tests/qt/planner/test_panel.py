"""The panel as a whole: what it says without a model, how it follows one, names and order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from explorer.errors import ExplorerError
from explorer.hardware import detect
from explorer.planner import Device, Settings
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.present.plan import Kind
from explorer.qt.document import Document
from explorer.qt.planner import panel as panel_module
from explorer.qt.planner.panel import PlannerView
from explorer.qt.theme import Scheme, apply_scheme, warning_colour
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.services import RecordingServices
from tests.helpers.window import unsafe_characters
from tests.planner.test_attachments import QWEN, write_projector
from tests.qt.planner.plan_models import GIB, MemoryNotes, Panel, write_model


@pytest.fixture
def empty(qtbot: QtBot, app: RecordingServices) -> PlannerView:
    """The planner without a model."""
    view = PlannerView(app, MemoryNotes())
    qtbot.addWidget(view)
    view.resize(900, 600)
    view.show()
    return view


def test_explains_itself_and_offers_the_demo(app: RecordingServices, empty: PlannerView) -> None:
    assert empty.placeholder.heading.text() == "No model is open"
    assert "KV cache" in empty.placeholder.sentence.text()
    empty.placeholder.button.click()
    assert app.calls("open_demo") == [()]
    assert empty.body is None


def test_reads_no_model_while_it_is_hidden(
    qtbot: QtBot, app: RecordingServices, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Document] = []
    original = panel_module.read_model

    def note(document: Document) -> object:
        read.append(document)
        return original(document)

    monkeypatch.setattr(panel_module, "read_model", note)
    view = PlannerView(app, MemoryNotes())
    qtbot.addWidget(view)
    view.show_document(document)
    qtbot.wait(0)
    assert read == []
    view.show()
    qtbot.waitUntil(lambda: read == [document] and view.body is not None)
    qtbot.waitUntil(lambda: not app.runner.jobs)


def test_the_demo_and_other_models_can_be_planned(panel: Panel, demo: Document) -> None:
    panel.state.set(context=8192)
    panel.settle()
    before, document = panel.state.inputs, panel.view._document
    panel.view.show_document(demo)
    panel.qtbot.waitUntil(lambda: panel.state.model.title == demo.title)
    panel.state.replace_inputs(profile=OLLAMA_013.name)
    panel.assert_shown()
    asked = panel.state.inputs
    assert asked.settings.context == 4096  # as of all, and it was trained for no more
    assert (asked.devices, asked.host) == (before.devices, before.host)
    panel.state.replace_inputs(profile=None)  # of it nothing is asked: it follows the library
    panel.view.machine.ask_of_all(2048, "q8_0")
    assert panel.state.inputs.settings == Settings(context=2048, kv_cache_type="q8_0")
    panel.view.show_document(document)
    assert panel.state.inputs == before
    panel.state.undo()
    assert panel.state.inputs.settings.context is None
    panel.settle()


def test_an_ollama_entry_is_planned_with_its_projector(
    panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    store = OllamaStore(tmp_path / "models")
    projector = GgufFile(
        keys=[("general.architecture", STRING, "clip")],
        tensors=[TensorSpec("v.blk.0.w", (1 << 18,), 0, bytes(1 << 20))],
    ).write(tmp_path / "projector.gguf")
    weights = write_model(tmp_path / "weights.gguf", blocks=2, width=256)
    layers = [
        store.layer("model", weights.read_bytes()),
        store.layer("projector", projector.read_bytes()),
    ]
    panel.show(load(store.manifest(layers)))
    panel.qtbot.waitUntil(lambda: panel.state.model.projector_bytes == 1 << 20)
    panel.settle()
    assert panel.state.current.result.plan.gpus[0].projector == 1 << 20
    assert panel.body.picture.bars.bars[0].nbytes(Kind.PROJECTOR) == 1 << 20


def test_a_projector_says_what_it_is(
    panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    write_projector(tmp_path / "mmproj.gguf", "qwen3vl_merger", **QWEN)
    panel.view.show_document(load(tmp_path / "mmproj.gguf"))
    panel.qtbot.waitUntil(panel.view.placeholder.isVisible)
    assert panel.view.placeholder.sentence.text().startswith("It is a projector (mmproj), which ")


def test_a_model_without_hyperparameters_says_why(panel: Panel, hostile: Document) -> None:
    panel.view.show_document(hostile)
    panel.qtbot.waitUntil(panel.view.placeholder.isVisible)
    assert "No plan can be made" in panel.view.placeholder.heading.text()
    assert unsafe_characters(panel.view.placeholder.sentence.text()) == set()
    panel.view.show_document(None)
    assert panel.view.placeholder.heading.text() == "No model is open"


def test_coming_back_to_a_model_reads_nothing_again(
    panel: Panel, document: Document, demo: Document
) -> None:
    subject = panel.state.model
    panel.view.show_document(demo)
    panel.qtbot.waitUntil(lambda: panel.state.model.title == demo.title)
    panel.view.show_document(document)
    assert panel.state.model is subject
    panel.settle()


def test_closing_in_the_middle_of_a_search_leaves_nothing_behind(
    qtbot: QtBot, app: RecordingServices, document: Document
) -> None:
    view = PlannerView(app, MemoryNotes())  # not the bot's, which would close it once more
    view.show()
    view.show_document(document)
    qtbot.waitUntil(lambda: view.body is not None)
    assert view.body is not None
    view.state.replace_inputs(devices=(Device("0", "CUDA", 4 * GIB),))
    view.body.answer.questions["context"].trigger()
    view.close()
    view.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    qtbot.waitUntil(lambda: not app.runner.jobs)


def test_damaged_notes_are_no_reason_not_to_start(qtbot: QtBot, app: RecordingServices) -> None:
    notes = MemoryNotes()
    notes.set_note("planner", '{"scenarios": [{"name": 3}]}')
    view = PlannerView(app, notes)
    qtbot.addWidget(view)
    assert view.state.scenarios == []
    assert notes.note("planner") == ""


def test_a_driver_that_fails_is_told(
    qtbot: QtBot, app: RecordingServices, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ExplorerError("the driver is away")

    monkeypatch.setattr(detect, "detect", fail)
    view = PlannerView(app, MemoryNotes())
    qtbot.addWidget(view)
    view.show()
    view.show_document(document)
    qtbot.waitUntil(lambda: bool(app.errors))
    assert view.body is not None  # one can still name devices
    qtbot.waitUntil(lambda: not app.runner.jobs)


def test_the_tab_key_goes_as_the_eye_does(qtbot: QtBot, panel: Panel) -> None:
    body = panel.body
    chain = [
        *body.devices.tab_chain(),
        *body.controls.tab_chain(),
        *body.answer.tab_chain(),
        body.picture.bars,
        body.picture.strip,
        body.pages.tabBar(),
    ]
    wanted = [w for w in chain if w.isVisible() and w.isEnabled()]
    wanted[0].setFocus()
    seen: list[QWidget] = [wanted[0]]
    for _ in range(len(wanted) - 1):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        seen.append(QApplication.focusWidget())
    assert [_name(w) for w in seen] == [_name(w) for w in wanted]
    places = [w.mapTo(panel.view, QPoint(0, 0)) for w in body.controls.tab_chain() if w.isVisible()]
    rows = [place.y() for place in places]
    assert all(later >= before - 4 for before, later in pairwise(rows))


def _name(widget: QWidget) -> str:
    text = widget.text() if isinstance(widget, QAbstractButton) else ""
    return f"{type(widget).__name__} {widget.accessibleName() or text}"


def test_the_keyboard_alone_gets_from_a_question_to_a_saved_scenario(
    qtbot: QtBot, panel: Panel
) -> None:
    key = Qt.Key
    qtbot.waitUntil(lambda: bool(panel.offered) and panel.offered[0].isEnabled())
    panel.settle()
    panel.offered[0].setFocus()
    qtbot.keyClick(panel.offered[0], key.Key_Space)
    assert panel.state.inputs.settings.context
    bar = panel.body.pages.tabBar()
    bar.setFocus()
    page = panel.body.compare
    assert page.isVisible()
    page.pin.setFocus()
    qtbot.keyClick(page.pin, key.Key_Space)
    assert [s.name for s in panel.state.scenarios] == ["A"]
    panel.settle()


def test_no_text_is_cut_and_nothing_overlaps(panel: Panel) -> None:
    apply_scheme(Scheme.DARK)
    try:
        panel.state.replace_inputs(
            devices=(Device("0", "CUDA", 4 * GIB, name="A GPU of a long name"),)
        )
        panel.state.set(context=1 << 20, parallel=64)
        for size in ((1280, 800), (880, 640)):
            panel.view.resize(*size)
            panel.settle()
            panel.qtbot.waitUntil(lambda width=size[0]: panel.view.width() == width)
            _assert_readable(panel)
        assert panel.view.grab().toImage().pixelColor(4, 4) == panel.view.palette().window().color()
    finally:
        apply_scheme(Scheme.LIGHT)


def _assert_readable(panel: Panel) -> None:
    for label in panel.view.findChildren(QLabel):
        if label.isVisible() and not label.wordWrap() and label.text():
            needed = label.fontMetrics().horizontalAdvance(label.text().replace("&", ""))
            assert label.width() >= needed, label.text()
    for button in panel.view.findChildren(QAbstractButton):
        if button.isVisible() and button.text() and not button.objectName().startswith("qt_"):
            assert button.width() >= button.minimumSizeHint().width(), button.text()
    boxes = [w.geometry() for w in panel.body.controls.tab_chain() if w.isVisible()]
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :]]
    assert not any(a.intersects(b) for a, b in pairs)


def test_a_page_that_is_too_high_scrolls_and_squeezes_no_picture(panel: Panel) -> None:
    devices = tuple(Device(str(i), "CUDA", 3 * GIB, name="NVIDIA GeForce RTX 4090") for i in (0, 1))
    panel.state.replace_inputs(devices=devices)
    panel.state.set(context=65_536)
    panel.settle()
    body, strip = panel.body, panel.body.picture.strip
    for place in range(body.pages.count()):
        body.pages.setCurrentIndex(place)
        panel.settle()
        panel.view.resize(880, 300)
        panel.view.resize(880, panel.view.minimumSizeHint().height())  # as the window's area does
        QApplication.processEvents()
        assert strip.height() == strip.sizeHint().height(), body.pages.tabText(place)
        assert body.answer.height() >= body.answer.heightForWidth(body.answer.width())


def test_where_there_is_little_room_the_answer_stays_above_the_settings(panel: Panel) -> None:
    body = panel.body
    body.controls.advanced.setChecked(True)
    for width, is_above in ((640, True), (1280, False), (640, True)):
        panel.view.resize(width, 300)
        QApplication.processEvents()
        panel.view.resize(width, panel.view.minimumSizeHint().height())  # as the window's area does
        QApplication.processEvents()
        answer, settings, picture = (
            part.mapTo(panel.view, QPoint(0, 0)).y()
            for part in (body.answer, body.devices, body.picture)
        )
        assert (answer + body.answer.height() <= settings) == is_above
        assert answer < picture
        inner = body.side.verticalScrollBar()
        if is_above:  # the page scrolls
            panel.qtbot.waitUntil(lambda bar=inner: not bar.isVisible(), timeout=5000)


def test_warnings_take_the_colours_of_another_scheme(panel: Panel) -> None:
    panel.state.replace_inputs(devices=(Device("0", "CUDA", 1 * GIB),))
    panel.state.set(context=1 << 20)
    panel.settle()
    row = panel.body.controls.rows["context"]
    apply_scheme(Scheme.DARK)
    try:
        QApplication.processEvents()
        wanted = warning_colour(QApplication.palette())
        for label in (panel.body.answer.sentence, row.holds):
            assert label.palette().color(QPalette.ColorRole.WindowText) == wanted
    finally:
        apply_scheme(Scheme.LIGHT)


def test_models_of_other_sizes_keep_the_panel_quick_to_answer(
    panel: Panel, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    """A model of a thousand blocks is drawn too; every layer has its place in the strip."""
    deep = load(write_model(tmp_path / "deep.gguf", blocks=1000, width=256))
    panel.show(deep)
    panel.qtbot.waitUntil(lambda: panel.state.model.title == "deep.gguf")
    panel.assert_shown()
    strip = panel.body.picture.strip
    assert strip.hit(QPointF(strip.width(), 0)) == 1000
    assert strip.hit(QPointF(0, 0)) == 0
