"""Opening a model, against the `gguf` package and the `safetensors` library.

Peer and program run in the same process, one after the other, on the same file in the disk cache.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.formats import open_model
from tests.benchmarks.report import Report, Row, milliseconds
from tests.benchmarks.timing import best_seconds, seconds
from tests.helpers.safetensors_writer import write_tensors

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]


def _open(path: Path) -> None:
    open_model(path).close()


@pytest.mark.network
def test_open_150_times_faster_than_ggufreader(real_model: Path, report: Report) -> None:
    gguf = pytest.importorskip("gguf")
    ours = best_seconds(lambda: _open(real_model), 20)
    peer = seconds(lambda: gguf.GGUFReader(real_model))
    ratio = peer / ours
    report.add(
        Row(
            "open a 270M model (262,144 tokens) to a complete `Model`",
            milliseconds(ours),
            f"GGUFReader {milliseconds(peer)}",
            f"{ratio:,.0f}× faster",
            "≥ 150×",
            ratio >= 150,
        )
    )
    assert ratio >= 150


def test_list_safetensors_within_twice_the_library(tmp_path: Path, report: Report) -> None:
    """Names, shapes and types of 10,000 tensors, from the file to lists of Python objects."""
    safetensors = pytest.importorskip("safetensors")
    path = write_tensors(
        tmp_path / "model.safetensors",
        *(
            (f"model.layers.{i // 10}.mlp.part_{i % 10}.weight", "BF16", [8, i % 7 + 1])
            for i in range(10_000)
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
    least, peer_least = float("inf"), float("inf")
    for _ in range(15):  # in turns, so that both meet the same machine
        least = min(least, seconds(ours))
        peer_least = min(peer_least, seconds(peer))
    ratio = least / peer_least
    report.add(
        Row(
            "open a safetensors file of 10,000 tensors and list names, shapes and types",
            milliseconds(least),
            f"the safetensors library {milliseconds(peer_least)}",
            f"{ratio:.2f}×",
            "≤ 2×",
            ratio <= 2,
        )
    )
    assert ratio <= 2
