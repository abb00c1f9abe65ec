"""Logs for tests: real lines of each format, and llama-server's for any plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from explorer.formats.model import Model
from explorer.planner.engines.llama_cpp.allocation import Allocation, Settings
from tests.planner.models import header_model

_FOLDER = Path(__file__).parents[1] / "data" / "logs"


def _sample(name: str) -> str:
    return (_FOLDER / f"{name}.log").read_text(encoding="utf-8")


LLAMA_SERVER = _sample("llama_server")
OLLAMA_ENGINE = _sample("ollama_engine")
OLLAMA_SERVER = _sample("ollama_server")
OLLAMA_PS = _sample("ollama_ps")
LM_STUDIO = _sample("lm_studio")
BREAKDOWN = _sample("breakdown")


def tiny_model(experts: int = 0) -> Model:
    """Return a model that has a header and nothing else."""
    metadata: dict[str, Any] = {
        "general.architecture": "llama",
        "general.name": "Tiny",
        "llama.block_count": 8,
        "llama.embedding_length": 512,
        "llama.feed_forward_length": 1024,
        "llama.context_length": 65536,
        "llama.attention.head_count": 8,
        "llama.attention.head_count_kv": 4,
        "tokenizer.ggml.tokens": range(1000),
    }
    tensors = [
        ("token_embd.weight", "Q8_0", [512, 1000]),
        ("output.weight", "Q6_K", [512, 1000]),
        ("output_norm.weight", "F32", [512]),
    ]
    for block in range(8):
        tensors.append((f"blk.{block}.attn_q.weight", "Q4_K", [512, 512]))
        if experts:
            tensors.append((f"blk.{block}.ffn_up_exps.weight", "Q4_K", [512, 1024, experts]))
        else:
            tensors.append((f"blk.{block}.ffn_up.weight", "Q4_K", [512, 1024]))
    if experts:
        metadata |= {"llama.expert_count": experts, "llama.expert_used_count": 2}
    return header_model(metadata, tensors)


def server_log(
    allocation: Allocation,
    settings: Settings,
    *,
    prefix: str = "",
    blocks: int = 8,
    extra: str = "",
) -> str:
    """Return what llama-server would print if it allocated just that."""
    names = {f"GPU{i}": f"CUDA{i}" for i in range(settings.devices)} | {"host": "CUDA_Host"}
    lines = [
        "llama_model_loader: loaded meta data with 9 key-value pairs and 9 tensors from x.gguf"
    ]
    lines += [
        f"load: using device CUDA{i} (Card {i}) - 9000 MiB free" for i in range(settings.devices)
    ]
    lines.append("llama_model_loader: - kv   0:   general.architecture str              = llama")
    lines.append("llama_model_loader: - kv   1:   general.name str              = Tiny")
    lines.append(f"llama_model_loader: - kv   2:   llama.block_count u32              = {blocks}")
    lines.append(
        f"load_tensors: offloaded {min(settings.gpu_layers, blocks + 1)}/{blocks + 1} layers"
    )
    for name, buffer in allocation.buffers.items():
        device = names.get(name, name)
        lines.append(f"load_tensors: {device:>12} model buffer size = {_mib(buffer.weights)}")
    lines += [
        "llama_context: constructing llama_context",
        f"llama_context: n_seq_max             = {settings.parallel}",
        f"llama_context: n_ctx                 = {allocation.n_ctx}",
        f"llama_context: n_batch               = {settings.batch}",
        f"llama_context: n_ubatch              = {settings.ubatch}",
        f"llama_context: flash_attn            = {int(settings.flash_attention)}",
        f"llama_context: kv_unified            = {str(settings.kv_unified).lower()}",
    ]
    for name, buffer in allocation.buffers.items():
        device = names.get(name, name)
        if buffer.cache:
            lines.append(f"llama_kv_cache: {device:>10} KV buffer size = {_mib(buffer.cache)}")
    lines.append(
        f"llama_kv_cache: size = 1.00 MiB, K ({settings.type_k}): 1.00 MiB, "
        f"V ({settings.type_v}): 1.00 MiB"
    )
    for name, buffer in allocation.buffers.items():
        device = names.get(name, name)
        if buffer.compute:
            lines.append(
                f"sched_reserve: {device:>10} compute buffer size = {_mib(buffer.compute)}"
            )
    lines += extra.splitlines()
    return "".join(f"{prefix}{line}\n" for line in lines)


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:8.2f} MiB"
