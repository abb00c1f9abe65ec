"""Small pieces of the campaigns, so that they work when one wants the whole of them.

The whole: `python -m tests.soak.fuzz` and `python -m tests.soak.soak`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.errors import FormatError
from explorer.formats import Model
from tests.soak import fuzz
from tests.soak.targets import make_targets

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("gguf", "safetensors", "safetensors-header", "manifest", "config", "index", "imatrix")
_SEED = 1_000  # not that of the campaigns: these cases are others


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_mutated_files(tmp_path: Path, name: str) -> None:
    targets = make_targets(tmp_path / "seeds")
    assert tuple(targets) == NAMES
    result = fuzz.run_cases(targets[name], tmp_path / name, _SEED, range(150))
    assert result.findings == {}
    assert result.inputs == 150
    assert 0 < result.opened <= 150


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_are_good_files(tmp_path: Path, name: str) -> None:
    target = make_targets(tmp_path / "seeds")[name]
    for number, seed in enumerate(target.seeds):
        folder = tmp_path / str(number)
        folder.mkdir()
        written, opened = target.place(folder)
        whole = seed
        if name == "safetensors-header":
            whole = len(seed).to_bytes(8, "little") + seed + bytes(300)
        written.write_bytes(whole)
        fuzz.open_and_look(opened)


def test_a_case_is_made_from_its_number_alone(tmp_path: Path) -> None:
    one, other = (make_targets(tmp_path / name)["gguf"] for name in ("one", "other"))
    cases = [fuzz.make_case(one, 7, case) for case in range(40)]
    assert cases == [fuzz.make_case(other, 7, case) for case in range(40)]
    assert len(set(cases)) == 40


def test_what_is_no_error_of_ours_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(path: Path) -> Model:
        if path.stat().st_size % 2:
            raise FormatError("is odd", path)
        return {}["a key"]  # type: ignore[no-any-return]

    monkeypatch.setattr(fuzz, "open_and_look", look)
    target = make_targets(tmp_path / "seeds")["gguf"]
    result = fuzz.run_cases(target, tmp_path / "cases", _SEED, range(30))
    (place,) = result.findings
    assert place.startswith("KeyError")
    assert 0 < result.counts[place] < 30
    monkeypatch.setattr(fuzz, "MOST_SECONDS", -1.0)
    result = fuzz.run_cases(target, tmp_path / "cases", _SEED, range(3))
    assert sum(result.counts.values()) >= 3


def _soak(actions: int, seed: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.soak.soak", "--actions", str(actions), "--seed", str(seed)],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=1_000,
        check=False,
    )


def _faults(result: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what a soak found, but for memory: that takes a whole campaign to tell."""
    assert " actions in " in result.stdout, result.stderr
    others = [line for line in result.stdout.splitlines() if "memory has grown by" not in line]
    return [line for line in others if line.startswith(("action ", "left"))]


@pytest.mark.timeout(300)
def test_some_random_actions() -> None:
    result = _soak(150, 1)
    assert not _faults(result), result.stdout


@pytest.mark.slow
@pytest.mark.timeout(1_000)
def test_more_random_actions() -> None:
    result = _soak(400, 2)
    assert not _faults(result), result.stdout
