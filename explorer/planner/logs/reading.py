"""Logs of any size, read once and in pieces: `read_log`, `read_stream`, `parse_log`.

A line is looked at only if it holds a word of `WORDS`, and only its first `_LONGEST_LINE` bytes. So
memory stays bounded, and time grows with the bytes alone.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from explorer.planner.logs.lines import WORDS, Log, LogParser
from explorer.sources.files import FileSource

LONGEST_LOG: Final = 1 << 30
"""Bytes of a log that are read: of a longer file the end, of a longer stream the beginning."""

_LONGEST_LINE: Final = 8192
_MOST_LINES: Final = 1_000_000  # that hold a word
_PIECE: Final = 1 << 20


class _Lines:
    """Finds the lines of a stream that hold a word of `WORDS`."""

    def __init__(self, parser: LogParser) -> None:
        self._parser = parser
        self._rest = b""
        self._skipping = False  # the rest of a line that is longer than one is looked at
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        if not self._begun and piece:
            self._begun = True
            encoding = wide_encoding(piece)
            if encoding is not None:  # PowerShell's `>` writes UTF-16
                self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        if self._decoder is not None:
            piece = self._decoder.decode(piece).encode("utf-8", "replace")
        if self._skipping:
            end = piece.find(b"\n")
            if end < 0:
                return
            piece, self._skipping = piece[end + 1 :], False
        block = self._rest + piece
        end = block.rfind(b"\n") + 1
        self._rest = block[end:]
        if len(self._rest) > _LONGEST_LINE:
            self._take(self._rest[:_LONGEST_LINE])
            self._rest, self._skipping = b"", True
        self._take(block[:end])

    def end(self) -> None:
        """Take the last line, which may have no end."""
        self._take(self._rest)
        self._rest = b""

    def _take(self, block: bytes) -> None:
        """Read those lines of a block that hold a word, each once and in order."""
        starts: set[int] = set()
        for word in WORDS:
            place = block.find(word)
            while place >= 0:
                starts.add(block.rfind(b"\n", 0, place) + 1)
                place = block.find(b"\n", place)
                place = block.find(word, place) if place >= 0 else -1
        for start in sorted(starts):
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            line = block[start : min(end, start + _LONGEST_LINE)]
            if self._parser.lines < _MOST_LINES:
                self._parser.line(line.decode("utf-8", "replace"))


def wide_encoding(piece: bytes) -> str | None:
    """Return the encoding of a text in UTF-16, with a mark or with a NUL at every second byte."""
    if piece[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "utf-16"
    head = piece[:512]
    nothing = [head[parity::2].count(0) for parity in (0, 1)]  # holes have NULs everywhere
    if len(head) >= 64 and nothing[1] > len(head) * 3 // 8 and nothing[0] < len(head) // 8:
        return "utf-16-le"
    return None


def parse_log(pieces: Iterable[bytes], *, cut: bool = False) -> Log:
    """Return what a log says, given as pieces of bytes; memory stays bounded.

    Args:
        pieces: The text in any division; 1 GiB of it is read at most.
        cut: Whether something was left out before.
    """
    parser = LogParser()
    lines, left = _Lines(parser), LONGEST_LOG
    for piece in pieces:
        if len(piece) > left:
            cut = True
        lines.feed(piece[:left])
        left -= min(len(piece), left)
        if left == 0 and cut:
            break
    lines.end()
    return parser.log(cut=cut or parser.lines >= _MOST_LINES)


def read_log(path: Path | str, check: Callable[[], None] = lambda: None) -> Log:
    """Read a log file; of one of more than 1 GiB the end.

    Args:
        path: The file.
        check: Called between pieces; raises to stop.

    Raises:
        SourceError: It cannot be read.
    """
    with FileSource(Path(path)) as source:
        begin = max(0, source.size - LONGEST_LOG)

        def pieces() -> Iterator[bytes]:
            for offset in range(begin, source.size, _PIECE):
                check()
                yield source.read(offset, min(_PIECE, source.size - offset))

        return parse_log(pieces(), cut=begin > 0)


def read_stream(stream: BinaryIO) -> Log:
    """Read a log from a stream, such as standard input; of more than 1 GiB the beginning."""
    return parse_log(iter(lambda: stream.read(_PIECE), b""))
