"""From tensor records to a table of tensors, with every size and place checked.

ggml accepts tensors only one behind the other; the specification asks for aligned offsets and
nothing else (gguf.md section 2), and files with gaps or another order exist. So order and gaps pass,
while misalignment, overlap and data beyond the end of the file are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.formats.gguf_header import GgufHeader, TensorRecord
from explorer.formats.model import Problem, Severity
from explorer.formats.problems import ProblemLog
from explorer.formats.tensors import Extent, Tensor, TensorColumns, TensorTable
from explorer.quantization import TensorType, ggml_type
from explorer.sources import ByteSource

_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a model with its header."""

    source: ByteSource
    header: GgufHeader


@dataclass(frozen=True, slots=True)
class _Size:
    """What a type and dimensions amount to.

    Attributes:
        type: The tensor type.
        parameters: Product of the dimensions.
        nbytes: Stored bytes; 0 where they cannot be told.
        fault: Why they cannot be told, or None.
    """

    type: TensorType
    parameters: int
    nbytes: int
    fault: str | None


def _size_of(dims: tuple[int, ...], type_id: int) -> _Size:
    kind = ggml_type(type_id)
    parameters = 1
    for count in dims:
        parameters *= count
        if count > _INT64_MAX or parameters > _INT64_MAX:
            return _Size(kind, 0, 0, f"dimensions {list(dims)} overflow 63 bits")
    if not kind.known:
        return _Size(kind, parameters, 0, f"type {kind.name}: its size is not known")
    row = dims[0] if dims else 1
    nbytes = kind.nbytes(parameters)
    if row % kind.block_weights or nbytes is None:
        fault = f"rows of {row} weights do not fill blocks of {kind.block_weights} ({kind.name})"
        return _Size(kind, parameters, 0, fault)
    if nbytes > _INT64_MAX:
        return _Size(kind, parameters, 0, f"{nbytes} bytes overflow 63 bits")
    return _Size(kind, parameters, nbytes, None)


@dataclass
class TableBuilder:
    """Collects the tensors of a model's files.

    Attributes:
        shards: The files that were read, in order.
        log: Where problems go.
        columns: The table so far.
        damage: Row → why the tensor's bytes cannot all be read.
    """

    shards: Sequence[Shard]
    log: ProblemLog
    columns: TensorColumns = field(default_factory=TensorColumns)
    damage: dict[int, str] = field(default_factory=dict)

    def build(self) -> TensorTable:
        """Check every record and return the table."""
        # Layers repeat their shapes: few sizes are worked out however many tensors there are.
        sizes: dict[tuple[tuple[int, ...], int], _Size] = {}
        records: list[TensorRecord] = []
        owners: list[Shard] = []
        for shard in self.shards:
            first = len(records)
            self._add(shard, first, sizes)
            self._check_places(shard, first)
            records += shard.header.records
            owners += [shard] * len(shard.header.records)
        self._check_names()
        columns, damage = self.columns, self.damage

        def build(row: int) -> Tensor:
            record, owner = records[row], owners[row]
            offset = owner.header.data_offset + record.data_offset
            return Tensor(
                name=record.name,
                shape=record.dims[::-1],
                type=columns.types[row],
                extents=(Extent(owner.source, offset, columns.nbytes[row]),),
                parameters=columns.parameters[row],
                damage=damage.get(row),
            )

        return TensorTable(columns, build)

    def _add(
        self, shard: Shard, first: int, sizes: dict[tuple[tuple[int, ...], int], _Size]
    ) -> None:
        columns = self.columns
        for row, record in enumerate(shard.header.records, first):
            key = (record.dims, record.type_id)
            size = sizes.get(key)
            if size is None:
                size = sizes[key] = _size_of(*key)
            columns.names.append(record.name)
            columns.types.append(size.type)
            columns.parameters.append(size.parameters)
            columns.nbytes.append(size.nbytes)
            if size.fault is not None:
                self.damage[row] = size.fault
                known = size.type.known
                self.log.add(Severity.ERROR if known else Severity.WARNING, record.name, size.fault)

    def _check_places(self, shard: Shard, first: int) -> None:
        """Check alignment, overlap and the end of the file, on arrays: there may be many tensors."""
        header = shard.header
        records = header.records
        if not records:
            return
        # beyond any file, so that sums stay within 64 bits
        offsets = np.array([min(r.data_offset, 1 << 61) for r in records], dtype=np.int64)
        nbytes = np.array([min(n, 1 << 61) for n in self.columns.nbytes[first:]], dtype=np.int64)
        ends = offsets + nbytes
        for row in np.flatnonzero(offsets % header.alignment):
            self.log.add(
                Severity.WARNING,
                records[row].name,
                f"offset {records[row].data_offset} is not a multiple of the alignment "
                f"{header.alignment}",
            )
        self._check_end(shard, first, ends)
        filled = np.flatnonzero(nbytes)
        order = filled[np.argsort(offsets[filled], kind="stable")]
        reach = np.maximum.accumulate(ends[order])
        for place in np.flatnonzero(offsets[order[1:]] < reach[:-1]):
            earlier = order[int(np.argmax(ends[order[: place + 1]]))]
            self.log.add(
                Severity.WARNING,
                records[order[place + 1]].name,
                f"shares bytes with tensor {records[earlier].name!r}",
            )

    def _check_end(self, shard: Shard, first: int, ends: np.ndarray) -> None:
        available = shard.source.size - shard.header.data_offset
        cut = np.flatnonzero(ends > available)
        if not len(cut):
            return
        for row in cut:
            missing = int(ends[row]) - available
            self.damage.setdefault(
                first + int(row), f"cut short: the last {missing} bytes are not in the file"
            )
        names = ", ".join(repr(shard.header.records[row].name) for row in cut[:3])
        self.log.add(
            Severity.ERROR,
            shard.source.path.name,
            f"the file is cut short: {int(ends.max()) - available} bytes are missing, "
            f"{len(cut)} of {len(ends)} tensors are incomplete ({names}"
            f"{', …' if len(cut) > 3 else ''}); download it again",
        )

    def _check_names(self) -> None:
        names = self.columns.names
        if len(set(names)) == len(names):
            return
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self.log.add(Severity.ERROR, name, "the tensor name occurs more than once")
            seen.add(name)


def header_problems(shard: Shard, log: ProblemLog) -> None:
    """Put what a header's reader noticed into the log."""
    for where, what in shard.header.warnings:
        log.add(Severity.WARNING, where, what)


__all__ = ["Problem", "Shard", "TableBuilder", "header_problems"]
