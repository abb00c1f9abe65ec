"""A folder of safetensors as its headers have it: config.json, and each tensor as it is stored.

Programs that load such folders as they are (vLLM, mlx-lm, transformers) plan from this; what it
would be after conversion to GGUF is in `explorer.planner.hyperparameters`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from explorer.errors import PlanError
from explorer.formats.tensors import Shape, Spec
from explorer.planner.devices import MAX_BLOCKS, MAX_COUNT, quoted, whole

Row = TypeVar("Row")
_HEADS: Final = ("num_attention_heads", "n_head")
_LAYERS: Final = "layers"
_EXPERTS: Final = "experts"
_ANY: Final = "*"
_OUTPUT: Final = "lm_head"
_EMBEDDINGS: Final = frozenset({"embed_tokens", "embeddings", "wte", "word_embeddings"})
_STACKS: Final = frozenset({"model", "backbone", "language_model", "transformer"})


_CONFIRMED: Final = frozenset((
    "deepseek_v2", "gemma2", "gemma3_text", "gpt_oss", "granitemoehybrid", "llama", "mistral",
    "mixtral", "olmo3", "phi3", "qwen2", "qwen3", "qwen3_5_text", "qwen3_moe", "qwen3_next",
))  # fmt: skip
"""The `model_type`s of which the programs themselves were asked (docs/planner.md)."""


_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "gemma3_text": {
            **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256},
            **{"max_position_embeddings": 131_072, "vocab_size": 262_208, "sliding_window": 4096},
            **{"rope_local_base_freq": 10_000.0, "tie_word_embeddings": True},
        }
    }
)
"""`model_type` → what holds where a published config leaves it out. Source: transformers 5.20."""


class StoredKind(NamedTuple):
    """Tensors of one layer that differ in nothing but the number of their expert."""

    layer: int | None  # the layer's number; None outside of the layers
    role: str  # "self_attn.q_proj.weight", "mlp.experts.*.up_proj.weight", "lm_head.weight"
    shape: Shape  # as stored, outermost first
    type: str  # as stored: "BF16", "I32", "F8_E4M3" …
    nbytes: int  # of one of them


class Folder:
    """What the headers of a folder say.

    Attributes:
        config: config.json.
        text: Its part about the language model: ``text_config`` where there is one.
    """

    def __init__(
        self, config: Mapping[str, Any], names: Sequence[str], specs: Sequence[Spec]
    ) -> None:
        self.config = config
        inner = config.get("text_config")
        text = inner if isinstance(inner, Mapping) else config
        kind = text.get("model_type")
        defaults = _DEFAULTS.get(kind, {}) if isinstance(kind, str) else {}
        self.text: Mapping[str, Any] = {**defaults, **text}
        self._names, self._specs = names, specs

    @cached_property
    def kinds(self) -> Mapping[StoredKind, int]:
        """How many tensors there are of each kind."""
        return Counter(
            StoredKind(*_placed(name), spec.shape, spec.type.name, spec.nbytes)
            for name, spec in zip(self._names, self._specs, strict=True)
        )

    def loaded(self, *, drafting: bool = False) -> Iterator[tuple[StoredKind, int]]:
        """Yield the kinds of tensors that programs load, and how many there are of each.

        They leave out frequencies of rotary positions, an output that is the embedding, and, but
        for those that draft tokens with them, the layers beyond the model's own.
        """
        for kind, times in self.kinds.items():
            is_output = kind.role.startswith(_OUTPUT)
            if kind.role.endswith("inv_freq") or (is_output and self.ties_output):
                continue
            if drafting or not self.drafts(kind):
                yield kind, times

    def drafts(self, kind: StoredKind) -> bool:
        """Return whether a tensor is of a layer that only drafts tokens (MTP)."""
        beyond = kind.layer is not None and kind.layer >= self.layers
        return beyond or kind.role.startswith("mtp.")

    def layer_bytes(
        self, size_of: Callable[[StoredKind], int] | None = None, *, drafting: bool = False
    ) -> list[int]:
        """Return the bytes of each layer, and last of all that is in none; see `loaded`.

        `size_of` gives the bytes of a tensor; None leaves them as they are stored.
        """
        held = [0] * (self.layers + 1)
        for kind, times in self.loaded(drafting=drafting):
            inside = kind.layer is not None and kind.layer < self.layers
            nbytes = kind.nbytes if size_of is None else size_of(kind)
            held[kind.layer if inside and kind.layer is not None else -1] += nbytes * times
        return held

    def read_bytes(self, size_of: Callable[[StoredKind], int] | None = None) -> list[int]:
        """Return the bytes that a token reads of each layer, and last of the output.

        Of experts it reads those that are used; where the config does not say how many, none count.
        `size_of` gives the bytes of a tensor; None leaves them as they are stored.
        """
        every = self.number("num_experts", "num_local_experts", "n_routed_experts", default=0)
        used = min(self.number("num_experts_per_tok", "experts_per_token", default=0), every)
        stored = {kind.role.partition(".")[0] for kind, _ in self.loaded() if kind.layer is None}
        outputs = stored & {_OUTPUT} or stored & _EMBEDDINGS

        def size(kind: StoredKind) -> int:
            first, *rest = kind.role.split(".")
            nbytes = kind.nbytes if size_of is None else size_of(kind)
            if kind.layer is None:
                return nbytes if first in outputs else 0
            if _EXPERTS in rest or (len(kind.shape) > 2 and kind.shape[0] == every > 0):
                return nbytes * used // max(every, 1)
            return nbytes

        return self.layer_bytes(size)

    @property
    def ties_output(self) -> bool:
        """Whether the output is the embedding."""
        ties = self.text.get("tie_word_embeddings", self.config.get("tie_word_embeddings"))
        return ties is True

    @property
    def model_type(self) -> str:
        """The architecture of the language model, as config.json calls it; "" if it does not."""
        kind = self.text.get("model_type") or self.config.get("model_type")
        return kind if isinstance(kind, str) else ""

    def built_by(self, program: str, rows: Mapping[str, Row]) -> Row:
        """Return the row of its architecture; `PlanError` where the program's way is not known."""
        found = rows.get(self.model_type)
        if found is None:
            name = quoted(self.model_type) or "without a name"
            raise PlanError(f"how {program} builds the architecture {name} is not known here")
        return found

    @property
    def is_confirmed(self) -> bool:
        """Whether plans of its architecture were compared with those of the programs."""
        return self.model_type in _CONFIRMED

    def doubts(self) -> Iterator[str]:
        """Yield a note where a plan follows what is known of a program alone."""
        if not self.is_confirmed:
            name = quoted(self.model_type)
            yield f"an estimate: no plan of {name} was compared with what the program itself takes"

    @property
    def is_mlx(self) -> bool:
        """Whether its weights are quantized for MLX."""
        return isinstance(self.config.get("quantization"), Mapping)

    @property
    def has_towers(self) -> bool:
        """Whether the model also has a vision or an audio encoder."""
        return any(
            isinstance(self.config.get(f"{one}_config"), Mapping) for one in ("vision", "audio")
        )

    @cached_property
    def layers(self) -> int:
        """Number of layers."""
        return self.number("num_hidden_layers", "n_layer", "num_layers", most=MAX_BLOCKS, least=1)

    @property
    def trained(self) -> int:
        """Tokens that the config allows; 2^20 where it says nothing."""
        return self.number("max_position_embeddings", default=1 << 20, least=1)

    @cached_property
    def quantization(self) -> Mapping[str, Any]:
        """The quantization_config; empty where there is none."""
        for part in (self.config, self.text):
            found = part.get("quantization_config")
            if isinstance(found, Mapping):
                return found
        return {}

    def number(
        self, *keys: str, default: int | None = None, most: int = MAX_COUNT, least: int = 0
    ) -> int:
        """Return the first of some integers that the config has.

        Raises:
            PlanError: It has none and there is no default, or the value is none or absurd.
        """
        for key in keys:
            value = self.text.get(key)
            if value is not None and value is not False:
                return whole(value, f"config.json {key}", most, least)
        if default is None:
            raise PlanError(f"config.json has no {keys[0]}, so the layers cannot be worked out")
        return default

    def share(self, key: str) -> float:
        """Return a factor, a number from 0 to 2^40, or 1 if there is none; else `PlanError`."""
        parts = (self.rope, self.text)
        return _factor(next((one[key] for one in parts if one.get(key) is not None), 1.0), key)

    @cached_property
    def rope(self) -> Mapping[str, Any]:
        """The settings of rotary positions of full attention; empty where there are none."""
        for key in ("rope_parameters", "rope_scaling"):
            found = self.text.get(key)
            if isinstance(found, Mapping):
                inner = found.get("full_attention")
                return inner if isinstance(inner, Mapping) else found
        return {}

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty where there is none."""
        found = self.text.get(key)
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            return ()
        if len(found) > MAX_BLOCKS:
            raise PlanError(f"config.json {key} has more than {MAX_BLOCKS} entries; it is damaged")
        return tuple(found)

    @property
    def has_heads(self) -> bool:
        """Whether the config states how many attention heads there are."""
        return any(self.text.get(key) for key in _HEADS)

    @cached_property
    def heads(self) -> int:
        """Attention heads."""
        return self.number(*_HEADS, least=1)

    @cached_property
    def kv_heads(self) -> int:
        """Key and value heads."""
        return self.number("num_key_value_heads", "n_head_kv", default=self.heads, least=1)

    @cached_property
    def head(self) -> int:
        """Length of a head's key."""
        width = self.number("hidden_size", "n_embd", default=0)
        return self.number("head_dim", "attention_head_dim", default=width // self.heads)


def _placed(name: str) -> tuple[int | None, str]:
    """Return the layer of a tensor, or None, and its role."""
    parts = name.split(".")
    while len(parts) > 1 and parts[0] in _STACKS:
        del parts[0]
    layer = None
    if len(parts) > 2 and parts[0] == _LAYERS and parts[1].isdecimal() and len(parts[1]) < 6:
        layer = int(parts[1])
        del parts[:2]
    for place, part in enumerate(parts[:-1]):
        if part == _EXPERTS and parts[place + 1].isdecimal():
            parts[place + 1] = _ANY
    return layer, ".".join(parts)


def _factor(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < MAX_COUNT:
        raise PlanError(f"config.json {quoted(key)} is no number from 0 to 2^40; it is damaged")
    return float(value)
