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

LIMITS: Final = {  # with room for what is entered on a slow machine only, such as progress
    # the head of the page follows the tensor, and a list shares its width among its columns; the
    # tree is filtered, and the histogram has the colour of the type
    "click": {"modules": 44, "pairs": 5, "direct": 5},
    # five are the rules of llama.cpp, by which a file is planned; panels may ask for a size too
    "slider": {"modules": 31, "pairs": 3, "direct": 2},
    # a rounding may be to a type of Hugging Face too
    "compare": {"modules": 33, "pairs": 4, "direct": 3},
    # 16 are the plan by which the overview says whether the model fits; a loop of `parallel` that
    # may be given up asks the job, which calls it
    "open": {"modules": 62, "pairs": 8, "direct": 8},
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
