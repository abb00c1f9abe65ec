"""Which of 200 models fit, against reading what they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.planner import Device, Host
from explorer.planner.plans import Level
from explorer.present.fits import Target, version_at
from explorer.stores.entries import Place, StoreKind
from explorer.stores.library import read_details, read_stores
from tests.benchmarks.report import Report
from tests.benchmarks.timing import best_seconds, seconds
from tests.helpers.sparse_models import Shape

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

_SHAPES = (
    Shape(blocks=16, width=2048, feed_forward=8192, vocabulary=32000),
    Shape(vocabulary=128000),
    Shape(blocks=28, width=3072, feed_forward=8192, heads=24, vocabulary=128000),
    Shape(blocks=36, width=2560, feed_forward=9728, vocabulary=151000),
    Shape(blocks=40, width=5120, feed_forward=13824, heads=40, vocabulary=32000),
    Shape(blocks=64, width=5120, feed_forward=25600, heads=40, vocabulary=151000),
    Shape(blocks=80, width=8192, feed_forward=28672, heads=64, vocabulary=128000),
    Shape(blocks=48, width=2048, feed_forward=768, experts=64, vocabulary=151000),
)
_KINDS = ("Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q4_0")


def test_which_of_200_models_fit_within_15_times_of_reading_what_they_are(
    tmp_path: Path, report: Report
) -> None:
    """The peer opens the same files and describes them."""
    for number in range(200):  # no two alike: what was worked out for one helps no other
        shape, kind = _SHAPES[number % len(_SHAPES)], _KINDS[number // 8 % len(_KINDS)]
        words = shape.vocabulary + 64 * (number // 40)
        replace(shape, kind=kind, vocabulary=words).write(tmp_path / f"{number}.gguf")
    (store,) = read_stores([Place(StoreKind.FOLDER, tmp_path)])
    target = Target((Device("0", "CUDA", 12 << 30),), Host(64 << 30))
    found = []

    def ours() -> None:
        found[:] = [version_at(entry.path, target).fit for entry in store.entries]

    least = seconds(lambda: [read_details(entry) for entry in store.entries])
    (took,) = best_seconds(ours, runs=2)
    assert {fit.level for fit in found} >= {Level.FITS, Level.PARTLY}
    assert len(found) == 200
    what = "which of 200 models fit, and their largest context"
    report.compare(what, took, ("reading what they are", least), most=15, budget=3)
