"""Which rows of a code book the groups of a block hold, for types that have books.

A row is found again by its levels: no two rows of a book are equal. So the layouts of indices and
signs, which the decoders know, are not written down again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.anatomy.registry import anatomy
from explorer.quantization.registry import family


@dataclass(frozen=True, slots=True)
class BookRows:
    """The rows of a block's groups.

    Attributes:
        rows_in_book: How many rows the code book has.
        group_weights: Consecutive weights that a row is for.
        indices: int64 [groups]: the row of each group.
        signs: uint8 [groups]: bit i is set where weight i of the group is negative; in IQ1, whose
            rows are signed, 0.
        shifts: float32 [groups]: what is added to all levels of the group; 0 except in IQ1.
    """

    rows_in_book: int
    group_weights: int
    indices: NDArray[np.int64]
    signs: NDArray[np.uint8]
    shifts: NDArray[np.float32]


def group_weights(type_name: str) -> int:
    """Return how many weights a row of the type's code book is for; 1 for a type without a book."""
    book = _book(type_name)
    return 1 if book is None else book.shape[1]


def book_rows(type_name: str, codes: NDArray[np.uint8]) -> BookRows | None:
    """Return the rows that codes come from; None for a type without a book of rows.

    Args:
        type_name: A quantized tensor type.
        codes: uint8 [weights of a block], as its anatomy gives them.
    """
    book = _book(type_name)
    if book is None:
        return None
    size = book.shape[1]
    levels = anatomy(type_name).levels[codes].reshape(-1, size)
    signed = bool((book < 0).any())
    if signed:
        shifts = (levels - np.rint(levels))[:, 0]
        rows, signs = np.rint(levels), np.zeros(len(levels), np.uint8)
    else:
        shifts = np.zeros(len(levels), np.float32)
        rows = np.abs(levels)
        signs = np.packbits(levels < 0, axis=1, bitorder="little")[:, 0]
    numbers = _numbers(type_name)
    indices = [numbers[row.tobytes()] for row in rows.astype(np.int8)]
    return BookRows(len(book), size, np.array(indices, np.int64), signs, shifts)


@cache
def _numbers(type_name: str) -> dict[bytes, int]:
    book = _book(type_name)
    assert book is not None
    return {row.tobytes(): number for number, row in enumerate(book)}


@cache
def _book(type_name: str) -> NDArray[np.int8] | None:
    """Return the code book as it is shipped: int8 [rows, weights]; None if there is none."""
    if family(type_name) != "i_quants":
        return None
    # Numba comes with the kernels, which listing a model must not wait for
    from explorer.quantization.decoders.i_quants import WALKS  # noqa: PLC0415
    from explorer.quantization.decoders.i_quants_books import Book, grid  # noqa: PLC0415

    book = WALKS[type_name][1]
    return None if book is Book.IQ4 else grid(book)
