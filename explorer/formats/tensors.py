"""Tensors: where their bytes lie and what they are, listed without an object for each.

A model may have 20,000 tensors. Its table keeps plain columns, which totals, sorting and filtering
read, and makes a `Tensor` on first use.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from explorer.errors import FormatError
from explorer.parallel import Check, never
from explorer.quantization.types import TensorType
from explorer.sources import ByteSource
from explorer.text import AtLeast

if TYPE_CHECKING:
    from explorer.formats.weights import Chunk, WeightReader
    from explorer.quantization.huggingface.layout import CompanionLayout


@dataclass(frozen=True, slots=True)
class Folding:
    """A shape as rows and columns: rows run along the last dimension.

    Rows are counted through all other dimensions.

    Attributes:
        shape: Lengths of the dimensions, outermost first; without any, it is one weight.
    """

    shape: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Length of the last dimension."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """Product of all other dimensions; 0 if a row would hold nothing."""
        return math.prod(self.shape[:-1]) if self.columns else 0

    def row_name(self, row: int) -> str:
        """Return a row's place in the dimensions that are folded: ``"3, 17"``."""
        leading = self.shape[:-1]
        if len(leading) < 2:
            return str(row)
        parts = []
        for length in reversed(leading):
            row, place = divmod(row, length)
            parts.append(str(place))
        return ", ".join(reversed(parts))

    def block_problem(self, kind: TensorType) -> str | None:
        """Return why weights of this shape cannot have a type; None if they can.

        A block never spans two rows.
        """
        columns, block = self.columns, kind.block_weights
        if columns % block == 0:
            return None
        return f"rows of {columns} weights are not a whole number of blocks of {block}"

    def place_of(self, numbers: tuple[int, ...]) -> tuple[int, int] | None:
        """Return the row and column of an index, or None if there is no such weight.

        Args:
            numbers: An index in all dimensions; or a folded row, or a folded row and a column.
        """
        if len(numbers) == len(self.shape) and len(self.shape) != 1:
            row = 0
            for number, length in zip(numbers[:-1], self.shape[:-1], strict=True):
                if not 0 <= number < length:
                    return None
                row = row * length + number
            place = row, numbers[-1]
        elif len(numbers) == 1:
            place = (0, numbers[0]) if len(self.shape) == 1 else (numbers[0], 0)
        elif len(numbers) == 2:
            place = numbers[0], numbers[1]
        else:
            return None
        return place if 0 <= place[0] < self.rows and 0 <= place[1] < self.columns else None


# "blk" (also v.blk, a.blk, enc.blk, dec.blk) is GGUF's word for a layer (docs/gguf.md, section 9);
# the others occur in Hugging Face models.
_LAYER: Final = re.compile(
    r"^(?P<stack>(?:.*?\.)?(?:blk|layers|layer|h|(?:[a-z]{1,20}_|res)?blocks|block))\.(?P<index>\d{1,9})\.(?P<rest>.+)$",
    re.DOTALL,
)
_SUFFIXES: Final = frozenset({"weight", "bias", "scale", "input_scale"})
_MAX_NAME = 512  # a longer name is no real one: it is one role of its own
_DIGITS: Final = re.compile(r"(\d{1,18})")


@dataclass(frozen=True, slots=True)
class TensorName:
    """The parts of a tensor's name."""

    stack: str  # prefix of the stack of layers ("blk", "v.blk", "model.layers"), or ""
    layer: int | None  # layer number within the stack, or None outside the layers
    role: str  # what the tensor does there ("attn_q"), without layer and suffix


@lru_cache(maxsize=32_768)
def is_matrix_shape(shape: Shape) -> bool:
    """Return whether a tensor has rows and columns; norms and biases have not."""
    return sum(length > 1 for length in shape) > 1


def parse_name(name: str) -> TensorName:
    """Parse a tensor's name; any text is accepted."""
    if len(name) > _MAX_NAME:
        return TensorName("", None, name)
    match = _LAYER.match(name)
    if match is None:
        return TensorName("", None, _without_suffix(name))
    return TensorName(match["stack"], int(match["index"]), _without_suffix(match["rest"]))


def _without_suffix(role: str) -> str:
    whole, _, suffix = role.rpartition(".")
    return whole if whole and suffix in _SUFFIXES else role


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key under which ``blk.2`` comes before ``blk.10``; case does not count."""
    parts = _DIGITS.split(text[:_MAX_NAME].casefold())
    return tuple(
        (1, int(part), "") if position % 2 else (0, 0, part) for position, part in enumerate(parts)
    )


Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """A run of bytes in one file.

    Attributes:
        source: The open file.
        offset: First byte, counted from the file's start.
        nbytes: Number of bytes.
    """

    source: ByteSource
    offset: int
    nbytes: int


class Spec(NamedTuple):
    """What a type and a shape amount to; tensors that agree in both share one."""

    type: TensorType
    shape: Shape  # row-major, outermost first
    parameters: int  # product of the shape; 0 if it overflows
    nbytes: int  # stored bytes; `AtLeast` if they are not known, or no file can hold them
    fault: str | None = None  # why no file can hold it, or its size is not known; else None


def bits_per_weight(nbytes: int, parameters: int) -> float:
    """Return the stored bits for each weight; 0.0 without weights, NaN of bytes not all known."""
    if isinstance(nbytes, AtLeast):
        return math.nan
    return 8 * nbytes / parameters if parameters else 0.0


@dataclass(frozen=True, slots=True)
class StoredArray:
    """One array as a file stores it: a part of a tensor that is made of several."""

    extent: Extent  # where its bytes lie
    type: TensorType  # its stored type: U32 for packed codes, BF16 or U8 for scales …
    shape: Shape  # its stored shape, outermost first


@dataclass(frozen=True, slots=True)
class CompanionWeights:
    """The parts of a quantized weight whose scales are tensors of their own.

    Those of methods of Hugging Face models: docs/hf_quantization.md; of MLX and Ollama:
    docs/safetensors_and_blobs.md, section 3.

    Attributes:
        layout: How parts make values.
        parts: Stored arrays by role (``"qweight"``, ``"scales"``), the codes first; the order of
            `Tensor.extents`.
        keys: The same by their names in the files.
        attached: Stored arrays of the module that are no part of the weight (scales of inputs and
            of the KV cache), by name.
    """

    layout: CompanionLayout
    parts: Mapping[str, StoredArray]
    keys: Mapping[str, str]
    attached: Mapping[str, StoredArray]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a model.

    Attributes:
        name: Its name, as decoded text.
        shape: Row-major, outermost first (a GGUF file stores the reverse). () is one element.
        type: How its weights are stored.
        extents: Where its bytes lie: one for a plain tensor, several for a weight with its scales.
        parameters: Number of weights, the product of `shape`.
        group: Name of the `TensorGroup` it belongs to, or None.
        damage: Why its bytes cannot all be read, or None.
        byte_order: ``"little"`` or ``"big"``: how its numbers of several bytes are stored.
        companions: Its parts, if it has scales in tensors of their own; then `extents` are theirs.
    """

    name: str
    shape: Shape
    type: TensorType
    extents: tuple[Extent, ...]
    parameters: int
    group: str | None = None
    damage: str | None = field(default=None)
    byte_order: Literal["little", "big"] = "little"
    companions: CompanionWeights | None = None

    @property
    def nbytes(self) -> int:
        """Stored bytes, scales included; those up to the next tensor if the type has no size."""
        return sum(extent.nbytes for extent in self.extents)

    @property
    def has_readable_parts(self) -> bool:
        """Whether it has parts, and what reads them."""
        return self.companions is not None and bool(self.companions.layout.reader)

    @property
    def scheme(self) -> str:
        """The method of Hugging Face models that quantized it; "" for none that is known."""
        return "" if self.companions is None else self.companions.layout.scheme

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight; see `bits_per_weight`."""
        return bits_per_weight(self.nbytes, self.parameters)

    @property
    def offset(self) -> int:
        """First byte of the tensor in its file."""
        return self.extents[0].offset

    @property
    def file(self) -> Path:
        return self.extents[0].source.path

    @property
    def parsed_name(self) -> TensorName:
        """Stack, layer and role by the name."""
        return parse_name(self.name)

    def read(self) -> bytes:
        """Return the stored bytes, extent after extent.

        Raises:
            FormatError: The tensor's size is unknown, or the file is damaged there.
            SourceError: The file changed since it was opened.
        """
        if self.damage is not None:
            raise FormatError(f"tensor {self.name!r}: {self.damage}", self.file, self.offset)
        return b"".join(extent.source.read(extent.offset, extent.nbytes) for extent in self.extents)

    def chunks(
        self, start: int = 0, stop: int | None = None, check: Check | None = None
    ) -> Iterator[Chunk]:
        """Yield the weights as float32, in order, in runs that fit into the processor's cache.

        Each chunk's arrays are overwritten by the chunk after it: copy what is to be kept.

        Args:
            start: Flat, row-major index of the first weight.
            stop: Behind the last weight; None for the tensor's end.
            check: Called before every chunk; raises to stop.

        Raises:
            FormatError: The file is damaged there, or the type's weights cannot be decoded.
            IndexError: The run leaves the tensor.
            SourceError: The file changed since it was opened.
        """
        stop = self.parameters if stop is None else stop
        yield from _reader(self).chunks(start, stop, check or never)

    def dequantize(self, check: Check | None = None) -> NDArray[np.float32]:
        """Return all weights as float32, in the tensor's shape; raises as `chunks` does."""
        reader = _reader(self)
        weights = np.empty(self.parameters, np.float32)
        reader.read_into(0, weights, check or never)
        return weights.reshape(self.shape)

    @property
    def stored_parts(self) -> Iterator[tuple[str, StoredArray, bool]]:
        """The stored arrays of a weight that is made of several; none of another one.

        Names in the files, the arrays, and whether each is only attached to the weight's module.
        """
        if self.companions is not None:
            parts, attached = self.companions.parts, self.companions.attached
            yield from ((self.companions.keys[role], one, False) for role, one in parts.items())
            yield from ((name, one, True) for name, one in attached.items())


def _reader(tensor: Tensor) -> WeightReader:
    from explorer.formats.weights import WeightReader  # noqa: PLC0415 - not needed for listing

    return WeightReader(tensor)


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors that belong together.

    Attributes:
        name: The group's name.
        kind: ``"quantized"``, ``"experts"``, ``"shared_experts"``, or ``"packed"`` (in one blob).
        tensors: Names of its tensors.
        nbytes: Their stored bytes.
        quant_type: Name of the quantization, if it is one and known.
        group_size: Weights that share a scale, if known.
    """

    name: str
    kind: str
    tensors: tuple[str, ...]
    nbytes: int
    quant_type: str | None = None
    group_size: int | None = None


@dataclass(frozen=True)
class TensorColumns:
    """The table of a model's tensors, a column for each field, in file order."""

    names: list[str] = field(default_factory=list)  # a damaged file may repeat one
    shapes: list[Shape] = field(default_factory=list)  # outermost dimension first
    types: list[TensorType] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)  # weights of each tensor
    nbytes: list[int] = field(default_factory=list)  # stored bytes; see `Tensor.nbytes`

    @classmethod
    def of(cls, names: list[str], tensors: Sequence[Spec | Tensor]) -> Self:
        """Return the columns of tensors, or of what their types and shapes amount to."""
        return cls(
            names=names,
            shapes=[tensor.shape for tensor in tensors],
            types=[tensor.type for tensor in tensors],
            parameters=[tensor.parameters for tensor in tensors],
            nbytes=[tensor.nbytes for tensor in tensors],
        )

    def __len__(self) -> int:
        return len(self.names)


def rows_by_name(names: Sequence[str]) -> dict[str, int]:
    """Return the row of each name; of two tensors with one name the first, as ggml would."""
    return dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))


@dataclass(frozen=True, slots=True)
class TypeShare:
    """How much of a model one tensor type takes."""

    name: str  # the tensor type
    tensors: int  # number of tensors
    parameters: int  # number of weights
    nbytes: int  # stored bytes
    share: float  # part of the model's stored bytes, 0 to 1


class TensorTable(Mapping[str, Tensor]):
    """A model's tensors by name, in file order; two of one name are both in `rows`.

    Attributes:
        columns: The plain columns that the tensors are made from.
        rows: Every tensor by its position.
        main_rows: How many rows are the model's own; those behind them belong to a draft model that
            comes with it, and do not count in totals.
        damage_of: Why the bytes of a row's tensor cannot all be read, or None; makes no tensor
            where the file knows without.
    """

    def __init__(
        self,
        columns: TensorColumns,
        build: Callable[[int], Tensor],
        main_rows: int | None = None,
        damage_of: Callable[[int], str | None] | None = None,
    ) -> None:
        self.columns = columns
        self.main_rows = len(columns) if main_rows is None else main_rows
        self.rows: Sequence[Tensor] = _Rows(len(columns), build)
        self.damage_of = damage_of or (lambda row: self.rows[row].damage)

    @cached_property
    def _index(self) -> dict[str, int]:
        return rows_by_name(self.columns.names)

    @cached_property
    def parameters(self) -> int:
        """Weights of all tensors together, a draft model's left out."""
        return sum(self.columns.parameters[: self.main_rows])

    @cached_property
    def nbytes(self) -> int:
        """Stored bytes of all tensors together, a draft model's left out."""
        return sum(self.columns.nbytes[: self.main_rows])

    @cached_property
    def totals_by_type(self) -> dict[str, TypeShare]:
        """Totals for each tensor type, the one with most bytes first; without a draft model's."""
        names = (kind.name for kind in islice(self.columns.types, self.main_rows))
        return {share.name: share for share in self.shares(names)}

    def shares(self, titles: Iterable[str]) -> list[TypeShare]:
        """Return what tensors of one title take together, most bytes first.

        Args:
            titles: Of each tensor, a draft model's left out.
        """
        columns, sums = self.columns, dict[str, tuple[int, int, int]]()
        for title, weights, size in zip(titles, columns.parameters, columns.nbytes, strict=False):
            tensors, parameters, nbytes = sums.get(title, (0, 0, 0))
            sums[title] = tensors + 1, parameters + weights, nbytes + size
        whole = self.nbytes or 1
        order = sorted(sums, key=lambda title: (-sums[title][2], title))
        return [TypeShare(title, *sums[title], sums[title][2] / whole) for title in order]

    def row_of(self, name: str) -> int | None:
        """Return the position of the first tensor of that name, or None."""
        return self._index.get(name)

    def __getitem__(self, name: str) -> Tensor:
        return self.rows[self._index[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self.columns.names))

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, name: object) -> bool:
        return name in self._index


class _Rows(Sequence[Tensor]):
    """Tensors by position, each made on first use and kept."""

    def __init__(self, count: int, build: Callable[[int], Tensor]) -> None:
        self._count = count
        self._build = build
        self._made: dict[int, Tensor] = {}

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        if isinstance(index, int) and index in self._made:
            return self._made[index]
        positions = range(self._count)[index]
        if isinstance(positions, range):
            return [self[i] for i in positions]
        tensor = self._made.get(positions)  # an index from the end
        if tensor is None:
            tensor = self._made[positions] = self._build(positions)
        return tensor

    def __len__(self) -> int:
        return self._count


@dataclass(kw_only=True)
class FileTensors:
    """The tensors of one file, as its header lists them."""

    source: ByteSource  # the file
    data_offset: int = 0  # first byte of the tensor data
    names: list[str] = field(default_factory=list)  # names of the tensors, in the header's order
    specs: list[Spec] = field(default_factory=list)  # type, shape and size of each
    begins: list[int] = field(default_factory=list)  # first byte of each, from `data_offset` on
    damage: dict[int, str] = field(default_factory=dict)  # that spec and file size do not show
    byte_order: Literal["little", "big"] = "little"

    @property
    def available(self) -> int:
        left = self.source.size - self.data_offset
        return left if left > 0 else 0  # `max` takes as long as all the rest

    def damage_of(self, row: int) -> str | None:
        """Return why the bytes of a tensor cannot all be read, or None."""
        _, _, _, nbytes, fault = self.specs[row]
        missing = min(nbytes, self.begins[row] + nbytes - self.available)
        cut = f"cut short: the last {missing:,} bytes are not in the file" if missing > 0 else None
        return self.damage.get(row) or fault or cut

    def extent(self, row: int) -> Extent:
        """Return where the bytes of a tensor lie."""
        return Extent(self.source, self.data_offset + self.begins[row], self.specs[row].nbytes)

    def read(self, row: int) -> bytes:
        """Return the stored bytes of a tensor; many small ones are read of some models.

        Raises:
            FormatError: The file is damaged there.
            SourceError: They cannot be read.
        """
        damage, start = self.damage_of(row), self.data_offset + self.begins[row]
        if damage is not None:
            raise FormatError(f"tensor {self.names[row]!r}: {damage}", self.source.path, start)
        return self.source.read(start, self.specs[row].nbytes)

    def tensor(self, row: int) -> Tensor:
        """Return a tensor as the file stores it."""
        spec = self.specs[row]
        return Tensor(
            name=self.names[row],
            shape=spec.shape,
            type=spec.type,
            extents=(self.extent(row),),
            parameters=spec.parameters,
            damage=self.damage_of(row),
            byte_order=self.byte_order,
        )


F = TypeVar("F", bound=FileTensors)


def places_in(files: Sequence[F]) -> Callable[[int], tuple[F, int]]:
    """Return what finds the file of a row of all their tensors, and its row in that file."""
    first_rows = list(accumulate((len(file.names) for file in files), initial=0))

    def place(row: int) -> tuple[F, int]:
        # the last file whose first row is not above: a file without tensors is skipped
        index = bisect_right(first_rows, row) - 1
        return files[index], row - first_rows[index]

    return place


def table_of(files: Sequence[FileTensors]) -> TensorTable:
    """Return the table of all tensors of some files, in order."""
    names = [name for file in files for name in file.names]
    columns = TensorColumns.of(names, [spec for file in files for spec in file.specs])
    place = places_in(files)

    def build(row: int) -> Tensor:
        file, own = place(row)
        return file.tensor(own)

    def damage_of(row: int) -> str | None:
        file, own = place(row)
        return file.damage_of(own)

    return TensorTable(columns, build, damage_of=damage_of)
