"""Plans are made while somebody drags a slider: their time, beside plain Python at the same work.

The peer is what the planner would be without its shortcuts: the reference search of docs/planner.md
section 7, layer by layer, for the same rooms. Absolute times are printed, ratios are asserted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import accumulate
from statistics import median

import numpy as np
import pytest

from explorer.planner import Device, Hyperparameters, Settings, graph_size, plan
from explorer.planner.engines.ollama_013.layout import Placement, Rooms, assign_layers
from tests.benchmarks.report import Report, Row
from tests.planner import naive_fitting

_GIB = 1 << 30
_BLOCKS = 80
_RUNS = 200
_SWEEP = 10_000


def _model() -> Hyperparameters:
    """Return a model like Llama 3.3 70B in Q4_K_M."""
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": _BLOCKS,
        "llama.embedding_length": 8192,
        "llama.context_length": 131_072,
        "llama.feed_forward_length": 28_672,
        "llama.attention.head_count": 64,
        "llama.attention.head_count_kv": 8,
        "tokenizer.ggml.tokens": range(128_256),
    }
    tensors = [
        (f"blk.{i}.ffn.weight", "Q4_K", [8192, 180_000 // 256 * 128]) for i in range(_BLOCKS)
    ]
    tensors += [
        ("output.weight", "Q6_K", [8192, 128_256]),
        ("token_embd.weight", "Q4_K", [8192, 128_256]),
    ]
    return Hyperparameters.from_parts(metadata, tensors)


def _devices() -> list[Device]:
    """Return eight uneven GPUs, which all are needed."""
    return [Device(str(i), "CUDA", (9 * _GIB) - i * 300_000_000) for i in range(8)]


def _median_seconds(work: Callable[[], object], runs: int = _RUNS) -> float:
    times = []
    for _ in range(runs):
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return median(times)


@pytest.mark.benchmark
def test_searching_a_layout_is_5_times_as_fast_as_layer_by_layer(report: Report) -> None:
    layers = [500_000_000 + i for i in range(_BLOCKS + 1)]
    free = [device.free for device in _devices()]
    ends, whole = [0, *accumulate(layers)], [False] * len(free)
    rooms = Rooms([np.float32(f) for f in free], whole, 0)
    wish = Placement(-1, require_full=False, spread=False)
    options = {"last_used": 0, "num_gpu": -1, "require_full": False, "spread": False}
    ours = _median_seconds(lambda: assign_layers(ends, rooms, wish))
    peer = _median_seconds(lambda: naive_fitting.assign(layers, free, whole, **options), runs=7)
    row = Row(
        what=f"layout of {_BLOCKS} blocks on 8 GPUs",
        ours=f"{1000 * ours:.2f} ms",
        peer=f"{1000 * peer:.1f} ms layer by layer",
        ratio=f"{peer / ours:.0f}× faster",
        target="5×",
        met=peer / ours >= 5,
    )
    report.add(row)
    assert row.met


@pytest.mark.benchmark
def test_a_plan_costs_at_most_20_passes_over_its_layers(report: Report) -> None:
    """Budgets: 2 ms a plan, 0.3 ms cache and graph, 10 s for 10,000 plans; printed, not asserted.

    Asserted is the cost in units of one plain pass over the layers of all GPUs, measured here.
    """
    h, devices = _model(), _devices()
    asked = Settings(context=16_384)
    sizes = _median_seconds(lambda: graph_size(h, context=16_384))
    whole = _median_seconds(lambda: plan(h, asked, devices))
    before = time.perf_counter()
    for i in range(_SWEEP):
        plan(h, Settings(context=512 + 8 * i), devices)
    sweep = time.perf_counter() - before
    work = [int(131_072 * 256 * 8 * 2.0) for _ in range(_BLOCKS)]

    def one_pass() -> int:
        total = 0
        for _ in devices:
            for nbytes in work:
                total += int(nbytes * 2.0)
        return total

    unit = _median_seconds(one_pass)
    for what, seconds, budget, most in (
        ("KV cache and graph", sizes, 0.3e-3, 5),
        ("a plan of 80 blocks on 8 GPUs", whole, 2e-3, 20),
        ("each of 10,000 plans", sweep / _SWEEP, 1e-3, 20),
    ):
        report.add(
            Row(
                what=what,
                ours=f"{1000 * seconds:.2f} ms",
                peer=f"{1000 * unit:.3f} ms a plain pass",
                ratio=f"{seconds / unit:.1f} passes",
                target=f"≤ {most} passes (budget {1000 * budget:.1f} ms)",
                met=seconds / unit <= most,
            )
        )
        assert seconds / unit <= most
