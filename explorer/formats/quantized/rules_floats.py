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

from explorer.formats.quantized.declaration import COMFY, Declaration, Tile, sides
from explorer.formats.quantized.modules import (
    EXPONENT_TYPES,
    FLOAT_TYPES,
    FP8_TYPES,
    SCALE_ROLES,
    Found,
    LeftAloneError,
    Member,
    Module,
    RuleError,
    check_logical,
    check_shape,
    check_type,
    matrix,
    run_length,
    sides_of,
    tiles_layout,
)
from explorer.formats.quantized.rules_stacked import bitnet
from explorer.quantization.huggingface.layout import CompanionLayout, Levels, Shape

_SCALES: Final = (*sorted(FLOAT_TYPES), *sorted(EXPONENT_TYPES))
_BLOCK_AXES: Final = 4  # of ModelOpt's scales of blocks
_USUAL_TILE: Final = (128, 128)  # of DeepSeek's FP8, which most programs took over
_MX: Final = 32
_NV: Final = 16

_FP8_METHODS: Final = frozenset({"fp8", "fbgemm_fp8"})
CT_METHODS: Final = frozenset({"compressed-tensors", "sparseml"})
_MODELOPT: Final = ("modelopt", "nvfp4")
QUARK: Final = "quark"
QUARK_SCALE: Final = ".weight_quantizer.scale"
"""What `.weight_scale` is called in some files of AMD Quark."""


def scheme_of(module: Module, default: str) -> str:
    """Return the method of a weight whose keys several methods use: the declared one."""
    method = module.declared.method
    if method in CT_METHODS:
        return "compressed-tensors"
    if method == QUARK:
        return QUARK
    if method == COMFY or module.get(".comfy_quant") is not None:
        return COMFY
    return "modelopt" if method.startswith(_MODELOPT) else default


def scaled_weight(module: Module) -> Found | None:
    """Return a weight with `weight_scale`: FP8, int8, NVFP4 of ModelOpt, MXFP4, or BitNet's."""
    weight, scale = module.get(".weight"), module.get(".weight_scale")
    scale = scale or module.need(QUARK_SCALE)
    if weight is None:
        return None  # reported as a part without its weight
    if weight.dtype in FP8_TYPES:
        return _tiles(module, ".weight", {"weight": weight, "weight_scale": scale})
    if weight.dtype == "I8":
        return _int8(module, weight, scale)
    if weight.dtype in FLOAT_TYPES and _may_be_plain(module.declared):
        raise LeftAloneError("its weights are plain")
    return _packed_weight(module, weight, scale)


def _packed_weight(module: Module, weight: Member, scale: Member) -> Found:
    check_type(weight, "U8", "I8", *FP8_TYPES)
    if scale.dtype in EXPONENT_TYPES:
        kind = _Fp4(scheme_of(module, "fp8"), _MX, (("scale_type", "F8_E8M0"),))
        return _packed_fp4({"weight": weight, "weight_scale": scale}, kind)
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


def named_scale(module: Module) -> Found | None:
    """Return an FP8 weight beside a scale of one of these names."""
    role = next((role for role in SCALE_ROLES if module.get(f".{role}") is not None), None)
    return None if role is None else _named_scale(module, role)


def shortly_scaled_weight(module: Module) -> Found | None:
    """Return a weight with `scale` (DeepSeek V4): FP8, or FP4 in bytes of two."""
    weight, scale = module.get(".weight"), module.need(".scale")
    if scale.dtype == "F8_E8M0":  # which nothing else has
        check_type(module.need(".weight"), "I8", "U8", *FP8_TYPES)
    elif weight is not None and module.declared.method in _FP8_METHODS:
        check_type(weight, *FP8_TYPES, *FLOAT_TYPES)
    if weight is not None and weight.dtype in {"I8", "U8"} and scale.dtype == "F8_E8M0":
        found = _packed_fp4({"weight": weight, "scale": scale}, _Fp4("fp8", _MX))
        return found._replace(layout=replace(found.layout, group_size=None))  # a tile of 1 x 32
    return _named_scale(module, "scale")


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
    if not weight.shape or 0 in weight.shape:
        raise RuleError(f"its weight is of shape {list(weight.shape)}, and should be a matrix")
    check_logical(weight.shape, sides_of(weight.shape)[1])
    tile = _tile_of(weight, scale, module.declared.tiles, module.declared.groups)
    scheme = scheme_of(module, "fp8")
    is_mx = scale.dtype in EXPONENT_TYPES and tile == (1, _MX)
    layout = tiles_layout(scheme, "mxfp8" if is_mx else "fp8", parts, tile)
    native = "BF16" if scheme == "modelopt" else layout.native
    return Found(suffix, parts, replace(layout, native=native))


def _tile_of(
    weight: Member,
    scale: Member,
    tiles: Sequence[Tile | None] = (),
    groups: Sequence[int | None] = (),
) -> Tile:
    """Return the tile of a scale; all rows of all matrices where there is one scale.

    Raises:
        RuleError: Scales of this shape do not belong to the weight.
        LeftAloneError: They belong to it in a way that is not decoded.
    """
    grid, shape = _grid(weight, scale), sides_of(weight.shape)
    if grid is None:
        return math.prod(weight.shape) // shape[1], shape[1]
    if len(scale.shape) == _BLOCK_AXES:
        tiles = (_USUAL_TILE, *tiles)
    runs = [run_length(side, count, ()) for side, count in zip(shape, grid, strict=True)]
    rows_of = ((1, group) for group in groups if group is not None and group > 0)
    for tile in (*tiles, *rows_of, (1, shape[1]), _USUAL_TILE, (runs[0], runs[1])):
        if tile is not None and min(tile) > 0 and _fits(tile, shape, grid):
            return min(tile[0], shape[0]), min(tile[1], shape[1])
    what = f"{grid[0]} × {grid[1]} scales do not fit a matrix of {shape[0]} × {shape[1]} weights"
    raise RuleError(what)


def _fits(tile: Tile, shape: Tile, grid: Tile) -> bool:
    """Return whether tiles of a matrix are a grid, those at its edges cut off."""
    return all(-(-a // b) == count for a, b, count in zip(shape, tile, grid, strict=True))


def _grid(weight: Member, scale: Member) -> tuple[int, int] | None:
    """Return the rows and columns of tiles in a matrix; None for one scale of the whole tensor.

    Raises:
        RuleError: Scales of this shape do not belong to the weight.
        LeftAloneError: They belong to it in a way that is not decoded.
    """
    shape, (rows, columns) = scale.shape, sides_of(weight.shape)
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


def missing_zeros(module: Module, zeros: Member | None) -> str | None:
    """Return that zero points are declared and not stored: without them weights are others."""
    stated = module.declared.stated("symmetric")
    if zeros is not None or not all(one is False for one in stated):
        return None
    return f"{module.declared.origin} says asymmetric, and its zero points are missing"


def _int8(module: Module, weight: Member, scale: Member) -> Found:
    """Return a weight of int8 with scales of the tensor, of rows or of groups of a row."""
    shape = matrix(weight, "I8")
    check_type(scale, *FLOAT_TYPES)
    tile = _tile_of(weight, scale, module.declared.tiles, module.declared.groups)
    parts = {"weight": weight, "weight_scale": scale}
    _add_zeros(module, ".weight_zero_point", scale, parts)
    check_logical(weight.shape, shape.columns)
    layout = tiles_layout(scheme_of(module, "compressed-tensors"), "int8", parts, tile)
    return Found(".weight", parts, layout, missing_zeros(module, parts.get("weight_zero_point")))


def turbodiffusion(module: Module) -> Found | None:
    """Return a weight of TurboDiffusion: `int8_weight`, and a `scale` for each 128 x 128 of it."""
    weight, scale = module.need(".int8_weight"), module.get(".scale")
    if scale is None:
        return None
    found = _int8(module, weight, scale)
    return found._replace(layout=replace(found.layout, scheme="turbodiffusion"))


def _add_zeros(module: Module, suffix: str, scale: Member, parts: dict[str, Member]) -> None:
    """Add zero points to the parts of a weight of int8, if there are any."""
    zeros = module.get(suffix)
    if zeros is not None:
        check_type(zeros, "I8")
        check_shape(zeros, scale.shape)
        parts[suffix.lstrip(".")] = zeros


class _Fp4(NamedTuple):
    """What FP4 weights differ in."""

    scheme: str
    run: int  # weights of a row that share a scale
    options: tuple[tuple[str, int | str], ...] = ()
    levels: Levels = Levels.E2M1


def _fp4(suffix: str, parts: dict[str, Member], shape: Shape, kind: _Fp4) -> Found:
    """Return a weight of E2M1 codes with scales of 16 or 32 weights of a row."""
    check_logical(shape, shape[-1])
    codes, scales, *_ = parts
    layout = CompanionLayout(
        reader="floats.Fp4",
        scheme=kind.scheme,
        name="nvfp4" if kind.run == _NV else "mxfp4",
        bits=4,
        shape=shape,
        group_size=kind.run,
        levels=kind.levels,
        options=(("codes", codes), ("scales", scales), *kind.options),
        native="BF16",
    )
    return Found(suffix, parts, layout)


def _packed_fp4(parts: dict[str, Member], kind: _Fp4) -> Found:
    """Return a weight of FP4 codes, two to a byte."""
    codes, scale, *factors = parts.values()
    if not codes.shape or 0 in codes.shape:
        raise RuleError(f"its {codes.called} is of shape {list(codes.shape)}")
    *rows, columns = codes.shape
    if 2 * columns % kind.run:
        what = f"rows of {2 * columns} weights are not a whole number of groups of {kind.run}"
        raise RuleError(what)
    check_shape(scale, (*rows, 2 * columns // kind.run))
    for factor in factors:
        check_type(factor, "F32")
        check_shape(factor, (), (1,))
    return _fp4(".weight", parts, (*rows, 2 * columns), kind)


def _modelopt_nvfp4(module: Module, weight: Member, scale: Member) -> Found:
    """Return ModelOpt's NVFP4: scales are multiplied by `weight_scale_2`."""
    matrix(weight, "U8")
    check_type(scale, "F8_E4M3")
    parts = {"weight": weight, "weight_scale": scale}
    parts["weight_scale_2"] = module.need(".weight_scale_2")
    kind = _Fp4("modelopt", _NV, (("factor", "weight_scale_2"),), Levels.STORED)
    found = _packed_fp4(parts, kind)
    is_open = not module.declared.method and not (scale.shape[0] % 128 or scale.shape[1] % 4)
    return found._replace(problem=_IN_ROWS if is_open else None)


_IN_ROWS: Final = (
    "nothing says whether its scales lie in rows, as ModelOpt's do, or in tiles, as ComfyUI's. "
    "They are read as rows: in tiles, values would be others"
)


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
        levels=Levels.SIGNED,
        native=scale.dtype,
    )
    return Found(".weight", {"weight": weight, "weight_scale": scale}, layout)


def _mxfp4_experts(codes_suffix: str, scales_suffix: str, module: Module) -> Found | None:
    """Return experts of gpt-oss: blocks of 16 bytes for 32 weights, and their scales."""
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
    kind = _Fp4("mxfp4", _MX, (("scale_type", "power of two"),))
    return _fp4("", parts, shape, kind)


gpt_oss: Final = partial(_mxfp4_experts, "_blocks", "_scales")
gpt_oss_original: Final = partial(_mxfp4_experts, ".blocks", ".scales")
"""As OpenAI names them."""


def ct_fp4(module: Module) -> Found:
    """Return compressed-tensors' NVFP4, whose scales are divided by a global one, or MXFP4."""
    codes, scale = module.need(".weight_packed"), module.need(".weight_scale")
    matrix(codes, "U8")
    parts = {"weight_packed": codes, "weight_scale": scale}
    if scale.dtype == "F8_E4M3":
        parts["weight_global_scale"] = module.need(".weight_global_scale")
        kind = _Fp4("compressed-tensors", _NV, (("divisor", "weight_global_scale"),))
    else:
        check_type(scale, *sorted(EXPONENT_TYPES))
        kind = _Fp4("compressed-tensors", _MX, (("scale_type", "F8_E8M0"),))
    return _packed_fp4(parts, kind)


# torchao

_AO_KINDS: Final[Mapping[str, str]] = {
    "Int8Tensor": "I8",
    "Float8Tensor": "F8_E4M3",
    "IntxUnpackedToInt8Tensor": "I8",  # of 1 to 8 bits, each in a byte
}
_AO_NATIVE: Final = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
_MAX_TEXT: Final = 65_536


def torchao(module: Module) -> Found | None:
    """Return a weight of torchao; `__metadata__` says of which kind it is."""
    return _torchao(module, "._weight", module.metadata(".weight"))


def torchao_parameter(module: Module) -> Found | None:
    """Return a parameter of torchao that is not called `weight`: `m._name_qdata` is of `m.name`."""
    if module.get("_scale") is None:
        return None
    return _torchao(module, "", module.metadata(""))


def _torchao(module: Module, prefix: str, said: str) -> Found:
    codes, scale = module.need(f"{prefix}_qdata"), module.need(f"{prefix}_scale")
    kind, data = torchao_said(said)
    dtype = data.get("dtype")
    native = _AO_NATIVE.get(str(dtype.get("_data")), "") if isinstance(dtype, dict) else ""
    kind = kind or next((kind for kind, dtype in _AO_KINDS.items() if dtype == codes.dtype), "")
    if not kind:
        check_type(codes, *_AO_KINDS.values())
    if kind not in _AO_KINDS:
        raise LeftAloneError(kind)
    check_type(codes, _AO_KINDS[kind])
    check_type(scale, *FLOAT_TYPES)
    if len(codes.shape) not in {2, 3} or 0 in codes.shape:
        raise RuleError(f"its {codes.called} is of shape {list(codes.shape)}")
    tile = _tile_of(codes, scale, [sides(data.get("block_size"))])
    parts = {"_weight_qdata": codes, "_weight_scale": scale}
    if codes.dtype == "I8":
        _add_zeros(module, f"{prefix}_zero_point", scale, parts)
    check_logical(codes.shape, codes.shape[-1])
    layout = tiles_layout("torchao", "int8" if codes.dtype == "I8" else "fp8", parts, tile)
    layout = replace(layout, native=native or scale.dtype)
    return Found(".weight" if prefix else "", parts, layout)


def torchao_said(text: str) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a tensor of torchao, and what is said of it; "" and nothing if not."""
    try:
        fields = json.loads(text) if len(text) <= _MAX_TEXT else None
    except (ValueError, RecursionError):
        fields = None
    fields = fields if isinstance(fields, dict) else {}
    kind, data = fields.get("_type"), fields.get("_data")
    return kind if isinstance(kind, str) else "", data if isinstance(data, dict) else {}
