"""`plan --log`: what a log measured beside the plan; and the bound of speed of a plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from explorer.cli import options
from explorer.cli.output import style, table
from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.hardware.catalogue import find_bandwidths
from explorer.planner import Device
from explorer.planner import Settings as PlanSettings
from explorer.planner.devices import parse_size
from explorer.planner.engines.llama_cpp import Header, Settings
from explorer.planner.engines.llama_cpp.outcome import Outcome
from explorer.planner.log_lines import Log
from explorer.planner.logs import read_log, read_stream
from explorer.planner.measured import Comparison, compare, measured_record
from explorer.planner.profiles import LLAMA_CPP
from explorer.planner.speed import CPU, SpeedBound, read_header, speed_bound, speed_record
from explorer.present import measured as words
from explorer.text import plain_text

_STDIN: Final = "-"


def _parse_bandwidth(text: str) -> tuple[str, int]:
    """Return the device and the bytes a second of ``GPU0=504GB`` or ``CPU=60GB``."""
    name, _, rate = text.partition("=")
    name = name.strip().upper()
    if not rate or not (name == CPU or (name.startswith("GPU") and name[3:].isdigit())):
        raise PlanError("write DEVICE=BYTES a second, such as GPU0=504GB or CPU=60GB")
    nbytes = parse_size(rate.lower().removesuffix("/s"))
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
        """Return it for people."""
        rows = words.compared_rows(self.comparison)
        cells = [(row.what, row.planned, row.measured, row.difference) for row in rows]
        said = [words.settings_text(self.comparison.settings)]
        said += words.comparison_notes(self.comparison, self.log)
        said += map(words.rest_sentence, self.comparison.rests)
        said.append(words.reserve_sentence(self.comparison.rests))
        speed = self.comparison.measured.tokens_per_second
        if speed is not None:
            said.append(words.share_sentence(speed, self.share))
        sentences = "".join(f"  {line[:1].upper()}{line[1:]}\n" for line in said if line)
        title = f"{words.COMPARISON_TITLE}: {plain_text(self.file)}"
        return (
            f"\n{style(title, bold=True)}\n"
            f"{table([tuple(words.COMPARISON.values()), *cells], right=(1, 2, 3))}{sentences}"
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


def compare_log(model: Model, file: LogFile, base: Settings, given: Mapping[str, int]) -> Compared:
    """Return a log beside the plan with its settings.

    Args:
        model: The model that was loaded.
        file: What `read_log_option` gave.
        base: Settings for what the log does not tell.
        given: Bandwidths that the user gave.

    Raises:
        ExplorerError: The log says nothing of memory, or is another model's.
    """
    name = model.metadata.text("general.name") or ""
    architecture = model.metadata.text("general.architecture") or ""
    comparison = compare(model, file.log.load_of(architecture, name), base)
    measured, share = comparison.measured, None
    if measured.tokens_per_second is not None:
        gpus = [Device(str(i), "CUDA", 0, name=one.name) for i, one in enumerate(comparison.rests)]
        bound, _ = bounds(model, comparison.settings, gpus, given, measured.depth)
        most = bound.tokens_per_second
        share = None if most is None else measured.tokens_per_second / most
    return Compared(file.name, file.log, comparison, share)


def bounds(
    model: Model | Header,
    settings: Settings,
    devices: Sequence[Device],
    given: Mapping[str, int],
    depth: int | None = None,
) -> tuple[SpeedBound, SpeedBound]:
    """Return the bound of speed at a depth, by default the whole context, and with none.

    Raises:
        PlanError: The header is damaged, or llama.cpp would refuse these settings.
    """
    read = read_header(model)
    rates = find_bandwidths(devices, given)
    context = settings.context or read.trained_context
    full = context if settings.kv_unified else context // settings.parallel
    at = full if depth is None else depth
    return speed_bound(read, settings, rates, at), speed_bound(read, settings, rates, 0)


def with_log(
    chosen: PlanSettings, compared: Compared | None, profiles: Sequence[str], devices: int
) -> PlanSettings:
    """Return the settings of a plan with those of a log, where the user gave none.

    Args:
        chosen: What the user gave.
        compared: The log, if there is one.
        profiles: What is planned by; only llama.cpp itself takes the settings of a log.
        devices: GPUs of the plan; where layers lie is taken from a log with as many.
    """
    if compared is None or list(profiles) != [LLAMA_CPP.name]:
        return chosen
    log = compared.comparison.settings
    told: dict[str, Any] = {
        "context": log.context,
        "parallel": log.parallel,
        "batch": log.batch,
        "ubatch": log.ubatch,
        "kv_unified": log.kv_unified,
        "cache_type_k": log.type_k,
        "cache_type_v": log.type_v,
        "flash_attention": log.flash_attention,
        "offload_kv": log.offload_kv,
        "swa_full": log.swa_full,
    }
    if log.devices == devices:
        told |= {"num_gpu": log.gpu_layers, "cpu_moe_layers": log.cpu_moe_layers}
        told["tensor_split"] = None if log.tensor_split is None else tuple(log.tensor_split)
    told = {name: value for name, value in told.items() if getattr(chosen, name) is None}
    return replace(chosen, **told)


@dataclass(frozen=True, slots=True)
class Speed:
    """The bound of speed of a plan: with its context full, and with nothing in the cache."""

    full: SpeedBound
    empty: SpeedBound

    @classmethod
    def of(cls, outcome: Outcome, given: Mapping[str, int]) -> Speed:
        """Return the bound of a plan by llama.cpp; `given` are bandwidths of the user."""
        return cls(*bounds(outcome.header, outcome.settings, outcome.devices, given))

    def record(self) -> dict[str, Any]:
        """Return the ``speed_bound`` object of docs/interface.md."""
        return speed_record(self.full, self.empty)

    def text(self) -> str:
        """Return it for people."""
        sentence = words.speed_sentence(self.full, self.empty)
        lines = [sentence, *words.speed_details(self.full)]
        shown = "".join(f"  {line[:1].upper()}{line[1:]}\n" for line in lines)
        return f"\n{style('Speed', bold=True)}\n{shown}"
