"""Surveys are kept on disk, so that the second look at a model is instant.

A model has a file of its own in the user's cache folder, with a line for each tensor, written when
its statistics are known: a survey that was stopped goes on where it was. Which file it is, the
model's files tell: path, size, time of change and what the header says. A cache that cannot be read
or written is no error; the survey then takes as long as the first one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from explorer import __version__
from explorer.analysis.statistics import TensorStatistics
from explorer.analysis.survey_records import from_line, to_line
from explorer.cache import cache_folder
from explorer.errors import ExplorerError
from explorer.formats.model import Model, ModelFile
from explorer.formats.tensors import Tensor

MAX_BYTES: Final = 256 << 20
"""Most bytes that all surveys together are kept in."""

_MAX_FILE_BYTES: Final = MAX_BYTES // 4
_MAX_LINE: Final = 1 << 16
_MAX_HEADER: Final = 64 << 20  # what is hashed of a header
_PIECE: Final = 1 << 20
_SUFFIX: Final = ".survey"
_log = logging.getLogger(__name__)


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

    def open(self, model: Model) -> KeptSurvey:
        """Return what is known of a model; a context manager.

        Reads the headers of its files, and what was kept.
        """
        identity = identify(model)
        if identity is None:
            return KeptSurvey(None, model)
        return KeptSurvey(self.folder / (identity + _SUFFIX), model, self)

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


class KeptSurvey:
    """What is known of one model's tensors, and a file that more is added to.

    Attributes:
        rows: Statistics by row of the model's table.
    """

    def __init__(self, path: Path | None, model: Model, cache: SurveyCache | None = None) -> None:
        self._path = path
        self._cache = cache
        self._descriptor: int | None = None
        self.rows: dict[int, TensorStatistics] = {}
        if path is not None:
            try:
                self._read(path, model)
            except OSError as error:
                _log.info("%s: the survey cannot be read: %s", path, error)

    def add(self, row: int, found: TensorStatistics) -> None:
        """Keep the statistics of a tensor, on disk as well if that can be."""
        self.rows[row] = found
        if self._path is None:
            return
        try:
            self._write(self._path, to_line(row, found))
        except OSError as error:  # a full disk, or a folder that is not ours
            _log.info("%s: the survey cannot be kept: %s", self._path, error)
            self.close()

    def close(self) -> None:
        """Close the file; what is added from now on is kept in memory alone."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = self._path = None

    def _read(self, path: Path, model: Model) -> None:
        tensors = model.tensors.rows

        def tensor_at(row: int) -> Tensor | None:
            return tensors[row] if 0 <= row < len(tensors) else None

        try:
            stream = path.open("rb")
        except FileNotFoundError:
            return
        with stream:
            os.utime(path)  # marks it as used
            left = _MAX_FILE_BYTES
            while left > 0 and (line := stream.readline(_MAX_LINE)):
                left -= len(line)
                found = from_line(line, tensor_at)
                if found is not None:
                    self.rows[found[0]] = found[1]

    def _write(self, path: Path, line: bytes) -> None:
        if self._descriptor is None:
            assert self._cache is not None
            path.parent.mkdir(parents=True, exist_ok=True)
            self._cache.make_room()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._descriptor = os.open(path, flags, 0o600)
            # a line that another program did not end must not swallow the next one
            if os.fstat(self._descriptor).st_size:
                line = b"\n" + line
        if os.fstat(self._descriptor).st_size + len(line) <= _MAX_FILE_BYTES:
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


def identify(model: Model) -> str | None:
    """Return a name for what a model's files hold now; None if they cannot be told."""
    digest = blake2b(digest_size=20)
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
