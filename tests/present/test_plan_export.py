"""Settings of a plan for other programs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from explorer.planner import Device
from explorer.planner.devices import parse_gpu
from explorer.present.plan_export import device_spec
from tests.planner.models import random_devices


@given(random_devices())
def test_a_device_is_described_so_that_the_command_line_reads_it(devices: list[Device]) -> None:
    for position, device in enumerate(devices):
        named = replace(
            device, name="A, strange = name\x1b", driver_major=12, total=device.free + 1
        )
        read = parse_gpu(device_spec(named), position + 5)
        assert replace(read, name="") == replace(named, name="")
        assert read.name == "A strange name\\x1b"
