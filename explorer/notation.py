"""How numbers and sizes are written for people, and read from them: one setting for the process.

The core knows no Qt and so no locale: the window tells it once, at its start, which separators the
user's country has, and again whenever the user changes the units of sizes. Whoever sets nothing, as
the command line, writes as programs do: a point, commas between thousands, powers of 1024. A value
that every formatter is handed was rejected: texts are made in hundreds of places, also in the
planner's sentences, and one that forgot it would be wrong in one country only.

Digits are 0 to 9 everywhere. Arabic has its own beside them, but a screen full of names, offsets
and types written in Latin letters would mix both; CLDR gives Arabic's Latin digits the signs of
English, and so does `explorer.qt.locale_numbers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

# What people set between thousands, in any country: spaces (also the narrow and the fixed ones),
# apostrophes, the underscore of programs.
_ALWAYS_GROUPS: Final = re.compile("[ \u00a0\u2009\u202f'\u2019_]")


class ByteUnits(StrEnum):
    """What sizes are told in.

    The names are those of IEC 80000-13 (binary) and of the SI (decimal).
    """

    BINARY = "binary"
    DECIMAL = "decimal"

    @property
    def base(self) -> int:
        """What a unit is of the one below it."""
        return 1024 if self is ByteUnits.BINARY else 1000

    @property
    def names(self) -> tuple[str, ...]:
        """The units, from the byte up."""
        if self is ByteUnits.BINARY:
            return ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
        return ("B", "kB", "MB", "GB", "TB", "PB", "EB")


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Separators of numbers.

    Attributes:
        decimal: Stands before the fraction.
        group: Stands between groups of digits.
        first_group: Digits of the group that comes last.
        later_groups: Digits of the groups before; in India two: 12,34,567.
        least_grouped: Digits of the shortest number that is grouped; in Spain five: 1234, 12.345.
    """

    decimal: str = "."
    group: str = ","
    first_group: int = 3
    later_groups: int = 3
    least_grouped: int = 4

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
    """How numbers and sizes are written.

    Attributes:
        numbers: Separators.
        units: Units of sizes.
    """

    numbers: NumberFormat = NumberFormat()
    units: ByteUnits = ByteUnits.BINARY


PLAIN: Final = Notation()
"""The command line's, and that of everything that another program may read."""


class _Process:
    """What `set_notation` sets; an object, so that there is no module variable to assign."""

    notation = PLAIN


_process: Final = _Process()
_here: Final[ContextVar[Notation | None]] = ContextVar("notation", default=None)


def notation() -> Notation:
    """Return how numbers and sizes are written here."""
    return _here.get() or _process.notation


def set_notation(wanted: Notation) -> None:
    """Write numbers and sizes so from now on, in every thread."""
    _process.notation = wanted


@contextmanager
def writing(wanted: Notation) -> Iterator[None]:
    """Write numbers and sizes in another way within a block, in this thread only."""
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


def written_integer(number: int) -> str:
    """Return an integer with separators."""
    if notation().numbers is PLAIN.numbers:
        return f"{number:,}"
    digits = notation().numbers.whole(str(abs(number)))
    return f"-{digits}" if number < 0 else digits


def written_number(plain: str) -> str:
    """Return a number that Python wrote, such as ``"1.5e-05"``, with the decimal sign."""
    decimal = notation().numbers.decimal
    return plain if decimal == "." else plain.replace(".", decimal)


def plain_number(typed: str, *, whole: bool = False) -> str:
    """Return a number that somebody typed with a point and without groups.

    Both the point and the decimal sign of the country are taken for what they are. Where the point
    is the country's sign between thousands (262.144 in Germany), it is a decimal point unless it
    can only stand between thousands: beside a decimal sign, more than once, or in a whole number.

    Args:
        typed: Digits and signs; anything else stays as it is.
        whole: Whether only a whole number makes sense, so that three digits behind a point are
            thousands.
    """
    text = _ALWAYS_GROUPS.sub("", typed)
    signs = notation().numbers
    if signs.decimal == ".":
        return text.replace(signs.group, "").replace(",", "")
    if signs.group != ".":
        return text.replace(signs.group, "").replace(signs.decimal, ".")
    thousands = re.search(r"(?<![\d.])\d{1,3}(?:\.\d{3})+(?!\d)", text)
    if signs.decimal in text or text.count(".") > 1 or (whole and thousands):
        text = text.replace(".", "")
    return text.replace(signs.decimal, ".")
