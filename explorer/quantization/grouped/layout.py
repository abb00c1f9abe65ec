"""Quantized weights whose scales lie in tensors of their own: Ollama's blobs and MLX folders.

A weight is a run of groups, and a group is `group_size` consecutive weights of one row with one
scale (and, in affine mode, one bias)::

    packed  | codes of `bits` each, one little-endian bit stream, lowest bit first
    scale   | affine: BF16, F16 or F32    nvfp4: E4M3 in a byte    mxfp4, mxfp8: E8M0 in a byte
    bias    | affine only: the value of code 0, a float
    global  | nvfp4 only, where there is one: a factor of the whole tensor, or of each expert or row

    affine  value = code * scale + bias        mxfp4  value = E2M1[code] * 2^(scale - 127)
    nvfp4   value = E2M1[code] * E4M3[scale] * global
    mxfp8   value = E4M3[code] * 2^(scale - 127)

Their rows are read as those of Hugging Face's methods are (`huggingface.layout`). What a weight's
layout is, where metadata and shapes must be weighed against each other,
`grouped.detection.resolve` finds out.

Source: `docs/safetensors_and_blobs.md`, sections 3 and 4; mlx/ops.cpp, `dequantize`,
`fp_dequantize`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Final

from explorer.quantization.huggingface.layout import (
    MAX_LINE,
    POWER,
    CompanionLayout,
    Formula,
    Levels,
    Shape,
)
from explorer.quantization.types import TENSOR_TYPES, TensorType

AFFINE_BITS: Final = (1, 2, 3, 4, 5, 6, 8)
"""Widths of an affine code that MLX writes."""

AFFINE_GROUPS: Final = (32, 64, 128)
"""Affine group sizes that MLX writes."""

AFFINE_SCALES: Final = ("BF16", "F16", "F32")
"""Types of affine scales and biases."""


class Mode(StrEnum):
    """How codes become weights, by MLX's names."""

    AFFINE = "affine"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"
    MXFP8 = "mxfp8"


FIXED_SIZES: Final = {Mode.NVFP4: (4, 16), Mode.MXFP4: (4, 32), Mode.MXFP8: (8, 32)}
"""Bits and group size of the modes that have no choice of them."""

BYTE_SCALES: Final = {
    Mode.NVFP4: ("U8", "F8_E4M3"),
    Mode.MXFP4: ("U8", "F8_E8M0"),
    Mode.MXFP8: ("U8", "F8_E8M0"),
}


@dataclass(frozen=True, slots=True)
class GroupedLayout:
    """How a weight with companions is stored.

    Attributes:
        mode: How codes become weights.
        bits: Bits of a code.
        group_size: Weights that share a scale.
        scale_type: Name of the scales' type: ``"BF16"``, ``"F16"``, ``"F32"`` in affine mode, else
            ``"U8"`` (or ``"F8_E4M3"``, ``"F8_E8M0"``, as folders of other makers name it).
        bias_type: Name of the biases' type in affine mode, else None.

    Raises:
        ValueError: No weight is stored so.
    """

    mode: Mode
    bits: int
    group_size: int
    scale_type: str = "BF16"
    bias_type: str | None = None

    def __post_init__(self) -> None:
        if self.mode is Mode.AFFINE:
            valid = (
                self.bits in AFFINE_BITS
                and self.group_size in AFFINE_GROUPS
                and self.scale_type in AFFINE_SCALES
                and self.bias_type in AFFINE_SCALES
            )
        else:
            valid = (
                (self.bits, self.group_size) == FIXED_SIZES[self.mode]
                and self.scale_type in BYTE_SCALES[self.mode]
                and self.bias_type is None
            )
        if not valid:
            raise ValueError(f"no such layout: {self}")

    @property
    def name(self) -> str:
        """The quantization's public name: ``"int4"``, ``"affine3"``, ``"nvfp4"``."""
        return quantization_name(self.mode, self.bits)

    @property
    def type(self) -> TensorType:
        """The same as a tensor type, whose block is a group: its codes, scale and bias."""
        numbers = filter(None, (self.scale_type, self.bias_type))
        size = self.group_size * self.bits // 8
        size += sum(TENSOR_TYPES[name].block_bytes for name in numbers)
        return TensorType(self.name, self.group_size, size, quantized=True)

    def companions(self, shape: Shape, per_factor: int = 0) -> CompanionLayout:
        """Return how the rows of a weight are read.

        Args:
            shape: Its logical shape, outermost first.
            per_factor: Consecutive groups that share a global scale; 0 without any.
        """
        columns = shape[-1] if shape else 1
        reader, levels, scale_type = _READERS[self.mode]
        if self.mode is Mode.AFFINE:
            formula = Formula.ZERO_LAST
        else:
            formula = Formula.TWICE if per_factor else Formula.SCALED
        return CompanionLayout(
            reader=reader,
            scheme="",
            name=self.name,
            bits=self.bits,
            shape=shape,
            group_size=self.group_size,
            line=columns if 0 < columns <= MAX_LINE else self.group_size,
            run=self.group_size,
            levels=levels,
            formula=formula,
            options=(
                *(("codes", "weight"), ("scales", "scales"), ("tile_rows", 1)),
                ("rows", prod(shape[-2:-1])),
                ("scale_type", scale_type if self.scale_type == "U8" else ""),
                ("per_factor", per_factor),
            ),
        )


def quantization_name(mode: Mode, bits: int) -> str:
    """Return the public name of a quantization (docs/interface.md, `inspect`)."""
    if mode is not Mode.AFFINE:
        return mode.value
    return f"int{bits}" if bits in {4, 8} else f"affine{bits}"


_READERS: Final = {
    Mode.AFFINE: ("packed.Affine", Levels.UNSIGNED, ""),
    Mode.NVFP4: ("floats.Fp4", Levels.E2M1, "F8_E4M3"),
    Mode.MXFP4: ("floats.Fp4", Levels.E2M1, POWER),
    Mode.MXFP8: ("floats.Tiles", Levels.E4M3, POWER),
}
"""What reads a mode's codes, what they are worth, and what scales in bytes are."""


# What the shapes of a weight and its companions say: the bits of a group, and little else.
#
# Source: `docs/safetensors_and_blobs.md`, section 3.


_PACKED_BITS: Final = {"U32": 32, "U8": 8}
_BYTE_SCALES: Final = tuple(sorted({name for names in BYTE_SCALES.values() for name in names}))


@dataclass(frozen=True, slots=True)
class Part:
    """A stored tensor, by its header.

    Attributes:
        dtype: Its type by safetensors' name.
        shape: Its shape, outermost first.
    """

    dtype: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class GroupParts:
    """A weight with its companions.

    Attributes:
        packed: The packed codes: U32 words, or bytes (U8) in the modes without biases.
        scale: One for each group.
        bias: The same shape as `scale`, in affine mode; else None.
        global_scale: F32, one element, or one for each expert or row; None without.
    """

    packed: Part
    scale: Part
    bias: Part | None = None
    global_scale: Part | None = None


@dataclass(frozen=True, slots=True)
class GroupShapes:
    """What is certain of a weight before anything is said about it.

    Attributes:
        rows: The dimensions before the last.
        groups_per_row: Groups of a row.
        group_bits: Bits of a group's codes; 0 where rows are empty.
        scale_type: The scales' type.
        bias_type: The biases' type, if there are biases.
    """

    rows: Shape
    groups_per_row: int
    group_bits: int
    scale_type: str
    bias_type: str | None

    def layout(self, mode: Mode, bits: int, group_size: int) -> GroupedLayout | None:
        """Return the layout of these sizes if there is such a one and it agrees with the shapes."""
        if self.group_bits not in {0, bits * group_size}:
            return None
        try:
            return GroupedLayout(mode, bits, group_size, self.scale_type, self.bias_type)
        except ValueError:
            return None


def measure(parts: GroupParts) -> GroupShapes | str:
    """Hold a weight's tensors against each other; a text says what does not fit together."""
    packed, scale, bias = parts.packed, parts.scale, parts.bias
    fault = _wrong_type(parts)
    if fault is not None:
        return fault
    columns, groups = packed.shape[-1:], scale.shape[-1:]
    if (
        not (columns and groups)
        or packed.shape[:-1] != scale.shape[:-1]
        or any(columns) != any(groups)
    ):
        shapes = f"{shape_text(packed.shape)} and {shape_text(scale.shape)}"
        return f"shapes of codes and scales, {shapes}, do not fit together"
    if bias is not None and bias.shape != scale.shape:
        shapes = f"{shape_text(scale.shape)} and {shape_text(bias.shape)}"
        return f"shapes of scales and biases, {shapes}, differ"
    row_bits = columns[0] * _PACKED_BITS[packed.dtype]
    group_bits, rest = divmod(row_bits, groups[0] or 1)
    if rest:
        return f"a row's {row_bits} bits cannot be shared out among its {groups[0]} scales"
    bias_type = None if bias is None else bias.dtype
    return GroupShapes(packed.shape[:-1], groups[0], group_bits, scale.dtype, bias_type)


def _wrong_type(parts: GroupParts) -> str | None:
    if parts.bias is None:
        if parts.scale.dtype in AFFINE_SCALES:
            return f"scales of type {parts.scale.dtype} need biases, and there are none"
        return _unless_in(
            ("codes", parts.packed, ("U32", "U8")), ("scales", parts.scale, _BYTE_SCALES)
        )
    return _unless_in(
        ("codes with biases", parts.packed, ("U32",)),
        ("scales with biases", parts.scale, AFFINE_SCALES),
        ("biases", parts.bias, AFFINE_SCALES),
    )


def _unless_in(*rules: tuple[str, Part, tuple[str, ...]]) -> str | None:
    for what, part, allowed in rules:
        if part.dtype not in allowed:
            return f"{what} are of type {part.dtype}, and should be {' or '.join(allowed)}"
    return None


def shape_text(shape: Shape) -> str:
    """Return a shape as it stands in a header: ``"[256, 16]"``."""
    return str(list(shape))
