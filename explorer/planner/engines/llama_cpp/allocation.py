"""What llama.cpp allocates for a model: weights, cache and state by device, to the byte.

Rules of llama.cpp build 11434 (`llama-model.cpp`, `load_tensors`; `llama-context.cpp`;
`llama-kv-cache.cpp`, `llama-kv-cache-iswa.cpp`, `llama-memory-recurrent.cpp`), for GPUs that align
to 128 bytes, as CUDA's do. Compute buffers: `compute`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final, NamedTuple

import numpy as np

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner.devices import quoted, sized, whole
from explorer.planner.engines.llama_cpp.backends import Backend, backend_of
from explorer.planner.engines.llama_cpp.block import Batch, Placement
from explorer.planner.engines.llama_cpp.builds import NEWEST, knows_graph, revision
from explorer.planner.engines.llama_cpp.compute import attends_elsewhere, compute_buffers, kept
from explorer.planner.engines.llama_cpp.graph import HOST_ALIGNMENT, padded, row_padding
from explorer.planner.engines.llama_cpp.header import SCANNED, Header, LayerSum, Weights
from explorer.planner.engines.llama_cpp.kernels import lacks_kernel
from explorer.planner.settings import PART_CACHE_TYPES
from explorer.quantization import TENSOR_TYPES

MAX_SEQUENCES: Final = 256
"""Most sequences of a context (`LLAMA_MAX_SEQ`)."""

_CONTEXT_STEP: Final = 256
_MOST_DRAFTED: Final = 1024
_STORED_AS_ONE: Final = (4, 128)  # positions, in blocks of deepseek4
_EXPERTS: Final = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")


@dataclass(frozen=True, slots=True)
class Settings:
    """Arguments of `llama-server` that decide about memory."""

    context: int = 4096  # 0: the trained one
    parallel: int = 1  # sequences
    batch: int = 2048
    ubatch: int = 512
    gpu_layers: int = 999  # the output counts as one; negative: all
    flash_attention: bool | None = True  # None: where the device of each layer has a kernel for it
    kv_unified: bool = False
    type_k: str = "f16"
    type_v: str = "f16"
    devices: int = 1
    tensor_split: Sequence[float] | None = None  # shares of the devices; None, zeros: equal ones
    cpu_moe_layers: int = 0  # blocks whose experts stay on the CPU, from the first
    offload_kv: bool = True
    swa_full: bool = False
    overrides: Sequence[tuple[str, str]] = ()  # (regular expression, "CPU"), the first that fits
    all_logits: bool = False  # of the whole micro-batch, not of few tokens
    mtp: int = 0  # tokens that the model's own blocks guess ahead
    draft: Header | None = field(default=None, compare=False, repr=False)  # of a draft model
    draft_max: int = 0  # tokens that it drafts
    build: int = NEWEST  # of llama.cpp
    library: str = "CUDA"  # of the devices: whose kernels there are

    def __post_init__(self) -> None:
        whole(self.context, "context")
        whole(self.parallel, "parallel", MAX_SEQUENCES, 1)
        whole(self.batch, "batch", least=1)
        whole(self.ubatch, "ubatch", least=1)
        whole(self.mtp, "tokens that are guessed ahead", _MOST_DRAFTED)
        whole(self.draft_max, "tokens that are drafted", _MOST_DRAFTED)
        for name in (self.type_k, self.type_v):
            if name not in PART_CACHE_TYPES:
                known = ", ".join(PART_CACHE_TYPES)
                raise PlanError(f"{quoted(name)} is not a type of the cache: {known}")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes on one device. Of compute buffers the law's figure, or None where none is known."""

    weights: int = 0
    cache: int = 0
    compute: int | None = None
    compute_low: int | None = None
    compute_high: int | None = None

    @property
    def total(self) -> int:
        """Bytes in all; of a compute buffer that is not known, the upper end."""
        return self.weights + self.cache + (self.compute or self.compute_high or 0)

    def with_other(self, other: Buffer) -> Buffer:
        """Return the sums of both; a compute buffer is not known where one of them is not."""
        unknown = None in (self.compute, other.compute) and bool(
            self.compute_high or other.compute_high
        )
        return Buffer(
            self.weights + other.weights,
            self.cache + other.cache,
            None if unknown else (self.compute or 0) + (other.compute or 0),
            (self.compute_low or 0) + (other.compute_low or 0),
            (self.compute_high or 0) + (other.compute_high or 0),
        )


@dataclass(frozen=True, slots=True)
class Allocation:
    """What llama.cpp allocates."""

    n_ctx: int  # positions of all sequences
    n_ctx_seq: int  # of one sequence
    buffers: dict[str, Buffer]  # "GPU0" …; "host": the GPU's host buffer; "CPU", "CPU_REPACK"
    accuracy: str = "exact"  # of compute buffers; else "band" or "unknown architecture"
    places: tuple[str, ...] = ()  # buffer of each layer, the output last
    # bytes of weights by buffer: of each layer, and last of the input
    layer_weights: tuple[dict[str, int], ...] = ()
    layer_cache: tuple[int, ...] = ()  # bytes of cache and state of each block
    flash_attention: bool = True  # whether it is used
    draft: Allocation | None = None  # the context that drafts tokens; its weights if it has any

    def without_weights(self) -> Allocation:
        """Return the same of a context whose weights are another's."""
        buffers = {name: replace(one, weights=0) for name, one in self.buffers.items()}
        return replace(self, buffers=buffers)

    def drafted(self, name: str) -> Buffer:
        """Return what the context that drafts tokens has in a buffer."""
        return Buffer() if self.draft is None else self.draft.buffers.get(name, Buffer())


def allocate(
    model: Model | Header, settings: Settings, *, with_compute: bool = True, simulated: bool = False
) -> Allocation:
    """Return what llama.cpp allocates for a model.

    Without compute buffers, which are most of the work, it takes half a millisecond. Those that
    llama.cpp itself finds where it only simulates a load are of a full batch alone.

    Raises:
        PlanError: The header is damaged, or llama.cpp refuses these settings.
    """
    header = model if isinstance(model, Header) else Header.from_model(model)
    settings = as_built(settings)
    if settings.mtp and (why := _why_no_mtp(header, settings.build)):
        raise PlanError(why)
    header = _as_loaded(header, settings)
    of_context = partial(_allocate, with_compute=with_compute, simulated=simulated)
    found = of_context(header, settings)
    if settings.mtp:
        asked = _drafting(settings, found.n_ctx)
        own = of_context(header.drafting, asked)
        return replace(found, draft=own.without_weights())
    if settings.draft is not None:
        asked = replace(
            _drafting(settings, found.n_ctx), gpu_layers=-1, cpu_moe_layers=0, overrides=()
        )
        return replace(found, draft=of_context(settings.draft, asked))
    return found


def _as_loaded(header: Header, settings: Settings) -> Header:
    """Return a header with what its build loads and keeps of MTP layers."""
    if header.loaded == header.blocks:
        return header
    rules, of_model = revision(settings.build), header.rules
    drafts = header.guesses_ahead and settings.build >= of_model.drafted_since
    filtered = any(header.recurrent) or (drafts and of_model.filtered_ahead)
    if rules.caches_ahead and not filtered:
        header = header.unfiltered
    if settings.mtp or (drafts and not rules.skips_ahead):
        return header.with_ahead
    return header.with_fused if drafts and not rules.skips_fused else header


def as_built(settings: Settings) -> Settings:
    """Return settings as their build takes them: older ones have one cache, and no windows."""
    rules = revision(settings.build)
    if rules.rows:
        return settings
    return replace(settings, kv_unified=True, swa_full=settings.swa_full or not rules.windows)


def _why_no_mtp(header: Header, build: int) -> str:
    """Return why a build drafts nothing with the model's own MTP layers; "" if it does."""
    name, since = quoted(header.architecture), header.rules.drafted_since
    if header.loaded == header.blocks:
        return "the model has no MTP layers"
    if header.guesses_ahead:
        older = f"build {build} does not run the MTP layers of {name} yet. Build {since} does"
        return older if build < since else ""
    if header.rules.ahead == "not known":
        return f"what llama.cpp takes for the MTP layers of {name} is not known here"
    return f"llama.cpp does not run the MTP layers of {name}"


def _drafting(settings: Settings, n_ctx: int) -> Settings:
    """Return the settings of the context that drafts (`common_base_params_to_speculative`)."""
    return replace(
        settings, context=n_ctx, type_k="f16", type_v="f16", mtp=0, draft=None, draft_max=0
    )


def _allocate(
    header: Header, settings: Settings, *, with_compute: bool, simulated: bool
) -> Allocation:
    """Return what one context allocates, and the weights that it uses."""
    if not header.rules.flash_attention:
        settings = replace(settings, flash_attention=False)
    backend = backend_of(settings.library)
    header = header.on(backend)
    placed = _placed(header, settings)
    places, weights = placed.places, placed.weights
    flash_attention = _has_flash_attention(header, settings, places)
    _refuse(header, settings, flash_attention=flash_attention)
    n_ctx, n_ctx_seq = _context(header, settings)
    ubatch = _ubatch(header, settings)
    parts_of = {
        first: _cache_parts(header, settings, first, n_ctx_seq, ubatch)
        for first in set(header.first_alike)
    }
    sizes = {
        (first, on_host): sum(part.on_host if on_host else part.nbytes for part in parts)
        for first, parts in parts_of.items()
        for on_host in (False, True)
    }
    cache, caches = Counter[str](), list[int]()
    for first, device in zip(header.first_alike, places.of_layer[:-1], strict=True):
        on_host = not settings.offload_kv or device == places.host
        caches.append(sizes[first, on_host])
        cache["CPU" if on_host else device] += caches[-1]
    buffers = {
        name: Buffer(sized(weights[name], name), sized(cache[name], name))
        for name in sorted({*places.names, *weights, *cache})
    }
    accuracy = "exact"
    if with_compute:
        batch = _batch(header, settings, n_ctx, n_ctx_seq, ubatch, flash_attention=flash_attention)
        placement = _placement(header, settings, places)
        usual = flash_attention or (settings.type_k, settings.type_v) == ("f16", "f16")
        was_compared = not settings.devices or backend.knows(
            settings.build, header.rules.recurrent, usual=usual, is_whole=placement.is_whole
        )
        was_compared &= knows_graph(settings.build, header.architecture)
        accuracy, computes = compute_buffers(
            header, batch, placement, was_compared=was_compared, simulated=simulated
        )
        for name, found in zip((*places.gpus, places.host), computes, strict=True):
            size = None if found.size is None else sized(found.size, name)
            buffers[name] = replace(
                buffers[name], compute=size, compute_low=found.low, compute_high=found.high
            )
    return Allocation(
        n_ctx,
        n_ctx_seq,
        buffers,
        accuracy,
        tuple(places.of_layer),
        placed.by_layer,
        tuple(caches),
        flash_attention,
    )


def _batch(  # noqa: PLR0913 - what is known of a context
    header: Header,
    settings: Settings,
    n_ctx: int,
    n_ctx_seq: int,
    ubatch: int,
    *,
    flash_attention: bool,
) -> Batch:
    """Return the largest batch: a full one, with the logits that are asked for.

    Those of one token of each sequence, and of the tokens that are drafted for it
    (`common_speculative_get_output_limits`).
    """
    sequences, tokens = settings.parallel, min(n_ctx, ubatch)
    rules = revision(settings.build)
    outputs = tokens
    if rules.few_logits and not settings.all_logits:
        drafted = max(settings.mtp, settings.draft_max)
        outputs = min(tokens, settings.batch, sequences * (1 + drafted))
    return Batch(
        tokens=padded(tokens, sequences),
        sequences=sequences,
        outputs=outputs,
        streams=1 if settings.kv_unified else sequences,
        cells=n_ctx_seq,
        window_cells=_window_cells(header, settings, n_ctx_seq, ubatch),
        flash_attention=flash_attention,
        type_k=TENSOR_TYPES[settings.type_k.upper()],
        type_v=TENSOR_TYPES[settings.type_v.upper()],
        turned_values=settings.flash_attention is False,
        rollback=_rollback(header, settings),
        revision=rules,
        library=settings.library,
        backend=backend_of(settings.library),
    )


def _rollback(header: Header, settings: Settings) -> int:
    """Return how many states are kept of each sequence, beside the last one."""
    return settings.mtp if header.rules.rolls_back else 0


def _has_flash_attention(header: Header, settings: Settings, places: _Places) -> bool:
    """Return whether flash attention is used (`llama-context.cpp`, `resolve_fused_ops`).

    Left alone, it is, unless the device of a layer lacks a kernel for it, or it comes to lie
    elsewhere, as in hybrid models and where a layer reads the cache of another. A batch of
    one token for each sequence is tried.
    """
    if settings.flash_attention is not None:
        return settings.flash_attention
    if TENSOR_TYPES[settings.type_v.upper()].quantized:
        return True  # they need it
    if all(place == places.host for place in places.of_layer[:-1]):
        return True  # the CPU has a kernel for everything
    types = settings.type_k, settings.type_v
    if lacks_kernel(header, settings.library, types, revision(settings.build)):
        return False
    own = all(header.cache_block(block) == block for block in range(header.loaded))
    if own and not any(header.recurrent):
        return True
    one_each = replace(settings, ubatch=settings.parallel, flash_attention=True)
    n_ctx = max(_CONTEXT_STEP, settings.parallel)
    batch = _batch(header, one_each, n_ctx, _CONTEXT_STEP, settings.parallel, flash_attention=True)
    return not attends_elsewhere(header, batch, _placement(header, settings, places))


def _placement(header: Header, settings: Settings, places: _Places) -> Placement:
    rows = _moved(header, settings, places)
    moved = {header.tensors[row].name: place for row, place in rows.items()}
    everything = not 0 <= settings.gpu_layers <= header.blocks
    # also an override that no tensor meets turns the pipeline off
    overridden = settings.overrides or settings.cpu_moe_layers
    pipelined = settings.devices > 1 and everything and settings.offload_kv and not overridden
    return Placement(
        gpus=settings.devices,
        host=places.host,
        of_layer=places.of_layer,
        moved=moved,
        offload_kv=settings.offload_kv,
        offloaded=everything,
        pipelined=pipelined,
        pinned=pipelined,
    )


def _refuse(header: Header, settings: Settings, *, flash_attention: bool) -> None:
    """Raise where llama.cpp makes no context."""
    windowed = header.windowed_lengths if any(header.windowed) else (0, 0)
    for name, *lengths in (
        (settings.type_k, header.key_length, windowed[0]),
        (settings.type_v, header.value_length, windowed[1]),
    ):
        kind = TENSOR_TYPES[name.upper()]
        for length in lengths if any(header.attention) else ():
            if length % kind.block_weights and settings.flash_attention is not False:
                raise PlanError(
                    f"a cache of {name} needs heads of a multiple of 32 values, not of {length}"
                )
    if (header.mla or header.compression) and settings.type_k != settings.type_v:
        raise PlanError("keys hold the values here, so both need the same type of the cache")
    if TENSOR_TYPES[settings.type_v.upper()].quantized and not flash_attention:
        raise PlanError("without flash attention values cannot be quantized")


def _context(header: Header, settings: Settings) -> tuple[int, int]:
    """Return the positions of all sequences, and of one."""
    n_ctx = padded(settings.context or header.trained_context, _CONTEXT_STEP)
    if settings.kv_unified:
        return n_ctx, n_ctx
    n_ctx_seq = padded(n_ctx // settings.parallel, _CONTEXT_STEP)
    return n_ctx_seq * settings.parallel, n_ctx_seq


class _Places:
    """Which device holds which layer.

    Attributes:
        host: The buffer of what is on no GPU.
        gpus: The buffers of the GPUs.
        names: All buffers that weights may be in.
        of_layer: The buffer of each layer's weights, the output last.
    """

    def __init__(self, blocks: int, settings: Settings) -> None:
        count, layers = settings.devices, blocks + 1
        self.host = "host" if count else "CPU"
        self.gpus = [f"GPU{i}" for i in range(count)]
        self.names = [*self.gpus, self.host]
        wanted = layers if settings.gpu_layers < 0 else settings.gpu_layers
        active = min(wanted, layers) if count else 0
        split = [*(settings.tensor_split or ()), *[0] * count][:count]
        shares = np.array(split if any(split) else [1] * count, np.float32)
        ends = np.cumsum(shares, dtype=np.float32) / shares.sum(dtype=np.float32)
        parts = np.arange(active, dtype=np.float32) / np.float32(max(active, 1))
        devices = np.searchsorted(ends, parts, side="right")
        self.of_layer = [self.host] * (layers - active) + [f"GPU{i}" for i in devices]

    def of_sum(self, held: LayerSum, place: str) -> dict[str, int]:
        """Return the bytes by buffer of a layer that lies in a place."""
        if place.startswith("GPU"):
            return {place: held.on_gpu}
        if place == "CPU" and held.repacked:
            return {place: held.on_host, "CPU_REPACK": held.repacked}
        return {place: held.on_host + held.repacked}

    def of_matrix(self, tensor: Weights, layer: int) -> str:
        """Return the buffer of a tensor that is multiplied with in a layer."""
        place = self.of_layer[layer]
        return "CPU_REPACK" if place == "CPU" and tensor.repacked else place


class _Placed(NamedTuple):
    """Where weights lie, whatever the context is."""

    places: _Places
    by_layer: tuple[dict[str, int], ...]  # bytes by buffer: the blocks, the output, the input
    weights: Counter[str]  # their sums


def _placed(header: Header, settings: Settings) -> _Placed:
    """Return where weights lie; a slider or `fit` asks for the same again and again."""
    split = tuple(settings.tensor_split or ())
    overrides = tuple((pattern, buffer) for pattern, buffer in settings.overrides)
    asked = settings.gpu_layers, split, settings.cpu_moe_layers, overrides
    key = settings.devices, settings.library, asked
    known: dict[Hashable, _Placed] = header.placed
    return kept(known, key, lambda: _place(header, settings))


def _place(header: Header, settings: Settings) -> _Placed:
    places = _Places(header.blocks, settings)
    by_layer = _place_weights(header, settings, places)
    weights: Counter[str] = Counter()
    for held in by_layer:
        for place, nbytes in held.items():
            weights[place] += nbytes
    return _Placed(places, by_layer, weights)


def _place_weights(
    header: Header, settings: Settings, places: _Places
) -> tuple[dict[str, int], ...]:
    """Return the bytes of each layer by buffer."""
    found = [
        places.of_sum(of_layer, place)
        for of_layer, place in zip(header.layer_sums, places.of_layer, strict=True)
    ]
    found.append({places.host: 0})
    moved = _moved(header, settings, places)
    for tensor in header.scattered:
        for place in _places_of(tensor, header, places):
            _add(found[tensor.layer], place, tensor, 1)
    for row, place in moved.items():
        tensor = header.tensors[row]
        for before in _places_of(tensor, header, places):
            _add(found[tensor.layer], before, tensor, -1)
        _add(found[tensor.layer], place, tensor, 1)
    return tuple(found)


def _add(sums: dict[str, int], place: str, tensor: Weights, times: int) -> None:
    nbytes = tensor.on_gpu if place.startswith("GPU") else tensor.on_host
    sums[place] = sums.get(place, 0) + times * nbytes


def _moved(header: Header, settings: Settings, places: _Places) -> dict[int, str]:
    """Return the buffers of tensors that are told where to lie, by their place in the header."""
    found: dict[int, str] = {}
    for pattern, buffer in settings.overrides:  # the first that fits
        place = places.host if buffer == "CPU" else buffer
        if place not in places.names:
            raise PlanError(f"there is no buffer {quoted(buffer)!r}: {', '.join(places.names)}")
        for row in header.rows_matching(pattern):
            found.setdefault(row, place)
    backend = backend_of(settings.library)
    if settings.devices and header.scans_on_host(backend):
        for row, tensor in enumerate(header.tensors):  # they lie where they are computed with
            if tensor.name.endswith(SCANNED) and header.recurrent[tensor.layer]:
                found.setdefault(row, places.host)
    if settings.cpu_moe_layers:
        for row, tensor in enumerate(header.tensors):
            if 0 <= tensor.layer < settings.cpu_moe_layers and _EXPERTS.search(tensor.name):
                found.setdefault(row, places.host)
    return found


def _places_of(tensor: Weights, header: Header, places: _Places) -> Sequence[str]:
    """Return the buffers that hold a tensor, if nothing moves it: mostly one."""
    if tensor.name.startswith("rope_"):  # once where any block is that is turned with it
        if header.rules.rope_factors == "full, held by all":
            return [*{*places.of_layer[:-1]}]
        turned = zip(places.of_layer[: header.loaded], header.windowed, strict=False)
        only_full = header.rules.rope_factors == "full"
        return [*{place for place, windowed in turned if not (only_full and windowed)}]
    if tensor.layer >= 0:
        return [places.of_matrix(tensor, tensor.layer)]
    held = [places.host]
    if tensor.name == "token_embd.weight" and not header.has_output:
        output = places.of_matrix(tensor, header.blocks)  # the input is the output too
        if output not in held or header.rules.tied_twice:
            held.append(output)
    return held


class CachePart(NamedTuple):
    """One tensor of a block's cache."""

    what: str  # "keys", "values", "index keys", "index values", "convolution" or "state"
    row: int  # bytes of a position, or of a sequence
    rows: int  # positions, or sequences
    fill: int  # bytes that fill a row of quantized blocks on a GPU
    alignment: int  # of the tensor on a GPU

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor as it is allocated on a GPU."""
        return padded(self.row * self.rows + self.fill, self.alignment)

    @property
    def on_host(self) -> int:
        """Bytes of the tensor as it is allocated in main memory."""
        return padded(self.row * self.rows, HOST_ALIGNMENT)


def cache_parts(header: Header, settings: Settings, layer: int) -> list[CachePart]:
    """Return the keys, values and recurrent state of a block."""
    _, n_ctx_seq = _context(header, settings)
    return _cache_parts(header, settings, layer, n_ctx_seq, _ubatch(header, settings))


def _cache_parts(
    header: Header, settings: Settings, layer: int, n_ctx_seq: int, ubatch: int
) -> list[CachePart]:
    parts = []
    sequences, backend = settings.parallel, backend_of(settings.library)
    if header.recurrent[layer]:
        states = sequences * (1 + _rollback(header, settings))
        parts.append(_states("convolution", header.conv_state, states, settings))
        parts.append(_states("state", header.ssm_state, states, settings))
    if header.history[layer]:
        parts.append(_states("words before", header.history[layer], sequences, settings))
    if header.compression:
        return _compressed_parts(header, settings, layer, n_ctx_seq, ubatch)
    cells, lengths = n_ctx_seq, header.lengths_of(layer)
    if header.windowed[layer]:
        cells = _window_cells(header, settings, n_ctx_seq, ubatch)
    streams = 1 if settings.kv_unified else sequences
    heads, index = header.kv_heads[layer], header.index_lengths[layer]
    if header.cached[layer]:
        parts.append(_rows("keys", settings.type_k, backend, lengths[0] * heads, cells * streams))
        if not header.mla:
            # stored transposed where flash attention is turned off, as wide as the widest block
            turned = settings.flash_attention is False
            width = header.widest_values if turned else lengths[1] * heads
            parts.append(_rows("values", settings.type_v, backend, width, cells * streams))
    if index:
        parts.append(_rows("index keys", settings.type_k, backend, index, n_ctx_seq * streams))
        if header.rules.index_values:
            parts.append(
                _rows("index values", settings.type_v, backend, lengths[1], n_ctx_seq * streams)
            )
    return parts


def _compressed_parts(
    header: Header, settings: Settings, layer: int, n_ctx_seq: int, ubatch: int
) -> list[CachePart]:
    """Return what a block of deepseek4 keeps (`llama-kv-cache-dsv4.cpp`), of each sequence.

    That is a window of keys, and keys of several positions at a time with what they are made of;
    of few positions at a time also keys by which others are chosen.
    """
    sequences, ratio = settings.parallel, header.compression[layer]
    backend = backend_of(settings.library)
    separate = replace(settings, kv_unified=False)
    window = _window_cells(header, separate, n_ctx_seq, ubatch)
    length, kind = header.key_length, settings.type_k
    parts = [_rows("keys", kind, backend, length * header.kv_heads[layer], window * sequences)]
    if ratio not in _STORED_AS_ONE:
        return parts
    rows = padded(max(1, -(-n_ctx_seq // ratio)), _CONTEXT_STEP) * sequences
    parts.append(_rows("keys", kind, backend, length * header.kv_heads[layer], rows))
    overlap = 2 if ratio == _STORED_AS_ONE[0] else 1
    kept = [length]
    if overlap == 2:
        index = header.index_lengths[layer]
        parts.append(_rows("index keys", kind, backend, index, rows))
        kept.append(index)
    parts += [
        _states("state", overlap * one, overlap * ratio * sequences, settings)
        for one in kept
        for _ in ("keys", "scores")
    ]
    return parts


def _ubatch(header: Header, settings: Settings) -> int:
    """Return the tokens of one step; if causal, no more than the context before it is rounded."""
    context = settings.context or header.trained_context
    return min(context if header.causal else settings.batch, settings.batch, settings.ubatch)


def _window_cells(header: Header, settings: Settings, n_ctx_seq: int, ubatch: int) -> int:
    """Return the positions that the cache of a block with a window holds."""
    if settings.swa_full:
        return n_ctx_seq
    seen = header.window * (settings.parallel if settings.kv_unified else 1) + ubatch
    return padded(min(n_ctx_seq, seen), _CONTEXT_STEP)


@lru_cache(maxsize=1024)  # the blocks of a model are alike, and a search asks for each many times
def _rows(what: str, type_name: str, backend: Backend, width: int, rows: int) -> CachePart:
    kind = TENSOR_TYPES[type_name.upper()]
    row = kind.nbytes(width)
    if row is None:
        raise PlanError(f"rows of {width} are not whole blocks of {type_name}")
    fill = row_padding(kind, width) if backend.fills_rows else 0
    return CachePart(what, row, rows, fill, backend.alignment)


def _states(what: str, width: int, rows: int, settings: Settings) -> CachePart:
    return CachePart(what, 4 * width, rows, 0, backend_of(settings.library).alignment)
