"""What belongs together in a block: bytes, fields, sub-blocks and weights, and how that is said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication

from explorer.analysis.block_detail import BlockDetail, place_of
from explorer.analysis.block_search import Beside
from explorer.text import float_text, integer_text

_DIGITS = 9  # tell a float32 exactly
_ALL_BITS = 255
_MINUS = "\N{MINUS SIGN}"


class Part(Enum):
    """What one may look at in a block."""

    BYTE = auto()
    FIELD = auto()
    SUB_BLOCK = auto()
    WEIGHT = auto()


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at.

    Attributes:
        part: What it is.
        number: Which one.
    """

    part: Part
    number: int


@dataclass(frozen=True, slots=True)
class Links:
    """What belongs to something that is looked at.

    Attributes:
        masks: uint8 [bytes]: the bits of each byte.
        weights: bool [weights].
        text: What it is and does, in words.
    """

    masks: NDArray[np.uint8]
    weights: NDArray[np.bool_]
    text: str


def links_of(detail: BlockDetail, look: Look, beside: Beside | None = None) -> Links:
    """Return what belongs to a part of a block.

    Args:
        detail: The block.
        look: The part.
        beside: What the block is compared with, for the text.
    """
    number, per = look.number, detail.weights_per_scale
    if look.part is Part.WEIGHT:
        masks = detail.bits.codes[:, number] | _scale_bits(detail, number // per)
        return Links(masks, _some(detail, [number]), _weight_text(detail, number, beside))
    if look.part is Part.SUB_BLOCK:
        weights = range(number * per, (number + 1) * per)
        text = _sub_block_text(detail, number)
        return Links(_scale_bits(detail, number), _some(detail, weights), text)
    if look.part is Part.BYTE:
        acting = detail.bits.acts_on(number, per)
        return Links(_whole(detail, number, 1), acting, _byte_text(detail, number))
    field = detail.fields[number]
    acting = np.zeros(detail.values.size, np.bool_)
    for byte in range(field.offset, field.offset + field.nbytes):
        acting |= detail.bits.acts_on(byte, per)
    return Links(_whole(detail, field.offset, field.nbytes), acting, _field_text(detail, number))


def ranges_text(numbers: Iterable[int]) -> str:
    """Return numbers, which rise, as ranges: ``"0-31, 64"``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}–{b}" if a != b else f"{a}" for a, b in parts)


def bits_text(mask: int) -> str:
    """Return the bits of a mask in words: ``"bits 0-3"``."""
    if mask == _ALL_BITS:
        return _tr("all bits")
    bits = [bit for bit in range(8) if mask >> bit & 1]
    text = _tr("bit {bits}") if len(bits) == 1 else _tr("bits {bits}")
    return text.format(bits=ranges_text(bits))


def _scale_bits(detail: BlockDetail, sub: int) -> NDArray[np.uint8]:
    """Return the bits that a sub-block's scale and minimum are told from; uint8 [bytes]."""
    masks: NDArray[np.uint8] = detail.bits.scales[:, sub].copy()
    if detail.bits.minima.shape[1]:
        masks |= detail.bits.minima[:, sub]
    return masks


def _whole(detail: BlockDetail, first: int, count: int) -> NDArray[np.uint8]:
    masks = np.zeros(len(detail.stored), np.uint8)
    masks[first : first + count] = _ALL_BITS
    return masks


def _some(detail: BlockDetail, numbers: Iterable[int]) -> NDArray[np.bool_]:
    weights = np.zeros(detail.values.size, np.bool_)
    weights[list(numbers)] = True
    return weights


def _field_text(detail: BlockDetail, number: int) -> str:
    field, numbers = detail.fields[number], detail.numbers[number]
    text = _tr("{name}, {type}: {meaning}").format(
        name=field.name, type=field.dtype, meaning=field.meaning
    )
    if numbers:
        text += f"   ·   {', '.join(float_text(each, _DIGITS) for each in numbers)}"
    return text


def _byte_text(detail: BlockDetail, byte: int) -> str:
    """Say what a byte is, and what each of its bits acts on."""
    field = detail.fields[detail.field_at(byte)]
    head = _tr("Byte {place} = 0x{value:02X}, {field}").format(
        place=byte, value=detail.stored[byte], field=field.name
    )
    bits, per = detail.bits, detail.weights_per_scale
    told = _targets(bits.codes[byte], 1, _tr("weight {n}"), _tr("weights {n}"))
    told += _targets(bits.scales[byte], per, "", _tr("scale of weights {n}"))
    if bits.minima.shape[1]:
        told += _targets(bits.minima[byte], per, "", _tr("minimum of weights {n}"))
    if not told:
        told = [_tr("not read for decoding")]
    return f"{head}:   {';  '.join(told)}"


def _targets(masks: NDArray[np.uint8], per: int, one: str, many: str) -> list[str]:
    """Say for each set of bits what it acts on; things are so many weights each."""
    told = []
    for mask in sorted({int(mask) for mask in masks if mask}):
        places = np.flatnonzero(masks == mask).tolist()
        weights = [place * per + i for place in places for i in range(per)]
        text = one if len(weights) == 1 else many
        told.append(f"{bits_text(mask)} → {text.format(n=ranges_text(weights))}")
    return told


def _sub_block_text(detail: BlockDetail, sub: int) -> str:
    first = sub * detail.weights_per_scale
    text = _tr("Weights {n}: scale {scale}").format(
        n=f"{first}–{first + detail.weights_per_scale - 1}",
        scale=_product(detail, sub, minimum=False),
    )
    if detail.minima is not None:
        text += _tr(", minimum {minimum}").format(minimum=_product(detail, sub, minimum=True))
    return text


def _product(detail: BlockDetail, sub: int, *, minimum: bool) -> str:
    """Return a scale or minimum with what it is the product of."""
    effective = detail.minima if minimum else detail.scales
    assert effective is not None
    whole = float_text(float(effective[sub]), _DIGITS)
    stored = detail.sub_scales
    if stored is None:
        return whole
    factors, own = (stored.minima, stored.dmin) if minimum else (stored.scales, stored.d)
    if factors is None or own is None:
        return whole
    return f"{float_text(own, _DIGITS)} × {float_text(float(factors[sub]))} = {whole}"


def _weight_text(detail: BlockDetail, weight: int, beside: Beside | None) -> str:
    """Say how a weight comes about, and what it is compared with."""
    row, column = place_of(detail)
    sub = weight // detail.weights_per_scale
    code = int(detail.codes[weight])
    level = float_text(float(detail.levels[code]))
    formula = f"{float_text(float(detail.scales[sub]), _DIGITS)} × {level}"
    if detail.minima is not None:
        minimum = float(detail.minima[sub])
        sign = "+" if minimum < 0 else _MINUS
        formula += f" {sign} {float_text(abs(minimum), _DIGITS)}"
    parts = [
        _tr("Weight {n} (row {row}, column {column}): {formula} = {value}").format(
            n=weight,
            row=integer_text(row),
            column=integer_text(column + weight),
            formula=formula,
            value=float_text(float(detail.values[weight]), _DIGITS),
        )
    ]
    rows = detail.rows
    if rows is not None:
        text = _tr("row {row} of {all} of the code book")
        index = int(rows.indices[weight // rows.group_weights])
        parts.append(text.format(row=index, all=integer_text(rows.rows_in_book)))
    if beside is not None:
        other = beside.candidate if beside.is_rounding else beside.reference
        name = _tr("rounded {x}") if beside.is_rounding else _tr("reference {x}")
        parts.append(name.format(x=float_text(float(other[weight]), _DIGITS)))
        error = float_text(float(beside.errors[weight]), 6)
        parts.append(_tr("error {x}").format(x=error))
    return "   ·   ".join(parts)


def _tr(text: str) -> str:
    return QCoreApplication.translate("BlockLinks", text)
