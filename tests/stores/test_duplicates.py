"""What lies in two places, what removing it frees, and the command for it."""

from __future__ import annotations

import os
from pathlib import Path

from explorer.present.tables.library import lost_text, removals_of, stored_files
from explorer.stores.duplicates import duplicates
from explorer.stores.entries import Place, StoreKind
from explorer.stores.library import read_stores
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.ollama_store import OllamaStore

MIB = 1 << 20


def write(path: Path, name: str, architecture: str = "llama") -> Path:
    """Write a model of some MiB; the name makes it another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    keys = [("general.architecture", STRING, architecture), ("general.name", STRING, name)]
    weights = TensorSpec("output.weight", (512, 512), data=bytes(4 * 512 * 512))
    return GgufFile(keys=keys, tensors=[weights]).write(path)  # type: ignore[arg-type]


def test_equal_files_are_found_and_two_names_of_one_are_not(tmp_path: Path) -> None:
    one, same, other = (
        write(tmp_path / name / "m.gguf", text)
        for name, text in (("a", "one"), ("b", "one"), ("c", "two"))
    )
    os.link(one, tmp_path / "link.gguf")
    small = tmp_path / "small", tmp_path / "small too"
    for path in small:
        path.write_bytes(b"license")
    every = [one, same, other, tmp_path / "link.gguf", *small]
    sizes = [(path, path.stat().st_size) for path in every]
    assert duplicates(sizes) == [[one, same]]
    wrong = [(path, 7 * MIB) for path in every]  # one file of a model of several
    assert duplicates(wrong) == []
    assert duplicates([*sizes, (tmp_path / "gone", sizes[0][1])]) == [[one, same]]


def test_a_projector_is_called_one(tmp_path: Path) -> None:
    write(tmp_path / "mmproj-x.gguf", "one", "clip")
    write(tmp_path / "not-mmproj.gguf", "two")
    write(tmp_path / "x.gguf", "three")
    files = stored_files(read_stores([Place(StoreKind.FOLDER, tmp_path)]))
    assert {file.path.name: file.part for file in files} == {
        "mmproj-x.gguf": "Projector (GGUF)",
        "not-mmproj.gguf": "Model (GGUF)",
        "x.gguf": "Model",
    }


def test_files_of_all_stores_say_what_removing_them_frees(tmp_path: Path) -> None:
    store = OllamaStore(tmp_path / "models")
    model = write(tmp_path / "m.gguf", "one").read_bytes()
    layer, license_ = store.layer("model", model), store.layer("license", b"Do what you like.\n")
    for name in ("first", "second"):
        own = store.layer("system", name.encode())
        store.manifest([layer, license_, own], f"registry.ollama.ai/library/{name}/latest")
    alone = store.layer("model", write(tmp_path / "n.gguf", "two").read_bytes())
    prompt = store.layer("system", b"third")
    store.manifest([alone, license_, prompt], "registry.ollama.ai/library/third/latest")
    folder = tmp_path / "own"
    copy = write(folder / "x" / "copy.gguf", "two")
    places = [Place(StoreKind.OLLAMA, store.models), Place(StoreKind.FOLDER, folder)]
    files = stored_files(read_stores(places))
    by_users = {(file.blob.used_by, file.part.partition(" ")[0]): file for file in files}
    shared = by_users[("first:latest", "second:latest"), "Model"]
    assert (shared.command, shared.frees, shared.same_as) == ("", 0, "")
    third = by_users[("third:latest",), "Model"]
    assert third.command == "ollama rm third:latest"
    system = by_users[("third:latest",), "System"]
    assert third.frees == system.frees == third.blob.nbytes + system.blob.nbytes
    (own,) = (file for file in files if file.path == copy)
    assert (own.command, own.frees) == (f"rm -- {copy}", copy.stat().st_size)
    assert (own.same_as, third.same_as) == ("Ollama: third:latest", "Folder: x/copy.gguf")
    assert (own.state, own.digest) == ("⚠ duplicate", "")
    assert removals_of([third, system, own, shared]) == {
        "ollama rm third:latest": third.frees,
        f"rm -- {copy}": own.frees,
    }
    assert lost_text(files, [own.command]) == ""
    assert lost_text(files, [own.command, third.command]) == "No copy of third:latest stays."


def test_removing_a_link_frees_nothing(tmp_path: Path) -> None:
    whole = write(tmp_path / "elsewhere" / "a.gguf", "one")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "a.gguf").symlink_to(whole)
    (store,) = read_stores([Place(StoreKind.FOLDER, folder)])
    assert store.nbytes == whole.stat().st_size
    assert stored_files([store]) == []
