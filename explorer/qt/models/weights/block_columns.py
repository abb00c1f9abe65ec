"""The tables of a block: its fields, its sub-blocks, its weights. Copies and exports are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication

from explorer.analysis.block_detail import BlockDetail
from explorer.analysis.block_search import Beside
from explorer.present.explanations import block_texts
from explorer.qt.models.table import Cell, Column
from explorer.qt.models.weights.block_links import ranges_text
from explorer.text import float_text

_DIGITS = 5  # in cells; what is copied is exact
_ALL_DIGITS = 9
_MOST_IN_CELL = 400  # characters


def field_columns(detail: BlockDetail) -> list[Column]:
    """Return the columns of the table of fields."""
    fields, tips = detail.fields, block_texts()

    def places(row: int) -> str:
        first = fields[row].offset
        return ranges_text(range(first, first + fields[row].nbytes))

    values = [field_value(detail, row) for row in range(len(fields))]

    return [
        _text("field", _tr("Field"), [field.name for field in fields], tips["field"]),
        Column(
            "bytes",
            _tr("Bytes"),
            places,
            places,
            lambda: np.array([field.offset for field in fields]),
            numeric=True,
            tip=tips["bytes"],
        ),
        _text("type", _tr("Type"), [field.dtype for field in fields], tips["type"]),
        _text("value_text", _tr("Value"), values, tips["value_text"]),
        _text("meaning", _tr("Meaning"), [field.meaning for field in fields], tips["meaning"]),
    ]


def field_value(detail: BlockDetail, number: int) -> str:
    """Return what a field holds: its numbers, the factors of scales, or what kind of codes."""
    field, numbers = detail.fields[number], detail.numbers[number]
    if numbers:
        digits = _ALL_DIGITS if len(numbers) == 1 else _DIGITS
        return ", ".join(float_text(each, digits) for each in numbers)
    part = slice(field.offset, field.offset + field.nbytes)
    found = []
    stored = detail.sub_scales
    if stored is not None and detail.bits.scales[part].any():
        found.append(_tr("factors {x}").format(x=_joined(stored.scales)))
        if stored.minima is not None:
            found.append(_tr("of minima {x}").format(x=_joined(stored.minima)))
    if not found:
        codes = int(detail.bits.codes[part].any(axis=0).sum())
        text = _tr("{type} of {n} weights") if codes else "{type}"
        found.append(text.format(type=field.dtype, n=codes))
    return "; ".join(found)[:_MOST_IN_CELL]


def sub_block_columns(detail: BlockDetail, beside: Beside | None = None) -> list[Column]:
    """Return the columns of the table of sub-blocks."""
    per, count = detail.weights_per_scale, detail.scales.size
    codes = detail.codes.reshape(count, per)
    used = np.array([np.unique(line).size for line in codes])
    firsts = np.arange(count) * per

    def weights(row: int) -> str:
        return f"{row * per}–{row * per + per - 1}"

    tip = block_texts()["weights"]
    columns = [
        Column("weights", _tr("Weights"), weights, weights, lambda: firsts, numeric=True, tip=tip)
    ]
    stored = detail.sub_scales
    if stored is not None:
        tip = _tr("What is stored: the scale is the block's own one times this factor")
        columns.append(_number("factor", _tr("Factor"), stored.scales, tip=tip))
    columns.append(_number("scale", _tr("Scale"), detail.scales, tip=_tr("Effective scale")))
    if stored is not None and stored.minima is not None:
        tip = _tr("What is stored: the minimum is the block's dmin times this factor")
        columns.append(_number("minimum_factor", _tr("Factor"), stored.minima, tip=tip))
    if detail.minima is not None:
        tip = _tr("Effective minimum, which is subtracted")
        columns.append(_number("minimum", _tr("Minimum"), detail.minima, tip=tip))
    levels = detail.levels.size
    columns.append(
        Column(
            "codes_used",
            _tr("Codes"),
            lambda row: _tr("{n} of {all}").format(n=int(used[row]), all=levels),
            lambda row: int(used[row]),
            lambda: used,
            numeric=True,
            tip=_tr("How many different codes, and how many the type has"),
        )
    )
    if beside is not None:
        squares = (beside.errors**2).reshape(count, per).mean(axis=1)
        tip = _tr("Root of the mean square error")
        columns.append(_number("rms_error", _tr("RMS error"), np.sqrt(squares), 4, tip))
    return columns


def weight_columns(detail: BlockDetail, beside: Beside | None = None) -> list[Column]:
    """Return the columns of the table of weights."""
    count = detail.values.size
    tip = block_texts()["weight"]
    columns = [
        Column("weight", _tr("Weight"), str, int, lambda: np.arange(count), numeric=True, tip=tip),
        _number("code", _tr("Code"), detail.codes, tip=_code_tip(detail)),
    ]
    rows = detail.rows
    if rows is not None:
        indices = rows.indices.repeat(rows.group_weights)
        tip = _tr("Row of the code book that the weight's group has")
        columns.append(_number("row", _tr("Row"), indices, tip=tip))
    tip = _tr("Value of the code before scaling")
    columns.append(_number("level", _tr("Level"), detail.weight_levels, tip=tip))
    columns.append(_number("value", _tr("Value"), detail.values, tip=_tr("The decoded weight")))
    if beside is not None:
        if beside.is_rounding:
            title = _tr("Rounded")
            tip = _tr("The weight rounded to {type}").format(type=beside.pair.candidate_type)
            columns.append(_number("rounded", title, beside.candidate, tip=tip))
        else:
            title = _tr("Reference")
            tip = _tr("The same weight of the reference")
            columns.append(_number("reference", title, beside.reference, tip=tip))
        tip = _tr("Candidate minus reference")
        columns.append(_number("error", _tr("Error"), beside.errors, 4, tip))
    return columns


def _code_tip(detail: BlockDetail) -> str:
    if detail.rows is None:
        return _tr("What is stored of the weight")
    return _tr("Number of the signed level: a whole group is stored as a row of a code book")


def _joined(numbers: NDArray[np.float32]) -> str:
    return " ".join(float_text(number) for number in numbers.tolist())


def _text(name: str, title: str, texts: Sequence[str], tip: str) -> Column:
    def text(row: int) -> str:
        return texts[row]

    return Column(name, title, text, text, lambda: np.array(texts), tip=tip)


def _number(
    name: str, title: str, numbers: NDArray[np.generic], digits: int = _DIGITS, tip: str = ""
) -> Column:
    values: Sequence[int | float] = numbers.tolist()

    def text(row: int) -> str:
        value = values[row]
        return str(value) if isinstance(value, int) else float_text(value, digits)

    raw: Callable[[int], Cell] = values.__getitem__
    return Column(name, title, text, raw, lambda: numbers, numeric=True, tip=tip)


def _tr(text: str) -> str:
    return QCoreApplication.translate("BlockColumns", text)
