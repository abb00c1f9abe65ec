"""Everything that a person can change about a plan, as one frozen value.

One value, so that undo, scenarios, caches and saving need nothing but comparing and keeping it.
Knows no Qt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner.devices import check_devices
from explorer.planner.profiles import GRAPH_SIZE, PROFILES, profile_named
from explorer.planner.result import Plan, PlanRequest
from explorer.text import plain_text, shorten

_LONGEST_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """Settings and machine of a plan.

    Attributes:
        settings: What is asked for.
        devices: The GPUs, in the person's order.
        host: Memory of the machine, or None to check nothing against it.
        profile: Name of the profile to plan by.
    """

    settings: Settings = field(default_factory=Settings)
    devices: tuple[Device, ...] = ()
    host: Host | None = None
    profile: str = GRAPH_SIZE.name

    def with_settings(self, **changes: Any) -> PlanInputs:
        """Return the same with other settings.

        Raises:
            PlanError: A setting is out of its limits.
        """
        return replace(self, settings=replace(self.settings, **changes))

    def request(self, h: Hyperparameters, environment: Mapping[str, str]) -> PlanRequest:
        """Return what the planner takes.

        Raises:
            PlanError: Two devices are the same one.
        """
        return PlanRequest(h, self.settings, self.devices, self.host, environment)

    def record(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "settings": asdict(self.settings),
            "devices": device_records(self.devices),
            "host": None if self.host is None else asdict(self.host),
            "profile": self.profile,
        }

    @classmethod
    def from_record(cls, record: object) -> PlanInputs:
        """Return what `record` gave; a saved file may have been changed by anybody.

        Raises:
            PlanError: It is no such record.
        """
        parts = _object(record)
        host = parts.get("host")
        profile = parts.get("profile")
        if profile not in PROFILES:
            raise PlanError("the saved profile does not exist")
        return cls(
            settings=_settings(_object(parts.get("settings"))),
            devices=devices_of(parts.get("devices")),
            host=None if host is None else _host(_object(host)),
            profile=str(profile),
        )


def device_records(devices: tuple[Device, ...]) -> list[dict[str, Any]]:
    """Return devices as JSON can hold them."""
    return [asdict(device) for device in devices]


def devices_of(records: object) -> tuple[Device, ...]:
    """Return what `device_records` gave.

    Raises:
        PlanError: It is no such list.
    """
    if not isinstance(records, list):
        raise PlanError("the saved devices are no list")
    return check_devices([_device(_object(record)) for record in records])


def saved_text(value: object) -> str:
    """Return a text of a saved file as it may be shown.

    Raises:
        PlanError: It is no text.
    """
    if not isinstance(value, str):
        raise PlanError("a saved text is none")
    return shorten(plain_text(value), _LONGEST_TEXT)


def _object(record: object) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise PlanError("a saved record is no JSON object")
    return record


def _device(record: dict[str, Any]) -> Device:
    compute = record.get("compute")
    return Device(
        id=saved_text(record.get("id")),
        library=saved_text(record.get("library")),
        free=record.get("free", 0),
        integrated=record.get("integrated") is True,
        name=saved_text(record.get("name", "")),
        total=record.get("total"),
        driver_major=record.get("driver_major"),
        compute=tuple(compute) if isinstance(compute, list) else None,
    )


def _host(record: dict[str, Any]) -> Host:
    return Host(
        free=record.get("free", 0),
        swap=record.get("swap", 0),
        total=record.get("total"),
        macos=record.get("macos") is True,
    )


def _settings(record: dict[str, Any]) -> Settings:
    def switch(name: str) -> bool | None:
        value = record.get(name)
        return value if isinstance(value, bool) else None

    return Settings(
        context=record.get("context"),
        parallel=record.get("parallel"),
        batch=record.get("batch"),
        kv_cache_type=record.get("kv_cache_type"),
        flash_attention=switch("flash_attention"),
        num_gpu=record.get("num_gpu"),
        overhead=record.get("overhead"),
        spread=switch("spread"),
        require_full=record.get("require_full") is True,
        projector_bytes=record.get("projector_bytes", 0),
    )


# What becomes of inputs: a plan, or why there is none, as a picture needs it. Knows no Qt.


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan, a refusal, or both.

    Attributes:
        plan: The plan; where Ollama would refuse it, the one it would have made otherwise, so that
            one sees by how much memory is short. None if the inputs cannot be planned at all.
        refusal: Why Ollama would refuse, or why there is no plan; empty if all is well.
        reason: ``"requires full"`` or ``"system memory"`` where Ollama would refuse, or None.
    """

    plan: Plan | None
    refusal: str = ""
    reason: str | None = None


def make_outcome(h: Hyperparameters, inputs: PlanInputs, environment: Mapping[str, str]) -> Outcome:
    """Plan; takes about a millisecond."""
    profile = profile_named(inputs.profile)
    try:
        return Outcome(profile.plan(inputs.request(h, environment)))
    except PlanError as error:
        if error.reason is None:
            return Outcome(None, str(error))
        refused = error
    lenient = replace(inputs.with_settings(require_full=False), host=None)
    try:
        plan = profile.plan(lenient.request(h, environment))
    except PlanError as error:
        return Outcome(None, str(error))
    return Outcome(plan, str(refused), refused.reason)
