"""A plan while the context is dragged: GLM-4.6 with its MTP layer, on two GPUs that are too small.

llama.cpp then decides which experts stay on the CPU, in some hundred trials. Budget: 150 ms a plan,
printed; asserted is the ratio to the same plan by a header that remembers nothing of the last one.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from explorer.formats import open_model
from explorer.planner import Device, Hyperparameters, Settings
from explorer.planner.engines.llama_cpp.engine import LLAMA_CPP
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.request import PlanRequest
from tests.benchmarks.glm import write_glm_4_6
from tests.benchmarks.report import Report
from tests.benchmarks.timing import seconds

_CONTEXTS = range(8192, 65536, 3072)
_DEVICES = tuple(Device(str(i), "CUDA", 24 << 30) for i in range(2))


@pytest.mark.benchmark
def test_a_plan_of_glm_4_6_with_mtp_on_two_gpus_takes_at_most_150_ms(
    report: Report, shared_reference: Path, tmp_path: Path
) -> None:
    path = tmp_path / "glm-4.6.gguf"
    write_glm_4_6(shared_reference.parent / "tools" / "make_models.py", path)
    with open_model(path) as model:
        h = Hyperparameters.from_model(model)
    header = h.llama_cpp
    assert isinstance(header, Header)

    def plan(h: Hyperparameters, context: int) -> None:
        LLAMA_CPP.plan(PlanRequest(h, Settings(context=context, mtp=3), _DEVICES))

    plan(h, 4096)
    ours, peer = [], []
    for context in _CONTEXTS:  # they take turns, so that both meet one machine
        ours.append(seconds(lambda at=context: plan(h, at), time.thread_time))
        bare = replace(h, llama_cpp=replace(header))
        peer.append(seconds(lambda at=context, bare=bare: plan(bare, at), time.thread_time))
    report.compare(
        "plan of GLM-4.6 with MTP on two GPUs, another context, time of the processor",
        median(ours),
        ("the same, remembering nothing", median(peer)),
        most=0.9,
        budget=0.15,
        note=f"at most {1000 * max(ours):.1f} ms",
    )
