"""The comparison of one tensor, in a worker, and the lines of its table."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import closing
from dataclasses import dataclass, replace

from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.errors.pictures import ErrorPicture, picture_errors
from explorer.analysis.importance import weighing
from explorer.analysis.survey_cache import SurveyCache
from explorer.formats import Model, Tensor
from explorer.formats.attachments import OpenMatrix
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
        models: The model, and what it is compared with: another one, or a type.
        matrix: What errors are weighted by, too; None if all weights count alike.
    """

    reference: Hashable
    partner: Partner
    models: tuple[Model, Model | str] | None = None
    matrix: OpenMatrix | None = None

    @property
    def key(self) -> Hashable:
        """Identifies its results in a cache."""
        matrix = None if self.matrix is None else self.matrix.key
        return ("errors", self.row, self.reference, matrix)

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
    """Return what is kept of a tensor and its reference, or read them; called in a worker.

    Raises:
        ExplorerError: The two cannot be compared or read, or the matrix does not fit.
    """
    pair, matrix = subject.partner.pair, subject.matrix
    assert pair is not None
    assert subject.models is not None

    def publish(picture: ErrorPicture) -> None:
        job.publish(lambda: picture)

    weigh = None if matrix is None else weighing(matrix.model)
    with SurveyCache().open_errors(*subject.models, [pair], weigh) as cached:
        known = cached.picture(0) if 0 in cached.rows else None
        if known is None:
            pictures = picture_errors(pair, worker_count(), job.check, cached.importance(0))
            with closing(pictures):
                for known in pictures:
                    if not known.complete:
                        publish(known)
            assert known is not None
            assert known.errors is not None
            cached.add(0, replace(known.errors, picture=known.tobytes()))
    results.put(subject.key, known)
    return known
