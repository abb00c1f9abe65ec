"""What a view gets for each cell of the tree of downloaded models."""

from __future__ import annotations

import html
from typing import Any, Final

from PySide6.QtCore import Qt

from explorer.present.explanations import library_texts
from explorer.qt.models.library.node import LibraryColumn, Node
from explorer.qt.models.library.rows import mark, translate
from explorer.qt.models.roles import ItemRole
from explorer.qt.models.table import LEFT, RIGHT
from explorer.text import plain_text, shorten

_LONGEST_TIP: Final = 2000
_SHOWN_PROBLEMS: Final = 20
_NUMBERS: Final = frozenset({LibraryColumn.PARAMETERS, LibraryColumn.BYTES})

ANSWERED: Final = frozenset(
    map(
        int,
        (
            Qt.ItemDataRole.DisplayRole,
            Qt.ItemDataRole.TextAlignmentRole,
            Qt.ItemDataRole.ToolTipRole,
            Qt.ItemDataRole.WhatsThisRole,
            ItemRole.RAW,
            ItemRole.NODE,
        ),
    )
)
"""The roles to which `cell` has an answer."""


def cell(node: Node, column: int, role: int) -> Any:
    """Return what a cell has for one of the roles in `ANSWERED`."""
    match role:
        case Qt.ItemDataRole.DisplayRole:
            return node.cells[column]
        case Qt.ItemDataRole.TextAlignmentRole:
            return alignment(column)
        case Qt.ItemDataRole.ToolTipRole:
            return _tip(node, column)
        case Qt.ItemDataRole.WhatsThisRole:
            return column_meaning(column)
        case ItemRole.NODE:
            return node
        case _:
            return _raw(node, column)


def header_cell(column: int, role: int) -> Any:
    """Return what the header has for a role."""
    match role:
        case Qt.ItemDataRole.DisplayRole:
            return column_title(column)
        case Qt.ItemDataRole.TextAlignmentRole:
            return alignment(column)
        case Qt.ItemDataRole.ToolTipRole | Qt.ItemDataRole.WhatsThisRole:
            return column_meaning(column)
        case _:
            return None


def alignment(column: int) -> int:
    """Return how a column is aligned: numbers to the right."""
    return RIGHT if column in _NUMBERS else LEFT


def column_meaning(column: int) -> str:
    """Return what a column means."""
    return library_texts()[LibraryColumn(column).name.lower()]


def column_title(column: int) -> str:
    """Return the title of a column."""
    return (
        translate("Name"),
        translate("Architecture"),
        translate("Parameters"),
        translate("Quantization"),
        translate("Size on disk"),
        translate("Modified"),
        translate("Notes"),
    )[column]


def _raw(node: Node, column: int) -> str | int | float | None:
    match column:
        case LibraryColumn.PARAMETERS:
            return node.parameters
        case LibraryColumn.BYTES:
            return node.row.nbytes
        case LibraryColumn.MODIFIED:
            return node.row.modified
        case _:
            return node.cells[column]


def _tip(node: Node, column: int) -> str | None:
    lines: list[str] = []
    if column == LibraryColumn.NAME and node.row.path is not None:
        lines = [node.row.name or node.row.title, str(node.row.path)]
    elif column == LibraryColumn.NOTE:
        lines = [
            f"{mark(each.severity)} {each.where}: {each.what}"
            for each in node.problems[:_SHOWN_PROBLEMS]
        ]
        lines = lines or [node.note]
    text = "\n".join(shorten(plain_text(line), _LONGEST_TIP) for line in lines if line)
    # markup whose text cannot be markup: else Qt guesses which of both it is
    return f"<qt>{html.escape(text).replace(chr(10), '<br>')}</qt>" if text else None
