"""The table of a log beside the plan."""

from __future__ import annotations

from typing import Final

from explorer.planner.logs.comparison import Residual
from explorer.present.measured import difference_text, measured_text, planned_text, term_text
from explorer.present.tables.table import BYTES, Column, Table

_LOGGED: Final = "What the log gives, mostly rounded to hundredths of a MiB or a GiB."
_MORE: Final = "Measured less planned. None within what the log rounds."
_PLANNED: Final = "The plan that is made with the log's settings."

MEASURED: Final = Table[Residual](
    Column("what", "Term", tip="What the bytes are for, and where they are.", of=term_text),
    Column("planned", "Planned", BYTES, _PLANNED, text=planned_text),
    Column("measured", "Measured", BYTES, _LOGGED, text=measured_text),
    Column("difference", "Difference", BYTES, _MORE, text=difference_text),
    title="Measured beside planned",
)
