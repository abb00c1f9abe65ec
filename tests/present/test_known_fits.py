"""Fits that were worked out before: nothing is planned again, and no change is missed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.parallel import Check, never
from explorer.planner import Device, Host, Settings
from explorer.planner.devices import MAX_MEMORY
from explorer.present import fits
from explorer.present.fits import ModelFit, Target, known_fits, version_at
from explorer.private_folder import PrivateFolder
from explorer.stores import known
from explorer.stores.entries import Entry, Place, Store, StoreKind
from explorer.stores.known import known_headers
from explorer.stores.library import scan
from explorer.text import ByteUnits, Notation, writing
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import safetensors_bytes
from tests.helpers.small_gguf import SmallGguf
from tests.helpers.sparse_models import Shape

GIB = 1 << 30
CARD = Device("0", "CUDA", 5 * GIB, name="NVIDIA L4")
TARGET = Target((CARD, Device("1", "CUDA", GIB)), Host(64 * GIB, total=64 * GIB))
SMALL = Shape(blocks=2, width=256, feed_forward=512, heads=4, kv_heads=2)


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take files that were just written for old ones."""
    monkeypatch.setattr(known, "_SETTLED_S", -1e9)


@pytest.fixture
def folder(tmp_path: Path) -> PrivateFolder:
    return PrivateFolder("library", root=tmp_path / "cache")


@pytest.fixture
def store(tmp_path: Path) -> OllamaStore:
    store = OllamaStore(tmp_path / "ollama")
    _manifest(store, projector=False)
    return store


def _manifest(store: OllamaStore, *, projector: bool) -> None:
    model = SMALL.write(store.models / "model").read_bytes()
    clip = [("general.architecture", "clip")]
    seeing = SmallGguf(keys=clip, tensors=[("v.w", (1 << 20,), 0, 0)], data=bytes(4 << 20)).write()
    layers = [store.layer("model", model)] + [store.layer("projector", seeing)] * projector
    store.manifest(layers, "registry.ollama.ai/library/tiny/latest")


@pytest.fixture
def entries(tmp_path: Path, store: OllamaStore) -> list[Entry]:
    """A large model, a vocabulary, one that cannot be read, a folder, one of Ollama's."""
    plain = tmp_path / "plain"
    (plain / "hub").mkdir(parents=True)
    Shape().write(plain / "large.gguf")
    (plain / "tokens.gguf").write_bytes(SmallGguf(keys=[("general.name", "x")]).write())
    (plain / "junk.gguf").write_bytes(b"GGUF" + bytes(3))
    header = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    (plain / "hub" / "model.safetensors").write_bytes(safetensors_bytes(header, bytes(8)))
    (plain / "hub" / "config.json").write_text(json.dumps({"model_type": "qwen"}))
    places = [Place(StoreKind.OLLAMA, store.models), Place(StoreKind.FOLDER, plain)]
    return [found for _, found in scan(places) if not isinstance(found, Store)]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found: list[Path] = []

    def plan(path: Path, target: Target, check: Check) -> Any:
        found.append(path)
        return _kept_at(path, target, check)

    monkeypatch.setattr(fits, "_kept_at", plan)
    return found


_kept_at = fits._kept_at


def _fits(
    entries: list[Entry], folder: PrivateFolder, target: Target = TARGET
) -> dict[str, ModelFit]:
    with known_headers(folder) as read:
        for entry in entries:
            read(entry, never)
    with known_fits(target, folder) as fit:
        return {entry.name: fit(entry, never) for entry in entries}


def _expected(entries: list[Entry], target: Target = TARGET) -> dict[str, ModelFit]:
    return {entry.name: version_at(entry.path, target).fit for entry in entries}


def test_the_second_look_opens_no_model(
    entries: list[Entry], folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _expected(entries)
    large = expected["large.gguf"]
    assert large.speed is not None
    assert (large.engine, large.context_layers != "") == ("llama.cpp", True)  # all fields are used
    assert {one.word for one in expected.values()} >= {"", "No weights", "Cannot be read"}
    opened: list[str] = []
    system = os.open

    def note(path: Any, *arguments: Any, **others: Any) -> int:
        opened.append(Path(path).name)
        return system(path, *arguments, **others)

    monkeypatch.setattr(os, "open", note)
    assert _fits(entries, folder) == expected
    assert {"large.gguf", "model.safetensors"} <= set(opened)
    opened.clear()
    assert _fits(entries, folder) == expected
    models = {name for name in opened if name.endswith((".gguf", ".safetensors"))}
    assert models == {"junk.gguf"}  # what cannot be opened is tried again
    assert not any(name.startswith("sha256") for name in opened)


@pytest.mark.parametrize(
    "other",
    [
        replace(TARGET, devices=(replace(CARD, free=CARD.free - 1), TARGET.devices[1])),
        replace(TARGET, devices=TARGET.devices[::-1]),
        replace(TARGET, host=Host(GIB, total=64 * GIB)),
        replace(TARGET, host=None),
        replace(TARGET, bandwidths={"NVIDIA L4": 10**9}),
        replace(TARGET, settings=Settings(context=4096)),
        replace(TARGET, environment={"OLLAMA_CONTEXT_LENGTH": "2048"}),
    ],
)
def test_another_machine_or_setting_is_planned_for(
    other: Target, entries: list[Entry], folder: PrivateFolder, planned: list[Path]
) -> None:
    _fits(entries, folder)
    planned.clear()
    assert _fits(entries, folder, other) == _expected(entries, other)
    assert len(planned) == len(entries)
    planned.clear()
    assert _fits(entries, folder, replace(other, environment={**other.environment, "HOME": "/"}))
    assert len(planned) == 1  # no plan depends on HOME; the one cannot be read


def _with(host: Host) -> Target:
    return replace(TARGET, host=host)


def test_free_main_memory_counts_where_it_matters(
    entries: list[Entry], folder: PrivateFolder, planned: list[Path]
) -> None:
    (large,) = (one for one in entries if one.name == "large.gguf")
    _fits([large], folder)
    planned.clear()
    for free, swap in ((57, 0), (60, 2), (127, 1)):
        other = _with(Host(free * GIB, swap * GIB, total=64 * GIB))
        assert _fits([large], folder, other) == _expected([large], other)
    assert planned == []
    for free, swap in ((55, 0), (127, 2)):  # too far from what was tried
        _fits([large], folder, _with(Host(free * GIB, swap * GIB, total=64 * GIB)))
        assert planned == [large.path]
        planned.clear()
    # the longest context is what main memory holds
    tight, tighter = (_with(Host(free, total=64 * GIB)) for free in (8 * GIB, 8 * GIB - (32 << 20)))
    found = _fits([large], folder, tight)
    assert found == _expected([large], tight)
    assert _fits([large], folder, tight) == found
    assert planned == [large.path]
    assert _fits([large], folder, tighter) == _expected([large], tighter) != found
    assert planned == [large.path] * 2
    endless = _with(Host(MAX_MEMORY))
    assert _fits([large], folder, endless) == _expected([large], endless)


def test_free_main_memory_counts_to_the_byte_without_a_gpu(
    entries: list[Entry], folder: PrivateFolder, planned: list[Path]
) -> None:
    (large,) = (one for one in entries if one.name == "large.gguf")
    alone = replace(TARGET, devices=())
    for free in (64 * GIB, 64 * GIB - 1):
        other = replace(alone, host=Host(free, total=64 * GIB))
        for _ in range(2):
            assert _fits([large], folder, other) == _expected([large], other)
    assert planned == [large.path] * 2


@pytest.mark.parametrize("size", [3.5, 8])
def test_what_both_ends_of_free_main_memory_say_all_between_say(
    size: float, tmp_path: Path
) -> None:
    model = Shape().write(tmp_path / "large.gguf")
    card = replace(CARD, free=int(size * GIB))
    for free in (3, 20, 64):
        kept = fits._kept_at(model, Target((card,), Host(free * GIB)), never)
        for part in range(5):
            between = kept.least + (kept.most - kept.least) * part // 4
            assert version_at(model, Target((card,), Host(between))).fit == kept.fit


def test_sizes_are_told_in_the_units_of_now(entries: list[Entry], folder: PrivateFolder) -> None:
    assert " MiB " in _fits(entries, folder)["large.gguf"].sentence
    with writing(Notation(units=ByteUnits.DECIMAL)):
        assert " MB " in _fits(entries, folder)["large.gguf"].sentence


def test_another_version_of_the_program_plans_anew(
    entries: list[Entry],
    folder: PrivateFolder,
    planned: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _fits(entries, folder)
    planned.clear()
    monkeypatch.setattr(known, "__version__", "99")
    _fits(entries, folder)
    assert len(planned) == len(entries)


def test_a_changed_file_is_planned_again(
    entries: list[Entry], folder: PrivateFolder, planned: list[Path]
) -> None:
    (entry,) = (one for one in entries if one.name == "large.gguf")
    before = _fits([entry], folder)
    Shape(kind="Q8_0").write(entry.path)
    found = _fits([entry], folder)
    assert found == _expected([entry])
    assert found != before


def test_a_projector_that_comes_or_goes_counts(
    entries: list[Entry], store: OllamaStore, folder: PrivateFolder
) -> None:
    (entry,) = (one for one in entries if "tiny" in one.name)
    without = _fits([entry], folder)
    _manifest(store, projector=True)
    seeing = _fits([entry], folder)
    assert seeing == _expected([entry])
    assert seeing != without
    _manifest(store, projector=False)
    assert _fits([entry], folder) == without


def _spoil(made: dict[str, Any], name: str, value: object) -> None:
    *path, last = name.split(".")
    for part in path:
        made = made[part]
    made[last] = value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sentence", 7),
        ("sentence", "\x1b[2J"),
        ("largest_context", "many"),
        ("largest_context", True),
        ("verdict", []),
        ("verdict.level", "perhaps"),
        ("verdict.short", {"x": 1}),
        ("verdict.more", 1),
        ("speed.empty.reads", {}),
        ("speed.full.bandwidths", [[]]),
        ("speed.full.bandwidths", None),
    ],
)
def test_an_odd_record_is_planned_again(
    name: str, value: object, entries: list[Entry], folder: PrivateFolder, planned: list[Path]
) -> None:
    (entry,) = (one for one in entries if one.name == "large.gguf")
    expected = _fits([entry], folder)
    content = folder.read("headers.json", 1 << 20)
    assert content is not None
    record = json.loads(content)
    for one in record["models"].values():
        _spoil(one["made"]["fit"], name, value)
    folder.write("headers.json", json.dumps(record).encode())
    planned.clear()
    assert _fits([entry], folder) == expected
    assert planned == [entry.path]
