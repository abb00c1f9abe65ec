"""The GPUs to plan for as a list that can be edited and reordered, and ways to make such lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from PySide6.QtCore import (
    QAbstractTableModel,
    QCoreApplication,
    QMimeData,
    QModelIndex,
    QObject,
    Qt,
)

from explorer.errors import PlanError
from explorer.planner import Device
from explorer.planner.devices import parse_size
from explorer.present.explanations import gpu_texts
from explorer.qt.planner.state import PlannerSession
from explorer.qt.widgets.table_model import RIGHT, Index, ItemRole
from explorer.text import byte_unit, bytes_text, integer_text, plain_text, shorten, written_number

NAME, FREE = 0, 1
_MIME: Final = "application/x-gguf-explorer-gpu"
_LONGEST_NAME: Final = 80


class DeviceTable(QAbstractTableModel):
    """The session's GPUs: their names, and their free memory, which can be edited.

    A row that is dropped elsewhere moves there; the view need not do anything about it.
    """

    def __init__(self, session: PlannerSession, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._devices = session.inputs.devices
        session.inputs_changed.connect(self._follow)

    @property
    def devices(self) -> tuple[Device, ...]:
        """What is shown."""
        return self._devices

    def move(self, source: int, target: int) -> None:
        """Move a device so that it stands before the one at `target`; or last."""
        devices = list(self._devices)
        if not 0 <= source < len(devices):
            return
        device = devices.pop(source)
        devices.insert(target - (target > source), device)
        self._session.set_devices(tuple(devices))

    def remove(self, rows: Iterable[int]) -> None:
        """Plan without some devices."""
        gone = set(rows)
        kept = [device for row, device in enumerate(self._devices) if row not in gone]
        self._session.set_devices(tuple(kept))

    def _follow(self) -> None:
        devices = self._session.inputs.devices
        if devices == self._devices:
            return
        if [device.key for device in devices] != [device.key for device in self._devices]:
            self.beginResetModel()
            self._devices = devices
            self.endResetModel()
            return
        self._devices = devices
        self.dataChanged.emit(self.index(0, 0), self.index(len(devices) - 1, FREE))

    # Qt

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self._devices)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else 2

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        device, column = self._devices[index.row()], index.column()
        cells: dict[int, Any]
        if column == NAME:
            name = shorten(plain_text(device.name or device.key), _LONGEST_NAME)
            cells = dict.fromkeys((Qt.ItemDataRole.DisplayRole, ItemRole.RAW), name)
        else:
            cells = {
                Qt.ItemDataRole.DisplayRole: bytes_text(device.free),
                Qt.ItemDataRole.EditRole: size_text(device.free),
                Qt.ItemDataRole.TextAlignmentRole: RIGHT,
                ItemRole.RAW: device.free,
            }
        if role == Qt.ItemDataRole.ToolTipRole:
            return device_tip(device)
        if role == Qt.ItemDataRole.WhatsThisRole:
            return _meaning(column)
        return index.row() if role == ItemRole.ROW else cells.get(role)

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if not index.isValid() or index.column() != FREE or role != Qt.ItemDataRole.EditRole:
            return False
        row = index.row()
        if str(value) == size_text(self._devices[row].free):
            return True  # it may be rounded, and was not touched
        try:
            device = replace(self._devices[row], free=parse_size(str(value)))
        except PlanError as error:
            self._session.refused.emit(error)
            return False
        devices = (*self._devices[:row], device, *self._devices[row + 1 :])
        self._session.set_devices(devices)
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled  # between and below the rows
        flags = super().flags(index) | Qt.ItemFlag.ItemIsDragEnabled
        return flags | Qt.ItemFlag.ItemIsEditable if index.column() == FREE else flags

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or section not in (NAME, FREE):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return {NAME: self.tr("GPU"), FREE: self.tr("Free memory")}[section]
        return _meaning(section) if role == Qt.ItemDataRole.WhatsThisRole else None

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [_MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        data = QMimeData()
        rows = sorted({index.row() for index in indexes})
        data.setData(_MIME, str(rows[0] if rows else -1).encode())
        return data

    def dropMimeData(
        self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index
    ) -> bool:
        if action != Qt.DropAction.MoveAction or not data.hasFormat(_MIME):
            return False
        text = bytes(data.data(_MIME).data()).decode("ascii", "replace")
        if not text.isdigit():
            return False
        target = row if row >= 0 else parent.row() if parent.isValid() else len(self._devices)
        self.move(int(text), target)
        return False  # else the view would remove the row that was dragged


def device_tip(device: Device) -> str:
    """Return what is known of a device, line by line."""
    lines = [device.label, _tr("{n} bytes free").format(n=integer_text(device.free))]
    if device.total is not None:
        lines.append(_tr("{size} in all").format(size=bytes_text(device.total)))
    if device.integrated:
        lines.append(_tr("shares the memory of the machine"))
    if device.compute is not None:
        version = ".".join(map(str, device.compute))
        lines.append(_tr("compute capability {version}").format(version=version))
    return "\n".join(map(plain_text, lines))


def _meaning(column: int) -> str:
    return gpu_texts()["name" if column == NAME else "free"]


def added(devices: tuple[Device, ...], device: Device, count: int = 1) -> tuple[Device, ...]:
    """Return devices with some more of one kind, each with an id that none of them has."""
    for _ in range(count):
        taken = {other.key for other in devices}
        names = (replace(device, id=str(number)) for number in range(len(devices) + 1))
        devices = (*devices, next(one for one in names if one.key not in taken))
    return devices


def size_text(nbytes: int) -> str:
    """Return a size as one would type it, and exact if that is short; else rounded."""
    for power in (3, 2, 1):
        unit, unit_bytes = byte_unit(power)
        if nbytes >= unit_bytes:
            text = f"{nbytes / unit_bytes:.6g}"
            if "e" not in text and Fraction(text) * unit_bytes == nbytes:
                return f"{written_number(text)} {unit}"
    return bytes_text(nbytes)


def _tr(text: str) -> str:
    return QCoreApplication.translate("Devices", text)
