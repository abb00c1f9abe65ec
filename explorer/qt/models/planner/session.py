"""Tells views what changed in the planner's state, and plans once for each frame.

A drag sends hundreds of values a second. Each is taken at once, so that the controls follow, but
the plan is made when the event loop comes round again, at most once in a frame of a fast screen:
the last value wins and no backlog can build up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from explorer.errors import PlanError
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host
from explorer.planner.inputs import Outcome, PlanInputs
from explorer.qt.models.planner.state import PlannerState, Scenario, Subject

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
        self.outcome: Outcome | None = None
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
