"""What is compiled ahead of need, by name: what all types need, what one needs, and what can wait.

Somebody waits for the first histogram, so what it takes is compiled first: to decode, to measure,
to count roughly. What makes it exact comes next, and everything else when nobody waits. What rounds
weights to a type is compiled when somebody asks what that would cost.

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
from explorer.quantization.registry import has_decoder, has_encoder, uses_importance

GENERAL: Final = "general"
"""The set that a first look at weights of any type needs."""

_EXACT: Final = "-exact"
_LATER: Final = "-later"
_ROUNDING: Final = "-rounding"
_WEIGHED: Final = "-weighed"

_AFFINE: Final = [
    GroupedLayout(Mode.AFFINE, bits, AFFINE_GROUPS[1], "BF16", "BF16") for bits in AFFINE_BITS
]
_FIXED: Final = [GroupedLayout(mode, *sizes, "U8") for mode, sizes in FIXED_SIZES.items()]
_GROUPED: Final = {
    quantization_name(layout.mode, layout.bits): layout for layout in (*_AFFINE, *_FIXED)
}


def has_kernels(name: str) -> bool:
    """Tell whether there is a set of that name: `GENERAL`, a type, what follows it, or rounding."""
    if is_rounding(name):
        rounded = rounds_to(name)
        known = has_encoder(rounded) or rounded in _GROUPED
        return known and name == rounding_to(rounded, weighed=is_weighed(name))
    name = meant_by(name)
    return name == GENERAL or has_decoder(name) or name in _GROUPED


def grouped_layout(name: str) -> GroupedLayout | None:
    """Return the usual layout of a quantization whose scales are arrays of their own, by name."""
    return _GROUPED.get(name)


def exact(name: str) -> str:
    """Return the name of what turns a first look into exact statistics and a final histogram."""
    return name + _EXACT


def later(name: str) -> str:
    """Return the name of what one looks at after that: blocks, maps, errors."""
    return name + _LATER


def rounding_to(name: str, *, weighed: bool = False) -> str:
    """Return the name of what rounds weights to a type; of an affine one with any group size.

    Args:
        name: The type.
        weighed: Whether columns count by importance. Where that changes nothing, nor does this.
    """
    name = name.partition("/")[0]
    rounding = name + _ROUNDING
    return rounding + _WEIGHED if weighed and uses_importance(name) else rounding


def rounds_to(name: str) -> str:
    """Return the type that `rounding_to` was asked for."""
    return name.removesuffix(_WEIGHED).removesuffix(_ROUNDING)


def is_rounding(name: str) -> bool:
    """Tell whether a set is what `rounding_to` names; nothing follows it."""
    return name.removesuffix(_WEIGHED).endswith(_ROUNDING)


def is_weighed(name: str) -> bool:
    """Tell whether a set is what rounds weights whose columns count by importance."""
    return name.endswith(_WEIGHED)


def is_exact(name: str) -> bool:
    """Tell whether a set is what `exact` names."""
    return name.endswith(_EXACT)


def is_later(name: str) -> bool:
    """Tell whether a set can wait until nobody waits for another one."""
    return name.endswith(_LATER)


def meant_by(name: str) -> str:
    """Return what `exact` or `later` was asked for, or the name itself."""
    return name.removesuffix(_EXACT).removesuffix(_LATER)


def urgency(name: str) -> int:
    """Return how long a set can wait: 0 for a first look, then 1 and 2."""
    return 2 if is_later(name) else int(is_exact(name) or is_rounding(name))
