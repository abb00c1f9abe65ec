"""ik_llama.cpp: weights and cache where it puts them; its compute buffers are not known.

docs/planner.md, section 21. Source: ik_llama.cpp at 8337e4cd (`src/llama-load-tensors.cpp`,
`llama_kv_cache_init` in `src/llama.cpp`; read, not run). Layers lie as llama.cpp puts them. Windows
are not used to store less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner import settings as known
from explorer.planner.attachments import check_together
from explorer.planner.engines.llama_cpp.allocation import Settings, allocate
from explorer.planner.engines.llama_cpp.engine import split_over
from explorer.planner.engines.llama_cpp.outcome import Outcome
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import Accuracy, Effective, Engine, Holding, Level, Plan, Range, Verdict
from explorer.planner.request import PlanRequest
from explorer.text import AtLeast

_COMPUTE: Final = "compute buffers"
_LATENT: Final = frozenset({"deepseek2", "glm-dsa", "mistral4", "bailingmoe3"})


class IkLlamaCpp(Engine):
    """`llama-server` of ik_llama.cpp."""

    name = "ik_llama.cpp"
    title = "ik_llama.cpp: weights and KV cache"
    short_title = "ik_llama.cpp"
    rule = "ik_llama.cpp puts all layers on GPUs unless you say how many"
    settings = (
        *(known.CONTEXT, known.KV_CACHE_TYPE, known.CACHE_TYPE_K, known.CACHE_TYPE_V),
        *(known.NUM_GPU, known.TENSOR_SPLIT, known.CPU_MOE_LAYERS, known.RESERVE),
    )

    def unknown(self, h: Hyperparameters) -> str:
        """Return its compute buffers, of every model."""
        del h
        return f"its {_COMPUTE}"

    def refusal(self, h: Hyperparameters) -> str:
        """Refuse what it does not load, and architectures whose cache follows rules of its own."""
        header = h.ik_llama_cpp
        if isinstance(header, str):
            return header
        is_plain = header.mla == (header.architecture in _LATENT)
        odd = (*header.recurrent, *header.index_lengths, *header.compression, *header.history)
        if is_plain and not any(odd):
            return ""
        return "what ik_llama.cpp caches of this architecture is not known here"

    def plan(self, request: PlanRequest) -> Plan:
        """Lay out weights and cache, all layers on GPUs unless fewer are asked for."""
        refusal, header = self.refusal(request.h), request.h.ik_llama_cpp
        if refusal or isinstance(header, str):
            raise PlanError(refusal)
        asked, devices = request.settings, request.devices
        layers = header.blocks + 1 if asked.num_gpu is None else asked.num_gpu
        settings = Settings(
            context=asked.context or header.trained_context,
            parallel=1,
            kv_unified=True,
            gpu_layers=layers if 0 <= layers <= header.blocks else header.blocks + 1,
            type_k=asked.cache_type_k or asked.kv_cache_type or "f16",
            type_v=asked.cache_type_v or asked.kv_cache_type or "f16",
            devices=len(devices),
            tensor_split=split_over(devices, asked.tensor_split) if len(devices) > 1 else None,
            cpu_moe_layers=min(asked.cpu_moe_layers or 0, header.blocks),
            swa_full=True,
        )
        check_together(header, request.attached)
        outcome = _Outcome(
            request=request,
            header=header,
            settings=settings,
            allocation=allocate(header, settings, with_compute=False),
            decision=None,
            devices=devices,
            context_was_open=not asked.context,
        )
        return outcome.plan(self, outcome.effective, outcome.notes())


IK_LLAMA_CPP: Final = IkLlamaCpp()


@dataclass(frozen=True)
class _Outcome(Outcome):
    """What ik_llama.cpp holds, without its compute buffers."""

    accuracy = Accuracy.ESTIMATE
    choice = None  # type: ignore[assignment] # it chooses nothing
    split_mode = "layer"

    @cached_property
    def holdings(self) -> tuple[Holding, ...]:
        """What each GPU holds, and last main memory, with compute buffers of unknown size."""
        unknown = Range(0, AtLeast(0))
        held = super().holdings
        return tuple(replace(one, compute=unknown if one.is_used else one.compute) for one in held)

    @cached_property
    def verdict(self) -> Verdict:
        """Say that it does not fit where weights and cache do not, else that it may."""
        found = super().verdict
        if found.short:
            return replace(found, is_exact=False)
        return replace(found, level=Level.PARTLY, is_exact=False, depends_on=f"its {_COMPUTE}")

    @property
    def effective(self) -> dict[str, Effective]:
        """Setting → the value that holds."""
        settings = self.settings
        origin = "the length of training" if self.context_was_open else ""
        return {
            "context": Effective(self.allocation.n_ctx, origin=origin),
            "parallel": Effective(1),
            "kv_cache_type": Effective("/".join(dict.fromkeys((settings.type_k, settings.type_v)))),
            "cache_type_k": Effective(settings.type_k),
            "cache_type_v": Effective(settings.type_v),
            "num_gpu": Effective(self.gpu_layers),
            "tensor_split": Effective(tuple(len(held.layers) for held in self.gpus)),
            "cpu_moe_layers": Effective(len(self.expert_layers)),
            "reserve": Effective(self.largest_reserve),
        }

    def compute_origin(self, name: str) -> str:
        """Say that nothing is known of a compute buffer."""
        return f"not known: what ik_llama.cpp computes with on {name} is not counted"

    def _arguments(self) -> Iterator[tuple[str, ...]]:
        settings = self.settings
        yield "--ctx-size", str(self.allocation.n_ctx)
        yield "--cache-type-k", settings.type_k
        yield "--cache-type-v", settings.type_v
        if self.devices:
            yield from self._placement()

    def record(self) -> dict[str, Any]:
        """Return the object `llama_cpp` of docs/interface.md, without figures of compute."""
        return super().record() | {"graph": {"partial": None, "full": None, "used": "full"}}

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know."""
        yield f"{_COMPUTE} are not known here, and in no total"
        yield from self.reserve_notes()
