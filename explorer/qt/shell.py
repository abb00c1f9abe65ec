"""What surrounds the pages: bar on top, rail of groups, tree, head, status bar."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from PySide6.QtCore import QByteArray, QEvent, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QCursor,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QApplication,
    QMenu,
    QMenuBar,
    QPushButton,
    QSizePolicy,
    QSplitter,
    QStatusBar,
    QTabBar,
    QToolButton,
    QWidget,
)

from explorer.formats import Severity
from explorer.present.explanations import picture_text
from explorer.present.model import gravest, mark
from explorer.present.panels import GROUPS, PANELS, panels_of
from explorer.present.tables.facts import FACTS
from explorer.qt.actions import Actions, offer_to_save
from explorer.qt.document import Document
from explorer.qt.machine import PlannedMachine
from explorer.qt.panels import Panels
from explorer.qt.services import Services
from explorer.qt.theme import (
    CORNER,
    FOLDS_BELOW,
    Space,
    TextSize,
    fit_side,
    ink_of,
    scaled,
    style_text,
    widen_with_text,
)
from explorer.qt.widgets.building import column, row, tab_through
from explorer.qt.widgets.icons import IconButton, IconLabel, SearchButton, paint_icon
from explorer.qt.widgets.labels import Chip, ChipText, ElidedLabel, plain_label
from explorer.qt.widgets.messages import Notice
from explorer.qt.widgets.segments import SegmentBar
from explorer.text import bytes_text, count_text, integer_text, plain_text, shape_text, shorten

_RAIL_WIDTH: Final = 84
_RAIL_FOLDED: Final = 56
_RAIL_STEP: Final = 60
_RAIL_STEP_FOLDED: Final = 48
_RAIL_ICON: Final = 22


class Rail(QTabBar):
    """The groups of pages, one below the other: an icon above a word, or the icon alone."""

    def __init__(self, titles: dict[str, str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names = list(titles)
        self.folded = False
        self.setShape(QTabBar.Shape.RoundedWest)
        self.setDrawBase(False)
        self.setExpanding(False)
        self.setUsesScrollButtons(False)
        self.setMouseTracking(True)
        self.setAccessibleName("Groups of pages")
        for number, title in enumerate(titles.values(), 1):
            place = self.addTab(title)
            self.setTabToolTip(place, f"{title} (Alt+{number})")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)

    def fold(self, on: bool) -> None:
        """Show icons alone, or words too."""
        if on != self.folded:
            self.folded = on
            self.setTabText(0, self.tabText(0))  # has the bar ask for the sizes again
            self.updateGeometry()

    # Qt

    def tabSizeHint(self, index: int) -> QSize:
        if self.folded:
            return QSize(_RAIL_FOLDED, _RAIL_STEP_FOLDED)
        metrics = QFontMetrics(self._caption(bold=True))
        widest = max(metrics.horizontalAdvance(self.tabText(n)) for n in range(self.count()))
        wide = max(_RAIL_WIDTH, widest + 2 * Space.WIDE)
        return QSize(wide, _RAIL_STEP - 16 + metrics.height())

    def minimumTabSizeHint(self, index: int) -> QSize:
        return self.tabSizeHint(index)

    def _caption(self, *, bold: bool) -> QFont:
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * TextSize.CAPTION.value)
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        return font

    def paintEvent(self, event: QPaintEvent) -> None:
        ink, painter = ink_of(self.palette()), QPainter(self)
        painter.fillRect(self.rect(), QColor(ink.surface))
        painter.fillRect(self.width() - 1, 0, 1, self.height(), QColor(ink.line))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        under = self.tabAt(self.mapFromGlobal(QCursor.pos())) if self.underMouse() else -1
        for place in range(self.count()):
            self._paint_step(painter, place, hovered=place == under)
        painter.end()

    def _paint_step(self, painter: QPainter, place: int, *, hovered: bool) -> None:
        ink, chosen = ink_of(self.palette()), place == self.currentIndex()
        area = QRectF(self.tabRect(place)).adjusted(6, 3, -6, -3)
        painter.setPen(Qt.PenStyle.NoPen)
        if chosen or hovered:
            painter.setBrush(QColor(ink.tint if chosen else ink.raised))
            painter.drawRoundedRect(area, CORNER, CORNER)
        if chosen:  # a bar and weight too, so that the colour is not needed
            painter.setBrush(QColor(ink.accent))
            painter.drawRoundedRect(QRectF(area.left(), area.top(), 3, area.height()), 1.5, 1.5)
        colour = QColor(ink.on_tint if chosen else ink.muted)
        icon = QRectF(0, 0, _RAIL_ICON, _RAIL_ICON)
        icon.moveCenter(area.center())
        if not self.folded:
            icon.moveTop(area.top() + 7)
            painter.setFont(self._caption(bold=chosen))
            painter.setPen(colour)
            words = QRectF(area.left(), icon.bottom(), area.width(), area.bottom() - icon.bottom())
            painter.drawText(words, int(Qt.AlignmentFlag.AlignCenter), self.tabText(place))
        paint_icon(painter, icon, self._names[place], colour)
        if chosen and self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            # in high contrast the ground is as the accent
            line = ink.on_tint if ink.tint == ink.accent else ink.accent
            painter.setPen(QPen(QColor(line), 2))
            painter.drawRoundedRect(area.adjusted(2, 2, -2, -2), CORNER, CORNER)


_LONGEST_MACHINE: Final = 80


class MachineButton(IconButton):
    """Says which machine plans are for; a click leads to where it is changed.

    Args:
        machine: The machine.
        pattern: What the button says, with ``{machine}`` in it, and ``{asked}`` for what is asked
            of all models.
    """

    def __init__(
        self, machine: PlannedMachine, pattern: str = "{machine}", parent: QWidget | None = None
    ) -> None:
        tip = "Plans are for this machine: change it"
        super().__init__("machine", "Machine", tip, parent)
        self._planned, self._pattern = machine, pattern
        style_text(self, TextSize.CAPTION)
        self.setIconSize(QSize(14, 14))
        machine.changed.connect(self.show_machine)

    def show_machine(self) -> None:
        """Show the machine that plans are for; look at this machine if that was not done."""
        self._planned.look()
        text = shorten(plain_text(self._planned.text), _LONGEST_MACHINE)
        self.setAccessibleName(f"Plans are for: {text}")
        named = self._pattern.replace("{machine}", text.replace("&", "&&"))
        if "{asked}" in named:  # loads the planner
            named = named.replace("{asked}", self._planned.target().asked_text)
        self.setText(named)


_LEAST_MODEL: Final = 90  # pixels of its name before a tensor's


class Head(QWidget):
    """Where one is: the model, what of it, chips; at the right the pages of the group.

    Where there is too little room for all in a line, chips go first; then the pages stand below.

    Attributes:
        machine: Stands in the place of the pages beside a list of which models fit.
    """

    def __init__(
        self, app: Services, machine: PlannedMachine, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.app = app
        self._names: tuple[str, ...] = ()
        self._model = self._shown_model = ""  # the name in front of a tensor's
        self._chips: list[Chip] = []
        self.above = QToolButton(self)
        self.above.setAutoRaise(True)
        self.above.setObjectName("above")
        self.above.setToolTip("Go to the overview of this model")
        self.above.clicked.connect(lambda: app.go("overview"))
        self._further = IconLabel("further", self)
        self.title = ElidedLabel(self)
        style_text(self.title, TextSize.TITLE)
        self.pages = SegmentBar("Pages", self)
        self.pages.setUsesScrollButtons(False)
        self.pages.currentChanged.connect(self._choose)
        self.machine = MachineButton(machine, "Plan for: {machine} · {asked} · change…", self)
        self.machine.setObjectName("chip")
        self.machine.hide()

    def show_machine(self, on: bool) -> None:
        """Show which machine plans are for, or nothing."""
        if on and not self.machine.isVisibleTo(self):
            self.machine.show_machine()
        self.machine.setVisible(on)
        self._fit()

    def show_pages(self, pages: dict[str, str], current: str) -> None:
        """Offer the pages of a group by name, with their titles; one of a group needs no choice."""
        self.pages.blockSignals(True)
        if tuple(pages) != self._names:
            self._names = tuple(pages)
            while self.pages.count():
                self.pages.removeTab(0)
            for title in pages.values():
                self.pages.addTab(title)
        self.pages.setCurrentIndex(self._names.index(current))
        self.pages.blockSignals(False)
        self.pages.setVisible(len(pages) > 1)
        self._fit()

    def show_place(self, above: str, title: str, chips: Sequence[ChipText], path: str = "") -> None:
        """Show where one is; texts may come from files."""
        self.title.setStatusTip(plain_text(path))
        self._model = shorten(plain_text(above), 40)
        self.above.setAccessibleName(f"Model {plain_text(above)}")
        self.above.setVisible(bool(above))
        self._further.setVisible(bool(above))
        self.title.setText(plain_text(title))
        for chip in self._chips[len(chips) :]:
            chip.hide()
            chip.deleteLater()
        del self._chips[len(chips) :]
        self._chips += [Chip(self) for _ in chips[len(self._chips) :]]
        for shown, fact in zip(self._chips, chips, strict=True):
            shown.show_fact(fact)
        self._fit()

    def _choose(self, place: int) -> None:
        if 0 <= place < len(self._names):
            self.app.go(self._names[place])

    def _width_of_titles(self) -> int:
        parts = [self.above, self._further] if self.above.isVisibleTo(self) else []
        return self.title.sizeHint().width() + sum(
            self._width_of(part) + Space.TIGHT for part in parts
        )

    def _width_of(self, part: QWidget) -> int:
        """Return the width of what stands before the title; a name has no room around it."""
        if part is self.above:
            return part.fontMetrics().horizontalAdvance(self._shown_model) + 4
        return part.sizeHint().width()

    def _share_room(self, room: int) -> None:
        """Shorten the model's name where there is too little room for it and the title."""
        others = self.title.sizeHint().width() + self._further.sizeHint().width() + 3 * Space.TIGHT
        most, elide = max(_LEAST_MODEL, room - others), Qt.TextElideMode.ElideMiddle
        self._shown_model = self.above.fontMetrics().elidedText(self._model, elide, most)
        self.above.setText(self._shown_model.replace("&", "&&"))

    def _fit(self) -> None:
        """Lay all out in one line or two."""
        wide, gap = self.width(), Space.NEAR
        self._shown_model = self._model
        titles = self._width_of_titles()
        right = self.machine if self.machine.isVisibleTo(self) else self.pages
        pages = right.sizeHint() if right.isVisibleTo(self) else QSize(0, 0)
        below = bool(pages.width()) and titles + Space.GROUP + pages.width() > wide
        room = wide if below else wide - pages.width() - Space.GROUP * bool(pages.width())
        high = max(self.title.sizeHint().height(), self.pages.sizeHint().height())
        self._share_room(room)
        self.pages.setUsesScrollButtons(pages.width() > wide)  # else some are out of reach
        left = 0
        for part in (self.above, self._further):
            if part.isVisibleTo(self):
                hint, across = part.sizeHint(), self._width_of(part)
                self._place(part, left, (high - hint.height()) // 2, across, hint.height())
                left += across + Space.TIGHT
        natural = self.title.sizeHint().width()
        title = max(0, min(natural, room - left))
        self._place(self.title, left, 0, title, high)
        left += title + gap + 2
        for chip in self._chips:
            hint = chip.sizeHint()
            chip.setVisible(left + hint.width() <= room)
            self._place(chip, left, (high - hint.height()) // 2, hint.width(), hint.height())
            left += hint.width() + gap
        if pages.width():
            top = high + Space.NEAR if below else (high - pages.height()) // 2
            start = 0 if below else wide - pages.width()
            self._place(right, start, top, min(pages.width(), wide), pages.height())
        self.setFixedHeight(high + (Space.NEAR + pages.height() if below else 0))

    def _place(self, part: QWidget, left: int, top: int, width: int, height: int) -> None:
        part.setGeometry(left, top, width, height)

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.LayoutRequest):
            self._fit()
        return done


_TREE_WIDTH: Final = 272


class _EnterKey(QObject):
    """Presses the button that has the focus with Enter too: Qt does in dialogs, not in windows."""

    def __init__(self, shell: QWidget) -> None:
        super().__init__(shell)
        self._shell = shell
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._follow)

    def _follow(self, old: QWidget | None, new: QWidget | None) -> None:
        if old is not None:
            old.removeEventFilter(self)
        # not by the window's own keys: Enter in a list opens what is there, and goes on to them
        buttons = (QPushButton, QToolButton)
        if isinstance(new, buttons) and new.window() is self._shell.window():
            new.installEventFilter(self)

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.KeyPress or not isinstance(event, QKeyEvent):
            return False
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter) or event.isAutoRepeat():
            return False
        assert isinstance(watched, (QPushButton, QToolButton))
        watched.click()
        return True


class Shell(QWidget):
    """Rail, tree, head and pages side by side; what is chosen in one, the others follow.

    Signals:
        tree_followed: Whether the tree is wanted at this width (below 1,100 pixels it hides at
            first), and whether there is one on this page.
    """

    tree_followed = Signal(bool, bool)

    def __init__(
        self, panels: Panels, tree: QWidget, above: QWidget, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.panels, self.tree = panels, tree
        self._with_tree = {False: True, True: False}  # narrow → shown
        _EnterKey(self)
        self.rail = Rail({name: group.title for name, group in GROUPS.items()}, self)
        self.head = Head(panels.app, panels.machine, self)
        pages = QWidget(self)
        margins = (Space.PAGE, Space.WIDE, Space.PAGE, Space.NEAR)
        self._bar = column()  # of the pages that compare
        column(self.head, self._bar, (panels, 1), of=pages, margins=margins, spacing=Space.NEAR)
        self.splitter = QSplitter(self)
        self.splitter.setObjectName("shell")
        self.splitter.addWidget(tree)
        self.splitter.addWidget(pages)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setHandleWidth(1)
        widen_with_text(self.splitter, 0)
        inner = row(self.rail, (self.splitter, 1), spacing=0)
        column(above, (inner, 1), of=self)
        self.rail.currentChanged.connect(lambda place: panels.show_group(list(GROUPS)[place]))
        panels.currentChanged.connect(self.follow)
        panels.selection.changed.connect(self.follow)
        self.follow()

    def show_tree(self, on: bool) -> None:
        """Show the tree of models beside every page but the library, or on none, at this width."""
        self._with_tree[self._is_narrow] = on
        self.follow()

    @property
    def _is_narrow(self) -> bool:
        return self.width() < FOLDS_BELOW

    def restore(self, state: QByteArray) -> None:
        """Give the tree the width that was saved, or its first one."""
        if state.isEmpty() or not self.splitter.restoreState(state):
            tree = scaled(_TREE_WIDTH)
            self.splitter.setSizes([tree, max(1, self.width() - tree)])

    def follow(self) -> None:
        """Show the group of the page in front, and its pages."""
        group = self.panels.group
        if not group:
            return
        self.rail.blockSignals(True)
        self.rail.setCurrentIndex(list(GROUPS).index(group))
        self.rail.blockSignals(False)
        useful = group != "library" and self.panels.selection.document is not None
        wanted = self._with_tree[self._is_narrow]
        self.tree.setVisible(wanted and useful)
        self.tree_followed.emit(wanted, useful)
        fit_side(self.splitter)
        pages = {name: PANELS[name].title for name in panels_of(group)}
        self.head.show_pages(pages, self.panels.page)
        self.head.show_machine(group == "library")
        self._show_bar(on=group == "compare" and self.panels.selection.document is not None)
        self._show_place()

    def _show_bar(self, *, on: bool) -> None:
        """Show what is compared above the pages that compare."""
        if on and not self._bar.count():
            self._bar.addWidget(self.panels.compare_bar())
            bar = self.panels.compare_bar()
            tab_through(self.head.pages, *bar.stops)
            bar.survey.left.connect(lambda: self.panels.currentWidget().setFocus())
        if self.panels.bar is not None:
            self.panels.bar.setVisible(on)
            if on:
                self.panels.bar.show_for(self.panels.page)

    def picture_caption(self) -> str:
        """Return what pictures are of: the model, and on pages of tensors the tensor."""
        document, rows = self.panels.selection.document, self.panels.selection.rows
        if document is None:
            return ""
        panel = self.panels.panel
        parts = [_with_type(document)]
        if panel.of_one_tensor and rows:
            tensor = document.model.tensors.rows[rows[0]]
            parts += [tensor.name, tensor.type.name, shape_text(tensor.shape)]
        references, count = self.panels.references, document.facts.parameters
        other, chosen = references.other, references.chosen
        if self.panels.group == "compare" and chosen is not None:
            way = "compared with" if isinstance(chosen, Document) else "rounded to"
            if other is not None and other is not chosen:
                parts[0] = f"A: {_with_type(document)}"
                if not panel.of_a_alone:
                    parts.append(f"B: {_with_type(other)}")
                elif isinstance(chosen, Document):
                    way = "against the original"
            name = _with_type(chosen) if isinstance(chosen, Document) else chosen.type_name
            parts.append(f"{way} {name}")
        if not panel.of_one_tensor and count:
            parts.append(f"n = {count_text(count)} weights")
        return "   ·   ".join(map(plain_text, parts))

    def _show_place(self) -> None:
        selection, panel = self.panels.selection, self.panels.panel
        document = selection.document
        if panel.group == "library" or document is None:
            title = "Start" if self.panels.page == "overview" else panel.title
            self.head.show_place("", title, ())
        elif panel.of_one_tensor and selection.rows:
            title, chips = _tensor_place(document, selection.rows)
            self.head.show_place(document.title, title, chips, str(document.path))
        else:
            chips = _model_chips(document)
            self.head.show_place("", document.title, chips, str(document.path))

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.rail.fold(self._is_narrow)
        before = event.oldSize()
        if not before.isValid() or (before.width() < FOLDS_BELOW) is not self._is_narrow:
            self.follow()


def _with_type(document: Document) -> str:
    """Return the name of a model, and its type where the name has it not."""
    title, kind = document.title, document.facts.main_type
    return title if kind.casefold() in title.casefold() else f"{title} ({kind})"


def _tensor_place(document: Document, rows: Sequence[int]) -> tuple[str, list[ChipText]]:
    tensor = document.model.tensors.rows[rows[0]]
    chips = [
        ChipText(tensor.type.name, picture_text("tensor_facts"), tensor.type.name),
        ChipText(shape_text(tensor.shape), picture_text("tensor_facts")),
    ]
    if tensor.damage:
        chips.append(ChipText(mark(Severity.ERROR), plain_text(tensor.damage), is_problem=True))
    if len(rows) > 1:
        more = f"and {len(rows) - 1} more"
        chips.append(ChipText(more, picture_text("tensor_facts")))
    return tensor.name, chips


def _model_chips(document: Document) -> list[ChipText]:
    facts, found = document.facts, []
    if facts.file_type:
        name = plain_text(facts.file_type)
        found.append(ChipText(name, FACTS["file_type"].tip, name))
    if facts.nbytes:
        found.append(ChipText(bytes_text(facts.nbytes), FACTS["nbytes"].tip))
    grave = gravest(document.problems)
    if grave is not None:
        text = f"{mark(grave.severity)} {integer_text(len(document.problems))}"
        found.append(ChipText(text, picture_text("problems"), is_problem=True))
    return found


class _Menus(QMenuBar):
    """Titles of menus on the ground of the bar; Fusion draws another one, with a line below."""

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        ink, painter = ink_of(self.palette()), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        flags = int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextShowMnemonic)
        for action in self.actions():
            area, active = QRectF(self.actionGeometry(action)), action is self.activeAction()
            if active:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(ink.tint))
                painter.drawRoundedRect(area, CORNER, CORNER)
            painter.setPen(QColor(ink.on_tint if active else ink.text))
            painter.drawText(area, flags, action.text())
        painter.end()


class TopBar(QWidget):
    """The menus, and the commands used most."""

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.menus = _Menus(self)
        self.menus.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.open = IconButton("open", "Open", "Open model files (Ctrl+O)", self)
        self.open.clicked.connect(actions.open_files.trigger)
        tip = "Show the open models beside the pages, or hide them (Ctrl+B)"
        self.tree = IconButton("tree", "Tree", tip, self)
        self.tree.setCheckable(True)
        self.tree.clicked.connect(actions.show_tree.trigger)
        actions.show_tree.toggled.connect(self.tree.setChecked)
        actions.show_tree.enabledChanged.connect(self.tree.setEnabled)
        self.search = SearchButton(actions.go_to, self)
        tip = "Save what is shown (Ctrl+E)"
        self.save = IconButton("save", "Save", tip, self)
        self.save.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        tip = "Colours and size of text"
        self.appearance = IconButton("appearance", "Appearance", tip, self, words=False)
        self.appearance.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        tip = "All menus: everything that this program can do"
        # for a bar of menus that is out of the window, as on macOS
        self.more = IconButton("more", "More", tip, self, words=False)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setVisible(self.menus.isNativeMenuBar())
        self._worded = (self.open, self.tree, self.save)
        parts = (self.menus, self.open, self.tree, 1, (self.search, 12), 1)
        margins = (Space.NEAR, Space.NEAR, Space.NEAR, Space.NEAR)
        last = (self.save, self.appearance, self.more)
        row(*parts, *last, of=self, margins=margins, spacing=Space.TIGHT)

    def _show_menu(self, menu: QMenu) -> None:
        """Show the menu of what can be saved, for Enter to save the first, if there is any."""
        menu.popup(self.save.mapToGlobal(self.save.rect().bottomLeft()))
        for entry in menu.actions():
            if entry.isEnabled() and not entry.isSeparator():
                menu.setActiveAction(entry)
                break

    def fill_menus(self, actions: Actions, panels: Panels) -> None:
        """Give the buttons their menus; what is open and in front decides what they hold."""
        save = QMenu(self)
        save.aboutToShow.connect(partial(offer_to_save, save, panels))
        self.save.setMenu(save)
        actions.save_shown.triggered.connect(partial(self._show_menu, save))
        appearance = QMenu(self)
        appearance.addActions(list(actions.schemes.values()))
        appearance.addSection("Text size")
        appearance.addActions([actions.larger, actions.smaller, actions.usual])
        self.appearance.setMenu(appearance)
        more = QMenu(self)
        more.addActions(self.menus.actions())
        self.more.setMenu(more)

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for button in self._worded:
            button.show_words(event.size().width() >= FOLDS_BELOW)

    def paintEvent(self, event: QPaintEvent) -> None:
        ink, painter = ink_of(self.palette()), QPainter(self)
        painter.fillRect(self.rect(), QColor(ink.surface))
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(ink.line))
        painter.end()


class BottomBar(QStatusBar):
    """The status bar: the machine, what was done, what runs, what this program never does."""

    def __init__(
        self, jobs: QWidget, machine: PlannedMachine, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.notice = Notice(self)
        self.machine = MachineButton(machine, parent=self)
        self.promise = plain_label(self, "Read only. Nothing is sent anywhere.")
        self.promise.setEnabled(False)
        style_text(self.promise, TextSize.CAPTION)
        self.setSizeGripEnabled(False)
        self.setContentsMargins(Space.NEAR, 0, Space.NEAR, 0)
        self.addWidget(self.machine)
        self.addWidget(self.notice, 1)
        self.addPermanentWidget(jobs)
        self.addPermanentWidget(self.promise)

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:
        ink, painter = ink_of(self.palette()), QPainter(self)
        painter.fillRect(self.rect(), QColor(ink.surface))
        painter.fillRect(0, 0, self.width(), 1, QColor(ink.line))
        if self.currentMessage():
            painter.setPen(QColor(ink.text))
            area = self.rect().adjusted(Space.WIDE, 0, 0, 0)
            painter.drawText(area, int(Qt.AlignmentFlag.AlignVCenter), self.currentMessage())
        painter.end()
