"""Rows for the tensors of a model: by file, then by group or layer. Made page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from explorer.formats import Model, Problem, Severity
from explorer.formats.tensors import Tensor, natural_key, parse_name
from explorer.qt.models.library.rows import Pages, Row, RowKind, title_of, translate
from explorer.stores.entries import Check
from explorer.text import integer_text, shape_text

_CHECK_EVERY: Final = 512
_SHOWN_TYPES: Final = 3
_PARTS: Final = ("weight", "scale", "bias", "global scale")


class TensorRows:
    """The tensors of a model by the file that holds them; usable after the model is closed.

    Args:
        model: The model, open.
        check: Called now and then; raises to give up.
    """

    def __init__(self, model: Model, check: Check) -> None:
        self._rows = model.tensors.rows
        self._columns = model.tensors.columns
        self._groups = {
            name: group
            for group in model.groups
            if group.kind != "quantized"  # such a group is one tensor, whose parts are its rows
            for name in group.tensors
        }
        self._titles = {group.name: group for group in model.groups}
        self._of_file: dict[Path, list[int]] = {}
        for row, name in enumerate(self._columns.names):
            if row % _CHECK_EVERY == 0:
                check()
            parse_name(name)
            tensor = self._rows[row]
            for path in dict.fromkeys(extent.source.path for extent in tensor.extents):
                self._of_file.setdefault(path, []).append(row)

    def fill(self, row: Row, path: Path) -> Row:
        """Return the row of a file with the tensors that it holds below it, if it holds any."""
        rows = self._of_file.get(path)
        if not rows:
            return row
        return replace(
            row,
            pages=self._pages(self._items(rows, row.title), f"{row.title}."),
            parameters=sum(self._columns.parameters[number] for number in rows),
            quantization=self._types(rows),
        )

    def _types(self, rows: Sequence[int]) -> str:
        """Return the tensor types that occur, the one with most bytes first."""
        nbytes: Counter[str] = Counter()
        for row in rows:
            nbytes[self._columns.types[row].name] += self._columns.nbytes[row]
        names = [name for name, _ in nbytes.most_common(_SHOWN_TYPES + 1)]
        if len(names) > _SHOWN_TYPES:
            names[_SHOWN_TYPES:] = ["…"]
        return title_of(", ".join(names))

    def _items(self, rows: Sequence[int], above: str) -> list[int | tuple[str, list[int]]]:
        """Return single tensors and groups of them, in the order of names.

        Args:
            rows: The tensors of a file.
            above: The title of its row; a group of that name, or of one tensor, is no level more.
        """
        names = self._columns.names
        groups: dict[str, list[int]] = {}
        single: list[int] = []
        for row in sorted(rows, key=lambda row: natural_key(names[row])):
            title = self._group_title(names[row])
            if title is None:
                single.append(row)
            else:
                groups.setdefault(title, []).append(row)
        if not single and len(groups) == 1:
            (title, members), *_ = groups.items()
            if title_of(title) == above or len(members) == 1:
                return list(members)
        return [*single, *groups.items()]

    def _group_title(self, name: str) -> str | None:
        group = self._groups.get(name)
        if group is not None:
            return group.name
        parsed = parse_name(name)
        if parsed.layer is None:
            return None
        return translate("{stack}, layer {n}").format(stack=parsed.stack, n=parsed.layer)

    def _pages(self, items: Sequence[int | tuple[str, list[int]]], prefix: str) -> Pages:
        def make(start: int, stop: int) -> list[Row]:
            return [
                self._tensor_row(item, prefix) if isinstance(item, int) else self._group_row(*item)
                for item in items[start:stop]
            ]

        return Pages(len(items), make)

    def _group_row(self, title: str, rows: list[int]) -> Row:
        columns = self._columns
        group = self._titles.get(title)
        parsed = parse_name(columns.names[rows[0]])
        prefix = f"{parsed.stack}.{parsed.layer}." if group is None else f"{group.name}."
        what = "" if group is None else group.kind.replace("_", " ")
        count = translate("{n} tensors").format(n=integer_text(len(rows)))
        return Row(
            RowKind.GROUP,
            title,
            title_of(title),
            parameters=sum(columns.parameters[row] for row in rows),
            quantization=self._types(rows),
            nbytes=sum(columns.nbytes[row] for row in rows),
            note=", ".join(filter(None, (what, count))),
            pages=self._pages(rows, prefix),
        )

    def _tensor_row(self, row: int, prefix: str) -> Row:
        tensor = self._rows[row]
        problems: tuple[Problem, ...] = ()
        if tensor.damage is not None:
            problems = (Problem(Severity.ERROR, tensor.name, tensor.damage),)
        return Row(
            RowKind.TENSOR,
            f"{row}",
            title_of(tensor.name.removeprefix(prefix)),
            name=tensor.name,
            parameters=tensor.parameters,
            quantization=title_of(tensor.type.name),
            nbytes=tensor.nbytes,
            note=shape_text(tensor.shape),
            problems=problems,
            path=tensor.file,
            children=tuple(_array_rows(tensor)),
        )


def _array_rows(tensor: Tensor) -> Iterator[Row]:
    """Yield what a quantized weight is stored as: its codes, scales and so on."""
    grouped = tensor.grouped
    if grouped is None:
        return
    arrays = (grouped.weight, grouped.scales, grouped.biases, grouped.global_scale)
    for name, array in zip(_PARTS, arrays, strict=True):
        if array is not None:
            yield Row(
                RowKind.TENSOR,
                name,
                translate(name),
                quantization=title_of(array.type.name),
                nbytes=array.extent.nbytes,
                note=shape_text(array.shape),
                path=array.extent.source.path,
            )
