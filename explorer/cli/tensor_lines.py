"""Lines about tensors, in columns, each printed when it is known: of `survey` and of `compare`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from explorer.cli.output import cell_width, name_cell, write
from explorer.errors import ExplorerError
from explorer.formats.tensors import Shape
from explorer.text import plain_text, shape_text

Subject: TypeAlias = tuple[str, str, Shape]
"""Name, type and shape of what a line is about, as a file has them."""

_FIGURE_WIDTH: Final = 12
_Row = TypeVar("_Row")


class TensorLines:
    """The columns of a table that begins before all of its rows are known.

    Args:
        title: What the names are of.
        figures: Titles of the numbers.
        subjects: What all lines will be about: names, types and shapes are as wide as they ask for.
        longest_name: Characters of a name that are shown.
    """

    def __init__(
        self, title: str, figures: Sequence[str], subjects: Iterable[Subject], longest_name: int
    ) -> None:
        self._longest_name = longest_name
        heads = (title, "type", "shape")
        self._widths = [cell_width(head) for head in heads]
        self._figure_widths = [max(_FIGURE_WIDTH, cell_width(figure)) for figure in figures]
        for subject in subjects:
            found = map(cell_width, self._cells(subject))
            self._widths = list(map(max, self._widths, found))
        self.head = self._line(heads, figures)

    def line(self, subject: Subject, figures: Iterable[str]) -> str:
        """Return a line with numbers, as text."""
        return self._line(self._cells(subject), figures)

    def problem_line(self, subject: Subject, problem: ExplorerError | None) -> str:
        """Return a line that says why there are no numbers."""
        what = "" if problem is None else plain_text(problem.what)
        return f"{self._line(self._cells(subject), ()).rstrip()}  {what}\n"

    def _cells(self, subject: Subject) -> tuple[str, str, str]:
        name, type_name, shape = subject
        return name_cell(name, self._longest_name), plain_text(type_name), shape_text(shape)

    def _line(self, cells: Sequence[str], figures: Iterable[str]) -> str:
        padded = [
            text + " " * (width - cell_width(text))
            for text, width in zip(cells, self._widths, strict=True)
        ]
        numbers = zip(figures, self._figure_widths, strict=False)  # a line of a problem has none
        padded += [" " * (width - cell_width(figure)) + figure for figure, width in numbers]
        return "  ".join(padded).rstrip() + "\n"


def printed(
    rows: Iterable[_Row], line_of: Callable[[_Row], str], *, needed: bool
) -> Iterator[_Row]:
    """Print the line of each row when it comes, and yield the row.

    Ends when nobody reads any more (`| head`), unless the rows are `needed` for something else.
    """
    for row in rows:
        if not write(line_of(row)) and not needed:
            return
        yield row
