"""The types that a what-if can ask for, in groups, and those that people usually choose from."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QCoreApplication

from explorer.analysis.rounding import rounding_types
from explorer.quantization import TENSOR_TYPES
from explorer.quantization.registry import family

USUAL_TYPES: Final = (
    *("Q4_0", "Q5_0", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "IQ4_XS", "MXFP4"),
)
"""What most files on the net are made of; all of them quick to try."""

_OTHERS: Final = "others"


def type_groups() -> list[tuple[str, tuple[str, ...]]]:
    """Return every type that weights can be rounded to, in groups with their titles."""
    titles = {
        "plain": _tr("Without codes"),
        "legacy": _tr("GGUF, simple"),
        "k_quants": _tr("GGUF, K"),
        "iq": _tr("GGUF, I"),
        "ternary": _tr("GGUF, ternary"),
        "microscaling": _tr("GGUF, microscaling"),
        _OTHERS: _tr("Ollama and MLX"),
    }
    found: dict[str, list[str]] = {name: [] for name in titles}
    for name in rounding_types():
        group = family(name) if name in TENSOR_TYPES else _OTHERS
        found["iq" if group == "iq4" else group].append(name)
    return [(titles[name], tuple(names)) for name, names in found.items() if names]


def _tr(text: str) -> str:
    return QCoreApplication.translate("WhatIfTypes", text)
