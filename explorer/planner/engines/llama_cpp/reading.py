"""What one token reads of weights and cache, by the device that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from explorer.formats.model import Model
from explorer.planner.devices import CPU
from explorer.planner.engines.llama_cpp.allocation import Settings, allocate
from explorer.planner.engines.llama_cpp.header import Header, Weights

_INPUT: Final = "token_embd.weight"
_OUTPUT: Final = "output.weight"
_ROWS_ONLY: Final = ("token_embd", "per_layer_token_embd", "position_embd", "token_types")
_STACKED: Final = "_exps"


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

    # of no architecture: what is read is the same whatever is computed with it
    return replace(header, architecture="", tensors=tuple(read()))


def _reading(tensor: Weights, nbytes: int) -> Weights:
    """Return the tensor with the bytes that are read of it, wherever it lies."""
    return replace(tensor, on_gpu=nbytes, on_host=nbytes, row_padding=0)


def reads(read: Header, settings: Settings, depth: int) -> Mapping[str, int]:
    """Return the bytes that a token of one sequence reads on ``"GPU0"`` … and on `CPU`.

    Args:
        read: What `read_header` gives.
        settings: Which layers lie where, and the types of the cache.
        depth: Tokens in the cache, which llama.cpp reads in steps of 256. Windows cap it.

    Raises:
        PlanError: llama.cpp would refuse these settings.
    """
    alone = replace(
        settings,
        context=max(depth, 1),
        parallel=1,
        batch=1,
        ubatch=1,
        kv_unified=False,
        mtp=0,
        library="CUDA",  # the bytes that are read are the same everywhere
        draft=None,  # what drafting reads is left out, which keeps this a bound
    )
    if depth == 0:  # recurrent states are read all the same
        read = replace(read, cached=(False,) * read.blocks, index_lengths=(0,) * read.blocks)
    found, on_cpu = dict[str, int](), 0
    for name, buffer in allocate(read, alone, with_compute=False).buffers.items():
        if name.startswith("GPU"):
            found[name] = buffer.weights + buffer.cache
        else:
            on_cpu += buffer.weights + buffer.cache
    return found | {CPU: on_cpu}
