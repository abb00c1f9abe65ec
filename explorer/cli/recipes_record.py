"""What `inspect --recipe` says, as JSON."""

from __future__ import annotations

from typing import Any

from explorer.analysis.recipes import (
    RULES_SOURCE,
    Deviation,
    RecipeFit,
    compare_with_recipes,
    declared_recipe,
    type_mix,
    verdict,
    why_no_recipe,
)
from explorer.formats import Model


def recipes_record(model: Model) -> dict[str, Any]:
    """Return the type mix by role, and how well each recipe of llama-quantize agrees with it."""
    fits = compare_with_recipes(model)
    return {
        "declared": declared_recipe(model),
        "verdict": verdict(model, fits),
        "not_applicable": why_no_recipe(model),
        "rules": RULES_SOURCE,
        "fits": [_fit_record(fit) for fit in fits],
        "type_mix": [
            {
                "role": row.role,
                "type": row.type,
                "tensors": row.tensors,
                "parameters": row.parameters,
                "bytes": row.nbytes,
                "bits_per_weight": row.bits_per_weight,
            }
            for row in type_mix(model)
        ],
    }


def _fit_record(fit: RecipeFit) -> dict[str, Any]:
    return {
        "recipe": fit.recipe,
        "declared": fit.declared,
        "share": fit.share,
        "agreeing": fit.agreeing,
        "parameters": fit.parameters,
        "bytes": fit.nbytes,
        "revision": fit.revision.name,
        "imatrix": fit.imatrix,
        "deviations": [_deviation_record(one) for one in fit.deviations],
    }


def _deviation_record(one: Deviation) -> dict[str, Any]:
    return {
        "role": one.role,
        "expected": one.expected,
        "present": one.present,
        "layers": list(one.layers),
        "tensors": one.tensors,
        "parameters": one.parameters,
    }
