"""How a quantized tensor uses its codes: what can be told of its rounding without a reference.

A weight that got the least or the greatest level of its type may have been farther out: it is
saturated. Types whose scale comes from the largest weight of a block have one such weight in every
block at least, so that the share says more between tensors of a type than between types.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.errors.figures import kernels
from explorer.analysis.splitting import Splitter, is_quantized
from explorer.formats.tensors import Tensor
from explorer.formats.weights import Fold, Stored, WeightReader, fold_parts
from explorer.parallel import Check, never


@dataclass(frozen=True, slots=True)
class CodeShares:
    """Counts of codes.

    Attributes:
        count: Number of weights.
        saturated: Weights with the least or the greatest level of the type.
        zeros: Weights whose level is 0, which is the value 0 if the type has no minimum, and
            otherwise the least value of the block.
    """

    count: int
    saturated: int
    zeros: int

    @property
    def saturated_share(self) -> float:
        """Share of saturated weights, 0 to 1; NaN of none."""
        return self.saturated / self.count if self.count else float("nan")


def code_shares(tensor: Tensor, workers: int = 1, cancel: Check | None = None) -> CodeShares | None:
    """Return how many codes of a tensor are saturated or zero; None if it is not quantized.

    Args:
        tensor: The tensor.
        workers: Threads.
        cancel: Called before every run of blocks, in the thread that reads it; what it raises is
            passed on.

    Raises:
        FormatError: The file is damaged there, or the type's weights cannot be decoded.
        SourceError: The file changed since it was opened.
    """
    if not is_quantized(tensor):
        return None
    fold = Fold(
        lambda: _Counted(tensor),
        _Counted.add,
        _Counted.combine,
        WeightReader.runs,
        any_order=True,
    )
    return fold_parts(tensor, fold, workers=workers, check=cancel or never).codes.shares()


def saturated_codes(levels: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Tell of each code whether it stands for the least or the greatest level, bool [codes].

    Args:
        levels: float32 [codes], of which one at least is finite.
    """
    known = levels[np.isfinite(levels)]
    found: NDArray[np.bool_] = (levels == known.min()) | (levels == known.max())
    return found


class CodeCounts:
    """Saturated and zero codes, counted.

    Only codes of these levels are looked for, usually two or three: vectors of weights are compared
    with each, which is several times as fast as counting all codes one by one.

    Args:
        levels: float32 [codes]: the value of each code before scaling.
    """

    def __init__(self, levels: NDArray[np.float32]) -> None:
        ends = saturated_codes(levels)
        wanted = np.flatnonzero(ends | (levels == 0))
        self._ends, self._zeros = ends[wanted], levels[wanted] == 0
        self._wanted = wanted.astype(np.uint8)
        self._counts = np.zeros(wanted.size, np.int64)
        self._seen = 0

    def add(self, codes: NDArray[np.uint8]) -> None:
        """Count codes, uint8 of any shape."""
        self._seen += codes.size
        kernels().count_some_codes(codes.reshape(-1), self._wanted, self._counts)

    def combine(self, other: CodeCounts) -> None:
        """Add what another one counted with the same levels."""
        self._seen += other._seen
        self._counts += other._counts

    def shares(self) -> CodeShares:
        """Return what was counted."""
        saturated, zeros = (int(self._counts[one].sum()) for one in (self._ends, self._zeros))
        return CodeShares(self._seen, saturated, zeros)


class _Counted:
    """Codes of a tensor, counted."""

    def __init__(self, tensor: Tensor) -> None:
        self._splitter = Splitter(tensor)
        self.codes = CodeCounts(self._splitter.levels)

    def add(self, stored: Stored) -> None:
        self.codes.add(self._splitter.codes(stored))

    def combine(self, other: _Counted) -> None:
        self.codes.combine(other.codes)
