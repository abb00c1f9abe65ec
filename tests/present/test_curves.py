"""Stops of sliders, and memory by context."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from explorer.formats import open_model
from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.advice import solve
from explorer.planner.engines.llama_cpp.engine import LLAMA_CPP
from explorer.planner.inputs import PlanInputs
from explorer.planner.request import PlanRequest
from explorer.present.curves import AXES, context_stops, curve_contexts, curve_end, make_curves
from tests.helpers.sparse_models import Shape
from tests.planner.models import small_model


@given(st.integers(0, 1 << 26) | st.integers(500, 2100))
@example(513)
def test_every_context_has_its_nearest_stop(trained: int) -> None:
    stops = context_stops(trained)
    assert list(stops.values) == sorted(set(stops.values))
    for snap in stops.snaps:
        assert stops.values[stops.position(snap)] == snap
    for power in range(11, 21):
        assert 1 << power in stops.snaps
    if 512 <= trained <= 1 << 24:
        assert trained in stops.snaps
        assert trained <= stops.values[-1]
    assert stops.values[0] == 512


@pytest.mark.parametrize(
    ("along", "ends"),
    [
        ("context", (512, 1 << 20)),
        ("parallel", (1, 256)),
        ("utilization", (10, 100)),
        ("tensor_parallel", (1, 4)),  # of six GPUs
    ],
)
def test_a_slider_stops_where_it_says(along: str, ends: tuple[int, int]) -> None:
    stops = AXES[along].stops(40_960, 6)
    assert (stops.values[0], stops.values[-1]) == ends
    assert stops.names.keys() | set(stops.snaps) <= set(stops.values)
    assert [stops.values[stops.position(value)] for value in stops.values] == list(stops.values)


@given(st.integers(1, 1 << 21), st.integers(-3, 3))
def test_steps_go_the_right_way_from_any_value(value: int, steps: int) -> None:
    stops = context_stops(131_072)
    stepped = stops.step(value, steps)
    if steps > 0 and value < stops.values[-1]:
        assert stepped > value
    if steps < 0 and value > stops.values[0]:
        assert stepped < value
    assert stepped in stops.values


def test_curves_end_at_the_trained_context_or_reach_a_longer_one() -> None:
    assert curve_end(40_960) == curve_end(40_960, 40_960) == 40_960
    assert curve_end(0, 8192) == 1 << 20
    assert curve_end(40_960, 65_536) == 65_536
    assert curve_end(40_960, 70_000) == curve_end(40_960, 131_072) == 131_072
    for trained, end in ((40_960, 40_960), (40_960, 131_072), (0, 1 << 20), (512, 1 << 22)):
        contexts = curve_contexts(trained, end)
        assert contexts[-1] == end
        assert trained in (0, *contexts)
        assert list(contexts) == sorted(set(contexts))
        assert all(high <= 1.5 * low for low, high in pairwise(contexts))


def test_a_curve_fits_only_where_there_is_room(tmp_path: Path) -> None:
    with open_model(Shape().write(tmp_path / "eight.gguf")) as model:
        h = Hyperparameters.from_model(model)
    device = Device("0", "CUDA", 8 << 30)
    inputs = PlanInputs(Settings(num_gpu=33), (device,), profile="llama.cpp")  # all, come what may
    curves = make_curves(h, inputs, {}, lambda: None, 131_072)
    f16 = next(curve for curve in curves.curves if curve.cache_type == "f16")
    assert f16.fits[0]
    assert not f16.fits[-1]
    assert f16.totals[-1] > device.free


@pytest.mark.parametrize("free", [5, 6.3, 8])
@pytest.mark.parametrize("has_gpu", [True, False])
def test_a_curve_is_solid_up_to_the_largest_context(
    tmp_path: Path, free: float, *, has_gpu: bool
) -> None:
    with open_model(Shape().write(tmp_path / "eight.gguf")) as model:
        h = Hyperparameters.from_model(model)
    nbytes = int(free * (1 << 30))
    devices = (Device("0", "CUDA", nbytes),) if has_gpu else ()
    host = None if has_gpu else Host(nbytes, total=nbytes)
    inputs = PlanInputs(devices=devices, host=host)
    answer = solve("context", PlanRequest(h, inputs.settings, devices, host, {}), LLAMA_CPP)
    assert isinstance(answer.value, int)
    curves = make_curves(h, inputs, {}, lambda: None, 131_072)
    assert curves.where[0] == ("all layers fit on GPUs" if has_gpu else "main memory holds it all")
    f16 = next(curve for curve in curves.curves if curve.cache_type == "f16")
    assert f16.fits.tolist() == (f16.contexts <= answer.value).tolist()


def test_curves_can_be_stopped() -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        make_curves(small_model(), PlanInputs(), {}, check, 4096)
