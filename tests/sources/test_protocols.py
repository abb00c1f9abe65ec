"""A hub, a registry and other servers as they really answer: redirects, links, refusals, proxies.

What they answer is described in the sources of huggingface_hub (`file_download`, `utils._http`), of
Ollama (`server/images.go`, `server/download.go`) and in RFC 9110; the real ones are out of reach.
"""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="the extra [remote] is not installed")

from explorer import __version__
from explorer.cli.main import main
from explorer.errors import SourceError
from explorer.formats import open_model
from explorer.formats.open import several_at
from explorer.parallel import cancelled_by
from explorer.sources import open_source, parse_address
from explorer.sources.places import opening_ahead
from explorer.sources.remote import http, source
from explorer.sources.remote.addresses import forbidden_by, is_public, offline, refuse_all
from tests.helpers.gguf_writer import I32, U16, GgufFile, TensorSpec
from tests.helpers.patience import PATIENCE_S, SOON_S
from tests.helpers.safetensors_writer import tensors_bytes
from tests.helpers.web import (
    COMMIT,
    DATA,
    Asked,
    Content,
    Handler,
    Route,
    Web,
    add_hub,
    add_registry,
    serving,
)

if TYPE_CHECKING:
    pass

MIB = 1 << 20
_OTHER_COMMIT = COMMIT[::-1]


def host_of(web: Web) -> str:
    """Return the host and port of a server."""
    return web.url.partition("://")[2]


# the hub


def test_a_private_repository_is_read_whole_with_its_relative_redirects(
    web: Web, cdn: Web, tmp_path: Path
) -> None:
    weights = tensors_bytes([("model.embed.weight", "F32", [4])])
    files = {"sub/model.safetensors": weights, "sub/config.json": b'{"model_type": "llama"}'}
    add_hub(web, "o/n", files, token="hf_secret", cdn=cdn)
    with pytest.raises(SourceError, match="or is private: then HF_TOKEN"):
        open_model("hf://o/n/sub")
    web.asked.clear()
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "token").write_text("hf_secret\n")
    with open_model("hf://o/n/sub") as model:
        assert model.architecture == "llama"
        assert not model.problems
        assert model.tensors["model.embed.weight"].dequantize().shape == (4,)
    cached = [one for one in web.asked if one.path.startswith("/api/resolve-cache/")]
    assert [one.headers["authorization"] for one in cached] == ["Bearer hf_secret"]
    assert cdn.asked
    assert not any("authorization" in one.headers for one in cdn.asked)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert kept
    assert b"hf_secret" not in kept
    assert b"signature" not in kept


def test_a_file_of_the_hub_itself_is_read_on_with_the_token(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redirect that stays on the hub needs the token each time."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    content = os.urandom(3 * MIB)

    def cached(handler: Handler, headers: Mapping[str, str]) -> None:
        good = headers.get("authorization") == "Bearer hf_secret"
        handler.give(Content(content), headers) if good else handler.answer(401)

    web.routes["/cached"] = cached
    web.routes["/o/n/resolve/main/m.gguf"] = lambda handler, _: handler.answer(
        307, Location="/cached", X_Repo_Commit=COMMIT
    )
    with source.RemoteSource(parse_address("hf://o/n/m.gguf")) as remote:
        remote.end_header()
        assert remote.read(2 * MIB, 9) == content[2 * MIB : 2 * MIB + 9]
    assert [urlsplit(one.path).path for one in web.asked[1:]] == ["/cached", "/cached"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_signed_link_that_expired_is_asked_for_again_at_the_same_commit(
    web: Web, cdn: Web, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """The branch moves on meanwhile; what is open stays the old version."""
    monkeypatch.setattr(source, "_FRESH_S", 0.0)
    content, other, serial = os.urandom(4 * MIB), os.urandom(4 * MIB), 0

    def resolve(handler: Handler, _: Mapping[str, str], commit: str) -> None:
        place = f"{cdn.url}/{commit}?serial={serial}"
        handler.answer(302, Location=place, X_Repo_Commit=commit)

    def stored(handler: Handler, headers: Mapping[str, str], data: bytes) -> None:
        if f"serial={serial}" in handler.path:
            handler.give(Content(data), headers)
        else:
            handler.answer(status)

    cdn.routes[f"/{COMMIT}"] = partial(stored, data=content)
    cdn.routes[f"/{_OTHER_COMMIT}"] = partial(stored, data=other)
    web.routes[f"/o/n/resolve/{COMMIT}/m.gguf"] = partial(resolve, commit=COMMIT)
    web.routes["/o/n/resolve/main/m.gguf"] = partial(resolve, commit=COMMIT)
    with source.RemoteSource(parse_address("hf://o/n/m.gguf")) as remote:
        remote.end_header()
        web.routes["/o/n/resolve/main/m.gguf"] = partial(resolve, commit=_OTHER_COMMIT)
        for place in (1, 2, 3):
            serial += 1
            assert remote.read(place * MIB, 99) == content[place * MIB : place * MIB + 99]
            assert len(cdn.ended()) == 1 + 2 * place  # refused, then given


@pytest.mark.parametrize("same", [True, False], ids=["same", "other"])
@pytest.mark.parametrize("conditions", [True, False], ids=["If-Range", "ignored"])
def test_another_storage_host_of_a_hub_may_have_another_etag(
    web: Web, cdn: Web, same: bool, conditions: bool
) -> None:
    """What counts is the hash that the hub itself says of the content."""
    content, gone = os.urandom(4 * MIB), False

    def resolve(handler: Handler, _: Mapping[str, str]) -> None:
        linked = "1" if same or not gone else "2"
        place = f"{cdn.url}/{'second' if gone else 'first'}"
        handler.answer(302, Location=place, X_Repo_Commit=COMMIT, X_Linked_ETag=f'"{linked}"')

    def stored(handler: Handler, headers: Mapping[str, str], tag: str) -> None:
        if gone and tag == '"a"':
            handler.answer(403)
            return
        if conditions and headers.get("if-range", tag) != tag:
            handler.answer(200, content, ETag=tag)
            return
        handler.give_part(content, headers, ETag=tag)

    web.routes["/o/n/resolve/main/m.gguf"] = resolve
    web.routes[f"/o/n/resolve/{COMMIT}/m.gguf"] = resolve
    cdn.routes["/first"] = partial(stored, tag='"a"')
    cdn.routes["/second"] = partial(stored, tag='"b"')
    with source.RemoteSource(parse_address("hf://o/n/m.gguf")) as remote:
        remote.end_header()
        gone = True
        if same:
            for place in (2 * MIB, 3 * MIB):
                assert remote.read(place, 9) == content[place : place + 9]
        else:
            with pytest.raises(SourceError, match="was changed on its server"):
                remote.read(2 * MIB, 9)


@pytest.mark.parametrize("told", [True, False], ids=["by its address", "by a refusal"])
def test_a_link_that_is_signed_for_one_range_is_asked_for_each(
    web: Web, cdn: Web, told: bool
) -> None:
    content = os.urandom(12 * MIB)
    name = "X-Xet-Signed-Range" if told else "Policy"

    def resolve(handler: Handler, headers: Mapping[str, str]) -> None:
        handler.answer(302, Location=f"{cdn.url}/x?{name}={quote(headers['range'])}")

    def stored(handler: Handler, headers: Mapping[str, str]) -> None:
        (allowed,) = parse_qs(urlsplit(handler.path).query)[name]
        good = headers["range"] == allowed
        handler.give(Content(content), headers) if good else handler.answer(403)

    web.routes["/o/n/resolve/main/m.gguf"] = resolve
    cdn.routes["/x"] = stored
    with source.RemoteSource(parse_address("hf://o/n/m.gguf")) as remote:
        remote.end_header()
        for place in range(1, 11):
            assert remote.read(place * MIB, 9) == content[place * MIB : place * MIB + 9]
    assert len(web.ended()) == 11
    assert len(cdn.ended()) == (11 if told else 12)  # it is tried once


@pytest.mark.parametrize(
    ("status", "code", "said", "told"),
    [
        (401, "GatedRepo", "Access to model o/n is restricted.", "is gated: accept its licence"),
        (403, "GatedRepo", "You are not in the authorized list.", "is gated: accept its licence"),
        (401, "RepoNotFound", "Repository not found", "does not exist, or is private"),
        (404, "RepoNotFound", "Repository not found", "does not exist, or is private"),
        (404, "RevisionNotFound", "Invalid rev id: main", "has no such branch, tag or commit"),
        (404, "EntryNotFound", "Entry not found", "does not exist in this repository"),
        (401, "", "Invalid credentials in Authorization header", "does not know the token"),
        (403, "", "Access to this resource is disabled.", "was disabled by the hub"),
        (403, "", "Some\u202e reason" + "x" * 9999, r"is private, or does not exist\. .*Some"),
        (400, "", "", "is answered with status 400"),
    ],
)
def test_the_hub_says_why_it_refuses(
    web: Web, status: int, code: str, said: str, told: str
) -> None:

    def refuse(handler: Handler, _: Mapping[str, str]) -> None:
        named = {"X_Error_Code": code, "X_Error_Message": said.encode().decode("latin-1")}
        handler.head(status, Content_Length="0", **{name: x for name, x in named.items() if x})

    web.routes["/api/models/o/n/revision/main"] = refuse
    web.routes["/o/n/resolve/main/m.gguf"] = refuse
    for address in ("hf://o/n", "hf://o/n/m.gguf"):
        with (
            mock.patch.dict(os.environ, HF_TOKEN="hf_secret"),
            pytest.raises(SourceError, match=told) as caught,
        ):
            open_model(address)
        message = str(caught.value)
        assert message.startswith(address)
        assert message.isprintable()
        assert len(message) < 600
        assert "hf_secret" not in message


def test_a_repository_that_was_renamed_leads_to_its_new_name(web: Web, demo: bytes) -> None:
    add_hub(web, "new/name", {"m.gguf": demo})
    for place in ("/api/models/{}/revision/main", "/{}/resolve/main/m.gguf"):
        new = place.format("new/name")
        web.routes[place.format("old/name")] = lambda handler, _, new=new: handler.answer(  # type: ignore[misc]
            307, Location=new
        )
    with open_model("hf://old/name/m.gguf") as model:
        assert model.parameters


def test_branches_with_slashes_and_names_with_spaces_are_opened(web: Web, demo: bytes) -> None:
    add_hub(web, "o/n", {"a b/m #1?.gguf": demo}, branches=("refs/pr/1",))
    page = "https://huggingface.co/o/n/blob/refs%2Fpr%2F1/a%20b/m%20%231%3F.gguf"
    for text in (page, "hf://o/n@refs/pr/1/a b/m #1?.gguf", "hf://o/n@refs%2Fpr%2F1"):
        with open_model(text) as model:
            assert model.parameters
            assert parse_address(str(model.path)) == model.path


@pytest.mark.slow
def test_quantized_folders_are_the_same_on_the_hub(web: Web, cdn: Web, shared_data: Path) -> None:
    """Keys, shapes, declarations, problems and every weight, of each scheme; few requests."""
    weights = (shared_data / "hf_quantized").glob("*/*.safetensors")
    folders = sorted({path.parent for path in weights})
    for folder in folders:
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        add_hub(web, f"o/{folder.name}", files, cdn=cdn)
        web.asked.clear()
        with open_model(folder) as local, open_model(f"hf://o/{folder.name}") as remote:
            assert len(web.asked) <= 8  # the list, two for each text, one for each file of weights
            assert [problem.what for problem in remote.problems] == [
                problem.what for problem in local.problems
            ]
            assert remote.metadata.keys() == local.metadata.keys()
            assert [group.name for group in remote.groups] == [one.name for one in local.groups]
            for one, two in zip(remote.tensors.rows, local.tensors.rows, strict=True):
                assert (one.name, one.shape, one.type) == (two.name, two.shape, two.type)
                assert one.read() == two.read()
    assert len(folders) > 50


def test_many_files_are_fetched_several_at_a_time(web: Web) -> None:
    """As many at once as there are connections; one that is missing is one problem."""
    names = [f"m-{number:05d}-of-00016.safetensors" for number in range(1, 17)]
    places = {f"layers.{place}.weight": name for place, name in enumerate(names)}
    files = {name: tensors_bytes([(key, "F32", [4])]) for key, name in places.items()}
    files["model.safetensors.index.json"] = json.dumps({"weight_map": places}).encode()
    files["config.json"] = b"{}"
    add_hub(web, "o/n", files)
    running, most, lock = 0, 0, threading.Lock()

    def slow(handler: Handler, headers: Mapping[str, str], data: bytes) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        handler.give(Content(data), headers)

    for name in names:
        web.routes[f"/o/n/resolve/{COMMIT}/{name}"] = partial(slow, data=files[name])
    del web.routes[f"/o/n/resolve/{COMMIT}/{names[7]}"]
    with open_model("hf://o/n") as model:
        assert sorted(model.tensors) == sorted(set(places) - {"layers.7.weight"})
        assert [problem.where for problem in model.problems] == [names[7]]
        assert [file.path.name for file in model.files] == [n for n in names if n != names[7]]
    assert 2 < most <= 8
    assert len(web.asked) == 1 + 2 * 2 + 16  # the list, two texts with a redirect each, the shards


@pytest.mark.parametrize("cancelled", [False, True], ids=["failed", "cancelled"])
def test_what_is_opened_ahead_ends_with_what_needed_it(web: Web, cancelled: bool) -> None:
    """The first file is there; the others never answer."""
    over, stop, began = threading.Event(), threading.Event(), time.monotonic()
    places = [parse_address(f"{web.url}/{number}.bin") for number in range(20)]
    web.put("/0.bin", b"x" * 100)
    for place in places[1:]:
        web.routes[f"/{place.name}"] = lambda *_: over.wait(PATIENCE_S) and None  # type: ignore[assignment]

    def check() -> None:
        if stop.is_set():
            raise CancelledError

    def work() -> None:
        nonlocal began
        with cancelled_by(check), opening_ahead(places):
            with open_source(places[0]) as first:
                assert first.read(0, 1) == b"x"
            began = time.monotonic()
            if not cancelled:
                raise CancelledError
            stop.set()
            open_source(places[1])

    with pytest.raises(CancelledError):
        work()
    assert time.monotonic() - began < SOON_S
    over.set()
    assert not any(thread.name.startswith("analysis") for thread in threading.enumerate())


def test_other_shards_are_fetched_by_small_parts(web: Web) -> None:
    """One of them has the vocabulary; the headers of the others are a few thousand bytes."""
    names = [f"m-{number:05d}-of-00003.gguf" for number in (1, 2, 3)]
    files = {}
    for number, name in enumerate(names):
        keys = [("split.no", U16, number), ("split.count", U16, 3), ("split.tensors.count", I32, 3)]
        large = TensorSpec(f"blk.{number}.a.weight", (MIB,), 0, bytes(4 * MIB))
        files[name] = GgufFile(keys=list(keys), tensors=[large]).build()
    add_hub(web, "o/n", files)
    with open_model(f"hf://o/n/{names[1]}") as model:
        assert len(model.files) == 3
        assert len(model.tensors) == 3
    assert web.sent <= 2 * MIB + 4096
    assert len(web.asked) == 4  # the list, and the shards


# registries


def test_blobs_of_a_registry_are_read_where_it_redirects_to(
    web: Web, cdn: Web, demo: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    layers = {"model": demo, "template": b"{{ .Prompt }}", "params": b'{"top_k": 3}', "system": b""}
    add_registry(web, "someone/demo", layers, "q4_K_M", storage=cdn)
    address = f"ollama://{host_of(web)}/someone/demo:q4_K_M"
    with open_model(address) as model:
        assert not model.problems
        assert model.metadata.text("ollama.template") == "{{ .Prompt }}"
        assert model.metadata["ollama.params.top_k"] == 3
        asked = len(web.asked)
        name = next(iter(model.tensors))
        assert np.isfinite(model.tensors[name].dequantize()).all()
        assert len(web.asked) == asked  # a signed link is used again
    assert len(web.asked) == 2 + len(layers)  # the manifest, its configuration
    assert not any("authorization" in one.headers for one in (*web.asked, *cdn.asked))
    assert "docker.distribution.manifest.v2+json" in web.asked[0].headers["accept"]


def test_texts_of_a_registry_need_no_ranges(web: Web, demo: bytes) -> None:
    """The hub, as a registry, makes templates and parameters itself."""
    add_registry(web, "o/n", {"model": demo, "template": b"text", "params": b'{"top_k": 3}'})
    for path, route in web.routes.items():
        if isinstance(route, Content) and "/blobs/" in path and len(route.data) < MIB:
            web.routes[path] = lambda handler, _, data=route.data: handler.answer(200, data)  # type: ignore[misc]
    address = f"ollama://{host_of(web)}/o/n"
    with open_model(address) as model:
        assert str(model.path) == f"{address}"
        assert not model.problems
        assert model.metadata.text("ollama.template") == "text"
        assert model.metadata["ollama.params.top_k"] == 3


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}', "unkn"),
        (400, b'{"error": "The specified tag is not a valid quantization"}', "not a valid quant"),
        (401, b'{"errors": [{"code": "UNAUTHORIZED"}]}', "no login at a registry"),
        (404, b"404 page not found", "does not exist there"),
        (404, b"[" * 4096, "does not exist there"),
        (404, b'{"error": "' + b"x" * 9999, "does not exist there"),
        (412, b'{"error": {"message": ["odd"]}}', "status 412"),
    ],
)
def test_a_registry_says_why_it_refuses(web: Web, status: int, body: bytes, told: str) -> None:
    web.routes["/v2/library/none/manifests/1b"] = lambda handler, _: handler.answer(status, body)
    address = f"ollama://{host_of(web)}/library/none:1b"
    with pytest.raises(SourceError, match=told) as caught:
        open_model(address)
    assert str(caught.value).startswith(f"{address}: ")
    assert len(str(caught.value)) < 500


def test_tags_on_several_pages_are_all_listed(web: Web, cdn: Web) -> None:
    place = "/v2/library/demo/tags/list"
    name = parse_address(f"ollama://{host_of(web)}/library/demo")
    following = {"": "b", "b": "c", "c": ""}

    def listed(handler: Handler, _: Mapping[str, str]) -> None:
        last = parse_qs(urlsplit(handler.path).query).get("last", [""])[0]
        link = {"Link": f'<{place}?n=1&last={new}>; rel="next"'} if (new := following[last]) else {}
        handler.answer(200, b'{"tags": ["t%s"]}' % last.encode(), **link)

    web.routes[place] = listed
    found = several_at(name)
    assert found is not None
    assert [choice.name for choice in found.choices] == ["demo:t", "demo:tb", "demo:tc"]
    following["c"] = "b"  # for ever
    web.asked.clear()
    assert several_at(name) is not None
    assert len(web.asked) <= 50
    cdn.put("/more", b'{"tags": ["elsewhere"]}')
    web.routes[place] = lambda handler, _: handler.answer(
        200, b'{"tags": ["a", "b"]}', Link=f'<{cdn.url}/more>; rel="next"'
    )
    assert several_at(name) is not None
    assert cdn.asked == []  # a page of another host is not the registry's


# any server


def ranged(tags: Iterator[str], header: str = "ETag") -> Route:
    """Answer any range of a file of 8 MiB, with the next of these tags each time."""

    def route(handler: Handler, headers: Mapping[str, str]) -> None:
        tag = next(tags)
        handler.give_part(bytes(8 * MIB), headers, **({header: tag} if tag else {}))

    return route


@pytest.mark.parametrize(
    ("header", "tags", "changed"),
    [
        ("ETag", ['W/"1"', 'W/"2"'], True),
        ("ETag", ['"1"', '"2"'], True),  # by a server that ignores If-Range
        ("ETag", ['W/"1"', 'W/"1"'], False),
        ("ETag", ['"1"', ""], True),
        ("ETag", ["", ""], False),
        ("Last_Modified", ["Mon, 01 Jan 2024 00:00:00 GMT", ""], False),
        ("Last_Modified", ["Mon, 01 Jan 2024 00:00:00 GMT", "Tue, 02 Jan 2024 00:00:00 GMT"], True),
    ],
)
def test_versions_are_told_apart_by_what_a_server_says(
    web: Web, header: str, tags: list[str], changed: bool
) -> None:
    web.routes["/m.bin"] = ranged(iter(tags), header)
    with source.RemoteSource(parse_address(web.url + "/m.bin")) as remote:
        if changed:
            with pytest.raises(SourceError, match="was changed on its server"):
                remote.read(4 * MIB, 9)
        else:
            assert remote.read(4 * MIB, 9) == bytes(9)
        sent = web.asked[1].headers.get("if-range", "")
    assert not sent.startswith("W/")  # RFC 9110, section 13.1.5
    assert sent == ("" if tags[0].startswith("W/") else tags[0])


class _Old(Handler):
    protocol_version = "HTTP/1.0"


def test_a_server_of_http_1_0_closes_each_connection(demo: bytes) -> None:
    with (
        mock.patch("tests.helpers.web.Handler", _Old),
        serving() as web,
        open_model(web.put("/m.gguf", demo)) as model,
    ):
        name = max(model.tensors.rows, key=lambda one: one.extents[0].offset).name
        assert np.isfinite(model.tensors[name].dequantize()).all()


@pytest.mark.parametrize(
    ("number", "public"),
    [
        *[("8.8.8.8", True), ("2606:4700::1", True), ("64:ff9b::808:808", True)],
        *[("127.0.0.1", False), ("10.1.2.3", False), ("169.254.169.254", False), ("::1", False)],
        *[("::ffff:127.0.0.1", False), ("64:ff9b::a00:1", False), ("2002:7f00:1::", False)],
        *[("100.64.0.1", False), ("224.0.0.1", False), ("0.0.0.0", False), ("fd00::1", False)],
        *[("ff02::1", False), ("localhost", False), ("example.com", False)],
    ],
)
def test_public_numbers_are_told_from_private_ones(number: str, public: bool) -> None:
    assert is_public(number) is public


# proxies and certificates


def refused_by_proxy(web: Web, monkeypatch: pytest.MonkeyPatch, proxy: str) -> str:
    """Use a proxy for this server, which is on this machine; return the error."""
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "authority.pem"))
    monkeypatch.setattr(http, "is_this_machine", lambda _: False)
    monkeypatch.setenv("https_proxy", proxy)
    http._manager.cache_clear()
    with pytest.raises(SourceError) as caught:
        open_model(web.url + "/m.gguf")
    return str(caught.value)


class _Refusing(Handler):
    sent = 0

    def do_CONNECT(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.web.asked.append(Asked(self.path, headers, 0))
        self.answer(407)


def test_the_login_of_a_proxy_is_for_the_proxy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(tls=True, host="localhost") as web,
        mock.patch("tests.helpers.web.Handler", _Refusing),
        serving() as proxy,
    ):
        place = f"somebody:pass%40word@{host_of(proxy)}"  # as many write it, without http://
        told = refused_by_proxy(web, monkeypatch, place)
    login = b64encode(b"somebody:pass@word").decode()
    assert [one.headers.get("proxy-authorization") for one in proxy.asked] == [f"Basic {login}"]
    assert "the proxy '127.0.0.1' of the system failed" in told
    assert "407" in told
    assert "word" not in told
    assert web.asked == []


def test_a_proxy_that_is_not_spoken_is_not_passed_by(
    monkeypatch: pytest.MonkeyPatch, demo: bytes
) -> None:
    with serving(tls=True, host="localhost") as web:
        web.put("/m.gguf", demo)
        monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:9")
        assert "socks5" in refused_by_proxy(web, monkeypatch, "")
        assert web.asked == []


def test_authorities_are_found_where_other_systems_keep_them(
    monkeypatch: pytest.MonkeyPatch, demo: bytes
) -> None:
    """A program that was built on another system looks in folders that this one does not have."""
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/cert.pem")
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere/certs")
    monkeypatch.setattr(http, "_AUTHORITIES", ("/nowhere/bundle", str(DATA / "authority.pem")))
    assert ssl.get_default_verify_paths().cafile is None
    with serving(tls=True, host="localhost") as web, open_model(web.put("/m.gguf", demo)) as model:
        assert model.parameters


# asked for only


def test_nothing_is_sent_but_what_the_readme_says(
    web: Web, cdn: Web, demo: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    web.routes["/set"] = lambda handler, _: handler.answer(
        302, Location=cdn.put("/m.gguf", demo), Set_Cookie="id=1; Path=/"
    )
    add_hub(web, "o/n", {"m.gguf": demo}, token="hf_secret", cdn=cdn)
    add_registry(web, "o/n", {"model": demo}, storage=cdn)
    host = host_of(web)
    for address in (f"{web.url}/set", "hf://o/n", f"ollama://{host}/o/n", f"{web.url}/set"):
        with open_model(address) as model:
            model.tensors[next(iter(model.tensors))].dequantize()
    usual = {"host", "user-agent", "accept-encoding", "range", "if-range", "if-none-match"}
    of_hub = {"authorization"}
    for one in web.asked:
        more = {"accept"} if "/manifests/" in one.path else set()
        more |= of_hub if one.path.startswith(("/api/", "/o/n/resolve/")) else set()
        assert one.headers.keys() <= usual | more
    assert all(one.headers.keys() <= usual for one in cdn.asked)
    agents = {one.headers["user-agent"] for one in (*web.asked, *cdn.asked)}
    assert agents == {f"gguf-explorer/{__version__}"}


def test_the_setting_does_not_undo_what_the_command_line_says(
    web: Web, demo: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = web.put("/m.gguf", demo)
    with offline():
        for refused in (False, True, False):  # as a window does at its start, and its menu
            refuse_all(refused)
            assert forbidden_by() == "--offline was given"
            with pytest.raises(SourceError, match="nothing is fetched: --offline was given"):
                open_model(url)
    assert forbidden_by() == ""
    refuse_all(True)
    with pytest.raises(SourceError, match="Read nothing from the web is on"):
        open_model(url)
    refuse_all(False)
    monkeypatch.setenv("GGUF_EXPLORER_OFFLINE", "1")
    assert forbidden_by() == "GGUF_EXPLORER_OFFLINE is set"
    assert web.asked == []


@pytest.mark.parametrize("command", ["survey", "recipes", "compare", "diff"])
def test_commands_that_read_all_weights_ask_first(
    web: Web, demo: bytes, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    url = web.put("/m.gguf", demo)
    others = {"compare": [url], "diff": [url, "--errors"], "recipes": ["--recipe", "Q8_0"]}
    arguments = [command, url, *others.get(command, [])]
    with mock.patch("explorer.cli.options._MUCH", 1000):
        assert main(arguments) == 1
        assert "Add --fetch to do so" in capfd.readouterr().err
        assert web.sent <= 2 * MIB
        assert main([*arguments, "--fetch", "--json"]) == 0
    assert url in capfd.readouterr().out


def test_recipes_without_errors_fetch_headers_alone(
    web: Web, demo: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    url = web.put("/m.gguf", demo)
    with mock.patch("explorer.cli.options._MUCH", 1000):
        assert main(["recipes", url, "--recipe", "Q8_0", "--no-errors"]) == 0
        assert "Q8_0" in capfd.readouterr().out
        assert web.sent <= MIB
