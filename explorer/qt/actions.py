"""Every command of the window, made in one place; menus, keys and the shortcut list share them."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow, QWidget

from explorer.qt.locale_numbers import use_units
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme, apply_scheme
from explorer.text import ByteUnits

Key = QKeySequence.StandardKey


class Actions:
    """The commands of a window, as `QAction`s."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        tr, make = window.tr, self._make
        self.open_files = make("open_files", tr("&Open file…"), Key.Open, tr("Open model files"))
        tip = tr("Open the folder of a Hugging Face model")
        self.open_folder = make("open_folder", tr("Open &folder…"), "Ctrl+Shift+O", tip)
        tip = tr("Open a small model that this program makes")
        self.open_demo = make("open_demo", tr("Open &demo model"), "", tip)
        tip = tr("Close the current model")
        self.close_model = make("close_model", tr("&Close model"), "Ctrl+W", tip)
        tip = tr("Empty the list of recent models")
        self.clear_recent = make("clear_recent", tr("&Forget these"), "", tip)
        self.quit = make("quit", tr("&Quit"), Key.Quit, tr("Close the program"))
        self.find = make("find", tr("&Find"), Key.Find, tr("Search or filter what is shown"))
        tip = tr("Jump to any model, key, tensor or command")
        self.go_to = make("go_to", tr("&Go to…"), "Ctrl+K", tip)
        tip = tr("Copy the path of the current model")
        self.copy_path = make("copy_path", tr("Copy model's &path"), "Ctrl+Alt+C", tip)
        tip = tr("Open the guide at the panel in front")
        self.guide = make("guide", tr("&Guide"), Key.HelpContents, tip)
        tip = tr("List every shortcut")
        self.shortcuts = make("shortcuts", tr("&Keyboard shortcuts"), "Ctrl+?", tip)
        tip = tr("Point at a figure to read what it means")
        self.whats_this = make("whats_this", tr("&What's this?"), Key.WhatsThis, tip)
        tip = tr("Explain the figure that has the focus")
        self.explain = make("explain", tr("&Explain the current figure"), "Ctrl+F1", tip)
        tip = tr("Show the parts of the window one after another")
        self.tour = make("tour", tr("&Tour"), "", tip)
        self.about = make("about", tr("&About"), "", tr("Version and licence"))
        tip = tr("Put every panel back to its default place")
        self.reset_layout = make("reset_layout", tr("&Reset layout"), "", tip)
        self.schemes = {
            Scheme.SYSTEM: make("scheme_system", tr("As the &system"), "", ""),
            Scheme.LIGHT: make("scheme_light", tr("&Light"), "", ""),
            Scheme.DARK: make("scheme_dark", tr("&Dark"), "", ""),
            Scheme.CONTRAST: make("scheme_contrast", tr("High &contrast"), "", ""),
        }
        binary, decimal = tr("KiB, MiB, GiB (powers of &1024)"), tr("kB, MB, GB (powers of 1&000)")
        self.units = {
            ByteUnits.BINARY: make("units_binary", binary, "", tr("As memory is sold")),
            ByteUnits.DECIMAL: make("units_decimal", decimal, "", tr("As disks are sold")),
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


class Appearance(QObject):
    """Applies and saves the colours and units that the menu View offers."""

    def __init__(self, settings: Settings, actions: Actions, window: QWidget) -> None:
        super().__init__(window)
        self._settings = settings
        self._window = window
        for scheme, action in actions.schemes.items():
            action.setChecked(scheme is settings.scheme)
            action.triggered.connect(lambda _=True, scheme=scheme: self._use_scheme(scheme))
        for units, action in actions.units.items():
            action.setChecked(units is settings.byte_units)
            action.triggered.connect(lambda _=True, units=units: self._use_units(units))

    def _use_scheme(self, scheme: Scheme) -> None:
        self._settings.scheme = scheme
        apply_scheme(scheme)

    def _use_units(self, units: ByteUnits) -> None:
        self._settings.byte_units = units
        use_units(units, self._window)
