"""Memory of a comparison: bounded, whatever the size of the tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.gguf_writer import GgufFile, TensorSpec

_WEIGHTS = 1 << 25  # both as float32: 256 MiB
_COMPARE_AND_MEASURE = """
import sys
from explorer.analysis import compare_tensors
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.errors.pictures import picture_errors
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.views import TensorView
from explorer.formats import open_model
from tests.helpers.memory import most_memory

def compare(name):
    tensors = one.tensors[name], two.tensors[name]
    if sys.argv[3] == "figures":
        return compare_tensors(*tensors, 2)
    *_, pictured = picture_errors(MatchedPair(Match(*map(TensorView.of, tensors))), 2)
    return pictured.metrics

with open_model(sys.argv[1]) as one, open_model(sys.argv[2]) as two:
    compare("small")  # kernels are loaded: the idle program
    print(most_memory(lambda: compare("large")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the most memory from /proc")
@pytest.mark.parametrize("what", ["figures", "pictures"])
def test_a_comparison_takes_at_most_64_mib(tmp_path: Path, what: str) -> None:
    """Of sparse files, BF16 and Q4_K, on two threads."""
    paths = []
    for name, kind, bits in (("reference", 30, 16), ("candidate", 12, 4.5)):
        small = TensorSpec("small", (4096, 4), kind, bytes(int(4096 * 4 * bits / 8)))
        large = TensorSpec("large", (4096, _WEIGHTS // 4096), kind)
        path = GgufFile(tensors=[small, large]).write(tmp_path / f"{name}.gguf")
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size + int(_WEIGHTS * bits / 8) + 64)
        paths.append(path)
    done = subprocess.run(
        [sys.executable, "-c", _COMPARE_AND_MEASURE, *map(str, paths), what],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 64 << 20
