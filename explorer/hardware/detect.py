"""What this machine has: its GPUs and its memory, as a plan takes them.

Looking never fails. A driver that is missing, refuses or lies leaves a note in place of a device.
Nothing is set or changed on a GPU.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from explorer.errors import PlanError
from explorer.planner import Device, Host
from explorer.text import plain_text, shorten

MOST_DEVICES: Final = 64
"""GPUs of one kind that a probe looks at; a machine with more is a mistake of a driver."""

_LONGEST_NAME: Final = 100


class Findings:
    """The GPUs that one probe found, and sentences on what was not found or looked for, and why."""

    def __init__(self, *notes: str) -> None:
        self.devices: list[Device] = []
        self.notes = list(notes)


def device_name(text: str | bytes, otherwise: str) -> str:
    """Return a name that a driver gave as plain text on one line, or another where it is empty."""
    if isinstance(text, bytes):  # pynvml before version 12
        text = text.decode("utf-8", "replace")
    return shorten(plain_text(text.strip()), _LONGEST_NAME) or otherwise


def read_host(source: Any = psutil, system: str | None = None) -> Host:
    """Return the memory of this machine; free is what a program can have without swapping."""
    main = source.virtual_memory()
    try:
        swap = int(source.swap_memory().free)
    except (OSError, RuntimeError):  # a container without /proc/vmstat; Windows without counters
        swap = 0
    macos = (system or platform.system()) == "Darwin"
    return Host(int(main.available), swap, int(main.total), macos)


# NVIDIA's GPUs, by NVML through NVIDIA's binding `nvidia-ml-py`. Both are optional.

Nvml = Any
"""The module `pynvml`, which has no type information."""

_NO_DRIVER: Final = "No NVIDIA GPU was found: there is no NVIDIA driver."
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


def nvidia_devices(host: Host, load: Callable[[], Nvml | None] = load_nvml) -> Findings:
    """Return one device for each GPU, or for each MIG device of a GPU that is divided.

    Args:
        host: The main memory, for a GPU that has none of its own.
        load: Returns the binding.
    """
    nvml = load()
    if nvml is None:
        return Findings(_NO_BINDING)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if isinstance(error, getattr(nvml, "NVMLError_LibraryNotFound", ())):
            return Findings(_NO_DRIVER)
        return Findings(f"No NVIDIA GPU was found: {_reason(error)}.")
    try:
        return _NvmlSearch(nvml, host).run()
    except nvml.NVMLError as error:
        return Findings(f"The NVIDIA GPUs could not be listed: {_reason(error)}.")
    finally:
        with suppress(nvml.NVMLError):  # what was read stands; the program's end is the session's
            nvml.nvmlShutdown()


def _reason(error: Exception) -> str:
    return device_name(str(error), type(error).__name__)


class _NvmlSearch:
    """One walk over the GPUs; a question that the driver refuses leaves its answer out."""

    def __init__(self, nvml: Nvml, host: Host) -> None:
        self._nvml = nvml
        self._host = host
        self._found = Findings()

    def run(self) -> Findings:
        count = min(int(self._nvml.nvmlDeviceGetCount()), MOST_DEVICES)
        # CUDA's version, as Ollama has it: 12 of 12.4, not 550 of the driver's 550.54
        version = self._ask("nvmlSystemGetCudaDriverVersion_v2")
        driver_major = None if version is None else int(version) // 1000
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                self._found.devices += list(self._devices(index, handle, driver_major))
            except (self._nvml.NVMLError, PlanError) as error:
                self._found.notes.append(f"NVIDIA GPU {index} cannot be used: {_reason(error)}.")
        return self._found

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
            self._found.notes.append(
                f"{name} is divided into {len(parts)} MIG devices. A program can use one of them."
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
            # CUDA reports all but what the driver keeps: so it was, to the byte, on an H200
            version = getattr(self._nvml, "nvmlMemory_v2", None)
            newer = self._ask("nvmlDeviceGetMemoryInfo", handle, version) if version else None
            total -= 0 if newer is None else int(newer.reserved)
            if not 0 <= free <= total:
                raise PlanError(f"the driver reports {free} free bytes of {total}")
            return free, total, False
        # Jetson and DGX Spark have no memory of their own
        self._found.notes.append(f"{name} shares the main memory: what is free there is taken.")
        return self._host.free, self._host.total or 0, True

    def _identity(self, handle: Any, otherwise: str) -> str:
        return device_name(self._ask("nvmlDeviceGetUUID", handle) or "", otherwise)


# AMD's GPUs, from the files that the Linux driver amdgpu shows: kernel.org, "GPU driver
# developer's guide", amdgpu, "Misc AMDGPU driver information". ROCm's own library says more, but
# most machines lack it.

_CARD: Final = re.compile(r"card(\d{1,4})")
_AMD: Final = 0x1002
_INTEL: Final = 0x8086
_READ_LIMIT: Final = 4096
_NAMES_LIMIT: Final = 1 << 20
_SMALLEST_DISCRETE: Final = 1 << 30
_LARGEST_MEMORY: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class Places:
    """Where the files are: cards, the driver's part that ROCm needs, libdrm's product names."""

    drm: Path = Path("/sys/class/drm")
    kfd: Path = Path("/dev/kfd")
    names: Path = Path("/usr/share/libdrm/amdgpu.ids")


def amd_devices(places: Places | None = None) -> Findings:
    """Return one device for each AMD GPU with its driver loaded."""
    places = places or Places()
    library = "ROCm" if places.kfd.exists() else "Vulkan"
    found = Findings()
    names: dict[tuple[int, int], str] | None = None
    for number, folder in _cards(places.drm):
        vendor = _number(folder / "vendor")
        if vendor == _INTEL and _number(folder / "tile0" / "physical_vram_size_bytes"):
            found.notes.append(
                f"The Intel GPU of card {number} does not report its free memory: add it yourself."
            )
        if vendor != _AMD:
            continue
        total = _number(folder / "mem_info_vram_total")
        used = _number(folder / "mem_info_vram_used")
        if total is None or used is None or not used <= total <= _LARGEST_MEMORY:
            found.notes.append(f"The AMD GPU of card {number} does not report its memory.")
            continue
        names = _product_names(places.names) if names is None else names
        device = Device(
            id=_text(folder / "unique_id") or str(number),
            library=library,
            free=total - used,
            integrated=_integrated(folder, total),
            name=_name(folder, names),
            total=total,
        )
        if device.integrated:
            found.notes.append(
                f"{device.name} shares the main memory: only the part that is set aside for it "
                "is counted."
            )
        found.devices.append(device)
    return found


def _cards(drm: Path) -> Iterator[tuple[int, Path]]:
    try:
        matches = [match for entry in drm.iterdir() if (match := _CARD.fullmatch(entry.name))]
    except OSError:  # no graphics at all, or not Linux
        return
    for number, name in sorted((int(match[1]), match[0]) for match in matches)[:MOST_DEVICES]:
        yield number, drm / name / "device"


def _bytes(path: Path, limit: int = _READ_LIMIT) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:  # the file belongs to another card or driver
        return b""


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", "replace").strip()


def _number(path: Path) -> int | None:
    """Return a number of 64 bits, decimal or ``0x…``, or None where there is none."""
    text = _text(path)
    try:
        value = int(text, 0) if len(text) <= 20 else -1
    except ValueError:
        return None
    return value if value >= 0 else None


def _integrated(folder: Path, total: int) -> bool:
    """Return whether the GPU is part of a processor.

    The driver has no file for that, but the third byte of its table of measurements is a revision:
    1 for cards, 2 or 3 for processors (kgd_pp_interface.h).
    """
    header = _bytes(folder / "gpu_metrics", 4)
    return header[2] in (2, 3) if len(header) == 4 else total < _SMALLEST_DISCRETE


def _name(folder: Path, names: dict[tuple[int, int], str]) -> str:
    device, revision = _number(folder / "device"), _number(folder / "revision")
    known = ""
    if device is not None and revision is not None:
        known = names.get((device, revision), "")
    otherwise = "AMD GPU" if device is None else f"AMD GPU {device:#06x}"
    return device_name(_text(folder / "product_name") or known, otherwise)


def _product_names(path: Path) -> dict[tuple[int, int], str]:
    """Return libdrm's table: lines of ``device id, revision, name``, both in hexadecimal."""
    names: dict[tuple[int, int], str] = {}
    for line in _bytes(path, _NAMES_LIMIT).decode("utf-8", "replace").splitlines():
        fields = [field.strip() for field in line.split(",", 2)]
        if len(fields) != 3:
            continue
        try:
            names[int(fields[0][:8], 16), int(fields[1][:8], 16)] = fields[2]
        except ValueError:  # the table's version, a comment
            continue
    return names


# The GPU of a Mac with Apple silicon, which shares the main memory.
#
# Metal advises how much memory its GPU should hold (`recommendedMaxWorkingSetSize`), which Ollama
# takes as the GPU's memory. Asking Metal needs Objective-C, but the sizes follow a rule: the value
# of ``iogpu.wired_limit_mb`` if it is set (llmfit pull request 754); else two thirds of up to
# 32 GiB, three quarters of more (llama.cpp discussion 2182, issues 1870 and 3213; ollama issue
# 434). Newer versions of macOS give the GPU more, so the rule is careful.

SysctlReader = Callable[[str], str | None]

_TWO_THIRDS_UP_TO: Final = 32 << 30
_SYSCTL: Final = "/usr/sbin/sysctl"
_PATIENCE_S: Final = 5.0


def working_set_bytes(memory_bytes: int) -> int:
    """Return how much of a Mac's memory its GPU can hold, by the rule above."""
    return memory_bytes * 2 // 3 if memory_bytes <= _TWO_THIRDS_UP_TO else memory_bytes * 3 // 4


def read_sysctl(name: str) -> str | None:
    """Return a value of the kernel as text, or None where there is no such value."""
    try:
        answer = subprocess.run(
            [_SYSCTL, "-n", name], capture_output=True, check=False, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = answer.stdout.decode("utf-8", "replace").strip()
    return text if answer.returncode == 0 and text else None


def apple_devices(host: Host, sysctl: SysctlReader = read_sysctl) -> Findings:
    """Return the GPU of this Mac; `sysctl` reads a value of the kernel by its name."""
    total = host.total or 0
    limit = sysctl("iogpu.wired_limit_mb") or ""
    if limit.isdecimal() and len(limit) < 12 and int(limit) > 0:
        free = min(int(limit) << 20, total)
        how = "the limit that is set in iogpu.wired_limit_mb"
    else:
        free = working_set_bytes(total)
        how = "macOS's usual share of the memory. Yours may give the GPU more"
    name = device_name(sysctl("machdep.cpu.brand_string") or "", "Apple silicon")
    found = Findings(f"{name}: the GPU's memory is {how}.")
    found.devices.append(Device("0", "Metal", free, integrated=True, name=name, total=total))
    return found


# Which GPUs the variables of CUDA, HIP and ROCm leave visible. CUDA C++ Programming Guide, "CUDA
# Environment Variables": the list is of numbers or of the beginnings of UUIDs, in the order to use,
# and it ends at the first entry that is neither.

_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "CUDA": ("CUDA_VISIBLE_DEVICES",),
    "ROCm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),  # HIP counts what ROCR leaves
    "Vulkan": ("GGML_VK_VISIBLE_DEVICES",),
}
_MOST_ENTRIES: Final = 256


def visible_devices(
    devices: Sequence[Device], environment: Mapping[str, str]
) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return the devices that the environment leaves visible, and a note for each variable.

    A number counts the devices of one library in the order in which they were found.
    """
    left: list[Device] = []
    notes: list[str] = []
    for library in dict.fromkeys(device.library for device in devices):
        chosen = [device for device in devices if device.library == library]
        for name in _VARIABLES.get(library, ()):
            if name in environment:
                before = len(chosen)
                chosen = _chosen(chosen, environment[name])
                notes.append(f"{name} leaves {len(chosen)} of {before} {library} GPUs visible.")
        left += chosen
    return tuple(left), tuple(notes)


def _chosen(devices: Sequence[Device], value: str) -> list[Device]:
    chosen: list[Device] = []
    for entry in value.split(",", _MOST_ENTRIES)[:_MOST_ENTRIES]:
        device = _device(devices, entry.strip())
        if device is None:
            break
        if device not in chosen:
            chosen.append(device)
    return chosen


def _device(devices: Sequence[Device], entry: str) -> Device | None:
    if entry.isdecimal() and entry.isascii() and len(entry) < 6:
        return devices[int(entry)] if int(entry) < len(devices) else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    matching = [device for device in devices if device.id.startswith(entry)]
    return matching[0] if len(matching) == 1 else None


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs and memory of a machine, and sentences about the search."""

    devices: tuple[Device, ...]
    host: Host
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Probes:
    """What `detect` asks; a test replaces it."""

    system: str = field(default_factory=platform.system)
    processor: str = field(default_factory=platform.machine)
    memory: Any = psutil
    nvml: Callable[[], Any] = load_nvml
    amd: Places = field(default_factory=Places)
    sysctl: SysctlReader = read_sysctl
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def detect(probes: Probes | None = None) -> Machine:
    """Look for the GPUs and the memory of this machine. Takes some milliseconds, with NVML 100."""
    probes = probes or Probes()
    host = read_host(probes.memory, probes.system)
    if probes.system == "Darwin":
        if probes.processor == "arm64":
            found = [apple_devices(host, probes.sysctl)]
        else:
            found = [Findings("Ollama uses no GPU of a Mac with an Intel processor.")]
    else:
        found = [nvidia_devices(host, probes.nvml)]
        if probes.system == "Linux":
            found.append(amd_devices(probes.amd))
        else:
            note = f"AMD and Intel GPUs are not looked for on {probes.system}: add them yourself."
            found.append(Findings(note))
    devices = [device for findings in found for device in findings.devices]
    notes = tuple(note for findings in found for note in findings.notes)
    shown, hidden = visible_devices(devices, probes.environment)
    return Machine(shown, host, notes + hidden)
