"""The comparison of one tensor, in a worker, and the lines of its table."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import closing
from dataclasses import dataclass

from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.errors.pictures import ErrorPicture, picture_errors
from explorer.formats import Tensor
from explorer.parallel import LruCache
from explorer.qt.jobs import Job, worker_count
from explorer.qt.references import Partner
from explorer.qt.weights.curves import SelectedTensor


@dataclass(frozen=True, slots=True)
class SelectedPair(SelectedTensor):
    """A tensor whose errors are shown.

    Attributes:
        reference: What the model is compared with, as a key of results; None for nothing.
        partner: What the tensor is compared with.
    """

    reference: Hashable
    partner: Partner

    @property
    def key(self) -> Hashable:
        """Identifies its results in a cache."""
        return ("errors", self.row, self.reference)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is read: the tensor, and what it is compared with."""
        pair = self.partner.pair
        if isinstance(pair, MatchedPair):
            return (*pair.reference.tensors, *pair.candidate.tensors)
        return (self.tensor,)

    @property
    def nbytes(self) -> int:
        """Stored bytes of all that is read."""
        return sum(tensor.nbytes for tensor in self.tensors)


def known_picture(subject: SelectedPair, results: LruCache) -> ErrorPicture | None:
    """Return what is known of a tensor; None if it has to be read."""
    return results.find(subject.key, ErrorPicture)


def read_errors(subject: SelectedPair, results: LruCache, job: Job) -> ErrorPicture:
    """Read a tensor and its reference, which it must have; called in a worker.

    Raises:
        ExplorerError: The two cannot be compared or read.
    """
    assert subject.partner.pair is not None

    def publish(picture: ErrorPicture) -> None:
        job.publish(lambda: picture)

    with closing(picture_errors(subject.partner.pair, worker_count(), job.check)) as pictures:
        for found in pictures:
            if not found.complete:
                publish(found)
    results.put(subject.key, found)
    return found
