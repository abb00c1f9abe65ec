"""`plan --log`: what a log measured beside the plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from explorer.cli.output import style, table_of
from explorer.formats.model import Model
from explorer.hardware.catalogue import find_bandwidths
from explorer.planner import Device
from explorer.planner import Settings as PlanSettings
from explorer.planner.engines.llama_cpp.allocation import Settings
from explorer.planner.engines.llama_cpp.reading import read_header, reads
from explorer.planner.logs.comparison import Comparison, measured_record
from explorer.planner.logs.lines import Log
from explorer.planner.logs.measured import compare, load_for
from explorer.planner.logs.reading import read_log, read_stream
from explorer.planner.plans import Engine
from explorer.planner.speed import speed_bound
from explorer.present import measured as words
from explorer.present.tables.measured import MEASURED
from explorer.text import plain_text, sentence

_STDIN: Final = "-"


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
        lines.append(words.reserve_sentence(self.comparison.unaccounted))
        speed = self.comparison.measured.tokens_per_second
        if speed is not None:
            lines.append(words.share_sentence(speed, self.share))
        sentences = "".join(f"  {sentence(line)}\n" for line in lines if line)
        title = f"{MEASURED.title}: {plain_text(self.file)}"
        return (
            f"\n{style(title, bold=True)}\n"
            f"{table_of(MEASURED, self.comparison.residuals)}{sentences}"
        )

    def with_log(
        self, chosen: PlanSettings, engines: Sequence[Engine], devices: int
    ) -> PlanSettings:
        """Return the settings of a plan with those of the log, where the user gave none.

        Args:
            chosen: What the user gave.
            engines: What is planned by; only one that knows all settings of a log takes them.
            devices: GPUs of the plan; where layers lie is taken from a log with as many.
        """
        if len(engines) != 1:
            return chosen
        given = self.comparison.asked(devices)
        if not given.keys() <= {setting.name for setting in engines[0].settings}:
            return chosen
        given = {name: value for name, value in given.items() if getattr(chosen, name) is None}
        return replace(chosen, **given)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log that was read, and its name to be shown."""

    name: str
    log: Log


def read_log_option(path: str) -> LogFile:
    """Read the log that `--log` names.

    Raises:
        ExplorerError: It cannot be read.
    """
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
    comparison = compare(model, load_for(model, file.log), base, machine)
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
