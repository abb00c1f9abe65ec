"""Gathers in a worker what the panel of errors shows of one tensor."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QCoreApplication

from explorer.analysis.errors.compare import ExpectedRounding
from explorer.analysis.errors.metrics import ErrorMetrics
from explorer.analysis.errors.pairs import MatchedPair, WeightsPair
from explorer.analysis.errors.pictures import ErrorPicture, picture_errors
from explorer.analysis.moments import Moments
from explorer.formats.tensors import Tensor
from explorer.present.errors import (
    ERROR_TEXTS,
    ERRORS,
    ROUNDING_TEXTS,
    Text,
    error_text,
    percentile_text,
    share_text,
)
from explorer.qt.document import LruCache
from explorer.qt.weights.histogram import Line
from explorer.qt.weights.work import Worker, worker_count
from explorer.text import float_text, integer_text


@dataclass(frozen=True, slots=True)
class SelectedPair:
    """A tensor of which the errors are shown.

    Attributes:
        row: Its content row in the tensor table.
        name: Its name, plain text.
        tensor: The tensor.
        reference: What the model is compared with, which identifies results; None for nothing.
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
        """Identifies its results in a cache."""
        return ("errors", self.row, self.reference)

    @property
    def nbytes(self) -> int:
        """The stored bytes that are read."""
        if isinstance(self.pair, MatchedPair):
            match = self.pair.match
            return sum(one.nbytes for one in (*match.reference.tensors, *match.candidate.tensors))
        return self.tensor.nbytes


def known_picture(subject: SelectedPair, recent: LruCache) -> ErrorPicture | None:
    """Return what is known of a tensor; None if it has to be read."""
    found = recent.get(subject.key)
    return found if isinstance(found, ErrorPicture) else None


def read_errors(subject: SelectedPair, recent: LruCache, worker: Worker) -> ErrorPicture:
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
    found = picture_errors(
        pair,
        worker_count(),
        cancel=worker.check,
        progress=lambda picture: worker.publish(lambda: picture),
    )
    recent.put(subject.key, found)
    return found


# The lines of errors, for a `StatisticsTable`.


_DIGITS: Final = 5


def error_lines(picture: ErrorPicture) -> list[Line]:
    """Return the lines of a tensor's errors, some without a value while it is read."""
    figures, texts = picture.figures, ERROR_TEXTS
    lines: list[Line] = [_size(name, texts[name], getattr(figures, name)) for name in ERRORS]
    for percent, value in figures.percentiles.items():
        known = value if picture.complete else None
        lines.append(
            Line(
                f"p{percent:g}",
                percentile_text(percent).title,
                known,
                percentile_text(percent).tip,
                float_text(value, _DIGITS),
            )
        )
    lines.append(_count("count", texts["count"], figures.count))
    lines += [_part(name, figures) for name in ("equal", "sign_flips", "zeroed")]
    for name in ("reference_not_finite", "candidate_not_finite"):
        if getattr(figures, name):
            lines.append(_count(name, texts[name], getattr(figures, name)))
    if picture.saturated_codes is not None:
        lines.append(_share("saturated_codes", texts["saturated_codes"], picture.saturated_codes))
    lines += [
        _size(name, texts[name], getattr(figures, name))
        for name in ("reference_rms", "candidate_rms")
    ]
    return lines


def implied_lines(implied: ExpectedRounding) -> list[Line]:
    """Return the lines of what blocks imply."""
    texts = ROUNDING_TEXTS
    used = _tr("{used} of {all}").format(used=implied.used_codes, all=implied.codes)
    lines: list[Line] = [
        _size("step_error_rms", texts["step_error_rms"], implied.rms),
        Line(
            "used_codes",
            texts["used_codes"].title,
            implied.used_codes,
            texts["used_codes"].tip,
            used,
        ),
        _share("saturated_codes", texts["saturated_codes"], implied.saturated),
        _share("zero_codes", texts["zero_codes"], implied.zeros),
        _count("weights_per_scale", texts["weights_per_scale"], implied.weights_per_scale),
    ]
    lines += _spread("scale", implied.scales)
    if implied.minima is not None:
        lines += _spread("minimum", implied.minima)
    return lines


def _spread(name: str, moments: Moments) -> Iterator[Line]:
    """Yield the lines of scales or minima."""
    texts = ROUNDING_TEXTS
    yield _count(f"{name}_count", texts[f"{name}_count"], moments.count)
    for what in ("min", "max", "rms"):
        yield _size(f"{name}_{what}", texts[f"{name}_{what}"], getattr(moments, what))
    yield _count(f"{name}_zeros", texts[f"{name}_zeros"], moments.zeros)


def _size(name: str, text: Text, value: float) -> Line:
    return Line(name, text.title, value, text.tip, error_text(name, value))


def _count(name: str, text: Text, value: int) -> Line:
    return Line(name, text.title, value, text.tip, integer_text(value))


def _share(name: str, text: Text, value: float) -> Line:
    return Line(name, text.title, value, text.tip, share_text(value))


def _part(name: str, figures: ErrorMetrics) -> Line:
    value, text = getattr(figures, name), ERROR_TEXTS[name]
    share = 100 * value / figures.compared if figures.compared else 0.0
    shown = _tr("{n} ({share} %)").format(n=integer_text(value), share=float_text(share, 3))
    return Line(name, text.title, value, text.tip, shown)


def _tr(text: str) -> str:
    return QCoreApplication.translate("ErrorTable", text)
