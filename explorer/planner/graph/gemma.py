"""Compute graph of the gemma family (planner.md section 5).

Source: Ollama, fs/ggml/ggml.go, `GraphSize`, case "gemma", "gemma2", "gemma3", "gemma3n".
"""

from __future__ import annotations

from typing import Final

from explorer.planner.graph.row import row
from explorer.planner.graph.symbols import Symbols

_FULL: Final = "max(b * (E + V), b * (2 + C + C * H + 2 * E + 2 * Dk * H))"
_PARTIAL: Final = (
    "max(b * E + E * V * 105 // 128 + b * V,"
    " b * (2 * E + 1 + 2 * Dk * H + C + C * H) + 4 * Dk * C * 8 + E * Dk * H * 9 // 16)"
)
_GEMMA3N: Final = 4  # for its per-layer inputs


@row("gemma", full=_FULL, partial=_PARTIAL)
def gemma(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of gemma, gemma2 and gemma3.

    Full = max(b(E+V), b(2+C+C·H+2E+2·Dk·H));
    Partial = max(b·E+105EV+b·V, b(2E+1+2·Dk·H+C+C·H) + 4·Dk·C·8 + E·Dk·H·9//16).
    The 8 is a literal of the source, not K.
    """
    return _gemma(s)


@row("gemma3n", full=f"4 * {_FULL}", partial=f"4 * {_PARTIAL}")
def gemma3n(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of gemma3n, four times those of gemma."""
    full, partial = _gemma(s)
    return _GEMMA3N * full, _GEMMA3N * partial


def _gemma(s: Symbols) -> tuple[int, int]:
    b, C, Dk, E, H, V = s.b, s.C, s.Dk, s.E, s.H, s.V
    full = max(b * (E + V), b * (2 + C + C * H + 2 * E + 2 * Dk * H))
    partial = max(
        b * E + E * V * 105 // 128 + b * V,
        b * (2 * E + 1 + 2 * Dk * H + C + C * H) + 4 * Dk * C * 8 + E * Dk * H * 9 // 16,
    )
    return full, partial
