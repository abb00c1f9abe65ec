"""Fixtures of the planner's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
