"""Ollama's own engine for safetensors: its check before loading, and what it then comes to need.

docs/planner.md, section 20. Source: Ollama v0.33.0-rc2, `x/mlxrunner` (read, not run). The check is
exact: file sizes against the free memory of the first GPU. Nothing else enters it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner import environment as env
from explorer.planner import settings as known
from explorer.planner.devices import GIB
from explorer.planner.engines.folders import (
    TERM_NAMES,
    TOWERS,
    FolderEngine,
    Formula,
    not_used,
    stated,
)
from explorer.planner.engines.mlx.cache import (
    ARCHITECTURES,
    Architecture,
    LayerCache,
    Moments,
    layer_caches,
    run_caches,
)
from explorer.planner.engines.mlx.engine import Outcome, working_set
from explorer.planner.folder import Folder
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import (
    MEMORY_TITLE,
    Accuracy,
    CurveKind,
    CurveValue,
    Effective,
    Holding,
    Level,
    Range,
    Verdict,
)
from explorer.planner.request import PlanRequest
from explorer.text import AtLeast, bytes_text

_PREFIXES: Final = 8 * GIB  # of other conversations and snapshots, at most
_KNOWN: Final = ("llama", "qwen3", "gemma3_text", "nemotron_h", "qwen3_5_text", "qwen3_5_moe_text")

_ARCHITECTURES: Final = MappingProxyType(
    {name: ARCHITECTURES[name] for name in _KNOWN} | {"glm4_moe_lite": Architecture(latent=True)}
)
"""`model_type` → its caches, which follow the laws of mlx-lm's."""

_UNKNOWN_CACHES: Final = frozenset({"gemma4", "gemma4_text", "cohere2_moe", "laguna", "glimmer"})
"""`model_type`s that it runs, and of whose caches only parts are known."""


class OllamaMlx(FolderEngine):
    """Ollama with models whose layers are safetensors."""

    name = "ollama-mlx"
    title = "Ollama 0.33: its MLX engine, for safetensors"
    short_title = "Ollama (MLX)"
    rule = "Ollama's MLX engine compares the files with the free memory of the first GPU"
    settings = (known.CONTEXT, known.OVERHEAD)
    serve = ()
    curves = (CurveKind(MEMORY_TITLE, "kv_bits", (CurveValue(None, "bf16", "BF16"),)),)

    def model_of(self, h: Hyperparameters) -> Folder | None:
        """Return the tensor layers of its store."""
        return h.blobs

    def refusal(self, h: Hyperparameters) -> str:
        """Refuse what has no tensor layers, and architectures that this engine does not run."""
        if h.blobs is None:
            return "Ollama's MLX engine loads models of its store in safetensors"
        return super().refusal(h)

    def check(self, folder: Folder) -> None:
        """Refuse architectures that this engine does not run."""
        if folder.model_type not in _UNKNOWN_CACHES:
            _caches(folder)

    def unknown_of(self, folder: Folder) -> str:
        """Return what is not known of a model that sees, or that caches by laws not known here."""
        parts = [TOWERS] if folder.has_towers else []
        parts += ["its KV cache"] if folder.model_type in _UNKNOWN_CACHES else []
        return " and ".join(parts)

    def outcome(self, request: PlanRequest, folder: Folder) -> _Check:
        """Apply the check, and run the caches through a prompt of the context."""
        if not request.devices:
            raise PlanError("Ollama's MLX engine is planned for a GPU; name one to plan for")
        device = request.devices[0]
        own = request.settings.context or request.h.own_context
        own = own or env.integer(request.environment, env.CONTEXT_LENGTH)
        tokens = own or env.default_context(request.devices)
        context, caches = min(tokens, folder.trained), dict[LayerCache, int]()
        moments = Moments(AtLeast(0), AtLeast(0))
        if folder.model_type not in _UNKNOWN_CACHES:
            caches = _caches(folder)
            moments = run_caches(caches, context)
        return _Check(
            request=request,
            folder=folder,
            prompt=context,
            caches=caches,
            moments=moments,
            quantized=None,
            device=device,
            memory=device.capacity_bytes,
        )


def _caches(folder: Folder) -> dict[LayerCache, int]:
    """Return the caches of all layers, those that only draft tokens among them."""
    architecture = folder.built_by("Ollama's MLX engine", _ARCHITECTURES)
    caches = dict(layer_caches(folder, architecture=architecture))
    drafting = {kind.layer for kind in folder.kinds if folder.drafts(kind)}
    plain = next((one for one in caches if one.heads and not one.window), None)
    if plain is not None:
        caches[plain] += len(drafting)
    return caches


OLLAMA_MLX: Final = OllamaMlx()


@dataclass(frozen=True)
class _Check(Outcome):
    """What Ollama checks before it loads, and what its engine then comes to hold."""

    key = "ollama_mlx"

    @cached_property
    def kept_free(self) -> int:
        """Bytes that Ollama leaves free on the GPU."""
        overhead = self.request.settings.overhead
        if overhead is None:
            overhead = env.integer(self.request.environment, env.GPU_OVERHEAD) or 0
        return self.device.minimum_bytes + overhead

    @property
    def loads(self) -> bool:
        """Whether Ollama loads it: by its files alone, whatever the context."""
        return self.request.h.layer_bytes <= max(0, self.device.free - self.kept_free)

    @property
    def needed(self) -> int:
        """Bytes that it comes to need at least, as the context fills."""
        return self.weights + self.moments.largest + self.peak.low

    @cached_property
    def limits(self) -> Range:
        """What the GPU may have: of a Mac what macOS recommends, else its free memory."""
        if self.device.library == "Metal":
            return working_set(self.memory)
        return Range.exactly(self.device.free)

    @cached_property
    def layer_weights(self) -> list[int]:
        return self.folder.layer_bytes(drafting=True)

    @cached_property
    def holdings(self) -> tuple[Holding, ...]:
        """What the first GPU comes to hold; others are not used."""
        first = Holding(
            device=self.device,
            place="devices[0]",
            free=self.device.free,
            weights=self.weights,
            cache=self.moments.largest,
            compute=self.peak,
            reserve=Range.exactly(self.kept_free),
            layers=tuple(range(self.folder.layers + 1)),
            terms=TERM_NAMES,
        )
        main = Holding(None, "cpu", None, terms=TERM_NAMES)
        return first, *not_used(self.request.devices, 1), main

    @cached_property
    def verdict(self) -> Verdict:
        missing = self.request.h.layer_bytes + self.kept_free - self.device.free
        later = self.loads and self.needed > self.limits.high
        unknown = OLLAMA_MLX.unknown_of(self.folder)
        level = Level.PARTLY if later or unknown else Level.FITS
        depends_on = unknown or "how much of the context is used, since it loads"
        short = {0: max(1, missing)}
        return self.judged(level if self.loads else Level.NOT, short, depends_on)

    @cached_property
    def effective(self) -> dict[str, Effective]:
        return {
            "context": Effective(self.context),
            "parallel": Effective(1),
            "kv_cache_type": Effective("bf16"),
            "overhead": Effective(self.kept_free - self.device.minimum_bytes),
        }

    @property
    def accuracy(self) -> Accuracy:
        """An estimate: no run of this engine was compared, only its check is exact."""
        return Accuracy.ESTIMATE

    @property
    def choice(self) -> None:
        """It chooses nothing: the context is a soft limit."""
        return

    def arguments(self) -> list[str]:
        """Return nothing: Ollama loads it by its name."""
        return []

    def figures(self) -> dict[str, Any]:
        """Return the object `ollama_mlx` of docs/interface.md."""
        return {
            "file_bytes": self.request.h.layer_bytes,
            "available": max(0, self.device.free - self.kept_free),
            "loads": self.loads,
            "weights": self.weights,
            "cache_bytes": self.moments.held if self.caches else None,
            "cache_largest_bytes": self.moments.largest if self.caches else None,
            "prompt_peak": list(self.peak),
            "prefix_cache": [0, _PREFIXES],
            "working_set": list(self.limits),
        }

    def formulas(self, held: Holding) -> dict[str, Formula]:
        """Return how its figures are worked out."""
        reserved = stated(self.kept_free, "what Ollama leaves free on a GPU, with the overhead")
        return super().formulas(held) | {"reserved": reserved}

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know."""
        size, room = self.request.h.layer_bytes, max(0, self.device.free - self.kept_free)
        word = "loads" if self.loads else "refuses"
        yield (
            f"Ollama {word} it by its files alone: {bytes_text(size)} against {bytes_text(room)} "
            "of the first GPU, whatever the context"
        )
        if unknown := OLLAMA_MLX.unknown_of(self.folder):
            yield f"what it takes for {unknown} is not known, and in no total"
        yield "an estimate: no run of this engine was compared. Its check before loading is exact"
        yield (
            "OLLAMA_KV_CACHE_TYPE and OLLAMA_NUM_PARALLEL change nothing here: the cache is BF16, "
            "and requests run one by one"
        )
        yield (
            f"other conversations and snapshots may keep up to {bytes_text(_PREFIXES)} more, on "
            "every machine"
        )

    def warnings(self) -> Iterator[str]:
        """Yield what the check does not see."""
        if self.loads and self.needed > self.limits.high:
            yield (
                f"it loads, but comes to need {bytes_text(self.needed)} as the context fills, and "
                f"the GPU may have {bytes_text(self.limits.high)}"
            )
