"""A page whose view is made when it is first shown.

A panel that few look at costs its imports, and pyqtgraph 150 ms: the window is on the screen first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from explorer.errors import ExplorerError
from explorer.qt.document import Document, Recent
from explorer.qt.jobs import Job, JobRunner, JobSlot, consideration, reconsider
from explorer.qt.weights.curves import unsupported_reason
from explorer.qt.widgets.labels import StatePage
from explorer.text import plain_text

View = TypeVar("View", bound=QWidget)


class Deferred(QWidget, Generic[View]):
    """Holds a view once it is needed.

    Args:
        make: Makes the view, given its parent.
        on_made: Called with the view: connects it, and gives it what the others have already.
        parent: Owner of the page.
    """

    def __init__(
        self,
        make: Callable[[QWidget], View],
        on_made: Callable[[View], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._make = make
        self._on_made = on_made
        self._view: View | None = None
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)

    @property
    def existing(self) -> View | None:
        """The view, or None if nobody has needed it yet."""
        return self._view

    def make(self) -> View:
        """Make the view if nobody has needed it yet; return it."""
        if self._view is None:
            view = self._view = self._make(self)
            self._layout.addWidget(view)
            self.setFocusProxy(view)
            self._on_made(view)
        return self._view

    @property
    def view(self) -> View:
        """The view; it is made if nobody has needed it yet."""
        return self.make()

    def need(self) -> None:
        """Have the view made: somebody looks."""
        self.make()

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        self.need()
        super().showEvent(event)


# What needs pyqtgraph, or much else: loaded in a worker, for that takes a while.


Tell: TypeAlias = Callable[[str, str, str], None]
"""Says something in place of the content: a heading, a sentence, the text of a button or ""."""


class LateBody(QWidget):
    """Loads the module of a content; a part of what shows it, and never shown itself.

    Args:
        runner: Runs the loading.
        module: Full name of the module.
        owner: What shows the content.
        tell: Says how far it is, and why there is nothing; its button is to load again.

    Signals:
        loaded: The module is there.
        due: The content is made, and is to be filled: in a turn of its own, so that other events
            come in between; or its owner came into sight without any.
    """

    loaded = Signal(ModuleType)
    due = Signal()

    def __init__(self, runner: JobRunner, module: str, owner: QWidget, tell: Tell) -> None:
        super().__init__(owner)
        self.hide()
        self._module = module
        self._say = tell
        self._slot = JobSlot(runner, self)
        self._found = False
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.timeout.connect(self.due)

    @property
    def is_loaded(self) -> bool:
        """Whether the module is there already, whoever loaded it."""
        return self._module in sys.modules and not self._slot.busy

    def announce(self) -> None:
        """Say that it will be loaded."""
        self._say(self.tr("Preparing the view…"), "", "")

    def load(self) -> None:
        """Load it, unless that is under way."""
        if not self._slot.busy:
            title = self.tr("Preparing the view")
            job = self._slot.run(title, self._import, self._take, self._fail)
            job.finished.connect(self._look_for_cancelled)

    def call_soon(self) -> None:
        """Have `due` emitted in the next turn."""
        self._turn.start()

    def forget(self) -> None:
        """Have `due` not emitted after all."""
        self._turn.stop()

    def _import(self, _job: Job) -> ModuleType:
        with consideration(lasting=True):
            return import_module(self._module)

    def _take(self, module: ModuleType) -> None:
        self._found = True
        self.loaded.emit(module)
        self.call_soon()

    def _fail(self, error: ExplorerError) -> None:
        self._say(self.tr("The view could not be prepared"), str(error), self.tr("Try again"))

    def _look_for_cancelled(self) -> None:
        """Tell of a job that somebody else cancelled, such as the status bar."""
        if self._slot.stopped and not self._found:
            sentence = self.tr("It was cancelled.")
            self._say(self.tr("The view could not be prepared"), sentence, self.tr("Try again"))


# A page whose view is made when it is first shown, and whose module is loaded in a worker.


class LateView(Deferred[View]):
    """Holds a view once it is needed; `Deferred` is for one whose module is small.

    Whoever asks for `view` gets it at once, loaded on the spot if need be.

    Args:
        runner: Runs the loading.
        module: Full name of the module that `make` imports.
        make: Makes the view, given its parent.
        on_made: Called with the view: connects it, and gives it what the others have already.
        parent: Owner of the page.
    """

    def __init__(
        self,
        runner: JobRunner,
        module: str,
        make: Callable[[QWidget], View],
        on_made: Callable[[View], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(make, on_made, parent)
        self._state: StatePage | None = None
        self._late = LateBody(runner, module, self, self._tell)
        self._late.due.connect(self._make_if_seen)

    def make(self) -> View:
        state, self._state = self._state, None
        if state is not None:
            self._layout.removeWidget(state)
            state.hide()
            state.deleteLater()
        return super().make()

    def need(self) -> None:
        if self.existing is None and not self._late.is_loaded:
            self._late.announce()
            self._late.load()
        else:
            self.make()

    def _make_if_seen(self) -> None:
        if self.isVisible():
            self.make()

    def _tell(self, heading: str, sentence: str, button: str) -> None:
        if self.existing is not None:
            return
        if self._state is None:
            self._state = StatePage(self)
            self._state.pressed.connect(self.need)
            self._layout.addWidget(self._state)
        self._state.tell(heading, sentence, button)

    # Qt

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._late.forget()


# Panels whose content needs pyqtgraph.
#
# Light to import and to make: the content is made when the panel first comes into sight with
# something to show. Until then, and whenever there is nothing to show, a sentence stands there.


Body = TypeVar("Body", bound=QWidget)


class LatePanel(QWidget, Generic[Body]):
    """A content that is made late, or a sentence in its place.

    Args:
        runner: Runs what the panel does in the background.
        module: Full name of the module of its content.
        parent: Owner of the panel.

    Attributes:
        body: The content; None until it is first needed.
        state: What stands there instead.

    Signals:
        exported: A file was written; its path.
        failed: Something cannot be done; an `ExplorerError`.
        open_requested: A model shall be opened, to compare with.
    """

    exported = Signal(str)
    failed = Signal(object)
    open_requested = Signal()

    def __init__(self, runner: JobRunner, module: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runner = runner
        self._document: Document | None = None
        self.body: Body | None = None
        self.state = StatePage(self)
        self.state.pressed.connect(self._refresh)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.state)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addWidget(self._stack, 1)
        self._late = LateBody(runner, module, self, self._tell)
        self._late.loaded.connect(self._add_body)
        self._late.due.connect(self._refresh)

    @property
    def shown_body(self) -> Body | None:
        """The content, unless a sentence stands in its place."""
        return self.body if self._stack.currentWidget() is self.body else None

    # What a panel says for itself

    def _refresh(self) -> None:
        """Show what there is to show, or say why there is nothing."""
        raise NotImplementedError

    def _make_body(self, module: ModuleType) -> Body:
        """Make the content and connect it."""
        raise NotImplementedError

    def _empty_body(self, body: Body) -> None:
        """Have the content show nothing and read nothing: a sentence takes its place."""

    # What all of them do

    def _need_body(self) -> Body | None:
        """Return the content; None if it is not there yet, which is told."""
        if self.body is None:
            self._late.announce()
            if self.isVisible():
                self._late.load()
        return self.body

    def _add_body(self, module: ModuleType) -> None:
        body = self._make_body(module)
        self._stack.addWidget(body)
        self.body = body

    def _show_body(self, body: Body) -> None:
        self._stack.setCurrentWidget(body)

    def _tell(self, heading: str, sentence: str, button: str = "") -> None:
        """Say something in place of the content."""
        if self.body is not None:
            self._empty_body(self.body)
        self.state.tell(heading, sentence, button)
        self._stack.setCurrentWidget(self.state)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.body is None and self._document is not None:
            self._late.call_soon()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._late.forget()


class TensorPanel(LatePanel[Body]):
    """A panel of the tensors that are selected in the tensor table."""

    _MOST_RECENT = 16
    """Results of a model that are kept."""

    def __init__(self, runner: JobRunner, module: str, parent: QWidget | None = None) -> None:
        super().__init__(runner, module, parent)
        self._rows: tuple[int, ...] = ()
        self._recent: WeakKeyDictionary[Document, Recent] = WeakKeyDictionary()

    def show_document(self, document: Document | None) -> None:
        """Show a model, of which no tensor is selected yet; None shows nothing."""
        if document is not self._document:
            self._document = document
            self._rows = ()
            reconsider()  # the model before may have been closed
            self._refresh()

    def show_tensors(self, rows: Sequence[int]) -> None:
        """Show tensors of the model.

        Args:
            rows: Content rows of its tensor table, the one that matters most first.
        """
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self._refresh()

    # What a panel says for itself

    def _explain_empty(self) -> None:
        """Say what the panel shows once a model is open."""
        raise NotImplementedError

    def _explain_unselected(self) -> None:
        """Say what the panel shows once a tensor is selected."""
        raise NotImplementedError

    def _shown(self, document: Document) -> Sequence[int]:
        """Return the content rows of what is to be shown; at least one."""
        raise NotImplementedError

    def _fill(self, body: Body, document: Document, rows: Sequence[int]) -> None:
        """Show tensors."""
        raise NotImplementedError

    # What both do

    def _refresh(self) -> None:
        document = self._document
        if document is None:
            self._explain_empty()
            return
        if not self._rows:
            self._explain_unselected()
            return
        rows = self._shown(document)
        first = document.model.tensors.rows[rows[0]]
        reason = unsupported_reason(first) if len(rows) == 1 else None
        if reason is not None:
            heading = self.tr("Type {type}").format(type=first.type.name)
            self._tell(heading, f"{plain_text(first.name)}: {reason}")
            return
        body = self._need_body()
        if body is not None:
            self._fill(body, document, rows)

    def _recent_of(self, document: Document) -> Recent:
        """Return what is known of a model."""
        return self._recent.setdefault(document, Recent(self._MOST_RECENT))
