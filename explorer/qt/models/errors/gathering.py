"""Gathers in a worker what the panel of errors shows of one tensor."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from explorer.analysis.errors.pairs import MatchedPair, WeightsPair
from explorer.analysis.errors.pictures import ErrorPicture, kernels, picture_errors
from explorer.formats.tensors import Tensor
from explorer.qt.models.recent import Recent
from explorer.qt.models.weights.gathering import Worker, considerate, load_kernels, worker_count


@dataclass(frozen=True, slots=True)
class PairSubject:
    """A tensor of which the errors are shown.

    Attributes:
        row: Its content row in the tensor table.
        name: Its name, plain text.
        tensor: The tensor.
        reference: What the model is compared with, to tell results apart by; None for nothing.
        pair: The tensor and its reference; None if there is none.
        reason: Why there is none, as a sentence.
        waiting: Whether that is not known yet.
    """

    row: int
    name: str
    tensor: Tensor
    reference: Hashable = None
    pair: WeightsPair | None = None
    reason: str = ""
    waiting: bool = False

    @property
    def key(self) -> Hashable:
        """What tells its results from others."""
        return ("errors", self.row, self.reference)

    @property
    def kernels(self) -> list[str]:
        """The sets of kernels that are needed to read it."""
        return sorted([self.tensor.type.name] if self.pair is None else self.pair.kernels)

    @property
    def nbytes(self) -> int:
        """The stored bytes that are read."""
        if isinstance(self.pair, MatchedPair):
            match = self.pair.match
            return sum(one.nbytes for one in (*match.reference.tensors, *match.candidate.tensors))
        return self.tensor.nbytes


def load_error_kernels() -> None:
    """Load the modules of kernels, which takes a third of a second; called in a worker."""
    load_kernels()
    kernels()


def known_picture(subject: PairSubject, recent: Recent) -> ErrorPicture | None:
    """Return what is known of a tensor; None if it has to be read."""
    found = recent.get(subject.key)
    return found if isinstance(found, ErrorPicture) else None


def gather_errors(subject: PairSubject, recent: Recent, worker: Worker) -> ErrorPicture:
    """Read a tensor and its reference; called in a worker.

    Args:
        subject: The tensor, which has a reference.
        recent: Gets what is found.
        worker: Asked whether to go on, and given what is known so far.

    Raises:
        ExplorerError: The two cannot be compared or read.
    """
    pair = subject.pair
    assert pair is not None
    with considerate([*subject.kernels, f"errors of {pair.candidate_type}"]):
        found = picture_errors(
            pair,
            worker_count(),
            cancel=worker.check,
            progress=lambda picture: worker.publish(lambda: picture),
        )
    recent.put(subject.key, found)
    return found
