"""What `plan` plans for: GPUs that a person names, or those of this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import click

from explorer.errors import ExplorerError
from explorer.hardware.catalogue import CatalogueError, load_catalogue
from explorer.hardware.detect import detect
from explorer.planner import Device, Host
from explorer.planner.devices import LookUp, parse_gpu

_SIZED: Final = re.compile(r"(?:^|,)\s*(?:free|total)\s*=")
_UNIT: Final = re.compile(r"[0-9.]+\s*(?:[kmgtpe]i?b?|b|bytes)", re.IGNORECASE)
_LEAST_SIZE: Final = 1 << 20  # "3090" is a card, not a memory of 3,090 bytes


@dataclass(frozen=True, slots=True)
class Target:
    """The machine of a plan.

    Attributes:
        devices: Its GPUs.
        host: Its main memory, or None to check nothing against it.
        notes: Sentences about the search for them.
    """

    devices: tuple[Device, ...]
    host: Host | None
    notes: tuple[str, ...] = ()


def find_target(devices: Sequence[Device], memory: int | None) -> Target:
    """Return the machine to plan for.

    Args:
        devices: GPUs that were named; none means this machine's.
        memory: Free bytes of main memory, or None for this machine's where its GPUs are meant.
    """
    if devices:
        named = tuple(devices)
        return Target(named, _named_host(named, memory))
    machine = detect()
    host = machine.host if memory is None else replace(machine.host, free=memory, swap=0)
    return Target(machine.devices, host, machine.notes)


def _named_host(devices: Sequence[Device], memory: int | None) -> Host | None:
    mac = next((device for device in devices if device.library == "Metal"), None)
    if mac is not None:  # its memory is the machine's
        total = mac.capacity_bytes
        return Host(total - mac.free if memory is None else memory, total=total, macos=True)
    return None if memory is None else Host(memory)


def named_gpu(text: str, position: int) -> Device:
    """Return the GPU of a SPEC; names are looked up in the catalogue.

    Args:
        text: ``24GiB``, ``RTX 3090``, or ``name=NVIDIA L4,free=22.5GiB``.
        position: Number of the GPU among those named.

    Raises:
        ExplorerError: It is no SPEC, or the name fits no GPU or several.
    """
    if _is_size(text.strip()):  # no name, though a dozen GPUs have "24 GB" in theirs
        return parse_gpu(text, position)
    return parse_gpu(text, position, _look_up(sized=_SIZED.search(text) is not None))


def named_gpus(
    context: click.Context, parameter: click.Parameter, specs: Sequence[str]
) -> list[Device]:
    """Return the GPUs of all SPECs of an option; a callback of click's."""
    try:
        return [named_gpu(spec, position) for position, spec in enumerate(specs)]
    except ExplorerError as error:
        raise click.BadParameter(str(error), context, parameter) from error


def _is_size(text: str) -> bool:
    if text.isascii() and text.isdigit() and len(text) < 8:
        return int(text) >= _LEAST_SIZE
    return text.isdigit() or _UNIT.fullmatch(text) is not None


def _look_up(*, sized: bool) -> LookUp:
    """Return how to look a name up.

    Args:
        sized: The SPEC says how much memory there is, so that the name need not be known. What the
            GPUs of that name have in common is taken then.
    """

    def find(name: str) -> Device | None:
        catalogue = load_catalogue()
        try:
            return catalogue.find(name).device()
        except CatalogueError as error:
            if not sized:
                raise
            several = [catalogue.find(candidate) for candidate in error.matching]
        alike = {(gpu.library, gpu.compute, gpu.integrated) for gpu in several}
        if len(alike) != 1:
            return None
        return replace(several[0].device(), name=name, total=None)

    return find
