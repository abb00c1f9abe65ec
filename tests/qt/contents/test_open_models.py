"""The tree on the left, with keys and mouse."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from explorer.qt.contents.open_models import Node, OpenModelsView
from explorer.qt.document import Document
from explorer.qt.widgets.table_model import ItemRole
from explorer.qt.widgets.table_view import ROW_PADDING
from tests.helpers.window import copied

KEY = Qt.Key
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def view(qtbot: QtBot, small: Document, demo: Document) -> OpenModelsView:
    view = OpenModelsView()
    qtbot.addWidget(view)
    view.resize(380, 600)
    view.show()
    qtbot.waitExposed(view)
    view.add(small, 0)
    view.add(demo, 1)
    view.tree.setFocus()
    return view


def told(view: OpenModelsView) -> list[tuple[object, ...]]:
    calls: list[tuple[object, ...]] = []
    view.model_chosen.connect(lambda *arguments: calls.append(("model", *arguments)))
    view.key_chosen.connect(lambda *arguments: calls.append(("key", *arguments)))
    view.tensor_chosen.connect(lambda *arguments: calls.append(("tensor", *arguments)))
    return calls


def open_row(view: OpenModelsView, *titles: str) -> QModelIndex:
    """Open branches by their titles, as a click on each arrow does; return the last."""
    index = QModelIndex()
    for title in titles:
        model = view.model
        while model.canFetchMore(index):
            model.fetchMore(index)
        shown = [model.index(row, 0, index).data() for row in range(model.rowCount(index))]
        index = model.index(shown.index(title), 0, index)
        view.tree.expand(index)
    return index


def click(qtbot: QtBot, view: OpenModelsView, index: QModelIndex) -> None:
    view.tree.scrollTo(index)
    place = view.tree.visualRect(index).center()
    qtbot.mouseClick(view.tree.viewport(), LEFT, pos=place)


def test_a_model_is_added_open_and_taken_out(view: OpenModelsView, small: Document) -> None:
    root = view.model.index(0, 0)
    assert view.tree.isExpanded(root)
    assert [view.model.index(row, 0, root).data() for row in range(2)] == ["Metadata", "Tensors"]
    view.remove(small)
    assert view.model.rowCount() == 1


def test_a_click_tells_model_key_or_tensor(
    qtbot: QtBot, view: OpenModelsView, small: Document
) -> None:
    calls = told(view)
    click(qtbot, view, open_row(view, "twelve.gguf", "Metadata", "some", "text"))
    assert calls == [("model", small), ("key", small, "some.text")]
    del calls[:]
    click(qtbot, view, open_row(view, "twelve.gguf", "Tensors", "Layer 10", "attn_norm.weight"))
    assert calls == [("model", small), ("tensor", small, 2)]
    del calls[:]
    click(qtbot, view, open_row(view, "twelve.gguf", "Tensors", "Layer 3"))
    assert calls == [("model", small)]


def test_arrow_keys_open_move_and_tell(qtbot: QtBot, view: OpenModelsView, small: Document) -> None:
    calls = told(view)
    view.tree.setCurrentIndex(view.model.index(0, 0))
    del calls[:]
    for key in (KEY.Key_Down, KEY.Key_Right, KEY.Key_Right, KEY.Key_Right, KEY.Key_Right):
        qtbot.keyClick(view.tree, key)
    node = view.tree.currentIndex().data(ItemRole.NODE)
    assert isinstance(node, Node)
    assert node.key == "general.architecture"
    assert calls[-1] == ("key", small, "general.architecture")


def test_to_reveal_selects_and_tells_nobody(view: OpenModelsView, small: Document) -> None:
    calls = told(view)
    view.reveal_tensor(small, 11)
    assert view.tree.currentIndex().data() == "attn_norm.weight"
    assert view.tree.currentIndex().parent().data() == "Layer 9"
    assert view.tree.visualRect(view.tree.currentIndex()).isValid()
    view.reveal_key(small, "some.numbers")
    assert view.tree.currentIndex().data(ItemRole.RAW) == "some.numbers"
    view.reveal_model(small)
    assert view.tree.currentIndex().data() == "twelve.gguf"
    view.reveal_key(small, "no such key")
    assert view.tree.currentIndex().data() == "twelve.gguf"
    assert calls == []


def test_ctrl_c_copies_the_whole_name(qtbot: QtBot, view: OpenModelsView, small: Document) -> None:
    def copy() -> None:
        qtbot.keyClick(view.tree, KEY.Key_C, Qt.KeyboardModifier.ControlModifier)

    view.reveal_key(small, "some.text")
    assert copied(qtbot, copy) == "some.text"
    view.reveal_tensor(small, 2)
    assert copied(qtbot, copy) == "blk.10.attn_norm.weight"
    view.reveal_model(small)
    assert copied(qtbot, copy) == "twelve.gguf"


def test_the_menu_copies_the_path_and_closes_the_model(
    view: OpenModelsView, small: Document
) -> None:
    closed: list[object] = []
    view.close_requested.connect(closed.append)
    menu = view.menu_at(view.tree.visualRect(view.model.index(0, 0)).center())
    assert menu is not None
    actions = {action.text(): action for action in menu.actions()}
    assert set(actions) == {"&Copy name", "Copy &path", "", "C&lose model"}
    actions["Copy &path"].trigger()
    assert QGuiApplication.clipboard().text() == str(small.path)
    actions["C&lose model"].trigger()
    assert closed == [small]


def test_only_a_model_can_be_closed_and_nothing_where_no_row_is(view: OpenModelsView) -> None:
    index = open_row(view, "twelve.gguf", "Metadata")
    menu = view.menu_at(view.tree.visualRect(index).center())
    assert menu is not None
    assert [action.text() for action in menu.actions()] == ["&Copy name", "Copy &path"]
    assert view.menu_at(QPoint(20, 590)) is None


def test_rows_have_room(view: OpenModelsView) -> None:
    height = view.tree.visualRect(view.model.index(0, 0)).height()
    assert height >= view.fontMetrics().height() + ROW_PADDING
