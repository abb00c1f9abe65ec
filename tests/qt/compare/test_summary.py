"""The page of two models side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from explorer.analysis.errors.metrics import RunningErrors
from explorer.analysis.what_if import SizeAfter, TypeErrors
from explorer.planner.logs.perplexity import Quality
from explorer.present.differences import DISTANCE, LOSS, NOT_READ
from explorer.present.tables.what_if import Trial
from explorer.qt.compare.summary import CompareView
from explorer.qt.document import Document
from explorer.qt.references import References, Rounding
from explorer.qt.survey.bar import SurveyBar
from explorer.qt.survey.session import SurveySession
from explorer.qt.what_if.chart import Measure
from explorer.qt.widgets.pages import Phase
from tests.helpers.model_pairs import arrays_of, requantized, write_gguf
from tests.helpers.services import RecordingServices

TEMPLATE = "tokenizer.chat_template"


@pytest.fixture
def documents(tmp_path: Path, load: Callable[[Path], Document]) -> list[Document]:
    """An original, and two models that are made of it."""
    shapes = {"blk.0.ffn_up.weight": (32, 64), "blk.0.ffn_down.weight": (64, 32), "one": (32,)}
    original = write_gguf(tmp_path / "f32.gguf", "llama", arrays_of(shapes))
    keys = {TEMPLATE: "a\nb\nc", "general.name": "<b>A</b>"}
    one = requantized(original, tmp_path / "one.gguf", {"ffn_up": "Q8_0"}, keys)
    other = requantized(one, tmp_path / "two.gguf", {"ffn_up": "Q4_0"}, {TEMPLATE: "a\nx\nc"})
    return [load(path) for path in (original, one, other)]


class Page:
    """The page in a window of its own, and what one does with it."""

    def __init__(self, qtbot: QtBot, app: RecordingServices, documents: list[Document]) -> None:
        self.qtbot, self.app, self.runner = qtbot, app, app.runner
        self.references = References(app)
        self.references.set_documents(documents)
        self.references.show_document(documents[-1])
        self.session = SurveySession(app, self.references, compares=True)
        self.view = CompareView(app, self.session)
        self.view.resize(900, 600)
        qtbot.addWidget(self.view)
        self.view.show()
        self.view.show_document(documents[-1])
        self.settle()

    def settle(self) -> None:
        self.qtbot.waitUntil(lambda: not self.runner.jobs)

    def choose(self, reference: Document | Rounding | None) -> None:
        self.references.choose(reference)
        self.settle()

    def measure(self) -> None:
        self.session.start()
        self.settle()


@pytest.fixture
def page(qtbot: QtBot, app: RecordingServices, documents: list[Document]) -> Page:
    return Page(qtbot, app, documents)


def test_it_asks_for_another_model(page: Page) -> None:
    view = page.view
    assert (view.phase, view.has_content) == (Phase.UNSUPPORTED, False)
    view.state.button.click()
    assert page.app.calls("ask_reference") == [(False,)]
    page.choose(Rounding("Q4_0"))
    assert view.phase is Phase.UNSUPPORTED


def test_headers_are_compared_at_once(page: Page, documents: list[Document]) -> None:
    page.choose(documents[1])
    view = page.view
    assert view.phase is Phase.COMPLETE
    assert "1 tensor has another type" in view.pages.summary.text()
    assert NOT_READ in view.pages.summary.text()
    assert view.pages.tensors.model.rowCount() == 1
    view.pages.tensors.bar.edit.setText("ffn_up q4_0")
    assert view.pages.tensors.model.rowCount() == 1
    assert view.pages.keys.model.rowCount() == 1
    assert view.pages.text.text.toPlainText() == " a\n-x\n+b\n c"
    models = (
        view.pages.sizes.table,
        view.pages.roles.table,
        view.pages.keys.model,
        view.pages.tensors.model,
    )
    for model in models:
        QAbstractItemModelTester(model)


def test_the_error_of_one_model_is_no_difference_of_both(
    page: Page, documents: list[Document]
) -> None:
    page.choose(documents[0])
    page.measure()
    page.references.choose_other(documents[1])
    page.settle()
    view = page.view
    assert page.session.missing
    assert view.headline.text().startswith("B ")
    assert "differs" not in view.headline.text()
    assert [point.line.mark for point in view.chart.points] == ["A"]
    page.choose(Rounding("Q4_0"))
    page.measure()
    assert "differs" not in view.headline.text()
    assert NOT_READ in view.pages.summary.text()


def test_errors_are_a_distance_or_a_loss(page: Page, documents: list[Document]) -> None:
    page.references.choose_other(documents[1])
    page.settle()
    view = page.view
    page.measure()
    assert DISTANCE in view.pages.summary.text()
    assert "differs from it by" in view.headline.text()
    assert not view.chart.isVisibleTo(view)  # a distance says of neither how good it is
    roles = view.pages.roles
    chosen = [roles.table.columns[column].name for column in roles.chosen_columns()]
    assert "relative_rmse_a" in chosen
    assert "relative_rmse_b" not in chosen
    page.choose(documents[0])
    page.measure()
    assert LOSS in view.pages.summary.text()
    assert "less error" in view.headline.text()
    assert [point.line.mark for point in view.chart.points] == ["A", "B"]
    assert view.chart.points[0].x < view.chart.points[1].x
    assert [row.difference.rpartition(" ")[2] for row in view.pages.sizes.table.items[:2]] == [
        "better",
        "better",
    ]
    columns = {column.name: column for column in view.pages.roles.table.columns}
    model = view.pages.roles.table
    roles = [str(model.raw(columns["role"], row)) for row in range(model.rowCount())]
    up = roles.index("ffn_up")
    errors = [model.raw(columns[f"relative_rmse_{side}"], up) for side in "ab"]
    assert 0 < float(errors[1] or 0) < float(errors[0] or 0)  # A has fewer bits


def test_what_cannot_be_read_is_said_beside_the_errors(
    page: Page, documents: list[Document]
) -> None:
    page.references.choose_other(documents[1])
    page.choose(documents[0])
    bar, path = SurveyBar(page.session, page.view), documents[0].path
    path.write_bytes(path.read_bytes()[:-64])  # its last tensor is cut short
    page.measure()
    assert "2 pairs were not compared. A, one: " in page.view.pages.summary.text()
    assert page.view.headline.text().endswith("Errors are of the tensors that can be read.")
    assert "4 of 6 tensors compared. 2 cannot be compared: " in bar.label.text()


def test_recipes_that_were_measured_stand_in_the_chart(
    page: Page, documents: list[Document]
) -> None:
    page.references.choose_other(documents[1])
    page.choose(documents[0])
    page.measure()
    size = SizeAfter(100, 50, 60, 70)
    recipe = Trial("Q4_K_M", "Q4_K_M", size, size, given={"relative_rmse": 0.5})
    page.references.note_recipes([recipe])
    page.view.hide()
    page.view.show()
    saved = []
    page.view.export.ask = lambda picture, _name: saved.append(picture)  # type: ignore[method-assign]
    page.view.picture_buttons[1].click()
    assert saved == [page.view.chart]
    assert [point.line.title for point in page.view.chart.points][2:] == ["Q4_K_M"]
    page.choose(documents[1])  # against another original nothing is known of it
    assert page.references.recipes == ()


def test_what_others_measured_stands_beside_the_errors(
    page: Page, documents: list[Document], tmp_path: Path
) -> None:
    page.choose(documents[1])
    view, table = page.view, tmp_path / "results.csv"
    table.write_text("model,ppl,kld\nother.gguf,9,1\n")
    view.add_measured_of([table])
    page.settle()
    (problem,) = page.app.errors
    assert "It is of other.gguf: neither A nor B" in str(problem)
    assert view._shown is not None
    one, other = (model.path.name for model in view._shown.found.models)
    table.write_text(f"model,ppl,kld\n{one},6.5,0.02\n{other},6.25,0.01\n")
    view.add_measured_of([table])
    page.settle()
    rows = {row.name: row for row in view.pages.sizes.table.items}
    assert (rows["perplexity"].values, rows["perplexity"].difference) == (
        (6.5, 6.25),
        "-0.2500 better",
    )
    assert [view.measure.itemText(place) for place in range(view.measure.count())] == [
        "Perplexity: less is better",
        "Mean KL divergence: less is better",
    ]
    assert [point.y for point in view.chart.points] == [6.5, 6.25]
    table.write_text(f"model,ppl\n{one},6\n")  # says nothing of the divergence, nor of B
    view.add_measured_of([table])
    page.settle()
    rows = {row.name: row for row in view.pages.sizes.table.items}
    assert rows["perplexity"].values == (6.0, 6.25)
    assert rows["divergence"].values == (0.02, 0.01)


def test_two_logs_that_are_dropped_at_once_are_both_taken(
    page: Page, documents: list[Document], tmp_path: Path
) -> None:
    page.choose(documents[1])
    view, data = page.view, QMimeData()
    assert view._shown is not None
    logs = [tmp_path / f"{model.path.stem}.log" for model in view._shown.found.models]
    for log, figure in zip(logs, (6.5, 6.25), strict=True):
        log.write_text(f"Final estimate: PPL = {figure} +/- 0.1\n")
    data.setUrls([QUrl.fromLocalFile(str(log)) for log in logs])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    view.dropEvent(QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, buttons, keys))
    page.settle()
    assert page.app.errors == []
    xs, ys = view.chart._within.getData()
    assert list(xs[::2]) == list(xs[1::2]) == [point.x for point in view.chart.points]
    assert list(ys) == pytest.approx([6.4, 6.6, 6.15, 6.35])  # a bar of both uncertainties
    rows = {row.name: row for row in view.pages.sizes.table.items}
    assert rows["perplexity"].values == (6.5, 6.25)


def test_only_what_has_the_measure_is_drawn(page: Page, documents: list[Document]) -> None:
    page.references.choose_other(documents[1])
    page.choose(documents[0])
    page.measure()
    names = [model.path.name for model in page.view._shown.found.models]  # type: ignore[union-attr]
    page.references.add_measured([Quality(name, {"perplexity": 9.0}) for name in names])
    page.settle()
    errors = TypeErrors(replace(RunningErrors().metrics(), relative_rmse=0.5), None, 4, 4)
    size = SizeAfter(100, 50, 60, 70)
    recipe = Trial("Q4_K_M", "Q4_K_M", size, size, errors=errors)
    page.references.note_recipes([recipe])
    view = page.view
    for measure, marks in ((Measure.RELATIVE_RMSE, "AB "), (Measure.PERPLEXITY, "AB")):
        view.measure.setCurrentIndex(view.measure.findData(measure))
        view.measure.activated.emit(view.measure.currentIndex())
        view.hide()
        view.show()
        assert [point.line.mark or " " for point in view.chart.points] == list(marks)
        title = view.chart.getPlotItem().getAxis("left").labelText
        assert title == view.measure.currentText().partition(":")[0]


@pytest.mark.network
@pytest.mark.slow
def test_the_real_model_beside_one_that_is_made_of_it(
    qtbot: QtBot,
    app: RecordingServices,
    load: Callable[[Path], Document],
    real_model: Path,
    tmp_path: Path,
) -> None:
    types = {"ffn_down": "Q3_K", "ffn_gate": "Q4_0"}
    keys = {TEMPLATE: "a\nb\n", "general.name": "again"}
    other = requantized(real_model, tmp_path / "requantized.gguf", types, keys)
    documents = [load(other), load(real_model)]
    page = Page(qtbot, app, documents)
    page.references.choose_other(documents[0])
    page.settle()
    view = page.view
    said = view.pages.summary.text()
    assert "36 tensors have another type, and 2 metadata keys differ." in said
    assert "Both have the same vocabulary of 262,144 tokens." in said
    assert f"Only B has a chat template ({TEMPLATE})." in said
    page.session.start()
    qtbot.waitUntil(lambda: not app.runner.jobs, timeout=120_000)
    assert DISTANCE in view.pages.summary.text()


def test_a_tensor_is_opened_in_the_current_model(page: Page, documents: list[Document]) -> None:
    page.choose(documents[1])
    row = int(page.view.pages.tensors.model.rows[0])
    page.view.pages.tensors.table.row_opened.emit(row)
    ((opened,),) = page.app.calls("open_tensors")
    name = documents[2].model.tensors.columns.names[opened]
    assert name == "blk.0.ffn_up.weight"


def test_a_closed_model_is_forgotten(page: Page, documents: list[Document]) -> None:
    page.choose(documents[1])
    page.measure()
    page.references.set_documents([documents[0], documents[2]])
    page.settle()
    assert page.view.phase is Phase.UNSUPPORTED
    assert page.view._shown is None
    assert not page.view._known


def test_no_model_shows_a_sentence(page: Page, documents: list[Document]) -> None:
    page.choose(documents[1])
    page.references.show_document(None)
    page.view.show_document(None)
    assert not page.view.has_content
