"""What the commands print and write: standard output, standard error, files.

JSON is written as UTF-8, text in the terminal's encoding; a reader that goes away (`| head`) is no
error. Only a terminal gets colour and progress.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TextIO, TypeVar

import click

from explorer.errors import ExplorerError, system_reason
from explorer.model_files import refuse_model_file
from explorer.tabular import (
    check_parquet,
    json_document,
    write_atomically,
    write_csv,
    write_parquet,
)
from explorer.text import integer_text, plain_text, shorten

if TYPE_CHECKING:  # `--version` needs no NumPy
    from explorer.analysis.columns import Source, Summaries
    from explorer.formats import Problem
    from explorer.present.tables.table import Table

_LONGEST_SUM: Final = 48  # characters of a role
_MOST_SUMS: Final = 2000  # lines of a table of sums
_WIDEST_COLUMN: Final = 64  # a longer cell sticks out, rather than padding every other line
_INDENT: Final = "  "
_FIGURE_WIDTH: Final = 12  # of a table that is printed while its figures come in
_TEXT_WIDTH: Final = 120  # of a line of text where there is no terminal
_Row = TypeVar("_Row")


class OutputError(ExplorerError):
    """Standard output that cannot be written, as on a full disk."""


def write(text: str, encoding: str | None = None) -> bool:
    """Write text to standard output and flush it; return False if its reader went away.

    Raises:
        OutputError: It cannot be written.
    """
    stream = sys.stdout
    if stream is None:  # started without one, as by a desktop
        return False
    try:
        raw = text.encode(encoding or stream.encoding or "utf-8", "backslashreplace")
        stream.flush()
        stream.buffer.write(raw)
        stream.buffer.flush()
    except BrokenPipeError:
        forget_output()
        return False
    except OSError as error:
        raise output_error(error) from error
    return True


def output_error(error: OSError) -> OutputError:
    """Return what to say where standard output cannot be written, and write no more to it."""
    forget_output()
    return OutputError(f"standard output cannot be written: {system_reason(error)}")


def forget_output() -> None:
    """Point standard output at the null device, so that Python's own flush at the end succeeds.

    Python would else retry what could not be written, complain and exit with 120.
    """
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError):  # there is none, or it is no file: nothing fails at the end
        return
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, output)
    os.close(descriptor)


def write_json(document: dict[str, Any]) -> None:
    """Write one JSON object in UTF-8, whatever the terminal's encoding is."""
    write(json_document(document), "utf-8")


def write_error(message: str) -> None:
    """Write `error: …` to standard error, on one line whatever the message holds."""
    _write_line("error", message)


def exit_code(damage: ExplorerError | None) -> int:
    """Write what could not be read, if anything; return the exit code of a command."""
    if damage is None:
        return 0
    write_error(str(damage))
    return 1


def write_to_read(weights: int, nbytes: int, workers: int) -> None:
    """Say on a terminal how much is read, and about how long that takes; nothing of nothing."""
    from explorer.present.survey import to_read_text  # noqa: PLC0415 - `--version` needs no NumPy

    if nbytes and sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"This takes {to_read_text(weights, nbytes, workers)}\n")


def write_warning(message: str) -> None:
    """Write `warning: …` to standard error; the command goes on."""
    _write_line("warning", message)


def _write_line(word: str, message: str) -> None:
    if sys.stderr is not None:
        line = f"{word}: {plain_text(message)}\n"
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


@contextmanager
def open_target(target: Path) -> Iterator[TextIO]:
    """Open a file that appears under its name only when it is complete.

    Raises:
        ExplorerError: It cannot be written: the disk is full, the folder is missing …
    """
    try:
        with write_atomically(target) as stream:
            yield stream
    except OSError as error:
        raise ExplorerError(f"cannot be written: {system_reason(error)}", target) from error


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of --csv and --parquet; None of what is not asked for."""

    csv: Path | None
    parquet: Path | None

    @property
    def wanted(self) -> bool:
        return self.csv is not None or self.parquet is not None

    def check(self) -> None:
        """Raise before a long command has done its work, if a file cannot be written.

        Raises:
            ExplorerError: It is a file of a model, or what writes it is not installed.
        """
        for target in filter(None, (self.csv, self.parquet)):
            refuse_model_file(target)
        if self.parquet is not None:
            check_parquet()

    def save(self, names: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
        """Write a table, one value a cell."""
        kept = list(lines) if self.wanted else []
        if self.csv is not None:
            with open_target(self.csv) as stream:
                write_csv(stream, names, kept)
        if self.parquet is not None:
            with open_target(self.parquet) as stream:
                write_parquet(stream.buffer, names, kept)


def sums_text(found: Summaries, source: Source, *more: str) -> str:
    """Return the tables of sums and means by role and by layer, the totals first.

    A hostile file has as many roles as tensors.

    Args:
        more: Names of metrics beside those of the source.
    """
    from explorer.present import survey  # noqa: PLC0415 - `--version` needs no NumPy
    from explorer.present.tables.survey import sums_table  # noqa: PLC0415 - likewise

    parts = []
    for title, by_layer in (("By role", False), ("By layer", True)):
        if by_layer and not found.layers:
            continue
        lines = survey.summary_lines(found, by_layer=by_layer, most=_MOST_SUMS)
        count = survey.summary_count(found, by_layer=by_layer)
        parts.append(heading(title))
        parts.append(table_of(sums_table(source, *more), lines, _LONGEST_SUM, total=count))
    return "".join(parts) + f"\n{wrapped(survey.ABOUT_SUMS)}\n"


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def style(text: str, **look: Any) -> str:
    """Return text in a look of `click.style`, on a terminal that wants colour (no-color.org)."""
    coloured = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return click.style(text, **look) if coloured and on_terminal() else text


def heading(text: str, count: int | None = None) -> str:
    """Return the title of a block, after an empty line."""
    number = "" if count is None else f" ({integer_text(count)})"
    return f"\n{style(text + number, bold=True)}\n"


def line_width() -> int:
    """Return the columns of a line: the terminal's, or a fixed number that files can rely on."""
    return shutil.get_terminal_size().columns if on_terminal() else _TEXT_WIDTH


def wrapped(text: str) -> str:
    """Return a paragraph in lines of a readable length."""
    return click.wrap_text(text, min(100, line_width()))


def cell_width(text: str) -> int:
    """Return the columns that a terminal needs for text without control characters."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def table(rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return lines with aligned columns, those of `right` to the right; cells are safe to print."""
    cells = [list(row) for row in rows]
    if not cells:
        return ""
    widths = [
        min(_WIDEST_COLUMN, max(map(cell_width, column))) for column in zip(*cells, strict=True)
    ]
    aligned = [column in right for column in range(len(widths))]
    return "".join(_padded(row, widths, aligned) for row in cells)


def _padded(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """Return the line of cells in columns of such widths, to the right where that is said."""
    padded = []
    for text, width, aligned in zip(cells, widths, right, strict=False):
        gap = " " * (width - cell_width(text))
        padded.append(gap + text if aligned else text + gap)
    return (_INDENT + "  ".join(padded)).rstrip() + "\n"


class TableLines(Generic[_Row]):
    """A table of `present.tables` as lines, which may begin before all figures are known.

    Args:
        described: Its columns.
        rows: What decides the widths of the columns: all rows, without their figures if need be.
        longest: Characters of a cell with words.
        figures: Least characters of a figure, where they are not known yet.
    """

    def __init__(
        self,
        described: Table[_Row],
        rows: Sequence[_Row],
        longest: int = _WIDEST_COLUMN,
        figures: int = 0,
    ) -> None:
        self._described, self._longest = described, longest
        self._columns = described.shown(rows)
        titles = [column.head for column in self._columns]
        self._widths = [
            max(cell_width(column.head), figures if column.kind.numeric else 0)
            for column in self._columns
        ]
        for row in rows:
            found = enumerate(map(cell_width, self._cells(row)))
            self._widths = [max(self._widths[n], min(width, _WIDEST_COLUMN)) for n, width in found]
        self.head = self._line(titles)

    def line(self, row: _Row) -> str:
        """Return the line of a row; of one without figures what is known of it, and why."""
        cells, why = self._cells(row), self._described.why_blank(row)
        if not why:
            return self._line(cells)
        known = takewhile(lambda column: not column.is_blank(row), self._columns)
        return f"{self._line([cell for cell, _ in zip(cells, known, strict=False)])[:-1]}  {why}\n"

    def _cells(self, row: _Row) -> list[str]:
        texts = ((column.cell(row), column.kind.numeric) for column in self._columns)
        return [text if numeric else shorten(text, self._longest) for text, numeric in texts]

    def _line(self, cells: Sequence[str]) -> str:
        return _padded(cells, self._widths, [column.kind.numeric for column in self._columns])


def table_of(
    described: Table[_Row],
    rows: Sequence[_Row],
    longest: int = _WIDEST_COLUMN,
    most: int = 0,
    total: int = 0,
) -> str:
    """Return a table of `present.tables` as lines; a row without figures says why.

    Args:
        described: Its columns.
        rows: Its rows.
        longest: Characters of a cell with words.
        most: Rows that are printed; the others are counted below. 0 for all.
        total: How many rows there are, if `rows` are not all.
    """
    printed = rows[:most] if most else rows
    lines = TableLines(described, printed, longest)
    left_out = (total or len(rows)) - len(printed)
    return lines.head + "".join(map(lines.line, printed)) + left_out_text(left_out)


def left_out_text(count: int, what: str = "") -> str:
    """Return a line that counts what is not printed; "" where nothing is left out."""
    return f"  … and {integer_text(count)} more{what}; --json lists all\n" if count > 0 else ""


def print_rows(
    described: Table[_Row],
    known: Sequence[_Row],
    rows: Iterable[_Row],
    *,
    needed: bool,
    longest: int = _WIDEST_COLUMN,
) -> Iterator[_Row]:
    """Print the line of each row when it comes, below the head of the table; yield the rows.

    Ends when the reader went away (`| head`), unless the rows are `needed` for something else.

    Args:
        described: The columns.
        known: All rows, as far as they are known now: their figures may be missing.
        rows: The rows.
        needed: Whether they are needed even if nobody reads what is printed.
        longest: Characters of a cell with words.
    """
    lines = TableLines(described, known, longest, _FIGURE_WIDTH)
    write(lines.head)
    yield from takewhile(lambda row: write(lines.line(row)) or needed, rows)


def name_cell(name: str, longest: int) -> str:
    """Return a name of a file as a table shows it: safe to print, at most `longest` characters."""
    return shorten(plain_text(name), longest)


def problem_lines(problems: Sequence[Problem]) -> str:
    """Return a line for each problem: severity, place, what is wrong."""
    lines = []
    for problem in problems:
        word = style(
            f"{problem.severity:<7}", fg="red" if problem.severity == "error" else "yellow"
        )
        where = f"{plain_text(problem.where)}: " if problem.where else ""
        lines.append(f"  {word}  {where}{plain_text(problem.what)}\n")
    return "".join(lines)


# How far a long command is: one line on standard error, if that is a terminal.

_SECONDS_BETWEEN: Final = 0.1
_WIDTH: Final = 78


class Progress(AbstractContextManager["Progress"]):
    """A line that is written over; a context manager, which clears it in the end.

    It is not `shown` beside rows on the terminal, which show progress by themselves.
    """

    def __init__(self, total: int, *, shown: bool = True) -> None:
        self._total = total
        self._done = 0
        self._written_at = 0.0
        self._on = shown and sys.stderr is not None and sys.stderr.isatty()

    def add(self, count: int, what: str = "") -> None:
        """Count work that was done, and name what it is about."""
        self._done += count
        now = time.monotonic()
        if self._on and now - self._written_at >= _SECONDS_BETWEEN:
            self._written_at = now
            share = self._done / self._total if self._total else 1.0
            self._write(shorten(f"{min(share, 1.0):4.0%}  {plain_text(what)}", _WIDTH))

    def counter(self, what: str) -> Callable[[int], None]:
        """Return a function that takes the work done so far, of what begins now."""
        before = self._done
        return lambda done: self.counted(before + done, what)

    def show(self, done: int, total: int, what: str) -> None:
        """Show how much of a work of another size is done."""
        self._total = total
        self.counted(done, what)

    def counted(self, done: int, what: str) -> None:
        """Note how much work is done in all."""
        self.add(done - self._done, what)

    def _write(self, line: str) -> None:
        sys.stderr.write(f"\r{line}\x1b[K")  # erases what is left of the line before
        sys.stderr.flush()

    def __exit__(self, *_error: object) -> None:
        if self._on and self._written_at:
            self._write("")
            sys.stderr.write("\r")
