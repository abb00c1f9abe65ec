"""Rules for codes of a byte or half a byte: FP8, FP4, int8, gpt-oss, ModelOpt, torchao.

Source: `docs/hf_quantization.md`, sections 3.4 to 3.7 and 3.10.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from explorer.formats.quantized.declaration import Declaration, integer_of, text_of
from explorer.formats.quantized.modules import (
    EXPONENT_TYPES,
    FLOAT_TYPES,
    FP8_TYPES,
    Found,
    LeftAloneError,
    Member,
    Module,
    RuleError,
    Tile,
    check_logical,
    check_shape,
    check_type,
    joined,
    matrix,
    other_method,
    says,
    tiles_layout,
    usual_run,
)
from explorer.formats.quantized.patterns import matches, may_evaluate
from explorer.formats.quantized.rules_stacked import bitnet
from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels, Shape

_SCALES: Final = (*sorted(FLOAT_TYPES), *sorted(EXPONENT_TYPES))
_BLOCK_AXES: Final = 4  # of ModelOpt's scales of blocks
_USUAL: Final = 128  # side of the blocks of DeepSeek's FP8, which most programs took over
_MX: Final = 32
_NV: Final = 16

_FP8_METHODS: Final = frozenset({"fp8", "fbgemm_fp8"})
CT_METHODS: Final = frozenset({"compressed-tensors", "sparseml"})
_MODELOPT: Final = ("modelopt", "nvfp4")


def scheme_of(module: Module, default: str) -> str:
    """Return the method of a weight whose keys several methods use: the declared one."""
    method = module.declared.method
    if method in CT_METHODS:
        return "compressed-tensors"
    return "modelopt" if method.startswith(_MODELOPT) else default


def scaled_weight(module: Module) -> Found | None:
    """Return a weight with `weight_scale`: FP8, int8, NVFP4 of ModelOpt, or BitNet's."""
    weight, scale = module.get(".weight"), module.need(".weight_scale")
    if weight is None:
        return None  # told as a part without its weight
    if weight.dtype in FP8_TYPES:
        return _tiles(module, ".weight", {"weight": weight, "weight_scale": scale})
    if weight.dtype == "I8":
        return _int8(module, weight, scale)
    if weight.dtype in FLOAT_TYPES and _may_be_plain(module.declared):
        raise LeftAloneError("its weights are plain")
    check_type(weight, "U8", "I8", *FP8_TYPES)
    if scale.dtype == "F8_E4M3" or module.get(".weight_scale_2") is not None:
        return _modelopt_nvfp4(module, weight, scale)
    if math.prod(scale.shape) == 1:
        return bitnet(module)
    return _paired_rows(module, weight, scale)


def _may_be_plain(declared: Declaration) -> bool:
    """Return whether weights with scales may be floats: of no method, or not yet compressed."""
    status, form = declared.text("quantization_status"), declared.text("format")
    is_compressed = status in {"", "compressed"} and form not in {"dense", "fakequant"}
    return not declared.method or not is_compressed


def inverse_scaled_weight(module: Module) -> Found | None:
    """Return an FP8 weight with `weight_scale_inv`, which is multiplied all the same."""
    return _named_scale(module, "weight_scale_inv")


def shortly_scaled_weight(module: Module) -> Found | None:
    """Return a weight with `scale` (DeepSeek V4): FP8, or FP4 in bytes of two."""
    weight, scale = module.get(".weight"), module.need(".scale")
    if scale.dtype == "F8_E8M0":  # which nothing else has
        check_type(module.need(".weight"), "I8", "U8", *FP8_TYPES)
    elif weight is not None and module.declared.method in _FP8_METHODS:
        check_type(weight, *FP8_TYPES, *FLOAT_TYPES)
    if weight is not None and weight.dtype in {"I8", "U8"} and scale.dtype == "F8_E8M0":
        parts = {"weight": weight, "scale": scale}
        shape = _packed_shape(weight)
        _check_whole(shape[-1], _MX)
        check_shape(scale, (*shape[:-1], shape[-1] // _MX))
        return _fp4(".weight", parts, shape, _Fp4("fp8", "mxfp4", None))
    return _named_scale(module, "scale")


def mistral_weight(module: Module) -> Found | None:
    """Return an FP8 weight with `qscale_weight`."""
    return _named_scale(module, "qscale_weight")


def _named_scale(module: Module, role: str) -> Found | None:
    weight, scale = module.get(".weight"), module.need(f".{role}")
    if weight is None or weight.dtype not in FP8_TYPES:
        return None
    return _tiles(module, ".weight", {"weight": weight, role: scale})


def fused_experts(module: Module) -> Found | None:
    """Return experts in one FP8 tensor of three dimensions, `Y` and `Y_scale_inv`."""
    weight, scale = module.get(""), module.need("_scale_inv")
    if weight is None or weight.dtype not in FP8_TYPES:
        return None
    return _tiles(module, "", {"weight": weight, "weight_scale_inv": scale})


def _tiles(module: Module, suffix: str, parts: dict[str, Member]) -> Found:
    """Return an FP8 weight: a scale for the tensor, for each row or for each tile."""
    weight, scale = parts.values()
    check_type(scale, *_SCALES)
    if len(weight.shape) not in {2, 3} or 0 in weight.shape:
        raise RuleError(f"its weight is of shape {list(weight.shape)}, and should be a matrix")
    check_logical(weight.shape, weight.shape[-1])
    tile = _tile_of(module, weight, scale)
    scheme = scheme_of(module, "fp8")
    is_mx = scale.dtype in EXPONENT_TYPES and tile[:2] == (1, _MX)
    layout = tiles_layout(scheme, "mxfp8" if is_mx else "fp8", parts, tile)
    native = "BF16" if scheme == "modelopt" else layout.native
    known = scheme in {"compressed-tensors", "modelopt"}
    other = None if known else other_method(module, _FP8_METHODS, "FP8")
    differs = _contradiction(module, "float", has_zeros=False)
    problem = joined(other, tile.problem, differs)
    return Found(suffix, parts, replace(layout, native=native), problem)


def _contradiction(module: Module, kind: str, *, has_zeros: bool) -> str | None:
    """Return what compressed-tensors' groups or ModelOpt say otherwise of a weight of bytes."""
    declared = module.declared
    if declared.method in CT_METHODS:
        return ct_contradiction(ct_settings(module), 8, kind, has_zeros=has_zeros)
    algorithm = declared.text("quant_algo") if declared.method.startswith(_MODELOPT) else ""
    is_float = algorithm.startswith(("fp8", "mxfp8")) and kind == "int"
    is_integer = algorithm.startswith(("int8", "w8a8_sq", "w8a16")) and kind == "float"
    return says("quant_algo", algorithm, kind) if is_float or is_integer else None


def _tile_of(
    module: Module, weight: Member, scale: Member, own: Sequence[tuple[int, int]] = ()
) -> Tile:
    """Return the tile of a scale; all rows of all matrices where there is one scale.

    Args:
        module: The module.
        weight: The codes.
        scale: The scales.
        own: What the files say about this weight alone.

    Raises:
        RuleError: Scales of this shape do not belong to the weight.
        LeftAloneError: They belong to it in a way that is not decoded.
    """
    grid, shape = _grid(weight, scale), (weight.shape[-2], weight.shape[-1])
    said = own or _said_tiles(module, shape)
    if len(scale.shape) == _BLOCK_AXES:
        said = [(_USUAL, _USUAL)]
    if grid is None:
        whole = not said or any(_clipped(tile, shape) == shape for tile in said)
        problem = None if whole else says("block size", list(said[0]), list(shape))
        return Tile(math.prod(weight.shape[:-1]), weight.shape[-1], problem)
    return _tile(shape, grid, said)


def _grid(weight: Member, scale: Member) -> tuple[int, int] | None:
    """Return the rows and columns of tiles in a matrix; None for one scale of the whole tensor.

    Raises:
        RuleError: Scales of this shape do not belong to the weight.
        LeftAloneError: They belong to it in a way that is not decoded.
    """
    shape, (rows, columns) = scale.shape, weight.shape[-2:]
    if math.prod(shape) == 1:
        return None
    if len(weight.shape) == 3:
        if len(shape) == 3 and shape[0] == weight.shape[0]:
            if shape[1] == 1 < shape[2] == columns:
                raise LeftAloneError("a scale for each column")
            return shape[1], shape[2]
    elif len(shape) == 1 and shape[0] == rows:
        return rows, 1
    elif len(shape) == 2:
        return shape[0], shape[1]
    elif len(shape) == _BLOCK_AXES and shape[1] == shape[3] == 1:
        return shape[0], shape[2]
    what = f"its {scale.called} is of shape {list(shape)}"
    raise RuleError(f"{what}, which does not fit a weight of shape {list(weight.shape)}")


def _tile(shape: tuple[int, int], grid: tuple[int, int], said: Sequence[tuple[int, int]]) -> Tile:
    """Return the tiles of a matrix, as shapes and the configuration say.

    Raises:
        RuleError: No tiles make this grid.
    """

    def fits(tile: tuple[int, int]) -> bool:
        sides = zip(shape, tile, grid, strict=True)
        return all(-(-side // part) == count for side, part, count in sides)

    rows, columns = (
        0 if not count else usual_run(side, count) if side % count else side // count
        for side, count in zip(shape, grid, strict=True)
    )
    for tile in (*said, (1, columns), (_USUAL, _USUAL), (rows, columns)):
        if min(tile) > 0 and fits(tile):
            found = _clipped(tile, shape)
            wrong = said and all(_clipped(one, shape) != found for one in said)
            return Tile(*found, says("block size", list(said[0]), list(found)) if wrong else None)
    what = f"{grid[0]} × {grid[1]} scales do not fit a matrix of {shape[0]} × {shape[1]} weights"
    raise RuleError(what)


def _clipped(tile: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
    return min(tile[0], shape[0]), min(tile[1], shape[1])


def _said_tiles(module: Module, shape: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the tiles that the configuration names for a module's matrix."""
    declared = module.declared
    found = _sides(declared.fields.get("weight_block_size"))
    if declared.method not in CT_METHODS:
        return found
    for weights in ct_settings(module):
        block, group = weights.get("block_structure"), integer_of(weights, "group_size", -1)
        if isinstance(block, str) and len(block) < 20:
            block = [int(part) for part in block.split("x") if part.isascii() and part.isdigit()]
        strategy = text_of(weights, "strategy")
        if sides := _sides(block):
            found += sides
        elif group is not None and group > 0:
            found.append((1, group))
        elif group == -1 or strategy in PER_ROW:
            found.append((1, shape[1]))
        elif strategy in {"", "tensor"}:
            found.append(shape)
    return found


# compressed-tensors' groups of modules

PER_ROW: Final = frozenset({"channel", "token"})
"""Strategies with a scale for each row."""


def ct_settings(module: Module) -> Sequence[Mapping[str, Any]]:
    """Return what may be said of a module's weights, the likeliest first."""
    return module.settings(partial(_ct_settings, module.declared))


def _ct_settings(declared: Declaration, stem: str) -> Sequence[Mapping[str, Any]]:
    """Return what the groups say that may be a module's.

    Exact names come before patterns, patterns before names of classes, as in compressed-tensors;
    the first that fits holds alone. A pattern that is not evaluated may fit.
    """
    targets = declared.targets
    groups = [weights for _, weights in declared.groups]
    named = targets.paths.get(stem)
    if named is not None:
        return [groups[named]]
    found: dict[int, None] = {}
    for rule, group in targets.patterns if may_evaluate() else ():
        holds = matches(rule, stem)
        if holds is not False:
            found[group] = None
        if holds:
            return [groups[one] for one in found]
    return [groups[one] for one in (*found, *(one for one in targets.order if one not in found))]


def ct_contradiction(
    said: Sequence[Mapping[str, Any]], bits: int, kind: str = "float", *, has_zeros: bool = False
) -> str | None:
    """Return what is said otherwise of a weight: bits, integers or floats, zero points or not."""
    numbers = [number for one in said if (number := integer_of(one, "num_bits")) is not None]
    kinds = [text_of(one, "type") for one in said]
    other_kind = said and all(one not in {"", kind} for one in kinds)
    symmetries = {one.get("symmetric") for one in said}
    return joined(
        says("num_bits", numbers[0], bits) if numbers and bits not in numbers else None,
        says("type", kinds[0], kind) if other_kind else None,
        _NO_ZEROS if symmetries == {False} and not has_zeros else None,
        _SOME_ZEROS if symmetries == {True} and has_zeros else None,
    )


_NO_ZEROS: Final = "the configuration says asymmetric, and its zero points are missing"
_SOME_ZEROS: Final = "the configuration says symmetric, and zero points are stored"


def _sides(said: object) -> list[tuple[int, int]]:
    """Return the sides of a tile, if they are two integers above 0."""
    if (
        isinstance(said, list)
        and len(said) == 2
        and all(type(size) is int and 0 < size < 1 << 31 for size in said)
    ):
        return [(said[0], said[1])]
    return []


def _int8(module: Module, weight: Member, scale: Member) -> Found:
    """Return a weight of int8 with scales of the tensor, of rows or of groups of a row."""
    shape = matrix(weight, "I8")
    check_type(scale, *FLOAT_TYPES)
    tile = _tile_of(module, weight, scale)
    parts = {"weight": weight, "weight_scale": scale}
    _add_zeros(module, "weight_zero_point", scale, parts)
    check_logical(weight.shape, shape.columns)
    layout = tiles_layout(scheme_of(module, "compressed-tensors"), "int8", parts, tile)
    other = None
    if not module.declared.method.startswith(_MODELOPT):
        other = other_method(module, CT_METHODS, "compressed-tensors")
    differs = _contradiction(module, "int", has_zeros="weight_zero_point" in parts)
    return Found(".weight", parts, layout, joined(other, tile.problem, differs))


def _add_zeros(module: Module, role: str, scale: Member, parts: dict[str, Member]) -> None:
    """Add zero points to the parts of a weight of int8, if there are any."""
    zeros = module.get(f".{role}")
    if zeros is not None:
        check_type(zeros, "I8")
        check_shape(zeros, scale.shape)
        parts[role] = zeros


class _Fp4(NamedTuple):
    """What FP4 weights differ in."""

    scheme: str
    name: str
    group_size: int | None
    options: tuple[tuple[str, int | str], ...] = ()
    levels: Levels = Levels.E2M1


def _packed_shape(codes: Member) -> Shape:
    """Return the logical shape of nibbles, two to a byte."""
    if not codes.shape or 0 in codes.shape:
        raise RuleError(f"its {codes.called} is of shape {list(codes.shape)}")
    return (*codes.shape[:-1], 2 * codes.shape[-1])


def _fp4(suffix: str, parts: dict[str, Member], shape: Shape, kind: _Fp4) -> Found:
    """Return a weight of E2M1 codes with scales of 16 or 32 weights of a row."""
    line = shape[-1]
    check_logical(shape, line)
    codes, scales = list(parts)[:2]
    layout = CompanionLayout(
        reader="floats.Fp4",
        scheme=kind.scheme,
        name=kind.name,
        bits=4,
        shape=shape,
        group_size=kind.group_size,
        line=line,
        run=_NV if kind.name == "nvfp4" else _MX,
        levels=kind.levels,
        formula=Formula.SCALED,
        options=(("codes", codes), ("scales", scales), *kind.options),
        native="BF16",
    )
    return Found(suffix, parts, layout)


def _modelopt_nvfp4(module: Module, weight: Member, scale: Member) -> Found:
    """Return ModelOpt's NVFP4: scales are multiplied by `weight_scale_2`."""
    matrix(weight, "U8")
    factor = module.need(".weight_scale_2")
    check_type(scale, "F8_E4M3")
    check_type(factor, "F32")
    check_shape(factor, (), (1,))
    shape = _packed_shape(weight)
    check_shape(scale, (shape[0], shape[1] // _NV))
    _check_whole(shape[1], _NV)
    parts = {"weight": weight, "weight_scale": scale, "weight_scale_2": factor}
    options = (("factor", "weight_scale_2"),)
    kind = _Fp4("modelopt", "nvfp4", _NV, options, Levels.STORED)
    found = _fp4(".weight", parts, shape, kind)
    return found._replace(problem=_other_than_modelopt(module, _NV))


def _other_than_modelopt(module: Module, group: int) -> str | None:
    """Return what is said otherwise: another method, or other groups."""
    declared = module.declared
    method, size = declared.method, declared.integer("group_size")
    if method and not method.startswith(_MODELOPT):
        # DeepSeek's FP8 has such experts, which a field of their own says
        is_known = declared.text("moe_quant_algo").startswith("nvfp4")
        return None if is_known else other_method(module, frozenset(), "ModelOpt")
    return None if size in {None, group} else says("group_size", size, group)


def _check_whole(line: int, group: int) -> None:
    if line % group:
        raise RuleError(f"rows of {line} weights are no whole number of groups of {group}")


def _paired_rows(module: Module, weight: Member, scale: Member) -> Found:
    """Return ModelOpt's W4A16_AWQ: 4-bit integers of two rows in a byte."""
    stored = matrix(weight, "U8")
    scales = matrix(scale, *FLOAT_TYPES)
    rows, columns = 2 * stored.rows, stored.columns
    if scales.rows != rows or columns % scales.columns:
        shapes = f"{list(weight.shape)} and {list(scale.shape)}"
        raise RuleError(f"the shapes of its weight and weight_scale, {shapes}, do not fit together")
    run = columns // scales.columns
    check_logical((rows, columns), columns)
    layout = CompanionLayout(
        reader="floats.PairedRows",
        scheme="modelopt",
        name="int4",
        bits=4,
        shape=(rows, columns),
        group_size=run,
        line=columns,
        run=run,
        levels=Levels.SIGNED,
        formula=Formula.SCALED,
        native=scale.dtype,
    )
    parts = {"weight": weight, "weight_scale": scale}
    return Found(".weight", parts, layout, _other_than_modelopt(module, run))


def gpt_oss(module: Module) -> Found | None:
    """Return experts of gpt-oss: `Y_blocks` of 16 bytes for 32 weights, and `Y_scales`."""
    return _mxfp4_experts(module, "_blocks", "_scales")


def gpt_oss_original(module: Module) -> Found | None:
    """Return experts of gpt-oss as OpenAI names them, `Y.blocks` and `Y.scales`."""
    return _mxfp4_experts(module, ".blocks", ".scales")


def _mxfp4_experts(module: Module, codes_suffix: str, scales_suffix: str) -> Found | None:
    codes, scales = module.need(codes_suffix), module.get(scales_suffix)
    if codes.dtype != "U8" or len(codes.shape) < 3 or codes.shape[-1] != _MX // 2:
        if scales is None:
            return None  # some other tensor of this name
        check_type(codes, "U8")
        what = f"is of shape {list(codes.shape)}, and should have {_MX // 2} bytes a block"
        raise RuleError(f"its {codes.called} {what}")
    if scales is None:
        raise RuleError(f"its {scales_suffix[1:]} is missing")
    check_type(scales, "U8")
    check_shape(scales, codes.shape[:-1])
    shape = (*codes.shape[:-2], _MX * codes.shape[-2])
    parts = {"blocks": codes, "scales": scales}
    kind = _Fp4("mxfp4", "mxfp4", _MX, (("scale_type", "power of two"),))
    other = other_method(module, frozenset({"mxfp4"}), "MXFP4")
    return _fp4("", parts, shape, kind)._replace(problem=other)


def ct_fp4(module: Module) -> Found:
    """Return compressed-tensors' NVFP4, whose scales are divided by a global one, or MXFP4."""
    codes, scale = module.need(".weight_packed"), module.need(".weight_scale")
    matrix(codes, "U8")
    shape = _packed_shape(codes)
    parts = {"weight_packed": codes, "weight_scale": scale}
    if scale.dtype == "F8_E4M3":
        divisor = module.need(".weight_global_scale")
        check_type(divisor, "F32")
        check_shape(divisor, (), (1,))
        _check_whole(shape[1], _NV)
        check_shape(scale, (shape[0], shape[1] // _NV))
        parts["weight_global_scale"] = divisor
        options = (("divisor", "weight_global_scale"),)
        kind = _Fp4("compressed-tensors", "nvfp4", _NV, options)
    else:
        check_type(scale, *sorted(EXPONENT_TYPES))
        _check_whole(shape[1], _MX)
        check_shape(scale, (shape[0], shape[1] // _MX))
        options = (("scale_type", "F8_E8M0"),)
        kind = _Fp4("compressed-tensors", "mxfp4", _MX, options)
    said = ct_settings(module)
    sizes = [integer_of(one, "group_size", -1) or 0 for one in said]
    wrong = sizes and 0 not in sizes and kind.group_size not in sizes
    problem = joined(
        other_method(module, CT_METHODS, "compressed-tensors"),
        ct_contradiction(said, 4),
        says("group_size", sizes[0], kind.group_size) if wrong else None,
    )
    return _fp4(".weight", parts, shape, kind)._replace(problem=problem)


# torchao

_AO_KINDS: Final[Mapping[str, str]] = {"Int8Tensor": "I8", "Float8Tensor": "F8_E4M3"}
_AO_NATIVE: Final = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
_MAX_TEXT: Final = 65_536


def torchao(module: Module) -> Found | None:
    """Return a weight of torchao; `__metadata__` says of which kind it is."""
    codes, scale = module.need("._weight_qdata"), module.need("._weight_scale")
    kind, native, tiles = _ao_kind(module.metadata(".weight"))
    kind = kind or next((kind for kind, dtype in _AO_KINDS.items() if dtype == codes.dtype), "")
    if not kind:
        check_type(codes, *_AO_KINDS.values())
    if kind not in _AO_KINDS:
        raise LeftAloneError(kind)
    shape = matrix(codes, _AO_KINDS[kind])
    check_type(scale, *FLOAT_TYPES)
    tile = _tile_of(module, codes, scale, tiles)
    parts = {"_weight_qdata": codes, "_weight_scale": scale}
    if kind == "Int8Tensor":
        _add_zeros(module, "_weight_zero_point", scale, parts)
    check_logical(codes.shape, shape.columns)
    layout = tiles_layout("torchao", "int8" if codes.dtype == "I8" else "fp8", parts, tile)
    layout = replace(layout, native=native or scale.dtype)
    other = other_method(module, frozenset({"torchao"}), "torchao")
    return Found(".weight", parts, layout, joined(other, tile.problem))


def _ao_kind(text: str) -> tuple[str, str, list[tuple[int, int]]]:
    """Return the kind of a tensor, its native type, both "" if not said, and its tile, if said."""
    if not 0 < len(text) <= _MAX_TEXT:
        return "", "", []
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return "", "", []
    kind = fields.get("_type") if isinstance(fields, dict) else None
    if not isinstance(kind, str):
        return "", "", []
    data: Any = fields.get("_data")
    if not isinstance(data, dict):
        return kind, "", []
    dtype = data.get("dtype")
    native = dtype.get("_data") if isinstance(dtype, dict) else None
    native = _AO_NATIVE.get(native, "") if isinstance(native, str) else ""
    return kind, native, _sides(data.get("block_size"))
