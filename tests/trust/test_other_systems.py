"""The core without what only some systems have: it still runs, and says nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.demo import copy_demo
from tests.helpers.ollama_store import store_of

ROOT = Path(__file__).resolve().parents[2]

_RUN = """
import os, sys

if sys.argv[1] == "without":
    for name in ("preadv", "geteuid", "O_NOFOLLOW", "O_TMPFILE", "O_NOATIME", "O_NONBLOCK"):
        if hasattr(os, name):
            delattr(os, name)
    sys.modules["fcntl"] = None

from pathlib import Path
from explorer.cli.main import main

model, manifest, store, out = sys.argv[2:]
for arguments in (
    ["check", model],
    ["inspect", manifest, "--json"],
    ["stats", model, "blk.0.attn_q.weight", "--json"],
    ["survey", model, "--csv", out],
    ["survey", model, "--json"],  # what was kept is read
    ["library", "--root", f"ollama={store}"],
    ["plan", model, "--gpu", "8GiB", "--json"],
):
    if main(arguments):
        sys.exit(f"failed: {arguments}")
print(Path(out).read_text())
"""


def _run(tmp_path: Path, how: str, *models: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, how, *models, tmp_path / f"{how}.csv"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GGUF_EXPLORER_CACHE": str(tmp_path / how)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has none of them")
def test_the_core_runs_without_what_windows_or_macos_lack(tmp_path: Path) -> None:
    demo = copy_demo(tmp_path / "demo")
    models = demo, *store_of(demo, tmp_path / "store")
    assert _run(tmp_path, "without", *models) == _run(tmp_path, "with", *models)
