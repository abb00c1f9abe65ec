"""The transformers library: weights in their type, and the cache of `generate`.

docs/planner.md, section 19. Source: transformers 5.20.2, `cache_utils.py`. Its caches were run.
What a prompt takes is a range. It runs one sequence on the first GPU, or on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from explorer.parallel import Check
from explorer.planner import settings as known
from explorer.planner.devices import quoted
from explorer.planner.engines.folders import (
    TERM_NAMES,
    FolderDetails,
    accepted,
    graph_record,
    host_terms,
    total_term,
)
from explorer.planner.folder import Folder
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.layers import inner_width, layer_kinds
from explorer.planner.plan import (
    MEMORY_TITLE,
    CurveKind,
    CurveValue,
    Effective,
    Engine,
    Holding,
    Layer,
    Level,
    NamedBuffer,
    Plan,
    Range,
    Refusal,
    Term,
    Verdict,
    sum_term,
    term,
)
from explorer.planner.request import PlanRequest
from explorer.planner.searching import largest_held
from explorer.text import bytes_text, integer_text

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
_INNER, _HIDDEN = 3, 6
_FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})
_MXFP4: Final = "mxfp4"
_PEAK: Final = "what reading the prompt takes"


class Transformers(Engine):
    """`AutoModelForCausalLM` and its `generate`."""

    name = "transformers"
    title = "transformers 5.20: generate"
    short_title = "transformers"
    rule = "transformers keeps the whole prompt at once, and grows its cache token by token"
    settings = (known.CONTEXT, *known.TRANSFORMERS_SETTINGS)
    ignored = MappingProxyType({})
    serve = ("transformers", "serve")
    curves = (
        CurveKind(
            MEMORY_TITLE,
            "dtype",
            (CurveValue("auto", "auto", "BF16"), CurveValue("float32", "float32", "F32")),
        ),
    )
    most_parallel = 1

    def accepts(self, h: Hyperparameters) -> Refusal | None:
        """Refuse what is no folder, and what transformers makes of is not known."""
        folder = h.folder
        if folder is None:
            return Refusal("transformers loads folders of safetensors with their config.json")
        if folder.is_mlx:
            return Refusal("it is quantized for MLX, which transformers does not load")
        if folder.has_towers:
            return Refusal("what transformers takes for a vision or audio encoder is not known")
        method = folder.quantization.get("quant_method")
        if method is not None and method != _MXFP4:
            name = quoted(str(method))
            return Refusal(f"what transformers makes of weights quantized by {name} is not known")
        if folder.model_type not in ARCHITECTURES:
            name = quoted(folder.model_type) or "without a name"
            return Refusal(f"what transformers caches of the architecture {name} is not known here")
        return None

    def plan(self, request: PlanRequest) -> Plan:
        """Add up the weights in their type, the cache, and the range of a prompt."""
        outcome = _Outcome(request, accepted(self, request.h, request.h.folder))
        return outcome.plan(self, outcome.cache, outcome.context)

    def context_as_placed(self, plan: Plan, check: Check) -> int | None:
        """Return the largest context that fits at the high end."""
        request, folder = plan.request, plan.request.h.folder
        if folder is None:
            return None
        most = folder.number("max_position_embeddings", default=1 << 20, least=1)

        def room(context: int) -> int | None:
            check()
            return _Outcome(request.asking(context=context), folder).holdings[0].room

        return largest_held(room, most) or None


TRANSFORMERS: Final = Transformers()


def cache_bytes(
    folder: Folder, tokens: int, element: int, *, static: bool = False, windows: bool = True
) -> int:
    """Return the bytes of the cache after so many tokens, or of a static one of that length.

    Without `windows`, the cache is one that was made without the model's config.
    """
    total = 0
    heads, lengths = folder.kv_heads, 2 * folder.head
    if nope := folder.number("qk_nope_head_dim", default=0):  # the latent is never cached
        heads = folder.heads
        lengths = nope + folder.number("qk_rope_head_dim") + folder.number("v_head_dim")
    window = _window(folder) if windows else 0
    for kind in _kinds(folder, window):
        local = kind == "local" and window
        held = min(tokens, window if static else window - 1) if local else tokens
        total += held * heads * lengths * element + (_COUNTER if local or static else 0)
    return total


def _window(folder: Folder) -> int:
    if folder.text.get("use_sliding_window") is False:
        return 0
    return folder.number("sliding_window", default=0)


def _kinds(folder: Folder, window: int) -> list[str]:
    """Return which layers have a window: those that the config lists, else all or none."""
    kinds = layer_kinds(folder)
    if len(set(kinds)) == 1:
        return ["local" if window else "full"] * len(kinds)
    return kinds


@dataclass(frozen=True)
class _Outcome(FolderDetails):
    """What transformers holds after a prompt of the context."""

    @cached_property
    def context(self) -> int:
        most = self.folder.number("max_position_embeddings", default=_DEFAULT, least=1)
        return self.request.settings.context or min(_DEFAULT, most)

    @property
    def dtype(self) -> str:
        """The type that is asked for; the config's where that is open."""
        asked = self.request.settings.dtype or _AUTO
        own = self.folder.text.get("dtype", self.folder.text.get("torch_dtype"))
        if asked != _AUTO:
            return asked
        return own if isinstance(own, str) and own in DTYPES else "float32"

    @cached_property
    def layer_weights(self) -> list[int]:
        """Bytes of the weights of each layer, and last of all others."""
        count, element = self.folder.layers, DTYPES[self.dtype]
        tied = self.folder.text.get("tie_word_embeddings")
        held = [0] * (count + 1)
        for kind, times in self.folder.kinds.items():
            if kind.role.startswith("mtp.") or (tied and kind.role.startswith("lm_head")):
                continue
            if kind.layer is not None and kind.layer >= count:
                continue
            size = kind.nbytes
            if kind.type in _FLOATS and self.request.settings.dtype not in (None, _AUTO):
                size = element
                for length in kind.shape:
                    size *= length
            held[count if kind.layer is None else kind.layer] += size * times
        return held

    @cached_property
    def cache(self) -> int:
        """Bytes of the cache."""
        static = self.request.settings.static_cache is True
        return cache_bytes(self.folder, self.context, DTYPES[self.dtype], static=static)

    @cached_property
    def peak(self) -> Range:
        """What reading the whole prompt at once takes beside weights and cache."""
        folder, element = self.folder, DTYPES[self.dtype]
        wide, inner = folder.number("hidden_size", default=0), inner_width(folder)
        low = self.context * element * (_INNER * inner + _HIDDEN * wide)
        high = 2 * low + 2 * self.cache // folder.layers
        return Range(low, high + 4 * folder.number("vocab_size", default=0))

    @cached_property
    def holdings(self) -> tuple[Holding, ...]:
        """What the first GPU holds, or main memory where there is none."""
        weights, layers = sum(self.layer_weights), tuple(range(self.folder.layers + 1))
        devices, host = self.request.devices, self.request.host
        free = None if host is None else host.free
        found = [
            *(
                Holding(one, f"devices[{i}]", one.free, is_used=not i, terms=TERM_NAMES)
                for i, one in enumerate(devices)
            ),
            Holding(None, "cpu", free, terms=TERM_NAMES),
        ]
        found[0] = replace(
            found[0], weights=weights, cache=self.cache, compute=self.peak, layers=layers
        )
        return tuple(found)

    @property
    def _used(self) -> Holding:
        return self.holdings[0]

    @cached_property
    def verdict(self) -> Verdict:
        used, total, on_gpu = self._used, self.folder.layers + 1, bool(self.request.devices)
        spread = self.peak.high - self.peak.low
        is_open = 0 < used.short <= spread
        level = Level.FITS if not used.short else Level.PARTLY if is_open else Level.NOT
        return Verdict(
            level=level,
            gpu_layers=total if on_gpu else 0,
            total_layers=total,
            on_cpu=not on_gpu,
            all_on_gpus=on_gpu,
            short={0: used.short} if level is Level.NOT else {},
            free=max(0, used.room or 0) if on_gpu else 0,
            is_exact=False,
            depends_on=_PEAK if is_open else "",
        )

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

    # Details

    def layers(self) -> Iterator[Layer]:
        """Yield every layer with its weights, the output last, with all that is in no layer."""
        device, caches = 0 if self.request.devices else None, self.layer_caches()
        for i, size in enumerate(self.layer_weights[:-1]):
            yield Layer(i, f"blk.{i}", size, caches[i], device)
        yield Layer(self.folder.layers, "output", self.layer_weights[-1], 0, device)

    def layer_caches(self) -> Sequence[int]:
        """Return an equal part of the cache for each layer."""
        return self.equal_shares(self.cache)

    def buffers(self) -> list[NamedBuffer]:
        """Return what the GPU or the CPU holds."""
        used = self._used
        name = "GPU0" if self.request.devices else "CPU"
        return [NamedBuffer(name, used.weights, used.cache, used.compute, None)]

    def arguments(self) -> list[str]:
        """Return the argument of `transformers serve` that loads it alike."""
        return ["--dtype", self.dtype]

    def record(self) -> dict[str, Any]:
        """Return the object `transformers` of docs/interface.md."""
        found = {
            "dtype": self.dtype,
            "weights": sum(self.layer_weights),
            "cache_bytes": self.cache,
            "prompt_peak": list(self.peak),
        }
        return {"graph": graph_record(self.peak.high), "transformers": found}

    def terms(self) -> Iterator[Term]:
        """Yield the figures with their formulas."""
        used = self._used
        tokens = integer_text(self.context)
        yield sum_term(f"{used.place}.weights", self.layer_weights, f"tensors as {self.dtype}")
        parts = {
            "kv_cache": (used.cache, f"keys and values of {tokens} tokens in all layers"),
            "graph": (used.compute.high, "upper end of what reading the prompt takes"),
            "reserved": (0, "nothing is held back"),
        }
        for name, given in parts.items():
            yield term(f"{used.place}.{name}", given[0], "size", size=given)
        if used.device is not None:
            yield from host_terms()
        yield total_term(used)
        on_gpu = used.total if used.device is not None else 0
        yield sum_term("vram_total", [on_gpu], "devices[0].total")
        yield sum_term("total", [used.total], f"{used.place}.total")

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know."""
        yield from self.folder.doubts()
        if self.request.settings.static_cache:
            yield "generate makes a static cache with cache_implementation='static', the server not"
        heads, tokens = self.folder.heads, self.context
        yield (
            "eager attention, where it is asked for, takes "
            f"{bytes_text(4 * heads * tokens * tokens)} more while the prompt is read"
        )
        if len(self.request.devices) > 1:
            yield "planned for the first GPU: how device_map shares layers is not known here"

    def warnings(self) -> Iterator[str]:
        """Yield what makes the figures doubtful."""
        yield from self.beyond_training(self.context)
        if self.folder.quantization.get("quant_method") == _MXFP4:
            yield (
                "without the kernels for MXFP4, transformers makes bfloat16 of the experts, four "
                "times as large"
            )
