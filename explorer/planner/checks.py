"""Numbers that come from outside are checked here, once, before a formula sees them.

Every limit is far above what exists and low enough that each product of a formula stays finite and
each loop short. Without them a header that claims 2^63 layers would fill the memory.
"""

from __future__ import annotations

from typing import Final

from explorer.errors import PlanError
from explorer.text import integer_text, plain_text, shorten

MAX_BLOCKS: Final = 1024
"""Most blocks of a model, and most entries of a list with a value for each; real ones have 200."""

MAX_COUNT: Final = 1 << 40
"""Largest length, width, number of heads, tokens or sequences."""

MAX_MEMORY: Final = (1 << 63) - 1
"""Largest memory in bytes; scripts write such a number for "no limit"."""

MAX_BYTES: Final = 1 << 63
"""Sizes at and above it do not fit Ollama's integers: its sums would wrap around."""


def whole(value: object, what: str, most: int = MAX_COUNT, least: int = 0) -> int:
    """Return a value if it is an integer within its limits.

    Raises:
        PlanError: It is of another type, or too small, or too large.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise PlanError(f"{quoted(what)} is {_shown(value)}, where an integer belongs")
    if not least <= value <= most:
        limits = f"{integer_text(least)} to {integer_text(most)}"
        raise PlanError(f"{quoted(what)} is {_shown(value)}, outside of {limits}; it is damaged")
    return value


def whole_or_none(value: object, what: str, most: int = MAX_COUNT, least: int = 0) -> int | None:
    """Return None as it is, and everything else as `whole` does."""
    return None if value is None else whole(value, what, most, least)


def sized(nbytes: int, what: str) -> int:
    """Return a computed size if it fits 63 bits.

    Raises:
        PlanError: It does not; such a model or context does not exist.
    """
    if nbytes >= MAX_BYTES:
        raise PlanError(
            f"{what} would take more than 2^63 bytes; a length in the header or a setting is wrong"
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
