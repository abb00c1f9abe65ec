"""A plan's settings for other programs: their commands, variables and files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from explorer.planner import Device
from explorer.planner import environment as env
from explorer.planner.devices import MOST_GIGABYTES
from explorer.planner.inputs import PlanInputs
from explorer.planner.plans import Plan
from explorer.planner.settings import SETTINGS
from explorer.sources import Address
from explorer.sources.remote.addresses import HUB, REGISTRY, HubPart
from explorer.text import plain_text

_SERVER_TYPES: Final = ("f16", "q8_0", "q4_0")


def plan_command(path: Path, inputs: PlanInputs) -> str:
    """Return the `gguf-explorer plan` command that gives the same figures.

    Without a device it plans for the GPUs of the machine on which it runs.
    """
    words = ["gguf-explorer", "plan", str(path)]
    for setting in SETTINGS:
        words += setting.words(getattr(inputs.settings, setting.name))
    for device in inputs.devices:
        words += ["--gpu", device_spec(device)]
    if inputs.host is not None:
        words += ["--memory", _exactly(inputs.host.free + inputs.host.swap)]  # both are checked
    words += [] if inputs.profile is None else ["--profile", inputs.profile]
    for one in inputs.attached:
        words += [f"--{one.kind}", str(one.path)]
    return shlex.join(words)


def device_spec(device: Device) -> str:
    """Return a GPU as `--gpu` takes it; separators of fields are removed from its name."""
    fields = {
        "id": _field(device.id),
        "name": _field(device.name) if device.name.strip() else None,
        "free": _exactly(device.free),
        "library": _field(device.library),
        "total": None if device.total is None else _exactly(device.total),
        "integrated": "yes" if device.integrated else "no",
        "driver": device.driver_major,
        "compute": None if device.compute is None else ".".join(map(str, device.compute)),
        "reserve": None if device.reserve is None else _exactly(device.reserve),
    }
    return ",".join(f"{key}={value}" for key, value in fields.items() if value is not None)


def _exactly(nbytes: int) -> str:
    """Return bytes so that `parse_memory` does not take a small number for gigabytes."""
    return str(nbytes) if nbytes > MOST_GIGABYTES else f"{nbytes}B"


def _field(text: str) -> str:
    return " ".join(plain_text(text).replace(",", " ").replace("=", " ").split()) or "GPU"


_LLAMA_SERVER: Final = "llama-server"


def environment_lines(plan: Plan) -> list[str]:
    """Return Ollama's variables with their values; no server accepts a cache of f32.

    Nothing where the program loads other files than Ollama does.
    """
    if plan.request.h.is_safetensors:
        return []
    asked, kind = plan.request.settings, plan.used("kv_cache_type")
    accepted = kind in _SERVER_TYPES and asked.kv_cache_type is not None
    values = {
        env.CONTEXT_LENGTH: plan.used("context"),
        env.NUM_PARALLEL: plan.used("parallel"),
        env.FLASH_ATTENTION: None if asked.flash_attention is None else int(asked.flash_attention),
        env.KV_CACHE_TYPE: kind if accepted else None,
        env.GPU_OVERHEAD: plan.used("overhead") or None,
        env.SCHED_SPREAD: None if asked.spread is None else int(asked.spread),
    }
    return [f"{name}={value}" for name, value in values.items() if value is not None]


def modelfile_lines(plan: Plan) -> list[str]:
    """Return the parameters that a Modelfile can hold; nothing where Ollama loads no such file."""
    if plan.request.h.is_safetensors:
        return []
    layers = plan.request.settings.num_gpu
    values = {
        "num_ctx": plan.used("context"),
        "num_batch": plan.used("batch"),
        "num_gpu": None if layers is None or layers < 0 else layers,
    }
    return [f"PARAMETER {name} {value}" for name, value in values.items() if value is not None]


def server_command(path: Path, plan: Plan, projector: Path | None = None) -> str:
    """Return a command line of the program's server that loads the model alike."""
    serve = plan.engine.command(plan)
    if not serve:
        return ""
    if serve[0] != _LLAMA_SERVER:
        return shlex.join([*serve, _folder(path), *plan.details.arguments()])
    words = [*serve, *_server_model(path), *plan.details.arguments()]
    if projector is not None:
        words += ["--mmproj", str(projector)]
    options = {"projector": "--mmproj", "lora": "--lora", "draft": "--model-draft"}
    for one in plan.request.attached:
        words += [options[one.kind], str(one.path)]
    return shlex.join(words)


def _folder(path: Path) -> str:
    """Return what other servers take for a model: a folder, or a repository of the hub."""
    if isinstance(path, Address):
        return HubPart.of(path).repository if path.scheme == HUB else str(path)
    return str(path if path.is_dir() else path.parent)


def _server_model(path: Path) -> list[str]:
    """Return the options that name a model; llama-server downloads it, unless it is Ollama's."""
    if not isinstance(path, Address):
        return ["--model", str(path)]
    if path.scheme == HUB:
        part = HubPart.of(path)
        return ["--hf-repo", part.repository, *(["--hf-file", part.file] if part.file else [])]
    return ["--model", "model.gguf"] if path.scheme == REGISTRY else ["--model-url", str(path)]
