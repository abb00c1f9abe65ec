"""The survey as a person uses it: start, look, cancel, go on, come back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.analysis.errors import pairs
from explorer.analysis.errors.compare import compare_tensors
from explorer.analysis.statistics import tensor_statistics
from explorer.formats.attachments import OpenMatrix
from explorer.qt.document import Document
from explorer.qt.references import Rounding
from explorer.qt.survey.session import SurveyState
from tests.analysis.test_importance import legacy
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.reading import AT_ONCE, Reading
from tests.helpers.services import RecordingServices
from tests.helpers.survey_views import SurveyPanel
from tests.helpers.weight_files import huge_model, weights_model

KEY = Qt.Key
LEFT = Qt.MouseButton.LeftButton
Load = Callable[[Path], Document]
ARRAYS = arrays_of(
    {
        f"blk.{layer}.{role}.weight": (32, 256)
        for layer in range(3)
        for role in ("attn_q", "ffn_up", "ffn_down")
    }
)


@pytest.fixture
def document(load: Load, tmp_path: Path) -> Document:
    return load(weights_model().write(tmp_path / "weights.gguf"))


@pytest.fixture
def panel(qtbot: QtBot, app: RecordingServices, document: Document) -> SurveyPanel:
    return SurveyPanel(qtbot, app, document)


@pytest.fixture
def both(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> SurveyPanel:
    """A panel of a quantized model, with what it was made of open beside it."""
    types = dict.fromkeys(ARRAYS, "Q8_0") | {"blk.1.ffn_up.weight": "Q4_0"}
    del types["blk.0.ffn_up.weight"]
    more = {"alone.weight": np.ones((2, 32), np.float32)}
    reference = write_gguf(tmp_path / "reference.gguf", "llama", ARRAYS)
    candidate = write_gguf(tmp_path / "candidate.gguf", "llama", ARRAYS | more, types)
    return SurveyPanel(qtbot, app, load(reference), load(candidate), compares=True)


@pytest.fixture
def huge(qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path) -> SurveyPanel:
    """A panel of two tensors of 16 GiB each."""
    return SurveyPanel(qtbot, app, load(huge_model(tmp_path / "huge.gguf", 1 << 32, tensors=2)))


def test_says_what_to_do_where_there_is_nothing_to_show(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path, panel: SurveyPanel
) -> None:
    panel.show(None)
    assert panel.view.state.isVisible()
    assert "Open a model" in panel.view.state.sentence.text()
    panel.show(load(write_gguf(tmp_path / "none.gguf", "llama", {})))
    assert "no tensors" in panel.view.state.sentence.text()


def test_nothing_is_read_before_the_panel_is_shown_or_asked(
    qtbot: QtBot, app: RecordingServices, panel: SurveyPanel, small: Document
) -> None:
    panel.view.hide()
    jobs: list[object] = []
    app.runner.started.connect(jobs.append)
    panel.view.show_document(small)
    assert jobs == []
    assert panel.view.session.state is SurveyState.READY
    panel.view.show()
    panel.settle()
    assert len(jobs) == 1
    content = panel.view.session.content
    assert content is not None
    assert not content.statistics.known.any()
    assert panel.view.bar.button.text().startswith("Measure all tensors (")


def test_a_survey_finds_the_figures_of_statistics(panel: SurveyPanel, document: Document) -> None:
    qtbot, bar = panel.qtbot, panel.view.bar
    qtbot.mouseClick(bar.button, LEFT)
    assert panel.view.session.state is SurveyState.RUNNING
    panel.settle()
    content = panel.view.session.content
    assert content is not None
    for row, tensor in enumerate(document.model.tensors.rows):
        if tensor.name == "old.weight":
            assert not content.statistics.known[row]
            assert "cannot be decoded" in content.statistics.problems[row]
            continue
        found = tensor_statistics(tensor)
        np.testing.assert_equal(content.statistics.std[row], found.std)
        np.testing.assert_equal(content.statistics.kurtosis[row], found.kurtosis)
    assert not bar.button.isVisible()
    assert "12 of 13" in bar.label.text()
    assert "1 cannot be read" in bar.label.text()


def test_a_tensor_that_cannot_be_read_is_listed_and_ends_nothing(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    path = weights_model().write(tmp_path / "cut.gguf")
    path.write_bytes(path.read_bytes()[:-100])
    panel = SurveyPanel(qtbot, app, load(path))
    panel.survey()
    content = panel.view.session.content
    assert content is not None
    assert content.statistics.known.sum() >= 10
    assert any("cut short" in problem for problem in content.statistics.problems.values())
    panel.view.show_page(panel.view.worst_tensors)
    problem = panel.column("problem")
    assert not panel.view.worst_tensors.table.isColumnHidden(problem)
    assert any("cut short" in str(text) for text in panel.ranked("problem"))


def test_the_second_look_is_instant(
    qtbot: QtBot, app: RecordingServices, panel: SurveyPanel, load: Load, tmp_path: Path
) -> None:
    panel.survey()
    first = panel.view.session.content
    assert first is not None
    again = SurveyPanel(qtbot, app, load(tmp_path / "weights.gguf"))
    second = again.view.session.content
    assert second is not None
    np.testing.assert_array_equal(first.statistics.known, second.statistics.known)
    np.testing.assert_array_equal(first.statistics.std, second.statistics.std)
    assert not again.view.bar.button.isVisible()


@pytest.mark.parametrize("way", ["escape", "button", "status bar"])
def test_a_cancel_ends_the_survey_at_once(
    reading: Reading, qtbot: QtBot, app: RecordingServices, huge: SurveyPanel, way: str
) -> None:
    huge.begin()
    bar = huge.view.bar
    assert bar.button.text() == "Cancel"
    if way == "escape":
        huge.view.map.map.setFocus()
        qtbot.keyClick(huge.view.map.map, KEY.Key_Escape)
    elif way == "button":
        qtbot.mouseClick(bar.button, LEFT)
    else:
        app.runner.jobs[0].cancel()
    qtbot.waitUntil(lambda: not app.runner.jobs)
    assert reading.since_cancel <= AT_ONCE
    assert huge.view.session.state is SurveyState.READY
    assert bar.button.text().startswith("Measure all tensors (")
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith(("weights", "analysis"))]


def test_closing_ends_a_survey(reading: Reading, app: RecordingServices, huge: SurveyPanel) -> None:
    huge.begin()
    assert app.runner.close()
    assert reading.since_cancel <= AT_ONCE


def test_a_cancelled_survey_goes_on_where_it_was(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    path = huge_model(tmp_path / "huge.gguf", 1 << 24, tensors=400)
    panel = SurveyPanel(qtbot, app, load(path))
    panel.view.session.start()
    content = panel.view.session.content
    assert content is not None
    qtbot.waitUntil(lambda: int(content.statistics.known.sum()) >= 2)
    panel.view.session.cancel()
    panel.settle()
    known = int(content.statistics.known.sum())
    assert 2 <= known < 400
    assert panel.view.session.missing == 400 - known
    panel.view.session.start()
    progress = panel.view.session.progress
    assert progress is not None
    assert progress.total == (400 - known) << 24
    qtbot.waitUntil(lambda: int(content.statistics.known.sum()) > known)
    panel.view.session.cancel()
    panel.settle()


def test_another_model_ends_the_survey(huge: SurveyPanel, small: Document) -> None:
    huge.begin()
    huge.show(small)
    assert huge.view.session.state is SurveyState.READY
    assert huge.view.session.content is not None
    assert huge.view.session.content.document is small
    assert "0 of 12" in huge.view.bar.label.text()


def test_the_survey_goes_on_while_something_else_is_looked_at(huge: SurveyPanel) -> None:
    huge.begin()
    huge.view.hide()
    assert huge.view.session.state is SurveyState.RUNNING
    huge.read_on()
    huge.view.show()
    huge.view.session.cancel()
    huge.settle()


def test_errors_against_another_model(both: SurveyPanel, app: RecordingServices) -> None:
    reference, candidate = both.references.documents
    both.choose(reference)
    bar, session = both.view.bar, both.view.session
    assert bar.button.text().startswith("Compare all tensors (")
    assert "1 not comparable" in bar.label.text()
    both.survey()
    assert not bar.button.isVisible()
    comparison = session.comparison
    assert comparison is not None
    for row, tensor in enumerate(candidate.model.tensors.rows):
        if tensor.name == "alone.weight":
            assert not comparison.errors.known[row]
            assert "no tensor that matches" in session.reason(row)
            continue
        found = compare_tensors(reference.model.tensors[tensor.name], tensor)
        assert comparison.errors.relative_rmse[row] == pytest.approx(found.relative_rmse, 1e-12)
        assert comparison.errors.max_abs_error[row] == found.max_abs_error
    both.choose(None)
    assert session.comparison is None
    jobs: list[str] = []
    app.runner.started.connect(lambda job: jobs.append(job.title))
    both.choose(reference)  # the second look
    assert session.comparison is not None
    assert session.missing == 0
    assert jobs == ["Looking up earlier results"]


def test_errors_are_weighted_by_a_matrix_without_reading_again(
    both: SurveyPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, candidate = both.references.documents
    both.choose(reference)
    both.survey()
    both.view.show_page(both.view.map)
    page = both.view.map
    page.colour_by.setCurrentIndex(page.colour_by.findData("weighted_relative_rmse"))
    page.colour_by.activated.emit(page.colour_by.currentIndex())
    assert "all weights count alike" in both.view.bar.label.text()

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr(pairs, "walk_pairs", fail)
    name, importance = "blk.1.ffn_up.weight", np.linspace(0, 8, 256, dtype=np.float32)
    path = tmp_path / "imatrix.dat"
    path.write_bytes(legacy((name, 2, importance)))
    both.references.choose_matrix(OpenMatrix.load(path))
    both.settle()
    session = both.view.session
    assert session.missing == 0
    assert "all weights count alike" not in both.view.bar.label.text()
    row = candidate.model.tensors.row_of(name)
    r, c = (
        one.model.tensors[name].dequantize().reshape(32, 256).astype(np.float64)
        for one in (reference, candidate)
    )
    relative = np.sqrt((importance * (c - r) ** 2).sum() / (importance * r**2).sum())
    found = session.comparison.errors.weighted_relative_rmse  # type: ignore[union-attr]
    assert found[row] == pytest.approx(relative, rel=1e-6)  # the older form has float32 quotients
    assert np.isnan(found).sum() == len(candidate.arrays) - 1
    both.view.show_page(both.view.worst_tensors)
    both.settle()
    hidden = both.view.worst_tensors.table.isColumnHidden(both.column("weighted_relative_rmse"))
    assert not hidden
    both.references.choose_matrix(None)
    both.settle()
    assert np.isnan(session.comparison.errors.weighted_relative_rmse).all()  # type: ignore[union-attr]


def test_a_matrix_of_another_model_hides_no_figure(both: SurveyPanel, tmp_path: Path) -> None:
    reference, _ = both.references.documents
    path = tmp_path / "imatrix.dat"
    path.write_bytes(legacy(("blk.1.ffn_up.weight", 2, np.ones(7, np.float32))))
    both.references.choose_matrix(OpenMatrix.load(path))
    both.choose(reference)
    both.survey()
    session = both.view.session
    assert session.missing == 0
    assert session.comparison is not None
    assert np.isnan(session.comparison.errors.relative_rmse).sum() == 1  # what has no partner
    assert "does not fit blk.1.ffn_up.weight" in both.view.bar.label.text()


def test_errors_of_rounding_to_a_type(both: SurveyPanel) -> None:
    both.choose(Rounding("Q4_K"))
    assert both.view.bar.button.text().startswith("Compare all tensors (")
    assert " to read" in both.view.bar.label.text()
    both.survey()
    session = both.view.session
    comparison = session.comparison
    assert comparison is not None
    row = session.document.model.tensors.row_of("alone.weight")  # type: ignore[union-attr]
    assert row is not None
    assert "not a whole number of blocks" in session.reason(row)
    assert comparison.errors.known.sum() == len(ARRAYS)


def test_rounding_leaves_out_what_quantizers_leave_alone(
    qtbot: QtBot, app: RecordingServices, document: Document
) -> None:
    panel = SurveyPanel(qtbot, app, document, compares=True)
    panel.choose(Rounding("BF16"))
    panel.survey()
    session = panel.view.session
    assert session.comparison is not None
    assert session.document is not None
    tensors = session.document.model.tensors
    norm, matrix = tensors.row_of("norm.weight"), tensors.row_of("equal.weight")
    assert norm is not None
    assert matrix is not None
    assert not session.comparison.comparable[norm]
    assert "one dimension" in session.reason(norm)
    assert session.comparison.errors.known[matrix]
    assert session.reason(matrix) == ""


def test_another_reference_ends_the_comparison(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    document = load(huge_model(tmp_path / "huge.gguf", 1 << 32, tensors=2))
    huge = SurveyPanel(qtbot, app, document, compares=True)
    huge.choose(Rounding("Q8_0"))
    huge.begin()
    huge.references.choose(Rounding("Q4_0"))
    assert huge.view.session.state is not SurveyState.RUNNING
    huge.settle()
    assert huge.view.session.comparison is not None
    assert huge.view.session.comparison.against == "Q4_0"


def test_a_reference_chosen_meanwhile_does_not_end_the_survey(huge: SurveyPanel) -> None:
    huge.begin()
    huge.references.choose(Rounding("Q8_0"))
    assert huge.view.session.state is SurveyState.RUNNING
    huge.view.session.cancel()
    huge.settle()
    assert huge.view.session.missing == 2


def test_the_bar_says_what_has_to_be_read_and_starts_it(
    both: SurveyPanel, panel: SurveyPanel
) -> None:
    bar = both.view.bar
    assert "Choose an original" in bar.label.text()
    assert not bar.button.isVisible()
    for survey, text in ((panel, "0 of 13 tensors measured"), (both, "0 of 9 tensors compared")):
        survey.choose(both.references.documents[0] if survey is both else None)
        assert text in survey.view.bar.label.text()
        survey.qtbot.mouseClick(survey.view.bar.button, LEFT)
        survey.settle()
        assert text not in survey.view.bar.label.text()
        assert not survey.view.bar.button.isVisible()


def test_a_page_behind_follows_to_another_model(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path, small: Document
) -> None:
    panel = SurveyPanel(qtbot, app, small)
    panel.view.show_page(panel.view.worst_tensors)
    panel.show(load(weights_model().write(tmp_path / "weights.gguf")))
    panel.view.select_tensor(12)  # the other model has twelve, of which this would be none
    panel.view.show_page(panel.view.map)
    assert panel.view.map.map.current == panel.cell_of(12)
    panel.view.show_page(panel.view.worst_tensors)
    assert panel.view.worst_tensors.table.selected_content_rows().tolist() == [12]
    assert panel.chosen == []
