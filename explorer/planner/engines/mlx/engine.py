"""mlx-lm: what a model takes of a Mac's memory, and what macOS lets the GPU have of it.

docs/planner.md, section 18. Weights and caches are exact. What a prompt takes while it is read, and
the working set that Metal recommends, are ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner import settings as known
from explorer.planner.devices import GIB, Device
from explorer.planner.engines.folders import (
    TERM_NAMES,
    FolderDetails,
    FolderEngine,
    Formula,
    stated,
)
from explorer.planner.engines.mlx.cache import (
    BITS,
    PIECE,
    LayerCache,
    Moments,
    Quantized,
    architecture_of,
    layer_caches,
    read_caches,
    run_caches,
)
from explorer.planner.folder import Folder
from explorer.planner.layers import inner_width
from explorer.planner.plans import (
    MEMORY_TITLE,
    Choice,
    CurveKind,
    CurveValue,
    Effective,
    Holding,
    Level,
    Plan,
    Range,
    Verdict,
)
from explorer.planner.request import PlanRequest
from explorer.text import bytes_text, integer_text

_FEW: Final = 4096  # tokens of a plan where no context is good
_GOOD: Final = 10  # one part of so many of the working set stays free where all is good
_FUSED: Final = frozenset({64, 80, 128})  # lengths of heads whose attention Metal computes at once
_WIDE: Final = 2
_LOGIT: Final = 6  # bytes of a token of the vocabulary in the last step
_SMALL, _MEDIUM, _LARGE = 8 * GIB, 32 * GIB, 128 * GIB
_MIDDLING: Final = 24 * GIB
_METHODS: Final = frozenset({"mxfp4"})


def working_set(memory: int) -> Range:
    """Return the bytes that Metal recommends on a Mac, by older and newer versions of macOS."""
    older = memory * 2 // 3 if memory <= _MEDIUM else memory * 3 // 4
    newer = older
    if _SMALL < memory <= _MIDDLING:
        newer = memory * 74 // 100
    elif memory >= _LARGE:
        newer = memory * 84 // 100
    return Range(older, newer)


class Mlx(FolderEngine):
    """`mlx_lm.generate` and `mlx_lm.server`."""

    name = "mlx"
    title = "MLX: mlx-lm 0.32 on a Mac"
    short_title = "mlx-lm"
    rule = "mlx-lm lets caches grow as tokens come, within what macOS lets the GPU have"
    settings = (known.CONTEXT, *known.MLX_SETTINGS)
    chooses = ("context",)
    serve = ("mlx_lm.server", "--model")
    library = "Metal"
    curves = (
        CurveKind(
            MEMORY_TITLE,
            "kv_bits",
            (
                CurveValue(None, "bf16", "BF16"),
                CurveValue(8, "8-bit", "Q8_0"),
                CurveValue(4, "4-bit", "Q4_0"),
            ),
        ),
    )

    def check(self, folder: Folder) -> None:
        """Refuse what mlx-lm does not load, and what it makes of is not known."""
        if folder.has_towers:
            raise PlanError(
                "models that see or hear are loaded by mlx-vlm, which is not known here"
            )
        method = folder.quantization.get("quant_method")
        if method is not None and not folder.is_mlx and method not in _METHODS:
            raise PlanError(
                "what mlx-lm makes of weights that are not quantized for MLX is not known"
            )
        architecture_of(folder)

    def outcome(self, request: PlanRequest, folder: Folder) -> Outcome:
        """Run the caches through a prompt, and compare with the Mac's working set."""
        return _at(request, folder, request.settings.context or self.largest(request) or _FEW)

    def command(self, plan: Plan) -> Sequence[str]:
        """Return the words of the server, or of `generate`, which alone has other caches."""
        asked = plan.request.settings
        other = asked.kv_bits is not None or asked.max_kv_size is not None
        return ("mlx_lm.generate", "--model") if other else self.serve


MLX: Final = Mlx()


def _at(request: PlanRequest, folder: Folder, context: int) -> Outcome:
    """Return what happens at a context."""
    asked = request.settings
    quantized = None
    if asked.kv_bits is not None:
        if asked.kv_bits not in BITS:
            raise PlanError(f"mlx-lm has caches of {', '.join(map(str, BITS))} bits")
        group, start = asked.kv_group_size or 64, asked.quantized_kv_start
        start = 5000 if start is None else start
        quantized = Quantized(asked.kv_bits, group, start, architecture_of(folder).unquantized)
    device, memory = _mac(request)
    caches = layer_caches(folder, asked.max_kv_size or 0)
    moments = run_caches(caches, context, quantized=quantized)
    return Outcome(
        request=request,
        folder=folder,
        prompt=context,
        caches=caches,
        moments=moments,
        quantized=quantized,
        device=device,
        memory=memory,
    )


def _mac(request: PlanRequest) -> tuple[Device, int]:
    """Return the GPU of the Mac, and its memory."""
    for device in request.devices:
        if device.library == "Metal":
            return device, device.capacity_bytes
    host = request.host
    if host is None:
        raise PlanError("mlx-lm is planned for Macs; name one, or say how much memory it has")
    memory = host.free  # what --memory says
    return Device("0", "Metal", memory, integrated=True, name="Mac", total=memory), memory


@dataclass(frozen=True)
class Outcome(FolderDetails):
    """What mlx-lm holds with one prompt of the context."""

    key = "mlx"
    prompt: int  # tokens
    caches: Mapping[LayerCache, int]
    moments: Moments
    quantized: Quantized | None
    device: Device
    memory: int

    @property
    def context(self) -> int:
        return self.prompt

    @cached_property
    def layer_weights(self) -> list[int]:
        return self.folder.layer_bytes()

    @cached_property
    def weights(self) -> int:
        """Bytes of the weights as the files have them, without what is dropped on load."""
        return sum(self.layer_weights)

    @property
    def cache(self) -> int:
        return self.moments.held

    @cached_property
    def limits(self) -> Range:
        """The working set that macOS recommends, or the limit that was set."""
        wired = self.request.settings.wired_limit
        return working_set(self.memory) if wired is None else Range.exactly(wired)

    @cached_property
    def peak(self) -> Range:
        """What reading a prompt takes beside weights and caches."""
        folder, step = self.folder, min(PIECE, self.context)
        wide, inner = folder.number("hidden_size", default=0), inner_width(folder)
        low = step * _WIDE * (3 * inner + 4 * wide)
        high = 2 * low
        if folder.head not in _FUSED:
            window = folder.number("sliding_window", default=0)
            seen = min(self.context, window) if all(one.window for one in self.caches) else 0
            high += folder.heads * step * (seen or self.context) * _WIDE
        layers = max(1, sum(self.caches.values()))
        high += 2 * (self.moments.largest // layers)
        last = folder.number("vocab_size", default=0) * _LOGIT
        return Range(low + last, high + last)

    @cached_property
    def holdings(self) -> tuple[Holding, ...]:
        """What the GPU holds at the largest moment, and main memory, which is the same memory."""
        gpu = Holding(
            device=self.device,
            place="devices[0]",
            free=self.limits.low,
            weights=self.weights,
            cache=self.moments.largest,
            compute=self.peak,
            reserve=Range.exactly(self.limits.low // _GOOD),
            layers=tuple(range(self.folder.layers + 1)),
            terms=TERM_NAMES,
        )
        return gpu, Holding(None, "cpu", None, terms=TERM_NAMES)

    @cached_property
    def level(self) -> str:
        """ "good", "tight" or "does not fit"."""
        held = self.weights + self.moments.largest
        if held + self.peak.high <= self.limits.low - self.limits.low // _GOOD:
            return "good"
        return "tight" if held + self.peak.low <= self.limits.high else "does not fit"

    @cached_property
    def verdict(self) -> Verdict:
        levels = {"good": Level.FITS, "tight": Level.PARTLY, "does not fit": Level.NOT}
        short = {0: self.holdings[0].short}
        return self.judged(
            levels[self.level], short, "what macOS lets the GPU have and the prompt takes"
        )

    @cached_property
    def effective(self) -> dict[str, Effective]:
        asked = self.request.settings
        origin = "setting context" if asked.context else "chosen: the largest that is good"
        found = {
            "context": Effective(self.context, origin=origin),
            "parallel": Effective(1),
            "kv_cache_type": Effective("bf16"),
            "wired_limit": Effective(self.limits.low),
        }
        if self.quantized is not None:
            bits = self.quantized.bits
            found |= {"kv_cache_type": Effective(f"{bits}-bit"), "kv_bits": Effective(bits)}
        return found

    # Details

    @property
    def choice(self) -> Choice | None:
        """The context is the largest that is good where none is given."""
        return Choice("the planner", not self.request.settings.context, placement=False)

    def cache_read(self, depth: int) -> Sequence[int]:
        """Return an equal part for each layer."""
        return self._shared(read_caches(self.caches, depth, self.quantized))

    def arguments(self) -> list[str]:
        """Return what loads it alike: one request at a time, and the cache as it is planned."""
        asked, words = self.request.settings, []
        if self.quantized is not None:
            bits, group, start = self.quantized[:3]
            words += ["--kv-bits", str(bits), "--kv-group-size", str(group)]
            words += ["--quantized-kv-start", str(start)]
        if asked.max_kv_size is not None:
            words += ["--max-kv-size", str(asked.max_kv_size)]
        return words or ["--decode-concurrency", "1", "--prompt-concurrency", "1"]

    def figures(self) -> dict[str, Any]:
        """Return the object `mlx` of docs/interface.md."""
        return {
            "weights": self.weights,
            "cache_bytes": self.moments.held,
            "cache_largest_bytes": self.moments.largest,
            "prompt_peak": list(self.peak),
            "working_set": list(self.limits),
            "verdict": self.level,
        }

    def formulas(self, held: Holding) -> dict[str, Formula]:
        """Return how its figures are worked out."""
        tokens = integer_text(self.context)
        weights = "tensors of the files, without drafting layers and a tied output"
        cache = f"most that all caches have while a prompt of {tokens} is read"
        limit = self.limits.low, "lower end of the working set that macOS recommends"
        return {
            "weights": stated(held.weights, weights),
            "kv_cache": stated(held.cache, cache),
            "graph": stated(held.compute.high, "upper end of what a piece of the prompt takes"),
            "reserved": Formula(f"limit // {_GOOD}", {"limit": limit}),
        }

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know."""
        yield from self.folder.doubts()
        if not any(device.library == "Metal" for device in self.request.devices):
            yield f"planned for a Mac with {bytes_text(self.memory)} of memory"
        low, high = self.limits
        if self.request.settings.wired_limit is None:
            ends = " to ".join(dict.fromkeys(map(bytes_text, (low, high))))
            yield (
                f"macOS lets the GPU have {ends} of the memory, by its version. "
                "sudo sysctl iogpu.wired_limit_mb=N changes that"
            )
        yield (
            f"after the prompt the caches hold {bytes_text(self.moments.held)}, while it is read "
            f"at most {bytes_text(self.moments.largest)}"
        )
        if self.quantized is not None:
            yield "only mlx_lm.generate quantizes the cache, mlx_lm.server has no such option"

    def warnings(self) -> Iterator[str]:
        """Yield what mlx-lm warns of, and what it should."""
        yield from self.beyond_training(self.context)
        if self.weights > self.limits.low - self.limits.low // _GOOD:
            yield "mlx-lm warns of slow generation: the weights take over 90 % of the working set"
        if self.level == "does not fit":
            yield "it would page, or fail: mlx-lm itself refuses nothing"
