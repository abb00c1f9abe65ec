"""What a spreadsheet does with a cell."""

from __future__ import annotations

_BEGINNINGS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def is_formula(cell: str) -> bool:
    """Tell whether a spreadsheet would run a cell of a CSV file; a number is not a formula."""
    if not cell.lstrip("\ufeff\u200b \t\r\n").startswith(_BEGINNINGS):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False
