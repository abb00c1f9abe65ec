"""Where stores are looked for, on each system and with each variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.stores.entries import Place, StoreKind, default_places, present_places
from tests.helpers.closed_folders import close_folder

HOME = Path("/home/me")
HUB = HOME / ".cache/huggingface/hub"


def roots(kind: StoreKind, platform: str, **environment: str) -> list[str]:
    places = default_places(environment, HOME, platform)
    return [place.root.as_posix() for place in places if place.kind is kind]


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, ["/home/me/.ollama/models", "/usr/share/ollama/.ollama/models"]),
        ("darwin", {}, ["/home/me/.ollama/models"]),
        ("win32", {}, ["/home/me/.ollama/models"]),
        ("linux", {"OLLAMA_MODELS": "/data"}, ["/data"]),
    ],
)
def test_ollama(platform: str, environment: dict[str, str], expected: list[str]) -> None:
    assert roots(StoreKind.OLLAMA, platform, **environment) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, HUB.as_posix()),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/h"}, "/old"),
        ({"HF_HUB_CACHE": "/new", "HUGGINGFACE_HUB_CACHE": "/old"}, "/new"),
    ],
)
def test_hub_cache(environment: dict[str, str], expected: str) -> None:
    assert roots(StoreKind.HUGGINGFACE, "linux", **environment) == [expected]


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "/home/me/.cache/llama.cpp"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/llama.cpp"),
        ("darwin", {}, "/home/me/Library/Caches/llama.cpp"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/llama.cpp"),
        ("win32", {}, "/home/me/AppData/Local/llama.cpp"),
        ("darwin", {"LLAMA_CACHE": "/cache"}, "/cache"),
    ],
)
def test_llama_cpp(platform: str, environment: dict[str, str], expected: str) -> None:
    assert roots(StoreKind.LLAMA_CPP, platform, **environment) == [expected]


def test_lm_studio_new_and_old() -> None:
    assert roots(StoreKind.LMSTUDIO, "linux") == [
        "/home/me/.lmstudio/models",
        "/home/me/.cache/lm-studio/models",
    ]


def test_a_shared_cache_is_read_once() -> None:
    places = default_places({"HF_HUB_CACHE": "/c", "LLAMA_CACHE": "/c"}, HOME, "linux")
    assert [place.kind for place in places if place.root == Path("/c")] == [StoreKind.HUGGINGFACE]


def test_only_what_is_there_or_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed" / "models"
    closed.mkdir(parents=True)
    close_folder(monkeypatch, closed.parent)
    places = [Place(StoreKind.FOLDER, root) for root in (tmp_path, tmp_path / "none", closed)]
    assert [place.root for place in present_places(places)] == [tmp_path, closed]
