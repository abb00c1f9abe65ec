"""The caches of transformers are equal to its own; plans of a GPU and of the CPU."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats.tensors import Spec
from explorer.parallel import never
from explorer.planner import Device, Host, Hyperparameters, Settings, plan
from explorer.planner.advice import context_of, solve
from explorer.planner.engines.registry import ENGINES
from explorer.planner.engines.transformers import cache_bytes
from explorer.planner.folder import Folder
from explorer.planner.plans import Accuracy, Level, Plan
from explorer.planner.request import PlanRequest
from explorer.present.plan import answer
from explorer.present.suggestions import advice_changes
from explorer.quantization import TENSOR_TYPES
from explorer.text import bytes_text
from tests.planner.models import GIB
from tests.planner.plans import check_terms, record_of
from tests.planner.test_mlx import config_folder, golden
from tests.planner.vllm_cases import folder_of

CARD = Device("0", "CUDA", 24 * GIB)
NAME = "transformers"


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


_MEASURED = Path(__file__).parents[1] / "data/planner/transformers_h200.json"


@pytest.mark.parametrize("model", json.loads(_MEASURED.read_text())["models"])
def test_what_an_h200_held_while_a_prompt_was_read_is_between_the_ends(model: Any) -> None:
    folder = Folder(model["config"], (), ())
    h = Hyperparameters(folder=folder, block_count=folder.layers)
    for run in model["runs"]:
        settings = Settings(context=run["tokens"], static_cache=run["static"])
        made = plan(h, settings, (CARD,), profile=NAME).gpus[0]
        windowed = "sliding_attention" in model["config"].get("layer_types", ())
        if not windowed:  # else it still has what the prompt stored
            counters = 8 * folder.layers * run["static"]
            assert made.cache - counters == run["cache"]
        low, high = made.cache + made.compute.low, made.cache + made.compute.high
        assert low <= run["peak"] <= high, run


def planned(
    key: str = "llama-3.1-8b|none",
    devices: tuple[Device, ...] = (CARD,),
    host: Host | None = None,
    **settings: Any,
) -> Plan:
    folder = folder_of(key)
    h = Hyperparameters(folder=folder, block_count=folder.layers)
    return plan(h, Settings(**settings), devices, host=host, profile="transformers")


record = partial(record_of, part="transformers")


def test_weights_have_the_type_that_is_asked_for() -> None:
    own, wide = planned(context=2048), planned(context=2048, dtype="float32")
    assert record(own)["dtype"] == "bfloat16"
    assert record(own)["weights"] == 16_060_522_496
    assert record(wide)["weights"] == 2 * record(own)["weights"]
    assert record(wide)["cache_bytes"] == 2 * record(own)["cache_bytes"]
    static = record(planned(context=2048, static_cache=True))["cache_bytes"]
    assert static == record(own)["cache_bytes"] + 8 * 32


def test_layers_with_a_window_hold_the_whole_prompt_until_the_next_token() -> None:
    made, static = (planned("gemma-3-27b-text|none", context=8192, static_cache=s) for s in (0, 1))
    layers, token = 52, 16 * 2 * 128 * 2  # with a window of 1,024, of 62
    assert made.gpus[0].compute.low - static.gpus[0].compute.low == layers * (
        token * (8192 - 1023) - 8
    )


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
    check_terms(made)


def changed(key: str = "llama-3.1-8b|none", **config: Any) -> Hyperparameters:
    """Return a model with other values in its config; None takes one away."""
    own = folder_of(key)
    kept = {name: value for name, value in (own.config | config).items() if value is not None}
    folder = Folder(kept, own._names, own._specs)
    return Hyperparameters(folder=folder, block_count=folder.layers)


def test_formats_that_are_not_known_are_refused() -> None:
    for key, why in (
        ("llama-3.1-8b|gptq4-g128", "quantized by gptq"),
        ("llama-3.1-8b|fp8-block", "quantized by fp8"),
    ):
        with pytest.raises(PlanError, match=why):
            planned(key)


def test_an_architecture_that_nobody_knows_has_its_weights_and_the_usual_cache() -> None:
    known = planned(context=2048)
    other = plan(changed(model_type="nebula"), Settings(context=2048), (CARD,), profile=NAME)
    assert (other.weights, other.cache) == (known.weights, known.cache)
    assert (known.details.accuracy, other.details.accuracy) == (Accuracy.BAND, Accuracy.ESTIMATE)
    assert any("usual keys of config.json" in note for note in other.notes)


@pytest.mark.parametrize(
    ("h", "unknown"),
    [
        (changed(model_type="nebula", hidden_size=None), "its KV cache"),
        (changed(model_type="nebula", num_attention_heads=None), "its KV cache"),
        (changed(model_type="nebula", kv_lora_rank=512), "its KV cache"),
        (changed("granite-4.0-h-tiny|none"), "the states of its layers without attention"),
        (changed(vision_config={}), "its vision or audio encoder"),
    ],
)
def test_what_is_not_known_is_said_and_in_no_total(h: Hyperparameters, unknown: str) -> None:
    made = plan(h, Settings(context=2048), (CARD,), profile=NAME)
    assert record(made)["unknown"] == made.verdict.depends_on == unknown
    assert made.verdict.level is Level.PARTLY
    assert (record(made)["cache_bytes"] is None) is ("encoder" not in unknown)
    assert bytes_text(made.total).startswith("at least ")
    assert answer(made).sentence.startswith(f"Should fit: it depends on {unknown}, of unknown size")
    found = solve("context", PlanRequest(h, Settings(), (CARD,)), ENGINES[NAME])
    assert (found.value, found.limited_by) == (
        None,
        f"what transformers takes for {unknown} is not known",
    )
    assert context_of(made)[0] is None
    small = plan(h, Settings(context=2048), (replace(CARD, free=GIB),), profile=NAME)
    assert small.verdict.level is Level.NOT  # by its weights alone


def test_weights_of_bitsandbytes_are_those_of_the_files_but_for_what_is_read_and_dropped() -> None:
    sizes = {
        "weight": ("U8", 4096 * 2048),
        "weight.absmax": ("U8", 4096 * 64),
        "weight.nested_absmax": ("F32", 1024),
        "weight.quant_map": ("F32", 16),
        "weight.quant_state.bitsandbytes__nf4": ("U8", 90),
    }
    names = [f"model.layers.0.self_attn.q_proj.{name}" for name in sizes]
    types = {kind: TENSOR_TYPES[kind] for kind, _ in sizes.values()}
    specs = [
        Spec(types[kind], (count,), 0, count * (4 if kind == "F32" else 1))
        for kind, count in sizes.values()
    ]
    config = {
        **folder_of("llama-3.1-8b|none").config,
        "num_hidden_layers": 1,
        "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    }
    h = Hyperparameters(folder=Folder(config, names, specs), block_count=1)
    for dtype in (None, "float32"):  # scales keep their type
        made = plan(h, Settings(context=64, dtype=dtype), (CARD,), profile=NAME)
        assert made.weights == sum(spec.nbytes for spec in specs[:-1])
    assert "package bitsandbytes" in made.warnings[-1]
    refusal = ENGINES["vllm"].refusal(h)
    assert "unknown quantization method bitsandbytes; its plugin" in refusal


def test_the_best_type_of_the_cache_is_one_that_the_program_has() -> None:
    h = changed()
    for name, free, value, sets in (
        ("vllm", 24 * GIB, "auto", {"kv_dtype": "auto"}),
        ("vllm", 21.3 * GIB, "fp8", {"kv_dtype": "fp8"}),
        (NAME, 40 * GIB, "auto", {"dtype": "auto"}),
        ("mlx", 29 * GIB, "8-bit", {"kv_bits": 8}),
        ("mlx", 64 * GIB, "bf16", {"kv_bits": None}),
    ):
        device = Device("0", "Metal" if name == "mlx" else "CUDA", int(free), compute=(8, 9))
        request = PlanRequest(h, Settings(context=24_000, parallel=64), (device,))
        found = solve("kv-cache-type", request, ENGINES[name])
        assert found.value == value
        assert advice_changes(found).items() >= sets.items()
        assert ENGINES[name].plan(request.asking(**advice_changes(found))).total
