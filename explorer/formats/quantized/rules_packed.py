"""Rules for packed weights of compressed-tensors: integers of 1 to 8 bits, and FP4.

Source: `docs/hf_quantization.md`, section 3.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
    matrix,
    run_length,
)
from explorer.formats.quantized.rules_floats import ct_fp4, missing_zeros
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
    stated = module.declared.groups
    bits, padded = _bits(module.declared.bits, shape.columns, stored.columns)
    group = run_length(shape.columns, scales.columns, stated)
    if not group:
        raise RuleError(f"{scales.columns} groups of {shape.columns} weights have no known size")
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
        group_size=group if scales.columns > 1 or group in stated else None,
        run=group,
        levels=Levels.SIGNED,
        formula=Formula.SCALED if zeros is None else Formula.ZERO_FIRST,
        options=(("padded", int(padded)),),
        native=scale.dtype,
    )
    return Found(".weight", parts, layout, missing_zeros(module, zeros))


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


def _bits(stated: Sequence[int | None], columns: int, words: int) -> tuple[int, bool]:
    """Return the bits of a code, and whether words are padded, of rows of so many words.

    Raises:
        RuleError: No width makes so many words.
    """
    declared = (bits for bits in stated if bits is not None and bits <= 8)
    for bits in (*declared, *_USUAL_BITS):
        if -(-columns * bits // _WORD_BITS) == words:
            return bits, False
        if -(-columns // (_WORD_BITS // bits)) == words:
            return bits, True
    raise RuleError(f"{words} words for rows of {columns} weights are not a width of codes")
