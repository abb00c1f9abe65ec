"""How fast a model can generate at most: what a token reads, by the bandwidth it is read with.

No program can be faster, since every generated token reads the weights that take part in it and the
cache of all tokens before it, and devices that hold different layers work one after the other.
Real programs reach 0.4 to 0.8 of it (docs/planner.md). It is a bound, never a promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from explorer.formats.model import Model
from explorer.planner.engines.llama_cpp import Allocation, Header, Settings, allocate
from explorer.planner.engines.llama_cpp.header import Weights

CPU: Final = "CPU"

_INPUT: Final = "token_embd.weight"
_OUTPUT: Final = "output.weight"
_ROWS_ONLY: Final = ("token_embd", "per_layer_token_embd", "position_embd", "token_types")
_STACKED: Final = "_exps"


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """How fast one device reads its memory, and who says so."""

    device: str  # "GPU0" …, or `CPU`
    bytes_per_second: int | None  # None where it is not known
    origin: str  # "catalogue: NVIDIA GeForce RTX 4070", "you", …


@dataclass(frozen=True, slots=True)
class SpeedBound:
    """The most tokens a second at one depth."""

    depth: int  # tokens in the cache
    reads: Mapping[str, int]  # device → bytes that a token reads there
    bandwidths: tuple[Bandwidth, ...]  # of those devices

    @property
    def bytes_per_token(self) -> int:
        """Return what a token reads on all devices."""
        return sum(self.reads.values())

    @property
    def tokens_per_second(self) -> float | None:
        """Return the bound; None where the bandwidth of a device that is read is not known."""
        seconds = 0.0
        for one in self.bandwidths:
            if not one.bytes_per_second:
                return None
            seconds += self.reads[one.device] / one.bytes_per_second
        return 1 / seconds if seconds else None


def read_header(model: Model | Header) -> Header:
    """Return a model's header with those weights only that each token reads, in bytes.

    Of the input a token reads one row, which is nothing; a tied input is read as the output. Of the
    experts it reads those that are used.

    Raises:
        PlanError: The header is damaged.
    """
    header = model if isinstance(model, Header) else Header.from_model(model)

    def read() -> Iterator[Weights]:
        for tensor in header.tensors:
            if tensor.name == _INPUT and not header.has_output:
                yield _reading(replace(tensor, name=_OUTPUT, layer=header.blocks), tensor.stored)
            elif not tensor.name.startswith(_ROWS_ONLY):
                nbytes, experts = tensor.stored, tensor.extent[2]
                if _STACKED in tensor.name:
                    nbytes = nbytes * min(header.experts_used or experts, experts) // experts
                yield _reading(tensor, nbytes)

    # of no architecture, so that no compute buffer is worked out
    return replace(header, architecture="", tensors=tuple(read()))


def _reading(tensor: Weights, nbytes: int) -> Weights:
    """Return a tensor of which so many bytes are read, wherever it lies."""
    return replace(tensor, on_gpu=nbytes, on_host=nbytes, row_padding=0)


def speed_bound(
    read: Header, settings: Settings, bandwidths: Mapping[str, Bandwidth], depth: int
) -> SpeedBound:
    """Return how fast one sequence can grow at most.

    Args:
        read: What `read_header` gives.
        settings: Which layers lie where, and the types of the cache.
        bandwidths: Of each device ``"GPU0"`` …, and of `CPU`.
        depth: Tokens in the cache, which llama.cpp reads in steps of 256. Windows cap it.

    Raises:
        PlanError: llama.cpp would refuse these settings.
    """
    alone = replace(
        settings, context=max(depth, 1), parallel=1, batch=1, ubatch=1, kv_unified=False
    )
    if depth == 0:  # recurrent states are read all the same
        read = replace(read, cached=(False,) * read.blocks, index_lengths=(0,) * read.blocks)
    reads = dict(_reads(allocate(read, alone)))
    unknown = Bandwidth("", None, "not known")
    held = [name for name, nbytes in reads.items() if nbytes]
    return SpeedBound(
        depth,
        {name: reads[name] for name in held},
        tuple(replace(bandwidths.get(name, unknown), device=name) for name in held),
    )


def _reads(allocation: Allocation) -> Iterator[tuple[str, int]]:
    """Yield what is read on each GPU, and on the CPU."""
    on_cpu = 0
    for name, buffer in allocation.buffers.items():
        if name.startswith("GPU"):
            yield name, buffer.weights + buffer.cache
        else:
            on_cpu += buffer.weights + buffer.cache
    yield CPU, on_cpu


def speed_record(bound: SpeedBound, empty: SpeedBound) -> dict[str, Any]:
    """Return the ``speed_bound`` object of docs/interface.md.

    Args:
        bound: At the depth of the plan's context.
        empty: With nothing in the cache.
    """
    return {
        "tokens_per_second": bound.tokens_per_second,
        "bytes_per_token": bound.bytes_per_token,
        "bandwidth": [
            {
                "device": one.device,
                "bytes_per_second": one.bytes_per_second,
                "from": one.origin,
                "bytes_per_token": bound.reads[one.device],
            }
            for one in bound.bandwidths
        ],
        "depth": bound.depth,
        "empty": {
            "tokens_per_second": empty.tokens_per_second,
            "bytes_per_token": empty.bytes_per_token,
        },
    }
