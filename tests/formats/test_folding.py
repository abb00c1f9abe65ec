"""Shapes as rows and columns: names of rows, and the cells that numbers mean."""

from __future__ import annotations

import pytest

from explorer.formats.tensors import Folding
from explorer.quantization import TENSOR_TYPES


@pytest.mark.parametrize(
    ("shape", "numbers", "place"),
    [
        ((5, 7), (4,), (4, 0)),
        ((5, 7), (4, 6), (4, 6)),
        ((5, 7), (5, 0), None),
        ((5, 7), (0, 7), None),
        ((5, 7), (1, 1, 1), None),
        ((7,), (6,), (0, 6)),
        ((7,), (0, 6), (0, 6)),
        ((7,), (7,), None),
        ((2, 3, 8), (1, 2, 3), (5, 3)),
        ((2, 3, 8), (5, 3), (5, 3)),
        ((2, 3, 8), (1, 3, 0), None),
        ((2, 3, 8), (6,), None),
        ((), (0,), (0, 0)),
    ],
)
def test_finds_the_cell_that_numbers_mean(
    shape: tuple[int, ...], numbers: tuple[int, ...], place: tuple[int, int] | None
) -> None:
    assert Folding(shape).place_of(numbers) == place


def test_row_names_and_places_agree() -> None:
    folding = Folding((4, 3, 5, 2))
    for row in range(folding.rows):
        indices = tuple(map(int, folding.row_name(row).split(", ")))
        assert folding.place_of((*indices, 1)) == (row, 1)


def test_a_type_fits_rows_of_whole_blocks() -> None:
    kind = TENSOR_TYPES["Q4_K"]
    assert Folding((3, 512)).block_problem(kind) is None
    assert Folding((512, 3)).block_problem(kind) == (
        "rows of 3 weights are no whole number of blocks of 256"
    )
    assert Folding(()).block_problem(TENSOR_TYPES["F32"]) is None
