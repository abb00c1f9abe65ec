"""Rules for packed weights of compressed-tensors: integers of 1 to 8 bits, and FP4.

Source: `docs/hf_quantization.md`, section 3.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from explorer.formats.quantized.declaration import integer_of, text_of
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
    usual_run,
)
from explorer.formats.quantized.rules_floats import (
    CT_METHODS,
    PER_ROW,
    ct_contradiction,
    ct_fp4,
    ct_settings,
)
from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels

_WORD_BITS: Final = 32
_USUAL_BITS: Final = (4, 8, 2, 3, 5, 6, 7, 1)


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
    said = ct_settings(module)
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
    other = other_method(module, CT_METHODS, "compressed-tensors")
    differs = ct_contradiction(said, bits, "int", has_zeros=zeros is not None)
    return Found(".weight", parts, layout, joined(other, differs, problem))


def _shape(module: Module, stored: Matrix) -> Matrix:
    """Return the logical shape, which is stored as data."""
    member = module.need(".weight_shape")
    check_type(member, "I64")
    check_shape(member, (2,))
    rows, columns = module.integers(member)
    if rows != stored.rows or not 0 < columns < 1 << 31:
        what = f"says {rows} × {columns}, and {stored.rows} rows are stored"
        raise RuleError(f"its weight_shape {what}")
    return Matrix(rows, columns)


def _bits(said: Sequence[Mapping[str, Any]], columns: int, words: int) -> tuple[int, bool]:
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
    said: Sequence[Mapping[str, Any]], columns: int, groups: int
) -> tuple[int | None, str | None]:
    """Return the weights of a group, None for a scale of a row, and what contradicts the shapes.

    Raises:
        RuleError: Rows cannot have so many groups.
    """
    sizes = [integer_of(one, "group_size", -1) for one in said]
    fitting = [size for size in sizes if size and size > 0 and -(-columns // size) == groups]
    if fitting:
        return fitting[0], None
    found = usual_run(columns, groups) if columns % groups else columns // groups
    if not found:
        raise RuleError(f"{groups} groups of {columns} weights have no known size")
    if groups == 1:
        wrong = None if any(size in {None, -1} for size in sizes) else next(iter(sizes), None)
        return None, None if wrong is None else says("group_size", wrong, found)
    if not any(sizes):
        strategies = [text_of(one, "strategy") for one in said]
        of_rows = strategies and all(one in PER_ROW for one in strategies)
        return found, says("strategy", strategies[0], f"group of {found}") if of_rows else None
    return found, says("group_size", next(filter(None, sizes)), found)
