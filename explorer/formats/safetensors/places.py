"""Whether the tensors of a safetensors file lie where they may: rules 7, 10 and 11.

The official library refuses a file that breaks one. Here it still opens, so that one can see what
is left of an interrupted download: each broken rule is a problem, and a tensor whose own bytes are
not all there, or not as many as its shape takes, is damaged and cannot be read.
"""

from __future__ import annotations

import operator

import numpy as np

from explorer.formats.bounded_json import shorten
from explorer.formats.model import Severity
from explorer.formats.problems import ProblemLog
from explorer.formats.safetensors.entry import Header


def sort_and_check(
    header: Header, available: int, file_name: str, log: ProblemLog
) -> dict[int, str]:
    """Put the tensors into the order of their data and check that they cover it exactly.

    Args:
        header: The header; its rows are reordered.
        available: Bytes of the data region that the file has.
        file_name: What to call the file in problems.
        log: Where problems go.

    Returns:
        For each damaged row, why its bytes cannot all be read.
    """
    if not _tiled(header):
        places = [np.array(column, dtype=np.uint64) for column in (header.ends, header.begins)]
        header.reorder(np.lexsort(places).tolist())
    whole = header.ends[-1] if header.ends else 0
    if _tiled(header) and whole == available and _sizes_fit(header):
        return {}
    return _Places(header, available, file_name, log).check()


def _tiled(header: Header) -> bool:
    """Tell whether each row begins where the row before ends."""
    begins = header.begins
    return not begins or (begins[0] == 0 and begins[1:] == header.ends[:-1])


def _sizes_fit(header: Header) -> bool:
    sizes = list(map(operator.sub, header.ends, header.begins))
    return sizes == [spec.nbytes for spec in header.specs]


class _Places:
    """Names what is wrong with places, one row after the other."""

    def __init__(self, header: Header, available: int, file_name: str, log: ProblemLog) -> None:
        self._header = header
        self._available = available
        self._file_name = file_name
        self._log = log
        self._damage: dict[int, str] = {}

    def check(self) -> dict[int, str]:
        """Check all rows; see `sort_and_check`."""
        header = self._header
        covered, owner = 0, -1  # end of what the rows so far cover, and the row that reaches it
        incomplete = []
        places = zip(header.specs, header.begins, header.ends, strict=True)
        for row, (spec, begin, end) in enumerate(places):
            if end - begin != spec.nbytes:
                self._damage[row] = (
                    f"its place has {end - begin} bytes, its shape and type take {spec.nbytes}"
                )
                self._error(header.names[row], self._damage[row])
            elif end > self._available:
                missing = min(spec.nbytes, end - self._available)
                self._damage[row] = f"cut short: its last {missing} bytes are not in the file"
                incomplete.append(row)
            if begin > covered:
                what = f"{begin - covered} bytes before it belong to no tensor"
                self._error(header.names[row], what)
            elif begin < covered:
                other = shorten(header.names[owner])
                self._error(header.names[row], f"shares bytes with tensor {other}, or lies in it")
            if end > covered:
                covered, owner = end, row
        self._check_end(covered, incomplete)
        return self._damage

    def _check_end(self, covered: int, incomplete: list[int]) -> None:
        missing = covered - self._available
        if missing < 0:
            self._error(
                self._file_name, f"the last {-missing} bytes of the file belong to no tensor"
            )
        elif missing > 0:
            names = ", ".join(shorten(self._header.names[row]) for row in incomplete[:3])
            more = ", …" if len(incomplete) > 3 else ""
            self._error(
                self._file_name,
                f"the file is cut short: {missing} bytes are missing, {len(incomplete)} of "
                f"{len(self._header.names)} tensors are incomplete ({names}{more}); "
                "download it again",
            )

    def _error(self, where: str, what: str) -> None:
        self._log.add(Severity.ERROR, where, what)
