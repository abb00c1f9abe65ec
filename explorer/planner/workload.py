"""What the formulas take besides the model: the effective settings that change sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner.checks import MAX_COUNT, whole

DEFAULT_CONTEXT: Final = 4096
DEFAULT_BATCH: Final = 512
MAX_PARALLEL: Final = 1 << 20

BYTES_PER_ELEMENT: Final[Mapping[str, float]] = MappingProxyType(
    {"f32": 4, "f16": 2, "q8_0": 1, "q4_0": 0.5}
)
"""P, as Ollama counts; the scales of quantized types (34/32, 18/32 bytes) are left out there."""

_OTHER_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Workload:
    """Effective settings.

    Attributes:
        context: Tokens of each sequence.
        parallel: Sequences at a time (Np).
        batch: Tokens computed at a time (B).
        kv_cache_type: Type of the cache's elements; an unknown one counts 2 bytes.
        flash_attention: Whether it is on.
    """

    context: int = DEFAULT_CONTEXT
    parallel: int = 1
    batch: int = DEFAULT_BATCH
    kv_cache_type: str = "f16"
    flash_attention: bool = False

    def __post_init__(self) -> None:
        whole(self.context, "context", MAX_COUNT)
        whole(self.parallel, "parallel", MAX_PARALLEL)
        whole(self.batch, "batch", MAX_COUNT)
        if not isinstance(self.kv_cache_type, str):
            raise PlanError("the KV cache type is no text; use f16, q8_0 or q4_0")

    @classmethod
    def of(cls, settings: Any) -> Workload:
        """Take the settings as they are; of those left open (None), Ollama's defaults.

        Args:
            settings: `Settings`, `EffectiveSettings`, or anything with their attributes.
        """
        given = {
            name: value
            for name in cls.__dataclass_fields__
            if (value := getattr(settings, name, None)) is not None
        }
        return cls(**given)

    @property
    def cells(self) -> int:
        """C, the cache's tokens: context × parallel."""
        return self.context * self.parallel

    @property
    def bytes_per_element(self) -> float:
        """P, bytes of one element of the cache."""
        return BYTES_PER_ELEMENT.get(self.kv_cache_type, _OTHER_BYTES)

    def for_loading(self, *, embedding_model: bool) -> Workload:
        """Apply the one rule of loading: an embedding model's batch holds the whole context."""
        if not embedding_model or self.batch >= self.context:
            return self
        return Workload(
            self.context, self.parallel, self.context, self.kv_cache_type, self.flash_attention
        )
