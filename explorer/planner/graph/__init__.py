"""Sizes of the compute graph: a formula for each family of architectures, and the fallback."""

from explorer.planner.graph.families import row_for
from explorer.planner.graph.row import Row
from explorer.planner.graph.size import GraphSize, graph_size
from explorer.planner.graph.symbols import Symbols

__all__ = ["GraphSize", "Row", "Symbols", "graph_size", "row_for"]
