"""Command-R 35B (08-2024) with 32,000 tokens on 24 GiB, as an example of how to ask for a plan.

docs/planner.md section 8. The quick estimate of 71.6 % is a rule of thumb from rounded figures
(24 GB of memory, 19 GB of weights, 0.5 GB of buffer, all of them GiB in truth). The layout is the
answer.
"""

from __future__ import annotations

import pytest

from explorer.planner import Device, Settings, graph_size, plan
from explorer.planner.engines.ollama_013.engine import quick_ratio
from explorer.planner.inputs import plan_record
from tests.planner.golden import Golden
from tests.planner.models import GIB

MODEL = "command-r-08-2024"


def test_the_rule_of_thumb(subset: Golden) -> None:
    g = graph_size(subset.model(MODEL), context=32_000)
    ratio = quick_ratio(24 * GIB, g.kv_total, g.partial, GIB // 2, 19 * GIB)
    assert f"{ratio:.1%}" == "71.6%"


@pytest.mark.parametrize(
    ("free", "layers"), [(24 * GIB, 33), (25_340_739_584, 32), (int(22.5 * GIB), 30)]
)
def test_the_layout_is_the_answer(subset: Golden, free: int, layers: int) -> None:
    p = plan(subset.model(MODEL), Settings(context=32_000), [Device("0", "CUDA", free)])
    assert (p.gpu_layers, p.verdict.total_layers) == (layers, 41)
    assert not p.fully_offloaded


def test_both_stand_side_by_side(subset: Golden) -> None:
    p = plan(subset.model(MODEL), Settings(context=32_000), [Device("0", "CUDA", 24 * GIB)])
    record = plan_record(p)
    assert record["gpu_ratio"] == 33 / 41
    assert p.cache == 5_242_880_000
    # exact figures instead of the rounded ones: the weights have 19.25 GB, the buffer one block
    weights, buffer = p.weights, 478_806_016 + 131_072_000
    assert record["quick_estimate_ratio"] == pytest.approx(
        (24 * GIB - 5_242_880_000 - 5_379_721_216 - buffer) / weights
    )
