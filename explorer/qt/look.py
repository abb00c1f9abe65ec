"""How everything looks, as the user chose it: colours, and the units of sizes."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from explorer.qt.actions import Actions
from explorer.qt.locale_numbers import take_units
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme, apply_scheme
from explorer.text import ByteUnits


class Look(QObject):
    """Follows the commands of the menu View, and remembers what they chose.

    Signals:
        scheme_changed: The colours are others.
    """

    scheme_changed = Signal()

    def __init__(self, settings: Settings, actions: Actions, window: QWidget) -> None:
        super().__init__(window)
        self._settings = settings
        self._window = window
        for scheme, action in actions.schemes.items():
            action.setChecked(scheme is settings.scheme)
            action.triggered.connect(partial(self._take_scheme, scheme))
        for units, action in actions.units.items():
            action.setChecked(units is settings.byte_units)
            action.triggered.connect(partial(self._take_units, units))

    def _take_scheme(self, scheme: Scheme, _checked: bool = True) -> None:
        self._settings.scheme = scheme
        apply_scheme(scheme)
        self.scheme_changed.emit()

    def _take_units(self, units: ByteUnits, _checked: bool = True) -> None:
        self._settings.byte_units = units
        take_units(units, self._window)
