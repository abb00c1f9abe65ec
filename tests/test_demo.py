"""The demo model that is shipped, and the folders and files of the program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from explorer.formats import StringArray, open_model
from explorer.paths import cache_folder, demo_model, resource


def test_it_opens_without_a_problem_and_has_all_kinds_of_types_and_tokens() -> None:
    with open_model(demo_model()) as model:
        assert model.problems == ()
        tokens = model.metadata["tokenizer.ggml.tokens"]
        assert isinstance(tokens, StringArray)
        assert len(tokens) == len(set(tokens)) == 2000
        assert tokens.raw(list(tokens).index("\udcff")) == b"\xff"
        kinds = list(model.metadata["tokenizer.ggml.token_type"])
        assert set(kinds) == {1, 2, 3, 4, 5, 6}
        assert kinds.count(6) == 256
        assert len(model.tensors.totals_by_type) == 8


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("GGUF_EXPLORER_CACHE")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "gguf-explorer"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
        assert cache_folder() == Path.home() / ".cache" / "gguf-explorer"


def test_resources_are_found_or_named() -> None:
    assert resource("guide/start.md").read_text("utf-8")
    with pytest.raises(FileNotFoundError, match="nothing"):
        resource("guide/nothing")
