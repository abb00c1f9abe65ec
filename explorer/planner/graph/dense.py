"""Compute graphs of the other families with a row of their own (planner.md section 5).

Source: Ollama, fs/ggml/ggml.go, `GraphSize`, cases "command-r", "qwen2", "phi2", "stablelm",
"deepseek2" and "chatglm". All divisions are integer, from left to right.
"""

from __future__ import annotations

from explorer.planner.graph.row import row
from explorer.planner.graph.symbols import Symbols


@row(
    "command-r",
    full="max(b * (E + V), b * (2 + 4 * E + C * (1 + H)))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " b * (1 + 2 * E + C * (1 + H)) + 4 * E * C + E * E * 9 // 16)",
)
def command_r(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of Command-R.

    Full = max(b(E+V), b(2+4E+C(1+H)));
    Partial = max(b(E+V)+105EV, b(1+2E+C(1+H)) + 4·E·C + E·E·9//16).
    """
    b, C, E, H, V = s.b, s.C, s.E, s.H, s.V
    full = max(b * (E + V), b * (2 + 4 * E + C * (1 + H)))
    partial = max(
        b * (E + V) + E * V * 105 // 128,
        b * (1 + 2 * E + C * (1 + H)) + 4 * E * C + E * E * 9 // 16,
    )
    return full, partial


@row(
    "qwen2",
    full="max(b * (E + V), b * (1 + 2 * E + C + C * H))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " 4 * (B * (1 + 2 * E + C * (1 + H)) + E * (1 + C)))",
)
def qwen2(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of Qwen 2 and 2.5.

    Full = max(b(E+V), b(1+2E+C+C·H));
    Partial = max(b(E+V)+105EV, 4(B(1+2E+C(1+H)) + E(1+C))).
    """
    b, B, C, E, H, V = s.b, s.B, s.C, s.E, s.H, s.V
    full = max(b * (E + V), b * (1 + 2 * E + C + C * H))
    partial = max(
        b * (E + V) + E * V * 105 // 128,
        4 * (B * (1 + 2 * E + C * (1 + H)) + E * (1 + C)),
    )
    return full, partial


@row(
    "phi2",
    full="max(b * (E + V), b * (1 + 4 * E + C + C * H))",
    partial="max(b * (2 * E + V) + E * V * 105 // 128, b * (2 + 3 * E + C + C * H))",
)
def phi2(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of Phi-2.

    Full = max(b(E+V), b(1+4E+C+C·H)); Partial = max(b(2E+V)+105EV, b(2+3E+C+C·H)).
    """
    b, C, E, H, V = s.b, s.C, s.E, s.H, s.V
    full = max(b * (E + V), b * (1 + 4 * E + C + C * H))
    partial = max(b * (2 * E + V) + E * V * 105 // 128, b * (2 + 3 * E + C + C * H))
    return full, partial


@row(
    "stablelm",
    full="b * (C * (1 + H) + 3 * E + 2)",
    partial="max(b * (V + 2 * E), b * (C * (1 + H) + 3 * E + 2))",
)
def stablelm(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of StableLM.

    Full = b(C(1+H)+3E+2); Partial = max(b(V+2E), Full).
    """
    b, C, E, H, V = s.b, s.C, s.E, s.H, s.V
    full = b * (C * (1 + H) + 3 * E + 2)
    partial = max(b * (V + 2 * E), full)
    return full, partial


@row(
    "deepseek2",
    full="max(b * (3 * E + V), b * (3 * E + 2 + C * (1 + K) + 2 * Dk * K))",
    partial="max(b * (3 * E + V) + E * V * 105 // 128,"
    " b * (2 * E + 1 + 2 * Dk * K + C + C * K) + 4 * Dk * C * K + E * Dk * K * 9 // 16)",
)
def deepseek2(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of DeepSeek V2 and V3.

    Full = max(b(3E+V), b(3E+2+C(1+K)+2·Dk·K));
    Partial = max(b(3E+V)+105EV, b(2E+1+2·Dk·K+C+C·K) + 4·Dk·C·K + E·Dk·K·9//16).
    """
    b, C, Dk, E, K, V = s.b, s.C, s.Dk, s.E, s.K, s.V
    full = max(b * (3 * E + V), b * (3 * E + 2 + C * (1 + K) + 2 * Dk * K))
    partial = max(
        b * (3 * E + V) + E * V * 105 // 128,
        b * (2 * E + 1 + 2 * Dk * K + C + C * K) + 4 * Dk * C * K + E * Dk * K * 9 // 16,
    )
    return full, partial


@row("chatglm", full="b * (E + V)", partial="b * (E + V) + E * V * 105 // 128")
def chatglm(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of ChatGLM without a fused bias: b(E+V), and b(E+V)+105EV."""
    full = s.b * (s.E + s.V)
    return full, full + s.E * s.V * 105 // 128


@row(
    "chatglm, fused bias",
    full="max(b * (E + V), b * (2 + 2 * E + C + C * H + Dk * H + S))",
    partial="max(b * (E + V) + E * V * 105 // 128,"
    " b * (1 + 2 * E + Dk * H + C + C * H) + 4 * Dk * C + 4 * C * Dk + 4 * S)",
)
def chatglm_fused_bias(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial of ChatGLM with one bias for query, key and value.

    Full = max(b(E+V), b(2+2E+C+C·H+Dk·H+S));
    Partial = max(b(E+V)+105EV, b(1+2E+Dk·H+C+C·H) + 4·Dk·C + 4·C·Dk + 4·S).
    """
    b, C, Dk, E, H, S, V = s.b, s.C, s.Dk, s.E, s.H, s.S, s.V
    full = max(b * (E + V), b * (2 + 2 * E + C + C * H + Dk * H + S))
    partial = max(
        b * (E + V) + E * V * 105 // 128,
        b * (1 + 2 * E + Dk * H + C + C * H) + 4 * Dk * C + 4 * C * Dk + 4 * S,
    )
    return full, partial
