"""What the lines of a log mean: llama.cpp's, Ollama's, LM Studio's, `ollama ps`'s, vLLM's.

Lines of llama.cpp are those of build 11434 (`llama-model.cpp`, `llama-context.cpp`,
`llama-kv-cache.cpp`, `common/fit.cpp`), as they have been for a year, those of vLLM of 0.6 to 0.33
(`gpu_worker.py`, `gpu_model_runner.py`, `kv_cache_utils.py`); docs/planner.md has a table.
`_LINES`, at the end, says which lines are read, and by what. Lines are untrusted; `logs` cuts them
to a length that no pattern here takes long for.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from explorer.errors import ExplorerError
from explorer.planner.devices import MAX_COUNT, MAX_DEVICES, MAX_MEMORY
from explorer.planner.settings import PART_CACHE_TYPES, VLLM_CACHE_TYPES
from explorer.text import plain_text, shorten

_MOST_LOADS: Final = 16
_MOST_BUFFERS: Final = 4 * MAX_DEVICES
_LONGEST_NAME: Final = 80
_MOST_BUILDS: Final = 1 << 20
_USUALLY_DRAFTED: Final = 3  # tokens, where nothing says how many

WEIGHTS, CACHE, COMPUTE, OUTPUT, ADAPTER, PROJECTOR, PROJECTOR_COMPUTE = (
    *("weights", "cache", "compute", "output"),
    *("adapter", "projector", "projector compute"),
)
"""What a buffer holds."""

ACTIVATION, NON_TORCH, GRAPHS, GRAPHS_ESTIMATE, PROFILE, AVAILABLE = (
    *("activation", "non-torch", "graphs", "graphs estimate", "profile", "available"),
)
"""What vLLM's own profile tells of a GPU beside weights, and what it leaves for the cache."""

TOKENS, BLOCKS, REQUESTS, BLOCK = "tokens", "blocks", "requests", "block tokens"
"""What vLLM makes of its cache, counted."""

MODEL_BLOCKS, EMBEDDING, PARAMETERS, TENSOR_BYTES = (
    *("blocks", "embedding length", "parameters", "tensor bytes"),
)
"""What a log states of the model itself."""

Facts: TypeAlias = Mapping[str, tuple[int, int]]
"""The least and the greatest number that a fact of a model can be."""

VLLM: Final = "vLLM"

DRAFTED: Final = MappingProxyType(
    {kind: f"draft {kind}" for kind in (WEIGHTS, CACHE, COMPUTE, OUTPUT)}
)
"""The same of the context that drafts tokens (speculative decoding)."""


class LogError(ExplorerError):
    """A log that says nothing of memory, with what to do about it."""


@dataclass(frozen=True, slots=True)
class LoggedBuffer:
    """Bytes that one device holds of one kind."""

    device: str  # the program's name: "CUDA0", "CPU_Mapped", "RPC0[127.0.0.1:50061]"
    kind: str  # WEIGHTS, CACHE, …
    nbytes: int
    within: int  # the log rounds: the true size is at most so many bytes away


@dataclass(frozen=True, slots=True)
class LoggedDevice:
    """A GPU as the log tells of it. What it does not tell is None."""

    name: str  # "CUDA0"
    description: str = ""  # "NVIDIA GeForce RTX 4090"
    free: int | None = None  # before loading
    total: int | None = None
    free_after: int | None = None  # while the model was loaded
    unaccounted: int | None = None  # in use, but in no buffer; may be other programs'


@dataclass(frozen=True, slots=True)
class Measured:
    """One load of a model, as a log tells of it."""

    source: str  # "llama.cpp", "Ollama's own engine", "ollama ps" or VLLM
    # those fields of `llama_cpp.Settings` that the log tells; of vLLM those of `planner.Settings`
    settings: Mapping[str, Any]
    buffers: tuple[LoggedBuffer, ...] = ()
    devices: tuple[LoggedDevice, ...] = ()
    name: str = ""  # general.name, or the name in `ollama ps`
    architecture: str = ""
    stated: Facts = field(default_factory=dict)  # of the model; rounded numbers are ranges
    mapped: bool = False  # weights of main memory are a range of the file (mmap)
    total: int | None = None  # where only sums are told (`ollama ps`)
    on_gpus: int | None = None  # of that sum
    within: int = 0  # how far these two sums are rounded
    tokens_per_second: float | None = None  # the last generation
    depth: int | None = None  # tokens in the cache during it, in the middle
    counts: Mapping[str, float] = field(default_factory=dict)  # TOKENS, BLOCKS … of vLLM
    version: str = ""  # of vLLM
    others: tuple[str, ...] = ()  # what takes memory there that no plan of vLLM has

    def contradicted(self, known: Facts) -> str | None:
        """Return a stated fact that contradicts what is known of a model, if there is one."""
        for fact, (least, most) in self.stated.items():
            if fact in known and (most < known[fact][0] or least > known[fact][1]):
                return fact
        return None


@dataclass(frozen=True, slots=True)
class Log:
    """What was found in a log, the last load last."""

    loads: tuple[Measured, ...]
    starts: int = 0  # loads in the log; of many only the last ones are kept
    cut: bool = False  # whether part of the log was not read
    verbosity: int | None = None  # `-lv` of the last llama.cpp

    def load_of(
        self, architecture: str, name: str = "", known: Facts = MappingProxyType({})
    ) -> Measured:
        """Return the last load of a model with this architecture and name; else the last load.

        One that states other facts of its model than are `known` is not of this model.

        Raises:
            LogError: The log says nothing of memory.
        """
        if not self.loads:
            raise LogError(_silent(self.verbosity))
        alike = [
            one
            for one in self.loads
            if one.architecture in {"", architecture} and one.contradicted(known) is None
        ]
        named = [one for one in alike if name and one.name == name]
        return (named or alike or self.loads)[-1]


def _silent(verbosity: int | None) -> str:
    if verbosity is not None and verbosity < 4:
        return (
            f"this log was written at verbosity {verbosity}, which leaves out all lines on memory. "
            "Start llama-server with -lv 4 and compare that log"
        )
    return (
        "no line of this text says what was allocated; of llama-server a log written with -lv 4 "
        "is needed, of Ollama its server.log or what `ollama ps` prints, of vLLM what it prints "
        "while it starts"
    )


# Sizes and counts


_UNITS: Final = {
    "B": 1,
    **{f"{letter}iB": 1 << (10 * power) for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
}
_SIZE: Final = r"(?P<whole>[0-9]{1,15})(?:[.,](?P<fraction>[0-9]{1,6}))? ?(?P<unit>B|[KMGT]i?B)\b"


def _sized(match: re.Match[str]) -> tuple[int, int] | None:
    """Return a size and how far it may be rounded; None if no memory is so large."""
    whole, fraction, unit = match["whole"], match["fraction"] or "", _UNITS[match["unit"]]
    scale = 10 ** len(fraction)
    nbytes = int(whole + fraction) * unit // scale
    within = 0 if unit == 1 else unit // (2 * scale) + 1
    return (nbytes, within) if nbytes <= MAX_MEMORY else None


def _count(text: str | None, most: int = MAX_COUNT) -> int | None:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 15:
        return None
    return int(text) if int(text) <= most else None


def _range(text: str) -> tuple[int, int] | None:
    """Return what a size, or a number such as ``18`` and ``268.10 M``, can be before rounding."""
    match = _SHORT_COUNT.match(text.strip())
    if match is not None:
        part, unit = match[2] or "", _SHORT[match[3] or ""]
        number, within = int(match[1] + part) * unit, unit if part else 0
        return (number - within) // 10 ** len(part), (number + within) // 10 ** len(part)
    size = re.match(_SIZE, text)
    sized = None if size is None else _sized(size)
    return None if sized is None else (sized[0] - sized[1], sized[0] + sized[1])


def logged_name(text: str) -> str:
    """Return a name from a log, or one that such a name is compared with, safe to be shown."""
    return shorten(plain_text(text.strip()), _LONGEST_NAME)


# What a load has said so far


@dataclass(slots=True)
class _Load:
    """A load that is being read."""

    source: str = "llama.cpp"
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)  # of a command line, if any
    buffers: dict[tuple[str, str], LoggedBuffer] = field(default_factory=dict)
    breakdown: dict[tuple[str, str], LoggedBuffer] = field(default_factory=dict)
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)  # further fields of Measured
    stated: dict[str, tuple[int, int]] = field(default_factory=dict)
    header: bool = False  # whether the model's header was read
    drafting: bool = False  # whether the lines are of what drafts tokens
    offloaded: int | None = None  # layers on GPUs
    projector_device: str = "CPU"
    generated: int = 0

    def device(self, name: str) -> dict[str, Any]:
        """Return what is known of a device, to be added to."""
        if name not in self.devices and len(self.devices) >= MAX_DEVICES:
            return {}
        return self.devices.setdefault(name, {})

    def add(self, device: str, kind: str, size: tuple[int, int] | None, *, sums: bool) -> None:
        """Note a buffer: add it to what the device holds of its kind, or replace that."""
        key = (device, kind)
        if size is None or (key not in self.buffers and len(self.buffers) >= _MOST_BUFFERS):
            return
        nbytes, within = size
        before = self.buffers.get(key)
        if sums and before is not None:
            nbytes, within = before.nbytes + nbytes, before.within + within
        if nbytes <= MAX_MEMORY:
            self.buffers[key] = LoggedBuffer(device, kind, nbytes, within)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said of memory."""
        return not (self.buffers or self.breakdown or self.facts.keys() & {"total", "counts"})

    def finished(self) -> Measured:
        buffers = self.buffers or self.breakdown
        devices = tuple(LoggedDevice(name, **known) for name, known in self.devices.items())
        settings = self.arguments | self.settings
        others = settings.keys() - _OF_VLLM if self.source == VLLM else _OF_VLLM - _SHARED
        settings = {key: one for key, one in settings.items() if key not in {*others, "drafted"}}
        if self.offloaded is not None:
            settings["gpu_layers"] = self.offloaded
        return Measured(
            *(self.source, MappingProxyType(settings), tuple(buffers.values()), devices),
            stated=MappingProxyType(self.stated),
            **self.facts,
        )


# Lines → loads

_ENTRY: Final = re.compile(r"^ {0,40}(\w{1,30}) {0,40}= {0,20}([\w.-]{1,20})")
_TYPE: Final = re.compile(r"\b(K|V) \((\w{1,8})\)")
_FIGURE: Final = re.compile(r"-?[0-9]{1,12}")
_QUOTED_SIZE: Final = re.compile(r'size="?' + _SIZE)
_ATTRIBUTE: Final = re.compile(r'(\w{1,40})=(?:"([^"]{0,300})"|([^\s"]{1,300}))')
_REQUEST: Final = re.compile(r"\b(\w{1,30}):([\w-]{1,40})")
_SHARE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")

_KINDS: Final = {
    **{"model": WEIGHTS, "KV": CACHE, "RS": CACHE, "DSV4": CACHE},
    **{"compute": COMPUTE, "output": OUTPUT, "LoRA": ADAPTER},
}
_OLLAMA_KINDS: Final = {"model weights": WEIGHTS, "kv cache": CACHE, "compute graph": COMPUTE}
_FACTS: Final = {"general.architecture": "architecture", "general.name": "name"}
_SUMMARY: Final = "print_info: "
_STATED: Final = {
    **{"block_count": MODEL_BLOCKS, "n_layer": MODEL_BLOCKS, "n_layer_all": MODEL_BLOCKS},
    **{"embedding_length": EMBEDDING, "model params": PARAMETERS, "file size": TENSOR_BYTES},
}
_SHORT: Final = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_SHORT_COUNT: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}) ([KMBT]))?$")
_COUNTS: Final = {
    "n_ctx": "context",
    "n_batch": "batch",
    "n_ubatch": "ubatch",
    "n_seq_max": "parallel",
    "n_rs_seq": "mtp",
}
_SWITCHES: Final = {"flash_attn": "flash_attention", "kv_unified": "kv_unified"}
_ON: Final = dict.fromkeys(("1", "true", "enabled", "auto", "on"), True)
_ON_OR_OFF: Final = _ON | dict.fromkeys(("0", "false", "disabled", "off"), False)
_FLAGS: Final = {
    **dict.fromkeys(("-c", "--ctx-size"), "context"),
    **dict.fromkeys(("-np", "--parallel"), "parallel"),
    **dict.fromkeys(("-b", "--batch-size"), "batch"),
    **dict.fromkeys(("-ub", "--ubatch-size"), "ubatch"),
    **dict.fromkeys(("-ngl", "--n-gpu-layers", "--gpu-layers"), "gpu_layers"),
    **dict.fromkeys(("-ncmoe", "--n-cpu-moe"), "cpu_moe_layers"),
    **dict.fromkeys(("-ctk", "--cache-type-k"), "type_k"),
    **dict.fromkeys(("-ctv", "--cache-type-v"), "type_v"),
    **dict.fromkeys(("-ts", "--tensor-split"), "tensor_split"),
    **dict.fromkeys(("-fa", "--flash-attn"), "flash_attention"),
    "--spec-draft-n-max": "drafted",
}
_BARE_FLAGS: Final[Mapping[str, tuple[str, Any]]] = {
    **dict.fromkeys(("-nkvo", "--no-kv-offload"), ("offload_kv", False)),
    "--swa-full": ("swa_full", True),
    **dict.fromkeys(("-kvu", "--kv-unified"), ("kv_unified", True)),
    **dict.fromkeys(("-cmoe", "--cpu-moe"), ("cpu_moe_layers", 1024)),
}

_VLLM_NAMES: Final = MappingProxyType(
    {
        "max_model_len": "context",
        "max_seq_len": "context",
        "max_num_seqs": "parallel",
        "max_num_batched_tokens": "max_batched_tokens",
        "tensor_parallel_size": "tensor_parallel",
        "pipeline_parallel_size": "pipeline_parallel",
        "gpu_memory_utilization": "utilization",
        "kv_cache_memory_bytes": "kv_cache_memory",
        "kv_cache_dtype": "kv_dtype",
        "block_size": "block_size",
        "enforce_eager": "enforce_eager",
        "enable_prefix_caching": "prefix_caching",
        "async_scheduling": "async_scheduling",
    }
)
"""vLLM's name of a setting → ours."""

_OF_VLLM: Final = frozenset(_VLLM_NAMES.values())
_SHARED: Final = frozenset({"context", "parallel"})
_VLLM_SWITCHES: Final = frozenset({"enforce_eager", "prefix_caching", "async_scheduling"})
_VLLM_OTHERS: Final = (
    (re.compile(r"speculative[-_]config['\"]?[=: ]{1,3}(?!None)"), "a model that drafts tokens"),
    (re.compile(r"enable[-_]lora\b(?!['\"]?[=: ]{1,3}False)"), "LoRA adapters"),
    (re.compile(r"enable[-_]expert[-_]parallel\b(?!['\"]?[=: ]{1,3}False)"), "expert parallelism"),
    (re.compile(r"cpu[-_]offload[-_]gb['\"]?[=: ]{1,3}[1-9]"), "weights in main memory"),
    (re.compile("Encoder cache"), "the encoder of images or sound with its cache"),
)
_VLLM_SETTING: Final = re.compile(
    rf"\b({'|'.join(_VLLM_NAMES).replace('_', '[-_]')})\b['\"]?[=:\s]{{0,4}}['\"]?([\w.-]{{0,40}})"
)
_VLLM_RANK: Final = re.compile(
    r"(?:PP(?P<stage>[0-9]{1,3})_)?TP(?P<rank>[0-9]{1,3})\b|\brank=(?P<only>[0-9]{1,4})\b"
    r"|Worker(?!\w{0,20}TP)\w{0,20} pid=(?P<pid>[0-9]{1,9})"
)
_VLLM_PARTS: Final = (
    (WEIGHTS, "model weights take "),
    (NON_TORCH, "non_torch_memory takes "),
    (ACTIVATION, "activation peak memory takes "),
    (AVAILABLE, "reserved for KV Cache is "),
)


def _vllm_size(text: str) -> tuple[int, int]:
    """Return bytes and rounding of vLLM's "GiB", which early versions called GB."""
    fraction = text.partition(".")[2]
    return round(float(text) * (1 << 30)), (1 << 29) // 10 ** len(fraction) + 1


class LogParser:
    """Reads lines and keeps the loads that they tell of."""

    def __init__(self) -> None:
        self._now = _Load()
        self._done: deque[Measured] = deque(maxlen=_MOST_LOADS)
        self._verbosity: int | None = None
        self._build_number: int | None = None
        self._starts = 0
        self._in_table = False  # of `ollama ps`
        self._gpus: dict[str, str] = {}  # of Ollama: name → what people call it
        self.lines = 0

    def log(self, *, cut: bool = False) -> Log:
        """Return all loads so far."""
        self._end()
        return Log(tuple(self._done), self._starts, cut, self._verbosity)

    def line(self, text: str) -> None:
        """Read one line, without its end."""
        self.lines += 1
        if text.startswith("{"):
            for part in self._of_json(text):
                self._plain(part)
            return
        self._plain(_without_codes(text))

    def _of_json(self, text: str) -> Iterator[str]:
        """Yield the lines in a record of `--log-jsonl`; the record itself if it is none."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            yield text
            return
        if not isinstance(record, dict):
            return
        data, message = record.get("data"), record.get("msg")
        if record.get("type") == "fit_memory_breakdown" and isinstance(data, dict):
            self._breakdown_records(data.get("rows"))
        elif isinstance(message, str):
            yield from _without_codes(message).split("\n")

    def _plain(self, text: str) -> None:
        for word, pattern, read in _LINES:
            if word in text:
                match = pattern.search(text)
                if match is not None and not (self._now.drafting and read in _OF_MAIN):
                    read(self, match)
                return

    # Where a load ends and the next begins

    def _end(self) -> None:
        """Keep the load that was read, if it said anything, and begin another."""
        now = self._now
        if not now.is_empty:
            for device in dict.fromkeys(device for device, _ in now.buffers):
                if device in self._gpus:
                    now.device(device).setdefault("description", self._gpus[device])
            if self._build_number is not None:
                now.settings["build"] = self._build_number
            self._done.append(now.finished())
            self._starts += 1
        self._now = _Load()

    def _start(self, match: re.Match[str]) -> None:
        """A program starts."""
        before = self._now
        self._end()
        if before.is_empty:  # a command line that was pasted above its output
            self._now.arguments = before.arguments
        self._command(match)

    def _command(self, match: re.Match[str]) -> None:
        """Take settings from a command line; what the program says later outranks them."""
        found = _arguments(match.string.replace('"', " ").split())
        if found:
            if not self._now.is_empty:
                self._end()
            self._now.arguments = found

    def _model(self, _match: re.Match[str]) -> None:
        """A model's header was read."""
        before = self._now
        if before.buffers or "total" in before.facts:
            self._end()
        elif before.header:  # only its vocabulary was read, as Ollama does first
            self._now = _Load(devices=before.devices)
        self._now.arguments = before.arguments
        self._now.breakdown.clear()  # what `--fit` tried
        self._now.header = True

    # llama.cpp

    def _verbosity_line(self, match: re.Match[str]) -> None:
        self._verbosity = int(match[1])

    def _using_device(self, match: re.Match[str]) -> None:
        known = self._now.device(logged_name(match[1]))
        known["description"] = logged_name(match[2])
        known["free"] = int(match[3]) << 20

    def _metadata(self, match: re.Match[str]) -> None:
        key, value = match[1], logged_name(match[2])
        if key == "arch":
            key = "general.architecture"
        if key in _FACTS:
            self._now.facts[_FACTS[key]] = value
        else:  # "llama.block_count", not that of its projector, "llama.vision.block_count"
            self._state(_STATED.get(key.partition(".")[2]), match[2], match)

    def _summary(self, match: re.Match[str]) -> None:
        self._state(_STATED[match[1].strip()], match[2], match)

    def _state(self, fact: str | None, text: str, match: re.Match[str]) -> None:
        """Note a fact of the model."""
        now, stated = self._now, _range(text)
        if now.source == "llama.cpp" and any(kind == COMPUTE for _, kind in now.buffers):
            self._model(match)  # another model, of an excerpt without its header
        if fact is not None and stated is not None:
            self._now.stated[fact] = stated

    def _buffer(self, match: re.Match[str]) -> None:
        head, colon, tail = match.string[: match.start()].rpartition(": ")
        words, function = tail.split(), head.rsplit(None, 1)[-1:] or [""]
        if not colon or not 2 <= len(words) <= 6:
            return
        device, kind = logged_name(words[0]), _KINDS.get(words[1])
        if "clip" in function[0] or "compute_meta" in function[0]:
            kind = PROJECTOR_COMPUTE
        if kind is None:
            return
        if self._now.drafting:
            kind = DRAFTED.get(kind, kind)
        if kind == WEIGHTS and any(held == COMPUTE for _, held in self._now.buffers):
            self._model(match)  # another model, of an excerpt without its header
        if device.endswith("_Mapped"):
            self._now.facts["mapped"] = True
        is_last = kind in {COMPUTE, DRAFTED[COMPUTE], PROJECTOR_COMPUTE}  # it is made anew
        self._now.add(device, kind, _sized(match), sums=not is_last)

    def _offload(self, match: re.Match[str]) -> None:
        self._state(MODEL_BLOCKS, str(int(match[2]) - 1), match)  # one is the output
        self._now.offloaded = int(match[1])

    def _draft(self, match: re.Match[str]) -> None:
        """What follows is of a second context: a draft model's, or that of the model's own MTP."""
        now = self._now
        now.drafting = True
        for key in [key for key in now.buffers if key[1] in DRAFTED.values()]:
            del now.buffers[key]
        if match[0] == "creating MTP" and not now.settings.get("mtp"):
            now.settings["mtp"] = now.arguments.get("drafted", _USUALLY_DRAFTED)

    def _projector_device(self, match: re.Match[str]) -> None:
        self._now.projector_device = logged_name(match[1])

    def _projector(self, match: re.Match[str]) -> None:
        self._now.add(self._now.projector_device, PROJECTOR, _sized(match), sums=False)

    def _build(self, match: re.Match[str]) -> None:
        number = _count(match[1], _MOST_BUILDS)
        if number:
            self._build_number = number

    def _slots(self, match: re.Match[str]) -> None:
        """Take what the server says of its sequences, at its start or once a model is loaded."""
        now = self._now
        target = now.arguments if now.is_empty else now.settings
        target.setdefault("parallel", int(match[1]))
        target.setdefault("kv_unified", match[2] == "true")

    def _sequences(self, match: re.Match[str]) -> None:
        """Take sequences and states that are kept for each from the summary of a cache."""
        settings = self._now.settings
        sequences = int(match["seqs"])
        settings.setdefault("parallel", sequences)
        if match["streams"] and sequences > 1:
            settings.setdefault("kv_unified", int(match["streams"]) == 1)
        if match["states"] and int(match["states"]):
            settings["mtp"] = int(match["states"])
        self._cache_types(match)

    def _context(self, _match: re.Match[str]) -> None:
        """A context is made; what an earlier one of this model held is gone."""
        now = self._now
        for key in [key for key in now.buffers if key[1] in {CACHE, COMPUTE, OUTPUT}]:
            del now.buffers[key]
        now.settings.clear()

    def _context_entry(self, match: re.Match[str]) -> None:
        head, colon, tail = match.string.rpartition(": ")
        entry = _ENTRY.match(tail)
        if not colon or entry is None or not head.endswith("llama_context"):
            return
        name, value, now = entry[1], entry[2], self._now
        if name in _COUNTS:
            setting, number = _COUNTS[name], _count(value)
            if name == "n_ctx" and setting in now.settings and not now.is_empty:
                self._context(match)  # of an excerpt
            if number is not None:
                now.settings[setting] = number
        elif name in _SWITCHES and value in _ON_OR_OFF:
            now.settings[_SWITCHES[name]] = _ON_OR_OFF[value]

    def _flash_attention(self, match: re.Match[str]) -> None:
        self._now.settings["flash_attention"] = match[1] == "enabled"

    def _full_windows(self, _match: re.Match[str]) -> None:
        self._now.settings["swa_full"] = True

    def _cache_types(self, match: re.Match[str]) -> None:
        for which, name in _TYPE.findall(match.string):
            if name in PART_CACHE_TYPES:
                self._now.settings[f"type_{which.lower()}"] = name

    # The table that `--fit` prints, and llama-server at its end; the last one counts

    def _breakdown(self, _match: re.Match[str]) -> None:
        self._now.breakdown.clear()

    def _breakdown_row(self, match: re.Match[str]) -> None:
        name, _, description = match[1].strip().partition(" (")
        figures = [int(figure) for figure in _FIGURE.findall(match[2])]
        if len(figures) == 7:
            total, free, _own, *held, unaccounted = figures
            self._device_row(name, description.rstrip(")"), total, free, unaccounted)
        elif len(figures) == 4:
            held = figures[1:]
        else:
            return
        self._held_row(name, held)

    def _breakdown_records(self, rows: object) -> None:
        self._now.breakdown.clear()
        for row in rows[:_MOST_BUFFERS] if isinstance(rows, list) else []:
            if not isinstance(row, dict) or not isinstance(row.get("name"), str):
                continue
            figures = [row.get(key) for key in ("model", "context", "compute")]
            if all(type(one) is int and 0 <= one < MAX_COUNT for one in figures):
                self._held_row(row["name"], figures)
            self._device_record(row)

    def _device_record(self, row: dict[str, Any]) -> None:
        total, free, other = (row.get(key) for key in ("total", "free", "unaccounted"))
        numbers = [one for one in (total, free, other) if type(one) is int and abs(one) < MAX_COUNT]
        if row.get("kind") == "device" and len(numbers) == 3:
            self._device_row(row["name"], str(row.get("description")), *numbers)

    def _device_row(self, name: str, text: str, total: int, free: int, unaccounted: int) -> None:
        known = self._now.device(logged_name(name))
        known.setdefault("description", logged_name(text))
        known["total"] = max(total, 0) << 20
        if self._now.buffers:  # the table that `--fit` prints before loading tells of nothing held
            known["free_after"] = max(free, 0) << 20
            known["unaccounted"] = unaccounted * (1 << 20)

    def _held_row(self, name: str, held: Iterable[Any]) -> None:
        table = self._now.breakdown
        for kind, mib in zip((WEIGHTS, CACHE, COMPUTE), held, strict=False):
            if len(table) < _MOST_BUFFERS and 0 <= mib < 1 << 40:
                device = logged_name(name)
                table[device, kind] = LoggedBuffer(device, kind, mib << 20, 1 << 20)

    # Speed

    def _speed(self, match: re.Match[str]) -> None:
        speed = float(match["speed"].replace(",", "."))
        if 0 < speed < 1e6:
            self._now.facts["tokens_per_second"] = speed
            self._now.generated = int(match.groupdict().get("tokens") or 0)

    def _depth(self, match: re.Match[str]) -> None:
        if "tokens_per_second" in self._now.facts:
            self._now.facts["depth"] = max(0, int(match[1]) - self._now.generated // 2)

    # Ollama

    def _ollama_buffer(self, match: re.Match[str]) -> None:
        """Read a line of Ollama's own engine: the last one of a kind and device counts."""
        given = _attributes(match.string)
        size, device = _QUOTED_SIZE.search(match.string), given.get("device")
        if size is None or device is None:
            return
        self._now.source = "Ollama's own engine"
        kind = _OLLAMA_KINDS.get(given.get("msg", ""))
        if kind is not None:
            self._now.add(logged_name(device), kind, _sized(size), sums=False)

    def _ollama_request(self, match: re.Match[str]) -> None:
        given, now = dict(_REQUEST.findall(match.string)), self._now
        if given.get("Operation") == "close":
            return
        now.buffers.clear()
        now.source = "Ollama's own engine"
        for name, setting in (
            ("Parallel", "parallel"),
            ("KvSize", "context"),
            ("BatchSize", "batch"),
        ):
            number = _count(given.get(name))
            if number:
                now.settings[setting] = number
        now.settings["ubatch"] = now.settings.get("batch", 512)
        now.settings["flash_attention"] = given.get("FlashAttention") == "Enabled"
        kind = given.get("KvCacheType", "")
        if kind in PART_CACHE_TYPES:
            now.settings |= {"type_k": kind, "type_v": kind}
        now.settings["gpu_layers"] = _count(given.get("GPULayers")) or 0

    def _ollama_model(self, match: re.Match[str]) -> None:
        given = _attributes(match.string)
        for key in ("architecture", "name"):
            self._now.facts[key] = logged_name(given.get(key, ""))

    def _ollama_gpu(self, match: re.Match[str]) -> None:
        """Read what Ollama says at its start of a GPU, which it calls as llama.cpp does."""
        given = _attributes(match.string)
        if len(self._gpus) < MAX_DEVICES:
            self._gpus[logged_name(given.get("name", ""))] = logged_name(
                given.get("description", "")
            )

    # vLLM

    def _vllm_arguments(self, match: re.Match[str]) -> None:
        """A server starts: what it was asked for."""
        if not self._now.is_empty:
            self._end()
        self._now.arguments |= _vllm_settings(match.string)
        self._vllm_others(match)

    def _vllm_engine(self, match: re.Match[str]) -> None:
        """An engine starts: the version, and all of its settings."""
        arguments = self._now.arguments
        if not self._now.is_empty:
            self._end()
        now = self._now
        now.source, now.arguments = VLLM, arguments
        now.facts["version"] = logged_name(match["version"])
        now.arguments |= _vllm_settings(match.string)
        if model := re.search(r"\bmodel='([^']{1,300})'", match.string):
            now.facts["name"] = logged_name(model[1])
        self._vllm_others(match)

    def _vllm_others(self, match: re.Match[str]) -> None:
        known = self._now.facts.get("others", ())
        found = [what for pattern, what in _VLLM_OTHERS if pattern.search(match.string)]
        self._now.facts["others"] = tuple(dict.fromkeys((*known, *found)))

    def _vllm_more(self, match: re.Match[str]) -> None:
        """Settings that vLLM chose by itself."""
        self._now.arguments = _vllm_settings(match.string) | self._now.arguments

    def _vllm_held(self, kind: str, text: str, match: re.Match[str]) -> None:
        """Note bytes of the GPU whose process wrote a line."""
        found = _VLLM_RANK.search(match.string)
        device = "" if found is None else found[0]
        now = self._now
        if (device, kind) in now.buffers and kind == WEIGHTS and "counts" in now.facts:
            self._end()  # another start, of an excerpt
            now = self._now
        now.source = VLLM
        now.add(device, kind, _vllm_size(text), sums=False)

    def _vllm_budget(self, match: re.Match[str]) -> None:
        found = _VLLM_RANK.search(match.string)
        total, _ = _vllm_size(match["total"])
        if 0 < total <= MAX_MEMORY:
            self._now.device("" if found is None else found[0])["total"] = total
        self._now.settings["utilization"] = float(match["share"])
        self._vllm_profile(match)

    def _vllm_profile(self, match: re.Match[str]) -> None:
        """Read what an early version told of all parts at once."""
        for kind, words in _VLLM_PARTS:
            if found := re.search(words + _GIB, match.string):
                self._vllm_held(kind, found[1], match)

    def _vllm_count(self, kind: str, text: str) -> None:
        now = self._now
        now.source = VLLM
        number = float(text.replace(",", ""))
        if number < MAX_COUNT:
            now.facts["counts"] = {**now.facts.get("counts", {}), kind: number}

    def _vllm_requests(self, match: re.Match[str]) -> None:
        self._vllm_count(REQUESTS, match[2])
        context = _count(match[1].replace(",", ""))
        if context:
            self._now.settings["context"] = context

    def _table_head(self, match: re.Match[str]) -> None:
        self._in_table = "NAME" in match.string

    def _table_row(self, match: re.Match[str]) -> None:
        """Read a row of `ollama ps`, once its head was seen."""
        size = _sized(match) if self._in_table else None
        if size is None:
            return
        self._end()
        on_cpu = int(match["cpu"] or 0) if match["all"] is None else 100 * (match["on"] == "CPU")
        now = self._now
        now.source = "ollama ps"
        now.facts |= {
            "name": logged_name(match["name"]),
            "total": size[0],
            "on_gpus": size[0] * (100 - min(on_cpu, 100)) // 100,
            "within": size[1] + (size[0] // 200 if 0 < on_cpu < 100 else 0),
        }
        context = _count(match["context"])
        if context:
            now.settings["context"] = context
        self._end()


_Reader: TypeAlias = Callable[[LogParser, re.Match[str]], None]


def _lines(
    words: Iterable[str], read: _Reader, pattern: str = ""
) -> list[tuple[str, re.Pattern[str], _Reader]]:
    return [(word, re.compile(pattern), read) for word in words]


def _held(kind: str) -> _Reader:
    """Return what notes the first group of a line of vLLM as bytes of a GPU."""
    return lambda parser, match: parser._vllm_held(kind, match[1], match)


def _counted(kind: str) -> _Reader:
    """Return what notes it as a number of tokens or blocks of the cache."""
    return lambda parser, match: parser._vllm_count(kind, match[1])


_SPEED: Final = r" {0,20}(?P<speed>[0-9]{1,9}(?:[.,][0-9]{1,6})?) "
_PS_ROW: Final = (
    r"^\s*(?P<name>\S{1,200}) +(?:[0-9a-f]{6,64}|-) +" + _SIZE + r" +"
    r"(?:(?P<cpu>[0-9]{1,3})%/[0-9]{1,3}% CPU/GPU|(?P<all>[0-9]{1,3})% (?P<on>GPU|CPU))"
    r"(?: +(?P<context>[0-9]{1,12})\b)?"
)

_GIB: Final = r"(-?[0-9]{1,9}(?:\.[0-9]{1,6})?) ?Gi?B"
_NUMBER: Final = r"([0-9][0-9,]{0,20})"

_LINES: Final = (
    *_lines([" LLM engine (v"], LogParser._vllm_engine, r"engine \(v(?P<version>[^)]{1,40})\)"),
    *_lines(["non-default args", "vllm serve "], LogParser._vllm_arguments),
    *_lines(
        ["total_gpu_memory ("],
        LogParser._vllm_budget,
        r"total_gpu_memory \((?P<total>[0-9]{1,6}(?:\.[0-9]{1,6})?) ?GiB\) x "
        r"gpu_memory_utilization \((?P<share>0\.[0-9]{1,6}|1\.0{1,6})\)",
    ),
    *_lines(["model weights take "], LogParser._vllm_profile),
    *_lines(["odel loading took ", "oading model weights took "], _held(WEIGHTS), "took " + _GIB),
    *_lines(["Available KV cache memory"], _held(AVAILABLE), "memory: " + _GIB),
    *_lines(["GPU KV cache size"], _counted(TOKENS), f"size: {_NUMBER} tokens"),
    *_lines(["# GPU blocks", "# CUDA blocks", "# cuda blocks"], _counted(BLOCKS), f"s: {_NUMBER}"),
    *_lines(
        ["Maximum concurrency for "],
        LogParser._vllm_requests,
        rf"for {_NUMBER} tokens per request: ([0-9]{{1,9}}(?:\.[0-9]{{1,6}})?)x",
    ),
    *_lines(["etting attention block size to "], _counted(BLOCK), f"size to {_NUMBER} tokens"),
    *_lines(["Graph capturing finished"], _held(GRAPHS), "took " + _GIB),
    *_lines(["Estimated CUDA graph memory"], _held(GRAPHS_ESTIMATE), "memory: " + _GIB),
    *_lines(["--gpu-memory-utilization=", "max_num_batched_tokens="], LogParser._vllm_more),
    *_lines(["Encoder cache will"], LogParser._vllm_others),
    *_lines(
        ["using n_parallel = ", "n_slots = "],
        LogParser._slots,
        r"(?:n_parallel|n_slots) = ([0-9]{1,6})\b.{0,80}kv_unified = '?(true|false)",
    ),
    *_lines(["build_info: "], LogParser._build, r"build_info: b?([0-9]{3,7})\b"),
    *_lines(["build: "], LogParser._build, r"^\W{0,40}build: ([0-9]{3,7}) \("),
    *_lines(
        ["loading draft model", "creating MTP"],
        LogParser._draft,
        "loading draft model|creating MTP",
    ),
    *_lines(["CLIP using "], LogParser._projector_device, r"CLIP using (\S{1,40}) backend"),
    *_lines(["load_hparams: model size"], LogParser._projector, r"model size: {0,20}" + _SIZE),
    *_lines(
        [" seqs"],
        LogParser._sequences,
        r"\b(?P<seqs>[0-9]{1,6})(?:/ {0,4}(?P<streams>[0-9]{1,6}))? seqs"
        r"(?: {1,4}(?P<states>[0-9]{1,4}) rs_seq)?",
    ),
    *_lines(["memory breakdown ["], LogParser._breakdown),
    *_lines(
        ["memory_breakdown"],
        LogParser._breakdown_row,
        r"\| *- ([^|]{1,300})\|([-0-9 =+()]{1,400})\|?\s*$",
    ),
    *_lines([" buffer size"], LogParser._buffer, r" buffer size {1,20}= {0,20}" + _SIZE),
    *_lines(["offloaded "], LogParser._offload, r"offloaded ([0-9]{1,6})/([0-9]{1,6}) layers"),
    *_lines(["loaded meta data"], LogParser._model),
    *_lines(
        [f"{_SUMMARY}arch ", f"{_SUMMARY}general.name "],
        LogParser._metadata,
        _SUMMARY + r"(\S{1,40}) {1,40}= (.{0,200})",
    ),
    *_lines(
        [f"{_SUMMARY}{name}" for name in ("n_layer", "model params", "file size")],
        LogParser._summary,
        _SUMMARY + r"(n_layer|n_layer_all|model params|file size) {1,40}= {0,20}(.{0,40})",
    ),
    *_lines(
        [*_FACTS, ".block_count", ".embedding_length"],
        LogParser._metadata,
        r"- kv {1,6}[0-9]{1,8}: {1,80}(\S{1,120}) (?:str|u32|u64|i32) {1,40}= (.{0,200})",
    ),
    *_lines(["constructing llama_context"], LogParser._context),
    *_lines(["Flash Attention"], LogParser._flash_attention, r"(enabled|disabled)\s*$"),
    *_lines(['msg="starting '], LogParser._start, "cmd="),
    *_lines(["llama_server: initializing"], LogParser._start),
    *_lines(
        ["llama-server -", "llama-cli -", "llama-server.exe -", "llama-cli.exe -"],
        LogParser._command,
    ),
    *_lines([*_COUNTS, *_SWITCHES], LogParser._context_entry),
    *_lines(["full-size SWA cache"], LogParser._full_windows),
    *_lines([" K ("], LogParser._cache_types),
    *_lines(
        ["using device "],
        LogParser._using_device,
        r"using device ([\w:]{1,40}) \(([^)]{0,200})\)(?: \([^)]{0,200}\))?"
        r" - ([0-9]{1,12}) MiB free",
    ),
    *_lines(["verbosity = "], LogParser._verbosity_line, r"verbosity = ([0-9]{1,3})"),
    *_lines(["stop processing"], LogParser._depth, r"n_tokens = {0,20}([0-9]{1,12})"),
    *_lines(
        ["tokens per second"],
        LogParser._speed,
        r"(?<!prompt )eval time = [^/]{0,80}/ {0,20}(?P<tokens>[0-9]{1,12}) (?:runs|tokens) "
        r"[^,]{0,80}," + _SPEED + "tokens per second",
    ),
    *_lines(["tokens/s"], LogParser._speed, r"(?<!prompt )eval rate:" + _SPEED + "tokens/s"),
    *_lines([" t/s"], LogParser._speed, r"(?:Generation:|tg =)" + _SPEED + "t/s"),
    *_lines([f'msg="{name}"' for name in _OLLAMA_KINDS], LogParser._ollama_buffer),
    *_lines(["msg=load request"], LogParser._ollama_request),
    *_lines([" architecture="], LogParser._ollama_model),
    *_lines(['msg="inference compute"'], LogParser._ollama_gpu),
    *_lines(["PROCESSOR"], LogParser._table_head),
    *_lines(["% GPU", "% CPU"], LogParser._table_row, _PS_ROW),
)
"""The first of these words that a line holds says how it is read: pattern and method."""

_OF_MAIN: Final = frozenset(
    {
        *(LogParser._model, LogParser._metadata, LogParser._summary, LogParser._offload),
        LogParser._sequences,
        *(LogParser._context, LogParser._context_entry, LogParser._flash_attention),
        LogParser._cache_types,
    }
)
"""What is read of the main context alone: the one that drafts tokens follows it."""

WORDS: Final = tuple(word.encode() for word, _, _ in _LINES)
"""A line that says anything has one of these words."""

_CODES: Final = re.compile(r"\x1b\[[0-9;?]{0,30}[@-~]|[\x00\r\x1b]")


def _without_codes(text: str) -> str:
    """Return a line without colours and what else acts on a terminal."""
    return _CODES.sub("", text) if "\x1b" in text or "\x00" in text or "\r" in text else text


def _attributes(text: str) -> dict[str, str]:
    return {key: quoted or bare for key, quoted, bare in _ATTRIBUTE.findall(text)}


def _vllm_settings(text: str) -> dict[str, Any]:
    """Return the settings that a line of vLLM names, in any of its notations."""
    found: dict[str, Any] = {}
    for name, given in _VLLM_SETTING.findall(text):
        setting, value = _VLLM_NAMES[name.replace("-", "_")], given.rstrip(".")
        if setting in found or value == "None":
            continue
        if setting in _VLLM_SWITCHES:
            found[setting] = _ON_OR_OFF.get(value.lower(), True)
        elif setting == "kv_dtype":
            found |= {setting: value} if value in VLLM_CACHE_TYPES else {}
        elif setting == "utilization":
            share = float(value) if _SHARE.fullmatch(value) else 0.0
            found |= {setting: share} if 0 < share <= 1 else {}
        elif number := _count(value):
            found[setting] = number
    return found


def _arguments(words: list[str]) -> dict[str, Any]:
    """Return the settings in the arguments of a program; what cannot be read is left out."""
    found: dict[str, Any] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, _, joined = word.partition("=")
        value, setting = joined or following, _FLAGS.get(flag, "")
        if flag in _BARE_FLAGS:
            name, switched = _BARE_FLAGS[flag]
            found[name] = switched
        elif setting == "flash_attention":
            found[setting] = _ON_OR_OFF.get(value, True)
        elif setting == "tensor_split":
            shares = [share for share in value.split(",")[:MAX_DEVICES] if _SHARE.fullmatch(share)]
            found[setting] = tuple(map(float, shares)) or None
        elif setting in {"type_k", "type_v"}:
            found |= {setting: value} if value in PART_CACHE_TYPES else {}
        elif setting:
            number = 999 if value == "all" else _count(value)
            found |= {} if number is None else {setting: number}
    return found
