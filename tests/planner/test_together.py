"""Several models loaded at once: each takes memory off the next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.planner import Device, Host, Hyperparameters
from explorer.planner.inputs import PlanInputs
from explorer.planner.together import load_first, usual_inputs
from tests.helpers.sparse_models import Shape

GIB = 1 << 30
GPU = Device("0", "CUDA", 12 * GIB, name="NVIDIA GeForce RTX 4070", total=12 * GIB)
HOST = Host(32 * GIB)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 4 GiB in 33 layers; 128 KiB of cache for each token."""
    return Shape().write(tmp_path_factory.mktemp("models") / "eight.gguf")


@pytest.fixture(scope="module")
def h(model: Path) -> Hyperparameters:
    with open_model(model) as opened:
        return Hyperparameters.from_model(opened)


def test_what_is_loaded_is_no_longer_free(h: Hyperparameters) -> None:
    inputs = usual_inputs(h)
    assert inputs.settings.context == 8192
    devices, host, (one, two) = load_first(
        [("one", h, inputs), ("two", h, inputs)], (GPU,), HOST, {}
    )
    plan = inputs.engine_for(h).plan(PlanInputs(inputs.settings, (GPU,), HOST).request(h, {}))
    held = plan.gpus[0]
    assert one.on_gpus == (held.total + held.reserve.high,)  # each program has a reserve of its own
    assert devices[0].free == GPU.free - one.on_gpus[0] - two.on_gpus[0]
    assert host is not None
    assert host.free == HOST.free - one.in_memory - two.in_memory


def test_a_model_that_does_not_fit_beside_others_is_refused(h: Hyperparameters) -> None:
    card, small = replace(GPU, free=7 * GIB), Host(GIB)
    with pytest.raises(PlanError, match="two does not fit beside"):
        load_first([("one", h, usual_inputs(h)), ("two", h, usual_inputs(h))], (card,), small, {})
