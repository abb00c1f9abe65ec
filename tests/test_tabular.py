"""Tables as text: what comes back, what must not run, what a failure leaves behind."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import ExplorerError
from explorer.tabular import Cell, to_tsv, write_atomically, write_csv, write_json, write_parquet
from explorer.text import plain_text

_ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
_CELLS = st.one_of(_ANY_TEXT, st.integers(), st.floats(), st.booleans(), st.none())
_TRICKY = st.lists(
    st.sampled_from(
        [*"=+-@\t\r\n \"',;\0", "\ufeff", "\u00a0", "\uff1d", "\udc80", "\ud800", "a", "1"]
    )
).map("".join)


def _csv(header: list[str], rows: Any) -> str:
    stream = io.StringIO(newline="")
    write_csv(stream, header, rows)
    return stream.getvalue()


def _json(header: list[str], rows: Any) -> Any:
    stream = io.StringIO()
    write_json(stream, header, rows)
    stream.getvalue().encode("utf-8")
    return json.loads(stream.getvalue())


def test_csv() -> None:
    rows: list[list[Cell]] = [
        ["a,b", 1, 1.5, True, None],
        ['say "x"', -2, math.nan, False, ""],
        ["two\nlines", 2**70, -math.inf, True, "\r"],
    ]
    assert _csv(["text", "n", "f", "b", "none"], rows) == (
        "text,n,f,b,none\n"
        '"a,b",1,1.5,true,\n'
        '"say ""x""",-2,nan,false,\n'
        f'"two\nlines",{2**70},-inf,true,\\r\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n1", " =1", "  \t x", "\u00a0=1"),
        *("\uff1d1", "=cmd|' /C calc'!A0"),
    ],
)
def test_formulas_are_made_harmless(text: str) -> None:
    for output in (_csv(["h"], [[text]]), _csv([text], [])):
        rows = list(csv.reader(io.StringIO(output, newline="")))
        assert ["'" + text] in rows


@pytest.mark.parametrize("text", ["a=1", "1", "", " a", "blk.0-1", "'=1", "ä", "·"])
def test_other_text_stays(text: str) -> None:
    rows = list(csv.reader(io.StringIO(_csv(["h", "i"], [[text, 1]]), newline="")))
    assert rows[1] == [text, "1"]


@given(st.lists(st.tuples(st.one_of(_ANY_TEXT, _TRICKY), _TRICKY), max_size=6))
def test_csv_comes_back(rows: list[tuple[str, str]]) -> None:
    output = _csv(["a", "b"], rows)
    output.encode("utf-8")
    back = list(csv.reader(io.StringIO(output, newline="")))
    assert len(back) == len(rows) + 1
    for cells, read in zip(rows, back[1:], strict=True):
        for cell, text in zip(cells, read, strict=True):
            assert not text.lstrip().startswith(("=", "+", "-", "@"))
            assert not text.startswith(("\t", "\r", "\n"))
            clean = plain_text(cell, lines=True)  # as in the window
            assert text in (clean, "'" + clean)


def _in_csv(text: str) -> list[str]:
    return [_csv([text], [[text]])]


def _in_tsv(text: str) -> list[str]:
    return to_tsv([[text], [text]]).split("\n")


def _in_parquet(text: str) -> list[str]:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    sink = io.BytesIO()
    write_parquet(sink, [text], [[text]])
    table = parquet.read_table(sink)
    return [*table.column_names, *table.column(0).to_pylist()]


@pytest.mark.parametrize("write", [_in_csv, _in_tsv, _in_parquet])
@given(text=st.one_of(_ANY_TEXT, _TRICKY))
def test_no_control_is_exported_but_tab_and_newline(
    write: Callable[[str], list[str]], text: str
) -> None:
    for written in write(text + "\x1b[31m\x9b\u202e\x7f\r\0"):
        assert plain_text(written, lines=True) == written


@given(st.lists(st.lists(_CELLS, min_size=2, max_size=2), max_size=5))
def test_any_cells_can_be_written(rows: list[list[Cell]]) -> None:
    header = ["first", "second"]
    _csv(header, rows).encode("utf-8")
    objects = _json(header, rows)
    assert [list(item) for item in objects] == [header] * len(rows)
    for item, row in zip(objects, rows, strict=True):
        for value, cell in zip(item.values(), row, strict=True):
            if isinstance(cell, float) and not math.isfinite(cell):
                assert value is None
            elif not isinstance(cell, str):
                assert value == cell
                assert type(value) is type(cell)
    lines = to_tsv([header, *rows])
    lines.encode("utf-8")
    assert len(lines.splitlines()) == len(rows) + 1
    assert all(line.count("\t") == 1 for line in lines.splitlines())


def test_surrogates_become_escapes() -> None:
    assert _csv(["h"], [["\udcff\ud800"]]) == "h\n\\xff\\ud800\n"
    assert _json(["h"], [["\udcff\ud800"]]) == [{"h": "\\xff\\ud800"}]
    assert to_tsv([["\udcff\ud800"]]) == "\\xff\\ud800"


def test_json() -> None:
    assert _json(["a", "b"], []) == []
    rows = [["ä", math.nan], [True, 2**70]]
    assert _json(["a", "b"], rows) == [{"a": "ä", "b": None}, {"a": True, "b": 2**70}]
    stream = io.StringIO()
    write_json(stream, ["a"], [[1], [2]])
    assert stream.getvalue() == '[\n{"a": 1},\n{"a": 2}\n]\n'


@pytest.mark.parametrize(("header", "row"), [(["a", "a"], [1, 2]), (["a"], [1, 2]), (["a"], [])])
def test_json_needs_a_name_for_each_cell(header: list[str], row: list[Cell]) -> None:
    with pytest.raises(ValueError, match=r"same name|zip"):
        write_json(io.StringIO(), header, [row])


def test_tsv() -> None:
    rows: list[list[Cell]] = [["a\tb\nc\rd", 1, None], ["=x", 1.5, True]]
    assert to_tsv([["x", "y", "z"], *rows]) == "x\ty\tz\na\\tb\\nc\\rd\t1\t\n=x\t1.5\ttrue"
    assert to_tsv([]) == ""


def test_rows_are_taken_one_by_one() -> None:
    stream = io.StringIO(newline="")
    seen: list[int] = []

    def rows() -> Any:
        for number in range(3):
            seen.append(len(stream.getvalue().splitlines()))
            yield [number]

    write_csv(stream, ["n"], rows())
    assert seen == [1, 2, 3]


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "täble.csv"
    path.write_text("old")
    path.chmod(0o640)
    with write_atomically(path) as stream:
        stream.write("ä\r\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "ä\r\n".encode()
    assert os.listdir(tmp_path) == [path.name]
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="there is no umask on Windows")
def test_a_new_file_keeps_to_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with write_atomically(tmp_path / "new") as stream:
            stream.write("x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")

    def fail() -> None:
        with write_atomically(path) as stream:
            stream.write("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.csv"
    with pytest.raises(FileNotFoundError) as caught, write_atomically(path):
        pass
    assert caught.value.filename == str(path)


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(OSError, match="folder") as caught, write_atomically(path) as stream:
        stream.write("x")
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_a_link_is_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(target)
    with write_atomically(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev on Windows")
def test_a_device_is_written_to_and_stays() -> None:
    with write_atomically("/dev/null") as stream:
        stream.write("x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes on Windows")
def test_a_pipe_is_written_to_if_somebody_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ExplorerError, match="a pipe that nobody reads"), write_atomically(path):
        pass
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with write_atomically(path) as stream:
        stream.write("x")
    assert os.read(reader, 9) == b"x"
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev on Windows")
@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full"])
def test_a_device_is_not_written_to(tmp_path: Path, name: str) -> None:
    if not os.path.exists(name):
        pytest.skip(f"there is no {name} here")
    (tmp_path / "link.csv").symlink_to(name)
    for path in (name, tmp_path / "link.csv"):
        with pytest.raises(ExplorerError, match="is a device"), write_atomically(path):
            pass


@pytest.mark.skipif(sys.platform == "win32", reason="files have no owner of this kind there")
def test_another_user_s_file_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor what became something else while the file was written."""
    path = tmp_path / "a.csv"
    path.write_text("theirs")
    look = os.stat
    theirs = look(path)

    def found(place: Any, **named: Any) -> os.stat_result:
        status = look(place, **named)
        is_theirs = (status.st_ino, status.st_dev) == (theirs.st_ino, theirs.st_dev)
        return os.stat_result([*status[:4], status.st_uid + is_theirs, *status[5:]])

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", found)
        with pytest.raises(ExplorerError, match="belongs to another user"), write_atomically(path):
            pass
    assert path.read_text() == "theirs"

    def change_it_meanwhile() -> None:
        with write_atomically(path):
            path.unlink()
            os.mkfifo(path)

    with pytest.raises(ExplorerError, match="is no regular file"):
        change_it_meanwhile()
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_long_name(tmp_path: Path) -> None:
    with write_atomically(tmp_path / ("n" * 250)) as stream:
        stream.write("x")
    assert (tmp_path / ("n" * 250)).read_text() == "x"


def test_parquet_columns_have_one_type() -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    rows: list[list[Any]] = [
        ["a\udce4", 1, 1.5, True, 1 << 70, None],
        [None, 2, 3, None, 4, None],
        ["=b", None, math.nan, False, None, None],
    ]
    sink = io.BytesIO()
    write_parquet(sink, ["text", "int", "float", "bool", "huge", "none"], rows)
    found = parquet.read_table(sink).to_pydict()
    assert found["text"] == ["a\\xe4", None, "=b"]
    assert found["int"] == [1, 2, None]
    assert found["float"][:2] == [1.5, 3.0]
    assert math.isnan(found["float"][2])
    assert found["bool"] == [True, None, False]
    assert found["huge"] == [str(1 << 70), "4", None]
    assert found["none"] == [None] * 3
