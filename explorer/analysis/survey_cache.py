"""A cache of survey results on disk: the second survey of a model reads no weights.

All results are rows of one SQLite database in the user's cache folder. A row is written when its
result is known, so that a survey that was stopped goes on where it was. Rows are keyed by the
identity of the model's files: path, size, time of change and header. They hold JSON and a digest of
it; pickles would run whatever another program had put there. A cache that cannot be read or written
is not an error; the survey then takes as long as the first one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import sqlite3
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

import numpy as np

from explorer import __version__
from explorer.analysis.errors.metrics import (
    ERROR_PERCENTS,
    MOST_COLUMN_BYTES,
    ColumnErrors,
    RunningErrors,
    WeightedErrors,
)
from explorer.analysis.errors.pairs import PairErrors, WeightsPair, importance_digest
from explorer.analysis.errors.pictures import ErrorPicture
from explorer.analysis.histogram import Binning, Histogram
from explorer.analysis.moments import PERCENTS
from explorer.analysis.statistics import DEFAULT_BINS, TensorStatistics
from explorer.errors import ExplorerError, SourceError
from explorer.formats.model import Model, ModelFile
from explorer.formats.weights import Values
from explorer.private_folder import PrivateFolder
from explorer.sources import Address

Result = TypeVar("Result")
Part = TypeVar("Part")

ImportanceOf: TypeAlias = Callable[[WeightsPair], Values | None]
"""Returns how much the columns of a pair count, float32 [1 or matrices, columns]; None of one that
no matrix has. It raises an ExplorerError."""

MOST_PART_BYTES: Final = MOST_COLUMN_BYTES
"""Most bytes of a picture, or of squares by column: of more columns, weights are read again where
another matrix is chosen."""

MAX_BYTES: Final = 256 << 20
"""Most bytes of the database."""

NO_HISTOGRAM: Final = Histogram(0.0, 0.0, np.zeros(1), np.zeros(0, np.int64))
"""Stands for a histogram that was not read from the disk."""

_FILE_NAME: Final = "surveys.sqlite3"
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS results (
        survey TEXT, number INTEGER, used INTEGER, digest BLOB, value BLOB, UNIQUE (survey, number)
    )
"""
_LOCK_TIMEOUT_S: Final = 2.0  # a row takes another process less than a millisecond
_READ: Final = """
    SELECT number, digest, value FROM results
    WHERE survey = ? AND typeof(number) = 'integer' AND number >= 0
        AND typeof(digest) = 'blob' AND typeof(value) = 'blob' AND length(value) <= 65536
"""
_READ_PART: Final = """
    SELECT digest, value FROM results
    WHERE survey = ? AND number = ? AND typeof(digest) = 'blob' AND typeof(value) = 'blob'
        AND length(value) <= ?
"""
_MAX_HEADER: Final = 64 << 20  # bytes of a header that identify a model
_PIECE: Final = 1 << 20
_DIGEST_BYTES: Final = 20
_INT64_MAX: Final = (1 << 63) - 1
_MOST_EMPTY: Final = 64  # tensors without weights
_FLOAT32_MAX: Final = float(np.finfo(np.float32).max)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_ODD_VALUES: Final = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SurveyCache:
    """The database of all surveys.

    Attributes:
        folder: Where it is kept; without one that is safe, nothing is.
        max_bytes: Most bytes of the database. The surveys that were not used for longest go first.
    """

    folder: PrivateFolder = field(default_factory=lambda: PrivateFolder("surveys"))
    max_bytes: int = MAX_BYTES

    @property
    def path(self) -> Path:
        """The file of the database; raises OSError if the user has no home folder."""
        return self.folder.path / _FILE_NAME

    def open(self, model: Model, *, slim: bool = False) -> CachedSurvey:
        """Return the known statistics of a model; a context manager.

        Reads the headers of its files, and the database; histograms, which take most of the memory,
        only unless it is slim.
        """
        return CachedSurvey(self, model, slim=slim)

    def open_errors(
        self,
        model: Model,
        against: Model | str,
        pairs: Sequence[WeightsPair],
        importance: ImportanceOf | None = None,
    ) -> CachedErrors:
        """Return the known errors of a model; a context manager.

        Args:
            model: The candidate.
            against: The reference, or the type that the model's weights are rounded to.
            pairs: The tensors of both that are looked for.
            importance: What errors are weighted by.

        Raises:
            ExplorerError: What `importance` raises.
        """
        other = f"rounded to {against}" if isinstance(against, str) else identify(against)
        identity = identify(model)
        if identity is None or other is None:
            return CachedErrors(None, pairs, importance=importance)
        survey = _digest(f"{identity} {other}".encode()).hex()
        return CachedErrors(self, pairs, survey, importance)

    def connect(self) -> sqlite3.Connection:
        """Open the database, which is made if it is not there; raises OSError, sqlite3.Error."""
        file = self.folder.open(_FILE_NAME)  # removes what is not this user's
        with contextlib.suppress(FileExistsError):  # another process was faster
            file = file or self.folder.create(_FILE_NAME)
            file.close()
        database = sqlite3.connect(
            self.path, _LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            database.execute("PRAGMA synchronous = OFF")  # what a crash damages is made anew
            (page_bytes,) = database.execute("PRAGMA page_size").fetchone()
            database.execute(f"PRAGMA max_page_count = {self.max_bytes // page_bytes}")
            database.execute(_SCHEMA)
        except sqlite3.Error:
            database.close()
            raise
        return database

    def make_room(self, database: sqlite3.Connection) -> None:
        """Remove the surveys that were not used for longest, if the database is nearly full."""
        removed = 1
        while removed and self._nbytes(database) > self.max_bytes * 3 // 4:
            oldest = "SELECT survey FROM results ORDER BY used LIMIT 1"
            removed = database.execute(f"DELETE FROM results WHERE survey = ({oldest})").rowcount

    def _nbytes(self, database: sqlite3.Connection) -> int:
        names = ("page_count", "freelist_count", "page_size")
        pages, free, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        return int(pages - free) * int(size)

    def remove_if_damaged(self, error: sqlite3.Error | OSError) -> None:
        """Log why the database cannot be used, and remove one that is damaged."""
        _log.info("results of surveys cannot be kept: %s", error)
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            with contextlib.suppress(OSError):
                self.path.unlink()


class CachedResults(ABC, Generic[Result]):
    """Results by number, and the rows of the database that more is added to; a context manager."""

    def __init__(self, cache: SurveyCache | None, survey: str | None) -> None:
        """Read what is known of a survey; without a cache or a key all is kept in memory alone."""
        self.rows: dict[int, Result] = {}
        self._cache = None if survey is None else cache
        self._survey = survey
        self._database: sqlite3.Connection | None = None
        if self._cache is None:
            return
        try:
            if self._cache.path.exists():
                with contextlib.closing(self._cache.connect()) as database:
                    self._read(database)
        except (sqlite3.Error, OSError) as error:
            self._cache.remove_if_damaged(error)

    @abstractmethod
    def _encode(self, number: int, result: Result) -> dict[str, Any]:
        """Return a result as fields of JSON."""

    @abstractmethod
    def _decode(self, number: int, fields: dict[str, Any]) -> Result:
        """Return what `_encode` was given; raise one of `_ODD_VALUES` for anything else."""

    def add(self, number: int, result: Result) -> None:
        """Keep a result, on disk as well if possible."""
        self.rows[number] = result
        if self._cache is None:
            return
        # floats keep every bit, NaN is written as NaN
        value = json.dumps(self._encode(number, result), separators=(",", ":")).encode()
        self._write(self._survey or "", self._key_of(number), value)

    def _key_of(self, number: int) -> int:
        """Return by what the database knows a result."""
        return number

    def _write(self, survey: str, key: int, value: bytes) -> None:
        if self._cache is None:
            return
        row = (survey, key, int(time.time()), _digest(value), value)
        try:
            if self._database is None:
                self._database = self._cache.connect()
                self._cache.make_room(self._database)
            self._database.execute("REPLACE INTO results VALUES (?, ?, ?, ?, ?)", row)
        except (sqlite3.Error, OSError) as error:  # a full disk, or a folder that is not ours
            self._cache.remove_if_damaged(error)
            self.close()

    def close(self) -> None:
        """Close the database; what is added from now on is kept in memory alone."""
        if self._database is not None:
            self._database.close()
        self._database = self._cache = None

    def _read(self, database: sqlite3.Connection) -> None:
        for key, digest, value in database.execute(_READ, (self._survey,)):
            try:
                if _digest(value) == digest:
                    self._take(key, json.loads(value))
            except _ODD_VALUES:  # another program's digest is right
                continue
        with contextlib.suppress(sqlite3.OperationalError):  # a disk that can only be read
            used = (int(time.time()), self._survey)
            database.execute("UPDATE results SET used = ? WHERE survey = ?", used)

    def _take(self, key: int, fields: dict[str, Any]) -> None:
        """Take a row of the database; raise one of `_ODD_VALUES` for what is none."""
        self.rows[key] = self._decode(key, fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class CachedSurvey(CachedResults[TensorStatistics]):
    """Statistics by row of a model's table; without histograms in memory if it is slim."""

    def __init__(self, cache: SurveyCache | None, model: Model, *, slim: bool = False) -> None:
        self._tensors = model.tensors.rows
        self._slim = slim
        self._empty = 0
        super().__init__(cache, None if cache is None else identify(model))

    def add(self, number: int, result: TensorStatistics) -> None:
        """Keep statistics, on disk as well if possible; of many empty tensors only some.

        Writing a row takes a millisecond, and making it next to nothing. A slim survey keeps no
        others in memory either: they are made anew.
        """
        if not result.count:
            self._empty += 1
            if self._empty > _MOST_EMPTY:
                if not self._slim:
                    self.rows[number] = result
                return
        super().add(number, result)
        if self._slim:
            self.rows[number] = dataclasses.replace(result, histogram=NO_HISTOGRAM)

    def _encode(self, number: int, result: TensorStatistics) -> dict[str, Any]:
        return {
            **{name: getattr(result, name) for name in _number_fields(TensorStatistics)},
            "tensor": result.tensor,
            "type": result.type,
            "shape": list(result.shape),
            "percentiles": [result.percentiles[percent] for percent in PERCENTS],
            "histogram": result.histogram.counts.tolist(),
            "step_error_rms": result.step_error_rms,
        }

    def _decode(self, number: int, fields: dict[str, Any]) -> TensorStatistics:
        tensor = self._tensors[number]
        found = fields["tensor"], fields["type"], fields["shape"], fields["count"]
        if found != (tensor.name, tensor.type.name, list(tensor.shape), tensor.parameters):
            raise ValueError("these are statistics of another tensor")
        numbers = _numbers(TensorStatistics, fields)
        parts = ("finite", "nan", "positive_inf", "negative_inf")
        if sum(numbers[part] for part in parts) != numbers["count"]:
            raise ValueError("its weights are not as many as the tensor's")
        percentiles = _percentiles(PERCENTS, fields)
        if numbers["finite"]:
            known = (numbers["mean"], numbers["std"], numbers["rms"], *percentiles.values())
            if not all(map(math.isfinite, known)):
                raise ValueError("a figure of finite weights is none")
        step = fields["step_error_rms"]
        counts = _counts(fields["histogram"], numbers["finite"])
        histogram = NO_HISTOGRAM
        if not self._slim:
            histogram = _histogram(numbers["min"], numbers["max"], counts)
        return TensorStatistics(
            tensor=tensor.name,
            type=tensor.type.name,
            shape=tensor.shape,
            percentiles=percentiles,
            histogram=histogram,
            step_error_rms=None if step is None else _real(step),
            **numbers,
        )


class CachedErrors(CachedResults[PairErrors]):
    """Errors by place among pairs, weighted by importance where that is asked for.

    Squares by column and pictures have rows of their own. From the squares the errors by any matrix
    are worked out: they are read where one is chosen that the errors were not weighted by.

    Attributes:
        plain: Errors of which the weighted ones are not known, though a matrix has these weights.
    """

    def __init__(
        self,
        cache: SurveyCache | None,
        pairs: Sequence[WeightsPair],
        survey: str | None = None,
        importance: ImportanceOf | None = None,
    ) -> None:
        self._pairs = pairs
        self._importance = importance
        self._keys = [_key_of_pair(pair) for pair in pairs]
        self._places = {key: place for place, key in enumerate(self._keys)}
        self.plain: dict[int, PairErrors] = {}
        super().__init__(cache, survey)

    def importance(self, number: int) -> Values | None:
        """Return what the errors of a pair are weighted by; None if all weights count alike."""
        return None if self._importance is None else self._importance(self._pairs[number])

    def add(self, number: int, result: PairErrors) -> None:
        """Keep errors, on disk as well if possible, and there the squares by column."""
        columns, result.sums.columns = result.sums.columns, None
        self.plain.pop(number, None)
        super().add(number, dataclasses.replace(result, picture=b""))
        if columns is not None and columns.nbytes <= MOST_PART_BYTES:
            self._write(f"{self._survey} columns", self._keys[number], columns.tobytes())
        if result.picture:
            self._write(f"{self._survey} pictures", self._keys[number], result.picture)

    def picture(self, number: int) -> ErrorPicture | None:
        """Return the picture of a pair whose errors are known; None if it is not kept."""
        if self._cache is None:
            return None
        try:
            with contextlib.closing(self._cache.connect()) as database:
                return self._parted(database, "pictures", number, self._picture_of)
        except (sqlite3.Error, OSError) as error:
            self._cache.remove_if_damaged(error)
            return None

    def _picture_of(self, number: int, content: bytes) -> ErrorPicture:
        return ErrorPicture.frombytes(self.rows[number], content)

    def _key_of(self, number: int) -> int:
        return self._keys[number]

    def _read(self, database: sqlite3.Connection) -> None:
        super()._read(database)
        for number, found in list(self.rows.items()) if self._importance is not None else ():
            importance = self.importance(number)
            wanted = importance_digest(importance)
            if found.matrix == wanted:
                continue
            weighted = None
            if importance is not None:
                columns = self._parted(database, "columns", number, self._columns_of)
                weighted = None if columns is None else columns.weighted(importance)
            self.rows[number] = dataclasses.replace(found, weighted=weighted, matrix=wanted)
            if importance is not None and weighted is None:
                self.plain[number] = self.rows.pop(number)

    def _columns_of(self, number: int, content: bytes) -> ColumnErrors:
        return ColumnErrors.frombytes(self._pairs[number].shape, content)

    def _parted(
        self,
        database: sqlite3.Connection,
        part: str,
        number: int,
        made: Callable[[int, bytes], Part],
    ) -> Part | None:
        """Return what is kept of a pair in a row of its own; None if nothing is."""
        where = f"{self._survey} {part}", self._keys[number], MOST_PART_BYTES
        for digest, value in database.execute(_READ_PART, where):
            with contextlib.suppress(*_ODD_VALUES, zlib.error):
                if _digest(value) == digest:
                    return made(number, value)
        return None

    def _take(self, key: int, fields: dict[str, Any]) -> None:
        number = self._places.get(key)
        if number is not None:  # others are of tensors that nobody asks for
            self.rows[number] = self._decode(number, fields)

    def _encode(self, number: int, result: PairErrors) -> dict[str, Any]:
        by = result.weighted
        return {
            **result.sums.record(),
            "pair": self._pairs[number].identity,
            "saturated": result.saturated,
            "weighted": None if by is None else [result.matrix, by.squares, by.signal],
        }

    def _decode(self, number: int, fields: dict[str, Any]) -> PairErrors:
        if fields["pair"] != self._pairs[number].identity:
            raise ValueError("these are errors of another pair")
        counts, count = list(map(_count, fields["counts"])), _count(fields["count"])
        sums = list(map(_real, fields["sums"]))
        percentiles = _percentiles(ERROR_PERCENTS, fields)
        errors = RunningErrors.of_record(count, counts, sums, percentiles)
        saturated, by, matrix = fields["saturated"], fields["weighted"], ""
        if count != self._pairs[number].parameters or (
            saturated is not None and not 0 <= _real(saturated) <= 1
        ):
            raise ValueError("these are not errors of this pair")
        weighted = None
        if by is not None and self._importance is not None:
            matrix, squares, signal = str(by[0]), _real(by[1]), _real(by[2])
            weighted = WeightedErrors(squares, signal)
        found = PairErrors(errors, saturated, weighted, matrix)
        _ = found.metrics  # which odd sums have none of
        return found


def _key_of_pair(pair: WeightsPair) -> int:
    """Return by what the database knows a pair among those of two models."""
    return int.from_bytes(_digest(json.dumps(pair.identity).encode())[:8], "big") >> 1


@cache
def _number_fields(kind: type) -> dict[str, type[int] | type[float]]:
    """Return the fields of a dataclass that are whole or real numbers."""
    types: dict[Any, type[int] | type[float]] = {"int": int, "float": float}
    return {one.name: types[one.type] for one in dataclasses.fields(kind) if one.type in types}


def _numbers(kind: type, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a result; a ValueError, if one is of another type, or a count below 0.

    What `int` and `float` would make of a text or a Boolean is not a number that was written.
    """
    return {
        name: _count(fields[name]) if number is int else _real(fields[name])
        for name, number in _number_fields(kind).items()
    }


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _INT64_MAX:
        raise ValueError("this is not a count")
    return value


def _real(value: object) -> float:
    if type(value) not in (int, float):
        raise ValueError("this is not a number")
    return float(value)  # type: ignore[arg-type]


def _percentiles(percents: Sequence[float], fields: dict[str, Any]) -> dict[float, float]:
    return dict(zip(percents, map(_real, fields["percentiles"]), strict=True))


def _counts(values: object, total: int) -> list[int]:
    counts = list(map(_count, values)) if type(values) is list else []
    if len(counts) != DEFAULT_BINS or sum(counts) != total:
        raise ValueError("this is not a histogram of the tensor")
    return counts


def _histogram(low: float, high: float, counts: list[int]) -> Histogram:
    """Return the histogram of weights from `low` to `high`, which are NaN of no weights."""
    if math.isnan(low):
        low, high = math.inf, -math.inf
    elif not -_FLOAT32_MAX <= low <= high <= _FLOAT32_MAX:
        raise ValueError("this is not a range of weights")
    edges = Binning.of_weights(low, high, DEFAULT_BINS).edges.astype(np.float64)
    return Histogram(float(edges[0]), float(edges[-1]), edges, np.array(counts, np.int64))


def identify(model: Model) -> str | None:
    """Return a key of what a model's files hold now; None if they cannot be read."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    try:
        for file in model.files:
            digest.update(json.dumps([__version__, *_stamp(file), file.header_bytes]).encode())
            size = min(file.header_bytes, file.source.size, _MAX_HEADER)
            for start in range(0, size, _PIECE):
                digest.update(file.source.read(start, min(_PIECE, size - start)))
    except (OSError, ExplorerError) as error:
        _log.info("%s: it cannot be identified: %s", model.path, error)
        return None
    return digest.hexdigest()


def _stamp(file: ModelFile) -> tuple[str, int, int | str]:
    """Return the place of a file, its size, and what a change of it changes."""
    if not isinstance(file.path, Address):
        status = file.path.stat()
        return str(file.path.absolute()), status.st_size, status.st_mtime_ns
    if not file.source.version:
        raise SourceError("has no version that its server tells", file.path)
    return str(file.path), file.source.size, file.source.version


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
