"""A model: its files, metadata, tensors, groups and problems, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from explorer.formats.tensors import Spec, TensorGroup, TensorTable, bits_per_weight
from explorer.sources import ByteSource

if TYPE_CHECKING:
    from explorer.formats.quantized.declaration import Declaration

Scalar: TypeAlias = int | float | bool | str
Value: TypeAlias = "Scalar | Sequence[Value]"


class StringArray(Sequence[str]):
    """Strings of an array, kept as one run of bytes and their positions in it.

    Attributes:
        starts: Position of each string's first byte in the run, int64 [n].
        lengths: Bytes of each string, int64 [n].
    """

    def __init__(self, blob: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        self._blob = blob
        self.starts = starts
        self.lengths = lengths

    def raw(self, index: int) -> bytes:
        """Return the bytes of one string as stored; real tokens need not be valid UTF-8."""
        start = int(self.starts[index])
        return self._blob[start : start + int(self.lengths[index])]

    def to_list(self) -> list[str]:
        """Decode every string at once; as indexing does, but several times faster."""
        blob = self._blob
        stops = (self.starts + self.lengths).tolist()
        return [
            str(blob[start:stop], "utf-8", "surrogateescape")
            for start, stop in zip(self.starts.tolist(), stops, strict=True)
        ]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [decode_text(self.raw(i)) for i in range(*index.indices(len(self)))]
        return decode_text(self.raw(index))

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())


class NumberArray(Sequence[int | float | bool]):
    """Numbers of an array; items are Python numbers.

    Attributes:
        values: The numbers in native byte order, [n] of the file's element type.
    """

    def __init__(self, values: NDArray[np.generic]) -> None:
        self.values = values

    @overload
    def __getitem__(self, index: int) -> int | float | bool: ...
    @overload
    def __getitem__(self, index: slice) -> list[int | float | bool]: ...
    def __getitem__(self, index: int | slice) -> int | float | bool | list[int | float | bool]:
        result: int | float | bool | list[int | float | bool] = self.values[index].tolist()
        return result

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[int | float | bool]:
        return iter(self.values.tolist())


@dataclass(frozen=True)
class MetadataEntry:
    """One key of the metadata.

    A large value stays on disk until it is first read: a vocabulary of 262,144 tokens is most of a
    header's bytes, and decoding it takes the `gguf` package 9 s.

    Attributes:
        key: The key, as decoded text (see `decode_text`).
        type_name: ``"uint32"``, ``"string"``, ``"array[string]"``, ``"array[array[int32]]"`` …
        length: Number of elements of an array, else None.
        offset: First byte of the entry in its file; -1 where the format has no such place.
        value_offset: First byte of the value.
        end: First byte behind the value.
        file_index: Which of the model's files holds the entry.
    """

    key: str
    type_name: str
    length: int | None
    load: Callable[[], Value] = field(repr=False, compare=False)
    offset: int = -1
    value_offset: int = -1
    end: int = -1
    file_index: int = 0

    @cached_property
    def value(self) -> Value:
        """The value; a large one is read and decoded on first access.

        Raises:
            ExplorerError: The file changed since it was opened, or the value is too large.
        """
        return self.load()


def constant(value: Value) -> Callable[[], Value]:
    """Return what loads a value that is in memory."""
    return lambda: value


def loaded_entry(key: str, type_name: str, value: Value, file_index: int = 0) -> MetadataEntry:
    """Return a metadata entry whose value is in memory.

    Args:
        key: Its key.
        type_name: Its type, as docs/interface.md calls it: ``"string"``, ``"array[uint32]"`` …
        value: Its value; an array is a list.
        file_index: Position in `Model.files` of the file that it is from.
    """
    length = len(value) if type_name.startswith("array") and isinstance(value, list) else None
    return MetadataEntry(key, type_name, length, constant(value), file_index=file_index)


class Metadata(Mapping[str, Value]):
    """Keys and values in file order.

    Attributes:
        entries: Every entry, also one whose key occurs twice; a look-up by key finds the first.
    """

    def __init__(self, entries: Sequence[MetadataEntry] = ()) -> None:
        self.entries = tuple(entries)
        self._by_key: dict[str, MetadataEntry] = {}
        for entry in self.entries:
            self._by_key.setdefault(entry.key, entry)

    def entry(self, key: str) -> MetadataEntry | None:
        """Return the entry of a key without reading its value, or None."""
        return self._by_key.get(key)

    def text(self, key: str) -> str | None:
        """Return a value if it is a string."""
        entry = self._by_key.get(key)
        return entry.value if entry is not None and isinstance(entry.value, str) else None

    def integer(self, key: str) -> int | None:
        """Return a value if it is an integer (a Boolean is not)."""
        entry = self._by_key.get(key)
        if entry is None or entry.length is not None or entry.type_name == "string":
            return None  # without reading it: it may be long
        if isinstance(entry.value, bool):
            return None
        return entry.value if isinstance(entry.value, int) else None

    def __getitem__(self, key: str) -> Value:
        return self._by_key[key].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)


def decode_text(raw: bytes) -> str:
    """Decode UTF-8 without loss: a byte that is not valid becomes a lone surrogate (PEP 383)."""
    return raw.decode("utf-8", "surrogateescape")


class Severity(StrEnum):
    """How much a problem matters."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong that did not keep the model from opening.

    Attributes:
        severity: ERROR if data is lost or wrong, WARNING if only the rules are broken.
        where: The file, key or tensor at fault.
        what: One sentence.
    """

    severity: Severity
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model, and where its parts lie."""

    source: ByteSource  # the open file
    header_bytes: int  # bytes before the first byte of tensor data, padding included
    table_offset: int = 0  # of the tensor table (GGUF) or the text of the header (safetensors)
    record_offsets: Sequence[int] = ()  # first byte of each tensor's record (GGUF), in table order
    table_end: int = 0  # first byte behind the tensor table
    first_tensor: int = 0  # row of its first tensor in the model's table (GGUF)
    version: int | None = None  # of the format (GGUF), or None; shards may differ
    byte_order: Literal["little", "big"] = "little"
    alignment: int = 1  # of tensor data, in bytes

    @property
    def path(self) -> Path:
        return self.source.path


@dataclass(frozen=True, eq=False)
class Model:
    """A model's header: what it is and what it holds. Weights are read by its tensors.

    A context manager: leaving it closes the files.

    Attributes:
        format: ``"gguf"``, ``"safetensors"``, ``"ollama"``, or ``"imatrix"``: an importance matrix
            of older llama.cpp.
        path: What was opened.
        files: The files it is made of, in shard order.
        metadata: Keys and values.
        tensors: The tensors by name.
        groups: Tensors that belong together.
        problems: What is wrong with it.
        config: Parsed ``config.json`` of a Hugging Face model; empty otherwise.
        version: Version of the format (GGUF) of its first file, or None.
        byte_order: ``"little"`` or ``"big"``, of its first file.
        alignment: Alignment of tensor data in bytes (GGUF), or None.
        declared: What a folder of safetensors says about its quantization; None of another model.
        projector: The file of its vision or audio projector, where an Ollama manifest names one.
        stored: Names and types of the tensors of safetensors as their files have them; None of
            another model.
        layer_bytes: Bytes of the tensor layers of an Ollama manifest; one named twice counts twice.
    """

    format: Literal["gguf", "safetensors", "ollama", "imatrix"]
    path: Path
    files: tuple[ModelFile, ...]
    metadata: Metadata
    tensors: TensorTable
    groups: Sequence[TensorGroup] = ()
    problems: tuple[Problem, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    byte_order: Literal["little", "big"] = "little"
    alignment: int | None = None
    projector: Path | None = None
    declared: Declaration | None = None
    stored: tuple[Sequence[str], Sequence[Spec]] | None = None
    layer_bytes: int = 0

    @property
    def data_offset(self) -> int | None:
        """First byte of tensor data in the first file, or None if there is no file."""
        return self.files[0].header_bytes if self.files else None

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.tensors.parameters

    @property
    def nbytes(self) -> int:
        """Stored bytes of all tensors, without headers and padding."""
        return self.tensors.nbytes

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight, over the whole model; see `tensors.bits_per_weight`."""
        return bits_per_weight(self.nbytes, self.parameters)

    @property
    def damage(self) -> Problem | None:
        """Why it cannot be loaded as it is, though it can be looked at; None if it can."""
        return next((one for one in self.problems if one.severity is Severity.ERROR), None)

    @cached_property
    def architecture(self) -> str | None:
        """The architecture's name, as the file gives it."""
        return self._first_text("general.architecture", "model_type", "model_index.architecture")

    @cached_property
    def name(self) -> str | None:
        """The model's own name, if it carries one; else what the store calls it."""
        return self._first_text("general.name", "_name_or_path", "ollama.name")

    def _first_text(self, key: str, field_name: str, other_key: str) -> str | None:
        value = self.config.get(field_name)
        text = value if isinstance(value, str) else None
        return self.metadata.text(key) or text or self.metadata.text(other_key)

    def close(self) -> None:
        """Close the files. Metadata and tensors already decoded stay usable."""
        for file in self.files:
            file.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_MOST = 200

T = TypeVar("T")


@dataclass
class ProblemLog:
    """Collects problems; beyond the first 200 it only counts."""

    _problems: list[Problem] = field(default_factory=list)
    _left_out: int = 0

    def add_error(self, where: str, what: str) -> None:
        """Note that data is lost or wrong."""
        self._add(Severity.ERROR, where, what)

    def add_warning(self, where: str, what: str) -> None:
        """Note that rules are broken."""
        self._add(Severity.WARNING, where, what)

    def _add(self, severity: Severity, where: str, what: str) -> None:
        if len(self._problems) < _MOST:
            self._problems.append(Problem(severity, where, what))
        else:
            self._left_out += 1

    def extend(self, problems: Sequence[Problem]) -> None:
        """Note problems as they are."""
        self._problems += self.first(problems)

    def first(self, faults: Sequence[T]) -> Sequence[T]:
        """Return as many of the faults as there is room for; the others are only counted."""
        room = _MOST - len(self._problems)
        self._left_out += max(0, len(faults) - room)
        return faults[:room]

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems, and how many more there were."""
        if not self._left_out:
            return tuple(self._problems)
        more = Problem(Severity.ERROR, "", f"{self._left_out} more problems are not listed")
        return (*self._problems, more)
