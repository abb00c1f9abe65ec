"""The transformers library: weights in their type, and the cache of `generate`.

docs/planner.md, section 19. Source: transformers 5.20.2, `cache_utils.py`. Its caches were run.
What a prompt takes is a range. It runs one sequence on the first GPU, or on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner import settings as known
from explorer.planner.devices import quoted
from explorer.planner.engines.folders import (
    CUDA_CONTEXT,
    TERM_NAMES,
    TOWERS,
    FolderDetails,
    FolderEngine,
    Formula,
    not_used,
    stated,
)
from explorer.planner.folder import Folder, StoredKind
from explorer.planner.layers import inner_width, kv_sizes, layer_kinds, windowed_kinds
from explorer.planner.plans import (
    MEMORY_TITLE,
    CurveKind,
    CurveValue,
    Effective,
    Holding,
    Level,
    Range,
    Verdict,
)
from explorer.planner.request import PlanRequest
from explorer.text import AtLeast, bytes_text, integer_text

ARCHITECTURES: Final = frozenset((
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3", "granite",
    "granitemoe", "glm", "glm4", "glm4_moe", "olmo2", "olmo3", "smollm3", "starcoder2", "cohere2",
    "gemma", "gemma2", "gemma3_text", "gpt_oss", "deepseek_v2", "deepseek_v3",
))  # fmt: skip
"""The `model_type`s whose caches are keys and values of each layer."""

DTYPES: Final = MappingProxyType({"float32": 4, "bfloat16": 2, "float16": 2})
"""Types of weights and cache, and bytes of a value."""

_AUTO: Final = "auto"
_DEFAULT: Final = 4096  # tokens where nothing is asked for
_COUNTER: Final = 8  # bytes of the counter that some layers have
_INNER, _HIDDEN = 3, 4  # of dense models, within 0.5 % on an H200
_ROUTED: Final = 4  # copies of a token's state for each of its experts
_FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})
_MXFP4, _BITSANDBYTES = "mxfp4", "bitsandbytes"
_SCALES: Final = ("absmax", "quant_map", "SCB")  # of bitsandbytes: their type never changes
_STATES: Final = (".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4")
_PEAK: Final = "what reading the prompt takes"
_OTHER_CACHES: Final = (
    *("mamba", "ssm_", "state_size", "linear_", "conv_", "kv_lora", "num_kv_shared", "hybrid"),
    *("attn_layer", "full_attention_interval", "layers_block_type", "rwkv", "global_head"),
)
"""How keys of a config begin that stand for more than keys and values in each layer."""


class Transformers(FolderEngine):
    """`AutoModelForCausalLM` and its `generate`."""

    name = "transformers"
    title = "transformers 5.20: generate"
    short_title = "transformers"
    rule = (
        "transformers is planned on one GPU, keeps the whole prompt at once, and grows its cache "
        "token by token"
    )
    settings = (known.CONTEXT, *known.TRANSFORMERS_SETTINGS)
    serve = ("transformers", "serve")
    curves = (
        CurveKind(
            MEMORY_TITLE,
            "dtype",
            (
                CurveValue("float32", "float32", "F32", is_what_if=True),
                CurveValue("auto", "auto", "BF16"),
            ),
        ),
    )

    def check(self, folder: Folder) -> None:
        """Refuse what is quantized in a way of which it is not known what transformers makes."""
        if folder.is_mlx:
            raise PlanError("it is quantized for MLX, which transformers does not load")
        method = folder.quantization.get("quant_method")
        if method not in (None, _MXFP4, _BITSANDBYTES):
            name = quoted(str(method))
            raise PlanError(f"what transformers makes of weights quantized by {name} is not known")

    def unknown_of(self, folder: Folder) -> str:
        """Return what is not known of a model that sees, or whose layers cache in another way."""
        parts = [TOWERS] if folder.has_towers else []
        if folder.model_type not in ARCHITECTURES:
            if "state" in layer_kinds(folder):
                parts.append("the states of its layers without attention")
            elif not _is_usual(folder):
                parts.append("its KV cache")
        return " and ".join(parts)

    def outcome(self, request: PlanRequest, folder: Folder) -> _Outcome:
        """Add up the weights in their type, the cache, and the range of a prompt."""
        return _Outcome(request, folder)


def _is_usual(folder: Folder) -> bool:
    """Return whether a config has the keys of keys and values in each layer, and no others."""
    keys = [key for key, value in folder.text.items() if value not in (None, False, 0)]
    has_head = "head_dim" in keys or "hidden_size" in keys
    usual = has_head and "num_attention_heads" in keys
    return usual and not any(key.startswith(_OTHER_CACHES) for key in keys)


TRANSFORMERS: Final = Transformers()


def cache_bytes(
    folder: Folder, tokens: int, element: int, *, static: bool = False, windows: bool = True
) -> int:
    """Return the bytes of the cache after so many tokens, or of a static one of that length.

    Without `windows`, the cache is one that was made without the model's config.
    """
    if not folder.has_heads:
        return 0
    heads, lengths = kv_sizes(folder)
    (kinds, window), total = windowed_kinds(folder), 0
    for kind in kinds:
        if kind in {"full", "local"}:
            local = kind == "local" and windows and window > 0
            held = min(tokens, window if static else window - 1) if local else tokens
            total += held * heads * sum(lengths) * element + _COUNTER * (local or static)
    return total


@dataclass(frozen=True)
class _Outcome(FolderDetails):
    """What transformers holds after a prompt of the context."""

    key = "transformers"

    @cached_property
    def context(self) -> int:
        return self.request.settings.context or min(_DEFAULT, self.folder.trained)

    @property
    def dtype(self) -> str:
        """The type that is asked for; the config's where that is open."""
        asked = self.request.settings.dtype or _AUTO
        own = self.folder.text.get("dtype", self.folder.text.get("torch_dtype"))
        if asked != _AUTO:
            return asked
        return own if isinstance(own, str) and own in DTYPES else "float32"

    @cached_property
    def unknown(self) -> str:
        return TRANSFORMERS.unknown_of(self.folder)

    @cached_property
    def layer_weights(self) -> list[int]:
        return self.folder.layer_bytes(self._bytes)

    def _bytes(self, kind: StoredKind) -> int:
        """Return the bytes of a tensor, as it is stored or in the type that is asked for."""
        if kind.role.endswith(_STATES):  # read, and thrown away
            return 0
        is_kept = self.request.settings.dtype in (None, _AUTO) or kind.role.endswith(_SCALES)
        if is_kept or kind.type not in _FLOATS:
            return kind.nbytes
        return prod(kind.shape) * DTYPES[self.dtype]

    @cached_property
    def cache(self) -> int:
        static = self.request.settings.static_cache is True
        size = cache_bytes(self.folder, self.context, DTYPES[self.dtype], static=static)
        return size if self.unknown in ("", TOWERS) else AtLeast(size)

    @cached_property
    def peak(self) -> Range:
        """What reading the whole prompt at once takes beside weights and cache.

        Layers with a window keep what the prompt stored until the next token comes, and the usual
        attention has a mask of a byte for each pair of tokens.
        """
        folder, element = self.folder, DTYPES[self.dtype]
        wide, inner = folder.number("hidden_size", default=0), inner_width(folder)
        stored = 0
        if not self.request.settings.static_cache:
            stored = cache_bytes(folder, self.context, element, windows=False) - self.cache
        low = self.context * element * (_INNER * inner + _HIDDEN * wide)
        routed = folder.number("num_experts_per_tok", "experts_per_token", default=0)
        high = max(2 * low, self.context * element * (_HIDDEN + _ROUTED * routed) * wide)
        high += 2 * self.cache // folder.layers
        kinds, window = windowed_kinds(folder)
        if "local" in kinds and 0 < window < self.context:
            high += self.context**2
        high += 4 * folder.number("vocab_size", default=0)
        low, high = low + max(0, stored), high + max(0, stored)
        return Range(low, AtLeast(high) if self.unknown else high)

    @cached_property
    def holdings(self) -> tuple[Holding, ...]:
        """What the first GPU holds, or main memory where there is none."""
        weights, layers = sum(self.layer_weights), tuple(range(self.folder.layers + 1))
        devices, host = self.request.devices, self.request.host
        gpus = [
            Holding(one, "devices[0]", one.free, reserve=CUDA_CONTEXT, terms=TERM_NAMES)
            for one in devices[:1]
        ]
        gpus += not_used(devices, 1)
        main = Holding(None, "cpu", None if host is None else host.free, terms=TERM_NAMES)
        first, *others = *gpus, main
        held = replace(first, weights=weights, cache=self.cache, compute=self.peak, layers=layers)
        return held, *others

    @cached_property
    def verdict(self) -> Verdict:
        used = self.used[0]
        is_open = self.unknown or used.short
        level = Level.NOT if used.missing else Level.PARTLY if is_open else Level.FITS
        return self.judged(level, {0: used.short}, self.unknown or _PEAK)

    @cached_property
    def effective(self) -> dict[str, Effective]:
        asked = self.request.settings
        return {
            "context": Effective(self.context, origin="" if asked.context else "default"),
            "parallel": Effective(1),
            "kv_cache_type": Effective(self.dtype),
            "dtype": Effective(self.dtype, origin="" if asked.dtype else "the model's own"),
            "static_cache": Effective(asked.static_cache is True),
        }

    def weights_read(self) -> list[int]:
        """Return what a token reads of the weights in their type."""
        return self.folder.read_bytes(self._bytes)

    def cache_read(self, depth: int) -> Sequence[int]:
        """Return an equal part for each layer."""
        return self._shared(cache_bytes(self.folder, depth, DTYPES[self.dtype]))

    def arguments(self) -> list[str]:
        """Return the argument of `transformers serve` that loads it alike."""
        return ["--dtype", self.dtype]

    def figures(self) -> dict[str, Any]:
        """Return the object `transformers` of docs/interface.md."""
        return {
            "dtype": self.dtype,
            "weights": sum(self.layer_weights),
            "cache_bytes": None if isinstance(self.cache, AtLeast) else self.cache,
            "prompt_peak": list(self.peak),
            "unknown": self.unknown or None,
        }

    def formulas(self, held: Holding) -> dict[str, Formula]:
        """Return how its figures are worked out."""
        tokens = integer_text(self.context)
        return {
            "weights": stated(held.weights, f"tensors as {self.dtype}, or as they are stored"),
            "kv_cache": stated(held.cache, f"keys and values of {tokens} tokens in all layers"),
            "graph": stated(held.compute.high, "upper end of what reading the prompt takes"),
        }

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know."""
        yield from self.folder.doubts()
        if self.unknown:
            yield f"what transformers takes for {self.unknown} is not known, and in no total"
        elif self.folder.model_type not in ARCHITECTURES:
            yield "the cache follows from the usual keys of config.json: its own code may differ"
        if self.request.settings.static_cache:
            yield "generate makes a static cache with cache_implementation='static', the server not"
        if self.folder.has_heads:
            eager = 4 * self.folder.heads * self.context * self.context
            yield (
                f"eager attention, where it is asked for, takes {bytes_text(eager)} more while "
                "the prompt is read"
            )
        if len(self.request.devices) > 1:
            yield "planned for the first GPU: how device_map shares layers is not known here"

    def warnings(self) -> Iterator[str]:
        """Yield what makes the figures doubtful."""
        yield from self.beyond_training(self.context)
        method = self.folder.quantization.get("quant_method")
        if method == _MXFP4:
            yield (
                "without the kernels for MXFP4, transformers makes bfloat16 of the experts, four "
                "times as large"
            )
        elif method == _BITSANDBYTES:
            yield "it needs the package bitsandbytes. Weights are counted as the files have them"
