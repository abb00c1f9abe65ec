"""Surveys are kept on disk, so that the second look at a model is instant.

A model has a file of its own in the user's cache folder, with a line for each tensor, written when
its statistics are known: a survey that was stopped goes on where it was. Which file it is, the
model's files tell: path, size, time of change and what the header says. So it is with the errors
against another model, or against a type that weights are rounded to. A cache that cannot be read or
written is no error; the survey then takes as long as the first one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of_class
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import numpy as np

from explorer import __version__
from explorer.analysis.errors.figures import ERROR_PERCENTS, ErrorFigures
from explorer.analysis.errors.pairs import WeightsPair
from explorer.analysis.histogram import Binning, Histogram
from explorer.analysis.moments import PERCENTS
from explorer.analysis.statistics import DEFAULT_BINS, TensorStatistics
from explorer.errors import ExplorerError
from explorer.formats.model import Model, ModelFile
from explorer.formats.tensors import Tensor
from explorer.paths import cache_folder

# Figures that are kept on disk as lines of a file, so that the second look takes no time.
#
# A line is JSON behind a digest of it: half a line, or one that a disk has damaged, is not taken
# for figures. Pickles would run whatever somebody had put there. A file that cannot be read or
# written is no error: everything is then worked out as at the first time.


Found = TypeVar("Found")

MAX_FILE_BYTES: Final = 64 << 20
"""Most bytes of a file; what does not fit is not kept."""

_MAX_LINE: Final = 1 << 16
_DIGEST_BYTES: Final = 8
_log = logging.getLogger(__name__)


def line_of(fields: dict[str, Any]) -> bytes:
    """Return fields as a line; floats keep every bit, NaN is written as NaN."""
    text = json.dumps(fields, separators=(",", ":")).encode()
    return _digest(text) + b" " + text + b"\n"


def fields_of(line: bytes) -> dict[str, Any] | None:
    """Return what `line_of` was given; None if the line is damaged or something else."""
    digest, _, text = line.rstrip(b"\n").partition(b" ")
    if digest != _digest(text):
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):  # another program's digest is right
        return None
    return fields if isinstance(fields, dict) else None


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode()


class Codec(NamedTuple, Generic[Found]):
    """How figures become lines.

    Attributes:
        to_line: Makes a line of a number and the figures that belong to it.
        from_line: Returns both; None if the line does not tell them.
    """

    to_line: Callable[[int, Found], bytes]
    from_line: Callable[[bytes], tuple[int, Found] | None]


class KeptLines(Generic[Found]):
    """Figures by number, and a file that more is added to; a context manager.

    Attributes:
        rows: What is known.
    """

    def __init__(
        self, path: Path | None, codec: Codec[Found], on_first_line: Callable[[], None]
    ) -> None:
        """Read what was kept.

        Args:
            path: The file; None keeps figures in memory alone.
            codec: How figures become lines.
            on_first_line: Called before the first line is added; makes room on the disk.
        """
        self._path = path
        self._codec = codec
        self._on_first_line = on_first_line
        self._descriptor: int | None = None
        self.rows: dict[int, Found] = {}
        if path is not None:
            try:
                self._read(path)
            except OSError as error:
                _log.info("%s: what was kept cannot be read: %s", path, error)

    def add(self, row: int, found: Found) -> None:
        """Keep figures, on disk as well if that can be."""
        self.rows[row] = self.remembered(found)
        if self._path is None:
            return
        try:
            self._write(self._path, self._codec.to_line(row, found))
        except OSError as error:  # a full disk, or a folder that is not ours
            _log.info("%s: nothing can be kept there: %s", self._path, error)
            self.close()

    def remembered(self, found: Found) -> Found:
        """Return what of some figures is kept in memory: all of them."""
        return found

    def close(self) -> None:
        """Close the file; what is added from now on is kept in memory alone."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = self._path = None

    def _read(self, path: Path) -> None:
        try:
            stream = path.open("rb")
        except FileNotFoundError:
            return
        with stream:
            os.utime(path)  # marks it as used
            left = MAX_FILE_BYTES
            while left > 0 and (line := stream.readline(_MAX_LINE)):
                left -= len(line)
                found = self._codec.from_line(line)
                if found is not None:
                    self.rows[found[0]] = self.remembered(found[1])

    def _write(self, path: Path, line: bytes) -> None:
        if self._descriptor is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._on_first_line()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._descriptor = os.open(path, flags, 0o600)
            # a line that another program did not end must not swallow the next one
            if os.fstat(self._descriptor).st_size:
                line = b"\n" + line
        if os.fstat(self._descriptor).st_size + len(line) <= MAX_FILE_BYTES:
            os.write(self._descriptor, line)  # in one piece: two programs may survey one model

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


# Errors of a pair of tensors as a line of text, and back; see `records`.


_ERROR_COUNTS: Final = (
    *("count", "compared", "reference_not_finite", "candidate_not_finite"),
    *("equal", "sign_flips", "zeroed"),
)
_ERROR_FIGURES: Final = tuple(
    field.name
    for field in fields_of_class(ErrorFigures)
    if field.name not in (*_ERROR_COUNTS, "percentiles")
)


def errors_to_line(number: int, pair: WeightsPair, found: ErrorFigures) -> bytes:
    """Return the errors of a pair as a line, with its place among all pairs."""
    fields: dict[str, Any] = {
        name: getattr(found, name) for name in (*_ERROR_COUNTS, *_ERROR_FIGURES)
    }
    percentiles = [found.percentiles[percent] for percent in ERROR_PERCENTS]
    return line_of(
        {**fields, "number": number, "pair": _errors_identity(pair), "percentiles": percentiles}
    )


def errors_from_line(line: bytes, pairs: Sequence[WeightsPair]) -> tuple[int, ErrorFigures] | None:
    """Return what `to_line` was given, or None if it cannot be told or is of another pair."""
    fields = fields_of(line)
    if fields is None:
        return None
    try:
        number = fields["number"]
        if not 0 <= number < len(pairs) or fields["pair"] != _errors_identity(pairs[number]):
            return None
        counts: dict[str, Any] = {name: int(fields[name]) for name in _ERROR_COUNTS}
        figures: dict[str, Any] = {name: float(fields[name]) for name in _ERROR_FIGURES}
        told = zip(ERROR_PERCENTS, map(float, fields["percentiles"]), strict=True)
        return number, ErrorFigures(**counts, **figures, percentiles=dict(told))
    except (ValueError, TypeError, KeyError):  # another program's digest is right
        return None


def _errors_identity(pair: WeightsPair) -> list[Any]:
    names = [pair.reference_name, pair.candidate_name, pair.reference_type, pair.candidate_type]
    return [*names, list(pair.shape), list(pair.notes)]


# A tensor's statistics as a line of text, and back, so that they outlive the program.


_SURVEY_COUNTS: Final = ("count", "finite", "nan", "positive_inf", "negative_inf", "zeros")
_SURVEY_FIGURES: Final = ("min", "max", "mean", "std", "rms", "abs_max", "skewness", "kurtosis")

NO_HISTOGRAM: Final = Histogram(0.0, 0.0, np.zeros(1), np.zeros(0, np.int64))
"""Stands for a histogram that was left on the disk."""


def survey_to_line(row: int, found: TensorStatistics) -> bytes:
    """Return statistics as a line, with the row of the model's table that they belong to."""
    fields: dict[str, Any] = {
        name: getattr(found, name) for name in (*_SURVEY_COUNTS, *_SURVEY_FIGURES)
    }
    fields |= {
        "row": row,
        "tensor": found.tensor,
        "type": found.type,
        "shape": list(found.shape),
        "percentiles": [found.percentiles[percent] for percent in PERCENTS],
        "histogram": found.histogram.counts.tolist(),
        "step_error_rms": found.step_error_rms,
    }
    return line_of(fields)


def survey_from_line(
    line: bytes, tensor_at: Callable[[int], Tensor | None], *, slim: bool = False
) -> tuple[int, TensorStatistics] | None:
    """Return what `to_line` was given, or None if it cannot be told or is of another tensor.

    Args:
        line: A line, with or without its end.
        tensor_at: Gives the tensor of a row; None if there is no such row.
        slim: Whether `NO_HISTOGRAM` is enough: edges take most of the time, and of the memory.
    """
    fields = fields_of(line)
    if fields is None:
        return None
    try:
        row = fields["row"]
        tensor = tensor_at(row)
        if tensor is None or _survey_identity(tensor) != (
            fields["tensor"],
            fields["type"],
            fields["shape"],
        ):
            return None
        return row, _statistics(tensor, fields, slim)
    except (ValueError, TypeError, KeyError):  # another program's digest is right
        return None


def _survey_identity(tensor: Tensor) -> tuple[str, str, list[int]]:
    return tensor.name, tensor.type.name, list(tensor.shape)


def _statistics(tensor: Tensor, fields: dict[str, Any], slim: bool) -> TensorStatistics:
    counts: dict[str, Any] = {name: int(fields[name]) for name in _SURVEY_COUNTS}
    figures: dict[str, Any] = {name: float(fields[name]) for name in _SURVEY_FIGURES}
    step = fields["step_error_rms"]
    bins = fields["histogram"]
    if len(bins) != DEFAULT_BINS or counts["count"] != tensor.parameters:
        raise ValueError("these are no statistics of the tensor")
    low, high = (figures["min"], figures["max"]) if counts["finite"] else (np.inf, -np.inf)
    return TensorStatistics(
        tensor=tensor.name,
        type=tensor.type.name,
        shape=tensor.shape,
        percentiles=dict(zip(PERCENTS, map(float, fields["percentiles"]), strict=True)),
        histogram=NO_HISTOGRAM if slim else _histogram(low, high, bins),
        step_error_rms=None if step is None else float(step),
        **counts,
        **figures,
    )


def _histogram(low: float, high: float, counts: list[int]) -> Histogram:
    edges = Binning.of_weights(low, high, DEFAULT_BINS).edges.astype(np.float64)
    return Histogram(float(edges[0]), float(edges[-1]), edges, np.array(counts, np.int64))


MAX_BYTES: Final = 4 * MAX_FILE_BYTES
"""Most bytes that all surveys together are kept in."""

_MAX_HEADER: Final = 64 << 20  # what is hashed of a header
_PIECE: Final = 1 << 20
_SUFFIX: Final = ".survey"
_NAME_BYTES: Final = 20


@dataclass(frozen=True)
class SurveyCache:
    """Where surveys are kept.

    Attributes:
        folder: The folder; it need not exist.
        max_bytes: Most bytes of all of them; the ones that were not used for longest are removed.
    """

    folder: Path
    max_bytes: int = MAX_BYTES

    @classmethod
    def of_user(cls) -> SurveyCache | None:
        """Return the user's own; None if the user has no home folder."""
        try:
            return cls(cache_folder() / "surveys")
        except RuntimeError:
            return None

    def open(self, model: Model, *, slim: bool = False) -> KeptSurvey:
        """Return what is known of a model; a context manager.

        Reads the headers of its files, and what was kept.

        Args:
            model: The model.
            slim: Whether to leave histograms on the disk: they take most of the memory.
        """
        identity = identify(model)
        path = None if identity is None else self.folder / (identity + _SUFFIX)
        return KeptSurvey(path, model, self, slim=slim)

    def open_errors(
        self, model: Model, against: Model | str, pairs: Sequence[WeightsPair]
    ) -> KeptErrors:
        """Return what is known of a model's errors; a context manager.

        Args:
            model: The candidate.
            against: The reference, or the type that the model's weights are rounded to.
            pairs: The tensors of both, in an order that only the two decide.
        """
        other = f"rounded to {against}" if isinstance(against, str) else identify(against)
        identity = identify(model)
        if identity is None or other is None:
            return KeptErrors(None, pairs)
        name = blake2b(f"{identity} {other}".encode(), digest_size=_NAME_BYTES).hexdigest()
        return KeptErrors(self.folder / (name + _SUFFIX), pairs, self)

    def make_room(self) -> None:
        """Remove the surveys that were not used for longest, until there is some room.

        Raises:
            OSError: The folder cannot be read.
        """
        found = []
        for path in self.folder.glob("*" + _SUFFIX):
            with contextlib.suppress(FileNotFoundError):  # removed by another program
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        size = sum(one[1] for one in found)
        for _, nbytes, path in sorted(found):
            if size <= self.max_bytes * 3 // 4:
                break
            path.unlink(missing_ok=True)
            size -= nbytes


class KeptSurvey(KeptLines[TensorStatistics]):
    """What is known of one model's tensors, and a file that more is added to.

    Attributes:
        rows: Statistics by row of the model's table; without histograms if it is slim.
    """

    def __init__(
        self,
        path: Path | None,
        model: Model,
        cache: SurveyCache | None = None,
        *,
        slim: bool = False,
    ) -> None:
        self._slim = slim
        tensors = model.tensors.rows

        def tensor_at(row: int) -> Tensor | None:
            return tensors[row] if 0 <= row < len(tensors) else None

        codec = Codec(
            survey_to_line,
            lambda line: survey_from_line(line, tensor_at, slim=slim),
        )
        super().__init__(path, codec, _room_maker(cache))

    def remembered(self, found: TensorStatistics) -> TensorStatistics:
        """Return what is kept in memory; see `KeptLines.remembered`."""
        if not self._slim or found.histogram is NO_HISTOGRAM:
            return found
        return replace(found, histogram=NO_HISTOGRAM)


class KeptErrors(KeptLines[ErrorFigures]):
    """What is known of the errors of pairs, and a file that more is added to.

    Attributes:
        rows: Errors by place among the pairs.
    """

    def __init__(
        self, path: Path | None, pairs: Sequence[WeightsPair], cache: SurveyCache | None = None
    ) -> None:
        codec = Codec(
            lambda number, found: errors_to_line(number, pairs[number], found),
            lambda line: errors_from_line(line, pairs),
        )
        super().__init__(path, codec, _room_maker(cache))


def _room_maker(cache: SurveyCache | None) -> Callable[[], None]:
    return (lambda: None) if cache is None else cache.make_room


def identify(model: Model) -> str | None:
    """Return a name for what a model's files hold now; None if they cannot be told."""
    digest = blake2b(digest_size=_NAME_BYTES)
    try:
        for file in model.files:
            status = file.path.stat()
            path = str(file.path.absolute())
            facts = [__version__, path, status.st_size, status.st_mtime_ns, file.header_bytes]
            digest.update(json.dumps(facts).encode())
            _hash_header(file, digest)
    except (OSError, ExplorerError) as error:
        _log.info("%s: it cannot be identified: %s", model.path, error)
        return None
    return digest.hexdigest()


def _hash_header(file: ModelFile, digest: blake2b) -> None:
    size = min(file.header_bytes, file.source.size, _MAX_HEADER)
    for start in range(0, size, _PIECE):
        digest.update(file.source.read(start, min(_PIECE, size - start)))
