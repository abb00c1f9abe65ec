"""What pictures say in words."""

from __future__ import annotations

import numpy as np

from explorer.planner.plans import MEMORY, CurveKind
from explorer.present.curves import Curve, Curves
from explorer.present.pictures import (
    block_sentence,
    curves_sentence,
    extremes_sentence,
    histogram_sentence,
)
from explorer.present.tables.plans import curves_table

MIB = 1 << 20


def test_a_histogram_says_where_its_weights_lie() -> None:
    counts, edges = np.array([1, 6, 2, 1]), np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    said = histogram_sentence(counts, edges, 3, "Weights")
    assert said == (
        "10 weights from -2 to 2; half of them from about -1 to 1; "
        "most, 60.0 %, from -1 to 0; 3 more outside."
    )
    assert not histogram_sentence(counts * 0, edges, 0)
    alone = np.array([0, 1, 0, 0])
    said = histogram_sentence(alone, edges, 1)
    assert said == "1 weight from -2 to 2; most, 100 %, from -1 to 0; 1 more outside."
    assert histogram_sentence(alone, edges, 0, "Minima").startswith("1 minimum from ")


def test_curves_say_their_ends_and_how_far_the_gpus_reach() -> None:
    contexts, totals = np.array([512, 1024, 2048]), np.array([1, 2, 4]) * MIB
    fits = np.array([True, True, False])
    unplanned = np.array([3 * MIB, -1, -1])
    curves = Curves(
        (
            Curve("f16", "f16", contexts, totals, fits),
            Curve("q8_0", "q8_0", contexts, unplanned, fits & False),
        ),
        2 * MIB,
    )
    assert curves_sentence(curves) == (
        f"{MEMORY.title}: f16 from 1.00 MiB at 512 to 4.00 MiB at 2k, all layers fit on "
        "GPUs at 1k, no longer at 2k; q8_0 from 3.00 MiB at 512 to 3.00 MiB at 512."
    )


def test_points_of_curves_are_said_to_be_what_the_curves_are_of() -> None:
    places, counts = np.array([50, 90]), np.array([0, 7])
    curve = Curve("auto, at least", "BF16", places, counts, counts > 0)
    kind = CurveKind("Requests by utilization", "kv_dtype", (), "requests", "utilization")
    table = curves_table(Curves((curve,), 0, kind))
    assert table.title == "Requests by utilization"
    assert table["auto, at least_fits"].tip == "Whether it starts."
    assert curves_table(Curves((curve,), 1)).title == MEMORY.title


def test_extremes_are_named_and_what_is_unknown_is_not() -> None:
    values, names = np.array([np.nan, 3.0, 1.0, 2.0]), "abcd"
    assert extremes_sentence("Error", values, names.__getitem__) == "Error: from c to b."
    assert not extremes_sentence("Error", values * np.nan, names.__getitem__)


def test_a_block_says_its_range() -> None:
    assert block_sentence(np.float32([0.5, -0.25])) == "2 weights from -0.25 to 0.5."
    assert block_sentence(np.float32([0.5])) == "1 weight from 0.5 to 0.5."
    assert not block_sentence(np.zeros(0, np.float32))
