"""Plans by vLLM: both ends of what it measures, its refusals, and what scripts read."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.formats.tensors import Spec
from explorer.hardware.catalogue import load_catalogue
from explorer.planner import Device, Hyperparameters, Settings, plan
from explorer.planner.advice import solve
from explorer.planner.engines.registry import ENGINES, default_engine, engines_for
from explorer.planner.engines.vllm import budget
from explorer.planner.engines.vllm.cache import stages
from explorer.planner.folder import Folder
from explorer.planner.inputs import PlanInputs, header_to_plan
from explorer.planner.plans import Accuracy, Level, Plan
from explorer.planner.request import PlanRequest
from explorer.planner.speed import Bandwidth
from explorer.present.plan import answer, fit_state
from explorer.present.plan_export import server_command
from explorer.present.speed import speed_of
from explorer.quantization import TENSOR_TYPES
from tests.planner.models import GIB
from tests.planner.plans import check_terms, record_of
from tests.planner.vllm_cases import cases, folder_of, golden, name_of, run_of

LLAMA = "llama-3.1-8b|none"


def gpu(name: str = "rtx4090", number: int = 0) -> Device:
    """Return a card as the golden cases describe it."""
    compute, total = golden()["gpus"][name]
    return Device(
        str(number), "CUDA", total, name=name.replace("a100", "A100"), total=total, compute=compute
    )


def header(key: str = LLAMA, **changes: Any) -> Hyperparameters:
    folder = folder_of(key)
    if changes:
        folder = Folder({**folder.config, **changes}, (), ())
    return Hyperparameters(folder=folder, block_count=folder.layers)


def planned(key: str = LLAMA, *devices: Device, **settings: Any) -> Plan:
    return plan(header(key), Settings(**settings), devices or (gpu(),), profile="vllm")


record = partial(record_of, part="vllm")


def test_an_architecture_that_no_case_confirms_is_an_estimate_and_says_so() -> None:
    known, like = planned(), header()
    assert like.folder is not None
    config = {**like.folder.config, "model_type": "smollm3"}  # built as llama is
    folder = Folder(config, like.folder._names, like.folder._specs)
    other = plan(replace(like, folder=folder), Settings(), (gpu(),), profile="vllm")
    assert other.weights == known.weights
    assert [one.details.accuracy for one in (known, other)] == [Accuracy.BAND, Accuracy.ESTIMATE]
    assert [any("smollm3" in note for note in one.notes) for one in (known, other)] == [False, True]


@pytest.mark.parametrize("case", cases(built=True), ids=name_of)
def test_defaults_are_those_of_the_card(case: dict[str, Any]) -> None:
    job, resolved = case["job"], case["resolved"]
    tier = budget.tier_of(gpu(job["gpu"]))
    assert resolved["max_num_seqs"] == tier.sequences
    batched = job.get("batched", tier.batched_tokens)
    assert resolved["max_num_batched_tokens"] == batched
    folder = folder_of(f"{job['model']}|{job['quant']}")
    if "max_model_len" not in job:
        assert budget.longest_context(folder) == resolved["max_model_len"]
    assert run_of(case, golden()["gpus"]).tokens_in_flight == resolved["max_in_flight_tokens"]


def test_an_open_context_is_the_largest_that_starts_at_the_high_end() -> None:
    made = planned()
    found = record(made)
    low, high = found["kv"]["largest_context"]
    assert made.used("context") == low < high <= 131_072
    assert found["starts"] == "yes"
    assert made.verdict.level is Level.FITS
    assert f"--max-model-len {low}" in " ".join(found["arguments"])
    assert found["weights_per_gpu"] == [16_094_077_440]  # 14.9888 GiB, as vLLM logs it
    assert found["kv"]["block_tokens"] == 16
    assert found["kv"]["bytes_per_block"] == [2_097_152]
    assert made.room >= 0 > planned(context=low + 16).room


@pytest.mark.parametrize(
    ("context", "starts", "level", "brief"),
    [
        (4096, "yes", Level.FITS, "Fits"),
        (48_000, "depends", Level.PARTLY, "Should fit"),
        (131_072, "no", Level.NOT, "Does not fit"),
    ],
)
def test_the_verdict_of_both_ends(context: int, starts: str, level: Level, brief: str) -> None:
    made = planned(context=context)
    assert record(made)["starts"] == starts
    assert made.verdict.level is level
    assert fit_state(made.verdict) == brief
    assert ("depends on the peak" in answer(made).sentence) is (starts == "depends")
    assert bool(made.verdict.short) is (starts == "no")
    assert any("max seq len (131,072)" in one for one in made.warnings) is (starts == "no")


def test_the_cache_is_exact_where_its_bytes_are_given() -> None:
    case = next(one for one in cases(built=True) if one["job"]["model"] == "gemma-3-27b-text")
    for wanted in case["plans"]:
        made = planned(
            "gemma-3-27b-text|none",
            gpu("rtxpro6000"),
            context=wanted["max_model_len"],
            kv_cache_memory=wanted["available"],
            max_batched_tokens=2048,
        )
        found = record(made)["kv"]
        assert found["available"] == [wanted["available"]] * 2
        assert found["least_bytes_for_one"] == wanted["need_min_available"][0]
        if "tokens" in wanted:
            keys = ("blocks", "tokens", "concurrency")
            assert [found[one] for one in keys] == [
                wanted[one] for one in ("num_blocks", "tokens", "concurrency")
            ]


def test_a_cache_of_given_bytes_does_not_start_where_the_gpu_is_too_small() -> None:
    for given, starts in ((2 * GIB, "yes"), (7 * GIB, "depends"), (9 * GIB, "no")):
        made = planned(context=8192, kv_cache_memory=given)
        assert record(made)["starts"] == starts
        assert bool(made.verdict.short) is (starts == "no")


def test_several_gpus_share_layers_or_have_stages_of_them() -> None:
    two = gpu(), gpu(number=1)
    shared = planned(LLAMA, *two, tensor_parallel=2, context=8192)
    assert record(shared)["weights_per_gpu"] == [8_064_082_432] * 2
    assert [len(held.layers) for held in shared.gpus] == [33, 33]
    staged = planned(LLAMA, *two, pipeline_parallel=2, context=8192)
    assert [tuple(held.layers) for held in staged.gpus] == [tuple(range(16)), tuple(range(16, 33))]
    assert record(staged)["weights_per_gpu"] == [8_063_811_840, 8_063_820_032]
    assert "--pipeline-parallel-size 2" in " ".join(record(staged)["arguments"])
    alone = planned(LLAMA, *two, context=8192)
    assert [held.is_used for held in alone.gpus] == [True, False]
    assert len(stages(10, 4)[1]) == 3  # a rest goes to the stages before the last


def test_a_gpu_without_the_free_memory_that_vllm_takes_is_refused() -> None:
    busy = Device("0", "CUDA", 20 * GIB, name="RTX 4090", total=24 * GIB, compute=(8, 9))
    made = planned(LLAMA, busy, context=4096)
    assert made.verdict.level is Level.NOT
    assert any("refuses to start: 20.0 GiB" in one for one in made.warnings)
    assert planned(LLAMA, busy, context=4096, utilization=0.8).verdict.level is Level.FITS


@pytest.mark.parametrize(
    ("key", "devices", "settings", "why"),
    [
        (LLAMA, 1, {"tensor_parallel": 3}, "needs 3 GPUs"),
        (LLAMA, 3, {"tensor_parallel": 3}, r"attention heads \(32\) must be divisible"),
        (LLAMA, 0, {}, "there is none"),
        ("qwen3-8b|none", 1, {"context": 200_000}, r"\(200,000\) is greater than the 40,960"),
        (LLAMA, 1, {"kv_dtype": "nvfp4"}, "no attention backend"),
        (LLAMA, 1, {"cache_type_k": "q8_0"}, "is not known of vLLM"),
    ],
)
def test_refusals_are_one_clear_sentence(
    key: str, devices: int, settings: dict[str, Any], why: str
) -> None:
    cards = [gpu(number=i) for i in range(devices)]
    with pytest.raises(PlanError, match=why):
        plan(header(key), Settings(**settings), cards, profile="vllm")


def test_the_default_is_what_runs_a_folder_on_the_machine() -> None:
    mac = Device("0", "Metal", 24 * GIB, total=32 * GIB)
    radeon = Device("0", "ROCm", 24 * GIB)
    for devices, name in (
        *(((gpu(),), "vllm"), ((mac,), "mlx"), ((), "transformers"), ((radeon,), "transformers")),
        ((radeon, gpu(number=1)), "vllm"),
    ):
        assert default_engine(header(), devices).name == name
        offered = {engine.name for engine in engines_for(header(), devices)}
        assert offered == {name, "transformers"}
        chosen = PlanInputs(devices=devices, profile="vllm").engine_for(header())
        assert chosen.name == name  # what was chosen where it runs
    quantized = header("llama-3.1-8b|awq4-g128")  # which only vLLM loads
    assert [one.name for one in engines_for(quantized)] == ["vllm"]
    with pytest.raises(PlanError, match="there is none; name one to plan for"):
        plan(quantized, profile=default_engine(quantized).name)


def test_what_is_not_known_is_refused_and_left_to_another_engine() -> None:
    engine = ENGINES["vllm"]
    for changes, why, other in (
        ({"model_type": "unheard-of"}, "unheard-of is not known", "transformers"),
        ({"quantization_config": {"quant_method": "quark"}}, "weights quantized by quark", "vllm"),
        ({"quantization_config": {"quant_method": "HQQ"}}, "quantization method hqq", "vllm"),
        ({"quantization_config": {"quant_method": "fp_quant"}}, "fp_quant is deprecated", "vllm"),
        ({"quantization": {"bits": 4, "group_size": 64}}, "quantized for MLX", "mlx"),
    ):
        refused = header(**changes)
        refusal = engine.refusal(refused)
        assert why in refusal
        assert default_engine(refused, (gpu(),)).name == other
    assert engine.refusal(Hyperparameters())
    old = Device("0", "CUDA", 16 * GIB, name="T4", compute=(7, 5))
    with pytest.raises(PlanError, match="--dtype half"):
        planned(LLAMA, old)
    older, awq = replace(old, name="V100", compute=(7, 0)), folder_of("llama-3.1-8b|awq4-g128")
    half = Folder({**awq.config, "torch_dtype": "float16"}, awq._names, awq._specs)
    with pytest.raises(PlanError, match=r"this quantization from compute capability 7\.5 on"):
        plan(replace(header(), folder=half), Settings(), (older,), profile="vllm")


def test_a_model_that_sees_has_exact_weights_and_upper_ends_alone() -> None:
    own = folder_of(LLAMA)
    tower = Spec(TENSOR_TYPES["BF16"], (1024, 1024), 0, 2 << 20)
    config = {**own.config, "vision_config": {}}
    names, specs = (*own._names, "vision_tower.q_proj.weight"), (*own._specs, tower)
    h = replace(header(), folder=Folder(config, names, specs))
    plain, seeing = planned(), plan(h, Settings(), (gpu(),), profile="vllm")
    assert seeing.weights == plain.weights + (2 << 20)
    found, known = record(seeing), record(plain)
    assert found["starts"] == "depends"
    for name in ("tokens", "largest_context"):
        assert found["kv"][name][0] == 0
        assert known["kv"][name][0] < found["kv"][name][1] <= known["kv"][name][1]
    assert any("at most" in note for note in seeing.notes)
    few = planned(parallel=4).notes  # as many as the cache holds, or as are asked for
    assert any(note.endswith(" tokens. At most 4 run at once") for note in few)
    two = gpu(), gpu(number=1)
    shared = plan(h, Settings(tensor_parallel=2), two, profile="vllm").gpus[0].weights
    assert shared == planned(LLAMA, *two, tensor_parallel=2).gpus[0].weights + (1 << 20)


def test_qwen_vl_has_a_longer_rotary_table_and_a_divided_encoder() -> None:
    """As `qwen2_5_vl.py`, `qwen3_vl.py` and `mrope.py` of vLLM 0.33 have them."""
    own, kind, two = folder_of(LLAMA), TENSOR_TYPES["BF16"], (gpu(), gpu(number=1))
    tower = {"attn.qkv": (192, 64), "attn.proj": (64, 64), "norm1": (64,)}
    names = [f"visual.blocks.0.{name}.weight" for name in tower]
    specs = [Spec(kind, shape, 0, 2 * math.prod(shape)) for shape in tower.values()]
    config = {**own.config, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
    deep = {"deepstack_visual_indexes": [8, 16, 24]}
    weights = {}
    for model_type, vision in (("llama", {}), ("qwen2_5_vl", {}), ("qwen3_vl_text", deep)):
        changed = {**config, "model_type": model_type, "vision_config": vision}
        folder = Folder(changed, (*own._names, *names), (*own._specs, *specs))
        h = replace(header(), folder=folder)
        weights[model_type] = [
            plan(h, Settings(tensor_parallel=gpus), two, profile="vllm").gpus[0].weights
            for gpus in (1, 2)
        ]
    table, features = 131_072 * 128 * 2, 3 * 2048 * 4096 * 2
    plain = weights["llama"]
    halves = 2 * 256 * 64 // 2  # of the encoder, what each of two GPUs has not
    two_gpus = planned(LLAMA, *two, tensor_parallel=2).gpus[0].weights
    assert plain[1] - two_gpus == plain[0] - planned(LLAMA, *two).gpus[0].weights - halves
    assert weights["qwen2_5_vl"] == [one + 3 * table for one in plain]
    assert weights["qwen3_vl_text"] == [one + features for one in plain]


def test_what_a_published_config_leaves_out_is_what_transformers_takes() -> None:
    folder = Folder({"text_config": {"model_type": "gemma3_text", "head_dim": 128}}, (), ())
    assert (folder.heads, folder.kv_heads, folder.head) == (8, 4, 128)
    assert folder.ties_output


def test_every_formula_gives_its_figure() -> None:
    two = gpu(), gpu(number=1)
    for key in (LLAMA, "granite-4.0-h-tiny|none", "gpt-oss-20b|none"):
        for settings in ({}, {"tensor_parallel": 2}, {"kv_cache_memory": GIB}):
            made = planned(key, *two, context=4096, **settings)
            check_terms(made)
            assert len(made.layers) == made.request.h.total_layers


def test_questions_and_the_command(tmp_path: Path) -> None:
    made = planned()
    h = replace(made.request.h, trained_context=131_072)
    request = replace(made.request, h=h).asking(context=4096)
    assert solve("context", request, ENGINES["vllm"]).value == made.used("context")
    words = server_command(tmp_path, made).split()
    assert words[:3] == ["vllm", "serve", str(tmp_path)]
    assert words[3:] == record(made)["arguments"]
    assert words[-2:] == ["--gpu-memory-utilization", "0.92"]


def test_cards_of_the_catalogue_know_their_compute_capability() -> None:
    for row in load_catalogue().gpus:
        assert row.library != "CUDA" or row.compute is not None, row.name


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(header().folder.config))  # type: ignore[union-attr]
    names = {"model.norm.weight": "a.safetensors", "lm_head.weight": "b.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    place = {"dtype": "BF16", "shape": [4096], "data_offsets": [0, 8192]}
    text = json.dumps({"model.norm.weight": place}).encode()
    data = struct.pack("<Q", len(text)) + text + bytes(8192)
    (tmp_path / "a.safetensors").write_bytes(data)
    with open_model(tmp_path) as model:
        h = header_to_plan(model)
    made = plan(h, Settings(), (gpu(),), profile="vllm")
    (said,) = (warning for warning in made.warnings if "damaged" in warning)
    assert said.startswith("the model is damaged: b.safetensors: does not exist")
    assert said.endswith("1 tensor of the index should be in it")
    assert answer(made).sentence.startswith("Damaged: b.safetensors: does not exist")


@pytest.mark.parametrize(("profile", "library"), [("mlx", "Metal"), ("transformers", "CUDA")])
def test_a_context_beyond_the_model_s_is_refused_or_warned_of(profile: str, library: str) -> None:
    with pytest.raises(PlanError, match=r"200,000.*131,072"):
        planned(context=200_000)
    device = Device("0", library, 96 * GIB, total=96 * GIB)
    made = plan(header(), Settings(context=200_000), (device,), profile=profile)
    assert "the model was trained for 131,072 tokens" in made.warnings[0]
    fewer = plan(header(), Settings(context=131_072), (device,), profile=profile)
    assert not any("trained for" in warning for warning in fewer.warnings)


def test_questions_are_answered_by_both_ends_of_the_peak() -> None:
    h, devices = header(), (gpu(),)
    request = PlanRequest(h, Settings(context=4096), devices)
    found = solve("parallel", request, ENGINES["vllm"])
    low, high = planned(context=4096).details.counts()["requests"]
    assert 0 < found.value == low < high
    assert f"{low} to {high} requests" in found.limited_by
    found = solve("context", request, ENGINES["vllm"])
    assert found.value == record(planned())["kv"]["largest_context"][0]
    assert found.limited_by.endswith("fits depends on the peak that vLLM measures before it starts")


@pytest.mark.parametrize("parallel", [1, 2])
def test_gpus_that_share_layers_read_at_once(parallel: int) -> None:
    plan = planned(LLAMA, gpu(), gpu(number=1), tensor_parallel=parallel)
    weights = 32 * (4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)) + 128_256 * 4096
    read = plan.details.reads(0)
    assert read is not None
    assert read == {"GPU0": pytest.approx(2 * weights / parallel, rel=0.001)}
    deep = plan.details.reads(10_000)
    assert deep is not None
    assert deep["GPU0"] - read["GPU0"] == 10_000 * 32 * 2 * 1024 * 2 // parallel
    found = speed_of(plan, {"GPU0": Bandwidth("GPU0", 10**12, "test")})
    assert not isinstance(found, str)
    assert found.empty.likely is None, "no published run says what vLLM reaches"
    assert found.sentence.startswith("At most ")
    assert found.brief.startswith("≤ ")
