"""Which architecture has which row (planner.md section 5, the table and its details)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from explorer.planner.graph.dense import (
    chatglm,
    chatglm_fused_bias,
    command_r,
    deepseek2,
    phi2,
    qwen2,
    stablelm,
)
from explorer.planner.graph.gemma import gemma, gemma3n
from explorer.planner.graph.gptoss import gptoss, gptoss_flash_attention
from explorer.planner.graph.llama import llama, mllama, split_experts, stacked_experts
from explorer.planner.graph.row import Row
from explorer.planner.hyperparameters import Hyperparameters

_ROWS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "llama": llama,
        "llama4": llama,
        "mllama": mllama,
        "gemma": gemma,
        "gemma2": gemma,
        "gemma3": gemma,
        "gemma3n": gemma3n,
        "command-r": command_r,
        "qwen2": qwen2,
        "phi2": phi2,
        "stablelm": stablelm,
        "deepseek2": deepseek2,
        "chatglm": chatglm,
        "gptoss": gptoss,
        "gpt-oss": gptoss,
    }
)


def row_for(h: Hyperparameters, *, flash_attention: bool) -> Row | None:
    """Return the row of a model, or None: then only the fallback is left.

    Experts are looked for in block 0 alone, stacked ones first.
    """
    row = _ROWS.get(h.architecture)
    if row is llama:
        if h.tensors.gate_experts_bytes is not None:
            return stacked_experts
        if h.tensors.expert_width is not None:
            return split_experts
    if row is chatglm and h.tensors.fused_bias_length is not None:
        return chatglm_fused_bias
    if row is gptoss and flash_attention:
        return gptoss_flash_attention
    return row
