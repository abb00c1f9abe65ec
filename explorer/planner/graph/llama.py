"""Compute graph of llama, its mixtures of experts, and mllama (planner.md section 5).

Source: Ollama, fs/ggml/ggml.go, `GraphSize`, cases "llama", "llama4" and "mllama". All divisions
are integer, from left to right. The head length of the llama rows is D, not Dk.
"""

from __future__ import annotations

from explorer.errors import PlanError
from explorer.planner.graph.row import row
from explorer.planner.graph.symbols import Symbols


@row(
    "llama",
    full="max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))",
    partial="b * E + max(b * (1 + E + max(C, E)) + E * E * 9 // 16 + 4 * C * (B * H + D * K),"
    " b * (E + V) + E * V * 105 // 128)",
)
def llama(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of a block with one feed-forward part.

    Full = max(b(1+4E+C(1+H)), b(E+V));
    Partial = b·E + max(b(1+E+max(C,E)) + E·E·9//16 + 4C(B·H+D·K), b(E+V)+105EV).
    """
    b, B, C, D, E, H, K, V = s.b, s.B, s.C, s.D, s.E, s.H, s.K, s.V
    full = max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))
    partial = b * E + max(
        b * (1 + E + max(C, E)) + E * E * 9 // 16 + 4 * C * (B * H + D * K),
        b * (E + V) + E * V * 105 // 128,
    )
    return full, partial


@row(
    "llama, stacked experts",
    full="max(b * (1 + 4 * E + C * (1 + H)), b * (E + V))",
    partial="max(3 * G + b * (2 * FF + K + E + C + D * K),"
    " 4 * (C * B * H + C * D * K + B * 1024 + D * K * B))",
)
def stacked_experts(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial where one tensor holds the gates of all experts.

    Full as llama; Partial = max(3·G + b(2FF+K+E+C+D·K), 4(C·B·H + C·D·K + B·1024 + D·K·B)).
    """
    b, B, C, D, E, FF, G, H, K = s.b, s.B, s.C, s.D, s.E, s.FF, s.G, s.H, s.K
    full = max(b * (1 + 4 * E + C * (1 + H)), b * (E + s.V))
    partial = max(
        3 * G + b * (2 * FF + K + E + C + D * K),
        4 * (C * B * H + C * D * K + B * 1024 + D * K * B),
    )
    return full, partial


@row(
    "llama, split experts",
    full="b * (2 + 3 * E + C * (1 + H) + 2 * K + W)",
    partial="max(b * (3 + D * K + E + C * (1 + H) + W) + (E * E + 3 * E * K * W) * 9 // 16,"
    " b * (1 + 2 * E + C * (1 + H)) + E * (6 * C * K // H + E * 9 // 16))",
)
def split_experts(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial where each expert has tensors of its own.

    Full = b(2+3E+C(1+H)+2K+W); Partial = max(b(3+D·K+E+C(1+H)+W) + (E·E+3·E·K·W)·9//16,
    b(1+2E+C(1+H)) + E·(6·C·K//H + E·9//16)).

    Raises:
        PlanError: The model has no heads, by which the formula divides.
    """
    b, C, D, E, H, K, W = s.b, s.C, s.D, s.E, s.H, s.K, s.W
    if H == 0:
        raise PlanError("attention.head_count is 0, and the formula of split experts divides by it")
    full = b * (2 + 3 * E + C * (1 + H) + 2 * K + W)
    partial = max(
        b * (3 + D * K + E + C * (1 + H) + W) + (E * E + 3 * E * K * W) * 9 // 16,
        b * (1 + 2 * E + C * (1 + H)) + E * (6 * C * K // H + E * 9 // 16),
    )
    return full, partial


@row(
    "mllama",
    full="max(b * (2 + 3 * E + Dk * H + C * (1 + H)), b * (E + V))",
    partial="max(4 * (B * (2 * E + 1 + C * (1 + H) + Dk * H) + R + Dk * C * K),"
    " b * (E + V) + E * V * 105 // 128)",
)
def mllama(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of llama with cross attention to images.

    Full = max(b(2+3E+Dk·H+C(1+H)), b(E+V));
    Partial = max(4(B(2E+1+C(1+H)+Dk·H) + R + Dk·C·K), b(E+V)+105EV).
    """
    b, B, C, Dk, E, H, K, R, V = s.b, s.B, s.C, s.Dk, s.E, s.H, s.K, s.R, s.V
    full = max(b * (2 + 3 * E + Dk * H + C * (1 + H)), b * (E + V))
    partial = max(
        4 * (B * (2 * E + 1 + C * (1 + H) + Dk * H) + R + Dk * C * K),
        b * (E + V) + E * V * 105 // 128,
    )
    return full, partial
