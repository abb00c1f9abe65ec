"""Rules for packed weights of compressed-tensors: integers of 1 to 8 bits, and FP4.

Source: `docs/hf_quantization.md`, section 3.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from explorer.formats.quantized.declaration import MAX_RULES, integer_of
from explorer.formats.quantized.modules import (
    FLOAT_TYPES,
    Found,
    LeftAloneError,
    Matrix,
    Member,
    Module,
    RuleError,
    check_logical,
    check_shape,
    check_type,
    joined,
    matrix,
    other_method,
    says,
)
from explorer.formats.quantized.patterns import matches
from explorer.formats.quantized.rules_floats import ct_fp4
from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels

_WORD_BITS: Final = 32
_USUAL_BITS: Final = (4, 8, 2, 3, 5, 6, 7, 1)
_USUAL_GROUPS: Final = (128, 64, 32, 256, 16, 512, 1024)
_METHODS: Final = frozenset({"compressed-tensors", "sparseml"})


def compressed(module: Module) -> Found | None:
    """Return a weight of compressed-tensors by its `weight_packed`."""
    packed = module.need(".weight_packed")
    if module.get(".scale_packed") is not None or module.get(".meta") is not None:
        raise LeftAloneError("2:4 sparse")
    if packed.dtype == "U8":
        return ct_fp4(module)
    return _packed(module, packed)


def _packed(module: Module, packed: Member) -> Found:
    stored = matrix(packed, "I32")
    scale = module.need(".weight_scale")
    scales = matrix(scale, *FLOAT_TYPES)
    shape = _shape(module, stored)
    if scales.rows != shape.rows:
        raise RuleError(f"its weight_scale has {scales.rows} rows, its weight {shape.rows}")
    said = list(_settings(module))
    bits, padded = _bits(said, shape.columns, stored.columns)
    group, problem = _group(said, shape.columns, scales.columns)
    parts = {"weight_packed": packed, "weight_scale": scale}
    zeros, g_idx = module.get(".weight_zero_point"), module.get(".weight_g_idx")
    if zeros is not None:
        check_type(zeros, "I32")
        words = shape.rows * bits
        words = -(-shape.rows // (_WORD_BITS // bits)) if padded else -(-words // _WORD_BITS)
        check_shape(zeros, (words, scales.columns))
        parts["weight_zero_point"] = zeros
    if g_idx is not None:
        check_type(g_idx, "I32")
        check_shape(g_idx, (shape.columns,))
        parts["weight_g_idx"] = g_idx
    parts["weight_shape"] = module.need(".weight_shape")
    check_logical((shape.rows, shape.columns), shape.columns)
    layout = CompanionLayout(
        reader="packed.Packed",
        scheme="compressed-tensors",
        name=f"int{bits}",
        bits=bits,
        shape=(shape.rows, shape.columns),
        group_size=group,
        line=shape.columns,
        run=group or shape.columns,
        levels=Levels.SIGNED,
        formula=Formula.SCALED if zeros is None else Formula.ZERO_FIRST,
        options=(("padded", int(padded)),),
        native=scale.dtype,
    )
    numbers = [number for one in said if (number := integer_of(one, "num_bits")) is not None]
    wrong = says("num_bits", numbers[0], bits) if numbers and bits not in numbers else None
    other = other_method(module, _METHODS, "compressed-tensors")
    return Found(f"{module.stem}.weight", parts, layout, joined(other, wrong, problem))


def _shape(module: Module, stored: Matrix) -> Matrix:
    """Return the logical shape, which is stored as data."""
    member = module.need(".weight_shape")
    check_type(member, "I64")
    check_shape(member, (2,))
    data = member.small()
    rows, columns = (int.from_bytes(data[i : i + 8], "little", signed=True) for i in (0, 8))
    if rows != stored.rows or not 0 < columns < 1 << 31:
        what = f"says {rows} × {columns}, and {stored.rows} rows are stored"
        raise RuleError(f"its weight_shape {what}")
    return Matrix(rows, columns)


def _settings(module: Module) -> Iterator[Mapping[str, Any]]:
    """Yield what the groups of the configuration say of weights, those that name the module first.

    Exact names come before patterns, patterns before names of classes, as in compressed-tensors.
    """
    found: list[tuple[int, Mapping[str, Any]]] = []
    groups = module.declared.fields.get("config_groups")
    for group in islice(groups.values(), MAX_RULES) if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        targets = group.get("targets") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            names = targets[:MAX_RULES] if isinstance(targets, list) else []
            order = [_order(name, module.stem) for name in names if isinstance(name, str)]
            found.append((min(order, default=2), weights))
    yield from (weights for _, weights in sorted(found, key=lambda one: one[0]))


def _order(target: str, stem: str) -> int:
    """Return how early a target is asked: 3 for one that is another module's."""
    if target == stem:
        return 0
    if target.startswith("re:"):
        return 3 if matches(target[3:], stem) is False else 1
    return 2 if "." not in target else 3


def _bits(said: list[Mapping[str, Any]], columns: int, words: int) -> tuple[int, bool]:
    """Return the bits of a code, and whether words are padded, of rows of so many words.

    Raises:
        RuleError: No width makes so many words.
    """
    declared = (integer_of(one, "num_bits", 1, 8) for one in said)
    for bits in (*filter(None, declared), *_USUAL_BITS):
        if -(-columns * bits // _WORD_BITS) == words:
            return bits, False
        if -(-columns // (_WORD_BITS // bits)) == words:
            return bits, True
    raise RuleError(f"{words} words for rows of {columns} weights are no width of codes")


def _group(
    said: list[Mapping[str, Any]], columns: int, groups: int
) -> tuple[int | None, str | None]:
    """Return the weights of a group, None for a scale of a row, and what contradicts the shapes.

    Raises:
        RuleError: Rows cannot have so many groups.
    """
    sizes = [size for one in said if (size := integer_of(one, "group_size", -1)) is not None]
    fitting = [size for size in sizes if size > 0 and -(-columns // size) == groups]
    if fitting:
        return fitting[0], None
    usual = (one for one in _USUAL_GROUPS if -(-columns // one) == groups)
    found = next(usual, 0) if columns % groups else columns // groups
    if not found:
        raise RuleError(f"{groups} groups of {columns} weights have no known size")
    wrong = next((one for one in sizes if one > 0), None)
    problem = None if wrong is None else says("group_size", wrong, found)
    return (None if groups == 1 else found), problem
