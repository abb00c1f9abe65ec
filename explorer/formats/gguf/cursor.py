"""A place in the header of a GGUF file, with the bytes around it."""

from __future__ import annotations

from typing import Final

from explorer.errors import FormatError
from explorer.formats.gguf.arrays import Layout
from explorer.sources import ByteSource

_WINDOW_BYTES: Final = 1 << 14
_MOST_QUOTED: Final = 120


def quoted(name: str) -> str:
    """Return a name from the file for a message: escaped, and not longer than a line."""
    shown = repr(name[:_MOST_QUOTED])
    if len(name) <= _MOST_QUOTED and len(shown) <= 2 * _MOST_QUOTED:
        return shown
    return f"{shown[: 2 * _MOST_QUOTED]}…"  # a byte that is no text takes four or six characters


class Cursor:
    """A position in the header and a window of bytes around it.

    All that reads moves the position on, and takes `what` it reads for messages.

    Attributes:
        source: The file.
        layout: How it writes numbers.
        position: Offset of the next byte.

    Raises:
        FormatError: The file ends before what is read does, or a string is longer than its limit.
        SourceError: The file changed since it was opened.
    """

    def __init__(self, source: ByteSource, layout: Layout) -> None:
        self.source = source
        self.layout = layout
        self.position = 0
        self._window = b""
        self._base = 0

    def window(self, length: int) -> tuple[bytes, int]:
        """Return bytes that hold at least `length` from the position on, or up to the file's end.

        Returns:
            The bytes, and the place of the position in them.
        """
        left = max(0, self.source.size - self.position)
        start = self.position - self._base
        if start < 0 or start + min(length, left) > len(self._window):
            size = min(max(length, _WINDOW_BYTES), left)
            self._window = self.source.read(self.position, size)
            self._base = self.position
            start = 0
        return self._window, start

    def take(self, length: int, what: str) -> bytes:
        """Return the next `length` bytes."""
        start = self.position - self._base
        if 0 <= start <= len(self._window) - length:
            self.position += length
            return self._window[start : start + length]
        if length > self.source.size - self.position:
            raise FormatError(
                f"file ends inside {what}: {length} bytes expected, "
                f"{self.source.size - self.position} left; download it again",
                self.source.path,
                self.position,
            )
        window, start = self.window(length)
        self.position += length
        return window[start : start + length]

    def u32(self, what: str) -> int:
        """Return the next number of 4 bytes."""
        return int.from_bytes(self.take(4, what), self.layout.order)

    def count(self, what: str) -> int:
        """Return the next count or length: 8 bytes, or 4 in version 1."""
        return int.from_bytes(self.take(self.layout.width, what), self.layout.order)

    def string(self, what: str, limit: int) -> bytes:
        """Return the next string of at most `limit` bytes."""
        at = self.position
        length = self.count(f"the length of {what}")
        if length > limit:
            raise FormatError(
                f"{what} is {length} bytes long, at most {limit} are allowed; "
                "the header is damaged",
                self.source.path,
                at,
            )
        return self.take(length, what)
