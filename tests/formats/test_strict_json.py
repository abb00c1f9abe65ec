"""JSON from strangers: strict, and measured before it is parsed."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import ExplorerError, FormatError
from explorer.formats.limits import MAX_JSON_FILE_BYTES
from explorer.formats.strict_json import read_json_file
from explorer.json_text import RepeatedKeys, json_depth
from tests.helpers.rewriting import rewrite

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=25,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def read(path: Path, content: bytes) -> Any:
    return read_json_file(rewrite(path, content))


@given(value=VALUES, ascii_only=st.booleans())
def test_valid_json_reads_as_json_does(value: Any, ascii_only: bool, tmp_path: Path) -> None:
    try:
        content = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False).encode()
    except (ValueError, UnicodeEncodeError):  # infinity
        return
    assert json_depth(content) == depth_of(value)
    assert read(tmp_path / "v.json", content) == json.loads(content)


@given(content=st.binary() | st.text(alphabet='[]{}",:\\u0d8 1-.eNa').map(str.encode))
def test_anything_else_is_an_explorer_error(content: bytes, tmp_path: Path) -> None:
    json_depth(content)
    try:
        value = read(tmp_path / "v.json", content)
    except ExplorerError:
        return
    assert value == json.loads(content)


@pytest.mark.parametrize(
    ("content", "what", "offset"),
    [
        (b"", "expecting value", 0),
        (b'{"a": NaN}', "NaN", 0),
        (b"[-Infinity]", "Infinity", 0),
        (b"[1e999]", "out of range", 0),
        (b"1" * 5000, "out of range", 0),
        (b"[1,]", "expecting value", 3),
        (b"{} {}", "behind its JSON", 3),
        (b"{}\0", "behind its JSON", 2),
        (b"\xef\xbb\xbf{}", "expecting value", 0),
        (b'["\xff"]', "UTF-8", 2),
        ('["é", x]'.encode(), "expecting value", 7),
        (b'["\\ud800"]', "surrogate", 2),
        (b'["\\ud800\\u0041"]', "surrogate", 2),
        (b'["\\\\\\udc00"]', "surrogate", 4),
        (b"[" * 128 + b"]" * 128, "nested", 0),
        (b"[" * 1_000_000, "more JSON values", 0),
    ],
)
def test_refusals_name_the_place(content: bytes, what: str, offset: int, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=what) as caught:
        read(tmp_path / "v.json", content)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 127 + b"]" * 127,
        b'["\\ud83d\\ude00"]',
        b'["\\\\ud800"]',
        b' \t\r\n{"a":[]} \n',
        b'{"a":"' + b"[" * 500 + b'"}',
    ],
)
def test_odd_but_valid(content: bytes, tmp_path: Path) -> None:
    assert read(tmp_path / "v.json", content) == json.loads(content)


def test_repeated_keys_are_noticed(tmp_path: Path) -> None:
    value = read(tmp_path / "v.json", b'{"a":1,"b":{"c":1,"d":2,"c":3},"a":2}')
    assert value == {"a": 2, "b": {"c": 3, "d": 2}}
    assert isinstance(value, RepeatedKeys)
    assert value.repeated == ("a",)
    assert value["b"].repeated == ("c",)


def test_long_files_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    with path.open("wb") as file:
        file.truncate(MAX_JSON_FILE_BYTES + 1)
    with pytest.raises(FormatError, match="At most"):
        read_json_file(path)
