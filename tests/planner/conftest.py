"""Fixtures of the planner's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planner.golden import SUBSET, Golden


@pytest.fixture(scope="session")
def golden(shared_reference: Path) -> Golden:
    """All golden cases; skips without the data beside the repository."""
    return Golden(shared_reference / "planner_golden.json")


@pytest.fixture(scope="session")
def subset() -> Golden:
    """The golden cases that the repository carries."""
    return Golden(SUBSET)
