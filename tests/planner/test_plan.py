"""A whole plan: the JSON of docs/interface.md, its notes and its warnings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer.planner
from explorer.errors import PlanError
from explorer.planner import Device, Host, Settings, plan
from explorer.planner.advice import solve
from explorer.planner.inputs import PlanInputs, devices_of, plan_record
from explorer.planner.plans import Level
from explorer.present.plan import answer
from tests.helpers.small_gguf import SmallGguf, model_from
from tests.planner.models import GIB, MIB, groups_of, random_devices, random_settings, small_model

GPU = Device("0", "CUDA", 900 * MIB, name="Small GPU")

SSM = {"ssm__state_size": 8, "ssm__inner_size": 8}


def test_the_names_of_the_package_are_those_of_the_interface() -> None:
    assert set(explorer.planner.__all__) == {
        "Hyperparameters", "Settings", "Device", "Host", "effective_settings", "graph_size",
        "lay_out", "plan",
    }  # fmt: skip


def test_the_parts_of_the_json_have_the_promised_keys() -> None:
    p = plan(small_model(), Settings(context=4096), [GPU])
    record = json.loads(json.dumps(plan_record(p)))
    assert record["effective"].keys() == {
        "context", "parallel", "batch", "kv_cache_type", "flash_attention",
    }  # fmt: skip
    assert record["kv_cache"].keys() == {"total", "per_layer"}
    assert {"partial", "full", "used"} == record["graph"].keys()
    (device,) = record["devices"]
    promised = "name library free layers weights kv_cache graph reserved total"
    assert set(promised.split()) <= device.keys()
    assert all({"name", "bytes", "formula", "inputs"} <= term.keys() for term in record["terms"])
    for term in record["terms"]:
        assert all(given.keys() == {"value", "from"} for given in term["inputs"].values())


def test_a_partial_offload_in_json() -> None:
    request = Settings(context=4096, num_gpu=2, flash_attention=False)
    environment = {"OLLAMA_NUM_PARALLEL": "2", "HOME": "/root"}
    p = plan(small_model(), request, [GPU], environment=environment)
    record = plan_record(p, solve("gpu-layers", p.request, p.engine))
    assert record["requested"] == {"context": 4096, "num_gpu": 2, "flash_attention": False}
    assert record["effective"]["parallel"] == 2
    assert record["environment"] == {"OLLAMA_NUM_PARALLEL": "2"}
    assert [layer["device"] for layer in record["layers"]] == ["cpu", "cpu", 0, 0, "cpu"]
    assert [layer["name"] for layer in record["layers"][-2:]] == ["blk.3", "output"]
    assert record["devices"][0]["layers"] == [2, 3]
    assert record["devices"][0]["name"] == "Small GPU"
    assert (record["gpu_layers"], record["total_layers"], record["gpu_ratio"]) == (2, 5, 0.4)
    assert record["graph"]["used"] == "partial"
    assert record["cpu"]["layers"] == 3
    assert record["solved"].keys() == {"what", "value", "limited_by"}
    assert sum(layer["weights"] for layer in record["layers"]) == record["weights"]


def test_no_graph_is_used_without_a_gpu() -> None:
    record = plan_record(plan(small_model(), Settings(context=4096), []))
    assert record["graph"]["used"] == "none"
    assert record["vram_total"] == 0


def test_a_model_is_planned_from_its_file() -> None:
    file = SmallGguf(
        keys=[
            ("general.architecture", "llama"),
            ("llama.block_count", 1),
            ("llama.embedding_length", 8),
            ("tokenizer.ggml.tokens", ["a"]),
        ],
        tensors=[("blk.0.x.weight", (8,), 0, 0), ("output.weight", (8,), 0, 32)],
        data=bytes(64),
    )
    content = file.write()
    p = plan(model_from(content), Settings(context=100), [Device("0", "CUDA", 2 * GIB)])
    assert [layer.weights for layer in p.layers] == [32, 32]
    assert p.fully_offloaded


@pytest.mark.parametrize(
    ("architecture", "keys", "settings", "said"),
    [
        ("gemma3", {}, {}, "measured at load time. The figures are an estimate"),
        ("deepseek2", {}, {}, "measured at load time"),
        ("llama", {}, {"kv_cache_type": "f32"}, "what-if"),
        ("llama", {"pooling_type": 1}, {}, "whole context at once: batch 4,096"),
        ("gemma2", {"attention__sliding_window": 64}, {}, "sliding_window is not consulted"),
        ("llama", {}, {"projector_bytes": MIB}, "the projector (1.00 MiB) is counted"),
        (
            "llama",
            {},
            {"context": 99_999},
            "context is 32768 instead of 99999: the model was trained",
        ),
    ],
)
def test_notes(architecture: str, keys: Any, settings: Any, said: str) -> None:
    asked = Settings(**({"context": 4096} | settings))
    p = plan(small_model(architecture, **keys), asked, [Device("0", "CUDA", 24 * GIB)])
    assert any(said in note for note in p.notes), p.notes


@pytest.mark.parametrize(
    ("architecture", "keys", "settings", "said"),
    [
        ("nothing", {}, {}, "no formula for the architecture nothing"),
        ("jamba", {"attention__head_count_kv": [8, 0, 8, 8]}, {}, "no key and value heads"),
        ("llama", {"attention__head_count": [16, 0]}, {}, "makes the head length 0"),
        ("llama", {"block_count": 6}, {}, "2 of 6 blocks have no tensors"),
        ("llama", {"block_count": None}, {}, "block_count is absent"),
        ("llama", {}, {"num_gpu": 99}, "more than Ollama leaves room for"),
        ("llama", {}, {"num_gpu": 99, "context": 32768}, "more than is free"),
        ("nemotron_h", {"attention__head_count_kv": [0], **SSM}, {}, "only an MLP"),
    ],
)
def test_warnings(architecture: str, keys: Any, settings: Any, said: str) -> None:
    p = plan(small_model(architecture, **keys), Settings(**({"context": 4096} | settings)), [GPU])
    assert any(said in warning for warning in p.warnings), p.warnings


def test_a_usual_model_has_no_warning() -> None:
    assert (
        plan(small_model(), Settings(context=4096), [Device("0", "CUDA", 24 * GIB)]).warnings == ()
    )


def test_types_that_the_estimator_does_not_know_have_their_true_size() -> None:
    groups = groups_of([("blk.0.x.weight", "TQ2_0", [512])])
    h = replace(small_model(), tensors=groups, warnings=groups.warnings)
    p = plan(h, Settings(context=100))
    assert p.weights == 2 * 66
    assert any("TQ2_0" in warning for warning in p.warnings)


def test_names_from_files_are_shown_as_plain_text() -> None:
    h = small_model("evil\x1b[31m\u202e")
    p = plan(h, Settings(context=1 << 20), [Device("0", "CUDA", 900 * MIB, name="\x1b]0;x")])
    texts = [*p.notes, *p.warnings, *(i.origin for t in p.terms for i in t.inputs.values())]
    assert not any("\x1b" in text or "\u202e" in text for text in texts)


@given(random_settings, random_devices(), st.sampled_from([None, Host(GIB), Host(1, 2, 3, True)]))
def test_inputs_survive_being_saved(
    asked: Settings, devices: list[Device], host: Host | None
) -> None:
    lists = replace(asked, tensor_split=(3, 1), kv_unified=True)
    inputs = PlanInputs(lists, (*devices, replace(GPU, id="own", reserve=1)), host, "ollama")
    assert PlanInputs.from_record(json.loads(json.dumps(inputs.record()))) == inputs


def test_a_saved_program_of_an_earlier_version_is_what_it_became() -> None:
    inputs = PlanInputs.from_record(PlanInputs(profile="ollama-0.30").record())
    assert inputs.profile == "ollama"
    with pytest.raises(PlanError, match="no profile"):
        PlanInputs.from_record(PlanInputs(profile="ollama-9").record())


@pytest.mark.parametrize(
    "wrong",
    [{"free": None}, {"free": True}, {"total": "much"}, {"compute": ["8", "6"]}, {"id": None}],
)
def test_a_saved_device_that_is_damaged_is_one_clear_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        devices_of([{"id": "0", "library": "CUDA", "free": GIB} | wrong])


def test_a_saved_switch_that_is_no_boolean_is_left_alone() -> None:
    record = PlanInputs(Settings(spread=True), (GPU,), Host(GIB)).record()
    record["settings"] |= {"spread": "yes", "require_full": 1}
    record["host"]["macos"] = "no"
    read = PlanInputs.from_record(json.loads(json.dumps(record)))
    assert read == PlanInputs(Settings(), (GPU,), Host(GIB))


def test_layers_that_are_forced_onto_a_small_card_do_not_fit() -> None:
    """Ollama's old estimate places what is asked for; that does not make room for it."""
    h, small = small_model(blocks=80), Device("0", "CUDA", 2 * GIB, name="Small GPU")
    forced = plan(h, Settings(num_gpu=999), [small])
    assert forced.fully_offloaded
    assert forced.vram_total > small.free
    assert forced.verdict.level is Level.NOT
    assert answer(forced).sentence.endswith(" too much for Small GPU.")
    roomy = plan(h, Settings(num_gpu=999), [Device("0", "CUDA", 16 * GIB)])
    assert roomy.verdict.level is Level.FITS
