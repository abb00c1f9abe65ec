"""`plan --log`: what a log measured beside the plan; and the bound of speed of a plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from explorer.cli import options
from explorer.cli.output import style, table_of
from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.hardware.catalogue import find_bandwidths
from explorer.planner import Device
from explorer.planner import Settings as PlanSettings
from explorer.planner.devices import CPU
from explorer.planner.engines.llama_cpp import Settings
from explorer.planner.engines.llama_cpp.reading import read_header, reads
from explorer.planner.logs.comparison import Comparison, measured_record
from explorer.planner.logs.lines import Log
from explorer.planner.logs.measured import compare
from explorer.planner.logs.reading import read_log, read_stream
from explorer.planner.plan import Engine, Plan
from explorer.planner.speed import (
    Bandwidth,
    SpeedBound,
    parse_rate,
    speed_bound,
    speed_bounds,
    speed_record,
)
from explorer.present import measured as words
from explorer.present.speed import Speed as TextOfSpeed
from explorer.present.speed import speed_details, speed_of
from explorer.present.tables.plans import MEASURED
from explorer.text import plain_text

_STDIN: Final = "-"


def _parse_bandwidth(text: str) -> tuple[str, int]:
    """Return the device and the bytes a second of ``GPU0=504GB`` or ``CPU=60GB``."""
    name, _, rate = text.partition("=")
    name = name.strip().upper()
    if not rate or not (name == CPU or (name.startswith("GPU") and name[3:].isdigit())):
        raise PlanError("write DEVICE=BYTES a second, such as GPU0=504GB or CPU=60GB")
    nbytes = parse_rate(rate)
    if nbytes == 0:
        raise PlanError("a bandwidth is more than nothing")
    return name, nbytes


log_option = click.option(
    "log_path",
    "--log",
    metavar="FILE",
    help="Plan with the settings of a log and show what it measured; - reads standard input.",
)
bandwidth_option = click.option(
    "bandwidths",
    "--bandwidth",
    multiple=True,
    metavar="DEVICE=BYTES",
    type=options.parsed_by(_parse_bandwidth),
    help="Bandwidth a second, such as GPU0=504GB or CPU=60GB. Default: the catalogue's.",
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A log beside the plan of one model, and the bound of speed with the log's settings."""

    file: str
    log: Log
    comparison: Comparison
    share: float | None  # measured speed by its bound, where both are known

    def record(self) -> dict[str, Any]:
        """Return the ``measured`` object of docs/interface.md."""
        return measured_record(self.comparison, self.file)

    def text(self) -> str:
        lines = [words.settings_text(self.comparison.settings)]
        lines += words.comparison_notes(self.comparison, self.log)
        lines += map(words.unaccounted_sentence, self.comparison.unaccounted)
        lines.append(words.reserve_sentence(self.comparison.unaccounted))
        speed = self.comparison.measured.tokens_per_second
        if speed is not None:
            lines.append(words.share_sentence(speed, self.share))
        sentences = "".join(f"  {line[:1].upper()}{line[1:]}\n" for line in lines if line)
        title = f"{MEASURED.title}: {plain_text(self.file)}"
        return (
            f"\n{style(title, bold=True)}\n"
            f"{table_of(MEASURED, self.comparison.residuals)}{sentences}"
        )


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log that was read, and its name to be shown."""

    name: str
    log: Log


def read_log_option(path: str | None) -> LogFile | None:
    """Read the log that `--log` names; None where it names none.

    Raises:
        ExplorerError: It cannot be read.
    """
    if path is None:
        return None
    log = read_stream(sys.stdin.buffer) if path == _STDIN else read_log(Path(path))
    return LogFile(path, log)


def compare_log(
    model: Model,
    file: LogFile,
    base: Settings,
    given: Mapping[str, int],
    machine: tuple[Device, ...],
) -> Compared:
    """Return a log beside the plan with its settings.

    Raises:
        ExplorerError: The log says nothing of memory, or is another model's.
    """
    name = model.metadata.text("general.name") or ""
    architecture = model.metadata.text("general.architecture") or ""
    comparison = compare(model, file.log.load_of(architecture, name), base, machine)
    measured, share = comparison.measured, None
    settings, speed = comparison.settings, measured.tokens_per_second
    if speed is not None and isinstance(settings, Settings):
        gpus = [
            Device(str(i), "CUDA", 0, name=one.name) for i, one in enumerate(comparison.unaccounted)
        ]
        depth = measured.depth
        if depth is None:
            depth = settings.context // (1 if settings.kv_unified else settings.parallel)
        held = reads(read_header(model), settings, depth)
        most = speed_bound(held, find_bandwidths(gpus, given), depth).tokens_per_second
        share = None if most is None else speed / most
    return Compared(file.name, file.log, comparison, share)


def with_log(
    chosen: PlanSettings, compared: Compared | None, engines: Sequence[Engine], devices: int
) -> PlanSettings:
    """Return the settings of a plan with those of a log, where the user gave none.

    Args:
        chosen: What the user gave.
        compared: The log, if there is one.
        engines: What is planned by; only one that knows all settings of a log takes them.
        devices: GPUs of the plan; where layers lie is taken from a log with as many.
    """
    if compared is None or len(engines) != 1:
        return chosen
    given = compared.comparison.asked(devices)
    if not given.keys() <= {setting.name for setting in engines[0].settings}:
        return chosen
    given = {name: value for name, value in given.items() if getattr(chosen, name) is None}
    return replace(chosen, **given)


def plan_speed(plan: Plan, given: Mapping[str, int]) -> TextOfSpeed | str:
    """Return what is said of a plan's speed; `given` are bandwidths by place."""
    return speed_of(plan, _rates(plan, given))


def _rates(plan: Plan, given: Mapping[str, int]) -> dict[str, Bandwidth]:
    devices = [held.device for held in plan.gpus if held.device is not None]
    return find_bandwidths(devices, given)


@dataclass(frozen=True, slots=True)
class Speed:
    """The bound of speed of a plan: with its context full, and with nothing in the cache."""

    full: SpeedBound
    empty: SpeedBound
    sentence: str  # empty where the plan does not fit

    @classmethod
    def of(cls, plan: Plan, given: Mapping[str, int]) -> Speed | None:
        """Return the bound of a plan, if it is known; `given` are bandwidths of the user."""
        bounds, found = speed_bounds(plan, _rates(plan, given)), plan_speed(plan, given)
        sentence = found if isinstance(found, str) else found.sentence
        return None if bounds is None else cls(*bounds, sentence)

    def record(self) -> dict[str, Any]:
        """Return the ``speed_bound`` object of docs/interface.md."""
        return speed_record(self.full, self.empty) | {"sentence": self.sentence}

    def text(self) -> str:
        if not self.sentence:
            return ""
        shown = "".join(f"  {line}\n" for line in (self.sentence, *speed_details(self.full)))
        return f"\n{style('Speed', bold=True)}\n{shown}"
