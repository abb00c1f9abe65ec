"""The vocabulary panel: columns, search, reading, and what is kept of other models."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from explorer.formats import Model
from explorer.formats.vocabulary import Vocabulary, read_vocabulary
from explorer.present.tables.vocabulary import VocabularyContent, plain_ranks
from explorer.qt.contents.tables import RecentVocabularies
from explorer.qt.document import Document
from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.table_model import ItemRole, TableModel
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec


def test_it_is_read_when_looked_at_and_searched(qtbot: QtBot, window: MainWindow) -> None:
    view = window.panels.vocabulary.widget
    assert view.model.rowCount() == 0
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: view.model.rowCount() == 2000)
    qtbot.keyClicks(view.bar.edit, "id:100-109")
    assert view.bar.status.text() == "10 of 2,000"
    assert view.model.index(0, 0).data() == "100"
    qtbot.keyClick(view.bar.edit, Qt.Key.Key_Escape)
    assert view.model.rowCount() == 2000


def test_after_a_cancel_it_is_read_when_shown_again(qtbot: QtBot, window: MainWindow) -> None:
    window.panels.setCurrentWidget(window.panels.vocabulary)
    window.runner.cancel_all()
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert window.panels.vocabulary.widget.model.rowCount() == 0
    window.panels.setCurrentWidget(window.panels.overview)
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: window.panels.vocabulary.widget.model.rowCount() == 2000)


def test_going_back_to_a_model_does_not_read_its_vocabulary_again(
    qtbot: QtBot, window: MainWindow, hostile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(model: Model) -> Vocabulary | None:
        read.append(model.path.name)
        return read_vocabulary(model)

    monkeypatch.setattr("explorer.present.tables.vocabulary.read_vocabulary", counted)
    rows = window.panels.vocabulary.widget.model.rowCount
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: rows() == 2000)
    window.open_paths([hostile_path])
    qtbot.waitUntil(lambda: rows() == 8)
    demo, hostile = window.documents
    for _ in range(2):
        window.show_document(demo)
        assert rows() == 2000  # at once
        window.show_document(hostile)
        assert rows() == 8
    assert read == [demo.title, hostile.title]
    window.close_document(hostile)
    window.open_paths([hostile_path])  # may be another file by now
    qtbot.waitUntil(lambda: rows() == 8)
    assert read == [demo.title, hostile.title, hostile.title]


def table(document: Document) -> TableModel:
    content = VocabularyContent.of(document.model)
    assert content is not None
    model, rows = TableModel(), range(len(content.texts))
    model.set_content(content.table, rows)
    return model


def test_ids_scores_and_types_are_built_in(demo: Document) -> None:
    model = table(demo)
    names = [column.name for column in model.columns]
    assert names == ["id", "token", "text", "type", "score"]
    for row in (0, 1, 500, 1999):
        kinds = [type(model.raw(column, row)) for column in model.columns]
        assert kinds == [int, str, str, str, float]
    ids = [model.index(row, 0).data(ItemRole.RAW) for row in range(model.rowCount())]
    assert ids == list(range(2000))


def test_special_tokens_are_named(demo: Document) -> None:
    model = table(demo)
    eos = int(demo.model.metadata["tokenizer.ggml.eos_token_id"])
    assert "eos" in model.index(eos, 3).data().lower()


def test_sorting_by_score_and_text(demo: Document) -> None:
    model = table(demo)
    scores = [column.name for column in model.columns].index("score")
    model.sort(scores)
    values = [model.index(row, scores).data(ItemRole.RAW) for row in range(model.rowCount())]
    assert values == sorted(values)
    assert values[0] < values[-1]
    assert plain_ranks(["b", "a10", "a9"]).tolist() == [2, 0, 1]  # code points: 1 before 9


class Thing:
    """Stands for a document: something that can go away."""


def document() -> Document:
    return cast(Document, Thing())


def content(tokens: int) -> VocabularyContent:
    return cast(VocabularyContent, SimpleNamespace(texts=range(tokens)))


def test_what_was_used_last_is_kept_up_to_a_number_of_tokens() -> None:
    recent = RecentVocabularies(most_tokens=100)
    a, b, c, d = (document() for _ in range(4))
    first = content(40)
    recent.add(a, first)
    recent.add(b, content(50))
    recent.add(c, None)
    assert recent.get(a) is first
    recent.add(d, content(20))  # b was not used for longest
    assert [thing in recent for thing in (a, b, c, d)] == [True, False, True, True]
    assert recent.get(c) is None


def test_the_last_one_is_kept_however_large() -> None:
    recent = RecentVocabularies(most_tokens=100)
    a, b = document(), document()
    recent.add(a, content(10))
    recent.add(b, content(1000))
    assert a not in recent
    assert len(recent.get(b).texts) == 1000  # type: ignore[union-attr]
    recent.add(b, content(10))
    recent.add(a, content(90))
    assert a in recent
    assert b in recent


def test_a_model_that_is_gone_takes_its_vocabulary_along() -> None:
    recent = RecentVocabularies()
    gone = document()
    recent.add(gone, content(10))
    del gone
    gc.collect()
    assert len(recent._contents) == 0
    with pytest.raises(KeyError):
        recent.get(document())


def test_without_a_vocabulary_there_is_nothing_to_search(
    qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    view = window.panels.vocabulary.widget
    window.panels.setCurrentWidget(window.panels.vocabulary)
    qtbot.waitUntil(lambda: view.model.rowCount() == 2000)
    keys = [("general.architecture", STRING, "llama")]
    path = GgufFile(keys=keys, tensors=[TensorSpec("a", (4,), data=bytes(16))]).write(
        tmp_path / "none.gguf"
    )
    demo = window.current
    window.open_paths([path])
    qtbot.waitUntil(lambda: not view.bar.edit.isEnabled())
    window.reveal_model(demo)
    qtbot.waitUntil(lambda: view.bar.edit.isEnabled() and view.model.rowCount() == 2000)
