"""The engines by name, and which of them is the default of a model.

A new one derives from `explorer.planner.plans.Engine` and is added here; the window, the command
line, the library and the report then offer it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Final

from explorer.errors import PlanError
from explorer.planner.devices import Device, quoted
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import Engine

_LLAMA_CPP, _OLLAMA, _OLLAMA_MLX, _VLLM, _MLX = "llama.cpp", "ollama", "ollama-mlx", "vllm", "mlx"
_IK, _TRANSFORMERS = "ik_llama.cpp", "transformers"
OLLAMA_013: Final = "ollama-graphsize"
_PLACES: Final = {
    _LLAMA_CPP: "llama_cpp.engine:LLAMA_CPP",
    _OLLAMA: "ollama:OLLAMA",
    _OLLAMA_MLX: "mlx.ollama:OLLAMA_MLX",
    _VLLM: "vllm.engine:VLLM",
    _MLX: "mlx.engine:MLX",
    _TRANSFORMERS: "transformers:TRANSFORMERS",
    _IK: "ik_llama_cpp:IK_LLAMA_CPP",
    OLLAMA_013: "ollama_013.engine:OLLAMA_013",
}


class _Engines(Mapping[str, Engine]):
    """Each is loaded when it is asked for: all of them take longer than a plan by one."""

    def __getitem__(self, name: str) -> Engine:
        module, _, engine = _PLACES[name].partition(":")
        found: Engine = getattr(import_module(f"explorer.planner.engines.{module}"), engine)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


ENGINES: Final[Mapping[str, Engine]] = _Engines()
"""The engines by name, in the order in which they are offered; the default: `default_engine`."""

_RENAMED: Final = {"ollama-0.30": _OLLAMA}  # as earlier versions saved it


def engine_named(name: str) -> Engine:
    """Return the engine of a name; raise `PlanError` if there is none."""
    if name not in _PLACES:
        raise PlanError(f"there is no profile {quoted(name)!r}. Use one of {', '.join(ENGINES)}")
    return ENGINES[name]


def saved_engine(name: str) -> Engine:
    """Return the engine of a name that this version or an earlier one saved; else `PlanError`."""
    return engine_named(_RENAMED.get(name, name))


_OF_FOLDERS: Final = (_VLLM, _MLX, _TRANSFORMERS)  # the first that runs on the machine is used


def default_engine(h: Hyperparameters, devices: Sequence[Device] = ()) -> Engine:
    """Return what runs a model on a machine, by where it was found.

    llama.cpp reads GGUF alone, ik_llama.cpp what llama.cpp refuses of it, Ollama's own engine the
    safetensors of its store, others folders of safetensors: vLLM with NVIDIA's GPUs, mlx-lm on a
    Mac, transformers everywhere. What none of them runs there is planned by the first that loads
    it, or that would run there, which says why it does not.
    """
    if h.blobs is not None:
        return ENGINES[_OLLAMA_MLX]
    if h.folder is not None:
        if h.folder.is_mlx:
            return ENGINES[_MLX]
        each = [ENGINES[name] for name in _OF_FOLDERS]
        able = [engine for engine in each if not engine.refusal(h)]
        here = [engine for engine in able if engine.runs_on(devices)]
        return (here or able or [engine for engine in each if engine.runs_on(devices)])[0]
    if isinstance(h.llama_cpp, str) and not ENGINES[_IK].refusal(h):
        return ENGINES[_IK]
    return ENGINES[_OLLAMA if h.in_ollama_store else _LLAMA_CPP]


def engines_for(h: Hyperparameters, devices: Sequence[Device] = ()) -> list[Engine]:
    """Return the engines that can load a model's files on a machine.

    One that does not know all of its plan is left out where llama.cpp loads the same file.
    """
    default = default_engine(h, devices)
    is_known = not isinstance(h.llama_cpp, str)
    return [
        engine
        for engine in ENGINES.values()
        if engine is default
        or (
            not engine.refusal(h)
            and engine.runs_on(devices)
            and not (engine.unknown(h) and is_known)
        )
    ]
