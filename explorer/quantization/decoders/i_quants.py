"""IQ types: weights in groups that a code book lists, or levels that are not evenly spaced.

::

    IQ1_S, IQ1_M             groups of 8 from a book of 2,048      `i_quants_1`
    IQ2_XXS, IQ2_XS, IQ2_S   8 signs, and 8 sizes from a book      `i_quants_2`
    IQ3_XXS, IQ3_S           8 signs, and twice 4 sizes of a book  `i_quants_3`
    IQ4_NL, IQ4_XS           no groups: 16 uneven levels           `i_quants_4`

There is one kernel for each type, and it has two uses. Without a place for scales, it decodes:
level times scale. With one, it takes blocks apart for `explorer.quantization.anatomy`: it writes
the levels themselves and keeps the scales. So no layout is written down twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from explorer.quantization.arrays import Blocks, Weights
from explorer.quantization.decoders import i_quants_1, i_quants_2, i_quants_3, i_quants_4
from explorer.quantization.decoders.i_quants_books import Book, code_book
from explorer.quantization.decoders.i_quants_groups import Walk
from explorer.quantization.registry import Decoder

WALKS: Final[Mapping[str, tuple[Walk, Book]]] = {
    **i_quants_1.WALKS,
    **i_quants_2.WALKS,
    **i_quants_3.WALKS,
    **i_quants_4.WALKS,
}
"""The kernel and the code book of each type."""


def _decoder(walk: Walk, book: Book) -> Decoder:
    def decode(blocks: Blocks, out: Weights) -> None:
        # The book is an argument: as a global it would be compiled into the machine code.
        walk(blocks, out, None, code_book(book))

    return decode


DECODERS = {name: _decoder(*parts) for name, parts in WALKS.items()}
