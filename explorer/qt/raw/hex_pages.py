"""Pages of a file for the hex view: fetched by jobs, kept in a small cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QObject

from explorer.errors import ExplorerError, SourceError, drop_frames
from explorer.qt.jobs import Job, JobRunner, JobSlot
from explorer.sources import ByteSource

PAGE_BYTES: Final = 1 << 16
_MOST_PAGES: Final = 64


class PageCache:
    """The bytes of a file that are in memory, and the way to get more of them.

    Args:
        runner: Runs the reading.
        owner: The view; its end ends the reading.
        on_arrived: Called when bytes have arrived, or could not be read.
        on_failed: Called with a sentence when bytes could not be read, once for each reason.
    """

    def __init__(
        self,
        runner: JobRunner,
        owner: QObject,
        on_arrived: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._slot = JobSlot(runner, owner)
        self._on_arrived = on_arrived
        self._on_failed = on_failed
        self._source: ByteSource | None = None
        self._pages: OrderedDict[int, bytes] = OrderedDict()
        self._failures: dict[int, str] = {}
        self._reported: set[str] = set()
        self._wanted = range(0)
        self._asked: set[int] = set()  # of the job under way, or of one that was cancelled

    @property
    def failed(self) -> bool:
        """Whether any page could not be read."""
        return bool(self._failures)

    def set_source(self, source: ByteSource | None) -> None:
        """Forget everything and read from another file from now on."""
        self._source = source
        self._pages.clear()
        self.retry()

    def retry(self) -> None:
        """Forget failures, so that their pages are asked for again."""
        self._slot.cancel()
        self._asked.clear()
        self._failures.clear()
        self._reported.clear()

    def get(self, offset: int, nbytes: int) -> bytes | None:
        parts = []
        end = offset + nbytes
        while offset < end:
            page, start = divmod(offset, PAGE_BYTES)
            content = self._pages.get(page)
            if content is None:
                return None
            part = content[start : start + end - offset]
            if not part:
                return None
            parts.append(part)
            offset += len(part)
        return b"".join(parts)

    def failure_at(self, offset: int) -> str | None:
        """Return why a byte could not be read, or None."""
        return self._failures.get(offset // PAGE_BYTES)

    def want(self, start: int, stop: int) -> bool:
        """Take note of the bytes in sight; return whether `fetch` has something to do."""
        self._wanted = range(start // PAGE_BYTES, -(-stop // PAGE_BYTES))
        if self._slot.stopped:
            self._asked.clear()
        for page in self._wanted:
            if page in self._pages:
                self._pages.move_to_end(page)
        return bool(self._missing())

    def fetch(self) -> None:
        """Start reading what is wanted and not here."""
        source = self._source
        if self._slot.busy:
            if self._asked & set(self._wanted):
                return  # its result will bring the view back here
            self._asked.clear()  # the view has moved on; `run` cancels
        missing = self._missing()
        if source is None or not missing:
            return
        self._asked.update(missing)

        def read(job: Job) -> dict[int, bytes | ExplorerError]:
            found: dict[int, bytes | ExplorerError] = {}
            for page in missing:
                job.check()
                offset = page * PAGE_BYTES
                try:
                    found[page] = source.read(offset, min(PAGE_BYTES, source.size - offset))
                except SourceError as error:
                    drop_frames(error)
                    found[page] = error
            return found

        title = "Reading bytes"
        self._slot.run(title, read, self._arrived, self._failed)

    def _missing(self) -> list[int]:
        known = (self._pages, self._failures, self._asked)
        return [page for page in self._wanted if not any(page in pages for pages in known)]

    def _arrived(self, found: dict[int, bytes | ExplorerError]) -> None:
        for page, content in found.items():
            self._asked.discard(page)
            if isinstance(content, bytes):
                self._pages[page] = content
            else:
                self._fail(page, content)
        while len(self._pages) > _MOST_PAGES:
            self._pages.popitem(last=False)
        self._on_arrived()

    def _failed(self, error: ExplorerError) -> None:
        for page in tuple(self._asked):
            self._fail(page, error)
        self._asked.clear()
        self._on_arrived()

    def _fail(self, page: int, error: ExplorerError) -> None:
        self._failures[page] = error.what
        if error.what not in self._reported:
            self._reported.add(error.what)
            self._on_failed(str(error))
