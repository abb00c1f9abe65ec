"""Rules for weights whose values are not read: which parts they have, and how many weights.

Without them packed words and codebooks would count as weights. How codes become weights was not
verified against the methods' own libraries, so that no value is shown.

Source: exllamav2, ext.py (`q_weight`, `q_invperm`); exllamav3, modules/quant/exl3.py (`trellis`);
AQLM, inference.py; QuIP#, lib/linear/quantized_linear.py; torchao 0.18, quantize_/workflows/int4
(each kind is packed for a kernel of its own, and none is unpacked without a GPU or a library of
kernels); gptq's Marlin, `Layer.pack`;
nunchaku, models/linear.py; FP-Quant, inference_lib, module/linear.py; ComfyUI, quant_ops.py and
float.py (`to_blocked`: scales in tiles of 128 x 4, codes of two weights with the first above).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from explorer.formats.quantized.declaration import COMFY
from explorer.formats.quantized.modules import (
    EXPONENT_TYPES,
    FLOAT_TYPES,
    FP8_TYPES,
    Found,
    LeftAloneError,
    Member,
    Module,
    RuleError,
    check_logical,
    check_type,
)
from explorer.formats.quantized.rules_floats import QUARK, QUARK_SCALE, torchao_said
from explorer.quantization.huggingface.layout import CompanionLayout

_TILE = 16

_OF_COMFY: Final = {
    **{"nvfp4": 2, "mxfp8": 1, "asym_w4a8_int8": 2, "convrot_w4a4": 2},
    "convrot_int8": 1,  # of weights that are turned first
}
"""Formats of ComfyUI whose scales lie in tiles or are more than one, and weights in a byte."""


def comfy(module: Module) -> Found | None:
    """Return a weight that ComfyUI's marker calls by one of these formats; others are read."""
    try:
        said = json.loads(module.small(module.need(".comfy_quant")))
    except ValueError:
        raise RuleError("its comfy_quant is no JSON") from None
    return _of_comfy(module, _comfy_name(said))


def _comfy_name(marker: object) -> str:
    """Return the format that a marker names; "" if none."""
    fields = marker if isinstance(marker, dict) else {}
    name = fields.get("format")
    if name == "int8_tensorwise" and fields.get("convrot") is True:
        return "convrot_int8"
    return name if isinstance(name, str) else ""


def comfy_declared(module: Module) -> Found | None:
    """Return the same of a file whose metadata say that ComfyUI quantized it."""
    if module.declared.method != COMFY:
        return None
    layers = module.declared.fields.get("layers")
    if isinstance(layers, dict):
        name = str(module.ask(lambda stem: _comfy_name(layers.get(stem))))
        if name in _OF_COMFY:
            return _of_comfy(module, name)
    weight, scale = module.get(".weight"), module.need(".weight_scale")
    if weight is not None and weight.dtype == "U8" and scale.dtype == "F8_E4M3":
        return _of_comfy(module, "nvfp4")
    if weight is not None and weight.dtype in FP8_TYPES and scale.dtype in {"U8", *EXPONENT_TYPES}:
        return _of_comfy(module, "mxfp8")
    return None


def _of_comfy(module: Module, name: str) -> Found | None:
    if name not in _OF_COMFY:
        return None
    codes, _ = module.need(".weight"), module.need(".weight_scale")
    check_type(codes, "U8", "I8", *FP8_TYPES)
    if len(codes.shape) != 2:
        raise RuleError(f"its weight is of shape {list(codes.shape)}")
    shape = (codes.shape[0], codes.shape[1] * _OF_COMFY[name])
    names = ("weight_scale", "weight_scale_2", "weight_codebook", "weight_correction")
    return _found(module, f"comfy-{name}", codes, names, shape)


def quark(module: Module) -> Found | None:
    """Return a weight of AMD Quark in FP6 or 4-bit integers; FP4, FP8 and int8 are read."""
    codes, scale = module.get(".weight"), module.get(".weight_scale") or module.get(QUARK_SCALE)
    if module.declared.method != QUARK or codes is None or scale is None:
        return None
    if len(codes.shape) != 2 or 0 in codes.shape or codes.dtype not in {"U8", "I32"}:
        return None
    (rows, columns), other = codes.shape, ("weight_scale", QUARK_SCALE[1:], "weight_zero_point")
    if codes.dtype == "I32":  # eight to a word, and turned where groups have scales
        is_turned = len(scale.shape) == 2 and scale.shape[1] == 8 * columns
        shape = (8 * columns, rows) if is_turned else (rows, 8 * columns)
        return _found(module, "quark-int4", codes, other, shape)
    if scale.dtype in FLOAT_TYPES:
        raise LeftAloneError("integers in bytes")
    is_fp6 = scale.shape == (rows, columns // 24) and columns % 24 == 0  # bytes of 32
    shape = (rows, columns // 3 * 4)
    return _found(module, "quark-mxfp6", codes, other, shape) if is_fp6 else None


def sdnq(module: Module) -> Found | None:
    """Return a weight of SDNQ: codes of all rows in one run of bytes, scales [rows, groups, 1]."""
    codes, scale = module.get(".weight"), module.need(".scale")
    if module.declared.method != "sdnq" or codes is None or not scale.shape:
        return None  # norms have a scale, too
    if codes.dtype in FLOAT_TYPES:
        return None
    rows, groups = scale.shape[0], math.prod(scale.shape[1:])
    for bits in _widths_of_sdnq(module.declared.fields):
        columns, rest = divmod(8 * codes.spec.nbytes, max(1, bits * rows))
        if columns and groups and not rest and not columns % groups:
            others = ("scale", "zero_point", "svd_up", "svd_down")
            return _found(module, f"sdnq-{bits}", codes, others, (rows, columns))
    raise RuleError(
        f"its codes are {codes.spec.nbytes} bytes, and it does not say of how many bits"
    )


def _widths_of_sdnq(fields: Mapping[str, Any]) -> Iterator[int]:
    """Yield the bits that a configuration names: of most weights, then of some modules."""
    some = fields.get("modules_dtype_dict")
    for name in (fields.get("weights_dtype"), *(some if isinstance(some, dict) else ())):
        found = re.match(r"u?int([1-9][0-9]?)|float([1-9][0-9]?)", str(name))
        if found is not None:
            yield int(found[1] or found[2])


def exl3(module: Module) -> Found | None:
    """Return a weight of EXL3: tiles of 16 x 16 weights, `trellis`, with signs of both sides."""
    codes = _codes(module, ".trellis", 3, "I16")
    inputs, outputs = (_TILE * side for side in codes.shape[:2])
    names = ("suh", "svh", "su", "sv", "mcg", "mul1")
    return _found(module, "exl3", codes, names, (outputs, inputs))


def exl2(module: Module) -> Found | None:
    """Return a weight of EXL2: words of each output, in an order of inputs of their own."""
    codes = _codes(module, ".q_weight", 2, "I32")
    order = module.get(".q_invperm") or module.need(".q_perm")
    names = ("q_scale", "q_scale_max", "q_groups", "q_group_map", "q_invperm", "q_perm")
    return _found(module, "exl2", codes, names, (codes.shape[1], math.prod(order.shape)))


def aqlm(module: Module) -> Found | None:
    """Return a weight of AQLM: sums of rows of codebooks."""
    codes = _codes(module, ".codes", 3, "I8", "U8", "I16", "I32", "I64")
    books = _codes(module, ".codebooks", 4, *FLOAT_TYPES)
    shape = (codes.shape[0] * books.shape[2], codes.shape[1] * books.shape[3])
    return _found(module, "aqlm", codes, ("codebooks", "scales"), shape)


def marlin(module: Module) -> Found | None:
    """Return a weight of Marlin: 4-bit codes of tiles, `B`, and scales, `s`."""
    codes, scales = _codes(module, ".B", 2, "I32"), _codes(module, ".s", 2, *FLOAT_TYPES)
    return _found(module, "marlin", codes, ("s",), (scales.shape[1], _TILE * codes.shape[0]))


def quip(module: Module) -> Found | None:
    """Return a weight of QuIP#: places in a codebook, and signs of inputs and of outputs."""
    codes = _codes(module, ".Qidxs", 2, "I16", "I32", "I64")
    inputs, outputs = (math.prod(module.need(f".{name}").shape) for name in ("SU", "SV"))
    return _found(module, "quip", codes, ("SU", "SV", "Wscale", "codebook_id"), (outputs, inputs))


def _codes(module: Module, suffix: str, axes: int, *types: str) -> Member:
    """Return a part of one of some types and of so many dimensions."""
    found = module.need(suffix)
    check_type(found, *types)
    if len(found.shape) != axes:
        raise RuleError(f"its {found.called} is of shape {list(found.shape)}")
    return found


def svdquant(module: Module) -> Found | None:
    """Return a weight of SVDQuant, 4-bit codes in bytes; its low-rank part counts as weights."""
    codes = module.get(".qweight")
    if codes is None or len(codes.shape) != 2:
        return None
    check_type(codes, "I8")
    names = ("wscales", "smooth", "smooth_orig", "smooth_factor", "smooth_factor_orig", "wtscale")
    return _found(module, "svdquant", codes, names, (codes.shape[0], 2 * codes.shape[1]))


def fp_quant(module: Module) -> Found | None:
    """Return a weight of FP-Quant: FP4 in bytes, of weights that are turned by a matrix first."""
    codes = module.get(".qweight")
    if codes is None or codes.dtype != "U8" or len(codes.shape) != 2:
        return None  # a copy that is not packed, `dqweight`
    names = ("scales", "weight_global_scale", "act_global_scale")
    matrices = ("forward_hadamard_matrix", "backward_hadamard_matrix")
    shape = (codes.shape[0], 2 * codes.shape[1])
    return _found(module, "fp_quant", codes, (*names, *matrices), shape)


_CODES_OF_AO: Final = {"I8": 2, "U8": 2, "I32": 8}  # of 4 bits, in an element


def torchao_int4(module: Module) -> Found | None:
    """Return a weight of torchao's int4, whose shape `__metadata__` says; other kinds are read."""
    kind, data = torchao_said(module.metadata(".weight"))
    if not kind.startswith("Int4"):
        return None
    codes = module.need("._weight_qdata")
    check_type(codes, *_CODES_OF_AO)
    shape = data.get("shape")
    weights = math.prod(codes.shape) * _CODES_OF_AO[codes.dtype]
    if not (
        isinstance(shape, list)
        and len(shape) in (2, 3)
        and all(type(side) is int and 0 < side < 1 << 48 for side in shape)
        and math.prod(shape) == weights
    ):
        raise RuleError(f"its codes are of shape {list(codes.shape)}, but it does not say of which")
    names = ("scale", "zero_point", "scale_and_zero", "act_pre_scale")
    others = tuple(f"_weight_{name}" for name in names)
    return _found(module, "torchao-int4", codes, others, tuple(shape))


def _found(
    module: Module, scheme: str, codes: Member, others: Sequence[str], shape: tuple[int, ...]
) -> Found:
    if 0 in shape:
        raise RuleError(f"its {codes.called} is of shape {list(codes.shape)}")
    check_logical(shape, shape[-1])
    parts = {codes.called: codes}
    for name in others:
        part = module.get(f".{name}")
        if part is not None:
            parts[name] = part
    bits = 8 * codes.spec.nbytes / math.prod(shape)
    layout = CompanionLayout(
        reader="",
        scheme=scheme,
        name=scheme,
        bits=max(1, min(8, round(bits))),
        shape=shape,
        native="F16",
    )
    return Found(".weight", parts, layout)
