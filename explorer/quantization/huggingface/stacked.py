"""HQQ, quanto and BitNet: a word holds codes of rows that lie far apart.

Codes form a matrix whose rows are cut into as many parts as a word holds codes: row `r` of the
stored matrix holds rows ``r``, ``r + S``, ``r + 2 S`` …, where `S` is its number of rows.

Source: `docs/hf_quantization.md`, sections 3.8, 3.9 and 3.11; hqq, core/bitpack.py and
core/quantize.py; optimum-quanto, tensor/packed.py and tensor/grouped.py; transformers,
integrations/bitnet.py (`unpack_weights`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.huggingface.layout import CompanionLayout, LineReader, Lines, Parts
from explorer.quantization.huggingface.lines import Ahead, cut_fields, elements, take_fields
from explorer.quantization.registry import read_only
from explorer.quantization.types import TENSOR_TYPES

Codes = NDArray[np.uint8]

_EACH_BYTE: Final = 0x0101010101010101
_MOST_CACHED: Final = 1 << 20  # scales of a tensor that are kept: 4 MiB


class _Piece(NamedTuple):
    """Weights of one row of the matrix of codes."""

    place: int  # among those that are wanted
    weights: int
    stored: int  # the first of its words in the part
    shift: int  # of its codes in a word


class _Stack:
    """The matrix of codes of a part, row-major; rows of the part are whole words.

    Args:
        layout: Options ``"codes"``: role of the part; ``"each"``: codes of a word; ``"width"``:
            columns of the matrix; ``"high_first"``: 1 where the first code is in the highest bits.
        parts: The stored parts.
    """

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        self.role = str(layout.option("codes"))
        self._part = parts[self.role]
        self._bits = layout.bits
        self._each = int(layout.option("each"))
        self._width = int(layout.option("width"))
        self._high_first = bool(layout.option("high_first"))
        self._item = TENSOR_TYPES[self._part.dtype].block_bytes
        self._stored_rows = self._part.nbytes // (self._item * self._width)

    def pieces(self, first: int, count: int) -> Iterator[_Piece]:
        """Yield runs of one row of the matrix."""
        done = 0
        while done < count:
            row, column = divmod(first + done, self._width)
            part, stored = divmod(row, self._stored_rows)
            run = min(count - done, self._width - column)
            if column == 0:  # rows of one part follow each other in the file
                rest = (self._stored_rows - stored) * self._width
                run = min(count - done, rest)
            place = self._each - 1 - part if self._high_first else part
            yield _Piece(done, run, stored * self._width + column, place * self._bits)
            done += run

    def read(self, first: int, codes: Codes) -> None:
        """Fill codes, uint8 [n], from number `first` on."""
        mask = (1 << self._bits) - 1
        for piece in self.pieces(first, codes.size):
            own = codes[piece.place : piece.place + piece.weights]
            if self._item > 1:
                words = self._part.read(piece.stored * self._item, piece.weights * self._item)
                take_fields(read_only(words.view("<u4")), piece.shift, mask, own)
                continue
            self._part.read_into(piece.stored, own)
            if self._each == 1:
                continue
            whole = own[: own.size // 8 * 8].view(np.uint64)
            if whole.flags.aligned:
                cut_fields(whole, piece.shift, mask * _EACH_BYTE)
                own = own[whole.nbytes :]
            own[:] = own >> np.uint8(piece.shift) & np.uint8(mask)

    def places(self, first: int, count: int) -> list[tuple[str, int, int]]:
        """Return the bytes of codes; see `LineReader.places`."""
        pieces = self.pieces(first, count)
        return [(self.role, one.stored * self._item, one.weights * self._item) for one in pieces]

    def code_bits(self, first: int, count: int) -> NDArray[np.int32]:
        """Return which weight each bit belongs to; see `LineReader.code_bits`."""
        width = 8 * self._item
        found = []
        for piece in self.pieces(first, count):
            bits = np.arange(width * piece.weights, dtype=np.int32)
            in_word = bits % width
            own = (piece.shift <= in_word) & (in_word < piece.shift + self._bits)
            found.append(np.where(own, piece.place + bits // width, -1).astype(np.int32))
        return np.concatenate(found)


class Stacked(LineReader):
    """Lines that share one scale, such as groups; the n-th scale is that of line n.

    Options: those of `_Stack`; ``"scales"`` and ``"zeros"``: roles of the parts, zeros "" where
    there are none; ``"one_scale"``: 1 where all lines share one.
    """

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._stack = _Stack(layout, parts)
        self._roles = [str(layout.option("scales")), str(layout.option("zeros", ""))]
        self._numbers = [Ahead.of(parts[role]) if role else None for role in self._roles]
        self._one = bool(layout.option("one_scale"))

    def fill(self, first: int, lines: Lines) -> None:
        count, line = lines.codes.shape
        self._stack.read(first * line, lines.codes.reshape(-1))
        place, size = (0, 1) if self._one else (first, count)
        for numbers, out in zip(self._numbers, (lines.scales, lines.zeros), strict=True):
            if numbers is not None:
                out[:, 0] = numbers.read(place, size)

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        found = self._stack.places(first, count)
        line = 0 if self._one else first // self.layout.line
        for role in filter(None, self._roles):
            width = TENSOR_TYPES[self.parts[role].dtype].block_bytes
            found.append((role, line * width, width))
        return tuple(found)

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        return self._stack.code_bits(first, count)


class StackedColumns(LineReader):
    """HQQ's axis 0: a column of the matrix of codes is a group, and neighbours have other scales.

    Options: those of `_Stack`; ``"scales"`` and ``"zeros"``: roles of the parts, [1, width].
    """

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        super().__init__(layout, parts)
        self._stack = _Stack(layout, parts)
        self._width = int(layout.option("width"))
        self._roles = [str(layout.option(name)) for name in ("scales", "zeros")]
        self._cached: dict[str, NDArray[Any]] = {}
        types = {parts[role].dtype for role in self._roles}
        if self._width <= _MOST_CACHED and types in ({"F16"}, {"BF16"}):
            (self.raw,) = types

    def fill(self, first: int, lines: Lines) -> None:
        shape = lines.codes.shape
        self._stack.read(first * shape[1], lines.codes.reshape(-1))
        # not into the arrays that are there: mostly what is kept is looked at, and not copied
        scales, zeros = (
            self._numbers(role, first * shape[1], lines.codes.size) for role in self._roles
        )
        lines.scales, lines.zeros = scales.reshape(shape), zeros.reshape(shape)

    def _numbers(self, role: str, start: int, count: int) -> NDArray[Any]:
        """Return the numbers of weights, [n]; they repeat after each row of codes."""
        width = self._width
        column = start % width
        if column + count <= width:
            return self._of_columns(role, column, count)
        out = np.empty(count, np.uint16 if self.raw else np.float32)
        done = 0
        while done < min(count, width):
            column = (start + done) % width
            run = min(count - done, width - column, width - done)
            out[done : done + run] = self._of_columns(role, column, run)
            done += run
        while done < count:  # a multiple of the width: twice as many each time
            run = min(count - done, done)
            out[done : done + run] = out[:run]
            done += run
        return out

    def _of_columns(self, role: str, column: int, count: int) -> NDArray[Any]:
        part = self.parts[role]
        if self._width > _MOST_CACHED:
            return elements(part, column, count)
        if role not in self._cached:
            stored = part.read(0, part.nbytes).view(np.uint16) if self.raw else None
            self._cached[role] = elements(part, 0, self._width) if stored is None else stored
        return self._cached[role][column : column + count]

    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        found = self._stack.places(first, count)
        column = first % self._width
        for role in self._roles:
            width = TENSOR_TYPES[self.parts[role].dtype].block_bytes
            found.append((role, column * width, min(count, self._width - column) * width))
        return tuple(found)

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        return self._stack.code_bits(first, count)
