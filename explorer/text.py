"""Text and numbers for people.

Names, keys and tokens come from untrusted files. Characters that could steer a terminal, reverse a
line or hide in it are shown as escapes.

Numbers and sizes follow one setting of the process: in the window the separators of the user's
country and the chosen units, elsewhere a point, commas between thousands and powers of 1024. An
argument of every formatter was rejected: texts are made in hundreds of places, and one that forgot
it would be wrong in one country only. Digits are 0 to 9 in every locale, because names, offsets and
types are written in Latin letters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice, pairwise
from typing import Any, Final

# Separators of thousands in any country: spaces (also narrow and fixed), apostrophes, underscores.
_ALWAYS_GROUPS: Final = re.compile("[ \u00a0\u2009\u202f'\u2019_]")


class ByteUnits(StrEnum):
    """Units of sizes, named as in IEC 80000-13 (binary) and the SI (decimal)."""

    BINARY = "binary"
    DECIMAL = "decimal"

    @property
    def base(self) -> int:
        """Factor between neighbouring units."""
        return 1024 if self is ByteUnits.BINARY else 1000

    @property
    def names(self) -> tuple[str, ...]:
        if self is ByteUnits.BINARY:
            return ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
        return ("B", "kB", "MB", "GB", "TB", "PB", "EB")


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Separators of numbers."""

    decimal: str = "."  # stands before the fraction
    group: str = ","  # stands between groups of digits
    first_group: int = 3  # digits of the group that comes last
    later_groups: int = 3  # digits of the groups before; in India two: 12,34,567
    least_grouped: int = 4  # digits of the shortest number in groups; in Spain 5: 1234, 12.345
    typeset: bool = False  # as in print: U+2212 and U+221E for - and inf, fractions in groups too

    def whole(self, digits: str) -> str:
        """Return a row of digits in groups."""
        if len(digits) < self.least_grouped or len(digits) <= self.first_group:
            return digits
        groups = [digits[-self.first_group :]]
        rest = digits[: -self.first_group]
        while rest:
            groups.append(rest[-self.later_groups :])
            rest = rest[: -self.later_groups]
        return self.group.join(reversed(groups))


@dataclass(frozen=True, slots=True)
class Notation:
    """How numbers and sizes are written."""

    numbers: NumberFormat = NumberFormat()  # separators
    units: ByteUnits = ByteUnits.BINARY  # units of sizes


MINUS: Final = "\N{MINUS SIGN}"

PLAIN: Final = Notation()
"""The notation of the command line, and of everything that other programs read."""


class _Process:
    """The setting of the process; an object, so that no module variable is assigned."""

    notation = PLAIN


_process: Final = _Process()
_here: Final[ContextVar[Notation | None]] = ContextVar("notation", default=None)


def notation() -> Notation:
    """Return the notation of this block, or else of the process."""
    return _here.get() or _process.notation


def set_notation(wanted: Notation) -> None:
    """Set the notation of the process, for every thread."""
    _process.notation = wanted


@contextmanager
def writing(wanted: Notation) -> Iterator[None]:
    """Use another notation within a block, in this thread only."""
    token = _here.set(wanted)
    try:
        yield
    finally:
        _here.reset(token)


@contextmanager
def locale_free() -> Iterator[None]:
    """Write numbers with a point and commas within a block, for other programs; units stay."""
    with writing(replace(PLAIN, units=notation().units)):
        yield


def integer_text(number: int) -> str:
    """Return an integer with separators: ``"262,144"``."""
    if notation().numbers is PLAIN.numbers:
        return f"{number:,}"
    signs = notation().numbers
    digits = signs.whole(str(abs(number)))
    return f"{minus_sign()}{digits}" if number < 0 else digits


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number of things: ``"1 tensor"``, ``"2 tensors"``; `nouns` if s is not enough."""
    return f"{integer_text(count)} {noun if count == 1 else nouns or noun + 's'}"


def minus_sign() -> str:
    """Return what stands before negative numbers: U+2212 in the window, else what programs read."""
    return MINUS if notation().numbers.typeset else "-"


def signed_text(number: float, text: Callable[[Any], str]) -> str:
    """Return a difference with its sign, also that of a gain; `text` writes what has none."""
    if not number:
        return text(number)
    return f"{'+' if number > 0 else minus_sign()}{text(abs(number))}"


def written_number(plain: str) -> str:
    """Return a number that Python wrote, such as ``"1.5e-05"``, with the signs of the notation."""
    signs = notation().numbers
    if not signs.typeset:
        return plain if signs.decimal == "." else plain.replace(".", signs.decimal)
    whole, point, rest = plain.partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    if digits.isascii() and digits.isdigit():
        whole = sign + signs.whole(digits)
    return f"{whole}{signs.decimal if point else ''}{rest}".replace("-", MINUS)


def sentence(text: str) -> str:
    """Return a text with a capital at its start, unless it begins with a name: llama.cpp, q4_0."""
    first = text.partition(" ")[0].rstrip(",:;")
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() and first.islower() else text


_DECIMAL_COMMA: Final = re.compile(r"^[^,]*\d,(?:\d{1,2}|\d{4,})(?!\d)[^,]*$")


def plain_number(typed: str, *, whole: bool = False) -> str:
    """Return a typed number with a decimal point and without groups.

    Both the point and the decimal sign of the country are accepted. Where the country separates
    thousands by points (262.144 in Germany), a point is decimal unless it can only separate
    thousands: beside a decimal sign, more than once, or in a whole number. Where it separates them
    by commas, a comma that cannot is decimal: "7,5 GiB" is not 75.

    Args:
        typed: Digits and signs; anything else stays as it is.
        whole: Whether only a whole number makes sense, so that three digits behind a point are
            thousands.
    """
    text = _ALWAYS_GROUPS.sub("", typed.replace(MINUS, "-"))
    signs = notation().numbers
    if signs.decimal == ".":
        if "." not in text and _DECIMAL_COMMA.search(text):
            return text.replace(",", ".")
        return text.replace(signs.group, "").replace(",", "")
    if signs.group != ".":
        return text.replace(signs.group, "").replace(signs.decimal, ".")
    thousands = re.search(r"(?<![\d.])\d{1,3}(?:\.\d{3})+(?!\d)", text)
    if signs.decimal in text or text.count(".") > 1 or (whole and thousands):
        text = text.replace(".", "")
    return text.replace(signs.decimal, ".")


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

_MOST_QUOTED: Final = 120
_COUNT_UNITS: Final = ("", "K", "M", "B", "T", "Q")


def plain_text(text: str, *, lines: bool = False) -> str:
    r"""Return text that is safe to show: what is invisible or acts on the display is escaped.

    Args:
        text: Any text; a byte that was no UTF-8 is a lone surrogate in it and becomes ``\xNN``.
        lines: Keep line ends and tabs, for places that show many lines.
    """
    if text.isascii() and text.isprintable():
        return text
    return (_MANY_LINES if lines else _ONE_LINE).sub(escaped, text)


def escaped(match: re.Match[str]) -> str:
    """Return the character that a pattern found as an escape: ``\\n``, ``\\xNN``, ``\\uNNNN``."""
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
        return "\\" + escaped(match)
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, with an ellipsis where it was cut."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def quoted(text: str) -> str:
    """Return untrusted text in quotes for a message: escaped, and not longer than a line."""
    shown = repr(shorten(text, _MOST_QUOTED))
    return shorten(shown, 2 * _MOST_QUOTED)  # a byte that is no text takes four or six characters


UNKNOWN: Final = "–"
"""What stands where a figure is not known, or there is none."""


def listed(texts: Iterable[str], most: int) -> str:
    """Return some texts with commas between them, and an ellipsis where there are more."""
    shown = list(islice(texts, most + 1))
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "")


class AtLeast(int):
    """A number of bytes of which there may be more; a sum with it is one, too."""

    __slots__ = ()

    def __add__(self, other: int) -> int:
        total = int.__add__(self, other)
        return total if total is NotImplemented else AtLeast(total)

    __radd__ = __add__


def bytes_text(nbytes: int) -> str:
    """Return a size to three digits: ``"4.37 GiB"``, or ``"4.69 GB"`` in decimal units."""
    units = notation().units
    text = _scaled(nbytes, units.base, units.names)
    if isinstance(nbytes, AtLeast):
        return f"at least {text}" if nbytes else "unknown"
    return text


def exact_text(nbytes: int) -> str:
    """Return a size rounded and in full: ``"4.37 GiB (4,692,251,770 bytes)"``."""
    if nbytes < 1024:
        return bytes_text(nbytes)
    return f"{bytes_text(nbytes)} ({integer_text(nbytes)} bytes)"


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
        infinite = "∞" if notation().numbers.typeset else "inf"
        return f"{minus_sign()}{infinite}" if number < 0 else infinite
    return written_number(f"{number:.{digits}g}")


def digits_text(number: float, digits: int, *, scientific: bool = False) -> str:
    """Return a number of a column, to as many significant digits as those above and below it.

    Zeros at the end stay: 8.50 stands below 5.53. A column has one notation, that of what it shows:
    figures of any size are `scientific`, the others plain unless their size forbids that. Which one
    is not asked of the numbers, for rows are printed before the last one is known, and a figure
    shall look alike in all tables.

    Args:
        digits: Significant digits. A whole number has all of its own, and 0 is just 0.
    """
    if number == 0 or not math.isfinite(number):
        return float_text(abs(number) if number == 0 else number)
    rounded = f"{number:.{digits - 1}e}"
    power = int(rounded.partition("e")[2])  # after rounding: 9.996 is 10.0
    if scientific or not _LEAST_PLAIN_POWER <= power < _MOST_PLAIN_POWER:
        return written_number(rounded)
    places = digits - 1 - power
    return fixed_text(number, places) if places > 0 else integer_text(round(number))


_LEAST_PLAIN_POWER: Final = -4  # of ten, as of `float_text`: nobody counts longer rows of zeros
_MOST_PLAIN_POWER: Final = 7
_LEAST_SCALED: Final = 100_000  # from which on an axis counts in K, M or B


def axis_texts(values: Sequence[float], most: float | None = None) -> list[str]:
    """Return the labels of an axis: one unit and as many places for all of them.

    Args:
        values: What the ticks stand for.
        most: The largest value of the axis, where these are only some of its ticks.
    """
    top = max(map(abs, values), default=0.0) if most is None else most
    power = 0
    while top >= _LEAST_SCALED and power < len(_COUNT_UNITS) - 1 and top >= 1000 ** (power + 1):
        power += 1
    if power and len(values) == 1 and most is None:  # no step says how many places it needs
        return [count_text(round(values[0]))]
    scale, unit = 1000**power, _COUNT_UNITS[power]
    scaled = [value / scale for value in values]
    steps = [abs(b - a) for a, b in pairwise(scaled) if b != a]
    step = min(steps, default=1.0)
    places = 0
    # not only the steps: a plot asks for the ticks between others apart, such as 0.5, 1.5, 2.5
    while places < _MOST_PLACES and any(
        abs(one * 10**places - round(one * 10**places)) > step * 10**places / 1000 for one in scaled
    ):
        places += 1
    texts = [fixed_text(one, places) if places else integer_text(round(one)) for one in scaled]
    pairs = zip(texts, values, strict=True)
    return [f"{text} {unit}".rstrip() if value else "0" for text, value in pairs]


_MOST_PLACES: Final = 6


def fixed_text(number: float, places: int) -> str:
    """Return a number with `places` digits behind the decimal sign: ``"99.50"``."""
    if not math.isfinite(number):
        return float_text(number)
    return written_number(f"{number:z.{places}f}")  # z: no minus before what is rounded to 0


def percent_text(share: float, digits: int = 3) -> str:
    """Return a ratio in per cent, to some digits: ``"0.0120 %"``, ``"5,590 %"``, ``"inf"``."""
    percent = 100 * share
    return f"{digits_text(percent, digits)} %" if math.isfinite(percent) else float_text(share)


def bits_text(bits: float, digits: int | None = None) -> str:
    """Return bits per weight, ``"8.500"``: of 1 to 32, so that decimal signs stand in a line.

    Args:
        digits: Significant digits, where there is no room for all places.
    """
    return fixed_text(bits, _BITS_PLACES) if digits is None else digits_text(bits, digits)


_BITS_PLACES: Final = 3


def scale_writer(step: float, top: float, digits: int = 3) -> Callable[[float], str]:
    """Return what writes numbers of one scale, so that their decimal signs stand in a line.

    Where that would take too many digits, it writes 1.6102e-03.

    Args:
        step: What has so many digits: the step between positions; or the largest number, where a
            small one need not be exact.
        top: The largest number.
        digits: Significant digits.
    """
    known = 0 < step < math.inf
    places = max(0, digits - 1 - math.floor(math.log10(step))) if known else 0
    if places > _MOST_LINED_PLACES or top >= _MOST_LINED:
        digits = max(digits, _DIGITS_OF_ANY_SIZE)
        return lambda number: digits_text(number, digits, scientific=True)
    return lambda number: fixed_text(number, places)


_MOST_LINED_PLACES: Final = 12
_MOST_LINED: Final = 1e9
_DIGITS_OF_ANY_SIZE: Final = 5


def part_text(share: float) -> str:
    """Return a part of a whole in per cent; only a whole is 100 %, and only nothing is 0 %."""
    rounded = f"{100 * share:.1f}"
    if share < 1 and rounded == "100.0":
        return f"> {fixed_text(99.9, 1)} %"
    if share > 0 and rounded == "0.0":
        return f"< {fixed_text(0.1, 1)} %"
    return f"{fixed_text(100 * share, 1)} %"


def runs_text(numbers: Sequence[int], most: int | None = None) -> str:
    """Return runs of ascending numbers: ``"0–11, 20"``; nothing for more than `most` runs."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    if most is not None and len(runs) > most:
        return ""
    return ", ".join(f"{low}" if low == high else f"{low}–{high}" for low, high in runs)


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape, outermost first: ``"2,048 × 640"``; one element without dimensions is 1."""
    return " × ".join(map(integer_text, shape)) or "1"


def duration_text(seconds: float) -> str:
    """Return a time as text: ``"45 s"``, ``"3:05 min"``, ``"2:10 h"``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"
