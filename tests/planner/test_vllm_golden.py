"""vLLM's own figures: caches equal, weights equal where vLLM could be asked after loading."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.planner import Hyperparameters
from explorer.planner.engines.vllm.cache import Run, plan_cache, stages
from explorer.planner.engines.vllm.weights import plan_weights
from explorer.planner.folder import Folder
from tests.planner.models import module_of, packed
from tests.planner.vllm_cases import (
    Case,
    cases,
    differences,
    folder_of,
    golden,
    key_of,
    name_of,
    run_of,
)


def test_every_figure_of_the_cache_is_vllm_s() -> None:
    wrong = {
        name_of(case): found
        for case in cases(built=True)
        if (found := differences(case, folder_of(key_of(case)), run_of(case, golden()["gpus"])))
    }
    assert not wrong


def test_weights_of_each_gpu_are_vllm_s() -> None:
    for case in cases(built=True):
        _check_weights(case, folder_of(key_of(case)), golden()["gpus"])


def _check_weights(case: Case, folder: Folder, gpus: dict[str, Any]) -> None:
    """Compare with what is held after loading; where no figure of that is there, before.

    Before, attention layers have 8 to 18 bytes for scales, which loading takes away.
    """
    made = plan_weights(folder, run_of(case, gpus))
    for rank in case["ranks"]:
        held = rank.get("post") or rank
        moved = held["params"] < rank["params"] * 0.9  # out of the module, into a kernel's own
        held = rank if moved else held
        wanted, found = held["params"] + held["buffers"], made.stages[rank["pp_rank"]]
        layers = len(stages(folder.layers, case["job"]["pp"])[rank["pp_rank"]])
        scales = {0} if "post" in rank and not moved else {0, 8 * layers, 10 * layers, 18 * layers}
        assert wanted - found in scales, name_of(case)


@pytest.mark.parametrize("case", cases(built=False), ids=name_of)
def test_what_vllm_refuses_to_build_is_refused(case: Case) -> None:
    if "max_model_len" in case["job"]:
        pytest.skip("the longest context is checked with the engine's settings")
    folder, run = folder_of(key_of(case)), run_of(case, golden()["gpus"])
    with pytest.raises(PlanError, match=_REASONS[case["error"][:12]]):
        _build(folder, run)


def _build(folder: Folder, run: Run) -> None:
    plan_weights(folder, run)
    plan_cache(folder, run)


_REASONS = {
    "AssertionErr": "10 key and value heads can neither be divided among nor repeated on 4 GPUs",
    "    For furt": "must be divisible by tensor parallel|desc_act=True",
    "ValueError: ": "vLLM failed to promote|no attention backend",
}


# All cases, from folders as they lie on a disk


@pytest.fixture(scope="module")
def maker(shared_reference: Path) -> ModuleType:
    """The maker of folders that hold nothing but headers."""
    return module_of(shared_reference.parent / "tools" / "make_hf_folder.py")


@pytest.mark.slow
def test_all_cases_from_their_folders(
    shared_reference: Path, maker: ModuleType, tmp_path: Path
) -> None:
    everything = packed(shared_reference / "engines" / "vllm_golden_dev.json.gz")
    plans = 0
    for key in everything["configs"]:
        place = tmp_path / key.replace("|", "-")
        maker.make(everything, key, str(place))
        with open_model(place) as model:
            folder = Hyperparameters.from_model(model).folder
        assert folder is not None
        for case in everything["cases"]:
            if key_of(case) == key and "bytes_per_block" in case:
                run = run_of(case, everything["gpus"])
                assert not differences(case, folder, run), name_of(case)
                _check_weights(case, folder, everything["gpus"])
                plans += len(case["plans"])
    assert plans == 1728
