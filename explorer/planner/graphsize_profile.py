"""Profile `ollama-graphsize`: the estimator of Ollama 0.12.11 to 0.13.3, to the byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from explorer.planner.fitting import Trace
from explorer.planner.layout import Layout, lay_out
from explorer.planner.notes import graphsize_notes, graphsize_warnings
from explorer.planner.result import Plan, PlanRequest
from explorer.planner.settings import EffectiveSettings, effective_settings


class GraphSizeProfile:
    """Formulas of each architecture, and a layout of the layers."""

    name: Final = "ollama-graphsize"
    title: Final = "Ollama 0.12.11 to 0.13.3: estimate and layout of layers"

    def plan(self, request: PlanRequest) -> Plan:
        """Make a plan.

        Raises:
            PlanError: The model cannot be planned, or Ollama would refuse to load it.
        """
        effective = effective_for(request)
        layout = layout_for(request, effective)
        return Plan(
            profile=self.name,
            request=request,
            effective=effective,
            weights=sum(layout.layer_weights),
            kv_total=layout.sizes.kv_total,
            sizes=layout.sizes,
            layout=layout,
            notes=tuple(graphsize_notes(request, effective, layout)),
            warnings=tuple(graphsize_warnings(request, layout)),
        )


def effective_for(request: PlanRequest, **changes: Any) -> EffectiveSettings:
    """Return the settings that hold in a server, of a request with some settings changed.

    Args:
        request: What is asked for.
        changes: Other values of `Settings`, by name.

    Raises:
        PlanError: A setting cannot be used.
    """
    settings = replace(request.settings, **changes)
    return effective_settings(
        request.h, settings, request.devices, request.environment, server_rules=True
    )


def layout_for(
    request: PlanRequest, effective: EffectiveSettings, trace: Trace | None = None
) -> Layout:
    """Place the layers of a request's model under the settings that hold; see `lay_out`.

    Args:
        request: The model and the machine; its own settings do not count.
        effective: The settings.
        trace: As in `lay_out`.

    Raises:
        PlanError: As in `lay_out`.
    """
    return lay_out(
        request.h,
        effective,
        request.devices,
        host=request.host,
        num_gpu=effective.num_gpu,
        require_full=effective.require_full,
        overhead=effective.overhead,
        spread=effective.spread,
        projector=effective.projector_bytes,
        trace=trace,
    )
