"""What the commands print: one way out to standard output, one to standard error.

Standard output is written as UTF-8 bytes for JSON and in the terminal's encoding for text; a reader
that goes away (`| head`) is no error. Colour only reaches a terminal that wants it.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from explorer.text import plain_text, safe_json, shorten

_WIDEST_COLUMN: Final = 64  # a longer cell sticks out, rather than padding every other line
_TEXT_WIDTH: Final = 120  # of a line of text where there is no terminal


def write(text: str, encoding: str | None = None) -> bool:
    """Write text to standard output and flush it; return False if nobody reads it any more."""
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
    return True


def forget_output() -> None:
    """Point standard output at nothing, so that Python's own flush at the end cannot fail.

    What could not be written waits in a buffer; Python would try again, complain and exit with 120.
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
    text = json.dumps(_finite(document), ensure_ascii=False, indent=2, allow_nan=False)
    write(safe_json(text) + "\n", "utf-8")


def _finite(value: Any) -> Any:
    """Return the value with null for NaN and infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def write_error(message: str) -> None:
    """Write `error: …` to standard error, on one line whatever the message holds."""
    if sys.stderr is not None:
        line = f"error: {plain_text(message)}\n"
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


def coloured() -> bool:
    """Tell whether standard output is a terminal that wants colour (no-color.org)."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def on_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def style(text: str, **look: Any) -> str:
    """Return text in a look of `click.style`, on a terminal; else as it is."""
    return click.style(text, **look) if coloured() else text


def line_width() -> int:
    """Return the columns of a line: the terminal's, or a fixed number that files can rely on."""
    return shutil.get_terminal_size().columns if on_terminal() else _TEXT_WIDTH


def cell_width(text: str) -> int:
    """Return the columns that a terminal needs for text without control characters."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def table(rows: Iterable[Sequence[str]], right: Sequence[int] = (), indent: str = "  ") -> str:
    """Return lines with aligned columns.

    Args:
        rows: Cells, as many in each row, safe to print.
        right: Columns that are aligned to the right.
        indent: What every line begins with.
    """
    cells = [list(row) for row in rows]
    if not cells:
        return ""
    widths = [
        min(_WIDEST_COLUMN, max(cell_width(row[column]) for row in cells))
        for column in range(len(cells[0]))
    ]
    lines = []
    for row in cells:
        padded = []
        for column, (text, width) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (width - cell_width(text))
            padded.append(gap + text if column in right else text + gap)
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines) + "\n"


def name_cell(name: str, longest: int) -> str:
    """Return a name of a file as a table shows it: safe to print, at most `longest` characters."""
    return shorten(plain_text(name), longest)
