"""Profile `ollama-graphsize`: the estimator of Ollama 0.12.11 to 0.13.3, to the byte."""

from __future__ import annotations

from typing import Final

from explorer.planner.layout import lay_out
from explorer.planner.notes import graphsize_notes, graphsize_warnings
from explorer.planner.result import Plan, PlanRequest
from explorer.planner.settings import effective_settings


class GraphSizeProfile:
    """Formulas of each architecture, and a layout of the layers."""

    name: Final = "ollama-graphsize"
    title: Final = "Ollama 0.12.11 to 0.13.3: estimate and layout of layers"

    def plan(self, request: PlanRequest) -> Plan:
        """Make a plan.

        Raises:
            PlanError: The model cannot be planned, or Ollama would refuse to load it.
        """
        h = request.h
        effective = effective_settings(
            h, request.settings, request.devices, request.environment, server_rules=True
        )
        layout = lay_out(
            h,
            effective,
            request.devices,
            host=request.host,
            num_gpu=effective.num_gpu,
            require_full=effective.require_full,
            overhead=effective.overhead,
            spread=effective.spread,
            projector=effective.projector_bytes,
        )
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
