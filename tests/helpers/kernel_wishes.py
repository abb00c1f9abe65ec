"""Which sets of kernels pages have made before they read weights."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from explorer.qt.jobs import Job, JobRunner


def note_awaited_kernels(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set that gets the names of what is asked for and then waited for."""
    asked: set[str] = set()
    awaited: set[str] = set()

    def need(_runner: JobRunner, names: Iterable[str]) -> list[str]:
        asked.update(names)
        return []

    def wait(_runner: JobRunner, names: Iterable[str], _job: Job, **_options: bool) -> None:
        awaited.update(asked.intersection(names))

    monkeypatch.setattr(JobRunner, "need_kernels", need)
    monkeypatch.setattr(JobRunner, "wait_for_kernels", wait)
    return awaited
