"""What vLLM holds of a model's weights on each GPU, from the headers of its files.

docs/planner.md, section 17. Sources: vLLM 0.33.0, `model_executor/layers` (linear,
vocab_parallel_embedding, fused_moe, rotary_embedding, mla) and `quantization`.

Each tensor is divided along its outputs, its inputs, or not at all; which axis that is follows from
the last part of its name, and how, from the module before it. Both are tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from types import MappingProxyType
from typing import Final, NamedTuple

from explorer.errors import PlanError
from explorer.planner.devices import quoted
from explorer.planner.engines.vllm.architectures import Architecture, Rope
from explorer.planner.engines.vllm.cache import Run, architecture_of, stages
from explorer.planner.folder import Folder, StoredKind
from explorer.planner.layers import State, layer_kinds, mamba_groups, mamba_sizes


class Split(Enum):
    """How tensor parallelism divides a module."""

    OUTPUTS = auto()  # each GPU has a part of the outputs
    INPUTS = auto()  # each GPU has a part of the inputs
    KV_HEADS = auto()  # outputs, by key and value heads, which may be repeated
    QKV_HEADS = auto()  # queries, keys and values in one
    TOKENS = auto()  # by rows of the vocabulary, which is padded
    MAMBA_INPUT = auto()  # gate, inner, groups of B and C, and heads in one
    MAMBA_CONV = auto()  # inner, and groups of B and C
    WHOLE = auto()  # each GPU has all of it


_SPLITS: Final[Mapping[str, Split]] = MappingProxyType(
    {
        **dict.fromkeys(("q_proj", "q_b_proj", "kv_b_proj"), Split.OUTPUTS),
        **dict.fromkeys(("gate_proj", "up_proj", "gate_up_proj"), Split.OUTPUTS),
        **dict.fromkeys(("w1", "w3", "input_linear", "c_fc"), Split.OUTPUTS),
        **dict.fromkeys(("down_proj", "w2", "output_linear", "c_proj"), Split.INPUTS),
        **dict.fromkeys(("o_proj", "out_proj"), Split.INPUTS),
        **dict.fromkeys(("k_proj", "v_proj"), Split.KV_HEADS),
        "qkv_proj": Split.QKV_HEADS,
        **dict.fromkeys(("embed_tokens", "embeddings", "lm_head"), Split.TOKENS),
        **dict.fromkeys(("in_proj", "conv", "conv1d", "sinks"), Split.OUTPUTS),
        **dict.fromkeys(("in_proj_qkvz", "in_proj_ba", "in_proj_qkv"), Split.OUTPUTS),
        **dict.fromkeys(("in_proj_z", "in_proj_b", "in_proj_a"), Split.OUTPUTS),
        **dict.fromkeys(("A_log", "D", "dt_bias"), Split.OUTPUTS),
        **dict.fromkeys(("mamba.norm", "mixer.norm"), Split.OUTPUTS),
        **dict.fromkeys(("attn.qkv", "fc1", "linear_fc1", "mlp.0"), Split.OUTPUTS),  # of encoders
        **dict.fromkeys(("attn.proj", "fc2", "linear_fc2", "mlp.2"), Split.INPUTS),
        **dict.fromkeys(("mamba.in_proj", "mixer.in_proj"), Split.MAMBA_INPUT),
        **dict.fromkeys(("mamba.conv1d", "mixer.conv1d"), Split.MAMBA_CONV),
    }
)
"""Module → how it is divided; all others are whole on each GPU."""


class Axes(NamedTuple):
    """Where outputs and inputs are among the last two axes of a stored array; None: nowhere."""

    outputs: int | None
    inputs: int | None


_ROWS: Final = Axes(0, 1)
_COLUMNS: Final = Axes(1, 0)
_VECTOR: Final = Axes(0, None)

_AXES: Final[Mapping[str, Axes]] = MappingProxyType(
    {
        **dict.fromkeys(("weight", "weight_packed", "weight_scale", "weight_scale_inv"), _ROWS),
        **dict.fromkeys(("qweight", "qzeros", "scales"), _COLUMNS),
        **dict.fromkeys(("blocks", "weight_zero_point"), _ROWS),
        "bias": _VECTOR,
        "g_idx": Axes(None, 0),
        **dict.fromkeys(("weight_scale_2", "input_scale"), Axes(None, None)),
        **dict.fromkeys(("weight_global_scale", "input_global_scale"), Axes(None, None)),
        "weight_shape": Axes(None, None),
        **dict.fromkeys(("k_scale", "v_scale"), Axes(None, None)),
    }
)
"""Last part of a name → its axes."""

_LEFT_OUT: Final = ("weight_shape", "g_idx")
_UNQUANTIZED: Final = frozenset({"weight", "bias", ""})
_FLOATS: Final = frozenset({"F32", "F16", "BF16", "F64"})
_WIDE: Final = 2  # bytes of a weight in BF16 or F16
_VOCABULARY: Final = 64  # rows of the vocabulary come in multiples of this
_SCALES: Final = 16  # bytes of the four scales that each attention layer has
_NORMALIZER: Final = 2
_FREQUENCY_BYTES: Final = 4


class Format(Enum):
    """How the weights of linear layers are quantized, as far as vLLM changes them."""

    NONE = "none"
    GPTQ = "gptq"
    AWQ = "awq"
    FP8 = "fp8"
    FP8_BLOCK = "fp8, in blocks"
    CHANNEL = "one scale for each output"
    PACKED = "pack-quantized"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"


_METHODS: Final = {"gptq": Format.GPTQ, "awq": Format.AWQ, "mxfp4": Format.MXFP4}
_PACKINGS: Final = {
    "pack-quantized": Format.PACKED,
    "float-quantized": Format.CHANNEL,
    "int-quantized": Format.CHANNEL,
    "nvfp4-pack-quantized": Format.NVFP4,
}


_LOADED: Final = frozenset((
    "awq", "auto_awq", "fp8", "fbgemm_fp8", "fp_quant", "modelopt", "modelopt_fp4",
    "modelopt_mxfp8", "modelopt_mixed", "auto_gptq", "gptq", "gptq_marlin", "awq_marlin", "humming",
    "compressed-tensors", "experts_int8", "quark", "moe_wna16", "torchao", "inc", "auto-round",
    "mxfp4", "gpt_oss_mxfp4", "deepseek_v4_fp8", "mxfp8",
))  # fmt: skip
"""The methods of quantization that vLLM 0.33 itself loads (`quantization/__init__.py`)."""
_DEPRECATED: Final = frozenset({"fbgemm_fp8", "fp_quant"})
_PLUGINS: Final = {"bitsandbytes": "; its plugin vllm-bnb-plugin adds that"}


def format_of(folder: Folder) -> Format:
    """Return how a model is quantized.

    Raises:
        PlanError: What vLLM makes of that is not known, or vLLM refuses it.
    """
    config = folder.quantization
    if folder.is_mlx:
        raise PlanError("it is quantized for MLX, which vLLM does not load")
    if not config:
        return Format.NONE
    method = str(config.get("quant_method", "")).lower().replace("_tensors", "-tensors")
    if method == "gptq" and config.get("desc_act") and config.get("group_size", -1) != -1:
        raise PlanError(
            "GPTQ group activation ordering (desc_act=True) is no longer supported by vLLM; "
            "use a checkpoint with desc_act=False"
        )
    found = _METHODS.get(method)
    if method == "fp8":
        found = Format.FP8_BLOCK if config.get("weight_block_size") else Format.FP8
    elif method == "compressed-tensors":
        found = _PACKINGS.get(str(config.get("format")))
    elif method == "modelopt" and str(config.get("quant_algo")).upper() == "NVFP4":
        found = Format.NVFP4
    elif method == "modelopt" and str(config.get("quant_algo")).upper() == "FP8":
        found = Format.FP8
    if found is Format.MXFP4 and folder.model_type != "gpt_oss":
        found = None  # only its experts are laid out so
    if found is None:
        name = quoted(method)
        if method in _DEPRECATED:
            raise PlanError(
                f"vLLM refuses it: the quantization method {name} is deprecated; "
                "--allow-deprecated-quantization overrides that"
            )
        if method and method not in _LOADED:
            plugin = _PLUGINS.get(method, "")
            raise PlanError(f"vLLM refuses it: unknown quantization method {name}{plugin}")
        raise PlanError(f"what vLLM makes of weights quantized by {name} is not known here")
    return found


_LEAST_COMPUTE: Final = {Format.NONE: (0, 0), Format.GPTQ: (6, 0), Format.MXFP4: (8, 0)}
_LEAST: Final = (7, 5)  # of all other formats
_LEAST_OF_MODELOPT: Final = {Format.FP8: (8, 0)}


def least_compute(folder: Folder) -> tuple[int, int]:
    """Return the compute capability from which vLLM loads how a model is quantized."""
    found, method = format_of(folder), folder.quantization.get("quant_method")
    by_method = _LEAST_OF_MODELOPT if method == "modelopt" else {}
    return by_method.get(found, _LEAST_COMPUTE.get(found, _LEAST))


@dataclass(frozen=True, slots=True)
class WeightsPlan:
    """Bytes that each pipeline stage holds on each of its GPUs.

    Attributes:
        stages: All bytes, for each stage.
        layers: Bytes of the tensors of each layer.
        last: Bytes of the output, its norm included.
        tables: Bytes of rotary tables and scales, in `stages`.
    """

    stages: tuple[int, ...]
    layers: tuple[int, ...]
    last: int
    tables: tuple[int, ...]


def plan_weights(folder: Folder, run: Run) -> WeightsPlan:
    """Return what each GPU holds.

    Raises:
        PlanError: The architecture or the quantization is not known, or vLLM refuses to divide the
            model so.
    """
    return _Division(folder, run).plan()


class _Division:
    """How one model is divided."""

    def __init__(self, folder: Folder, run: Run) -> None:
        self.folder, self.run, self.tp = folder, run, run.tensor_parallel
        self.architecture: Architecture = architecture_of(folder)
        self.format = format_of(folder)
        self._check_heads()

    def _check_heads(self) -> None:
        heads, kv, tp = self.folder.heads, self.folder.kv_heads, self.tp
        if heads % tp:
            raise PlanError(
                f"total number of attention heads ({heads}) must be divisible by tensor parallel "
                f"size ({tp})"
            )
        if not self.architecture.latent and max(kv, tp) % min(kv, tp):
            raise PlanError(
                f"{kv} key and value heads can neither be divided among nor repeated on {tp} GPUs"
            )

    def plan(self) -> WeightsPlan:
        count = self.folder.layers
        layers, first, last, towers = [0] * count, 0, 0, 0
        for kind, times in self.folder.loaded():
            if self._is_left_out(kind):
                continue
            nbytes = self._bytes(kind) * times
            if kind.layer is not None:
                layers[kind.layer] += nbytes
            elif kind.role.startswith(_EMBEDDINGS):
                first += nbytes
            elif kind.role.startswith(_TOWERS):
                towers += nbytes
            else:
                last += nbytes
        for number, more in enumerate(self._more()):
            layers[number] += more
        parts = stages(count, self.run.pipeline_parallel)
        tables = tuple(map(self._tables, parts))
        totals = [
            sum(layers[part.start : part.stop]) + more
            for part, more in zip(parts, tables, strict=True)
        ]
        for number in range(len(parts)):
            is_last = number == len(parts) - 1
            if not number or self.architecture.everywhere or (is_last and self.folder.ties_output):
                totals[number] += first
            if is_last or self.architecture.everywhere:
                totals[number] += last
        totals[0] += towers  # Model Runner V2 has encoders there alone
        return WeightsPlan(tuple(totals), tuple(layers), last, tables)

    def _is_left_out(self, kind: StoredKind) -> bool:
        role = kind.role
        if role.endswith(_LEFT_OUT):
            return True
        is_fp8 = self.format is Format.FP8 and _EXPERTS in role
        if is_fp8 and role.endswith("up_proj.input_scale"):
            return True  # it is the one of the expert's gate
        marlin = self.format is Format.GPTQ and self.run.compute[0] != _HOPPER
        return marlin and role.endswith("qzeros") and _EXPERTS not in role

    def _bytes(self, kind: StoredKind) -> int:
        """Return the bytes of a tensor on one GPU."""
        module, suffix = _named(kind.role)
        if self.format is Format.MXFP4 and _EXPERTS in kind.role:
            return self._mxfp4(kind)
        size = self._element(kind, suffix)
        shape = list(kind.shape)
        stacked = len(shape) > 2 and "conv" not in module
        lead = 1 if stacked else 0
        axes = _AXES.get(suffix, _ROWS if len(shape) > lead + 1 else _VECTOR)
        if stacked and self.architecture.inputs_first:
            axes = _COLUMNS
        outputs, inputs = (None if axis is None else axis + lead for axis in axes)
        split = self._split(module)
        if kind.layer is None and kind.role.startswith(_TOWERS):  # with heads of its own
            split = Split.OUTPUTS if split in {Split.KV_HEADS, Split.QKV_HEADS} else split
            if any(length % self.tp for length in shape if length > 1):
                split = Split.WHOLE
        axis = inputs if split is Split.INPUTS else outputs
        if split is Split.WHOLE or axis is None or axis >= len(shape) or shape[axis] == 1:
            return round(prod(shape) * size)
        shape[axis] = self._part(split, shape[axis], kind)
        return round(prod(shape) * size)

    def _split(self, module: str) -> Split:
        """Return how a module is divided; "mixer.norm" is looked up before "norm"."""
        pair = ".".join(module.split(".")[-2:])
        return _SPLITS.get(pair) or _SPLITS.get(module.rpartition(".")[2], Split.WHOLE)

    def _element(self, kind: StoredKind, suffix: str) -> float:
        """Return the bytes of an element as vLLM holds it."""
        count = prod(kind.shape)
        stored = kind.nbytes / count if count else 0.0
        if kind.role.endswith(self.architecture.float32):
            return 2.0 * _WIDE
        if kind.type in _FLOATS and suffix in _UNQUANTIZED:
            return _WIDE
        if self.format is Format.CHANNEL and suffix == "weight_scale":
            return 2.0 * _WIDE  # held as float32
        return stored

    def _part(self, split: Split, length: int, kind: StoredKind) -> int:
        """Return the part of an axis that one GPU has; raise `PlanError` if it has none."""
        folder, tp = self.folder, self.tp
        if split is Split.TOKENS and kind.role.endswith("weight"):
            length = -(-length // _VOCABULARY) * _VOCABULARY
            whole, rest = divmod(length, tp)
        elif split is Split.KV_HEADS:
            whole, rest = divmod(length * max(1, folder.kv_heads // tp), folder.kv_heads)
        elif split is Split.QKV_HEADS:
            mine = folder.heads // tp + 2 * max(1, folder.kv_heads // tp)
            whole, rest = divmod(length * mine, folder.heads + 2 * folder.kv_heads)
        elif split in {Split.MAMBA_INPUT, Split.MAMBA_CONV}:
            _, _, size, groups = mamba_sizes(folder)
            shared = 2 * groups * size
            whole, rest = divmod(length - shared, tp)
            whole += 2 * mamba_groups(groups, tp) * size
        else:
            whole, rest = divmod(length, tp)
        if rest:
            what = quoted(kind.role.replace("*", "0"))
            raise PlanError(f"{length} rows or groups of {what} cannot be divided among {tp} GPUs")
        return whole

    def _mxfp4(self, kind: StoredKind) -> int:
        """Return the bytes of experts that are padded for a kernel; shapes as gpt-oss has them."""
        width, inner = self.folder.number("hidden_size"), self.folder.number("intermediate_size")
        inner, hidden = -(-inner // self.tp), width
        if self.run.compute[0] == _HOPPER:
            inner = _raised(inner, 64)
        else:
            inner, hidden = _raised(inner, 128), _raised(hidden, 256)
        up = "gate_up_proj" in kind.role
        outputs, inputs = (2 * inner, hidden) if up else (hidden, inner)
        experts = kind.shape[0] if kind.shape else 1
        if kind.role.endswith("blocks"):
            return experts * outputs * inputs // 2
        if kind.role.endswith("scales"):
            return experts * outputs * inputs // 32
        return experts * outputs * _WIDE

    def _more(self) -> Iterator[int]:
        """Yield the bytes that loading adds to each layer beyond its tensors."""
        folder, architecture = self.folder, self.architecture
        extra = [0] * folder.layers
        if architecture.latent:
            lengths = folder.number("qk_nope_head_dim") + folder.number("v_head_dim")
            heads = folder.heads // self.tp
            copies = heads * lengths * folder.number("kv_lora_rank") * _WIDE
            extra = [copies] * folder.layers
        if self.format is Format.FP8_BLOCK and self.run.compute[0] in _MARLIN_BLOCKS:
            for kind, times in folder.kinds.items():
                if kind.layer is not None and kind.layer < len(extra):
                    extra[kind.layer] += self._marlin_scales(kind) * times
        for number, modules in self._joined().items():
            extra[number] += modules
        yield from extra

    def _marlin_scales(self, kind: StoredKind) -> int:
        """Return what the scales of FP8 blocks grow by where Marlin repeats them for each row."""
        _, suffix = _named(kind.role)
        if suffix != "weight_scale_inv" or _EXPERTS in kind.role or len(kind.shape) != 2:
            return 0
        before = self._bytes(kind)
        block = _block(self.folder)
        return before * block // (2 * _WIDE) * _WIDE - before

    def _joined(self) -> Mapping[int, int]:
        """Return what small tensors of layers that are joined grow by, in each layer.

        NVFP4 then has four scalars for each, and packed weights keep their shape.
        """
        extra: dict[int, int] = {}
        if self.format not in {Format.NVFP4, Format.PACKED}:
            return extra
        packed = self.format is Format.PACKED
        joined: dict[int, set[str]] = {}
        for kind, times in self.folder.kinds.items():
            module, suffix = _named(kind.role)
            if kind.layer is None or kind.layer >= self.folder.layers or suffix not in _SCALARS:
                continue
            if _EXPERTS in kind.role:
                if packed and module.endswith(("down_proj", "w2")):  # of both stacks of experts
                    extra[kind.layer] = extra.get(kind.layer, 0) + 8 * times
                continue
            name = module.rpartition(".")[2]
            modules = joined.setdefault(kind.layer, set())
            modules.add(module.replace(name, _JOINED.get(name, name)))
            if not packed:
                extra[kind.layer] = extra.get(kind.layer, 0) - _FREQUENCY_BYTES
        for number, modules in joined.items():
            extra[number] = extra.get(number, 0) + len(modules) * _JOINED_BYTES
        return extra

    def _tables(self, part: range) -> int:
        """Return the bytes of buffers on a stage."""
        folder, architecture = self.folder, self.architecture
        kinds = layer_kinds(folder)
        attention = sum(kinds[layer] in {"full", "local"} for layer in part)
        nbytes = attention * _SCALES + rotary_bytes(folder, architecture)
        if architecture.normalizer:
            nbytes += _NORMALIZER
        if not part.start:
            nbytes += self._deep_features()
        if architecture.state is State.MAMBA2:
            heads, length, size, groups = mamba_sizes(folder)
            width = heads * length // self.tp + 2 * mamba_groups(groups, self.tp) * size
            states = sum(kinds[layer] == "state" for layer in part)
            nbytes += states * width * folder.number("mamba_d_conv", "conv_kernel") * _WIDE
        return nbytes

    def _deep_features(self) -> int:
        """Return the bytes kept for what middle layers of the encoder add to a step (deepstack)."""
        vision = self.folder.config.get("vision_config")
        levels = vision.get("deepstack_visual_indexes") if isinstance(vision, Mapping) else None
        if not isinstance(levels, list):
            return 0
        width = self.folder.number("hidden_size")
        return len(levels) * self.run.batched_tokens * width * _WIDE


_EMBEDDINGS: Final = ("embed_tokens", "embeddings", "wte")
_EXPERTS: Final = "experts"
_TOWERS: Final = ("vision", "visual", "audio", "multi_modal", "mm_", "image", "connector")
_HOPPER: Final = 9
_MARLIN_BLOCKS: Final = (8, 10)  # generations where vLLM chooses Marlin for FP8 blocks
_SCALARS: Final = frozenset(
    {"weight_global_scale", "input_global_scale", "weight_scale_2", "input_scale", "weight_shape"}
)
_JOINED_BYTES: Final = 16
_JOINED: Final = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj"), "qkv_proj"),
    **dict.fromkeys(("gate_proj", "up_proj"), "gate_up_proj"),
}
_FACTORS: Final = frozenset({"linear", "dynamic"})


def _raised(length: int, step: int) -> int:
    return -(-length // step) * step


def _named(role: str) -> tuple[str, str]:
    """Return the module and what of it a tensor is: ("self_attn.q_proj", "weight")."""
    for last in ("_blocks", "_scales", "_bias"):  # gpt-oss joins them
        if role.endswith(last) and _EXPERTS in role:
            return role.removesuffix(last), last[1:]
    module, _, suffix = role.rpartition(".")
    return (module, suffix) if suffix in _AXES else (role, "")


def _block(folder: Folder) -> int:
    """Return the rows of a block of FP8 weights."""
    block = folder.quantization.get("weight_block_size")
    first = block[0] if isinstance(block, list) and block else None
    if not isinstance(first, int) or not 0 < first <= 1 << 16:
        raise PlanError("weight_block_size of config.json is no pair of integers; it is damaged")
    return first


def rotary_bytes(folder: Folder, architecture: Architecture) -> int:
    """Return the bytes of rotary tables: one for each distinct setting, whole on each GPU."""
    text = folder.text
    if text.get("position_embedding_type") == "nope" or folder.model_type == "nemotron_h":
        return 0
    length = folder.head
    if architecture.latent:
        length = folder.number("qk_rope_head_dim")
    rotary = int(length * folder.share("partial_rotary_factor"))
    if architecture.rope is Rope.FREQUENCIES:
        local = "local" in layer_kinds(folder)
        return (1 + local) * 2 * (rotary // 2) * _FREQUENCY_BYTES
    size = 2 * _WIDE if architecture.rope is Rope.FLOAT32 else _WIDE
    positions = folder.number("max_position_embeddings")
    rows = _positions(folder, positions)
    if _has_local_rope(folder):
        rows += positions
    times = architecture.rope_times if "mrope_section" in folder.rope else 1
    return times * rows * rotary * size


def _positions(folder: Folder, positions: int) -> int:
    """Return the rows of the table of full attention."""
    rope = folder.rope
    kind = rope.get("rope_type", rope.get("type"))
    if kind in _FACTORS:
        return int(positions * folder.share("factor"))
    original = folder.number("original_max_position_embeddings", default=positions)
    if "original_max_position_embeddings" in rope:
        original = int(folder.share("original_max_position_embeddings"))
    if kind == "yarn":
        return int(original * folder.share("factor"))
    return original + positions if kind in {"longrope", "su"} else positions


def _has_local_rope(folder: Folder) -> bool:
    """Return whether layers with a window turn positions in another way (Gemma 3)."""
    parameters = folder.text.get("rope_parameters")
    nested = isinstance(parameters, Mapping) and "sliding_attention" in parameters
    differs = folder.text.get("rope_local_base_freq") is not None or nested
    return differs and "local" in layer_kinds(folder)
