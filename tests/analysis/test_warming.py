"""Kernels are compiled ahead by the way that real tensors go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis import kernel_api
from explorer.analysis.tensor_map.draw import map_kernels
from explorer.analysis.warming import warm_up, warm_up_blocks, warm_up_errors, warm_up_reading
from explorer.errors import FormatError
from explorer.quantization.grouped import kernels as affine
from explorer.quantization.kernel_sets import GENERAL, exact, grouped_layout, later

_ROOT = Path(__file__).resolve().parents[2]
NAMES = ("measure", "count_keys", "count_bins", "sum_squares")


def _variants() -> dict[str, list[object]]:
    loops = {name: getattr(kernel_api.kernels(), name) for name in NAMES}
    blocks = kernel_api.kernels_blocks()
    loops |= {"measure_blocks": blocks.measure_blocks, "count_blocks": blocks.count_blocks}
    return {name: list(loop.signatures) for name, loop in loops.items()}


def test_a_real_tensor_then_needs_no_other_variant_of_a_kernel() -> None:
    from explorer.analysis import tensor_statistics
    from tests.helpers.tensors import random_blocks, tensor_of

    for name in (GENERAL, "Q4_0"):
        warm_up(name)
        warm_up(exact(name))
    before = _variants()
    assert all(before.values())
    tensor = tensor_of("Q4_0", random_blocks("Q4_0", 2000).tobytes(), (1000, 64))
    tensor_statistics(tensor, 100, workers=2, progress=lambda snapshot: None)
    tensor_statistics(tensor, 100, workers=2)
    assert _variants() == before


def test_a_first_look_needs_less_than_exact_statistics() -> None:
    """In a process of its own, where nothing is compiled: what comes first comes sooner."""
    script = """
from explorer.analysis import kernel_api
from explorer.analysis.warming import warm_up
from explorer.quantization import k_quants

def compiled():
    kernels, blocks = kernel_api.kernels(), kernel_api.kernels_blocks()
    counted = [k.__name__ for k in (kernels.measure, kernels.count_keys, kernels.count_bins,
               kernels.sum_squares, blocks.measure_blocks, blocks.count_blocks,
               k_quants.decode_q4_k, k_quants.scales_of_q4_k) if k.signatures]
    print(*counted)

for name in ("general", "Q4_K", "general-exact", "Q4_K-exact"):
    warm_up(name)
    compiled()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=_ROOT
    )
    first = ["measure", "count_keys"]
    exact_ones = [*first, "count_bins", "sum_squares", "measure_blocks", "count_blocks"]
    assert [line.split() for line in done.stdout.splitlines()] == [
        first,
        [*first, "decode_q4_k"],
        [*exact_ones, "decode_q4_k"],
        [*exact_ones, "decode_q4_k", "scales_of_q4_k"],
    ]


def test_blocks_of_any_type() -> None:
    warm_up_blocks("Q4_0")
    assert kernel_api.kernels().count_codes.signatures
    assert map_kernels().fold_cells.signatures
    warm_up_blocks("F32")  # has none


def test_errors_of_real_tensors_then_need_no_other_variant_of_a_kernel() -> None:
    from explorer.analysis.errors import figures as errors
    from explorer.analysis.errors import pictures as pair_counts
    from explorer.analysis.errors.pairs import MatchedPair
    from explorer.analysis.errors.pictures import picture_errors
    from explorer.analysis.matching import Match, TensorView
    from tests.helpers.tensors import random_blocks, tensor_of

    def variants() -> list[object]:
        kernels = (
            errors.kernels().measure_errors,
            errors.kernels().count_some_codes,
            pair_counts.kernels().count_pairs,
        )
        return [list(kernel.signatures) for kernel in kernels]

    warm_up_errors("Q4_0")
    before = variants()
    assert all(before)
    tensor = tensor_of("Q4_0", random_blocks("Q4_0", 2000).tobytes(), (1000, 64))
    view = TensorView.of(tensor)
    picture_errors(MatchedPair(Match(view, view)), 2, progress=lambda picture: None)
    assert variants() == before


def test_a_type_without_values_is_refused() -> None:
    with pytest.raises(FormatError, match="complex"):
        warm_up_reading("C64")


@pytest.mark.parametrize("name", ["int4", "affine3", "mxfp8"])
def test_weights_with_scales_in_arrays_of_their_own(name: str) -> None:
    from explorer.analysis import tensor_statistics
    from tests.helpers.grouped_tensors import grouped_tensor

    def variants() -> list[object]:
        decoders = (affine._decode_4, affine._decode_any, affine.unpack_codes, affine.decode_mxfp8)
        return [list(decoder.signatures) for decoder in decoders]

    for each in (GENERAL, name):
        warm_up(each)
        warm_up(exact(each))
    before = variants()
    assert any(before)
    layout = grouped_layout(name)
    assert layout is not None
    tensor, _ = grouped_tensor(layout, np.ones((8, 256), np.float32))
    tensor_statistics(tensor, 100, progress=lambda snapshot: None)
    assert variants() == before


def test_a_range_that_float32_cannot_divide() -> None:
    warm_up(later(GENERAL))
    edges = {str(arguments[1].dtype) for arguments in kernel_api.kernels().count_bins.signatures}
    assert "float64" in edges


def test_later_sets_of_a_type_compile_what_its_pages_need() -> None:
    warm_up(later("Q4_0"))
    assert kernel_api.kernels().count_codes.signatures


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("name", ["Q5_1", "int8/32", "F16"])
def test_rounding_then_needs_no_other_variant_of_a_kernel(name: str, weighed: bool) -> None:
    """In a process of its own: how many kernels are compiled before, and after real weights."""
    script = f"""
import numpy as np
from numba.core import event
from explorer.analysis.warming import warm_up
from explorer.analysis.rounding import rounder
from explorer.quantization.kernel_sets import has_kernels, rounding_to
kernels = rounding_to({name!r}, weighed={weighed})
assert has_kernels(kernels)
warm_up(kernels)
compiled = []
class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
rounding = rounder({name!r})
values = np.random.default_rng(0).standard_normal(1 << 12, np.float32)
importance = np.arange(1 << 10, dtype=np.float32) if {weighed} else None
assert np.abs(rounding.round(values, importance) - values).max() < 1
rounding.levels is None or rounding.codes()
print(*compiled)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=_ROOT
    )
    assert done.stdout.split() == []
