"""How many requests opening one address may take: more than usual are asked for.

What a server sends decides how much is asked of it next: a manifest may name thousands of blobs. So
requests are counted as bytes are, wherever they are made for the opening of one address.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from explorer.errors import ManyRequestsError
from explorer.sources.remote.addresses import Address, host_of
from explorer.text import counted, quoted

MOST_REQUESTS: Final = 200
"""Requests that open one address without a question."""

REQUESTS_VARIABLE: Final = "GGUF_EXPLORER_REQUESTS"
"""Names another number."""

_SHOWN_HOSTS: Final = 8
_allowed: Final[dict[Address, int]] = {}  # what the user has agreed to, by address
_thread: Final = threading.local()


class Opening:
    """The requests that the opening of one address takes; safe in any thread."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._made = 0
        self._hosts: dict[str, None] = {}  # that the server has chosen, in order

    def led_to(self, host: str) -> None:
        """Count the request that a redirect takes, as `count` does, and note the host."""
        with self._lock:
            self._check(1)
            self._made += 1
            if host != host_of(self._address) and len(self._hosts) <= _SHOWN_HOSTS:
                self._hosts[host] = None

    def expect(self, number: int) -> None:
        """Ask for so many requests more, before the first of them is made.

        Raises:
            Exception: They are more than the user allows: one that no reader takes for a fault of
                the file that it reads. `opening` makes a `ManyRequestsError` of it.
        """
        with self._lock:
            self._check(number)

    def count(self) -> None:
        """Count a request that is about to be made, as `expect` does."""
        with self._lock:
            self._check(1)
            self._made += 1

    def _check(self, number: int) -> None:
        wanted = self._made + number
        usual = os.environ.get(REQUESTS_VARIABLE, "")
        most = int(usual[:9]) if usual.isdecimal() else MOST_REQUESTS
        if wanted <= max(most, _allowed.get(self._address, 0)):
            return
        hosts = list(map(quoted, self._hosts))
        hosts[_SHOWN_HOSTS:] = ["others"] * (len(hosts) > _SHOWN_HOSTS)
        led = f" and to {', '.join(hosts)}, which it leads to" if hosts else ""
        host = quoted(host_of(self._address))
        what = f"takes at least {counted(wanted, 'request')} to {host}{led}"
        raise _TooManyError(what, wanted)


class _TooManyError(Exception):
    """Opening an address takes too many requests: what to say, and how many."""


@contextmanager
def opening(address: Address) -> Iterator[None]:
    """Count the requests that are made in the block to open an address.

    Raises:
        ManyRequestsError: They are more than the user allows.
    """
    with counting(Opening(address)):
        try:
            yield
        except _TooManyError as error:
            needs, number = error.args
            what = f"{needs}. Allow them with {REQUESTS_VARIABLE}={number}"
            raise ManyRequestsError(what, address, needs, number) from None


@contextmanager
def counting(opening: Opening | None) -> Iterator[None]:
    """Count the requests that this thread makes in the block; None counts nothing."""
    before = current_opening()
    _thread.opening = opening
    try:
        yield
    finally:
        _thread.opening = before


def current_opening() -> Opening | None:
    """Return what counts the requests of this thread; None where nothing does."""
    found: Opening | None = getattr(_thread, "opening", None)
    return found


def allow(address: Address, number: int) -> None:
    """Let the opening of an address take so many requests, and as many again unforeseen ones."""
    _allowed[address] = 2 * number
