"""Rows of stores: families, versions, what is shared, notes."""

from __future__ import annotations

from pathlib import Path

from explorer.formats import Problem, Severity
from explorer.planner.plans import Level, Verdict
from explorer.present.fits import DAMAGED, ModelFit
from explorer.qt.library.nodes import LibraryColumn, Node, time_text
from explorer.qt.library.rows import Usage, family_of, problem_note, store_row
from explorer.qt.widgets.cells import CellParts
from explorer.stores.entries import Blob, Entry, PartialDownload, Place, Store, StoreKind

HUB = Path("/hub/models--org--name/snapshots/abc")


def entry(name: str, path: str = "", **more: object) -> Entry:
    return Entry(name, Path(path or f"/{name}"), "gguf", 10, 1.0, **more)  # type: ignore[arg-type]


def test_the_family_of_an_entry_is_what_its_versions_have_in_common() -> None:
    ollama, hub, folder = StoreKind.OLLAMA, StoreKind.HUGGINGFACE, StoreKind.FOLDER
    assert family_of(ollama, entry("hf.co/a/b:Q4")) == "hf.co/a/b"
    assert family_of(ollama, entry("registry/unreadable")) == ""
    assert family_of(hub, entry("org/name@v1", str(HUB))) == "org/name"
    assert family_of(hub, entry("org/name/x.gguf", str(HUB / "x.gguf"))) == "org/name"
    assert family_of(folder, entry("sub/dir/x.gguf")) == "sub/dir"
    assert family_of(folder, entry("x.gguf")) == ""


def test_only_a_family_of_several_gets_a_row() -> None:
    place = Place(StoreKind.HUGGINGFACE, Path("/hub"))
    entries = [
        entry("org/name", str(HUB)),
        entry("org/name@v1", str(HUB.with_name("def"))),
        entry("org/other", "/hub/models--org--other/snapshots/abc"),
    ]
    row = store_row(place, entries, None)
    assert [child.title for child in row.children] == ["org/name", "org/other"]
    assert [child.title for child in row.children[0].children] == ["main", "v1"]
    assert row.note == "reading…"


def test_a_family_says_what_its_versions_share_or_how_many_fit() -> None:
    entries = [entry("org/name", str(HUB)), entry("org/name@v1", str(HUB.with_name("def")))]
    row = store_row(Place(StoreKind.HUGGINGFACE, Path("/hub")), entries, None).children[0]
    yes, no = ModelFit(Verdict(Level.FITS, 9, 9), ""), ModelFit(Verdict(Level.NOT, 0, 9), "")
    damaged, unknown = ModelFit(None, "", word=DAMAGED), ModelFit(None, "", word="No weights")
    for fits, shown in (
        ((yes, yes), CellParts("Fits", level=Level.FITS)),
        ((yes, no), CellParts("", "1 of 2 fit")),
        ((damaged, damaged), CellParts("Damaged", level=Level.NOT)),
        ((unknown, unknown), CellParts("", "No weights")),
        ((yes, unknown), CellParts("Fits", level=Level.FITS)),  # a projector beside its model
        ((yes, None), None),  # until all are known
    ):
        family = Node(row, None)
        family.every = [Node(child, family) for child in row.children]
        for node, fit in zip(family.every, fits, strict=True):
            node.fit = fit
        assert family.parts(LibraryColumn.FITS) == shown


def test_files_of_the_top_folder_are_no_family() -> None:
    row = store_row(Place(StoreKind.FOLDER, Path("/f")), [entry("a.gguf"), entry("b.gguf")], None)
    assert [child.title for child in row.children] == ["a.gguf", "b.gguf"]


def test_shared_blobs_count_once_in_every_sum() -> None:
    blobs = [
        Blob("one", Path("/b/one"), 100, ("m:a", "m:b")),
        Blob("two", Path("/b/two"), 10, ("m:a",)),
        Blob("three", Path("/b/three"), 1, ()),
    ]
    usage = Usage(blobs)
    assert usage.total(["m:a", "m:b"]) == 110
    assert usage.total(["m:b"], ["three", "one"]) == 101
    assert usage.total(["nobody"]) == 0
    assert (usage.shared_bytes("m:a"), usage.shared_bytes("nobody")) == (100, 0)
    store = Store(
        StoreKind.OLLAMA,
        Path("/o"),
        (entry("m:a"), entry("m:b")),
        tuple(blobs),
        (PartialDownload(Path("/b/x-partial"), 1000),),
    )
    row = store_row(Place(StoreKind.OLLAMA, Path("/o")), store.entries, store)
    assert row.nbytes == 1111
    family, orphans, partials = row.children
    assert family.nbytes == 110
    assert [child.nbytes for child in orphans.children] == [1]
    assert partials.nbytes == 1000


def test_the_gravest_problem_comes_first() -> None:
    warning = Problem(Severity.WARNING, "x", "may be wrong")
    error = Problem(Severity.ERROR, "y", "is\nwrong")
    assert problem_note([]) == ""
    assert problem_note([warning]) == "⚠ may be wrong"
    assert problem_note([warning, error]) == r"✘ is\nwrong (and 1 more)"


def test_times_that_no_year_has_are_left_out() -> None:
    assert time_text(None) == time_text(1e30) == time_text(float("nan")) == ""
    assert len(time_text(1_700_000_000.0)) == len("2023-11-14 22:13")


def test_a_name_without_letters_has_a_title() -> None:
    place = Place(StoreKind.FOLDER, Path("/f"))
    row = store_row(place, [Entry("", Path("/f"), None, 0, None)], None)
    node = Node(row.children[0], None)
    assert node.cells[0] == "(empty name)"
