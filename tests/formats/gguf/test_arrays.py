"""Arrays of GGUF metadata: skipping them, and reading their first elements."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from explorer.errors import ExplorerError, FormatError
from explorer.formats import Model, open_model
from explorer.formats.gguf import arrays
from explorer.formats.gguf.arrays import (
    STRING,
    Layout,
    end_of_elements,
    first_elements,
    walk_strings,
)
from explorer.sources import MemorySource
from tests.helpers.stopwatch import in_time

_Order = Literal["little", "big"]

_TEXTS = st.lists(
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
@given(texts=_TEXTS, before=st.binary(max_size=9), after=st.binary(max_size=20))
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
    monkeypatch.setattr(arrays, "_WINDOW_BYTES", window)
    monkeypatch.setattr(arrays, "_FEW", few)
    for width, order in _KINDS:
        content = before + _pack(texts, width, order) + after
        layout = Layout(order, width)
        source = MemorySource(content)
        end = end_of_elements(source, len(before), (STRING, len(texts)), layout)
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


@given(texts=_TEXTS.filter(bool), data=st.data())
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


def text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def file_of(tmp_path: Path, *values: tuple[int, bytes]) -> Path:
    """A file with the keys k0, k1 … of these value types and bytes (docs/gguf.md, section 1)."""
    keys = b"".join(
        text(b"k%d" % i) + struct.pack("<I", kind) + raw for i, (kind, raw) in enumerate(values)
    )
    path = tmp_path / "arrays.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + keys)
    return path


def string_array(*items: bytes) -> bytes:
    return struct.pack("<IQ", 8, len(items)) + b"".join(map(text, items))


def heads(model: Model, count: int) -> list[object]:
    return [first_elements(model, entry, count) for entry in model.metadata.entries]


def test_only_as_many_as_asked_for(tmp_path: Path) -> None:
    numbers = struct.pack("<IQ", 4, 1000) + struct.pack("<1000I", *range(1000))
    tokens = string_array(*(b"t%d" % i for i in range(500)), b"\xff")
    inner = struct.pack("<IQ3i", 5, 3, -1, 2, 3)
    nested = struct.pack("<IQ", 9, 3) + inner + string_array(b"x", b"y", b"z") + inner
    path = file_of(tmp_path, (9, numbers), (9, tokens), (9, nested), (9, string_array()))
    with open_model(path) as model:
        assert heads(model, 2) == [[0, 1], ["t0", "t1"], [[-1, 2], ["x", "y"]], []]
        assert not any("value" in vars(entry) for entry in model.metadata.entries)
        full = heads(model, 10_000)
        assert full[1] == list(model.metadata.entries[1].value)  # type: ignore[arg-type]
        assert heads(model, 2)[1] == ["t0", "t1"]  # now from memory


def test_strings_too_long_to_show_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, (9, string_array(b"x" * (2 << 20))))
    with open_model(path) as model, pytest.raises(ExplorerError, match="too long"):
        heads(model, 1)


def test_a_closed_file_is_an_error_of_ours(tmp_path: Path) -> None:
    path = file_of(tmp_path, (9, string_array(b"x")))
    with open_model(path) as model:
        pass
    with pytest.raises(ExplorerError):
        heads(model, 1)
