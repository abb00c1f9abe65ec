"""One colour for each width of code, one pattern for each family."""

from __future__ import annotations

from itertools import groupby

import pytest

from explorer.present.colours import Pattern, type_bits, type_colour, type_pattern
from explorer.quantization.types import TENSOR_TYPES


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        *(("F32", 32), ("BF16", 16), ("F8_E4M3", 8), ("BOOL", 8), ("I64", 64), ("C64", 64)),
        *(("Q4_1", 4), ("Q6_K", 6), ("IQ2_XXS", 2), ("TQ1_0", 1), ("MXFP4", 4), ("int3", 3)),
        *(("gptq4", 4), ("nf4", 4), ("bitnet", 2), ("unknown", 32), ("Q" + "9" * 4000, 32)),
    ],
)
def test_bits_are_in_the_name(name: str, bits: int) -> None:
    assert type_bits(name) == bits


def test_a_colour_is_of_neighbouring_widths() -> None:
    by_bits = [type_colour(name) for name in sorted(TENSOR_TYPES, key=type_bits)]
    runs = [colour for colour, _ in groupby(by_bits)]
    assert len(runs) == len(set(runs)) == 8


def test_families_of_one_width_have_patterns_of_their_own() -> None:
    names = "Q4_K", "Q4_0", "IQ4_XS", "MXFP4", "gptq4"
    assert len({type_colour(name) for name in names}) == 1
    assert [type_pattern(name) for name in names] == list(Pattern)
