"""Rules for codes in 32-bit words (GPTQ, auto-round, AWQ) and for bitsandbytes.

Source: `docs/hf_quantization.md`, sections 3.1 to 3.3.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from explorer.formats.quantized.declaration import GPTQ_FILE, format_of, integer_of
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
from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels, Shape

_WORD_BITS: Final = 32
_GPTQ_BITS: Final = (2, 3, 4, 8)
_NATURAL_ZEROS: Final = frozenset({"gptq_v2", "gptq_p"})
_AUTO_ROUND: Final = frozenset({"auto-round", "auto_round", "autoround"})
_NOT_DECODED: Final = frozenset({"gemv_fast", "llm-awq", "tinychat", "marlin"})


class _Words(NamedTuple):
    """Shapes of the parts of a weight whose codes are in words."""

    weight: Matrix
    zeros: Matrix
    scales: Matrix


def gptq_or_awq(module: Module) -> Found | None:
    """Return a weight of GPTQ, auto-round or AWQ: `qweight`, `qzeros`, `scales`, [`g_idx`]."""
    parts = {name: module.need(f".{name}") for name in ("qweight", "qzeros", "scales")}
    g_idx = module.get(".g_idx")
    if g_idx is not None:
        parts["g_idx"] = g_idx
    layout = _layout_of(module, parts)
    if layout.scheme == "awq" and g_idx is not None:
        del parts["g_idx"]
    is_ordered = layout.scheme == "awq" or g_idx is not None or layout.scales_of_line == 1
    reordered = not is_ordered and all(one is True for one in module.declared.stated("desc_act"))
    what = f"{module.declared.origin} says desc_act, and its g_idx is missing"
    return Found(".weight", parts, layout, what if reordered else None)


def _layout_of(module: Module, parts: Mapping[str, Member]) -> CompanionLayout:
    """Return how a weight is stored."""
    qweight, qzeros, scales = (parts[name] for name in ("qweight", "qzeros", "scales"))
    kind = module.declared.text("version") or _format_of(module)
    if kind in _NOT_DECODED or (qweight.dtype, qzeros.dtype) == ("I16", "F16"):
        raise LeftAloneError(kind)
    words = _Words(matrix(qweight, "I32"), matrix(qzeros, "I32"), matrix(scales, *FLOAT_TYPES))
    weight, zeros, scale = words
    is_gemv = weight.rows == zeros.rows == scale.rows and scale.columns == 8 * zeros.columns
    if is_gemv and (kind == "gemv" or weight.columns != scale.columns):
        return _awq_gemv(module, words, scales.dtype)
    if weight.columns == scale.columns:
        return _gptq(module, words, scales.dtype, parts.get("g_idx"))
    if "g_idx" not in parts and zeros.columns == weight.columns:
        return _awq_gemm(words, scales.dtype)
    texts = ", ".join(f"{list(one.shape)}" for one in (qweight, qzeros, scales))
    raise RuleError(f"the shapes of its qweight, qzeros and scales, {texts}, do not fit together")


def _format_of(module: Module) -> str:
    """Return what the model says about the format of its GPTQ weights."""
    declared = module.declared
    return format_of(declared.fields) or format_of(declared.files.get(GPTQ_FILE, {}))


def _gptq(module: Module, words: _Words, native: str, g_idx: Member | None) -> CompanionLayout:
    weight, zeros, scale = words
    outputs, groups = scale.columns, scale.rows
    bits, rest = divmod(_WORD_BITS * zeros.columns, outputs)
    if rest or not 1 <= bits <= 8:
        what = f"{zeros.columns} words of zero points for {outputs} outputs"
        raise RuleError(f"its qzeros have {what}, which is not a width of codes")
    if _format_of(module) == "gptq_p" and bits in {3, 5, 6, 7}:
        raise LeftAloneError(f"{bits} bits are stored in planes")
    if bits not in _GPTQ_BITS:
        raise RuleError(f"its codes of {bits} bits are not a width of GPTQ")
    inputs, rest = divmod(_WORD_BITS * weight.rows, bits)
    if rest:
        raise RuleError(f"its qweight has {weight.rows} rows, no whole number of {bits}-bit codes")
    if zeros.rows != groups:
        raise RuleError(f"its qzeros have {zeros.rows} groups, its scales {groups}")
    if g_idx is not None:
        check_type(g_idx, "I32")
        check_shape(g_idx, (inputs,))
    group = min(run_length(inputs, groups, module.declared.groups), inputs)
    if not group and g_idx is not None:  # with an index of groups, the length of a run is no matter
        group = -(-inputs // groups)
    if not group or -(-inputs // group) != groups:
        raise RuleError(f"{groups} groups of {inputs} inputs have no known size")
    check_logical((outputs, inputs), inputs)
    return CompanionLayout(
        reader="gptq.Gptq",
        scheme="gptq",
        name=f"gptq{bits}",
        bits=bits,
        shape=(outputs, inputs),
        group_size=group,
        formula=Formula.ZERO_FIRST,
        options=(("stored_minus_one", int(_stores_minus_one(module))),),
        native=native,
    )


def _stores_minus_one(module: Module) -> bool:
    """Return whether zero points are stored less 1, as in version 1 of the format."""
    declared = module.declared
    if declared.method in _AUTO_ROUND:
        packing = declared.text("packing_format") or declared.text("backend")
        return not packing or ("gptq" in packing and "gptqmodel" not in packing)
    return _format_of(module) not in _NATURAL_ZEROS


def _awq_gemm(words: _Words, native: str) -> CompanionLayout:
    weight, zeros, scale = words
    inputs, outputs, groups = weight.rows, 8 * weight.columns, scale.rows
    if scale.columns != outputs or zeros.rows != groups:
        shapes = f"{[zeros.rows, zeros.columns]} and {[groups, scale.columns]}"
        raise RuleError(f"the shapes of its qzeros and scales, {shapes}, do not fit together")
    if inputs % groups:
        raise RuleError(f"its {inputs} inputs cannot be shared out among {groups} groups")
    return _awq_layout("gptq.AwqGemm", (outputs, inputs), inputs // groups, native)


def _awq_gemv(module: Module, words: _Words, native: str) -> CompanionLayout:
    outputs, inputs, columns = words.weight.rows, 8 * words.weight.columns, words.zeros.columns
    stated = [inputs if size == -1 else size for size in module.declared.groups if size is not None]
    for group in (*stated, 128, 64, 32, inputs):
        if inputs % group == 0 and _padded_zeros(inputs, group) == columns:
            return _awq_layout("gptq.AwqGemv", (outputs, inputs), group, native)
    raise RuleError(f"{columns} words of zero points for {inputs} inputs fit no group size")


def _padded_zeros(inputs: int, group: int) -> int:
    """Return the words that autoawq stores for the zero points of a row (gemv)."""
    step = 1 if group >= 128 else 2 if group == 64 else 4 if group == 32 else 0
    words = -(-(inputs // group) // 8)
    return -(-words // step) * step if step else 0


def _awq_layout(reader: str, shape: Shape, group: int, native: str) -> CompanionLayout:
    check_logical(shape, shape[1])
    return CompanionLayout(
        reader=reader,
        scheme="awq",
        name="awq4",
        bits=4,
        shape=shape,
        group_size=group,
        formula=Formula.ZERO_FIRST,
        native=native,
    )


# bitsandbytes

_STATE: Final = ".weight.quant_state.bitsandbytes__"
_MOST: Final = 3.4e38  # of a float32
_NATIVE: Final = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}


def bitsandbytes_4(module: Module) -> Found | None:
    """Return an NF4 or FP4 weight: its shape and its blocks are in a JSON text."""
    kinds = [kind for kind in ("nf4", "fp4") if module.get(_STATE + kind) is not None]
    if len(kinds) != 1:
        raise RuleError("it has two quant_states, of nf4 and of fp4")
    kind = kinds[0]
    state = module.need(_STATE + kind)
    check_type(state, "U8")
    fields = _state_fields(module, state)
    shape, block = _state_shape(fields), _state_size(fields, "blocksize")
    weights = math.prod(shape)
    weight, absmax = module.need(".weight"), module.need(".weight.absmax")
    table = module.need(".weight.quant_map")
    check_type(weight, "U8", *FLOAT_TYPES)
    width = weight.spec.type.block_bytes
    needed = ((weights + 1) // 2 + width - 1) // width * width
    if weight.spec.nbytes != needed:
        what = f"has {weight.spec.nbytes} bytes, and {list(shape)} takes {needed}"
        raise RuleError(f"its weight {what}")
    check_type(table, "F32")
    check_shape(table, (16,))
    blocks = -(-weights // block)
    check_shape(absmax, (blocks,), (blocks, 1))
    parts = {"weight": weight, "weight.absmax": absmax, "weight.quant_map": table}
    options: list[tuple[str, int | float | str]] = [("block", block)]
    if module.get(".weight.nested_absmax") is not None or absmax.dtype == "U8":
        options += _nested(module, absmax, blocks, fields, parts)
    else:
        check_type(absmax, "F32")
    parts[f"weight.quant_state.bitsandbytes__{kind}"] = state
    line = weights if weights <= block else math.gcd(weights, block)
    check_logical(shape, line)
    layout = CompanionLayout(
        reader="bitsandbytes.FourBits",
        scheme="bitsandbytes",
        name=kind,
        bits=4,
        shape=shape,
        group_size=block,
        line=line,
        run=line,
        levels=Levels.STORED,
        options=tuple(options),
        native=_NATIVE[fields["dtype"]],
    )
    return Found(".weight", parts, layout)


def _nested(
    module: Module, absmax: Member, blocks: int, fields: Mapping[str, Any], parts: dict[str, Member]
) -> list[tuple[str, int | float | str]]:
    """Add the parts of double quantization, and return its options."""
    check_type(absmax, "U8")
    scales = module.need(".weight.nested_absmax")
    table = module.need(".weight.nested_quant_map")
    size = _state_size(fields, "nested_blocksize")
    offset = fields.get("nested_offset")
    if isinstance(offset, bool) or not isinstance(offset, int | float) or abs(offset) > _MOST:
        raise RuleError("the nested_offset of its quant_state is not a number")
    check_type(scales, "F32")
    check_shape(scales, (-(-blocks // size),))
    check_type(table, "F32")
    check_shape(table, (256,))
    parts["weight.nested_absmax"] = scales
    parts["weight.nested_quant_map"] = table
    return [("nested_block", size), ("nested_offset", float(offset))]


def _state_fields(module: Module, state: Member) -> Mapping[str, Any]:
    """Return the JSON object of a quant_state; its dtype is one of three."""
    try:
        fields = json.loads(module.small(state).decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise RuleError("its quant_state is not JSON. The file is damaged") from error
    if not isinstance(fields, dict):
        raise RuleError("its quant_state is not a JSON object")
    dtype = fields.get("dtype")
    if not isinstance(dtype, str) or dtype not in _NATIVE:
        raise RuleError(f"its quant_state has no dtype of {', '.join(_NATIVE)}")
    return fields


def _refuse(name: str) -> None:
    raise ValueError(name)


def _state_size(fields: Mapping[str, Any], key: str) -> int:
    size = integer_of(fields, key)
    if size is None:
        raise RuleError(f"its quant_state has no {key} above 0")
    return size


def _state_shape(fields: Mapping[str, Any]) -> Shape:
    shape = fields.get("shape")
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= 4
        or not all(type(length) is int and 0 < length < 1 << 31 for length in shape)
    ):
        raise RuleError("its quant_state has no shape of 1 to 4 lengths above 0")
    return tuple(shape)


def bitsandbytes_8(module: Module) -> Found | None:
    """Return a weight of LLM.int8: `weight` I8 and `SCB`, the largest magnitude of each row."""
    largest, weight = module.need(".SCB"), module.need(".weight")
    shape = matrix(weight, "I8")
    check_type(largest, "F32")
    check_shape(largest, (shape.rows,), (shape.rows, 1))
    form = module.get(".weight_format")
    if form is not None and any(module.small(form)):
        raise LeftAloneError("its codes are in tiles")
    check_logical(weight.shape, shape.columns)
    layout = CompanionLayout(
        reader="bitsandbytes.Int8",
        scheme="bitsandbytes",
        name="int8",
        bits=8,
        shape=weight.shape,
        group_size=shape.columns,
        levels=Levels.SIGNED,
        formula=Formula.TWICE,
        native="F32",
    )
    return Found(".weight", {"weight": weight, "SCB": largest}, layout)
