"""NVML: its answers become devices; what it refuses is a note, never an error."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.hardware.detect import Findings, load_nvml, nvidia_devices, read_host
from tests.hardware.fakes import GIB, FakeGpu, FakeNvml, NVMLError, fake_psutil

HOST = read_host(fake_psutil())


def search(nvml: Any) -> Findings:
    return nvidia_devices(HOST, lambda: nvml)


def test_each_gpu_is_a_device() -> None:
    nvml = FakeNvml([FakeGpu(), FakeGpu("Tesla P40", 20 * GIB, 24 * GIB, (6, 1), "GPU-1")])
    found = search(nvml)
    first, second = found.devices
    assert (first.id, first.library, first.name) == ("GPU-0", "CUDA", "NVIDIA L4")
    assert (first.free, first.total, first.integrated) == (22 * GIB, 24 * GIB, False)
    assert (first.compute, first.driver_major) == ((8, 9), 12)
    assert (second.id, second.name, second.compute) == ("GPU-1", "Tesla P40", (6, 1))
    assert found.notes == []
    assert nvml.calls[-1] == "shutdown"


def test_the_total_is_what_cuda_reports() -> None:
    """As an H200 answered with driver 580.159.04, and torch beside it."""
    h200 = FakeGpu("NVIDIA H200", 150_109_880_320, 150_754_820_096, (9, 0), reserved=644_939_776)
    device = search(FakeNvml([h200])).devices[0]
    assert device.total == device.free == 150_109_880_320


def test_without_the_binding_there_is_a_note() -> None:
    found = search(None)
    assert found.devices == []
    assert "gguf-explorer[nvidia]" in found.notes[0]


def test_the_binding_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", refuse)
    assert load_nvml() is None


@pytest.mark.parametrize(
    "nvml",
    [
        FakeNvml(init_error="Driver Not Loaded"),
        FakeNvml(count_error="Unknown Error", shutdown_error="Uninitialized"),
    ],
)
def test_a_driver_that_fails_is_a_note(nvml: FakeNvml) -> None:
    found = search(nvml)
    assert found.devices == []
    assert len(found.notes) == 1


def test_a_gpu_that_is_lost_does_not_hide_the_others() -> None:
    found = search(FakeNvml([FakeGpu(broken=True), FakeGpu(uuid=None)]))
    assert [device.id for device in found.devices] == ["1"]
    assert "NVIDIA GPU 0 cannot be used: GPU is lost" in found.notes[0]


def test_a_computer_without_a_driver_is_told_so_in_plain_words() -> None:
    class NoDriver(FakeNvml):
        NVMLError_LibraryNotFound = type("NVMLError_LibraryNotFound", (NVMLError,), {})

        def nvmlInit(self) -> None:
            raise self.NVMLError_LibraryNotFound("NVML Shared Library Not Found")

    assert search(NoDriver()).notes == ["No NVIDIA GPU was found: there is no NVIDIA driver."]


def test_what_an_old_driver_does_not_know_is_left_out() -> None:
    found = search(FakeNvml([FakeGpu(b"Tesla M40 24GB", compute=None, uuid=None)], cuda=None))
    device = found.devices[0]
    assert (device.name, device.id) == ("Tesla M40 24GB", "0")
    assert (device.compute, device.driver_major) == (None, None)
    assert device.supports_flash_attention


def test_a_binding_without_a_function_is_an_old_one() -> None:
    class Old(FakeNvml):
        @property
        def nvmlDeviceGetMigMode(self) -> Any:  # type: ignore[override]
            raise AttributeError("nvmlDeviceGetMigMode")

    assert len(search(Old([FakeGpu()])).devices) == 1


def test_mig_devices_are_devices_of_their_own() -> None:
    parts = [
        FakeGpu("NVIDIA H100 MIG 3g.40gb", 39 * GIB, 40 * GIB, None, "MIG-a"),
        None,
        FakeGpu("", 9 * GIB, 10 * GIB, None, "MIG-b"),
    ]
    whole = FakeGpu("NVIDIA H100 80GB HBM3", 80 * GIB, 80 * GIB, (9, 0), mig=parts)
    found = search(FakeNvml([whole]))
    assert [(d.id, d.name, d.free) for d in found.devices] == [
        ("MIG-a", "NVIDIA H100 MIG 3g.40gb", 39 * GIB),
        ("MIG-b", "NVIDIA H100 80GB HBM3 MIG 1", 9 * GIB),
    ]
    assert {d.compute for d in found.devices} == {(9, 0)}
    assert "divided into 2 MIG devices" in found.notes[0]


def test_a_gpu_without_memory_of_its_own_shares_the_host_s() -> None:
    found = search(FakeNvml([FakeGpu("NVIDIA GB10", free=None)]))
    device = found.devices[0]
    assert (device.free, device.total, device.integrated) == (20 * GIB, 32 * GIB, True)
    assert "shares the main memory" in found.notes[0]


def test_absurd_answers_are_notes() -> None:
    found = search(FakeNvml([FakeGpu(free=1 << 62), FakeGpu(free=-1), FakeGpu(uuid="GPU-2")]))
    assert [device.id for device in found.devices] == ["GPU-2"]
    assert len(found.notes) == 2


def test_a_name_cannot_steer_the_terminal() -> None:
    found = search(FakeNvml([FakeGpu("\x1b[31m" + "x" * 500)]))
    assert "\x1b" not in found.devices[0].name
    assert len(found.devices[0].name) <= 100


def test_a_driver_that_counts_too_far_is_not_followed() -> None:
    found = search(FakeNvml([FakeGpu(uuid=None)] * 1000))
    assert len(found.devices) == 64
