"""Bytes of an address by position: what is asked for is fetched by ranges, and little more.

A header is fetched in ranges that grow, since nothing says how long it is: 0.65 to 6.2 MiB in
practice, hence 1 to 3 requests. Weights are fetched in blocks. All parts are of one version of the
file: later ones are asked for on the condition that it is still the first one's (If-Range).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from explorer.ends import remove
from explorer.errors import SourceError
from explorer.parallel import LruCache, current_check
from explorer.private_folder import PrivateFolder
from explorer.sources.files import ByteSource, MemorySource
from explorer.sources.remote.addresses import Address, check_allowed
from explorer.sources.remote.http import FetchError, Reply, Request, fetch, origin
from explorer.sources.remote.hub import pinned, target_of

BLOCK: Final = 1 << 20
"""Weights are fetched in multiples of it."""

MAX_TEXT_BYTES: Final = 64 << 20
"""Most bytes of a side file, which is fetched whole."""

_FIRST_BYTES: Final = 1 << 20
_MOST_AT_ONCE: Final = 8 << 20
_MOST_AHEAD: Final = 4 << 20  # more would leave progress without a sign of life on a slow line
_MOST_EXPECTED: Final = 64
_MOST_HEADER: Final = 160 << 20  # the limits of the formats are below it
_GAP: Final = 1 << 16  # a header is read on from here, or a little behind
_GONE: Final = frozenset({400, 401, 403, 404, 410})  # a signed URL that is no longer valid …
_FRESH_S: Final = 60.0  # … and if it was made less than this ago, it is valid for one range alone
_POLL_S: Final = 0.05


def open_address(
    address: Address, first_bytes: int = _FIRST_BYTES, *, whole: bool = False
) -> ByteSource:
    """Open what an address names.

    Args:
        address: It names a file.
        first_bytes: Length of the first range, which holds most headers.
        whole: Fetch it whole, as the texts beside a model: their servers need not know ranges.

    Raises:
        FetchError: It does not exist, may not be read, or is not given within the bounds.
        SourceError: Addresses are switched off, or the extra is not installed.
    """
    if whole:
        target = target_of(address)
        request = Request(target.url, address, None, MAX_TEXT_BYTES, target.headers, target.secret)
        return MemorySource(fetch(request).body, address)
    return RemoteSource(address, first_bytes)


class RemoteSource(ByteSource):
    """A `ByteSource` over a file of a server that gives ranges.

    Reads wait for the network: they end early where `parallel.cancelled_by` says so.

    Raises:
        FetchError: See `open_address`; while reading, also that the file was changed there.
    """

    def __init__(self, address: Address, first_bytes: int = _FIRST_BYTES) -> None:
        self.path = self._address = address
        self._target = target_of(address)
        self._url = self._target.url  # where redirects led, later
        self._public = False
        self._led_at = 0.0
        self._redirects_expire = False  # where redirects lead is valid for one range only
        self.version = ""  # ETag or time of change, as If-Range takes it
        self._mark = ""  # … and as it tells versions apart, be it a weak one
        self._linked = ""  # what a hub says of the content, wherever it is stored
        self._lock = threading.Lock()
        self._number = next(_numbers)
        self._closed = False
        self._opening = True
        self._next_bytes = first_bytes
        self._expected: deque[tuple[int, int]] = deque(maxlen=_MOST_EXPECTED)
        self._ahead = 0  # bytes that are fetched beside what is asked for, of what is expected
        self._header, self.size = b"", 0
        known = HeaderCache().load(address)
        headers = {"If-None-Match": known.version} if known else {}
        reply = self._get(0, first_bytes - 1, headers)
        self._keep_to(reply)
        self.version, self._mark = _version(reply), _mark(reply)
        same = known is not None and (self.version, reply.total) == (known.version, known.size)
        if known is not None and (same or reply.status == 304):
            self._header, self.size = known.header, known.size
            self.version = self._mark = known.version
            self._cached_header_bytes = len(known.header)
        else:
            self._header, self.size, self._cached_header_bytes = reply.body, reply.total, 0

    def end_header(self) -> None:
        """Keep the header for the next time; from now on, only what is asked for is fetched."""
        self._opening = False
        strong = self.version.startswith('"')
        if strong and len(self._header) > self._cached_header_bytes:
            known = KnownHeader(self.version, self.size, self._header)
            HeaderCache().store(self.path, known)

    def expect(self, offset: int, length: int) -> None:
        span = (offset, offset + length)
        if span not in self._expected:
            self._expected.appendleft(span)

    def read_into(self, offset: int, buffer: bytearray | memoryview) -> None:
        end = offset + self._checked(offset, len(buffer))
        view = memoryview(buffer)
        position = offset
        while position < end:
            piece = self._piece(position, end)
            view[position - offset : position - offset + len(piece)] = piece
            position += len(piece)

    def close(self) -> None:
        self._closed = True
        self._header = b""
        _blocks.drop(lambda key: key[0] == self._number)

    def _piece(self, position: int, end: int) -> bytes | memoryview:
        """Return bytes from a position on: at least one, and none behind the end."""
        for wait in (False, True):
            if self._closed:
                raise SourceError("was closed. Open it again", self.path)
            header = self._header
            if position < len(header):
                return memoryview(header)[position : min(end, len(header))]
            index = position // BLOCK
            block = _blocks.get((self._number, index))
            if isinstance(block, bytes):
                start = position - index * BLOCK
                return memoryview(block)[start : start + end - position]
            if not wait:
                with self._waiting():
                    self._fetch(position, end)
        return self._get(position, min(end, position + BLOCK) - 1).body  # blocks went already

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Hold the lock: two readers of neighbouring weights fetch a block once."""
        check = current_check()
        while not self._lock.acquire(timeout=_POLL_S):
            check()
        try:
            yield
        finally:
            self._lock.release()

    def _fetch(self, position: int, end: int) -> None:
        """Fetch the bytes from a position on, unless another thread did meanwhile."""
        reached = len(self._header)
        if position < reached or _blocks.get((self._number, position // BLOCK)) is not None:
            return
        if self._opening and position <= reached + _GAP and end < _MOST_HEADER:
            self._next_bytes = min(2 * self._next_bytes, _MOST_AT_ONCE)
            last = min(max(end, reached + self._next_bytes), self.size) - 1
            self._header += self._get(reached, last).body
            return
        first = position // BLOCK
        stop = first + 1
        end = self._farther(position, end)
        while (
            stop * BLOCK < end
            and (stop - first + 1) * BLOCK <= _MOST_AT_ONCE
            and _blocks.get((self._number, stop)) is None
        ):
            stop += 1
        body = self._get(first * BLOCK, min(stop * BLOCK, self.size) - 1).body
        for index in range(first, stop):
            at = (index - first) * BLOCK
            _blocks.put((self._number, index), body[at : at + BLOCK])

    def _farther(self, position: int, end: int) -> int:
        """Return where to end a fetch: farther the longer a tensor is read in order, within it."""
        in_order = _blocks.get((self._number, position // BLOCK - 1)) is not None
        self._ahead = min(2 * self._ahead + BLOCK, _MOST_AHEAD) if in_order else 0
        ends = (stop for start, stop in list(self._expected) if start <= position < stop)
        return max(end, min(position + self._ahead, next(ends, end)))

    def _keep_to(self, reply: Reply) -> None:
        """Note the commit that a branch of a hub has led to, and the hash of the content."""
        self._linked = _linked(reply)
        target = pinned(self._address, [*reply.hops, reply.headers])
        if target is not None:
            self._url = target.url if self._url == self._target.url else self._url
            self._target = target

    def _get(self, first: int, last: int, headers: dict[str, str] | None = None) -> Reply:
        """Ask for a range, where redirects led the last time; from the beginning if that is gone.

        A hub's redirects lead to a URL that is valid for an hour, or for the one range.
        """
        check_allowed(self._address)
        headers = {**self._target.headers, **(headers or {})}
        if self.version:
            headers["If-Range"] = self.version
        direct = self._url == self._target.url
        secret = self._target.secret if origin(self._url) == origin(self._target.url) else {}
        span = (first, last)
        request = Request(self._url, self._address, span, 0, headers, secret, self._public)
        try:
            reply = fetch(request)
        except FetchError as error:
            if error.status == 416 and not self.size:
                raise SourceError("is empty", self.path) from error
            if direct and error.status == 200 and self._linked:
                reply = self._get_anyway(request, error)
            elif direct or error.status not in _GONE:
                raise
            else:
                self._redirects_expire = time.monotonic() - self._led_at < _FRESH_S
                self._url = self._target.url
                return self._get(first, last, headers)
        if self._linked and _linked(reply) == self._linked:
            self.version, self._mark = _version(reply), _mark(reply)
        self._public = self._public or reply.public  # whatever its name means later
        if direct and not self._redirects_expire and not _names_a_range(reply.url):
            self._url, self._led_at = reply.url, time.monotonic()
        other = self._mark and _mark(reply) != self._mark and _must_have_mark(self._mark, reply)
        if self.size and (other or reply.total != self.size):
            raise SourceError("was changed on its server. Open it again", self.path, first)
        return reply

    def _get_anyway(self, request: Request, refused: FetchError) -> Reply:
        """Ask without the condition: two storage hosts of a hub may give one file two ETags.

        Its content is the same if the hub says so.
        """
        headers = {name: text for name, text in request.headers.items() if name != "If-Range"}
        reply = fetch(replace(request, headers=headers))
        if _linked(reply) != self._linked:
            raise refused
        return reply


def _linked(reply: Reply) -> str:
    """Return the hash of the content that a hub says beside a redirect to it; "" if it does not."""
    return next((hop["x-linked-etag"] for hop in reply.hops if "x-linked-etag" in hop), "")


def _names_a_range(url: str) -> bool:
    """Return whether a signed URL seems to be for one range: the hub's, for Xet's storage, may be.

    ``X-Xet-Signed-Range=bytes%3D0-1048575``, ``X-Amz-SignedHeaders=host%3Brange``
    """
    return "range" in urlsplit(url).query.lower()


def _version(reply: Reply) -> str:
    """Return what tells versions of a file apart: a strong ETag, else the time of change, or ""."""
    tag = reply.headers.get("etag", "")
    return tag if tag.startswith('"') else reply.headers.get("last-modified", "")


def _mark(reply: Reply) -> str:
    """Return what a server says of the version, be it too weak for a condition."""
    return reply.headers.get("etag") or reply.headers.get("last-modified", "")


def _must_have_mark(mark: str, reply: Reply) -> bool:
    """Return whether a reply without the mark is of another version (RFC 9110, section 15.3.7).

    A part that was asked for on condition needs its ETag, and no time of change.
    """
    return '"' in mark or bool(_mark(reply))


_LEAST_CACHE: Final = 256 << 20
_MOST_CACHE: Final = 1 << 30


def _cache_bytes() -> int:
    """Return how many bytes of blocks are kept: a sixteenth of main memory, within bounds.

    Statistics walk over a tensor twice, so one that is larger than this is fetched twice.
    """
    if sys.platform == "win32":
        return _LEAST_CACHE
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return _LEAST_CACHE
    return min(max(memory // 16, _LEAST_CACHE), _MOST_CACHE)


_blocks: Final = LruCache(_cache_bytes(), len)  # of all sources, by source and place
_numbers: Final = count()


class KnownHeader(NamedTuple):
    """The first bytes of a file of a server, as they were fetched once."""

    version: str  # the strong ETag
    size: int  # of the file
    header: bytes


class HeaderCache:
    """Headers on disk, so that an address opens with one request the next time.

    A file for each address: a line of JSON, and the bytes. What is damaged, or of another version
    than the server has, is not used.
    """

    MAX_BYTES: Final = 256 << 20
    MAX_HEADER: Final = 32 << 20

    def __init__(self) -> None:
        self._folder = PrivateFolder("addresses")

    def load(self, address: Path) -> KnownHeader | None:
        """Return the header of an address, if one is kept."""
        try:
            content = self._folder.read(_header_name(address), self.MAX_HEADER + BLOCK)
            line, header = (content or b"").split(b"\n", 1)
            about = json.loads(line)
            known = KnownHeader(str(about["version"]), int(about["size"]), header)
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return known if len(header) <= known.size else None

    def store(self, address: Path, known: KnownHeader) -> None:
        """Keep a header; where that fails, it is fetched again the next time."""
        if len(known.header) > self.MAX_HEADER:
            return
        line = json.dumps({"version": known.version, "size": known.size}).encode()
        content = line + b"\n" + known.header
        with suppress(OSError):
            self._make_room(len(content))
            self._folder.write(_header_name(address), content)

    def _make_room(self, nbytes: int) -> None:
        """Remove the oldest, until there is room for so many bytes more."""
        found = [(path.lstat(), path) for path in self._folder.make().iterdir()]
        total = nbytes + sum(status.st_size for status, _ in found)
        for status, path in sorted(found, key=lambda one: one[0].st_mtime):
            if total <= self.MAX_BYTES:
                return
            remove(path)
            total -= status.st_size


def _header_name(address: Path) -> str:
    return f"{hashlib.sha256(str(address).encode()).hexdigest()}.header"
