"""Checks of what is seen: nothing is cut off, everything stands in line and can be read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QFrame,
    QGraphicsView,
    QHeaderView,
    QLabel,
    QLineEdit,
    QSlider,
    QStyle,
    QTabBar,
    QTableView,
    QToolButton,
    QTreeView,
    QWidget,
)

from explorer.qt.survey.map_page import ModelMap
from explorer.qt.theme import Space
from explorer.qt.widgets.labels import ElidedLabel, StatePage, Tile
from explorer.qt.widgets.plot import ThemedPlot
from tests.helpers.colour_vision import contrast
from tests.helpers.everywhere import named, visible
from tests.qt.walk.walking import Place, area_in_window

SIZE = 1280, 800

_CONTROLS = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QSlider)
_SEEN = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QTabBar, QAbstractItemView)
_DRAWN = (QGraphicsView, Tile, QLabel)
_ROUNDING = 1  # pixel
_MATRIX = "Values"  # a tensor's numbers: as many columns as the tensor has


def texts_are_whole(place: Place) -> Iterator[str]:
    """No text is cut off, and nothing asks for a wider window."""
    size = place.window.width(), place.window.height()
    yield "" if size == SIZE else f"makes the window {size}"
    for widget in place.widgets:
        yield f"{named(widget)}: {cut}" if (cut := _cut(widget)) else ""


def _cut(widget: QWidget) -> str:
    """Return the text that a widget has no room for, unless it loses its middle by design."""
    width = widget.width() + 1
    match widget:
        case ElidedLabel():
            return ""
        case QLabel() if not widget.wordWrap() and not widget.pixmap():
            lines = widget.text().replace("&", "").split("\n")
            needed = max(map(widget.fontMetrics().horizontalAdvance, lines))
            return widget.text() if width < needed else ""
        case QAbstractButton() if widget.text():
            return widget.text() if width < widget.sizeHint().width() else ""
        case QComboBox():
            text = widget.currentText()
            return text if width < widget.fontMetrics().horizontalAdvance(text) + 24 else ""
        case QHeaderView() if widget.orientation() == Qt.Orientation.Horizontal:
            return " ".join(_cut_sections(widget))
    return ""


def _cut_sections(header: QHeaderView) -> Iterator[str]:
    """Yield the titles of columns that are cut and that nobody can make wider."""
    for section in range(header.count() if header.model() is not None else 0):
        fixed = header.sectionResizeMode(section) == QHeaderView.ResizeMode.Fixed
        if not fixed or header.isSectionHidden(section):
            continue
        if header.sectionSize(section) + 1 < header.sectionSizeHint(section):
            yield str(header.model().headerData(section, Qt.Orientation.Horizontal))


def titles_are_whole(place: Place) -> Iterator[str]:
    """No list cuts off a title of its columns."""
    for view in place.widgets:
        is_list = isinstance(view, QTableView | QTreeView) and view.model() is not None
        if is_list and view.accessibleName() != _MATRIX:
            yield ""
            yield from (f"{view.accessibleName()} cuts off {title}" for title in _cut_titles(view))


def _cut_titles(view: QTableView | QTreeView) -> Iterator[str]:
    header = view.horizontalHeader() if isinstance(view, QTableView) else view.header()
    margins = 2 * header.style().pixelMetric(QStyle.PixelMetric.PM_HeaderMargin, None, header)
    for column in range(0 if header.isHidden() else header.count()):
        title = str(view.model().headerData(column, Qt.Orientation.Horizontal) or "")
        needed = header.fontMetrics().horizontalAdvance(title) + margins
        if not header.isSectionHidden(column) and header.sectionSize(column) < needed:
            yield title


def pages_have_one_left_edge(place: Place) -> Iterator[str]:
    """A part begins at the margin of 24 pixels, or clearly further in: never a little beside it.

    And none is cut off at the right edge of the page.
    """
    if not place.is_page:
        return
    window = place.window
    pages = window.shell.head.parentWidget()
    assert pages is not None
    body = window.panels.currentWidget()
    for part in (window.shell.head, window.panels):
        yield "" if part.mapTo(pages, QPoint(0, 0)).x() == Space.PAGE else f"{part} is not in line"
    head_right = window.shell.head.mapTo(pages, QPoint(window.shell.head.width(), 0)).x()
    yield "" if pages.width() - head_right == Space.PAGE else "the head ends elsewhere"
    at_margin = any(one.isVisible() for one in body.findChildren(StatePage))
    for part in _parts(body):
        x = part.mapTo(pages, QPoint(0, 0)).x()
        at_margin |= x < Space.PAGE + Space.GROUP
        beside = x < Space.PAGE + Space.GROUP and abs(x - Space.PAGE) > _ROUNDING
        yield f"{_called(part)} is beside the margin: {x}" if beside else ""
        over = part.mapTo(body, QPoint(part.width(), 0)).x() - body.width()
        yield f"{_called(part)} is cut off by {over} pixels" if over > 0 else ""
    yield "" if at_margin else "nothing stands at the margin"


def _called(part: QWidget) -> str:
    return f"{type(part).__name__} {part.accessibleName()}"


def _parts(page: QWidget) -> Iterator[QWidget]:
    """Yield what is seen of a page, but not what is inside tiles, tables and other controls."""
    for part in page.findChildren(QWidget):
        if not part.isVisible() or not isinstance(part, (*_SEEN, *_DRAWN)):
            continue
        if isinstance(part, QLabel) and not part.text():
            continue
        above = part.parentWidget()
        while above is not None and above is not page:
            if isinstance(above, (*_SEEN, QGraphicsView, Tile)):
                break
            above = above.parentWidget()
        else:
            yield part


def tables_have_no_boxes(place: Place) -> Iterator[str]:
    """Tables have neither a frame nor stripes."""
    for table in place.widgets if place.is_page else ():
        if isinstance(table, QTableView):
            boxed = table.frameShape() != QFrame.Shape.NoFrame or table.alternatingRowColors()
            yield f"{table.accessibleName()} has a frame or stripes" if boxed else ""


def controls_are_seen(place: Place) -> Iterator[str]:
    """Edges and signs of every control have a contrast of 3, texts of 4.5 (WCAG 2.2)."""
    image = place.image
    every = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), -1)
    for part in visible(place.top):
        whole = part.visibleRegion().boundingRect() == part.rect()  # not scrolled out of sight
        if not isinstance(part, _CONTROLS) or not part.isEnabled() or not whole:
            continue
        yield ""
        area = area_in_window(part)
        cells = every[area.top() : area.bottom() + 1, area.left() : area.right() + 1]
        colours, counts = np.unique(cells, return_counts=True)
        ground = int(colours[counts.argmax()])
        contrasts = np.array([_contrast(int(one), ground) for one in colours])
        if counts[contrasts >= 3.0].sum() < 12:
            yield f"{named(part)}: no edge, sign or text of 3 : 1"
        style = Qt.ToolButtonStyle.ToolButtonIconOnly
        icon = isinstance(part, QToolButton) and part.toolButtonStyle() == style
        text = "" if icon or not hasattr(part, "text") else part.text()
        if text and contrasts.max() < 4.5:
            yield f"{named(part)}: text of {contrasts.max():.2f} : 1"


def pictures_follow_the_scheme(place: Place) -> Iterator[str]:
    """Plots and maps stand on the ground of the page."""
    for part in place.widgets:
        if isinstance(part, ThemedPlot | ModelMap):
            ground = part.palette().color(QPalette.ColorRole.Window)
            found = part.grab().toImage().pixelColor(2, 2)
            yield "" if found == ground else f"{named(part)} has the ground {found.name()}"


@cache
def _contrast(one: int, ground: int) -> float:
    return contrast(QColor(one), QColor(ground))
