"""vLLM 0.33: whether it starts, with which context, and how much cache it makes.

docs/planner.md, section 17. It takes a share of each GPU: what weights and a measured peak leave of
that is cache. So a plan shows the least cache that lets it start, and says what the rest holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from explorer.errors import PlanError
from explorer.parallel import Check
from explorer.planner import settings as known
from explorer.planner.devices import Device
from explorer.planner.engines.folders import (
    TERM_NAMES,
    TOWERS,
    FolderDetails,
    FolderEngine,
    Formula,
    not_used,
    stated,
)
from explorer.planner.engines.vllm import budget
from explorer.planner.engines.vllm.cache import (
    CachePlan,
    Run,
    architecture_of,
    cache_type_of,
    layer_caches,
    plan_cache,
    stages,
)
from explorer.planner.engines.vllm.weights import (
    WeightsPlan,
    format_of,
    least_compute,
    plan_weights,
)
from explorer.planner.folder import Folder
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
from explorer.text import AtLeast, bytes_text, integer_text

_FEW: Final = 4096  # tokens of a plan where no context starts
_PEAK: Final = "the peak that vLLM measures before it starts"

_TYPES: Final = (CurveValue("auto", "auto", "BF16"), CurveValue("fp8", "fp8", "Q8_0"))
_ALONG: Final = {
    **{"context": "context", "utilization": "utilization"},
    "tensor_parallel": "tensor parallelism",
}


def _curves() -> tuple[CurveKind, ...]:
    figures = {"tokens": "Tokens of cache", "requests": "Requests at once"}
    return (
        CurveKind(MEMORY_TITLE, "kv_dtype", _TYPES),
        *(
            CurveKind(f"{title} by {words}", "kv_dtype", _TYPES, figure, along)
            for figure, title in figures.items()
            for along, words in _ALONG.items()
        ),
    )


class Vllm(FolderEngine):
    """`vllm serve`."""

    name = "vllm"
    title = "vLLM 0.33"
    short_title = "vLLM"
    rule = "vLLM takes a share of each GPU and makes cache of what its weights leave"
    settings = (known.CONTEXT, known.PARALLEL, known.CACHE_TYPE_K, *known.VLLM_SETTINGS)
    first = ("parallel",)
    chooses = ("context",)
    serve = ("vllm", "serve")
    curves = _curves()
    library = "CUDA"
    most_parallel = known.MAX_PARALLEL

    def check(self, folder: Folder) -> None:
        """Refuse what vLLM refuses, and architectures and formats of which nothing is known."""
        architecture_of(folder)
        format_of(folder)

    def unknown_of(self, folder: Folder) -> str:
        """Return what vLLM measures of a model that sees or hears."""
        return TOWERS if folder.has_towers else ""

    def outcome(self, request: PlanRequest, folder: Folder) -> _Outcome:
        """Divide weights and cache as vLLM does, and compare both ends of the rest."""
        return _outcome(request, folder)

    def context_as_placed(self, plan: Plan, check: Check) -> int | None:
        """Return the largest context that starts for certain."""
        check()
        made = plan.details
        return made.largest.low or None if isinstance(made, _Outcome) else None


VLLM: Final = Vllm()


def _outcome(request: PlanRequest, folder: Folder) -> _Outcome:
    """Return what vLLM does with a request; raise `PlanError` where it refuses."""
    asked = request.settings
    tp, pp = asked.tensor_parallel or 1, asked.pipeline_parallel or 1
    devices = _devices(request.devices, tp, pp)
    for device in devices:
        budget.check_card(folder, device, least_compute(folder))
    tier = min((budget.tier_of(device) for device in devices), key=lambda one: one.least)
    run = Run(
        tensor_parallel=tp,
        pipeline_parallel=pp,
        cache_type=cache_type_of(folder, asked.cache_type_k or asked.kv_dtype or "auto"),
        compute=min(map(budget.compute_of, devices)),
        batched_tokens=asked.max_batched_tokens or tier.batched_tokens,
        block_size=asked.block_size,
        prefix_caching=asked.prefix_caching is not False,
        async_scheduling=asked.async_scheduling is not False,
        hybrid=asked.hybrid_cache is not False,
    )
    sequences = asked.parallel or tier.sequences
    activation = budget.activation(folder, sequences, run.batched_tokens, tp)
    if folder.has_towers:
        activation = Range(activation.low, AtLeast(activation.high))
    return _Outcome(
        request=request,
        folder=folder,
        run=run,
        devices=devices,
        weights=_weights(folder, run),
        division=_division(folder, run),
        sequences=sequences,
        activation=activation,
        other=budget.other(tp * pp, eager=bool(asked.enforce_eager)),
        utilization=asked.utilization or budget.DEFAULT_UTILIZATION,
    )


_weights = lru_cache(32)(plan_weights)  # the same for every context
_division = lru_cache(32)(plan_cache)


def _devices(devices: Sequence[Device], tp: int, pp: int) -> tuple[Device, ...]:
    """Return the GPUs that vLLM uses."""
    found = [device for device in devices if device.library == "CUDA"]
    if not found:
        raise PlanError("vLLM is planned for NVIDIA GPUs, and there is none; name one to plan for")
    if tp * pp > len(found):
        wanted = f"{tp} × {pp}" if tp > 1 < pp else f"{tp * pp}"
        there = "there is one" if len(found) == 1 else f"there are {len(found)}"
        raise PlanError(f"vLLM needs {wanted} GPUs for this, and {there}")
    return tuple(found[: tp * pp])


@dataclass(frozen=True)
class _Outcome(FolderDetails):
    """What vLLM allocates, and whether that lets it start."""

    key = "vllm"
    run: Run
    devices: tuple[Device, ...]  # stage after stage
    weights: WeightsPlan
    division: CachePlan
    sequences: int
    activation: Range
    other: Range
    utilization: float

    @cached_property
    def available(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Bytes for the cache on a GPU of each stage, at the low and the high end."""
        given = self.request.settings.kv_cache_memory
        if given is not None:
            return (given,) * len(self.stages), (given,) * len(self.stages)
        sizes = [self._requested(stage) - held for stage, held in enumerate(self.weights.stages)]
        least, most = self.compute
        return tuple(size - most for size in sizes), tuple(size - least for size in sizes)

    @cached_property
    def ends(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The same, at the low end nothing where nobody knows what else is taken of it."""
        low, high = self.available
        return (0,) * len(low) if self.folder.has_towers else low, high

    @property
    def compute(self) -> Range:
        """What is neither weights nor cache on each GPU."""
        both = self.activation, self.other
        return Range(sum(one.low for one in both), sum(one.high for one in both))

    @property
    def cache(self) -> int:
        return sum(held.cache for held in self.holdings)

    @cached_property
    def stages(self) -> list[range]:
        return stages(self.folder.layers, self.run.pipeline_parallel)

    def _requested(self, stage: int) -> int:
        return min(
            budget.requested(device, self.utilization)
            for number, device in enumerate(self.devices)
            if self._stage(number) == stage
        )

    def _stage(self, gpu: int) -> int:
        return gpu // self.run.tensor_parallel

    @cached_property
    def largest(self) -> Range:
        """The largest contexts that start, at the low and the high end."""
        most = budget.longest_context(self.folder)
        low, high = (self.division.largest_context(most, size) for size in self.available)
        return Range(low, high)

    @cached_property
    def context(self) -> int:
        """The max_model_len that holds."""
        asked = self.request.settings.context
        if asked:
            return budget.check_context(self.folder, asked)
        few = min(_FEW, budget.longest_context(self.folder))
        return self.largest.low or self.largest.high or few

    @cached_property
    def starts(self) -> tuple[bool, bool]:
        """Whether it starts, at the low and the high end."""
        low, high = (self.division.starts(self.context, size) for size in self.ends)
        return low and self._has_room(self.compute.high), high and self._has_room(self.compute.low)

    def _has_room(self, compute: int) -> bool:
        """Return whether each GPU has free what vLLM takes of it."""
        given = self.request.settings.kv_cache_memory
        wanted = (
            budget.requested(device, self.utilization)
            if given is None
            else self.weights.stages[self._stage(number)] + given + compute
            for number, device in enumerate(self.devices)
        )
        return all(device.free >= size for device, size in zip(self.devices, wanted, strict=True))

    # The shape of all plans

    @cached_property
    def effective(self) -> dict[str, Effective]:
        asked = self.request.settings
        by_card = "vLLM's default on this GPU"
        context = "chosen: the largest that starts" if not asked.context else "setting context"
        return {
            "context": Effective(self.context, origin=context),
            "parallel": Effective(self.sequences, origin="" if asked.parallel else by_card),
            "kv_unified": Effective(True),  # all requests draw from one pool of blocks
            "kv_cache_type": Effective(self.run.cache_type),
            "kv_dtype": Effective(self.run.cache_type),
            "tensor_parallel": Effective(self.run.tensor_parallel),
            "pipeline_parallel": Effective(self.run.pipeline_parallel),
            "utilization": Effective(self.utilization),
            "max_batched_tokens": Effective(
                self.run.batched_tokens, origin="" if asked.max_batched_tokens else by_card
            ),
            "enforce_eager": Effective(bool(asked.enforce_eager)),
            "block_size": Effective(self.division.block),
            "prefix_caching": Effective(self.run.prefix_caching),
        }

    @cached_property
    def holdings(self) -> tuple[Holding, ...]:
        """What each GPU holds where vLLM just starts, and main memory, which holds nothing."""
        least = self.division.least(self.context)
        given = self.request.settings.kv_cache_memory
        found: list[Holding] = []
        for number, device in enumerate(self.devices):
            stage = self._stage(number)
            layers = tuple(self.stages[stage])
            if stage == len(self.stages) - 1:
                layers += (self.folder.layers,)
            compute = self.compute
            cache = least[stage] if given is None else given
            taken = self.weights.stages[stage] + cache + compute.high
            beyond = device.free - budget.requested(device, self.utilization)
            if given is not None:
                beyond = 0
            elif beyond < 0:  # it refuses to start, whatever it would take
                beyond = max(0, budget.requested(device, self.utilization) - taken)
            found.append(
                Holding(
                    device=device,
                    place=f"devices[{number}]",
                    free=device.free,
                    weights=self.weights.stages[stage],
                    cache=cache,
                    compute=compute,
                    reserve=Range.exactly(beyond),
                    layers=layers,
                    terms=TERM_NAMES,
                )
            )
        unused = [one for one in self.request.devices if one not in self.devices]
        host = self.request.host
        main = Holding(None, "cpu", None if host is None else host.free, terms=TERM_NAMES)
        return *found, *not_used([*self.devices, *unused], len(found)), main

    @cached_property
    def verdict(self) -> Verdict:
        low, high = self.starts
        level = Level.FITS if low else Level.PARTLY if high else Level.NOT
        short = {i: held.short for i, held in enumerate(self.used) if held.short}
        return self.judged(level, short, TOWERS if self.folder.has_towers else _PEAK)

    # Details

    @property
    def choice(self) -> Choice:
        """It takes the largest context that starts where none is given."""
        return Choice("vLLM", not self.request.settings.context, placement=False)

    @cached_property
    def layer_weights(self) -> list[int]:
        """Bytes of each layer on all GPUs of its stage, and last of the output."""
        return [
            size * self.run.tensor_parallel for size in (*self.weights.layers, self.weights.last)
        ]

    def device_of(self, layer: int) -> int:
        """Return the first GPU of the layer's stage."""
        stage = next((i for i, part in enumerate(self.stages) if layer in part), -1)
        return (stage % len(self.stages)) * self.run.tensor_parallel

    def layer_caches(self) -> Sequence[int]:
        """Return the bytes of the least cache in each layer, of all GPUs that share it."""
        found = [0] * self.folder.layers
        count = self.division.blocks_needed(self.context) + 1
        for group in self.division.groups:
            for layer, page in zip(group.layers, group.pages, strict=True):
                found[layer] += count * page * self.run.tensor_parallel
        return found

    def weights_read(self) -> Sequence[int]:
        """Return what a token reads of each layer and of the output, as a GPU has it."""
        (*read, output), stored = self.folder.read_bytes(), self.folder.layer_bytes()
        held = zip(self.weights.layers, read, stored, strict=False)
        layers = (size * part // (whole or 1) for size, part, whole in held)
        return [*layers, output // self.run.tensor_parallel]

    def cache_read(self, depth: int) -> Sequence[int]:
        """Return what a token reads of keys and values, or of a state, in each layer."""
        caches = layer_caches(self.folder, self.run)
        return [
            0
            if one is None
            else one.token_bytes * min(depth, one.window or depth) + one.state_bytes
            for one in caches
        ]

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Return the tokens of the cache, and the requests of the context that it holds."""
        low, high = self.ends
        made, context = self.division, self.context
        return {
            "tokens": (made.tokens(context, low), made.tokens(context, high)),
            "requests": (int(made.concurrency(context, low)), int(made.concurrency(context, high))),
        }

    def arguments(self) -> list[str]:
        """Return the arguments of `vllm serve` that start it alike."""
        asked, run = self.request.settings, self.run
        words = [
            *("--max-model-len", str(self.context)),
            *("--max-num-seqs", str(self.sequences)),
            *("--max-num-batched-tokens", str(run.batched_tokens)),
            *("--kv-cache-dtype", run.cache_type),
            *("--tensor-parallel-size", str(run.tensor_parallel)),
            *("--pipeline-parallel-size", str(run.pipeline_parallel)),
        ]
        if asked.kv_cache_memory is not None:
            words += ["--kv-cache-memory-bytes", str(asked.kv_cache_memory)]
        else:
            words += ["--gpu-memory-utilization", f"{self.utilization:g}"]
        if asked.enforce_eager:
            words.append("--enforce-eager")
        if asked.block_size is not None:
            words += ["--block-size", str(asked.block_size)]
        if not run.prefix_caching:
            words.append("--no-enable-prefix-caching")
        if not run.async_scheduling:
            words.append("--no-async-scheduling")
        if not run.hybrid:
            words.append("--disable-hybrid-kv-cache-manager")
        return words

    def figures(self) -> dict[str, Any]:
        """Return the object `vllm` of docs/interface.md."""
        low, high = self.starts
        division, context = self.division, self.context
        copies = self.run.tensor_parallel
        most = budget.longest_context(self.folder)
        figures: dict[str, Any] = {
            "available": [min(size) for size in self.ends],
            "blocks": [division.blocks(size) for size in self.ends],
            "tokens": [division.tokens(context, size) for size in self.ends],
            "concurrency": [division.concurrency(context, size) for size in self.ends],
            "largest_context": [division.largest_context(most, size) for size in self.ends],
        }
        if self.request.settings.kv_cache_memory is not None:
            figures |= {name: both[0] for name, both in figures.items() if name != "available"}
        kv = {
            **figures,
            "block_tokens": division.block,
            "bytes_per_block": [size for size in division.bytes_per_block for _ in range(copies)],
            "least_bytes_for_one": max(division.least(context)),
        }
        return {
            "weights_per_gpu": [size for size in self.weights.stages for _ in range(copies)],
            "activation": list(self.activation),
            "other": list(self.other),
            "kv": kv,
            "starts": "yes" if low else "depends" if high else "no",
            "arguments": self.arguments(),
        }

    def formulas(self, held: Holding) -> dict[str, Formula]:
        """Return how the figures of a GPU are worked out."""
        stage, plan = self._stage(self.holdings.index(held)), self.weights
        layers = sum(plan.layers[i] for i in self.stages[stage])
        rest, beyond = held.weights - layers - plan.tables[stage], held.reserve.high
        weights = {
            "layers": (layers, "tensors of the layers, as this GPU has them"),
            "outside": (rest, "embedding, output and its norm, as this GPU has them"),
            "tables": (plan.tables[stage], "rotary tables, scales and buffers"),
        }
        tokens, blocks = integer_text(self.context), self.division.blocks_needed(self.context)
        size = self.division.bytes_per_block[stage]
        cache = Formula(
            "(blocks + 1) * bytes_per_block",
            {
                "blocks": (blocks, f"blocks of one request of {tokens} tokens"),
                "bytes_per_block": (size, "a block of all layers of the largest group"),
            },
        )
        if self.request.settings.kv_cache_memory is not None:
            cache = stated(held.cache, "setting kv_cache_memory")
        compute = {
            "activation": (self.activation.high, "upper end of the peak that vLLM measures"),
            "other": (self.other.high, "upper end of CUDA's context, NCCL and captured graphs"),
        }
        return {
            "weights": Formula(" + ".join(weights), weights),
            "kv_cache": cache,
            "graph": Formula(" + ".join(compute), compute),
            "reserved": stated(beyond, "free, but not vLLM's"),
        }

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know."""
        yield from self.folder.doubts()
        if self.folder.has_towers:
            yield f"what vLLM takes for {TOWERS} is not known, but its weights"
        if all(device.compute is None for device in self.devices):
            shown = ".".join(map(str, budget.ASSUMED_COMPUTE))
            yield f"the GPU's compute capability is not known: planned as {shown}"
        if any(self.starts):
            most, division = budget.longest_context(self.folder), self.division
            tokens = self._ends_text(
                integer_text(division.tokens(self.context, size)) for size in self.ends
            )
            times = self._ends_text(
                f"{division.concurrency(self.context, size):.1f}" for size in self.ends
            )
            yield (
                f"what is left of the budget becomes cache: {tokens} tokens, room for {times} "
                f"requests of {integer_text(self.context)} tokens. At most {self.sequences} run at "
                "once"
            )
            longest = self._ends_text(
                integer_text(division.largest_context(most, size)) for size in self.ends
            )
            yield f"the largest context that starts is {longest} tokens, by what vLLM measures"

    def _ends_text(self, ends: Iterable[str]) -> str:
        """Return "1 to 2"; of what has no lower end "at most 2"."""
        low, high = ends
        if self.folder.has_towers:
            return f"at most {high}"
        return high if low == high else f"{low} to {high}"

    def warnings(self) -> Iterator[str]:
        """Yield why it would not start, in vLLM's own sense."""
        for device in self.devices:
            wanted = budget.requested(device, self.utilization)
            if device.free < wanted and self.request.settings.kv_cache_memory is None:
                yield (
                    f"it refuses to start: {bytes_text(device.free)} of {device.label} are free, "
                    f"and vLLM takes {self.utilization:g} of all, {bytes_text(wanted)}"
                )
        if not any(min(size) > 0 for size in self.available):
            yield "it does not start: no available memory for the cache blocks"
        elif not self.starts[1] and self._has_room(self.compute.low):
            needed = bytes_text(max(self.division.least(self.context)))
            yield (
                "it does not start: to serve at least one request with the model's max seq len "
                f"({integer_text(self.context)}), {needed} of KV cache are needed"
            )
