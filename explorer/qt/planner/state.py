"""The state of the planner panel: the model, the inputs with their history, and what is saved."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final, Generic, TypeVar

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from explorer.errors import PlanError, SourceError
from explorer.formats.huggingface import whole_of
from explorer.hardware.detect import Machine
from explorer.planner import Device, Hyperparameters
from explorer.planner import environment as env
from explorer.planner.attachments import projector_bytes
from explorer.planner.engines.llama_cpp.refusals import COMPONENTS
from explorer.planner.inputs import (
    NO_LAYERS,
    PlanInputs,
    PlanResult,
    device_records,
    devices_of,
    header_to_plan,
    plan_result,
    saved_object,
    saved_text,
    separate_projector_bytes,
)
from explorer.planner.plans import Engine, Plan
from explorer.planner.request import PlanRequest
from explorer.planner.settings import Settings
from explorer.planner.together import Loaded
from explorer.qt.document import Document
from explorer.qt.jobs import Job, JobRunner, JobSlot, keep_gui_responsive
from explorer.qt.machine import PlannedMachine, plain_name
from explorer.text import plain_text

Value = TypeVar("Value")

_MOST_STEPS: Final = 200
_ONE_STEP_S: Final = 1.0


class History(Generic[Value]):
    """A value and the ones before it.

    Changes of one kind in quick succession, or while `held`, are one step: dragging a slider
    through a hundred values is undone at once.

    Attributes:
        value: The current one; assigning to it makes no step.
        held: Whether a drag is under way.
    """

    def __init__(self, value: Value, clock: Callable[[], float] = time.monotonic) -> None:
        self.value = value
        self.held = False
        self._clock = clock
        self._before: list[Value] = []
        self._after: list[Value] = []
        self._kind: str | None = None
        self._changed = 0.0

    @property
    def can_undo(self) -> bool:
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        return bool(self._after)

    def put(self, value: Value, kind: str) -> None:
        """Go on to another value; `kind` is what was changed, and another kind another step."""
        now = self._clock()
        soon = self.held or now - self._changed < _ONE_STEP_S
        if kind != self._kind or not soon:
            self._before.append(self.value)
            del self._before[:-_MOST_STEPS]
        self._kind, self._changed = kind, now
        self._after.clear()
        self.value = value

    def end_step(self) -> None:
        """Make the next change a step of its own."""
        self._kind = None

    def undo(self) -> None:
        """Undo the last step, if there is one."""
        self._move(self._before, self._after)

    def redo(self) -> None:
        """Redo the last step that was undone."""
        self._move(self._after, self._before)

    def _move(self, source: list[Value], target: list[Value]) -> None:
        if source:
            target.append(self.value)
            self.value = source.pop()
            self.end_step()


MOST_SCENARIOS: Final = len(ascii_uppercase)
FRAME_MS: Final = 8
_QUICK_S: Final = 0.006
"""A plan that took longer the last time is made by a worker: a drag must be painted in 16 ms."""

_LONGEST_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model that can be planned."""

    title: str  # what to call it
    path: Path  # what the user opened
    h: Hyperparameters  # what the formulas read of it
    projector: Path | None = None  # its separate projector file, or None
    projector_bytes: int = 0  # bytes of the tensors in there
    whole: Path | None = None  # what to open where this is one of several parts, or None

    def complete(self, inputs: PlanInputs) -> PlanInputs:
        """Return inputs with what the model itself adds to them."""
        nbytes = self.projector_bytes + projector_bytes(inputs.attached)
        if inputs.settings.projector_bytes == nbytes:
            return inputs
        return inputs.with_settings(projector_bytes=nbytes)


def read_model(document: Document) -> PlannedModel:
    """Read what the formulas need, in a worker: a list of head counts may be on the disk.

    Raises:
        ExplorerError: The model has no hyperparameters that can be planned with, or its projector
            cannot be read.
    """
    model = document.model
    h = header_to_plan(model)
    if not h.block_count:
        part = COMPONENTS.get(h.architecture)
        raise PlanError(NO_LAYERS if part is None else f"it is {part}")
    path, whole = document.path, None
    if path.suffix == model.files[0].path.suffix:  # a file, which may be a part
        with suppress(SourceError):  # its folder cannot be listed: nor can it be opened
            whole = whole_of(path)
    nbytes = separate_projector_bytes(model)
    return PlannedModel(document.title, path, h, model.projector, nbytes, whole)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Inputs that were pinned under a name."""

    name: str
    inputs: PlanInputs


@dataclass(frozen=True, slots=True)
class CurrentPlan:
    """What the views show."""

    model: PlannedModel | None = None  # None if none is open
    inputs: PlanInputs = field(default_factory=PlanInputs)  # the inputs
    result: PlanResult | None = None  # their result, or None without a model
    can_undo: bool = False  # whether there is a step to undo
    can_redo: bool = False  # whether there is a step to redo
    loaded: tuple[Loaded, ...] = ()  # other models, whose memory is taken off
    is_late: bool = False  # whether the result is that of inputs before, until theirs is there

    @property
    def question(self) -> tuple[object, ...]:
        """What answers are for: with another one they hold no more."""
        return self.model, self.inputs, self.loaded

    @property
    def engine(self) -> Engine | None:
        """The engine that the model is planned by; None without a model."""
        return None if self.model is None else self.inputs.engine_for(self.model.h)

    @property
    def plan(self) -> Plan | None:
        return None if self.result is None else self.result.plan


def single_shot(parent: QObject, slot: Callable[[], None], interval_ms: int = 0) -> QTimer:
    """Return a timer that calls a slot once after each start."""
    timer = QTimer(parent, singleShot=True, interval=interval_ms)
    timer.timeout.connect(slot)
    return timer


class PlannerState(QObject):
    """What the planner panel shows; views read `current` and change it by the methods.

    A drag sends hundreds of values a second. Each is taken at once, but the plan is made when the
    event loop comes round again, at most once in a frame of a fast screen: the last value wins.
    A plan that takes longer is made by a worker, one at a time; what was shown stays until then.

    Each model has settings and a history of its own; devices and memory are the same for all.

    Attributes:
        basis: The machine to plan for, and what is asked of each model; kept over restarts.
        current: What the views show; a drag's last value may be waiting for its plan.
        history: The inputs and those before.
        environment: Ollama's environment variables, which stand in for what is not asked.
        others: Models to compare with.
        also: Those that are loaded already, whose memory is taken off.
        scenarios: Pinned inputs; kept over restarts, as the next two.
        sets: Remembered devices by name.
        program: The user's own llama.cpp where it was named; None: as the PATH says.

    Signals:
        plan_changed: There is another `current`, which it carries; or scenarios, sets, other models
            or the machine changed.
        refused: A change cannot be made; a `PlanError`.
    """

    plan_changed = Signal(object)
    refused = Signal(object)

    def __init__(
        self,
        basis: PlannedMachine,
        environment: Mapping[str, str] | None = None,
        save: Callable[[str], None] = lambda _: None,
        parent: QObject | None = None,
        runner: JobRunner | None = None,
    ) -> None:
        """Start without a model; `environment` None takes the variables of the process.

        `save` is called with `saved()` when scenarios or sets changed. `runner` runs slow plans;
        without one all are made at once.
        """
        super().__init__(parent)
        self.scenarios: list[Scenario] = []
        self.sets: dict[str, tuple[Device, ...]] = {}
        self.program: Path | None = None
        self._save = save
        self.basis = basis
        self._planning = None if runner is None else JobSlot(runner, self)
        self._planned: tuple[PlannedModel, PlanInputs] | None = None  # of the result that is shown
        self._took_s: dict[tuple[Path, str], float] = {}  # a plan of a model by an engine
        self.environment = env.used(os.environ if environment is None else environment)
        self.current = CurrentPlan()
        self.model: PlannedModel | None = None
        self.history = History(PlanInputs(devices=basis.devices, host=basis.host))
        self._histories: dict[Path, History[PlanInputs]] = {}
        self.others: list[PlannedModel] = []
        self.also: tuple[PlannedModel, ...] = ()
        self._frame = single_shot(self, self.flush)
        self._frame.setTimerType(Qt.TimerType.PreciseTimer)
        self._last_frame = 0.0
        self._telling = False  # the machine of what is planned right now
        basis.changed.connect(self._take_machine)

    @property
    def machine(self) -> Machine | None:
        """What was found of this machine; None while it is looked for."""
        return self.basis.found

    @property
    def inputs(self) -> PlanInputs:
        """The inputs, also of a plan that is not made yet."""
        return self.history.value

    def result_of(self, model: PlannedModel, inputs: PlanInputs) -> PlanResult:
        """Return the result of other inputs, or of another model."""
        try:
            left = self.left_over(inputs)
        except PlanError as error:  # another model does not fit already
            return PlanResult(None, str(error))
        return plan_result(model.h, model.complete(left), self.environment)

    def set_also(self, models: Sequence[PlannedModel]) -> None:
        """Plan as if these models were loaded already, each with what is asked of it."""
        self.also = tuple(models)
        self._telling = True  # the machine; what is left of it, to others
        self.basis.load_first(
            [(one.title, one.h, one.complete(self._kept_inputs(one))) for one in models]
        )
        self._telling = False
        self.replan()

    @property
    def loaded(self) -> tuple[Loaded, ...]:
        """What the models take that are loaded already; nothing where they do not fit."""
        try:
            return self.basis.left(self.inputs.devices, self.inputs.host)[2]
        except PlanError:  # the plan says why
            return ()

    def left_over(self, inputs: PlanInputs) -> PlanInputs:
        """Return inputs with what other models leave of the machine."""
        devices, host, _ = self.basis.left(inputs.devices, inputs.host)
        return replace(inputs, devices=devices, host=host) if self.also else inputs

    @property
    def request(self) -> PlanRequest | None:
        """What the planner is asked for the current model; None without one."""
        model = self.model
        if model is None:
            return None
        try:
            inputs = self.left_over(self.inputs)
        except PlanError:  # the plan says why
            return None
        return model.complete(inputs).request(model.h, self.environment)

    def flush(self) -> None:
        """Make the plan of the inputs, or have a worker make it, unless it is there; emit it."""
        self._frame.stop()
        self._last_frame = time.monotonic()
        model, inputs, planned = self.model, self.inputs, self._planned
        result, late = self.current.result, False
        if model is None:
            result, self._planned = None, None
        elif planned is None or planned[0] is not model or planned[1] is not inputs:
            late = self._planning is not None and self._is_slow(model, inputs)
            if late:
                self._start_planning()
                result = result if planned is not None and planned[0] is model else None
            else:
                result = self._plan_now(model, inputs)
        self._emit(result, late=late)

    def _emit(self, result: PlanResult | None, *, late: bool) -> None:
        history = self.history
        inputs, undo, redo = history.value, history.can_undo, history.can_redo
        self.current = CurrentPlan(self.model, inputs, result, undo, redo, self.loaded, late)
        self._notify()
        self.plan_changed.emit(self.current)

    def _is_slow(self, model: PlannedModel, inputs: PlanInputs) -> bool:
        took = self._took_s.get((model.path, inputs.engine_for(model.h).name))
        if took is not None:
            return took > _QUICK_S
        return inputs.engine_for(model.h).is_slow(model.h)

    def _plan_now(self, model: PlannedModel, inputs: PlanInputs) -> PlanResult:
        """Make a plan, and note how long it took."""
        started = time.thread_time()
        result = self.result_of(model, inputs)
        took = time.thread_time() - started
        self._took_s[model.path, inputs.engine_for(model.h).name] = took
        self._planned = model, inputs
        return result

    def _start_planning(self) -> None:
        """Have a worker plan for what is asked now, unless it is at work: the last value wins."""
        model, inputs, slot = self.model, self.inputs, self._planning
        if model is None or slot is None or slot.busy:
            return
        key = model.path, inputs.engine_for(model.h).name

        def work(_job: Job) -> tuple[PlanResult, float]:
            started = time.thread_time()
            with keep_gui_responsive():
                return self.result_of(model, inputs), time.thread_time() - started

        def show(made: tuple[PlanResult, float]) -> None:
            result, self._took_s[key] = made
            if model is not self.model:
                self.flush()
                return
            self._planned = model, inputs
            late = inputs is not self.inputs
            if late:
                self._start_planning()
            self._emit(result, late=late)

        slot.run("Planning", work, show, self.refused.emit)

    def replan(self) -> None:
        """Make the plan of the same inputs again."""
        self.current, self._planned = CurrentPlan(), None
        self.flush()

    def set_model(self, model: PlannedModel | None) -> None:
        """Plan for another model, with what was asked of it before."""
        self.model = model
        if model is not None:
            kept = self._histories.get(model.path)
            if kept is None:
                kept = self._histories[model.path] = History(self._kept_inputs(model))
            self.history = kept
        self._take_machine()

    def _kept_inputs(self, model: PlannedModel) -> PlanInputs:
        return self.basis.inputs(model.path, model.h.trained_context)

    @property
    def of_all(self) -> Settings:
        """What is asked of all models alike, the current one among them; nothing without one."""
        model = self.model
        if model is None:
            return Settings()
        return self.basis.target().inputs(model.h.trained_context).settings

    def set_others(self, others: list[PlannedModel]) -> None:
        """Compare with other models; one that is closed is loaded no more, and has no steps."""
        self.others = others
        known = {model.path for model in (*others, self.model) if model is not None}
        for path in self._histories.keys() - known:  # the machine keeps what was asked last
            del self._histories[path]
        if any(model.path not in known for model in self.also):
            self.set_also([model for model in self.also if model.path in known])
        else:
            self.flush()

    def _take_machine(self) -> None:
        """Plan for the machine as it is chosen or found now; that is not a step to undo."""
        devices, host, model = self.basis.devices, self.basis.host, self.model
        if model is not None and self.basis.asked_of(model.path) is None:
            self.history.value = self._kept_inputs(model)  # of all is asked something else
        elif (devices, host) != (self.inputs.devices, self.inputs.host):
            self.history.value = replace(self.inputs, devices=devices, host=host)
        if not self._telling:
            self.flush()

    # Changes of the inputs

    def set(self, **changes: Any) -> None:
        """Change settings and plan in the next frame; quick changes of one setting are one step."""
        if self._change("+".join(changes), self.inputs.with_settings, changes):
            since_ms = 1000 * (time.monotonic() - self._last_frame)
            if not self._frame.isActive():
                self._frame.start(max(0, FRAME_MS - int(since_ms)))

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Change settings as one step, as a suggestion says."""
        self._step(self.inputs.with_settings, changes)

    def replace_inputs(self, **changes: Any) -> None:
        """Plan for another engine, other devices or another host, as one step."""
        self._step(lambda **parts: replace(self.inputs, **parts), changes)

    def use_scenario(self, place: int) -> None:
        """Take the inputs of a scenario."""
        self._step(lambda: self.scenarios[place].inputs, {})

    def hold(self, on: bool) -> None:
        """Begin or end a drag, all changes of which are one step."""
        self.history.end_step()
        self.history.held = on

    def undo(self) -> None:
        """Undo the last step."""
        self.history.undo()
        self.flush()

    def redo(self) -> None:
        """Redo the last undone step."""
        self.history.redo()
        self.flush()

    def _step(self, make: Callable[..., PlanInputs], changes: Mapping[str, Any]) -> None:
        """Make a change that is a step of its own, and plan at once."""
        self.history.end_step()
        if self._change("step", make, changes):
            self.flush()
        self.history.end_step()

    def _change(
        self, kind: str, make: Callable[..., PlanInputs], changes: Mapping[str, Any]
    ) -> bool:
        """Take other inputs; return whether they differ and can be planned."""
        try:
            inputs = make(**changes)
            if self.model is not None:
                inputs.request(self.model.h, {})  # refuses two devices that are the same
        except PlanError as error:
            self.refused.emit(error)
            self.flush()  # the control shows again what holds
            return False
        if inputs == self.inputs:
            return False
        self.history.put(inputs, kind)
        self._notify()
        return True

    def _notify(self) -> None:
        """Let the whole program plan with the inputs."""
        self._telling = True
        model = self.model
        known = () if model is None else (model.path, model.h.trained_context)
        self.basis.plan_for(self.inputs, *known)
        self._telling = False

    def reserve(self, found: Mapping[str, int]) -> None:
        """Plan with these reserves, and remember them: bytes by the name that a log has for a GPU.

        The one GPU of a plan is meant by any name.
        """
        devices = self.inputs.devices
        if len(devices) == len(found) == 1:
            found = {devices[0].name: next(iter(found.values()))}
        sizes = {plain_name(name): size for name, size in found.items()}
        if not sizes.keys() & {plain_name(device.name) for device in devices}:
            names = ", ".join(map(plain_text, found))
            sentence = f"The plan has no GPU with this name: {names}. Add it under Devices first."
            self.refused.emit(PlanError(sentence))
            return
        self.replace_inputs(
            devices=tuple(
                replace(one, reserve=sizes.get(plain_name(one.name), one.reserve))
                for one in devices
            )
        )

    # What is kept under names, over restarts

    def name_program(self, path: Path) -> None:
        """Remember the user's own llama.cpp."""
        self.program = path
        self._keep()

    def pin(self) -> None:
        """Keep the inputs under the first letter that no scenario is called by."""
        if len(self.scenarios) >= MOST_SCENARIOS:
            self.refused.emit(PlanError(f"There are {MOST_SCENARIOS} scenarios. Remove one first."))
            return
        taken = {scenario.name for scenario in self.scenarios}
        name = next(letter for letter in ascii_uppercase if letter not in taken)
        self.scenarios.append(Scenario(name, self.inputs))
        self._keep()

    def rename(self, place: int, name: str) -> None:
        """Give a scenario another name, if it is free and not empty."""
        name = name.strip()[:_LONGEST_NAME]
        others = [other.name for i, other in enumerate(self.scenarios) if i != place]
        if not name or name in others:
            self.refused.emit(PlanError("A scenario needs a name of its own."))
            return
        self.scenarios[place] = replace(self.scenarios[place], name=name)
        self._keep()

    def unpin(self, place: int) -> None:
        """Remove a scenario."""
        del self.scenarios[place]
        self._keep()

    def remember(self, name: str) -> None:
        """Keep the current devices under a name."""
        self.sets[name] = self.inputs.devices
        self._keep()

    def forget(self, name: str) -> None:
        self.sets.pop(name, None)
        self._keep()

    def _keep(self) -> None:
        self._save(self.saved())
        self.flush()

    def saved(self) -> str:
        """Return scenarios and sets as JSON, for the next run."""
        scenarios = [{"name": one.name, "inputs": one.inputs.record()} for one in self.scenarios]
        sets = {name: device_records(devices) for name, devices in self.sets.items()}
        named = {} if self.program is None else {"program": str(self.program)}
        return json.dumps({"scenarios": scenarios, "sets": sets} | named)

    def restore(self, text: str) -> None:
        """Take what `saved` returned in an earlier run.

        Raises:
            PlanError: The text is something else; nothing is taken then.
        """
        saved = saved_object(text)
        rows, named = saved.get("scenarios", []), saved.get("sets", {})
        if not isinstance(rows, list) or not isinstance(named, dict) or len(rows) > MOST_SCENARIOS:
            raise PlanError("the saved scenarios are damaged")
        program = saved.get("program")
        if program is not None and (not isinstance(program, str) or "\0" in program):
            raise PlanError("the saved program is none")
        scenarios = [
            Scenario(saved_text(row.get("name")), PlanInputs.from_record(row.get("inputs")))
            for row in rows
            if isinstance(row, dict)
        ]
        sets = {saved_text(name): devices_of(value) for name, value in named.items()}
        self.scenarios, self.sets = scenarios, sets
        self.program = None if program is None else Path(program)
