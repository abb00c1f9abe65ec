"""Finding bytes in a file, chunk by chunk."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.sources import MemorySource
from explorer.sources import files as byte_search
from explorer.sources.files import ByteSearch, Found


@given(
    st.binary(max_size=60),
    st.binary(min_size=1, max_size=3),
    st.integers(-2, 70),
    st.booleans(),
    st.integers(1, 9),
)
def test_search_agrees_with_bytes_find(
    content: bytes, pattern: bytes, start: int, forward: bool, chunk: int
) -> None:
    content = bytes(b % 3 for b in content)
    pattern = bytes(b % 3 for b in pattern)
    search = ByteSearch(
        MemorySource(content), pattern, start, forward, lambda: None, lambda *_: None
    )
    old = byte_search._CHUNK_BYTES
    byte_search._CHUNK_BYTES = chunk  # type: ignore[misc]
    try:
        found = search.run()
    finally:
        byte_search._CHUNK_BYTES = old  # type: ignore[misc]
    start = max(0, start)
    if forward:
        at, other = content.find(pattern, start), content.find(pattern)
    else:
        ends = start + len(pattern) - 1
        at, other = content.rfind(pattern, 0, ends), content.rfind(pattern)
    if at < 0:
        expected = None if other < 0 else Found(other, len(pattern), True)
    else:
        expected = Found(at, len(pattern), False)
    assert found == expected


def test_search_reports_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_search, "_CHUNK_BYTES", 100)
    monkeypatch.setattr(byte_search, "_REPORT_S", 0.0)
    content = random.Random(1).randbytes(1000).replace(b"zz", b"")
    reports: list[tuple[int, int]] = []
    checks = []

    def run(forward: bool) -> Found | None:
        source = MemorySource(content)
        report = lambda done, total: reports.append((done, total))  # noqa: E731
        return ByteSearch(source, b"zz", 500, forward, lambda: checks.append(1), report).run()

    assert run(True) is None
    assert run(False) is None
    assert len(checks) >= 20
    half = len(reports) // 2
    assert reports[:half] == sorted(reports[:half])
    assert all(0 <= done <= total == len(content) for done, total in reports)
