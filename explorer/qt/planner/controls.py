"""The planner's settings: sliders and fields, what is asked for, what holds, and a way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from PySide6 import QtGui, QtWidgets
from PySide6.QtCore import QEvent, QRect, QSignalBlocker, QSize, Qt, Signal

from explorer.errors import PlanError
from explorer.planner.devices import parse_shares
from explorer.planner.engines.llama_cpp.outcome import DEFAULT_RESERVE, Outcome
from explorer.planner.profiles import PROFILES, ignored_settings
from explorer.planner.result import Plan
from explorer.planner.settings import AUTOMATIC
from explorer.planner.sizes import DEFAULT_BATCH, DEFAULT_CONTEXT
from explorer.present import plan_export
from explorer.present.explanations import picture_text
from explorer.present.plan import CACHE_TYPES, attention_text, context_text, short_name
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

_MOST_BATCH: Final = 1 << 20
_MOST_LAYERS: Final = 1 << 30
_MOST_SEQUENCES: Final = 1 << 20
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

    def __init__(
        self, stops: plan_export.Stops, spoken: Callable[[int], str], parent: QtWidgets.QWidget
    ) -> None:
        """Start without marks; `spoken` returns what a screen reader says of a value."""
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._spoken = spoken
        self._turned = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.set_stops(stops, ())
        self.valueChanged.connect(lambda place: self.value_chosen.emit(self.stops.values[place]))
        self.sliderPressed.connect(lambda: self.held.emit(True))
        self.sliderReleased.connect(lambda: self.held.emit(False))

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
class Setting:
    """One setting."""

    name: str  # its name in `Settings`, or ``"profile"``
    title: str  # its label, with a mnemonic
    editor: QtWidgets.QWidget  # where it is typed or chosen
    tip: str  # tool tip of the editor
    # shows what is asked for in the editor, or else what holds
    show: Callable[[Any, CurrentPlan], None]
    # returns what holds in a plan as text; None of the profile, which always holds
    text: Callable[[Plan], str] | None = None
    slider: QtWidgets.QWidget | None = None  # where it is dragged, or None
    holds: QtWidgets.QLabel = field(init=False)  # the label of what holds
    reset: QtWidgets.QToolButton = field(init=False)  # the button that asks for nothing again


class SettingRows(QtWidgets.QWidget):
    """A grid of settings that follows the planner's state.

    Attributes:
        rows: The settings by name.
        advanced: Unfolds the settings that were added after `fold`.
    """

    def __init__(self, state: PlannerState, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state = state
        self.rows: dict[str, Setting] = {}
        tip = "Settings that most people leave alone"
        self.advanced = FoldButton("", tip, self)
        self.advanced.toggled.connect(self._unfold)
        self._folded: list[QtWidgets.QWidget] | None = None  # what it shows; None until it is there
        self._profile: str | None = None  # by which rows are greyed
        self._grid = QtWidgets.QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(Space.NEAR)
        self._grid.setVerticalSpacing(Space.TIGHT)
        self._grid.setColumnStretch(1, 1)
        for column, text in ((1, "You asked"), (2, "In effect")):
            label = QtWidgets.QLabel(text, self)
            label.setForegroundRole(QtGui.QPalette.ColorRole.PlaceholderText)
            self._grid.addWidget(label, 0, column)

    def tab_chain(self) -> list[QtWidgets.QWidget]:
        """Return what takes the focus, from top to bottom."""
        found: list[QtWidgets.QWidget] = []
        for row in self.rows.values():
            if self._folded and row.editor in self._folded and self.advanced not in found:
                found.append(self.advanced)
            found += [part for part in (row.editor, row.reset, row.slider) if part is not None]
        return found

    def fold(self) -> None:
        """Show the settings that are added from now on only where they are asked for."""
        start = Qt.AlignmentFlag.AlignLeft
        self._grid.addWidget(self.advanced, self._grid.rowCount(), 0, 1, 4, start)
        self._folded = []

    def _unfold(self, on: bool) -> None:
        for part in self._folded or ():
            part.setVisible(on)
        self._name_fold()

    def _name_fold(self) -> None:
        """Say how many of the folded settings are asked for."""
        folded = self._folded or ()
        count = sum(row.reset.isEnabled() for row in self.rows.values() if row.editor in folded)
        text = "Advanced: batch, layers, split, experts…"
        if count:
            text = f"Advanced: {count} changed"
        self.advanced.setText(text)

    def add(self, setting: Setting) -> None:
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
        setting.holds = holds = plain_label(self)
        holds.setWhatsThis(picture_text("holds"))
        holds.setFixedWidth(self.fontMetrics().horizontalAdvance(_WIDEST_HOLDING))
        name = f"Reset {plain}"
        tip = f"Reset {plain} to its default"
        setting.reset = reset = IconButton("reset", name, tip, self, words=False)
        reset.setIconSize(QSize(14, 14))
        reset.clicked.connect(lambda: self._reset(setting.name))
        line = self._grid.rowCount()
        for column, widget in enumerate((label, editor, holds, reset)):
            self._grid.addWidget(widget, line, column)
        if setting.text is None:  # a long name, which is not told twice
            self._grid.addWidget(editor, line + 1, 0, 1, 3)
            self._grid.addWidget(reset, line + 1, 3)
            holds.hide()
        if slider is not None:
            self._grid.addWidget(slider, line + 1, 0, 1, 4)
        if self._folded is not None:
            parts = (label, editor, holds, reset, slider)
            self._folded += [part for part in parts if part is not None]
            self._unfold(self.advanced.isChecked())
        self.rows[setting.name] = setting

    def _reset(self, name: str) -> None:
        if name == "profile":
            self._state.replace_inputs(profile=None)
        else:
            self._state.apply({name: None})

    def follow(self, current: CurrentPlan) -> None:
        """Show what is asked for, and what the plan makes of it; grey what a profile ignores."""
        inputs, plan = current.inputs, current.plan
        if current.profile != self._profile:
            self._profile = current.profile
            self._grey(ignored_settings(current.profile))
        reasons, origins = {}, {}
        if plan is not None:
            reasons = {one.name: one.reason for one in plan.effective.differences}
            origins = dict(plan.effective.origins)
        for name, row in self.rows.items():
            if name == "profile":
                row.show(inputs.profile, current)
                row.reset.setEnabled(inputs.profile is not None)
                continue
            asked = getattr(inputs.settings, name)
            row.show(asked, current)
            row.reset.setEnabled(asked is not None)
            known = plan is not None and row.text is not None and row.editor.isEnabled()
            text = row.text(plan) if known and plan and row.text else "–"
            reason = reasons.get(name, "")
            text = f"{_DIFFERS} {text}" if reason else text
            if text != row.holds.text():
                row.holds.setText(text)
            tip = plain_text(reason or origins.get(name, ""))
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
    def _take_colours(row: Setting) -> None:
        """Show what is not as asked for in the warning colour, beside its sign."""
        colour_text(row.holds, warning=row.holds.text().startswith(_DIFFERS))

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:  # dark has become light
            for row in self.rows.values():
                self._take_colours(row)


class SettingsControls(SettingRows):
    """All settings of a plan.

    `context`, `parallel` and `cache_type` are sliders; `context_edit` and so on are their fields.
    """

    def __init__(self, state: PlannerState, parent: QtWidgets.QWidget) -> None:
        super().__init__(state, parent)
        self._trained = -1
        self._add_context()
        self._add_parallel()
        self._add_cache_type()
        self._add_profile()
        self.fold()
        self._add_batch()
        self._add_attention()
        self._add_layers()
        self._add_overhead()
        self._add_spread()
        self._add_ubatch()
        self._add_unified()
        self._add_split()
        self._add_experts()
        self._add_reserve()
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

    # Rows

    def _add_context(self) -> None:
        edit = self.context_edit = TokenSpinBox(plan_export.context_stops(0), self)

        def spoken(value: int) -> str:
            return f"{integer_text(value)} tokens"

        slider = self.context = self._slider("Context slider", spoken)
        tip = "Tokens of each sequence, with llama.cpp of all together: 32k or 1M"
        show, text = self._number(edit, "context", DEFAULT_CONTEXT, slider)
        self.add(Setting("context", "&Context", edit, tip, show, text, slider))

    def _add_parallel(self) -> None:
        edit = self.parallel_edit = CalmSpinBox(self, 1, _MOST_SEQUENCES)
        slider = self.parallel = self._slider("Parallel sequences slider")
        stops = plan_export.parallel_stops()
        slider.set_stops(stops, [StopMark(n, str(n)) for n in stops.snaps], 4)
        tip = "Sequences at a time; each has its own context"
        show, text = self._number(edit, "parallel", 1, slider)
        self.add(Setting("parallel", "&Parallel", edit, tip, show, text, slider))

    def _add_cache_type(self) -> None:
        edit = self._choice([(name, name) for name in CACHE_TYPES], "kv_cache_type")
        self.cache_type_edit = edit
        stops = plan_export.Stops(range(len(CACHE_TYPES)), range(len(CACHE_TYPES)))
        name = "KV cache type slider"
        slider = self.cache_type = self._slider(name, CACHE_TYPES.__getitem__)
        slider.set_stops(stops, [StopMark(i, name) for i, name in enumerate(CACHE_TYPES)])
        slider.value_chosen.connect(lambda n: self._state.set(kv_cache_type=CACHE_TYPES[n]))

        def show(asked: str | None, current: CurrentPlan) -> None:
            value = (asked or "").strip().lower()
            if value not in CACHE_TYPES:
                value = _either(None, current, "kv_cache_type", "f16")
            place = CACHE_TYPES.index(value) if value in CACHE_TYPES else 1
            edit.show_value(CACHE_TYPES[place])
            slider.show_value(place)

        def text(plan: Plan) -> str:
            return plain_text(plan.effective.kv_cache_type)

        title = "&KV cache type"
        tip = "Type of the KV cache. f32 is a what-if: no server accepts it."
        self.add(Setting("kv_cache_type", title, edit, tip, show, text, slider))

    def _add_batch(self) -> None:
        edit = CalmSpinBox(self, 1, _MOST_BATCH)
        edit.setSingleStep(128)
        show, _ = self._number(edit, "batch", DEFAULT_BATCH)

        def text(plan: Plan) -> str:
            return integer_text(plan.batch)

        tip = "Tokens computed at a time"
        self.add(Setting("batch", "&Batch", edit, tip, show, text))

    def _add_attention(self) -> None:
        choices = [("auto", None), ("on", True), ("off", False)]
        edit = self._choice(choices, "flash_attention")

        def show(asked: bool | None, _current: CurrentPlan) -> None:
            edit.show_value(asked)

        title = "&Flash attention"
        tip = "Auto uses it where the model and the devices allow it"
        self.add(Setting("flash_attention", title, edit, tip, show, attention_text))

    def _add_layers(self) -> None:
        edit = CalmSpinBox(self, AUTOMATIC, _MOST_LAYERS)
        edit.setSpecialValueText("auto")
        edit.valueChanged.connect(
            lambda value: self._state.set(num_gpu=None if value == AUTOMATIC else value)
        )

        def show(asked: int | None, _current: CurrentPlan) -> None:
            edit.show_value(AUTOMATIC if asked is None else asked)

        def text(plan: Plan) -> str:
            return "–" if plan.gpu_layers is None else str(plan.gpu_layers)

        tip = "Layers to put on GPUs; auto places as many as fit"
        self.add(Setting("num_gpu", "&GPU layers", edit, tip, show, text))

    def _add_overhead(self) -> None:
        edit = SizeEdit(self)
        edit.setPlaceholderText("0")
        edit.size_chosen.connect(lambda nbytes: self._state.set(overhead=nbytes))
        edit.refused.connect(self._state.refused)

        def show(asked: int | None, _current: CurrentPlan) -> None:
            edit.show_size(asked)

        def text(plan: Plan) -> str:
            return bytes_text(plan.effective.overhead)

        tip = "Memory to hold back on each GPU: 512MiB, 1 GiB"
        self.add(Setting("overhead", "&Overhead", edit, tip, show, text))

    def _add_spread(self) -> None:
        edit = QtWidgets.QCheckBox("all GPUs", self)
        edit.clicked.connect(lambda on: self._state.set(spread=on))

        def show(asked: bool | None, current: CurrentPlan) -> None:
            with QSignalBlocker(edit):
                edit.setChecked(bool(_either(asked, current, "spread", False)))

        def text(plan: Plan) -> str:
            return "yes" if plan.effective.spread else "no"

        tip = "Use every GPU instead of as few as possible"
        self.add(Setting("spread", "&Spread", edit, tip, show, text))

    def _add_ubatch(self) -> None:
        edit = CalmSpinBox(self, 1, _MOST_BATCH)
        edit.setSingleStep(128)
        edit.valueChanged.connect(lambda value: self._state.set(ubatch=value))

        def show(asked: int | None, current: CurrentPlan) -> None:
            outcome = None if current.plan is None else current.plan.llama_cpp
            held = DEFAULT_BATCH if outcome is None else outcome.settings.ubatch
            edit.show_value(held if asked is None else asked)

        text = _held(lambda outcome: integer_text(outcome.settings.ubatch))
        tip = "Tokens of one computation, at most the batch; the compute buffers follow it"
        self.add(Setting("ubatch", "&Ubatch", edit, tip, show, text))

    def _add_unified(self) -> None:
        choices = [("auto", None), ("on", True), ("off", False)]
        edit = self._choice(choices, "kv_unified")

        def show(asked: bool | None, _current: CurrentPlan) -> None:
            edit.show_value(asked)

        yes, no = "yes", "no"
        text = _held(lambda outcome: yes if outcome.settings.kv_unified else no)
        tip = "Whether all sequences share one cache of the context"
        self.add(Setting("kv_unified", "U&nified cache", edit, tip, show, text))

    def _add_split(self) -> None:
        edit = QtWidgets.QLineEdit(self)
        edit.setPlaceholderText("auto")
        bar = self.split = SplitBar(self)
        bar.held.connect(self._state.hold)
        bar.split_chosen.connect(lambda shares: self._state.set(tensor_split=shares))

        def take() -> None:
            if not edit.isModified():
                return
            edit.setModified(False)
            try:
                shares = parse_shares(edit.text())
            except PlanError as error:
                self._state.refused.emit(error)
                shares = self._state.inputs.settings.tensor_split
            self._state.apply({"tensor_split": shares})
            self.follow(self._state.current)

        edit.editingFinished.connect(take)

        def show(asked: tuple[float, ...] | None, current: CurrentPlan) -> None:
            if not (edit.hasFocus() and edit.isModified()):
                edit.setText("" if asked is None else ",".join(f"{one:g}" for one in asked))
            outcome = None if current.plan is None else current.plan.llama_cpp
            gpus = () if outcome is None else outcome.gpus
            names = [] if outcome is None else [short_name(one) for one in outcome.devices]
            bar.show_split([len(one.layers) for one in gpus], names)

        text = _held(lambda outcome: ",".join(str(len(one.layers)) for one in outcome.gpus) or "–")
        tip = "Layers of each GPU, such as 12,20; drag the bar to share them otherwise"
        self.add(Setting("tensor_split", "Tensor sp&lit", edit, tip, show, text, bar))

    def _add_experts(self) -> None:
        edit = CalmSpinBox(self, 0, _MOST_LAYERS)
        edit.setSpecialValueText("auto")
        edit.valueChanged.connect(lambda value: self._state.set(cpu_moe_layers=value or None))

        def show(asked: int | None, _current: CurrentPlan) -> None:
            edit.show_value(asked or 0)

        text = _held(lambda outcome: str(len(outcome.expert_layers)))
        tip = "Blocks whose experts stay on the CPU, from the first; auto leaves it open"
        self.add(Setting("cpu_moe_layers", "E&xperts on CPU", edit, tip, show, text))

    def _add_reserve(self) -> None:
        edit = SizeEdit(self)
        edit.setPlaceholderText(bytes_text(DEFAULT_RESERVE))
        edit.size_chosen.connect(lambda nbytes: self._state.set(reserve=nbytes))
        edit.refused.connect(self._state.refused)

        def show(asked: int | None, _current: CurrentPlan) -> None:
            edit.show_size(asked)

        text = _held(lambda outcome: bytes_text(max(outcome.reserves, default=0)))
        tip = "Memory of each GPU for the driver and what a plan cannot see: 512MiB, 1 GiB"
        self.add(Setting("reserve", "Reser&ve", edit, tip, show, text))

    def _add_profile(self) -> None:
        edit = CalmComboBox(self)
        for name, profile in PROFILES.items():
            edit.addItem(profile.title, name)
            edit.setItemData(edit.count() - 1, profile.title, Qt.ItemDataRole.ToolTipRole)
        edit.currentIndexChanged.connect(
            lambda _: self._state.replace_inputs(profile=str(edit.currentData()))
        )

        def show(asked: str | None, current: CurrentPlan) -> None:
            shown = asked or current.profile
            edit.show_value(shown or None)
            if shown:
                edit.setToolTip(PROFILES[shown].title)

        self.add(Setting("profile", "P&rogram", edit, "", show))

    def _slider(self, name: str, spoken: Callable[[int], str] = integer_text) -> StopSlider:
        slider = StopSlider(plan_export.context_stops(0), spoken, self)
        slider.setAccessibleName(name)
        slider.held.connect(self._state.hold)
        return slider

    def _number(
        self, edit: CalmSpinBox, name: str, default: int, slider: StopSlider | None = None
    ) -> tuple[Callable[[Any, CurrentPlan], None], Callable[[Plan], str]]:
        """Let a number be typed and dragged; return `show` and `text` of its `Setting`."""
        for signal in [edit.valueChanged] + ([] if slider is None else [slider.value_chosen]):
            signal.connect(lambda value: self._state.set(**{name: value}))

        def show(asked: int | None, current: CurrentPlan) -> None:
            value = _either(asked, current, name, default)
            edit.show_value(value)
            if slider is not None:
                slider.show_value(value)

        return show, lambda plan: integer_text(getattr(plan.effective, name))

    def _choice(self, choices: Sequence[tuple[str, object]], name: str) -> CalmComboBox:
        edit = CalmComboBox(self)
        for text, value in choices:
            edit.addItem(text, value)
        edit.currentIndexChanged.connect(lambda _: self._state.set(**{name: edit.currentData()}))
        return edit


def _held(figure: Callable[[Outcome], str]) -> Callable[[Plan], str]:
    """Return `text` of a `Setting` that plans of llama.cpp alone have."""
    return lambda plan: "–" if plan.llama_cpp is None else figure(plan.llama_cpp)


def _either(asked: Any, current: CurrentPlan, name: str, default: Any) -> Any:
    """Return what is asked for; else what holds; else a default."""
    if asked is not None:
        return asked
    return default if current.plan is None else getattr(current.plan.effective, name)
