"""Commands keep what they find: never among the user's own files."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test a cache folder of its own."""
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "cache"))
