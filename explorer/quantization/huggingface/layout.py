"""How weights with companions are stored: by methods of Hugging Face models, by MLX and Ollama.

A quantized weight is a run of lines, all of one length: mostly the rows of the logical matrix,
else what a method lays out as one, such as a group. To decode lines is to read three arrays of
them and to put these together, in float32, as the layout's formula says::

    codes   uint8 [lines, line]     one for each weight, an index into `levels`
    scales  float32 [lines, s]      effective scales
    zeros   float32 [lines, s]      what the formula calls zero; not in all methods

Weight `c` of a line has scale ``c // run``, or ``groups[c]`` where the stored order of columns is
another one. Methods differ in how codes are packed and where scales come from: that is a
`LineReader` of the family's module, and all that it has to know. The formula, statistics and the
inspector of blocks are the same for all.

Source: `docs/hf_quantization.md`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.registry import BlockLayout, QuantizationError
from explorer.quantization.types import E2M1, E4M3, E4M3_FNUZ, E5M2, E5M2_FNUZ, TensorType

Shape: TypeAlias = tuple[int, ...]

MAX_LINE: Final = 1 << 24
"""Longest line that is decoded; rows of real models have some 100,000 weights."""

ONE_127TH: Final = np.float32(0.007874015718698502)
"""What bitsandbytes' int8 is multiplied by, in place of a division by 127."""

POWER: Final = "power of two"
"""Value of the option ``"scale_type"``: bytes that are exponents, of which 255 is infinite."""

_MOST_OF_UNIT: Final = 256


class Formula(Enum):
    """How a level becomes a weight; each operation is rounded to float32, in this order."""

    SCALED = auto()  # level * scale
    ZERO_FIRST = auto()  # (level - zero) * scale
    ZERO_LAST = auto()  # level * scale - zero: the zero is a value, not a code
    DIVIDED = auto()  # level / scale
    TWICE = auto()  # (level * scale) * zero: a second factor takes the place of the zero


class Levels(Enum):
    """What codes are worth before scaling."""

    UNSIGNED = auto()  # 0, 1, …
    SIGNED = auto()  # code - 2^(bits - 1)
    TERNARY = auto()  # code - 1
    E2M1 = auto()
    E4M3 = auto()
    E5M2 = auto()
    E4M3_FNUZ = auto()
    E5M2_FNUZ = auto()
    STORED = auto()  # a table of the tensor's own, among its parts


@dataclass(frozen=True, slots=True)
class CompanionLayout:
    """How one weight with companions is stored; thousands of tensors share one.

    Attributes:
        reader: Which `LineReader` reads it: ``"gptq.Gptq"`` is class `Gptq` of module `gptq`; ""
            where values are not read.
        scheme: The quantization method: ``"gptq"``, ``"awq"``, ``"compressed-tensors"`` …; "" of
            MLX and Ollama, whose types say all.
        name: Public name of the type: ``"gptq4"``, ``"nf4"``, ``"fp8"``.
        bits: Bits of a code.
        shape: Logical shape, outermost first.
        levels: What codes are worth.
        formula: How they become weights.
        group_size: Weights that share a scale, as it is listed; None where that is not a run of
            weights in a row (a scale for each row, block or tensor).
        line: Weights of a line; divides the product of `shape`. 0 stands for a row.
        run: Consecutive weights of a line with one scale; the last run may be shorter. 0 stands for
            `group_size`, or a line.
        options: What else the reader must know, by name; its class says what.
        native: Type that the library computes in, for people: ``"F16"``, ``"BF16"``, ``"F32"``.
    """

    reader: str
    scheme: str
    name: str
    bits: int
    shape: Shape
    levels: Levels = Levels.UNSIGNED
    formula: Formula = Formula.SCALED
    group_size: int | None = None
    line: int = 0
    run: int = 0
    options: tuple[tuple[str, int | float | str], ...] = ()
    native: str = "BF16"

    def __post_init__(self) -> None:
        line = self.line or self.shape[-1]
        object.__setattr__(self, "line", line)
        object.__setattr__(self, "run", self.run or self.group_size or line)

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)

    @property
    def unit(self) -> int:
        """Weights that are shown as a block: a part of a line, whose weights share a scale.

        At most 256, though a scale may serve more. Where columns are reordered, each has a scale.
        """
        unit = math.gcd(self.line, self.run)
        return unit if unit <= _MOST_OF_UNIT else math.gcd(unit, _MOST_OF_UNIT)

    @property
    def scales_of_line(self) -> int:
        return -(-self.line // self.run)

    @property
    def type(self) -> TensorType:
        """The same as a tensor type; its block bytes are those of the codes, rounded up."""
        return TensorType(self.name, self.unit, -(-self.unit * self.bits // 8), quantized=True)

    def option(self, name: str, default: Any = None) -> Any:
        return dict(self.options).get(name, default)

    def lines(self, count: int) -> Lines:
        """Return room for lines, not filled."""
        scales = self.scales_of_line
        has_zero = self.formula in {Formula.ZERO_FIRST, Formula.ZERO_LAST, Formula.TWICE}
        return Lines(
            np.empty((count, self.line), np.uint8),
            np.empty((count, scales), np.float32),
            np.empty((count, scales if has_zero else 0), np.float32),
        )

    def level_values(self) -> NDArray[np.float32]:
        """Return the value of each code before scaling, float32 [codes].

        Raises:
            KeyError: The tensor has a table of its own; its reader knows it.
        """
        codes = np.arange(1 << self.bits, dtype=np.float32)
        return {
            Levels.UNSIGNED: codes,
            Levels.SIGNED: codes - np.float32(1 << self.bits >> 1),
            Levels.TERNARY: codes - np.float32(1),
            Levels.E2M1: E2M1,
            Levels.E4M3: E4M3,
            Levels.E5M2: E5M2,
            Levels.E4M3_FNUZ: E4M3_FNUZ,
            Levels.E5M2_FNUZ: E5M2_FNUZ,
        }[self.levels]


@dataclass(slots=True)
class Lines:
    """A run of lines, not yet put together. A reader fills arrays that are given to it.

    Attributes:
        codes: uint8 [lines, line], C-contiguous.
        scales: float32 [lines, scales of a line], C-contiguous.
        zeros: float32, shaped as `scales`, where the formula has a zero; else [lines, 0].

    Codes and numbers may be as they are stored: `signed` and `raw` of `LineReader`.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[Any]
    zeros: NDArray[Any]


@dataclass(frozen=True, slots=True)
class StoredLines:
    """Some units of lines, with their codes and scales unpacked; not yet put together.

    Attributes:
        lines: The lines that hold them.
        groups: The scale of each weight of a line; see `LineReader.groups`.
        skipped: Weights of the lines in front of the first that is meant.
        weights: How many are meant.
    """

    lines: Lines
    groups: NDArray[np.int32] | None
    skipped: int
    weights: int


class Part(Protocol):
    """A stored tensor that belongs to a weight. Its reads are bounded and checked."""

    @property
    def dtype(self) -> str:
        """Its type by safetensors' name."""

    @property
    def shape(self) -> Shape:
        """Its shape, outermost first."""

    @property
    def nbytes(self) -> int:
        """Its stored bytes."""

    def read(self, first: int, count: int) -> NDArray[np.uint8]:
        """Return bytes, uint8 [count]: a new array, or one that the next call overwrites."""

    def read_into(self, first: int, out: NDArray[np.uint8]) -> None:
        """Fill an array, uint8 [n], C-contiguous, with the bytes from `first` on."""


Parts: TypeAlias = Mapping[str, Part]
"""The stored parts of a weight by role: ``"qweight"``, ``"scales"``, ``"weight_scale"``, …"""


class LineReader(ABC):
    """Reads the lines of one weight. Owns buffers: one thread, one reader.

    Attributes:
        layout: How the weight is stored.
        parts: Its stored parts.
        levels: float32 [codes]: the value of each code before scaling; 256 at most.
        groups: int32 [line]: the scale of each weight of a line, in ``[0, scales of a line)``;
            None where weight `c` has scale ``c // run``.
        signed: Whether lines hold codes as they are stored, bytes of two's complement; `levels`
            counts them from -128 on.
        raw: Type of the numbers that lines hold as they are stored, uint16, in place of float32:
            ``"F16"`` or ``"BF16"``; "" where they hold float32. Only where each weight has its own.

    Raises:
        QuantizationError: What is stored contradicts itself, and so has no weights.
    """

    groups: NDArray[np.int32] | None = None
    signed = False
    raw = ""

    def __init__(self, layout: CompanionLayout, parts: Parts) -> None:
        self.layout = layout
        self.parts = parts
        self.levels = np.ascontiguousarray(self.stored_levels())

    def stored_levels(self) -> NDArray[np.float32]:
        """Return `levels`; to be replaced where the table is one of the parts."""
        return self.layout.level_values()

    def groups_of(self, first: int, count: int) -> list[int]:
        """Return the groups that `count` weights of one line are in, from flat index `first` on."""
        column = first % self.layout.line
        if self.groups is None:
            return [column // self.layout.run]
        found: list[int] = np.unique(self.groups[column : column + count]).tolist()
        return found

    @abstractmethod
    def fill(self, first: int, lines: Lines) -> None:
        """Read lines from number `first` on, as many as `lines` has room for."""

    @abstractmethod
    def places(self, first: int, count: int) -> tuple[tuple[str, int, int], ...]:
        """Return which bytes make `count` weights, in one line, from flat index `first` on.

        For the inspector: role, first byte in the part, bytes; pieces of the codes first. Bytes
        that other weights share are in it. Where columns are in another order, what a group has
        stands once for each of `groups_of`, in their order.
        """

    def code_bits(self, first: int, count: int, nbytes: int) -> NDArray[np.int32]:
        """Return which weight each bit of the codes' pieces belongs to, int32 [8 * nbytes].

        Numbers are from 0 to `count`; below 0, or `count` and above, is a bit of other weights. As
        it stands here: one stream of bits, lowest first, that begins at a byte.
        """
        bits = self.layout.bits
        skipped = first % self.layout.line * bits % 8
        return (np.arange(8 * nbytes, dtype=np.int32) - skipped) // bits


def line_reader(layout: CompanionLayout, parts: Parts) -> LineReader:
    """Return a reader; the first call for a family loads its module, and Numba with it.

    Raises:
        QuantizationError: The values of such weights are not read.
    """
    if not layout.reader:
        raise QuantizationError(f"weights of type {layout.name} are not read")
    module, _, name = layout.reader.partition(".")
    found = getattr(import_module(f"explorer.quantization.huggingface.{module}"), name)
    reader: LineReader = found(layout, parts)
    return reader


@cache
def line_kernels() -> Any:
    """Return the module that puts lines together; the first call loads Numba."""
    return import_module("explorer.quantization.huggingface.lines")


# Lines as blocks, for statistics and the inspector.

_WITH_MINIMUM: Final = frozenset({Formula.ZERO_FIRST, Formula.ZERO_LAST})


def block_layout_of(reader: LineReader) -> BlockLayout:
    """Return how units of lines make weights from codes; it unpacks `StoredLines`.

    Where columns are reordered every weight has a scale of its own.
    """
    layout, groups = reader.layout, reader.groups
    unit = layout.unit
    per = unit if groups is None else 1
    if groups is None:
        places = np.arange(0, layout.line, unit) // layout.run
    else:
        places = groups.astype(np.intp)

    def spread(of_lines: NDArray[Any], stored: StoredLines) -> NDArray[np.float32]:
        first = stored.skipped // per
        own = of_lines[:, places].reshape(-1)[first : first + stored.weights // per]
        return line_kernels().widened(own.view(np.uint8), reader.raw) if reader.raw else own

    def unpack_codes(stored: StoredLines, codes: NDArray[np.uint8]) -> None:
        flat = stored.lines.codes.reshape(-1)[stored.skipped : stored.skipped + stored.weights]
        np.bitwise_xor(flat, np.uint8(0x80 if reader.signed else 0), out=codes.reshape(-1))

    def unpack_scales(
        stored: StoredLines, scales: NDArray[np.float32], minima: NDArray[np.float32]
    ) -> None:
        own = spread(stored.lines.scales, stored)
        zeros = spread(stored.lines.zeros, stored) if stored.lines.zeros.size else own
        with np.errstate(all="ignore"):  # scales may be anything
            if layout.formula is Formula.DIVIDED:
                own = np.float32(1) / own
            elif layout.formula is Formula.TWICE:
                own = own * zeros
            elif layout.formula is Formula.ZERO_FIRST:
                minima.reshape(-1)[:] = zeros * own
            elif layout.formula is Formula.ZERO_LAST:
                minima.reshape(-1)[:] = zeros
            scales.reshape(-1)[:] = own

    return BlockLayout(
        levels=reader.levels,
        weights_per_scale=per,
        fields=(),
        unpack_codes=unpack_codes,
        unpack_scales=unpack_scales,
        has_minimum=layout.formula in _WITH_MINIMUM,
    )
