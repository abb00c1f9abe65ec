"""The machine that every plan of the window is for, and what is asked of models: one plan.

The planner changes both; What if, the library, the overview and the status bar ask for them here.
Both are kept over restarts: what the user chose of the machine, and what was found of the rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from explorer.errors import PlanError
from explorer.qt.jobs import JobSlot
from explorer.qt.services import Services

if TYPE_CHECKING:  # loaded when first needed: the window shows itself before
    from explorer.hardware.detect import Machine
    from explorer.planner import Device, Host
    from explorer.planner.inputs import PlanInputs
    from explorer.planner.together import Left, LoadedFirst
    from explorer.present.fits import Target

_NOTE: Final = "machine"  # under which it is kept
_MODEL_NOTE: Final = "plan"  # under which it is kept for each model
_MOST_NAMES: Final = 256
_SETTLED_MS: Final = 1000  # after the last change; a drag asks for another plan with each step


class Notes(Protocol):
    """Keeps texts between two runs; the window's `Settings`."""

    def note(self, name: str) -> str:
        """Return a kept text; empty if there is none."""

    def set_note(self, name: str, text: str) -> None:
        """Keep a text."""

    def model_note(self, path: Path, name: str) -> str:
        """Return a text that was kept for a model; empty if there is none."""

    def set_model_note(self, path: Path, name: str, text: str) -> None:
        """Keep a text for a model."""


class PlannedMachine(QObject):
    """GPUs, main memory, reserves and bandwidths that plans are made for, and settings by model.

    Attributes:
        found: What was found of this machine; None until it was looked at.
        reserves: What GPUs need beyond a plan: bytes by the name of the GPU.
        bandwidths: Bytes a second that the user gave, by the name of a GPU or ``"CPU"``.
        context: Tokens that all models of a list are planned with.
        cache_type: Type of the KV cache that they are planned with.

    Signals:
        changed: The GPUs or the memory to plan for are others, or are known at last; or what is
            asked of all models.
        asked: Something else is asked of a model, and was for a moment; its path.
    """

    changed = Signal()
    asked = Signal(object)

    def __init__(self, app: Services, notes: Notes, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.app = app
        self._notes = notes
        self._looking = JobSlot(app.runner, self)
        self._restored = False
        self._devices: tuple[Device, ...] | None = None  # that the user chose; None: the found ones
        self._host: tuple[Host | None] | None = None
        self._inputs: dict[Path, PlanInputs | None] = {}  # None: as of all
        self._unsaved: dict[Path, None] = {}  # models of which something else is asked
        self._settling = QTimer(self, singleShot=True, interval=_SETTLED_MS)
        self._settling.timeout.connect(self.settle)
        self.found: Machine | None = None
        self.reserves: dict[str, int] = {}
        self.bandwidths: dict[str, int] = {}
        self.context, self.cache_type = 8192, "f16"  # of a chat; see `USUAL_CONTEXT`
        self._loaded_first: tuple[LoadedFirst, ...] = ()
        self._left: dict[object, Left | str] = {}  # or why the models do not fit

    # What plans are for

    @property
    def known(self) -> bool:
        """Whether there is something to plan for; else `look`, and `changed` will follow."""
        self._restore()
        return self.found is not None or None not in (self._devices, self._host)

    @property
    def is_chosen(self) -> bool:
        """Whether the user chose other GPUs or other memory than this machine has."""
        self._restore()
        return self._devices is not None or self._host is not None

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs, with their reserves; none until they are known."""
        self._restore()
        if self._devices is not None:
            return self._devices
        return () if self.found is None else self.with_reserves(self.found.devices)

    @property
    def host(self) -> Host | None:
        """The main memory; None to check nothing against it."""
        self._restore()
        if self._host is not None:
            return self._host[0]
        return None if self.found is None else self.found.host

    def target(self) -> Target:
        """Return what of it is left for a model, as downloaded ones shall fit it."""
        whole = self._whole()
        try:
            devices, host, _ = self.left(whole.devices, whole.host)
        except PlanError:  # what is loaded first does not fit itself: nothing is left
            devices = tuple(replace(one, free=0) for one in whole.devices)
            host = None if whole.host is None else replace(whole.host, free=0)
        return replace(whole, devices=devices, host=host, also=len(self._loaded_first))

    def _whole(self) -> Target:
        """Return the machine as if no model were loaded; loads the planner."""
        from explorer.planner import Settings  # noqa: PLC0415 - not before the first paint
        from explorer.present.fits import Target  # noqa: PLC0415 - as above

        self._restore()
        asked = Settings(context=self.context, kv_cache_type=self.cache_type)
        return Target(self.devices, self.host, os.environ, self.bandwidths, asked)

    def left(self, devices: tuple[Device, ...], host: Host | None) -> Left:
        """Return what the models that are loaded first leave of a machine, and what each takes.

        Raises:
            PlanError: They do not fit it.
        """
        from explorer.planner.together import load_first  # noqa: PLC0415 - as above

        if not self._loaded_first:
            return devices, host, ()
        machine = devices, host
        found = self._left.get(machine)
        if found is None:
            try:
                found = load_first(self._loaded_first, *machine, os.environ)
            except PlanError as error:
                found = str(error)
            self._left = {machine: found}  # of the machine asked for last
        if isinstance(found, str):
            raise PlanError(found)
        return found

    def load_first(self, models: Sequence[LoadedFirst]) -> None:
        """Plan all from now on as if these were loaded already, each with what is asked of it."""
        self._loaded_first, self._left = tuple(models), {}
        self.changed.emit()

    @property
    def text(self) -> str:
        """ "L4, 22.5 GiB · 61.2 GiB main memory", for the status bar; loads the planner."""
        return self.target().brief if self.known else "Looking at this machine…"

    def asked_of(self, path: Path) -> PlanInputs | None:
        """Return what was asked of a model; None: what is asked of all."""
        from explorer.planner.inputs import PlanInputs, saved_object  # noqa: PLC0415 - as above

        if path not in self._inputs:
            text, self._inputs[path] = self._notes.model_note(path, _MODEL_NOTE), None
            if text:
                try:
                    asked = PlanInputs.from_record(saved_object(text) | {"devices": []})
                    self._inputs[path] = None if asked == PlanInputs() else asked
                except PlanError:  # damaged, or of a later version: nothing was asked
                    self._notes.set_model_note(path, _MODEL_NOTE, "")
        return self._inputs[path]

    def inputs(self, path: Path, trained_context: int | None) -> PlanInputs:
        """Return what a model is planned with: what is asked of it or of all; the whole machine."""
        return self._whole().inputs(trained_context, self.asked_of(path))

    def with_reserves(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """Return GPUs with the reserves that are remembered for their names."""
        known = {plain_name(name): size for name, size in self.reserves.items()}
        return tuple(
            replace(one, reserve=known.get(plain_name(one.name), one.reserve)) if one.name else one
            for one in devices
        )

    # What changes it

    def look(self, *, again: bool = False) -> None:
        """Look at this machine in the background, unless that was done or `again` is asked."""
        if self._looking.busy or (self.found is not None and not again):
            return

        def work(_job: object) -> Machine:
            from explorer.hardware.detect import detect  # noqa: PLC0415 - as above

            return detect()

        self._looking.run("Looking at this machine", work, self._take, self.app.report)

    def _take(self, found: Machine) -> None:
        self.found = found
        self.changed.emit()

    def plan_for(
        self, inputs: PlanInputs, path: Path | None = None, trained_context: int | None = None
    ) -> None:
        """Plan for the machine of some inputs from now on, and ask of a model what they ask."""
        self._restore()
        before = self.devices, self.host
        reserves = self.reserves
        for one in inputs.devices:
            self._learn(one)
        found, devices, host = self.found, inputs.devices, inputs.host
        if devices != before[0]:
            own = found is not None and devices == self.with_reserves(found.devices)
            self._devices = None if own else devices
        if host != before[1]:
            self._host = None if found is not None and host == found.host else (host,)
        changed = (self.devices, self.host) != before
        if changed or self.reserves != reserves:
            self._keep()
        if path is not None:
            of_all = inputs == self._whole().inputs(trained_context)
            asked = None if of_all else replace(inputs, devices=(), host=None)
            if self.asked_of(path) != asked:
                self._inputs[path] = asked
                self._unsaved[path] = None
                self._settling.start()
        if changed:
            self.changed.emit()

    def save(self) -> list[Path]:
        """Keep what is asked of models now; return those of which something else is asked."""
        paths = list(self._unsaved)
        self._unsaved.clear()
        for path in paths:
            asked, text = self._inputs[path], ""
            if asked is not None:
                text = json.dumps({"settings": asked.settings.record(), "profile": asked.profile})
            self._notes.set_model_note(path, _MODEL_NOTE, text)
        return paths

    def settle(self) -> None:
        """Have others plan now with what is asked of models."""
        for path in self.save():
            self.asked.emit(path)

    def ask_of_all(self, context: int, cache_type: str) -> None:
        """Plan all models of a list with another context, or another type of cache."""
        self._restore()
        if (context, cache_type) != (self.context, self.cache_type):
            self.context, self.cache_type = context, cache_type
            self._keep()
            self.changed.emit()

    def _learn(self, device: Device) -> None:
        """Remember the reserve of a GPU for its name, or forget it."""
        if not device.name:
            return
        name = plain_name(device.name)
        self.reserves = {
            one: size for one, size in self.reserves.items() if plain_name(one) != name
        }
        if device.reserve is not None:
            self.reserves[device.name] = device.reserve

    def set_bandwidth(self, name: str, rate: int | None) -> None:
        """Remember the bandwidth of a GPU, or of ``"CPU"``; None for what the catalogue says."""
        self._restore()
        self.bandwidths.pop(name, None)
        if rate:
            self.bandwidths[name] = rate
        self._keep()

    # Between two runs

    def _keep(self) -> None:
        from explorer.planner.inputs import device_records, host_record  # noqa: PLC0415 - as above

        saved: dict[str, Any] = {"reserves": self.reserves, "bandwidths": self.bandwidths}
        saved |= {"context": self.context, "cache_type": self.cache_type}
        if self._devices is not None:
            saved["devices"] = device_records(self._devices)
        if self._host is not None:
            saved["host"] = host_record(self._host[0])
        self._notes.set_note(_NOTE, json.dumps(saved))

    def _restore(self) -> None:
        """Take what an earlier run kept; a damaged text is as good as none."""
        if self._restored:
            return
        self._restored = True
        text = self._notes.note(_NOTE)
        if not text:
            return
        from explorer.planner.inputs import devices_of, host_of, saved_object, sizes_of  # noqa: PLC0415 - as above
        from explorer.planner.settings import CACHE_TYPES, CONTEXT  # noqa: PLC0415

        try:
            saved = saved_object(text)
            reserves = sizes_of(saved.get("reserves", {}), _MOST_NAMES)
            bandwidths = sizes_of(saved.get("bandwidths", {}), _MOST_NAMES)
            devices = devices_of(saved["devices"]) if "devices" in saved else None
            host = (host_of(saved["host"]),) if "host" in saved else None
            context = saved.get("context", self.context)
            CONTEXT.kind.check(context, "context")
            cache_type = next(one for one in (saved.get("cache_type"), "f16") if one in CACHE_TYPES)
        except PlanError:
            self._notes.set_note(_NOTE, "")
            return
        self.reserves, self.bandwidths = reserves, bandwidths
        self.context, self.cache_type = context, cache_type
        self._devices, self._host = devices, host


def plain_name(name: str) -> str:
    """Return a GPU's name as it is compared."""
    return " ".join(name.casefold().split())
