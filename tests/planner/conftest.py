"""Fixtures of the planner's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explorer.planner.engines.llama_cpp import allocation
from explorer.planner.engines.llama_cpp.backends import Backend, backend_of
from explorer.planner.engines.llama_cpp.builds import Revision, revision
from explorer.planner.engines.llama_cpp.header import Header
from tests.planner.golden import SUBSET, Golden
from tests.planner.models import DATA, packed


@pytest.fixture(scope="session")
def golden(shared_reference: Path) -> Golden:
    """All golden cases; skips without the data beside the repository."""
    return Golden(shared_reference / "planner_golden.json")


@pytest.fixture(scope="session")
def subset() -> Golden:
    """The golden cases that the repository carries."""
    return Golden(SUBSET)


@pytest.fixture(scope="session")
def families() -> dict[str, Any]:
    """What libllama allocates for a small model of each architecture (`provenance` in it)."""
    return packed(DATA / "llama_cpp_families.json.gz")


@pytest.fixture
def nothing_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan for the device of the golden data: it answers like CUDA, fuses nothing, computes all."""

    def asked(build: int) -> Revision:
        return revision(build)._replace(summed_at_once=False)

    def scans_all(_header: Header, _backend: Backend) -> bool:
        return False

    def multiplies_all(library: str) -> Backend:
        return backend_of(library)._replace(wide_experts=True)

    monkeypatch.setattr(allocation, "revision", asked)
    monkeypatch.setattr(allocation, "backend_of", multiplies_all)
    monkeypatch.setattr(Header, "scans_on_host", scans_all)
