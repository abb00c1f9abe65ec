"""The whole machine: probes put together, hidden GPUs, a Mac, memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from explorer.hardware.detect import Machine, Places, Probes, detect, working_set_bytes
from tests.hardware.fakes import GIB, FakeGpu, FakeNvml, fake_psutil, radeon, write_card

MIB = 1 << 20


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "kfd").touch()
    return Places(tmp_path / "drm", tmp_path / "kfd", tmp_path / "names")


def linux(places: Places, nvml: Any, environment: Mapping[str, str] | None = None) -> Machine:
    return detect(
        Probes(
            "Linux", "x86_64", fake_psutil(), lambda: nvml, places, environment=environment or {}
        )
    )


def mac(values: Mapping[str, str], total: int = 64 * GIB, processor: str = "arm64") -> Machine:
    memory = fake_psutil(40 * GIB, total)
    return detect(Probes("Darwin", processor, memory, lambda: None, sysctl=values.get))


def test_gpus_of_two_vendors(places: Places) -> None:
    write_card(places.drm, 0, radeon())
    machine = linux(places, FakeNvml([FakeGpu()]))
    assert [device.library for device in machine.devices] == ["CUDA", "ROCm"]
    assert (machine.host.free, machine.host.swap) == (20 * GIB, 2 * GIB)
    assert (machine.host.total, machine.host.macos) == (32 * GIB, False)


def test_a_machine_without_anything(places: Places) -> None:
    machine = linux(places, FakeNvml(init_error="Driver Not Loaded"))
    assert machine.devices == ()
    assert len(machine.notes) == 1


def test_this_machine_is_looked_at_without_an_error() -> None:
    machine = detect()
    assert machine.host.free > 0
    assert all(device.free >= 0 for device in machine.devices)


def test_a_container_without_swap(places: Places) -> None:
    probes = Probes("Linux", "x86_64", fake_psutil(swap=None), lambda: None, places)
    assert detect(probes).host.swap == 0


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("1", ["GPU-bb"]),
        ("1,0", ["GPU-bb", "GPU-aa"]),
        ("GPU-b", ["GPU-bb"]),
        ("GPU-", []),
        ("0,-1,1", ["GPU-aa"]),
        ("0,0", ["GPU-aa"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("7", []),
        ("²", []),
    ],
)
def test_hidden_gpus_are_not_listed(places: Places, value: str, left: list[str]) -> None:
    write_card(places.drm, 0, radeon())
    nvml = FakeNvml([FakeGpu(uuid="GPU-aa"), FakeGpu(uuid="GPU-bb")])
    machine = linux(places, nvml, {"CUDA_VISIBLE_DEVICES": value})
    assert [device.id for device in machine.devices] == [*left, "1a2b3c"]
    assert f"leaves {len(left)} of 2 CUDA GPUs" in machine.notes[-1]


def test_rocm_s_variables_apply_one_after_the_other(places: Places) -> None:
    for number in range(3):
        write_card(places.drm, number, radeon(unique_id=""))
    environment = {"HIP_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "1,2"}
    assert [d.id for d in linux(places, None, environment).devices] == ["1"]


def test_a_mac() -> None:
    machine = mac({"machdep.cpu.brand_string": "Apple M3 Max", "iogpu.wired_limit_mb": "0"})
    (device,) = machine.devices
    assert (device.library, device.name, device.integrated) == ("Metal", "Apple M3 Max", True)
    assert (device.free, device.total) == (48 * GIB, 64 * GIB)
    assert machine.host.macos


@pytest.mark.parametrize(
    ("limit", "free"),
    [
        ("57344", 57344 * MIB),
        ("999999", 64 * GIB),
        ("9" * 400, 48 * GIB),
        ("-5", 48 * GIB),
        ("x", 48 * GIB),
    ],
)
def test_a_limit_that_a_person_set(limit: str, free: int) -> None:
    (device,) = mac({"iogpu.wired_limit_mb": limit}).devices
    assert (device.free, device.name) == (free, "Apple silicon")


def test_a_mac_with_an_intel_processor_has_no_gpu_for_ollama() -> None:
    machine = mac({}, processor="x86_64")
    assert machine.devices == ()
    assert "Intel" in machine.notes[0]


def test_windows_says_what_is_not_looked_for() -> None:
    probes = Probes(
        "Windows", "AMD64", fake_psutil(), lambda: FakeNvml([FakeGpu()]), environment={}
    )
    machine = detect(probes)
    assert len(machine.devices) == 1
    assert "AMD and Intel GPUs are not looked for on Windows" in machine.notes[0]


@pytest.mark.parametrize(
    ("gib", "mib"),
    [(8, 5461.33), (16, 10922.67), (32, 21845.33), (36, 27648), (64, 49152), (96, 73728)],
)
def test_the_share_of_a_mac_s_gpu(gib: int, mib: float) -> None:
    """What llama.cpp printed as recommendedMaxWorkingSetSize; 8 and 36 by the rule alone."""
    assert abs(working_set_bytes(gib * GIB) / MIB - mib) < 0.01
