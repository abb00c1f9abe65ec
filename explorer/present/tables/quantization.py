"""The table of what a model's configuration declares, beside what its keys and shapes say."""

from __future__ import annotations

from typing import Any, Final

from explorer.formats.model import Severity
from explorer.present.model import mark
from explorer.present.quantization import SaidLine, SaidQuantization
from explorer.present.tables.table import TEXT, YES_NO, Column, Table

_BLANK: Final = "—"


def _found(line: SaidLine) -> str:
    found = line.found or _BLANK
    return f"{mark(Severity.WARNING)} {found}" if line.differs else found


def said_table(said: SaidQuantization) -> Table[SaidLine]:
    """Return the table of a model's quantization."""
    declared = f"Declared in {said.origin}" if said.origin else "Declared"
    return Table(
        Column(
            *("name", "Property", TEXT, "What is declared, or found."), text=lambda line: line.label
        ),
        Column(
            *("declared", declared, TEXT, "What the configuration says, as it is written."),
            blank=_BLANK,
        ),
        Column(
            *("found", "Keys and shapes", TEXT, "What the stored parts say: it decides."),
            text=_found,
            tone=lambda line: "warn" if line.differs else "",
        ),
        Column("differs", "Differs", YES_NO, "Whether the two contradict.", extra=True),
        title="Quantization",
    )


def said_record(said: SaidQuantization) -> dict[str, Any]:
    """Return what JSON says of a model's quantization."""
    lines = [said_table(said).record(line) for line in said.lines]
    return {"origin": said.origin or None, "lines": lines, "left_alone": dict(said.left_alone)}
