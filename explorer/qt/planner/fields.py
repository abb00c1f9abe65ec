"""Input fields of the planner: contexts as people write them, and fields that let one scroll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QEvent, QRect, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import (
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QValidator,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QComboBox,
    QLineEdit,
    QSlider,
    QSpinBox,
    QStyle,
    QStyleOptionSlider,
    QWidget,
)

from explorer.errors import PlanError
from explorer.planner.devices import parse_context, parse_size
from explorer.present.plan_export import Stops
from explorer.qt.planner.device_list import size_text
from explorer.text import integer_text

_MOST_TOKENS = 1 << 30


class CalmSpinBox(QSpinBox):
    """A spin box that the wheel changes only while it has the keyboard.

    Else scrolling past it would change it. Ctrl+Z takes back the typing only while something is
    typed; after that it takes back settings, as everywhere in the panel.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setKeyboardTracking(False)
        self.setAccelerated(True)

    @property
    def is_typing(self) -> bool:
        """Whether the text is not the value yet."""
        return self.text() != self.textFromValue(self.value()) and not self._is_special

    @property
    def _is_special(self) -> bool:
        return self.value() == self.minimum() and self.text() == self.specialValueText()

    # Qt

    def event(self, event: QEvent) -> bool:
        if _leaves_undo_alone(event, self.is_typing):
            event.ignore()
            return False
        return super().event(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class CalmComboBox(QComboBox):
    """A list of choices that the wheel changes only while it has the keyboard."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    # Qt

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class TokenSpinBox(CalmSpinBox):
    """A number of tokens: takes ``32k`` and ``1M``, and steps along the stops of a slider.

    Attributes:
        stops: What its arrows go along.
    """

    def __init__(self, stops: Stops, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.stops = stops
        self.setRange(1, _MOST_TOKENS)

    # Qt

    def textFromValue(self, value: int) -> str:
        return integer_text(value)

    def valueFromText(self, text: str) -> int:
        return _tokens(text) or self.value()

    def validate(self, text: str, position: int) -> object:
        state = QValidator.State
        right = state.Acceptable if _tokens(text) is not None else state.Intermediate
        return right, text, position

    def stepBy(self, steps: int) -> None:
        self.setValue(self.stops.step(self.value(), steps))
        self.selectAll()


class SizeEdit(QLineEdit):
    """A size in bytes: takes ``512MiB``, ``2 GiB`` or plain bytes.

    Signals:
        size_chosen: The user typed a size; bytes, or None where the field was emptied.
        refused: What was typed is none; a `PlanError`.
    """

    size_chosen = Signal(object)
    refused = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ""
        self.editingFinished.connect(self._take)

    def show_size(self, nbytes: int | None) -> None:
        """Show a size, or nothing."""
        self._shown = "" if nbytes is None else size_text(nbytes)
        if not (self.hasFocus() and self.isModified()):
            self.setText(self._shown)

    def _take(self) -> None:
        if self.text() == self._shown:
            return
        if not self.text().strip():
            self.size_chosen.emit(None)
            return
        try:
            nbytes = parse_size(self.text())
        except PlanError as error:
            self.setText(self._shown)
            self.refused.emit(error)
            return
        self.setModified(False)
        self.size_chosen.emit(nbytes)

    # Qt

    def event(self, event: QEvent) -> bool:
        if _leaves_undo_alone(event, self.text() != self._shown):
            event.ignore()
            return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text() != self._shown:
            self.setText(self._shown)
        else:
            super().keyPressEvent(event)


def _leaves_undo_alone(event: QEvent, is_typing: bool) -> bool:
    """Whether a field is asked for Ctrl+Z with nothing of its own to take back."""
    if is_typing or event.type() != QEvent.Type.ShortcutOverride:
        return False
    key = QKeySequence.StandardKey
    return isinstance(event, QKeyEvent) and (event.matches(key.Undo) or event.matches(key.Redo))


def _tokens(text: str) -> int | None:
    """Return the tokens that a text means, or None if it means none that are in range."""
    try:
        tokens = parse_context(text)
    except PlanError:
        return None
    return tokens if 1 <= tokens <= _MOST_TOKENS else None


# A slider over `Stops`, with marks below it, that a click moves to where it was made.
#
# superqt's sliders were looked at: they add a spin box and a second handle to Qt's, but neither
# uneven steps nor named places, so nothing of this would go away with them.


_SNAP_PIXELS: Final = 5
_TICK: Final = 4
_GAP: Final = 6
_NOTCH: Final = 120  # of a wheel, as Qt counts


@dataclass(frozen=True, slots=True)
class StopMark:
    """A named place.

    Attributes:
        value: Which of the stops.
        text: Its name.
        important: Whether its name is drawn before others, and stronger.
    """

    value: int
    text: str
    important: bool = False


class StopSlider(QSlider):
    """A horizontal slider whose positions stand for the values of `Stops`.

    Signals:
        value_chosen: The user moved it; the value.
        held: A drag began (true) or ended.
    """

    value_chosen = Signal(int)
    held = Signal(bool)

    def __init__(self, stops: Stops, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # its marks are painted so
        self.stops = stops
        self._marks: tuple[StopMark, ...] = ()
        self._turned = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.set_stops(stops, ())
        self.valueChanged.connect(lambda place: self.value_chosen.emit(self.stops.values[place]))
        self.sliderPressed.connect(lambda: self.held.emit(True))
        self.sliderReleased.connect(lambda: self.held.emit(False))

    def set_stops(self, stops: Stops, marks: Sequence[StopMark], page: int = 1) -> None:
        """Offer other values.

        Args:
            stops: The values.
            marks: Names of some of them.
            page: Positions that Page Up goes.
        """
        self.stops = stops
        self._marks = tuple(marks)
        with QSignalBlocker(self):
            self.setRange(0, stops.last)
            self.setPageStep(page)
        self.update()

    def show_value(self, value: int, spoken: str) -> None:
        """Stand at the stop nearest to a value, without telling anybody.

        Args:
            value: The value.
            spoken: What a screen reader says of it, since a position says nothing.
        """
        if not self.isSliderDown():
            with QSignalBlocker(self):
                self.setValue(self.stops.position(value))
        self.setAccessibleDescription(spoken)

    def x_of(self, place: int) -> int:
        """Return the middle of the handle at a position, in pixels."""
        groove, handle = self._groove()
        span = groove.width() - handle
        return (
            groove.x()
            + handle // 2
            + QStyle.sliderPositionFromValue(self.minimum(), self.maximum(), place, span)
        )

    def _groove(self) -> tuple[QRect, int]:
        """Return the groove, and the width of the handle."""
        option = QStyleOptionSlider()
        self.initStyleOption(option)
        control = QStyle.ComplexControl.CC_Slider
        part = QStyle.SubControl
        style = self.style()
        groove = style.subControlRect(control, option, part.SC_SliderGroove, self)
        return groove, style.subControlRect(control, option, part.SC_SliderHandle, self).width()

    def _place_at(self, x: float) -> int:
        """Return the position at a pixel, drawn to a stop that is close by."""
        groove, handle = self._groove()
        offset = round(x) - groove.x() - handle // 2
        place = QStyle.sliderValueFromPosition(
            self.minimum(), self.maximum(), offset, groove.width() - handle
        )
        snaps = [self.stops.position(snap) for snap in self.stops.snaps]
        near = min(snaps, key=lambda snap: abs(self.x_of(snap) - x), default=place)
        return near if abs(self.x_of(near) - x) <= _SNAP_PIXELS else place

    def _slider_height(self) -> int:
        # not the size hint: it asks for the style option, which asks for this
        return self.style().pixelMetric(QStyle.PixelMetric.PM_SliderThickness, None, self) + 2

    def _label_boxes(self) -> list[tuple[StopMark, QRect]]:
        """Return the marks whose names have room, the important ones first."""
        metrics = self.fontMetrics()
        top = self._slider_height() + _TICK
        boxes: list[tuple[StopMark, QRect]] = []
        for mark in sorted(self._marks, key=lambda mark: not mark.important):
            width = metrics.horizontalAdvance(mark.text)
            left = self.x_of(self.stops.position(mark.value)) - width // 2
            left = max(0, min(left, self.width() - width))
            box = QRect(left, top, width, metrics.height())
            wide = box.adjusted(-_GAP, 0, _GAP, 0)
            if not any(wide.intersects(other) for _, other in boxes):
                boxes.append((mark, box))
        return boxes

    # Qt

    def initStyleOption(self, option: QStyleOptionSlider) -> None:
        super().initStyleOption(option)
        if self._marks:  # groove and handle above, names below
            rect = option.rect
            rect.setHeight(self._slider_height())
            option.rect = rect

    def sizeHint(self) -> QSize:
        names = _TICK + self.fontMetrics().height() if self._marks else 0
        return QSize(super().sizeHint().width(), self._slider_height() + names)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._marks:
            return
        painter = QPainter(self)
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        role = QPalette.ColorRole
        strong, faint = self.palette().color(role.WindowText), self.palette().color(role.Mid)
        top = self._slider_height()
        for mark in self._marks:
            x = self.x_of(self.stops.position(mark.value))
            painter.setPen(strong if mark.important else faint)
            painter.drawLine(x, top - 1, x, top + _TICK - 1)
        for mark, box in self._label_boxes():
            named = role.WindowText if mark.important else role.PlaceholderText
            painter.setPen(self.palette().color(named))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, mark.text)
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)
            return
        event.accept()
        self.setSliderDown(True)
        self.setSliderPosition(self._place_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            event.accept()
            self.setSliderPosition(self._place_at(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.isSliderDown():
            event.accept()
            self.setSliderDown(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Go one step for each notch; Qt goes three, and so past half of four positions."""
        event.accept()
        self._turned += event.angleDelta().y() or event.angleDelta().x()
        notches = int(self._turned / _NOTCH)
        self._turned -= notches * _NOTCH
        self.setValue(self.value() + notches)
