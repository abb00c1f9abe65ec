"""IQ3_XXS and IQ3_S: bytes as ggml makes them.

A weight counts by its importance times the root of its square plus twice the super-block's mean
square; without importance, by its square.

Source: ggml/src/ggml-quants.c, `quantize_row_iq3_xxs_impl`, `quantize_row_iq3_s_impl`.
"""

from __future__ import annotations

from typing import Any, Final

from explorer.quantization.iq import Grid
from explorer.quantization.iq_search import (
    ALL_IF_MOVED,
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
    with_grid,
)
from explorer.quantization.jit import f32, inlined, kernel, set_half, u8, u32

_IQ3_XXS: Final = Form(32, 4, 3, 7, 15, 0.2, 2.0, OWN_SQUARE, even=True, again=MOVED)
_IQ3_S: Final = Form(32, 4, 3, 7, 9, 0.2, 2.0, OWN_SQUARE, even=False, again=ALL_IF_MOVED)
_NEGLIGIBLE: Final = 1e-8  # IQ3_XXS gives sub-blocks below it the scale 0 (`GROUP_MAX_EPS_IQ3_XXS`)


@inlined
def _search(form: Any, least: Any, table: Any, parts: Any) -> Any:
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
        most = _search(_IQ3_XXS, _NEGLIGIBLE, table, (work, tries))
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
        most = _search(_IQ3_S, 0.0, table, (work, tries))
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
    "IQ3_XXS": with_grid(_encode_iq3_xxs, Grid.IQ3XXS),
    "IQ3_S": with_grid(_encode_iq3_s, Grid.IQ3S),
}
