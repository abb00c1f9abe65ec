"""Drivers that are not there: NVML, psutil, the files of amdgpu, macOS's sysctl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

GIB = 1 << 30


class NVMLError(Exception):
    """NVML's error, as the fake raises it."""


@dataclass
class FakeGpu:
    """One GPU as NVML describes it; None is a question that it refuses."""

    name: str | bytes = "NVIDIA L4"
    free: int | None = 22 * GIB
    total: int = 24 * GIB
    compute: tuple[int, int] | None = (8, 9)
    uuid: str | None = "GPU-0"
    mig: Sequence[FakeGpu | None] | None = None
    broken: bool = False
    reserved: int | None = None  # older drivers do not tell


@dataclass
class FakeNvml:
    """The part of `pynvml` that the program uses."""

    gpus: Sequence[FakeGpu] = ()
    cuda: int | None = 12040
    init_error: str | None = None
    count_error: str | None = None
    shutdown_error: str | None = None
    calls: list[str] = field(default_factory=list)

    NVML_DEVICE_MIG_ENABLE = 1
    NVMLError = NVMLError

    def _or_refuse(self, value: Any, question: str) -> Any:
        self.calls.append(question)
        if value is None:
            raise NVMLError(f"Not Supported ({question})")
        return value

    def nvmlInit(self) -> None:
        if self.init_error:
            raise NVMLError(self.init_error)

    def nvmlShutdown(self) -> None:
        self.calls.append("shutdown")
        if self.shutdown_error:
            raise NVMLError(self.shutdown_error)

    def nvmlDeviceGetCount(self) -> int:
        if self.count_error:
            raise NVMLError(self.count_error)
        return len(self.gpus)

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return int(self._or_refuse(self.cuda, "driver"))

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        if self.gpus[index].broken:
            raise NVMLError("GPU is lost")
        return self.gpus[index]

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str | bytes:
        return gpu.name

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return str(self._or_refuse(gpu.uuid, "uuid"))

    def nvmlDeviceGetCudaComputeCapability(self, gpu: FakeGpu) -> tuple[int, int]:
        pair: tuple[int, int] = self._or_refuse(gpu.compute, "compute")
        return pair

    nvmlMemory_v2 = 2

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int = 1) -> SimpleNamespace:
        free = self._or_refuse(gpu.free, "memory")
        more = {"reserved": self._or_refuse(gpu.reserved, "reserved")} if version == 2 else {}
        return SimpleNamespace(free=free, total=gpu.total, used=gpu.total - free, **more)

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:
        self._or_refuse(gpu.mig, "mig")
        return [1, 1] if gpu.mig else [0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:
        return len(gpu.mig or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, index: int) -> FakeGpu:
        assert gpu.mig is not None
        handle: FakeGpu = self._or_refuse(gpu.mig[index], "mig device")
        return handle


def fake_psutil(free: int = 20 * GIB, total: int = 32 * GIB, swap: int | None = 2 * GIB) -> Any:
    """Return a stand-in of psutil; without swap it raises, as in a container."""

    def swap_memory() -> SimpleNamespace:
        if swap is None:
            raise RuntimeError("no /proc/vmstat")
        return SimpleNamespace(free=swap)

    memory = SimpleNamespace(total=total, available=free)
    return SimpleNamespace(virtual_memory=lambda: memory, swap_memory=swap_memory)


def write_card(drm: Path, number: int, files: Mapping[str, str | bytes]) -> Path:
    """Make the folder of a graphics card."""
    folder = drm / f"card{number}" / "device"
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def radeon(total: int = 24 * GIB, used: int = GIB, **files: str | bytes) -> dict[str, str | bytes]:
    """Return the files of a Radeon RX 7900 XTX."""
    card: dict[str, str | bytes] = {
        "vendor": "0x1002\n",
        "device": "0x744c\n",
        "revision": "0xc8\n",
        "unique_id": "1a2b3c\n",
        "mem_info_vram_total": f"{total}\n",
        "mem_info_vram_used": f"{used}\n",
        "gpu_metrics": b"\x78\x00\x01\x03" + bytes(116),
    }
    return card | files
