"""How many requests one address may take: more than 200 are asked for before they are made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest

pytest.importorskip("urllib3", reason="the extra [remote] is not installed")

from explorer.errors import ExplorerError, ManyRequestsError
from explorer.formats import open_model
from explorer.sources.remote.requests import MOST_REQUESTS
from tests.helpers.gguf_writer import U16, GgufFile, TensorSpec
from tests.helpers.web import Handler, Web, add_hub


def _manifest_of(web: Web, kinds: str, number: int) -> str:
    """Put a manifest with so many layers that are each a blob of its own."""
    kind = "application/vnd.ollama.image."
    layers = [
        {
            "mediaType": kind + kinds,
            "digest": f"sha256:{place:064x}",
            "size": 5,
            "name": f"t{place}",
        }
        for place in range(number)
    ]
    weights = {"mediaType": kind + "tensor", "digest": f"sha256:{'f' * 64}", "size": 5, "name": "w"}
    about = {"schemaVersion": 2, "config": {**layers[0]}, "layers": [*layers, weights]}
    web.put("/v2/o/m/manifests/latest", json.dumps(about).encode())
    return f"ollama://{web.url.partition('://')[2]}/o/m:latest"


def _shards_of(web: Web, number: int) -> str:
    files = {}
    for place in range(number):
        keys = [("split.no", U16, place), ("split.count", U16, number)]
        shard = GgufFile(keys=keys, tensors=[TensorSpec(f"t{place}", (1,), 0, bytes(4))])
        files[f"m-{place + 1:05}-of-{number:05}.gguf"] = shard.build()
    add_hub(web, "o/n", files)
    return "hf://o/n/m-00001-of-00250.gguf"


@pytest.mark.parametrize(
    "put",
    [
        lambda web: _manifest_of(web, "tensor", 60_000),
        lambda web: _manifest_of(web, "license", 250),
        lambda web: _shards_of(web, 250),
    ],
    ids=["blobs", "texts", "shards"],
)
def test_more_than_200_requests_are_asked_for_before_they_are_made(
    web: Web, monkeypatch: pytest.MonkeyPatch, put: Callable[[Web], str]
) -> None:
    address = put(web)
    with pytest.raises(ManyRequestsError, match=r"takes at least .* requests to '127") as caught:
        open_model(address)
    assert len(web.asked) <= MOST_REQUESTS
    number = caught.value.number
    assert str(caught.value).endswith(f"Allow them with GGUF_EXPLORER_REQUESTS={number}")
    if number > 1000:
        return
    web.asked.clear()
    monkeypatch.setenv("GGUF_EXPLORER_REQUESTS", str(2 * number))
    with suppress(ExplorerError):  # no blob of them is there
        open_model(address).close()
    assert len(web.asked) > MOST_REQUESTS


def test_the_hosts_that_a_server_leads_to_are_named(web: Web, cdn: Web) -> None:
    address = _manifest_of(web, "license", 250)
    place = cdn.put("/licence", b"words")

    def redirect(handler: Handler, _: Mapping[str, str]) -> None:
        handler.answer(302, Location=place)

    for number in range(250):
        web.routes[f"/v2/o/m/blobs/sha256:{number:064x}"] = redirect
    with pytest.raises(ManyRequestsError, match="and to 'localhost', which it leads to"):
        open_model(address)
    assert len(web.asked) + len(cdn.asked) <= MOST_REQUESTS
