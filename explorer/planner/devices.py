"""GPUs and memory of a plan as data, how people write them, and limits of numbers from outside.

Nothing is queried here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from explorer.errors import PlanError
from explorer.formats.tensor_filter import parse_bounds
from explorer.text import integer_text, plain_number, plain_text, shorten

# Each limit is far above what exists, and low enough that products stay finite and loops short.
# Without them a header that claims 2^63 layers would fill the memory.

MAX_BLOCKS: Final = 1024
"""Most blocks of a model, and most entries of a list with a value for each; real ones have 200."""

MAX_COUNT: Final = 1 << 40
"""Largest length, width, number of heads, tokens or sequences."""

MAX_MEMORY: Final = (1 << 63) - 1
"""Largest memory in bytes; scripts write such a number for "no limit"."""

MAX_BYTES: Final = 1 << 63
"""Sizes at and above it do not fit Ollama's integers: its sums would wrap around."""


def whole(value: object, what: str, most: int = MAX_COUNT, least: int = 0) -> int:
    """Return a value if it is an integer within its limits; else raise `PlanError`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise PlanError(f"{quoted(what)} is {_shown(value)}, where an integer belongs")
    if not least <= value <= most:
        limits = f"{integer_text(least)} to {integer_text(most)}"
        raise PlanError(f"{quoted(what)} is {_shown(value)}, outside of {limits}. It is damaged")
    return value


def whole_or_none(value: object, what: str, most: int = MAX_COUNT, least: int = 0) -> int | None:
    """Return None as it is, and everything else as `whole` does."""
    return None if value is None else whole(value, what, most, least)


def sized(nbytes: int, what: str) -> int:
    """Return a computed size if it fits 63 bits; else raise `PlanError`."""
    if nbytes >= MAX_BYTES:
        raise PlanError(
            f"{what} would take more than 2^63 bytes. A length in the header or a setting is wrong"
        )
    return nbytes


def quoted(text: str) -> str:
    """Return a name from a file as it may stand in a message."""
    return shorten(plain_text(text), 100)


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 128:
        return "an integer of more than 128 bits"  # turning a longer one into digits takes time
    if isinstance(value, str):
        return f"the text {quoted(value[:200])!r}"
    if isinstance(value, (int, float)):
        return str(value)
    return f"a {type(value).__name__}"


_LONGEST_SPLIT: Final = 4096

CPU: Final = "CPU"
"""What main memory is called where a device is named, beside ``"GPU0"`` …."""

HOST: Final = "host"
"""What it is called where a log is read, whichever buffers lie there."""

MIB: Final = 1 << 20
GIB: Final = 1 << 30

MAX_DEVICES: Final = 64
"""Most GPUs of a plan."""

_MINIMUM_BYTES: Final = 457 * MIB  # docs/planner.md, section 7; Ollama's DeviceInfo.MinimumMemory
_METAL_MINIMUM_BYTES: Final = 512 * MIB
_FLASH_ATTENTION_LIBRARIES: Final = frozenset({"Metal", "ROCm", "Vulkan", "cpu"})
_CUDA_DRIVER: Final = 7
_CUDA_WITHOUT: Final = (7, 2)  # compute capability of Xavier, the one exception
_COMPUTE: Final = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU, identified by `id` and `library`.

    Attributes:
        id: Its name within its library, such as ``"0"``.
        library: ``"CUDA"``, ``"ROCm"``, ``"Vulkan"``, ``"Metal"`` or another.
        free: Free memory in bytes.
        integrated: Whether it shares the memory of the host.
        name: What people call it.
        total: All of its memory in bytes, or None if not known.
        driver_major: Major version of its driver, or None if not known.
        compute: Compute capability (major, minor), or None; a text ``"8.6"`` becomes (8, 6).
        reserve: Bytes that it is known to need beyond what a plan counts, or None if not known.
    """

    id: str
    library: str
    free: int
    integrated: bool = False
    name: str = ""
    total: int | None = None
    driver_major: int | None = None
    compute: tuple[int, int] | None = None
    reserve: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", str(self.id))
        object.__setattr__(self, "compute", compute_capability(self.compute))
        whole(self.free, f"free memory of GPU {self.id}", MAX_MEMORY)
        whole_or_none(self.total, f"total memory of GPU {self.id}", MAX_MEMORY)
        whole_or_none(self.driver_major, f"driver version of GPU {self.id}")
        whole_or_none(self.reserve, f"reserve of GPU {self.id}", MAX_MEMORY)

    @property
    def label(self) -> str:
        """What to call it in a sentence."""
        return f"{self.name} ({self.library} {self.id})" if self.name else self.key

    @property
    def key(self) -> str:
        """Library and id: ``"CUDA 0"``."""
        return f"{self.library} {self.id}"

    @property
    def capacity_bytes(self) -> int:
        """All of its memory, or what is free of it where the whole is not known."""
        return self.free if self.total is None else self.total

    @property
    def minimum_bytes(self) -> int:
        """What Ollama always leaves free on it."""
        return _METAL_MINIMUM_BYTES if self.library == "Metal" else _MINIMUM_BYTES

    @property
    def supports_flash_attention(self) -> bool:
        """Whether Ollama uses flash attention on it (docs/planner.md, section 3, step 6).

        Of a CUDA device whose driver or compute capability is not known, a usual one is assumed.
        """
        if self.library in _FLASH_ATTENTION_LIBRARIES:
            return True
        if self.library != "CUDA":
            return False
        modern = self.driver_major is None or self.driver_major >= _CUDA_DRIVER
        return modern and self.compute != _CUDA_WITHOUT


@dataclass(frozen=True, slots=True)
class Host:
    """The memory of the machine itself.

    Attributes:
        free: Free memory in bytes.
        swap: Free swap space in bytes.
        total: All memory in bytes, or None if not known; only macOS's rule reads it.
        macos: Whether macOS's rules hold: no check of the memory left, but of the whole.
    """

    free: int
    swap: int = 0
    total: int | None = None
    macos: bool = False

    def __post_init__(self) -> None:
        whole(self.free, "free system memory", MAX_MEMORY)
        whole(self.swap, "free swap space", MAX_MEMORY)
        whole_or_none(self.total, "total system memory", MAX_MEMORY)


def check_devices(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices; raise `PlanError` if they are too many, or two are the same one."""
    if len(devices) > MAX_DEVICES:
        raise PlanError(f"{len(devices)} GPUs are more than {MAX_DEVICES}")
    seen: set[str] = set()
    for device in devices:
        if device.key in seen:
            raise PlanError(f"two GPUs are both {quoted(device.key)}. Give each its own id")
        seen.add(device.key)
    return tuple(devices)


def flash_attention_obstacle(devices: Sequence[Device]) -> str:
    """Return which GPU rules flash attention out for the whole machine; empty if none does."""
    for device in devices:
        if not device.supports_flash_attention:
            return f"{device.label} does not support flash attention, which turns it off for all"
    return ""


def parse_shares(text: str) -> tuple[float, ...] | None:
    """Return the shares of GPUs that a text means, such as "3,1"; None for an empty one.

    Raises:
        PlanError: It means none.
    """
    if not text.strip():
        return None
    try:
        return tuple(map(float, text[:_LONGEST_SPLIT].split(",")))
    except ValueError as error:
        raise PlanError(
            f"{quoted(text)!r} is not a list of shares. Write numbers, such as 3,1"
        ) from error


def compute_capability(value: object) -> tuple[int, int] | None:
    """Return a compute capability, given as (8, 6), ``"8.6"`` or None; else raise `PlanError`."""
    if value is None:
        return None
    if isinstance(value, (str, float)):
        match = _COMPUTE.fullmatch(str(value).strip())
        if match is None:
            raise PlanError(f"compute capability {quoted(str(value))!r} is not of the form 8.6")
        return int(match[1]), int(match[2])
    if isinstance(value, (tuple, list)) and len(value) == 2:
        major, minor = (whole(part, "compute capability") for part in value)
        return major, minor
    raise PlanError("a compute capability is a text such as 8.6, or a pair of integers")


# Sizes, contexts and GPUs as people type them (docs/interface.md, `plan`)

LookUp: TypeAlias = Callable[[str], Device | None]
"""Finds a GPU by its name, such as the catalogue's; None if it has none of that name."""

_CONTEXT: Final = re.compile(r"(\d{1,9})(?:([.]\d{1,6})?([km])i?)?", re.IGNORECASE)
_CONTEXT_UNITS: Final = {"k": 1 << 10, "m": 1 << 20}
_YES_NO: Final[Mapping[str, bool]] = MappingProxyType(
    {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
)
# Spellings of the libraries; others are taken as they are.
_LIBRARIES: Final = {name.lower(): name for name in ("CUDA", "ROCm", "Vulkan", "Metal", "cpu")}
_MAX_TEXT: Final = 1000


def parse_size(text: str) -> int:
    """Return the bytes of ``24GiB``, ``22.5 GiB``, ``512MB`` or plain ``1048576``.

    GiB and G are powers of 1024, GB is one of 1000. Fractions of a byte are cut off.

    Raises:
        PlanError: The text is not a size, or the size is absurd.
    """
    bounds = None
    if len(text) <= _MAX_TEXT:
        bounds = parse_bounds(">=", "".join(text.split()).lower(), "bytes")
    if bounds is None or bounds.low is None:
        raise PlanError(f"{quoted(text[:_MAX_TEXT])!r} is not a size. Write 24GiB, 512MB or bytes")
    if bounds.low > MAX_MEMORY:
        raise PlanError(f"{quoted(text)!r} is more than 8 EiB")
    return int(bounds.low)


MOST_GIGABYTES: Final = 1 << 16
"""The largest bare number that means gigabytes; nothing has 64 TiB, and scripts write bytes."""

_SOLD: Final = re.compile(r"([kmgt])b$", re.IGNORECASE)


def parse_memory(text: str) -> int:
    """Return the bytes of an amount of memory as people say it: ``32``, ``32 GB``, ``22.5GiB``.

    Memory is sold in powers of 1024: GB means GiB. A number alone means GB, above 65,536 bytes.

    Raises:
        PlanError: The text is not a size, or the size is absurd.
    """
    typed = text.strip()
    try:
        nbytes = parse_size(_SOLD.sub(r"\1ib", typed))
    except PlanError as error:
        shown = quoted(text[:_MAX_TEXT])
        raise PlanError(f"{shown!r} is not a size of memory: write 32 GB or 512 MiB") from error
    if typed[-1:].isalpha() or nbytes > MOST_GIGABYTES or typed[:2].lower() == "0x":
        return nbytes
    return parse_size(f"{typed}GiB")  # again: 1.5 alone is no number of bytes


def parse_context(text: str) -> int:
    """Return the tokens of ``32k`` (32,768), ``1m`` (1,048,576) or plain ``32000``.

    Raises:
        PlanError: The text is not a number of tokens.
    """
    typed = text.strip()[:_MAX_TEXT]
    match = _CONTEXT.fullmatch(plain_number(typed, whole=not typed[-1:].isalpha()))
    if match is None:
        shown = quoted(text[:_MAX_TEXT])
        raise PlanError(f"{shown!r} is not a number of tokens. Write 32768 or 32k")
    unit = _CONTEXT_UNITS.get((match[3] or "").lower(), 1)
    whole, part = match[1], (match[2] or ".")[1:]
    scale: int = 10 ** len(part)
    return int(whole + part) * unit // scale


def parse_gpu(text: str, position: int = 0, look_up: LookUp | None = None) -> Device:
    """Return the GPU that a SPEC describes.

    ``24GiB`` is a CUDA GPU with so much free memory; ``name=NVIDIA L4,free=22.5GiB,total=24GiB,
    library=CUDA,integrated=no`` says more; a name alone is looked up. Fields of the SPEC override
    what is found under its name.

    Args:
        text: The SPEC.
        position: The id of the GPU, where the SPEC has none.
        look_up: Finds GPUs by name; None finds none.

    Raises:
        PlanError: The text is not a SPEC, or says too little.
    """
    if len(text) > _MAX_TEXT or not text.strip():
        raise PlanError("a GPU is described in one line, such as 24GiB or name=NVIDIA L4")
    if "=" not in text:
        return _from_word(text.strip(), position, look_up)
    fields = _fields(text)
    device = _base(fields, position, look_up)
    known = [(*_FIELDS[key], value) for key, value in fields.items() if key not in _NAMES]
    changes = {name: read(value) for name, read, value in known}
    if "total" in changes:
        changes.setdefault("free", changes["total"])
    return replace(device, id=fields.get("id", str(position)), **changes)


def _from_word(text: str, position: int, look_up: LookUp | None) -> Device:
    """Return the GPU of that name, or with so much free memory; 4090 is a name, not a size."""
    found = look_up(text) if look_up is not None else None
    if found is None and text[0].isdigit():
        free = parse_size(text) if text.isdigit() else parse_memory(text)
        if free >= MIB:
            return Device(str(position), "CUDA", free)
    return _base({"name": text}, position, look_up)


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if key not in (*_NAMES, *_FIELDS) or not sign or not value:
            names = ", ".join((*_NAMES, *_FIELDS))
            raise PlanError(f"{quoted(part)!r} does not describe a GPU. Use KEY=VALUE with {names}")
        if key in fields:
            raise PlanError(f"{key} occurs twice in {quoted(text)!r}")
        fields[key] = value
    return fields


def _base(fields: Mapping[str, str], position: int, look_up: LookUp | None) -> Device:
    """Return the GPU of that name, or one without a name that other fields must describe."""
    name = fields.get("name", "")
    found = look_up(name) if look_up is not None and name else None
    if found is not None:
        return replace(found, id=str(position))
    if "free" not in fields and "total" not in fields:
        known = f"{quoted(name)!r} is in no list of GPUs" if name else "its memory is not stated"
        raise PlanError(f"{known}. Say free=24GiB, or write the size alone")
    return Device(str(position), "CUDA", 0, name=name)


def _yes_no(text: str) -> bool:
    if text.lower() not in _YES_NO:
        raise PlanError(f"{quoted(text)!r} is neither yes nor no")
    return _YES_NO[text.lower()]


def _driver(text: str) -> int:
    major = text.partition(".")[0]
    if not (major.isascii() and major.isdigit() and len(major) < 6):
        raise PlanError(f"{quoted(text)!r} is not a version of a driver. Write 12 or 12.4")
    return int(major)


_NAMES: Final = ("name", "id")
_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = MappingProxyType(
    {
        "free": ("free", parse_memory),
        "total": ("total", parse_memory),
        "library": ("library", lambda name: _LIBRARIES.get(name.lower(), name)),
        "integrated": ("integrated", _yes_no),
        "driver": ("driver_major", _driver),
        "compute": ("compute", compute_capability),
        "reserve": ("reserve", parse_memory),
    }
)
"""What else a SPEC says of a GPU: the field of `Device`, and what reads it."""
