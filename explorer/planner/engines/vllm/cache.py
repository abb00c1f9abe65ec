"""vLLM's KV cache: pages, blocks, groups of layers, and what a request needs of them.

docs/planner.md, section 17. Sources: vLLM 0.33.0, `v1/core/kv_cache_planning.py`,
`v1/kv_cache_interface.py`, `platforms/interface.py`. All bytes are those of one GPU.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import lcm
from types import MappingProxyType
from typing import Final, NamedTuple

from explorer.errors import PlanError
from explorer.planner.devices import quoted
from explorer.planner.engines.vllm.architectures import ARCHITECTURES, Architecture
from explorer.planner.folder import Folder
from explorer.planner.layers import State, delta_key, kv_sizes, state_elements, windowed_kinds

_BLOCK: Final = 16
_LATENT_FP8_BLOCK: Final = 64  # FlashMLA on Hopper
_DELTA_STEP: Final = 64  # FlashInfer's kernel for gated delta nets
_DELTA_KEY: Final = 128  # length of its keys
_BLOCKS_ON: Final = {State.MAMBA2: 3, State.GATED_DELTA: 2, State.SHORT_CONV: 2}
_PADDED_GROUPS: Final = 1.5  # kinds whose counts differ by less make groups of the larger count
_WIDE: Final = 2  # bytes of a value of BF16 or F16
_SCALE: Final = 4  # bytes of a scale for each token and head
_EDGE: Final = 2  # layers at each end that TurboQuant leaves alone
_FP8_BITS: Final = 8


class CacheType(NamedTuple):
    """How vLLM stores keys and values of attention.

    Attributes:
        value_bytes: Bytes of a value.
        scale_bytes: Bytes of the scale of each token and head, of keys and of values.
        packed_bits: Bits of a value where several are packed; 0 where each has its own bytes.
        block: Least tokens of a block.
    """

    value_bytes: int
    scale_bytes: int = 0
    packed_bits: int = 0
    block: int = _BLOCK


_FP8: Final = CacheType(1)
_INT8: Final = CacheType(1, _SCALE)

CACHE_TYPES: Final[Mapping[str, CacheType]] = MappingProxyType(
    {
        "auto": CacheType(_WIDE),
        "bfloat16": CacheType(_WIDE),
        "float16": CacheType(_WIDE),
        "fp8": _FP8,
        "fp8_e4m3": _FP8,
        "fp8_e5m2": _FP8,
        "int8_per_token_head": _INT8,
        "fp8_per_token_head": _INT8,
        "turboquant_4bit_nc": CacheType(0, 3, 4, 32),
    }
)
"""Types of the cache by the names that `vllm serve --kv-cache-dtype` takes."""

_WITHOUT_BACKEND: Final = frozenset({"nvfp4"})


class Kind(Enum):
    """How the blocks that a layer needs grow with a request."""

    FULL = auto()
    SLIDING = auto()
    CHUNKED = auto()
    STATE = auto()


class LayerCache(NamedTuple):
    """The cache of one layer; layers with equal ones share groups.

    Attributes:
        kind: How it grows.
        token_bytes: Bytes of a token; 0 of a state.
        state_bytes: Bytes of a state; 0 of attention.
        window: Tokens of the window or chunk; 0 where there is none.
        blocks: Blocks of a state that a request holds.
    """

    kind: Kind
    token_bytes: int = 0
    state_bytes: int = 0
    window: int = 0
    blocks: int = 0


class Run(NamedTuple):
    """What of a start of vLLM changes its cache.

    Attributes:
        tensor_parallel: GPUs that share each layer.
        pipeline_parallel: Stages of layers.
        cache_type: A name of `CACHE_TYPES`.
        compute: Compute capability of the GPUs.
        batched_tokens: Most tokens of a step.
        block_size: Tokens of a block; None leaves it to vLLM.
        prefix_caching: Whether prompts that begin alike share blocks.
        async_scheduling: Whether the next step is prepared while one runs.
        hybrid: Whether windows are kept apart from full attention.
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    cache_type: str = "auto"
    compute: tuple[int, int] = (8, 9)
    batched_tokens: int = 2048
    block_size: int | None = None
    prefix_caching: bool = True
    async_scheduling: bool = True
    hybrid: bool = True

    @property
    def tokens_in_flight(self) -> int:
        """Tokens that may be computed before the blocks behind a window are given back."""
        batches = self.pipeline_parallel
        if self.async_scheduling:
            batches += 1
        return batches * self.batched_tokens


def architecture_of(folder: Folder) -> Architecture:
    """Return how vLLM builds a model; raise `PlanError` where that is not known."""
    return folder.built_by("vLLM", ARCHITECTURES)


def stages(layers: int, count: int) -> list[range]:
    """Return the layers of each pipeline stage: even, a rest to the stages before the last."""
    if count > layers:
        raise PlanError(f"{layers} layers cannot make {count} pipeline stages")
    sizes = [layers // count] * count
    for place in range(layers % count):
        sizes[-2 - place] += 1
    starts = [sum(sizes[:place]) for place in range(count)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def cache_type_of(folder: Folder, asked: str) -> str:
    """Return the type of the cache: what is asked, or FP8 where the model's config says so.

    Raises:
        PlanError: vLLM has no such type, or no attention backend for it.
    """
    if asked in _WITHOUT_BACKEND:
        raise PlanError(f"vLLM has no attention backend for a KV cache of {asked}")
    if asked not in CACHE_TYPES:
        names = ", ".join(CACHE_TYPES)
        raise PlanError(f"a KV cache of {quoted(asked)!r} is not known of vLLM; use one of {names}")
    scheme = folder.quantization.get("kv_cache_scheme")
    eight = isinstance(scheme, Mapping) and scheme.get("num_bits") == _FP8_BITS
    if asked == "auto" and eight:
        return "fp8"
    return asked


def layer_caches(folder: Folder, run: Run) -> list[LayerCache | None]:
    """Return the cache of each layer; None of layers that keep nothing.

    Raises:
        PlanError: The architecture is not known, or the config lacks a size.
    """
    architecture = architecture_of(folder)
    kinds, window = windowed_kinds(folder, architecture.window)
    stored = CACHE_TYPES[run.cache_type]
    state = None
    if "state" in kinds:
        state = _state(folder, architecture, run)
    found: list[LayerCache | None] = []
    for number, kind in enumerate(kinds):
        edge = number < _EDGE or number >= folder.layers - _EDGE
        plain = stored.packed_bits > 0 and edge
        token = token_bytes(folder, architecture, CACHE_TYPES["auto"] if plain else stored, run)
        if kind == "state":
            found.append(state)
        elif kind == "local" and window:
            local = Kind.CHUNKED if architecture.chunked else Kind.SLIDING
            found.append(LayerCache(local, token, window=window))
        else:
            found.append(LayerCache(Kind.FULL, token) if kind else None)
    return found


def token_bytes(folder: Folder, architecture: Architecture, stored: CacheType, run: Run) -> int:
    """Return the bytes of a token in one layer with attention."""
    if architecture.latent:
        if stored.scale_bytes:
            raise PlanError(f"what vLLM stores as {run.cache_type} of a latent is not known here")
        return sum(kv_sizes(folder, latent=True)[1]) * stored.value_bytes
    heads = max(1, folder.kv_heads // run.tensor_parallel)
    head = folder.head * stored.packed_bits // 8 if stored.packed_bits else folder.head
    size = head if stored.packed_bits else head * stored.value_bytes
    return heads * 2 * (size + stored.scale_bytes)


def _state(folder: Folder, architecture: Architecture, run: Run) -> LayerCache:
    """Return the state of a layer without attention; its bytes follow from its shapes."""
    kind = architecture.state
    if kind is None:
        raise PlanError(f"config.json names layers that {folder.model_type} does not have")
    wide = _WIDE
    for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"):
        if folder.text.get(key) == "float32":
            wide = 2 * _WIDE
    convolved, held = state_elements(folder, kind, run.tensor_parallel)
    nbytes = convolved * _WIDE + held * wide
    blocks = 1
    if run.prefix_caching:
        blocks = 3 if uses_flash_delta(folder, architecture, run) else _BLOCKS_ON[kind]
    return LayerCache(Kind.STATE, state_bytes=nbytes, blocks=blocks)


def uses_flash_delta(folder: Folder, architecture: Architecture, run: Run) -> bool:
    """Return whether a gated delta net runs with FlashInfer's kernel: from Hopper on."""
    delta = architecture.state is State.GATED_DELTA
    return delta and run.compute >= (9, 0) and delta_key(folder) == _DELTA_KEY


class Group(NamedTuple):
    """Layers that share a block table.

    Attributes:
        cache: Of each of its layers; of layers whose pages differ, of the first.
        layers: Their numbers.
        block: Tokens of a block.
        pages: Bytes of a block in each of the layers.
    """

    cache: LayerCache
    layers: Sequence[int]
    block: int
    pages: Sequence[int]

    def blocks(self, tokens: int, in_flight: int) -> int:
        """Return the blocks that a request of so many tokens needs."""
        cache = self.cache
        match cache.kind:
            case Kind.FULL:
                return -(-tokens // self.block)
            case Kind.SLIDING:
                return -(-min(cache.window - 1 + in_flight, tokens) // self.block) + 1
            case Kind.CHUNKED:
                return -(-min(cache.window + in_flight, tokens) // self.block)
            case Kind.STATE:
                return cache.blocks


@dataclass(frozen=True)
class CachePlan:
    """How vLLM divides the cache of a model.

    Attributes:
        groups: All groups.
        block: Tokens of a block of attention.
        bytes_per_block: Bytes of one block of all its layers, for each pipeline stage.
        in_flight: Tokens in flight.
    """

    groups: Sequence[Group]
    block: int
    bytes_per_block: tuple[int, ...]
    in_flight: int

    def blocks_needed(self, tokens: int) -> int:
        """Return the blocks of a request of so many tokens."""
        return sum(group.blocks(tokens, self.in_flight) for group in self.groups)

    def needed(self, tokens: int) -> tuple[int, ...]:
        """Return the bytes of such a request on each stage."""
        count = self.blocks_needed(tokens)
        return tuple(count * size for size in self.bytes_per_block)

    def least(self, tokens: int) -> tuple[int, ...]:
        """Return the least bytes of each stage with which vLLM starts; it holds one block back."""
        count = self.blocks_needed(tokens) + 1
        return tuple(count * size for size in self.bytes_per_block)

    def blocks(self, available: Sequence[int]) -> int:
        """Return the blocks that so many bytes of each stage make; 0 where none are left."""
        sizes = zip(available, self.bytes_per_block, strict=True)
        return max(0, min(nbytes // size for nbytes, size in sizes))

    def starts(self, tokens: int, available: Sequence[int]) -> bool:
        """Return whether vLLM starts with a context, and so many bytes for the cache."""
        return self.blocks_needed(tokens) < self.blocks(available)

    def concurrency(self, tokens: int, available: Sequence[int]) -> float:
        """Return how many requests of so many tokens fit at once."""
        return self.blocks(available) / self.blocks_needed(tokens)

    def tokens(self, tokens: int, available: Sequence[int]) -> int:
        """Return what vLLM logs as "GPU KV cache size" where contexts have so many tokens."""
        return int(self.concurrency(tokens, available) * tokens)

    def largest_context(self, most: int, available: Sequence[int]) -> int:
        """Return the largest context that starts, at most `most`; 0 where none does."""
        sizes = range(1, most + 1)
        return bisect_left(sizes, True, key=lambda size: not self.starts(size, available))


def plan_cache(folder: Folder, run: Run) -> CachePlan:
    """Return the groups of a model's layers and their blocks.

    Raises:
        PlanError: The architecture is not known, or vLLM refuses to put its layers together.
    """
    run = run._replace(cache_type=cache_type_of(folder, run.cache_type))
    caches = layer_caches(folder, run)
    if not run.hybrid:
        caches = list(_promoted(caches))
    block = _block_size(folder, run, caches)
    groups = list(_groups(caches, block))
    parts = stages(folder.layers, run.pipeline_parallel)
    return CachePlan(groups, block, _stage_bytes(groups, parts), run.tokens_in_flight)


def _stage_bytes(groups: Sequence[Group], parts: Sequence[range]) -> tuple[int, ...]:
    found = []
    for part in parts:
        sizes = (
            sum(page for layer, page in zip(one.layers, one.pages, strict=True) if layer in part)
            for one in groups
        )
        found.append(max(sizes, default=0))
    if not all(found):
        raise PlanError("a pipeline stage has no layer with a cache; what vLLM does is not known")
    return tuple(found)


def _promoted(caches: Sequence[LayerCache | None]) -> Iterator[LayerCache | None]:
    """Yield caches as they are without the hybrid manager: windows as full attention."""
    for one in caches:
        if one is not None and one.kind is Kind.STATE:
            raise PlanError("vLLM failed to promote local KV cache specs to one unified type")
        yield None if one is None else LayerCache(Kind.FULL, one.token_bytes)


def _block_size(folder: Folder, run: Run, caches: Sequence[LayerCache | None]) -> int:
    """Return the tokens of a block of attention; it holds at least a state."""
    architecture = architecture_of(folder)
    least = CACHE_TYPES[run.cache_type].block
    if architecture.latent and run.compute[0] == 9 and CACHE_TYPES[run.cache_type] is _FP8:
        least = _LATENT_FP8_BLOCK
    base = run.block_size or least
    known = [one for one in caches if one is not None]
    state = max((one.state_bytes for one in known), default=0)
    token = max((one.token_bytes for one in known), default=0)
    if not known or not token:
        raise PlanError("the model has no layer with attention; what vLLM does is not known here")
    if not state:
        return base
    step = lcm(base, _BLOCK)
    if run.prefix_caching and uses_flash_delta(folder, architecture, run):
        step = lcm(step, _DELTA_STEP)
    return step * -(-state // (step * token))


def _groups(caches: Sequence[LayerCache | None], block: int) -> Iterator[Group]:
    """Yield the groups of layers, by the rules of docs/planner.md, section 17."""
    layers: dict[LayerCache, list[int]] = {}
    for number, one in enumerate(caches):
        if one is not None:
            layers.setdefault(one, []).append(number)
    first = next(iter(layers))
    if len({(one.kind, one.window) for one in layers}) == 1:  # one kind, whatever its pages
        numbers = [number for number, one in enumerate(caches) if one is not None]
        pages = [one.token_bytes * block for one in caches if one is not None]
        yield Group(first, numbers, block, pages)
        return
    page = max(one.token_bytes for one in layers) * block
    counts = [len(numbers) for numbers in layers.values()]
    size = min(counts)
    if max(counts) < _PADDED_GROUPS * size:
        size = max(counts)
    for one, numbers in layers.items():
        raised = block
        if one.token_bytes and page % (one.token_bytes * block) == 0:
            raised = page // one.token_bytes
        parts = -(-len(numbers) // size)
        for place in range(parts):
            chosen = numbers[place::parts]
            yield Group(one, chosen, raised, [page] * len(chosen))
