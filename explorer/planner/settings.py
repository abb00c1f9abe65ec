"""What one can ask of a plan: each setting as data, and the values of all.

The fields of the window, the options of the command line, JSON and undo are made of these rows. An
engine lists those that it knows (`explorer.planner.plans.Engine.settings`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from explorer.errors import PlanError
from explorer.planner.devices import MAX_BLOCKS, MAX_COUNT, MAX_DEVICES, MAX_MEMORY, quoted, whole

AUTOMATIC: Final = -1
"""The number of GPU layers that asks for as many as fit."""

MAX_PARALLEL: Final = 1 << 20
"""Most sequences at a time."""

USUAL_CONTEXT: Final = 8192
"""Tokens of a chat: what models are planned with where nothing else is said of them."""

CACHE_TYPES: Final = ("f32", "f16", "q8_0", "q4_0")
"""Types of the KV cache that every engine can be asked for, the largest first; f32 is a what-if."""

_MOST_LAYERS: Final = 1 << 31  # people write 999 for "all"


@dataclass(frozen=True, slots=True)
class Tokens:
    """A number of tokens, which people write as ``32k``."""

    def check(self, value: Any, noun: str) -> None:
        """Raise `PlanError` if a value is none."""
        whole(value, noun, MAX_COUNT)


@dataclass(frozen=True, slots=True)
class Count:
    """An integer.

    Attributes:
        least: The smallest.
        most: The largest.
        step: What the arrows of a field add.
        zero: Whether 0 is taken too, which leaves the choice open.
        auto: The number that stands for "as the engine likes"; None where there is none.
        layers: Whether layers are counted, of which one may ask for all.
        choices: The only numbers that an engine takes; empty where it takes all between.
    """

    least: int
    most: int
    step: int = 1
    zero: bool = False
    auto: int | None = None
    layers: bool = False
    choices: tuple[int, ...] = ()

    def check(self, value: Any, noun: str) -> None:
        """Raise `PlanError` if a value is none, or out of its limits."""
        whole(value, noun, self.most, min(self.least, 0) if self.zero else self.least)


@dataclass(frozen=True, slots=True)
class Bytes:
    """A size, which people write as ``512MiB``."""

    def check(self, value: Any, noun: str) -> None:
        """Raise `PlanError` if a value is none."""
        whole(value, noun, MAX_MEMORY)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some texts.

    Attributes:
        choices: The texts, from the largest to the smallest where they have an order.
        advice: What to do about another text; empty where an engine says so itself.
    """

    choices: tuple[str, ...]
    advice: str = ""

    def check(self, value: Any, noun: str) -> None:
        """Raise `PlanError` if a value is not text, or none that can be."""
        if self.advice and value not in self.choices:
            raise PlanError(f"{noun} {quoted(str(value))!r}: {self.advice}")
        if not isinstance(value, str):
            raise PlanError(f"the {noun} is not text. Use f16, q8_0 or q4_0")


@dataclass(frozen=True, slots=True)
class Switch:
    """On, off, or left to the engine.

    Attributes:
        only_on: What turning it on says, where it cannot be turned off, only left alone; else "".
    """

    only_on: str = ""

    def check(self, value: Any, noun: str) -> None:
        """Take everything: what is not false is true."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the GPUs, such as 3,1."""

    def check(self, value: Any, noun: str) -> None:
        """Raise `PlanError` if a value is not a list of shares, or all of them are 0."""
        parts = value if isinstance(value, (list, tuple)) and len(value) <= MAX_DEVICES else ()
        right = all(isinstance(one, (int, float)) and 0 <= one < MAX_COUNT for one in parts)
        if not right or not any(parts):
            raise PlanError(f"{noun} are numbers, such as 3,1, and not all of them 0")


@dataclass(frozen=True, slots=True)
class Ratio:
    """A part of a whole, above 0 and up to 1."""

    def check(self, value: Any, noun: str) -> None:
        """Raise `PlanError` if a value is none."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value <= 1:
            raise PlanError(f"{noun} is a number above 0 and up to 1, such as 0.9")


Kind: TypeAlias = Tokens | Count | Bytes | OneOf | Switch | Shares | Ratio


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Its name in `Settings`, in a plan's `effective` and in JSON.
        title: Label of its field, with a mnemonic; empty where only the command line has it.
        kind: What its values are.
        options: Its options of the command line.
        tip: What both say of it, without a full stop.
        more: What the options say behind it.
        default: What its field shows where nothing is asked for and no plan says what holds.
        advanced: Whether most people leave it alone.
        noun: What it is called in an error; its name where this is empty.
    """

    name: str
    title: str
    kind: Kind
    options: tuple[str, ...]
    tip: str = ""
    more: str = ""
    default: Any = None
    advanced: bool = False
    noun: str = ""

    def words(self, value: Any) -> list[str]:
        """Return the words of the command line that ask for a value; none for None."""
        if value is None:
            return []
        on, _, off = self.options[0].partition("/")
        if isinstance(self.kind, Switch):
            return [on] if value else [off] if off else []
        if isinstance(self.kind, Shares):
            return [on, ",".join(f"{share:g}" for share in value)]
        return [on, str(value)]


PART_CACHE_TYPES: Final = (
    "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1",
)  # fmt: skip
"""Types that llama.cpp stores keys, or values, as."""

VLLM_CACHE_TYPES: Final = (
    *("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"),
    *("int8_per_token_head", "fp8_per_token_head", "turboquant_4bit_nc", "nvfp4"),
)
"""Types of vLLM's KV cache; auto is the type of the weights, or what the model asks for."""

CONTEXT: Final = Setting(
    "context",
    "&Context",
    Tokens(),
    ("--context",),
    "Tokens of each request (llama.cpp: of all together), such as 32k or 1M",
    "0: automatic.",
    default=4096,
)
PARALLEL: Final = Setting(
    "parallel",
    "Re&quests at once (slots)",
    Count(1, MAX_PARALLEL, zero=True),
    ("--parallel",),
    "Requests that run at the same time, each with a context of its own",
    default=1,
    advanced=True,
)
KV_CACHE_TYPE: Final = Setting(
    "kv_cache_type",
    "&KV cache type",
    OneOf(CACHE_TYPES),
    ("--kv-cache-type",),
    "Type of the KV cache. f32 is a what-if: no server accepts it",
    default="f16",
    noun="KV cache type",
)
BATCH: Final = Setting(
    "batch",
    "&Batch",
    Count(1, MAX_COUNT, step=128, zero=True),
    ("--batch",),
    "Tokens of a prompt that are read at once",
    default=512,
    advanced=True,
)
FLASH_ATTENTION: Final = Setting(
    "flash_attention",
    "&Flash attention",
    Switch(),
    ("--flash-attention/--no-flash-attention",),
    "Flash attention. Auto uses it where the model and the devices allow it",
    advanced=True,
)
NUM_GPU: Final = Setting(
    "num_gpu",
    "&GPU layers",
    Count(AUTOMATIC, _MOST_LAYERS, auto=AUTOMATIC, layers=True),
    ("--num-gpu", "--gpu-layers"),
    "Layers to put on GPUs. Auto: the program decides",
    advanced=True,
    noun="number of GPU layers",
)
OVERHEAD: Final = Setting(
    "overhead",
    "Extra memory per GP&U",
    Bytes(),
    ("--overhead",),
    "Extra memory to keep free on each GPU, such as 512MiB or 1 GiB",
    default=0,
    advanced=True,
)
SPREAD: Final = Setting(
    "spread",
    "S&plit over GPUs",
    Switch(only_on="all GPUs"),
    ("--spread",),
    "Split the model over all GPUs, not as few as possible",
    default=False,
    advanced=True,
)
UBATCH: Final = Setting(
    "ubatch",
    "Micr&o-batch",
    Count(1, MAX_COUNT, step=128),
    ("--ubatch",),
    "Tokens computed at once, at most a batch. A larger one needs larger compute buffers",
    default=512,
    advanced=True,
)
KV_UNIFIED: Final = Setting(
    "kv_unified",
    "O&ne cache for all requests",
    Switch(),
    ("--kv-unified/--no-kv-unified",),
    "Whether all requests share one KV cache",
    advanced=True,
)
CACHE_TYPE_K: Final = Setting(
    "cache_type_k",
    "",
    OneOf((*PART_CACHE_TYPES, *VLLM_CACHE_TYPES)),
    ("--cache-type-k",),
    "Type of cached keys: f16, q8_0, q4_0 … With vLLM of the whole cache: auto or fp8",
    noun="KV cache type",
)
CACHE_TYPE_V: Final = Setting(
    "cache_type_v",
    "",
    OneOf(PART_CACHE_TYPES),
    ("--cache-type-v",),
    "Type of cached values",
    noun="KV cache type",
)
TENSOR_SPLIT: Final = Setting(
    "tensor_split",
    "Tensor sp&lit",
    Shares(),
    ("--tensor-split",),
    "Layers of each GPU, such as 12,20",
    "Default: by free memory.",
    advanced=True,
    noun="shares of the GPUs",
)
CPU_MOE_LAYERS: Final = Setting(
    "cpu_moe_layers",
    "E&xperts on CPU",
    Count(0, MAX_COUNT, auto=0, layers=True),
    ("--cpu-moe",),
    "Layers whose experts stay on the CPU, counted from the first. Auto: the program decides",
    advanced=True,
    noun="number of layers with experts on the CPU",
)
SPLIT_MODE: Final = Setting(
    "split_mode",
    "",
    OneOf(
        ("layer", "none"),
        advice="use layer or none: CUDA has no split buffers for row, and what tensor allocates is "
        "unknown",
    ),
    ("--split-mode",),
    "How layers are split over GPUs. none: the first GPU alone",
    noun="split mode",
)
OFFLOAD_KV: Final = Setting(
    "offload_kv", "", Switch(), ("--kv-offload/--no-kv-offload",), "Keep the KV cache on GPUs"
)
SWA_FULL: Final = Setting(
    "swa_full",
    "",
    Switch(only_on="whole"),
    ("--swa-full",),
    "Cache the full context for sliding windows, too",
)
RESERVE: Final = Setting(
    "reserve",
    "",
    Bytes(),
    ("--reserve",),
    "Memory of each GPU for the driver and other programs. Not set: a range from public logs",
)
MARGIN: Final = Setting(
    "margin",
    "",
    Bytes(),
    ("--margin",),
    "Memory that llama.cpp leaves free on each GPU when it places layers",
    "Default: 1GiB.",
)

PROGRAM: Final = Setting(
    "program",
    "P&rogram",
    OneOf(("llama-server", "LM Studio", "KoboldCpp", "llama-cpp-python", "other")),
    ("--program",),
    "What loads the model: it decides batch and logits where you leave them alone",
    default="llama-server",
    advanced=True,
)
MTP: Final = Setting(
    "mtp",
    "",
    Count(0, 1024, auto=0),
    ("--mtp",),
    "Tokens that the model's own MTP layers draft (speculative decoding). Auto is off",
    default=0,
    noun="number of drafted tokens",
)
DRAFT_MAX: Final = Setting(
    "draft_max",
    "",
    Count(1, 1024),
    ("--draft-max",),
    "Tokens that the model of --draft drafts",
    "Default: 3.",
    noun="number of drafted tokens",
)
ALL_LOGITS: Final = Setting(
    "all_logits",
    "",
    Switch(only_on="reserve"),
    ("--all-logits",),
    "Reserve logits of the whole micro-batch, as programs do that are not llama-server",
    default=False,
)
BUILD: Final = Setting(
    "build",
    "Bu&ild",
    Count(1, 1 << 20),
    ("--build",),
    "Number of the build of llama.cpp, such as 9849. Not set: the newest known",
    "own: ask your llama-server.",
    default=11434,
    advanced=True,
)

KV_DTYPE: Final = Setting(
    "kv_dtype",
    "KV &data type",
    OneOf(VLLM_CACHE_TYPES),
    ("--kv-cache-dtype",),
    "Type of vLLM's KV cache; auto is the type of the weights",
    default="auto",
    noun="KV cache type",
)
TENSOR_PARALLEL: Final = Setting(
    "tensor_parallel",
    "&Tensor parallel",
    Count(1, MAX_BLOCKS),
    ("--tensor-parallel",),
    "GPUs that share each layer",
    "Default: 1.",
    default=1,
)
UTILIZATION: Final = Setting(
    "utilization",
    "Ut&ilization",
    Ratio(),
    ("--utilization",),
    "Part of each GPU's memory that vLLM takes; what weights leave of it is the cache",
    "Default: 0.92.",
    default=0.92,
)
PIPELINE_PARALLEL: Final = Setting(
    "pipeline_parallel",
    "Pipeline par&allel",
    Count(1, MAX_BLOCKS),
    ("--pipeline-parallel",),
    "Stages of layers, each on GPUs of its own",
    "Default: 1.",
    default=1,
    advanced=True,
)
MAX_BATCHED_TOKENS: Final = Setting(
    "max_batched_tokens",
    "Tok&ens of a step",
    Count(1, MAX_COUNT, step=512),
    ("--max-batched-tokens",),
    "Most tokens of one step; what vLLM measures before it starts follows it",
    "Default: by the GPU.",
    default=2048,
    advanced=True,
)
ENFORCE_EAGER: Final = Setting(
    "enforce_eager",
    "CUDA grap&hs",
    Switch(only_on="none"),
    ("--enforce-eager",),
    "Capture no CUDA graphs, which leaves some hundred MiB more for the cache",
    default=False,
    advanced=True,
)
KV_CACHE_MEMORY: Final = Setting(
    "kv_cache_memory",
    "",
    Bytes(),
    ("--kv-cache-memory",),
    "Bytes of vLLM's KV cache on each GPU; the utilization then says nothing",
)
BLOCK_SIZE: Final = Setting(
    "block_size", "", Count(1, MAX_COUNT), ("--block-size",), "Tokens of a block of vLLM's cache"
)
PREFIX_CACHING: Final = Setting(
    "prefix_caching",
    "",
    Switch(),
    ("--prefix-caching/--no-prefix-caching",),
    "Keep the cache of prompts for others that begin alike",
    "Default: on.",
)
ASYNC_SCHEDULING: Final = Setting(
    "async_scheduling",
    "",
    Switch(),
    ("--async-scheduling/--no-async-scheduling",),
    "Prepare the next step while one runs",
    "Default: on.",
)
HYBRID_CACHE: Final = Setting(
    "hybrid_cache",
    "",
    Switch(),
    ("--hybrid-kv-cache/--no-hybrid-kv-cache",),
    "Keep windows apart from full attention",
    "Default: on.",
)

KV_BITS: Final = Setting(
    "kv_bits",
    "KV &bits",
    Count(0, 1024, auto=0, choices=(2, 3, 4, 5, 6, 8)),
    ("--kv-bits",),
    "Bits of mlx-lm's quantized cache: 2, 3, 4, 5, 6 or 8. Auto is not quantized",
)
WIRED_LIMIT: Final = Setting(
    "wired_limit",
    "&Wired limit",
    Bytes(),
    ("--wired-limit",),
    "Memory that a Mac's GPU may have, as iogpu.wired_limit_mb sets it: 24GiB",
    "Default: by macOS.",
    advanced=True,
)
KV_GROUP_SIZE: Final = Setting(
    "kv_group_size",
    "",
    Count(1, MAX_COUNT),
    ("--kv-group-size",),
    "Values of mlx-lm's quantized cache that share a scale",
    "Default: 64.",
)
QUANTIZED_KV_START: Final = Setting(
    "quantized_kv_start",
    "",
    Tokens(),
    ("--quantized-kv-start",),
    "Tokens from which mlx-lm quantizes the cache",
    "Default: 5000.",
)
MAX_KV_SIZE: Final = Setting(
    "max_kv_size", "", Count(1, MAX_COUNT), ("--max-kv-size",), "Most tokens of mlx-lm's cache"
)

DTYPE: Final = Setting(
    "dtype",
    "&Data type",
    OneOf(("auto", "float32", "bfloat16", "float16")),
    ("--dtype",),
    "Type of weights and cache in transformers. Auto is the model's own",
    default="auto",
    noun="data type",
)
STATIC_CACHE: Final = Setting(
    "static_cache",
    "&Static cache",
    Switch(only_on="whole context at once"),
    ("--static-cache",),
    "Allocate the cache of the whole context at once",
    default=False,
    advanced=True,
)

SERVER_SETTINGS: Final = (
    *(CONTEXT, PARALLEL, KV_CACHE_TYPE, BATCH, FLASH_ATTENTION, NUM_GPU, OVERHEAD, SPREAD),
    *(UBATCH, KV_UNIFIED, CACHE_TYPE_K, CACHE_TYPE_V, TENSOR_SPLIT, CPU_MOE_LAYERS, SPLIT_MODE),
    *(OFFLOAD_KV, SWA_FULL, RESERVE, MARGIN, PROGRAM, MTP, DRAFT_MAX, ALL_LOGITS, BUILD),
)
"""The settings of llama.cpp's server and of what starts it."""

VLLM_SETTINGS: Final = (
    *(KV_DTYPE, TENSOR_PARALLEL, UTILIZATION, PIPELINE_PARALLEL, MAX_BATCHED_TOKENS),
    *(ENFORCE_EAGER, KV_CACHE_MEMORY, BLOCK_SIZE, PREFIX_CACHING, ASYNC_SCHEDULING, HYBRID_CACHE),
)
"""The settings of vLLM alone."""

VLLM_LOG_SETTINGS: Final = (CONTEXT, PARALLEL, *VLLM_SETTINGS)
"""What a log of vLLM may tell."""

MLX_SETTINGS: Final = (KV_BITS, WIRED_LIMIT, KV_GROUP_SIZE, QUANTIZED_KV_START, MAX_KV_SIZE)
"""The settings of mlx-lm alone."""

TRANSFORMERS_SETTINGS: Final = (DTYPE, STATIC_CACHE)
"""The settings of transformers alone."""

SETTINGS: Final = (*SERVER_SETTINGS, *VLLM_SETTINGS, *MLX_SETTINGS, *TRANSFORMERS_SETTINGS)
"""The settings of all engines, in the order of fields and options."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked for, by the names of `SETTINGS`; None leaves the choice to the engine.

    Attributes:
        require_full: Refuse what does not fit wholly, as if another model were loaded already.
        projector_bytes: Tensor bytes of a separate projector file.

    Raises:
        PlanError: A value is out of its limits.
    """

    context: int | None = None
    parallel: int | None = None
    batch: int | None = None
    kv_cache_type: str | None = None
    flash_attention: bool | None = None
    num_gpu: int | None = None
    overhead: int | None = None
    spread: bool | None = None
    require_full: bool = False
    projector_bytes: int = 0
    ubatch: int | None = None
    kv_unified: bool | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    tensor_split: tuple[float, ...] | None = None
    cpu_moe_layers: int | None = None
    split_mode: str | None = None
    offload_kv: bool | None = None
    swa_full: bool | None = None
    reserve: int | None = None
    margin: int | None = None
    program: str | None = None
    mtp: int | None = None
    draft_max: int | None = None
    all_logits: bool | None = None
    build: int | None = None
    kv_dtype: str | None = None
    tensor_parallel: int | None = None
    utilization: float | None = None
    pipeline_parallel: int | None = None
    max_batched_tokens: int | None = None
    enforce_eager: bool | None = None
    kv_cache_memory: int | None = None
    block_size: int | None = None
    prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    hybrid_cache: bool | None = None
    kv_bits: int | None = None
    wired_limit: int | None = None
    kv_group_size: int | None = None
    quantized_kv_start: int | None = None
    max_kv_size: int | None = None
    dtype: str | None = None
    static_cache: bool | None = None

    def __post_init__(self) -> None:
        for one in SETTINGS:
            if (value := getattr(self, one.name)) is not None:
                one.kind.check(value, one.noun or one.name)
        whole(self.projector_bytes, "projector", MAX_MEMORY)
        if self.tensor_split is not None:  # a saved file has them as a list
            object.__setattr__(self, "tensor_split", tuple(map(float, self.tensor_split)))

    def record(self) -> dict[str, Any]:
        """Return what was asked for, without what was left as it is."""
        values = {part.name: (getattr(self, part.name), part.default) for part in fields(self)}
        return {name: value for name, (value, left) in values.items() if value is not left}


MOST_LAYERS: Final = MAX_BLOCKS + 1
"""What "all" asks for where layers are counted."""
