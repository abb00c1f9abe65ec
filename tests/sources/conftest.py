"""For tests of addresses: servers on the loopback, and nothing of this machine."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from explorer.sources.remote.addresses import refuse_all
from tests.helpers.demo import copy_demo
from tests.helpers.web import Web, serving


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No proxy, no token, a cache of the test's own, and connections that no other test made."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("HF_", "HUGGING_FACE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    _close_connections()
    yield
    _close_connections()
    refuse_all(False)


def _close_connections() -> None:
    if find_spec("urllib3") is not None:  # of the extra [remote]
        from explorer.sources.remote import http

        http._manager.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def closed_connections() -> Iterator[None]:
    """Leave no connection open for tests that count the files of this process."""
    yield
    gc.collect()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A server that runs, and is the hub."""
    with serving() as one:
        monkeypatch.setenv("HF_ENDPOINT", one.url)
        yield one


@pytest.fixture
def cdn() -> Iterator[Web]:
    """Another host."""
    with serving(host="localhost") as one:
        yield one


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A GGUF file of 1.6 MB."""
    return copy_demo(tmp_path_factory.mktemp("demo")).read_bytes()
