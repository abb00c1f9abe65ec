"""The map of a tensor: its weights, errors or block scales as a picture that one zooms into."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QWidget

from explorer.analysis.errors.pairs import RoundedPair
from explorer.analysis.tensor_map.draw import Quantity, draw_map, weights_per_scale
from explorer.analysis.tensor_map.map import Grid, Reduction, TensorMap, Window
from explorer.errors import ExplorerError
from explorer.parallel import LruCache
from explorer.qt.jobs import Job, worker_count
from explorer.qt.references import References
from explorer.qt.services import Services
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.map.plot import BlockSizes, Layer, MapPlot
from explorer.qt.weights.map.side import (
    Drawable,
    MapControls,
    MapReadout,
    block_weights,
    drawable_of,
    quantity_name,
)
from explorer.qt.weights.values import Place
from explorer.qt.widgets.building import tab_through
from explorer.qt.widgets.figures import PlotExport
from explorer.qt.widgets.pages import Phase, ReadingPage, Refusal, Request
from explorer.qt.widgets.progress import ProgressLine
from explorer.text import integer_text

_MOST_MAPS: Final = 2  # maps of whole tensors, up to 10 MiB each
_REDRAW_S: Final = 0.2  # a picture takes longer to paint than what jobs usually publish
_REST_MS: Final = 120  # the view stays that long before something finer is read
_AROUND: Final = (32, 64)  # rows and columns that are shown around a place one goes to


@dataclass(frozen=True, slots=True)
class DrawnMap:
    """A map, and how many weights of its tensor share a scale; 1 if none do."""

    cells: TensorMap
    group_weights: int


def draw(drawable: Drawable, grid: Grid, job: Job) -> DrawnMap:
    """Draw a map, and publish what there is of it; called in a worker.

    Raises:
        ExplorerError: The tensor, or its reference, cannot be read.
    """
    shown = 0.0
    with closing(draw_map(drawable.source, grid, workers=worker_count(), check=job.check)) as maps:
        for cells in maps:
            now = time.monotonic()
            if not cells.complete and now - shown >= _REDRAW_S:
                shown = now
                job.publish(cells.copied)
    return DrawnMap(cells, weights_per_scale(drawable.subject.tensor))


class MapPage(ReadingPage[DrawnMap]):
    """Controls, picture, read-out and progress; of quantities of the weights, or of errors.

    Signals:
        place_chosen: A weight of the tensor was chosen; a `Place`.
    """

    place_chosen = Signal(object)

    def __init__(
        self,
        app: Services,
        references: References,
        quantities: Sequence[Quantity],
        parent: QWidget | None = None,
    ) -> None:
        self.plot = MapPlot()
        super().__init__(parent, self.plot)
        self._references = references
        self._subject: SelectedTensor | None = None
        self._cache: LruCache | None = None
        self._prefix = ""
        self._drawable: Drawable | None = None
        self._refusal: Refusal | None = None
        self._drawn_maps = LruCache(_MOST_MAPS)
        self._group_weights = 1
        self._maps: list[TensorMap] = []  # of the whole, then of what is in sight
        self.controls = MapControls(quantities, self)
        self.readout = MapReadout(app, self.plot, self)
        self.progress = ProgressLine(self)
        self.export = PlotExport(app, self)
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
        self._lay_out()
        self._connect()
        self.begin_life(app, (self,), self.progress)

    def show_subject(
        self, subject: SelectedTensor | None, cache: LruCache, *, named: bool = False
    ) -> None:
        """Show another tensor, with its name if it is one of several.

        It is read when the page is visible. Another `cache` means another model.
        """
        if cache is not self._cache:
            self._drawn_maps = LruCache(_MOST_MAPS)
            self._cache = cache
        self._prefix = f"{subject.name}:   " if named and subject is not None else ""
        if subject is None or self._subject is None or subject.tensor is not self._subject.tensor:
            self._subject = subject
            self.controls.set_shape((0,) if subject is None else subject.tensor.shape)
            self.plot.show_matrix(Window(0, 0, 0, 0), str, BlockSizes())
        self.restart()

    def cancel(self) -> None:
        self._rest.stop()
        self.readout.pointer.cancel()
        super().cancel()

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

    def clear(self) -> None:
        self._maps = []
        self._drawable = self._refusal = None
        self.plot.clear_layers()
        self.readout.show_drawable(None)
        if self._subject is None:
            return
        found = drawable_of(self._subject, self.controls.quantity, self._references)
        if isinstance(found, Refusal):
            self._refusal = found
            return
        self._drawable = found
        self.readout.show_drawable(found)
        self.controls.goto.folding = found.folding
        sheet = found.sheet(self.controls.sheet)
        self.plot.show_matrix(sheet, found.folding.row_name, BlockSizes(block_weights(found)))
        self.readout.rest("Reading…")
        self.show_content()

    def request(self) -> Request[DrawnMap] | Refusal | None:
        drawable, maps = self._drawable, self._drawn_maps
        if drawable is None:
            return self._refusal
        wanted = self._wanted(drawable)
        if not wanted.window.weights:
            return None
        key = drawable.subject.row, drawable.quantity, wanted
        whole = drawable.sheet(self.controls.sheet)

        def known() -> DrawnMap | None:
            for each in self._maps:
                if _serves(each, wanted):
                    return DrawnMap(each, self._group_weights)
            return maps.find(key, DrawnMap)

        def read(job: Job) -> DrawnMap:
            return draw(drawable, wanted, job)

        return Request(
            key=wanted,
            title=f"Drawing {drawable.subject.name}",
            heading="Reading…",
            failure="The map could not be drawn",
            work=maps.keeping(key, read) if wanted.window == whole else read,
            known=known,
            tensors=(drawable.subject.tensor,),
        )

    def _wanted(self, drawable: Drawable) -> Grid:
        """Return the cells that there is room for, of what is in sight."""
        whole = drawable.sheet(self.controls.sheet)
        return Grid.of(self.plot.seen(), whole, *self.plot.room())

    def show_part(self, part: TensorMap) -> None:
        drawable = self._drawable
        if drawable is None:
            return
        if not self.progress.running:
            self.progress.start()
        total = part.grid.window.weights
        nbytes = round(part.done * drawable.subject.tensor.bits_per_weight / 8)
        self.progress.show_progress(part.done, total, nbytes)
        self._take(part)

    def show_result(self, result: DrawnMap) -> None:
        self.show_content()
        if any(each is result.cells for each in self._maps):
            self._draw()
        else:
            self._take(result.cells)
        self._group_weights = result.group_weights
        if self._drawable is not None:
            block = block_weights(self._drawable)
            rounded = isinstance(self._drawable.pair, RoundedPair)  # scales are of another type
            group = 1 if rounded or block == 1 else self._group_weights
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
        drawable, maps = self._drawable, self._maps
        if drawable is None or not maps:
            return
        wanted = self._wanted(drawable)
        maps = [each for each in maps if _serves(each, wanted)][-1:] or maps
        reduction = self.controls.reduction
        fitted = [each.fitted(wanted) for each in maps]
        layers = [Layer(cells, cells.image(reduction)) for cells in fitted]
        levels, title = self.controls.levels(layers[-1].image), quantity_name(drawable.quantity)
        self.plot.show_layers(tuple(layers), levels, title)
        text = self._cells_text(drawable, layers[-1].cells)
        self.readout.rest(self.controls.clipping.problem() or text)

    def _cells_text(self, drawable: Drawable, cells: TensorMap) -> str:
        text = self._prefix + quantity_name(drawable.quantity)
        grid = cells.grid
        if grid.exact:
            text += ": each cell is one weight"
        else:
            rms = self.controls.reduction is Reduction.RMS
            how = "root mean square" if rms else "largest magnitude"
            text += (
                f": {how} of {integer_text(grid.cell_rows)} × {integer_text(grid.cell_columns)} "
                "weights in each cell"
            )
        odd = int(cells.not_finite.sum()) if cells.complete else 0
        if odd:
            text += f".   {integer_text(odd)} in sight are not finite (purple)"
        return text

    # Life

    def _follow_shown(self) -> None:
        # In a turn of its own: only then the plot has its size, which decides what is read.
        QTimer.singleShot(0, self, super()._follow_shown)

    def _follow_view(self) -> None:
        """Read what is in sight now; what was cancelled or failed not merely for another size."""
        if self.phase in {Phase.CANCELLED, Phase.FAILED} and self._drawable is not None:
            stopped = self.request_key
            if isinstance(stopped, Grid) and stopped.window == self._wanted(self._drawable).window:
                return
        self.load()

    def read_again(self) -> None:
        self.restart()

    def show_begun(self) -> None:
        self.progress.finish()  # most reads are too short for a line of progress

    def show_cancelled(self) -> None:
        if not self.progress.running:  # it was cancelled before anything was read
            self.progress.start()
        super().show_cancelled()

    def show_failed(self, heading: str, error: ExplorerError) -> None:
        self._maps = []
        self.plot.clear_layers()
        self.readout.rest("")
        super().show_failed(heading, error)

    def _follow_references(self) -> None:
        self._drawn_maps = LruCache(_MOST_MAPS)
        if self.controls.quantity.needs_reference:
            self.restart()

    def _describe(self) -> None:
        self.readout.describe(self._maps)

    def _choose(self, place: Place) -> None:
        self._describe()
        if self._drawable is not None and self._drawable.in_place:
            self.place_chosen.emit(place)

    # Set-up

    def _lay_out(self) -> None:
        self.frame.insertWidget(0, self.controls)
        tab_through(self.controls, self.content)
        self.frame.addWidget(self.readout)
        self.frame.addWidget(self.progress)

    def _connect(self) -> None:
        self._rest.timeout.connect(self._follow_view)
        self.controls.quantity_changed.connect(self.restart)
        self.controls.sheet_changed.connect(self.restart)
        self.controls.look_changed.connect(self._draw)
        self.controls.goto.place_typed.connect(self.go_to)
        self.controls.goto.refused.connect(self.readout.show_text)
        self._references.changed.connect(self._follow_references)
        self.plot.view_changed.connect(self._rest.start)
        self.plot.place_pointed.connect(self._describe)
        self.plot.place_chosen.connect(self._choose)
        self.plot.export_requested.connect(self.ask_export)
        self.plot.copy_requested.connect(lambda: self.export.copy(self.plot))
        self.hidden.connect(self.cancel)


def _serves(drawn: TensorMap, wanted: Grid) -> bool:
    """Return whether a map shows all of a window, in cells that are no larger."""
    grid = drawn.grid
    fine = grid.cell_rows <= wanted.cell_rows and grid.cell_columns <= wanted.cell_columns
    return drawn.complete and fine and grid.window.contains(wanted.window)
