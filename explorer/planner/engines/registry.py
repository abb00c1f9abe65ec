"""The engines by name, and which of them is the default of a model.

A new one derives from `explorer.planner.plan.Engine` and is added here; the window, the command
line, the library and the report then offer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from explorer.errors import PlanError
from explorer.planner.devices import quoted
from explorer.planner.engines.ik_llama_cpp import IK_LLAMA_CPP
from explorer.planner.engines.llama_cpp.engine import LLAMA_CPP
from explorer.planner.engines.mlx.engine import MLX
from explorer.planner.engines.mlx.ollama import OLLAMA_MLX
from explorer.planner.engines.ollama import OLLAMA
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.engines.transformers import TRANSFORMERS
from explorer.planner.engines.vllm.engine import VLLM
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plan import Engine

ENGINES: Final[Mapping[str, Engine]] = MappingProxyType(
    {
        engine.name: engine
        for engine in (
            *(LLAMA_CPP, OLLAMA, OLLAMA_MLX, VLLM, MLX, TRANSFORMERS, IK_LLAMA_CPP, OLLAMA_013),
        )
    }
)
"""The engines by name, in the order in which they are offered; the default: `default_engine`."""

_RENAMED: Final = {"ollama-0.30": OLLAMA.name}  # as earlier versions saved it


def engine_named(name: str) -> Engine:
    """Return the engine of a name; raise `PlanError` if there is none."""
    if name not in ENGINES:
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
    if h.folder is not None and h.folder.is_mlx and MLX.accepts(h) is None:
        return MLX
    if OLLAMA_MLX.accepts(h) is None:
        return OLLAMA_MLX
    if h.after_conversion:
        return OLLAMA_013 if VLLM.accepts(h) else VLLM
    if isinstance(h.llama_cpp, str) and IK_LLAMA_CPP.accepts(h) is None:
        return IK_LLAMA_CPP
    return OLLAMA if h.in_ollama_store else LLAMA_CPP


def engines_for(h: Hyperparameters) -> list[Engine]:
    """Return the engines that can load a model's files.

    One that does not know all of its plan is left out where llama.cpp loads the same file.
    """
    found = [engine for engine in ENGINES.values() if engine.accepts(h) is None]
    is_known = not isinstance(h.llama_cpp, str)
    return [engine for engine in found if not (engine.unknown and is_known)]
