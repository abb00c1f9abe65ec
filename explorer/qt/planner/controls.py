"""The settings: each with what is asked for, what holds, and a way back to the default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import QEvent, QSignalBlocker, Qt
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QGridLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from explorer.planner.profiles import PROFILES
from explorer.planner.result import Plan
from explorer.planner.settings import AUTOMATIC, EffectiveSettings
from explorer.planner.sizes import DEFAULT_BATCH, DEFAULT_CONTEXT
from explorer.present.explanations import picture_text
from explorer.present.plan_export import (
    CACHE_TYPES,
    LEAST_CONTEXT,
    PER_OCTAVE,
    Stops,
    context_stops,
    context_text,
    parallel_stops,
)
from explorer.qt.planner.fields import (
    CalmComboBox,
    CalmSpinBox,
    SizeEdit,
    StopMark,
    StopSlider,
    TokenSpinBox,
)
from explorer.qt.planner.state import PlannerSession
from explorer.qt.theme import warning_colour
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.painting import plain_tip
from explorer.text import bytes_text, integer_text, plain_text

# Lines of settings: what is asked for, what holds, and a way back to the default.


_DIFFERS: Final = "≠"
_WIDEST_HOLDING: Final = "≠ 1,048,576 "


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        title: What it is called, with its mnemonic.
        name: Its name in `Settings`.
        editor: Where it is typed or chosen.
        follow: Shows what is asked for, or what holds where nothing is.
        shown: Returns what holds as text.
        slider: Where it is dragged, or None.
        wide: Whether what is asked for always holds, so that the editor has the room of both.
    """

    title: str
    name: str
    editor: QWidget
    follow: Callable[[Any, EffectiveSettings | None], None]
    shown: Callable[[Plan], str]
    slider: StopSlider | None = None
    wide: bool = False


@dataclass(frozen=True)
class _Row:
    """A setting with what stands beside it.

    Attributes:
        setting: The setting.
        holds: Says what holds.
        reset: Asks for nothing again.
    """

    setting: Setting
    holds: QLabel
    reset: QToolButton


class SettingRows(QWidget):
    """A grid of settings that follows a session."""

    def __init__(self, session: PlannerSession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._rows: list[_Row] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(6)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        self._add_header()
        session.inputs_changed.connect(self.follow)
        session.planned.connect(self.follow)

    def holds_text(self, name: str) -> str:
        """Return what is said to hold for a setting."""
        return next(row.holds.text() for row in self._rows if row.setting.name == name)

    def reset_button(self, name: str) -> QToolButton:
        """Return the button that resets a setting."""
        return next(row.reset for row in self._rows if row.setting.name == name)

    def _add_header(self) -> None:
        for column, text in ((1, self.tr("Asked for")), (2, self.tr("Holds"))):
            label = QLabel(text, self)
            label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
            self._grid.addWidget(label, 0, column)

    def add(self, setting: Setting) -> None:
        """Add a line, and the slider that belongs to it below."""
        plain = setting.title.replace("&", "")
        label = QLabel(setting.title, self)
        label.setBuddy(setting.editor)
        for part in (label, setting.editor, setting.slider):
            if part is not None:
                part.setWhatsThis(setting.editor.toolTip())
        setting.editor.setObjectName(f"planner_{setting.name}")
        setting.editor.setAccessibleName(plain)
        if isinstance(setting.editor, CalmSpinBox):
            setting.editor.lineEdit().setAccessibleName(plain)
        setting.editor.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        texts = isinstance(setting.editor, QAbstractButton)
        setting.editor.setMinimumWidth(setting.editor.sizeHint().width() if texts else 60)
        holds = plain_label(self)
        holds.setWhatsThis(picture_text("holds"))
        holds.setFixedWidth(self.fontMetrics().horizontalAdvance(_WIDEST_HOLDING))
        reset = QToolButton(self)
        reset.setText("↺")
        reset.setAutoRaise(True)
        reset.setAccessibleName(self.tr("Reset {setting}").format(setting=plain))
        reset.setToolTip(self.tr("Ask for nothing: {setting} as by default").format(setting=plain))
        reset.clicked.connect(lambda: self._reset(setting.name))
        row = self._grid.rowCount()
        for column, widget in enumerate((label, setting.editor, holds, reset)):
            self._grid.addWidget(widget, row, column)
        if setting.wide:
            self._grid.addWidget(setting.editor, row, 1, 1, 2)
            holds.hide()
        if setting.slider is not None:
            self._grid.addWidget(setting.slider, row + 1, 0, 1, 4)
        self._rows.append(_Row(setting, holds, reset))

    def _reset(self, name: str) -> None:
        if name == "profile":
            self._session.set_profile(next(iter(PROFILES)))
        else:
            self._session.apply({name: None})

    def tab_chain(self) -> list[QWidget]:
        """Return what takes the keyboard, in the order in which it is seen."""
        chain: list[QWidget] = []
        for row in self._rows:
            chain += [row.setting.editor, row.reset]
            if row.setting.slider is not None:
                chain.append(row.setting.slider)
        return chain

    def follow(self) -> None:
        """Show what is asked for, and what the latest plan makes of it."""
        inputs, outcome = self._session.inputs, self._session.outcome
        plan = None if outcome is None else outcome.plan
        reasons = {}
        if plan is not None:
            reasons = {one.name: one.reason for one in plan.effective.differences}
        for row in self._rows:
            asked = getattr(inputs.settings, row.setting.name, None)
            row.setting.follow(asked, None if plan is None else plan.effective)
            changed = asked is not None
            if row.setting.name == "profile":
                changed = inputs.profile != next(iter(PROFILES))
            row.reset.setEnabled(changed)
            self._show_holding(row, plan, reasons.get(row.setting.name, ""))

    def _show_holding(self, row: _Row, plan: Plan | None, reason: str) -> None:
        text = "–" if plan is None else row.setting.shown(plan)
        text = f"{_DIFFERS} {text}" if reason else text
        if text != row.holds.text():
            row.holds.setText(text)
        origin = "" if plan is None else plan.effective.origins.get(row.setting.name, "")
        tip = plain_text(reason or origin)
        if tip != row.holds.accessibleDescription():
            row.holds.setAccessibleDescription(tip)
            row.holds.setToolTip(plain_tip(tip))
            self._take_colours(row)

    @staticmethod
    def _take_colours(row: _Row) -> None:
        """Show what is not as it was asked for in the warning colour, beside its sign."""
        palette = QGuiApplication.palette()
        if row.holds.text().startswith(_DIFFERS):
            palette.setColor(QPalette.ColorRole.WindowText, warning_colour(palette))
        row.holds.setPalette(palette)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:  # dark has become light
            for row in self._rows:
                self._take_colours(row)


_MOST_BATCH: Final = 1 << 20
_MOST_LAYERS: Final = 1 << 30
_MOST_SEQUENCES: Final = 1 << 20


class SettingsControls(SettingRows):
    """All settings of the session.

    Attributes:
        context: Slider of the context.
        context_edit: The same as text.
        parallel: Slider of the sequences.
        parallel_edit: The same as a number.
        cache_type: Slider of the KV cache's type.
        cache_type_edit: The same as a list.
    """

    def __init__(self, session: PlannerSession, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._add_context()
        self._add_parallel()
        self._add_cache_type()
        self._add_batch()
        self._add_attention()
        self._add_layers()
        self._add_overhead()
        self._add_spread()
        self._add_profile()
        session.subject_changed.connect(self._offer_contexts)
        self._offer_contexts()
        self.follow()

    # Rows

    def _add_context(self) -> None:
        self.context_edit = TokenSpinBox(context_stops(0), self)
        self.context_edit.setToolTip(self.tr("Tokens of each sequence: 32768, 32k or 1M"))
        self.context = self._slider(context_stops(0), self.tr("Context slider"), "context")
        self._follow_number(self.context_edit, "context")

        def text(plan: Plan) -> str:
            return integer_text(plan.effective.context)

        edit, show = self.context_edit, self._show_context
        self.add(Setting(self.tr("&Context"), "context", edit, show, text, self.context))

    def _add_parallel(self) -> None:
        stops = parallel_stops()
        self.parallel_edit = CalmSpinBox(self)
        self.parallel_edit.setRange(1, _MOST_SEQUENCES)
        self.parallel_edit.setToolTip(self.tr("Sequences at a time; each has its own context"))
        self.parallel = self._slider(stops, self.tr("Parallel sequences slider"), "parallel")
        self.parallel.set_stops(stops, [StopMark(n, str(n)) for n in stops.snaps], 4)
        self._follow_number(self.parallel_edit, "parallel")

        def show(asked: int | None, effective: EffectiveSettings | None) -> None:
            value = _either(asked, effective, "parallel", 1)
            self._set_number(self.parallel_edit, value)
            self.parallel.show_value(value, integer_text(value))

        def text(plan: Plan) -> str:
            return integer_text(plan.effective.parallel)

        edit = self.parallel_edit
        self.add(Setting(self.tr("&Parallel"), "parallel", edit, show, text, self.parallel))

    def _add_cache_type(self) -> None:
        self.cache_type_edit = self._choice([(name, name) for name in CACHE_TYPES], "kv_cache_type")
        self.cache_type_edit.setToolTip(
            self.tr("Type of the KV cache; f32 is a what-if that no server accepts")
        )
        stops = Stops(range(len(CACHE_TYPES)), range(len(CACHE_TYPES)))
        self.cache_type = StopSlider(stops, self)
        self.cache_type.setAccessibleName(self.tr("KV cache type slider"))
        self.cache_type.set_stops(stops, [StopMark(i, n) for i, n in enumerate(CACHE_TYPES)])
        self.cache_type.value_chosen.connect(
            lambda place: self._session.set(kv_cache_type=CACHE_TYPES[place])
        )
        self.cache_type.held.connect(self._session.hold)

        def show(asked: str | None, effective: EffectiveSettings | None) -> None:
            value = (asked or "").strip().lower()
            if value not in CACHE_TYPES:
                value = "f16" if effective is None else effective.kv_cache_type
            place = CACHE_TYPES.index(value) if value in CACHE_TYPES else 1
            with QSignalBlocker(self.cache_type_edit):
                self.cache_type_edit.setCurrentIndex(place)
            self.cache_type.show_value(place, CACHE_TYPES[place])

        def text(plan: Plan) -> str:
            return plain_text(plan.effective.kv_cache_type)

        edit, title = self.cache_type_edit, self.tr("&KV cache type")
        self.add(Setting(title, "kv_cache_type", edit, show, text, self.cache_type))

    def _add_batch(self) -> None:
        edit = CalmSpinBox(self)
        edit.setRange(1, _MOST_BATCH)
        edit.setSingleStep(128)
        edit.setToolTip(self.tr("Tokens computed at a time"))
        self._follow_number(edit, "batch")

        def show(asked: int | None, effective: EffectiveSettings | None) -> None:
            self._set_number(edit, _either(asked, effective, "batch", DEFAULT_BATCH))

        self.add(Setting(self.tr("&Batch"), "batch", edit, show, _batch_text))

    def _add_attention(self) -> None:
        choices = [(self.tr("auto"), None), (self.tr("on"), True), (self.tr("off"), False)]
        edit = self._choice(choices, "flash_attention")
        edit.setToolTip(self.tr("Auto is what the model and the devices allow"))

        def show(asked: bool | None, _effective: EffectiveSettings | None) -> None:
            with QSignalBlocker(edit):
                edit.setCurrentIndex(edit.findData(asked))

        def text(plan: Plan) -> str:
            return self.tr("on") if plan.effective.flash_attention else self.tr("off")

        self.add(Setting(self.tr("&Flash attention"), "flash_attention", edit, show, text))

    def _add_layers(self) -> None:
        edit = CalmSpinBox(self)
        edit.setRange(AUTOMATIC, _MOST_LAYERS)
        edit.setSpecialValueText(self.tr("auto"))
        edit.setToolTip(self.tr("Layers to put on GPUs; auto is as many as fit"))
        edit.valueChanged.connect(
            lambda value: self._session.set(num_gpu=None if value == AUTOMATIC else value)
        )

        def show(asked: int | None, _effective: EffectiveSettings | None) -> None:
            self._set_number(edit, AUTOMATIC if asked is None else asked)

        def text(plan: Plan) -> str:
            return "–" if plan.layout is None else str(plan.layout.placed)

        self.add(Setting(self.tr("&GPU layers"), "num_gpu", edit, show, text))

    def _add_overhead(self) -> None:
        edit = SizeEdit(self)
        edit.setPlaceholderText("0")
        edit.setToolTip(self.tr("Memory to hold back on each GPU: 512MiB, 1 GiB"))
        edit.size_chosen.connect(lambda nbytes: self._session.set(overhead=nbytes))
        edit.refused.connect(self._session.refused)

        def show(asked: int | None, _effective: EffectiveSettings | None) -> None:
            edit.show_size(asked)

        def text(plan: Plan) -> str:
            return bytes_text(plan.effective.overhead)

        self.add(Setting(self.tr("&Overhead"), "overhead", edit, show, text))

    def _add_spread(self) -> None:
        edit = QCheckBox(self.tr("all GPUs"), self)
        edit.setToolTip(self.tr("Use every GPU instead of as few as possible"))
        edit.clicked.connect(lambda on: self._session.set(spread=on))

        def show(asked: bool | None, effective: EffectiveSettings | None) -> None:
            with QSignalBlocker(edit):
                edit.setChecked(bool(_either(asked, effective, "spread", False)))

        def text(plan: Plan) -> str:
            return self.tr("yes") if plan.effective.spread else self.tr("no")

        self.add(Setting(self.tr("&Spread"), "spread", edit, show, text))

    def _add_profile(self) -> None:
        edit = CalmComboBox(self)
        for name, profile in PROFILES.items():
            edit.addItem(name, name)
            edit.setItemData(edit.count() - 1, profile.title, Qt.ItemDataRole.ToolTipRole)
        edit.currentIndexChanged.connect(
            lambda _: self._session.set_profile(str(edit.currentData()))
        )

        def show(_asked: object, _effective: EffectiveSettings | None) -> None:
            name = self._session.inputs.profile
            with QSignalBlocker(edit):
                edit.setCurrentIndex(edit.findData(name))
            edit.setToolTip(PROFILES[name].title)

        self.add(Setting(self.tr("P&rofile"), "profile", edit, show, _nothing, wide=True))

    def _slider(self, stops: Stops, spoken: str, name: str) -> StopSlider:
        slider = StopSlider(stops, self)
        slider.setAccessibleName(spoken)
        slider.value_chosen.connect(lambda value: self._session.set(**{name: value}))
        slider.held.connect(self._session.hold)
        return slider

    def _choice(self, choices: Sequence[tuple[str, object]], name: str) -> CalmComboBox:
        edit = CalmComboBox(self)
        for text, value in choices:
            edit.addItem(text, value)
        edit.currentIndexChanged.connect(lambda _: self._session.set(**{name: edit.currentData()}))
        return edit

    def _follow_number(self, edit: CalmSpinBox, name: str) -> None:
        edit.valueChanged.connect(lambda value: self._session.set(**{name: value}))

    @staticmethod
    def _set_number(edit: CalmSpinBox, value: int) -> None:
        if edit.value() != value:
            with QSignalBlocker(edit):
                edit.setValue(value)

    # Following the session

    def _offer_contexts(self) -> None:
        """Offer contexts up to what the model was trained for, and mark that one."""
        subject = self._session.state.subject
        trained = 0 if subject is None else subject.h.trained_context
        stops = context_stops(trained)
        marks = [StopMark(snap, context_text(snap)) for snap in stops.snaps if snap != trained]
        marks.append(StopMark(LEAST_CONTEXT, context_text(LEAST_CONTEXT)))
        if trained in stops.values:
            words = self.tr("trained {tokens}").format(tokens=context_text(trained))
            marks.append(StopMark(trained, words, important=True))
        self.context_edit.stops = stops
        self.context.set_stops(stops, marks, PER_OCTAVE)

    def _show_context(self, asked: int | None, effective: EffectiveSettings | None) -> None:
        value = _either(asked, effective, "context", DEFAULT_CONTEXT)
        self._set_number(self.context_edit, min(value, self.context_edit.maximum()))
        self.context.show_value(value, self.tr("{n} tokens").format(n=integer_text(value)))


def _either(asked: Any, effective: EffectiveSettings | None, name: str, default: Any) -> Any:
    """Return what is asked for; else what holds; else a default."""
    if asked is not None:
        return asked
    return default if effective is None else getattr(effective, name)


def _nothing(_plan: Plan) -> str:
    return ""


def _batch_text(plan: Plan) -> str:
    """Return the batch that is used: an embedding model's holds its whole context."""
    return integer_text(plan.effective.batch if plan.layout is None else plan.layout.batch)
