"""Figures that are kept on disk as lines of a file, so that the second look takes no time.

A line is JSON behind a digest of it: half a line, or one that a disk has damaged, is not taken for
figures. Pickles would run whatever somebody had put there. A file that cannot be read or written is
no error: everything is then worked out as at the first time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

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
