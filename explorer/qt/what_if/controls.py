"""The line above a what-if: which tensors, which types, what is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

from PySide6 import QtWidgets
from PySide6.QtCore import QEvent, QPoint, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent

from explorer.analysis.recipes.fits import why_no_recipe
from explorer.analysis.recipes.ollama import BITS
from explorer.analysis.recipes.rules import RECIPES
from explorer.analysis.rounding import rounding_types
from explorer.present.tables.errors import FIGURES, WEIGHTED
from explorer.qt.document import Document
from explorer.qt.theme import Space
from explorer.qt.weights.work import same_role
from explorer.qt.what_if.chart import Measure
from explorer.qt.widgets.building import LINE, Flow, column, row
from explorer.qt.widgets.controls import choice
from explorer.quantization import TENSOR_TYPES
from explorer.quantization.huggingface.schemes import SCHEME_GROUPS, scheme_group
from explorer.quantization.registry import FAMILIES, family, has_encoder
from explorer.text import counted, integer_text, listed

USUAL_TYPES: Final = (
    *("Q4_0", "Q5_0", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "IQ4_XS", "MXFP4"),
)
"""What most files on the net are made of; all of them quick to try."""


def type_groups() -> list[tuple[str, tuple[str, ...]]]:
    """Return every type that weights can be rounded to, in groups with their titles.

    A title without types says which of ik_llama.cpp's cannot.
    """
    titles = {
        "plain": "Without codes",
        "legacy": "GGUF, simple",
        "k_quants": "GGUF, K",
        "iq": "GGUF, I",
        "ternary": "GGUF, ternary",
        "microscaling": "GGUF, microscaling",
        "ik": "GGUF of ik_llama.cpp",
        "others": "Ollama and MLX",
        **{group: group for group in SCHEME_GROUPS},  # names of libraries
    }
    found: dict[str, list[str]] = {name: [] for name in titles}
    for name in rounding_types():
        group = family(name) if name in TENSOR_TYPES else scheme_group(name) or "others"
        found["iq" if group == "iq4" else group].append(name)
    missing = (name for name in FAMILIES["ik"] if not has_encoder(name))
    groups: list[tuple[str, tuple[str, ...]]] = []
    for name, names in found.items():
        groups += [(titles[name], tuple(names))] if names else []
        groups += [(f"Not {listed(missing, 3)}", ())] if name == "ik" else []
    return groups


USUAL_RECIPES: Final = (
    *("Q2_K", "Q3_K_M", "IQ4_XS", "Q4_K_S", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0"),
)
"""What most files on the net are."""


def recipe_groups() -> list[tuple[str, tuple[str, ...]]]:
    """Return every recipe that quantizes, in groups with their titles."""
    titles = {"Q": "Simple and K", "I": "I", "": "Others"}
    found: dict[str, list[str]] = {start: [] for start in titles}
    for name, recipe in RECIPES.items():
        if recipe.quantized:
            found[name[0] if name[0] in titles else ""].append(name)
    return [(titles[start], tuple(names)) for start, names in found.items() if names]


_SHOWN_ROWS: Final = 22


class TypeList(QtWidgets.QFrame):
    """The types to tick in groups, in a window that closes at a click elsewhere.

    Args:
        name: What screen readers call the list.
        groups: Titles, and the types below each.
        usual: Types that are ticked at first.
        parent: The button that opens it.

    Signals:
        closed: The window was closed.
    """

    closed = Signal()

    def __init__(
        self,
        name: str,
        groups: Sequence[tuple[str, Sequence[str]]],
        usual: Sequence[str],
        parent: QtWidgets.QWidget,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setFrameShape(QtWidgets.QFrame.Shape.StyledPanel)
        self.list = QtWidgets.QListWidget(self)
        self.list.setAccessibleName(name)
        self._items: dict[str, QtWidgets.QListWidgetItem] = {}
        for title, names in groups:
            heading = QtWidgets.QListWidgetItem(title, self.list)
            heading.setFlags(Qt.ItemFlag.NoItemFlags)
            for each in names:
                item = self._items[each] = QtWidgets.QListWidgetItem(each, self.list)
                item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable)
        self.set_types(usual)
        buttons = row()
        for text, types in (("&All", tuple(self._items)), ("&None", ()), ("&Usual", tuple(usual))):
            button = QtWidgets.QPushButton(text, self)
            button.clicked.connect(lambda _=False, types=types: self.set_types(types))
            buttons.addWidget(button)
        column(self.list, buttons, of=self, margins=(Space.TIGHT,) * 4, spacing=-1)
        height = self.list.sizeHintForRow(0)
        self.list.setFixedHeight(height * _SHOWN_ROWS + 2 * self.list.frameWidth())

    @property
    def types(self) -> tuple[str, ...]:
        """The types that are ticked, in the order of the list."""
        on = Qt.CheckState.Checked
        return tuple(name for name, item in self._items.items() if item.checkState() == on)

    def set_types(self, types: Iterable[str]) -> None:
        """Tick these types and no others."""
        wanted = frozenset(types)
        with QSignalBlocker(self.list):
            for name, item in self._items.items():
                on = Qt.CheckState.Checked if name in wanted else Qt.CheckState.Unchecked
                item.setCheckState(on)

    # Qt

    def event(self, event: QEvent) -> bool:
        # else Escape would end the reading of weights, which is a shortcut of the panel around
        key = event.key() if isinstance(event, QKeyEvent) else None
        if event.type() == QEvent.Type.ShortcutOverride and key == Qt.Key.Key_Escape:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape):
            self.hide()
            return
        super().keyPressEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.closed.emit()


class TypeChooser(QtWidgets.QPushButton):
    """A button that says how many types are chosen, and opens their list.

    Args:
        noun: What it says that they are: types, or recipes.
        name: What the list is called; its groups and the usual types follow, see `TypeList`.
        parent: The controls.

    Signals:
        changed: Other types were chosen; emitted once, when the list is closed.
    """

    changed = Signal()

    def __init__(
        self,
        noun: str,
        name: str,
        groups: Sequence[tuple[str, Sequence[str]]],
        usual: Sequence[str],
        parent: QtWidgets.QWidget,
    ) -> None:
        super().__init__(parent)
        self.noun = noun
        self.popup = TypeList(name, groups, usual, self)
        self.types = self.popup.types
        self.setToolTip(name)
        self.clicked.connect(self.open_list)
        self.popup.closed.connect(self._take)
        self._show_count()

    def set_types(self, types: Iterable[str]) -> None:
        """Choose types, as if they were ticked one by one."""
        self.popup.set_types(types)
        self._take()

    def open_list(self) -> None:
        """Show the list below the button."""
        self.popup.move(self.mapToGlobal(QPoint(0, self.height())))
        self.popup.show()
        self.popup.list.setFocus()
        if self.popup.list.currentRow() < 0:
            self.popup.list.setCurrentRow(1)  # below the first heading

    def _take(self) -> None:
        if self.popup.types != self.types:
            self.types = self.popup.types
            self._show_count()
            self.changed.emit()

    def _show_count(self) -> None:
        self.setText(f"{counted(len(self.types), self.noun)}…")


_EXPERTS = frozenset({"experts", "shared_experts"})


class Scope(Enum):
    ONE = auto()
    SELECTED = auto()
    EXPERTS = auto()
    SAME_ROLE = auto()
    MODEL = auto()
    RECIPES = auto()
    OLLAMA = auto()


class WhatIfControls(QtWidgets.QWidget):
    """Choices of tensors, of types, and of what is drawn upwards.

    Signals:
        scope_changed: Other tensors were chosen.
    """

    scope_changed = Signal()

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: dict[Scope, tuple[int, ...] | None] = {}
        self.scope = choice(self, "Which tensors", "Which tensors other types are tried on")
        self.scope.setSizeAdjustPolicy(QtWidgets.QComboBox.SizeAdjustPolicy.AdjustToContents)
        types, recipes = type_groups(), recipe_groups()
        self.types = TypeChooser("type", "Types to try", types, USUAL_TYPES, self)
        self.recipes = TypeChooser("recipe", "Recipes to try", recipes, USUAL_RECIPES, self)
        own, name = tuple(BITS), "Recipes of Ollama to try"
        self.of_ollama = TypeChooser("recipe", name, [("Ollama", own)], own, self)
        self.choosers = self.types, self.recipes, self.of_ollama
        upwards = "Vertical axis"
        self.measure = choice(
            *(self, upwards, upwards),
            *(FIGURES[name].title for name in ("relative_rmse", "sqnr_db")),
            WEIGHTED["weighted_relative_rmse"].title,
        )
        choices = Flow(self.scope, *self.choosers, self.measure)
        row((choices, 1), of=self, margins=LINE)
        self.scope.activated.connect(lambda _: self._choose_scope())
        self._show_chooser()

    @property
    def chosen_scope(self) -> Scope:
        found = self.scope.currentData()
        return found if isinstance(found, Scope) else Scope.ONE

    @property
    def rows(self) -> tuple[int, ...] | None:
        """The chosen tensors, by row; None for the whole model."""
        return self._rows.get(self.chosen_scope, ())

    @property
    def by_recipe(self) -> bool:
        """Whether recipes are tried rather than types."""
        return self.chooser is not self.types

    @property
    def chooser(self) -> TypeChooser:
        """What the types or recipes are chosen with."""
        of_models = {Scope.RECIPES: self.recipes, Scope.OLLAMA: self.of_ollama}
        return of_models.get(self.chosen_scope, self.types)

    def _choose_scope(self) -> None:
        self._show_chooser()
        self.scope_changed.emit()

    def _show_chooser(self) -> None:
        for chooser in self.choosers:
            chooser.setVisible(chooser is self.chooser)

    @property
    def chosen_measure(self) -> Measure:
        """What is drawn upwards."""
        return Measure(self.measure.currentIndex())

    def choose(self, scope: Scope) -> None:
        """Choose tensors, as if that was picked in the list."""
        self.scope.setCurrentIndex(self.scope.findData(scope))
        self._choose_scope()

    def show_subject(self, document: Document | None, rows: Sequence[int]) -> None:
        """List what can be chosen around the selected tensors, the one that matters most first.

        What was chosen stays if it is still there.
        """
        before = self.chosen_scope
        self._rows = {} if document is None else _choices(document, rows)
        with QSignalBlocker(self.scope):
            self.scope.clear()
            for scope, some in self._rows.items():
                self.scope.addItem(self._title(scope, some), scope)
            self.scope.setCurrentIndex(max(0, self.scope.findData(before)))
        self._show_chooser()

    def _title(self, scope: Scope, rows: tuple[int, ...] | None) -> str:
        count = integer_text(len(rows or ()))
        return {
            Scope.ONE: "This tensor",
            Scope.SELECTED: f"Selected tensors ({count})",
            Scope.EXPERTS: f"Experts of the layer ({count})",
            Scope.SAME_ROLE: f"Same role in every layer ({count})",
            Scope.MODEL: "Whole model",
            Scope.RECIPES: "Whole model, as llama-quantize makes it",
            Scope.OLLAMA: "Whole model, as Ollama makes it",
        }[scope]


def _choices(document: Document, rows: Sequence[int]) -> dict[Scope, tuple[int, ...] | None]:
    offered: dict[Scope, tuple[int, ...] | None] = {}
    if rows:
        several = {
            Scope.SELECTED: tuple(sorted(rows)),
            Scope.EXPERTS: _experts(document, rows[0]),
            Scope.SAME_ROLE: tuple(same_role(document, rows[0])),
        }
        offered[Scope.ONE] = (rows[0],)
        offered |= {scope: some for scope, some in several.items() if len(some) > 1}
    offered[Scope.MODEL] = None
    if why_no_recipe(document.model) is None:
        is_gguf = document.model.format == "gguf"
        offered[Scope.RECIPES if is_gguf else Scope.OLLAMA] = None
    return offered


def _experts(document: Document, row: int) -> tuple[int, ...]:
    tensors = document.model.tensors
    name = tensors.rows[row].group
    for group in document.model.groups:
        if group.name == name and group.kind in _EXPERTS:
            rows = (tensors.row_of(one) for one in group.tensors)
            return tuple(sorted(found for found in rows if found is not None))
    return ()
