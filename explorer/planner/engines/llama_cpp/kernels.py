"""For which heads each kind of device has a kernel of flash attention.

Read in builds 10605 to 11434: `ggml-cuda/fattn.cu` (`ggml_cuda_get_best_fattn_kernel`),
`ggml-vulkan.cpp` and `ggml-metal-device.m` (`supports_op`). llama.cpp left alone turns it off for
all layers if the device of one has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from explorer.planner.engines.llama_cpp.builds import Revision
    from explorer.planner.engines.llama_cpp.header import Header


class _Kernels(NamedTuple):
    lengths: Mapping[tuple[int, int], int]  # (key, value) → the queries of a key are a multiple
    shared: Mapping[tuple[int, int], int]  # the same, and there are so many at least
    types: frozenset[str]  # of the cache
    step: int = 0  # lengths that are a multiple of it are supported, too
    shorter_values: bool = False  # values may be shorter than keys
    alone: frozenset[str] = frozenset()  # types that keys and values have both or neither


_TYPES: Final = frozenset(("f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"))
_NONE: Final[Mapping[tuple[int, int], int]] = MappingProxyType({})


def _equal(*lengths: int) -> dict[tuple[int, int], int]:
    return {(length, length): 1 for length in lengths}


_CUDA: Final = _Kernels(
    lengths=MappingProxyType(
        _equal(40, 64, 72, 80, 96, 112, 128, 256) | {(192, 128): 8, (320, 256): 32}
    ),
    shared=MappingProxyType({(512, 512): 2, (576, 512): 2}),
    types=_TYPES,
)
_CUDA_BEFORE: Final = _CUDA._replace(  # as it is compiled by default
    types=frozenset(("f16", "bf16", "q8_0", "q4_0")), alone=_TYPES
)
_KERNELS: Final[Mapping[str, _Kernels]] = MappingProxyType(
    {
        "CUDA": _CUDA,
        "ROCm": _CUDA,  # compiled from the same sources
        "Vulkan": _Kernels(_NONE, _NONE, _TYPES | {"iq4_nl"}, step=8, alone=frozenset(("bf16",))),
        "Metal": _Kernels(
            MappingProxyType(_equal(32, 40, 48, 64, 72, 80, 96, 112, 128, 192, 256, 320, 512, 576)),
            _NONE,
            _TYPES,
            shorter_values=True,
            alone=_TYPES,
        ),
    }
)
_ALONE_72: Final = 72  # of Metal: the one length whose values are not shorter


def lacks_kernel(header: Header, library: str, types: tuple[str, str], revision: Revision) -> str:
    """Return why devices of a library have no kernel for a model; "" if they have, or if unknown.

    Args:
        header: The model.
        library: The library of the devices.
        types: Types of keys and of values in the cache.
        revision: What the build of llama.cpp does.
    """
    kernels = _kernels_of(library, revision)
    if kernels is None:
        return ""
    held = ("f16", "f16") if header.reads_at_once else types
    shapes = sorted(header.attention_shapes)
    return next(filter(None, (_lack(library, kernels, shape, held) for shape in shapes)), "")


def has_kernel(
    library: str, shape: tuple[int, int, int], types: tuple[str, str], revision: Revision
) -> bool:
    """Return whether a device has a kernel for keys, values and queries of a key of these lengths.

    Without one llama.cpp computes attention on the CPU, with copies of the cache in main memory.
    """
    kernels = _kernels_of(library, revision)
    return kernels is None or not _lack(library, kernels, shape, types)


def _kernels_of(library: str, revision: Revision) -> _Kernels | None:
    found = _KERNELS.get(library)
    return _CUDA_BEFORE if found is _CUDA and not revision.any_pair else found


def _lack(
    library: str, kernels: _Kernels, shape: tuple[int, int, int], types: tuple[str, str]
) -> str:
    cast = ["f16" if kind == "f32" else kind for kind in types]  # by the graph, before the kernel
    for kind in cast:
        if kind not in kernels.types:
            return f"{library} has no kernel for a cache of {kind}"
    if cast[0] != cast[1] and not kernels.alone.isdisjoint(cast):
        return f"{library} has no kernel for keys of {types[0]} with values of {types[1]}"
    key, value, queries = shape
    if _is_known(kernels, key, value, queries):
        return ""
    many = f"{queries} queries" if queries > 1 else "one query"
    return f"{library} has no kernel for keys of {key}, values of {value}, {many} for a key"


def _is_known(kernels: _Kernels, key: int, value: int, queries: int) -> bool:
    if kernels.step:
        return not (key % kernels.step or value % kernels.step)
    if (key, value) in kernels.shared:
        return queries >= kernels.shared[key, value]
    if kernels.shorter_values and value < key and key != _ALONE_72:
        value = key
    multiple = kernels.lengths.get((key, value))
    return multiple is not None and queries % multiple == 0
