"""What is compiled ahead of need, by name: what all types need, what one needs, and what can wait.

Light, because the window asks: who compiles is `explorer.analysis.warming`.
"""

from __future__ import annotations

from typing import Final

from explorer.quantization.grouped import (
    AFFINE_BITS,
    AFFINE_GROUPS,
    FIXED_SIZES,
    GroupedLayout,
    Mode,
    quantization_name,
)
from explorer.quantization.registry import has_decoder

GENERAL: Final = "general"
"""The set that statistics and histograms of all types need."""

_LATER: Final = "-later"

_AFFINE: Final = [
    GroupedLayout(Mode.AFFINE, bits, AFFINE_GROUPS[1], "BF16", "BF16") for bits in AFFINE_BITS
]
_FIXED: Final = [GroupedLayout(mode, *sizes, "U8") for mode, sizes in FIXED_SIZES.items()]
_GROUPED: Final = {
    quantization_name(layout.mode, layout.bits): layout for layout in (*_AFFINE, *_FIXED)
}


def has_kernels(name: str) -> bool:
    """Tell whether there is a set of that name: `GENERAL`, a type, or either of them for later."""
    name = meant_by_later(name)
    return name == GENERAL or has_decoder(name) or name in _GROUPED


def grouped_layout(name: str) -> GroupedLayout | None:
    """Return the usual layout of a quantization whose scales are arrays of their own, by name."""
    return _GROUPED.get(name)


def later(name: str) -> str:
    """Return the name of what one looks at after the first histogram: blocks, maps, errors."""
    return name + _LATER


def is_later(name: str) -> bool:
    """Tell whether a set can wait until nobody waits for another one."""
    return name.endswith(_LATER)


def meant_by_later(name: str) -> str:
    """Return what `later` was asked for, or the name itself."""
    return name.removesuffix(_LATER)
