"""What the bytes of a model are spent on: by type, role, layer or component, as one bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

import numpy as np
from PySide6 import QtWidgets
from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QHelpEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)

from explorer.present.colours import LAYER_COLOURS, OTHERS_COLOUR
from explorer.present.explanations import picture_text
from explorer.qt.document import Document
from explorer.qt.theme import CORNER, SERIES, Space, ink_of
from explorer.qt.widgets.painting import fill_type, in_lines, plain_tip
from explorer.text import AtLeast, bytes_text, counted, part_text, plain_text, sentence, shorten


class By(StrEnum):
    """What the bytes are divided by, as the user reads it."""

    TYPE = "By type"
    ROLE = "By role"
    LAYER = "By layer"
    COMPONENT = "By component"


@dataclass(frozen=True)
class Share:
    """A part of the bytes.

    Attributes:
        name: What they are spent on; of a type, its name.
        nbytes: Stored bytes.
        tensors: Number of tensors.
        share: Part of all bytes, 0 to 1.
        colour: Colour of its part of the bar; empty for that of the type `name`.
    """

    name: str
    nbytes: int
    tensors: int
    share: float
    colour: str = ""

    @property
    def label(self) -> str:
        """Its figures in a line."""
        tensors = counted(self.tensors, "tensor")
        return "   ".join((part_text(self.share), bytes_text(self.nbytes), tensors))


_MOST_SHARES = 12


def byte_shares(document: Document, by: By) -> list[Share]:
    """Return what the bytes of a model are spent on.

    But for layers, the smallest of many are put together.
    """
    found = _all_shares(document, by)
    if by is By.LAYER or len(found) <= _MOST_SHARES:
        return found
    rest = found[_MOST_SHARES - 1 :]
    nbytes, tensors = sum(one.nbytes for one in rest), sum(one.tensors for one in rest)
    share = sum(one.share for one in rest)
    others = Share(f"{len(rest)} others", nbytes, tensors, share, OTHERS_COLOUR)
    return [*found[: _MOST_SHARES - 1], others]


def _all_shares(document: Document, by: By) -> list[Share]:
    arrays = document.arrays
    total = max(1, int(arrays.nbytes.sum()))
    if by is By.TYPE:
        return [Share(one.name, one.nbytes, one.tensors, one.share) for one in document.facts.types]
    if by is By.COMPONENT:
        held = document.facts.components
        titles = [shorten(plain_text(sentence(one.name)), 40) for one in held]
        return [
            Share(title, one.nbytes, one.tensors, one.share, colour)
            for title, one, colour in zip(titles, held, cycle(SERIES), strict=False)
        ]
    codes = arrays.role_codes if by is By.ROLE else np.maximum(arrays.layers, -1) + 1
    kinds, places = np.unique(codes, return_inverse=True)
    sums = np.zeros(len(kinds), np.int64)
    np.add.at(sums, places, arrays.nbytes)
    counts = np.bincount(places, minlength=len(kinds))
    unsized = set(places[~arrays.sized].tolist())

    def name(kind: int) -> str:
        if by is By.ROLE:
            return shorten(plain_text(arrays.roles[kind]), 40)
        return "Outside the layers" if kind == 0 else f"Layer {kind - 1}"

    colours = SERIES if by is By.ROLE else LAYER_COLOURS
    order = np.argsort(-sums, kind="stable") if by is By.ROLE else np.arange(len(kinds))
    return [
        Share(name(int(kinds[i])), nbytes, int(counts[i]), nbytes / total, colour)
        for colour, i in zip(cycle(colours), order.tolist(), strict=False)
        for nbytes in (AtLeast(sums[i]) if i in unsized else int(sums[i]),)
    ]


_BAR_PIXELS = 28
_MOST_KEYS = 12
_KEY_SWATCH = 18  # pixels, those beside it included


class SharesBar(QtWidgets.QWidget):
    """One bar of parts, with their names and shares below it."""

    accessible_role = QAccessible.Role.Chart

    def __init__(self, parent: QtWidgets.QWidget | None = None) -> None:
        super().__init__(parent)
        self._shares: Sequence[Share] = ()
        self.labels: list[str] = []
        self.setWhatsThis(picture_text("types"))
        self.setMouseTracking(True)
        policy = QtWidgets.QSizePolicy(
            QtWidgets.QSizePolicy.Policy.Expanding, QtWidgets.QSizePolicy.Policy.Fixed
        )
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_shares(self, shares: Sequence[Share], name: str) -> None:
        self._shares = shares
        self.labels = [share.label for share in shares]
        self.setAccessibleName(name)
        pairs = zip(shares, self.labels, strict=True)
        self.setAccessibleDescription("; ".join(f"{one.name}: {text}" for one, text in pairs))
        self.updateGeometry()
        self.update()

    def _keys(self, width: int) -> Iterator[tuple[Share, QRectF]]:
        """Yield the parts that are named below the bar, with their places."""
        metrics, named = self.fontMetrics(), self._shares[:_MOST_KEYS]
        widths = [_KEY_SWATCH + metrics.horizontalAdvance(_key_text(share)) for share in named]
        places = in_lines(widths, width, metrics.height() + 6, Space.PAGE)
        for share, place in zip(named, places, strict=True):
            yield share, place.translated(0, _BAR_PIXELS + Space.WIDE)

    def _parts(self) -> Iterator[tuple[Share, QRectF]]:
        left, total = 0.0, sum(share.share for share in self._shares) or 1.0
        for share in self._shares:
            wide = self.width() * share.share / total
            yield share, QRectF(left, 0, wide, _BAR_PIXELS)
            left += wide

    # Qt

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return round(max((area.bottom() for _, area in self._keys(width)), default=_BAR_PIXELS))

    def sizeHint(self) -> QSize:
        return QSize(400, self.heightForWidth(max(self.width(), 300)))

    def minimumSizeHint(self) -> QSize:
        return QSize(200, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.updateGeometry()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            place = event.pos().toPointF()
            under = next((one for one, area in self._parts() if area.contains(place)), None)
            tip = "" if under is None else plain_tip(f"{under.name}\n{under.label}")
            QtWidgets.QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(QRectF(0, 0, self.width(), _BAR_PIXELS), CORNER, CORNER)
        painter.save()
        painter.setClipPath(outline)
        ground = self.palette().color(QPalette.ColorRole.Base)
        for share, area in self._parts():
            _fill(painter, area, share)
            if area.width() > 3:
                painter.fillRect(QRectF(area.right() - 1, 0, 1, _BAR_PIXELS), ground)
        painter.restore()
        ink = ink_of(self.palette())
        flag = Qt.AlignmentFlag
        middle = int(flag.AlignVCenter | flag.AlignLeft)
        for share, area in self._keys(self.width()):
            _fill(painter, QRectF(area.left(), area.center().y() - 5, 10, 10), share)
            words = area.adjusted(_KEY_SWATCH, 0, Space.PAGE, 0)
            painter.setPen(QColor(ink.text))
            painter.drawText(words, middle, share.name)
            name = self.fontMetrics().horizontalAdvance(f"{share.name}  ")
            painter.setPen(QColor(ink.muted))
            painter.drawText(words.adjusted(name, 0, 0, 0), middle, part_text(share.share))
        painter.end()


def _key_text(share: Share) -> str:
    return f"{share.name}  {part_text(share.share)}"


def _fill(painter: QPainter, area: QRectF, share: Share) -> None:
    if share.colour:
        painter.fillRect(area, QColor(share.colour))
    else:
        fill_type(painter, area, share.name)
