"""Models on the web in the window: an address is asked for, agreed to once for each host, counted.

Nothing is fetched, and nothing that could fetch is loaded, before the user gives an address.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from PySide6.QtCore import QMimeData, QObject, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QLineEdit,
    QMessageBox,
    QWidget,
)

from explorer.errors import ExplorerError, FormatError, ManyRequestsError
from explorer.formats import Model
from explorer.qt.jobs import JobRunner
from explorer.qt.settings import Settings
from explorer.qt.theme import Space
from explorer.qt.widgets.building import column, copy_text
from explorer.qt.widgets.labels import plain_label
from explorer.sources import Address, is_address, parse_address
from explorer.sources.remote.addresses import HUB, as_path, forbidden_by, host_of, refuse_all
from explorer.sources.remote.requests import allow
from explorer.text import bytes_text, counted, plain_text, shorten

if TYPE_CHECKING:
    from explorer.formats import Tensor

MUCH: Final = 64 << 20
"""Bytes of weights that are fetched without a question."""

_HOSTS: Final = "address_hosts"
_OFFLINE: Final = "offline"
_MOST_HOSTS: Final = 64
_LONGEST: Final = 200  # letters of an address in a question
_TRAFFIC_MS: Final = 500
_HTTP: Final = "explorer.sources.remote.http"
_EXAMPLES: Final = (
    "https://host/model.gguf",
    "hf://owner/repository",
    "hf://owner/repository@revision/model.gguf",
    "ollama://llama3:8b",
)


def addresses_in(mime: QMimeData | None) -> list[Path]:
    """Return the addresses and files of what was dropped or copied; nothing else of it.

    A clipboard whose owner does not answer holds nothing (None).
    """
    found: list[Path] = []
    if mime is None:
        return found
    for url in mime.urls():
        if url.isLocalFile():
            found.append(Path(url.toLocalFile()))
        else:
            found += _parsed(url.toString())
    return found if mime.urls() else _parsed(mime.text().strip() if mime.hasText() else "")


def _parsed(text: str) -> list[Path]:
    try:
        return [parse_address(text)] if is_address(text) else []
    except FormatError:
        return []


class Addresses(QObject):
    """What the user allows to be fetched; kept in the settings.

    Signals:
        admitting: An address is about to be read.
    """

    admitting = Signal()

    def __init__(self, settings: Settings, window: QWidget) -> None:
        super().__init__(window)
        self._settings = settings
        self._window = window
        self._asked: set[str] = set()  # hosts that were agreed to in this window
        refuse_all(self.offline)

    @property
    def offline(self) -> bool:
        """Whether the user has switched addresses off."""
        return self._settings.note(_OFFLINE) == "yes"

    def set_offline(self, offline: bool) -> None:
        """Switch addresses off, or on again."""
        self._settings.set_note(_OFFLINE, "yes" if offline else "no")
        refuse_all(offline)

    def admitted(self, paths: Sequence[Path]) -> list[Path]:
        """Return what may be opened: files, and addresses of hosts that the user agrees to."""
        found = [path for path in paths if not isinstance(path, Address) or self._agrees(path)]
        if any(isinstance(path, Address) for path in found):
            self.admitting.emit()
        return found

    def _agrees(self, address: Address) -> bool:
        host = host_of(address)
        kept = self._settings.note(_HOSTS).split()
        if self.offline or forbidden_by() or host in kept or host in self._asked:
            return True  # if it is switched off, opening it says so
        shown, full = plain_text(host), plain_text(shorten(str(address), _LONGEST))
        text = (
            f"Read {full} from {shown}?\n\n"
            "Headers are fetched, usually 1 to 8 MiB a model; of a repository the list of its "
            "files; and of weights only those that you look at. The server, and hosts that it "
            "redirects to, learn this address, which parts of it you look at, and name and "
            "version of this program."
        )
        if address.scheme == HUB:
            text += " The hub alone gets your token, if HF_TOKEN or its own file has one."
        box = _question(self._window, "Read from the web", text)
        read = box.addButton("Read", _ACCEPT)
        always = QCheckBox(f"Do not ask again for {shown}", box)
        always.setChecked(True)
        box.setCheckBox(always)
        box.exec()
        if box.clickedButton() is not read:
            return False
        self._asked.add(host)
        if always.isChecked():
            self._settings.set_note(_HOSTS, "\n".join([*kept, host][-_MOST_HOSTS:]))
        return True


_ACCEPT = QMessageBox.ButtonRole.AcceptRole


_agreed: set[tuple[Path, str]] = set()  # large tensors whose weights the user wants


class TensorFetch(NamedTuple):
    """Weights of large tensors that are still on the web, and that nobody asked for so far."""

    keys: frozenset[tuple[Path, str]]
    nbytes: int
    hosts: str

    @classmethod
    def of(cls, tensors: Iterable[Tensor]) -> TensorFetch | None:
        """Return what reading tensors would fetch, where that is much; None where it is not."""
        found = {(one.file, one.name): one for one in tensors if is_address(one.file)}
        new = {key: one.nbytes for key, one in found.items() if key not in _agreed}
        if sum(new.values()) <= MUCH:
            return None
        hosts = ", ".join(sorted({host_of(path) for path, _ in new}))
        return cls(frozenset(new), sum(new.values()), hosts)

    @property
    def question(self) -> tuple[str, str, str]:
        """A heading, a sentence, and what the button says."""
        size = bytes_text(self.nbytes)
        return (
            "These weights are not fetched yet",
            f"All of them are read, which fetches {size} from {plain_text(self.hosts)}.",
            f"Fetch {size}",
        )

    def agree(self) -> None:
        """Note that the user wants them."""
        _agreed.update(self.keys)


def agrees_to_weights(models: Sequence[Model], parent: QWidget | None) -> bool:
    """Ask before all weights of models on the web are fetched."""
    remote = [model for model in models if is_address(model.path)]
    nbytes = sum(model.nbytes for model in remote)
    hosts = ", ".join(sorted({host_of(model.path) for model in remote}))
    return nbytes <= MUCH or _agrees_to(nbytes, hosts, parent)


def agrees_to_requests(error: ManyRequestsError, parent: QWidget | None) -> bool:
    """Ask before the opening of an address takes many requests; what is agreed to is remembered."""
    assert isinstance(error.path, Address)
    name = plain_text(shorten(str(error.path), _LONGEST))
    text = f"Opening {name} {plain_text(error.needs)}. Go on?"
    box = _question(parent, "Many requests", text)
    ask = box.addButton("Make them", _ACCEPT)
    box.exec()
    if box.clickedButton() is not ask:
        return False
    allow(error.path, error.number)
    return True


_searched: set[Path] = set()  # files that the user wants to be searched


def agrees_to_search(path: Path, nbytes: int, parent: QWidget | None) -> bool:
    """Ask once for each file before so many bytes of one on the web may have to be fetched."""
    if not is_address(path) or nbytes <= MUCH or path in _searched:
        return True
    text = (
        f"The search may have to read on to the end, which fetches {bytes_text(nbytes)} from "
        f"{plain_text(host_of(path))}."
    )
    if not _agrees_to(nbytes, host_of(path), parent, text):
        return False
    _searched.add(path)
    return True


def agrees_to_tensors(tensors: Iterable[Tensor], parent: QWidget | None) -> bool:
    """Ask before weights of large tensors on the web are fetched."""
    fetch = TensorFetch.of(tensors)
    if fetch is None:
        return True
    if not _agrees_to(fetch.nbytes, fetch.hosts, parent):
        return False
    fetch.agree()
    return True


def _agrees_to(nbytes: int, hosts: str, parent: QWidget | None, text: str = "") -> bool:
    size = bytes_text(nbytes)
    text = text or f"This reads all weights, which fetches {size} from {plain_text(hosts)}. Go on?"
    box = _question(parent, "Fetch all weights", text)
    fetch = box.addButton(f"Fetch {size}", _ACCEPT)
    box.exec()
    return box.clickedButton() is fetch


def _question(parent: QWidget | None, title: str, text: str) -> QMessageBox:
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(text)
    box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
    return box


class AddressDialog(QDialog):
    """Asks for an address.

    Attributes:
        edit: Where it is typed; filled with an address that was copied.
        fault: Says what is wrong with it.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Open address")
        self.setMinimumWidth(520)
        self.edit = QLineEdit(self)
        self.edit.setPlaceholderText(_EXAMPLES[1])
        self.edit.setAccessibleName("Address")
        self.edit.setClearButtonEnabled(True)
        title = plain_label(self, "&Address of a model on the web")
        title.setBuddy(self.edit)
        examples = plain_label(self, "\n".join(_EXAMPLES))
        examples.setEnabled(False)
        self.fault = plain_label(self, "", wraps=True)
        buttons = QDialogButtonBox(self)
        self.open_button = buttons.addButton(QDialogButtonBox.StandardButton.Open)
        buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.edit.textChanged.connect(self._check)
        parts = (title, self.edit, self.fault, examples, buttons)
        column(*parts, of=self, margins=(Space.GROUP,) * 4, spacing=Space.NEAR)
        copied = copied_places()
        self.edit.setText(str(copied[0]) if copied and is_address(copied[0]) else "")
        self.edit.selectAll()
        self._check()

    def address(self) -> Address | None:
        """Return the address, or None if it is not one."""
        try:
            return parse_address(self.edit.text())
        except FormatError:
            return None

    def _check(self) -> None:
        text, fault = self.edit.text().strip(), ""
        if text:
            try:
                parse_address(text)
            except FormatError as error:
                fault = error.what
        self.fault.setText(plain_text(fault))
        self.open_button.setEnabled(bool(text) and not fault)


def copied_places() -> list[Path]:
    """Return the addresses and files that were copied, to open them."""
    return addresses_in(QGuiApplication.clipboard().mimeData())


def ask_address(parent: QWidget) -> list[Path]:
    """Ask for the address of a model; return it, or nothing."""
    dialog = AddressDialog(parent)
    address = dialog.address() if dialog.exec() else None
    dialog.deleteLater()
    return [] if address is None else [address]


def copy_download(model: Model) -> None:
    """Copy the command that downloads a model of the web: this program downloads nothing."""
    from explorer.present.stores import download_of  # noqa: PLC0415 - rarely needed

    command = download_of(model.path, [file.path for file in model.files])
    copy_text(command)


def places_of(texts: Sequence[str]) -> tuple[list[Path], list[ExplorerError]]:
    found: list[Path] = []
    errors: list[ExplorerError] = []
    for text in texts:
        try:
            found.append(as_path(text))
        except FormatError as error:
            errors.append(error)
    return found, errors


class TrafficLabel(QObject):
    """Writes into a label how much was fetched; idle before the first address, and at rest."""

    def __init__(self, label: QLabel, runner: JobRunner, addresses: Addresses) -> None:
        super().__init__(label)
        self._label = label
        self._before = label.text()
        self._runner = runner
        self._timer = QTimer(self, interval=_TRAFFIC_MS)
        self._timer.timeout.connect(self._show)
        addresses.admitting.connect(self._begin, Qt.ConnectionType.SingleShotConnection)

    @Slot()
    def _begin(self) -> None:
        self._runner.started.connect(self._timer.start)
        self._runner.ended.connect(self._show)

    @Slot()
    def _show(self) -> None:
        if not self._runner.jobs:
            self._timer.stop()
        # not loaded before something is fetched, and a worker may be loading it at this moment
        traffic = getattr(sys.modules.get(_HTTP), "TRAFFIC", None)
        text = self._before
        if traffic is not None and traffic.requests:
            text = (
                f"Read only. {bytes_text(traffic.nbytes)} fetched in "
                f"{counted(traffic.requests, 'request')}."
            )
        if self._label.text() != text:
            self._label.setText(text)


_MODEL_SUFFIXES: Final = frozenset({".gguf", ".safetensors", ".json", ".bin", ""})
MOST_PASTED: Final = 1 << 24
"""Characters of a text that is dropped or pasted."""


def dropped_log(data: QMimeData) -> Path | str | None:
    """Return the log that is dropped: one file that is not a model's, or a text; else None."""
    if data.hasUrls():
        logs = dropped_logs(data)
        return logs[0] if len(logs) == 1 else None
    return data.text()[:MOST_PASTED] if data.hasText() else None


def dropped_logs(data: QMimeData) -> list[Path]:
    """Return the files that are dropped; none if one of them may be a model."""
    paths = [Path(url.toLocalFile()) for url in data.urls()]  # of an address: "."
    return [] if any(path.suffix.casefold() in _MODEL_SUFFIXES for path in paths) else paths
