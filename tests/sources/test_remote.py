"""Addresses, against real servers on the loopback: what is asked for, what is fetched and kept."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("urllib3", reason="the extra [remote] is not installed")

from explorer.analysis.statistics import tensor_statistics
from explorer.cli.main import main
from explorer.errors import ExplorerError, FormatError, SeveralModelsError, SourceError
from explorer.formats import open_model
from explorer.formats.facts import describe
from explorer.formats.huggingface import whole_of
from explorer.formats.open import several_at
from explorer.parallel import LruCache, cancelled_by
from explorer.planner import Device
from explorer.present.fits import Target, fit_of, version_at
from explorer.present.stores import download_of
from explorer.sources import Address, is_address, parse_address
from explorer.sources.remote import http, source
from explorer.sources.remote.addresses import offline
from tests.helpers.patience import PATIENCE_S, SOON_S
from tests.helpers.safetensors_writer import tensors_bytes
from tests.helpers.web import COMMIT, DATA, Asked, Content, Handler, Web, add_hub, serving

MIB = 1 << 20


# addresses

_STRANGE_NAMES = ("..%2F..%2Fx", "a%0Ab.gguf", "a%5Cb.gguf", "%2e%2e/x")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://host/a/model.gguf", "https://host/a/model.gguf"),
        ("https://host:8443/m.gguf?signature=x#part", "https://host:8443/m.gguf"),
        ("hf://owner/name", "hf://owner/name"),
        ("hf://owner/name@v1/sub/model.gguf", "hf://owner/name@v1/sub/model.gguf"),
        ("https://huggingface.co/o/n", "hf://o/n"),
        ("https://huggingface.co/o/n/blob/main/a/m.gguf", "hf://o/n@main/a/m.gguf"),
        ("https://huggingface.co/o/n/resolve/v2/m.gguf?download=true", "hf://o/n@v2/m.gguf"),
        ("ollama://llama3:8b", "ollama://llama3:8b"),
        ("http://127.0.0.1:8000/m.gguf", "http://127.0.0.1:8000/m.gguf"),
        (" https://host/m.gguf\n", "https://host/m.gguf"),
        # pages that browsers show
        ("https://hf.co/o/n", "hf://o/n"),
        ("https://www.huggingface.co/o/n/tree/main", "hf://o/n@main"),
        ("HTTPS://HuggingFace.co/o/n", "hf://o/n"),
        ("https://huggingface.co/o/n?show_file_info=a%2Fm.gguf", "hf://o/n/a/m.gguf"),
        ("https://huggingface.co/o/n/tree/refs%2Fconvert%2Fx/a", "hf://o/n@refs%2Fconvert%2Fx/a"),
        ("https://ollama.com/library/llama3:8b", "ollama://llama3:8b"),
        ("https://ollama.com/library/llama3/tags", "ollama://llama3"),
        ("https://ollama.com/somebody/model", "ollama://somebody/model"),
        ("https://ollama.com/search", "https://ollama.com/search"),
        ("https://huggingface.co/o/n/discussions", "https://huggingface.co/o/n/discussions"),
    ],
)
def test_addresses_are_read_and_given_back(text: str, address: str) -> None:
    parsed = parse_address(text)
    assert str(parsed) == address
    assert is_address(parsed)
    assert isinstance(parsed, Address)
    assert str(parsed.parent / parsed.name) == address
    assert parse_address(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    [
        *("file:///etc/passwd", "ftp://host/m.gguf", "https://", "https:///m.gguf", "hf://owner"),
        *("https://user:secret@host/m.gguf", "http://host/m.gguf", "https://host/a b.gguf"),
        *("hf://owner/name/../../x", "hf://../name", "https://host/\\m.gguf", "https://host/"),
        *("https://host:99999/m.gguf", "hf://o/n@/m.gguf", "x" * 5000, "gopher://host/m.gguf"),
        *("https://[::1/m.gguf", "hf://o/n@re vision/m.gguf", "ollama://"),
        *(f"https://huggingface.co/o/n/blob/main/{name}" for name in _STRANGE_NAMES),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_address(text)


# what is fetched


def test_a_header_takes_few_requests_and_little_else_is_fetched(web: Web) -> None:
    content = os.urandom(9 * MIB + 17)
    address = parse_address(web.put("/m.bin", content))
    with source.RemoteSource(address) as remote:
        assert remote.size == len(content)
        at = 0
        while at < 6 * MIB:  # as a header is read: in small pieces, one behind the other
            assert remote.read(at, 4096) == content[at : at + 4096]
            at += 4096
        assert len(web.asked) == 3
        assert web.sent == 7 * MIB
        remote.end_header()
        web.asked.clear()
        assert remote.read(8 * MIB + 5, MIB) == content[8 * MIB + 5 : 9 * MIB + 5]
        assert [one.headers["range"] for one in web.asked] == [f"bytes={8 * MIB}-{9 * MIB + 16}"]
        assert remote.read(8 * MIB + 9, 100) == content[8 * MIB + 9 : 8 * MIB + 109]
        assert len(web.asked) == 1
    with pytest.raises(SourceError, match="was closed"):
        remote.read(0, 1)


def test_the_cache_in_memory_is_bounded(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = LruCache(4 * MIB, len)
    monkeypatch.setattr(source, "_blocks", blocks)
    content = os.urandom(16 * MIB)
    with source.RemoteSource(parse_address(web.put("/m.bin", content))) as remote:
        remote.end_header()
        assert remote.read(0, len(content)) == content
        assert blocks.held <= 4 * MIB
    assert blocks.held == 0


def test_two_readers_fetch_a_block_once(web: Web) -> None:
    content = os.urandom(4 * MIB)
    with source.RemoteSource(parse_address(web.put("/m.bin", content))) as remote:
        remote.end_header()
        web.latency_s = 0.1
        web.asked.clear()
        read: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: read.append(remote.read(2 * MIB + 7, 1000)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert read == [content[2 * MIB + 7 : 2 * MIB + 1007]] * 4
    assert len(web.asked) == 1


def test_a_model_opens_and_a_tensor_is_read_as_from_a_file(
    web: Web, demo: bytes, tmp_path: Path
) -> None:
    (tmp_path / "demo.gguf").write_bytes(demo)
    url = web.put("/some/demo.gguf", demo)
    with open_model(url) as remote, open_model(tmp_path / "demo.gguf") as local:
        assert str(remote.path) == url
        assert remote.metadata.keys() == local.metadata.keys()
        assert list(remote.tensors) == list(local.tensors)
        assert len(web.asked) == 1
        web.asked.clear()
        name = "output.weight" if "output.weight" in local.tensors else next(iter(local.tensors))
        one, two = (model.tensors[name].read() for model in (remote, local))
        assert np.array_equal(one, two)
        assert web.sent <= local.tensors[name].nbytes + 2 * MIB


def test_the_second_start_fetches_nothing_that_is_known(web: Web, tmp_path: Path) -> None:
    content = os.urandom(3 * MIB)
    address = parse_address(web.put("/m.bin", content))

    def opened() -> bytes:
        with source.RemoteSource(address) as remote:
            head = remote.read(0, 2 * MIB)
            remote.end_header()
            return head

    assert opened() == content[: 2 * MIB]
    web.asked.clear()
    assert opened() == content[: 2 * MIB]
    assert [one.sent for one in web.ended()] == [0]
    (kept,) = (tmp_path / "cache" / "addresses").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    damaged = bytearray(kept.read_bytes())
    damaged[-1] ^= 1
    kept.write_bytes(damaged)
    assert opened() == content[: 2 * MIB]
    changed = content[:MIB] + bytes(MIB) + content[2 * MIB :]
    web.routes["/m.bin"] = Content(changed[:-1] + b"x")
    assert opened() == changed[: 2 * MIB]


def test_the_cache_on_disk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source.HeaderCache, "MAX_BYTES", 10_000)
    cache = source.HeaderCache()
    folder = tmp_path / "cache" / "addresses"
    for number in range(8):
        address = Address(f"https://host/{number}.gguf")
        cache.store(address, source.KnownHeader('"v"', 5000, bytes(3000)))
        os.utime(folder / source._header_name(address), (number, number))
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 10_000
    assert cache.load(Address("https://host/7.gguf")) is not None
    assert cache.load(Address("https://host/0.gguf")) is None


def test_a_file_that_changes_is_never_mixed(web: Web) -> None:
    content = os.urandom(4 * MIB)
    address = parse_address(web.put("/m.bin", content))
    with source.RemoteSource(address) as remote:
        remote.end_header()
        web.routes["/m.bin"] = Content(os.urandom(4 * MIB))
        with pytest.raises(SourceError, match="was changed on its server"):
            remote.read(2 * MIB, 100)
        assert web.ended()[-1].sent <= 4 * MIB


def test_a_tensor_that_is_read_in_order_takes_few_requests_and_no_byte_behind_it(web: Web) -> None:
    content = os.urandom(40 * MIB)
    with source.RemoteSource(parse_address(web.put("/m.bin", content))) as remote:
        remote.end_header()
        start, stop = 2 * MIB + 77, 33 * MIB + 5
        remote.expect(start, stop - start)
        web.asked.clear()
        for at in range(start, stop, MIB):
            length = min(MIB, stop - at)
            assert remote.read(at, length) == content[at : at + length]
        assert len(web.asked) <= 10
        assert web.sent <= stop - start + 2 * MIB
        web.asked.clear()
        for at in (38 * MIB, 36 * MIB, 35 * MIB):  # what is not expected, or not in order
            assert remote.read(at, 9) == content[at : at + 9]
        assert web.sent == 3 * MIB


def test_a_tensor_of_the_bound_is_fetched_once_and_a_larger_one_twice(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 256 * MIB <= source._blocks._most <= 1024 * MIB
    monkeypatch.setattr(source, "_blocks", LruCache(8 * MIB, len))
    for nbytes, walks in ((8 * MIB, 1), (12 * MIB, 2)):
        content = os.urandom(nbytes)
        with source.RemoteSource(parse_address(web.put(f"/{nbytes}.bin", content)), 1) as remote:
            remote.end_header()
            web.asked.clear()
            for _ in range(2):
                for at in range(0, nbytes, MIB):
                    assert remote.read(at, MIB) == content[at : at + MIB]
            assert walks * nbytes - MIB <= web.sent <= walks * nbytes


@pytest.mark.parametrize("what", ["header", "manifest", "listing", "tags", "weights", "statistics"])
def test_everything_ends_soon_after_it_is_cancelled(
    web: Web, demo: bytes, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Exception):
        pass

    reached, stop, over = threading.Event(), threading.Event(), threading.Event()
    ended: list[BaseException | None] = []

    def check() -> None:
        if stop.is_set():
            raise Stopped

    def never_answers(_: Handler, __: Mapping[str, str]) -> None:
        reached.set()
        over.wait(PATIENCE_S)

    host = web.url.removeprefix("http://")
    with open_model(web.put("/m.gguf", demo)) as model:
        tensor = max(model.tensors.rows, key=lambda one: one.extents[0].offset)
        assert tensor.extents[0].offset > MIB  # behind what came with the header
        web.routes["/m.gguf"] = web.routes["/silent.gguf"] = never_answers
        web.routes["/v2/library/m/manifests/latest"] = never_answers
        web.routes["/v2/library/m/tags/list"] = never_answers
        web.routes["/api/models/o/n/revision/main"] = never_answers
        name = parse_address(f"ollama://{host}/library/m")
        works: dict[str, Callable[[], object]] = {
            "header": lambda: open_model(web.url + "/silent.gguf"),
            "manifest": lambda: open_model(name),
            "listing": lambda: open_model("hf://o/n"),
            "tags": lambda: several_at(name),
            "weights": tensor.read,
            "statistics": lambda: tensor_statistics(tensor, workers=2, cancel=check),
        }

        def work() -> None:
            try:
                with cancelled_by(check):
                    works[what]()
            except (Stopped, ExplorerError) as error:
                ended.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        assert reached.wait(PATIENCE_S)
        began = time.monotonic()
        stop.set()
        thread.join(PATIENCE_S)
        seconds = time.monotonic() - began
        over.set()
        web.put("/m.gguf", demo)
        assert len(tensor.read()) == tensor.nbytes  # nothing is left of what was cancelled
    assert [type(error) for error in ended] == [Stopped]
    assert seconds < SOON_S


def test_a_real_model_takes_no_more_than_was_promised(web: Web, real_model: Path) -> None:
    """Three requests and 8 MiB to all that the overview says; a tensor's bytes and 2 MiB."""
    web.latency_s = 0.05
    with open_model(web.put("/real.gguf", real_model.read_bytes())) as model:
        facts = describe(model)
        assert facts.parameters
        assert facts.vocabulary == 262_144
        assert fit_of(model, Target((), None)).engine == "llama.cpp"
        assert len(web.asked) <= 3
        assert web.connections + len(web.asked) <= 4  # round trips, each after the other
        assert web.sent <= 8 * MIB
        for name in ("blk.0.ffn_down.weight", "blk.17.attn_q.weight"):
            web.asked.clear()
            tensor = model.tensors[name]
            assert tensor_statistics(tensor, workers=2).count == tensor.parameters
            assert web.sent <= tensor.nbytes + 2 * MIB


# the hub and the registry


def test_a_repository_of_one_model_opens(web: Web, demo: bytes) -> None:
    add_hub(web, "owner/name", {"README.md": b"", "model.gguf": demo})
    with open_model("hf://owner/name") as model:
        assert str(model.files[0].path) == f"hf://owner/name@{COMMIT}/model.gguf"
    web.asked.clear()
    with open_model("hf://owner/name/model.gguf") as model:
        assert str(model.path) == "hf://owner/name/model.gguf"
    assert len(web.asked) == 1


def test_a_repository_of_several_models_lists_them_with_their_sizes(web: Web, demo: bytes) -> None:
    add_hub(web, "owner/two", {"a-Q4_0.gguf": demo, "a-Q8_0.gguf": demo + bytes(8)})
    with pytest.raises(SeveralModelsError) as caught:
        open_model("hf://owner/two")
    found = {one.name: one.nbytes for one in caught.value.choices}
    assert found == {"a-Q4_0.gguf": len(demo), "a-Q8_0.gguf": len(demo) + 8}
    with open_model(caught.value.choices[0].path) as model:
        assert model.parameters
    assert len(web.asked) == 2


def test_shards_are_joined_and_of_one_commit(web: Web) -> None:
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    names = [f"model.layers.{number}.a.weight" for number in (0, 1)]
    files = {
        shard: tensors_bytes([(name, "F32", [4])])
        for shard, name in zip(shards, names, strict=True)
    }
    index = {"weight_map": dict(zip(names, shards, strict=True))}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    files["config.json"] = b'{"model_type": "llama"}'
    add_hub(web, "owner/name", files)
    part = parse_address(f"hf://owner/name/{shards[1]}")
    with open_model(part) as model:  # the planner's window has a button for the others
        assert len(model.files) == 1
    for address in ("hf://owner/name@main", whole_of(part)):
        assert address is not None
        web.asked.clear()
        with open_model(address) as model:
            assert len(model.files) == 2
            assert model.architecture == "llama"
            assert not model.problems
        assert all(COMMIT in one.path for one in web.asked[1:])
    assert whole_of(parse_address(f"{web.url}/{shards[0]}")) is None, "no server lists its folder"


def test_models_of_tensor_blobs_are_the_same_over_the_network(
    web: Web, shared_data: Path, tmp_path: Path
) -> None:
    """A weight with its scales in a blob each, experts, and a classic GGUF model."""
    store = shared_data / "ollama_store" / "models"
    for blob in (store / "blobs").iterdir():
        digest = blob.name.replace("sha256-", "sha256:")
        for name in ("tinydense", "tinymoe", "tinyclassic"):
            web.put(f"/v2/library/{name}/blobs/{digest}", blob.read_bytes())
    host, found = web.url.removeprefix("http://"), 0
    for path in sorted((store / "manifests").rglob("*")):
        if not path.is_file() or path.parts[-3] != "library":
            continue
        name, tag = path.parts[-2:]
        web.put(f"/v2/library/{name}/manifests/{tag}", path.read_bytes())
        web.asked.clear()
        with (
            open_model(path) as local,
            open_model(f"ollama://{host}/library/{name}:{tag}") as model,
        ):
            found += 1
            layers = len(json.loads(path.read_bytes())["layers"])
            assert len(web.asked) <= layers + 2  # the manifest, the configuration, the layers
            assert model.problems == local.problems == ()
            assert [group.name for group in model.groups] == [one.name for one in local.groups]
            for one, two in zip(model.tensors.rows, local.tensors.rows, strict=True):
                assert (one.name, one.shape, one.type) == (two.name, two.shape, two.type)
                assert np.array_equal(one.dequantize(), two.dequantize())
            keys = {key for key in local.metadata if key != "ollama.name"}
            for key in keys:
                assert model.metadata.text(key) == local.metadata.text(key)
    assert found >= 3


@pytest.mark.parametrize(
    ("address", "command"),
    [
        ("https://host/m.gguf?signature=a&b=c", "curl -L -O 'https://host/m.gguf?signature=a&b=c'"),
        ("https://host/[1-9].gguf", "curl -L --globoff -O 'https://host/[1-9].gguf'"),
        ("https://host/a'$(b).gguf", """curl -L -O 'https://host/a'"'"'$(b).gguf'"""),
        ("https://h/a-00001-of-00002.gguf", "curl -L -O h1 -O h2"),
        ("hf://o/n/a;b.gguf", "hf download o/n 'a;b.gguf'"),
        ("hf://o/n@v1/-x.gguf", "hf download o/n --revision v1 -- -x.gguf"),
        ("hf://o/n/a-00001-of-00001.gguf", "hf download o/n a-00001-of-00001.gguf"),
        ("hf://o/n", "hf download o/n"),
        ("hf://o/n@v1/config.json", "hf download o/n --exclude '*.gguf' --revision v1"),
        ("hf://o/n/sub", "hf download o/n --include 'sub/*'"),
        ("hf://o/n/s*b", ""),
        ("hf://o/n/a\u202eb.gguf", ""),
        ("ollama://llama3", "ollama pull llama3:latest"),
        ("ollama://h:5000/n/m:1b", "ollama pull h:5000/n/m:1b"),
        ("ollama://a;b", ""),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="quoted as PowerShell wants it there")
def test_the_command_that_downloads_is_safe_to_paste(address: str, command: str) -> None:
    part = "https://h/a-{}-of-00002.gguf"
    command = command.replace("h1", part.format("00001")).replace("h2", part.format("00002"))
    assert download_of(parse_address(address)) == command


def test_there_is_no_command_for_a_file_of_this_machine() -> None:
    assert download_of(Path("/models/m.gguf")) == ""


def test_folders_of_a_repository_are_listed_and_opened(web: Web, demo: bytes) -> None:
    tensors = tensors_bytes([("a.weight", "F32", [4])])
    files = {"Q4/m-00001-of-00002.gguf": demo, "Q4/m-00002-of-00002.gguf": demo, "Q8/m.gguf": demo}
    add_hub(web, "owner/one", {"sub/model.safetensors": tensors, "sub/config.json": b"{}"})
    add_hub(web, "owner/two", {**files, "Q8/mmproj.gguf": demo, "Q8/x.safetensors": tensors})
    add_hub(web, "owner/both", {"model.safetensors": tensors, "config.json": b"{}", **files})
    with open_model("hf://owner/one") as model:
        assert list(model.tensors) == ["a.weight"]
    for name, own in (("two", ["Q8/x.safetensors"]), ("both", ["config.json"])):
        with pytest.raises(SeveralModelsError) as caught:
            open_model(f"hf://owner/{name}")
        sizes = {one.name: one.nbytes for one in caught.value.choices}
        expected = {"Q4/m-00001-of-00002.gguf": 2 * len(demo), "Q8/m.gguf": len(demo)}
        assert sizes == {**expected, own[0]: len(tensors)}
        places = {one.name: one.path for one in caught.value.choices}
        for choice in (own[0], "Q8/m.gguf"):
            with open_model(places[choice]) as model:
                assert model.tensors


def test_each_folder_of_a_repository_says_how_it_fits_by_headers_of_its_shards(web: Web) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 512}
    config |= {"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 512}
    config |= {"intermediate_size": 1024, "max_position_embeddings": 2048, "dtype": "float32"}
    names = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in range(2)]
    files, shards = {}, ["a-00001-of-00002.safetensors", "a-00002-of-00002.safetensors"]
    for folder, changes in (
        ("bf16", {}),
        ("hqq", {"quantization_config": {"quant_method": "hqq"}}),
        ("new", {"model_type": "nebula"}),
    ):
        for name, shard in zip(names, shards, strict=True):
            files[f"{folder}/{shard}"] = tensors_bytes([(name, "F32", [1024, 512])])
        places = dict(zip(names, shards, strict=True))
        index = json.dumps({"weight_map": places}).encode()
        files[f"{folder}/model.safetensors.index.json"] = index
        files[f"{folder}/config.json"] = json.dumps(config | changes).encode()
    add_hub(web, "owner/many", files)
    with pytest.raises(SeveralModelsError) as caught:
        open_model("hf://owner/many")
    assert len(web.ended()) == 1
    target = Target((Device("0", "CUDA", 24 << 30, compute=(8, 9)),), None)
    found = {}
    for choice in caught.value.choices:
        web.asked.clear()
        fit = version_at(choice.path, target).fit
        found[choice.name] = fit.engine, fit.brief
        assert len(web.ended()) == 2 * 2 + len(shards)  # two for each text, one for a shard
        assert web.sent < 300_000 < choice.nbytes / 10
    assert found == {
        "bf16": ("vllm", "Fits"),
        "hqq": ("vllm", "No plan"),
        "new": ("transformers", "Fits"),
    }


def test_tags_of_a_registry_that_lists_nonsense(web: Web) -> None:
    host = web.url.removeprefix("http://")
    address = parse_address(f"ollama://{host}/library/demo")
    assert several_at(address) is None
    place = "/v2/library/demo/tags/list"
    for body in (b"[]", b"{", b'{"tags": 5}', b'{"tags": [' + b'"a",' * 3000 + b'"b"]}'):
        web.put(place, body)
        with pytest.raises(FormatError):
            several_at(address)
    web.put(place, b'{"tags": ["a/../b", "-x", "\\u202e", "good", ""]}')
    assert several_at(address) is None  # one that may be used
    web.put(place, b'{"tags": ["v10", "v9"]}')
    found = several_at(address)
    assert found is not None
    assert [one.path for one in found.choices] == [
        Address(f"ollama://{host}/library/demo:{tag}") for tag in ("v9", "v10")
    ]
    assert several_at(parse_address(f"ollama://{host}/library/demo:v9")) is None


# TLS, and nothing at all


class _Proxy(Handler):
    """A proxy that makes tunnels, all of them to this machine, and notes where they should lead."""

    def do_CONNECT(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.web.asked.append(Asked(self.path, headers, 0))
        self.send_response(200)
        self.end_headers()
        with socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2]))) as other:
            pairs = {self.connection: other, other: self.connection}
            while True:
                ready, _, _ = select.select(list(pairs), [], [], PATIENCE_S)
                pieces = [(one, one.recv(1 << 16)) for one in ready]
                if not pieces or not all(piece for _, piece in pieces):
                    break
                for one, piece in pieces:
                    pairs[one].sendall(piece)
        self.close_connection = True


def test_the_proxy_of_the_system_is_used(demo: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "authority.pem"))

    def parameters_of(url: str) -> int:
        with open_model(url) as model:
            return model.parameters

    with (
        serving(tls=True, host="localhost") as web,
        mock.patch("tests.helpers.web.Handler", _Proxy),
        serving() as proxy,
    ):
        monkeypatch.setenv("https_proxy", proxy.url)
        url = web.put("/m.gguf", demo)
        assert parameters_of(url)  # this machine needs no proxy
        assert proxy.asked == []
        monkeypatch.setattr(http, "is_this_machine", lambda _: False)
        assert parameters_of(url)
        assert [one.path for one in proxy.asked] == [web.url.removeprefix("https://")]
        assert not {"authorization", "range"} & proxy.asked[0].headers.keys()
        monkeypatch.setenv("no_proxy", "localhost")
        assert parameters_of(url)
        assert len(proxy.asked) == 1


def test_offline_refuses_every_address(
    web: Web, demo: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    url = web.put("/m.gguf", demo)
    assert main(["inspect", url, "--offline"]) == 1
    assert main(["--offline", "inspect", url]) == 1
    monkeypatch.setenv("GGUF_EXPLORER_OFFLINE", "1")
    for address in (url, "hf://owner/name", "ollama://llama3"):
        assert main(["check", address]) == 1
    assert capfd.readouterr().err.count("nothing is fetched") == 5
    monkeypatch.delenv("GGUF_EXPLORER_OFFLINE")
    with offline(), pytest.raises(SourceError, match="nothing is fetched"):
        open_model(url)
    assert web.asked == []
    assert main(["check", url]) == 0


def test_without_the_extra_it_is_said(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "urllib3", None)
    with pytest.raises(SourceError, match=r"gguf-explorer\[remote\]"):
        open_model(web.url + "/m.gguf")
