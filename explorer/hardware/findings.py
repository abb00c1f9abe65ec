"""What a probe found: devices, and what the person should know about the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from explorer.planner import Device
from explorer.text import plain_text, shorten

MOST_DEVICES: Final = 64
"""GPUs of one kind that a probe looks at; a machine with more is a mistake of a driver."""

_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of one probe.

    Attributes:
        devices: GPUs that can be planned with.
        notes: Sentences: what was not found or not looked for, and why.
    """

    devices: tuple[Device, ...] = ()
    notes: tuple[str, ...] = ()


def device_name(text: str | bytes, otherwise: str) -> str:
    """Return a name that a driver gave as plain text on one line, or another where it is empty."""
    if isinstance(text, bytes):  # pynvml before version 12
        text = text.decode("utf-8", "replace")
    return shorten(plain_text(text.strip()), _LONGEST_NAME) or otherwise
