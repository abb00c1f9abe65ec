"""The user's country tells how numbers are written, and every widget hears when that changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, QEvent, QLocale, QObject
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from explorer.text import PLAIN, ByteUnits, Notation, NumberFormat, notation, set_notation

# What a window consists of, without keeping it.


Kind = TypeVar("Kind", bound=QObject)


def descendants(parent: QObject, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the children of an object, theirs, and so on, in the order of `QObject.findChildren`.

    What that finds belongs to `parent` from then on, as Python sees it: of objects that Qt made and
    deletes, within a dialog or a list, something is left for as long as `parent` lives.

    Args:
        parent: The object, which is not yielded.
        kind: What is yielded; below others, too.
    """
    for child in parent.children():
        if isinstance(child, kind):
            yield child
        yield from descendants(child, kind)


_PROBE = 123_456_789_012
_LEAST_PROBED, _MOST_PROBED = 4, 8


def number_format(locale: QLocale) -> NumberFormat:
    """Return the separators of a country.

    A country with digits of its own (Arabic, Persian, Nepali, …) gets a point and commas: the
    program writes 0 to 9 everywhere, see `explorer.text`, and CLDR sets these with such digits
    (``numbers/symbols-numberSystem-latn`` of ``ar``, ``ne`` and others).
    """
    if locale.zeroDigit() != "0" or locale.language() == QLocale.Language.C:
        return PLAIN.numbers
    decimal, group = locale.decimalPoint(), locale.groupSeparator()
    groups = [len(digits) for digits in re.split(r"\D+", locale.toString(_PROBE))]
    if not group or decimal == group or len(groups) < 3:
        return PLAIN.numbers
    least = next(
        (n for n in range(_LEAST_PROBED, _MOST_PROBED) if not _digits(locale, n).isdigit()),
        _LEAST_PROBED,
    )
    found = NumberFormat(decimal, group, groups[-1], groups[-2], least)
    return PLAIN.numbers if found == PLAIN.numbers else found


def _digits(locale: QLocale, count: int) -> str:
    return locale.toString(10 ** (count - 1))


def take_locale(locale: QLocale, units: ByteUnits) -> None:
    """Write numbers as in a country from now on; before the first widget is made.

    Fields of Qt's own follow the default locale: where digits are not 0 to 9, that of no country.
    """
    set_notation(Notation(number_format(locale), units))
    if locale.zeroDigit() != "0":
        QLocale.setDefault(QLocale.c())


def take_units(units: ByteUnits, window: QWidget) -> None:
    """Tell sizes in other units, and have everything in a window told anew.

    Every widget gets a `LocaleChange`, as Qt names it when numbers are to be written in another
    way; those that keep texts with sizes in them make them again in their `changeEvent`.
    """
    set_notation(replace(notation(), units=units))
    for widget in (window, *descendants(window, QWidget)):
        # Python knows of its own kinds of widgets when one is gone, because another made its
        # content anew; of those that Qt made within them it does not, and they need no telling.
        if not _is_of_qt(widget) and isValid(widget):
            QCoreApplication.sendEvent(widget, QEvent(QEvent.Type.LocaleChange))
            if isValid(widget):
                widget.update()


def _is_of_qt(widget: QWidget) -> bool:
    """Tell whether a widget is of a class of Qt itself."""
    return type(widget).__module__.partition(".")[0] == "PySide6"
