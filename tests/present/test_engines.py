"""Sentences and tables about engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.planner import Device, Hyperparameters, Settings
from explorer.planner.advice import left_alone
from explorer.planner.engines.registry import engine_named
from explorer.planner.plans import Plan, Range
from explorer.planner.request import PlanRequest
from explorer.present import engines as words
from explorer.present.plan_export import environment_lines, modelfile_lines, server_command
from explorer.present.tables.plans import BUFFERS, ENGINES, PLANS
from tests.planner.models import tiny

GPU = Device("0", "CUDA", 8 << 30, name="NVIDIA L4")


@pytest.fixture(scope="module")
def h() -> Hyperparameters:
    return tiny()


def planned(h: Hyperparameters, **settings: object) -> Plan:
    request = PlanRequest(h, Settings(**settings), (GPU,))  # type: ignore[arg-type]
    return engine_named("llama.cpp").plan(request)


def test_who_decided_is_said(h: Hyperparameters) -> None:
    said = words.decision_sentence(planned(h))
    assert said == "llama.cpp chooses 4,096 tokens, 3 of 3 layers on GPUs"
    said = words.decision_sentence(planned(h, context=512))
    assert said == "for 512 tokens llama.cpp chooses 3 of 3 layers on GPUs"
    said = words.decision_sentence(planned(h, context=512, num_gpu=2, cpu_moe_layers=2))
    assert said == "you chose 512 tokens, 2 of 3 layers on GPUs, experts of 1 of them on the CPU"


def test_what_llama_cpp_would_choose_can_be_taken(h: Hyperparameters) -> None:
    request = PlanRequest(h, Settings(context=512, num_gpu=1), (GPU,))
    plan = left_alone(request, engine_named("llama.cpp"))
    said = words.choice_sentence(plan)
    assert said == "llama.cpp would choose: 4,096 tokens, 3 of 3 layers"
    changed = replace(request.settings, **words.choice_changes(plan))
    taken = engine_named("llama.cpp").plan(replace(request, settings=changed))
    assert taken.holdings == plan.holdings


def test_buffers_have_llama_cpp_s_names_and_the_reserve(h: Hyperparameters) -> None:
    buffers = planned(h, context=512, num_gpu=2).details.buffers()
    reserves = {one.name: BUFFERS["reserve"].cell(one) for one in buffers}
    assert reserves == {"CUDA0 (GPU0)": "703 MiB", "host (of the GPU)": "", "CPU": ""}


def test_what_is_on_the_cpu_is_said_to_be_all_of_the_model_there(h: Hyperparameters) -> None:
    plan = planned(h, context=512, num_gpu=0)
    column, held = PLANS["cpu_total"], plan.main
    assert column.value(words.PlanRow("Now", plan)) == held.total > held.weights + held.cache
    assert column.tip == "Bytes of the model in main memory."


def test_a_band_shows_its_ends() -> None:
    assert words.range_text(Range.exactly(3 << 20)) == "3.00 MiB"
    assert words.range_text(Range(2 << 20, 5 << 20)) == "2.00 MiB to 5.00 MiB"
    assert words.range_text(None) == "–"


def test_copies_for_other_programs_agree(h: Hyperparameters) -> None:
    settings = Settings(context=1024, parallel=2, kv_cache_type="q8_0", num_gpu=2)
    plan = engine_named("ollama").plan(PlanRequest(h, settings, (GPU,)))
    fields = dict(words.lm_studio_fields(plan))
    assert fields["Context Length"] == "2048"
    assert (fields["GPU Offload"], fields["Unified KV Cache"]) == ("2 layers", "off")
    assert fields["K Cache Quantization Type"] == "q8_0"
    numbers = {"num_ctx": 1024, "num_batch": 512, "num_gpu": 2}
    assert modelfile_lines(plan) == [f"PARAMETER {name} {one}" for name, one in numbers.items()]
    variables = {"CONTEXT_LENGTH": 1024, "NUM_PARALLEL": 2, "KV_CACHE_TYPE": "q8_0"}
    assert environment_lines(plan) == [f"OLLAMA_{name}={one}" for name, one in variables.items()]
    command = server_command(Path("a b.gguf"), plan)
    assert command.startswith("llama-server --model 'a b.gguf' --ctx-size 2048 --parallel 2")


def test_engines_side_by_side_show_dashes_where_there_is_no_plan(h: Hyperparameters) -> None:
    request = PlanRequest(h, Settings(context=512), (GPU,))
    shown = [engine_named(name) for name in ("llama.cpp", "ollama-graphsize")]
    rows = [words.PlanRow("", engine.plan(request)) for engine in shown]
    rows.append(words.PlanRow("", refusal="refused", profile="ollama"))
    layers, fits = ([ENGINES[name].cell(row) for row in rows] for name in ("gpu_layers", "fits"))
    assert layers == ["3 of 3", "3 of 3", "–"]
    assert fits == ["Fits", "Fits", "Refused"]
    why = words.why_engines_differ(rows)
    assert why.startswith("llama.cpp allocates")
    assert "Ollama starts the same program" not in why  # it is not shown
