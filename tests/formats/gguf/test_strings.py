"""The walk over strings in NumPy must give what the plain loop gives."""

from __future__ import annotations

import time
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from explorer.errors import FormatError
from explorer.formats.gguf import arrays as gguf_strings
from explorer.formats.gguf.arrays import STRING, Layout, end_of_elements, walk_strings
from explorer.sources import MemorySource
from tests.helpers.stopwatch import in_time

_Order = Literal["little", "big"]

strings = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.just(b""),
        st.sampled_from([b"\0" * n for n in (1, 3, 7, 8, 9, 16, 23)]),
        st.sampled_from([b"\x05" + b"\0" * 7, b"\0" * 7 + b"\x05", b"\x01\0\0\0", b"\0\0\0\x01"]),
        st.integers(200, 300).map(lambda n: b"x" * n),
        st.builds(lambda byte, n: bytes([byte]) * n, st.integers(0, 255), st.integers(0, 40)),
    ),
    max_size=40,
)


def _pack(texts: list[bytes], width: int, order: _Order) -> bytes:
    return b"".join(len(text).to_bytes(width, order) + text for text in texts)


def _plain_walk(texts: list[bytes], width: int, start: int) -> list[int]:
    """The loop that the walk replaces."""
    fields, position = [], start
    for text in texts:
        fields.append(position)
        position += width + len(text)
    return [*fields, position]


def _walk(content: bytes, offset: int, count: int, width: int, order: _Order) -> list[int]:
    pieces = list(walk_strings(MemorySource(content), offset, count, Layout(order, width)))
    return np.concatenate(pieces).tolist()


_KINDS: list[tuple[int, _Order]] = [(4, "little"), (4, "big"), (8, "little"), (8, "big")]


# Drawing texts takes longer than walking over them: each is tried with all kinds of file.
@pytest.mark.parametrize(
    ("window", "few"), [(8, 0), (9, 0), (16, 64), (31, 0), (64, 0), (1 << 18, 0)]
)
@given(texts=strings, before=st.binary(max_size=9), after=st.binary(max_size=20))
@example(texts=[b""] * 40, before=b"", after=b"")
@example(texts=[b"a", b""] * 20, before=b"", after=b"\x01")
@example(texts=[b"y" * 255, b"z" * 256, b"y" * 255], before=b"", after=b"")
def test_equals_the_plain_loop(
    *,
    monkeypatch: pytest.MonkeyPatch,
    window: int,
    few: int,
    texts: list[bytes],
    before: bytes,
    after: bytes,
) -> None:
    monkeypatch.setattr(gguf_strings, "_WINDOW_BYTES", window)
    monkeypatch.setattr(gguf_strings, "_FEW", few)
    for width, order in _KINDS:
        content = before + _pack(texts, width, order) + after
        layout = Layout(order, width)
        source = MemorySource(content)
        end = end_of_elements(source, len(before), STRING, len(texts), layout)
        assert end == len(content) - len(after)
        assert _walk(content, len(before), len(texts), width, order) == _plain_walk(
            texts, width, len(before)
        )


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("width", [4, 8])
def test_a_vocabulary_of_many_windows(order: _Order, width: int) -> None:
    random = np.random.default_rng(1)
    lengths = np.minimum(random.geometric(0.12, 60_000) - 1, 2000)
    lengths[::997] = random.integers(256, 70_000, len(lengths[::997]))
    noise = random.integers(0, 4, 70_000, dtype=np.uint8).tobytes()
    texts = [noise[:n] if n % 3 else b"w" * n for n in lengths.tolist()]
    content = b"head" + _pack(texts, width, order) + b"tail"
    assert _walk(content, 4, len(texts), width, order) == _plain_walk(texts, width, 4)


@given(texts=strings.filter(bool), data=st.data())
def test_cut_anywhere_is_an_error(texts: list[bytes], data: st.DataObject) -> None:
    for width, order in _KINDS:
        content = _pack(texts, width, order)
        cut = data.draw(st.integers(0, len(content) - 1))
        with pytest.raises(FormatError) as caught:
            _walk(content[:cut], 0, len(texts), width, order)
        assert caught.value.offset is not None
        assert 0 <= caught.value.offset <= cut


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, (1 << 64) - 8, 1 << 40, (1 << 30) + 1])
@pytest.mark.parametrize("before", [0, 1, 50])
def test_a_length_beyond_the_file(order: _Order, length: int, before: int) -> None:
    content = _pack([b"abc"] * before, 8, order) + length.to_bytes(8, order) + b"rest" * 10
    with pytest.raises(FormatError, match=str(length)) as caught:
        _walk(content, 0, before + 5, 8, order)
    assert caught.value.offset == before * 11


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("width", [4, 8])
def test_a_length_with_a_bit_too_many(order: _Order, width: int) -> None:
    """Its lowest byte alone would lead on along the chain, wherever its other bytes lie."""
    texts = [b"x" * 5] * 100
    good = _pack(texts, width, order)
    for lying in range(80, 88):  # at each place within a word
        place = lying * (width + 5)
        for bit in range(12, 8 * width):  # beyond the file
            length = (5 + (1 << bit)).to_bytes(width, order)
            with pytest.raises(FormatError, match=str(5 + (1 << bit))) as caught:
                _walk(good[:place] + length + good[place + width :], 0, 100, width, order)
            assert caught.value.offset == place


# Strings that break the vector walk at every step, and so its speed if it is not careful.
@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([b""], id="empty"),
        pytest.param([b"", b"a"], id="every second one empty"),
        pytest.param([b"", b"\0"], id="zeros"),
        pytest.param([b"\x01" + b"\0" * 7], id="strings like lengths"),
        pytest.param([b"\x09\0\0\0\0\0\0\0a"], id="strings like lengths that point on"),
        pytest.param([b"x" * 256], id="just too long"),
        pytest.param([b"\0" * 9, b"\x01\0\0\0\0\0\0\0"], id="mixed"),
    ],
)
def test_hostile_strings_cost_little(texts: list[bytes]) -> None:
    many = texts * (400_000 // len(texts))
    content = _pack(many, 8, "little")
    source = MemorySource(content)
    started = time.process_time()
    total = sum(len(piece) for piece in walk_strings(source, 0, len(many), Layout("little", 8)))
    assert in_time(time.process_time() - started, 1.0)
    assert total == len(many) + 1
