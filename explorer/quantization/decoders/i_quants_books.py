"""The code books of the IQ types: data of ggml, shipped in `resources/code_books`."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.resources import resource

KVALUES: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The 16 levels of IQ4 (ggml/src/ggml-common.h, `kvalues_iq4nl`)."""


class Book(StrEnum):
    """A code book; the value is its name in the shipped file."""

    IQ1S = "iq1s"
    IQ2XXS = "iq2xxs"
    IQ2XS = "iq2xs"
    IQ2S = "iq2s"
    IQ3XXS = "iq3xxs"
    IQ3S = "iq3s"
    IQ4 = "kvalues"


@cache
def code_book(book: Book) -> NDArray[Any]:
    """Return a code book as kernels read it, read-only; the file is read at first use.

    Returns:
        IQ1 and IQ2: int8 [rows, 8]; IQ1's rows are in eighths, so that its shift by an eighth is a
        whole number too. IQ3: uint32 [rows], with weight j of 4 in byte j. IQ4: its 16 levels,
        int8 [16].

    Raises:
        FileNotFoundError: The installation lacks the file.
    """
    if book is Book.IQ4:
        rows: NDArray[Any] = np.array(KVALUES, np.int8)
    else:
        rows = grid(book)
        if book is Book.IQ1S:
            rows = rows * np.int8(8)
        elif book in {Book.IQ3XXS, Book.IQ3S}:
            rows = rows.view("<u4")[:, 0].astype(np.uint32)
    rows.flags.writeable = False
    return rows


def grid(book: Book) -> NDArray[np.int8]:
    """Read a code book as it is shipped: int8 [rows, weights of a group]."""
    with (
        resource("code_books/ggml_iq_grids.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as books,
    ):
        rows: NDArray[np.int8] = books[book.value]
    return rows


def _signs_of_codes() -> NDArray[np.uint8]:
    codes = np.arange(128, dtype=np.uint8)
    odd = np.bitwise_count(codes) & np.uint8(1)
    signs: NDArray[np.uint8] = codes | odd << np.uint8(7)
    return signs


SIGNS_OF_CODE: Final = _signs_of_codes()
"""The 8 signs of a 7-bit sign code, one a bit: minus signs come in even numbers (`ksigns_iq2xs`).

uint8 [128], small enough for kernels to have it as a global.
"""
