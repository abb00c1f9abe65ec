"""A block as a record of plain values, which JSON can hold: what the window copies."""

from __future__ import annotations

import math
from typing import Any

from explorer.analysis.block.beside import Beside
from explorer.analysis.block.detail import BlockDetail
from explorer.formats.tensors import Folding


def block_record(detail: BlockDetail, beside: Beside | None = None) -> dict[str, Any]:
    """Return everything that is known of a block; numbers are exact, and None where not finite.

    Args:
        detail: The block.
        beside: What it is compared with.
    """
    row, column = place_of(detail)
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
        "fields": [
            {
                "name": field.name,
                "offset": field.offset,
                "bytes": field.nbytes,
                "type": field.dtype,
                "meaning": field.meaning,
                "numbers": [_finite(number) for number in numbers],
            }
            for field, numbers in zip(detail.fields, detail.numbers, strict=True)
        ],
        "sub_blocks": [_sub_block(detail, sub) for sub in range(detail.scales.size)],
        "weights": [_weight(detail, weight, beside) for weight in range(detail.values.size)],
    }
    if beside is not None:
        record["reference"] = {
            "name": beside.pair.reference_name,
            "type": beside.pair.reference_type,
        }
        record["candidate"] = {
            "name": beside.pair.candidate_name,
            "type": beside.pair.candidate_type,
        }
    return record


def place_of(detail: BlockDetail) -> tuple[int, int]:
    """Return row and column of a block's first weight; rows are counted through all dimensions."""
    return divmod(detail.start, Folding(detail.tensor.shape).columns)


def _sub_block(detail: BlockDetail, sub: int) -> dict[str, Any]:
    first = sub * detail.weights_per_scale
    record: dict[str, Any] = {
        "weights": [first, first + detail.weights_per_scale - 1],
        "scale": _finite(float(detail.scales[sub])),
    }
    if detail.minima is not None:
        record["minimum"] = _finite(float(detail.minima[sub]))
    stored = detail.sub_scales
    if stored is not None:
        record["scale_factor"] = float(stored.scales[sub])
        if stored.minima is not None:
            record["minimum_factor"] = float(stored.minima[sub])
    return record


def _weight(detail: BlockDetail, weight: int, beside: Beside | None) -> dict[str, Any]:
    code = int(detail.codes[weight])
    record: dict[str, Any] = {"code": code, "level": _finite(float(detail.levels[code]))}
    if detail.rows is not None:
        record["row"] = int(detail.rows.indices[weight // detail.rows.group_weights])
    record["value"] = _finite(float(detail.values[weight]))
    if beside is not None:
        reference, candidate = float(beside.reference[weight]), float(beside.candidate[weight])
        record["reference"] = _finite(reference)
        record["candidate"] = _finite(candidate)
        record["error"] = _finite(candidate - reference)
    return record


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
