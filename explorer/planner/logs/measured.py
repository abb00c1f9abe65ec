"""A plan beside what a log measured: the settings of the log, each term, what remains.

Of a log of vLLM see `explorer.planner.logs.vllm`. Of all others the plan is llama.cpp's
(`llama_cpp.allocate`), made with the settings that the log tells. Buffers of the log are put where
the plan has them: ``"GPU0"`` … in the order in which the program took its devices, and ``"host"``
for everything in main memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner.devices import HOST, Device, quoted
from explorer.planner.engines.llama_cpp import allocation as llama_cpp
from explorer.planner.engines.llama_cpp.builds import CHANGES
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.inputs import header_to_plan
from explorer.planner.logs.comparison import Comparison, Residual, Unaccounted
from explorer.planner.logs.lines import (
    CACHE,
    COMPUTE,
    DRAFTED,
    EMBEDDING,
    MODEL_BLOCKS,
    OUTPUT,
    PARAMETERS,
    PROJECTOR,
    PROJECTOR_COMPUTE,
    TENSOR_BYTES,
    VLLM,
    WEIGHTS,
    Log,
    LoggedBuffer,
    LoggedDevice,
    Measured,
    logged_name,
)
from explorer.planner.logs.vllm import compare_vllm
from explorer.planner.request import PlanRequest
from explorer.planner.settings import Settings
from explorer.text import bytes_text, count_text, integer_text

_KINDS: Final = (
    *(WEIGHTS, CACHE, COMPUTE, OUTPUT),
    *DRAFTED.values(),
    *(PROJECTOR, PROJECTOR_COMPUTE),
)
"""What a log tells of, in the order of rows."""

_OTHERS: Final = (*DRAFTED.values(), PROJECTOR, PROJECTOR_COMPUTE)

_ON_HOST: Final = re.compile(r"CPU|.*_Host\b|Host\b|BLAS|AMX|HBM|.*\bHost$")
_SUFFIX: Final = re.compile(r"_(Mapped|Split|Private|Shared)$")
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_CLOSE: Final = 100  # a hundredth: what was read off the weights must meet them so well
_CONTEXT_STEP: Final = 256
_NEAR: Final = 0.1
_MOST_CONTEXT: Final = 1 << 20
_UBATCHES: Final = (512, 1024, 2048, 256, 4096)  # that people set
_CLOSE_BUFFER: Final = 1000  # the same of compute buffers


def compare(
    model: Model, measured: Measured, base: llama_cpp.Settings, machine: tuple[Device, ...] = ()
) -> Comparison:
    """Return the plan for a log's settings beside what the log measured.

    Args:
        model: The model that was loaded.
        measured: What the log says.
        base: What a log of llama.cpp that does not tell it is taken to mean.
        machine: The GPUs that a log of vLLM is taken to mean where it does not tell them.

    Raises:
        PlanError: The header is damaged, the program would refuse these settings, or the log
            states another architecture, or other facts, of its model.
    """
    if measured.source == VLLM:
        return compare_vllm(PlanRequest(header_to_plan(model), devices=machine), measured)
    if model.format != "gguf":
        raise PlanError(
            "the log is llama.cpp's, and this model is not a GGUF file. Open the file that was "
            "loaded"
        )
    _refuse_other(model, measured)
    header = Header.from_model(model)
    places = _Places(measured)
    settings, assumed = _settings(measured, places, base)
    inferred: tuple[str, ...] = ()
    held = places.sums()
    if held:
        if "context" in assumed and (context := _context_of_cache(header, settings, held)):
            settings, inferred = replace(settings, context=context), ("context",)
        settings, more = _inferred(header, settings, held, measured)
        inferred += more
        settings, more = _inferred_rules(header, settings, held, measured)
        inferred += more
    assumed = tuple(name for name in assumed if name not in inferred)
    allocation = llama_cpp.allocate(header, settings)
    logits = header.tokens * settings.parallel * 4 if measured.source == "llama.cpp" else None
    planned = _planned(allocation, mapped=measured.mapped, logits=logits)
    residuals = tuple(_residuals(planned, held)) if held else tuple(_sums(planned, measured))
    unaccounted = tuple(_unaccounted(places, residuals, settings))
    unlike = _unlike(model, measured)
    return Comparison(measured, settings, residuals, unaccounted, inferred, assumed, unlike)


def load_for(model: Model, log: Log) -> Measured:
    """Return the last load of a log that can be of this model; else the last load.

    Raises:
        LogError: The log says nothing of memory.
    """
    architecture, name = (model.metadata.text(f"general.{key}") for key in ("architecture", "name"))
    return log.load_of(architecture or "", name or "", _known(model))


def assumed_settings(asked: Settings, devices: int) -> llama_cpp.Settings:
    """Return what a log that does not tell it is taken to mean, by what is asked of a plan."""
    assumed: dict[str, Any] = {"context": asked.context, "ubatch": asked.ubatch or asked.batch}
    if asked.parallel:  # other engines run more of them
        assumed["parallel"] = min(asked.parallel, llama_cpp.MAX_SEQUENCES)
    settings = llama_cpp.Settings(devices=devices)
    return replace(settings, **{name: value for name, value in assumed.items() if value})


_OF_TEXT: Final = ("blk.", "token_embd.", "output.")  # tensors that no loader leaves out
_CLOSE_TOTAL: Final = 100  # a hundredth: Ollama cuts vocabularies
_OTHER: Final = MappingProxyType(
    {
        MODEL_BLOCKS: ("blocks", integer_text),
        EMBEDDING: ("as its embedding length", integer_text),
        PARAMETERS: ("parameters", count_text),
        TENSOR_BYTES: ("of tensors", bytes_text),
    }
)
"""What a model has so many of, and how such numbers are written."""


def _known(model: Model) -> dict[str, tuple[int, int]]:
    """Return what a log of a GGUF model can state of it: the least and the most.

    Blocks that guess ahead count or not, and Ollama's llama-server makes one of tensors of MTP. It
    hides tensors of projectors that are in the same file.
    """
    name, keys, columns = model.metadata.text("general.architecture"), model.metadata, model.tensors
    blocks = keys.integer(f"{name}.block_count")
    embedding = keys.integer(f"{name}.embedding_length")
    found: dict[str, tuple[int, int]] = {}
    names = columns.columns.names[: columns.main_rows]
    if blocks is not None:
        ahead = keys.integer(f"{name}.nextn_predict_layers") or 0
        more = any(one.startswith("mtp.") for one in names)
        found[MODEL_BLOCKS] = blocks - ahead, blocks + more
    if embedding is not None:
        found[EMBEDDING] = embedding, embedding
    rows = [row for row, one in enumerate(names) if one.startswith(_OF_TEXT)]
    for fact, whole, each in (
        (PARAMETERS, columns.parameters, columns.columns.parameters),
        (TENSOR_BYTES, columns.nbytes, columns.columns.nbytes),
    ):
        least = sum(each[row] for row in rows)
        found[fact] = least - least // _CLOSE_TOTAL, whole
    return found


def _refuse_other(model: Model, measured: Measured) -> None:
    architecture, known = model.metadata.text("general.architecture"), _known(model)
    fact = measured.contradicted(known)
    if measured.architecture and architecture and measured.architecture != architecture:
        what = (
            f"its architecture is {measured.architecture}, this model's is {quoted(architecture)}"
        )
    elif fact is not None:
        unit, text = _OTHER[fact]
        both = sum(measured.stated[fact]) // 2, known[fact][1]
        text = integer_text if text(both[0]) == text(both[1]) else text
        what = f"it has {text(both[0])} {unit}, this one {text(both[1])}"
    else:
        return
    raise PlanError(f"the log is of another model: {what}. Open the model that was loaded")


def _unlike(model: Model, measured: Measured) -> str:
    """Return the model's name if the log gives another one, which llama.cpp may have cut."""
    name = logged_name(model.metadata.text("general.name") or "")
    named = measured.name if measured.source != "ollama ps" else ""
    same = name == named or (named.endswith("...") and name.startswith(named[:-3]))
    return "" if same or not named else name


# Where the log's buffers lie


class _Places:
    """Which GPU of the plan a buffer of the log lies on."""

    def __init__(self, measured: Measured) -> None:
        self._buffers = measured.buffers
        self.devices = [one for one in measured.devices if not _is_host(one.name)]
        known = [self._device_of(buffer.device) for buffer in self._buffers]
        if None in known:  # a buffer of no device that the log names
            unnamed = {
                _base(buffer.device)
                for buffer, device in zip(self._buffers, known, strict=True)
                if device is None and not _is_host(buffer.device)
            }
            self.devices += [LoggedDevice(name) for name in sorted(unnamed, key=_natural)]

    def _device_of(self, name: str) -> int | None:
        base, _, endpoint = _base(name).partition("[")
        for number, device in enumerate(self.devices):
            if endpoint and device.description == endpoint.rstrip("]"):
                return number  # every RPC server calls its first device RPC0
        for number, device in enumerate(self.devices):
            if device.name in {base, _base(name)} and not (endpoint and device.description):
                return number
        return None

    def place(self, buffer: LoggedBuffer) -> str:
        """Return ``"GPU0"`` … or `HOST`."""
        number = None if _is_host(buffer.device) else self._device_of(buffer.device)
        return HOST if number is None else f"GPU{number}"

    def sums(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return bytes and rounding by place and kind."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for buffer in self._buffers:
            key = (self.place(buffer), buffer.kind)
            nbytes, within = found.get(key, (0, 0))
            found[key] = (nbytes + buffer.nbytes, within + buffer.within)
        return found


def _is_mapped(buffer: LoggedBuffer) -> bool:
    return buffer.device.endswith("_Mapped") and not _is_host(buffer.device)


def _is_host(name: str) -> bool:
    return _ON_HOST.match(name) is not None


def _base(name: str) -> str:
    return _SUFFIX.sub("", name)


def _natural(name: str) -> tuple[str, int]:
    number = _NUMBER.search(name)
    return _NUMBER.sub("", name), int(number[0]) if number else 0


# Which settings the plan is made with


def _settings(
    measured: Measured, places: _Places, base: llama_cpp.Settings
) -> tuple[llama_cpp.Settings, tuple[str, ...]]:
    """Return the log's settings, and the names of those that had to be assumed."""
    logged: dict[str, Any] = dict(measured.settings)
    wanted = ("context",) if not measured.buffers else ("context", "parallel", "ubatch")
    assumed = tuple(name for name in wanted if name not in logged)
    if measured.buffers:
        # where layers lie is the log's to tell, or llama.cpp's default
        base = llama_cpp.Settings(
            *(base.context, base.parallel, base.batch, base.ubatch),
            type_k=base.type_k,
            type_v=base.type_v,
        )
        logged["devices"] = len(places.devices)
        kinds = {(places.place(one) == HOST, one.kind) for one in measured.buffers}
        caches = {on_host for on_host, kind in kinds if kind == CACHE}
        if logged["devices"] and logged.get("gpu_layers", 1) and caches == {True}:
            logged.setdefault("offload_kv", False)
        logged.setdefault("parallel", 1)
        logged.setdefault("kv_unified", True)
    free = [device.free for device in places.devices]
    if logged.get("tensor_split") is None and len(free) > 1 and all(free):
        logged["tensor_split"] = tuple(float(one) for one in free if one)
    return replace(base, **logged), assumed


def _inferred(
    header: Header,
    settings: llama_cpp.Settings,
    held: dict[tuple[str, str], tuple[int, int]],
    measured: Measured,
) -> tuple[llama_cpp.Settings, tuple[str, ...]]:
    """Read off the weights what no line tells: experts on the CPU, the split over several GPUs.

    `--fit` decides both and prints them at a higher verbosity only. A setting is taken only if the
    weights that it plans are within a hundredth of those that were measured.
    """
    wanted = [held.get((f"GPU{i}", WEIGHTS), (0, 0))[0] for i in range(settings.devices)]
    found: list[str] = []

    def off(candidate: llama_cpp.Settings) -> list[int]:
        buffers = llama_cpp.allocate(header, candidate).buffers
        weights = [buffers[f"GPU{i}"].weights for i in range(settings.devices)]
        return [planned - one for planned, one in zip(weights, wanted, strict=True)]

    def is_close(differences: Iterable[int]) -> bool:
        return all(abs(one) * _CLOSE <= most for one, most in zip(differences, wanted, strict=True))

    # of a mapped buffer the log tells the range of the file, which holds more
    is_mapped = any(_is_mapped(one) for one in measured.buffers)
    if is_mapped or not any(wanted) or is_close(off(settings)):
        return settings, ()
    if "cpu_moe_layers" not in measured.settings and sum(off(settings)) * _CLOSE > sum(wanted):
        blocks = range(1, header.blocks + 1) if header.experts_used else ()
        moved = [replace(settings, cpu_moe_layers=count) for count in blocks]
        best = min(moved, key=lambda one: abs(sum(off(one))), default=settings)
        if best is not settings and abs(sum(off(best))) * _CLOSE <= sum(wanted):
            settings, found = best, ["cpu_moe_layers"]
    is_logged = "tensor_split" in measured.settings
    if settings.devices > 1 and not is_logged and not is_close(off(settings)):
        shares = replace(settings, tensor_split=_layers_by_weights(header, settings, wanted))
        if is_close(off(shares)):
            settings = shares
            found.append("tensor_split")
    return settings, tuple(found)


def _context_of_cache(
    header: Header, settings: llama_cpp.Settings, held: dict[tuple[str, str], tuple[int, int]]
) -> int | None:
    """Return the context whose cache is as large as the measured one; None if none is."""
    caches = [sizes for (_, kind), sizes in held.items() if kind == CACHE]
    wanted, within = (sum(one) for one in zip(*caches, strict=True)) if caches else (0, 0)

    def cache(steps: int) -> int:
        candidate = replace(settings, context=steps * _CONTEXT_STEP)
        buffers = llama_cpp.allocate(header, candidate, with_compute=False).buffers
        return sum(one.cache for one in buffers.values())

    low, high = 1, max(1, (header.trained_context or _MOST_CONTEXT) // _CONTEXT_STEP + 1)
    while low < high:  # the first that is not smaller
        middle = (low + high) // 2
        low, high = (low, middle) if cache(middle) >= wanted - within else (middle + 1, high)
    grows = cache(low) != cache(low + 1)
    return low * _CONTEXT_STEP if wanted and grows and abs(cache(low) - wanted) <= within else None


def _inferred_rules(
    header: Header,
    settings: llama_cpp.Settings,
    held: dict[tuple[str, str], tuple[int, int]],
    measured: Measured,
) -> tuple[llama_cpp.Settings, tuple[str, ...]]:
    """Read off the compute buffers of GPUs what no line tells: the build, and which logits.

    They are taken only if the usual ones do not meet the buffers, and others do.
    """
    wanted = {
        place: sizes
        for (place, kind), sizes in held.items()
        if kind == COMPUTE and place.startswith("GPU")
    }

    def meets(candidate: llama_cpp.Settings) -> bool:
        buffers = llama_cpp.allocate(header, candidate).buffers
        planned = {place: buffers[place].compute or 0 for place in wanted if place in buffers}
        return all(
            abs(planned.get(place, 0) - nbytes) <= max(within, nbytes // _CLOSE_BUFFER)
            for place, (nbytes, within) in wanted.items()
        )

    if not wanted or meets(settings):
        return settings, ()
    older = [one.build - 1 for one in reversed(CHANGES)]
    builds = [settings.build] if "build" in measured.settings else [settings.build, *older]
    is_logged = "ubatch" in measured.settings
    candidates: list[dict[str, Any]] = [
        {"build": build, "all_logits": all_logits, "ubatch": ubatch}
        for all_logits in dict.fromkeys((settings.all_logits, True))
        for build in builds
        for ubatch in ((settings.ubatch,) if is_logged else (settings.ubatch, *_UBATCHES))
    ]

    def changed(candidate: dict[str, Any]) -> tuple[str, ...]:
        return tuple(name for name in candidate if candidate[name] != getattr(settings, name))

    for candidate in sorted(candidates, key=lambda one: len(changed(one))):
        other = replace(settings, **candidate)
        if changed(candidate) and meets(other):
            return other, changed(candidate)
    if is_logged or not candidates:
        return settings, ()
    # backends round differently, but a micro-batch of another size is a multiple away
    found = min(candidates, key=lambda one: _worst(header, replace(settings, **one), held))
    other = replace(settings, **found)
    return (other, changed(found)) if _worst(header, other, held) <= _NEAR else (settings, ())


def _worst(
    header: Header, settings: llama_cpp.Settings, held: dict[tuple[str, str], tuple[int, int]]
) -> float:
    """Return by which part of itself the worst of the measured compute buffers is missed."""
    planned = _planned(llama_cpp.allocate(header, settings), mapped=False)
    buffers = [one for one in held if one[1] in (COMPUTE, DRAFTED[COMPUTE])]
    return max(
        abs((planned.get(one, (0, 0))[0] or 0) - held[one][0]) / max(held[one][0], 1)
        for one in buffers
    )


def _layers_by_weights(
    header: Header, settings: llama_cpp.Settings, wanted: list[int]
) -> tuple[float, ...]:
    """Return the layers of each GPU that come nearest to the weights measured on it."""
    layers, one_gpu = header.blocks + 1, replace(settings, devices=1, tensor_split=None)
    most = min(settings.gpu_layers, layers)
    upto = [  # weights of the last `count` layers, which are those on GPUs
        llama_cpp.allocate(header, replace(one_gpu, gpu_layers=count)).buffers["GPU0"].weights
        for count in range(most + 1)
    ]
    ends = []
    for total in accumulate(wanted):  # the first GPU has the first of these layers
        ends.append(min(range(most + 1), key=lambda n: abs(upto[most] - upto[most - n] - total)))
    return tuple(float(max(0, end - begin)) for begin, end in zip([0, *ends], ends, strict=False))


# Terms


Planned = dict[tuple[str, str], tuple[int | None, int | None]]


def _planned(
    allocation: llama_cpp.Allocation, *, mapped: bool, logits: int | None = None
) -> Planned:
    """Return the plan by place and kind: bytes, or the upper end of a band and its lower end.

    `logits` are the bytes of those of one token of each sequence; None where no log tells of them.
    """
    found: Planned = {}
    sums: Counter[tuple[str, str]] = Counter()
    for name, buffer in allocation.buffers.items():
        place = name if name.startswith("GPU") else HOST
        sums[place, WEIGHTS] += buffer.weights
        sums[place, CACHE] += buffer.cache
        if mapped and name == "CPU_REPACK":  # the file's bytes stay in the mapped range as well
            sums[place, WEIGHTS] += buffer.weights
        exact = buffer.compute is not None
        before, low = found.get((place, COMPUTE), (0, None))
        if name.startswith("GPU") or exact or buffer.compute_high is not None:
            most = buffer.compute if exact else buffer.compute_high
            least = None if exact else buffer.compute_low
            found[place, COMPUTE] = (
                None if most is None or before is None else most + before,
                least if low is None else low + (least or 0),
            )
    found |= {key: (nbytes, None) for key, nbytes in sums.items()}
    if logits is not None:
        found[HOST, OUTPUT] = logits, None
    if allocation.draft is not None:
        drafted = _planned(allocation.draft, mapped=mapped, logits=logits)
        found |= {(place, DRAFTED[kind]): both for (place, kind), both in drafted.items()}
    return found


def _residuals(
    planned: Planned, held: dict[tuple[str, str], tuple[int, int]]
) -> Iterator[Residual]:
    devices = sorted({place for place, _ in held}, key=lambda one: (one == HOST, _natural(one)))
    kinds = {kind for _, kind in held} - {OUTPUT}
    for device in devices:
        for kind in _KINDS:
            nbytes, within = held.get((device, kind), (0, 0))
            most, low = planned.get((device, kind), (None, None))
            if nbytes or (most and kind in kinds):
                yield Residual(device, kind, most, nbytes, within, low)


def _sums(planned: Planned, measured: Measured) -> Iterator[Residual]:
    """Compare what `ollama ps` prints: the sum of all, and what of it is on GPUs."""
    if measured.total is None or measured.on_gpus is None:
        return
    parts = [(place, most) for (place, _), (most, _) in planned.items()]
    on_gpus = [most for place, most in parts if place != HOST]
    for device, total, amounts in (
        ("GPUs", measured.on_gpus, on_gpus),
        ("all", measured.total, [most for _, most in parts]),
    ):
        known = None if None in amounts else sum(most or 0 for most in amounts)
        yield Residual(device, "total", known, total, measured.within)


# What remains


def _unaccounted(
    places: _Places, residuals: tuple[Residual, ...], settings: llama_cpp.Settings
) -> Iterator[Unaccounted]:
    """Yield for each GPU what it holds beyond the plan.

    Best told by how much less is free than before loading; else by what llama.cpp calls
    "unaccounted", which other programs may have. A device that reports the same free memory before
    and after, as an RPC server does, tells nothing.
    """
    for number, device in enumerate(places.devices[: settings.devices]):
        terms = [one for one in residuals if one.device == f"GPU{number}"]
        # what another file holds is as it was measured
        planned = [one.measured if one.kind in _OTHERS else one.planned for one in terms]
        known = None if None in planned else sum(int(one or 0) for one in planned)
        measured = sum(int(one.measured) for one in terms)
        rest, others = None, False
        blind = device.free_after is not None and device.free == device.free_after
        if known is not None:
            if (
                device.free is not None
                and device.free_after is not None
                and device.free > device.free_after
            ):
                rest = device.free - device.free_after - known
            elif device.unaccounted is not None and device.unaccounted >= 0:
                rest, others = device.unaccounted + measured - known, True
        yield Unaccounted(f"GPU{number}", device.description or device.name, rest, others, blind)
