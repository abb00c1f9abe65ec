"""Requests over HTTP to servers that nobody vouches for: bounded in bytes, time and redirects.

Only what was asked for is read: the bytes of a range, or a text up to a limit; a server that
answers with more, with something else, or too slowly is refused (RFC 9110, sections 14 and 15.4).
TLS is always verified, by the system's certificates (`SSL_CERT_FILE` names others); the system's
proxies are used. This module is loaded when the first address is read: no other needs urllib3.

A request runs in a thread of its own while the caller waits and may be cancelled: neither the
look-up of a name nor a read from a socket can be interrupted.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from explorer import __version__
from explorer.errors import SourceError
from explorer.parallel import current_check
from explorer.sources.remote.addresses import (
    HUB,
    REGISTRY,
    Address,
    as_number,
    check_allowed,
    is_public,
    is_this_machine,
)
from explorer.sources.remote.requests import current_opening
from explorer.text import quoted

CONNECT_S: Final = 10.0
STALL_S: Final = 15.0
"""Longest time without an answer's head, or without `_PROGRESS_BYTES` of its body."""

MAX_REDIRECTS: Final = 5
MAX_TRIES: Final = 3
MAX_WAIT_S: Final = 20.0
"""Longest wait that a server may ask for (Retry-After) before the next try."""

_LEAST_RATE: Final = 64 << 10  # bytes a second that an answer must have on the whole, after …
_GRACE_S: Final = 60.0  # … this time
_PROGRESS_BYTES: Final = 16 << 10
_PIECE: Final = 64 << 10
_SHORT: Final = frozenset(map(str, range(4096)))
_POLL_S: Final = 0.05
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_BUSY: Final = frozenset({429, 500, 502, 503, 504})
_CONTENT_RANGE: Final = re.compile(r"(?i:bytes) (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")
_MOST_HOSTS: Final = 16


@dataclass(frozen=True)
class Reply:
    """An answer that was read to its end.

    Attributes:
        status: 200, 206 or 304.
        headers: By lower-case name.
        body: What was asked for.
        total: Bytes of the whole file, where a range of it was asked for.
        url: Where the answer came from, redirects followed.
        hops: Headers of the redirects on the way, in order.
        public: Whether a public host was on the way, or answered.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    total: int
    url: str
    hops: tuple[Mapping[str, str], ...]
    public: bool


@dataclass
class Traffic:
    """What was fetched since the program began."""

    nbytes: int = 0
    requests: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, nbytes: int, requests: int = 0) -> None:
        """Count bytes of bodies, and requests."""
        with self.lock:
            self.nbytes += nbytes
            self.requests += requests


TRAFFIC: Final = Traffic()
"""All traffic of the program: it has no other."""


class FetchError(SourceError):
    """A server that does not give what was asked for.

    Attributes:
        status: Its answer's status; 0 if there was none.
    """

    def __init__(self, what: str, address: Address, status: int = 0) -> None:
        super().__init__(what, address)
        self.status = status


class _RetryError(Exception):
    """The request may be tried again, in so many seconds."""

    def __init__(self, what: str, status: int = 0, wait_s: float | None = None) -> None:
        super().__init__(what)
        self.status = status
        self.wait_s = wait_s


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        url: Where to begin.
        address: What the user knows it by, for messages.
        span: First and last byte of a range; None for a whole text.
        most: Most bytes of a text.
        headers: Sent wherever redirects lead.
        secret: Headers sent to the first host only.
        public: Only public hosts may be reached, as where one has answered before.
    """

    url: str
    address: Address
    span: tuple[int, int] | None = None
    most: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    public: bool = False


def fetch(request: Request) -> Reply:
    """Ask a server, and again where it is busy or the connection broke.

    Not by urllib3's retries, which know no body that was cut short, no longest wait and no cancel.

    Raises:
        FetchError: It does not exist, may not be read, or is not given within the bounds.
        SourceError: Addresses are switched off.
        Exception: What the check of this thread's work raises (`parallel.cancelled_by`).
    """
    check_allowed(request.address)
    wait_s = 0.5
    for attempt in range(1, MAX_TRIES + 1):
        opening = current_opening()
        if opening is not None:
            opening.count()
        try:
            return _Exchange(request).run()
        except _RetryError as error:
            asked = error.wait_s
            if attempt == MAX_TRIES or (asked or 0) > MAX_WAIT_S:
                later = f". It asks to wait {asked:.0f} s" if asked else ". Try again later"
                raise FetchError(f"{error}{later}", request.address, error.status) from error
            _sleep(wait_s if asked is None else asked)
            wait_s *= 2
    raise AssertionError


def _sleep(seconds: float) -> None:
    end, check = time.monotonic() + seconds, current_check()
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, _POLL_S))


class _Exchange:
    """One try of a request, in a thread of its own."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._future: Future[Reply] = Future()
        self._progress = self._start = time.monotonic()
        self._abandoned = False
        self._public = request.public
        self._opening = current_opening()
        self._peer = ""  # the number that the last connection led to; "" behind a proxy
        self.socket: socket.socket | None = None

    def run(self) -> Reply:
        """Wait for the answer, as long as it comes fast enough and nobody cancels."""
        threading.Thread(target=self._work, daemon=True, name="address").start()
        check = current_check()
        try:
            while True:
                with suppress(TimeoutError):
                    return self._future.result(_POLL_S)
                if self._future.done():
                    return self._future.result()  # what raised it was no time-out of this wait
                check()
                self._check_speed()
        finally:
            self._abandoned = True
            if not self._future.done() and self.socket is not None:
                with suppress(OSError):  # it was closed meanwhile
                    self.socket.shutdown(socket.SHUT_RDWR)

    def _check_speed(self) -> None:
        now, span = time.monotonic(), self._request.span
        wanted = span[1] - span[0] + 1 if span else self._request.most
        if now - self._progress > STALL_S or now - self._start > _GRACE_S + wanted / _LEAST_RATE:
            raise FetchError("answers too slowly. Try again later", self._request.address)

    def _work(self) -> None:
        _current.exchange = self
        try:
            self._future.set_result(self._follow())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._future.set_exception(error)

    def connected(self, connection: socket.socket, *, by_proxy: bool) -> None:
        """Note the connection of a request; raise PrivateHostError if it must not lead there."""
        self.socket = connection
        self._peer = "" if by_proxy else str(connection.getpeername()[0])
        # The name was looked up a moment ago: what counts is where the connection leads.
        if self._public and self._peer and not is_public(self._peer):
            connection.close()
            raise PrivateHostError

    def _was_public(self, url: str) -> bool:
        """Return whether what answered is reached from the whole internet."""
        host = urlsplit(url).hostname or ""
        if self._peer or as_number(host) is not None:
            return is_public(self._peer or host)
        return not is_this_machine(host)  # a name that the proxy alone looks up

    def _follow(self) -> Reply:
        """Ask, and go where redirects lead.

        Not by urllib3, which reads the whole body of a redirect, goes from https to http and into
        private networks, and forgets the headers on the way.
        """
        url = self._request.url
        hops: list[Mapping[str, str]] = []
        for _ in range(MAX_REDIRECTS + 1):
            try:
                response = self._ask(url)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise self._failure(error, url) from error
            try:
                self._progress = time.monotonic()
                headers = {name.lower(): value for name, value in response.headers.items()}
                if response.status not in _REDIRECTS:
                    body, total = self._read(response, headers)
                    status, public = response.status, self._public or self._was_public(url)
                    return Reply(status, headers, body, total, url, tuple(hops), public)
                hops.append(headers)
                if headers.get("content-length", "") in _SHORT:  # the connection can be used again
                    response.read(_PIECE)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise self._failure(error, url) from error
            finally:
                if response.closed:  # read to its end
                    response.release_conn()
                else:
                    response.close()
            self._public = self._public or self._was_public(url)
            url = self._target(url, headers.get("location", ""))
        raise self._error(f"redirects more than {MAX_REDIRECTS} times")

    def _ask(self, url: str) -> urllib3.BaseHTTPResponse:
        request = self._request
        headers = {
            "User-Agent": f"gguf-explorer/{__version__}",
            "Accept-Encoding": "identity",  # a few bytes of gzip may become gigabytes
            **request.headers,
        }
        if origin(url) == origin(request.url):
            headers.update(request.secret)
        if request.span is not None:
            headers["Range"] = f"bytes={request.span[0]}-{request.span[1]}"
        TRAFFIC.add(0, 1)
        return _manager(_proxy_of(url)).request(
            "GET", url, headers=headers, preload_content=False, decode_content=False,
            redirect=False, retries=False,
        )  # fmt: skip

    def _target(self, url: str, location: str) -> str:
        """Return where a redirect leads, if one may go there."""
        try:
            target = urljoin(url, location)
            parts = urlsplit(target)
            host, _ = parts.hostname or "", parts.port
        except ValueError as error:
            raise self._error(
                f"redirects to {quoted(location)}, which is not an address"
            ) from error
        # plain http never leaves this machine
        allowed = parts.scheme == "https" or (parts.scheme == "http" and is_this_machine(host))
        if not location or not host or not allowed or "@" in parts.netloc:
            raise self._error(f"redirects to {quoted(target)}, where it is not followed")
        inside = is_this_machine(host) or (as_number(host) is not None and not is_public(host))
        if self._public and inside:
            raise self._error(f"redirects into a private network ({quoted(host)}): refused")
        if self._opening is not None:
            self._opening.led_to(host)
        return target

    def _read(  # noqa: C901 - one check after the other of what the head says
        self, response: urllib3.BaseHTTPResponse, headers: Mapping[str, str]
    ) -> tuple[bytes, int]:
        """Return the body, if the head says that it is what was asked for, and the file's size."""
        request, status = self._request, response.status
        if status == 304:
            response.read(1)  # it has no body; the connection can be used again
            return b"", 0
        if status in _BUSY:
            raise _RetryError(f"is busy (status {status})", status, _retry_after(headers))
        if headers.get("content-encoding", "identity") != "identity":
            raise self._error("is sent compressed, which was not asked for")
        if request.span is None:
            if status != 200:
                raise self._refused(response, headers)
            return self._body(response, headers, request.most, exact=False), 0
        if status == 416:
            raise self._error("is shorter than it was. Open it again", status)
        if status == 200:
            what = "is not given in parts by its server. Download it instead"
            if headers.get("content-type", "").lower().startswith("text/html"):
                what = "is a web page, and no model. Give the address of the file itself"
            if "If-Range" in request.headers:
                what = "was changed on its server since it was opened. Open it again"
            raise self._error(what, status)
        if status != 206:
            raise self._refused(response, headers)
        match = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
        if match and match[3] == "*":
            raise self._error(
                "has a size that its server does not say. Download it instead", status
            )
        first, last, total = map(int, match.groups()) if match else (-1, -1, -1)
        if first != request.span[0] or last != min(request.span[1], total - 1) or last < first:
            raise self._error("is answered with another range than was asked for", status)
        return self._body(response, headers, last - first + 1, exact=True), total

    def _body(
        self,
        response: urllib3.BaseHTTPResponse,
        headers: Mapping[str, str],
        nbytes: int,
        *,
        exact: bool,
    ) -> bytes:
        """Read a body of so many bytes, or at most so many."""
        claimed = headers.get("content-length", "")
        if claimed.isdecimal() and (int(claimed) != nbytes if exact else int(claimed) > nbytes):
            raise self._error(
                f"is answered with {claimed[:20]} bytes, where {nbytes} were expected"
            )
        body, noted = bytearray(), 0
        while piece := response.read(min(_PIECE, nbytes + 1 - len(body))):
            if self._abandoned:
                break
            body += piece
            TRAFFIC.add(len(piece))
            if len(body) > nbytes:
                raise self._error(f"is answered with more than {nbytes} bytes")
            if len(body) - noted >= _PROGRESS_BYTES:
                noted, self._progress = len(body), time.monotonic()
            if exact and len(body) == nbytes:
                break
        if exact and len(body) < nbytes:
            raise _RetryError(f"was cut short after {len(body)} of {nbytes} bytes")
        return bytes(body)

    def _refused(
        self, response: urllib3.BaseHTTPResponse, headers: Mapping[str, str]
    ) -> FetchError:
        """Return the error for a status that says no, with the server's reason where it has one."""
        status, scheme = response.status, self._request.address.scheme
        message = headers.get("x-error-message", "")
        if scheme == HUB:
            what = _HUB_REFUSALS.get(headers.get("x-error-code") or message)
            if what is not None:
                return self._error(what, status)
        elif scheme == REGISTRY:
            message = _message(response.read(_MOST_MESSAGE_BYTES))
        what = _REFUSALS.get(status, f"is answered with status {status}")
        if status in (401, 403):
            what += _LOGINS.get(scheme, ". A link with a signature may have expired")
        return self._error(f"{what}: {quoted(message[:_MOST_SHOWN])}" if message else what, status)

    def _error(self, what: str, status: int = 0) -> FetchError:
        return FetchError(what, self._request.address, status)

    def _failure(self, error: Exception, url: str) -> Exception:
        """Return the error to raise for one of urllib3's, or of the system."""
        host = quoted(urlsplit(url).hostname or "")
        reasons: list[BaseException] = []
        reason: Any = error
        while isinstance(reason, BaseException) and reason not in reasons:
            reasons.append(reason)
            reason = getattr(reason, "reason", None) or reason.__cause__ or reason.__context__
        message = str(reasons[-1])[:200]
        proxy = _proxy_of(url)
        if proxy is not None and isinstance(error, urllib3.exceptions.ProxyError):
            place = quoted(urlsplit(proxy).hostname or "")
            what = f"the proxy {place} of the system failed to reach {host}: {quoted(message)}"
        else:
            what = next(filter(None, (_cause(one, host) for one in reasons)), "")
        if not what and ("header" in message or "line" in message):
            what = f"{host} sends a head that is not HTTP: {quoted(message)}"
        if what:
            return self._error(what)
        return _RetryError(f"the connection to {host} failed: {quoted(message)}")


def _cause(reason: BaseException, host: str) -> str:
    """Return what a failure means that another try would not mend; "" for any other."""
    if isinstance(reason, PrivateHostError):
        return f"leads into a private network ({host}): refused"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"{host} has no valid certificate: {reason.verify_message}"
    if isinstance(reason, socket.gaierror):
        asks = "Is there a connection?"
        if os.path.exists("/.flatpak-info"):  # the sandbox has no network of its own accord
            asks = "This Flatpak needs: flatpak override --user --share=network $FLATPAK_ID"
        return f"the host {host} is not known. {asks}"
    return f"{host} refuses the connection" if isinstance(reason, ConnectionRefusedError) else ""


_REFUSALS: Final = {
    401: "may not be read: it is private, or does not exist",
    403: "may not be read: it is private, or does not exist",
    404: "does not exist there",
    410: "does not exist there",
}
_LOGINS: Final = {
    HUB: ". The hub wants a token that may read it in HF_TOKEN",
    REGISTRY: ". This program has no login at a registry",
}
# X-Error-Code of the hub, or X-Error-Message (`hf_raise_for_status` of huggingface_hub)
_HUB_REFUSALS: Final = {
    "GatedRepo": "is gated: accept its licence on its page, and set HF_TOKEN to a token of yours",
    "RepoNotFound": "does not exist, or is private: then HF_TOKEN must be a token that may read it",
    "RevisionNotFound": "has no such branch, tag or commit",
    "EntryNotFound": "does not exist in this repository",
    "Invalid credentials in Authorization header": (
        "may not be read: the hub does not know the token of HF_TOKEN, or of its own file"
    ),
    "Access to this resource is disabled.": "was disabled by the hub",
}
_MOST_MESSAGE_BYTES: Final = 4096
_MOST_SHOWN: Final = 200


def _message(body: bytes) -> str:
    """Return the reason in a registry's answer; "" where there is none.

    ``{"errors": [{"message": …}]}`` of the OCI specification, or ``{"error": …}`` of the hub's.
    """
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        answer = json.loads(body)
        return str(answer["error"] if "error" in answer else answer["errors"][0]["message"])
    return ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait (RFC 9110, section 10.2.3), if it does."""
    # not by urllib3, which makes six hours of anything longer
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text[:9])
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return what a token is sent to: scheme, host and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


def _proxy_of(url: str) -> str | None:
    """Return the system's proxy for a URL, or None."""
    parts = urlsplit(url)
    if parts.hostname is None or is_this_machine(parts.hostname) or proxy_bypass(parts.hostname):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


_current: Final = threading.local()  # the exchange of this thread, which has one at a time


class PrivateHostError(OSError):
    """A public server, or its redirect, leads to a host of a private network now."""


class _Noted:
    """What both kinds of connection have: the exchange is told of each that it uses."""

    sock: socket.socket | None
    proxy: Any

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:  # it is used again
            _current.exchange.connected(self.sock, by_proxy=self.proxy is not None)
        super().request(*args, **kwargs)  # type: ignore[misc]
        _current.exchange.socket = self.sock  # that of TLS, which replaces the one below it

    def _new_conn(self) -> socket.socket:
        made: socket.socket = super()._new_conn()  # type: ignore[misc]
        _current.exchange.connected(made, by_proxy=self.proxy is not None)
        return made


class _Plain(_Noted, HTTPConnection):
    pass


class _Secure(_Noted, HTTPSConnection):
    pass


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


@lru_cache(maxsize=8)
def _manager(proxy: str | None) -> urllib3.PoolManager:
    timeout = urllib3.Timeout(connect=CONNECT_S, read=STALL_S)
    options: dict[str, Any] = {
        "num_pools": _MOST_HOSTS,
        "maxsize": 8,
        "timeout": timeout,
        "ssl_context": _context(),
    }
    if proxy is None:
        manager = urllib3.PoolManager(**options)
    else:
        parts = urlsplit(proxy)
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            options["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=login)
        manager = urllib3.ProxyManager(proxy, **options)
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
    return manager


# Where systems keep their authorities: a program that was built on another one looks elsewhere.
_AUTHORITIES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)


def _context() -> ssl.SSLContext:
    """Return what verifies TLS, always, by the system's certificates."""
    context, places = ssl.create_default_context(), ssl.get_default_verify_paths()
    if places.cafile is None and places.capath is None and not context.cert_store_stats()["x509"]:
        for path in filter(os.path.isfile, _AUTHORITIES):
            context.load_verify_locations(path)
            break
    return context
