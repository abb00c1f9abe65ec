"""The planner panel: what a model needs in memory, on which devices, and why."""

from explorer.qt.views.planner.panel import PlannerView

__all__ = ["PlannerView"]
