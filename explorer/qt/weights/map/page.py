"""The map of a tensor: its weights, errors or block scales as a picture that one zooms into."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from explorer.analysis.errors.pairs import RoundedPair
from explorer.analysis.tensor_map.map import Grid, Reduction, TensorMap, Window, levels_of
from explorer.errors import ExplorerError
from explorer.qt.document import Recent
from explorer.qt.jobs import JobRunner
from explorer.qt.references import ReferenceBar, References
from explorer.qt.weights.curves import Subject
from explorer.qt.weights.map.plot import BlockSizes, Layer, MapPlot
from explorer.qt.weights.map.side import MapControls, MapReadout
from explorer.qt.weights.map.subject import (
    Drawable,
    MapReader,
    Refusal,
    block_weights,
    drawable_of,
    quantity_name,
)
from explorer.qt.weights.values import Place
from explorer.qt.widgets.labels import StatePage
from explorer.qt.widgets.plot_panel import PlotExport
from explorer.qt.widgets.progress import ProgressLine
from explorer.text import integer_text

_REST_MS: Final = 120  # the view stays that long before something finer is read
_AROUND: Final = (32, 64)  # rows and columns that are shown around a place one goes to


class MapPage(QWidget):
    """Controls, picture, read-out and progress. Reads only while it is visible.

    Attributes:
        controls: What is shown and how.
        references: What errors are told against.
        plot: The picture.
        state: What stands in its place.
        readout: What is under the cursor.
        progress: How far the reading is.
        export: What saves it.

    Signals:
        place_chosen: A weight of the tensor was chosen; a `Place`.
        open_requested: A model shall be opened, to compare with.
        exported: A file was written; its path.
        failed: A file could not be written; an `ExplorerError`.
    """

    place_chosen = Signal(object)
    open_requested = Signal()
    exported = Signal(str)
    failed = Signal(object)

    def __init__(
        self, runner: JobRunner, references: References, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._references = references
        self._subject: Subject | None = None
        self._recent: Recent | None = None
        self._prefix = ""
        self._drawable: Drawable | None = None
        self._maps: list[TensorMap] = []  # of the whole, then of what is in sight
        self.reader = MapReader(runner, self)
        self.controls = MapControls(self)
        self.references = ReferenceBar(references, self)
        self.plot = MapPlot(self)
        self.state = StatePage(self)
        self.readout = MapReadout(runner, self.plot, self)
        self.progress = ProgressLine(self)
        self.export = PlotExport(runner, self, self.exported.emit, self.failed.emit)
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_REST_MS)
        self._lay_out()
        self._connect()

    def show_subject(self, subject: Subject | None, recent: Recent, *, named: bool = False) -> None:
        """Show another tensor; it is read when the page is looked at.

        Args:
            subject: The tensor.
            recent: What is known of its model: tells one model from another.
            named: Whether to say its name: it is one of several.
        """
        if recent is not self._recent:
            self.reader.forget()
            self._recent = recent
        self._prefix = f"{subject.name}:   " if named and subject is not None else ""
        if subject is None or self._subject is None or subject.tensor is not self._subject.tensor:
            self._subject = subject
            self.controls.set_shape((0,) if subject is None else subject.tensor.shape)
            self.plot.show_matrix(Window(0, 0, 0, 0), str, BlockSizes())
        self._restart()

    def cancel(self) -> None:
        """Stop reading; what was read so far stays."""
        self._rest.stop()
        self.readout.pointer.cancel()
        if self.reader.busy:
            self.reader.cancel()
            self._show_stopped()

    def focus_search(self) -> None:
        """Put the cursor into the line for a row and column."""
        self.controls.goto.take_focus()

    def go_to(self, place: Place) -> None:
        """Show a weight, large enough to point at it, and choose it."""
        drawable = self._drawable
        if drawable is None:
            return
        whole = drawable.sheet(self.controls.sheet)
        if not whole.contains(Window(*place, 1, 1)):
            self.controls.sheets.setValue(-1)
            whole = drawable.sheet(-1)
        seen = self.plot.seen()
        rows, columns = self.plot.room()
        fine = Grid.of(seen, whole, rows, columns).exact
        if not fine or not seen.contains(Window(*place, 1, 1)):
            self.plot.box.centre_on(*place, *_AROUND)
        self.plot.choose(place)
        self._choose(place)
        self.plot.setFocus()

    def ask_export(self) -> None:
        """Ask for a file and save the picture or its numbers into it."""
        drawable = self._drawable
        if drawable is not None and self.plot.layers:
            name = f"{drawable.subject.name}-{drawable.quantity.value}".replace(" ", "-")
            self.export.ask(self.plot, name)

    # What is drawn

    def _restart(self) -> None:
        """Draw what is wanted from the beginning."""
        self.reader.cancel()
        self.progress.finish()
        self._maps = []
        self._drawable = None
        self.readout.show_drawable(None)
        quantity = self.controls.quantity
        self.references.setVisible(quantity.needs_reference)
        if self._subject is None:
            self.plot.clear_layers()
            return
        found = drawable_of(self._subject, quantity, self._references)
        if isinstance(found, Refusal):
            self._tell(found.heading, found.sentence)
            return
        self._drawable = found
        self.readout.show_drawable(found)
        self.controls.goto.folding = found.folding
        sheet = found.sheet(self.controls.sheet)
        self.plot.show_matrix(sheet, found.folding.row_name, BlockSizes(block_weights(found)))
        self._stack.setCurrentWidget(self.plot)
        self.readout.rest(self.tr("Reading…"))
        self._look()

    def _look(self) -> None:
        """Draw what is in sight, and read it if what is there is too coarse."""
        self._rest.stop()
        drawable = self._drawable
        if drawable is None or not self.isVisible():
            return
        wanted = self._wanted(drawable)
        if self.reader.grid == wanted or not wanted.window.weights:
            return
        if any(_serves(each, wanted) for each in self._maps):
            self.reader.cancel()
            self.progress.finish()
            self._draw()
            return
        known = self.reader.known(drawable, wanted)
        if known is not None:
            self.reader.cancel()
            self._finish(known)
            return
        whole = drawable.sheet(self.controls.sheet)
        self.reader.read(drawable, wanted, keep=wanted.window == whole)
        self.progress.finish()

    def _wanted(self, drawable: Drawable) -> Grid:
        """Return the cells that what is in sight has room for."""
        whole = drawable.sheet(self.controls.sheet)
        return Grid.of(self.plot.seen(), whole, *self.plot.room())

    def _grow(self, growing: TensorMap) -> None:
        drawable = self._drawable
        if drawable is None:
            return
        if not self.progress.running:
            self.progress.start()
        total = growing.grid.window.weights
        tensor = drawable.subject.tensor
        nbytes = round(growing.done * tensor.bits_per_weight / 8)
        self.progress.show_progress(growing.done, total, nbytes)
        self._take(growing)

    def _finish(self, drawn: TensorMap) -> None:
        self.progress.finish()
        self._take(drawn)
        if self._drawable is not None:
            block = block_weights(self._drawable)
            rounded = isinstance(self._drawable.pair, RoundedPair)  # scales are of another type
            group = 1 if rounded or block == 1 else self.reader.group_weights
            self.plot.set_sizes(BlockSizes(block, group))
        self._describe()

    def _take(self, drawn: TensorMap) -> None:
        """Draw a map above that of the whole, if it is of less."""
        drawable = self._drawable
        if drawable is None:
            return
        whole = drawable.sheet(self.controls.sheet)
        below = [each for each in self._maps if each.complete and each.grid.window == whole][:1]
        self._maps = [drawn] if drawn.grid.window == whole else [*below, drawn]
        self._draw()

    def _draw(self) -> None:
        drawable = self._drawable
        if drawable is None or not self._maps:
            return
        wanted = self._wanted(drawable)
        maps = self._maps
        serving = [each for each in maps if _serves(each, wanted)]
        if serving:
            maps = serving[-1:]
        reduction = self.controls.reduction
        layers = []
        for each in maps:
            cells = each.fitted(wanted)
            layers.append(Layer(cells, cells.image(reduction)))
        levels = levels_of(layers[-1].image, self.controls.share)
        self.plot.show_layers(tuple(layers), levels)
        self.readout.rest(self._cells_text(drawable, layers[-1].cells))

    def _cells_text(self, drawable: Drawable, cells: TensorMap) -> str:
        """Return what a cell is."""
        text = self._prefix + quantity_name(drawable.quantity)
        grid = cells.grid
        if grid.exact:
            text += self.tr(": each cell is one weight")
        else:
            how = self.tr("largest magnitude")
            if self.controls.reduction is Reduction.RMS:
                how = self.tr("root mean square")
            text += self.tr(": {how} of {rows} × {columns} weights in each cell").format(
                how=how, rows=integer_text(grid.cell_rows), columns=integer_text(grid.cell_columns)
            )
        odd = int(cells.not_finite.sum()) if cells.complete else 0
        if odd:
            text += self.tr(".   {n} in sight are not finite (purple)").format(n=integer_text(odd))
        return text

    # States

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        self.plot.clear_layers()
        self.readout.rest("")
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    def _fail(self, error: ExplorerError) -> None:
        self.progress.finish()
        self._maps = []
        self._tell(self.tr("The map could not be drawn"), str(error), self.tr("Try again"))

    def _show_stopped(self) -> None:
        if not self.progress.running:  # it was cancelled before anything was read
            self.progress.start()
        self.progress.stop()

    def _follow_references(self) -> None:
        self.reader.forget()
        if self.controls.quantity.needs_reference:
            self._restart()

    # The cursor

    def _describe(self) -> None:
        self.readout.describe(self._maps)

    def _choose(self, place: Place) -> None:
        self._describe()
        if self._drawable is not None and self._drawable.in_place:
            self.place_chosen.emit(place)

    # Set-up

    def _lay_out(self) -> None:
        self.references.setContentsMargins(8, 0, 8, 4)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.plot)
        self._stack.addWidget(self.state)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.controls)
        layout.addWidget(self.references)
        layout.addWidget(self._stack, 1)
        layout.addWidget(self.readout)
        layout.addWidget(self.progress)

    def _connect(self) -> None:
        self._rest.timeout.connect(self._look)
        self.controls.quantity_changed.connect(self._restart)
        self.controls.sheet_changed.connect(self._restart)
        self.controls.look_changed.connect(self._draw)
        self.controls.goto.place_typed.connect(self.go_to)
        self.controls.goto.refused.connect(self.readout.say)
        self.references.open_requested.connect(self.open_requested)
        self._references.changed.connect(self._follow_references)
        self.reader.grown.connect(self._grow)
        self.reader.finished.connect(self._finish)
        self.reader.failed.connect(self._fail)
        self.reader.stopped.connect(self._show_stopped)
        self.plot.view_changed.connect(self._rest.start)
        self.plot.place_pointed.connect(lambda _: self._describe())
        self.plot.place_chosen.connect(self._choose)
        self.plot.export_requested.connect(self.ask_export)
        self.readout.save_wanted.connect(self.ask_export)
        self.progress.cancel_requested.connect(self.cancel)
        self.progress.resume_requested.connect(self._look)
        self.state.pressed.connect(self._restart)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self._look()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():  # a minimized window goes on
            self.cancel()


def _serves(drawn: TensorMap, wanted: Grid) -> bool:
    """Tell whether a map shows all of a window, in cells that are no larger."""
    grid = drawn.grid
    fine = grid.cell_rows <= wanted.cell_rows and grid.cell_columns <= wanted.cell_columns
    return drawn.complete and fine and grid.window.contains(wanted.window)
