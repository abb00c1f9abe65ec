"""Which types the tensors of each role have."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.formats.model import Model
from explorer.formats.tensors import parse_name


@dataclass(frozen=True, slots=True)
class MixRow:
    """Tensors of one role and one type.

    Attributes:
        role: What they do, as their names tell: ``"ffn_down"``.
        type: Their type's name.
        tensors: How many there are.
        parameters: Their weights.
        nbytes: Their stored bytes.
    """

    role: str
    type: str
    tensors: int
    parameters: int
    nbytes: int

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight; 0.0 without weights."""
        return 8 * self.nbytes / self.parameters if self.parameters else 0.0


def type_mix(model: Model) -> list[MixRow]:
    """Return what is stored as which type, by role: the role with most bytes first.

    Works for every format; a draft model that comes along is left out, as in the model's totals.
    """
    table = model.tensors
    columns = table.columns
    sums: dict[tuple[str, str], list[int]] = {}
    by_role: dict[str, int] = {}
    for row in range(table.main_rows):
        role, kind = parse_name(columns.names[row]).role, columns.types[row].name
        nbytes = columns.nbytes[row]
        one = sums.setdefault((role, kind), [0, 0, 0])
        one[0] += 1
        one[1] += columns.parameters[row]
        one[2] += nbytes
        by_role[role] = by_role.get(role, 0) + nbytes
    rows = [MixRow(role, kind, *one) for (role, kind), one in sums.items()]
    return sorted(rows, key=lambda row: (-by_role[row.role], row.role, -row.nbytes))
