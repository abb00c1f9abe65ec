"""Text and numbers for people, the part that knows nothing of models.

Names, keys and tokens come from files that anybody may have made. What could steer a terminal, turn
the direction of a line round or hide in it is shown as an escape, never passed on. On the ground
floor, so that an error can be told even where nothing else loads.

Numbers are written as `explorer.notation` says: with the separators of the user's country and in
the units of the user's choice in the window, as programs write them everywhere else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from explorer.notation import notation, written_integer, written_number

# Invisible or acting characters: C0 and C1 controls (ESC, CSI), Unicode's default-ignorable ones
# (DerivedCoreProperties.txt) with the bidi marks, embeddings, overrides and isolates and the
# zero-width ones, line and paragraph separators, interlinear marks, noncharacters, lone surrogates.
# Left out are the variation selectors FE00 to FE0F, which ordinary emoji carry.
_UNSAFE: Final = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ONE_LINE: Final = re.compile(f"[\x00-\x1f{_UNSAFE}]")
_MANY_LINES: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_JSON: Final = re.compile(f"[{_UNSAFE}]")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_COUNT_UNITS: Final = ("", "K", "M", "B", "T", "Q")


def plain_text(text: str, *, lines: bool = False) -> str:
    r"""Return text that is safe to show: what is invisible or acts on the display is escaped.

    Args:
        text: Any text; a byte that was no UTF-8 is a lone surrogate in it and becomes ``\xNN``.
        lines: Keep line ends and tabs, for places that show many lines.
    """
    if text.isascii() and text.isprintable():
        return text
    return (_MANY_LINES if lines else _ONE_LINE).sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # PEP 383: a byte that could not be decoded
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return _NAMED.get(character) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def safe_json(document: str) -> str:
    r"""Return JSON text that says the same in valid UTF-8 and cannot steer a terminal.

    Characters that `plain_text` would escape become JSON escapes, which a parser undoes. A lone
    surrogate has no place in UTF-8: it becomes the text ``\xNN``, as in `plain_text`.
    """
    return _JSON.sub(_escape_json, document)


def _escape_json(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xD800 <= code <= 0xDFFF:
        return "\\" + _escape(match)
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, with an ellipsis where it was cut."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def integer_text(number: int) -> str:
    """Return an integer with separators: ``"262,144"``."""
    return written_integer(number)


def bytes_text(nbytes: int) -> str:
    """Return a size to three digits: ``"4.37 GiB"``, or ``"4.69 GB"`` in decimal units."""
    units = notation().units
    return _scaled(nbytes, units.base, units.names)


def byte_unit(power: int) -> tuple[str, int]:
    """Return a unit of sizes and its bytes: for 3, ``("GiB", 1073741824)``."""
    units = notation().units
    return units.names[power], units.base**power


def count_text(count: int) -> str:
    """Return a number of parameters, to three digits: ``"270 M"``, ``"8.03 B"``."""
    return _scaled(count, 1000, _COUNT_UNITS)


def _scaled(number: int, base: int, units: Sequence[str]) -> str:
    if abs(number) < base:
        return f"{number} {units[0]}".rstrip()
    power = 1
    # 1,023.6 MiB is 1.00 GiB: the unit is chosen after rounding
    while power < len(units) - 1 and abs(number) >= (base - 0.5) * base**power:
        power += 1
    value = number / base**power
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{fixed_text(value, digits)} {units[power]}"


def float_text(number: float, digits: int = 7) -> str:
    """Return a number to as many digits as a float32 is sure of: 1e-05, not 9.999999747e-06."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "-inf" if number < 0 else "inf"
    return written_number(f"{number:.{digits}g}")


def fixed_text(number: float, places: int) -> str:
    """Return a number with so many digits behind the decimal sign: ``"99.50"``."""
    return written_number(f"{number:.{places}f}")


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape, outermost first: ``"2,048 × 640"``; one element without dimensions is 1."""
    return " × ".join(map(integer_text, shape)) or "1"
