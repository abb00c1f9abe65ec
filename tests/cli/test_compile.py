"""`gguf-explorer compile-kernels`, which the window starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.analysis.rounding import rounding_types
from explorer.cli import compile as compiling
from explorer.cli.main import main
from explorer.quantization import kernel_cache
from explorer.quantization.registry import has_decoder
from explorer.quantization.types import TENSOR_TYPES

_SEES_COMPILATIONS = """
import numpy as np
from numba.core import event
from explorer.cli.compile import compile_analysis, compile_rounding, grouped_zeros, zero_tensors
compiled = []
class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass
"""


def test_all_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[str] = []
    rounded: list[str] = []
    monkeypatch.setattr(os, "nice", lambda increment: increment, raising=False)
    monkeypatch.setattr(
        compiling, "compile_analysis", lambda tensor: analysed.append(tensor.type.name)
    )
    monkeypatch.setattr(compiling, "compile_rounding", lambda name, _scales: rounded.append(name))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert main(["compile-kernels"]) == 0
    assert {name for name in TENSOR_TYPES if has_decoder(name)} <= set(analysed)
    assert {"int4", "mxfp4"} <= set(analysed)
    assert set(rounded) == set(rounding_types())
    assert not kernel_cache.lacks_kernels()
    analysed.clear()
    assert main(["compile-kernels"]) == 0
    assert analysed == []


def test_a_real_tensor_then_needs_no_other_kernel() -> None:
    """In a process of its own: which kernels are compiled for real tensors after that."""
    script = f"""{_SEES_COMPILATIONS}
from explorer.analysis import block_statistics, tensor_statistics
from explorer.analysis.errors.pairs import MatchedPair, RoundedPair
from explorer.analysis.errors.pictures import picture_errors
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView
from explorer.analysis.statistics import GrowingStatistics
from tests.helpers.tensors import random_blocks, tensor_of
for zeros in zero_tensors():
    if zeros.type.name == "Q4_0":
        compile_analysis(zeros)
compile_rounding("Q5_1")
event.register("numba:compile", Listener())
tensor = tensor_of("Q4_0", random_blocks("Q4_0", 2000).tobytes(), (1000, 64))
growing = GrowingStatistics(tensor, 100, workers=2, rough=True)
for _ in growing.walk():
    growing.rough_histogram()
tensor_statistics(tensor, 100, workers=2)
block_statistics(tensor, 100)
view = TensorView.of(tensor)
list(picture_errors(MatchedPair(Match(view, view)), 2))
RoundedPair(tensor, "Q5_1").reader().read((0, tensor.parameters), lambda: None)
print(*compiled)
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", ["int4", "affine3", "mxfp8"])
def test_weights_with_scales_in_arrays_of_their_own(name: str) -> None:
    found = [
        tensor
        for tensor in compiling.zero_tensors()
        if tensor.type.name == name and tensor.companions is None
    ]
    assert len(found) == 1
    compiling.compile_analysis(found[0])


def test_weights_with_companions_are_compiled_too() -> None:
    found = [tensor for tensor in compiling.companion_zeros() if tensor.companions is not None]
    assert {tensor.type.name for tensor in found} == {"gptq4", "awq4", "int8", "fp8", "mxfp4"}
    for tensor in found:
        compiling.compile_analysis(tensor)


def test_people_are_not_told_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "compile" not in capsys.readouterr().out
