"""What the weights panel shows of tensors, and how it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.analysis import Moments, TensorStatistics
from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.qt.models.weights.histogram_choices import RangeKind
from explorer.qt.models.weights.histogram_curve import HistogramCurve, Range
from explorer.quantization.registry import WITHOUT_DECODER, has_anatomy, has_decoder


@dataclass(frozen=True, slots=True)
class Wish:
    """How a histogram is to be.

    Attributes:
        bins: Number of bins, up to MOST_BINS.
        kind: Which weights it shows.
        typed: First and last edge, where they were typed.
        common: Whether several tensors have the same bins, or each those of its own weights.
    """

    bins: int = 256
    kind: RangeKind = RangeKind.ROBUST
    typed: Range | None = None
    common: bool = True


@dataclass(frozen=True, slots=True)
class Subject:
    """A tensor to show.

    Attributes:
        row: Its content row.
        name: Its name, plain text.
        tensor: The tensor.
    """

    row: int
    name: str
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of one tensor.

    Attributes:
        subject: The tensor.
        moments: Its statistics, of the weights seen so far.
        complete: The statistics of all weights; None while they are gathered.
    """

    subject: Subject
    moments: Moments
    complete: TensorStatistics | None


@dataclass(frozen=True, slots=True)
class Gathered:
    """What is known of all tensors that were asked for.

    Attributes:
        figures: Statistics of those that were reached.
        curves: Their histograms.
        exact: Whether the counts are exact, and complete.
        done: Weights walked over, each walk counted.
        total: What `done` will be.
        nbytes: Stored bytes walked over.
        failures: What could not be read: the tensor and why.
    """

    figures: tuple[Figures, ...]
    curves: tuple[HistogramCurve, ...]
    exact: bool
    done: int
    total: int
    nbytes: int
    failures: tuple[tuple[Subject, ExplorerError], ...] = ()


def is_quantized(tensor: Tensor) -> bool:
    """Whether a tensor has codes and scales; loads nothing."""
    return tensor.grouped is not None or has_anatomy(tensor.type.name)


def unsupported_reason(tensor: Tensor) -> str | None:
    """Return why weights of that type are never shown; None if they are."""
    name = tensor.type.name
    if tensor.grouped is not None or has_decoder(name):
        return None
    return WITHOUT_DECODER.get(name, "this program does not know the type")
