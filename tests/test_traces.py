"""How many modules an action of a person runs through, held by `tests/traces.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.patience import PROGRAM_S

_ROOT: Final = Path(__file__).parent.parent

LIMITS: Final = {
    "click": {"modules": 34, "pairs": 3, "direct": 3},
    # five are the rules of llama.cpp, by which a file is planned; panels may ask for a size too
    "slider": {"modules": 26, "pairs": 2, "direct": 1},
    "compare": {"modules": 26, "pairs": 3, "direct": 3},
    "open": {"modules": 33, "pairs": 3, "direct": 3},
}


@pytest.mark.slow
def test_an_action_enters_few_modules_and_few_that_call_back() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.traces", "--json"],
        check=False,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
    )
    assert done.returncode == 0, done.stderr
    traces = json.loads(done.stdout)
    over = {
        (action, figure): (len(traces[action][figure]), limit, traces[action][figure])
        for action, limits in LIMITS.items()
        for figure, limit in limits.items()
        if len(traces[action][figure]) > limit
    }
    assert not over
