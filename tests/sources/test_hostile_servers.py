"""Servers that lie, dawdle or attack: one clear error, in bounded time and memory, nothing kept."""

from __future__ import annotations

import gzip
import socket
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path

import pytest

pytest.importorskip("urllib3", reason="the extra [remote] is not installed")

from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.formats.open import several_at
from explorer.sources import parse_address
from explorer.sources.remote import http, source
from explorer.sources.remote.hub import MAX_LISTING_BYTES
from tests.helpers.web import DATA, Content, Handler, Route, Web, serving

MIB = 1 << 20
_BOMB = gzip.compress(bytes(16 * MIB))
_BOUND_S = 60.0  # a hang would take minutes
_SLOWLY = "answers too slowly"


@pytest.fixture(autouse=True)
def no_header_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """And nobody waits long for a server that is busy."""
    monkeypatch.setattr(http, "MAX_WAIT_S", 1.0)
    yield
    assert not list((tmp_path / "cache").rglob("*.header"))


def raw(*pieces: bytes, then: bytes = b"", pause_s: float = 0.0) -> Route:
    """Answer with these bytes, and then for ever with others, or until five seconds are over."""

    def route(handler: Handler, _: Mapping[str, str]) -> None:
        end = time.monotonic() + 5.0
        for piece in chain(pieces, repeat(then) if then else ()):
            handler.send(piece)
            time.sleep(pause_s)
            if time.monotonic() > end:
                break
        handler.close_connection = True

    return route


def part(
    *pieces: bytes, then: bytes = b"", pause_s: float = 0.0, status: int = 206, **headers: str
) -> Route:
    """Answer with the head of a good answer to the first range, of a file of 8 MiB, but for some.

    Args:
        pieces: The beginning of the body.
        then: What follows for ever.
        pause_s: Waited behind each piece.
        status: Of the answer.
        headers: Instead of the good ones; an empty one is left out.
    """
    good = {
        "Content_Range": f"bytes 0-{MIB - 1}/{8 * MIB}",
        "Content_Length": str(MIB),
        "ETag": '"1"',
    }

    def route(handler: Handler, asked: Mapping[str, str]) -> None:
        handler.head(status, **{name: text for name, text in {**good, **headers}.items() if text})
        raw(*pieces, then=then, pause_s=pause_s)(handler, asked)

    return route


def no_range(status: int, *pieces: bytes, **headers: str) -> Route:
    return part(*pieces, status=status, Content_Range="", **headers)


def redirect_to(place: str) -> Route:
    return lambda handler, _: handler.answer(302, Location=place)


_PARTS = b"--x\r\nContent-Range: bytes 0-9/100\r\n\r\n0123456789\r\n--x--\r\n"
_CHUNKED = {"Content_Length": "", "Transfer_Encoding": "chunked"}
_HEAD = b"HTTP/1.1 206 Partial Content\r\n"
_PAGE = {"Content_Type": "text/html; charset=utf-8"}
_STRANGE = "https://\x7f\u00ff/\u0001".encode().decode("latin-1")

_AT_THE_HEAD: dict[str, tuple[Route, str]] = {
    "endless file": (part(then=bytes(MIB), status=200, Content_Range="",
                          Content_Length=str(1 << 40)), "not given in parts"),
    "web page": (no_range(200, b"<!doctype html>", **_PAGE), "is a web page, and no model"),
    "too long": (part(bytes(4 * MIB), Content_Length=str(4 * MIB)), "answered with 4194304 bytes"),
    "other range": (part(bytes(MIB), Content_Range=f"bytes 5-{MIB + 4}/{8 * MIB}"),
                    "another range"),
    "range without a place": (part(bytes(MIB), Content_Range=""), "another range"),
    "size not said": (part(bytes(MIB), Content_Range=f"bytes 0-{MIB - 1}/*"),
                      "a size that its server does not say"),
    "absurd size": (part(bytes(MIB), Content_Range=f"bytes 0-{MIB - 1}/{'9' * 40}"),
                    "another range"),
    "bomb": (part(_BOMB, Content_Encoding="gzip", Content_Length=str(len(_BOMB))),
             "sent compressed"),
    "several parts": (no_range(206, _PARTS, Content_Length=str(len(_PARTS)),
                               Content_Type="multipart/byteranges; boundary=x"), "another range"),
    "endless reason": (part(then=bytes(MIB), status=404, Content_Range="", Content_Length="",
                            Transfer_Encoding="identity"), "does not exist there"),
    "huge header": (raw(_HEAD + b"X-Long: " + bytes(100_000) + b"\r\n\r\n"),
                    "a head that is not HTTP"),
    "many headers": (raw(_HEAD + b"X-Y: z\r\n" * 10_000 + b"\r\n"), "a head that is not HTTP"),
    "not HTTP": (raw(b"SSH-2.0-OpenSSH_9.6\r\n" * 10), "failed|not HTTP"),
    "endless interim answers": (raw(then=b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
                                f"{_SLOWLY}|failed"),
    "slow head": (raw(*(bytes([one]) for one in _HEAD + b"X-Y: z\r\n" * 20), pause_s=0.05),
                  f"{_SLOWLY}|failed"),
    "silence": (lambda _handler, _headers: time.sleep(3), f"{_SLOWLY}|failed"),
    "busy for ever": (no_range(429, Content_Length="0", Retry_After="0"), "is busy"),
    "busy for a day": (no_range(429, Content_Length="0", Retry_After="86400"),
                       "asks to wait 86400 s"),
    "empty": (no_range(416, Content_Length="0"), "is empty"),
    "missing": (no_range(404, Content_Length="0"), "does not exist there$"),
    "circle": (redirect_to("/m.gguf"), "redirects more than 5 times"),
    "to a file": (redirect_to("file:///etc/passwd"), "where it is not followed"),
    "to FTP": (redirect_to("ftp://127.0.0.1/m.gguf"), "where it is not followed"),
    "to plain HTTP": (redirect_to("http://example.com/m.gguf"), "where it is not followed"),
    "to a password": (redirect_to("https://user:password@example.com/m.gguf"),
                      "where it is not followed"),
    "to half an address": (redirect_to("https://["), "not an address|not followed"),
    "to nowhere": (redirect_to(""), "not followed"),
    "to a strange host": (redirect_to(_STRANGE), "contains invalid character"),
}  # fmt: skip
"""What is refused before a byte of a body is read, and how that is said."""

_IN_THE_BODY: dict[str, tuple[Route, str]] = {
    "endless body": (part(then=bytes(MIB), Content_Length=""), "is not a GGUF file"),
    "slow body": (part(then=b"x", pause_s=0.1), _SLOWLY),
    "slower and slower": (part(*[bytes(17 << 10)] * 31, then=b"x", pause_s=0.3),
                          _SLOWLY),
    "cut short": (part(bytes(1000)), "was cut short|failed"),
    "endless line of a chunk": (part(then=b"1" * MIB, **_CHUNKED), "head that is not HTTP|failed"),
    "endless trailers": (part(b"5\r\nabcde\r\n0\r\n", then=b"X-Y: z\r\n" * 1000, **_CHUNKED),
                         f"was cut short|{_SLOWLY}"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*_AT_THE_HEAD, *_IN_THE_BODY])
def test_a_hostile_server_is_one_clear_error(
    web: Web, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.routes["/m.gguf"], told = (_AT_THE_HEAD | _IN_THE_BODY)[name]
    if _SLOWLY in told:  # the others are not slow, but the machine may be
        monkeypatch.setattr(http, "STALL_S", 1.0)
        monkeypatch.setattr(http, "_GRACE_S", 4.0)
        monkeypatch.setattr(http, "_LEAST_RATE", 1 << 30)
    start, before = time.monotonic(), http.TRAFFIC.nbytes
    tracemalloc.start()
    try:
        with pytest.raises(ExplorerError, match=told) as caught:
            open_model(web.url + "/m.gguf")
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB  # of the server, too
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{web.url}/m.gguf: ")
    assert str(caught.value).isprintable()
    assert time.monotonic() - start < _BOUND_S
    assert http.TRAFFIC.nbytes - before <= (4 * MIB if name in _IN_THE_BODY else 0)
    assert len(web.asked) <= 1 + http.MAX_REDIRECTS


@pytest.mark.parametrize(
    "place",
    ["http://127.0.0.1:{}/m", "https://169.254.169.254/m", "https://10.0.0.1/m", "https://[::1]/m"],
)
def test_a_public_server_leads_to_no_private_one(
    web: Web, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http._Exchange, "_was_public", lambda *_: True)
    web.routes["/m.gguf"] = redirect_to(place.format(web.url.rpartition(":")[2]))
    web.put("/m", bytes(100))
    with pytest.raises(ExplorerError, match="into a private network"):
        open_model(web.url + "/m.gguf")
    assert [one.path for one in web.asked] == ["/m.gguf"]


def test_a_name_that_was_public_is_not_read_where_it_became_private(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the first part came from a public host, the next one would not."""
    address = parse_address(web.put("/m.bin", bytes(8 * MIB)))
    with monkeypatch.context() as patch:
        patch.setattr(http, "is_public", lambda _: True)
        remote = source.RemoteSource(address)
        remote.read(0, 10)
    asked = len(web.asked)
    with remote, pytest.raises(ExplorerError, match="into a private network"):
        remote.read(6 * MIB, 10)
    assert len(web.asked) == asked


@pytest.mark.parametrize(
    ("peer", "host", "public"),
    [
        ("8.8.8.8", "private.test", True),
        ("127.0.0.1", "public.test", False),
        ("10.0.0.1", "public.test", False),
        ("", "public.test", True),  # a proxy alone knows where that leads
        ("", "10.0.0.1", False),
        ("", "[::1]", False),
        ("", "localhost", False),
    ],
)
def test_what_answered_is_public_by_where_it_was_reached(
    peer: str, host: str, public: bool
) -> None:
    url = f"https://{host}/m.gguf"
    exchange = http._Exchange(http.Request(url, parse_address(url)))
    exchange._peer = peer
    assert exchange._was_public(url) is public


def test_nor_does_a_name_that_means_a_private_one(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def look_up(host: str, *rest: object, **named: object) -> object:
        return real("127.0.0.1" if host == "public.test" else host, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(http._Exchange, "_was_public", lambda *_: True)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with serving() as web, serving(tls=True, host="public.test") as inner:
        web.routes["/m.gguf"] = redirect_to(inner.put("/m", bytes(100)))
        with pytest.raises(ExplorerError, match="into a private network"):
            open_model(web.url + "/m.gguf")
        assert inner.asked == []


@pytest.mark.parametrize(
    ("host", "certificate", "trusted", "told"),
    [
        ("localhost", "server.pem", "", "unable to get|self-signed|issuer"),
        ("localhost", "expired.pem", "expired.pem", "expired"),
        ("other.test", "server.pem", "authority.pem", "mismatch"),
    ],
)
def test_a_bad_certificate_is_refused(
    monkeypatch: pytest.MonkeyPatch, host: str, certificate: str, trusted: str, told: str
) -> None:
    """Nobody signed it, its time is over, or it is another host's."""
    real = socket.getaddrinfo

    def look_up(name: str, *rest: object, **named: object) -> object:
        return real("127.0.0.1" if name == "other.test" else name, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(DATA / trusted))
    with serving(tls=True, host=host, certificate=certificate) as web:
        url = web.put("/m.gguf", bytes(100))
        with pytest.raises(ExplorerError, match=f"has no valid certificate: .*({told})"):
            open_model(url)
        assert web.asked == []


def test_a_server_that_was_busy_is_asked_again(web: Web) -> None:
    answers = iter([429, 503])

    def route(handler: Handler, headers: Mapping[str, str]) -> None:
        status = next(answers, None)
        if status is None:
            handler.give(Content(b"GGUF" + bytes(100)), headers)
        else:
            handler.answer(status, Retry_After="0")

    web.routes["/m.bin"] = route
    with source.RemoteSource(parse_address(web.url + "/m.bin")) as remote:
        assert remote.read(0, 4) == b"GGUF"


def test_a_repository_that_lists_nonsense(web: Web) -> None:
    many = b'{"sha": "' + b"a" * 40 + b'", "siblings": [' + b'{"rfilename": "x"},' * 30_000
    for body, told in (
        (b"[]", "form that is not known"),
        (b"{" * 100_000, "form that is not known"),
        (b'{"sha": "../..", "siblings": []}', "not a commit"),
        (many, "form that is not known"),
        (bytes(20 * MIB), "more than|expected"),
    ):
        web.put("/api/models/o/n/revision/main", body)
        with pytest.raises(ExplorerError, match=told):
            open_model("hf://o/n")


_FULL = MAX_LISTING_BYTES - 64


# beginning, piece, number of pieces, end: made when it is asked for, 16 MiB each
_ANSWERS = {
    "lists": (b"[", b"[],", _FULL // 3, b"0]}"),  # 50 times as much memory without bounds
    "objects": (b"[", b'{"a":0},', _FULL // 8, b"0]}"),
    "texts": (b"[", b'"",', _FULL // 3, b"0]}"),
    "numbers": (b"[", b"0,", _FULL // 2, b"0]}"),
    "wide": (b'"', "\U0001f600".encode(), _FULL // 4, b'"}'),
    "escaped": (b'"', rb"\ud83d\ude00", _FULL // 100, b'"}'),
    "deep": (b"", b"[", _FULL, b""),
}


@pytest.mark.parametrize("kind", _ANSWERS)
@pytest.mark.parametrize("address", ["hf://o/n", "ollama://{}/o/n"])
def test_an_answer_takes_a_few_times_its_own_bytes(web: Web, kind: str, address: str) -> None:
    begin, piece, count, end = _ANSWERS[kind]
    body = b'{"x": ' + begin + piece * count + end
    for path in ("/api/models/o/n/revision/main", "/v2/o/n/tags/list"):
        web.put(path, body)
    name = parse_address(address.format(web.url.partition("://")[2]))
    tracemalloc.start()
    try:
        with pytest.raises(ExplorerError, match="form that is not known"):
            open_model(name) if name.scheme == "hf" else several_at(name)
        assert tracemalloc.get_traced_memory()[1] < 8 * MAX_LISTING_BYTES  # it was 50 times
    finally:
        tracemalloc.stop()


def test_names_that_leave_the_repository_are_left_out(web: Web) -> None:
    names = ["../x.gguf", "a/../../x.gguf", "/etc/x.gguf", "a\\x.gguf", "a\u202e.gguf", ""]
    listed = ", ".join(f'{{"rfilename": "{name}"}}' for name in names).replace("\\", "\\\\")
    answer = f'{{"sha": "{"a" * 40}", "siblings": [{listed}]}}'
    web.put("/api/models/o/n/revision/main", answer.encode())
    with pytest.raises(ExplorerError, match="holds no model files"):
        open_model("hf://o/n")
