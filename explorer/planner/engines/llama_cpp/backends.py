"""How devices of each library take memory: alignment, filled rows, scratch of operations.

Read in build 11434: `ggml-cuda.cu`, `ggml-vulkan.cpp`, `ggml-metal.cpp` and `ggml-metal-ops.cpp`
(`get_alignment`, `get_max_size`, `get_alloc_size`). All were run, ROCm as CUDA.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

_NEVER: Final = 1 << 62


class Scans(NamedTuple):
    """For which Mamba layers there is a kernel (`supports_op` of both libraries)."""

    state: int  # of Mamba 1, with a width that is a multiple of 128; 0: of none
    states: tuple[int, ...]  # of Mamba 2, with heads of a multiple of 16


class Backend(NamedTuple):
    """How devices of one library take memory; the defaults are those of CUDA."""

    alignment: int = 128  # of tensors on a device
    host_alignment: int = 32  # of tensors in its host buffer
    fills_rows: bool = True  # of quantized tensors, up to 512 weights
    # What attention and experts take beside their results: copies of a quantized cache in 16 bits,
    # what `ggml-metal-ops.cpp` adds to their tensors, or nothing
    scratch: Literal["copies", "metal", "none"] = "copies"
    piece: int = 0  # a compute buffer is made of pieces that are no larger; 0: of one
    broadcasts: bool = True  # multiplies a matrix with several sequences at a time
    wide_experts: bool = False  # multiplies those of experts with what does not fit into f16
    # of computation (`reordering`), or as the graph has it; "cuda": with what is fused (`fusing`)
    order: Literal["graph", "cuda", "vulkan", "metal"] = "cuda"
    compared_since: int = _NEVER  # the first build whose compute buffers are those of a real run
    scans: Scans | None = Scans(16, (96, 128, 256))  # None: of all

    @property
    def is_mac(self) -> bool:
        """Whether the host is a Mac, whose CPU and Accelerate leave little to the GPU (`metal`)."""
        return self.order == "metal"

    def knows(self, build: int, recurrent: str | int, *, usual: bool, is_whole: bool) -> bool:
        """Return whether the compute buffers of such a model are those of a build's real run.

        In another order than the graph's those of Mamba layers alone, with scans or a cache on the
        CPU, are not in all; nor with Vulkan those of attention with neither a kernel nor a cache of
        f16. A Mac's CPU was not run, so only what lies on its GPU as a whole is known.

        Args:
            usual: Whether attention has a kernel, or the cache is of f16.
            is_whole: Whether one GPU has all weights but the input's.
        """
        is_known = self.order == "cuda" or (
            recurrent != "all" and (is_whole if self.is_mac else usual)
        )
        return build >= self.compared_since and is_known


_CUDA: Final = Backend(compared_since=0)
_BACKENDS: Final[Mapping[str, Backend]] = MappingProxyType(
    {
        "CUDA": _CUDA,
        "ROCm": _CUDA,  # compiled from the same sources
        "Vulkan": Backend(
            alignment=16,
            host_alignment=64,
            fills_rows=False,
            scratch="none",
            piece=1 << 30,
            broadcasts=False,
            order="vulkan",
            compared_since=0,
            scans=Scans(0, (128, 256)),
        ),
        "Metal": Backend(
            alignment=32,
            fills_rows=False,
            scratch="metal",
            wide_experts=True,
            order="metal",
            compared_since=11434,  # before, products were not computed with what is added to them
            scans=None,
        ),
    }
)


def backend_of(library: str) -> Backend:
    """Return the rules of a library; of one that is not known, those of CUDA, not compared."""
    return _BACKENDS.get(library, Backend())
