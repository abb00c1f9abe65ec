"""Names that stay bytes: the same as decoding each one, and no repeated name is missed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats.gguf.records import PIECE_BYTES, TensorNames

_NAMES = st.lists(st.binary(max_size=80), max_size=30)


def _names(raw: list[bytes], gap: bytes = b"\1") -> TensorNames:
    """Lay names out with something between them, and the bytes that follow the last one."""
    starts, ends, text = [], [], bytearray()
    for name in raw:
        starts.append(len(text))
        text += name
        ends.append(len(text))
        text += gap * PIECE_BYTES
    return TensorNames(bytes(text), np.array(starts, np.int64), np.array(ends, np.int64))


def _decoded(raw: list[bytes]) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in raw]


@given(_NAMES)
def test_names_are_what_was_written(raw: list[bytes]) -> None:
    names = _names(raw)
    assert [names[row] for row in range(len(raw))] == _decoded(raw)
    assert names.listed == list(names) == names[:] == _decoded(raw)


@given(_NAMES, _NAMES)
def test_joined_names_follow_each_other(first: list[bytes], second: list[bytes]) -> None:
    assert TensorNames.joined([_names(first), _names(second)]).listed == _decoded(first + second)


@given(
    st.lists(
        st.sampled_from(
            [b"", b"a", b"b", b"a" * 8, b"a" * 9, b"a" * 32, b"a" * 33, b"a" * 64, b"a\0"]
        )
    )
)
def test_every_repeated_name_is_found(raw: list[bytes]) -> None:
    expected = [name for row, name in enumerate(raw) if name in raw[:row]]
    assert _names(raw).repeated() == _decoded(expected)


@given(_NAMES, st.binary(min_size=1, max_size=1), st.binary(min_size=1, max_size=1))
def test_a_hash_depends_on_the_name_alone(raw: list[bytes], one: bytes, other: bytes) -> None:
    """Whatever lies behind a name: else a repeated one would pass."""
    doubled = raw + raw
    mixed = TensorNames.joined([_names(raw, one), _names(raw, other)])
    assert mixed.repeated() == _names(doubled).repeated()


def test_names_that_differ_only_in_length_or_at_the_end() -> None:
    raw = [b"x" * size for size in range(200)] + [b"x" * 64 + bytes([end]) for end in range(256)]
    raw.remove(b"x" * 65)
    assert _names(raw).repeated() == []


def test_one_repeated_name_among_very_many() -> None:
    raw = [b"blk.%d.weight" % i for i in range(80_000)]
    assert _names(raw).repeated() == []
    assert _names([*raw, raw[40_000]]).repeated() == ["blk.40000.weight"]
