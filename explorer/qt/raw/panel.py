"""The raw view: the bytes of a model's files, what each of them is, and the search in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeySequence

from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.formats.structure import Field, FieldKind, Structure
from explorer.formats.tensors import Extent
from explorer.present.explanations import picture_text
from explorer.qt.addresses import agrees_to_search
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.raw.hex_paint import number_texts, offset_text, parse_offset, parse_pattern
from explorer.qt.raw.hex_view import HexView
from explorer.qt.selection import Selection
from explorer.qt.services import Services
from explorer.qt.theme import Space, monospace_font
from explorer.qt.widgets.building import LINE, NOTE, column, row, tab_through
from explorer.qt.widgets.controls import button, choice
from explorer.qt.widgets.icons import IconButton
from explorer.qt.widgets.labels import NoteLabel, empty_label, plain_label
from explorer.qt.widgets.painting import field_hatching, field_line, field_tint, in_lines, kind_name
from explorer.sources import ByteSource
from explorer.sources.files import ByteSearch, Found
from explorer.text import counted, integer_text, plain_text, shorten

_PROGRESS_STEPS: Final = 1000
_LONGEST_TEXT: Final = 4096


class RawSearch(QtWidgets.QWidget):
    """Searches a file for bytes in the background.

    Attributes:
        edit: What to find.
        mode: How it is meant, hex or text.

    Signals:
        wanted: The user wants the next place (True) or the one before.
        found: The bytes were found; carries a `Found`.
        noted: A sentence about the search; an empty one hides the last.
        left: The user is done with searching.
    """

    wanted = Signal(bool)
    found = Signal(object)
    noted = Signal(str)
    left = Signal()

    def __init__(self, app: Services, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._slot = JobSlot(app.runner, self)
        self.edit = QtWidgets.QLineEdit(self)
        self.edit.setMaxLength(_LONGEST_TEXT)
        self.edit.setClearButtonEnabled(True)
        self.edit.setMinimumWidth(110)
        self.edit.setAccessibleName("Find bytes")
        self.edit.returnPressed.connect(partial(self.wanted.emit, True))
        self.edit.textEdited.connect(self._edited)
        what = "What to find: hex digits or text"
        self.mode = choice(self, what, what, ("Hex", "hex"), ("Text", "text"))
        self.mode.currentIndexChanged.connect(self._mode_changed)
        self._back = self._button("up", "Find previous (Shift+F3)", forward=False)
        self._next = self._button("down", "Find next (F3)", forward=True)
        self._progress = QtWidgets.QProgressBar(self)
        self._progress.setRange(0, _PROGRESS_STEPS)
        self._progress.setMaximumWidth(90)
        self._progress.setAccessibleName("Progress of the search")
        self._stop = button(self, "Stop", "Stop searching (Escape)", self.escape)
        buttons = (self._back, self._next)
        row((self.edit, 1), self.mode, *buttons, self._progress, self._stop, of=self)
        self._mode_changed()
        self._show_progress()

    @property
    def busy(self) -> bool:
        return self._slot.busy

    def focus(self) -> None:
        """Put the cursor into the search line and select its text."""
        self.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.edit.selectAll()

    def cancel(self) -> None:
        """Stop the search, if one is under way."""
        self._slot.cancel()
        self._show_progress()

    def escape(self) -> None:
        """Stop the search; or else clear the text; or else leave the line."""
        if self.busy:
            self.cancel()
            self.noted.emit("The search was stopped.")
        elif self.edit.text():
            self.edit.clear()
            self.noted.emit("")
        else:
            self.left.emit()

    def start(self, source: ByteSource, offset: int, *, forward: bool) -> None:
        """Search.

        Args:
            source: The file.
            offset: Forwards, the first place where the bytes may begin; backwards, the first
                where they may not.
            forward: Direction.
        """
        kind: Literal["hex", "text"] = "hex" if self.mode.currentData() == "hex" else "text"
        pattern = parse_pattern(self.edit.text(), kind)
        if pattern is None:
            sentence = "Type pairs of hex digits, such as “de ad be ef”, or choose Text."
            empty = kind == "text" or not self.edit.text().strip()
            self.noted.emit("Type what to find." if empty else sentence)
            return

        left = source.size - offset if forward else offset
        if not agrees_to_search(source.path, left, self):
            return

        def search(job: Job) -> Found | None:
            return ByteSearch(source, pattern, offset, forward, job.check, job.report).run()

        self.noted.emit("")
        job = self._slot.run("Searching bytes", search, self._done, self._failed)
        job.progressed.connect(self._progressed)
        job.finished.connect(self._show_progress)
        self._progress.setValue(0)
        self._show_progress()

    def _button(self, icon: str, tip: str, *, forward: bool) -> IconButton:
        button = IconButton(icon, tip, tip, self, words=False)
        button.clicked.connect(lambda: self.wanted.emit(forward))
        return button

    def _edited(self) -> None:
        self.cancel()
        self.noted.emit("")

    def _mode_changed(self) -> None:
        hexadecimal = self.mode.currentData() == "hex"
        text = "Find bytes: de ad be ef" if hexadecimal else "Find text"
        self.edit.setPlaceholderText(text)

    def _progressed(self, done: int, total: int) -> None:
        if self.busy and total:
            self._progress.setValue(done * _PROGRESS_STEPS // total)

    def _done(self, found: Found | None) -> None:
        if found is None:
            self.noted.emit("Not found in this file.")
            return
        if found.wrapped:
            self.noted.emit("Found after the search went past the end of the file.")
        self.found.emit(found)

    def _failed(self, error: ExplorerError) -> None:
        self.noted.emit(f"The search failed: {error}")

    def _show_progress(self) -> None:
        """Show the progress of a search; a job that ended, however it did, has none."""
        self._progress.setVisible(self.busy)
        self._stop.setVisible(self.busy)


_SWATCH: Final = 14
_GAP: Final = 5
_SPACING: Final = 14


class FieldLegend(QtWidgets.QWidget):
    """Swatches with names, in as many lines as the width needs."""

    accessible_role = QtGui.QAccessible.Role.Graphic

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._kinds: tuple[FieldKind, ...] = ()
        sizes = QtWidgets.QSizePolicy.Policy
        policy = QtWidgets.QSizePolicy(sizes.Preferred, sizes.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Legend of the colours")
        self.setWhatsThis(picture_text("field_legend"))

    def set_kinds(self, kinds: Sequence[FieldKind]) -> None:
        self._kinds = tuple(kinds)
        self.setAccessibleDescription(", ".join(map(kind_name, self._kinds)))
        self.updateGeometry()
        self.update()

    def _places(self, width: int) -> Iterator[tuple[FieldKind, QRect]]:
        """Yield each kind with the rectangle of its swatch and name."""
        metrics = self.fontMetrics()
        height = max(_SWATCH, metrics.height()) + _GAP
        names = map(kind_name, self._kinds)
        widths = [_SWATCH + _GAP + metrics.horizontalAdvance(name) for name in names]
        places = in_lines(widths, width, height, _SPACING)
        for kind, place in zip(self._kinds, places, strict=True):
            yield kind, place.adjusted(0, _GAP, 0, 0).toRect()

    # Qt

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return max((place.bottom() + 1 for _, place in self._places(width)), default=0) + _GAP

    def sizeHint(self) -> QSize:
        return QSize(600, self.heightForWidth(600))

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.heightForWidth(max(120, self.width())))

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        painter = QtGui.QPainter(self)
        palette = self.palette()
        for kind, place in self._places(self.width()):
            swatch = QRect(place.left(), place.center().y() - _SWATCH // 2, _SWATCH, _SWATCH)
            painter.fillRect(swatch, field_tint(kind, palette))
            hatching = field_hatching(kind, palette)
            if hatching is not None:
                painter.fillRect(swatch, hatching)
            painter.setPen(field_line(kind, palette))
            painter.drawRect(swatch.adjusted(0, 0, -1, -1))
            painter.setPen(palette.color(QtGui.QPalette.ColorRole.WindowText))
            text = place.adjusted(_SWATCH + _GAP, 0, 0, 0)
            painter.drawText(text, int(Qt.AlignmentFlag.AlignVCenter), kind_name(kind))
        painter.end()


_LONGEST_LABEL: Final = 160


class FieldStatus(QtWidgets.QWidget):
    """Two lines below the bytes: what the byte under the cursor is, and as numbers.

    Attributes:
        place: Kind, label, offsets and length.
        numbers: The bytes at the cursor as numbers.
    """

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self.place = self._label("Field under the cursor")
        self.numbers = self._label("Bytes at the cursor as numbers")
        self.numbers.setFont(monospace_font())
        column(self.place, self.numbers, of=self, margins=NOTE, spacing=Space.TIGHT)

    def show_place(self, offset: int, field: Field | None, selected: int) -> None:
        """Describe a byte."""
        parts = [f"Byte {offset_text(offset)}"]
        if field is not None:
            label = shorten(plain_text(field.label[: 2 * _LONGEST_LABEL]), _LONGEST_LABEL)
            parts = [
                f"{kind_name(field.kind)}: {label}",
                *parts,
                f"field at {offset_text(field.offset)}",
                counted(field.nbytes, "byte"),
            ]
        if selected > 1:
            parts.append(f"{integer_text(selected)} selected")
        self.place.setText(" · ".join(parts))

    def show_numbers(self, raw: bytes | None, order: Literal["little", "big"]) -> None:
        """Show bytes as numbers; None if they are not in memory."""
        found = [] if raw is None else number_texts(raw, order)
        # a blank that does not break keeps a number beside its name
        text = "   ".join(f"{name}\N{NO-BREAK SPACE}{number}" for name, number in found)
        self.numbers.setText(text or "…")

    def clear(self) -> None:
        self.place.clear()
        self.numbers.clear()

    def _label(self, name: str) -> QtWidgets.QLabel:
        label = plain_label(self, wraps=True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        label.setAccessibleName(name)
        return label


_LONGEST_OFFSET: Final = 40
_LONGEST_NUMBER_BYTES: Final = 8
_TEXT_KINDS: Final = (
    FieldKind.LENGTH,
    FieldKind.HEADER_TEXT,
    FieldKind.TENSOR_DATA,
    FieldKind.UNUSED,
)
_GGUF_KINDS: Final = tuple(kind for kind in FieldKind if kind is not FieldKind.HEADER_TEXT)


class RawView(QtWidgets.QWidget):
    """Shows the bytes of a model's files, coloured by what they are.

    Signals:
        key_activated: The user has moved the cursor into a metadata key.
        tensor_activated: The user has moved the cursor into a tensor (its row).
    """

    key_activated = Signal(str)
    tensor_activated = Signal(int)

    def __init__(self, app: Services) -> None:
        super().__init__()
        self._document: Document | None = None
        self._model: Model | None = None
        self._shown_moves = 0
        self._slot = JobSlot(app.runner, self)
        self._structures: dict[int, Structure] = {}
        self._shown: tuple[str | None, int | None] = (None, None)  # key and row last shown
        self.hex = HexView(app, self)
        self.hex.setWhatsThis(picture_text("bytes"))
        self.files = choice(self, "File", "")
        sizes = QtWidgets.QComboBox.SizeAdjustPolicy
        self.files.setSizeAdjustPolicy(sizes.AdjustToMinimumContentsLengthWithIcon)
        self.files.setMinimumContentsLength(18)
        self.files.activated.connect(self._show_file)
        self.goto = QtWidgets.QLineEdit(self)
        self.goto.setPlaceholderText("Go to: 1024 or 0x400")
        self.goto.setAccessibleName("Go to offset, decimal or 0x…")
        self.goto.setMaxLength(_LONGEST_OFFSET)
        self.goto.setMinimumWidth(90)
        self.goto.returnPressed.connect(self._go)
        self.search = RawSearch(app, self)
        self.status = FieldStatus(self)
        self.message = NoteLabel("Message", self)
        self.message.setContentsMargins(*NOTE)
        self._legend = FieldLegend(self)
        self._empty = empty_label(self)
        self._lay_out()
        self._connect()
        self.show_model(None)

    @property
    def file_index(self) -> int:
        """Number of the model's file that is shown."""
        return max(0, self.files.currentIndex())

    def follow(self, selection: Selection) -> None:
        """Show the current model, and in it the bytes of what was selected last."""
        if selection.document is not self._document:
            self._document = selection.document
            self.show_model(None if self._document is None else self._document.model)
        if self._model is None or selection.moves == self._shown_moves:
            return
        self._shown_moves = selection.moves
        if selection.key is not None:
            self.reveal_key(self._model.metadata.entries[selection.key].key)
        elif selection.rows:
            self.reveal_tensor(selection.rows[0])

    def show_model(self, model: Model | None) -> None:
        """Show a model's first file from its start, or a sentence where there is none."""
        self._slot.cancel()
        self.search.cancel()
        self._structures.clear()
        self._model = model if model is not None and model.files else None
        self.files.clear()
        if self._model is None:
            self.hex.set_source(None)
            closed = "Open a model to see its bytes."
            without = "This model has no file whose bytes could be shown."
            self._empty.setText(closed if model is None else without)
            self._stack.setCurrentWidget(self._empty)
            return
        for file in self._model.files:
            self.files.addItem(shorten(plain_text(file.path.name), 120))
        self.files.setVisible(self.files.count() > 1)
        self._legend.set_kinds(
            _GGUF_KINDS if self._model.format in {"gguf", "imatrix"} else _TEXT_KINDS
        )
        self._stack.setCurrentWidget(self._panel)
        self._show_file(0)

    def reveal_key(self, key: str) -> None:
        """Show a metadata key, if the file has bytes of its own for it. Emits nothing."""
        entry = self._model.metadata.entry(key) if self._model is not None else None
        if entry is None or entry.offset < 0:
            return
        field = self._current_field()
        if field is not None and field.key == key:
            self.hex.ensure_visible()
        else:
            self._reveal((key, None), entry.file_index, entry.offset)

    def reveal_tensor(self, row: int) -> None:
        """Show the first weight of a tensor, or its record where it has none. Emits nothing."""
        model = self._model
        if model is None or not 0 <= row < len(model.tensors.rows):
            return
        field = self._current_field()
        if field is not None and field.tensor_row == row:
            self.hex.ensure_visible()
            return
        extent = model.tensors.rows[row].extents[0]
        for index, file in enumerate(model.files):
            if file.source is not extent.source:
                continue
            offset = extent.offset
            record = row - file.first_tensor
            if extent.nbytes <= 0 or not 0 <= offset < file.source.size:
                if not 0 <= record < len(file.record_offsets):
                    return
                offset = int(file.record_offsets[record])
            self._reveal((None, row), index, offset)
            return

    def reveal_bytes(self, row: int, extent: Extent) -> None:
        """Show and select bytes of a tensor. Emits nothing."""
        model = self._model
        for index, file in enumerate(model.files if model is not None else ()):
            if file.source is extent.source:
                self._reveal((None, row), index, extent.offset, extent.nbytes)
                return

    def focus_search(self) -> None:
        """Put the cursor into the search line."""
        self.search.focus()

    def find_next(self, forward: bool = True) -> None:
        """Search from the cursor on."""
        if self._model is None:
            return
        source = self._model.files[self.file_index].source
        start = self.hex.cursor_offset
        self.search.start(source, start + 1 if forward else start, forward=forward)

    def _lay_out(self) -> None:
        self._panel = QtWidgets.QWidget(self)
        parts = (self.files, 2), (self.goto, 2), (self.search, 5)
        bar = row(*parts, margins=LINE, spacing=Space.NEAR)  # else the outer layout's, which is 0
        column(bar, (self.hex, 1), self.message, self.status, self._legend, of=self._panel)
        tab_through(self.files, self.goto, self.search, self.hex)
        self._stack = QtWidgets.QStackedLayout(self)
        self._stack.setContentsMargins(0, 0, 0, 0)
        self._stack.addWidget(self._panel)
        self._stack.addWidget(self._empty)

    def _connect(self) -> None:
        self.hex.cursor_changed.connect(self._show_status)
        self.hex.bytes_arrived.connect(self._show_numbers)
        self.hex.cursor_moved.connect(self._announce)
        self.hex.read_failed.connect(self.message.say)
        self.hex.notified.connect(self.message.say)
        self.search.wanted.connect(self.find_next)
        self.search.found.connect(self._show_found)
        self.search.noted.connect(self.message.say)
        self.search.left.connect(self._focus_bytes)
        for keys, slot in (
            (QKeySequence.StandardKey.FindNext, partial(self.find_next, True)),
            (QKeySequence.StandardKey.FindPrevious, partial(self.find_next, False)),
            (QKeySequence.StandardKey.Cancel, self.search.escape),
        ):
            shortcut = QtGui.QShortcut(self)
            shortcut.setKeys(keys)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(slot)

    def _show_file(self, index: int) -> None:
        model = self._model
        if model is None:
            return
        self.search.cancel()
        self.message.say("")
        self._shown = (None, None)
        self.files.setCurrentIndex(index)
        self.hex.set_source(model.files[index].source)
        self._slot.cancel()
        if self.isVisible():
            self._load_structure()

    def _load_structure(self) -> None:
        """Work out the fields of the file that is shown, in a job."""
        model, index = self._model, self.file_index
        if model is None:
            return
        known = self._structures.get(index)
        if known is not None:
            self._show_structure(known)
            return
        structure = Structure(model, index)

        def prepare(job: Job) -> Structure:
            structure.prepare(job.check)
            return structure

        title = "Looking at the structure"
        self._slot.run(
            title, prepare, self._show_structure, lambda error: self.message.say(str(error))
        )

    def _show_structure(self, structure: Structure) -> None:
        self._structures[structure.file_index] = structure
        self.hex.set_structure(structure)
        self._show_status()

    def _reveal(
        self, shown: tuple[str | None, int | None], index: int, offset: int, selected: int = 0
    ) -> None:
        if index != self.file_index:
            self._show_file(index)
        self._shown = shown
        self.hex.set_cursor(offset, selected)

    def _current_field(self) -> Field | None:
        return self.hex.field_at(self.hex.cursor_offset)

    def _show_status(self) -> None:
        if not self.hex.size_bytes:
            self.status.clear()
            return
        offset, selected = self.hex.cursor_offset, len(self.hex.selection)
        self.status.show_place(offset, self._current_field(), selected)
        self.hex.setAccessibleDescription(self.status.place.text())
        self._show_numbers()

    def _show_numbers(self) -> None:
        if self._model is not None and self.hex.size_bytes:
            raw = self.hex.bytes_at(self.hex.cursor_offset, _LONGEST_NUMBER_BYTES)
            self.status.show_numbers(raw, self._model.files[self.file_index].byte_order)

    def _announce(self) -> None:
        """Emit the key or tensor that the user has moved to, once for each visit."""
        field = self._current_field()
        if field is None or (field.key, field.tensor_row) == self._shown:
            return
        self._shown = field.key, field.tensor_row
        if field.key is not None:
            self.key_activated.emit(field.key)
        elif field.tensor_row is not None:
            self.tensor_activated.emit(field.tensor_row)

    def _go(self) -> None:
        offset = parse_offset(self.goto.text())
        size = self.hex.size_bytes
        if offset is None:
            self.message.say(
                f"“{self.goto.text()}” is not an offset. Type a number such as 1024 or 0x400."
            )
        elif offset >= size:
            self.message.say(f"The file has {integer_text(size)} bytes.")
        else:
            self.message.say("")
            self.hex.move_cursor(offset)
            self._focus_bytes()

    def _show_found(self, found: Found) -> None:
        self.hex.move_cursor(found.offset, found.nbytes)
        self._show_status()

    def _focus_bytes(self) -> None:
        self.hex.setFocus(Qt.FocusReason.OtherFocusReason)

    # Qt

    def showEvent(self, event: QtGui.QShowEvent) -> None:
        super().showEvent(event)
        if not self._slot.busy:
            self._load_structure()
