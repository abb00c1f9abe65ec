"""A language that nobody speaks: each translated text is marked, accented and 40 per cent longer.

What has no marks on the screen was not translated; what is cut off would be cut off in German too.
"""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QTranslator

FIRST, LAST = "⟦", "⟧"
_ACCENTS: Final = str.maketrans(
    "ACEINOSUYZaceinosuyz", "ÅÇÉÎÑÖŠÛÝŽåçéîñöšûýž"
)  # as wide as without them
_KEPT: Final = re.compile(r"\{[^}]*\}|%n|%\d|<[^>]*>|\([^)]*\*\.[^)]*\)")
_LONGER: Final = 0.4
_MARKED: Final = re.compile(f"{FIRST}[^{FIRST}{LAST}]*{LAST}")


def pseudo_text(source: str) -> str:
    """Return a text in this language; places of other texts stay."""
    parts, last = [], 0
    for kept in _KEPT.finditer(source):
        parts += [source[last : kept.start()].translate(_ACCENTS), kept[0]]
        last = kept.end()
    parts.append(source[last:].translate(_ACCENTS))
    extra = "é" * round(_LONGER * len(_KEPT.sub("", source)))
    words = " ".join(extra[at : at + 8] for at in range(0, len(extra), 8))
    return f"{FIRST}{''.join(parts)}{' ' if words else ''}{words}{LAST}"


def unmarked(text: str) -> str:
    """Return what of a text was not translated."""
    before = None
    while before != text:  # one may be inside another
        before, text = text, _MARKED.sub(" ", text)
    return text


class PseudoTranslator(QTranslator):
    """Translates everything."""

    def translate(
        self, _context: str, source: str, _disambiguation: str | None = None, _n: int = -1
    ) -> str:
        return pseudo_text(source) if source.strip() else source

    def isEmpty(self) -> bool:
        return False
