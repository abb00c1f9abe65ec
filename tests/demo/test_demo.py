"""The demo model is made, complete, and survive what happens to a cache."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from explorer import demo as recipe_module
from explorer.demo import make_demo, make_vocabulary
from explorer.errors import SourceError
from explorer.formats import StringArray, open_model
from explorer.paths import cache_folder, resource
from tests.helpers.patience import PROGRAM_S
from tests.helpers.stopwatch import in_time


def test_it_is_made_in_time_and_then_found(tmp_path: Path) -> None:
    start = time.process_time()
    path = make_demo(tmp_path)
    assert in_time(time.process_time() - start, 3)
    before = path.stat().st_mtime_ns
    assert make_demo(tmp_path) == path
    assert path.stat().st_mtime_ns == before
    assert [p.name for p in tmp_path.glob("recipe-*")] == [f"recipe-{recipe_module.RECIPE_VERSION}"]
    assert list((tmp_path / "unfinished").iterdir()) == []


def test_it_opens_without_a_problem(tmp_path: Path) -> None:
    with open_model(make_demo(tmp_path)) as model:
        assert model.problems == ()
        tokens = model.metadata["tokenizer.ggml.tokens"]
        assert isinstance(tokens, StringArray)
        assert len(tokens) == 2000
        assert tokens.raw(list(tokens).index("\udcff")) == b"\xff"
        assert len(model.tensors.totals_by_type) == 8


def test_the_gguf_package_reads_the_same(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = make_demo(tmp_path)
    reader = gguf.GGUFReader(path)
    with open_model(path) as model:
        theirs = {t.name: (t.data_offset, t.n_bytes, t.tensor_type.name) for t in reader.tensors}
        ours = {t.name: (t.offset, t.nbytes, t.type.name) for t in model.tensors.rows}
    assert ours == theirs
    norm = next(t for t in reader.tensors if t.name == "blk.1.attn_norm.weight")
    assert abs(float(np.mean(norm.data)) - 1) < 0.1


def test_the_same_bytes_each_time(tmp_path: Path) -> None:
    first, second = make_demo(tmp_path / "a"), make_demo(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


def test_a_damaged_demo_is_made_again(tmp_path: Path) -> None:
    path = make_demo(tmp_path)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:1000])
    assert make_demo(tmp_path).read_bytes() == content
    assert len(list(tmp_path.glob("recipe-*"))) == 1
    assert list((tmp_path / "unfinished").iterdir()) == []


def test_another_recipe_replaces_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_demo(tmp_path)
    monkeypatch.setattr(recipe_module, "RECIPE_VERSION", 10_000)
    new = make_demo(tmp_path)
    assert new != old
    assert new.is_file()
    assert not old.exists()


def test_programs_that_start_at_once(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from explorer.demo import make_demo;"
    code += "print(make_demo(Path(sys.argv[1])))"
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    answers = {program.communicate(timeout=PROGRAM_S)[0].strip() for program in programs}
    assert [program.returncode for program in programs] == [0] * 4
    assert answers == {str(make_demo(tmp_path))}
    assert len(list(tmp_path.glob("recipe-*"))) == 1
    assert list((tmp_path / "unfinished").iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="GGUF_EXPLORER_CACHE"):
        make_demo(tmp_path / "file")


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("GGUF_EXPLORER_CACHE")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "gguf-explorer"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
        assert cache_folder() == Path.home() / ".cache" / "gguf-explorer"


def test_the_vocabulary_has_every_kind_of_token() -> None:
    vocabulary = make_vocabulary()
    assert len(vocabulary.tokens) == len(vocabulary.scores) == len(vocabulary.types) == 2000
    assert len(set(vocabulary.tokens)) == 2000
    assert set(vocabulary.types) == {1, 2, 3, 4, 5, 6}
    assert vocabulary.types.count(6) == 256
    assert "的" in vocabulary.tokens


def test_resources_are_found_or_named() -> None:
    assert resource("demo/words.txt").read_text("utf-8")
    with pytest.raises(FileNotFoundError, match="nothing"):
        resource("demo/nothing")
