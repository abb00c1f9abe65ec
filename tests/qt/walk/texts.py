"""Checks of texts: figures explain themselves and are written alike, names of a file stay text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import (
    QAbstractItemView,
    QGraphicsTextItem,
    QGraphicsView,
    QLabel,
    QMenu,
    QTableView,
    QTextEdit,
    QTreeView,
    QWidget,
)
from shiboken6 import delete

from explorer.qt.weights.values import ValuesTable
from explorer.qt.widgets.table_model import ItemRole, TableModel
from tests.helpers.everywhere import named, visible
from tests.helpers.hostile import HOSTILE
from tests.helpers.seen_texts import Seen, texts_of
from tests.qt.walk.walking import Place

_WARN = QAbstractItemModelTester.FailureReportingMode.Warning
WHATS_THIS = int(Qt.ItemDataRole.WhatsThisRole)
_MOST_ROWS = 60

# What figures mean


def figures_say_what_they_mean(place: Place) -> Iterator[str]:
    """Every figure can be asked what it means: each column, each cell, each picture."""
    for widget in (*place.widgets, place.window.open_models.tree) if place.is_page else ():
        if isinstance(widget, QTableView | QTreeView):
            yield ""
            yield from table_gaps(widget)
        elif _shows_figures(widget):
            yield "" if widget.whatsThis() else f"{named(widget)} explains nothing"


def meaning_of(index: QModelIndex) -> str:
    """Return what a cell says of itself."""
    return str(index.data(WHATS_THIS) or "")


def table_gaps(view: QTableView | QTreeView) -> Iterator[str]:
    """Yield the columns and cells of a view that do not say what they are."""
    model, across = view.model(), Qt.Orientation.Horizontal
    if isinstance(model, ValuesTable):  # cells without end, all of one meaning
        if not view.whatsThis():
            yield f"{named(view)} explains nothing"
        return
    for section in range(model.columnCount()):
        title = model.headerData(section, across)
        if not model.headerData(section, across, WHATS_THIS):
            yield f"column {title} of {named(view)} explains nothing"
            continue
        for row in range(min(model.rowCount(), _MOST_ROWS)):
            if not meaning_of(model.index(row, section)):
                yield f"{title} of {model.index(row, 0).data()} in {named(view)} explains nothing"


def _shows_figures(widget: QWidget) -> bool:
    """Return whether a widget is a plot, or a picture of our own."""
    own = type(widget).__module__.startswith("explorer.qt") and not isinstance(widget, QLabel)
    painted = own and "paintEvent" in vars(type(widget)) and bool(widget.accessibleName())
    return isinstance(widget, pg.PlotWidget) or painted


def explanations_are_ours(place: Place) -> Iterator[str]:
    """Nothing of a model gets into an explanation, and none is rich text."""
    for widget in place.widgets:
        texts = {widget.whatsThis()}
        if isinstance(widget, QTableView | QTreeView):
            model = widget.model()
            rows, columns = range(min(model.rowCount(), _MOST_ROWS)), range(model.columnCount())
            texts |= {meaning_of(model.index(row, column)) for row in rows for column in columns}
        for text in texts:
            foreign = any(name in text for name in HOSTILE if len(name) > 3)
            wrong = foreign or acts_as_rich_text(text)
            yield f"{named(widget)} explains itself by {text[:80]!r}" if wrong else ""


# Columns of numbers

_NUMBER = re.compile(r"[-+\u2212±]?([\d,]+)(?:\.(\d+))?(e[-+\u2212]\d+)?(?: ?(\D{1,12}))?")
_UNKNOWN = frozenset(("", "–", "…", "NaN", "inf", "no error", "not measured"))
_EXACT_UNITS = frozenset(("", "B"))
# Lists: each line is another figure, which has digits of its own.
_LISTS = frozenset(("statistic", "figure", "what", "symbol"))
_MOST_CELLS = 400


def columns_are_even(place: Place) -> Iterator[str]:
    """Each column has one notation, and as many digits or as many places in all cells."""
    for view in place.widgets:
        model = view.model() if isinstance(view, QTableView) else None
        if not isinstance(model, (TableModel, ValuesTable)):
            continue
        if isinstance(model, TableModel) and model.columns and model.columns[0].name in _LISTS:
            continue
        rows = range(min(_MOST_CELLS, model.rowCount()))
        for column in range(model.columnCount()):
            cells = [str(model.index(row, column).data()) for row in rows]
            if numbers_in(cells):
                yield ""
            if problem := uneven(cells):
                title = model.headerData(column, Qt.Orientation.Horizontal)
                yield f"{named(view)}: {title}: {problem} in {cells[:8]}"


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    whole: str
    fraction: str
    exponent: str
    unit: str

    @property
    def digits(self) -> int:
        """Significant digits."""
        return len((self.whole + self.fraction).lstrip("0"))

    @property
    def exact(self) -> bool:
        """Whether it is whole, so that it has the digits that it needs: ``1,789``, ``216 B``."""
        return not self.fraction and not self.exponent


def numbers_in(cells: Iterable[str]) -> list[Number] | None:
    """Return the numbers of a column but 0, None of a column of words."""
    found = []
    for cell in cells:
        if cell in _UNKNOWN:
            continue
        match = _NUMBER.fullmatch(cell)
        if match is None:
            return None
        whole, fraction, exponent, unit = (part or "" for part in match.groups())
        number = Number(whole.replace(",", ""), fraction, exponent, unit.strip())
        if number.digits:
            found.append(number)
    return found


def uneven(cells: Sequence[str]) -> str:
    """Return what is wrong with a column of texts, "" if nothing is."""
    numbers = numbers_in(cells)
    if numbers is None or all(one.exact for one in numbers):
        return ""
    if len({bool(one.exponent) for one in numbers}) > 1:
        return "two notations"
    places = {len(one.fraction) for one in numbers}
    digits = {one.digits for one in numbers if not one.exact}
    short = {one.digits for one in numbers if one.exact and one.unit not in _EXACT_UNITS}
    if len(places) > 1 and (len(digits) > 1 or any(one < max(digits) for one in short)):
        return f"{sorted(digits | short)} digits"
    return ""


def models_keep_qts_rules(place: Place) -> Iterator[str]:
    """Qt's own tester goes over every list; it warns, which fails the test."""
    for view in place.widgets:
        model = view.model() if isinstance(view, QTableView | QTreeView) else None
        if model is not None:
            delete(QAbstractItemModelTester(model, _WARN))
            yield ""


# Units and numbers of another country

_BINARY = re.compile(r"\d\s?(Ki|Mi|Gi|Ti)B")
# names of profiles, and titles of columns, which are made once for a run of the program
_NAMED = re.compile(r"\bOllama (from |up to )?0\.\d+|Percentile [\d.]+|[\d.]+ % of \|e\|")
# a point that does not stand between thousands; versions and names have letters or more points
_POINT = re.compile(r"(?<![\d.\w/\-])\d+\.(?!\d{3}(?!\d))\d+(?![\d.\w])")
_TYPED = frozenset({"document", "input", "tip", "choice"})


def _texts(place: Place) -> Iterator[Seen]:
    for widget in (*place.widgets, *visible(place.window.open_models)):
        yield from texts_of(widget)


def sizes_are_binary(place: Place) -> Iterator[str]:
    """Sizes are told in KiB, MiB and GiB; yields each."""
    for seen in _texts(place):
        if seen.kind != "document" and _BINARY.search(seen.text):
            yield ""


def numbers_have_a_comma(place: Place) -> Iterator[str]:
    """Numbers are written as in Germany."""
    if place.name in {"Metadata", "Vocabulary"}:
        return  # what stands in the file
    for widget in place.widgets if place.is_page else ():
        for seen in texts_of(widget):
            if seen.kind in _TYPED:
                continue
            if _POINT.search(_NAMED.sub("", seen.text)):
                yield f"{named(seen.widget)}: {seen.text[:100]}"
            elif re.search(r"\d,\d", seen.text):
                yield ""


# Texts of a file, each of which is an attack

ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
WIDEST = 1600  # a window with a wider widget would need gigabytes for its picture
_MANY_LINES = frozenset({"label", "tip", "document", "description"})
_WITH_MNEMONICS = frozenset({"button", "tab", "command", "title"})
_MARKUP = re.compile(r"[^<\n]*<(b|img|script|a|td)\b", re.IGNORECASE)
_TIPS = (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.StatusTipRole, Qt.ItemDataRole.WhatsThisRole)
_BUILT_IN = frozenset((str, int, float, bool, type(None)))  # what Qt draws and JSON takes
_SPOKEN = (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.AccessibleDescriptionRole)


def texts_stay_texts(place: Place) -> Iterator[str]:
    """Names in a file are shown as text, by the place and by all around it, and do nothing."""
    for widget in (place.top, *place.top.findChildren(QWidget)):
        if widget.isVisible() or isinstance(widget, QMenu):
            yield ""
            yield from (f"{named(widget)[:120]}: {fault}" for fault in text_faults(widget))


def acts_as_rich_text(text: str) -> bool:
    """Tell whether Qt would take a text for HTML: its rule looks at the first tag of a line.

    Source: qtbase/src/gui/text/qtextdocument.cpp, `Qt::mightBeRichText`, which Python cannot call.
    """
    return bool(_MARKUP.match(text))


def text_faults(widget: QWidget) -> Iterator[str]:
    """Yield what is wrong with the texts of one widget."""
    if widget.styleSheet():
        yield "has a style sheet"
    if widget.minimumSizeHint().width() > WIDEST:
        yield f"makes the window {widget.minimumSizeHint().width()} pixels wide"
    for seen in texts_of(widget):
        text = seen.text if seen.kind in _MANY_LINES else seen.text.replace("\n", "\x0c")
        if ACTING.search(text):
            yield f"{seen.kind} acts: {seen.text[:80]!r}"
        if seen.kind == "tip" and acts_as_rich_text(text):
            yield f"tip is rich text: {seen.text[:80]!r}"
        if seen.kind in _WITH_MNEMONICS and re.search("(?<!&)&x", text):
            yield f"{seen.kind} has a mnemonic: {seen.text[:80]!r}"
    if isinstance(widget, QLabel) and widget.textFormat() is not Qt.TextFormat.PlainText:
        if acts_as_rich_text(widget.text()):
            yield f"label is rich text: {widget.text()[:80]!r}"
    elif isinstance(widget, QAbstractItemView) and widget.model() is not None:
        yield from _faults_of_items(widget.model(), widget.rootIndex())
    elif isinstance(widget, QTextEdit) and "\ufffc" in widget.toPlainText():
        yield "shows an image"
    elif isinstance(widget, QGraphicsView) and widget.scene() is not None:
        yield from _faults_of_scene(widget)


def _faults_of_items(model: QAbstractItemModel, parent: QModelIndex) -> Iterator[str]:
    for row in range(min(model.rowCount(parent), _MOST_ROWS)):
        columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount(parent)
        for column in range(columns):
            index = model.index(row, column, parent)
            shown = index.data(Qt.ItemDataRole.DisplayRole)
            if isinstance(shown, str) and ACTING.search(shown.replace("\n", "\x0c")):
                yield f"cell acts: {shown[:80]!r}"
            if isinstance(model, TableModel) and type(index.data(ItemRole.RAW)) not in _BUILT_IN:
                yield f"a value of {type(index.data(ItemRole.RAW)).__name__}"
            for role in _TIPS:
                tip = index.data(role)
                if isinstance(tip, str) and (acts_as_rich_text(tip) or ACTING.search(tip)):
                    yield f"tip of a cell: {tip[:80]!r}"
            for role in _SPOKEN:
                told = index.data(role)
                if isinstance(told, str) and ACTING.search(told):
                    yield f"spoken text acts: {told[:80]!r}"
        first = model.index(row, 0, parent)
        if model.rowCount(first) and not parent.parent().isValid():
            yield from _faults_of_items(model, first)


def _faults_of_scene(view: QGraphicsView) -> Iterator[str]:
    for item in view.scene().items():
        if isinstance(item, QGraphicsTextItem):
            text = item.toPlainText()
            made_of_html = "\ufffc" in text or ("bold" in text and "<b" not in text)
            if made_of_html or ACTING.search(text):
                yield f"a text of a plot: {text[:80]!r}"
