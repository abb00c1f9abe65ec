"""Servers on the loopback for tests of addresses: files by ranges, a hub, a registry, and bad ones.

They are real HTTP servers in threads; what they were asked is kept.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from tests.helpers.patience import PATIENCE_S

DATA = Path(__file__).parents[1] / "data" / "tls"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@dataclass
class Asked:
    """A request as it arrived, and how many bytes of body were sent."""

    path: str
    headers: Mapping[str, str]
    sent: int  # -1 before the end


class Handler(BaseHTTPRequestHandler):
    """One request at a time of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or a body waits 40 ms until the headers are acknowledged
    server: WebServer

    def setup(self) -> None:
        """Count connections."""
        super().setup()
        self.server.web.connections += 1

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer as the server's routes say."""
        web = self.server.web
        time.sleep(web.latency_s)
        path = unquote(urlsplit(self.path).path)
        route = web.routes.get(path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.path, headers, -1)
        web.asked.append(asked)
        self.sent = 0
        try:
            if route is None:
                self.answer(404)
            elif callable(route):
                route(self, headers)
            else:
                self.give(route, headers)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        asked.sent = self.sent

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a whole answer; names of headers have underscores here."""
        self.head(status, **{"Content_Length": str(len(body)), **headers})
        self.send(body)

    def head(self, status: int, **headers: str) -> None:
        """Send a status line and headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def send(self, body: bytes) -> None:
        """Send bytes of a body."""
        self.wfile.write(body)
        self.sent += len(body)

    def give(self, content: Content, headers: Mapping[str, str], **more: str) -> None:
        """Send a file as RFC 9110 says: whole, a range, or that it is not modified."""
        tag = content.tag
        if headers.get("if-none-match") == tag:
            self.answer(304, ETag=tag, **more)
            return
        match = _RANGE.fullmatch(headers.get("range", ""))
        fresh = headers.get("if-range", tag) == tag
        if match is None or not fresh:
            self.answer(200, content.data, ETag=tag, **more)
            return
        first, last = int(match[1]), min(int(match[2]), len(content.data) - 1)
        if first > last:
            self.answer(416, Content_Range=f"bytes */{len(content.data)}")
            return
        self.give_part(content.data, headers, ETag=tag, **more)

    def give_part(self, data: bytes, headers: Mapping[str, str], **more: str) -> None:
        """Send the range of a file that is asked for, whatever version that is."""
        first, last = map(int, headers["range"].removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        place = f"Bytes {first}-{first + len(part) - 1}/{len(data)}"  # in whatever case
        self.answer(206, part, Content_Range=place, **more)


@dataclass
class Content:
    """A file of a server; its version is told by its bytes."""

    data: bytes

    @property
    def tag(self) -> str:
        """A strong ETag."""
        return f'"{sha256(self.data[:4096] + self.data[-4096:]).hexdigest()}"'


Route: TypeAlias = Content | Callable[[Handler, Mapping[str, str]], None]


class WebServer(ThreadingHTTPServer):
    """The server itself, which its handlers know."""

    daemon_threads = True
    web: Web


@dataclass
class Web:
    """A server that runs.

    Attributes:
        url: Where it is, without a slash at the end.
        routes: What it answers, by path.
        asked: Every request, in order.
        latency_s: Waited before each answer.
        connections: How many were made.
    """

    url: str
    routes: dict[str, Route] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    latency_s: float = 0.0
    connections: int = 0

    def put(self, path: str, data: bytes) -> str:
        """Serve a file; return its URL."""
        self.routes[path] = Content(data)
        return self.url + path

    def ended(self) -> list[Asked]:
        """Return the requests once every answer has ended: the client may be the first to know."""
        end = time.monotonic() + PATIENCE_S
        while any(one.sent < 0 for one in self.asked) and time.monotonic() < end:
            time.sleep(0.001)
        return self.asked

    @property
    def sent(self) -> int:
        """Bytes of all bodies."""
        return sum(one.sent for one in self.ended())


@contextmanager
def serving(
    tls: bool = False, host: str = "127.0.0.1", certificate: str = "server.pem"
) -> Iterator[Web]:
    """Run a server on the loopback.

    Args:
        tls: By TLS, with a certificate of the test authority (`tests/data/tls/authority.pem`).
        host: Its name in the URL.
        certificate: A file of `tests/data/tls`, with the key.
    """
    server = WebServer(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(DATA / certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    server.web = Web(f"{'https' if tls else 'http'}://{host}:{port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def add_hub(
    web: Web,
    repository: str,
    files: Mapping[str, bytes],
    *,
    token: str = "",
    cdn: Web | None = None,
    branches: Sequence[str] = ("main",),
) -> None:
    """Let a server be a Hugging Face hub with a repository, as `huggingface_hub` expects it.

    Large files are given by a redirect to another host, signed, with the size and hash of the file
    beside it; small ones by a redirect on the hub itself, without a host. Both name the commit.

    Args:
        web: The server; `HF_ENDPOINT` has to name it.
        repository: OWNER/NAME.
        files: Contents by path.
        token: Asked for, if not empty.
        cdn: Where large files are; None for the hub itself.
        branches: What leads to the commit.
    """

    def guarded(give: Callable[[Handler, Mapping[str, str]], None]) -> Route:
        def route(handler: Handler, headers: Mapping[str, str]) -> None:
            if token and headers.get("authorization") != f"Bearer {token}":
                handler.answer(401, X_Error_Code="RepoNotFound", X_Error_Message=_NO_REPOSITORY)
            else:
                give(handler, headers)

        return route

    def give_list(handler: Handler, _: Mapping[str, str]) -> None:
        siblings = [
            {"rfilename": name, "size": len(data), "blobId": sha256(data).hexdigest()[:40]}
            for name, data in files.items()
        ]
        answer = {"id": repository, "sha": COMMIT, "private": bool(token), "siblings": siblings}
        handler.answer(200, json.dumps(answer).encode(), Content_Type="application/json")

    def giver(name: str, data: bytes) -> Callable[[Handler, Mapping[str, str]], None]:
        large = name.endswith((".gguf", ".safetensors"))
        linked = {"X_Linked_Size": str(len(data)), "X_Linked_ETag": f'"{sha256(data).hexdigest()}"'}
        if large and cdn is not None:
            place = f"{cdn.put(f'/cdn/{name}', data)}?signature=s"
        elif large:

            def give_it(handler: Handler, headers: Mapping[str, str]) -> None:
                handler.give(Content(data), headers, X_Repo_Commit=COMMIT)

            return give_it
        else:
            cached = f"/api/resolve-cache/models/{repository}/{COMMIT}/{quote(name, safe='')}"
            web.routes[unquote(cached)] = guarded(lambda h, headers: h.give(Content(data), headers))
            place, linked = f"{cached}?etag=%22x%22", {}

        def give(handler: Handler, _: Mapping[str, str]) -> None:
            handler.answer(302 if large else 307, Location=place, X_Repo_Commit=COMMIT, **linked)

        return give

    for revision in (*branches, COMMIT):
        web.routes[f"/api/models/{repository}/revision/{revision}"] = guarded(give_list)
        for name, data in files.items():
            path = f"/{repository}/resolve/{revision}/{name}"
            web.routes[path] = guarded(giver(name, data))


_NO_REPOSITORY = "Repository not found"


def add_registry(
    web: Web,
    name: str,
    layers: Mapping[str, bytes],
    tag: str = "latest",
    storage: Web | None = None,
) -> None:
    """Let a server be a registry with a model.

    Args:
        web: The server.
        name: NAMESPACE/MODEL.
        layers: Contents by media type, without Ollama's prefix.
        tag: Its tag.
        storage: Where blobs are, by a signed redirect; None for the registry itself.
    """
    kind = "application/vnd.ollama.image."

    def described(media: str, data: bytes) -> dict[str, Any]:
        digest = f"sha256:{sha256(data).hexdigest()}"
        path = f"/v2/{name}/blobs/{digest}"
        if storage is None:
            web.put(path, data)
        else:
            place = f"{storage.put(f'/{digest}/data', data)}?X-Amz-Expires=86400&X-Amz-Signature=s"
            web.routes[path] = lambda handler, _: handler.answer(307, Location=place)
        return {"mediaType": media, "digest": digest, "size": len(data)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": described("application/vnd.docker.container.image.v1+json", _CONFIG),
        "layers": [described(kind + media, data) for media, data in layers.items()],
    }
    web.put(f"/v2/{name}/manifests/{tag}", json.dumps(manifest).encode())


_CONFIG = (
    b'{"model_format": "gguf", "model_family": "llama", "os": "linux", "architecture": "amd64"}'
)
