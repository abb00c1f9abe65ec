"""This machine's NVIDIA GPUs, by NVML through NVIDIA's own binding.

The binding (`nvidia-ml-py`, module `pynvml`) is optional, and so is the driver: without them there
are notes and no devices. Nothing is set or changed on a GPU.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from explorer.errors import PlanError
from explorer.hardware.findings import MOST_DEVICES, Findings, device_name
from explorer.hardware.memory import Memory
from explorer.planner import Device

Nvml = Any
"""The module `pynvml`, which has no type information."""

_NO_BINDING: Final = (
    "NVIDIA GPUs were not looked for: the package nvidia-ml-py is not installed "
    "(pip install gguf-explorer[nvidia])."
)


def load_nvml() -> Nvml | None:
    """Return NVIDIA's binding, or None where it is not installed."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def nvidia_devices(memory: Memory, load: Callable[[], Nvml | None] = load_nvml) -> Findings:
    """Return one device for each GPU, or for each MIG device of a GPU that is divided.

    Args:
        memory: The main memory, for a GPU that has none of its own.
        load: Returns the binding.
    """
    nvml = load()
    if nvml is None:
        return Findings(notes=(_NO_BINDING,))
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Findings(notes=(f"No NVIDIA GPU was found: {_reason(error)}.",))
    try:
        return _Search(nvml, memory).run()
    except nvml.NVMLError as error:
        return Findings(notes=(f"The NVIDIA GPUs could not be listed: {_reason(error)}.",))
    finally:
        _shut_down(nvml)


def _shut_down(nvml: Nvml) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError:
        return  # what was read stands; the driver forgets us when the program ends


def _reason(error: Exception) -> str:
    return device_name(str(error), type(error).__name__)


class _Search:
    """One walk over the GPUs; a question that the driver refuses leaves its answer out."""

    def __init__(self, nvml: Nvml, memory: Memory) -> None:
        self._nvml = nvml
        self._memory = memory
        self._notes: list[str] = []

    def run(self) -> Findings:
        count = min(int(self._nvml.nvmlDeviceGetCount()), MOST_DEVICES)
        # CUDA's version, as Ollama has it: 12 of 12.4, not 550 of the driver's 550.54
        version = self._ask("nvmlSystemGetCudaDriverVersion_v2")
        driver_major = None if version is None else int(version) // 1000
        devices: list[Device] = []
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                devices += self._devices(index, handle, driver_major)
            except (self._nvml.NVMLError, PlanError) as error:
                self._notes.append(f"NVIDIA GPU {index} cannot be used: {_reason(error)}.")
        return Findings(tuple(devices), tuple(self._notes))

    def _ask(self, question: str, *arguments: Any) -> Any:
        """Return the driver's answer, or None where it has none: each generation lacks some."""
        try:
            return getattr(self._nvml, question)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def _devices(self, index: int, handle: Any, driver_major: int | None) -> Iterator[Device]:
        name = device_name(self._ask("nvmlDeviceGetName", handle) or "", f"NVIDIA GPU {index}")
        compute = self._ask("nvmlDeviceGetCudaComputeCapability", handle)
        capability = None if compute is None else (int(compute[0]), int(compute[1]))
        parts = list(self._mig_parts(handle))
        if parts:
            self._notes.append(
                f"{name} is divided into {len(parts)} MIG devices; a program can use one of them."
            )
        for number, part in enumerate(parts or [handle]):
            free, total, integrated = self._sizes(part, name)
            label = self._ask("nvmlDeviceGetName", part) if parts else None
            yield Device(
                id=self._identity(part, f"{index}:{number}" if parts else str(index)),
                library="CUDA",
                free=free,
                integrated=integrated,
                name=device_name(label or "", f"{name} MIG {number}") if parts else name,
                total=total,
                driver_major=driver_major,
                compute=capability,
            )

    def _mig_parts(self, handle: Any) -> Iterator[Any]:
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        if mode is None or int(mode[0]) != int(self._nvml.NVML_DEVICE_MIG_ENABLE):
            return
        for number in range(int(self._ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)):
            part = self._ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            if part is not None:  # numbers without a device are gaps
                yield part

    def _sizes(self, handle: Any, name: str) -> tuple[int, int, bool]:
        """Return free and total bytes, and whether they are the main memory's."""
        sizes = self._ask("nvmlDeviceGetMemoryInfo", handle)
        if sizes is not None:
            free, total = int(sizes.free), int(sizes.total)
            if not 0 <= free <= total:
                raise PlanError(f"the driver tells of {free} free bytes of {total}")
            return free, total, False
        # Jetson and DGX Spark: the driver has no memory of its own to tell of
        self._notes.append(f"{name} shares the main memory: what is free there is taken.")
        return self._memory.free_bytes, self._memory.total_bytes, True

    def _identity(self, handle: Any, otherwise: str) -> str:
        return device_name(self._ask("nvmlDeviceGetUUID", handle) or "", otherwise)
