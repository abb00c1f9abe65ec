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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

from explorer import __version__
from explorer.analysis.errors.figures import ErrorFigures
from explorer.analysis.errors.weights_pair import WeightsPair
from explorer.analysis.statistics import TensorStatistics
from explorer.analysis.surveys import error_records
from explorer.analysis.surveys import records as survey_records
from explorer.analysis.surveys.kept_lines import MAX_FILE_BYTES, Codec, KeptLines
from explorer.errors import ExplorerError
from explorer.formats.model import Model, ModelFile
from explorer.formats.tensors import Tensor
from explorer.paths import cache_folder

MAX_BYTES: Final = 4 * MAX_FILE_BYTES
"""Most bytes that all surveys together are kept in."""

_MAX_HEADER: Final = 64 << 20  # what is hashed of a header
_PIECE: Final = 1 << 20
_SUFFIX: Final = ".survey"
_NAME_BYTES: Final = 20
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
            survey_records.to_line,
            lambda line: survey_records.from_line(line, tensor_at, slim=slim),
        )
        super().__init__(path, codec, _room_maker(cache))

    def remembered(self, found: TensorStatistics) -> TensorStatistics:
        """Return what is kept in memory; see `KeptLines.remembered`."""
        if not self._slim or found.histogram is survey_records.NO_HISTOGRAM:
            return found
        return replace(found, histogram=survey_records.NO_HISTOGRAM)


class KeptErrors(KeptLines[ErrorFigures]):
    """What is known of the errors of pairs, and a file that more is added to.

    Attributes:
        rows: Errors by place among the pairs.
    """

    def __init__(
        self, path: Path | None, pairs: Sequence[WeightsPair], cache: SurveyCache | None = None
    ) -> None:
        codec = Codec(
            lambda number, found: error_records.to_line(number, pairs[number], found),
            lambda line: error_records.from_line(line, pairs),
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
