"""Fixtures of the planner's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explorer.planner.engines.llama_cpp import allocation
from explorer.planner.engines.llama_cpp.backends import Backend
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
    """Plan for the device of the golden data: it answers like CUDA, fuses nothing, scans all."""

    def asked(build: int) -> Revision:
        return revision(build)._replace(summed_at_once=False)

    def scans_all(_header: Header, _backend: Backend) -> bool:
        return False

    monkeypatch.setattr(allocation, "revision", asked)
    monkeypatch.setattr(Header, "scans_on_host", scans_all)
