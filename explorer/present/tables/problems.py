"""The table of what is wrong with a model or a store."""

from __future__ import annotations

from typing import Final

from explorer.formats.model import Problem, Severity
from explorer.present.model import mark
from explorer.present.tables.table import TEXT, Column, Table

_TONES: Final = {Severity.ERROR: "bad", Severity.WARNING: "warn"}
_SEVERITY: Final = "Error: data is lost or wrong. Warning: a rule is broken."

PROBLEMS: Final = Table[Problem](
    Column(
        *("severity", "Severity", TEXT, _SEVERITY),
        lambda problem: str(problem.severity),
        text=lambda problem: f"{mark(problem.severity)} {problem.severity}",
        tone=lambda problem: _TONES[problem.severity],
    ),
    Column("where", "Where", TEXT, "The file, key or tensor at fault."),
    Column("what", "What", TEXT, "What is wrong, in a sentence."),
    title="Problems",
)
