"""The state of the planner panel: model, inputs with their history, scenarios, device sets.

Knows no Qt: `PlannerSession` tells views when something of it changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from explorer.errors import PlanError
from explorer.hardware.detect import Machine
from explorer.planner import Device, Hyperparameters
from explorer.planner import settings as env
from explorer.planner.inputs import (
    Outcome,
    PlanInputs,
    device_records,
    devices_of,
    make_outcome,
    saved_text,
)
from explorer.qt.models.planner.history import History

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
        self._outcome: tuple[Subject, PlanInputs, Outcome] | None = None

    @property
    def inputs(self) -> PlanInputs:
        """The current inputs."""
        return self.history.value

    def outcome(self) -> Outcome | None:
        """Return what becomes of the current inputs, or None without a model."""
        subject, inputs = self.subject, self.inputs
        if subject is None:
            return None
        known = self._outcome
        if known is None or known[0] is not subject or known[1] is not inputs:
            outcome = self.outcome_of(subject, inputs)
            self._outcome = known = (subject, inputs, outcome)
        return known[2]

    def outcome_of(self, subject: Subject, inputs: PlanInputs) -> Outcome:
        """Return what becomes of other inputs, or of another model."""
        return make_outcome(subject.h, subject.complete(inputs), self.environment)

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
