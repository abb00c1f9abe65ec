"""Logs of vLLM beside its plans: real lines of each version, and the published logs of a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats.tensors import Spec
from explorer.planner import Device, Hyperparameters
from explorer.planner.folder import Folder
from explorer.planner.logs.comparison import Comparison, measured_record
from explorer.planner.logs.lines import Measured
from explorer.planner.logs.reading import parse_log
from explorer.planner.logs.vllm import compare_vllm
from explorer.planner.request import PlanRequest
from explorer.present import measured as words
from explorer.quantization import TENSOR_TYPES
from tests.planner.vllm_cases import folder_of

GIB = 1 << 30
_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "F8_E4M3": 1}
_GROUP, _BLOCK, _PACK = 128, 128, 8


def parsed(text: str) -> Measured:
    """Return the last load of a log."""
    return parse_log([text.encode()]).load_of("")


# Models, from what is published of them


def header(
    config: dict[str, Any], tensors: Iterator[tuple[str, list[int], str]]
) -> Hyperparameters:
    names, specs = [], []
    for name, shape, kind in tensors:
        names.append(name)
        specs.append(Spec(TENSOR_TYPES[kind], tuple(shape), 0, _BYTES[kind] * prod(shape)))
    folder = Folder(config, names, specs)
    return Hyperparameters(folder=folder, block_count=folder.layers)


def linear(name: str, out: int, into: int, method: str) -> Iterator[tuple[str, list[int], str]]:
    if method == "awq":
        yield f"{name}.qweight", [into, out // _PACK], "I32"
        yield f"{name}.qzeros", [into // _GROUP, out // _PACK], "I32"
        yield f"{name}.scales", [into // _GROUP, out], "F16"
    elif method == "fp8":
        yield f"{name}.weight", [out, into], "F8_E4M3"
        yield f"{name}.weight_scale_inv", [-(-out // _BLOCK), -(-into // _BLOCK)], "F32"
    else:
        yield f"{name}.weight", [out, into], "BF16"


def transformer(
    kind: str, wide: int, layers: int, heads: tuple[int, int], inner: int, **more: Any
) -> Hyperparameters:
    """Return a model of Qwen's build; `heads` are those of queries, and of keys and values."""
    queries, kv = heads
    method, experts = more.pop("method", ""), more.get("num_experts", 0)
    head = more.setdefault("head_dim", 128)
    config = {
        **{"model_type": kind, "hidden_size": wide, "num_hidden_layers": layers},
        **{"num_attention_heads": queries, "num_key_value_heads": kv, "intermediate_size": inner},
        **{"vocab_size": 152_064, "max_position_embeddings": 32_768, "torch_dtype": "bfloat16"},
        **more,
    }
    if method == "awq":
        config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": _GROUP}
    elif method == "fp8":
        block = [_BLOCK, _BLOCK]
        config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": block}

    def tensors() -> Iterator[tuple[str, list[int], str]]:
        vocabulary = [config["vocab_size"], wide]
        yield "model.embed_tokens.weight", vocabulary, "BF16"
        yield "lm_head.weight", vocabulary, "BF16"
        yield "model.norm.weight", [wide], "BF16"
        for layer in range(layers):
            place = f"model.layers.{layer}"
            for name, out, into in (
                ("q_proj", queries * head, wide),
                *((one, kv * head, wide) for one in ("k_proj", "v_proj")),
                ("o_proj", wide, queries * head),
            ):
                yield from linear(f"{place}.self_attn.{name}", out, into, method)
                if kind == "qwen2" and name != "o_proj":
                    yield f"{place}.self_attn.{name}.bias", [out], "BF16"
            for norm in ("input_layernorm", "post_attention_layernorm"):
                yield f"{place}.{norm}.weight", [wide], "BF16"
            if experts:
                yield f"{place}.mlp.gate.weight", [experts, wide], "BF16"
                for norm in ("q_norm", "k_norm"):
                    yield f"{place}.self_attn.{norm}.weight", [head], "BF16"
            for expert in range(experts or 1):
                inside = f"{place}.mlp.experts.{expert}" if experts else f"{place}.mlp"
                width = more.get("moe_intermediate_size", inner)
                for name in ("gate_proj", "up_proj"):
                    yield from linear(f"{inside}.{name}", width, wide, method)
                yield from linear(f"{inside}.down_proj", wide, width, method)

    return header(config, tensors())


def golden(key: str, **changes: Any) -> Hyperparameters:
    folder = folder_of(key)
    changed = Folder({**folder.config, **changes}, folder._names, folder._specs)
    return Hyperparameters(folder=changed, block_count=folder.layers)


def llama_3_8b() -> Hyperparameters:
    changes = {"max_position_embeddings": 8192, "rope_scaling": None, "rope_parameters": None}
    return golden("llama-3.1-8b|none", **changes)


def qwen25_32b() -> Hyperparameters:
    return transformer("qwen2", 5120, 64, (40, 8), 27_648)


def qwen25_7b_awq() -> Hyperparameters:
    return transformer("qwen2", 3584, 28, (28, 4), 18_944, method="awq")


_EXPERTS = {"num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151_936}


def qwen3_30b() -> Hyperparameters:
    sizes = {"moe_intermediate_size": 768, "max_position_embeddings": 40_960}
    return transformer("qwen3_moe", 2048, 48, (32, 4), 6144, **_EXPERTS, **sizes)


def qwen3_235b_fp8() -> Hyperparameters:
    sizes = {"moe_intermediate_size": 1536, "max_position_embeddings": 40_960}
    return transformer("qwen3_moe", 4096, 94, (64, 4), 12_288, method="fp8", **_EXPERTS, **sizes)


def gemma_3_27b() -> Hyperparameters:
    """Return the golden model of texts with its encoder of images, SigLIP of 27 layers."""
    text = folder_of("gemma-3-27b-text|none")
    wide, inner, tower = 1152, 4304, "vision_tower.vision_model"
    tensors = {
        f"{tower}.embeddings.patch_embedding": (wide, 3, 14, 14),
        f"{tower}.embeddings.position_embedding": (4096, wide),
        "multi_modal_projector.mm_input_projection": (wide, 5376),
    }
    layer = {f"self_attn.{one}_proj": (wide, wide) for one in ("q", "k", "v", "out")}
    layer |= {"mlp.fc1": (inner, wide), "mlp.fc2": (wide, inner)}
    for number in range(27):
        tensors |= {f"{tower}.encoder.layers.{number}.{at}": of for at, of in layer.items()}
    names = [f"{name}.weight" for name in tensors]
    specs = [Spec(TENSOR_TYPES["BF16"], of, 0, 2 * prod(of)) for of in tensors.values()]
    config = {**text.config, "vision_config": {}}
    folder = Folder(config, (*text._names, *names), (*text._specs, *specs))
    return Hyperparameters(folder=folder, block_count=folder.layers)


def delta_net(kind: str, **sizes: Any) -> Hyperparameters:
    """Return a Qwen3.5 by its config alone: what its cache comes to."""
    config = {
        "model_type": kind, "head_dim": 256, "vocab_size": 248_320, "linear_num_key_heads": 16,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "full_attention_interval": 4, "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262_144, "torch_dtype": "bfloat16", **sizes,
    }  # fmt: skip
    return header(config, iter(()))


def qwen36_27b() -> Hyperparameters:
    return delta_net(
        "qwen3_5_text", hidden_size=5120, num_hidden_layers=64, num_attention_heads=24,
        num_key_value_heads=4, intermediate_size=17_408, linear_num_value_heads=48,
    )  # fmt: skip


def qwen36_35b_a3b() -> Hyperparameters:
    return delta_net(
        "qwen3_5_moe_text", hidden_size=2048, num_hidden_layers=40, num_attention_heads=16,
        num_key_value_heads=2, moe_intermediate_size=512, num_experts=256, num_experts_per_tok=8,
        linear_num_value_heads=32,
    )  # fmt: skip


# The published logs: docs/planner.md, section 14, has the same table in words


@dataclass(frozen=True)
class Published:
    """What one log says, and how far from it the plan is.

    Attributes:
        number: Its number in the table.
        model: Makes the model.
        text: Its lines.
        off: What → the most that it is off, as a part of the plan; 0.0 is within the rounding, or
            within the range.
        card: Memory of each GPU where the log does not tell, and compute capability.
    """

    number: int
    model: Any
    text: str
    off: dict[str, float]
    card: tuple[float, tuple[int, int]] = (79.22, (9, 0))
    why: dict[str, str] = field(default_factory=dict)


_OLD = (
    "the current vLLM instance can use total_gpu_memory ({0}GiB) x gpu_memory_utilization ({1}) = "
    "{2}GiB\nmodel weights take {3}GiB; non_torch_memory takes {4}GiB; PyTorch activation peak "
    "memory takes {5}GiB; the rest of the memory reserved for KV Cache is {6}GiB."
)
_TWO = "non-default args: {'tensor_parallel_size': 2, 'max_model_len': 10000}\n"
_LIST = (
    Published(
        1, llama_3_8b,
        _OLD.format(79.22, "0.90", 71.3, 14.96, 1.79, 1.26, 53.29),
        {"weights": 0.0, "activation": 0.0, "non-torch": 2.1, "available": 0.0},
        why={"non-torch": "before its accounting was mended"},
    ),
    Published(
        2, llama_3_8b,
        "non-default args: {'tensor_parallel_size': 2}\n"
        + "model weights take 7.48GiB; non_torch_memory takes 3.58GiB; PyTorch activation peak "
        "memory takes 1.26GiB",
        {"weights": 0.0, "activation": 0.0, "non-torch": 0.8},
        why={"non-torch": "before its accounting was mended"},
    ),
    Published(
        5, lambda: golden("llama-3.1-8b|none"),
        "Model loading took 14.9889 GiB and 8.2 seconds\nGPU KV cache size: 158,656 tokens\n"
        "Maximum concurrency for 32,768 tokens per request: 4.84x",
        {"weights": 1e-5, "tokens": 0.16, "requests": 0.16},
        card=(44.42, (8, 9)),
        why={"tokens": "it loads LoRA adapters"},
    ),
    Published(
        9, qwen25_32b,
        _TWO + _OLD.format(44.42, "0.90", 39.98, 30.71, "0.30", 1.26, 7.71)
        + "\n# GPU blocks: 3947, # CPU blocks: 2048",
        {"weights": 7e-3, "activation": 0.0, "non-torch": 0.0, "available": 0.0, "blocks": 0.0},
        card=(44.42, (8, 9)),
    ),
    Published(
        10, qwen25_7b_awq,
        _OLD.format("8.00", "0.70", 5.6, "5.20", 0.03, 1.42, -1.05),
        {"weights": 0.0, "activation": 0.0, "non-torch": 0.4, "available": 0.0},
        card=(8.0, (8, 9)),
    ),
    Published(
        11, qwen3_235b_fp8,
        "non-default args: {'tensor_parallel_size': 4}\nAvailable KV cache memory: 8.11 GiB\n"
        "GPU KV cache size: 178,880 tokens",
        {"available": 6e-3, "tokens": 0.011},
        why={"available": "0.9 of the GPUs", "tokens": "the GPU with the least of four counts"},
    ),
    Published(
        13, qwen3_30b,
        "non-default args: {'tensor_parallel_size': 4}\nModel loading took 14.2474 GiB and 9 s",
        {"weights": 2e-4},
    ),
    Published(
        14, gemma_3_27b,
        "non-default args: {'tensor_parallel_size': 4}\nModel loading took 13.1665 GiB and 9 s",
        {"weights": 7.2e-3},
        why={"weights": "its encoder is divided: whole on each GPU, it would be 3.5 % below"},
    ),
    Published(
        21, qwen36_35b_a3b,
        "non-default args: {'max_num_seqs': 1, 'max_num_batched_tokens': 8192, "
        "'kv_cache_dtype': 'fp8'}\nAvailable KV cache memory: 5.98 GiB\n"
        "GPU KV cache size: 567,978 tokens\n"
        "Maximum concurrency for 131,072 tokens per request: 4.33x",
        {"tokens": 0.0, "requests": 0.0},
        card=(31.36, (8, 9)),  # 0.24 has the blocks of 8.9 on a GPU of 12.0, too
    ),
    Published(
        22, qwen36_27b,
        "non-default args: {'kv_cache_dtype': 'fp8'}\n"
        "Setting attention block size to 1568 tokens to ensure that attention page size is >= "
        "mamba page size.",
        {"block tokens": 0.0},
        card=(47.5, (8, 6)),
    ),
)  # fmt: skip


def compared(one: Published) -> Comparison:
    gib, compute = one.card
    total = round(gib * GIB)
    card = Device("0", "CUDA", total, name="Card", total=total, compute=compute)
    return compare_vllm(PlanRequest(one.model(), devices=(card,)), parsed(one.text))


@pytest.mark.parametrize("one", _LIST, ids=lambda one: f"log {one.number}")
def test_published_logs_are_as_far_from_their_plans_as_the_table_says(one: Published) -> None:
    found = compared(one)
    rows = {row.kind: row for row in found.residuals}
    for kind, most in one.off.items():
        row = rows[kind]
        assert row.planned is not None
        if most:
            assert not row.agrees, (kind, row)
            assert abs(row.difference or 0) <= most * abs(row.nearest or 0), (kind, row)
        else:
            assert row.agrees, (kind, row)


# What each version writes

V0 = """\
INFO 03-01 10:30:40 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: \
model='meta-llama/Meta-Llama-3-8B', speculative_config=None, dtype=torch.bfloat16, \
max_seq_len=8192, tensor_parallel_size=1, pipeline_parallel_size=1, enforce_eager=False, \
kv_cache_dtype=auto,
INFO 03-01 10:30:55 model_runner.py:1115] Loading model weights took 14.9595 GB
INFO 03-01 10:30:57 worker.py:267] the current vLLM instance can use total_gpu_memory (79.22GiB) x \
gpu_memory_utilization (0.90) = 71.30GiB
INFO 03-01 10:30:57 worker.py:267] model weights take 14.96GiB; non_torch_memory takes 0.19GiB; \
PyTorch activation peak memory takes 1.26GiB; the rest of the memory reserved for KV Cache is \
54.89GiB.
INFO 03-01 10:30:57 executor_base.py:110] # CUDA blocks: 28103, # CPU blocks: 2048
INFO 03-01 10:30:57 executor_base.py:115] Maximum concurrency for 8192 tokens per request: 54.89x
INFO 03-01 10:31:20 model_runner.py:1562] Graph capturing finished in 23 secs, took 0.26 GiB
"""
V1 = """\
(APIServer pid=1) INFO 05-21 21:03:02 [utils.py:233] non-default args: {'model_tag': 'm', \
'model': 'meta-llama/Llama-3.1-8B', 'max_model_len': 16384, 'tensor_parallel_size': 2, \
'gpu_memory_utilization': 0.95, 'enable_prefix_caching': False}
(EngineCore pid=199) INFO 05-21 21:03:20 [core.py:109] Initializing a V1 LLM engine (v0.24.0) \
with config: model='meta-llama/Llama-3.1-8B', speculative_config=None, dtype=torch.bfloat16, \
max_seq_len=16384, tensor_parallel_size=2, pipeline_parallel_size=1, enforce_eager=False, \
kv_cache_dtype=fp8, enable_prefix_caching=False
(EngineCore pid=199) INFO [vllm.py:840] Chunked prefill is enabled with max_num_batched_tokens=4096.
(Worker_TP0 pid=514) INFO [gpu_model_runner.py:5306] Model loading took 7.51 GiB memory and 20.2 s
(Worker_TP0 pid=514) INFO [gpu_model_runner.py:6639] Estimated CUDA graph memory: 0.58 GiB total
(Worker_TP1 pid=515) INFO [gpu_model_runner.py:6639] Estimated CUDA graph memory: 0.58 GiB total
(Worker_TP0 pid=514) INFO [gpu_worker.py:538] Available KV cache memory: 12.29 GiB
(Worker_TP1 pid=515) INFO [gpu_worker.py:538] Available KV cache memory: 12.25 GiB
(EngineCore pid=199) INFO [kv_cache_utils.py:2146] GPU KV cache size: 401,408 tokens
(EngineCore pid=199) INFO [kv_cache_utils.py:2147] Maximum concurrency for 16,384 tokens per \
request: 24.50x
(Worker_TP0 pid=514) INFO [gpu_model_runner.py:6971] Graph capturing finished in 9 secs, took \
0.31 GiB
"""


def rows_of(found: Comparison) -> dict[tuple[str, str], str]:
    return {(one.device, one.kind): words.difference_text(one) for one in found.residuals}


def test_lines_of_the_first_versions_are_placed_beside_the_plan() -> None:
    measured = parsed(V0)
    assert (measured.version, measured.name) == ("0.7.3", "meta-llama/Meta-Llama-3-8B")
    found = compare_vllm(PlanRequest(llama_3_8b()), measured)  # the log tells the GPU's memory
    assert rows_of(found) == {
        ("GPU0", "weights"): "none",
        ("GPU0", "activation"): "within the range",
        ("GPU0", "non-torch"): "within the range",
        ("GPU0", "graphs"): "within the range",
        ("GPU0", "available"): "within the range",
        ("all", "blocks"): "within the range",
        ("all", "requests"): "within the range",
    }
    assert not found.assumed


def card(gib: int = 24) -> Device:
    return Device("0", "CUDA", gib * GIB, name="NVIDIA L4", compute=(8, 9), total=gib * GIB)


def test_lines_of_today_name_their_gpus_and_the_least_cache_counts() -> None:
    measured = parsed(V1)
    settings = {
        **{"context": 16_384, "tensor_parallel": 2, "pipeline_parallel": 1, "utilization": 0.95},
        **{"kv_dtype": "fp8", "enforce_eager": False, "prefix_caching": False},
        "max_batched_tokens": 4096,
    }
    assert dict(measured.settings) == settings
    found = compare_vllm(PlanRequest(golden("llama-3.1-8b|none"), devices=(card(),)), measured)
    assert rows_of(found) == {
        ("GPU0", "weights"): "none",
        ("GPU0", "graphs"): "within the range",
        ("GPU0", "graphs estimate"): "within the range",
        ("GPU0", "profile"): "within the range",
        ("GPU0", "available"): "within the range",
        ("GPU1", "graphs estimate"): "within the range",
        ("GPU1", "available"): "within the range",
        ("all", "tokens"): "within the range",
        ("all", "requests"): "within the range",
    }
    tokens = next(one for one in found.residuals if one.kind == "tokens")
    assert tokens.planned_low is not None
    assert tokens.planned_low <= 401_408 <= (tokens.planned or 0) < tokens.planned_low * 1.01
    text = words.settings_text(found.settings)
    assert "tensor parallel 2" in text
    assert "prefix caching off" in text
    assert found.asked(2).items() <= settings.items()
    record = json.loads(json.dumps(measured_record(found, "vllm.log")))
    assert record["buffers"]["all"] == {"tokens": 401_408, "requests": 24.5}
    units = {one["what"]: one.get("unit", "bytes") for one in record["residuals"]}
    assert (units["GPU0 weights"], units["all tokens"]) == ("bytes", "tokens")


def test_stages_of_a_pipeline_have_weights_of_their_own() -> None:
    text = "non-default args: {'pipeline_parallel_size': 2}\n" + "\n".join(
        f"(Worker_PP{stage}_TP0 pid={stage}) Model loading took {gib} GiB and 9 seconds"
        for stage, gib in ((1, "7.4845"), (0, "7.5350"))
    )
    found = compare_vllm(PlanRequest(golden("llama-3.1-8b|none"), devices=(card(),)), parsed(text))
    assert [(one.device, one.kind) for one in found.residuals] == [
        ("GPU0", "weights"),
        ("GPU1", "weights"),
    ]
    first, last = (one.planned or 0 for one in found.residuals)
    folder = golden("llama-3.1-8b|none").folder
    assert folder is not None
    assert first + last - 16_094_077_440 == pytest.approx(131_072 * 128 * 2, rel=0.01)  # the table


def test_without_memory_of_the_gpus_only_weights_and_counts_are_compared() -> None:
    found = compare_vllm(PlanRequest(golden("llama-3.1-8b|none")), parsed(V1))
    assert rows_of(found)["GPU0", "available"] == "no formula is known"
    log = parse_log([V1.encode()])
    notes = " ".join(words.comparison_notes(found, log))
    assert "no NVIDIA GPU is planned for here" in notes
    assert "vLLM 0.24.0" in notes
    assert "the log's model is meta-llama/Llama-3.1-8B" in notes


def test_what_no_plan_has_is_named() -> None:
    text = V1.replace(
        "speculative_config=None", "speculative_config=SpeculativeConfig(method='mtp'"
    )
    text += "Encoder cache will be initialized with a budget of 16384 tokens\n"
    measured = parsed(text)
    found = compare_vllm(PlanRequest(golden("llama-3.1-8b|none"), devices=(card(),)), measured)
    notes = " ".join(words.comparison_notes(found, parse_log([text.encode()])))
    assert "a model that drafts tokens" in notes
    assert "the encoder of images or sound" in notes


def test_the_last_start_of_a_log_counts() -> None:
    first = V1.replace("7.51 GiB", "9.99 GiB")
    log = parse_log([(first + V1).encode()])
    assert log.starts == 2
    sizes = {one.kind: one.nbytes for one in log.load_of("").buffers}
    assert sizes["weights"] == round(7.51 * GIB)


def test_a_log_that_cannot_be_compared_says_why_in_a_sentence() -> None:
    with pytest.raises(PlanError, match="has no plan of vLLM: vLLM loads folders"):
        compare_vllm(PlanRequest(Hyperparameters()), parsed(V1))
    many = V1.replace("tensor_parallel_size=2", "tensor_parallel_size=512")
    with pytest.raises(PlanError, match="512 GPUs, and at most 64"):
        compare_vllm(PlanRequest(golden("llama-3.1-8b|none")), parsed(many))
    three = "(Worker_TP5 pid=1) Model loading took 7.51 GiB"
    with pytest.raises(PlanError, match="more GPUs than it says"):
        compare_vllm(PlanRequest(golden("llama-3.1-8b|none")), parsed(three))
