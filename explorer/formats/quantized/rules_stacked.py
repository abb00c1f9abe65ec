"""Rules for HQQ, quanto and BitNet, whose words hold codes of rows that lie far apart.

Source: `docs/hf_quantization.md`, sections 3.8, 3.9 and 3.11.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from explorer.formats.quantized.modules import (
    FLOAT_TYPES,
    MAX_SMALL,
    Found,
    LeftAloneError,
    Member,
    Module,
    RuleError,
    check_logical,
    check_shape,
    check_type,
    matrix,
    tiles_layout,
)
from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels, Shape

# HQQ

_HQQ_KEYS: Final = (
    *("W_q", "nbits", "group_size", "shape", "scale", "zero", "axis", "packing"),
    *("unpack_view_dtype", "view_as_float", "quant_scale", "quant_zero", "compute_dtype"),
    *("offload_meta", "encoded_state_dict", "stores_quant_config", "channel_wise", "optimize"),
    *("round_zero",),
)
_PACKINGS: Final[Mapping[str, tuple[int, int, str]]] = {  # bits, codes of a word, type of words
    "8bit_u8": (8, 1, "U8"),
    "4bit_u8": (4, 2, "U8"),
    "2bit_u8": (2, 4, "U8"),
    "1bit_u8": (1, 8, "U8"),
    "3bit_32": (3, 10, "I32"),
}
_LEAST_BITS: Final = {8: 5, 2: 1}  # that a packing serves, where these are several
_COMPUTE: Final = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}
_MAX_AXES: Final = 4


def hqq(module: Module) -> Found | None:
    """Return a weight of HQQ: every setting of a layer is a key of its own."""
    members = {name: one for name in _HQQ_KEYS if (one := module.get(f".{name}")) is not None}
    for name in ("W_q", "scale", "zero", "shape", "axis", "packing"):
        module.need(f".{name}")
    for name in members.keys() - {"W_q", "scale", "zero"}:  # settings, read or not
        if (nbytes := members[name].spec.nbytes) > MAX_SMALL:
            raise RuleError(f"its {name} has {nbytes} bytes, more than {MAX_SMALL}")
    if any(
        _flag(module, members.get(name)) for name in ("quant_scale", "quant_zero", "view_as_float")
    ):
        raise LeftAloneError("its scales are quantized too")
    packing = _text(module, members["packing"])
    if packing not in _PACKINGS:
        raise RuleError(f"its packing is none of {', '.join(_PACKINGS)}")
    bits, each, words = _PACKINGS[packing]
    axis, shape = _number(module, members["axis"]), module.integers(members["shape"])
    if not 1 <= len(shape) <= _MAX_AXES or axis not in {0, 1}:
        raise RuleError(f"its shape {list(shape)[:8]} or its axis {axis} makes no matrix")
    check_logical(shape, shape[-1])
    weights = math.prod(shape)
    codes, scale = members["W_q"], members["scale"]
    check_type(codes, words)
    check_type(scale, *FLOAT_TYPES)
    check_type(members["zero"], *FLOAT_TYPES)
    groups = math.prod(scale.shape)
    if not groups or weights % groups:
        raise RuleError(f"{groups} scales do not share {weights} weights")
    group = weights // groups
    check_shape(scale, (groups, 1) if axis else (1, groups))
    check_shape(members["zero"], scale.shape)
    rows, width = (groups, group) if axis else (group, groups)
    check_shape(codes, (-(-rows // each), width))
    line = group if axis else shape[-1]
    check_logical(shape, line)
    layout = CompanionLayout(
        reader="stacked.Stacked" if axis else "stacked.StackedColumns",
        scheme="hqq",
        name=f"hqq{bits}",
        bits=bits,
        shape=shape,
        group_size=group,
        line=line,
        run=group if axis else 1,
        formula=Formula.ZERO_FIRST,
        options=(
            ("codes", "W_q"),
            ("each", each),
            ("width", width),
            ("high_first", 1),
            ("scales", "scale"),
            ("zeros", "zero"),
        ),
        native=_compute_type(module, members.get("compute_dtype")) or scale.dtype,
    )
    return Found(".weight", members, layout, _other_than(module, members, bits, group))


def _other_than(module: Module, members: Mapping[str, Member], bits: int, group: int) -> str | None:
    """Return what stored settings that only explain say otherwise."""
    number, size = (_explained(module, members.get(name)) for name in ("nbits", "group_size"))
    if number is not None and not _LEAST_BITS.get(bits, bits) <= number <= bits:
        return f"its nbits is {number}, its packing has {bits} bits"
    is_other = size not in {None, 0, -1, group}
    return f"its group_size is {size}, its scales say {group}" if is_other else None


def _explained(module: Module, member: Member | None) -> int | None:
    """Return the integer of a setting that only explains; None where it is none, as 1.58 bits."""
    if member is None or member.dtype in FLOAT_TYPES:
        return None
    return _number(module, member)


def _text(module: Module, member: Member) -> str:
    check_type(member, "U8")
    return module.small(member).decode("ascii", "replace").rstrip("\0")


def _compute_type(module: Module, member: Member | None) -> str:
    if member is None:
        return ""
    return _COMPUTE.get(_text(module, member).removeprefix("torch."), "")


def _number(module: Module, member: Member) -> int:
    found = module.integers(member)
    if len(found) != 1:
        raise RuleError(f"its {member.called} is not a single number")
    return found[0]


def _flag(module: Module, member: Member | None) -> bool:
    """Return whether a setting is there and not 0."""
    return member is not None and any(module.small(member))


# quanto

_QUANTO_GROUP: Final = 128
_QUANTO_STEP: Final = 32


def quanto_plain(module: Module) -> Found | None:
    """Return a weight of quanto of 8 bits: `_data` and a scale for each row."""
    codes, scale = module.need(".weight._data"), module.need(".weight._scale")
    shape = matrix(codes, "I8", "F8_E4M3", "F8_E5M2")
    check_type(scale, *FLOAT_TYPES)
    check_shape(scale, (shape.rows, 1), (), (1,), (1, 1))
    check_logical(codes.shape, shape.columns)
    parts = {"weight._data": codes, "weight._scale": scale}
    tile = 1 if math.prod(scale.shape) > 1 else shape.rows, shape.columns
    layout = tiles_layout("quanto", "qint8" if codes.dtype == "I8" else "qfloat8", parts, tile)
    return Found(".weight", parts, layout)


def quanto_packed(module: Module) -> Found | None:
    """Return a weight of quanto of 2 or 4 bits: groups are rows of `_data._data`."""
    codes, scale = module.need(".weight._data._data"), module.need(".weight._scale")
    shift = module.need(".weight._shift")
    stored = matrix(codes, "U8")
    check_type(scale, *FLOAT_TYPES)
    groups = math.prod(scale.shape)
    check_shape(scale, (groups, 1))
    check_shape(shift, scale.shape)
    each = next((n for n in (2, 4) if -(-groups // n) == stored.rows), 0)
    if not each:
        raise RuleError(f"{stored.rows} rows of codes do not make {groups} groups")
    bits = 8 // each
    is_integer = shift.dtype in {"I8", "U8", "I16", "I32"}
    check_type(shift, shift.dtype if is_integer else "F32", *FLOAT_TYPES)
    shape = _quanto_shape(module, groups, stored.columns)
    check_logical(shape, stored.columns)
    layout = CompanionLayout(
        reader="stacked.Stacked",
        scheme="quanto",
        name=f"qint{bits}",
        bits=bits,
        shape=shape,
        line=stored.columns,
        run=stored.columns,
        formula=Formula.ZERO_FIRST if is_integer else Formula.ZERO_LAST,
        options=(
            ("codes", "weight._data._data"),
            ("each", each),
            ("width", stored.columns),
            ("scales", "weight._scale"),
            ("zeros", "weight._shift"),
        ),
        native=scale.dtype,
    )
    parts = {"weight._data._data": codes, "weight._scale": scale, "weight._shift": shift}
    return Found(".weight", parts, layout)


def _quanto_shape(module: Module, groups: int, group: int) -> Shape:
    """Return the logical shape, which is not stored: a bias or the width of the model tells it.

    Without either it is one row for each group, as it is where a group is a whole row.
    """
    bias = module.get(".bias")
    if bias is not None and len(bias.shape) == 1 and bias.shape[0] and groups % bias.shape[0] == 0:
        return bias.shape[0], groups // bias.shape[0] * group
    for width in _widths(module):
        if width % group == 0 and groups * group % width == 0 and _quanto_group(width) == group:
            return groups * group // width, width
    return groups, group


def _widths(module: Module) -> Iterator[int]:
    """Yield how many inputs a module may have, the likeliest first."""
    widths = module.declared.widths
    order = {
        "second": (widths.inner, widths.hidden),
        "second of an expert": (widths.inner_of_expert, widths.inner, widths.hidden),
        "output": (widths.heads, widths.hidden),
    }
    yield from filter(None, order.get(str(module.ask(_place)), (widths.hidden, widths.inner)))


def _place(stem: str) -> str:
    """Return where in its block a module is, if its inputs are not those of the block."""
    if stem.endswith(("down_proj", "fc2", "w2", "dense_4h_to_h")):
        return "second of an expert" if ".experts." in stem else "second"
    return "output" if stem.endswith(("o_proj", "out_proj")) else ""


def _quanto_group(width: int) -> int:
    """Return the size of quanto's groups of rows of a width (quanto, nn/qmodule.py)."""
    size = _QUANTO_GROUP
    while size > _QUANTO_STEP and width % size:
        size -= _QUANTO_STEP
    return size if width % size == 0 else width


# BitNet


def bitnet(module: Module) -> Found:
    """Return a weight of BitNet: -1, 0 and 1, four to a byte, with one scale."""
    codes, scale = module.need(".weight"), module.need(".weight_scale")
    stored = matrix(codes, "U8")
    check_type(scale, *FLOAT_TYPES)
    shape = 4 * stored.rows, stored.columns
    check_logical(shape, stored.columns)
    divides = module.declared.text("linear_class") == "bitlinear"
    layout = CompanionLayout(
        reader="stacked.Stacked",
        scheme="bitnet",
        name="bitnet",
        bits=2,
        shape=shape,
        levels=Levels.TERNARY,
        formula=Formula.DIVIDED if divides else Formula.SCALED,
        options=(
            ("codes", "weight"),
            ("each", 4),
            ("width", stored.columns),
            ("scales", "weight_scale"),
            ("one_scale", 1),
        ),
        native=scale.dtype,
    )
    parts = {"weight": codes, "weight_scale": scale}
    return Found(".weight", parts, layout)
