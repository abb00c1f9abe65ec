"""The tree's model in all its states, with Qt's own checks of item models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester

from explorer.formats import Problem, Severity
from explorer.qt.library.model import LibraryModel
from explorer.qt.library.nodes import LibraryColumn, total_of
from explorer.qt.library.rows import Pages, Row, RowKind, store_row
from explorer.qt.library.tree import LibraryTree
from explorer.stores.entries import Entry, Place, Store, StoreKind
from explorer.stores.library import Details

PLACE = Place(StoreKind.OLLAMA, Path("/o"))


def row_of(*names: str, nbytes: int = 10) -> Row:
    entries = tuple(Entry(name, Path("/o", name), "gguf", nbytes, 1.0, (), 1) for name in names)
    return store_row(PLACE, entries, Store(StoreKind.OLLAMA, Path("/o"), entries))


def shown(model: LibraryModel, parent: QModelIndex | None = None) -> list[object]:
    """Return the titles of what is shown, those below a row in a list behind it."""
    parent = QModelIndex() if parent is None else parent
    found: list[object] = []
    for number in range(model.rowCount(parent)):
        index = model.index(number, 0, parent)
        found.append(index.data())
        found += [shown(model, index)] if model.rowCount(index) else []
    return found


@pytest.fixture
def model(qapp: object) -> LibraryModel:
    model = LibraryModel()
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning, model)
    return model


def test_an_empty_tree_is_a_model(model: LibraryModel) -> None:
    model.set_rows([])
    model.set_filter("x")
    model.sort(3, Qt.SortOrder.DescendingOrder)
    assert shown(model) == []


def test_contents_come_in_pages_and_go_with_their_model(model: LibraryModel) -> None:
    model.set_rows([row_of("a:1", "b:1")])
    (node, _) = model.entries()
    wanted: list[object] = []
    model.contents_wanted.connect(wanted.append)
    model.load(node)
    model.load(node)  # it was asked for already
    assert wanted == [node]
    assert shown(model)[1] == ["a:1", ["reading…"], "b:1"]

    def make(start: int, stop: int) -> list[Row]:
        return [Row(RowKind.TENSOR, str(at), f"t{at}") for at in range(start, stop)]

    model.set_contents(node, [Row(RowKind.PART, "0", "file", pages=Pages(600, make))])
    (part,) = node.every
    for count in (256, 512, 600, 600):
        model.load(part)
        assert model.rowCount(model.index_of(part)) == count
    model.set_filter("b")
    model.set_filter("")
    assert model.rowCount(model.index_of(part)) == 600
    model.set_rows([row_of("b:1")])
    assert not model.index_of(part).isValid()
    model.set_contents(node, [])  # too late: nothing happens
    assert len(shown(model)) == 2


def test_a_changed_model_forgets_what_was_read_from_it(model: LibraryModel) -> None:
    model.set_rows([row_of("a:1")])
    (node,) = model.entries()
    assert node.row.entry is not None
    model.set_details([(node.row.entry, Details("llama", 7, "Q8_0"))])
    assert node.cells[LibraryColumn.ARCHITECTURE] == "llama"
    model.load(node)
    model.set_rows([row_of("a:1")])
    assert node.requested  # the same again
    model.set_rows([row_of("a:1", nbytes=11)])
    assert list(model.entries()) == [node]
    assert node.cells[LibraryColumn.ARCHITECTURE] == ""
    assert not node.requested
    assert shown(model) == [node.parent.row.title, ["a:1"]]  # type: ignore[union-attr]


def test_a_family_says_what_its_members_share(model: LibraryModel) -> None:
    model.set_rows([row_of("a:1", "a:2")])
    first, second = model.entries()
    assert first.row.entry is not None
    assert second.row.entry is not None
    family = first.parent
    assert family is not None
    model.set_details([(first.row.entry, Details("llama", 7, "Q8_0"))])
    assert family.cells[LibraryColumn.ARCHITECTURE] == ""
    model.set_details([(second.row.entry, Details("llama", 7, "Q4_0"))])
    assert family.cells[LibraryColumn.ARCHITECTURE] == "llama"
    assert family.cells[LibraryColumn.PARAMETERS] == "7"


def test_a_row_below_a_selected_one_adds_nothing(model: LibraryModel) -> None:
    model.set_rows([row_of("a:1", "a:2", "b:1")])
    nodes = list(model.entries())
    family = nodes[0].parent
    assert family is not None
    assert total_of([nodes[2]]).nbytes == 1
    assert total_of([family, *nodes]).models == 3
    assert total_of([family]).nbytes == 2
    assert total_of([]).nbytes == 0


_NAMES = st.lists(st.sampled_from([f"{a}:{b}" for a in "abcd" for b in range(3)]), unique=True)


@given(
    scans=st.lists(_NAMES, min_size=1, max_size=5),
    text=st.sampled_from(["", "a", "b:1", "nothing"]),
    column=st.sampled_from(list(LibraryColumn)),
)
def test_any_scan_after_any_other_shows_what_a_new_tree_would(
    qapp: object, scans: list[list[str]], text: str, column: int
) -> None:
    """Whatever is inserted, removed and moved: the rows are those of a model made from nothing."""
    model, fresh = LibraryModel(), LibraryModel()
    tester = QAbstractItemModelTester(model)
    for each in (model, fresh):
        each.sort(column, Qt.SortOrder.DescendingOrder)
    for names in scans:
        model.set_rows([row_of(*names, nbytes=len(names))])
        model.set_filter(text)
    fresh.set_filter(text)
    fresh.set_rows([row_of(*scans[-1], nbytes=len(scans[-1]))])
    assert shown(model) == shown(fresh)
    assert tester is not None


def test_a_row_of_another_title_is_another_row(model: LibraryModel) -> None:
    row = row_of("a:1")
    model.set_rows([row])
    model.set_rows([replace(row, note="something else")])
    assert model.index(0, LibraryColumn.NOTE).data() == "something else"


def test_a_closed_family_shows_that_a_member_has_a_problem(model: LibraryModel) -> None:
    problem = Problem(Severity.ERROR, "x", "is broken")
    entries = (
        Entry("a:1", Path("/o/a:1"), "gguf", 1, 1.0),
        Entry("a:2", Path("/o/a:2"), "gguf", 1, 1.0, (problem,)),
    )
    model.set_rows([store_row(PLACE, entries, Store(StoreKind.OLLAMA, Path("/o"), entries))])
    family = next(iter(model.entries())).parent
    assert family is not None
    assert family.cells[LibraryColumn.NAME] == "✘ a"
    assert family.cells[LibraryColumn.NOTE] == "⚠ problems in 1 of 2"
    assert [node.cells[LibraryColumn.NAME] for node in family.every] == ["1", "✘ 2"]


def test_stores_come_and_go_below_nothing(model: LibraryModel) -> None:
    model.set_rows([row_of("a:1", "b:1")])
    store = model.index(0, 0)
    kept = [QPersistentModelIndex(store), QPersistentModelIndex(model.index(0, 0, store))]
    model.set_rows([])
    model.sort(1, Qt.SortOrder.DescendingOrder)  # asks for the rows of all that is kept
    assert not any(index.isValid() for index in kept)


def test_what_is_inside_a_model_that_is_filtered_out_changes_unseen(model: LibraryModel) -> None:
    model.set_rows([row_of("a:1", "b:1")])
    first, _ = model.entries()
    model.load(first)
    model.set_filter("b")
    steps: list[int] = []
    for step in (model.rowsAboutToBeInserted, model.rowsAboutToBeRemoved):
        step.connect(lambda _parent, first: steps.append(first))
    model.set_contents(first, [Row(RowKind.TENSOR, "0", "t0"), Row(RowKind.TENSOR, "1", "t1")])
    model.forget_contents(first)
    model.set_contents(first, [Row(RowKind.TENSOR, "2", "t2")])
    assert steps == []
    model.set_filter("")
    assert shown(model)[1] == ["a:1", ["t2"], "b:1"]


def test_a_model_that_llama_cpp_refuses_is_marked_once_its_header_was_read(
    model: LibraryModel,
) -> None:
    model.set_rows([row_of("a:1", "b:1")])
    (first, second) = model.entries()
    refusal = Problem(Severity.WARNING, "llama.cpp", "does not read a: it is big-endian")
    entry = first.row.entry
    assert entry is not None
    model.set_details([(entry, Details("llama", refusals=(refusal,)))])
    index = model.index_of(first)
    assert index.data() == "⚠ a:1"
    assert "it is big-endian" in str(index.data(Qt.ItemDataRole.ToolTipRole))
    spoken = index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "a:1, warning: does not read a: it is big-endian"
    note = index.siblingAtColumn(LibraryColumn.NOTE).data()
    assert note == "⚠ does not read a: it is big-endian"
    assert model.index_of(second).data(Qt.ItemDataRole.AccessibleTextRole) == "b:1"


@given(chosen=st.sets(st.integers(0, 39)), kept=st.sampled_from(["1", "m2", "nothing", ""]))
def test_what_is_selected_stays_so_through_a_reset(chosen: set[int], kept: str) -> None:
    """In as few ranges as there are runs of rows: 5,000 ranges held up the window for 400 ms."""
    model = LibraryModel()
    tree = LibraryTree(model)
    model.set_rows([row_of(*(f"m{number:02}" for number in range(40)))])
    nodes = list(model.entries())
    flags = QItemSelectionModel.SelectionFlag
    for number in chosen:
        index = model.index_of(nodes[number])
        tree.selectionModel().select(index, flags.Select | flags.Rows)
    model.set_filter(kept)
    left = {number for number in chosen if kept in f"m{number:02}"}
    assert {node.id for node in tree.selected_nodes()} == {nodes[number].id for number in left}
    rows = sorted(nodes[number].place for number in left)
    runs = sum(row - 1 not in rows for row in rows)
    assert len(tree.selectionModel().selection().toList()) == runs
    tree.deleteLater()
