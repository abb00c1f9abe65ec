"""What vLLM 0.33 makes of an architecture: a row for each `model_type` of config.json.

Sources: vLLM 0.33.0, `model_executor/models`, `v1/kv_cache_interface.py`; transformers 5.20 for
what a config leaves out. Sizes, heads, experts and norms are in config.json and in the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from explorer.planner.layers import State


class Rope(StrEnum):
    """What is held of rotary positions."""

    TABLE = "a table in the type of the weights"
    FLOAT32 = "a table of float32"
    FREQUENCIES = "frequencies alone"


@dataclass(frozen=True, slots=True)
class Architecture:
    """How vLLM builds the layers of an architecture.

    Attributes:
        window: Key of the tokens that the other layers see.
        chunked: Whether these see a chunk, not a sliding window.
        latent: Whether keys and values are one latent (MLA).
        state: What layers without attention keep, or None.
        rope: What is held of rotary positions.
        normalizer: Whether the scale of the embedding is a buffer.
        float32: Ends of the roles of weights that are held in float32 whatever the file has.
        inputs_first: Whether stacked experts have their inputs before their outputs.
        everywhere: Whether each pipeline stage holds embedding, last norm and output.
        rope_times: How often a table of rotary positions with sections has those of a text: the
            index of a long video goes beyond.
    """

    window: str = "sliding_window"
    chunked: bool = False
    latent: bool = False
    state: State | None = None
    rope: Rope = Rope.TABLE
    normalizer: bool = False
    float32: tuple[str, ...] = ()
    inputs_first: bool = False
    everywhere: bool = False
    rope_times: int = 1


_PLAIN: Final = Architecture()
_EVERYWHERE: Final = Architecture(everywhere=True)
_GEMMA: Final = Architecture(normalizer=True, everywhere=True)
_DELTA: Final = Architecture(state=State.GATED_DELTA, float32=("A_log",))
_QWEN2_VL: Final = Architecture(rope_times=4)
_BIAS: Final = ("e_score_correction_bias",)
_MAMBA: Final = Architecture(state=State.MAMBA2, float32=("A_log",), everywhere=True)

ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {
        "llama": _PLAIN,
        "mistral": _PLAIN,
        "mixtral": _EVERYWHERE,
        "qwen2": _PLAIN,
        "qwen2_moe": _EVERYWHERE,
        "qwen2_vl": _QWEN2_VL,
        "qwen2_vl_text": _QWEN2_VL,
        "qwen2_5_vl": _QWEN2_VL,
        "qwen2_5_vl_text": _QWEN2_VL,
        "qwen3": _PLAIN,
        "qwen3_moe": _EVERYWHERE,
        "qwen3_vl_text": _PLAIN,
        "qwen3_vl_moe_text": Architecture(inputs_first=True, everywhere=True),
        "phi3": _PLAIN,
        "granite": _PLAIN,
        "granitemoe": _EVERYWHERE,
        "glm": _PLAIN,
        "glm4": _PLAIN,
        "olmo2": _PLAIN,
        "smollm3": _PLAIN,
        "starcoder2": _PLAIN,
        "cohere2": _PLAIN,
        "olmo3": Architecture(rope=Rope.FREQUENCIES),
        "gemma": _GEMMA,
        "gemma2": _GEMMA,
        "gemma3_text": _GEMMA,
        "gpt_oss": Architecture(rope=Rope.FLOAT32, everywhere=True),
        "llama4_text": Architecture(window="attention_chunk_size", chunked=True, inputs_first=True),
        "glm4_moe": Architecture(float32=("mlp.gate.weight", *_BIAS)),
        "deepseek_v2": Architecture(latent=True),
        "deepseek_v3": Architecture(latent=True, float32=_BIAS),
        "granitemoehybrid": _MAMBA,
        "nemotron_h": _MAMBA,
        "qwen3_next": _DELTA,
        "qwen3_5_text": _DELTA,
        "qwen3_5_moe_text": _DELTA,
        "lfm2": Architecture(state=State.SHORT_CONV),
        "lfm2_moe": Architecture(state=State.SHORT_CONV, float32=("expert_bias",)),
    }
)
"""`model_type` → how vLLM builds it."""
