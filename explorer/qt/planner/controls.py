"""The planner's settings: sliders and fields, what is asked for, what holds, and a way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QEvent, QRect, QSignalBlocker, QSize, Qt, Signal

from explorer.errors import PlanError
from explorer.planner.devices import parse_shares
from explorer.planner.engines.registry import ENGINES, engines_for
from explorer.planner.plan import Effective, Engine
from explorer.planner.settings import (
    SETTINGS,
    Bytes,
    Count,
    OneOf,
    Ratio,
    Setting,
    Shares,
    Switch,
    Tokens,
)
from explorer.present import plan_export
from explorer.present.plan import context_text, setting_text, short_name
from explorer.qt.planner.fields import (
    CalmComboBox,
    CalmSpinBox,
    SizeEdit,
    SplitBar,
    TokenSpinBox,
    buddy_label,
    colour_text,
)
from explorer.qt.planner.state import CurrentPlan, PlannerState
from explorer.qt.theme import Space, ink_of
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.painting import FoldButton, IconButton, plain_tip
from explorer.text import bytes_text, integer_text, plain_text

_MOST_NUMBER: Final = 1 << 30  # Qt counts with 32 bits
_DIFFERS: Final = "≠"
_WIDEST_HOLDING: Final = "≠ 1,048,576"
_WIDEST_ASKED: Final = "1,048,576"
_ARROWS: Final = 30  # pixels beside it
_SNAP_PIXELS: Final = 5
_TICK: Final = 4
_GAP: Final = 6
_NOTCH: Final = 120  # of a wheel, as Qt counts


@dataclass(frozen=True, slots=True)
class StopMark:
    """A named stop; an important one's name is drawn before others, and stronger."""

    value: int
    text: str
    important: bool = False


class StopSlider(QtWidgets.QSlider):
    """A horizontal slider over the values of `Stops`, with names below it; a click moves it there.

    Signals:
        value_chosen: The user moved it; the value.
        held: A drag began (true) or ended.
    """

    value_chosen = Signal(int)
    held = Signal(bool)

    def __init__(self, stops: plan_export.Stops, parent: QtWidgets.QWidget) -> None:
        """Start without a name and marks."""
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._spoken: Callable[[int], str] = integer_text
        self._turned = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.set_stops(stops, ())
        self.valueChanged.connect(lambda place: self.value_chosen.emit(self.stops.values[place]))
        self.sliderPressed.connect(lambda: self.held.emit(True))
        self.sliderReleased.connect(lambda: self.held.emit(False))

    def name(self, name: str, spoken: Callable[[int], str] = integer_text) -> None:
        """Take a name; `spoken` returns what a screen reader says of a value."""
        self._spoken = spoken
        self.setAccessibleName(name)

    def set_stops(self, stops: plan_export.Stops, marks: Sequence[StopMark], page: int = 1) -> None:
        """Offer other values, name some of them, and go `page` positions for Page Up."""
        self.stops = stops
        self._marks = tuple(marks)
        with QSignalBlocker(self):
            self.setRange(0, stops.last)
            self.setPageStep(page)
        self.update()

    def show_value(self, value: int) -> None:
        """Stand at the stop nearest to a value; emit nothing."""
        if not self.isSliderDown():
            with QSignalBlocker(self):
                self.setValue(self.stops.position(value))
        self.setAccessibleDescription(self._spoken(value))

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

    def initStyleOption(self, option: QtWidgets.QStyleOptionSlider) -> None:
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

    def paintEvent(self, event: QtGui.QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._marks:
            return
        painter = QtGui.QPainter(self)
        role = QtGui.QPalette.ColorRole
        strong = self.palette().color(role.WindowText)
        faint = QtGui.QColor(ink_of(self.palette()).control)
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


@dataclass
class SettingField:
    """The line of one setting, or of the engine."""

    name: str  # of the setting, or ``"profile"``
    title: str  # its label, with a mnemonic
    editor: QtWidgets.QWidget  # where it is typed or chosen
    # shows what is asked for in the editor, or else what holds
    show: Callable[[Any, CurrentPlan], None]
    tip: str = ""  # tool tip of the editor
    # the row that it is made of; None of the engine, which always holds
    setting: Setting | None = None
    slider: QtWidgets.QWidget | None = None  # where it is dragged, or None
    is_asked: bool = False  # whether a value is asked for
    holds: QtWidgets.QLabel = field(init=False)  # the label of what holds instead
    reset: QtWidgets.QToolButton = field(init=False)  # the button that asks for nothing again
    parts: list[QtWidgets.QWidget] = field(init=False)  # what its line shows but the reset


class SettingRows(QtWidgets.QWidget):
    """A grid of settings that follows the planner's state.

    Attributes:
        rows: The settings by name.
        advanced: Unfolds the settings that were added after `fold`.
    """

    def __init__(self, state: PlannerState, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self.rows: dict[str, SettingField] = {}
        tip = "Settings that most people leave alone"
        self.advanced = FoldButton("", tip, self)
        self.advanced.toggled.connect(lambda _: self._unfold())
        self._folded: list[str] | None = None  # settings that it shows; None until it is there
        self._engine: Engine | None = None  # by which rows are greyed
        self._grid = QtWidgets.QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(Space.NEAR)
        self._grid.setVerticalSpacing(Space.TIGHT)
        self._grid.setColumnStretch(1, 1)

    def tab_chain(self) -> list[QtWidgets.QWidget]:
        """Return what takes the focus, from top to bottom."""
        found: list[QtWidgets.QWidget] = []
        for row in self.rows.values():
            if self._folded and row.name in self._folded and self.advanced not in found:
                found.append(self.advanced)
            found += [part for part in (row.editor, row.reset, row.slider) if part is not None]
        return found

    def fold(self) -> None:
        """Show the settings that are added from now on only where they are asked for."""
        start = Qt.AlignmentFlag.AlignLeft
        self._grid.addWidget(self.advanced, self._grid.rowCount(), 0, 1, 4, start)
        self._folded = []

    def _unfold(self) -> None:
        """Show the rows that the engine knows or has words about; the folded ones if unfolded."""
        engine, folded = self._engine, self._folded or ()
        known = set() if engine is None else {one.name for one in engine.settings}
        for name, row in self.rows.items():
            told = row.setting is None or engine is None or name in known or name in engine.ignored
            shown = told and (name not in folded or self.advanced.isChecked())
            for part in row.parts:
                part.setVisible(shown)
            policy = row.reset.sizePolicy()  # a line that is not there takes no room either
            policy.setRetainSizeWhenHidden(shown)
            row.reset.setSizePolicy(policy)
        self._name_fold()

    def _name_fold(self) -> None:
        """Say how many of the folded settings are asked for."""
        folded = self._folded or ()
        for row in self.rows.values():
            row.reset.setVisible(row.is_asked and not row.editor.isHidden())
        count = sum(self.rows[name].is_asked for name in folded if name in self.rows)
        text = "Advanced: program, layers, …"
        if count:
            text = f"Advanced: {count} changed"
        self.advanced.setText(text)

    def add(self, setting: SettingField) -> None:
        """Add a line for a setting, and its slider below."""
        plain, editor, slider = setting.title.replace("&", ""), setting.editor, setting.slider
        label = buddy_label(setting.title, editor)
        editor.setToolTip(setting.tip)
        for part in (label, editor, slider):
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
        setting.holds = holds = plain_label(self)  # empty unless another value holds
        holds.setFixedWidth(self.fontMetrics().horizontalAdvance(_WIDEST_HOLDING))
        name = f"Reset {plain}"
        tip = f"Reset {plain} to its default"
        setting.reset = reset = IconButton("reset", name, tip, self, words=False)
        reset.setIconSize(QSize(14, 14))
        reset.clicked.connect(lambda: self._reset(setting.name))
        line = self._grid.rowCount()
        for column, widget in enumerate((label, editor, holds, reset)):
            self._grid.addWidget(widget, line, column)
        if setting.setting is None:  # a long name, which is not told twice
            self._grid.addWidget(editor, line + 1, 0, 1, 3)
            self._grid.addWidget(reset, line + 1, 3)
            holds.hide()
        if slider is not None:
            self._grid.addWidget(slider, line + 1, 0, 1, 4)
        own = holds if setting.setting is not None else None
        parts = (label, editor, own, slider)
        setting.parts = [part for part in parts if part is not None]
        self.rows[setting.name] = setting
        if self._folded is not None:
            self._folded.append(setting.name)
            self._unfold()

    def _reset(self, name: str) -> None:
        if name == "profile":
            self._state.replace_inputs(profile=None)
        else:
            self._state.apply({name: None})

    def follow(self, current: CurrentPlan) -> None:
        """Show what is asked for, and what the plan makes of it; grey what a profile ignores."""
        inputs, plan = current.inputs, current.plan
        if current.engine is not self._engine:
            self._engine = current.engine
            self._grey({} if self._engine is None else self._engine.ignored)
            self._unfold()
        for name, row in self.rows.items():
            if row.setting is None:
                row.show(inputs.profile, current)
                row.is_asked = inputs.profile is not None
                continue
            asked = getattr(inputs.settings, name)
            row.show(asked, current)
            row.is_asked = asked is not None
            held = None
            if plan is not None and row.editor.isEnabled():
                held = plan.effective.get(name)
            text = "" if row.editor.isEnabled() else "–"
            if held is not None:
                text = _used_text(row.setting, asked, held)
            if text != row.holds.text():
                row.holds.setText(text)
            tip = "" if held is None else plain_text(held.reason or held.origin)
            if tip != row.holds.accessibleDescription():
                row.holds.setAccessibleDescription(tip)
                row.holds.setToolTip(plain_tip(tip))
                self._take_colours(row)
        self._name_fold()

    def _grey(self, ignored: Mapping[str, str]) -> None:
        """Let only those be changed that count, and say why not the others."""
        for name, row in self.rows.items():
            reason = ignored.get(name, "")
            for part in (row.editor, row.slider):
                if part is not None:
                    part.setEnabled(not reason)
                    part.setToolTip(reason or (row.tip if part is row.editor else ""))
                    part.setStatusTip(reason)

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


class SettingsControls(SettingRows):
    """All settings of a plan: a line for each row of `planner.settings.SETTINGS` with a title.

    `context` is the slider of `context_edit`. In sight is what a person sets who chats alone.
    """

    def __init__(self, state: PlannerState, parent: QtWidgets.QWidget) -> None:
        super().__init__(state, parent)
        self._trained = -1
        self.context = StopSlider(plan_export.context_stops(0), self)
        self.context.held.connect(state.hold)
        self.context_edit = TokenSpinBox(plan_export.context_stops(0), self)
        self.context.name("Context slider", lambda value: f"{integer_text(value)} tokens")
        self.split = SplitBar(self)
        shown = [one for one in SETTINGS if one.title]
        for setting in (one for one in shown if not one.advanced):
            self.add(self._field(setting))
        self.fold()
        self._add_engine()
        for setting in (one for one in shown if one.advanced):
            self.add(self._field(setting))
        self.follow(state.current)

    def follow(self, current: CurrentPlan) -> None:
        """Show the settings; offer contexts up to what the model was trained for."""
        trained = 0 if current.model is None else current.model.h.trained_context
        if trained != self._trained:
            self._trained = trained
            self._offer_contexts(trained)
        super().follow(current)

    def _offer_contexts(self, trained: int) -> None:
        stops = plan_export.context_stops(trained)
        marks = [StopMark(snap, context_text(snap)) for snap in stops.snaps if snap != trained]
        marks.append(StopMark(plan_export.LEAST_CONTEXT, context_text(plan_export.LEAST_CONTEXT)))
        if trained in stops.values:
            words = f"trained {context_text(trained)}"
            marks.append(StopMark(trained, words, important=True))
        self.context_edit.stops = stops
        self.context.set_stops(stops, marks, plan_export.PER_OCTAVE)

    # Fields

    def _field(self, setting: Setting) -> SettingField:  # noqa: PLR0911 - one for each kind
        """Return the field of a setting, by its kind."""
        match setting.kind:
            case Tokens():
                return self._number(setting, self.context_edit, self.context)
            case Count(auto=None) as kind:
                edit = CalmSpinBox(self, kind.least, min(kind.most, _MOST_NUMBER))
                edit.setSingleStep(kind.step)
                return self._number(setting, edit)
            case Count(choices=()) as kind:
                return self._number_or_auto(setting, kind)
            case Count() as kind:
                numbers = ((str(one), one) for one in kind.choices)
                return self._one_or_auto(setting, [("auto", None), *numbers])
            case OneOf() as kind:
                return self._one_of(setting, kind)
            case Switch(only_on=""):
                return self._one_or_auto(setting, [("auto", None), ("on", True), ("off", False)])
            case Switch() as kind:
                return self._box(setting, kind)
            case Bytes():
                return self._size(setting)
            case Shares():
                return self._shares(setting)
            case Ratio():
                return self._fraction(setting)

    def _made(
        self,
        setting: Setting,
        editor: QtWidgets.QWidget,
        show: Callable[[Any, CurrentPlan], None],
        slider: QtWidgets.QWidget | None = None,
    ) -> SettingField:
        name, title, tip = setting.name, setting.title, setting.tip
        return SettingField(name, title, editor, show, tip, setting, slider)

    def _number(
        self, setting: Setting, edit: CalmSpinBox, slider: StopSlider | None = None
    ) -> SettingField:
        """Let a number be typed, and dragged."""
        for signal in [edit.valueChanged] + ([] if slider is None else [slider.value_chosen]):
            signal.connect(lambda value: self._state.set(**{setting.name: value}))

        def show(asked: int | None, current: CurrentPlan) -> None:
            value = _either(asked, current, setting)
            edit.show_value(value)
            if slider is not None:
                slider.show_value(value)

        return self._made(setting, edit, show, slider)

    def _number_or_auto(self, setting: Setting, kind: Count) -> SettingField:
        edit = CalmSpinBox(self, kind.least, min(kind.most, _MOST_NUMBER))
        auto = kind.least if kind.auto is None else kind.auto
        edit.setSpecialValueText("auto")
        edit.valueChanged.connect(
            lambda value: self._state.set(**{setting.name: None if value == auto else value})
        )

        def show(asked: int | None, _current: CurrentPlan) -> None:
            edit.show_value(auto if asked is None else asked)

        return self._made(setting, edit, show)

    def _one_of(self, setting: Setting, kind: OneOf) -> SettingField:
        """Let one of some texts be chosen."""
        choices = kind.choices
        edit = self._choice([(name, name) for name in choices], setting.name)

        def show(asked: str | None, current: CurrentPlan) -> None:
            value = (asked or "").strip().lower()
            value = value if value in choices else _either(None, current, setting)
            edit.show_value(value if value in choices else setting.default)

        return self._made(setting, edit, show)

    def _one_or_auto(self, setting: Setting, choices: Sequence[tuple[str, object]]) -> SettingField:
        edit = self._choice(choices, setting.name)

        def show(asked: object, _current: CurrentPlan) -> None:
            edit.show_value(asked)

        return self._made(setting, edit, show)

    def _box(self, setting: Setting, kind: Switch) -> SettingField:
        edit = QtWidgets.QCheckBox(kind.only_on, self)
        edit.clicked.connect(lambda on: self._state.set(**{setting.name: on}))

        def show(asked: bool | None, current: CurrentPlan) -> None:
            with QSignalBlocker(edit):
                edit.setChecked(bool(_either(asked, current, setting)))

        return self._made(setting, edit, show)

    def _size(self, setting: Setting) -> SettingField:
        edit = SizeEdit(self)
        edit.setPlaceholderText("auto" if setting.default is None else bytes_text(setting.default))
        edit.size_chosen.connect(lambda nbytes: self._state.set(**{setting.name: nbytes}))

        def show(asked: int | None, _current: CurrentPlan) -> None:
            edit.show_size(asked)

        return self._made(setting, edit, show)

    def _shares(self, setting: Setting) -> SettingField:
        edit, bar = QtWidgets.QLineEdit(self), self.split
        edit.setPlaceholderText("auto")
        bar.held.connect(self._state.hold)
        bar.split_chosen.connect(lambda shares: self._state.set(**{setting.name: shares}))

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

        def show(asked: tuple[float, ...] | None, current: CurrentPlan) -> None:
            if not (edit.hasFocus() and edit.isModified()):
                edit.setText("" if asked is None else ",".join(f"{one:g}" for one in asked))
            known = current.plan is not None and setting.name in current.plan.effective
            gpus = current.plan.gpus if known and current.plan is not None else ()
            names = [short_name(one.device) for one in gpus if one.device is not None]
            bar.show_split([len(one.layers) for one in gpus], names)

        return self._made(setting, edit, show, bar)

    def _fraction(self, setting: Setting) -> SettingField:
        """Let a part of a whole be typed in per cent."""
        edit = CalmSpinBox(self, 1, 100)
        edit.setSuffix(" %")
        edit.valueChanged.connect(
            lambda value: self._state.set(**{setting.name: value / edit.maximum()})
        )

        def show(asked: float | None, current: CurrentPlan) -> None:
            edit.show_value(round(edit.maximum() * _either(asked, current, setting)))

        return self._made(setting, edit, show)

    def _add_engine(self) -> None:
        edit = CalmComboBox(self)

        def offer(engines: Sequence[Engine]) -> None:
            if [edit.itemData(row) for row in range(edit.count())] == [one.name for one in engines]:
                return
            with QSignalBlocker(edit):
                edit.clear()
                for engine in engines:
                    edit.addItem(engine.title, engine.name)
                    edit.setItemData(edit.count() - 1, engine.title, Qt.ItemDataRole.ToolTipRole)

        offer(list(ENGINES.values()))
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

        self.add(SettingField("profile", "&Engine", edit, show))

    def _choice(self, choices: Sequence[tuple[str, object]], name: str) -> CalmComboBox:
        edit = CalmComboBox(self)
        for text, value in choices:
            edit.addItem(text, value)
        edit.currentIndexChanged.connect(lambda _: self._state.set(**{name: edit.currentData()}))
        return edit


def _either(asked: Any, current: CurrentPlan, setting: Setting) -> Any:
    """Return what is asked for; else what holds; else a default."""
    if asked is not None:
        return asked
    held = None if current.plan is None else current.plan.used(setting.name)
    return setting.default if held is None else held
