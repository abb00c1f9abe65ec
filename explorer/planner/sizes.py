"""KV cache and compute graph of a model for given effective settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from explorer.planner.compute_graph import Row, Symbols, row_for, symbols_of
from explorer.planner.devices import sized
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.kv_cache import Workload, kv_cache

FALLBACK: Final = "H // (Kmin or 1) * KVtotal // 6"
"""Partial of a model whose row gives 0 or which has no row, as Python writes it."""


@dataclass(frozen=True, slots=True)
class GraphSize:
    """What Ollama's `GraphSize` returns, and what its loader makes of that.

    Attributes:
        kv_per_layer: Bytes of the cache of each block.
        kv_kinds: Kind of each block's cache.
        kv_total: Bytes of the whole cache.
        partial: Graph of a partial offload as the formula gives it; 0 where there is none.
        full: Graph of a full offload as the formula gives it; 0 where there is none.
        partial_resolved: The same after the fallback.
        full_resolved: The same after the fallback.
        row: The formulas used, or None.
        symbols: Values of the formulas' symbols.
        workload: The settings.
    """

    kv_per_layer: tuple[int, ...]
    kv_kinds: tuple[str, ...]
    kv_total: int
    partial: int
    full: int
    partial_resolved: int
    full_resolved: int
    row: Row | None
    symbols: Symbols
    workload: Workload


def graph_size(  # noqa: PLR0913 - the settings by name are docs/interface.md's promise
    h: Hyperparameters,
    *,
    context: int,
    parallel: int = 1,
    batch: int = 512,
    kv_cache_type: str = "f16",
    flash_attention: bool = False,
) -> GraphSize:
    """Return the sizes for settings that are effective already; no rule is applied to them.

    Args:
        h: The model.
        context: Tokens of each sequence.
        parallel: Sequences at a time.
        batch: Tokens computed at a time.
        kv_cache_type: Type of the cache's elements.
        flash_attention: Whether it is on.

    Raises:
        PlanError: A number is negative or absurd, or a size does not fit 63 bits.
    """
    return size_workload(h, Workload(context, parallel, batch, kv_cache_type, flash_attention))


def size_workload(h: Hyperparameters, workload: Workload) -> GraphSize:
    """Return `graph_size` for settings in one piece."""
    cache = kv_cache(h, workload)
    kv_total = sized(cache.total, "the KV cache")
    symbols = symbols_of(h, workload, cache)
    row = row_for(h, flash_attention=workload.flash_attention)
    full, partial = (0, 0) if row is None else row.compute(symbols)
    partial_resolved = sized(partial or fallback(symbols), "the compute graph")
    return GraphSize(
        kv_per_layer=cache.per_layer,
        kv_kinds=cache.kinds,
        kv_total=kv_total,
        partial=partial,
        full=full,
        partial_resolved=partial_resolved,
        full_resolved=sized(full or partial_resolved, "the compute graph"),
        row=row,
        symbols=symbols,
        workload=workload,
    )


def fallback(s: Symbols) -> int:
    """Return (H // (Kmin or 1)) * KVtotal // 6; source: Ollama, llm/server.go, `Load`.

    Kmin counts as 1 where a block has no key and value heads: for hybrids the estimate is large.
    """
    return s.H // (s.Kmin or 1) * s.KVtotal // 6
