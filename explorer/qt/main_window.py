"""The window: the tree on the left, the panels of the current model on the right."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6 import QtCore, QtGui, QtWidgets
from PySide6.QtCore import QCoreApplication, QSize, Qt, Signal

from explorer.crash_reports import CrashReports
from explorer.errors import ExplorerError
from explorer.qt.actions import Actions, offer_appearance
from explorer.qt.contents.open_models import OpenModelsView
from explorer.qt.crashes import Crashes
from explorer.qt.document import Document, load_document
from explorer.qt.help.menu import Help
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.panels import Panels
from explorer.qt.selection import key_position
from explorer.qt.settings import Settings
from explorer.qt.widgets.building import column
from explorer.qt.widgets.labels import ElidedLabel, MessageBar
from explorer.qt.widgets.progress import JobBar
from explorer.text import plain_text

if TYPE_CHECKING:
    from explorer.demo import DemoPaths


def ask_models(parent: QtWidgets.QWidget) -> list[Path]:
    """Ask for models to open; return their files, none if the user cancels."""
    names, _ = QtWidgets.QFileDialog.getOpenFileNames(parent, _tr("Open models"), "", _kinds())
    return [Path(name) for name in names]


def ask_model_folder(parent: QtWidgets.QWidget) -> list[Path]:
    """Ask for the folder of a model; return it, or nothing."""
    name = QtWidgets.QFileDialog.getExistingDirectory(parent, _tr("Open a model's folder"))
    return [Path(name)] if name else []


def ask_reference(parent: QtWidgets.QWidget) -> Path | None:
    """Ask for a model to compare with; return its file, or None."""
    title = _tr("Open a model to compare with")
    name, _ = QtWidgets.QFileDialog.getOpenFileName(parent, title, "", _kinds())
    return Path(name) if name else None


def _kinds() -> str:
    return _tr("Models (*.gguf *.safetensors *.safetensors.index.json);;All files (*)")


def _tr(text: str) -> str:
    return QCoreApplication.translate("MainWindow", text)


def fill_menu_bar(
    window: QtWidgets.QMainWindow,
    actions: Actions,
    recent: QtWidgets.QMenu,
    tabs: QtWidgets.QTabWidget,
) -> None:
    """Make the menus of a window; each panel of `tabs` gets a command with Alt and its number."""
    bar, tr = window.menuBar(), window.tr
    file_menu = bar.addMenu(tr("&File"))
    file_menu.addActions([actions.open_files, actions.open_folder, actions.open_demo])
    file_menu.addMenu(recent)
    file_menu.addActions([actions.compare_log, actions.close_model, actions.quit])
    bar.addMenu(tr("&Edit")).addActions([actions.find, actions.go_to, actions.copy_path])
    view_menu = bar.addMenu(tr("&View"))
    for number in range(tabs.count()):  # ten of them: 0 is the last one's key
        tab = QtGui.QAction(tabs.tabText(number), window)
        tab.setObjectName(f"tab_{number + 1}")
        tab.setShortcut(QtGui.QKeySequence(f"Alt+{(number + 1) % 10}"))
        tab.setStatusTip(tr("Show this panel"))
        tab.triggered.connect(lambda _=False, number=number: tabs.setCurrentIndex(number))
        view_menu.addAction(tab)
        window.addAction(tab)
    view_menu.addMenu(tr("&Colours")).addActions(list(actions.schemes.values()))
    view_menu.addMenu(tr("&Sizes in")).addActions(list(actions.units.values()))
    view_menu.addAction(actions.reset_layout)
    help_menu = bar.addMenu(tr("&Help"))
    help_menu.addActions([actions.guide, actions.shortcuts, actions.tour])
    help_menu.addActions([actions.whats_this, actions.explain, actions.about])


class RecentMenu(QtWidgets.QMenu):
    """The models opened last, listed anew each time the menu is opened.

    Signals:
        path_chosen: One was chosen; its path.
    """

    path_chosen = Signal(object)

    def __init__(
        self, settings: Settings, forget: QtGui.QAction, parent: QtWidgets.QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setTitle(self.tr("Open &recent"))
        self._settings = settings
        self._forget = forget
        forget.triggered.connect(settings.clear_recent)
        self.aboutToShow.connect(self._fill)

    def _fill(self) -> None:
        self.clear()
        for path in self._settings.recent:
            # a single & in a menu marks the key of an entry
            action = self.addAction(plain_text(str(path)).replace("&", "&&"))
            action.triggered.connect(lambda _=False, path=path: self.path_chosen.emit(path))
        if self.actions():
            self.addSeparator()
            self.addAction(self._forget)
        else:
            self.addAction(self.tr("Nothing was opened yet")).setEnabled(False)


_WRITE_AFTER_MS = 3_000  # so soon after a change it is on the disk


class SessionKeeper(QtCore.QObject):
    """Writes settings and session of a window a few seconds after they change, and at its end."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._settings = window.settings
        self._settings.changed = self._changed
        self._writer = QtCore.QThreadPool(self)  # of its own: jobs may keep the others for minutes
        self._writer.setMaxThreadCount(1)
        self._timer = QtCore.QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_WRITE_AFTER_MS)
        self._timer.timeout.connect(self._write_soon)

    def _changed(self) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def _write_soon(self) -> None:
        try:
            self._note_layout()
        finally:
            self._writer.start(self._settings.write)

    def note(self) -> None:
        """Note what is open; what is not open yet is not forgotten."""
        window = self._window
        opened = [document.path for document in window.documents]
        self._settings.session = list(dict.fromkeys([*opened, *window.loading, *window.expected]))

    def _note_layout(self) -> None:
        self._settings.set_layout("window", self._window.saveGeometry())
        self._settings.set_layout("splitter", self._window.splitter.saveState())
        self._window.panels.save_layout()

    def end(self) -> None:
        """Write all, and nothing more after it; takes the time of the disk."""
        try:
            self.note()
            self._note_layout()
        finally:
            self._settings.changed = lambda: None
            self._timer.stop()
            self._writer.waitForDone()
            self._settings.write()


_FIRST_WIDTH, _FIRST_HEIGHT = 1280, 800
_TREE_WIDTH = 380


def _take_first_size(window: QtWidgets.QWidget) -> None:
    """Give a window the usual size; all of a screen that is smaller."""
    wanted, room = QSize(_FIRST_WIDTH, _FIRST_HEIGHT), window.screen().availableGeometry().size()
    window.resize(wanted.boundedTo(room))
    if wanted.boundedTo(room) != wanted:
        window.setWindowState(Qt.WindowState.WindowMaximized)


class MainWindow(QtWidgets.QMainWindow):
    """The program's window.

    Attributes:
        documents: The open models, in the order of opening.
        runner: Background work.
        crashes: Reports uncaught exceptions.
        help: Guide, tour, and what else the menu Help has.
        expected: Models of the last session that are still being looked for.
        loading: Models that are being opened.
        session: Keeps what is open for the next start.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.documents: list[Document] = []
        self.expected: tuple[Path, ...] = ()
        self.loading: dict[Path, None] = {}
        self._tickets = count()
        self._order: list[int] = []  # the ticket of each document
        self.session = SessionKeeper(self)
        self.runner = JobRunner(self)
        self.crashes = Crashes(CrashReports.of_user(), self)
        self.actions_ = Actions(self)
        offer_appearance(settings, self.actions_, self)
        self._make_views()
        self._make_menus()
        self._connect()
        self.setAcceptDrops(True)
        self._restore_layout()
        self.show_document(None)

    @property
    def current(self) -> Document | None:
        """The model whose panels are shown."""
        return self.panels.selection.document

    def _make_views(self) -> None:
        self.message_bar = MessageBar(self)
        self.open_models = OpenModelsView(self)
        self.panels = Panels(self.runner, self.settings, self)
        self.splitter = QtWidgets.QSplitter(self)
        self.splitter.addWidget(self.open_models)
        self.splitter.addWidget(self.panels)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setChildrenCollapsible(False)
        centre = QtWidgets.QWidget(self)
        column(self.message_bar, (self.splitter, 1), of=centre)
        self.setCentralWidget(centre)
        self.place = ElidedLabel(self)
        self.place.setAccessibleName(self.tr("Path of the model"))
        self.place.setContentsMargins(6, 0, 6, 0)
        self.statusBar().addWidget(self.place, 1)
        self.statusBar().addPermanentWidget(JobBar(self.runner, self))

    def _make_menus(self) -> None:
        recent = RecentMenu(self.settings, self.actions_.clear_recent, self)
        recent.path_chosen.connect(lambda path: self.open_paths([path]))
        fill_menu_bar(self, self.actions_, recent, self.panels)
        self.help = Help(self, self.actions_, self.open_models, self.panels, self.settings)

    def _connect(self) -> None:
        actions = self.actions_
        actions.open_files.triggered.connect(lambda: self.open_paths(ask_models(self)))
        actions.open_folder.triggered.connect(lambda: self.open_paths(ask_model_folder(self)))
        actions.open_demo.triggered.connect(self.open_demo)
        actions.compare_log.triggered.connect(self.panels.ask_log)
        actions.close_model.triggered.connect(self._close_current)
        actions.quit.triggered.connect(self.close)
        actions.find.triggered.connect(self._focus_search)
        actions.go_to.triggered.connect(self.show_quick_open)
        actions.copy_path.triggered.connect(self._copy_path)
        actions.reset_layout.triggered.connect(self._reset_layout)
        self.runner.crashed.connect(self.crashes.note)
        self.crashes.happened.connect(self.message_bar.show_error)
        self.open_models.model_chosen.connect(self.show_document)
        self.open_models.key_chosen.connect(self._reveal_key_by_name)
        self.open_models.tensor_chosen.connect(self.reveal_tensor)
        self.open_models.close_requested.connect(self.close_document)
        selection = self.panels.selection
        selection.changed.connect(partial(self.open_models.follow, selection))
        self.panels.model_requested.connect(self._open_downloaded)
        self.panels.open_requested.connect(self._ask_reference)
        self.panels.demo_requested.connect(self._show_demo)
        self.panels.failed.connect(self.show_error)
        self.panels.written.connect(self._show_written)

    # Opening and closing

    def open_paths(self, paths: Sequence[Path]) -> None:
        """Open models in the background; one that is open already is shown."""

        def show(document: Document, last: bool) -> None:
            if last:
                self.reveal_model(document)

        for path in paths:
            self._open(path.absolute(), show)

    def open_reference(self, path: Path) -> None:
        """Open a model to compare the current one with, which stays the current one."""
        current = self.current

        def compare(document: Document, _last: bool) -> None:
            if self.current is current:
                self.panels.references.choose(document)

        self._open(path.absolute(), compare)

    def _open(self, path: Path, on_open: Callable[[Document, bool], None]) -> None:
        """Open a model in the background, unless it is open already.

        Args:
            path: The model.
            on_open: Called with it, and whether no other model was asked for after it.
        """
        known = next((document for document in self.documents if document.path == path), None)
        if known is not None:
            on_open(known, True)
        elif path not in self.loading:
            ticket = next(self._tickets)
            self.loading[path] = None
            job = self.runner.run(
                self.tr("Opening {name}").format(name=plain_text(path.name)),
                lambda job: load_document(path, job),
                lambda document: on_open(document, self._add_document(document, ticket)),
                self.show_error,
            )
            job.finished.connect(lambda: self.loading.pop(path))

    def _add_document(self, document: Document, ticket: int) -> bool:
        """List a model in the order of asking; return whether it is the last."""
        place = bisect(self._order, ticket)
        self._order.insert(place, ticket)
        self.documents.insert(place, document)
        self.settings.add_recent(document.path)
        self.open_models.add(document, place)
        self.panels.set_documents(self.documents)
        self.session.note()
        return place == len(self.documents) - 1

    def open_library(self) -> None:
        """Show the downloaded models; where there are none, open the demo model."""
        self.panels.library_scanned.connect(
            self._show_demo_if_none, Qt.ConnectionType.SingleShotConnection
        )
        self.panels.setCurrentWidget(self.panels.library)

    def _show_demo_if_none(self, model_count: int) -> None:
        if not model_count and not self.documents:
            self._show_demo()

    def _show_demo(self) -> None:
        """Open the demo model, and list the demo's store in the library, which is empty."""
        self.panels.setCurrentWidget(self.panels.overview)
        self.open_demo(with_store=True)

    def open_demo(self, *, with_store: bool = False) -> None:
        """Make the demo model if it is not there, and open it; list its store in the library."""

        def show(demo: DemoPaths) -> None:
            self.open_paths([demo.model])
            if with_store:
                self.panels.show_demo_store(demo.store)

        self.runner.run(self.tr("Making the demo model"), _make_demo, show, self.show_error)

    def _open_downloaded(self, path: Path) -> None:
        self.open_paths([path])
        self.panels.setCurrentWidget(self.panels.overview)

    def close_document(self, document: Document) -> None:
        """Close a model."""
        place = self.documents.index(document)
        del self.documents[place], self._order[place]
        self.open_models.remove(document)
        if self.current is document and self.documents:
            self.reveal_model(self.documents[min(place, len(self.documents) - 1)])
        elif self.current is document:
            self.show_document(None)
        self.panels.set_documents(self.documents)
        self.session.note()
        document.model.close()

    def show_document(self, document: Document | None) -> None:
        """Show a model in the panels."""
        self.panels.selection.show_document(document)
        for action in self.actions_.of_a_model:
            action.setEnabled(document is not None)
        self._show_title()

    # Linked selection

    def reveal_model(self, document: Document) -> None:
        """Select a model in the tree and show it."""
        self.open_models.reveal_model(document)
        self.show_document(document)

    def reveal_tensor(self, document: Document, row: int) -> None:
        """Select a tensor in every panel that knows it, and show one of them."""
        self.show_document(document)
        panels = self.panels
        panels.selection.select_tensors([row], again=True)
        panels.show_one_of(panels.tensors, panels.weights, panels.errors, panels.raw)

    def reveal_key(self, document: Document, position: int) -> None:
        """Select a metadata entry in every panel that knows it, and show one of them."""
        self.show_document(document)
        self.panels.selection.select_key(position, again=True)
        self.panels.show_one_of(self.panels.metadata, self.panels.raw)

    def _reveal_key_by_name(self, document: Document, key: str) -> None:
        position = key_position(document, key)
        if position is not None:
            self.reveal_key(document, position)

    # Commands

    def show_quick_open(self) -> None:
        """Open the search over everything."""
        from explorer.qt import quick_open  # noqa: PLC0415 - not needed for the first paint

        kind = quick_open.ResultKind
        reveal = {kind.KEY: self.reveal_key, kind.TENSOR: self.reveal_tensor}
        reveal[kind.MODEL] = lambda document, _: self.reveal_model(document)
        quick_open.show_quick_open(self, self.documents, self.runner, reveal)

    def _ask_reference(self) -> None:
        path = ask_reference(self)
        if path is not None:
            self.open_reference(path)

    def _focus_search(self) -> None:
        if not self.panels.focus_search():
            self.show_quick_open()

    def _close_current(self) -> None:
        if self.current is not None:
            self.close_document(self.current)

    def _copy_path(self) -> None:
        if self.current is not None:
            QtGui.QGuiApplication.clipboard().setText(plain_text(str(self.current.path)))

    # Messages

    def show_error(self, error: ExplorerError) -> None:
        """Show why an input could not be used."""
        self.message_bar.show_error(str(error))

    def _show_written(self, path: str) -> None:
        self.message_bar.show_note(self.tr("Written: {path}").format(path=path))

    # Layout

    def _show_title(self) -> None:
        model = "" if self.current is None else f"{plain_text(self.current.title)} — "
        self.setWindowTitle(f"{model}GGUF Explorer")
        self.place.setText(
            self.tr("Ctrl+O opens a model, F1 opens the guide")
            if self.current is None
            else plain_text(str(self.current.path))
        )

    def _restore_layout(self) -> None:
        geometry = self.settings.layout("window")
        if geometry.isEmpty() or not self.restoreGeometry(geometry):
            _take_first_size(self)
        state = self.settings.layout("splitter")
        if state.isEmpty() or not self.splitter.restoreState(state):
            self.splitter.setSizes([_TREE_WIDTH, _FIRST_WIDTH - _TREE_WIDTH])

    def _reset_layout(self) -> None:
        self.settings.reset_layout()
        self._restore_layout()
        self.panels.reset_layout()

    # Qt

    def dragEnterEvent(self, event: QtGui.QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QtGui.QDropEvent) -> None:
        urls = event.mimeData().urls()
        self.open_paths([Path(url.toLocalFile()) for url in urls if url.isLocalFile()])
        event.acceptProposedAction()

    def closeEvent(self, event: QtGui.QCloseEvent) -> None:
        self.help.close()
        try:
            self.session.end()
        finally:  # a panel that fails keeps no file open, and no window
            self.runner.close()
            for document in self.documents:
                document.model.close()
            super().closeEvent(event)


def _make_demo(_job: Job) -> DemoPaths:
    from explorer.demo import make_demo  # noqa: PLC0415 - rarely needed, and then in a worker

    return make_demo()
