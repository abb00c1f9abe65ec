"""The state of the planner panel: model, inputs with their history, scenarios, device sets.

Knows no Qt: `PlannerSession` tells views when something of it changed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from explorer.errors import PlanError
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host, Hyperparameters
from explorer.planner import settings as env
from explorer.planner.inputs import (
    PlanInputs,
    PlanResult,
    device_records,
    devices_of,
    plan_result,
    saved_text,
)

# Undo and redo over values that are never changed, only replaced.
#
# Not `QUndoStack`: its commands say how to do and undo a change, which a whole value makes
# needless, and this one also runs where there is no Qt.


Value = TypeVar("Value")

_MOST_STEPS: Final = 200
_ONE_STEP_S: Final = 1.0


class History(Generic[Value]):
    """A value and the ones before it.

    Changes of one kind in quick succession, or while `held`, are one step: a person who drags a
    slider through a hundred values takes them back at once.

    Attributes:
        value: The current one.
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
        """Whether there is a step to take back."""
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        """Whether a step was taken back."""
        return bool(self._after)

    def put(self, value: Value, kind: str) -> None:
        """Go on to another value.

        Args:
            value: The value.
            kind: What was changed; changes of another kind are another step.
        """
        now = self._clock()
        soon = self.held or now - self._changed < _ONE_STEP_S
        if kind != self._kind or not soon:
            self._before.append(self.value)
            del self._before[:-_MOST_STEPS]
        self._kind, self._changed = kind, now
        self._after.clear()
        self.value = value

    def amend(self, value: Value) -> None:
        """Replace the current value without a step: what a program found, not what one did."""
        self.value = value

    def end_step(self) -> None:
        """Let the next change be a step of its own."""
        self._kind = None

    def undo(self) -> None:
        """Take the last step back, if there is one."""
        self._move(self._before, self._after)

    def redo(self) -> None:
        """Take the last step that was taken back again."""
        self._move(self._after, self._before)

    def _move(self, source: list[Value], target: list[Value]) -> None:
        if source:
            target.append(self.value)
            self.value = source.pop()
            self.end_step()


MOST_SCENARIOS: Final = 26
_LONGEST_NAME: Final = 60
_LONGEST_SAVED: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that can be planned.

    Attributes:
        title: What to call it.
        path: What the user opened.
        h: What the formulas read of it.
        projector: Its separate projector file, or None.
        projector_bytes: Bytes of the tensors in there.
    """

    title: str
    path: Path
    h: Hyperparameters
    projector: Path | None = None
    projector_bytes: int = 0

    def complete(self, inputs: PlanInputs) -> PlanInputs:
        """Return inputs with what the model itself adds to them."""
        if inputs.settings.projector_bytes == self.projector_bytes:
            return inputs
        return inputs.with_settings(projector_bytes=self.projector_bytes)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Inputs that were pinned.

    Attributes:
        name: What the person calls it.
        inputs: The inputs.
    """

    name: str
    inputs: PlanInputs


class PlannerState:
    """What the planner panel shows.

    Attributes:
        subject: The model, or None.
        history: The inputs and those before.
        environment: Ollama's environment variables, which stand in for what is not asked.
        machine: What was found of this machine, or None while it is looked for.
        scenarios: Pinned inputs.
        sets: Remembered devices by name.
        others: Models to compare with.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.environment = env.used(os.environ if environment is None else environment)
        self.subject: Subject | None = None
        self.history = History(PlanInputs())
        self.machine: Machine | None = None
        self.scenarios: list[Scenario] = []
        self.sets: dict[str, tuple[Device, ...]] = {}
        self.others: list[Subject] = []
        self._outcome: tuple[Subject, PlanInputs, PlanResult] | None = None

    @property
    def inputs(self) -> PlanInputs:
        """The current inputs."""
        return self.history.value

    def outcome(self) -> PlanResult | None:
        """Return what becomes of the current inputs, or None without a model."""
        subject, inputs = self.subject, self.inputs
        if subject is None:
            return None
        known = self._outcome
        if known is None or known[0] is not subject or known[1] is not inputs:
            outcome = self.outcome_of(subject, inputs)
            self._outcome = known = (subject, inputs, outcome)
        return known[2]

    def outcome_of(self, subject: Subject, inputs: PlanInputs) -> PlanResult:
        """Return what becomes of other inputs, or of another model."""
        return plan_result(subject.h, subject.complete(inputs), self.environment)

    def set_machine(self, machine: Machine) -> None:
        """Take what was found of this machine; it is planned for unless devices were chosen."""
        first = self.machine is None and not self.history.can_undo
        self.machine = machine
        if first:
            self.history.amend(replace(self.inputs, devices=machine.devices, host=machine.host))

    def next_name(self) -> str:
        """Return the first letter that no scenario is called by."""
        taken = {scenario.name for scenario in self.scenarios}
        letters = (chr(ord("A") + place) for place in range(MOST_SCENARIOS))
        return next((name for name in letters if name not in taken), str(len(taken) + 1))

    def pin(self, name: str = "") -> Scenario:
        """Keep the current inputs under a name; one of that name is replaced.

        Raises:
            PlanError: There are too many.
        """
        name = name.strip()[:_LONGEST_NAME] or self.next_name()
        scenario = Scenario(name, self.inputs)
        places = [i for i, other in enumerate(self.scenarios) if other.name == name]
        if places:
            self.scenarios[places[0]] = scenario
        elif len(self.scenarios) >= MOST_SCENARIOS:
            raise PlanError(f"there are {MOST_SCENARIOS} scenarios; remove one first")
        else:
            self.scenarios.append(scenario)
        return scenario

    def rename(self, place: int, name: str) -> bool:
        """Give a scenario another name; return whether it was free and not empty."""
        name = name.strip()[:_LONGEST_NAME]
        others = [other.name for i, other in enumerate(self.scenarios) if i != place]
        if not name or name in others:
            return False
        self.scenarios[place] = replace(self.scenarios[place], name=name)
        return True

    def saved(self) -> str:
        """Return scenarios and sets as JSON, for the next session."""
        return json.dumps(
            {
                "scenarios": [
                    {"name": scenario.name, "inputs": scenario.inputs.record()}
                    for scenario in self.scenarios
                ],
                "sets": {name: device_records(devices) for name, devices in self.sets.items()},
            }
        )

    def restore(self, text: str) -> None:
        """Take what `saved` gave in an earlier session.

        Raises:
            PlanError: The text is something else; nothing is taken then.
        """
        scenarios, sets = _parse(text)
        self.scenarios, self.sets = scenarios, sets


def _parse(text: str) -> tuple[list[Scenario], dict[str, tuple[Device, ...]]]:
    if len(text) > _LONGEST_SAVED:
        raise PlanError("the saved scenarios are too long to be ours")
    try:
        saved = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"the saved scenarios are no JSON: {error}") from error
    if not isinstance(saved, dict):
        raise PlanError("the saved scenarios are no JSON object")
    rows, named = saved.get("scenarios", []), saved.get("sets", {})
    if not isinstance(rows, list) or not isinstance(named, dict) or len(rows) > MOST_SCENARIOS:
        raise PlanError("the saved scenarios are damaged")
    scenarios = [
        Scenario(saved_text(row.get("name")), PlanInputs.from_record(row.get("inputs")))
        for row in rows
        if isinstance(row, dict)
    ]
    return scenarios, {saved_text(name): devices_of(value) for name, value in named.items()}


# Tells views what changed in the planner's state, and plans once for each frame.
#
# A drag sends hundreds of values a second. Each is taken at once, so that the controls follow,
# but the plan is made when the event loop comes round again, at most once in a frame of a fast
# screen: the last value wins and no backlog can build up.


FRAME_MS: Final = 8


class PlannerSession(QObject):
    """The planner's state with signals.

    Attributes:
        state: The state; changed only through this object.

    Signals:
        inputs_changed: Settings, devices or profile changed; the plan follows.
        subject_changed: Another model, or none.
        planned: There is a new plan, or none; see `outcome`.
        scenarios_changed: Scenarios were pinned, renamed or removed.
        sets_changed: Sets of devices were remembered or forgotten.
        others_changed: Other models are to be compared with.
        machine_found: This machine was looked at.
        refused: A change cannot be made; a `PlanError`.
    """

    inputs_changed = Signal()
    subject_changed = Signal()
    planned = Signal()
    scenarios_changed = Signal()
    sets_changed = Signal()
    others_changed = Signal()
    machine_found = Signal()
    refused = Signal(object)

    def __init__(self, state: PlannerState | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = PlannerState() if state is None else state
        self.outcome: PlanResult | None = None
        self._frame = QTimer(self)
        self._frame.setSingleShot(True)
        self._frame.setTimerType(Qt.TimerType.PreciseTimer)
        self._frame.timeout.connect(self.flush)
        self._last_frame = 0.0

    @property
    def inputs(self) -> PlanInputs:
        """The current inputs."""
        return self.state.inputs

    def set_subject(self, subject: Subject | None) -> None:
        """Plan for another model under the same inputs."""
        self.state.subject = subject
        self.subject_changed.emit()
        self.flush()

    def set_others(self, others: list[Subject]) -> None:
        """Compare with other models."""
        self.state.others = others
        self.others_changed.emit()

    def set_machine(self, machine: Machine) -> None:
        """Take what was found of this machine."""
        before = self.inputs
        self.state.set_machine(machine)
        self.machine_found.emit()
        if self.inputs is not before:
            self._tell()

    def retell(self) -> None:
        """Tell everything again: sizes are in other units, also in the sentences of a plan."""
        self.inputs_changed.emit()
        self.scenarios_changed.emit()
        self.others_changed.emit()
        self.flush()

    # Changes of the inputs

    def set(self, **changes: Any) -> None:
        """Change settings; the kind of the step is the setting's name."""
        self._change("+".join(changes), lambda inputs: inputs.with_settings(**changes))

    def set_profile(self, name: str) -> None:
        """Plan by another profile."""
        self._step(lambda inputs: replace(inputs, profile=name))

    def set_devices(self, devices: tuple[Device, ...]) -> None:
        """Plan for other GPUs."""
        self._step(lambda inputs: replace(inputs, devices=devices))

    def set_host(self, host: Host | None) -> None:
        """Plan for other memory of the machine."""
        self._step(lambda inputs: replace(inputs, host=host))

    def set_inputs(self, inputs: PlanInputs) -> None:
        """Take inputs as a whole, such as a scenario's."""
        self._step(lambda _: inputs)

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Change settings at once, as a suggestion says."""
        self._step(lambda inputs: inputs.with_settings(**changes))

    def hold(self, on: bool) -> None:
        """Say that a drag begins or ends: all its changes are one step."""
        history = self.state.history
        history.end_step()
        history.held = on

    def undo(self) -> None:
        """Take the last step back."""
        self.state.history.undo()
        self._tell()

    def redo(self) -> None:
        """Take the last undone step again."""
        self.state.history.redo()
        self._tell()

    def _step(self, change: Callable[[PlanInputs], PlanInputs]) -> None:
        """Make a change that is a step of its own, however soon the next one comes."""
        self.state.history.end_step()
        self._change("step", change)
        self.state.history.end_step()

    def _change(self, kind: str, change: Callable[[PlanInputs], PlanInputs]) -> None:
        try:
            inputs = change(self.inputs)
            if self.state.subject is not None:
                inputs.request(self.state.subject.h, {})  # refuses two devices that are the same
        except PlanError as error:
            self.refused.emit(error)
            self.inputs_changed.emit()  # the control shows what holds again
            return
        if inputs != self.inputs:
            self.state.history.put(inputs, kind)
            self._tell()

    def _tell(self) -> None:
        self.inputs_changed.emit()
        self.schedule()

    # Scenarios and sets

    def pin(self, name: str = "") -> Scenario | None:
        """Keep the current inputs as a scenario."""
        try:
            scenario = self.state.pin(name)
        except PlanError as error:
            self.refused.emit(error)
            return None
        self.scenarios_changed.emit()
        return scenario

    def rename(self, place: int, name: str) -> None:
        """Give a scenario another name, if it is free."""
        if not self.state.rename(place, name):
            self.refused.emit(PlanError(self.tr("A scenario needs a name of its own.")))
        self.scenarios_changed.emit()

    def unpin(self, place: int) -> None:
        """Remove a scenario."""
        del self.state.scenarios[place]
        self.scenarios_changed.emit()

    def remember(self, name: str) -> None:
        """Keep the current devices under a name."""
        self.state.sets[name] = self.inputs.devices
        self.sets_changed.emit()

    def forget(self, name: str) -> None:
        """Forget a set of devices."""
        self.state.sets.pop(name, None)
        self.sets_changed.emit()

    # Planning

    def schedule(self) -> None:
        """Plan in the next frame."""
        if not self._frame.isActive():
            since_ms = 1000 * (time.monotonic() - self._last_frame)
            self._frame.start(max(0, FRAME_MS - int(since_ms)))

    @property
    def is_scheduled(self) -> bool:
        """Whether a change waits for its plan."""
        return self._frame.isActive()

    def flush(self) -> None:
        """Plan now."""
        self._frame.stop()
        self._last_frame = time.monotonic()
        self.outcome = self.state.outcome()
        self.planned.emit()
