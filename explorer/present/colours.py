"""Colours that carry a meaning, the same in tree, tables, charts and report.

A tensor type has the colour of its bits: warm is few, cool is many. Types of one width differ by a
pattern, one for each family. So has each use of memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from explorer.formats.structure import FieldKind

_BY_BITS: Final = (  # least bits of a code, the colour
    (32, "#8a94a0"),
    (16, "#3e9c9c"),
    (8, "#2f6db3"),
    (6, "#6a63be"),
    (5, "#9a4c95"),
    (4, "#c95d63"),
    (3, "#e58a3c"),
    (0, "#f2c14e"),
)
_BITS: Final = re.compile(r"\d+")
_NAMED: Final[Mapping[str, int]] = MappingProxyType({"BOOL": 8, "bitnet": 2})  # no digit, the bits
_UNKNOWN: Final = 32


class Pattern(StrEnum):
    """What is drawn over a colour, to tell families of one width apart."""

    PLAIN = "plain"
    DOTS = "dots"
    DIAGONAL = "diagonal"
    CROSS = "cross"
    LINES = "lines"


MEMORY_COLOURS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "weights": "#2f6db3",
        "kv_cache": "#e58a3c",
        "graph": "#6a63be",
        "projector": "#3e9c9c",
        "draft": "#b4557f",
        "adapters": "#7d8c3c",
        "reserved": "#8a94a0",
    }
)
"""The colours of uses of memory by `present.plan.Kind`, whose module loads the planner.

What is free has none.
"""


CPU_COLOUR: Final = "#8a94a0"
"""What lies on no GPU."""

LAYER_COLOURS: Final = ("#3e9c9c", "#2b7373")
"""Colours of layers, in turn, so that each is seen."""

OTHERS_COLOUR: Final = "#8a94a0"
"""What has no part of its own."""

# A tint lies behind text, so it stays close to the base colour: every one leaves the palette's text
# at 4.5 : 1 or better (WCAG 2.2, 1.4.3), which a test measures. Tints alone need not distinguish
# fourteen kinds: the legend and the line below the bytes give the name.
#
# Found by a search for colours that stay apart for every kind of colour vision and stay near one
# hue for a kind in both schemes. Lightness counts as much as hue: protan and deutan eyes have
# little else. The nearest two are 9 (light) and 12 (dark) apart in CIELAB, seen with any of the
# three dichromacies; colours that differed in hue alone were 0.3 apart. Weights fill most of a file
# and stay quiet. Each in light, dark:
FIELD_TINTS: Final[Mapping[FieldKind, tuple[str, str]]] = MappingProxyType(
    {
        FieldKind.MAGIC: ("#a396ee", "#5329a3"),
        FieldKind.VERSION: ("#ee969c", "#a5275b"),
        FieldKind.COUNT: ("#eebf96", "#6f631c"),
        FieldKind.LENGTH: ("#dfc4bc", "#311e12"),
        FieldKind.KEY: ("#9ad5ef", "#32529a"),
        FieldKind.TYPE: ("#e79dc7", "#57144c"),
        FieldKind.VALUE: ("#d6f4c2", "#384310"),
        FieldKind.NAME: ("#9ab1eb", "#221865"),
        FieldKind.DIMS: ("#bdf4db", "#1a6e6a"),
        FieldKind.OFFSET: ("#edec96", "#58693f"),
        FieldKind.HEADER_TEXT: ("#d6f4c2", "#384310"),
        FieldKind.TENSOR_DATA: ("#e1e3ef", "#274943"),
    }
)


_FAMILIES: Final = (
    (re.compile(r"I?F\d|BF\d|[IUC]\d|Q\d_K|BOOL"), Pattern.PLAIN),  # plain numbers and K-quants
    (re.compile(r"T?Q\d"), Pattern.DOTS),  # one scale for a short block
    (re.compile(r"IQ\d"), Pattern.DIAGONAL),
    (re.compile(r"(?i)(MX|NV)FP\d"), Pattern.CROSS),
)


def type_bits(name: str) -> int:
    """Return the bits of a code of a type by its name: 4 for Q4_K, 16 for BF16, 4 for gptq4."""
    found = _BITS.search(name)
    return int(found[0]) if found and len(found[0]) < 3 else _NAMED.get(name, _UNKNOWN)


def type_colour(name: str) -> str:
    """Return the colour of a tensor type, ``"#rrggbb"``."""
    bits = type_bits(name)
    return next(colour for least, colour in _BY_BITS if bits >= least)


def type_pattern(name: str) -> Pattern:
    """Return the pattern of a type's family; schemes of Hugging Face and MLX have lines."""
    found = (pattern for family, pattern in _FAMILIES if family.match(name))
    return next(found, Pattern.LINES)
