"""Memory against context for each type of the KV cache: many plans, made in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.planner import Hyperparameters
from explorer.planner.inputs import PlanInputs, make_outcome
from explorer.planner.kv_cache import BYTES_PER_ELEMENT
from explorer.qt.models.planner.stops import Stops, context_stops

CACHE_TYPES: Final = tuple(BYTES_PER_ELEMENT)
"""The types of the slider, the largest first."""

_EVERY: Final = 4  # of the slider's stops, of which it has 16 in an octave


@dataclass(frozen=True)
class Curve:
    """The memory of one cache type.

    Attributes:
        cache_type: The type that is asked for.
        effective_type: The type that holds.
        contexts: Tokens, int64 [n], rising.
        totals: Bytes in all, as `plan` gives them, int64 [n]; -1 where there is no plan.
        fits: Whether all layers are on GPUs, bool [n].
    """

    cache_type: str
    effective_type: str
    contexts: NDArray[np.int64]
    totals: NDArray[np.int64]
    fits: NDArray[np.bool_]


@dataclass(frozen=True)
class Curves:
    """All curves of one model and machine.

    Attributes:
        curves: One for each type.
        vram: Free bytes of all GPUs.
    """

    curves: tuple[Curve, ...]
    vram: int


def curve_contexts(trained: int) -> tuple[int, ...]:
    """Return the contexts of a curve: up to the trained one, which is the last."""
    stops: Stops = context_stops(trained)
    some = [value for value in stops.values[::_EVERY] if not trained or value < trained]
    return (*some, trained) if trained else tuple(some)


def curves_key(h: Hyperparameters, inputs: PlanInputs) -> tuple[Any, ...]:
    """Return what curves depend on: all but the context and the cache type."""
    return id(h), inputs.with_settings(context=None, kv_cache_type=None)


def make_curves(
    h: Hyperparameters,
    inputs: PlanInputs,
    environment: Mapping[str, str],
    check: Callable[[], None],
) -> Curves:
    """Plan each type at each context. For a worker: about 200 plans.

    Args:
        h: The model.
        inputs: The other settings and the machine.
        environment: Ollama's environment variables.
        check: Called before each plan; raises to stop.
    """
    contexts = curve_contexts(h.trained_context)
    curves = []
    for name in CACHE_TYPES:
        totals, fits, effective = [], [], name
        for context in contexts:
            check()
            asked = inputs.with_settings(context=context, kv_cache_type=name)
            plan = make_outcome(h, asked, environment).plan
            totals.append(-1 if plan is None else plan.total)
            fits.append(plan is not None and plan.fully_offloaded)
            if plan is not None:
                effective = plan.effective.kv_cache_type
        curves.append(
            Curve(
                name,
                effective,
                np.array(contexts, np.int64),
                np.array(totals, np.int64),
                np.array(fits, np.bool_),
            )
        )
    return Curves(tuple(curves), sum(device.free for device in inputs.devices))
