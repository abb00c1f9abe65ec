"""The panel Overview: what a model is, at a glance; without one, how to begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6 import QtWidgets
from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QAccessible, QPaintEvent, QPalette

from explorer.errors import ExplorerError
from explorer.formats import Problem
from explorer.formats.attachments import is_component
from explorer.formats.components import IMAGE_ARCHITECTURES
from explorer.present.explanations import picture_text
from explorer.present.model import model_sentence, problem_line
from explorer.present.tables.facts import FACTS, model_facts
from explorer.present.tables.lines import Line, line
from explorer.qt.contents.shares import By, SharesBar, byte_shares
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.machine import PlannedMachine
from explorer.qt.services import Services
from explorer.qt.theme import Space, TextSize, ink_of, warning_colour
from explorer.qt.widgets.building import column, copy_text, row
from explorer.qt.widgets.cells import level_colours
from explorer.qt.widgets.icons import FoldButton, IconLabel
from explorer.qt.widgets.labels import (
    FigureTile,
    Tile,
    TileRow,
    facts_form,
    plain_label,
    text_label,
)
from explorer.qt.widgets.painting import plain_tip
from explorer.qt.widgets.segments import SegmentBar
from explorer.text import bytes_text, count_text, integer_text, plain_text, shorten

if TYPE_CHECKING:
    from explorer.present.belonging import Belonging  # loads the planner
    from explorer.present.fits import ModelFit  # as above
    from explorer.present.quantization import DeclaredQuantization

_MOST_PROBLEMS = 50
_LONGEST_TITLE = 200
_LONGEST_FACT = 1000
_LONGEST_CELL = 400
_SHAPE = frozenset(
    {"architecture", "layers", "embedding_length", "feed_forward_length", "heads", "kv_heads"}
    | {"experts", "experts_used", "vocabulary", "tokenizer", "license"}
)
_MOST_RECENT = 5


class StartPage(QtWidgets.QWidget):
    """What to do where no model is open: a place to drop files, buttons, what was open before."""

    def __init__(
        self,
        app: Services,
        recent: Sequence[Path],
        machine: str,
        parent: QtWidgets.QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        drop = Tile(self)
        title = text_label("No model is open", drop, TextSize.TITLE)
        hint = text_label(
            "Open a GGUF or safetensors file with Ctrl+O, or drop files and folders here. "
            "Nothing is changed on disk, and nothing is sent anywhere.",
            drop,
        )
        for label in (title, hint):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        buttons = [
            _button("&Open a file…", app.ask_model, drop),
            _button("Show &downloads", partial(app.go, "library"), drop),
            _button("Open the de&mo model", app.open_demo, drop),
        ]
        buttons[0].setDefault(True)
        column(
            *(row(1, IconLabel("drop", drop, 40), 1), title, hint),
            row(1, *buttons, 1, spacing=Space.NEAR),
            of=drop,
            margins=(2 * Space.PAGE,) * 4,
            spacing=Space.GROUP,
        )
        layout = column(drop, of=self, spacing=Space.GROUP)
        if recent:
            layout.addWidget(text_label("Opened before", self, TextSize.SECTION))
        for path in recent[:_MOST_RECENT]:
            line = QtWidgets.QToolButton(self)
            line.setAutoRaise(True)
            line.setText(shorten(plain_text(path.name), 100).replace("&", "&&"))
            line.setToolTip(plain_tip(plain_text(str(path))))
            line.clicked.connect(lambda _=False, path=path: app.open(path))
            folder = plain_label(self, shorten(plain_text(str(path.parent)), 120))
            folder.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            layout.addLayout(row(line, folder, 1, spacing=Space.NEAR))
        if machine:
            heading = text_label("This machine", self, TextSize.SECTION)
            text = text_label(machine, self)
            layout.addLayout(column(heading, text, spacing=Space.NEAR))
        self._unfilled: QtWidgets.QVBoxLayout | None = layout

    def _show_stores(self, layout: QtWidgets.QVBoxLayout) -> None:
        from explorer.stores.entries import this_machine  # noqa: PLC0415 - the first paint is sooner

        title = "Where the library looks for downloads"
        places = [(place.kind.program, str(place.root)) for place in this_machine()]
        tip = "Where {} keeps the models that it downloads."
        facts = [line(program, root, tip.format(program)) for program, root in places]
        heading = text_label(title, self, TextSize.SECTION)
        layout.addLayout(column(heading, facts_form(facts, self), spacing=Space.NEAR))

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._unfilled is not None:
            QTimer.singleShot(0, self, partial(self._show_stores, self._unfilled))
            self._unfilled = None


def _button(
    text: str, slot: Callable[[], object], parent: QtWidgets.QWidget
) -> QtWidgets.QPushButton:
    button = QtWidgets.QPushButton(text, parent)
    button.clicked.connect(lambda _=False: slot())
    return button


class OverviewView(QtWidgets.QScrollArea):
    """A model in a sentence, four tiles and a bar; its problems; what to do next; all facts.

    Without a model, how to begin.

    Args:
        app: Opens what the user wants to see.
        machine: What a model shall fit; None does not look whether it does.
        recent: Returns the models that were open before.
    """

    accessible_role = QAccessible.Role.Pane

    def __init__(
        self,
        app: Services,
        machine: PlannedMachine | None = None,
        recent: Callable[[], Sequence[Path]] = list,
    ) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QtWidgets.QFrame.Shape.NoFrame)
        self.setAccessibleName("Overview")
        self.app = app
        self._machine, self._recent = machine, recent
        self._jobs, self._looking = JobSlot(app.runner, self), JobSlot(app.runner, self)
        self._document: Document | None = None
        self._fit: tuple[ModelFit, str] | None = None
        self._belonging: Belonging | None = None
        self._unfolded = False
        self._stale = False  # colours have changed since it was built

    def show_document(self, document: Document | None) -> None:
        """Show a model; None says how to open one."""
        if document is not self._document or document is None:
            self._document, self._fit, self._belonging = document, None, None
            self.verticalScrollBar().setValue(0)
            self._build()
            self._look_what_it_belongs_to()
        self._look_whether_it_fits()

    def _look_whether_it_fits(self) -> None:
        document, machine = self._document, self._machine
        if machine is None:
            return
        self._jobs.cancel()
        if document is None or not _is_planned(document) or not machine.known:
            return
        asked, target = machine.asked_of(document.path), machine.target()

        def work(job: Job) -> tuple[ModelFit, str]:
            from explorer.present.fits import fit_of, fit_statement  # noqa: PLC0415 - loads planner

            fit = fit_of(document.model, target, job.check, asked)
            return fit, fit_statement(fit, target)

        def fail(error: ExplorerError) -> None:
            from explorer.present.fits import not_fitted  # noqa: PLC0415 - as above

            fit = not_fitted(error)
            self._show_fit((fit, fit.sentence))

        title = f"Looking whether {plain_text(document.title)} fits"
        self._jobs.run(title, work, self._show_fit, fail)

    def _show_fit(self, fit: tuple[ModelFit, str]) -> None:
        """Say whether the model fits the machine that plans are for: a sentence, and the tile."""
        if self._document is not None and self._fit != fit:
            self._fit = fit
            self._build()

    def _look_what_it_belongs_to(self) -> None:
        """Say of a file that is no whole model what it is, and offer to use it with its model."""
        self._looking.cancel()
        document = self._document
        if document is None or not _is_part(document):
            return

        def work(job: Job) -> Belonging | None:
            from explorer.present.belonging import belonging_of  # noqa: PLC0415 - loads planner

            return belonging_of(document.model, job.check)

        def show(found: Belonging | None) -> None:
            if found is not None and document is self._document:
                self._belonging = found
                self._build()

        title = f"Looking what {plain_text(document.title)} belongs to"
        self._looking.run(title, work, show, self.app.report)

    def _build(self) -> None:
        self._stale = False
        document, place = self._document, self.verticalScrollBar().value()
        page = QtWidgets.QWidget(self)
        margins = (0, Space.NEAR, 0, Space.PAGE)
        layout = column(of=page, margins=margins, spacing=Space.GROUP)
        if document is None:
            known = self._machine is not None and self._machine.known
            machine = plain_text(self._machine.text) if self._machine and known else ""
            layout.addWidget(StartPage(self.app, self._recent(), machine, page))
        else:
            self._fill(layout, document)
        layout.addStretch(1)
        self.setWidget(page)
        self.verticalScrollBar().setValue(place)
        spoken = "No model is open" if document is None else plain_text(document.title)
        self.setAccessibleDescription(spoken)

    def _fill(self, layout: QtWidgets.QVBoxLayout, document: Document) -> None:
        page = layout.parentWidget()
        name = document.facts.name or document.title
        heading = text_label(shorten(plain_text(name), _LONGEST_TITLE), page, TextSize.SECTION)
        sentence = model_sentence(document.model, document.facts)
        if self._belonging is not None:
            sentence = self._belonging.sentence
        elif document.kind:
            sentence = f"{document.kind}."
        elif self._fit is not None:
            sentence = f"{sentence} {self._fit[1]}"
        about = text_label(shorten(plain_text(sentence), _LONGEST_FACT), page)
        layout.addLayout(column(heading, about, spacing=Space.TIGHT))
        if self._belonging is not None and self._belonging.action:
            use = partial(self._use, document, self._belonging)
            layout.addLayout(row(_button(self._belonging.action.replace("&", "&&"), use, page), 1))
        if document.problems:
            layout.addWidget(_problems(document.problems, page))
        declared = document.declared
        figures = model_facts(document.model, document.facts, declared)
        tiles = TileRow(self._tiles(document, figures, page), page)
        layout.addWidget(tiles)
        if document.facts.types:
            layout.addWidget(self._bytes(document, page))
        shape = [one for one in figures if one.name in _SHAPE]
        left = column(spacing=Space.NEAR)
        if shape:
            left.addWidget(text_label("Shape", page, TextSize.SECTION))
            left.addLayout(facts_form(shape, page))
        left.addStretch(1)
        right = column(text_label("Next", page, TextSize.SECTION), spacing=Space.NEAR)
        for button in self._links(document, page):
            right.addLayout(row(button, 1))
        right.addStretch(1)
        layout.addLayout(row((left, 1), (right, 1), spacing=Space.PAGE))
        if declared is not None:
            layout.addLayout(_declared(declared, page))
        rest = [one for one in figures if one.name not in _SHAPE and one.name != "name"]
        layout.addWidget(self._details(document, rest, page))

    def _use(self, document: Document, belonging: Belonging) -> None:
        """Show the model that a file belongs to, with the file."""
        model = (belonging.models or [document.path])[0]
        if belonging.page == "compare":
            self.app.compare([model, document.path])
        else:
            self.app.open(model, belonging.page, document.path)

    def _tiles(
        self, document: Document, figures: Sequence[Line], page: QtWidgets.QWidget
    ) -> list[FigureTile]:
        facts = document.facts
        known = {one.name: one for one in figures}
        exact = integer_text(facts.parameters) if facts.parameters else ""
        bits = known.get("bits_per_weight")
        kind = [f"{bits.text} bits per weight"] if bits else []
        kind += [bytes_text(facts.nbytes)] if facts.nbytes else []
        context = "" if facts.context_length is None else integer_text(facts.context_length)
        tiles = [
            FigureTile(FACTS["parameters"].title, count_text(facts.parameters or 0), exact, page),
            FigureTile("Type", plain_text(facts.main_type), " · ".join(kind), page),
        ]
        if _is_planned(document):
            trained = "tokens, as trained"
            tiles.append(FigureTile(FACTS["context_length"].title, context, trained, page))
            tiles.append(self._fit_tile(page))
        names = ("parameters", "file_type", "context_length")
        for tile, fact in zip(tiles, names, strict=False):
            tile.explain(FACTS[fact].tip)
        return tiles

    def _fit_tile(self, page: QtWidgets.QWidget) -> FigureTile:
        ink, title = ink_of(self.palette()), "On this machine"
        if self._fit is None:
            tile = FigureTile(title, "…", "Looking at this machine", page)
        else:
            fit = self._fit[0]
            colour = ink.warning if fit.damaged else ink.muted
            if fit.level is not None:
                colour = level_colours(fit.level, self.palette())[0].name()
            why = fit.sentence.removeprefix(f"{fit.brief}: ")
            detail = "the problems above say why" if fit.damaged else why
            if fit.largest_context:
                detail = f"with up to {fit.tokens_text}"
            detail = fit.part or detail
            tile = FigureTile(title, fit.brief, detail, page, colour)
        tile.explain(picture_text("answer"))
        return tile

    def _bytes(self, document: Document, page: QtWidgets.QWidget) -> QtWidgets.QWidget:
        card = Tile(page)
        title = text_label("What the bytes are spent on", card, TextSize.SECTION)
        views = SegmentBar("Bytes by", card)
        bar = SharesBar(card)
        offered = [by for by in By if by is not By.COMPONENT or document.facts.components]
        for by in offered:
            views.addTab(by)

        def show(place: int) -> None:
            bar.show_shares(byte_shares(document, offered[place]), offered[place])

        show(0)
        views.currentChanged.connect(show)
        edge = Space.GROUP
        parts = row((title, 1), views), bar
        column(*parts, of=card, margins=(edge, edge, edge, edge), spacing=Space.WIDE)
        return card

    def _links(
        self, document: Document, page: QtWidgets.QWidget
    ) -> Iterator[QtWidgets.QPushButton]:
        choose = partial(self.app.choose_quant, document.path)
        if document.model.tensors.rows:
            if _is_planned(document):
                yield _button("&Plan its memory", partial(self.app.go, "planner"), page)
                yield _button("Which &quant should I take?", choose, page)
            yield _button("&Compare with another model…", self.app.ask_reference, page)
            tensors = "&All tensors" if not document.kind else "What it c&hanges"
            if document.is_importance_matrix:
                tensors = "Which columns &matter most"
            yield _button(tensors, partial(self.app.go, "survey"), page)
        places = {entry.key: place for place, entry in enumerate(document.model.metadata.entries)}
        for text, keys in (
            ("Chat &template", ("tokenizer.chat_template", "template", "chat_template")),
            ("&Licence", ("general.license", "license")),
        ):
            place = next((places[key] for key in keys if key in places), None)
            if place is not None:
                yield _button(text, partial(self.app.open_key, place), page)

    def _details(
        self, document: Document, figures: Sequence[Line], page: QtWidgets.QWidget
    ) -> QtWidgets.QWidget:
        """Return the other facts, folded until they are asked for."""
        part = QtWidgets.QWidget(page)
        tip = "Show or hide the other facts"
        fold = FoldButton("All facts", tip, part)
        inner = QtWidgets.QWidget(part)
        path, count = plain_text(str(document.path)), len(document.model.files)
        files = f"{count} files" + "   ·   " if count > 1 else ""
        line = text_label(files + path, inner)
        lines = [line]
        if not document.problems:
            checked = "Checked: its structure is sound."
            if document.model.format == "gguf":
                checked = "Checked: its structure is sound, for llama.cpp's reader too."
            lines.append(text_label(checked, inner))
        column(*lines, facts_form(figures, inner), of=inner, spacing=Space.NEAR)

        def show(on: bool) -> None:
            self._unfolded = on
            inner.setVisible(on)

        fold.toggled.connect(show)
        fold.setChecked(self._unfolded)
        show(self._unfolded)
        column(row(fold, 1), inner, of=part, spacing=Space.NEAR)
        return part

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and not self._stale:
            self._stale = True
            # not now: Qt tells all widgets, in a list that it made before, and this deletes some
            QTimer.singleShot(0, self, self._build)


def _is_part(document: Document) -> bool:
    """Return whether it is no whole model, but belongs to one."""
    return bool(document.kind) or is_component(document.model)


def _is_planned(document: Document) -> bool:
    """Return whether it may have a plan: it is a whole model, and not one for images or video."""
    facts = document.facts
    return not (_is_part(document) or facts.components or facts.architecture in IMAGE_ARCHITECTURES)


def _warn(label: QtWidgets.QLabel) -> None:
    """Write a label in the colour of warnings."""
    palette = label.palette()
    palette.setColor(QPalette.ColorRole.WindowText, warning_colour(palette))
    label.setPalette(palette)


def _problems(problems: Sequence[Problem], page: QtWidgets.QWidget) -> QtWidgets.QWidget:
    """Return a banner of what is wrong with a model."""
    banner, shown = Tile(page, ink_of(page.palette()).warning), problems[:_MOST_PROBLEMS]
    heading = text_label(f"Problems: {len(problems)}", banner, TextSize.SECTION)
    button = QtWidgets.QPushButton("C&opy all", banner)
    button.setToolTip("Copy the problems as text, a line each")
    lines = "\n".join(map(problem_line, problems))
    button.clicked.connect(partial(copy_text, lines))
    head = row((heading, 1), button)
    pad = (Space.GROUP, Space.WIDE) * 2
    layout = column(head, of=banner, margins=pad, spacing=Space.TIGHT)
    for problem in shown:
        label = text_label(problem_line(problem), banner)
        _warn(label)
        layout.addWidget(label)
    if len(problems) > len(shown):
        more = integer_text(len(problems) - len(shown))
        layout.addWidget(text_label(f"and {more} more", banner))
    return banner


def _declared(declared: DeclaredQuantization, page: QtWidgets.QWidget) -> QtWidgets.QLayout:
    """Return what the configuration declares beside what the keys say."""
    from explorer.present.tables.quantization import declared_table  # noqa: PLC0415 - not for first paint

    heading = text_label("Quantization", page, TextSize.SECTION)
    titles = [heading]
    if declared.sentence is not None:
        titles.append(text_label(shorten(plain_text(declared.sentence), _LONGEST_FACT), page))
    grid = QtWidgets.QGridLayout()
    grid.setHorizontalSpacing(Space.PAGE)
    grid.setVerticalSpacing(Space.NEAR)
    grid.setColumnStretch(1, 1)
    grid.setColumnStretch(2, 1)
    for number, described in enumerate(declared_table(declared).shown()):
        if number:
            head = text_label(plain_text(described.title), page)
            head.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            grid.addWidget(head, 0, number)
        for place, fact in enumerate(declared.lines, start=1):
            label = text_label(shorten(described.cell(fact), _LONGEST_CELL), page)
            if number == 0:
                label.setWordWrap(False)
                label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            elif described.tone is not None and described.tone(fact):
                _warn(label)
            label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
            grid.addWidget(label, place, number)
    return column(*titles, grid, spacing=Space.NEAR)
