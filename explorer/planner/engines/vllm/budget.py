"""What vLLM takes of a GPU beside weights and cache, and its defaults: docs/planner.md, section 17.

The peak of its profile run, CUDA graphs and what torch does not count are measured by vLLM itself.
They are ranges here, of logs that users posted (`vllm.md`, sections 5 and 6).
"""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

from explorer.errors import PlanError
from explorer.planner.devices import GIB, MIB, Device
from explorer.planner.engines.folders import CUDA_CONTEXT
from explorer.planner.folder import Folder
from explorer.planner.layers import inner_width
from explorer.planner.plans import Range
from explorer.text import integer_text

DEFAULT_UTILIZATION: Final = 0.92
"""Part of a GPU that vLLM 0.33 takes; older versions took 0.9."""

ASSUMED_COMPUTE: Final = (8, 9)
"""Compute capability of a GPU that nothing is known of: that of Ada Lovelace."""

_NO_BF16: Final = (8, 0)  # the first that computes with it
_SAMPLER_BYTES: Final = Range(32, 42)  # of a token of the vocabulary, for each sequence
_SAMPLER_PART: Final = 4
_INNER: Final = (2, 3)  # of a network's width, at both ends
_HIDDEN: Final = (4, 8)
_WIDE: Final = 2  # bytes of an activation
_NCCL: Final = Range(200 * MIB, 1536 * MIB)  # with several GPUs
_GRAPHS: Final = Range(100 * MIB, 800 * MIB)


class Tier(NamedTuple):
    """The defaults of `vllm serve` on GPUs with so much memory."""

    least: int  # bytes of the GPU
    batched_tokens: int  # of a step
    sequences: int  # at once


_TIERS: Final = (Tier(160 * GIB, 16_384, 1024), Tier(70 * GIB, 8192, 1024), Tier(0, 2048, 256))
_SPARK: Final = (12, 1)  # compute capability of a GB10, whose memory is the machine's


def tier_of(device: Device) -> Tier:
    """Return the defaults on a GPU."""
    if "a100" in device.name.lower() or device.compute == _SPARK:
        return _TIERS[-1]
    return next(tier for tier in _TIERS if device.capacity_bytes >= tier.least)


def compute_of(device: Device) -> tuple[int, int]:
    """Return the compute capability of a GPU, an assumed one where it is not known."""
    return device.compute or ASSUMED_COMPUTE


_REPORTED: Final = (
    *(("RTX 3090", 23.56), ("RTX 4090", 23.5), ("RTX 5090", 31.36)),
    *(("L40S", 44.42), ("A100", 79.25), ("H100", 79.2), ("H200", 139.8)),
)
"""GPUs whose driver reports less to CUDA than is sold under their name, and GiB: of logs."""

_SOLD_AS: Final = (1.001, 1.1)  # times what is reported: what is sold as the same GPU


def reported_bytes(device: Device) -> int:
    """Return all of a GPU's memory as CUDA reports it to vLLM."""
    for words, gib in _REPORTED:
        seen = round(gib * GIB)
        low, high = (seen * part for part in _SOLD_AS)
        if words in device.name and low < device.capacity_bytes < high:
            return seen
    return device.capacity_bytes


def requested(device: Device, utilization: float) -> int:
    """Return the bytes of a GPU that vLLM takes in all."""
    return ceil(reported_bytes(device) * utilization)


def check_card(folder: Folder, device: Device, least: tuple[int, int]) -> None:
    """Raise `PlanError` if a GPU cannot compute in the type of the weights, or as quantized.

    `least` is the compute capability from which vLLM loads the quantization.
    """
    kind = folder.text.get("dtype", folder.text.get("torch_dtype"))
    has = f"{device.label} has {_written(compute_of(device))}"
    if kind == "bfloat16" and compute_of(device) < _NO_BF16:
        raise PlanError(
            f"vLLM computes in bfloat16 from compute capability 8.0 on, and {has}; start it with "
            "--dtype half"
        )
    if compute_of(device) < least:
        raise PlanError(
            f"vLLM loads this quantization from compute capability {_written(least)} on, and {has}"
        )


def _written(compute: tuple[int, int]) -> str:
    return ".".join(map(str, compute))


_LONG_ROPES: Final = frozenset({"su", "longrope", "llama3", "mrope", "default", "proportional"})


def longest_context(folder: Folder) -> int:
    """Return the longest max_model_len that vLLM takes for a model."""
    most = folder.number("max_position_embeddings", "n_positions", "max_seq_len", least=1)
    kind = folder.rope.get("rope_type", folder.rope.get("type", "default"))
    if kind in _LONG_ROPES or folder.model_type.startswith("gemma3"):
        return most
    if kind == "yarn" and "original_max_position_embeddings" in folder.rope:
        most = int(folder.share("original_max_position_embeddings"))
    return max(1, int(most * folder.share("factor")))


def check_context(folder: Folder, asked: int) -> int:
    """Return a context; raise `PlanError` if vLLM does not take it."""
    most = longest_context(folder)
    if asked > most:
        raise PlanError(
            f"max_model_len ({integer_text(asked)}) is greater than the {integer_text(most)} "
            "tokens that config.json allows; VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 overrides that"
        )
    return asked


def activation(folder: Folder, sequences: int, batched_tokens: int, tensor_parallel: int) -> Range:
    """Return the peak of the profile run on each GPU, beside weights and cache.

    The sampler of all sequences and the network of a full step do not peak together, but how far
    they overlap is not known.
    """
    rows = min(sequences, batched_tokens) * folder.number("vocab_size", default=0)
    hidden, inner = folder.number("hidden_size", default=0), inner_width(folder)
    low, high = (
        batched_tokens * _WIDE * (wide * inner // tensor_parallel + narrow * hidden)
        for wide, narrow in zip(_INNER, _HIDDEN, strict=True)
    )
    least = max(rows * _SAMPLER_BYTES.low // _SAMPLER_PART, low)
    return Range(least, rows * _SAMPLER_BYTES.high + high)


NON_TORCH, GRAPHS = "non-torch", "graphs"


def parts(gpus: int, *, eager: bool) -> dict[str, Range]:
    """Return what CUDA with NCCL, and captured graphs take on each GPU."""
    low, high = CUDA_CONTEXT
    if gpus > 1:
        low, high = low + _NCCL.low, high + _NCCL.high
    return {NON_TORCH: Range(low, high), GRAPHS: Range(0, 0) if eager else _GRAPHS}


def other(gpus: int, *, eager: bool) -> Range:
    """Return the same as one figure."""
    both = parts(gpus, eager=eager).values()
    return Range(sum(one.low for one in both), sum(one.high for one in both))
