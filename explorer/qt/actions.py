"""Every command of the window, made in one place; menus, keys and the shortcut list share them."""

from __future__ import annotations

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow, QWidget

from explorer.qt.locale_numbers import use_units
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme, apply_scheme
from explorer.text import ByteUnits

Key = QKeySequence.StandardKey


class Actions:
    """The commands of a window, as `QAction`s.

    Attributes:
        of_a_model: Those that need an open model.
    """

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        tr, make = window.tr, self._make
        self.open_files = make(tr("&Open file…"), Key.Open, tr("Open model files"))
        tip = tr("Open the folder of a Hugging Face model")
        self.open_folder = make(tr("Open &folder…"), "Ctrl+Shift+O", tip)
        tip = tr("Open a small model that this program makes")
        self.open_demo = make(tr("Open &demo model"), "", tip)
        tip = tr("Show what a program measured beside the plan of the current model")
        self.compare_log = make(tr("Compare with a &log…"), "", tip)
        self.close_model = make(tr("&Close model"), "Ctrl+W", tr("Close the current model"))
        self.clear_recent = make(tr("&Forget these"), "", tr("Empty the list of recent models"))
        self.quit = make(tr("&Quit"), Key.Quit, tr("Close the program"))
        self.find = make(tr("&Find"), Key.Find, tr("Search or filter what is shown"))
        tip = tr("Jump to any model, key, tensor or command")
        self.go_to = make(tr("&Go to…"), "Ctrl+K", tip)
        tip = tr("Copy the path of the current model")
        self.copy_path = make(tr("Copy model's &path"), "Ctrl+Alt+C", tip)
        tip = tr("Open the guide at the panel in front")
        self.guide = make(tr("&Guide"), Key.HelpContents, tip)
        self.shortcuts = make(tr("&Keyboard shortcuts"), "Ctrl+?", tr("List every shortcut"))
        tip = tr("Point at a figure to read what it means")
        self.whats_this = make(tr("&What's this?"), Key.WhatsThis, tip)
        tip = tr("Explain the figure that has the focus")
        self.explain = make(tr("&Explain the current figure"), "Ctrl+F1", tip)
        self.tour = make(tr("&Tour"), "", tr("Show the parts of the window one after another"))
        self.about = make(tr("&About"), "", tr("Version and licence"))
        tip = tr("Put every panel back to its default place")
        self.reset_layout = make(tr("&Reset layout"), "", tip)
        for name, action in vars(self).items():
            if isinstance(action, QAction):
                action.setObjectName(name)
        self.of_a_model = (self.close_model, self.compare_log, self.copy_path)
        self.schemes = {
            Scheme.SYSTEM: make(tr("As the &system")),
            Scheme.LIGHT: make(tr("&Light")),
            Scheme.DARK: make(tr("&Dark")),
            Scheme.CONTRAST: make(tr("High &contrast")),
        }
        binary, decimal = tr("KiB, MiB, GiB (powers of &1024)"), tr("kB, MB, GB (powers of 1&000)")
        self.units = {
            ByteUnits.BINARY: make(binary, "", tr("As memory is sold")),
            ByteUnits.DECIMAL: make(decimal, "", tr("As disks are sold")),
        }
        for kind, choices in (("scheme", self.schemes), ("units", self.units)):
            group = QActionGroup(window)
            for choice, action in choices.items():
                action.setObjectName(f"{kind}_{choice.value}")
                action.setCheckable(True)
                group.addAction(action)

    def all(self) -> list[QAction]:
        """Return every command."""
        own = [value for value in vars(self).values() if isinstance(value, QAction)]
        return [*own, *self.schemes.values(), *self.units.values()]

    def _make(self, text: str, keys: QKeySequence.StandardKey | str = "", tip: str = "") -> QAction:
        action = QAction(text, self._window)
        if keys:
            action.setShortcut(QKeySequence(keys))
        action.setStatusTip(tip)
        self._window.addAction(action)
        return action


def offer_appearance(settings: Settings, actions: Actions, window: QWidget) -> None:
    """Let the menu View apply and save colours and units."""

    def choose_scheme(scheme: Scheme) -> None:
        settings.scheme = scheme
        apply_scheme(scheme)

    def choose_units(units: ByteUnits) -> None:
        settings.byte_units = units
        use_units(units, window)

    for scheme, action in actions.schemes.items():
        action.setChecked(scheme is settings.scheme)
        action.triggered.connect(lambda _=True, scheme=scheme: choose_scheme(scheme))
    for units, action in actions.units.items():
        action.setChecked(units is settings.byte_units)
        action.triggered.connect(lambda _=True, units=units: choose_units(units))
