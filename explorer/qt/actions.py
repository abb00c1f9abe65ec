"""Every command of the window, made in one place; menus, keys and the shortcut list share them."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow, QWidget

from explorer.qt.locale_numbers import take_units
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme, apply_scheme
from explorer.text import ByteUnits

Key = QKeySequence.StandardKey


class Actions:
    """The commands of a window, as `QAction`s."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        tr = window.tr
        self.open_files = self._make(
            "open_files", tr("&Open file…"), Key.Open, tr("Open model files")
        )
        self.open_folder = self._make(
            "open_folder",
            tr("Open &folder…"),
            "Ctrl+Shift+O",
            tr("Open the folder of a Hugging Face model"),
        )
        self.open_demo = self._make(
            "open_demo",
            tr("Open &demo model"),
            "",
            tr("Open a small model that this program makes"),
        )
        self.close_model = self._make(
            "close_model", tr("&Close model"), "Ctrl+W", tr("Close the current model")
        )
        self.clear_recent = self._make(
            "clear_recent", tr("&Forget these"), "", tr("Empty the list of recent models")
        )
        self.quit = self._make("quit", tr("&Quit"), Key.Quit, tr("Close the program"))
        self.find = self._make("find", tr("&Find"), Key.Find, tr("Search or filter what is shown"))
        self.go_to = self._make(
            "go_to", tr("&Go to…"), "Ctrl+K", tr("Jump to any model, key, tensor or command")
        )
        self.copy_path = self._make(
            "copy_path",
            tr("Copy model's &path"),
            "Ctrl+Alt+C",
            tr("Copy the path of the current model"),
        )
        self.guide = self._make(
            "guide",
            tr("&Guide"),
            Key.HelpContents,
            tr("Open the guide at the panel in front"),
        )
        self.shortcuts = self._make(
            "shortcuts", tr("&Keyboard shortcuts"), "Ctrl+?", tr("List every shortcut")
        )
        self.whats_this = self._make(
            "whats_this",
            tr("&What's this?"),
            Key.WhatsThis,
            tr("Point at a figure to read what it means"),
        )
        self.explain = self._make(
            "explain",
            tr("&Explain the current figure"),
            "Ctrl+F1",
            tr("Say what the figure means that the keyboard is at"),
        )
        self.tour = self._make(
            "tour", tr("&Tour"), "", tr("Show the parts of the window one after another")
        )
        self.about = self._make("about", tr("&About"), "", tr("Version and licence"))
        self.reset_layout = self._make(
            "reset_layout",
            tr("&Reset layout"),
            "",
            tr("Put every panel back to where it was at first"),
        )
        self.schemes = {
            Scheme.SYSTEM: self._make("scheme_system", tr("As the &system"), "", ""),
            Scheme.LIGHT: self._make("scheme_light", tr("&Light"), "", ""),
            Scheme.DARK: self._make("scheme_dark", tr("&Dark"), "", ""),
            Scheme.CONTRAST: self._make("scheme_contrast", tr("High &contrast"), "", ""),
        }
        self.units = {
            ByteUnits.BINARY: self._make(
                "units_binary", tr("KiB, MiB, GiB (powers of &1024)"), "", tr("As memory is sold")
            ),
            ByteUnits.DECIMAL: self._make(
                "units_decimal", tr("kB, MB, GB (powers of 1&000)"), "", tr("As disks are sold")
            ),
        }
        for choices in (self.schemes, self.units):
            group = QActionGroup(window)
            for action in choices.values():
                action.setCheckable(True)
                group.addAction(action)

    def all(self) -> list[QAction]:
        """Return every command."""
        own = [value for value in vars(self).values() if isinstance(value, QAction)]
        return [*own, *self.schemes.values(), *self.units.values()]

    def _make(
        self, name: str, text: str, keys: QKeySequence.StandardKey | str, tip: str
    ) -> QAction:
        action = QAction(text, self._window)
        action.setObjectName(name)
        if keys:
            action.setShortcut(QKeySequence(keys))
        action.setStatusTip(tip)
        self._window.addAction(action)
        return action


# How everything looks, as the user chose it: colours, and the units of sizes.


class Look(QObject):
    """Follows the commands of the menu View, and remembers what they chose."""

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

    def _take_units(self, units: ByteUnits, _checked: bool = True) -> None:
        self._settings.byte_units = units
        take_units(units, self._window)
