"""Sizes, contexts and GPUs as people type them (interface.md, `plan`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from explorer.errors import PlanError
from explorer.formats.numbers import parse_bounds
from explorer.notation import plain_number
from explorer.planner.checks import MAX_MEMORY, quoted
from explorer.planner.devices import MIB, Device, compute_capability

LookUp: TypeAlias = Callable[[str], Device | None]
"""Finds a GPU by its name, such as the catalogue's; None if it has none of that name."""

_CONTEXT: Final = re.compile(r"(\d{1,9})(?:([.]\d{1,6})?([km])i?)?", re.IGNORECASE)
_CONTEXT_UNITS: Final = {"k": 1 << 10, "m": 1 << 20}
_KEYS: Final = ("name", "free", "total", "library", "integrated", "id", "driver", "compute")
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
        PlanError: The text is no size, or the size is absurd.
    """
    bounds = None
    if len(text) <= _MAX_TEXT:
        bounds = parse_bounds(">=", "".join(text.split()).lower(), "bytes")
    if bounds is None or bounds.low is None:
        raise PlanError(f"{quoted(text[:_MAX_TEXT])!r} is no size; write 24GiB, 512MB or bytes")
    if bounds.low > MAX_MEMORY:
        raise PlanError(f"{quoted(text)!r} is more than 8 EiB")
    return int(bounds.low)


def parse_context(text: str) -> int:
    """Return the tokens of ``32k`` (32,768), ``1m`` (1,048,576) or plain ``32000``.

    Raises:
        PlanError: The text is no number of tokens.
    """
    typed = text.strip()[:_MAX_TEXT]
    match = _CONTEXT.fullmatch(plain_number(typed, whole=not typed[-1:].isalpha()))
    if match is None:
        shown = quoted(text[:_MAX_TEXT])
        raise PlanError(f"{shown!r} is no number of tokens; write 32768 or 32k")
    unit = _CONTEXT_UNITS.get((match[3] or "").lower(), 1)
    whole, part = match[1], (match[2] or ".")[1:]
    scale: int = 10 ** len(part)
    return int(whole + part) * unit // scale


def parse_gpu(text: str, position: int = 0, look_up: LookUp | None = None) -> Device:
    """Return the GPU that a SPEC describes.

    ``24GiB`` is a CUDA GPU with so much free memory; ``name=NVIDIA L4,free=22.5GiB,total=24GiB,
    library=CUDA,integrated=no`` says more; a name alone is looked up. What the SPEC says goes over
    what is found under its name.

    Args:
        text: The SPEC.
        position: Number of the GPU, which becomes its id.
        look_up: Finds GPUs by name; None finds none.

    Raises:
        PlanError: The text is no SPEC, or says too little.
    """
    if len(text) > _MAX_TEXT or not text.strip():
        raise PlanError("a GPU is described in one line, such as 24GiB or name=NVIDIA L4")
    if "=" not in text:
        return _from_word(text.strip(), position, look_up)
    fields = _fields(text)
    device = _base(fields, position, look_up)
    if "free" in fields:
        device = replace(device, free=parse_size(fields["free"]))
    if "total" in fields:
        total = parse_size(fields["total"])
        device = replace(device, total=total)
        if "free" not in fields:
            device = replace(device, free=total)
    if "library" in fields:
        library = fields["library"]
        device = replace(device, library=_LIBRARIES.get(library.lower(), library))
    if "integrated" in fields:
        device = replace(device, integrated=_yes_no(fields["integrated"]))
    if "driver" in fields:
        device = replace(device, driver_major=_driver(fields["driver"]))
    if "compute" in fields:
        device = replace(device, compute=compute_capability(fields["compute"]))
    return replace(device, id=fields.get("id", str(position)))


def _from_word(text: str, position: int, look_up: LookUp | None) -> Device:
    """Return the GPU of that name, or with so much free memory; 4090 is a name, not a size."""
    found = look_up(text) if look_up is not None else None
    if found is None and text[0].isdigit():
        free = parse_size(text)
        if free >= MIB:
            return Device(str(position), "CUDA", free)
    return _base({"name": text}, position, look_up)


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if key not in _KEYS or not sign or not value:
            names = ", ".join(_KEYS)
            raise PlanError(f"{quoted(part)!r} does not describe a GPU; use KEY=VALUE with {names}")
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
        raise PlanError(f"{known}; say free=24GiB, or write the size alone")
    return Device(str(position), "CUDA", 0, name=name)


def _yes_no(text: str) -> bool:
    if text.lower() not in _YES_NO:
        raise PlanError(f"{quoted(text)!r} is neither yes nor no")
    return _YES_NO[text.lower()]


def _driver(text: str) -> int:
    major = text.partition(".")[0]
    if not (major.isascii() and major.isdigit() and len(major) < 6):
        raise PlanError(f"{quoted(text)!r} is no version of a driver; write 12 or 12.4")
    return int(major)
