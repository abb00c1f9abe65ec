"""The tree of open models: branches, pages of children, choices, and its menu."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, QRect, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QStyleOptionViewItem
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from explorer.qt.contents.nodes import Node, NodeKind
from explorer.qt.contents.open_models import OpenModelsView, TreeModel
from explorer.qt.document import Document
from explorer.qt.widgets.table_model import ItemRole
from explorer.qt.widgets.table_view import ROW_PADDING
from tests.formats.test_hf_rules import STEM, Part, write_folder
from tests.helpers.gguf_writer import U32, GgufFile, TensorSpec
from tests.helpers.window import copied, unsafe_characters

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
    click(qtbot, view, open_row(view, "twelve.gguf", "Tensors", "Layer 10", "attn_norm"))
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
    assert view.tree.currentIndex().data() == "attn_norm"
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


def test_a_name_has_the_room_that_the_text_beside_it_leaves(
    view: OpenModelsView, small: Document
) -> None:
    view.resize(264, 400)
    view.show()
    view.reveal_tensor(small, 0)
    tree, seen = view.tree, 0
    index = tree.model().index(0, 0)
    while index.isValid():
        areas = []
        for cell in (index, index.siblingAtColumn(1)):
            option = QStyleOptionViewItem()
            tree.initViewItemOption(option)
            option.rect = tree.visualRect(cell)
            tree.itemDelegate().initStyleOption(option, cell)
            areas.append(
                (QRect(option.rect), option.fontMetrics.horizontalAdvance(cell.data() or ""))
            )
        (name, _), (detail, needed) = areas
        assert name.right() + 1 == detail.left()
        if detail.width() < tree.columnWidth(1):  # it gave room away, and kept what it needs
            assert needed <= detail.width() <= needed + 16
            seen += 1
        index = tree.indexBelow(index)
    assert seen > 3


def test_rows_have_room(view: OpenModelsView) -> None:
    height = view.tree.visualRect(view.model.index(0, 0)).height()
    assert height >= view.fontMetrics().height() + ROW_PADDING


def shown(view: OpenModelsView) -> list[str]:
    """Return the titles of the rows of the tree, from top to bottom."""
    found, index = [], view.model.index(0, 0)
    while index.isValid():
        found.append(index.siblingAtColumn(0).data())
        index = view.tree.indexBelow(index)
    return found


def test_the_filter_leaves_what_it_finds_unfolded(
    qtbot: QtBot, view: OpenModelsView, small: Document
) -> None:
    view.reveal_tensor(small, 2)
    calls = told(view)
    qtbot.keyClicks(view.bar.edit, "layer:9-x")
    assert "'layer:9-x' is left out" in view.bar.note.text()
    view.bar.edit.clear()
    qtbot.keyClicks(view.bar.edit, "layer:9-10")
    assert not view.bar.note.isVisible()
    rows = shown(view)[: shown(view).index("Tensors") + 5]
    assert rows == ["twelve.gguf", "Tensors", "Layer 9", "attn_norm", "Layer 10", "attn_norm"]
    assert view.tree.currentIndex().data(ItemRole.NODE).tensor_row == 2  # as before
    view.bar.edit.clear()
    qtbot.keyClicks(view.bar.edit, "needle")
    assert shown(view)[:4] == ["twelve.gguf", "Metadata", "some", "text"]
    assert "Tensors" not in shown(view)
    qtbot.keyClick(view.bar.edit, KEY.Key_Escape)
    assert view.tree.currentIndex().data(ItemRole.NODE).tensor_row == 2  # it is there again
    assert {"Metadata", "Tensors"} <= set(shown(view))
    assert calls == []  # to filter chooses nothing
    qtbot.keyClick(view.bar.edit, KEY.Key_Down)
    assert view.tree.hasFocus()


def test_a_model_that_is_opened_later_is_filtered_too(
    qtbot: QtBot, view: OpenModelsView, small: Document
) -> None:
    view.remove(small)
    qtbot.keyClicks(view.bar.edit, "layer:11")
    view.add(small, 0)
    assert shown(view)[:3] == ["twelve.gguf", "Tensors", "Layer 11"]


def test_a_filter_keeps_qts_contract(
    qtmodeltester: ModelTester, model: TreeModel, demo: Document, hostile: Document
) -> None:
    for document in (demo, hostile):
        model.add(document, 0)
    for text in ("ffn", "no such thing", "a", ""):
        model.filter(text)
        open_all(model, QModelIndex())
    qtmodeltester.check(model)


def open_all(model: TreeModel, parent: QModelIndex) -> list[QModelIndex]:
    """Open every branch; return the indexes in the order shown."""
    while model.canFetchMore(parent):
        model.fetchMore(parent)
    found = []
    for row in range(model.rowCount(parent)):
        index = model.index(row, 0, parent)
        found += [index, *open_all(model, index)]
    return found


def titles(model: TreeModel, parent: QModelIndex) -> list[str]:
    return [model.index(row, 0, parent).data() for row in range(model.rowCount(parent))]


def child(model: TreeModel, parent: QModelIndex, title: str) -> QModelIndex:
    while model.canFetchMore(parent):
        model.fetchMore(parent)
    return model.index(titles(model, parent).index(title), 0, parent)


@pytest.fixture
def model(qapp: object) -> TreeModel:
    return TreeModel()


def test_it_keeps_qts_contract(
    qtmodeltester: ModelTester, model: TreeModel, demo: Document, hostile: Document
) -> None:
    for document in (demo, hostile):
        model.add(document, 0)
    open_all(model, QModelIndex())
    # The tester stays: what it finds when rows go is a warning, and fails the test. It opens
    # branches while it is told of new rows, which confuses it; hence nothing is added under it.
    qtmodeltester.check(model)
    model.remove(demo)
    model.remove(hostile)
    assert not model.hasChildren()


def test_it_keeps_qts_contract_while_it_grows_and_shrinks(
    model: TreeModel, demo: Document, wide: Document, hostile: Document
) -> None:
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning)
    # By itself the tester opens branches while it is told of new rows, and confuses itself: here
    # only the test opens them. What the tester finds is a warning, and fails the test.
    tester.setUseFetchMore(False)
    model.add(demo, 0)
    root = model.add(wide, 1)
    model.add(hostile, 0)  # in front of the others
    kept = QPersistentModelIndex(child(model, root, "Tensors"))
    while model.canFetchMore(kept):
        model.fetchMore(kept)
    assert model.rowCount(kept) == 300
    assert model.find(demo, lambda node: node.tensor_row == 21).isValid()
    open_all(model, QModelIndex())
    assert kept.parent().row() == 2
    model.remove(demo)
    assert kept.parent().row() == 1
    assert model.rowCount(kept) == 300
    model.remove(hostile)
    model.remove(wide)
    assert not kept.isValid()
    assert model.rowCount() == 0
    tester.deleteLater()


def test_rows_are_told_of_when_a_branch_is_opened(model: TreeModel, demo: Document) -> None:
    told: list[tuple[int, int]] = []
    model.rowsInserted.connect(lambda _parent, first, last: told.append((first, last)))
    root = model.add(demo, len(model.roots))
    assert told == [(0, 0)]
    model.fetchMore(root)
    assert told == [(0, 0), (0, 1)]
    assert titles(model, root) == ["Metadata", "Tensors"]


def test_layers_are_in_natural_order_and_keys_in_groups(model: TreeModel, small: Document) -> None:
    root = model.add(small, len(model.roots))
    tensors = child(model, root, "Tensors")
    open_all(model, tensors)
    assert titles(model, tensors) == [f"Layer {number}" for number in range(12)]
    metadata = child(model, root, "Metadata")
    open_all(model, metadata)
    assert titles(model, metadata) == ["general", "llama", "some"]
    some = child(model, metadata, "some")
    keys = [entry.key for entry in small.model.metadata.entries]
    assert titles(model, some) == ["numbers", "text"]
    assert model.index(0, 1, some).data() == small.keys.rows[keys.index("some.numbers")].value


def test_nothing_is_made_before_a_branch_is_opened(model: TreeModel, small: Document) -> None:
    root = model.add(small, len(model.roots))
    assert model.hasChildren(root)
    assert model.rowCount(root) == 0
    assert model.canFetchMore(root)


@pytest.fixture
def wide(tmp_path: Path, load: Callable[[Path], Document]) -> Document:
    """A branch of some tensors: Qt checks the whole model at each change."""
    tensors = [TensorSpec(f"t{number}") for number in range(300)]
    return load(GgufFile(tensors=tensors).write(tmp_path / "wide.gguf"))


def test_find_opens_what_hides_it(model: TreeModel, wide: Document, small: Document) -> None:
    model.add(small, len(model.roots))
    model.add(wide, len(model.roots))
    index = model.find(wide, lambda node: node.tensor_row == 299)
    assert index.data() == "t299"
    assert index.row() == 299
    assert index.parent().data() == "Tensors"
    assert index.parent().parent().row() == 1
    key = model.find(small, lambda node: node.key == "some.text")
    assert key.data(ItemRole.RAW) == "some.text"
    assert not model.find(small, lambda node: node.key == "no such key").isValid()


def test_removing_a_model_keeps_the_others_in_place(
    model: TreeModel, small: Document, demo: Document, hostile: Document
) -> None:
    for document in (small, demo, hostile):
        model.add(document, len(model.roots))
    kept = QPersistentModelIndex(model.find(hostile, lambda node: node.tensor_row == 0))
    gone = QPersistentModelIndex(model.find(small, lambda node: node.tensor_row == 0))
    model.remove(small)
    assert not gone.isValid()
    assert kept.isValid()
    node = kept.data(ItemRole.NODE)
    assert node.document is hostile
    root = model.index_of(model.roots[1])
    assert root.row() == 1
    assert root.data(ItemRole.NODE).document is hostile
    model.remove(hostile)
    assert not kept.isValid()
    assert [node.document for node in model.roots] == [demo]


def test_hostile_names_are_safe_and_of_built_in_types(model: TreeModel, hostile: Document) -> None:
    model.add(hostile, len(model.roots))
    indexes = open_all(model, QModelIndex())
    kinds = set()
    for index in indexes:
        node = index.data(ItemRole.NODE)
        assert isinstance(node, Node)
        kinds.add(node.kind)
        for column in (0, 1):
            text = index.siblingAtColumn(column).data()
            assert type(text) is str
            assert not unsafe_characters(text)
    assert {NodeKind.KEY, NodeKind.TENSOR, NodeKind.LAYER} <= kinds
    shown = [index.data() for index in indexes]
    assert "<b>bold</b><img src=x>" in shown
    assert shown[0] == "⚠ <b>%n {0} \\u202e.gguf"


def test_a_quantized_tensor_opens_into_its_parts(
    qtbot: QtBot, view: OpenModelsView, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    parts: dict[str, Part] = {
        f"{STEM}.weight": ("F8_E4M3", np.zeros((256, 256), np.uint8)),
        f"{STEM}.weight_scale_inv": ("F32", np.ones((2, 2), np.float32)),
        f"{STEM}.input_scale": ("F32", np.ones(1, np.float32)),
    }
    document = load(write_folder(tmp_path / "fp8", parts, {"quant_method": "fp8"}))
    view.add(document, 2)
    (root,) = (one for one in view.model.roots if one.document is document)
    indexes = open_all(view.model, view.model.index_of(root))
    shown = {
        index.data(): index.siblingAtColumn(1).data()
        for index in indexes
        if index.data(ItemRole.NODE).kind is NodeKind.PART
    }
    assert shown == {
        "weight": "F8_E4M3 · 256 × 256",
        "weight_scale_inv": "F32 · 2 × 2",
        "input_scale": "F32 · 1 · attached",
    }
    chosen: list[int] = []
    view.tensor_chosen.connect(lambda _, row: chosen.append(row))
    index = next(one for one in indexes if one.data() == "weight_scale_inv")
    click(qtbot, view, index)
    assert chosen == [document.model.tensors.row_of(f"{STEM}.weight")]
    view.reveal_tensor(document, chosen[0])  # what the selection answers
    assert view.tree.currentIndex() == index


def spoken(index: QModelIndex) -> str:
    return str(index.data(Qt.ItemDataRole.AccessibleTextRole))


def test_a_damaged_tensor_is_marked_and_so_is_every_branch_above_it(
    view: OpenModelsView, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    path = tmp_path / "cut.gguf"
    tensors = [TensorSpec(f"blk.{layer}.x.weight", (32,), data=bytes(128)) for layer in (0, 1)]
    path.write_bytes(GgufFile(tensors=tensors).build()[:-8])
    view.add(load(path), 2)
    last = open_row(view, "✘ cut.gguf", "✘ Tensors", "✘ Layer 1", "✘ x")
    tip = str(last.data(Qt.ItemDataRole.ToolTipRole))
    assert "blk.1.x.weight: cut short: the last 8 bytes are not in the file" in tip
    assert spoken(last) == "x, error: cut short: the last 8 bytes are not in the file"
    whole = open_row(view, "✘ cut.gguf", "✘ Tensors", "Layer 0", "x")
    assert whole.data(Qt.ItemDataRole.ToolTipRole) == "<qt>F32, 128 B</qt>"
    assert spoken(whole) == "x"
    assert copied_name(view, last) == "blk.1.x.weight"


def copied_name(view: OpenModelsView, index: QModelIndex) -> str:
    view.tree.setCurrentIndex(index)
    view._copy_action.trigger()
    return QGuiApplication.clipboard().text()


def test_a_model_that_llama_cpp_refuses_is_marked(
    view: OpenModelsView, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    path = tmp_path / "old.gguf"
    path.write_bytes(GgufFile(version=1).build())
    view.add(load(path), 2)
    index = open_row(view, "⚠ old.gguf")
    assert "it is of version 1" in str(index.data(Qt.ItemDataRole.ToolTipRole))
    assert spoken(index).startswith("old.gguf, warning: does not read")


@pytest.mark.usefixtures("refusals")
def test_a_model_that_llama_cpp_will_not_load_is_marked(
    view: OpenModelsView, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    path = GgufFile(tensors=[TensorSpec("a")]).write(tmp_path / "odd.gguf")
    view.add(load(path), 2)
    index = open_row(view, "⚠ odd.gguf")
    assert "llama.cpp" in str(index.data(Qt.ItemDataRole.ToolTipRole))


@pytest.fixture
def very_wide(tmp_path: Path, load: Callable[[Path], Document]) -> Document:
    names = [f"t{number}" for number in range(1_500)]
    names += [f"blk.{number}.x" for number in range(1_200)]
    keys = [(f"some.key{number}", U32, number) for number in range(1_100)]
    file = GgufFile(keys=keys, tensors=[TensorSpec(name) for name in names])  # type: ignore[arg-type]
    return load(file.write(tmp_path / "very_wide.gguf"))


def test_very_many_siblings_are_spans_in_natural_order(
    model: TreeModel, very_wide: Document
) -> None:
    root = model.add(very_wide, len(model.roots))
    tensors = child(model, root, "Tensors")
    model.fetchMore(tensors)
    spans = titles(model, tensors)
    assert spans[:2] == ["t0 … t255", "t256 … t511"]
    assert spans[6:8] == ["Layer 0 … Layer 255", "Layer 256 … Layer 511"]
    assert len(spans) == 6 + 5
    some = child(model, child(model, root, "Metadata"), "some")
    model.fetchMore(some)
    assert titles(model, some)[-1] == "key1024 … key1099"


def test_what_is_looked_for_opens_its_own_branches_only(
    view: OpenModelsView, very_wide: Document
) -> None:
    view.add(very_wide, 2)
    last = very_wide.model.tensors.row_of("blk.1199.x")
    assert last is not None
    view.reveal_tensor(very_wide, last)
    index = view.tree.currentIndex()
    assert index.data() == "x"
    assert index.parent().data() == "Layer 1199"
    assert index.parent().parent().data() == "Layer 1024 … Layer 1199"
    tensors = index.parent().parent().parent()
    filled = [view.model.rowCount(view.model.index(row, 0, tensors)) for row in range(11)]
    assert filled == [0] * 10 + [176]
    view.reveal_key(very_wide, "some.key1099")
    assert view.tree.currentIndex().data(ItemRole.RAW) == "some.key1099"
    assert view.tree.currentIndex().parent().data() == "key1024 … key1099"


def test_the_key_that_opens_all_opens_one_level(
    qtbot: QtBot, view: OpenModelsView, very_wide: Document
) -> None:
    view.add(very_wide, 2)
    index = open_row(view, "very_wide.gguf")
    view.tree.collapse(index)
    view.tree.setCurrentIndex(index)
    qtbot.keyClick(view.tree, KEY.Key_Asterisk)
    assert view.tree.isExpanded(index)
    assert not view.tree.isExpanded(view.model.index(1, 0, index))


def test_a_name_of_65000_letters_is_shortened_and_copied_whole(
    view: OpenModelsView, load: Callable[[Path], Document], tmp_path: Path
) -> None:
    name = "n" * 60_000
    document = load(GgufFile(tensors=[TensorSpec(name)]).write(tmp_path / "long.gguf"))
    view.add(document, 2)
    view.reveal_tensor(document, 0)
    index = view.tree.currentIndex()
    assert len(index.data()) < 250
    assert copied_name(view, index) == name


def test_the_end_of_a_long_key_is_seen_and_a_value_takes_the_room_of_a_short_one(
    view: OpenModelsView, demo: Document
) -> None:
    view.add(demo, 1)
    view.resize(264, 400)
    view.show()

    def drawn(key: str, column: int) -> QStyleOptionViewItem:
        view.reveal_key(demo, key)
        cell, option = view.tree.currentIndex().siblingAtColumn(column), QStyleOptionViewItem()
        view.tree.initViewItemOption(option)
        option.rect = view.tree.visualRect(cell)
        view.tree.itemDelegate().initStyleOption(option, cell)
        return option

    long = drawn("llama.attention.layer_norm_rms_epsilon", 0)
    assert long.textElideMode is Qt.TextElideMode.ElideLeft
    short = drawn("general.description", 1)
    assert short.rect.width() > view.tree.columnWidth(1)
    many = drawn("tokenizer.ggml.tokens", 1)
    assert many.text == "2,000 values"
    assert many.rect.width() >= many.fontMetrics.horizontalAdvance(many.text)
