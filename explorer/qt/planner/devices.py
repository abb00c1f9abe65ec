"""The machine of a plan: its GPUs, from a catalogue or typed, and its main memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from PySide6 import QtCore, QtWidgets
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent

from explorer.errors import PlanError
from explorer.hardware.catalogue import Catalogue, load_catalogue
from explorer.planner import Device, Host
from explorer.planner.devices import GIB, parse_gpu, parse_memory
from explorer.planner.plans import Range
from explorer.planner.settings import CACHE_TYPES
from explorer.present.curves import context_stops
from explorer.present.engines import range_text
from explorer.present.plan import device_name, device_text, short_name, size_text
from explorer.present.tables.plans import GPUS
from explorer.qt.document import Document
from explorer.qt.jobs import JobSlot
from explorer.qt.planner.fields import (
    CalmComboBox,
    CalmSpinBox,
    SizeEdit,
    TokenSpinBox,
    colour_text,
    menu_button,
    push_button,
)
from explorer.qt.planner.state import CurrentPlan, PlannedModel, PlannerState, read_model
from explorer.qt.services import Services
from explorer.qt.theme import Space, scaled
from explorer.qt.widgets.building import Flow, add_action, column, row
from explorer.qt.widgets.controls import label_of
from explorer.qt.widgets.labels import Tile, plain_label
from explorer.qt.widgets.painting import plain_tip, stand_on_page
from explorer.qt.widgets.table_model import RIGHT, Index, ItemRole, TableModel
from explorer.qt.widgets.table_view import FilterBar, PaddedDelegate, PaddedHeader, TableView
from explorer.text import UNKNOWN, bytes_text, integer_text, plain_text, shorten

NAME, FREE, RESERVE = 0, 1, 2
_MEANINGS: Final = {
    NAME: "The GPU, by its maker's name.",
    FREE: "Free memory to plan with. Double-click to change it.",
    RESERVE: "Kept for the driver and other programs. Double-click to change it.",
}
_MIME: Final = "application/x-gguf-explorer-gpu"
_LONGEST_NAME: Final = 60
_LONGEST_ALSO: Final = 20
_MOST_AT_ONCE: Final = 16
_SHOWN_ROWS: Final = 4


_START = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


class DeviceTable(QtCore.QAbstractTableModel):
    """The GPUs of a plan: their names, their free memory and their reserve, which can be edited.

    A row that is dropped elsewhere moves there.
    """

    def __init__(self, state: PlannerState, parent: QtCore.QObject | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._devices: tuple[Device, ...] = ()
        self._reserves: list[Range | None] = []

    def move(self, source: int, target: int) -> None:
        """Move a device so that it stands before the one at `target`; or last."""
        devices = list(self._devices)
        if not 0 <= source < len(devices):
            return
        device = devices.pop(source)
        devices.insert(target - (target > source), device)
        self._state.replace_inputs(devices=tuple(devices))

    def remove(self, rows: Iterable[int]) -> None:
        """Plan without some devices."""
        gone = set(rows)
        kept = tuple(device for row, device in enumerate(self._devices) if row not in gone)
        self._state.replace_inputs(devices=kept)

    def show_devices(self, devices: tuple[Device, ...]) -> None:
        """Show other devices, or another plan of theirs; the selection stays where it can."""
        if [device.key for device in devices] != [device.key for device in self._devices]:
            self.beginResetModel()
            self._devices, self._reserves = devices, [*map(self._reserve, devices)]
            self.endResetModel()
            return
        reserves = [*map(self._reserve, devices)]
        if (devices, reserves) != (self._devices, self._reserves):  # a view takes milliseconds
            self._devices, self._reserves = devices, reserves
            self.dataChanged.emit(self.index(0, 0), self.index(len(devices) - 1, RESERVE))

    # Qt

    def rowCount(self, parent: Index = QtCore.QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self._devices)

    def columnCount(self, parent: Index = QtCore.QModelIndex()) -> int:
        return 0 if parent.isValid() else 3

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        device, column = self._devices[index.row()], index.column()
        roles = Qt.ItemDataRole
        cells: dict[int, Any] = {
            roles.ToolTipRole: device_text(device),
            roles.WhatsThisRole: _MEANINGS[column],
            ItemRole.ROW: index.row(),
        }
        if column == NAME:
            cells |= {roles.DisplayRole: short_name(device), ItemRole.RAW: device_name(device)}
            return cells.get(role)
        free = column == FREE
        size = Range.exactly(device.free) if free else self._reserves[index.row()]
        cells[roles.TextAlignmentRole] = RIGHT
        cells |= {roles.DisplayRole: UNKNOWN, roles.EditRole: ""}
        if size is not None:
            cells |= {roles.DisplayRole: bytes_text(size.high), ItemRole.RAW: size.high}
            if size.low == size.high:
                cells[roles.EditRole] = size_text(size.high)
            else:  # as much as the bars show
                cells[roles.ToolTipRole] = f"{range_text(size)} by logs. Plans keep the most free."
        return cells.get(role)

    def _reserve(self, device: Device) -> Range | None:
        """Return what is held back of a GPU: its own, what is asked for all, or as planned."""
        asked = self._state.inputs.settings.reserve
        known = device.reserve if device.reserve is not None else asked
        if known is not None:
            return Range.exactly(known)
        plan = self._state.current.plan
        held = plan.gpus if plan is not None else ()  # of what other models leave free
        return next(
            (one.reserve for one in held if one.device and one.device.key == device.key), None
        )

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Take free memory, or a reserve; an empty reserve is that of all GPUs again."""
        if not index.isValid() or index.column() == NAME or role != Qt.ItemDataRole.EditRole:
            return False
        row, text = index.row(), str(value).strip()
        if text == index.data(Qt.ItemDataRole.EditRole):
            return True  # it may be rounded, and was not touched
        try:
            if index.column() == FREE:
                device = replace(self._devices[row], free=parse_memory(text))
            else:
                device = replace(self._devices[row], reserve=parse_memory(text) if text else None)
        except PlanError as error:
            self._state.refused.emit(error)
            return False
        devices = (*self._devices[:row], device, *self._devices[row + 1 :])
        self._state.replace_inputs(devices=devices)
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled  # between and below the rows
        flags = super().flags(index) | Qt.ItemFlag.ItemIsDragEnabled
        return flags | Qt.ItemFlag.ItemIsEditable if index.column() != NAME else flags

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        titles = {NAME: "GPU", FREE: "Free", RESERVE: "Reserve"}
        if orientation != Qt.Orientation.Horizontal or section not in titles:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return titles[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _START if section == NAME else RIGHT
        return _MEANINGS[section] if role == Qt.ItemDataRole.WhatsThisRole else None

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [_MIME]

    def mimeData(self, indexes: Sequence[QtCore.QModelIndex]) -> QtCore.QMimeData:
        data = QtCore.QMimeData()
        rows = sorted({index.row() for index in indexes})
        data.setData(_MIME, str(rows[0] if rows else -1).encode())
        return data

    def dropMimeData(
        self, data: QtCore.QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index
    ) -> bool:
        if action != Qt.DropAction.MoveAction or not data.hasFormat(_MIME):
            return False
        text = bytes(data.data(_MIME).data()).decode("ascii", "replace")
        if not text.isdigit():
            return False
        target = row if row >= 0 else parent.row() if parent.isValid() else len(self._devices)
        self.move(int(text), target)
        return False  # else the view would remove the row that was dragged


def added(devices: tuple[Device, ...], device: Device, count: int = 1) -> tuple[Device, ...]:
    """Return devices with some more of one kind, each with an id that none of them has."""
    for _ in range(count):
        taken = {other.key for other in devices}
        named = (replace(device, id=str(number)) for number in range(len(devices) + 1))
        devices = (*devices, next(one for one in named if one.key not in taken))
    return devices


_SEVERAL: Final = re.compile(r"\s*(\d{1,2})\s*[x×*]\s*(\S.*)")
"""What says how many of a GPU are meant: ``2x 4090``."""


class CatalogueDialog(QtWidgets.QDialog):
    """A list of GPUs with a search line; ``2x 4090`` there means two of them.

    Signals:
        gpu_chosen: A GPU and how many of it.
    """

    gpu_chosen = Signal(object, int)

    def __init__(self, catalogue: Catalogue, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Add GPUs")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(760, 480)
        self._gpus = catalogue.gpus
        self._catalogue = catalogue
        hint = "Search:  rtx 3090   2x 4090   laptop   rocm   12 GB"
        self.search = FilterBar(hint, hint, self)
        self.model = TableModel(self)
        self.table = TableView(self.model, app, self)
        self.table.of_model = False
        self.table.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.table.show_rows(GPUS, self._gpus)
        self.count = CalmSpinBox(self, 1, _MOST_AT_ONCE)
        self.count.setAccessibleName("How many")
        self.count.lineEdit().setAccessibleName("How many")
        self.add = QtWidgets.QPushButton("&Add", self, default=True)
        self._lay_out()
        self.search.changed.connect(self._filter)
        self.search.left_down.connect(self._go_down)
        self.search.edit.returnPressed.connect(self._choose)
        self.table.row_opened.connect(lambda _: self._choose())
        self.add.clicked.connect(self._choose)
        self._filter("")
        self.search.focus()

    def _lay_out(self) -> None:
        close = QtWidgets.QDialogButtonBox(QtWidgets.QDialogButtonBox.StandardButton.Cancel, self)
        close.rejected.connect(self.reject)
        line = row(label_of(self.count, "&How many"), self.count, self.add, 1, close)
        around = (Space.WIDE,) * 4
        column(self.search, (self.table, 1), line, of=self, margins=around, spacing=Space.NEAR)

    def _filter(self, text: str) -> None:
        several, words = _SEVERAL.fullmatch(text), self._words
        if several is not None:
            self.count.setValue(int(several[1]))
        found = self._catalogue.search(words)
        names = {gpu.name for gpu in found}
        rest = [gpu for gpu in self._catalogue.gpus if gpu.name not in names]
        self._gpus = (*found, *rest)
        self.model.set_content(GPUS, self._gpus)
        self.model.set_filter(np.arange(len(self._gpus)) < len(found))
        shown, whole = integer_text(self.model.rowCount()), integer_text(len(self._gpus))
        if self.model.rowCount():
            self.table.selectRow(0)
        device = self.chosen()
        known = f"{shown} of {whole}" if device is not None else "Not known. Type its memory: 12 GB"
        self.search.status.setText(known)
        typed = device is not None and not self.model.rowCount()
        self.add.setText(
            f"&Add a card of {device.free / GIB:.4g} GB" if typed and device else "&Add"
        )
        self.add.setEnabled(device is not None)

    @property
    def _words(self) -> str:
        """What is searched, without how many of it are meant."""
        several = _SEVERAL.fullmatch(self.search.text)
        return self.search.text if several is None else several[2]

    def chosen(self) -> Device | None:
        """Return the GPU that Add would add: the current row, or the size that was typed."""
        index = self.table.currentIndex()
        if self.model.rowCount() and index.isValid():
            return self._gpus[self.model.content_row(index)].device()
        try:
            return parse_gpu(self._words)
        except PlanError:
            return None

    def _go_down(self) -> None:
        """Go from the search line, in which Enter adds the first GPU, to the second."""
        if self.model.rowCount():
            self.table.selectRow(min(1, self.model.rowCount() - 1))
            self.table.setFocus(Qt.FocusReason.OtherFocusReason)

    def _choose(self) -> None:
        """Add the GPUs, and close: Enter in the search line, Add, or a double click."""
        device = self.chosen()
        if device is not None:
            self.gpu_chosen.emit(device, self.count.value())
            self.accept()


class DevicesBox(Tile):
    """The machine of a plan, as a tile: GPUs and main memory.

    Attributes:
        table: The GPUs; rows are dragged to reorder, free memory is edited in place.
        catalogue: What can be added; None until it is read.
        sets: Opens the menu of this machine and of remembered sets.
        forget: The menu that forgets a set.
        ram: Free main memory.
        also: Opens the menu of models that are loaded at the same time.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self.app = app
        self._reading, self._reading_also = JobSlot(app.runner, self), JobSlot(app.runner, self)
        self.catalogue: Catalogue | None = None
        self.model = DeviceTable(state, self)
        self.table = _DeviceView(self.model, self)
        self.add = push_button(self, "", "Choose it from the catalogue")
        self.empty = plain_label(self, wraps=True)
        self.empty.setText("Without a GPU, models run on the CPU, in main memory.")
        tip = "Remove the selected GPU (Delete)"
        self.remove = push_button(self, "Remo&ve", tip)
        tip = "This machine, or one that you saved"
        self.sets = menu_button(self, "Saved machines", tip)
        self.sets.menu().aboutToShow.connect(self._fill_sets)
        self.forget = QtWidgets.QMenu("Forget", self.sets)
        self.ram = self._memory("Free main memory")
        self.notes = plain_label(self, wraps=True)
        tip = "Models that are loaded at the same time: their memory is taken off"
        self.also = menu_button(self, "", tip)
        self.also.menu().aboutToShow.connect(self._fill_also)
        self._lay_out()
        self.add.clicked.connect(self.show_catalogue)
        self.add.setEnabled(False)
        self.remove.clicked.connect(self._remove_selected)
        add_action(self.table, "Remove", self._remove_selected, "Delete")
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._offer_removal())
        self.ram.size_chosen.connect(self._set_ram)
        self._fill_sets()
        self.follow(state.current)
        state.plan_changed.connect(self.follow)
        state.basis.look()
        title = "Reading the catalogue of GPUs"
        refused = state.refused.emit
        self._reading.run(title, lambda _job: load_catalogue(), self.set_catalogue, refused)

    def show_catalogue(self) -> None:
        """Open the list of GPUs."""
        if self.catalogue is not None:
            dialog = CatalogueDialog(self.catalogue, self.app, self)
            dialog.gpu_chosen.connect(self.add_devices)
            dialog.open()

    def set_catalogue(self, catalogue: Catalogue) -> None:
        """Offer the GPUs of a catalogue."""
        self.catalogue = catalogue
        self.add.setEnabled(True)
        if self.sets.hasFocus() and self.table.isHidden():  # Qt chose the first that could
            self.add.setFocus()

    def add_devices(self, device: Device, count: int = 1) -> None:
        """Plan for some more GPUs."""
        more = added(self._state.inputs.devices, device, count)
        self._use(more)

    def tab_chain(self) -> list[QtWidgets.QWidget]:
        """Return what takes the focus, in reading order."""
        return [*(self.table, self.add, self.remove, self.sets, self.ram, self.also)]

    def _remove_selected(self) -> None:
        self.model.remove(self._removable())

    def _removable(self) -> set[int]:
        """Return the rows that are selected; of one GPU there is no doubt which is meant."""
        selected = {index.row() for index in self.table.selectedIndexes()}
        return selected or ({0} if self.model.rowCount() == 1 else set())

    def _offer_removal(self) -> None:
        self.remove.setEnabled(bool(self._removable()))

    # Sets

    def _fill_sets(self) -> None:
        menu, state = self.sets.menu(), self._state
        menu.clear()
        own = menu.addAction("This machine", self._use_machine)
        own.setEnabled(state.machine is not None)
        menu.addAction("Look at this machine again", self._look_again)
        menu.addSeparator()
        self.forget.clear()
        self.forget.setEnabled(bool(state.sets))
        for name, devices in state.sets.items():
            text = plain_text(name).replace("&", "&&")  # an ampersand would be a mnemonic
            menu.addAction(text, partial(self._use, devices))
            self.forget.addAction(text, partial(state.forget, name))
        menu.addAction("Save this machine…", self._ask_name)
        menu.addMenu(self.forget)

    def _look_again(self) -> None:
        self._state.basis.look(again=True)

    def _use_machine(self) -> None:
        machine = self._state.machine
        if machine is not None:
            self._use(machine.devices, host=machine.host)

    def _use(self, devices: tuple[Device, ...], **others: Any) -> None:
        """Plan for some GPUs, with the reserves that are remembered for them."""
        self._state.replace_inputs(devices=self._state.basis.with_reserves(devices), **others)

    def _ask_name(self) -> None:
        title, label = "Save machine", "Name of this machine:"
        name, accepted = QtWidgets.QInputDialog.getText(self, title, label)
        if accepted and name.strip():
            self._state.remember(shorten(plain_text(name.strip()), _LONGEST_NAME))

    # Main memory

    def _set_ram(self, nbytes: int | None) -> None:
        """Plan for other main memory; None checks nothing against it."""
        host = self._state.inputs.host or Host(free=0)
        changed = None if nbytes is None else replace(host, free=nbytes)
        self._state.replace_inputs(host=changed)

    def follow(self, current: CurrentPlan) -> None:
        """Show the devices of a plan, and without any what was found of this machine."""
        self._show_also()
        host, devices, machine = current.inputs.host, current.inputs.devices, self._state.machine
        self.model.show_devices(devices)
        self.ram.show_size(None if host is None else host.free)
        for part in (self.table, self.remove):
            part.setVisible(bool(devices))
        self.empty.setVisible(not devices and machine is not None)
        # one button: after the first GPU was added the focus stays where it was
        self.add.setText("&Add a GPU…" if devices else "&Add your GPU…")
        self.table.show_rows()
        self._offer_removal()
        text = "" if machine is None or devices else plain_text(" ".join(machine.notes))
        if text != self.notes.text():
            self.notes.setText(text)
            self.notes.setToolTip(plain_tip(text))
        self.notes.setVisible(bool(text))

    # Parts

    def _lay_out(self) -> None:
        buttons, around = Flow(self.add, self.remove, self.sets), (Space.WIDE,) * 4
        ram = label_of(self.ram, "&Main memory")
        memory = row(ram, self.ram, 1)
        parts = (self.empty, self.table, self.notes, buttons, memory, Flow(self.also))
        column(*parts, of=self, spacing=Space.NEAR, margins=around)

    def _fill_also(self) -> None:
        """Offer the other open models as loaded already, and to unload what is."""
        menu, state = self.also.menu(), self._state
        menu.clear()
        for model in (*state.others, *(one for one in state.also if one not in state.others)):
            text = plain_text(model.title).replace("&", "&&")
            action = menu.addAction(text, partial(self._toggle_also, model))
            action.setCheckable(True)
            action.setChecked(model.path in {one.path for one in state.also})
        menu.addSeparator()
        menu.addAction("Open another model…", lambda: self.app.ask_model(self._read_also))

    def _read_also(self, document: Document) -> None:
        """Load a model that was opened for this; the one that is planned stays in front."""
        title = f"Reading {plain_text(document.title)}"
        self._reading_also.run(
            title, lambda _job: read_model(document), self._toggle_also, self.app.report
        )

    def _toggle_also(self, model: PlannedModel) -> None:
        others = [one for one in self._state.also if one.path != model.path]
        known = len(others) < len(self._state.also)
        self._state.set_also(others if known else [*others, model])

    def _show_also(self) -> None:
        loaded = self._state.loaded
        parts = (f"{shorten(one.title, _LONGEST_ALSO)}, {bytes_text(one.total)}" for one in loaded)
        text = " · ".join(parts) or ("does not fit" if self._state.also else "nothing")
        self.also.setText(f"Also loaded: {text}".replace("&", "&&"))
        self.also.setAccessibleName(f"Also loaded: {text}")

    def _memory(self, name: str) -> SizeEdit:
        edit = SizeEdit(self)
        edit.setAccessibleName(name)
        edit.setToolTip(f"{name}. Empty: not checked")
        edit.setPlaceholderText("not checked")
        edit.setMinimumWidth(60)
        return edit


_DIALOG_WIDTH: Final = 460


class MachineDialog(QtWidgets.QDialog):
    """The machine that everything is planned for, to be changed from any page, without a model."""

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Machine to plan for")
        text = plain_label(self, wraps=True)
        text.setText(
            "The library, the planner and all other pages say what fits this machine. It need "
            "not be the one in front of you."
        )
        state.flush()  # the planner may never have been shown
        self._basis = state.basis
        self.devices = DevicesBox(state, app, self)
        self.context = TokenSpinBox(context_stops(0), self)
        self.context.show_value(self._basis.context)
        self.cache_type = CalmComboBox(self)
        self.cache_type.offer({name: name for name in CACHE_TYPES})
        self.cache_type.show_value(self._basis.cache_type)
        self.context.valueChanged.connect(self._ask_of_all)
        self.cache_type.currentIndexChanged.connect(self._ask_of_all)
        asked = Flow(
            *(label_of(self.context, "&Context"), self.context),
            *(label_of(self.cache_type, "&KV cache type"), self.cache_type),
        )
        asked_of = plain_label(
            self, "Every model is planned with this, unless you change it in the planner:"
        )
        self.refused = plain_label(self, wraps=True)
        self.refused.hide()
        colour_text(self.refused, warning=True)
        state.refused.connect(self._say)
        state.plan_changed.connect(self.refused.hide)
        buttons = QtWidgets.QDialogButtonBox(QtWidgets.QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        parts = text, self.devices, asked_of, asked, self.refused, 1, buttons
        column(*parts, of=self, spacing=Space.WIDE, margins=(Space.GROUP,) * 4)
        self.resize(scaled(_DIALOG_WIDTH), self.sizeHint().height())

    def _ask_of_all(self) -> None:
        self._basis.ask_of_all(self.context.value(), str(self.cache_type.currentData()))

    def _say(self, error: object) -> None:
        self.refused.setText(plain_text(str(error)))
        self.refused.show()

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Have Enter press the button that has the focus, or take a value: it closes nothing."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
        elif isinstance(button := self.focusWidget(), QtWidgets.QAbstractButton):
            button.click()


class _SizeDelegate(PaddedDelegate):
    """Lets sizes be typed as in the fields."""

    # Qt

    def createEditor(
        self, parent: QtWidgets.QWidget, _option: QtWidgets.QStyleOptionViewItem, _index: Index
    ) -> QtWidgets.QWidget:
        return SizeEdit(parent)

    def setEditorData(self, editor: QtWidgets.QWidget, index: Index) -> None:
        assert isinstance(editor, SizeEdit)  # made above
        editor.show_size(index.data(ItemRole.RAW))


class _DeviceView(QtWidgets.QTableView):
    """The table of GPUs."""

    def __init__(self, model: DeviceTable, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent, showGrid=False, wordWrap=False)
        self._devices = model
        stand_on_page(self)
        self.setHorizontalHeader(PaddedHeader(self))
        self.setModel(model)
        self.setItemDelegate(_SizeDelegate(self))
        self.setAccessibleName("GPUs")
        self.setAccessibleDescription("Drag, or Alt with an arrow key, reorders")
        self.setToolTip("Drag rows to reorder. Double-click a size to change it.")
        self.setSelectionBehavior(QtWidgets.QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QtWidgets.QAbstractItemView.SelectionMode.SingleSelection)
        self.setDragDropMode(QtWidgets.QAbstractItemView.DragDropMode.InternalMove)
        self.setDragDropOverwriteMode(False)
        self.setDropIndicatorShown(True)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(NAME, QtWidgets.QHeaderView.ResizeMode.Stretch)
        for section in (FREE, RESERVE):
            header.setSectionResizeMode(section, QtWidgets.QHeaderView.ResizeMode.ResizeToContents)
        self.show_rows()
        add_action(self, "Move up", lambda: self._shift(-1), "Alt+Up")
        add_action(self, "Move down", lambda: self._shift(1), "Alt+Down")

    def show_rows(self) -> None:
        """Take the height of the GPUs, up to some."""
        rows, line = min(max(self._devices.rowCount(), 1), _SHOWN_ROWS), self.fontMetrics().height()
        header = self.horizontalHeader().sizeHint().height()
        self.verticalHeader().setDefaultSectionSize(line + 7)
        self.setFixedHeight(header + rows * (line + 7) + 4)

    def _shift(self, by: int) -> None:
        row = self.currentIndex().row()
        target = row + by
        if row >= 0 and 0 <= target < self._devices.rowCount():
            self._devices.move(row, target + (by > 0))
            self.setCurrentIndex(self._devices.index(target, NAME))

    # Qt

    def changeEvent(self, event: QtCore.QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QtCore.QEvent.Type.FontChange:
            self.show_rows()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        index = self.currentIndex()  # Qt makes a row current and selects none: Delete needs one
        if index.isValid() and not self.selectionModel().hasSelection():
            self.selectRow(index.row())

    def currentChanged(self, current: QtCore.QModelIndex, previous: QtCore.QModelIndex) -> None:  # type: ignore[override] # the stub wants the persistent kind too
        super().currentChanged(current, previous)
        if current.isValid():
            self.scrollTo(current)
