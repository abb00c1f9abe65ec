"""safetensors files: every rule of the official library, and hostile headers.

The verdicts come from the `safetensors` package itself, in the same test.
"""

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open

from explorer.errors import ExplorerError
from explorer.formats import FormatError, Severity, open_model
from explorer.formats.model import Model
from explorer.formats.safetensors import open as opening
from explorer.formats.safetensors.open import SAFETENSORS_TYPES, open_safetensors, read_file
from explorer.sources import open_source
from tests.helpers.rewriting import rewrite
from tests.helpers.safetensors_writer import entry, safetensors_bytes, tensors_bytes

F32 = '"dtype":"F32","shape":[2],"data_offsets":[0,8]'
ONE = '{"a":{' + F32 + "}}"
EIGHT = bytes(8)


def library_lists(path: Path) -> dict[str, tuple[list[int], str]] | None:
    """Return what the official library lists, or None if it refuses the file."""
    try:
        with safe_open(path, "np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {name: (s.get_shape(), s.get_dtype()) for name, s in slices.items()}
    except SafetensorError:
        return None


def errors_of(model: Model) -> list[str]:
    return [p.what for p in model.problems if p.severity is Severity.ERROR]


def assert_same_verdict(path: Path) -> None:
    """Check that a file the library takes opens without an error and equal, and no other does."""
    expected = library_lists(path)
    try:
        model = open_safetensors(path)
    except ExplorerError:
        assert expected is None
        return
    with model:
        assert (expected is None) == bool(errors_of(model))
        if expected is not None:
            assert {t.name: (list(t.shape), t.type.name) for t in model.tensors.rows} == expected
            for tensor in model.tensors.rows:
                assert len(tensor.read()) == tensor.nbytes


def variant(**fields: str) -> str:
    parts = {"dtype": '"F32"', "shape": "[2]", "data_offsets": "[0,8]"} | fields
    return '{"a":{' + ",".join(f'"{key}":{value}' for key, value in parts.items()) + "}}"


SMALL_TABLE: dict[str, tuple[str | bytes, bytes]] = {
    "empty": ("{}", b""),
    "empty with data": ("{}", b"\0"),
    "leading space": (" " + ONE, EIGHT),
    "white space": ("\r\n\t " + ONE.replace(",", " ,\n").replace(":", "\t: ") + "  \n", EIGHT),
    "white space behind a comma": (
        '{"a":{' + F32 + '},\n "b":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}',
        EIGHT,
    ),
    "one byte more": (ONE, EIGHT + b"\0"),
    "one byte less": (ONE, EIGHT[1:]),
    "hole": (
        '{"a":{' + F32 + '},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}}',
        bytes(20),
    ),
    "shared": ('{"a":{' + F32 + '},"b":{' + F32 + "}}", EIGHT),
    "backwards": (variant(data_offsets="[8,0]"), EIGHT),
    "size": (variant(shape="[3]"), EIGHT),
    "overflow": (variant(shape="[4294967296,4294967296]"), EIGHT),
    "overflow before 0": (variant(shape="[9223372036854775808,4,0]", data_offsets="[0,0]"), b""),
    "0 before overflow": (variant(shape="[0,9223372036854775808,4]", data_offsets="[0,0]"), b""),
    "bits overflow": (variant(shape="[2305843009213693952]"), EIGHT),
    "half byte": ('{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}', b"\0"),
    "F4": ('{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}', b"\0\0"),
    "F6": ('{"a":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]}}', bytes(3)),
    "C64": ('{"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}', EIGHT),
    "name twice": ('{"a":{' + F32 + '},"a":{' + F32.replace("F32", "I32") + "}}", EIGHT),
    "name twice, first at fault": (
        '{"a":{' + F32.replace("[2]", "[3]") + '},"a":{' + F32 + "}}",
        EIGHT,
    ),
    "name twice, first overflows": (
        '{"a":{' + F32.replace("[2]", "[4294967296,4294967296]") + '},"a":{' + F32 + "}}",
        EIGHT,
    ),
    "name twice, last no entry": ('{"a":{' + F32 + '},"a":1}', EIGHT),
    "name twice, first no entry": ('{"a":1,"a":{' + F32 + "}}", EIGHT),
    "scalar": (variant(shape="[]", data_offsets="[0,4]"), EIGHT[:4]),
    "no elements": (variant(shape="[0,7]", data_offsets="[0,0]"), b""),
    "empty tensor inside another": (
        '{"a":{' + F32 + '},"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}',
        EIGHT,
    ),
    "empty tensor at its start": (
        '{"a":{' + F32 + '},"b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}',
        EIGHT,
    ),
    "metadata": ('{"__metadata__":{"format":"pt"},"a":{' + F32 + "}}", EIGHT),
    "metadata last": ('{"a":{' + F32 + '},"__metadata__":{"format":"pt"}}', EIGHT),
    "metadata with comma behind": ('{"a":{' + F32 + '},"__metadata__":{"format":"pt"},}', EIGHT),
    "metadata without comma": ('{"__metadata__":{"format":"pt"}"a":{' + F32 + "}}", EIGHT),
    "metadata without comma before": ('{"a":{' + F32 + '}"__metadata__":{"format":"pt"}}', EIGHT),
    "metadata null": ('{"__metadata__":null,"a":{' + F32 + "}}", EIGHT),
    "metadata only": ('{"__metadata__":{"a":"b"}}', b""),
    "metadata list": ('{"__metadata__":[],"a":{' + F32 + "}}", EIGHT),
    "metadata number": ('{"__metadata__":{"a":1},"a":{' + F32 + "}}", EIGHT),
    "metadata twice": ('{"__metadata__":{},"__metadata__":{},"a":{' + F32 + "}}", EIGHT),
    "metadata key twice": ('{"__metadata__":{"x":"1","x":"2"},"a":{' + F32 + "}}", EIGHT),
    "metadata like a tensor": ('{"__metadata__":{' + F32 + "}}", EIGHT),
    "metadata inside an entry": ('{"a":{"__metadata__":{"x":"y"},' + F32 + "}}", EIGHT),
    "metadata surrogate": ('{"__metadata__":{"x":"\\ud800"},"a":{' + F32 + "}}", EIGHT),
    "metadata pair": ('{"__metadata__":{"x":"\\ud83d\\ude00\\\\ud800"},"a":{' + F32 + "}}", EIGHT),
    "dtype lower": (variant(dtype='"f32"'), EIGHT),
    "dtype other": (variant(dtype='"F8_E4M3FN"'), EIGHT),
    "dtype of ggml": (variant(dtype='"Q8_0"'), EIGHT),
    "dtype number": (variant(dtype="0"), EIGHT),
    "dtype object": (variant(dtype='{"F32":null}'), EIGHT),
    "dtype other object": (variant(dtype='{"F32":{}}'), EIGHT),
    "array entry": ('{"a":["F32",[2],[0,8]]}', EIGHT),
    "longer array entry": ('{"a":["F32",[2],[0,8],1]}', EIGHT),
    "null entry": ('{"a":null}', b""),
    "field missing": ('{"a":{"dtype":"F32","shape":[2]}}', EIGHT),
    "field twice": ('{"a":{"dtype":"F32",' + F32 + "}}", EIGHT),
    "fields twice": ('{"a":{' + F32 + ',"dtype":"F32","shape":[2]}}', EIGHT),
    "other field": (variant(x='[{"a":1.5e3,"b":null}]'), EIGHT),
    "other field twice": ('{"a":{"x":1,"x":2,' + F32 + "}}", EIGHT),
    "other field NaN": (variant(x="NaN"), EIGHT),
    "other field 1e400": (variant(x="1e400"), EIGHT),
    "other field of 400 digits": (variant(x="9" * 400), EIGHT),
    "other field of 5000 digits": (variant(x="9" * 5000), EIGHT),
    "other field of 30 digits": (variant(x="9" * 30), EIGHT),
    "other field surrogate": (variant(x='"\\ud800"'), EIGHT),
    "depth 127": (variant(x="[" * 125 + "]" * 125), EIGHT),
    "depth 128": (variant(x="[" * 126 + "]" * 126), EIGHT),
    "brackets in a string": (variant(x='"' + "[" * 300 + '"'), EIGHT),
    "quotes and brackets": (variant(x='"\\"[\\\\"') + " ", EIGHT),
    "shape float": (variant(shape="[2.0]"), EIGHT),
    "shape exponent": (variant(shape="[2e0]"), EIGHT),
    "shape Boolean": (variant(shape="[true,2]"), EIGHT),
    "shape minus 0": (variant(shape="[-0]", data_offsets="[0,0]"), b""),
    "shape negative": (variant(shape="[-2]"), EIGHT),
    "shape text": (variant(shape='"2"'), EIGHT),
    "shape empty text": (variant(shape='""', data_offsets="[0,4]"), EIGHT[:4]),
    "shape object": (variant(shape="{}", data_offsets="[0,4]"), EIGHT[:4]),
    "shape null": (variant(shape="null"), EIGHT),
    "shape of 2^64": (variant(shape="[18446744073709551616,0]", data_offsets="[0,0]"), b""),
    "shape of 2^64 - 1": (variant(shape="[0,18446744073709551615]", data_offsets="[0,0]"), b""),
    "offsets of 3": (variant(data_offsets="[0,8,8]"), EIGHT),
    "offsets of 1": (variant(data_offsets="[0]"), EIGHT),
    "offsets float": (variant(data_offsets="[0,8.0]"), EIGHT),
    "offsets minus 0": (variant(data_offsets="[-0,8]"), EIGHT),
    "offsets null": (variant(data_offsets="[null,8]"), EIGHT),
    "offsets negative": (variant(data_offsets="[-8,0]"), EIGHT),
    # found by tests/soak/fuzz.py
    "begin of 2^64, end small": (variant(data_offsets="[18446744073709551616,8]"), EIGHT),
    "metadata named as fields": ('{"__metadata__":{"dtype":"a","data_offsets":"b"}}', b""),
    "offsets of 2^64": (variant(data_offsets="[18446744073709551608,18446744073709551616]"), EIGHT),
    "leading 0": (variant(data_offsets="[00,8]"), EIGHT),
    "BOM": (b"\xef\xbb\xbf" + ONE.encode(), EIGHT),
    "NUL padding": (ONE + "\0", EIGHT),
    "second value": (ONE + " {}", EIGHT),
    "comma behind": (ONE[:-1] + ",}", EIGHT),
    "comment": (ONE + "/**/", EIGHT),
    "no header": ("", EIGHT),
    "list": ("[]", b""),
    "not UTF-8": (b'{"\xff":{' + F32.encode() + b"}}", EIGHT),
    "control character": ('{"a\nb":{' + F32 + "}}", EIGHT),
    "escapes": ('{"a\\n\\u00e9\\"":{' + F32 + "}}", EIGHT),
    "surrogate": ('{"\\udc00":{' + F32 + "}}", EIGHT),
    "empty name": ('{"":{' + F32 + "}}", EIGHT),
    "odd name": ('{"../\u202e\u00e9\U0001f600true":{' + F32 + "}}", EIGHT),
    "cut in JSON": (ONE[:-1], EIGHT),
    "keys sorted": ('{"a":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}}', EIGHT),
}


@pytest.mark.parametrize("case", SMALL_TABLE)
def test_verdict_is_the_library_s(case: str, tmp_path: Path) -> None:
    """Alone, and with another tensor behind it: `_ENTRY` takes none that is the last."""
    header, data = SMALL_TABLE[case]
    raw = header if isinstance(header, bytes) else header.encode()
    before, brace, behind = raw.rpartition(b"}")
    more = b',"more":{"dtype":"U8","shape":[0],"data_offsets":[%d,%d]}' % (len(data), len(data))
    path = tmp_path / "m.safetensors"
    for text in (raw, before + more + brace + behind):
        rewrite(path, safetensors_bytes(text, data))
        assert_same_verdict(path)


@pytest.mark.parametrize(
    ("length", "what"),
    [
        (2**64 - 1, "claims a header of 18446744073709551615 bytes, where at most 100000000"),
        (100_000_001, "where at most"),
        (100_000_000, "where 54 are left"),
        (62, "where 54 are left"),
    ],
)
def test_wrong_header_length_is_named(length: int, what: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(ONE[:46], EIGHT, length))
    with pytest.raises(FormatError, match=what) as caught:
        open_safetensors(path)
    assert caught.value.path == path
    assert caught.value.offset == 0


def test_longest_header_opens_when_it_is_padding(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 100_000_000) + b" " * 3_000_000 + ONE.encode())
        file.write(b" " * (100_000_000 - 3_000_000 - len(ONE)) + EIGHT)
    with open_safetensors(path) as model:
        assert list(model.tensors) == ["a"]
        assert not model.problems


@pytest.mark.parametrize(
    ("start", "guess"), [(b"version https://git-lfs", "Git LFS"), (b"PK\x03\x04zip!", "zip")]
)
def test_other_files_are_recognised(start: bytes, guess: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(start + bytes(99))
    with pytest.raises(FormatError, match=guess):
        open_safetensors(path)


def test_types_are_the_22_of_the_reference() -> None:
    assert len(SAFETENSORS_TYPES) == 22


def test_tensors_come_in_data_order_with_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    header = {
        "z": entry("U8", [2], 0, 2),
        "a": entry("F4", [2, 2], 4, 6),
        "m": entry("U8", [2], 2, 4),
    }
    path.write_bytes(safetensors_bytes(header, b"zzmmaa"))
    with open_model(path) as model:
        assert model.format == "safetensors"
        assert [t.name for t in model.tensors.rows] == ["z", "m", "a"]
        assert [t.read() for t in model.tensors.rows] == [b"zz", b"mm", b"aa"]
        assert model.tensors["a"].parameters == 4
        assert model.tensors["a"].bits_per_weight == 4
        assert model.tensors["m"].offset == model.data_offset + 2  # type: ignore[operator]
        assert model.nbytes == 6


def test_metadata_is_listed_in_order(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(tensors_bytes([("a", "U8", [1])], {"z": "1", "a": '{"x": [1]}'}))
    with open_safetensors(path) as model:
        assert list(model.metadata.items()) == [("z", "1"), ("a", '{"x": [1]}')]
        assert {e.type_name for e in model.metadata.entries} == {"string"}


def test_repeated_name_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    header, data = SMALL_TABLE["name twice"]
    path.write_bytes(safetensors_bytes(header, data))
    with open_safetensors(path) as model:
        assert [p.severity for p in model.problems] == [Severity.WARNING]
        assert model.tensors["a"].type.name == "I32"


def test_cut_file_lists_all_and_marks_what_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    whole = tensors_bytes([("a", "F32", [4]), ("b", "F32", [4]), ("c", "F32", [4])])
    path.write_bytes(whole[:-20])
    with open_safetensors(path) as model:
        a, b, c = model.tensors.rows
        assert a.damage is None
        assert len(a.read()) == 16
        assert "last 4 bytes" in (b.damage or "")
        assert "last 16 bytes" in (c.damage or "")
        for tensor in (b, c):
            with pytest.raises(FormatError):
                tensor.read()
        (problem,) = model.problems
        assert problem.severity is Severity.ERROR
        assert "20 bytes are missing" in problem.what
        assert problem.where == "m.safetensors"


def test_cut_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    whole = tensors_bytes([("a", "F32", [2]), ("b", "U8", [3])], {"format": "pt"})
    for length in range(len(whole) + 1):
        rewrite(path, whole[:length])
        assert_same_verdict(path)


def test_overlap_and_hole_name_the_tensors_and_leave_them_readable(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    header = {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6), "c": entry("U8", [1], 8, 9)}
    path.write_bytes(safetensors_bytes(header, b"012345678"))
    with open_safetensors(path) as model:
        assert [(p.where, p.what) for p in model.problems] == [
            ("b", "shares bytes with tensor 'a', or lies in it"),
            ("c", "2 bytes before it belong to no tensor"),
        ]
        assert [t.read() for t in model.tensors.rows] == [b"0123", b"2345", b"8"]


def test_hostile_offsets_are_damage_not_reads(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes({"a": entry("U8", [8], 2**63, 2**63 + 8)}, EIGHT))
    with open_safetensors(path) as model:
        (tensor,) = model.tensors.rows
        with pytest.raises(FormatError):
            tensor.read()


NAMES = st.sampled_from(["a", "b", "é", "\x00", "", "__metadata__", "true", "-0", 'q"\\', "x" * 99])
INTEGERS = st.sampled_from([0, 1, 2, 3, 4, 8, 12, 2**32, 2**63, 2**64 - 1, 2**64, -1])
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
DTYPES = st.sampled_from(["F32", "U8", "F4", "F6_E2M3", "BF16", "I64"])
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": DTYPES | JSON,
        "shape": st.lists(INTEGERS, max_size=3) | JSON,
        "data_offsets": st.lists(INTEGERS, min_size=2, max_size=2) | JSON,
        "x": JSON,
    },
)


@given(
    header=st.dictionaries(NAMES, ENTRIES | JSON, max_size=4) | JSON,
    data=st.binary(max_size=16),
    spaced=st.booleans(),
)
def test_any_json_has_the_library_s_verdict(
    header: Any, data: bytes, spaced: bool, tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    text = json.dumps(header, separators=(", ", ": ") if spaced else (",", ":"))
    rewrite(path, safetensors_bytes(text, data))
    assert_same_verdict(path)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Return a valid file with some bytes changed, cut out or put in, its length field mended."""
    shapes = st.lists(st.integers(0, 3), max_size=3)
    dtypes = st.sampled_from(["F32", "U8", "BF16"])
    names = draw(st.lists(NAMES.filter(lambda n: n != "__metadata__"), unique=True, max_size=4))
    metadata = draw(
        st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
    )
    whole = tensors_bytes([(name, draw(dtypes), draw(shapes)) for name in names], metadata)
    length = int.from_bytes(whole[:8], "little")
    header, data = bytearray(whole[8 : 8 + length]), whole[8 + length :]
    if draw(st.booleans()):
        header = bytearray(json.dumps(json.loads(header), sort_keys=draw(st.booleans())).encode())
    pieces = st.sampled_from(list(b'{}[]",:0123456789 -.e\\utrlse_\n\x00\xff'))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(header)))
        width = draw(st.integers(0, 2))
        header[at : at + width] = bytes(draw(st.lists(pieces, max_size=2)))
    return safetensors_bytes(bytes(header), data)


@given(content=mutated())
def test_mutated_file_has_the_library_s_verdict(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    rewrite(path, content)
    assert_same_verdict(path)


USUAL = st.builds(entry, DTYPES, st.lists(st.integers(0, 3), max_size=3), INTEGERS, INTEGERS)


@example(
    content=safetensors_bytes(
        {"a": entry("U8", [8], 2**64, 2**64 + 8), "b": entry("U8", [0], 0, 0)}
    )
)
@given(content=mutated() | st.builds(safetensors_bytes, st.dictionaries(NAMES, USUAL, max_size=4)))
def test_usual_entries_are_read_as_carefully_as_others(content: bytes, tmp_path: Path) -> None:
    """Names, specs, places and errors are the same where every entry goes to `_careful`."""
    path = tmp_path / "m.safetensors"

    def read() -> object:
        try:
            with open_source(path) as source:
                file = read_file(source)
        except FormatError as error:
            return error.what, error.offset
        return file.names, file.specs, file.begins, file.ends, file.repeated, file.metadata

    rewrite(path, content)
    as_usual = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_ENTRY", re.compile("()" * 5))
        assert read() == as_usual


@given(
    content=st.binary(max_size=64),
    prefix=st.sampled_from([b"", struct.pack("<Q", 24), b"\x02" + bytes(7)]),
)
def test_any_bytes_raise_nothing_else(content: bytes, prefix: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    rewrite(path, prefix + content)
    assert_same_verdict(path)
