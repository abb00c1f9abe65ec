"""The comparison of one tensor, in a worker, and the lines of its table."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from explorer.analysis.errors.compare import ExpectedRounding
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.errors.pictures import ErrorPicture, picture_errors
from explorer.formats import Tensor
from explorer.parallel import LruCache
from explorer.present import errors as error_texts
from explorer.qt.jobs import Job, worker_count
from explorer.qt.references import Partner
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.tensor_panel import Line
from explorer.text import integer_text, percent_text


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
    found = results.get(subject.key)
    return found if isinstance(found, ErrorPicture) else None


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


# The lines of a `StatisticsTable`.


_DIGITS: Final = 5


def error_lines(picture: ErrorPicture) -> list[Line]:
    """Return the lines of a tensor's errors, some without a value while it is read."""
    figures = picture.metrics

    def line(name: str, shown: str = "") -> Line:
        return _line(name, error_texts.ERROR_TEXTS[name], getattr(figures, name), shown)

    lines = [line(name) for name in error_texts.ERRORS]
    for percent, value in figures.percentiles.items():
        text, known = error_texts.percentile_text(percent), value if picture.complete else None
        shown = error_texts.error_text("rmse", value)
        lines.append(Line(f"p{percent:g}", text.title, known, text.tip, shown))
    lines.append(line("count"))
    for name in ("equal", "sign_flips", "zeroed"):
        count = getattr(figures, name)
        share = percent_text(count / figures.compared if figures.compared else 0.0)
        lines.append(line(name, f"{integer_text(count)} ({share})"))
    not_finite = ("reference_not_finite", "candidate_not_finite")
    lines += [line(name) for name in not_finite if getattr(figures, name)]
    if picture.saturated_codes is not None:
        text = error_texts.ERROR_TEXTS["saturated_codes"]
        lines.append(_line("saturated_codes", text, picture.saturated_codes))
    return [*lines, line("reference_rms"), line("candidate_rms")]


def rounding_lines(expected: ExpectedRounding) -> list[Line]:
    """Return the lines of the rounding error to expect by a tensor's blocks."""
    figures: dict[str, int | float] = {
        "step_error_rms": expected.rms,
        "used_codes": expected.used_codes,
        "saturated_codes": expected.saturated,
        "zero_codes": expected.zeros,
        "weights_per_scale": expected.weights_per_scale,
    }
    for name, moments in (("scale", expected.scales), ("minimum", expected.minima)):
        if moments is not None:
            figures[f"{name}_count"] = moments.count
            figures |= {f"{name}_{what}": getattr(moments, what) for what in ("min", "max", "rms")}
            figures[f"{name}_zeros"] = moments.zeros
    shown = {
        "used_codes": f"{expected.used_codes} of {expected.codes}",
        "zero_codes": percent_text(expected.zeros, 4),
    }
    return [
        _line(name, error_texts.ROUNDING_TEXTS[name], value, shown.get(name, ""))
        for name, value in figures.items()
    ]


def _line(name: str, text: error_texts.Text, value: int | float, shown: str = "") -> Line:
    return Line(name, text.title, value, text.tip, shown or error_texts.error_text(name, value))
