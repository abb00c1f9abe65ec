"""GPUs and main memory to plan for: those that an option names, or this machine's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import click

from explorer.cli import options
from explorer.planner import Device, Host
from explorer.planner.devices import LookUp, parse_context, parse_gpu, parse_memory

_SIZED: Final = re.compile(r"(?:^|,)\s*(?:free|total)\s*=")
_UNIT: Final = re.compile(r"[0-9.]+\s*(?:[kmgtpe]i?b?|b|bytes)", re.IGNORECASE)
_MIN_SIZE: Final = 1 << 20  # "3090" is a card, not a memory of 3,090 bytes


def _named_gpus(
    _context: click.Context, _parameter: click.Parameter, specs: Sequence[str]
) -> list[Device]:
    """Return the GPUs of all SPECs of an option; a callback of click."""
    return [
        options.parsed_by(partial(named_gpu, position=position))(spec)
        for position, spec in enumerate(specs)
    ]


def gpu_option(text: str) -> Callable[[options.Command], options.Command]:
    """Return the option of the GPUs that memory is planned for; `text` is its help."""
    return click.option(
        "gpus", "--gpu", multiple=True, metavar="SPEC", callback=_named_gpus, help=text
    )


def memory_option(text: str) -> Callable[[options.Command], options.Command]:
    """Return the option of free main memory; `text` is its help."""
    return click.option("--memory", metavar="SIZE", type=options.parsed_by(parse_memory), help=text)


def context_option(
    text: str, name: str = "context", *, multiple: bool = False
) -> Callable[[options.Command], options.Command]:
    """Return the option of the tokens that memory is planned for; `text` is its help."""
    return click.option(
        *(name, "--context"),
        metavar="N",
        type=options.parsed_by(parse_context),
        multiple=multiple,
        help=text,
    )


def named_gpu(text: str, position: int) -> Device:
    """Return the GPU of a SPEC; names are looked up in the catalogue.

    Args:
        text: ``24GiB``, ``RTX 3090``, or ``name=NVIDIA L4,free=22.5GiB``.
        position: Number of the GPU among those named.

    Raises:
        ExplorerError: It is not a SPEC, or the name fits no GPU or several.
    """
    if _is_size(text.strip()):  # no name, though a dozen GPUs have "24 GB" in theirs
        return parse_gpu(text, position)
    return parse_gpu(text, position, _look_up(sized=_SIZED.search(text) is not None))


def _is_size(text: str) -> bool:
    if text.isascii() and text.isdigit() and len(text) < 8:
        return int(text) >= _MIN_SIZE
    return text.isdigit() or _UNIT.fullmatch(text) is not None


def _look_up(*, sized: bool) -> LookUp:
    """Return a function that finds a GPU by its name.

    Args:
        sized: The SPEC has the size of the memory, so that the name need not be known; the GPU gets
            the properties that all GPUs of that name share.
    """

    def find(name: str) -> Device | None:
        # a list of models without fits asks for no GPU
        from explorer.hardware.catalogue import CatalogueError, load_catalogue  # noqa: PLC0415

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


def find_machine(
    named: Sequence[Device], memory: int | None
) -> tuple[tuple[Device, ...], Host | None, tuple[str, ...]]:
    """Return GPUs and main memory of the machine to plan for, and notes on the search for them.

    Args:
        named: GPUs that were named; none means this machine's.
        memory: Free bytes of main memory, or None for this machine's where its GPUs are meant.
    """
    if not named:
        from explorer.hardware.detect import detect  # noqa: PLC0415 - as above

        found = detect()
        host = found.host if memory is None else replace(found.host, free=memory, swap=0)
        return found.devices, host, found.notes
    mac = next((device for device in named if device.library == "Metal"), None)
    if mac is not None:  # its memory is the machine's
        total = mac.capacity_bytes
        free = total - mac.free if memory is None else memory
        return tuple(named), Host(free, total=total, macos=True), ()
    return tuple(named), None if memory is None else Host(memory), ()
