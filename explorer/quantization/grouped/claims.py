"""What metadata and `config.json` say about the quantization of a weight; either may be wrong.

Source: `safetensors_and_blobs.md` section 3; mlx-lm, `load_model` (the entries of single modules).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from explorer.quantization.grouped.layout import (
    AFFINE_BITS,
    FIXED_SIZES,
    GroupedLayout,
    Mode,
    quantization_name,
)
from explorer.text import plain_text, shorten

_DEFAULT_GROUP_SIZE: Final = 64  # MLX's, and Ollama's since 0.18.0

_TYPES: Final[Mapping[str, tuple[Mode, int]]] = {
    **dict.fromkeys(("q4", "fp4"), (Mode.AFFINE, 4)),
    **dict.fromkeys(("q8", "fp8"), (Mode.AFFINE, 8)),
    **{quantization_name(Mode.AFFINE, bits): (Mode.AFFINE, bits) for bits in AFFINE_BITS},
    **{mode.value: (mode, bits) for mode, (bits, _) in FIXED_SIZES.items()},
}
"""Mode and bits of each `quant_type`, in lower case."""

_MODES: Final = {mode.value: mode for mode in Mode}


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody says about a weight.

    Attributes:
        origin: Who.
        mode: The mode; None if not said, and so for the other two.
        bits: Bits of a code.
        group_size: Weights that share a scale.
        fault: What cannot be understood of it, for people; empty if nothing.
    """

    origin: str
    mode: Mode | None = None
    bits: int | None = None
    group_size: int | None = None
    fault: str = ""

    @property
    def says_something(self) -> bool:
        """Whether anything is said that can be understood."""
        return self.mode is not None or self.says_sizes

    @property
    def says_sizes(self) -> bool:
        """Whether bits or group size are said."""
        return not (self.bits is None and self.group_size is None)

    @property
    def likely_group_size(self) -> int:
        """The group size as said, else the default of affine types."""
        return _DEFAULT_GROUP_SIZE if self.group_size is None else self.group_size

    def allows(self, layout: GroupedLayout) -> bool:
        """Tell whether nothing that is said contradicts a layout."""
        return (
            self.mode in {None, layout.mode}
            and self.bits in {None, layout.bits}
            and self.group_size in {None, layout.group_size}
        )

    @property
    def text(self) -> str:
        """For people: ``"int4 in groups of 64"``."""
        if self.mode is not None and (self.bits is not None or self.mode is not Mode.AFFINE):
            what = quantization_name(self.mode, self.bits or 0)
        elif self.bits is not None:
            what = f"{self.bits} bits"
        else:
            what = "" if self.mode is None else self.mode.value
        groups = "" if self.group_size is None else f"groups of {self.group_size}"
        return " in ".join(filter(None, (what, groups)))


def claim_of_metadata(quant_type: str | None, group_size: str | None) -> Claim:
    """Read `quant_type` and `group_size` of a blob's metadata, None where one is missing."""
    origin = "the metadata"
    size = _count(group_size)
    faults = []
    if group_size is not None and size is None:
        faults.append(f"{origin} has a group_size of {_quoted(group_size)}, which is no size")
    mode = bits = None
    if quant_type is not None:
        mode, bits = _TYPES.get(quant_type.strip().lower(), (None, None))
        if mode is None:
            faults.append(f"{origin} has an unknown quant_type, {_quoted(quant_type)}")
    return Claim(origin, mode, bits, size, "; ".join(faults))


def claim_of_config(fields: Mapping[str, object] | None) -> Claim:
    """Read the fields `bits`, `group_size` and `mode`, any of them missing and of any type."""
    origin = "config.json"
    if fields is None:
        return Claim(origin)
    bits, size = _count(fields.get("bits")), _count(fields.get("group_size"))
    name = fields.get("mode")
    if name is None and bits is not None:
        return Claim(origin, Mode.AFFINE, bits, size)  # MLX named no mode while it had but one
    return Claim(origin, _MODES.get(name.lower()) if isinstance(name, str) else None, bits, size)


def config_quantization(config: Mapping[str, object], module: str) -> Mapping[str, object] | None:
    """Return what a model's `config.json` says about the quantization of one module's weight.

    Args:
        config: The parsed file, any content.
        module: Path of the module, such as ``"model.layers.0.mlp.down_proj"``.

    Returns:
        The module's own entry if it has one, which mlx-lm then takes as a whole, else the general
        one; None if there is neither.
    """
    for place in (config, config.get("text_config")):
        if not isinstance(place, Mapping):
            continue
        for key in ("quantization", "quantization_config"):
            general = place.get(key)
            if isinstance(general, Mapping):
                own = general.get(module)
                return own if isinstance(own, Mapping) else general
    return None


def _count(value: object) -> int | None:
    """Return a positive number given as such or as text; no width and no group is ever longer."""
    if isinstance(value, str) and len(value) < 10 and value.isascii() and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < 1 << 31 else None


def _quoted(text: str) -> str:
    return f"“{shorten(plain_text(text), 40)}”"
