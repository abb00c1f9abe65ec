"""Rules for codes in 32-bit words (GPTQ, auto-round, AWQ) and for bitsandbytes.

Source: `docs/hf_quantization.md`, sections 3.1 to 3.3.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from explorer.formats.quantized.declaration import GPTQ_FILE, Declaration, integer_of, text_of
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
from explorer.formats.quantized.patterns import matches, may_evaluate
from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels, Shape

_WORD_BITS: Final = 32
_GPTQ_BITS: Final = (2, 3, 4, 8)
_NATURAL_ZEROS: Final = frozenset({"gptq_v2", "gptq_p"})
_GPTQ_METHODS: Final = frozenset({"gptq", "gptqmodel", "auto-round", "auto_round", "autoround"})
_AWQ_METHODS: Final = frozenset({"awq", "auto-round", "auto_round", "autoround"})
_SAID: Final = ("bits", "group_size", "desc_act")
_NOT_DECODED: Final = frozenset({"gemv_fast", "llm-awq", "tinychat", "marlin"})


class _Words(NamedTuple):
    """The parts of a weight whose codes are in words."""

    qweight: Member
    qzeros: Member
    scales: Member
    weight_shape: Matrix
    zeros_shape: Matrix
    scales_shape: Matrix


def gptq_or_awq(module: Module) -> Found | None:
    """Return a weight of GPTQ, auto-round or AWQ: `qweight`, `qzeros`, `scales`, [`g_idx`]."""
    parts = {name: module.need(f".{name}") for name in ("qweight", "qzeros", "scales")}
    g_idx = module.get(".g_idx")
    if g_idx is not None:
        parts["g_idx"] = g_idx
    layout, problem = _resolve(module, parts)
    if layout.scheme == "awq" and g_idx is not None:
        del parts["g_idx"]
    return Found(".weight", parts, layout, problem)


def _resolve(module: Module, parts: Mapping[str, Member]) -> tuple[CompanionLayout, str | None]:
    """Return how a weight is stored, and what contradicts its shapes."""
    qweight, qzeros, scales = (parts[name] for name in ("qweight", "qzeros", "scales"))
    kind = module.declared.text("version") or _format_of(module)
    if kind in _NOT_DECODED or (qweight.dtype, qzeros.dtype) == ("I16", "F16"):
        raise LeftAloneError(kind)
    shapes = (matrix(qweight, "I32"), matrix(qzeros, "I32"), matrix(scales, *FLOAT_TYPES))
    words = _Words(qweight, qzeros, scales, *shapes)
    weight, zeros, scale = shapes
    is_gemv = weight.rows == zeros.rows == scale.rows and scale.columns == 8 * zeros.columns
    if is_gemv and (kind == "gemv" or weight.columns != scale.columns):
        return _awq_gemv(module, words)
    if weight.columns == scale.columns:
        return _gptq(module, words, parts.get("g_idx"))
    if "g_idx" not in parts and zeros.columns == weight.columns:
        return _awq_gemm(module, words)
    texts = ", ".join(f"{list(one)}" for one in (qweight.shape, qzeros.shape, scales.shape))
    raise RuleError(f"the shapes of its qweight, qzeros and scales, {texts}, do not fit together")


def _format_of(module: Module) -> str:
    """Return what the model says about the format of its GPTQ weights, in lower case."""
    declared = module.declared
    for fields in (declared.fields, declared.files.get(GPTQ_FILE, {})):
        for key in ("checkpoint_format", "format"):
            if said := text_of(fields, key):
                return said
    return ""


def _gptq(
    module: Module, words: _Words, g_idx: Member | None
) -> tuple[CompanionLayout, str | None]:
    weight, zeros, scale = words.weight_shape, words.zeros_shape, words.scales_shape
    outputs, groups = scale.columns, scale.rows
    bits, rest = divmod(_WORD_BITS * zeros.columns, outputs)
    if rest or not 1 <= bits <= 8:
        what = f"{zeros.columns} words of zero points for {outputs} outputs"
        raise RuleError(f"its qzeros have {what}, which is no width of codes")
    if _format_of(module) == "gptq_p" and bits in {3, 5, 6, 7}:
        raise LeftAloneError(f"{bits} bits are stored in planes")
    if bits not in _GPTQ_BITS:
        raise RuleError(f"its codes of {bits} bits are no width of GPTQ")
    inputs, rest = divmod(_WORD_BITS * weight.rows, bits)
    if rest:
        raise RuleError(f"its qweight has {weight.rows} rows, no whole number of {bits}-bit codes")
    if zeros.rows != groups:
        raise RuleError(f"its qzeros have {zeros.rows} groups, its scales {groups}")
    if g_idx is not None:
        check_type(g_idx, "I32")
        check_shape(g_idx, (inputs,))
    own = _own_settings(module)
    group, problem = _group_size(inputs, groups, own, has_index=g_idx is not None)
    if g_idx is None and groups > 1 and all(one.get("desc_act") is True for one in own):
        problem = joined(problem, "the configuration says desc_act, and its g_idx is missing")
    wrong = _other_than(own, "bits", bits)
    check_logical((outputs, inputs), inputs)
    layout = CompanionLayout(
        reader="gptq.Gptq",
        scheme="gptq",
        name=f"gptq{bits}",
        bits=bits,
        shape=(outputs, inputs),
        group_size=group,
        line=inputs,
        run=group,
        levels=Levels.UNSIGNED,
        formula=Formula.ZERO_FIRST,
        options=(("stored_minus_one", int(_stores_minus_one(module))),),
        native=words.scales.dtype,
    )
    other = other_method(module, _GPTQ_METHODS, "GPTQ")
    return layout, joined(other, wrong, problem)


def _stores_minus_one(module: Module) -> bool:
    """Return whether zero points are stored less 1, as in version 1 of the format."""
    declared = module.declared
    if declared.method in _GPTQ_METHODS - {"gptq", "gptqmodel"}:
        packing = declared.text("packing_format") or declared.text("backend")
        return not packing or ("gptq" in packing and "gptqmodel" not in packing)
    return _format_of(module) not in _NATURAL_ZEROS


def _own_settings(module: Module) -> list[Mapping[str, Any]]:
    """Return all that may be said of a module, the likeliest first."""
    said = module.settings(partial(_gptq_settings, module.declared))
    general = (module.declared.fields, module.declared.files.get(GPTQ_FILE, {}))

    def value(own: Mapping[str, Any], key: str) -> object:
        return next((one[key] for one in (own, *general) if one.get(key) is not None), None)

    return [{key: value(one, key) for key in _SAID} for one in said]


def _gptq_settings(declared: Declaration, stem: str) -> Sequence[Mapping[str, Any]]:
    """Return what may hold for a module, the likeliest first: its own rule, or the general one.

    The first rule that fits it holds alone; one that is not evaluated, because its pattern could
    take for ever, may hold.
    """
    own = next(declared.own_settings(stem), None)
    if own is not None:
        return [own]
    if not may_evaluate():
        return [*declared.rule_settings, declared.fields]
    found: list[Mapping[str, Any]] = []
    for rule, settings in declared.module_rules:
        holds = matches(rule, stem)
        if holds is not False:
            found.append(settings)
        if holds:
            return found
    return [*found, declared.fields]


def _group_size(
    inputs: int, groups: int, settings: Sequence[Mapping[str, Any]], *, has_index: bool
) -> tuple[int, str | None]:
    """Return the weights of a group, and what contradicts the shapes.

    Raises:
        RuleError: Neither shapes nor settings tell it.
    """
    said = [size for one in settings if (size := integer_of(one, "group_size", -1)) is not None]
    if groups == 1:
        wrong = next((size for size in said if 0 < size < inputs), None)
        fits = not said or any(size == -1 or size >= inputs for size in said)
        return inputs, None if fits or wrong is None else says("group_size", wrong, inputs)
    for size in said:
        if size > 0 and -(-inputs // size) == groups:
            return size, None
    if inputs % groups == 0:
        size = inputs // groups
    else:
        size = usual_run(inputs, groups)
        if not size:
            # with an index of groups, the length of a run means nothing
            if not has_index:
                raise RuleError(f"{groups} groups of {inputs} inputs have no known size")
            size = -(-inputs // groups)
            if -(-inputs // size) != groups:
                raise RuleError(f"{groups} groups of {inputs} inputs have no known size")
    return size, says("group_size", said[0], size) if said else None


def _other_than(settings: Sequence[Mapping[str, Any]], key: str, found: int) -> str | None:
    """Return what is wrong with a setting; None if nothing is said, or what was found."""
    said = [number for one in settings if (number := integer_of(one, key)) is not None]
    if not said or found in said:
        return None
    return f"the configuration says {said[0]} {key}, the shapes say {found}"


def _awq_gemm(module: Module, words: _Words) -> tuple[CompanionLayout, str | None]:
    weight, zeros, scale = words.weight_shape, words.zeros_shape, words.scales_shape
    inputs, outputs, groups = weight.rows, 8 * weight.columns, scale.rows
    if scale.columns != outputs or zeros.rows != groups:
        shapes = f"{list(words.qzeros.shape)} and {list(words.scales.shape)}"
        raise RuleError(f"the shapes of its qzeros and scales, {shapes}, do not fit together")
    if inputs % groups:
        raise RuleError(f"its {inputs} inputs cannot be shared out among {groups} groups")
    group = inputs // groups
    layout = _awq_layout("gptq.AwqGemm", words, (outputs, inputs), group)
    return _with_problem(module, layout)


def _awq_gemv(module: Module, words: _Words) -> tuple[CompanionLayout, str | None]:
    weight, zeros = words.weight_shape, words.zeros_shape
    outputs, inputs = weight.rows, 8 * weight.columns
    sizes = [inputs if said == -1 else said for said in _awq_groups(module)]
    for group in (*sizes, *(128, 64, 32), inputs):
        whole = group > 0 and inputs % group == 0
        if whole and _padded_zeros(inputs, group) == zeros.columns:
            layout = _awq_layout("gptq.AwqGemv", words, (outputs, inputs), group)
            layout, problem = _with_problem(module, layout)
            is_gemm = module.declared.text("version") == "gemm"
            return layout, joined(says("version", "gemm", "gemv") if is_gemm else None, problem)
    raise RuleError(f"{zeros.columns} words of zero points for {inputs} inputs fit no group size")


def _padded_zeros(inputs: int, group: int) -> int:
    """Return the words that autoawq stores for the zero points of a row (gemv)."""
    step = 1 if group >= 128 else 2 if group == 64 else 4 if group == 32 else 0
    words = -(-(inputs // group) // 8)
    return -(-words // step) * step if step else 0


def _awq_layout(reader: str, words: _Words, shape: Shape, group: int) -> CompanionLayout:
    check_logical(shape, shape[1])
    return CompanionLayout(
        reader=reader,
        scheme="awq",
        name="awq4",
        bits=4,
        shape=shape,
        group_size=group,
        line=shape[1],
        run=group,
        levels=Levels.UNSIGNED,
        formula=Formula.ZERO_FIRST,
        native=words.scales.dtype,
    )


def _awq_groups(module: Module) -> list[int]:
    """Return the sizes of groups that may be said of a module, the likeliest first."""
    own = [integer_of(one, "group_size", -1) for one in _own_settings(module)]
    old = integer_of(module.declared.fields, "q_group_size", -1)
    return [size for size in (*own, old) if size is not None]


def _with_problem(module: Module, layout: CompanionLayout) -> tuple[CompanionLayout, str | None]:
    """Return a layout of AWQ, and what is said otherwise."""
    bits = integer_of(module.declared.fields, "w_bit")
    groups = _awq_groups(module)
    fits = {layout.group_size} | ({-1} if layout.group_size == layout.shape[1] else set())
    problem = joined(
        other_method(module, _AWQ_METHODS, "AWQ"),
        _other_than([*_own_settings(module), {"bits": bits}], "bits", 4),
        says("group_size", groups[0], layout.group_size)
        if fits.isdisjoint(groups or fits)
        else None,
    )
    return layout, problem


# bitsandbytes

_STATE: Final = ".weight.quant_state.bitsandbytes__"
_MAX_DEPTH: Final = 8
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
        formula=Formula.SCALED,
        options=tuple(options),
        native=_NATIVE[fields["dtype"]],
    )
    said = fields.get("quant_type")
    wrong = None if said == kind else f"its quant_state says {said!r:.40}, its name says {kind}"
    other = other_method(module, frozenset({"bitsandbytes"}), "bitsandbytes")
    return Found(".weight", parts, layout, joined(other, wrong))


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
        raise RuleError("the nested_offset of its quant_state is no number")
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
        raise RuleError("its quant_state is no JSON text; the file is damaged") from error
    if not isinstance(fields, dict) or _depth(fields) > _MAX_DEPTH:
        raise RuleError("its quant_state is no JSON object of known fields")
    dtype = fields.get("dtype")
    if not isinstance(dtype, str) or dtype not in _NATIVE:
        raise RuleError(f"its quant_state has no dtype of {', '.join(_NATIVE)}")
    return fields


def _refuse(name: str) -> None:
    raise ValueError(name)


def _depth(value: object) -> int:
    """Return how deep a value is nested, counted to one above what is allowed."""
    level, depth = [value], 0
    while level and depth <= _MAX_DEPTH:
        depth += 1
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        level = inner
    return depth


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
        or math.prod(shape) >= 1 << 48
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
        line=shape.columns,
        run=shape.columns,
        levels=Levels.SIGNED,
        formula=Formula.TWICE,
        native="F32",
    )
    other = other_method(module, frozenset({"bitsandbytes"}), "bitsandbytes")
    parts = {"weight": weight, "SCB": largest}
    return Found(".weight", parts, layout, other)
