"""The vocabulary's columns."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester

from explorer.formats.vocabulary import read_vocabulary
from explorer.qt.contents.vocabulary import VocabularyContent, plain_ranks, vocabulary_columns
from explorer.qt.document import Document
from explorer.qt.widgets.table_model import ItemRole, TableModel
from tests.helpers.window import HOSTILE, unsafe_characters


def table(document: Document) -> TableModel:
    vocabulary = read_vocabulary(document.model)
    assert vocabulary is not None
    texts = vocabulary.display_columns()
    content = VocabularyContent(
        vocabulary, texts, plain_ranks(texts.stored), plain_ranks(texts.decoded)
    )
    model = TableModel()
    model.set_content(vocabulary_columns(content), len(texts))
    return model


@pytest.mark.parametrize("name", ["demo", "hostile"])
def test_it_keeps_qts_contract(
    name: str, request: pytest.FixtureRequest, qtmodeltester: ModelTester
) -> None:
    model = table(request.getfixturevalue(name))
    qtmodeltester.check(model)
    # a check asks for every cell in every role: of the long table, one sorted column will do
    for column in range(model.columnCount()) if name == "hostile" else (1,):
        model.sort(column, Qt.SortOrder.DescendingOrder)
        qtmodeltester.check(model)


def test_ids_scores_and_types_are_built_in(demo: Document) -> None:
    model = table(demo)
    names = [column.name for column in model.columns]
    assert names == ["id", "token", "text", "type", "score"]
    for row in (0, 1, 500, 1999):
        kinds = [type(column.raw(row)) for column in model.columns]
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


def test_hostile_tokens_are_safe(hostile: Document) -> None:
    model = table(hostile)
    assert model.rowCount() == len(HOSTILE)
    texts = [model.index(r, c).data() for r in range(len(HOSTILE)) for c in range(4)]
    assert HOSTILE[0] in texts
    assert not any(unsafe_characters(text) for text in texts)
