"""What plans of a folder share, whichever program loads it: how sure they are, shares and sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner.folder import Folder
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plan import (
    Accuracy,
    Details,
    Effective,
    Engine,
    Holding,
    Plan,
    Term,
    Verdict,
    term,
)
from explorer.planner.request import PlanRequest
from explorer.text import integer_text

TERM_NAMES: Final = MappingProxyType(
    {"cache": "kv_cache", "compute": "graph", "reserve": "reserved"}
)
"""Part of a holding → the name of its figure."""

_FIGURES: Final = ("weights", "kv_cache", "graph", "reserved", "total")


def accepted(engine: Engine, h: Hyperparameters, folder: Folder | None) -> Folder:
    """Return the folder that an engine loads; raise `PlanError` where it refuses the model."""
    refusal = engine.accepts(h)
    if refusal is not None or folder is None:
        raise PlanError("" if refusal is None else refusal.why)
    return folder


@dataclass(frozen=True)
class FolderDetails(Details):
    """What an engine works out of a folder's headers."""

    request: PlanRequest
    folder: Folder

    @property
    def effective(self) -> Mapping[str, Effective]:
        """Setting → the value that holds."""
        raise NotImplementedError

    @property
    def holdings(self) -> tuple[Holding, ...]:
        """One for each GPU, the last for main memory."""
        raise NotImplementedError

    @property
    def verdict(self) -> Verdict:
        raise NotImplementedError

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know."""
        raise NotImplementedError

    def warnings(self) -> Iterator[str]:
        """Yield what makes the figures doubtful."""
        raise NotImplementedError

    def beyond_training(self, context: int) -> Iterator[str]:
        """Yield a warning of a context that is longer than the model was trained for."""
        most = self.folder.number("max_position_embeddings", default=0)
        if 0 < most < context:
            yield (
                f"the model was trained for {integer_text(most)} tokens. The program takes "
                f"{integer_text(context)}, but answers get worse beyond"
            )

    def plan(self, engine: Engine, cache: int, cells: int) -> Plan:
        """Return the plan.

        Args:
            cache: Bytes of the cache.
            cells: Tokens that it holds.
        """
        return Plan(
            engine=engine,
            request=self.request,
            effective=self.effective,
            holdings=self.holdings,
            verdict=self.verdict,
            cache=cache,
            cells=cells,
            details=self,
            notes=tuple(self.notes()),
            warnings=(*self.request.h.warnings, *self.warnings()),
        )

    @property
    def accuracy(self) -> Accuracy:
        """Weights and cache are exact, the rest is a range; both only where runs confirm them."""
        return Accuracy.BAND if self.folder.is_confirmed else Accuracy.ESTIMATE

    def equal_shares(self, cache: int) -> list[int]:
        """Return an equal part of the cache for each layer."""
        share, rest = divmod(cache, self.folder.layers)
        return [share + (i < rest) for i in range(self.folder.layers)]


def graph_record(compute: int) -> dict[str, Any]:
    """Return the object `graph` of docs/interface.md; such programs have one figure."""
    return {"partial": None, "full": compute, "used": "full"}


def host_terms() -> Iterator[Term]:
    """Yield the figures of main memory, which holds nothing."""
    for name in _FIGURES:
        yield term(f"cpu.{name}", 0, "0")


def total_term(held: Holding) -> Term:
    """Return the sum of what a memory holds."""
    parts = {"weights": held.weights, "kv_cache": held.cache, "graph": held.compute.high}
    inputs = {name: (size, f"{held.place}.{name}") for name, size in parts.items()}
    return term(f"{held.place}.total", held.total, " + ".join(inputs), **inputs)
