"""Commands open no connection, start no program, and change nothing where models lie."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.cli.main import main
from tests.helpers.commands import COMMANDS, calls
from tests.helpers.demo import copy_demo
from tests.helpers.hostile import ATTACKS, HostileModels, write_hostile_models
from tests.helpers.ollama_store import store_of
from tests.helpers.watch import make_read_only, watching

ROOT = Path(__file__).resolve().parents[2]


def test_the_watch_sees_what_it_should(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "old").write_text("old")
    with watching(folder) as watch:
        assert watch.found() == {}
        (folder / "old").read_text()
        (tmp_path / "elsewhere").write_text("")
        assert watch.found() == {}
        (folder / "new").write_text("new")
        os.utime(folder / "old", (0, 0))
        with socket.socket() as one:
            assert len(watch.found()["sockets"]) == 1  # type: ignore[arg-type]
            assert one.connect_ex(("127.0.0.1", 1)) != 0
        subprocess.run([sys.executable, "-c", ""], check=True)
        found = watch.found()
    assert set(found) == {"network", "programs", "changes", "different files"}
    assert found["different files"] == {".", "new", "old"}
    assert len(watch.changes) == 2


@pytest.mark.parametrize("kind", ["demo", "hostile"])
def test_no_command_connects_or_writes_where_models_lie(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "models", tmp_path / "out"
    out.mkdir()
    if kind == "demo":
        path, names = copy_demo(folder), ["blk.0.attn_q.weight"]
        other, store = store_of(path, folder / "store")
    else:
        models: HostileModels = write_hostile_models(folder)
        path, other, names, store = models.llama, models.safetensors, [ATTACKS[0]], models.store
    make_read_only(folder)
    stores = [("ollama", store), ("folder", folder)]
    used = set()
    with watching(folder) as watch:
        for arguments in calls(path, other, names, stores, out):
            used.add(arguments[0])
            assert main(arguments) in {0, 1}
            found = watch.found() if arguments[0] == "library" else _events(watch)
            assert found == {}, arguments
        assert watch.found() == {}
    assert used == COMMANDS
    assert "Traceback" not in capfd.readouterr().err


def _events(watch: object) -> dict[str, object]:
    """Return what was seen, without looking at the whole folder again."""
    return {
        kind: seen for kind in ("network", "programs", "changes") if (seen := getattr(watch, kind))
    }
