"""What the block microscope reads in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from explorer.analysis.block_detail import BlockDetail, BlockReader
from explorer.analysis.block_search import Beside, read_beside
from explorer.analysis.errors.pairs import MatchedPair, WeightsPair
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.parallel import Check
from explorer.qt.models.errors.references import References


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A block, and what it is compared with.

    Attributes:
        detail: The block.
        beside: What it is compared with; None for nothing.
        note: What is to be said of the comparison.
    """

    detail: BlockDetail
    beside: Beside | None
    note: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the blocks of a tensor are compared with.

    Attributes:
        pairs: Pairs that hold its weights: several of a tensor that is fused of others.
        note: Why there are none, or what was done to make both comparable.
    """

    pairs: tuple[WeightsPair, ...]
    note: str

    @classmethod
    def of(cls, references: References, row: int, tensor: Tensor) -> Comparison:
        """Return what a tensor of the current model is compared with."""
        partner = references.partner_of(row, tensor)
        pair = partner.pair
        if not isinstance(pair, MatchedPair):
            return cls((), partner.reason) if pair is None else cls((pair,), "")
        matched = references.matched
        assert matched is not None
        pairs = tuple(
            MatchedPair(match)
            for match in matched.matching.matches
            if any(one is tensor for one in match.candidate.tensors)
        )
        return cls(pairs, "; ".join(pair.notes))

    @property
    def kernels(self) -> frozenset[str]:
        """The sets of kernels that are needed."""
        return frozenset().union(*(pair.kernels for pair in self.pairs))


def read_block(
    tensor: Tensor, index: int, pairs: Sequence[WeightsPair], note: str, check: Check
) -> ShownBlock:
    """Read a block; a reference that cannot be read is told of, and does not hide the block.

    Raises:
        ExplorerError: The block cannot be read.
    """
    detail = BlockReader(tensor).read(index, check)
    if not pairs:
        return ShownBlock(detail, None, note)
    try:
        run = detail.start, detail.values.size
        return ShownBlock(detail, read_beside(pairs, tensor, run, check), note)
    except ExplorerError as error:
        text = QCoreApplication.translate("BlockReading", "Not compared: {reason}")
        return ShownBlock(detail, None, text.format(reason=error))
