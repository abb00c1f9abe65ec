"""Kernels are compiled ahead by the way that real tensors go."""

from __future__ import annotations

import pytest

from explorer.analysis import places
from explorer.analysis.warming import GENERAL, warm_up_blocks, warm_up_statistics
from explorer.errors import FormatError

NAMES = ("measure", "count_keys", "count_bins", "sum_squares")


def _variants() -> dict[str, list[object]]:
    return {name: list(getattr(places.kernels(), name).signatures) for name in NAMES}


def test_a_real_tensor_then_needs_no_other_variant_of_a_kernel() -> None:
    from explorer.analysis import tensor_statistics
    from tests.helpers.tensors import random_blocks, tensor_of

    warm_up_statistics(GENERAL)
    warm_up_statistics("Q4_0")
    before = _variants()
    assert all(before.values())
    tensor = tensor_of("Q4_0", random_blocks("Q4_0", 2000).tobytes(), (1000, 64))
    tensor_statistics(tensor, 100, workers=2, progress=lambda snapshot: None)
    assert _variants() == before


def test_blocks_of_any_type() -> None:
    warm_up_blocks("Q4_0")
    assert places.kernels().count_codes.signatures
    warm_up_blocks(GENERAL)  # has none


def test_a_type_without_values_is_refused() -> None:
    with pytest.raises(FormatError, match="complex"):
        warm_up_statistics("C64")
