"""The rules of `ollama create --quantize`: which type it gives each tensor of a model.

They depend on names, shapes and the architecture. Those of an architecture read like the file that
they follow. Source: Ollama at fb307609 (August 2026), `x/create/create.go`
(`GetTensorQuantization`), `quantpolicy.go`, and the files of architectures beside them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from explorer.formats.tensors import Shape

SOURCE: Final = (
    "Ollama, x/create at fb307609 (August 2026). The rules change over time, and models of its "
    "library may be made otherwise."
)
"""Where the rules come from, as text that is shown wherever their figures are."""

FORMAT: Final = "ollama"
"""Format of models of its store whose layers are tensors."""

_GROUPS: Final = {"int4": 64, "int8": 64, "nvfp4": 16, "mxfp4": 32, "mxfp8": 32}
BITS: Final[Mapping[str, float]] = MappingProxyType(
    {"int4": 4.5, "int8": 8.5, "nvfp4": 4.5, "mxfp4": 4.25, "mxfp8": 8.25}
)
"""What can be asked for, and the stored bits for each weight, scales included."""

_NOT_QUANTIZED: Final = ("audio_tower", "embed_audio", "embed", "norm", "ln_", "layernorm")
_EXPERTS: Final = (
    ".experts.",
    ".mlp.switch_mlp.",
    ".mlp.shared_experts.",
    ".mixer.shared_experts.",
)
_ROUTERS: Final = (
    *(".mlp.gate.weight", ".mixer.gate.weight", ".shared_expert_gate.weight"),
    ".router.proj.weight",
)
_SENSITIVE: Final = (".v_proj", ".k_proj", "down_proj")
_LEAST: Final = 1024  # weights of a tensor that is quantized
_LAYER: Final = re.compile(r"\.layers\.(\d{1,9})\.")
_FLOAT4: Final = ("nvfp4", "mxfp4")


@dataclass(frozen=True, slots=True)
class Model:
    """What the rules of architectures read of config.json.

    Attributes:
        layers: Number of layers; 0 if it is not said.
        experts: Number of experts; 0 without any.
        dense: Layers without experts, of Laguna.
    """

    layers: int = 0
    experts: int = 0
    dense: frozenset[int] = field(default_factory=frozenset)


Rule: TypeAlias = Callable[[str, Shape, str, Model], str | None]


def type_of(name: str, shape: Shape, asked: str, config: Mapping[str, Any]) -> str | None:
    """Return the type that a tensor gets; None if it stays as it is.

    Args:
        name: Its name, as in the model's safetensors.
        shape: Its shape, stacked experts as one tensor.
        asked: One of `BITS`.
        config: What config.json says.
    """
    return _RULES.get(_architecture(config), _usual)(name, shape, asked, _read(config))


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str) and names[0]:
        return names[0]
    text = config.get("text_config")
    inner = text.get("model_type") if isinstance(text, dict) else ""
    name = config.get("model_type") or inner
    return name if isinstance(name, str) else ""


def _read(config: Mapping[str, Any]) -> Model:
    parts = [config, *(config.get(name) for name in ("text_config", "llm_config"))]

    def number(name: str) -> int:
        found = (part.get(name) for part in parts if isinstance(part, dict))
        return next((one for one in found if type(one) is int and 0 < one < 1 << 20), 0)

    kinds, listed = config.get("mlp_layer_types"), config.get("mlp_only_layers")
    dense = {
        i for i, kind in enumerate(kinds if isinstance(kinds, list) else ()) if kind == "dense"
    }
    dense |= {one for one in (listed if isinstance(listed, list) else ()) if type(one) is int}
    layers = number("num_hidden_layers") or (len(kinds) if isinstance(kinds, list) else 0)
    return Model(layers, number("num_experts"), frozenset(dense or {0}))


# What architectures have in common


def _fits(shape: Shape, kind: str) -> bool:
    return bool(shape) and shape[-1] % _GROUPS[kind] == 0


def _eight(asked: str) -> str:
    return "int8" if asked in ("int4", "int8") else "mxfp8"


def _if_fits(shape: Shape, *kinds: str) -> str | None:
    """Return the first type whose groups divide a row; None if none does."""
    return next((kind for kind in kinds if _fits(shape, kind)), None)


def _sensitive(shape: Shape, asked: str, *, promoted: bool) -> str | None:
    return _if_fits(shape, *((_eight(asked), asked) if promoted else (asked,)))


def _layer(name: str) -> int:
    found = _LAYER.search(name)
    return -1 if found is None else int(found[1])


def _more_bits(layer: int, layers: int, middle_end: int | None = None) -> bool:
    """Return whether a layer gets more bits: the first and last eighth, and every third between."""
    if layer < 0 or layers <= 0:
        return False
    first, last = layers // 8, 7 * layers // 8
    end = last if middle_end is None else middle_end
    return layer < first or layer >= last or (layer < end and (layer - first) % 3 == 2)


def _is_embedding(name: str) -> bool:
    return name.endswith("embed_tokens.weight") and "per_layer" not in name


def _is_vision(name: str) -> bool:
    return "vision" in name or "visual" in name


def _usual(name: str, shape: Shape, asked: str, model: Model) -> str | None:
    """Return the type by the rules that most architectures have (`GetTensorQuantization`)."""
    del model
    stacked = any(part in name for part in _EXPERTS) and not name.endswith(
        (".bias", ".scale", ".qbias")
    )
    if not stacked and (any(one in name for one in _NOT_QUANTIZED) or not name.endswith(".weight")):
        return None
    is_matrix = len(shape) == 2 or (len(shape) == 3 and stacked)
    if not is_matrix or math.prod(shape) < _LEAST or name.endswith(_ROUTERS):
        return None
    if name.endswith("lm_head.weight"):
        return _if_fits(shape, _eight(asked))
    if _is_vision(name) or not _fits(shape, asked):
        return None
    promotes = asked == "int4" or (asked in _FLOAT4 and not stacked)
    if promotes and any(part in name for part in _SENSITIVE) and _fits(shape, _eight(asked)):
        return _eight(asked)
    return asked


# The rules of architectures


def _qwen35(name: str, shape: Shape, asked: str, model: Model) -> str | None:
    if name.endswith(tuple(f".linear_attn.in_proj_{part}.weight" for part in ("a", "b", "ba"))):
        return None
    return _usual(name, shape, asked, model)


def _gemma4(name: str, shape: Shape, asked: str, model: Model) -> str | None:
    if _is_embedding(name):
        return _if_fits(shape, _eight(asked), asked)
    is_other = _is_vision(name) or "audio_tower" in name or "embed_audio" in name
    if is_other or _eight(asked) == asked or not any(part in name for part in _SENSITIVE):
        return _usual(name, shape, asked, model)
    is_key = ".k_proj" in name
    few = model.experts == 8 and model.layers > 0 and (".v_proj" in name or is_key)
    return _sensitive(
        shape, asked, promoted=few or (not is_key and _more_bits(_layer(name), model.layers))
    )


def _cohere2_moe(name: str, shape: Shape, asked: str, model: Model) -> str | None:
    if _is_embedding(name) and len(shape) == 2:
        return _if_fits(shape, _eight(asked))
    layer = _layer(name)
    is_sensitive = any(part in name for part in _SENSITIVE) and _eight(asked) != asked
    if is_sensitive and model.layers > 0 and layer >= 0:
        return _sensitive(shape, asked, promoted=_more_bits(layer, model.layers))
    return _usual(name, shape, asked, model)


_OF_GLIMMER: Final = tuple(
    f".self_attn.{part}" for part in ("q_proj", "o_proj", "k_proj", "v_proj")
)
_MORE_OF_GLIMMER: Final = (".self_attn.gate_proj", ".self_attn.output_gate_proj", ".mlp.down_proj")


def _glimmer(name: str, shape: Shape, asked: str, model: Model) -> str | None:
    if _is_vision(name):
        return None
    if _is_embedding(name):
        return _if_fits(shape, _eight(asked), asked)
    of_attention = any(part in name for part in _OF_GLIMMER)
    is_sensitive = of_attention or any(part in name for part in _MORE_OF_GLIMMER)
    if is_sensitive and _eight(asked) != asked:
        return _sensitive(
            shape, asked, promoted=of_attention or _more_bits(_layer(name), model.layers)
        )
    return _usual(name, shape, asked, model)


def _nemotron_h(name: str, shape: Shape, asked: str, model: Model) -> str | None:
    others = ("vision_model.", "mlp1.", "sound_encoder.", "sound_projection.")
    if name.startswith(others) or name.endswith((".mixer.gate.weight", ".mixer.conv1d.weight")):
        return None
    if name.endswith(("embeddings.weight", "lm_head.weight")):
        return _if_fits(shape, _eight(asked))
    attention = name.endswith(tuple(f".mixer.{part}_proj.weight" for part in "qkvo"))
    sensitive = attention or name.endswith(
        (
            *(".mixer.out_proj.weight", ".mixer.down_proj.weight"),
            ".mixer.shared_experts.down_proj.weight",
        )
    )
    sensitive |= ".mixer.experts." in name and name.endswith(".down_proj.weight")
    if asked not in _FLOAT4 or not sensitive:
        return _usual(name, shape, asked, model)
    layer = _layer(name)
    promoted = attention or layer < 0 or _more_bits(layer, model.layers)
    return _sensitive(shape, asked, promoted=promoted)


_OF_LAGUNA: Final = tuple(f".self_attn.{part}_proj.weight" for part in "qkvog")
_MLP: Final = (".gate_proj.weight", ".up_proj.weight", ".down_proj.weight")


def _laguna(name: str, shape: Shape, asked: str, model: Model) -> str | None:
    if asked in ("int4", "int8"):
        return _usual(name, shape, asked, model)
    layer, layers = _layer(name), model.layers or 40
    attention = any(part in name for part in _OF_LAGUNA)
    dense = any(f".mlp{part}" in name for part in _MLP) and layer in model.dense
    routed = ".mlp.experts." in name and name.endswith(_MLP)
    shared = ".mlp.shared_expert." in name and name.endswith(_MLP)
    promoted = _more_bits(layer, layers, layers // 2 - 4)
    if _is_embedding(name) or name.endswith("lm_head.weight"):
        return _if_fits(shape, _eight(asked))
    if name.endswith(".mlp.gate.weight") or not (attention or dense or routed or shared):
        return None
    is_full = asked == "mxfp8"
    down = name.endswith(_MLP[2])
    if is_full and (attention or (down and (shared or (routed and promoted)))):
        return None
    found = _usual(name, shape, asked, model)
    if found != _eight(asked) or (promoted and shared and down):
        return found
    return asked


_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **{
            f"Qwen3{name}For{task}": _qwen35
            for name in ("_5", "Next", "_5Moe", "NextMoe")
            for task in ("CausalLM", "ConditionalGeneration")
        },
        **dict.fromkeys(
            (
                *("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "gemma4_unified"),
                *("Gemma4UnifiedForCausalLM", "Gemma4UnifiedForConditionalGeneration"),
                *("gemma4_unified_text", "Gemma4AssistantForCausalLM", "gemma4_unified_assistant"),
                "Gemma4UnifiedAssistantForCausalLM",
            ),
            _gemma4,
        ),
        "LagunaForCausalLM": _laguna,
        "MuseGlimmerForConditionalGeneration": _glimmer,
        "Cohere2MoeForCausalLM": _cohere2_moe,
        **dict.fromkeys(
            (*("NemotronH_Nano_VL_V2", "NemotronH_Nano_Omni_Reasoning_V3"), "NemotronHForCausalLM"),
            _nemotron_h,
        ),
    }
)
"""The rules by architecture; of others, `_usual`."""
