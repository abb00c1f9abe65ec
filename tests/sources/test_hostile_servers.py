"""Servers that lie, dawdle or attack: one clear error, in bounded time and memory, nothing kept."""

from __future__ import annotations

import gzip
import os
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

pytest.importorskip("urllib3", reason="the extra [remote] is not installed")

from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.sources import parse_address
from explorer.sources.remote import http, source
from tests.helpers.web import DATA, Content, Handler, Web, serving

MIB = 1 << 20
_BOMB = gzip.compress(bytes(16 * MIB))
_BOUND_S = 20.0  # with the bounds of this file; a hang would take minutes


@pytest.fixture(autouse=True)
def short_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bounds of tenths of a second, no proxy, and a cache of the test's own."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(http, "STALL_S", 1.0)
    monkeypatch.setattr(http, "MAX_WAIT_S", 1.0)
    monkeypatch.setattr(http, "_GRACE_S", 4.0)
    monkeypatch.setattr(http, "_LEAST_RATE", 1 << 30)
    http._manager.cache_clear()
    yield
    http._manager.cache_clear()
    assert not list((tmp_path / "cache").rglob("*.header"))


@pytest.fixture
def web() -> Iterator[Web]:
    """A server that runs."""
    with serving() as one:
        yield one


def partial(handler: Handler, body_bytes: int, **headers: str) -> None:
    """Send the head of a good answer to the first range, of a file of 8 MiB."""
    given = {
        "Content_Range": f"bytes 0-{MIB - 1}/{8 * MIB}",
        "Content_Length": str(body_bytes),
        "ETag": '"1"',
        **headers,
    }
    handler.head(206, **{name: value for name, value in given.items() if value})


def endless_body(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, 0, Content_Length="")
    for _ in range(200):
        handler.send(bytes(MIB))


def endless_file_instead_of_a_range(handler: Handler, _: Mapping[str, str]) -> None:
    handler.head(200, Content_Length=str(1 << 40))
    for _ in range(200):
        handler.send(bytes(MIB))


def slow_body(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, MIB)
    for _ in range(100):
        handler.send(b"x")
        time.sleep(0.1)


def steady_trickle(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, MIB)
    for _ in range(100):
        handler.send(bytes(17 << 10) if handler.sent < MIB // 2 else b"x")
        time.sleep(0.3)


def slow_head(handler: Handler, _: Mapping[str, str]) -> None:
    for letter in b"HTTP/1.1 206 Partial Content\r\n" + b"X-Y: z\r\n" * 20:
        handler.wfile.write(bytes([letter]))
        time.sleep(0.05)


def silence(_: Handler, __: Mapping[str, str]) -> None:
    time.sleep(3)


def too_long(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, 4 * MIB)
    handler.send(bytes(4 * MIB))


def cut_short(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, MIB)
    handler.send(bytes(1000))
    handler.close_connection = True


def other_range(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, MIB, Content_Range=f"bytes 5-{MIB + 4}/{8 * MIB}")
    handler.send(bytes(MIB))


def range_without_a_place(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, MIB, Content_Range="")
    handler.send(bytes(MIB))


def absurd_size(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, MIB, Content_Range=f"bytes 0-{MIB - 1}/{'9' * 40}")
    handler.send(bytes(MIB))


def gzip_bomb(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, len(_BOMB), Content_Encoding="gzip")
    handler.send(_BOMB)


def endless_chunk_line(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, 0, Content_Length="", Transfer_Encoding="chunked")
    for _ in range(200):
        handler.send(b"1" * MIB)


def endless_trailers(handler: Handler, _: Mapping[str, str]) -> None:
    partial(handler, 0, Content_Length="", Transfer_Encoding="chunked")
    handler.send(b"5\r\nabcde\r\n0\r\n")
    end = time.monotonic() + 5.0
    while time.monotonic() < end:
        handler.wfile.write(b"X-Y: z\r\n" * 1000)


def endless_interim_answers(handler: Handler, _: Mapping[str, str]) -> None:
    end = time.monotonic() + 5.0
    while time.monotonic() < end:
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def several_parts(handler: Handler, _: Mapping[str, str]) -> None:
    body = b"--x\r\nContent-Range: bytes 0-9/100\r\n\r\n0123456789\r\n--x--\r\n"
    kind = "multipart/byteranges; boundary=x"
    partial(handler, len(body), Content_Range="", Content_Type=kind)
    handler.send(body)


def endless_reason(handler: Handler, _: Mapping[str, str]) -> None:
    handler.head(404, Transfer_Encoding="identity")
    for _ in range(200):
        handler.send(bytes(MIB))


def huge_header(handler: Handler, _: Mapping[str, str]) -> None:
    handler.wfile.write(b"HTTP/1.1 206 Partial Content\r\nX-Long: " + bytes(100_000) + b"\r\n\r\n")


def many_headers(handler: Handler, _: Mapping[str, str]) -> None:
    handler.wfile.write(b"HTTP/1.1 206 Partial Content\r\n" + b"X-Y: z\r\n" * 10_000 + b"\r\n")


def no_http(handler: Handler, _: Mapping[str, str]) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n" * 10)
    handler.close_connection = True


def busy_for_ever(handler: Handler, _: Mapping[str, str]) -> None:
    handler.answer(429, Retry_After="0")


def busy_for_a_day(handler: Handler, _: Mapping[str, str]) -> None:
    handler.answer(429, Retry_After="86400")


def empty(handler: Handler, _: Mapping[str, str]) -> None:
    handler.answer(416, Content_Range="bytes */0")


def redirect_to(place: str) -> Callable[[Handler, Mapping[str, str]], None]:
    def route(handler: Handler, _: Mapping[str, str]) -> None:
        handler.answer(302, Location=place)

    return route


_TABLE = [
    (endless_body, "is not a GGUF file"),
    (endless_file_instead_of_a_range, "not given in parts"),
    (slow_body, "answers too slowly"),
    (steady_trickle, "answers too slowly"),
    (slow_head, "answers too slowly|failed"),
    (silence, "answers too slowly|failed"),
    (too_long, "is answered with 4194304 bytes"),
    (cut_short, "was cut short|failed"),
    (other_range, "another range"),
    (range_without_a_place, "another range"),
    (absurd_size, "another range"),
    (gzip_bomb, "sent compressed"),
    (endless_chunk_line, "a head that is no HTTP|failed"),
    (endless_trailers, "was cut short|answers too slowly"),
    (endless_interim_answers, "answers too slowly|failed"),
    (several_parts, "another range"),
    (endless_reason, "does not exist there"),
    (huge_header, "a head that is no HTTP"),
    (many_headers, "a head that is no HTTP"),
    (no_http, "failed|no HTTP"),
    (busy_for_ever, "is busy"),
    (busy_for_a_day, "asks to wait 86400 s"),
    (empty, "is empty"),
    (redirect_to("/m.gguf"), "redirects more than 5 times"),
    (redirect_to("file:///etc/passwd"), "where it is not followed"),
    (redirect_to("ftp://127.0.0.1/m.gguf"), "where it is not followed"),
    (redirect_to("http://example.com/m.gguf"), "where it is not followed"),
    (redirect_to("https://user:password@example.com/m.gguf"), "where it is not followed"),
    (redirect_to("https://["), "no address|not followed"),
    (redirect_to(""), "not followed"),
]


@pytest.mark.parametrize(("route", "told"), _TABLE)
def test_a_hostile_server_is_one_clear_error(
    web: Web, route: Callable[[Handler, Mapping[str, str]], None], told: str
) -> None:
    web.routes["/m.gguf"] = route
    start, before = time.monotonic(), http.TRAFFIC.nbytes
    tracemalloc.start()
    try:
        with pytest.raises(ExplorerError, match=told) as caught:
            open_model(web.url + "/m.gguf")
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB  # of the server, too
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(web.url)
    assert time.monotonic() - start < _BOUND_S
    assert http.TRAFFIC.nbytes - before <= 4 * MIB
    assert len(web.asked) <= 1 + http.MAX_REDIRECTS


def test_what_changes_while_it_is_read_is_refused(web: Web) -> None:
    """A server that ignores If-Range and gives a part of another file."""
    versions = iter(range(1000))

    def route(handler: Handler, headers: Mapping[str, str]) -> None:
        first, last = map(int, headers["range"].removeprefix("bytes=").split("-"))
        place, tag = f"bytes {first}-{last}/{8 * MIB}", f'"{next(versions)}"'
        handler.answer(206, bytes(last - first + 1), Content_Range=place, ETag=tag)

    web.routes["/m.bin"] = route
    remote = source.RemoteSource(parse_address(web.url + "/m.bin"))
    with remote, pytest.raises(ExplorerError, match="was changed on its server"):
        remote.read(4 * MIB, 100)


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


def test_a_repository_that_lists_nonsense(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", web.url)
    many = b'{"sha": "' + b"a" * 40 + b'", "siblings": [' + b'{"rfilename": "x"},' * 30_000
    for body, told in (
        (b"[]", "form that is not known"),
        (b"{" * 100_000, "form that is not known"),
        (b'{"sha": "../..", "siblings": []}', "that is none"),
        (many, "form that is not known"),
        (bytes(20 * MIB), "more than|expected"),
    ):
        web.put("/api/models/o/n/revision/main", body)
        with pytest.raises(ExplorerError, match=told):
            open_model("hf://o/n")


def test_names_that_leave_the_repository_are_left_out(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", web.url)
    names = ["../x.gguf", "a/../../x.gguf", "/etc/x.gguf", "a\\x.gguf", "a\u202e.gguf", ""]
    listed = ", ".join(f'{{"rfilename": "{name}"}}' for name in names).replace("\\", "\\\\")
    answer = f'{{"sha": "{"a" * 40}", "siblings": [{listed}]}}'
    web.put("/api/models/o/n/revision/main", answer.encode())
    with pytest.raises(ExplorerError, match="holds no model files"):
        open_model("hf://o/n")
