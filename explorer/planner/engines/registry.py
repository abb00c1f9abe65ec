"""The engines by name, and which of them is the default of a model.

A new one derives from `explorer.planner.plan.Engine` and is added here; the window, the command
line, the library and the report then offer it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from explorer.errors import PlanError
from explorer.planner.devices import quoted
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plan import Engine

_LLAMA_CPP, _OLLAMA, _OLLAMA_MLX, _VLLM, _MLX = "llama.cpp", "ollama", "ollama-mlx", "vllm", "mlx"
_IK: Final = "ik_llama.cpp"
OLLAMA_013: Final = "ollama-graphsize"
_PLACES: Final = {
    _LLAMA_CPP: "llama_cpp.engine:LLAMA_CPP",
    _OLLAMA: "ollama:OLLAMA",
    _OLLAMA_MLX: "mlx.ollama:OLLAMA_MLX",
    _VLLM: "vllm.engine:VLLM",
    _MLX: "mlx.engine:MLX",
    "transformers": "transformers:TRANSFORMERS",
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


def default_engine(h: Hyperparameters) -> Engine:
    """Return what runs a model, by where it was found.

    llama.cpp reads GGUF alone, ik_llama.cpp what llama.cpp refuses of it, vLLM folders of
    safetensors, mlx-lm those that were made for it, Ollama's own engine the safetensors of its
    store. Of other formats, and where no rules are known, Ollama's estimate says what they would
    need after conversion.
    """
    if h.folder is not None and h.folder.is_mlx and ENGINES[_MLX].accepts(h) is None:
        return ENGINES[_MLX]
    if h.blobs is not None and ENGINES[_OLLAMA_MLX].accepts(h) is None:
        return ENGINES[_OLLAMA_MLX]
    if h.after_conversion:
        return ENGINES[OLLAMA_013 if ENGINES[_VLLM].accepts(h) else _VLLM]
    if isinstance(h.llama_cpp, str) and ENGINES[_IK].accepts(h) is None:
        return ENGINES[_IK]
    return ENGINES[_OLLAMA if h.in_ollama_store else _LLAMA_CPP]


def engines_for(h: Hyperparameters) -> list[Engine]:
    """Return the engines that can load a model's files.

    One that does not know all of its plan is left out where llama.cpp loads the same file.
    """
    found = [engine for engine in ENGINES.values() if engine.accepts(h) is None]
    is_known = not isinstance(h.llama_cpp, str)
    return [engine for engine in found if not (engine.unknown and is_known)]
