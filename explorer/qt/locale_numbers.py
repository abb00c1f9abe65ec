"""Number formats of the user's country; the widgets of the program."""

from __future__ import annotations

import re
from dataclasses import replace

from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QApplication, QWidget

from explorer.text import PLAIN, Notation, NumberFormat, set_notation


def own_widgets() -> list[QWidget]:
    """Return all widgets of the program's own classes, in no order.

    `QObject.findChildren` and `children` would tie Python's wrappers of what Qt makes for itself
    (containers of scroll bars) to one another. Such a wrapper outlives what Qt deletes: it may then
    stand for another object at the same address, or take it along when it is let go.
    """
    return [
        widget
        for widget in QApplication.allWidgets()
        if not type(widget).__module__.startswith("PySide6.")
    ]


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


def use_locale(locale: QLocale) -> None:
    """Set the number format of the process, before the first widget is made: that of print.

    Qt's own fields follow the default locale; for digits other than 0 to 9 it becomes the C locale.
    """
    set_notation(Notation(replace(number_format(locale), typeset=True)))
    if locale.zeroDigit() != "0":
        QLocale.setDefault(QLocale.c())
