"""Names of models, and the manifests behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import FormatError, SourceError
from explorer.formats.ollama.manifest import OllamaName, parse_name
from explorer.stores.library import resolve
from tests.helpers.closed_folders import close_folder
from tests.helpers.ollama_store import OllamaStore

DEFAULT = ("registry.ollama.ai", "library")


@pytest.mark.parametrize(
    ("text", "parts", "shown"),
    [
        ("llama3", (*DEFAULT, "llama3", "latest"), "llama3:latest"),
        ("llama3:8b", (*DEFAULT, "llama3", "8b"), "llama3:8b"),
        ("me/x:v1", ("registry.ollama.ai", "me", "x", "v1"), "me/x:v1"),
        ("hf.co/o/R-1:Q4_0", ("hf.co", "o", "R-1", "Q4_0"), "hf.co/o/R-1:Q4_0"),
        ("localhost:99/a/b", ("localhost:99", "a", "b", "latest"), "localhost:99/a/b:latest"),
        ("hf.co/library/m", ("hf.co", "library", "m", "latest"), "hf.co/library/m:latest"),
    ],
)
def test_names(text: str, parts: tuple[str, ...], shown: str) -> None:
    name = parse_name(text)
    assert name == parts
    assert str(name) == shown
    assert parse_name(shown) == name


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "a:", ":b", "a/b/c/d", "../x", "a/..", "a b", "-a", "a:b:c", ".a", "a.b/c"),
        *("/a", "a/", "a\n", "a" * 81, "a\\b", "ä"),
    ],
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(FormatError, match="is not a model's name"):
        parse_name(text)


@given(st.text())
def test_a_name_never_leaves_the_manifests(text: str) -> None:
    try:
        name = parse_name(text)
    except FormatError:
        return
    assert all(part not in {"", ".", ".."} and not set("/\\\0") & set(part) for part in name)


@pytest.fixture
def store(tmp_path: Path) -> OllamaStore:
    store = OllamaStore(tmp_path / "models")
    for place in ("registry.ollama.ai/library/m/latest", "hf.co/Org/M/Q4_0"):
        store.manifest([], place)
    return store


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("ollama:m", "registry.ollama.ai/library/m/latest"),
        ("ollama:M:Latest", "registry.ollama.ai/library/m/latest"),
        ("ollama:hf.co/org/m:q4_0", "hf.co/Org/M/Q4_0"),
    ],
)
def test_resolve(store: OllamaStore, tmp_path: Path, text: str, place: str) -> None:
    assert resolve(text, [tmp_path / "none", store.models]) == store.manifests / place
    assert resolve(text, [tmp_path]) == store.manifests / place


def test_what_is_not_there_names_what_is(store: OllamaStore) -> None:
    with pytest.raises(SourceError, match=r"no model 'mm:latest'. There are: .*'m:latest'"):
        resolve("ollama:mm", [store.models])
    with pytest.raises(SourceError, match=r"There are: 'm:latest', 'hf.co/Org/M:Q4_0'$"):
        resolve("ollama:nope", [store.models, store.models])
    for number in range(5):
        store.manifest([], f"registry.ollama.ai/library/other{number}/{number}b")
    with pytest.raises(
        SourceError, match=r"There are: 'm:latest', ('[^']*', ){3}'[^']*' and 2 more$"
    ):
        resolve("ollama:mm", [store.models])
    with pytest.raises(SourceError, match="has no model"):
        resolve("ollama:m", [])


def test_a_closed_store_says_so(store: OllamaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    close_folder(monkeypatch, store.models)
    with pytest.raises(SourceError, match="permission denied"):
        resolve("ollama:m", [store.models])


def test_names_outside_the_rules_are_not_valid() -> None:
    assert not OllamaName("h", "n.n", "m", "t").valid
    assert OllamaName("h:1", "n", "m.m", "t").valid
