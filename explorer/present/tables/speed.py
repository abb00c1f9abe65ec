"""The column of how fast something is, the same in every table that has it."""

from __future__ import annotations

from typing import Any, Final

from explorer.present.speed import SPEED_TIP, Speed
from explorer.present.tables.table import INTEGER, Column


def _most(row: Any) -> int | None:
    return round(row.speed.most) if isinstance(row.speed, Speed) else None


def _brief(row: Any) -> str:
    return row.speed.brief if isinstance(row.speed, Speed) else ""


SPEED: Final = Column[Any]("speed", "Tokens/s", INTEGER, SPEED_TIP, _most, text=_brief)
"""Tokens a second of rows that have a `speed`: a `Speed`, or why it is not known, or None."""
