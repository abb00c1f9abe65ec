"""The life of a page that reads: alone, or with others that the same walk over a tensor fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from PySide6 import QtWidgets
from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent

from explorer.errors import ExplorerError
from explorer.qt.addresses import TensorFetch
from explorer.qt.jobs import Job, JobSlot, Work
from explorer.qt.services import Services
from explorer.qt.widgets.building import LINE, column, row
from explorer.qt.widgets.controls import check
from explorer.qt.widgets.labels import ElidedLabel, Press, StatePage
from explorer.qt.widgets.progress import ProgressLine
from explorer.qt.widgets.ranges import RangeChoice

if TYPE_CHECKING:
    from explorer.formats import Tensor
    from explorer.qt.widgets.plot_panel import PicturePanel


class ContentPage(QtWidgets.QWidget):
    """A content, or a sentence in its place.

    Attributes:
        state: The sentence.
        content: What stands in its place once there is something to show.
        frame: Layout of the page: what stands above and below both.

    Signals:
        shown: The page became visible.
        hidden: The page was hidden; not while the window is only minimized.
    """

    shown = Signal()
    hidden = Signal()

    def __init__(
        self, parent: QtWidgets.QWidget | None = None, content: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.state = StatePage(self)
        self.content = QtWidgets.QWidget(self) if content is None else content
        self.stack = QtWidgets.QStackedWidget(self)
        self.stack.addWidget(self.state)
        self.stack.addWidget(self.content)
        self.frame = column((self.stack, 1), of=self)

    def show_content(self) -> None:
        """Show the content."""
        self.stack.setCurrentWidget(self.content)

    def show_message(
        self, heading: str, sentence: str, button: str = "", press: Press = None
    ) -> None:
        """Show a sentence, perhaps with a button and what it does."""
        self.state.show_message(heading, sentence, button, press)
        self.stack.setCurrentWidget(self.state)

    @property
    def has_content(self) -> bool:
        return self.stack.currentWidget() is self.content

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self.shown.emit()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self.hidden.emit()


class Phase(Enum):
    """How far the reading of a page is."""

    EMPTY = auto()  # nothing is wanted, or the page was not visible yet
    UNSUPPORTED = auto()  # it cannot be shown, and the page says why
    READING = auto()  # nothing is shown yet
    PARTLY_SHOWN = auto()  # still reading
    COMPLETE = auto()
    CANCELLED = auto()  # by the user; a button reads on
    FAILED = auto()  # a button tries again


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Request(Generic[Result]):
    """What a page reads.

    Attributes:
        key: Differs from the keys of other requests; the same request is not started twice.
        title: Shown in the status bar.
        heading: Shown on the page meanwhile, if it has no content.
        failure: Heading of the page if reading fails.
        work: Reads; called in a worker.
        name: Shown below `heading`.
        known: Returns the result if nothing has to be read, else None.
        tensors: Those of which all weights are read: of large ones on the web the page asks first.
    """

    key: object
    title: str
    heading: str
    failure: str
    work: Work[Result]
    name: str = ""
    known: Callable[[], Result | None] = lambda: None
    tensors: Sequence[Tensor] = ()


class Refusal(NamedTuple):
    """Why nothing is read: a heading, a sentence, and perhaps a button and what it does."""

    heading: str
    sentence: str
    button: str = ""
    press: Press = None


def no_model_open(app: Services, heading: str, sentence: str) -> Refusal:
    """Return what a page says without a model, with a button that leads to the start page."""
    return Refusal(heading, sentence, "Show how to &begin", partial(app.go, "overview"))


class Reader(Generic[Result]):
    """The life of what one page reads, or several pages together; mixed into a `QObject`.

    It reads only while one of the pages is visible. A new request replaces the one that runs,
    whose result is dropped. A job that was cancelled from elsewhere, such as the status bar, is
    shown like one that was cancelled here.

    Attributes:
        phase: How far the reading is.
    """

    def begin_life(
        self, app: Services, pages: Sequence[ContentPage], progress: ProgressLine | None = None
    ) -> None:
        """Set up; called once by the constructor, when the pages exist.

        Args:
            app: Runs the reading.
            pages: The pages that show it.
            progress: Shows how far it is, and has the buttons to cancel and to read on.
        """
        assert isinstance(self, QObject)
        self.phase = Phase.EMPTY
        self.app = app
        self._slot = JobSlot(app.runner, self)
        self._request: Request[Result] | None = None
        self._pages = pages
        self._line = progress
        for page in pages:
            page.shown.connect(self._follow_shown)
            page.hidden.connect(self._follow_hidden)
        if progress is not None:
            progress.cancel_requested.connect(self.cancel)
            progress.resume_requested.connect(self.load)

    # What a page defines

    def request(self) -> Request[Result] | Refusal | None:
        """Return what is to be read now, why it cannot be; None for nothing, or nothing new."""
        raise NotImplementedError

    def show_part(self, part: Any) -> None:
        """Show what was published so far."""

    def show_result(self, result: Result) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        """Remove what is shown."""

    def refill(self) -> None:
        """Show again what is known; another of several pages became visible."""

    def read_again(self) -> None:
        """Read what was cancelled, or failed."""
        self.load()

    def keeps_reading(self) -> bool:
        """Return whether the reading goes on while no page is visible."""
        return False

    def show_begun(self) -> None:
        """Show that reading begins."""
        if self._line is not None:
            self._line.start()

    def show_ended(self) -> None:
        """Show that nothing is read any more."""
        if self._line is not None:
            self._line.finish()

    def show_cancelled(self) -> None:
        """Show that reading was cancelled; what was read so far stays."""
        if self._line is not None:
            self._line.stop()
        self._fill_empty_pages("Cancelled", "", "Continue", self.read_again)

    def show_failed(self, heading: str, error: ExplorerError) -> None:
        """Show why reading failed."""
        for page in self._pages:
            page.show_message(heading, str(error), "Try again", self.read_again)

    # Life

    @property
    def busy(self) -> bool:
        """Whether something is read."""
        return self._slot.busy

    @property
    def visible(self) -> bool:
        return any(page.isVisible() for page in self._pages)

    def restart(self) -> None:
        """Remove what is shown, and read what is wanted now once a page is visible."""
        self.stop()
        for page in self._pages:
            page.show_message("", "")
        self.clear()
        self.load()

    def load(self) -> None:
        """Read what is wanted, unless it is under way or no page is visible."""
        if not self.visible:
            return
        wanted = self.request()
        if isinstance(wanted, Request) and not self._has(wanted.key):
            fetch = TensorFetch.of(wanted.tensors)
            if fetch is not None and wanted.known() is None:
                wanted = Refusal(*fetch.question, partial(self._agree, fetch))
        if isinstance(wanted, Refusal):
            self.stop()
            self.phase = Phase.UNSUPPORTED
            for page in self._pages:
                page.show_message(*wanted)
        elif wanted is not None and not self._has(wanted.key):
            self._start(wanted)

    def _agree(self, fetch: TensorFetch) -> None:
        fetch.agree()
        self.load()

    def cancel(self) -> None:
        """Stop reading; what was read so far stays."""
        if self.busy:
            self._slot.cancel()
            self.phase = Phase.CANCELLED
            self.show_cancelled()

    def stop(self) -> None:
        """Stop reading, and show no message: something else is wanted."""
        self._slot.cancel()
        self._request = None
        self.phase = Phase.EMPTY
        self.show_ended()

    @property
    def request_key(self) -> object:
        """Key of the latest request; None without one."""
        return None if self._request is None else self._request.key

    def _has(self, key: object) -> bool:
        """Return whether a request runs or was answered."""
        return (self.busy or self.phase is Phase.COMPLETE) and self.request_key == key

    def _start(self, wanted: Request[Result]) -> None:
        self._slot.cancel()
        self._request = wanted
        known = wanted.known()
        if known is not None:
            self._finish(known)
            return
        self.phase = Phase.READING
        self._fill_empty_pages(wanted.heading, wanted.name)
        self.show_begun()
        job = self._slot.run(wanted.title, wanted.work, self._finish, self._fail)
        if self._line is not None:
            job.on_page = self._line.is_shown
        job.published.connect(self._grow)
        job.finished.connect(lambda: self._look_for_cancelled(job))

    def _grow(self, part: object) -> None:
        self.phase = Phase.PARTLY_SHOWN
        self.show_part(part)

    def _finish(self, result: Result) -> None:
        self.phase = Phase.COMPLETE
        self.show_ended()
        self.show_result(result)

    def _fail(self, error: ExplorerError) -> None:
        assert self._request is not None
        self.phase = Phase.FAILED
        self.show_ended()
        self.show_failed(self._request.failure, error)

    def _look_for_cancelled(self, job: Job) -> None:
        if self._slot.stopped and job.cancelled and self.phase is not Phase.CANCELLED:
            self.phase = Phase.CANCELLED
            self.show_cancelled()

    def _fill_empty_pages(
        self, heading: str, sentence: str, button: str = "", press: Press = None
    ) -> None:
        """Show a sentence on the pages that have nothing else to show."""
        for page in self._pages:
            if not page.has_content:
                page.show_message(heading, sentence, button, press)

    def _follow_shown(self) -> None:
        if self.phase in {Phase.PARTLY_SHOWN, Phase.COMPLETE}:
            self.refill()
        self.load()

    def _follow_hidden(self) -> None:
        assert isinstance(self, QObject)
        if len(self._pages) == 1:
            self._stop_unseen()
        else:  # in a turn of its own: a tab is hidden before the next one is shown
            QTimer.singleShot(0, self, self._stop_unseen)

    def _stop_unseen(self) -> None:
        if self.busy and not self.visible and not self.keeps_reading():
            self._slot.cancel()
            self.phase = Phase.CANCELLED
            self.show_cancelled()


class ReadingPage(ContentPage, Reader[Result]):
    """One page that reads; see `Reader` for what a subclass defines."""


Panel = TypeVar("Panel", bound="PicturePanel")


class PlotPage(ContentPage, Generic[Panel]):
    """One picture, or a sentence in its place. Its plot is created soon after it is first shown.

    Attributes:
        bar: The line above the plot.
        title: What the line says.
        logarithmic: Whether counts are shown logarithmically.
        range: Which part is shown; see `offer_ranges`.

    Signals:
        range_chosen: Another range was chosen or typed; the plot is about to show it.
    """

    range_chosen = Signal()

    def __init__(self, make_panel: Callable[[], Panel]) -> None:
        super().__init__()
        self._make_panel = make_panel
        self._title = ""
        self.title = ElidedLabel(self)
        self.logarithmic = check(self, "&Logarithmic")
        self.bar = row((self.title, 1), self.logarithmic, margins=LINE)
        self._column = column(self.bar, of=self.content)

    @cached_property
    def panel(self) -> Panel:
        panel = self._make_panel()
        panel.plot.set_logarithmic(self.logarithmic.isChecked())
        self.logarithmic.toggled.connect(panel.plot.set_logarithmic)
        self._column.addWidget(panel, 1)
        return panel

    def _prepare(self) -> None:
        """Create the plot, if the page is still visible."""
        if self.isVisible():
            _ = self.panel

    def show_plot(self, title: str) -> None:
        self._title = title
        self.title.setText(title)
        self.show_content()

    def offer_ranges(self, choices: Sequence[tuple[str, int]]) -> None:
        """Let the user choose which part is shown: one of some, or from here to there."""
        self.range = RangeChoice(self, "Range", "Which part is shown", *choices)
        self.bar.insertWidget(1, self.range)
        self.range.changed.connect(self._change_range)

    def show_typed(self) -> None:
        """Show the typed range of what is drawn; what was shown before comes back with Back."""
        typed, box = self.range.value(), self.panel.plot.box
        if typed is not None:
            box.zoom_to(box.area_of(*typed))
        elif problem := self.range.problem():
            self.title.setText(problem)

    def _change_range(self) -> None:
        if self.has_content:
            self.title.setText(self._title)
            self.range_chosen.emit()
            self.panel.plot.forget_zoom()
            self.show_typed()

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            # in a turn of its own, while weights are read: it takes as long as to fill it
            QTimer.singleShot(0, self, self._prepare)
