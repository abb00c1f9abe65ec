"""Opening a model, against the `gguf` package and the `safetensors` library.

Peer and program run in the same process, one after the other, on the same file in the disk cache.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from explorer.formats import open_model
from tests.benchmarks.report import Report
from tests.benchmarks.timing import best_seconds, seconds
from tests.helpers.safetensors_writer import write_tensors

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]


def _open(path: Path) -> None:
    open_model(path).close()


@pytest.mark.network
def test_open_150_times_faster_than_ggufreader(real_model: Path, report: Report) -> None:
    gguf = pytest.importorskip("gguf")
    (ours,) = best_seconds(lambda: _open(real_model), runs=20)
    peer = "`gguf.GGUFReader`", seconds(lambda: gguf.GGUFReader(real_model))
    report.compare("open a 270M model (262,144 tokens)", ours, peer, most=1 / 150)


def test_list_safetensors_as_fast_as_the_library(tmp_path: Path, report: Report) -> None:
    """Names, shapes and types of 100,000 tensors, from the file to lists of Python objects."""
    safetensors = pytest.importorskip("safetensors")
    path = write_tensors(
        tmp_path / "model.safetensors",
        *(
            (f"model.layers.{i // 10}.mlp.part_{i % 10}.weight", "BF16", [8, i % 7 + 1])
            for i in range(100_000)
        ),
    )

    def ours() -> list[tuple[str, list[int], str]]:
        with open_model(path) as model:
            columns = model.tensors.columns
            rows = zip(columns.names, columns.shapes, columns.types, strict=True)
            return [(name, list(shape), kind.name) for name, shape, kind in rows]

    def peer() -> list[tuple[str, list[int], str]]:
        with safetensors.safe_open(path, "numpy") as file:
            slices = ((name, file.get_slice(name)) for name in file.keys())  # noqa: SIM118 - no dict
            return [(name, part.get_shape(), part.get_dtype()) for name, part in slices]

    assert sorted(ours()) == sorted(peer())
    least, library = best_seconds(ours, peer, clock=time.process_time)
    what = "names, shapes and types of 100,000 tensors of safetensors, time of the processor"
    report.compare(what, least, ("the `safetensors` library", library), most=1.2)
