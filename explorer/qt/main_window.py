"""The window: what it opens and closes, and what its commands do."""

from __future__ import annotations

import gc
from bisect import bisect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from PySide6 import QtCore, QtGui, QtWidgets
from PySide6.QtCore import QSize, Qt

from explorer.crash_reports import CrashReports
from explorer.errors import ExplorerError, ManyRequestsError, SeveralModelsError
from explorer.formats.attachments import OpenMatrix
from explorer.formats.tensors import Extent
from explorer.paths import demo_model
from explorer.present.panels import OF_TENSORS, PANELS, panels_of
from explorer.present.questions import ATTACHMENTS, FILES, MACHINE, QUANTS, SAVE
from explorer.qt.actions import Actions, RecentMenu, add_navigation, fill_menu_bar, offer_appearance
from explorer.qt.addresses import (
    Addresses,
    TrafficLabel,
    addresses_in,
    agrees_to_requests,
    ask_address,
    copied_places,
    copy_download,
)
from explorer.qt.contents.open_models import OpenModelsView
from explorer.qt.crashes import Crashes
from explorer.qt.document import Document, load_document
from explorer.qt.freed_memory import give_back
from explorer.qt.help.menu import Help
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.panels import Panels
from explorer.qt.selection import Selection, key_position
from explorer.qt.services import Services
from explorer.qt.settings import Settings
from explorer.qt.shell import BottomBar, Shell, TopBar
from explorer.qt.widgets.asking import ask_file, ask_files, ask_folder
from explorer.qt.widgets.building import copy_text
from explorer.qt.widgets.messages import MessageBar
from explorer.qt.widgets.progress import JobBar
from explorer.sources import Address, is_address
from explorer.sources.remote.addresses import forbidden_by
from explorer.text import plain_text, sentence


def ask_models(window: MainWindow) -> list[Path]:
    """Ask for models to open; return their files, none if the user cancels."""
    return ask_files(window.panels.app, window, "Open models", _MODELS, _kinds())


def ask_model_folder(window: MainWindow) -> list[Path]:
    """Ask for the folder of a model; return it, or nothing."""
    folder = ask_folder(window.panels.app, window, "Open a model's folder", _MODELS)
    return [] if folder is None else [folder]


def _kinds() -> str:
    kinds = ("*.gguf", "*.safetensors", "*.safetensors.index.json")
    from explorer.model_files import LEGACY_SUFFIXES  # noqa: PLC0415 - rarely needed

    legacy = (f"*{suffix}" for suffix in LEGACY_SUFFIXES)
    return f"Models ({' '.join([*kinds, *legacy])});;All files (*)"


_MODELS: Final = "models"  # of the dialogs that ask for one


_WRITE_AFTER_MS = 3_000  # so soon after a change it is on the disk


class SessionKeeper(QtCore.QObject):
    """Writes settings and session of a window a few seconds after they change, and at its end."""

    _failed = QtCore.Signal(str)

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._settings = window.settings
        self._settings.changed = self._changed
        self._writer = QtCore.QThreadPool(self)  # of its own: jobs may keep the others for minutes
        self._writer.setMaxThreadCount(1)
        self._timer = QtCore.QTimer(self, singleShot=True, interval=_WRITE_AFTER_MS)
        self._timer.timeout.connect(self._write_soon)
        self._failed.connect(self._say, QtCore.Qt.ConnectionType.QueuedConnection)

    @QtCore.Slot(str)
    def _say(self, fault: str) -> None:
        self._window.message_bar.show_error(fault)

    def _changed(self) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def _write_soon(self) -> None:
        try:
            self._note_layout()
        finally:
            self._writer.start(self._write)

    def _write(self) -> None:
        said = self._settings.write()
        if said is not None:
            self._failed.emit(said)

    def note(self) -> None:
        """Note what is open; what is not open yet is not forgotten."""
        window = self._window
        opened = [document.path for document in window.documents]
        every = dict.fromkeys([*opened, *window.loading, *window.expected])
        # what is on the web is fetched when the user asks for it, and not by a start
        self._settings.session = [path for path in every if not is_address(path)]

    def _note_layout(self) -> None:
        self._settings.set_layout("window", self._window.saveGeometry())
        self._settings.set_layout("shell", self._window.splitter.saveState())
        self._window.panels.memory.save()

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


_FIRST_SIZE = QSize(1280, 800)
"""Of a first window, in logical pixels."""

_FRAME = QSize(8, 48)  # at most; what a desktop puts around is not known before a window is shown


def take_first_size(window: QtWidgets.QWidget, room: QSize) -> None:
    """Give a window the usual size, or all of a screen with less room than that and a frame."""
    window.resize(_FIRST_SIZE.boundedTo(room))
    framed = _FIRST_SIZE + _FRAME
    if framed.boundedTo(room) != framed:
        window.setWindowState(Qt.WindowState.WindowMaximized)


class WindowServices(Services):
    """Does in a window what pages ask for."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window.runner, Selection(window))
        self._window = window

    def report(self, error: ExplorerError) -> None:
        self._window.show_error(error)

    def saved(self, path: str) -> None:
        self._window.bottom.notice.show_written(Path(path))

    def say(self, sentence: str) -> None:
        self._window.bottom.notice.show_done(sentence)

    def last_folder(self, kind: str) -> str:
        return self._window.settings.note(f"folder_{kind}")

    def note_folder(self, kind: str, folder: str) -> None:
        self._window.settings.set_note(f"folder_{kind}", folder)

    def go(self, page: str) -> None:
        self._window.panels.show_page(page)

    def open(self, path: Path, page: str = "overview", beside: Path | None = None) -> None:
        if beside is None:
            self._window.open_paths([path])
        else:
            self._window.open_with(path, beside, page)
        self.go(page)

    def open_demo(self) -> None:
        self._window.show_demo()

    def ask_model(self, then: Callable[[Document], None] | None = None) -> None:
        if then is None:
            self._window.actions_.open_files.trigger()
            return
        for path in ask_models(self._window):
            self._window.open_one(path.absolute(), lambda document, _last: then(document))

    def ask_reference(self, *, as_original: bool = False) -> None:
        self._window.ask_reference(as_original=as_original)

    def compare_with(self, path: Path) -> None:
        self._window.open_reference(path)

    def compare(self, paths: Sequence[Path]) -> None:
        first, second = paths

        def go_on(document: Document, _last: bool) -> None:
            self._window.reveal_model(document)
            self._window.open_reference(second)

        self.go("compare")
        self._window.open_one(first, go_on)

    def choose_quant(self, path: Path) -> None:
        from explorer.present.quants import address_of, quants_of, stem_of  # noqa: PLC0415 - rarely needed
        from explorer.qt.library.versions import VersionsDialog  # noqa: PLC0415 - as above
        from explorer.qt.what_if.controls import Scope  # noqa: PLC0415 - as above
        from explorer.stores.entries import StoreKind  # noqa: PLC0415 - as above

        window = self._window
        find = window.panels.downloads()

        def work(job: Job) -> tuple[SeveralModelsError, Address | None]:
            listed = find(job.check)
            choices = quants_of(path, [entry for entry, _ in listed])
            own = next(((one, program) for one, program in listed if one.path == path), None)
            name = path.name if own is None else own[0].name
            of_ollama = own is not None and own[1] == StoreKind.OLLAMA.program
            address = address_of(path, name, of_ollama=of_ollama)
            return SeveralModelsError("", Path(stem_of(name) or name), choices), address

        def show(found: tuple[SeveralModelsError, Address | None]) -> None:
            error, more = found
            dialog = VersionsDialog(error, window.panels.machine, window, more)
            dialog.chosen.connect(window.open_paths)
            dialog.recipes_wanted.connect(try_recipes)
            dialog.open()

        def try_recipes(original: Path) -> None:
            def show(document: Document, _last: bool) -> None:
                window.reveal_model(document)
                self.go("what_if")
                window.panels.what_if.widget.controls.choose(Scope.RECIPES)

            window.open_one(original, show)

        if is_address(path) and (place := address_of(path, "")) is not None:
            window.open_paths([place])
            return
        window.runner.run("Looking for quants", work, show, window.show_error)

    def open_tensors(self, *rows: int) -> None:
        self._window.panels.open_tensors(*rows)

    def open_layer(self, row: int) -> None:
        self._window.panels.open_layer(row)

    def open_key(self, position: int) -> None:
        self._window.panels.open_key(position)

    def open_bytes(self, row: int, extent: Extent) -> None:
        self._window.panels.open_bytes(row, extent)


class MainWindow(QtWidgets.QMainWindow):
    """The program's window.

    Attributes:
        documents: The open models, in the order of opening.
        runner: Background work.
        crashes: Reports uncaught exceptions.
        help: What the menu Help has.
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
        self.crashes = Crashes(CrashReports(), self)
        self.actions_ = Actions(self)
        offer_appearance(settings, self.actions_)
        self.addresses = Addresses(settings, self)
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
        self.panels = Panels(WindowServices(self), self.settings, self)
        self.top = TopBar(self.actions_, self)
        self.setMenuWidget(self.top)
        self.shell = Shell(self.panels, self.open_models, self.message_bar, self)
        self.splitter = self.shell.splitter
        self.setCentralWidget(self.shell)
        self.panels.currentWidget().setFocus()  # keys begin on the page, not at the bar above
        self.bottom = BottomBar(JobBar(self.runner, self), self.panels.machine, self)
        self.setStatusBar(self.bottom)
        TrafficLabel(self.bottom.promise, self.runner, self.addresses)

    def _make_menus(self) -> None:
        recent = RecentMenu(self.settings, self.actions_.clear_recent, self)
        recent.path_chosen.connect(lambda path: self.open_paths([path]))
        fill_menu_bar(self.top.menus, self.actions_, recent)
        self.help = Help(self, self.actions_, self.panels, self.settings)
        self.top.fill_menus(self.actions_, self.panels)
        self.add_navigation = partial(  # asked for by every context menu
            add_navigation, self.panels, self.actions_, self._show_in_folder
        )

    def _connect(self) -> None:
        self._connect_commands()
        self.runner.crashed.connect(self.crashes.note)
        self.crashes.happened.connect(self.message_bar.show_error)
        self.open_models.model_chosen.connect(self.show_document)
        self.open_models.key_chosen.connect(self._reveal_key_by_name)
        self.open_models.tensor_chosen.connect(self.reveal_tensor)
        self.open_models.layer_chosen.connect(self.reveal_layer)
        self.open_models.close_requested.connect(self.close_document)
        selection = self.panels.selection
        selection.changed.connect(partial(self.open_models.follow, selection))
        self.bottom.notice.folder_wanted.connect(self._show_in_folder)

    def _connect_commands(self) -> None:
        """Let the commands of the menus do what they say."""
        actions = self.actions_
        self.open_models.opened.connect(self.panels.open_selected)
        actions.open_files.triggered.connect(lambda: self.open_paths(ask_models(self)))
        actions.open_folder.triggered.connect(lambda: self.open_paths(ask_model_folder(self)))
        actions.open_address.triggered.connect(lambda: self.open_paths(ask_address(self)))
        actions.paste.triggered.connect(lambda: self.open_paths(copied_places()))
        actions.offline.setChecked(self.addresses.offline)
        actions.offline.toggled.connect(self.addresses.set_offline)
        if why := forbidden_by():  # whatever the setting is
            actions.offline.setEnabled(False)
            actions.offline.setToolTip(plain_text(why))
            actions.offline.setStatusTip(plain_text(why))
        actions.open_demo.triggered.connect(self.show_demo)
        actions.compare_model.triggered.connect(lambda: self.panels.show_page("compare"))
        actions.compare_model.triggered.connect(self.ask_reference)
        actions.compare_log.triggered.connect(self.panels.ask_log)
        actions.close_model.triggered.connect(self._close_current)
        actions.quit.triggered.connect(self.close)
        actions.find.triggered.connect(self._focus_search)
        actions.go_to.triggered.connect(self.show_quick_open)
        actions.copy_path.triggered.connect(self._copy_path)
        actions.copy_download.triggered.connect(self._copy_download)
        actions.change_machine.triggered.connect(self.panels.ask_machine)
        for button in (self.bottom.machine, self.shell.head.machine):
            button.clicked.connect(actions.change_machine.trigger)
        self.shell.tree_followed.connect(self._follow_tree)
        self.shell.follow()
        actions.show_tree.triggered.connect(self.shell.show_tree)
        for name, action in actions.groups.items():
            action.triggered.connect(partial(self.panels.show_group, name))
            action.triggered.connect(self.panels.enter)
        for name, action in actions.pages.items():
            action.triggered.connect(partial(self.panels.show_page, name))
            action.triggered.connect(self.panels.enter)

    # Opening and closing

    def open_paths(self, paths: Sequence[Path], front: Path | None = None) -> None:
        """Open models in the background, and show the last, or the one that shall be in front."""

        def show(document: Document, last: bool) -> None:
            if document.path == front or (last and (front is None or self.current is None)):
                self.reveal_model(document)
                self.panels.memory.recall(document)

        for path in self.addresses.admitted(paths):
            self.open_one(path if is_address(path) else path.absolute(), show)

    def open_reference(self, path: Path, *, as_original: bool = False) -> None:
        """Open a model to compare the current one with, which stays the current one."""
        current, references = self.current, self.panels.references

        def compare(document: Document, _last: bool) -> None:
            if self.current is current:
                (references.choose if as_original else references.compare_with)(document)

        for admitted in self.addresses.admitted([path]):
            self.open_one(admitted if is_address(path) else path.absolute(), compare)

    def open_with(self, path: Path, part: Path, page: str) -> None:
        """Open a model, and plan it with a file that belongs to it, or use a matrix for it."""

        def show(document: Document, _last: bool) -> None:
            self.reveal_model(document)
            if page == "planner":
                self.panels.planner.widget.add_file(part)
            else:
                self.runner.run(
                    f"Opening {plain_text(part.name)}",
                    lambda _job: OpenMatrix.load(part),
                    self.panels.references.choose_matrix,
                    self.show_error,
                )

        self.open_one(path, show)

    def open_one(self, path: Path, on_open: Callable[[Document, bool], None]) -> None:
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
                f"Opening {plain_text(path.name)}",
                lambda job: load_document(path, job),
                lambda document: on_open(document, self._add_document(document, ticket)),
                lambda error: self._show_refusal(error, on_open),
            )
            job.finished.connect(lambda: self.loading.pop(path))

    def _show_refusal(
        self, error: ExplorerError, on_open: Callable[[Document, bool], None]
    ) -> None:
        """Say why a model cannot be opened; ask which of several to open, or whether to go on."""
        if isinstance(error, ManyRequestsError) and agrees_to_requests(error, self):
            assert error.path is not None
            self.open_one(error.path, on_open)
            return
        if not isinstance(error, SeveralModelsError):
            if not isinstance(error, ManyRequestsError):  # it was asked about
                self.show_error(error)
            return
        from explorer.qt.library.versions import VersionsDialog  # noqa: PLC0415 - late

        def open_all(paths: Sequence[Path]) -> None:
            for path in paths:
                self.open_one(path, on_open)

        def list_folder() -> None:
            self.panels.setCurrentWidget(self.panels.library)
            if error.path is not None:
                self.panels.library.widget.commands.add_folder(error.path)

        of_folder = not is_address(error.path)
        dialog = VersionsDialog(error, self.panels.machine, self, of_folder=of_folder)
        dialog.chosen.connect(open_all)
        dialog.folder_wanted.connect(list_folder)
        dialog.open()

    def _add_document(self, document: Document, ticket: int) -> bool:
        """List a model in the order of asking; return whether it is the last."""
        place = bisect(self._order, ticket)
        self._order.insert(place, ticket)
        self.documents.insert(place, document)
        if document.path != demo_model():  # its place may be another at each start
            self.settings.add_recent(document.path)
        self.open_models.add(document, place)
        self.panels.set_documents(self.documents)
        self.panels.memory.recall(self.current)  # what it was compared with may be open now
        self.session.note()
        gc.freeze()  # a wide model is a million objects: to look at them took the collector 140 ms
        return place == len(self.documents) - 1

    def open_library(self) -> None:
        """Show the downloaded models; where there are none, open the demo model."""
        self.panels.setCurrentWidget(self.panels.library)
        self.panels.library.widget.scanned.connect(
            self._show_demo_if_none, Qt.ConnectionType.SingleShotConnection
        )

    def _show_demo_if_none(self, model_count: int) -> None:
        if not model_count and not self.documents:
            self.show_demo()

    def show_demo(self) -> None:
        """Open the demo model."""
        self.panels.setCurrentWidget(self.panels.overview)
        self.open_paths([demo_model()])

    def close_document(self, document: Document) -> None:
        place = self.documents.index(document)
        del self.documents[place], self._order[place]
        self.open_models.remove(document)
        self.panels.references.set_documents(self.documents)  # before the next one is shown
        if self.current is document and self.documents:
            self.reveal_model(self.documents[min(place, len(self.documents) - 1)])
        elif self.current is document:
            self.show_document(None)
        self.panels.set_documents(self.documents)
        self.session.note()
        document.model.close()
        QtCore.QTimer.singleShot(0, self, give_back)  # behind that of the tree, which lets go last

    def show_document(self, document: Document | None) -> None:
        """Show a model in the panels."""
        self.panels.selection.show_document(document)
        for action in self.actions_.of_a_model:
            action.setEnabled(document is not None)
        self.actions_.copy_download.setEnabled(document is not None and is_address(document.path))
        self._show_title()

    # Linked selection

    def reveal_model(self, document: Document) -> None:
        """Select a model in the tree and show it."""
        self.open_models.reveal_model(document)
        self.show_document(document)

    def reveal_tensor(self, document: Document, row: int) -> None:
        """Select a tensor in every panel that knows it, and show one of them."""
        self.show_document(document)
        self.panels.selection.select_tensors([row], again=True)
        self.panels.show_one_of("tensors", "weights", "raw", *panels_of("compare")[1:])

    def reveal_layer(self, document: Document, row: int, *, leave_planner: bool = False) -> None:
        """Select the layer of a tensor as a whole, and show it among the others."""
        self.show_document(document)
        self.panels.open_layer(row, leave_planner=leave_planner)

    def reveal_key(self, document: Document, position: int) -> None:
        """Select a metadata entry in every panel that knows it, and show one of them."""
        self.show_document(document)
        self.panels.selection.select_key(position, again=True)
        self.panels.show_one_of("metadata", "raw")

    def _reveal_key_by_name(self, document: Document, key: str) -> None:
        position = key_position(document, key)
        if position is not None:
            self.reveal_key(document, position)

    # Commands

    def show_quick_open(self) -> None:
        """Open the search over what is open and downloaded, and over pages and commands."""
        from explorer.qt import quick_open  # noqa: PLC0415 - not needed for the first paint

        kind = quick_open.ResultKind
        titles = {name: panel.full_title for name, panel in PANELS.items()}
        names = {title: name for name, title in titles.items()}
        reveal = {kind.KEY: self.reveal_key, kind.TENSOR: self.reveal_tensor}
        reveal[kind.LAYER] = partial(self.reveal_layer, leave_planner=True)
        reveal[kind.MODEL] = lambda document, _: self.reveal_model(document)
        of_tensors = [titles[name] for name in OF_TENSORS]
        context = quick_open.SearchContext(
            self.actions_.menus,
            self.settings.recent,
            self.panels.downloads(),
            lambda path: self.open_paths([path]),
            {kind.TENSOR: of_tensors, kind.MODEL: [*titles.values()][1:]},
            lambda title: self.panels.show_page(names[title]),
            self._answer,
            self.panels.enter,
            self.current,
            [
                (name, title)
                for name, panel in PANELS.items()
                for title in (panel.title, *self.panels.offered_tabs(name))
                if title != panel.full_title  # which its command has
            ],
            self.panels.show_tab,
        )
        quick_open.show_quick_open(self, self.documents, self.runner, reveal, context)

    def _answer(self, page: str) -> None:
        """Show what answers a question: a page, or what the table of questions has in its place."""
        others = {
            MACHINE: self.actions_.change_machine.trigger,
            SAVE: self.actions_.save_shown.trigger,
            FILES: self.panels.show_files,
            ATTACHMENTS: self.panels.show_attachments,
            QUANTS: self._choose_quant,
        }
        others.get(page, partial(self.panels.show_page, page))()

    def _choose_quant(self) -> None:
        current = self.current
        self.panels.show_page("library" if current is None else "overview")
        if current is not None:
            self.panels.app.choose_quant(current.path)

    def ask_reference(self, *, as_original: bool = False) -> None:
        """Ask for a model to compare the current one with, and open it."""
        title = "Open a model to compare with"
        path = ask_file(self.panels.app, self, title, _MODELS, _kinds())
        if path is not None:
            self.open_reference(path, as_original=as_original)

    def _focus_search(self) -> None:
        if not self.panels.focus_search():
            self.show_quick_open()

    def _follow_tree(self, wanted: bool, useful: bool) -> None:
        self.actions_.show_tree.setChecked(wanted and useful)
        self.actions_.show_tree.setEnabled(useful)

    def _close_current(self) -> None:
        if self.current is not None:
            self.close_document(self.current)

    def _show_in_folder(self, path: Path) -> None:
        from explorer.qt.library.commands import show_in_folder  # noqa: PLC0415 - rarely needed

        show_in_folder(self.panels.app, path)

    def _copy_path(self) -> None:
        if self.current is not None:
            copy_text(plain_text(str(self.current.path)))

    def _copy_download(self) -> None:
        if self.current is not None:
            copy_download(self.current.model)

    # Messages

    def show_error(self, error: ExplorerError) -> None:
        """Show why an input could not be used."""
        self.message_bar.show_error(str(error) if error.path else sentence(str(error)))

    # Layout

    def _show_title(self) -> None:
        model = "" if self.current is None else f"{plain_text(self.current.title)} — "
        self.setWindowTitle(f"{model}GGUF Explorer")

    def _restore_layout(self) -> None:
        geometry = self.settings.layout("window")
        if geometry.isEmpty() or not self.restoreGeometry(geometry):
            take_first_size(self, self.screen().availableGeometry().size())
        self.shell.restore(self.settings.layout("shell"))

    # Qt

    def dragEnterEvent(self, event: QtGui.QDragEnterEvent) -> None:
        if addresses_in(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QtGui.QDropEvent) -> None:
        event.acceptProposedAction()
        # a question before the drop has ended would hold up the program that the link comes from
        QtCore.QTimer.singleShot(0, self, partial(self.open_paths, addresses_in(event.mimeData())))

    def closeEvent(self, event: QtGui.QCloseEvent) -> None:
        self.help.close()
        try:
            self.panels.machine.save()
            self.session.end()
        finally:  # a panel that fails keeps no file open, and no window
            self.runner.close()
            for document in self.documents:
                document.model.close()
            gc.unfreeze()
            super().closeEvent(event)
