"""Tables of the codes of a tensor, and of one block: its fields, its sub-blocks, its weights."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from explorer.analysis.block_detail import place_of
from explorer.present.tables.table import (
    INTEGER,
    LIST,
    PLACE,
    TEXT,
    Column,
    Kind,
    Table,
    digits,
    scaled,
)
from explorer.text import float_text, runs_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from explorer.analysis.block_detail import BlockDetail
    from explorer.analysis.block_search import ComparedBlock
    from explorer.analysis.blocks import BlockStatistics

_DIGITS: Final = 5  # in cells; what is copied is exact
_ERROR_DIGITS: Final = 4
_ALL_DIGITS: Final = 9
_MOST_IN_CELL: Final = 400  # characters
_RANGE: Final = Kind(str)


def _array(
    name: str, title: str, values: NDArray[Any], tip: str, kind: Kind = PLACE, **more: Any
) -> Column[int]:

    def value(row: int) -> Any:
        return values[row].item()

    def text(row: int) -> str:
        return kind.write(value(row))

    return Column(name, title, kind, tip, value, text=text, keys=lambda: values, **more)


def _numbers(
    name: str, title: str, values: NDArray[Any], tip: str, digits_: int = _DIGITS, **more: Any
) -> Column[int]:
    """Return the same of numbers of one scale, so that their decimal signs stand in a line."""
    return _array(name, title, values, tip, scaled(values, digits_), **more)


def code_table(blocks: BlockStatistics) -> Table[int]:
    """Return the table of a tensor's codes; its rows are the codes."""
    counts = blocks.code_counts
    shares = 100 * counts / max(1, int(counts.sum()))
    return Table(
        _array("code", "Code", np.arange(len(counts)), "The stored number of a weight."),
        _numbers("level", "Level", blocks.levels, "Its value before the block's scale", 4),
        _array("weights", "Weights", counts, "How many weights have this code.", INTEGER),
        _array("share", "%", shares, "Share of all weights, in per cent", digits(3)),
        title="Codes",
    )


def field_table(detail: BlockDetail) -> Table[int]:
    """Return the table of a block's fields; its rows are their numbers."""
    fields, numbers = detail.fields, detail.numbers
    offsets = np.array([field.offset for field in fields])

    def places(row: int) -> str:
        first = fields[row].offset
        return runs_text(range(first, first + fields[row].nbytes))

    return Table(
        Column(
            *("name", "Field", TEXT, "A part of the block, by its name in ggml or in the file."),
            lambda row: fields[row].name,
        ),
        Column(
            *("offset", "Offset", PLACE, "Its first byte, counted from the block's first one."),
            lambda row: fields[row].offset,
            extra=True,
        ),
        Column(
            *("bytes", "Bytes", PLACE, "Its bytes, counted from the block's first one."),
            lambda row: fields[row].nbytes,
            text=places,
            keys=lambda: offsets,
        ),
        Column(
            *("type", "Type", TEXT, "How the part is stored."),
            lambda row: fields[row].dtype,
            extra=True,
        ),
        Column(
            *("value_text", "Value", TEXT, "What is stored in this block."),
            lambda row: field_value(detail, row),
            stretches=True,
        ),
        Column(
            *("meaning", "Meaning", TEXT, "The purpose of the part."),
            lambda row: fields[row].meaning,
            stretches=True,
        ),
        Column(
            "numbers",
            "Numbers",
            LIST,
            "What it stores.",
            lambda row: [*map(_finite, numbers[row])],
            extra=True,
        ),
        title="Fields of the block",
    )


def field_value(detail: BlockDetail, number: int) -> str:
    """Return what a field holds: its numbers, the factors of scales, or what kind of codes."""
    field, numbers = detail.fields[number], detail.numbers[number]
    if numbers:
        many = _ALL_DIGITS if len(numbers) == 1 else _DIGITS
        return ", ".join(float_text(each, many) for each in numbers)
    part = slice(field.offset, field.offset + field.nbytes)
    found = []
    stored = detail.sub_scales
    if stored is not None and detail.bits.scales[part].any():
        found.append(f"factors {_joined(stored.scales)}")
        if stored.minima is not None:
            found.append(f"of minima {_joined(stored.minima)}")
    if not found:
        codes = int(detail.bits.codes[part].any(axis=0).sum())
        found.append(f"{field.dtype} of {codes} weights" if codes else field.dtype)
    return "; ".join(found)[:_MOST_IN_CELL]


def _joined(numbers: NDArray[np.float32]) -> str:
    return " ".join(float_text(number) for number in numbers.tolist())


def _plain_numbers(name: str, title: str, values: NDArray[Any], tip: str) -> Column[int]:
    return (_array if values.dtype.kind in "iu" else _numbers)(name, title, values, tip)


def sub_block_table(detail: BlockDetail, compared: ComparedBlock | None = None) -> Table[int]:
    """Return the table of a block's sub-blocks; its rows are their numbers."""
    per, count = detail.weights_per_scale, detail.scales.size
    codes, stored = detail.codes.reshape(count, per), detail.sub_scales
    used = np.array([np.unique(line).size for line in codes])
    firsts = np.arange(count) * per
    columns: list[Column[int]] = [
        Column(
            *("weights", "Weights", _RANGE),
            "The weights that share this scale, counted from the block's first one.",
            lambda row: [row * per, row * per + per - 1],
            text=lambda row: f"{row * per}–{row * per + per - 1}",
            keys=lambda: firsts,
        )
    ]
    if stored is not None:
        tip = "What is stored: the scale is the block's own one times this factor"
        columns.append(_plain_numbers("scale_factor", "Factor", stored.scales, tip))
    columns.append(_numbers("scale", "Scale", detail.scales, "Effective scale", stretches=True))
    if stored is not None and stored.minima is not None:
        tip = "What is stored: the minimum is the block's dmin times this factor"
        columns.append(_plain_numbers("minimum_factor", "Factor of minimum", stored.minima, tip))
    if detail.minima is not None:
        tip = "Effective minimum, which is subtracted"
        columns.append(_numbers("minimum", "Minimum", detail.minima, tip, stretches=True))
    of_all = Kind(lambda number: f"{number} of {detail.levels.size}")
    tip = "How many different codes, and how many the type has"
    columns.append(_array("codes_used", "Codes", used, tip, of_all))
    if compared is not None:
        squares = (compared.errors**2).reshape(count, per).mean(axis=1)
        tip, root = "Root of the mean square error", np.sqrt(squares)
        columns.append(_numbers("rms_error", "RMS error", root, tip, _ERROR_DIGITS, stretches=True))
    return Table(*columns, title="Sub-blocks")


def weight_table(detail: BlockDetail, compared: ComparedBlock | None = None) -> Table[int]:
    """Return the table of a block's weights; its rows are their places."""
    rows = detail.rows
    signed = "Number of the signed level: a whole group is stored as a row of a grid"
    places, stored = np.arange(detail.values.size), "What is stored of the weight"
    place = "Place of the weight in the block, from 0 up."
    columns = [
        _array("weight", "Weight", places, place),
        _array("code", "Code", detail.codes, stored if rows is None else signed),
    ]
    if rows is not None:
        indices = rows.indices.repeat(rows.group_weights)
        columns.append(_array("row", "Row", indices, "Row of the grid that its group has"))
    level = "Value of the code before scaling"
    columns.append(_numbers("level", "Level", detail.weight_levels, level))
    decoded = "The decoded weight"
    columns.append(_numbers("value", "Value", detail.values, decoded, stretches=True))
    if compared is not None:
        rounding = compared.is_rounding
        what = f"The weight rounded to {compared.pair.candidate_type}"
        same, difference = "The same weight of the reference", "Candidate minus reference"
        columns += [
            replace(one, stretches=True)
            for one in (
                _numbers("reference", "Reference", compared.reference, same, extra=rounding),
                _numbers("candidate", "Rounded", compared.candidate, what, extra=not rounding),
                _numbers("error", "Error", compared.errors, difference, _ERROR_DIGITS),
            )
        ]
    return Table(*columns, title="Weights of the block")


def block_record(detail: BlockDetail, compared: ComparedBlock | None = None) -> dict[str, Any]:
    """Return a block, and what it is compared with, as a record for JSON.

    Numbers are exact, and None where not finite.
    """
    row, column = place_of(detail)

    def records(table: Table[int], count: int) -> list[dict[str, Any]]:
        rows = map(table.record, range(count))
        return [{name: _finite(value) for name, value in row.items()} for row in rows]

    record: dict[str, Any] = {
        "tensor": detail.tensor.name,
        "type": detail.tensor.type.name,
        "block": detail.index,
        "row": row,
        "columns": [column, column + detail.values.size - 1],
        "parts": [
            {"name": part.name, "offset": part.extent.offset, "bytes": part.extent.nbytes}
            for part in detail.parts
        ],
        "bytes": detail.stored.hex(),
        "fields": records(field_table(detail), len(detail.fields)),
        "sub_blocks": records(sub_block_table(detail, compared), detail.scales.size),
        "weights": records(weight_table(detail, compared), detail.values.size),
    }
    if compared is not None:
        pair = compared.pair
        record["reference"] = {"name": pair.reference_name, "type": pair.reference_type}
        record["candidate"] = {"name": pair.candidate_name, "type": pair.candidate_type}
    return record


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
