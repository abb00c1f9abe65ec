"""The noun of the program: what one opens, whatever format it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from explorer.formats.metadata import Metadata
from explorer.formats.tensors import TensorGroup, TensorTable
from explorer.sources import ByteSource


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
    """One file of a model, and where its parts lie.

    Attributes:
        source: The open file.
        header_bytes: Bytes before the first byte of tensor data, padding included.
        table_offset: First byte of the tensor table (GGUF), or of the header's text (safetensors).
        record_offsets: First byte of each tensor's record in the header (GGUF), in table order.
        table_end: First byte behind the tensor table.
        first_tensor: Row of the file's first tensor in the model's table.
        version: Version of the format (GGUF), or None. Shards may differ.
        byte_order: ``"little"`` or ``"big"``.
        alignment: Alignment of tensor data in bytes.
    """

    source: ByteSource
    header_bytes: int
    table_offset: int = 0
    record_offsets: Sequence[int] = ()
    table_end: int = 0
    first_tensor: int = 0
    version: int | None = None
    byte_order: Literal["little", "big"] = "little"
    alignment: int = 1

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.source.path


@dataclass(frozen=True)
class Model:
    """A model's header: what it is and what it holds. Weights are read by its tensors.

    A context manager: leaving it closes the files.

    Attributes:
        format: ``"gguf"``, ``"safetensors"`` or ``"ollama"``.
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
        projector: The file of its vision or audio projector, where an Ollama manifest names one.
    """

    format: Literal["gguf", "safetensors", "ollama"]
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
        """Stored bits for each weight, over the whole model; 0.0 if it has none."""
        return 8 * self.nbytes / self.parameters if self.parameters else 0.0

    @cached_property
    def architecture(self) -> str | None:
        """The architecture's name, as the file gives it."""
        return (
            self.metadata.text("general.architecture")
            or _text(self.config, "model_type")
            or self.metadata.text("model_index.architecture")
        )

    @cached_property
    def name(self) -> str | None:
        """The model's own name, if it carries one; else what the store calls it."""
        return (
            self.metadata.text("general.name")
            or _text(self.config, "_name_or_path")
            or self.metadata.text("ollama.name")
        )

    def close(self) -> None:
        """Close the files. Metadata and tensors already decoded stay usable."""
        for file in self.files:
            file.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _text(config: Mapping[str, Any], key: str) -> str | None:
    value = config.get(key)
    return value if isinstance(value, str) and value else None
