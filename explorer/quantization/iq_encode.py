"""IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S: bytes as ggml makes them.

A weight counts by its importance times the root of its square plus the super-block's mean square
(twice that in IQ2_S, IQ3_XXS and IQ3_S). Without importance it counts by its square in IQ3_XXS and
IQ3_S, and by its square plus half the mean square in IQ2_S; IQ2_XXS and IQ2_XS are not made then.

Source: ggml/src/ggml-quants.c, `quantize_row_iq2_xxs_impl`, `quantize_row_iq2_xs_impl`,
`quantize_row_iq2_s_impl`, `quantize_row_iq3_xxs_impl`, `quantize_row_iq3_s_impl`.
"""

from __future__ import annotations

from typing import Any, Final

from explorer.quantization.grids import Grid
from explorer.quantization.iq_search import (
    ALL,
    ALL_IF_MOVED,
    MEAN_AND_SQUARE,
    MOVED,
    OWN_SQUARE,
    Form,
    chosen_row,
    forget,
    greatest,
    load_magnitudes,
    scale_code,
    search_rows,
    set_u32,
    turned,
    whole,
    with_grid,
)
from explorer.quantization.jit import (
    f32,
    i32,
    inlined,
    kernel,
    routine,
    set_half,
    set_u16,
    u8,
    u16,
    u32,
)
from explorer.quantization.registry import LANES
from explorer.quantization.scale_search import BEST, EPSILON, HIGH, INVERSE, SCALE, SUM_L2, SUM_XL

_IQ2_XXS: Final = Form(32, 8, 2, 2, 6, 0.1, 1.0, OWN_SQUARE, even=True, again=ALL)
_IQ2_XS: Final = Form(16, 8, 2, 2, 9, 0.1, 1.0, OWN_SQUARE, even=True, again=MOVED)
_IQ2_S: Final = Form(16, 8, 2, 2, 9, 0.1, 2.0, MEAN_AND_SQUARE, even=False, again=MOVED)
_IQ3_XXS: Final = Form(32, 4, 3, 7, 15, 0.2, 2.0, OWN_SQUARE, even=True, again=MOVED)
_IQ3_S: Final = Form(32, 4, 3, 7, 9, 0.2, 2.0, OWN_SQUARE, even=False, again=ALL_IF_MOVED)
_NEGLIGIBLE: Final = 1e-8  # IQ2_S and IQ3_XXS give sub-blocks below it the scale 0


# IQ2_XXS begins with the scale that is best if each weight could be 0, 1, 2, 3 or 4 times it.

_TOP: Final = 4
_TRIED: Final = (0, -4, -3, -2, -1, 1, 2, 3, 4)  # tenths of a code, the obvious scale first
_ERROR: Final = SUM_XL


@inlined
def _number(product: Any, wrapped: Any) -> Any:
    """Return a code as float32; ggml keeps codes in bytes, in which -1 is 255."""
    code = whole(product)
    code = code if code < i32(_TOP) else i32(_TOP)
    return f32(i32(code & i32(255))) if wrapped else f32(code)


@routine
def _try_first_scales(x: Any, w: Any, lanes: Any) -> None:
    """Set INVERSE to what loses least, for the eight sub-blocks in the lanes."""
    for n in range(len(_TRIED)):
        number = f32(0.1) * f32(_TRIED[n]) + f32(_TOP)
        for k in range(LANES):
            lanes[_ERROR + k] = f32(0)
            lanes[SCALE + k] = number / lanes[HIGH + k]
            lanes[SUM_L2 + k] = f32(1) / lanes[SCALE + k]
        for i in range(32):
            for k in range(LANES):
                v = x[LANES * i + k]
                code = _number(lanes[SCALE + k] * v, n == 0)
                difference = v - lanes[SUM_L2 + k] * code
                lanes[_ERROR + k] += w[LANES * i + k] * difference * difference
        for k in range(LANES):
            better = n == 0 or lanes[_ERROR + k] < lanes[BEST + k]
            lanes[BEST + k] = lanes[_ERROR + k] if better else lanes[BEST + k]
            lanes[INVERSE + k] = lanes[SCALE + k] if better else lanes[INVERSE + k]


@routine
def _improve_codes(x: Any, w: Any, lanes: Any, codes: Any) -> None:
    """Improve one code after the other, five times."""
    for _ in range(5):
        for i in range(32):
            for k in range(LANES):
                v, u, code = x[LANES * i + k], w[LANES * i + k], codes[LANES * i + k]
                old_xl, old_l2 = lanes[SUM_XL + k], lanes[SUM_L2 + k]
                sum_xl = old_xl - u * v * code
                sum_l2 = old_l2 - u * code * code
                positive = (sum_xl > 0) & (sum_l2 > 0)
                other = _number(v * sum_l2 / sum_xl, False)
                new_xl = sum_xl + u * v * other
                new_l2 = sum_l2 + u * other * other
                gain = new_xl * new_xl * old_l2 > old_xl * old_xl * new_l2
                better = positive & (other != code) & gain
                kept = f32(i32(i32(other) & i32(255)))
                codes[LANES * i + k] = kept if better else code
                lanes[SUM_XL + k] = new_xl if better else old_xl
                lanes[SUM_L2 + k] = new_l2 if better else old_l2


@routine
def _search_first_scales(work: Any, spread: Any) -> None:
    """Set SCALE of the eight sub-blocks of 32; spread: float32 [3, 256] to work in.

    Source: ggml/src/ggml-quants.c, `make_qp_quants`.
    """
    lanes, x, w, codes = work.lanes, spread[0], spread[1], spread[2]
    for k in range(LANES):
        lanes[HIGH + k] = f32(0)
        for i in range(32):
            x[LANES * i + k] = work.x[32 * k + i]
            w[LANES * i + k] = work.w[32 * k + i]
    for i in range(32):
        for k in range(LANES):
            v = x[LANES * i + k]
            lanes[HIGH + k] = v if v > lanes[HIGH + k] else lanes[HIGH + k]
    _try_first_scales(x, w, lanes)
    for k in range(LANES):
        lanes[SUM_XL + k] = f32(0)
        lanes[SUM_L2 + k] = f32(0)
    for i in range(32):
        for k in range(LANES):
            v, u = x[LANES * i + k], w[LANES * i + k]
            code = _number(lanes[INVERSE + k] * v, False)
            codes[LANES * i + k] = f32(i32(i32(code) & i32(255)))
            lanes[SUM_XL + k] += u * v * code
            lanes[SUM_L2 + k] += u * code * code
    _improve_codes(x, w, lanes, codes)
    for k in range(LANES):
        scale = lanes[SUM_XL + k] / lanes[SUM_L2 + k] if lanes[SUM_L2 + k] > 0 else f32(0)
        lanes[SCALE + k] = scale if lanes[HIGH + k] >= f32(EPSILON) else f32(0)


@kernel
def _encode_iq2_xxs(values: Any, importance: Any, blocks: Any, arrays: Any) -> None:
    work, tries, table = arrays
    for b in range(blocks.shape[0]):
        load_magnitudes(values, importance, b, _IQ2_XXS, work)
        _search_first_scales(work, tries.spread)
        most = f32(0)
        for sub in range(8):
            scale = work.lanes[SCALE + sub]
            if scale * f32(3) > 0:
                start = (scale * f32(3), scale)
                scale = search_rows(_IQ2_XXS, 32 * sub, start, table, (work, tries))
                scale = turned(work.codes, 4 * sub, 4, scale)
            else:
                scale = f32(0)
                forget(4 * sub, 4, work.codes)
                forget(4 * sub, 4, tries.chosen)
            work.sub[0, sub] = scale
            most = most if most > scale else scale
        d = most / f32(31)
        set_half(blocks, b, 0, d)
        factor = f32(1) / d
        for sub in range(8):
            word, rows = u32(0), u32(0)
            if most != 0:
                word = u32(scale_code(work.sub[0, sub], factor, 15) << u32(28))
                for k in range(4):
                    rows |= u32(chosen_row(table, tries, 4 * sub + k) << u32(8 * k))
                    word |= u32(u32(work.codes[4 * sub + k] & 127) << u32(7 * k))
            set_u32(blocks, b, 2 + 8 * sub, rows)
            set_u32(blocks, b, 6 + 8 * sub, word)


@inlined
def _search_sixteens(form: Any, least: Any, table: Any, parts: Any) -> Any:
    """Find the rows of 16 sub-blocks and their scales; return the greatest scale."""
    work, tries = parts
    greatest_scale = f32(0)
    for sub in range(16):
        most = greatest(work.x, 16 * sub, 16)
        scale = f32(0)
        if most >= f32(least):
            scale = search_rows(form, 16 * sub, (most, most / f32(5)), table, parts)
            scale = turned(work.codes, 2 * sub, 2, scale)
        else:
            forget(2 * sub, 2, work.codes)
            forget(2 * sub, 2, tries.chosen)
        work.sub[0, sub] = scale
        greatest_scale = greatest_scale if greatest_scale > scale else scale
    return greatest_scale


@inlined
def _store_scales(blocks: Any, b: Any, offset: Any, factor: Any, work: Any) -> None:
    for k in range(8):
        low = scale_code(work.sub[0, 2 * k], factor, 15)
        high = scale_code(work.sub[0, 2 * k + 1], factor, 15)
        blocks[b, offset + k] = u8(low | u32(high << u32(4)))


@kernel
def _encode_iq2_xs(values: Any, importance: Any, blocks: Any, arrays: Any) -> None:
    work, tries, table = arrays
    for b in range(blocks.shape[0]):
        load_magnitudes(values, importance, b, _IQ2_XS, work)
        most = _search_sixteens(_IQ2_XS, EPSILON, table, (work, tries))
        d = most / f32(31)
        set_half(blocks, b, 0, d)
        for i in range(2, 74):
            blocks[b, i] = 0
        if most != 0:
            _store_scales(blocks, b, 66, f32(1) / d, work)
            for k in range(32):
                packed = chosen_row(table, tries, k) | u32(u32(work.codes[k] & 127) << u32(9))
                set_u16(blocks, b, 2 + 2 * k, u16(packed))


@kernel
def _encode_iq2_s(values: Any, importance: Any, blocks: Any, arrays: Any) -> None:
    work, tries, table = arrays
    for b in range(blocks.shape[0]):
        load_magnitudes(values, importance, b, _IQ2_S, work)
        most = _search_sixteens(_IQ2_S, _NEGLIGIBLE, table, (work, tries))
        d = most / f32(31)
        set_half(blocks, b, 0, d * f32(0.9875))
        for k in range(8):
            high = u8(0)
            for part in range(4):
                row = chosen_row(table, tries, 4 * k + part)
                blocks[b, 2 + 4 * k + part] = u8(row & u32(255))
                blocks[b, 34 + 4 * k + part] = work.codes[4 * k + part]
                high |= u8((row >> u32(8)) << u32(2 * part))
            blocks[b, 66 + k] = high
            blocks[b, 74 + k] = 0
        if most != 0:
            _store_scales(blocks, b, 74, f32(1) / d, work)


@inlined
def _search_thirties(form: Any, least: Any, table: Any, parts: Any) -> Any:
    """Find the rows of 8 sub-blocks and their scales; return the greatest scale."""
    work, tries = parts
    greatest_scale = f32(0)
    for sub in range(8):
        most = greatest(work.x, 32 * sub, 32)
        scale = f32(0)
        if most > 0 and most >= f32(least):
            scale = search_rows(form, 32 * sub, (most, most / f32(15)), table, parts)
            scale = turned(work.codes, 4 * sub, 4, scale)
        else:
            forget(4 * sub, 4, work.codes)
            forget(8 * sub, 8, tries.chosen)
        work.sub[0, sub] = scale
        greatest_scale = greatest_scale if greatest_scale > scale else scale
    return greatest_scale


@kernel
def _encode_iq3_xxs(values: Any, importance: Any, blocks: Any, arrays: Any) -> None:
    work, tries, table = arrays
    for b in range(blocks.shape[0]):
        load_magnitudes(values, importance, b, _IQ3_XXS, work)
        most = _search_thirties(_IQ3_XXS, _NEGLIGIBLE, table, (work, tries))
        d = most / f32(31)
        set_half(blocks, b, 0, d * f32(1.0125))
        factor = f32(1) / d
        for i in range(2, 98):
            blocks[b, i] = 0
        if most != 0:
            for k in range(64):
                blocks[b, 2 + k] = u8(chosen_row(table, tries, k))
            for sub in range(8):
                word = u32(scale_code(work.sub[0, sub], factor, 15) << u32(28))
                for part in range(4):
                    word |= u32(u32(work.codes[4 * sub + part] & 127) << u32(7 * part))
                set_u32(blocks, b, 66 + 4 * sub, word)


@kernel
def _encode_iq3_s(values: Any, importance: Any, blocks: Any, arrays: Any) -> None:
    work, tries, table = arrays
    for b in range(blocks.shape[0]):
        load_magnitudes(values, importance, b, _IQ3_S, work)
        most = _search_thirties(_IQ3_S, 0.0, table, (work, tries))
        d = most / f32(31)
        set_half(blocks, b, 0, d * f32(1.033))
        for i in range(2, 110):
            blocks[b, i] = 0
        # ggml does not step over the low bits of rows and the signs of a sub-block of zeros: those
        # of later ones move to the front. The high bits do not. Such files exist.
        place = 0
        for sub in range(8):
            if not greatest(work.x, 32 * sub, 32) > 0:
                continue
            for k in range(8):
                row = chosen_row(table, tries, 8 * sub + k)
                blocks[b, 2 + 8 * place + k] = u8(row & u32(255))
                blocks[b, 66 + sub] |= u8((row >> u32(8)) << u32(k))
            for part in range(4):
                blocks[b, 74 + 4 * place + part] = work.codes[4 * sub + part]
            place += 1
        if most != 0:
            factor = f32(1) / d
            for k in range(4):
                low = scale_code(work.sub[0, 2 * k], factor, 15)
                high = scale_code(work.sub[0, 2 * k + 1], factor, 15)
                blocks[b, 106 + k] = u8(low | u32(high << u32(4)))


ENCODERS: Final = {
    "IQ2_XXS": with_grid(_encode_iq2_xxs, Grid.IQ2XXS),
    "IQ2_XS": with_grid(_encode_iq2_xs, Grid.IQ2XS),
    "IQ2_S": with_grid(_encode_iq2_s, Grid.IQ2S),
    "IQ3_XXS": with_grid(_encode_iq3_xxs, Grid.IQ3XXS),
    "IQ3_S": with_grid(_encode_iq3_s, Grid.IQ3S),
}
