"""Number formats of the user's country, and the units of sizes; widgets follow changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, QEvent, QLocale, QObject
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from explorer.text import PLAIN, ByteUnits, Notation, NumberFormat, notation, set_notation

Kind = TypeVar("Kind", bound=QObject)


def descendants(parent: QObject, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the children of an object, theirs, and so on, in the order of `QObject.findChildren`.

    `findChildren` makes `parent` the owner of each Python wrapper, so that wrappers of objects that
    Qt itself makes and deletes would stay for as long as `parent` lives.
    """
    for child in parent.children():
        if isinstance(child, kind):
            yield child
        yield from descendants(child, kind)


_PROBE = 123_456_789_012
_MIN_PROBED, _MAX_PROBED = 4, 8


def number_format(locale: QLocale) -> NumberFormat:
    """Return the separators of a country.

    A country with digits of its own (Arabic, Persian, Nepali, …) gets a point and commas, as CLDR
    has it for the digits 0 to 9, which the program writes everywhere
    (``numbers/symbols-numberSystem-latn`` of ``ar``, ``ne`` and others).
    """
    if locale.zeroDigit() != "0" or locale.language() == QLocale.Language.C:
        return PLAIN.numbers
    decimal, group = locale.decimalPoint(), locale.groupSeparator()
    groups = [len(digits) for digits in re.split(r"\D+", locale.toString(_PROBE))]
    if not group or decimal == group or len(groups) < 3:
        return PLAIN.numbers
    probed = range(_MIN_PROBED, _MAX_PROBED)
    grouped = (n for n in probed if not locale.toString(10 ** (n - 1)).isdigit())
    least = next(grouped, _MIN_PROBED)
    found = NumberFormat(decimal, group, groups[-1], groups[-2], least)
    return PLAIN.numbers if found == PLAIN.numbers else found


def use_locale(locale: QLocale, units: ByteUnits) -> None:
    """Set the number format of the process, before the first widget is made.

    Qt's own fields follow the default locale; for digits other than 0 to 9 it becomes the C locale.
    """
    set_notation(Notation(number_format(locale), units))
    if locale.zeroDigit() != "0":
        QLocale.setDefault(QLocale.c())


def use_units(units: ByteUnits, window: QWidget) -> None:
    """Show sizes in other units, and update everything in a window.

    Every widget gets a `LocaleChange`; those that keep texts with sizes make them again in their
    `changeEvent`.
    """
    set_notation(replace(notation(), units=units))
    for widget in (window, *descendants(window, QWidget)):
        # An update may delete later widgets: `isValid` knows that of our own classes only, and
        # widgets of Qt's classes have no texts of ours.
        of_qt = type(widget).__module__.startswith("PySide6.")
        if not of_qt and isValid(widget):
            QCoreApplication.sendEvent(widget, QEvent(QEvent.Type.LocaleChange))
            if isValid(widget):
                widget.update()
