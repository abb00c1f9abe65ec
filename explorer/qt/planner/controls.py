"""The planner's settings: sliders and fields, what is asked for, what holds, and a way back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QEvent, QRect, QSignalBlocker, QSize, Qt, Signal

from explorer.errors import PlanError
from explorer.planner.devices import parse_shares
from explorer.planner.engines.registry import ENGINES, engines_for
from explorer.planner.plans import Effective, Engine
from explorer.planner.settings import (
    SETTINGS,
    TENSOR_SPLIT,
    Bytes,
    Count,
    OneOf,
    Ratio,
    Setting,
    Shares,
    Switch,
    Tokens,
)
from explorer.present.curves import AXES, Stops, context_stops
from explorer.present.plan import setting_text
from explorer.qt.planner.fields import (
    CalmComboBox,
    CalmSpinBox,
    SizeEdit,
    TokenSpinBox,
    colour_text,
)
from explorer.qt.planner.state import CurrentPlan, PlannerState
from explorer.qt.theme import Space, ink_of
from explorer.qt.widgets.controls import label_of
from explorer.qt.widgets.icons import FoldButton, IconButton
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.painting import plain_tip
from explorer.text import bytes_text, plain_text

_MOST_NUMBER: Final = 1 << 30  # Qt counts with 32 bits
_DIFFERS: Final = "≠"
_WIDEST_NAMED: Final = "Tensor parallel "  # longer names wrap: what unfolds widens no column
_WIDEST_HOLDING: Final = "≠ 1,048,576"
_WIDEST_ASKED: Final = "1,048,576"
_ARROWS: Final = 30  # pixels beside it
_SNAP_PIXELS: Final = 5
_TICK: Final = 4
_GAP: Final = 6
_NOTCH: Final = 120  # of a wheel, as Qt counts
_WHOLE: Final = 100  # per cent


class StopSlider(QtWidgets.QSlider):
    """A horizontal slider over the values of `Stops`, with names below it; a click moves it there.

    Signals:
        value_chosen: The user moved it; the value.
        held: A drag began (true) or ended.
    """

    value_chosen = Signal(int)
    held = Signal(bool)

    def __init__(self, stops: Stops, parent: QtWidgets.QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._turned = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.set_stops(stops)
        self.valueChanged.connect(lambda place: self.value_chosen.emit(self.stops.values[place]))
        self.sliderPressed.connect(lambda: self.held.emit(True))
        self.sliderReleased.connect(lambda: self.held.emit(False))

    def set_stops(self, stops: Stops) -> None:
        """Offer other values."""
        self.stops = stops
        with QSignalBlocker(self):
            self.setRange(0, stops.last)
            self.setPageStep(stops.page)
        self.update()

    def show_value(self, value: int) -> None:
        """Stand at the stop nearest to a value; emit nothing."""
        if not self.isSliderDown():
            with QSignalBlocker(self):
                self.setValue(self.stops.position(value))

    def x_of(self, place: int) -> int:
        """Return the middle of the handle at a position, in pixels."""
        groove, handle = self._groove()
        offset = QtWidgets.QStyle.sliderPositionFromValue(
            self.minimum(), self.maximum(), place, groove.width() - handle
        )
        return groove.x() + handle // 2 + offset

    def _groove(self) -> tuple[QRect, int]:
        """Return the groove, and the width of the handle."""
        option = QtWidgets.QStyleOptionSlider()
        self.initStyleOption(option)
        control, part = QtWidgets.QStyle.ComplexControl.CC_Slider, QtWidgets.QStyle.SubControl
        style = self.style()
        groove = style.subControlRect(control, option, part.SC_SliderGroove, self)
        return groove, style.subControlRect(control, option, part.SC_SliderHandle, self).width()

    def _place_at(self, x: float) -> int:
        """Return the position at a pixel, drawn to a stop that is close by."""
        groove, handle = self._groove()
        offset = round(x) - groove.x() - handle // 2
        place = QtWidgets.QStyle.sliderValueFromPosition(
            self.minimum(), self.maximum(), offset, groove.width() - handle
        )
        snaps = [self.stops.position(snap) for snap in self.stops.snaps]
        near = min(snaps, key=lambda snap: abs(self.x_of(snap) - x), default=place)
        return near if abs(self.x_of(near) - x) <= _SNAP_PIXELS else place

    def _slider_height(self) -> int:
        # not the size hint: it asks for the style option, which asks for this
        metric = QtWidgets.QStyle.PixelMetric.PM_SliderThickness
        return self.style().pixelMetric(metric, None, self) + 2

    def _label_boxes(self) -> list[tuple[int, QRect]]:
        """Return the values whose names have room, the important one first."""
        metrics = self.fontMetrics()
        top = self._slider_height() + _TICK
        boxes: list[tuple[int, QRect]] = []
        for value in sorted(self.stops.names, key=lambda value: value != self.stops.important):
            width = metrics.horizontalAdvance(self.stops.names[value])
            left = self.x_of(self.stops.position(value)) - width // 2
            left = max(0, min(left, self.width() - width))
            box = QRect(left, top, width, metrics.height())
            wide = box.adjusted(-_GAP, 0, _GAP, 0)
            if not any(wide.intersects(other) for _, other in boxes):
                boxes.append((value, box))
        return boxes

    # Qt

    def initStyleOption(self, option: QtWidgets.QStyleOptionSlider) -> None:
        super().initStyleOption(option)
        rect = option.rect  # groove and handle above, names below
        rect.setHeight(self._slider_height())
        option.rect = rect

    def sizeHint(self) -> QSize:
        height = self._slider_height() + _TICK + self.fontMetrics().height()
        return QSize(super().sizeHint().width(), height)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.sizeHint().height())

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QtGui.QPainter(self)
        role = QtGui.QPalette.ColorRole
        strong = self.palette().color(role.WindowText)
        faint = QtGui.QColor(ink_of(self.palette()).control)
        top = self._slider_height()
        for value in self.stops.names:
            x = self.x_of(self.stops.position(value))
            painter.setPen(strong if value == self.stops.important else faint)
            painter.drawLine(x, top - 1, x, top + _TICK - 1)
        for value, box in self._label_boxes():
            named = role.WindowText if value == self.stops.important else role.PlaceholderText
            painter.setPen(self.palette().color(named))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, self.stops.names[value])
        painter.end()

    def mousePressEvent(self, event: QtGui.QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)
            return
        event.accept()
        self.setSliderDown(True)
        self.setSliderPosition(self._place_at(event.position().x()))

    def mouseMoveEvent(self, event: QtGui.QMouseEvent) -> None:
        if self.isSliderDown():
            event.accept()
            self.setSliderPosition(self._place_at(event.position().x()))

    def mouseReleaseEvent(self, event: QtGui.QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.isSliderDown():
            event.accept()
            self.setSliderDown(False)

    def wheelEvent(self, event: QtGui.QWheelEvent) -> None:
        """Go one step for each notch; Qt goes three, and so past half of four positions."""
        event.accept()
        self._turned += event.angleDelta().y() or event.angleDelta().x()
        notches = int(self._turned / _NOTCH)
        self._turned -= notches * _NOTCH
        self.setValue(self.value() + notches)


_ENGINE: Final = Setting("profile", "&Engine", OneOf(tuple(ENGINES)), (), "", advanced=True)
"""The line of the engine, which is asked for beside the settings."""


@dataclass
class SettingField:
    """The line of one setting, or of the engine."""

    setting: Setting
    editor: QtWidgets.QWidget  # where it is typed or chosen
    # shows what is asked for in the editor, or else what holds
    show: Callable[[Any, CurrentPlan], None]
    slider: StopSlider | None = None  # where it is dragged, or None
    is_asked: bool = False  # whether a value is asked for
    label: QtWidgets.QLabel = field(init=False)
    holds: QtWidgets.QLabel = field(init=False)  # the label of what holds instead
    reset: QtWidgets.QToolButton = field(init=False)  # the button that asks for nothing again


class SettingsControls(QtWidgets.QWidget):
    """All settings of a plan: a line for each row of `planner.settings.SETTINGS` with a title.

    In sight is what a person sets who chats alone, and what the engine puts first.

    Attributes:
        rows: The lines by the name of their setting.
        advanced: Unfolds the other ones.
        context: The slider of `context_edit`.
    """

    def __init__(self, state: PlannerState, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self.rows: dict[str, SettingField] = {}
        self.advanced = FoldButton("", "Settings that most people leave alone", self)
        self.advanced.toggled.connect(lambda _: self._unfold())
        self._engine: Engine | None = None  # by which rows are shown
        self._stops_for: tuple[int, int] | None = None
        self._sliders: dict[str, StopSlider] = {}
        self.context_edit = TokenSpinBox(context_stops(0), self)
        self._grid = QtWidgets.QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(Space.NEAR)
        self._grid.setVerticalSpacing(Space.TIGHT)
        self._grid.setColumnStretch(1, 1)
        shown = [one for one in SETTINGS if one.title]
        self._add(self._engine_field())
        for setting in shown:
            self._add(self._field(setting))
        self.context = self._sliders["context"]
        self._place()
        self.follow(state.current)
        state.plan_changed.connect(self.follow)

    def tab_chain(self) -> list[QtWidgets.QWidget]:
        """Return what takes the focus, from top to bottom."""
        found: list[QtWidgets.QWidget] = []
        for row in self._in_order():
            if row.setting is _ENGINE:
                found.append(self.advanced)
            found += [part for part in (row.editor, row.reset, row.slider) if part is not None]
        return found

    def _is_folded(self, row: SettingField) -> bool:
        """Return whether a line is among those that unfold."""
        first = () if self._engine is None else self._engine.first
        return row.setting.advanced and row.setting.name not in first

    def _in_order(self) -> list[SettingField]:
        """Return the lines in sight, then that of the engine, then the others that unfold."""
        return sorted(self.rows.values(), key=self._is_folded)

    def _place(self) -> None:
        """Put the lines in order, each slider below its line."""
        line = 0
        for row in self._in_order():
            if row.setting is _ENGINE:
                start = Qt.AlignmentFlag.AlignLeft
                self._grid.addWidget(self.advanced, line, 0, 1, 4, start)
                line += 1
            for place, widget in enumerate((row.label, row.editor, row.holds, row.reset)):
                self._grid.addWidget(widget, line, place)
            if row.setting is _ENGINE:  # a long name
                self._grid.addWidget(row.editor, line + 1, 0, 1, 3)
                self._grid.addWidget(row.reset, line + 1, 3)
            if row.slider is not None:
                self._grid.addWidget(row.slider, line + 1, 0, 1, 4)
            line += 2
        for before, after in itertools.pairwise(self.tab_chain()):
            self.setTabOrder(before, after)
        self._unfold()

    def _unfold(self) -> None:
        """Show the rows that the engine knows; the folded ones if unfolded."""
        engine, several = self._engine, self._stops_for is not None and self._stops_for[1] > 1
        known = {one.name for one in (SETTINGS if engine is None else engine.settings)}
        known |= {_ENGINE.name}
        known -= set() if several else {TENSOR_SPLIT.name}  # one GPU shares with none
        for name, row in self.rows.items():
            shown = name in known and (self.advanced.isChecked() or not self._is_folded(row))
            row.label.setVisible(shown)
            row.editor.setVisible(shown)
            if row.slider is not None:  # with one place there is nothing to drag
                row.slider.setVisible(shown and row.slider.stops.last > 0)
            row.holds.setVisible(shown and row.setting is not _ENGINE)  # a long name is told once
            policy = row.reset.sizePolicy()  # a line that is not there takes no room either
            policy.setRetainSizeWhenHidden(shown)
            row.reset.setSizePolicy(policy)
        self._name_fold()

    def _name_fold(self) -> None:
        """Offer to reset what is asked for, and say how many of the folded settings are."""
        for row in self.rows.values():
            row.reset.setVisible(row.is_asked and not row.editor.isHidden())
        count = sum(row.is_asked and self._is_folded(row) for row in self.rows.values())
        text = f"{count} changed" if count else "engine, layers, …"
        self.advanced.setText(f"Advanced: {text}")

    def _add(self, row: SettingField) -> None:
        """Make the line of a setting."""
        setting, editor, slider = row.setting, row.editor, row.slider
        plain = setting.title.replace("&", "")
        row.label = label_of(editor, setting.title)
        row.label.setWordWrap(True)
        row.label.setFixedWidth(self.fontMetrics().horizontalAdvance(_WIDEST_NAMED))
        editor.setToolTip(setting.tip)
        for part in (row.label, editor, slider):
            if part is not None:
                part.setWhatsThis(setting.tip)
        editor.setObjectName(f"planner_{setting.name}")
        editor.setAccessibleName(plain)
        if isinstance(editor, CalmSpinBox):
            editor.lineEdit().setAccessibleName(plain)
        editor.setSizePolicy(
            QtWidgets.QSizePolicy.Policy.Expanding, QtWidgets.QSizePolicy.Policy.Fixed
        )
        labelled = isinstance(editor, QtWidgets.QAbstractButton)
        least = self.fontMetrics().horizontalAdvance(_WIDEST_ASKED) + _ARROWS
        editor.setMinimumWidth(editor.sizeHint().width() if labelled else least)
        row.holds = plain_label(self)  # empty unless another value holds
        row.holds.setFixedWidth(self.fontMetrics().horizontalAdvance(_WIDEST_HOLDING))
        tip = f"Reset {plain} to its default"
        row.reset = IconButton("reset", f"Reset {plain}", tip, self, words=False)
        row.reset.setIconSize(QSize(14, 14))
        row.reset.clicked.connect(lambda: self._reset(setting))
        self.rows[setting.name] = row

    def _reset(self, setting: Setting) -> None:
        if setting is _ENGINE:
            self._state.replace_inputs(profile=None)
        else:
            self._state.apply({setting.name: getattr(self._state.of_all, setting.name)})

    def follow(self, current: CurrentPlan) -> None:
        """Show what is asked for, and what the plan makes of it."""
        inputs, plan, of_all = current.inputs, current.plan, self._state.of_all
        self._offer_stops(current)
        if current.engine is not self._engine:
            self._engine = current.engine
            self._place()
        for name, row in self.rows.items():
            asked = inputs.profile if row.setting is _ENGINE else getattr(inputs.settings, name)
            row.show(asked, current)
            row.is_asked = asked != getattr(of_all, name, None)
            held = None
            if plan is not None:
                held = plan.effective.get(name)
            text = "" if held is None else _used_text(row.setting, asked, held)
            if text != row.holds.text():
                row.holds.setText(text)
            tip = "" if held is None else plain_text(held.reason or held.origin)
            if tip != row.holds.accessibleDescription():
                row.holds.setAccessibleDescription(tip)
                row.holds.setToolTip(plain_tip(tip))
                self._take_colours(row)
        self._name_fold()

    def _offer_stops(self, current: CurrentPlan) -> None:
        """Offer what can be dragged to: the trained context, as many GPUs as there are."""
        trained = 0 if current.model is None else current.model.h.trained_context
        wanted = trained, len(current.inputs.devices)
        if wanted == self._stops_for:
            return
        self._stops_for = wanted
        for name, slider in self._sliders.items():
            slider.set_stops(AXES[name].stops(*wanted))
        self.context_edit.stops = self._sliders["context"].stops
        self._unfold()

    @staticmethod
    def _take_colours(row: SettingField) -> None:
        """Show what is not as asked for in the warning colour, beside its sign."""
        colour_text(row.holds, warning=row.holds.text().startswith(_DIFFERS))

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:  # dark has become light
            for row in self.rows.values():
                self._take_colours(row)

    # Fields

    def _field(self, setting: Setting) -> SettingField:  # noqa: PLR0911 - one for each kind
        """Return the field of a setting, by its kind."""
        match setting.kind:
            case Tokens():
                return self._number(setting, self.context_edit)
            case Count(choices=()) as kind:
                edit = CalmSpinBox(self, kind.least, min(kind.most, _MOST_NUMBER))
                edit.setSingleStep(kind.step)
                return self._number(setting, edit, kind.auto)
            case Ratio():
                edit = CalmSpinBox(self, 1, _WHOLE)
                edit.setSuffix(" %")
                return self._number(setting, edit)
            case Count(choices=numbers):
                return self._choice(setting, {"auto": None} | {str(one): one for one in numbers})
            case OneOf(choices=texts):
                return self._choice(setting, {one: one for one in texts})
            case Switch(only_on=""):
                return self._choice(setting, {"auto": None, "on": True, "off": False})
            case Switch(only_on=words):
                return self._box(setting, words)
            case Bytes():
                return self._size(setting)
            case Shares():
                return self._shares(setting)

    def _number(self, setting: Setting, edit: CalmSpinBox, auto: int | None = None) -> SettingField:
        """Let a number be typed, a part of a whole in per cent, and dragged where it has stops.

        `auto` is the number that leaves the choice to the engine.
        """
        parts, slider = _WHOLE if isinstance(setting.kind, Ratio) else 0, None

        def take(number: int) -> None:
            value = None if number == auto else number / parts if parts else number
            self._state.set(**{setting.name: value})

        edit.valueChanged.connect(take)
        if auto is not None:
            edit.setSpecialValueText("auto")
        if (axis := AXES.get(setting.name)) is not None:
            slider = self._sliders[setting.name] = StopSlider(axis.stops(0, 0), self)
            slider.setAccessibleName(f"{setting.title.replace('&', '')} slider")
            slider.value_chosen.connect(take)
            slider.held.connect(self._state.hold)

        def show(asked: float | None, current: CurrentPlan) -> None:
            left = asked is None and auto is not None
            value: Any = auto if left else _either(asked, current, setting)
            number = round(value * parts) if parts else value
            edit.show_value(number)
            if slider is not None:
                slider.show_value(number)
                slider.setAccessibleDescription(edit.text())

        return SettingField(setting, edit, show, slider)

    def _choice(self, setting: Setting, choices: Mapping[str, object]) -> SettingField:
        """Let one of some values be chosen, by their texts."""
        edit, values = CalmComboBox(self), tuple(choices.values())
        edit.offer(choices)
        edit.currentIndexChanged.connect(
            lambda _: self._state.set(**{setting.name: edit.currentData()})
        )

        def show(asked: object, current: CurrentPlan) -> None:
            value = asked if asked in values else _either(None, current, setting)
            edit.show_value(value if value in values else setting.default)

        return SettingField(setting, edit, show)

    def _box(self, setting: Setting, words: str) -> SettingField:
        edit = QtWidgets.QCheckBox(words, self)
        edit.clicked.connect(lambda on: self._state.set(**{setting.name: on}))

        def show(asked: bool | None, current: CurrentPlan) -> None:
            with QSignalBlocker(edit):
                edit.setChecked(bool(_either(asked, current, setting)))

        return SettingField(setting, edit, show)

    def _size(self, setting: Setting) -> SettingField:
        edit = SizeEdit(self)
        edit.setPlaceholderText("auto" if setting.default is None else bytes_text(setting.default))
        edit.size_chosen.connect(lambda nbytes: self._state.set(**{setting.name: nbytes}))
        return SettingField(setting, edit, lambda asked, _current: edit.show_size(asked))

    def _shares(self, setting: Setting) -> SettingField:
        edit = QtWidgets.QLineEdit(self)
        edit.setPlaceholderText("auto")

        def take() -> None:
            if not edit.isModified():
                return
            edit.setModified(False)
            try:
                shares = parse_shares(edit.text())
            except PlanError as error:
                self._state.refused.emit(error)
                shares = getattr(self._state.inputs.settings, setting.name)
            self._state.apply({setting.name: shares})
            self.follow(self._state.current)

        edit.editingFinished.connect(take)

        def show(asked: tuple[float, ...] | None, _current: CurrentPlan) -> None:
            if not (edit.hasFocus() and edit.isModified()):
                edit.setText("" if asked is None else ",".join(f"{one:g}" for one in asked))

        return SettingField(setting, edit, show)

    def _engine_field(self) -> SettingField:
        edit = CalmComboBox(self)

        def offer(engines: Iterable[Engine]) -> None:
            if edit.offer({engine.title: engine.name for engine in engines}):
                for row in range(edit.count()):
                    edit.setItemData(row, edit.itemText(row), Qt.ItemDataRole.ToolTipRole)

        offer(ENGINES.values())
        edit.currentIndexChanged.connect(
            lambda _: self._state.replace_inputs(profile=str(edit.currentData()))
        )

        def show(_asked: str | None, current: CurrentPlan) -> None:
            if current.model is not None:  # only those that can load it, and the one in use
                able = engines_for(current.model.h, current.inputs.devices)
                offer([one for one in ENGINES.values() if one in able or one is current.engine])
            shown = "" if current.engine is None else current.engine.name
            edit.show_value(shown or None)
            if shown:
                edit.setToolTip(ENGINES[shown].title)

        return SettingField(_ENGINE, edit, show)


def _used_text(setting: Setting, asked: Any, held: Effective) -> str:
    """Return the value that holds where the field does not show it; marked if it was refused."""
    text = setting_text(setting, held.value)
    if held.reason:
        return f"{_DIFFERS} {text}"
    match setting.kind:
        case Shares():
            return text
        case Count(auto=None) | Tokens() | OneOf() | Bytes() | Ratio():
            is_shown = asked is None
        case Switch(only_on=only_on):
            is_shown = asked is None and bool(only_on)
        case _:
            is_shown = False
    return "" if is_shown or held.value == asked else text


def _either(asked: Any, current: CurrentPlan, setting: Setting) -> Any:
    """Return what is asked for; else what holds; else a default."""
    if asked is not None:
        return asked
    held = None if current.plan is None else current.plan.used(setting.name)
    return setting.default if held is None else held
