"""mlx-lm's caches are equal to its own; plans of Macs, and what scripts read."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.planner import Device, Host, Hyperparameters, Settings, plan
from explorer.planner.engines.mlx.cache import Quantized, architecture_of, layer_caches, run_caches
from explorer.planner.engines.mlx.engine import working_set
from explorer.planner.engines.registry import ENGINES, default_engine
from explorer.planner.folder import Folder
from explorer.planner.plans import Level, Plan
from explorer.present.plan_export import server_command
from tests.planner.models import DATA, GIB, packed
from tests.planner.plans import check_terms, record_of
from tests.planner.vllm_cases import folder_of


@cache
def golden() -> dict[str, Any]:
    return packed(DATA / "mlx.json.gz")


def config_folder(model: str) -> Folder:
    return Folder(golden()["configs"][model], (), ())


def test_every_state_of_the_caches_is_mlx_lm_s() -> None:
    for state in golden()["mlx"]:
        asked, folder = state["plan"], config_folder(state["model"])
        quantized = None
        if "bits" in asked:
            fails = architecture_of(folder).unquantized
            group = asked.get("group", 64)
            quantized = Quantized(asked["bits"], group, asked["start"], fails)
        caches = layer_caches(folder, asked.get("max_kv_size", 0))
        made: tuple[int, int] | None = None
        with suppress(PlanError):
            made = run_caches(
                caches,
                asked["prompt"],
                asked.get("generate", 0),
                piece=asked.get("step", 2048),
                quantized=quantized,
            )
        wanted = None if "error" in state else (state["bytes"], state["largest"])
        assert made == wanted, state


def mac(memory: int = 64 * GIB) -> Device:
    return Device("0", "Metal", memory * 3 // 4, integrated=True, name="Mac", total=memory)


def planned(key: str = "llama-3.1-8b|none", *devices: Device, **settings: Any) -> Plan:
    folder = folder_of(key)
    h = Hyperparameters(folder=folder, block_count=folder.layers)
    return plan(h, Settings(**settings), devices or (mac(),), profile="mlx")


record = partial(record_of, part="mlx")


def test_a_plan_of_a_mac() -> None:
    made = planned(context=2049)
    found = record(made)
    assert found["weights"] == 16_060_522_496
    assert found["cache_bytes"] == found["cache_largest_bytes"] == 2304 * 32 * 8 * 256 * 2
    assert found["prompt_peak"][0] < found["prompt_peak"][1]
    assert found["working_set"] == [48 * GIB, 48 * GIB]
    assert found["verdict"] == "good"
    assert made.verdict.level is Level.FITS
    windows = record(planned("gemma-3-27b-text|none", mac(128 * GIB), context=20_000))
    assert windows["cache_bytes"] < windows["cache_largest_bytes"]


@pytest.mark.parametrize(
    ("memory", "verdict", "level"),
    [(64, "good", Level.FITS), (24, "tight", Level.PARTLY), (16, "does not fit", Level.NOT)],
)
def test_the_verdict(memory: int, verdict: str, level: Level) -> None:
    made = planned("llama-3.1-8b|none", mac(memory * GIB), context=2048)
    assert record(made)["verdict"] == verdict
    assert made.verdict.level is level
    assert bool(made.verdict.depends_on) is (verdict == "tight")
    assert any("refuses nothing" in one for one in made.warnings) is (verdict == "does not fit")


def test_an_open_context_is_the_largest_that_is_good() -> None:
    made = planned("llama-3.1-8b|none", mac(32 * GIB))
    context = made.used("context")
    assert record(made)["verdict"] == "good"
    assert (
        record(planned("llama-3.1-8b|none", mac(32 * GIB), context=context + 1))["verdict"]
        != "good"
    )


def test_a_limit_that_was_set_is_the_working_set() -> None:
    found = record(planned("llama-3.1-8b|none", mac(32 * GIB), context=2048, wired_limit=30 * GIB))
    assert found["working_set"] == [30 * GIB, 30 * GIB]
    assert working_set(8 * GIB).low == working_set(8 * GIB).high == 8 * GIB * 2 // 3
    assert working_set(16 * GIB).low < working_set(16 * GIB).high
    assert working_set(128 * GIB).high == 128 * GIB * 84 // 100


def test_memory_alone_stands_for_a_mac() -> None:
    folder = folder_of("llama-3.1-8b|none")
    h = Hyperparameters(folder=folder, block_count=folder.layers)
    made = plan(h, Settings(context=2048), (), host=Host(64 * GIB), profile="mlx")
    assert record(made)["working_set"] == [48 * GIB, 48 * GIB]
    with pytest.raises(PlanError, match="say how much memory"):
        plan(h, Settings(context=2048), (), profile="mlx")


@pytest.mark.parametrize(
    ("key", "settings", "why"),
    [
        ("gemma-3-27b-text|none", {"context": 6000, "kv_bits": 4}, "RotatingKVCache Quantization"),
        ("smollm2-135m|none", {"context": 6000, "kv_bits": 4, "kv_group_size": 128}, "groups of"),
        ("smollm2-135m|none", {"context": 6000, "kv_bits": 7}, "2, 3, 4, 5, 6, 8 bits"),
    ],
)
def test_quantized_caches_that_fail_are_refused(
    key: str, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(PlanError, match=why):
        planned(key, **settings)
    assert planned(key, **(settings | {"kv_bits": None})).total


def test_folders_made_for_mlx_are_planned_by_it() -> None:
    base = folder_of("llama-3.1-8b|none")
    made_for = Folder({**base.config, "quantization": {"bits": 4, "group_size": 64}}, (), ())
    assert default_engine(Hyperparameters(folder=made_for)).name == "mlx"
    gptq = folder_of("llama-3.1-8b|gptq4-g128")
    refusal = ENGINES["mlx"].refusal(Hyperparameters(folder=gptq))
    assert "not quantized for MLX" in refusal


def test_every_formula_gives_its_figure_and_the_command_names_the_folder(tmp_path: Path) -> None:
    made = planned(context=9000, kv_bits=8)
    check_terms(made)
    words = "--kv-bits 8 --kv-group-size 64 --quantized-kv-start 5000"
    assert server_command(tmp_path, made) == f"mlx_lm.generate --model {tmp_path} {words}"
    words = "--decode-concurrency 1 --prompt-concurrency 1"
    plain = server_command(tmp_path, planned(context=9000))
    assert plain == f"mlx_lm.server --model {tmp_path} {words}"
