"""What weights can be rounded to: the methods of Hugging Face models by name, and what they take.

A name is a method with its bits, then what it may be chosen to have, in any order::

    w4a16/128  w4a16/channel  w4a16/128/asym    compressed-tensors, packed; w8a16 too
    w8a8                                        compressed-tensors, int8 with a scale for each row
    hqq4/64                                     HQQ, 2, 3, 4 or 8 bits
    nf4  nf4/double  fp4/128                    bitsandbytes, in blocks; llm.int8: for each row
    fp8/tensor  fp8/channel  fp8/128x128        FP8 with a scale for all, each row or each tile
    nvfp4a16  mxfp4a16  mxfp8a16                compressed-tensors' NVFP4, MXFP4 and MXFP8
    qint4/128  qint2/128  qint8  qfloat8        quanto, 8 bits with a scale for each row
    int8wo                                      torchao's int8 for weights alone, for each row
    bitnet                                      BitNet: -1, 0 and 1, one scale for all

Weights are rounded to nearest, from themselves alone. HQQ also searches its zero points, which is
not done here. GPTQ and AWQ are no targets: they choose codes by what a model computes from sample
texts, and rounding to nearest would say nothing of them.

Source: `docs/hf_quantization.md`, section 7.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from typing import Final, NamedTuple

from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels, Shape
from explorer.quantization.types import TensorType

MAX_UNIT: Final = 1 << 24
"""Most weights that are rounded at once: 64 MiB of them."""

NESTED_BLOCK: Final = 256
"""Scales of bitsandbytes that share a scale, with double quantization."""


class Storage(NamedTuple):
    """How a method stores weights.

    Attributes:
        label: Its name, in which # stands for the bits of a code.
        widths: The bits of a code that it may have.
        group: Usual weights of a group; 0 for whole rows.
        levels: What codes are worth.
        formula: How they become weights.
        scale_bytes: Bytes that are stored with each scale.
    """

    label: str
    widths: tuple[int, ...]
    group: int
    levels: Levels
    formula: Formula
    scale_bytes: int = 4


class Method(Enum):
    """How scales and codes are found and stored."""

    PACKED = Storage("w#a16", (4, 8), 128, Levels.UNSIGNED, Formula.ZERO_FIRST, 2)
    INT8 = Storage("w8a8", (8,), 0, Levels.SIGNED, Formula.SCALED, 2)
    HQQ = Storage("hqq#", (2, 3, 4, 8), 64, Levels.UNSIGNED, Formula.ZERO_FIRST, 2)
    NF4 = Storage("nf4", (4,), 64, Levels.STORED, Formula.SCALED)
    FP4 = Storage("fp4", (4,), 64, Levels.STORED, Formula.SCALED)
    LLM_INT8 = Storage("llm.int8", (8,), 0, Levels.SIGNED, Formula.TWICE)
    FP8 = Storage("fp8", (8,), 0, Levels.E4M3, Formula.SCALED)
    NVFP4 = Storage("nvfp4a16", (4,), 16, Levels.E2M1, Formula.SCALED, 1)
    MXFP4 = Storage("mxfp4a16", (4,), 32, Levels.E2M1, Formula.SCALED, 1)
    MXFP8 = Storage("mxfp8a16", (8,), 32, Levels.E4M3, Formula.SCALED, 1)
    QINT = Storage("qint#", (2, 4), 128, Levels.UNSIGNED, Formula.ZERO_LAST, 2)
    QINT8 = Storage("qint8", (8,), 0, Levels.SIGNED, Formula.SCALED, 2)
    QFLOAT8 = Storage("qfloat8", (8,), 0, Levels.E4M3, Formula.SCALED, 2)
    INT8_ALONE = Storage(
        "int8wo", (8,), 0, Levels.SIGNED, Formula.SCALED, 5
    )  # with a zero point of 0
    BITNET = Storage("bitnet", (2,), 0, Levels.TERNARY, Formula.SCALED, 2)


_TABLES: Final = frozenset({Method.NF4, Method.FP4})
_GROUPED: Final = _TABLES | {Method.PACKED, Method.HQQ, Method.QINT}  # of any usual size
_BASES: Final = {
    method.value.label.replace("#", str(bits)): (method, bits)
    for method in Method
    for bits in method.value.widths
}
"""Methods and bits by the first part of a name."""

SCHEME_GROUPS: Final = {
    "bitsandbytes": ("nf4", "nf4/double", "fp4", "fp4/double", "llm.int8"),
    "FP8": ("fp8/tensor", "fp8/channel", "fp8/128x128"),
    "compressed-tensors": (
        *("w4a16/32", "w4a16/128", "w4a16/channel", "w4a16/128/asym", "w8a16/128", "w8a8"),
        *("nvfp4a16", "mxfp4a16", "mxfp8a16"),
    ),
    "HQQ": ("hqq2/64", "hqq3/64", "hqq4/64", "hqq8/64"),
    "quanto": ("qint2/128", "qint4/128", "qint8", "qfloat8"),
    "torchao": ("int8wo",),
    "BitNet": ("bitnet",),
}
"""The names that are offered, by what makes such files; others of this page are understood too."""

SCHEME_NAMES: Final = tuple(name for names in SCHEME_GROUPS.values() for name in names)


def scheme_group(name: str) -> str | None:
    """Return which of the groups has a name; None if none has."""
    return next((group for group, names in SCHEME_GROUPS.items() if name in names), None)


@dataclass(frozen=True, slots=True)
class Scheme:
    """A method with all that may be chosen about it.

    Attributes:
        name: What it was asked for as.
        method: How scales and codes are found and stored.
        bits: Bits of a code.
        group: Weights of a row that share a scale; 0 for whole rows.
        rows: Rows that share a scale; 0 for all of a matrix.
        asymmetric: Whether there are zero points, so that a group's range need not be symmetric.
        double: Whether scales are quantized too.
    """

    name: str
    method: Method
    bits: int
    group: int
    rows: int = 1
    asymmetric: bool = False
    double: bool = False

    @property
    def storage(self) -> Storage:
        """How its method stores weights."""
        storage: Storage = self.method.value
        return storage

    @property
    def needs_whole(self) -> bool:
        """Whether a figure of all weights must be known before the first are rounded."""
        return self.rows == 0 or self.double or self.method is Method.NVFP4

    @property
    def in_blocks(self) -> bool:
        """Whether groups run over the ends of rows."""
        return self.method in _TABLES

    def unit(self, shape: Shape) -> int:
        """Return how many consecutive weights of a shape are rounded at once, at least."""
        columns = shape[-1] if shape else 1
        if self.in_blocks:
            return self.group * (NESTED_BLOCK if self.double else 1)
        if self.rows != 1:
            return columns * max(1, self.rows)
        return self.group if self.group and columns % self.group == 0 else columns

    def run(self, shape: Shape) -> int:
        """Return how many weights of a row share a scale; the last may be fewer."""
        return self.group or (shape[-1] if shape else 1)

    def problem(self, shape: Shape) -> str | None:
        """Return why weights of a shape cannot be stored so; None if they can."""
        columns = shape[-1] if shape else 1
        rows = shape[-2] if len(shape) > 1 else 1
        run = self.run(shape)
        may_be_part = self.rows != 1 or self.in_blocks
        stated = (
            (not prod(shape), "there are no weights"),
            (
                not self.in_blocks and columns < self.group,
                f"rows of {columns} weights are shorter than a group of {self.group}",
            ),
            (
                not may_be_part and columns % run,
                f"rows of {columns} weights are not a whole number of groups of {run}",
            ),
            (
                self.method is Method.BITNET and rows % 4,
                f"{rows} outputs are not a multiple of 4, as BitNet packs them",
            ),
            (
                self.unit(shape) > MAX_UNIT,
                f"rows of {columns} weights are too long to be rounded at once",
            ),
        )
        return next((what for wrong, what in stated if wrong), None)

    def nbytes(self, shape: Shape) -> int:
        """Return the bytes of codes and companions; see `docs/hf_quantization.md`, section 7."""
        columns = shape[-1] if shape else 1
        rows = shape[-2] if len(shape) > 1 else 1
        matrices = prod(shape) // max(1, rows * columns)
        if self.in_blocks:
            return self._block_bytes(shape)
        return matrices * self._matrix_bytes(rows, columns)

    def _matrix_bytes(self, rows: int, columns: int) -> int:
        bits, groups = self.bits, -(-columns // (self.group or columns))
        codes = -(-rows * columns * bits // 8)
        scales = groups * -(-rows // (self.rows or rows))
        if self.method is Method.PACKED:  # with weight_shape
            zeros = 4 * groups * -(-rows * bits // 32) if self.asymmetric else 0
            return 4 * rows * -(-columns * bits // 32) + 2 * scales + zeros + 16
        if self.method in {Method.HQQ, Method.QINT}:  # words hold codes of groups far apart
            word, held = (4, 10) if bits == 3 else (1, 8 // bits)
            return word * -(-scales // held) * self.group + 4 * scales
        of_matrix = 4 if self.method is Method.NVFP4 else 0
        return codes + self.storage.scale_bytes * scales + of_matrix

    def _block_bytes(self, shape: Shape) -> int:
        """Return bytes of bitsandbytes' parts; that of an offset is not known, and taken as 20."""
        count = prod(shape)
        blocks = -(-count // self.group)
        state: dict[str, object] = {"quant_type": self.storage.label, "blocksize": self.group}
        state |= {"dtype": "bfloat16", "shape": list(shape)}
        scales = 4 * blocks
        if self.double:
            nested = {"nested_blocksize": NESTED_BLOCK, "nested_dtype": "float32"}
            state |= nested | {"nested_offset": ""}
            scales = blocks + 4 * -(-blocks // NESTED_BLOCK) + 4 * 256 + 20 - len('""')
        return -(-count // 2) + scales + 4 * 16 + len(json.dumps(state))

    def type_of(self, shape: Shape) -> TensorType:
        """Return the same as a type of one tensor, whose only block is the tensor."""
        return TensorType(self.name, prod(shape), self.nbytes(shape), quantized=True)

    def layout(self, shape: Shape, line: int, run: int) -> CompanionLayout:
        """Return how codes and scales make weights, in lines of any length."""
        label, *_, levels, formula, _ = self.storage
        size = self.group or None
        return CompanionLayout(
            "", label, self.name, self.bits, shape, levels, formula, size, line, run
        )


def scheme(name: str) -> Scheme | None:
    """Return the scheme of a name; None if it is none.

    Raises:
        ValueError: It begins as one, but cannot have what follows.
    """
    base, *wanted = name.lower().split("/")
    if base.startswith(_CALIBRATED):
        raise ValueError(f"{name!r}: {_NOT_ROUNDED}")
    if base not in _BASES:
        return None
    method, bits = _BASES[base]
    group = method.value.group
    found = Scheme(
        name,
        method,
        bits,
        group,
        rows=int(method is not Method.BITNET),
        asymmetric=method is Method.HQQ,
    )
    if method is Method.FP8:
        return _fp8(name, wanted)
    double, asymmetric = found.double, found.asymmetric
    for word in wanted:
        if word == "double" and found.in_blocks:
            double = True
        elif word in {"sym", "asym"} and method is Method.PACKED:
            asymmetric = word == "asym"
        elif word == "channel" and method is Method.PACKED:
            group = 0
        elif method in _GROUPED and word in _SIZES:
            group = int(word)
        else:
            raise ValueError(f"{name!r}: {base} has no {word!r}")
    return replace(found, group=group, asymmetric=asymmetric, double=double)


_CALIBRATED: Final = ("gptq", "awq")
_NOT_ROUNDED: Final = "GPTQ and AWQ choose codes by sample texts, so rounding says nothing of them"
_SIZES: Final = frozenset({"16", "32", "64", "128", "256", "512", "1024", "2048", "4096"})


def _fp8(name: str, wanted: list[str]) -> Scheme:
    word = wanted[0] if wanted else "tensor"
    tall, by, wide = word.partition("x")
    if word in {"tensor", "channel"} and len(wanted) < 2:
        return Scheme(name, Method.FP8, 8, 0, rows=int(word == "channel"))
    if by and len(wanted) == 1 and tall in _SIZES and wide in _SIZES:
        return Scheme(name, Method.FP8, 8, int(wide), rows=int(tall))
    raise ValueError(
        f"{name!r}: fp8 is followed by tensor, channel, or the sides of a tile, 128x128"
    )
