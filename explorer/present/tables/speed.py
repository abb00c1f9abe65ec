"""The column of how fast something is, the same in every table that has it."""

from __future__ import annotations

from typing import Any, Final

from explorer.present.tables.table import INTEGER, Column

SPEED_TIP: Final = (
    "What published runs of llama.cpp reached of what the bandwidth of each memory allows: 40 to "
    "95 %, with experts 25 to 60 %. The planner's Details have the bandwidths."
)


def _most(row: Any) -> int | None:
    return round(row.speed.most) if _is_known(row) else None


def _brief(row: Any) -> str:
    return row.speed.brief if _is_known(row) else ""


def _is_known(row: Any) -> bool:
    return row.speed is not None and not isinstance(row.speed, str)


SPEED: Final = Column[Any]("speed", "Tokens/s", INTEGER, SPEED_TIP, _most, text=_brief)
"""Tokens a second of rows that have a `speed`: a `Speed`, or why it is not known, or None."""
