"""Fixtures of the tests of trust: hostile models, and a home of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.hostile import HostileModels, write_hostile_models


@pytest.fixture(scope="session")
def hostile_models(tmp_path_factory: pytest.TempPathFactory) -> HostileModels:
    """Models whose every text is an attack; for reading only."""
    return write_hostile_models(tmp_path_factory.mktemp("hostile") / "models")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(folder))
    return folder
