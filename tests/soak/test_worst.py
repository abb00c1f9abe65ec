"""The worst legal files open, or are refused, within a second and 100 MB.

The whole table, with all that commands do: `python -m tests.soak.worst`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.gguf_writer import small_model
from tests.helpers.limits import MAX_BYTES, MAX_SECONDS
from tests.helpers.stopwatch import in_time
from tests.soak.worst import FILES, MOST_BYTES, file_bytes, measure

_ACTIONS = {
    ("survey", "gguf: 90,000 empty tensors"): (2 * MAX_SECONDS, MAX_BYTES),
    ("report", "gguf: 90,000 empty tensors"): (3 * MAX_SECONDS, 140 << 20),
    ("survey", "gguf: 131,072 tensors of unknown types"): (6 * MAX_SECONDS, 180 << 20),
    ("report", "gguf: 131,072 tensors of unknown types"): (8 * MAX_SECONDS, 240 << 20),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("action", "name"), _ACTIONS)
def test_what_is_done_for_each_tensor(tmp_path: Path, name: str, action: str) -> None:
    """Twice and thrice what they take on a machine with a load of five (docs/security.md).

    They took 3.3 to 6.1 s there, and 175 to 335 MiB, when each tensor was measured and listed.
    """
    harmless = small_model().write(tmp_path / "small.gguf")
    folder = tmp_path / "worst"
    folder.mkdir()
    cost = measure(action, FILES[name](folder), harmless, tmp_path, best_of=1)
    assert cost.said == "exit code 0"
    seconds, nbytes = _ACTIONS[action, name]
    assert in_time(cost.seconds, seconds), cost
    assert cost.nbytes <= nbytes, cost


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", FILES)
def test_the_worst_files(tmp_path: Path, name: str) -> None:
    harmless = small_model().write(tmp_path / "small.gguf")
    folder = tmp_path / "worst"
    folder.mkdir()
    path = FILES[name](folder)
    assert file_bytes(path) <= MOST_BYTES
    cost = measure("open", path, harmless, tmp_path, enough=(MAX_SECONDS, MAX_BYTES))
    assert in_time(cost.seconds, 2 * MAX_SECONDS), cost  # a loaded machine is allowed twice
    assert cost.nbytes <= MAX_BYTES, cost
