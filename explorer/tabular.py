"""Tables for other programs: CSV, JSON, tab-separated, Parquet, and a safe way to save them.

Texts are written row by row, so that a table of a million rows is never in memory as text.

The texts come from untrusted files. A spreadsheet runs a cell that begins with ``=``, a terminal
obeys an escape code, and a lone surrogate (how Python keeps a byte that was no UTF-8) cannot be
written at all. All are escaped here; `csv.writer` does none of it.
"""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TextIO, TypeAlias

from explorer.ends import Temporary, mark_as_running
from explorer.errors import ExplorerError
from explorer.model_files import refuse_model_file
from explorer.paths import user_id
from explorer.text import escaped, plain_text, safe_json

Cell: TypeAlias = str | int | float | bool | None

# OWASP, "CSV Injection": = + - @ TAB (and LF) begin a formula; programs skip blanks before it, and
# some read the full-width forms alike. Other controls are escaped before.
_FORMULA: Final = re.compile("\\s*(?:[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\n])")
_UNNAMED: Final[int] = getattr(os, "O_TMPFILE", 0)  # opens a file without a name, on Linux
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PREFIX: Final = ".gguf-explorer-"
_TEMPORARY: Final = re.compile(r"\.gguf-explorer-[0-9a-f]{16}\.tmp")


class TextSink(Protocol):
    """A stream for tables: an open text file, standard output, `io.StringIO`."""

    def write(self, text: str, /) -> object:
        """Take a piece of text."""


def write_csv(stream: TextSink, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    r"""Write a table as comma-separated values (RFC 4180, but with lines that end in a line feed).

    Numbers are written in full, truth values as ``true`` and ``false``, None as nothing, and a
    float without a value as ``nan``, ``inf`` or ``-inf``. Text that a spreadsheet would take for a
    formula gets an apostrophe in front. Controls other than tab and newline, and what is invisible,
    are escaped as in the window: ``\x1b``.

    Args:
        stream: Where to write. A file must be opened with ``newline=""`` and UTF-8.
        header: Names of the columns.
        rows: The rows, taken one by one.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_csv_text(name) for name in header])
    for row in rows:
        writer.writerow([_csv_cell(cell) for cell in row])


def _csv_cell(cell: Cell) -> str | int | float | None:
    if isinstance(cell, str):
        return _csv_text(cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell


def _csv_text(text: str) -> str:
    clean = plain_text(text, lines=True)
    return f"'{clean}" if _FORMULA.match(clean) else clean


def write_json(stream: TextSink, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    r"""Write a table as a JSON array with an object for each row, one to a line.

    A float without a value (NaN, infinities) becomes null, for JSON has none. A lone surrogate
    becomes the text ``\xNN``.

    Raises:
        ValueError: Two columns have one name, or a row has not one cell for each column.
    """
    keys = [_encodable(name) for name in header]
    if len(set(keys)) != len(keys):
        raise ValueError(f"columns with the same name: {keys}")
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    stream.write("[")
    separator = "\n"
    for row in rows:
        cells = {key: _json_cell(cell) for key, cell in zip(keys, row, strict=True)}
        stream.write(separator + encode(cells))
        separator = ",\n"
    stream.write("\n]\n")


def _json_cell(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return _encodable(cell)
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell


def json_document(document: dict[str, Any]) -> str:
    """Return an object as JSON text, in lines, with null for NaN and infinities."""
    return (
        safe_json(json.dumps(_finite(document), ensure_ascii=False, indent=2, allow_nan=False))
        + "\n"
    )


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def to_tsv(rows: Iterable[Sequence[Cell]]) -> str:
    r"""Return a table as tab-separated text, for the clipboard; the last line has no end.

    Cells have no quotes, since the program that one pastes into may show them. What would start
    another cell or line is written as an escape (``\t``, ``\n``), as is what is invisible. Formulas
    stay as they are: here a person chooses the cells and the place.
    """
    return "\n".join("\t".join(map(_tsv_cell, row)) for row in rows)


def _tsv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return plain_text(str(cell))


_INT64: Final = range(-(1 << 63), 1 << 63)


def check_parquet() -> None:
    """Say how to get what writes Parquet, before a long command has done its work.

    Raises:
        ExplorerError: It is not installed.
    """
    if find_spec("pyarrow") is None:
        raise ExplorerError(
            "a Parquet file needs pyarrow, which is not installed. Install it with: "
            "pip install 'gguf-explorer[parquet]', or write CSV"
        )


def write_parquet(stream: BinaryIO, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    r"""Write a table as Apache Parquet: numbers keep their type and all their digits.

    A column has one type: that of its values, or text where they have several or do not fit into
    64 bits. None is null; NaN and infinities stay. Texts are escaped as in CSV; formulas stay.

    Args:
        stream: An open file.
        header: Names of the columns.
        rows: The rows; all of them are in memory for a moment.

    Raises:
        ExplorerError: pyarrow is not installed.
    """
    check_parquet()
    import pyarrow  # noqa: PLC0415 - 100 ms, which only this needs
    import pyarrow.parquet  # noqa: PLC0415

    names = [plain_text(name, lines=True) for name in header]
    lines = list(rows)
    columns = [pyarrow.array(_one_type([line[i] for line in lines])) for i in range(len(names))]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, names), stream)


def _one_type(cells: list[Cell]) -> list[Cell]:
    """Return the cells of a column as values of one type."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    fits = all(cell in _INT64 for cell in cells if isinstance(cell, int))
    if kinds <= {bool} or kinds <= {float} or (kinds <= {int} and fits):
        return cells
    return [None if cell is None else plain_text(str(cell), lines=True) for cell in cells]


def _encodable(text: str) -> str:
    """Return the text with lone surrogates as escapes, so that writing it as UTF-8 cannot fail."""
    return text if text.isascii() else _SURROGATE.sub(escaped, text)


@contextmanager
def write_atomically(path: Path | str) -> Iterator[TextIO]:
    """Open a text file that appears under its name only when it is complete.

    If anything fails, what was there before stays and nothing is left over, even of a process that
    is killed: where the system can, the file has no name until it is complete; else it is written
    beside its place, under a name by which the next save to that folder knows and removes it. A
    link is followed.
    A pipe that somebody reads, ``/dev/stdout`` and ``/dev/null`` are written to directly; no other
    device is, nor a pipe that would have to be waited for.

    Yields:
        The file, UTF-8, with line ends left as they are written.

    Raises:
        ExplorerError: It would replace a file of a model, a device or another user's file.
        OSError: The file cannot be written; its `filename` is `path`.
    """
    refuse_model_file(Path(path))
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        _refuse_device(target)
        with open(path, "w", encoding="utf-8", newline="", opener=_no_waiting) as stream:
            if sys.platform != "win32":
                os.set_blocking(stream.fileno(), True)
            yield stream
        return
    temporary = target.with_name(f"{_PREFIX}{os.urandom(8).hex()}.tmp")
    kept = Temporary(temporary)
    try:
        with _naming(path):
            new = _open_new(temporary)
        with new:
            _refuse_other_s(target, new)
            mark_as_running(new)
            yield new
            new.flush()
            os.fsync(new.fileno())
            _refuse_other_s(target, new)  # minutes may have gone by
            with _naming(path):
                if not temporary.exists():
                    _give_name(new.fileno(), temporary)
        with _naming(path):
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o777)
            temporary.replace(target)
    finally:
        kept.remove()


def _refuse_device(target: Path) -> None:
    """Raise if a device is not one that a shell has opened for us, nor the null device."""
    found = os.stat(target)
    if stat.S_ISFIFO(found.st_mode):
        return
    for known in (os.devnull, 1, 2):
        with suppress(OSError):
            if os.path.samestat(found, os.stat(known)):
                return
    raise ExplorerError("is a device; choose the name of a file", target)


def _no_waiting(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise ExplorerError("is a pipe that nobody reads; choose another name", path) from error


def _refuse_other_s(target: Path, new: TextIO) -> None:
    """Raise if a new file would replace something else than a file of the same user."""
    try:
        there = os.stat(target)
    except OSError:  # nothing is there; whatever else is wrong is told by the system
        return
    if not stat.S_ISREG(there.st_mode) and not stat.S_ISDIR(there.st_mode):
        raise ExplorerError("is no regular file; choose another name", target)
    if there.st_uid != os.fstat(new.fileno()).st_uid:
        raise ExplorerError("belongs to another user; choose another name", target)


@contextmanager
def _naming(path: Path | str) -> Iterator[None]:
    """Let an error of the system name a path that the user knows."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _open_new(temporary: Path) -> TextIO:
    """Open a file that has no name yet, or the given one where the system needs a name.

    Not with `tempfile`: its files are for their owner only, whatever the umask says.
    """
    if not _can_be_named_later(temporary):
        _remove_abandoned(temporary.parent)
        return open(temporary, "x", encoding="utf-8", newline="")
    return open(_open_unnamed(temporary.parent), "w", encoding="utf-8", newline="")


def _remove_abandoned(folder: Path) -> None:
    """Remove files of this user's processes that were killed while they wrote to a folder."""
    user = user_id()
    try:
        found_there = [each for each in os.scandir(folder) if _TEMPORARY.fullmatch(each.name)]
    except OSError:  # one that can be written and not be listed
        return
    for entry in found_there:
        with suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and user in {None, found.st_uid}:
                with open(entry, "rb", opener=_no_link) as file:
                    over = mark_as_running(file)
                if over:
                    os.unlink(entry)  # on Windows this fails while its process runs


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _can_be_named_later(name: Path) -> bool:
    """Try it with an empty file: not every file system can, nor every sandbox."""
    if not _UNNAMED:
        return False
    try:
        descriptor = _open_unnamed(name.parent)
        try:
            _give_name(descriptor, name)
            name.unlink()
        finally:
            os.close(descriptor)
    except OSError:  # what is wrong with the folder itself is told when a named file is opened
        return False
    return True


def _open_unnamed(folder: Path) -> int:
    return os.open(folder, _UNNAMED | os.O_RDWR, 0o666)


def _give_name(descriptor: int, name: Path) -> None:
    # with a folder for relative names, which this is none, `os.link` follows the link to the file
    os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=0)
