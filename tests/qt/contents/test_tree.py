"""The tree of open models: Qt's contract, pages, order, and finding what is not opened yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, QPersistentModelIndex
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.modeltest import ModelTester

from explorer.qt.contents.open_models import Node, NodeKind, TreeModel
from explorer.qt.document import Document
from explorer.qt.widgets.table_model import ItemRole
from tests.helpers.gguf_writer import GgufFile, TensorSpec
from tests.helpers.window import unsafe_characters


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
    model: TreeModel, demo: Document, two_pages: Document, hostile: Document
) -> None:
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning)
    # By itself the tester opens branches while it is told of new rows, and confuses itself: here
    # only the test opens them. What the tester finds is a warning, and fails the test.
    tester.setUseFetchMore(False)
    model.add(demo, 0)
    root = model.add(two_pages, 1)
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
    model.remove(two_pages)
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
    assert titles(model, some) == ["numbers", "text"]
    assert model.index(0, 1, some).data() == "int32[3]"


def test_nothing_is_made_before_a_branch_is_opened(model: TreeModel, small: Document) -> None:
    root = model.add(small, len(model.roots))
    assert model.hasChildren(root)
    assert model.rowCount(root) == 0
    assert model.canFetchMore(root)


@pytest.fixture
def wide(tmp_path: Path, load: Callable[[Path], Document]) -> Document:
    tensors = [TensorSpec(f"t{number}") for number in range(600)]
    return load(GgufFile(tensors=tensors).write(tmp_path / "wide.gguf"))


@pytest.fixture
def two_pages(tmp_path: Path, load: Callable[[Path], Document]) -> Document:
    """A branch of little more than one page: Qt checks the whole model at each change."""
    tensors = [TensorSpec(f"t{number}") for number in range(300)]
    return load(GgufFile(tensors=tensors).write(tmp_path / "two_pages.gguf"))


def test_a_wide_branch_comes_in_pages(model: TreeModel, wide: Document) -> None:
    tensors = child(model, model.add(wide, len(model.roots)), "Tensors")
    sizes: list[int] = []
    while model.canFetchMore(tensors):
        model.fetchMore(tensors)
        sizes.append(model.rowCount(tensors))
    assert sizes == [256, 512, 600]
    assert titles(model, tensors)[:3] == ["t0", "t1", "t2"]
    assert titles(model, tensors)[-1] == "t599"


def test_find_opens_what_hides_it(model: TreeModel, wide: Document, small: Document) -> None:
    model.add(small, len(model.roots))
    model.add(wide, len(model.roots))
    index = model.find(wide, lambda node: node.tensor_row == 599)
    assert index.data() == "t599"
    assert index.row() == 599
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
    assert shown[0] == "<b>%n {0} \\u202e.gguf"
