"""What a map can be drawn of: a tensor, or a tensor beside its reference; or why it cannot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from explorer.analysis.blocks import is_quantized
from explorer.analysis.errors.pairs import RoundedPair, WeightsPair
from explorer.analysis.tensor_map.draw import (
    Quantity,
    Source,
    pair_source,
    tensor_source,
)
from explorer.analysis.tensor_map.map import Window, places_agree
from explorer.formats.tensors import Folding, Shape
from explorer.qt.references import References
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.widgets.pages import Refusal
from explorer.quantization import TENSOR_TYPES, TensorType


@dataclass(frozen=True, slots=True)
class Drawable:
    """What is drawn.

    Attributes:
        subject: The tensor that was selected.
        quantity: What of it.
        source: The matrix.
        pair: The tensor and its reference; None if the quantity needs none.
        in_place: Whether a row and column of the matrix are those of the tensor.
    """

    subject: SelectedTensor
    quantity: Quantity
    source: Source
    pair: WeightsPair | None = None
    in_place: bool = True

    @property
    def folding(self) -> Folding:
        """How the matrix is laid out as rows and columns."""
        return Folding(self.source.shape)

    def sheet(self, number: int) -> Window:
        """Return one of the matrices that lie behind each other, or all of them for -1."""
        source = self.source
        if number < 0:
            return Window(0, 0, source.rows, source.columns)
        height = source.shape[-2]
        return Window(number * height, 0, height, source.columns)

    def flat(self, place: tuple[int, int]) -> int:
        """Return the flat index of a row and column."""
        return place[0] * self.source.columns + place[1]


def sheet_count(shape: Shape) -> int:
    """Return how many matrices a tensor is made of."""
    return math.prod(shape[:-2])


def block_weights(drawable: Drawable) -> int:
    """Return how many weights of a row make a block of the matrix; 1 if none do."""
    kind: TensorType | None = drawable.subject.tensor.type
    if isinstance(drawable.pair, RoundedPair):
        kind = TENSOR_TYPES.get(drawable.pair.candidate_type.upper())
    if kind is None or not drawable.in_place or drawable.source.columns % kind.block_weights:
        return 1
    return kind.block_weights


def drawable_of(
    subject: SelectedTensor, quantity: Quantity, references: References
) -> Drawable | Refusal:
    """Return what to draw of a tensor; reads nothing."""
    tensor = subject.tensor
    if not tensor.parameters:
        return Refusal(_tr("No weights"), _tr("This tensor is empty."))
    if quantity.needs_blocks and not is_quantized(tensor):
        sentence = _tr("Weights of type {type} are stored one by one, without scales.")
        return Refusal(_tr("Not quantized"), sentence.format(type=tensor.type.name))
    if not quantity.needs_reference:
        return Drawable(subject, quantity, tensor_source(tensor, quantity))
    return _beside_reference(subject, quantity, references)


def _beside_reference(
    subject: SelectedTensor, quantity: Quantity, references: References
) -> Drawable | Refusal:
    partner = references.partner_of(subject.row, subject.tensor)
    if partner.pair is not None:
        source = pair_source(partner.pair, quantity)
        agree = places_agree(partner.pair, subject.tensor)
        return Drawable(subject, quantity, source, partner.pair, agree)
    if partner.waiting:
        return Refusal(_tr("Matching the tensors…"), partner.reason)
    if partner.reason:
        return Refusal(_tr("Not comparable"), partner.reason)
    return Refusal(
        _tr("No reference chosen"),
        _tr("Errors are told against another model, or against a type: choose it above."),
    )


def quantity_name(quantity: Quantity) -> str:
    """Return what the user reads for a quantity."""
    return {
        Quantity.VALUE: _tr("Value"),
        Quantity.ABSOLUTE_ERROR: _tr("Absolute error"),
        Quantity.RELATIVE_ERROR: _tr("Relative error"),
        Quantity.SCALE: _tr("Block scale"),
        Quantity.MINIMUM: _tr("Block minimum"),
    }[quantity]


def texts_of_place(drawable: Drawable, window: Window) -> Iterator[str]:
    """Yield where a cell is: its rows, and its columns."""
    folding = drawable.folding
    first, last = folding.row_name(window.top), folding.row_name(window.bottom - 1)
    if window.height == 1:
        yield _tr("row {row}").format(row=first)
    else:
        yield _tr("rows {first} to {last}").format(first=first, last=last)
    if window.width == 1:
        yield _tr("column {column}").format(column=window.left)
    else:
        yield _tr("columns {first} to {last}").format(first=window.left, last=window.right - 1)


def _tr(text: str) -> str:
    return QCoreApplication.translate("MapSubject", text)
