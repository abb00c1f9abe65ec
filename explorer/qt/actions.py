"""Every command of the window, and the menus; keys and the shortcut list share them.

And the menus whose entries depend on what is in front: what to save, to go on to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final
from weakref import ref

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QAction, QActionGroup, QIcon, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QMainWindow, QMenu, QMenuBar, QWidget

from explorer.present.panels import GROUPS, OF_TENSORS, PANELS
from explorer.qt.addresses import agrees_to_weights
from explorer.qt.document import Document
from explorer.qt.jobs import Job, all_cores
from explorer.qt.locale_numbers import own_widgets
from explorer.qt.panels import Panels
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme, apply_scheme, apply_text_size
from explorer.qt.widgets.painting import type_swatch
from explorer.qt.widgets.saving import FileSaver, file_name
from explorer.sources import is_address
from explorer.tabular import write_atomically
from explorer.text import plain_text, shorten

Key = QKeySequence.StandardKey
_ALWAYS: Final = {Key.Quit: ("Ctrl+Q",), Key.ZoomIn: ("Ctrl++", "Ctrl+=")}
"""Keys that some platforms do not count among the standard ones, or not without Shift."""


class Actions:
    """The commands of a window, as `QAction`s.

    Attributes:
        of_a_model: Those that need an open model.
        menus: The menu in which each stands, once the menus are made.
    """

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        self.menus: dict[QAction, str] = {}
        make = self._make
        self.open_files = make("&Open file…", Key.Open, "Open model files")
        tip = "Open the folder of a Hugging Face model"
        self.open_folder = make("Open &folder…", "Ctrl+Shift+O", tip)
        tip = "Open a model on the web: its header is fetched, and weights that you look at"
        self.open_address = make("Open &address…", "Ctrl+L", tip)
        self.offline = make("Read nothing from the &web", "", "Refuse all addresses")
        self.offline.setCheckable(True)
        self.open_demo = make("Open &demo model", "", "Open a small model of random weights")
        tip = "Show what a program measured beside the plan of the current model"
        self.compare_log = make("Compare with a &log…", "", tip)
        tip = "Show another model beside the current one: what they differ in"
        self.compare_model = make("Compare with another &model…", "", tip)
        tip = "Save a table or a picture of the page, or a report of the model"
        self.save_shown = make("&Save what is shown…", "Ctrl+E", tip)
        self.close_model = make("&Close model", "Ctrl+W", "Close the current model")
        self.clear_recent = make("&Forget these", "", "Empty the list of recent models")
        self.quit = make("&Quit", Key.Quit, "Close the program")
        self.find = make("&Find", Key.Find, "Search or filter what is shown")
        tip = "Jump to any model, key, tensor or command"
        self.go_to = make("&Go to…", "Ctrl+K", tip)
        self.paste = make("Open what was &copied", Key.Paste, "An address, or files")
        tip = "Copy the path of the current model"
        self.copy_path = make("Copy model's &path", "Ctrl+Alt+C", tip)
        tip = "Copy the command that downloads the current model, which is on the web"
        self.copy_download = make("Copy the command that &downloads it", "", tip)
        tip = "Open the guide at the panel in front"
        self.guide = make("&Guide", Key.HelpContents, tip)
        self.shortcuts = make("&Keyboard shortcuts", "Ctrl+?", "List every shortcut")
        tip = "Point at a figure to read what it means"
        self.whats_this = make("&What's this?", Key.WhatsThis, tip)
        tip = "Explain the figure that has the focus"
        self.explain = make("&Explain the current figure", "Ctrl+F1", tip)
        self.about = make("&About", "", "Version and licence")
        self.change_machine = make(
            "Plan for another mac&hine…", "", "Choose GPUs and main memory of all plans"
        )
        tip = "Show the tree of open models beside the pages, or hide it"
        self.show_tree = make("Show the &tree", "Ctrl+B", tip)
        self.show_tree.setCheckable(True)
        self.larger = make("Lar&ger text", Key.ZoomIn, "Make all texts larger")
        self.smaller = make("S&maller text", Key.ZoomOut, "Make all texts smaller")
        self.usual = make("&Usual size of text", "Ctrl+0", "Give texts the system's size")
        for name, action in vars(self).items():
            if isinstance(action, QAction):
                action.setObjectName(name)
        self._make_places()
        compared = self.compare_model, self.compare_log
        self.of_a_model = (self.close_model, *compared, self.copy_path)
        self._make_choices()

    def _make_places(self) -> None:
        """Make the commands that show a group of pages, or a page."""
        make = self._make
        self.groups = {name: make(*group) for name, group in GROUPS.items()}
        self.pages = {
            name: make(panel.menu, panel.keys, panel.purpose)
            for name, panel in PANELS.items()
            if panel.menu
        }
        for kind, places in (("group", self.groups), ("page", self.pages)):
            for name, action in places.items():
                action.setObjectName(f"{kind}_{name}")

    def _make_choices(self) -> None:
        """Make the commands that choose the colours: one of them is in force."""
        make = self._make
        self.schemes = {
            Scheme.SYSTEM: make("As the &system"),
            Scheme.LIGHT: make("&Light"),
            Scheme.DARK: make("&Dark"),
            Scheme.CONTRAST: make("High &contrast"),
        }
        group = QActionGroup(self._window)
        for scheme, action in self.schemes.items():
            action.setObjectName(f"scheme_{scheme.value}")
            action.setCheckable(True)
            group.addAction(action)

    def all(self) -> list[QAction]:
        own = [value for value in vars(self).values() if isinstance(value, QAction)]
        tables = (self.groups, self.pages, self.schemes)
        return [*own, *(action for table in tables for action in table.values())]

    def _make(self, text: str, keys: QKeySequence.StandardKey | str = "", tip: str = "") -> QAction:
        action = QAction(text, self._window)
        if isinstance(keys, QKeySequence.StandardKey):
            usual = [QKeySequence(text) for text in _ALWAYS.get(keys, ())]  # on every desktop
            action.setShortcuts([*dict.fromkeys([*usual, *QKeySequence.keyBindings(keys)])])
        elif keys:
            action.setShortcut(QKeySequence(keys))
        action.setStatusTip(tip)
        self._window.addAction(action)
        return action


def offer_appearance(settings: Settings, actions: Actions) -> None:
    """Let the menu View apply and save colours and the size of texts."""

    def choose_scheme(scheme: Scheme) -> None:
        settings.scheme = scheme
        apply_scheme(scheme)

    for scheme, action in actions.schemes.items():
        action.setChecked(scheme is settings.scheme)
        action.triggered.connect(lambda _=True, scheme=scheme: choose_scheme(scheme))

    def choose_text_size(percent: int) -> None:
        settings.text_size = percent
        apply_text_size(settings.text_size)

    for action, step in ((actions.larger, 10), (actions.smaller, -10)):
        action.triggered.connect(
            lambda _=True, step=step: choose_text_size(settings.text_size + step)
        )
    actions.usual.triggered.connect(lambda: choose_text_size(100))


def fill_menu_bar(bar: QMenuBar, actions: Actions, recent: QMenu) -> None:
    """Make the menus of a window, and note in which menu each command stands."""

    def add(menu: QMenu, *commands: QAction, above: str = "") -> None:
        menu.addActions(commands)
        title = f"{above}{menu.title()}".replace("&", "")
        actions.menus.update(dict.fromkeys(commands, title))

    menu = bar.addMenu("&File")
    opening = (actions.open_files, actions.open_folder, actions.open_address, actions.open_demo)
    add(menu, *opening)
    menu.addMenu(recent)
    add(menu, actions.compare_model, actions.compare_log)
    add(menu, actions.save_shown, actions.close_model)
    menu.addSeparator()
    add(menu, actions.offline, actions.quit)
    edit = bar.addMenu("&Edit")
    add(edit, actions.find, actions.go_to)
    add(edit, actions.paste, actions.copy_path, actions.copy_download)
    menu = bar.addMenu("&View")
    view = f"{menu.title()}: "
    add(menu, *actions.groups.values())
    menu.addSeparator()
    add(menu.addMenu("Pa&ges"), *actions.pages.values(), above=view)
    add(menu, actions.change_machine, actions.show_tree)
    add(menu.addMenu("&Appearance"), *actions.schemes.values(), above=view)
    sizes = (actions.larger, actions.smaller, actions.usual)
    add(menu.addMenu("Text si&ze"), *sizes, above=view)
    menu = bar.addMenu("&Help")
    add(menu, actions.guide, actions.shortcuts)
    add(menu, actions.whats_this, actions.explain, actions.about)


class RecentMenu(QMenu):
    """The models opened last, listed anew each time the menu is opened.

    Signals:
        path_chosen: One was chosen; its path.
    """

    path_chosen = Signal(object)

    def __init__(self, settings: Settings, forget: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTitle("Open &recent")
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
            self.addAction("Nothing was opened yet").setEnabled(False)


def _offer_references(menu: QMenu, panels: Panels) -> None:
    """Fill a menu with what the current model can be compared with."""
    references = panels.references

    def compare(held: ref[Document]) -> None:
        if (document := held()) is not None:
            references.compare_with(document)
            panels.setCurrentWidget(panels.compare)

    def ask() -> None:
        panels.setCurrentWidget(panels.compare)
        panels.app.ask_reference()

    others = [each for each in references.documents if each is not references.document]
    for document in others:
        title = plain_text(document.title).replace("&", "&&")
        action = menu.addAction(_type_icon(document), title)
        action.triggered.connect(partial(compare, ref(document)))  # the menu outlives it
    menu.addSeparator()
    menu.addAction("&Another model…", ask)


def add_navigation(
    panels: Panels,
    actions: Actions,
    show_folder: Callable[[Path], object],
    menu: QMenu,
    *,
    whole: bool = False,
) -> None:
    """Add to a context menu where one can go on from the selected tensor, or else the model."""
    selection = panels.selection
    document, rows = selection.document, () if whole else selection.rows
    if document is None:
        return
    menu.addSeparator()
    names = OF_TENSORS if rows else tuple(actions.pages)
    pages = menu.addMenu("Sho&w in")
    pages.addActions([actions.pages[name] for name in names if name != panels.page])
    if panels.page != "planner":
        pages.addAction(actions.groups["planner"])
    _offer_references(menu.addMenu("Co&mpare with"), panels)
    if not is_address(document.path):
        file = document.model.tensors.rows[rows[0]].file if rows else document.path
        menu.addAction("Show in &file manager", partial(show_folder, file))


def _type_icon(document: Document) -> QIcon:
    """Return the swatch of the type that most bytes of a model have."""
    types = document.facts.types
    return QIcon(type_swatch(types[0].name)) if types else QIcon()


def offer_to_save(menu: QMenu, panels: Panels) -> None:
    """Fill the menu of what the page in front can save."""
    menu.clear()
    page = panels.currentWidget()
    parts = (part for part in own_widgets() if page.isAncestorOf(part) and part.isVisible())
    for part in sorted(parts, key=lambda part: part.mapTo(page, QPoint()).toTuple()[::-1]):
        ask = getattr(part, "ask_export", None)
        if ask is not None:
            name = shorten(part.accessibleName() or part.windowTitle(), 40)
            kind = "Table" if isinstance(part, QAbstractItemView) else "Picture"
            title = f"{kind}: {name}…" if name else f"{kind}…"
            menu.addAction(title.replace("&", "&&"), ask)
    if not menu.actions():
        menu.addAction("This page has nothing to save").setEnabled(False)
    menu.addSeparator()
    report = menu.addAction("&Report of the model…", partial(ask_report, panels))
    report.setEnabled(panels.selection.document is not None)


def ask_report(panels: Panels) -> None:
    """Ask for a file, and write all that is known of the current model into it, as `report` does.

    All weights are read, unless they were before; of models on the web after a question. A model
    that is chosen to compare with is compared. Both are opened anew: the user may close them
    meanwhile.
    """
    document, chosen = panels.selection.document, panels.references.chosen
    if document is None:
        return
    other = chosen.path if isinstance(chosen, Document) else None
    models = [document.model, *([chosen.model] if isinstance(chosen, Document) else [])]
    if not agrees_to_weights(models, panels):
        return
    path = document.path
    saver = FileSaver(panels.app, panels)
    name = file_name(path.stem, "model")
    target = saver.ask_path("Save a report", name, {"Web page": ".html"})
    if target is None:
        return

    def write(job: Job) -> None:
        from explorer.formats import open_model  # noqa: PLC0415 - rarely needed, as all of these
        from explorer.hardware.detect import detect  # noqa: PLC0415
        from explorer.report.gather import gather, plan_targets, weights_to_read  # noqa: PLC0415
        from explorer.report.sections import report_html  # noqa: PLC0415

        with ExitStack() as stack:
            model = stack.enter_context(open_model(path))
            reference = None if other is None else stack.enter_context(open_model(other))
            total = weights_to_read(model, reference)

            def report(read: int) -> None:
                job.check()
                job.report(read, total)

            targets, workers = plan_targets((), detect()), all_cores()
            data = gather(model, reference, workers=workers, targets=targets, progress=report)
            page = report_html(data, datetime.now().astimezone().date())
        with write_atomically(target) as stream:
            stream.write(page)

    saver.write("Making a report", target, write)
