"""Small pieces of the campaigns, so that they work when one wants the whole of them.

The whole: `python -m tests.soak.fuzz` and `python -m tests.soak.soak`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from explorer.errors import FormatError
from explorer.formats import Model
from tests.soak import damage, fuzz
from tests.soak.resting import AtRest
from tests.soak.soak import Report
from tests.soak.targets import Target, make_targets

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "gguf",
    "safetensors",
    "safetensors-header",
    "forks",
    "parts",
    "manifest",
    "config",
    "index",
    "imatrix",
    "quantized",
)
_FINDINGS = ("action ", "left behind: ", "grown: ")
_MOST_S = 2_000
_SEED = 1_000  # not that of the campaigns: these cases are others


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Target]:
    return make_targets(tmp_path_factory.mktemp("targets"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_mutated_files(tmp_path: Path, targets: Mapping[str, Target], name: str) -> None:
    assert tuple(targets) == NAMES
    result = fuzz.run_cases(targets[name], tmp_path / name, _SEED, range(150))
    assert result.findings == {}
    assert result.inputs == 150
    assert 0 < result.opened <= 150


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_are_good_files(tmp_path: Path, targets: Mapping[str, Target], name: str) -> None:
    target = targets[name]
    for number, seed in enumerate(target.seeds):
        folder = tmp_path / str(number)
        folder.mkdir()
        written, opened = target.place(folder)
        target.write(written, seed)
        fuzz.open_and_look(opened)


def test_a_case_is_made_from_its_number_alone(
    tmp_path: Path, targets: Mapping[str, Target]
) -> None:
    other = make_targets(tmp_path)["gguf"]
    cases = [fuzz.make_case(targets["gguf"], 7, case) for case in range(40)]
    assert cases == [fuzz.make_case(other, 7, case) for case in range(40)]
    assert len(set(cases)) == 40


def test_what_is_no_error_of_ours_is_a_finding(
    tmp_path: Path, targets: Mapping[str, Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(path: Path) -> Model:
        if path.stat().st_size % 2:
            raise FormatError("is odd", path)
        return {}["a key"]  # type: ignore[no-any-return]

    monkeypatch.setattr(fuzz, "open_and_look", look)
    target = targets["gguf"]
    result = fuzz.run_cases(target, tmp_path / "cases", _SEED, range(30))
    (place,) = result.findings
    assert place.startswith("KeyError")
    assert 0 < result.counts[place] < 30
    monkeypatch.setattr(fuzz, "MOST_SECONDS", -1.0)
    result = fuzz.run_cases(target, tmp_path / "cases", _SEED, range(3))
    assert sum(result.counts.values()) >= 3


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["swap", "foreign code", "link", "open folder"])
def test_a_damaged_cache_gives_the_same_figures(campaign: damage.Campaign, kind: str) -> None:
    """What makes a file or a folder no longer ours: `tests/test_private_folder.py`."""
    report = damage.Report()
    campaign.damage(_SEED, 1, report, [kind])
    assert report.counts == {kind: 1}
    assert (report.died, report.findings) == (0, [])


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> damage.Campaign:
    """A warm cache to spoil."""
    return damage.Campaign(tmp_path_factory.mktemp("damage"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_foreign_code_that_runs_is_a_finding(
    campaign: damage.Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trap(_chance: Random, place: damage.Place) -> None:
        place.trap.touch()

    monkeypatch.setitem(damage.OF_FILES, "trap", trap)
    report = damage.Report()
    campaign.damage(_SEED, 1, report, ["trap"])
    assert report.findings == ["1: trap: foreign code ran"]


def _soak(program: str = "soak", **options: int) -> list[str]:
    """Run a soak in a program of its own; return what it found."""
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    result = subprocess.run(
        [sys.executable, "-m", f"tests.soak.{program}", *given],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=_MOST_S,
        check=False,
    )
    sys.stdout.write(result.stdout)  # pytest shows it where the test fails
    assert " actions in " in result.stdout, result.stderr  # it ended
    found = [line for line in result.stdout.splitlines() if line.startswith(_FINDINGS)]
    assert bool(found) == (result.returncode != 0)
    return found


def test_growth_counts_from_the_warm_up_on() -> None:
    def held(
        own: int, allocated: int = 1_000, qobjects: int = 1_000, descriptors: int = 15
    ) -> AtRest:
        return AtRest(0, own, own + 5_000, allocated, 9, qobjects, descriptors)

    loaded, warm = held(500, 400, 300), held(1_000)
    assert Report(rests=[loaded, warm, held(1_099, 1_099, 1_099)], warm=1).findings() == []
    assert Report(rests=[loaded, warm, held(1_101, 900, 1_120)], warm=1).findings() == [
        "grown: memory by 10.1%",
        "grown: number of Qt's objects by 12.0%",
    ]
    left_open = held(1_000, descriptors=20)
    assert Report(rests=[warm, left_open]).findings() == ["grown: descriptors, from 15 to 20"]
    came_back = [warm, held(1_300, 1_300), held(1_050, 1_200), held(1_400, 1_150)]
    assert Report(rests=came_back, end=1).findings() == ["grown: allocated memory by 15.0%"]


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(_MOST_S)
def test_nothing_grows_once_everything_is_loaded() -> None:
    assert _soak(seed=2, warm_up=500, actions=250) == []  # at 2,000 no more is held than at 500


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(_MOST_S)
def test_a_leak_is_found() -> None:
    found = _soak("leaking", seed=3, visited=1, warm_up=10, actions=40)
    for what in ("memory", "allocated memory", "number of Qt's objects"):
        assert any(one.startswith(f"grown: {what} by ") for one in found), found
    for what in ("Document", "Model"):
        assert any(f"closed, and not freed: {what} " in one for one in found), found
