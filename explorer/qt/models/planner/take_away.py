"""The settings of a plan as other programs take them: command lines, variables, parameters.

What was asked for is written out, so that one who repeats it gets the same figures. Knows no Qt.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from explorer.planner import Device, Host
from explorer.planner import settings as env
from explorer.planner.inputs import PlanInputs
from explorer.planner.profiles import GRAPH_SIZE
from explorer.planner.result import Plan
from explorer.text import plain_text

_SERVER_TYPES: Final = ("f16", "q8_0", "q4_0")


def plan_command(path: Path, inputs: PlanInputs) -> str:
    """Return the `gguf-explorer plan` command that gives the same figures.

    Without a device it plans for the GPUs of the machine on which it runs.
    """
    words = ["gguf-explorer", "plan", str(path)]
    settings = inputs.settings
    for option, value in (
        ("--context", settings.context),
        ("--parallel", settings.parallel),
        ("--batch", settings.batch),
        ("--kv-cache-type", settings.kv_cache_type),
        ("--num-gpu", settings.num_gpu),
        ("--overhead", settings.overhead),
    ):
        if value is not None:
            words += [option, str(value)]
    if settings.flash_attention is not None:
        words.append("--flash-attention" if settings.flash_attention else "--no-flash-attention")
    if settings.spread:
        words.append("--spread")
    for device in inputs.devices:
        words += ["--gpu", device_spec(device)]
    if inputs.host is not None:
        words += ["--memory", str(_host_bytes(inputs.host))]
    if inputs.profile != GRAPH_SIZE.name:
        words += ["--profile", inputs.profile]
    return shlex.join(words)


def device_spec(device: Device) -> str:
    """Return a GPU as `--gpu` takes it; a name loses what divides the fields there."""
    fields = [("id", _field(device.id))]
    if device.name.strip():
        fields.append(("name", _field(device.name)))
    fields += [("free", str(device.free)), ("library", _field(device.library))]
    if device.total is not None:
        fields.append(("total", str(device.total)))
    fields.append(("integrated", "yes" if device.integrated else "no"))
    if device.driver_major is not None:
        fields.append(("driver", str(device.driver_major)))
    if device.compute is not None:
        fields.append(("compute", ".".join(map(str, device.compute))))
    return ",".join(f"{key}={value}" for key, value in fields)


def _field(text: str) -> str:
    return " ".join(plain_text(text).replace(",", " ").replace("=", " ").split()) or "GPU"


def _host_bytes(host: Host) -> int:
    """Return what the CPU can have: `--memory` knows no swap, and the check adds both."""
    return host.free + host.swap


def environment_lines(plan: Plan) -> list[str]:
    """Return Ollama's variables with their values; a f32 cache is none that a server accepts."""
    asked, effective = plan.request.settings, plan.effective
    lines = [
        f"{env.CONTEXT_LENGTH}={effective.context}",
        f"{env.NUM_PARALLEL}={effective.parallel}",
    ]
    if asked.flash_attention is not None:
        lines.append(f"{env.FLASH_ATTENTION}={int(asked.flash_attention)}")
    if effective.kv_cache_type in _SERVER_TYPES and asked.kv_cache_type is not None:
        lines.append(f"{env.KV_CACHE_TYPE}={effective.kv_cache_type}")
    if effective.overhead:
        lines.append(f"{env.GPU_OVERHEAD}={effective.overhead}")
    if asked.spread is not None:
        lines.append(f"{env.SCHED_SPREAD}={int(asked.spread)}")
    return lines


def modelfile_lines(plan: Plan) -> list[str]:
    """Return the parameters that a Modelfile can hold."""
    effective = plan.effective
    lines = [f"PARAMETER num_ctx {effective.context}", f"PARAMETER num_batch {effective.batch}"]
    if effective.num_gpu >= 0:
        lines.append(f"PARAMETER num_gpu {effective.num_gpu}")
    return lines


def server_command(path: Path, plan: Plan, projector: Path | None = None) -> str:
    """Return a command line of llama.cpp's server that loads the model alike."""
    words = ["llama-server", "--model", str(path), *_server_options(plan)]
    if projector is not None:
        words += ["--mmproj", str(projector)]
    return shlex.join(words)


def _server_options(plan: Plan) -> Iterator[str]:
    """Yield the options; llama-server's context is that of all sequences together."""
    effective = plan.effective
    batch = str(effective.batch if plan.layout is None else plan.layout.batch)
    yield from ("--ctx-size", str(effective.context * effective.parallel))
    yield from ("--parallel", str(effective.parallel))
    yield from ("--batch-size", batch, "--ubatch-size", batch)
    yield from ("--cache-type-k", effective.kv_cache_type)
    yield from ("--cache-type-v", effective.kv_cache_type)
    yield from ("--flash-attn", "on" if effective.flash_attention else "off")
    if plan.layout is None:
        return
    yield from ("--n-gpu-layers", str(plan.layout.placed))
    shares = [0 if held.layers is None else len(held.layers) for held in plan.layout.devices]
    if sum(map(bool, shares)) > 1:
        yield from ("--tensor-split", ",".join(map(str, shares)))
