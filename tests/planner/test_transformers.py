"""The caches of transformers are equal to its own; plans of a GPU and of the CPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.parallel import never
from explorer.planner import Device, Host, Hyperparameters, Settings, plan
from explorer.planner.engines.registry import ENGINES
from explorer.planner.engines.transformers import cache_bytes
from explorer.planner.inputs import plan_record
from explorer.planner.plan import Level, Plan
from explorer.present.plan import memory_bars
from tests.planner.test_mlx import config_folder, golden
from tests.planner.test_result import evaluate
from tests.planner.vllm_cases import folder_of

GIB = 1 << 30
CARD = Device("0", "CUDA", 24 * GIB)


def test_every_cache_has_the_size_of_transformers_own() -> None:
    for case in golden()["transformers"]:
        asked = case["plan"]
        made = cache_bytes(
            config_folder(case["model"]),
            asked.get("max") or asked["prompt"] + asked.get("generate", 0),
            2,
            static=asked["kind"] == "static",
            windows=asked["kind"] != "dynamic-no-config",
        )
        assert made == case["bytes"], case


def planned(
    key: str = "llama-3.1-8b|none",
    devices: tuple[Device, ...] = (CARD,),
    host: Host | None = None,
    **settings: Any,
) -> Plan:
    folder = folder_of(key)
    h = Hyperparameters(after_conversion=True, folder=folder, block_count=folder.layers)
    return plan(h, Settings(**settings), devices, host=host, profile="transformers")


def record(made: Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plan_record(made)))["transformers"]
    return found


def test_weights_have_the_type_that_is_asked_for() -> None:
    own, wide = planned(context=2048), planned(context=2048, dtype="float32")
    assert record(own)["dtype"] == "bfloat16"
    assert record(own)["weights"] == 16_060_522_496
    assert record(wide)["weights"] == 2 * record(own)["weights"]
    assert record(wide)["cache_bytes"] == 2 * record(own)["cache_bytes"]
    static = record(planned(context=2048, static_cache=True))["cache_bytes"]
    assert static == record(own)["cache_bytes"] + 8 * 32


def test_the_verdict_on_a_gpu_and_on_the_cpu() -> None:
    made = planned(context=2048)
    assert made.verdict.level is Level.FITS
    peak = made.gpus[0].compute
    between = made.gpus[0].total - (peak.high - peak.low) // 2
    tight = planned("llama-3.1-8b|none", (Device("0", "CUDA", between),), context=2048)
    assert tight.verdict.level is Level.PARTLY
    assert tight.verdict.depends_on
    assert planned(context=2048, dtype="float32").verdict.level is Level.NOT
    alone = planned("llama-3.1-8b|none", (), Host(64 * GIB), context=2048)
    assert alone.verdict.on_cpu
    assert alone.main.total > 15 * GIB
    most = ENGINES["transformers"].context_as_placed(planned(context=2048), never)
    assert most is not None
    assert planned(context=most).room >= 0 > planned(context=most + 1).room


@pytest.mark.parametrize("devices", [(CARD,), ()])
def test_every_formula_gives_its_figure(devices: tuple[Device, ...]) -> None:
    made = planned("gpt-oss-20b|none", devices, context=4096)
    assert any("four times as large" in one for one in made.warnings)
    for term in made.terms:
        assert evaluate(term) == term.value, term
    values = {term.name: term.value for term in made.terms}
    assert values["total"] == made.total == plan_record(made)["total"]
    for bar in memory_bars(made, None):
        assert all(not part.term or part.term in values for part in bar.parts)


def test_what_is_not_known_is_refused() -> None:
    for key, why in (
        ("granite-4.0-h-tiny|none", "granitemoehybrid is not known"),
        ("llama-3.1-8b|gptq4-g128", "quantized by gptq"),
    ):
        with pytest.raises(PlanError, match=why):
            planned(key)
