"""Opening a model, against the `gguf` package and the `safetensors` library.

Peer and program run in the same process, one after the other, on the same file in the disk cache.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

import pytest

from explorer.formats import StringArray, open_model
from tests.benchmarks.huge_model import TENSORS, write_huge_model
from tests.benchmarks.report import Report, Row, milliseconds
from tests.benchmarks.timing import best_seconds, seconds
from tests.helpers.gguf_writer import small_model
from tests.helpers.limits import open_in_a_process
from tests.helpers.safetensors_writer import write_tensors

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_TOKENS = "tokenizer.ggml.tokens"


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


@pytest.mark.network
def test_vocabulary_20_times_faster_than_ggufreader(real_model: Path, report: Report) -> None:
    """From the file to a list of all tokens as text, which is what a first look needs.

    GGUFReader does most of the work while opening; the table shows what it takes after that.
    """
    gguf = pytest.importorskip("gguf")

    def look() -> list[str]:
        with open_model(real_model) as model:
            tokens = model.metadata[_TOKENS]
            assert isinstance(tokens, StringArray)
            return tokens.to_list()

    ours = best_seconds(look, 5)
    started = time.perf_counter()
    reader = gguf.GGUFReader(real_model)
    opened = time.perf_counter()
    told = reader.fields[_TOKENS].contents()
    peer, after = time.perf_counter() - started, time.perf_counter() - opened
    assert look() == told
    ratio = peer / ours
    report.add(
        Row(
            "decode the whole vocabulary, from the file",
            milliseconds(ours),
            f"GGUFReader {milliseconds(peer)} ({milliseconds(after)} of it after opening)",
            f"{ratio:,.0f}× faster",
            "≥ 20×",
            ratio >= 20,
        )
    )
    assert ratio >= 20


@pytest.mark.network
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_open_takes_at_most_twice_the_header_in_memory(
    real_model: Path, tmp_path: Path, report: Report
) -> None:
    harmless = small_model().write(tmp_path / "small.gguf")
    with open_model(real_model) as model:
        header = model.files[0].header_bytes
    _, peak, error = open_in_a_process(real_model, harmless)
    assert error is None
    report.add(
        Row(
            "most memory while opening the 270M model, over the idle program",
            f"{peak / 1e6:.1f} MB",
            f"header {header / 1e6:.1f} MB",
            f"{peak / header:.2f}×",
            "≤ 2×",
            peak <= 2 * header,
        )
    )
    assert peak <= 2 * header


def test_open_700_gb_within_150_ms(tmp_path: Path, report: Report) -> None:
    """300,000 strings and 20,000 tensors in 15 headers, all found and checked.

    Processor time is taken: other programs disturb it less.
    """
    try:
        paths = write_huge_model(tmp_path)
    except OSError:
        pytest.skip("the file system has no sparse files of that size")
    with open_model(paths[0]) as model:
        assert len(model.tensors) == TENSORS
        assert model.problems == ()
        assert model.nbytes > 690e9
        headers = [(file.path, file.header_bytes) for file in model.files]

    def read_and_hash() -> None:
        for path, size in headers:
            with path.open("rb") as source:
                hashlib.sha256(source.read(size)).digest()

    ours, least = float("inf"), float("inf")
    for _ in range(20):  # in turns, so that both meet the same machine
        least = min(least, seconds(read_and_hash, time.process_time))
        ours = min(ours, seconds(lambda: _open(paths[0]), time.process_time))
    megabytes = sum(size for _, size in headers) / 1e6
    report.add(
        Row(
            f"open a sparse split model of 711 GB, {TENSORS:,} tensors, {len(paths)} files",
            milliseconds(ours),
            f"read and SHA-256 its {megabytes:.1f} MB of headers {milliseconds(least)}",
            f"{ours / least:.1f}×",
            "≤ 150 ms",
            ours <= 0.15,
        )
    )
    assert ours <= 0.15


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
