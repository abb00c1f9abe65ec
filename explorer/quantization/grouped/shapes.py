"""What the shapes of a weight and its companions say: the bits of a group, and little else.

Source: `safetensors_and_blobs.md` section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from explorer.quantization.grouped.layout import AFFINE_SCALES, BYTE_SCALES, GroupedLayout, Mode

Shape: TypeAlias = tuple[int, ...]

_PACKED_BITS: Final = {"U32": 32, "U8": 8}
_BYTE_SCALES: Final = tuple(sorted({name for names in BYTE_SCALES.values() for name in names}))


@dataclass(frozen=True, slots=True)
class Part:
    """A stored tensor as its header tells it.

    Attributes:
        dtype: Its type by safetensors' name.
        shape: Its shape, outermost first.
    """

    dtype: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Parts:
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


def measure(parts: Parts) -> GroupShapes | str:
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


def _wrong_type(parts: Parts) -> str | None:
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
