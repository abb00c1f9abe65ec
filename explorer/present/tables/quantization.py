"""The table of what a model's configuration declares, beside what its keys and shapes say."""

from __future__ import annotations

from typing import Any

from explorer.formats.model import Severity
from explorer.present.model import mark
from explorer.present.quantization import DeclaredLine, DeclaredQuantization
from explorer.present.tables.table import TEXT, YES_NO, Column, Table
from explorer.text import UNKNOWN


def _found(line: DeclaredLine) -> str:
    found = line.found or UNKNOWN
    return f"{mark(Severity.WARNING)} {found}" if line.differs else found


def declared_table(found: DeclaredQuantization) -> Table[DeclaredLine]:
    """Return the table of a model's quantization."""
    declared = f"Declared in {found.origin}" if found.origin else "Declared"
    return Table(
        Column(
            *("name", "Property", TEXT, "What is declared, or found."), text=lambda line: line.label
        ),
        Column(
            *("declared", declared, TEXT, "What the configuration says, as it is written."),
            blank=UNKNOWN,
        ),
        Column(
            *("found", "Keys and shapes", TEXT, "What the stored parts say: it decides."),
            text=_found,
            tone=lambda line: "warn" if line.differs else "",
        ),
        Column("differs", "Differs", YES_NO, "Whether the two contradict.", extra=True),
        title="Quantization",
    )


def declared_record(found: DeclaredQuantization) -> dict[str, Any]:
    """Return what JSON says of a model's quantization."""
    lines = [declared_table(found).record(line) for line in found.lines]
    return {"origin": found.origin or None, "lines": lines, "left_alone": dict(found.left_alone)}
