"""Compute graph of gpt-oss (planner.md section 5).

Source: Ollama, fs/ggml/ggml.go, `GraphSize`, case "gptoss", "gpt-oss". Full is 0, so that the
fallback copies Partial.
"""

from __future__ import annotations

from typing import Final

from explorer.planner.graph.row import row
from explorer.planner.graph.symbols import Symbols

_MIB: Final = 1 << 20


@row("gptoss", full="0", partial="2 * H // (Kmin or 1) * KVdefault // 6")
def gptoss(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial without flash attention.

    Partial = (2·H // (Kmin or 1)) · KVdefault // 6, where the sum is that of every block at full
    context, not of the replaced list.
    """
    return 0, 2 * s.H // (s.Kmin or 1) * s.KVdefault // 6


@row("gptoss, flash attention", full="0", partial="(4 * Np + C // 1024 + 110) * 1048576")
def gptoss_flash_attention(s: Symbols) -> tuple[int, int]:
    """Return Full and Partial with flash attention; Partial = (4·Np + C // 1024 + 110) MiB."""
    return 0, (4 * s.Np + s.C // 1024 + 110) * _MIB
