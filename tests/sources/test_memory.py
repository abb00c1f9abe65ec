"""Bytes in memory keep the same contract as a file."""

from __future__ import annotations

import pytest

from explorer.errors import SourceError
from explorer.sources import MemorySource


def test_reads_any_range() -> None:
    source = MemorySource(b"0123456789")
    assert source.size == 10
    assert source.read(3, 4) == b"3456"
    assert source.read(10, 0) == b""
    buffer = bytearray(2)
    source.read_into(8, buffer)
    assert buffer == b"89"


@pytest.mark.parametrize(("offset", "length"), [(10, 1), (11, 0), (-1, 1), (0, -1), (0, 1 << 62)])
def test_a_range_outside_is_refused(offset: int, length: int) -> None:
    with pytest.raises(SourceError):
        MemorySource(b"0123456789").read(offset, length)


def test_closing_keeps_the_bytes() -> None:
    with MemorySource(b"abc") as source:
        pass
    assert source.read(0, 3) == b"abc"
