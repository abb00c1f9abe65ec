"""Open a GGUF model: one file, or the shards of a split one.

Shards are named `<prefix>-00001-of-00003.gguf` and numbered from 0 in their `split.no` key (gguf.md
section 4). llama.cpp opens the first shard only and refuses the model when one is missing. Here any
shard opens the whole, and a missing or damaged one is a problem of the model, not its end.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.errors import ExplorerError, system_reason
from explorer.formats.gguf.arrays import Places
from explorer.formats.gguf.header import GgufHeader, read_header
from explorer.formats.gguf.records import RecordTable, quoted
from explorer.formats.limits import MAX_DIMENSIONS
from explorer.formats.model import Metadata, Model, ModelFile, ProblemLog, Severity
from explorer.formats.side_files import hub_cache, leads_out
from explorer.formats.tensors import Extent, Shape, Tensor, TensorTable
from explorer.quantization import GGML_TYPES, TensorType, ggml_type
from explorer.sources import ByteSource, FileSource

# From tensor records to a table of tensors, with every size and place checked.
#
# ggml accepts tensors only one behind the other; the specification asks for aligned offsets and
# nothing else (gguf.md section 2), and files with gaps or another order exist. So order and gaps
# pass, while misalignment, overlap and data beyond the end of the file are named.


_INT64_MAX: Final = (1 << 63) - 1
_SURELY_FITS: Final = float(1 << 58)  # so many weights, of at most 8 bytes each, rounding included


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


class RecordColumns:
    """What the records of all tensors amount to; see `TensorColumns`.

    Every size is worked out on arrays, because there may be many tensors; only products that might
    not fit into 63 bits, and types that do not exist, are looked at one by one. Python objects are
    made of a column when it is first looked at.

    Attributes:
        odd: Rows whose size cannot be told, int64 [m].
        stored_bytes: Stored bytes, int64 [n]; 0 where they cannot be told.
    """

    def __init__(self, records: RecordTable) -> None:
        self._records = records
        ids = np.minimum(records.type_ids, len(_TYPES) - 1)
        large = _large(records.dims)
        dims = records.dims
        if len(large):
            dims = dims.copy()
            dims[:, large] = 0
        weights = dims.prod(axis=0).astype(np.int64)
        rows = dims[0].astype(np.int64)
        block = _BLOCK_WEIGHTS[ids]
        divisor = np.maximum(block, 1)
        odd = (block == 0) | (rows % divisor != 0)
        nbytes = weights // divisor * _BLOCK_BYTES[ids]
        nbytes[odd] = 0
        for row in large.tolist():
            record = records[row]
            size = _size_of(record.dims, record.type_id)
            weights[row], nbytes[row] = size.parameters, size.nbytes
            odd[row] = size.fault is not None
        self.odd: Places = np.flatnonzero(odd)
        self.stored_bytes: NDArray[np.int64] = nbytes
        self._ids, self._weights = ids, weights

    @property
    def names(self) -> list[str]:
        """Decoded names."""
        return self._records.names.listed

    @cached_property
    def shapes(self) -> list[Shape]:
        """Shapes, outermost first."""
        records = self._records
        by_rank = [
            list(zip(*records.dims[:rank].tolist()[::-1], strict=True))
            for rank in range(1, MAX_DIMENSIONS + 1)
        ]
        return [
            by_rank[rank - 1][row] if rank else ()
            for row, rank in enumerate(records.ranks.tolist())
        ]

    @cached_property
    def types(self) -> list[TensorType]:
        """Tensor types."""
        types: list[TensorType] = _TYPE_OBJECTS[self._ids].tolist()
        for row in np.flatnonzero(self._ids == len(_TYPES) - 1).tolist():
            types[row] = ggml_type(int(self._records.type_ids[row]))
        return types

    @cached_property
    def parameters(self) -> list[int]:
        """Products of the dimensions; 0 where they overflow."""
        parameters: list[int] = self._weights.tolist()
        return parameters

    @cached_property
    def nbytes(self) -> list[int]:
        """Stored bytes; 0 where they cannot be told."""
        nbytes: list[int] = self.stored_bytes.tolist()
        return nbytes

    def __len__(self) -> int:
        return len(self._records)


# Types by id, and behind the last one a type of unknown size.
_TYPES: Final = [ggml_type(i) for i in range(max(GGML_TYPES) + 2)]
_TYPE_OBJECTS: Final = np.array(_TYPES, dtype=object)
_BLOCK_WEIGHTS: Final = np.array([kind.block_weights for kind in _TYPES], dtype=np.int64)
_BLOCK_BYTES: Final = np.array([kind.block_bytes for kind in _TYPES], dtype=np.int64)


def _large(dims: NDArray[np.uint64]) -> Places:
    """Return the rows whose weights might not fit into 63 bits, int64 [m].

    Empty dimensions count as if they had one element, so that an overflow before a zero is seen.
    """
    most = dims.max(axis=1, initial=1)
    if math.prod(most.tolist()) < _SURELY_FITS:  # as in every real model
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.maximum(dims, 1).astype(np.float64).prod(axis=0) >= _SURELY_FITS)


class TableBuilder:
    """Makes the table of tensors of a model's files, and checks it.

    Attributes:
        shards: The files that were read, in order.
        log: Where problems go.
    """

    def __init__(self, shards: Sequence[Shard], log: ProblemLog) -> None:
        self.shards = shards
        self.log = log
        self._records = RecordTable.gathered([run for shard in shards for run in shard.header.runs])
        counts = [shard.header.tensor_count for shard in shards]
        self._owners = np.repeat(np.arange(len(shards)), counts)

    def build(self) -> TensorTable:
        """Check every record and return the table."""
        records, shards, owners = self._records, self.shards, self._owners
        columns = RecordColumns(records)
        for row in self.log.first(columns.odd).tolist():
            fault = _size_of(records[row].dims, records[row].type_id).fault
            known = ggml_type(int(records.type_ids[row])).known
            severity = Severity.ERROR if known else Severity.WARNING
            self.log.add(severity, records.names[row], fault or "")
        self._check_places(columns.stored_bytes)
        self._check_names()

        # not the shards, which hold the bytes of their records once more
        homes = [
            (shard.source, shard.header.data_offset, shard.header.layout.order) for shard in shards
        ]

        def build(row: int) -> Tensor:
            record = records[row]
            source, start, order = homes[owners[row]]
            size = _size_of(record.dims, record.type_id)
            offset = start + record.data_offset
            missing = record.data_offset + size.nbytes - max(0, source.size - start)
            cut = (
                f"cut short: the last {missing} bytes are not in the file" if missing > 0 else None
            )
            return Tensor(
                name=record.name,
                shape=record.dims[::-1],
                type=size.type,
                extents=(Extent(source, offset, size.nbytes),),
                parameters=size.parameters,
                damage=size.fault or cut,
                byte_order=order,
            )

        return TensorTable(columns, build)

    def _check_places(self, nbytes: NDArray[np.int64]) -> None:
        """Check alignment, overlap and the end of the files."""
        if not self.shards:
            return
        records, owners = self._records, self._owners
        alignment = np.array([shard.header.alignment for shard in self.shards], dtype=np.uint64)
        crooked = np.flatnonzero(records.data_offsets % alignment[owners])
        for row in self.log.first(crooked).tolist():
            self.log.add(
                Severity.WARNING,
                records.names[row],
                f"offset {records.data_offsets[row]} is not a multiple of the alignment "
                f"{alignment[owners[row]]}",
            )
        # beyond any file, so that sums stay within 64 bits
        offsets = np.minimum(records.data_offsets, 1 << 61).astype(np.int64)
        ends = offsets + np.minimum(nbytes, 1 << 61)
        available = np.array([_available(shard) for shard in self.shards], dtype=np.int64)
        cut = np.flatnonzero(ends > available[owners])
        for owner in np.unique(owners[cut]).tolist():
            self._tell_cut(self.shards[owner], cut[owners[cut] == owner], offsets, ends)
        self._check_overlap(np.flatnonzero(nbytes), offsets, ends)

    def _tell_cut(self, shard: Shard, rows: Places, offsets: Places, ends: Places) -> None:
        available = _available(shard)
        names = self._records.names
        listed = ", ".join(quoted(names[row]) for row in rows[:3].tolist())
        listed += ", …" if len(rows) > 3 else ""
        total = shard.header.tensor_count
        beyond = int((offsets[rows] > available).sum())
        what = (
            f"the file is cut short: {int(ends[rows].max()) - available} bytes are missing, "
            f"{len(rows)} of {total} tensors are incomplete ({listed})"
        )
        if beyond:
            what += f", {beyond} of them lie wholly behind the end"
        self.log.add(Severity.ERROR, shard.source.path.name, f"{what}; download it again")

    def _check_overlap(self, filled: Places, offsets: Places, ends: Places) -> None:
        """Find tensors that share bytes; `filled` are the rows that have any."""
        owners = self._owners[filled]
        starts, stops = offsets[filled], ends[filled]
        apart = (owners[1:] != owners[:-1]) | (starts[1:] >= stops[:-1])
        if apart.all():  # the usual order, one behind the other
            return
        for owner in range(len(self.shards)):
            rows = filled[owners == owner]
            rows = rows[np.argsort(offsets[rows], kind="stable")]
            reach = np.maximum.accumulate(ends[rows])
            # of each row, the last one up to it that reaches farthest
            farthest = np.maximum.accumulate(np.where(ends[rows] == reach, np.arange(len(rows)), 0))
            shared = np.flatnonzero(offsets[rows[1:]] < reach[:-1])
            for place in self.log.first(shared).tolist():
                self.log.add(
                    Severity.WARNING,
                    self._records.names[rows[place + 1]],
                    "shares bytes with tensor "
                    + quoted(self._records.names[rows[farthest[place]]]),
                )

    def _check_names(self) -> None:
        for name in self.log.first(self._records.names.repeated()):
            self.log.add(Severity.ERROR, name, "the tensor name occurs more than once")


def _available(shard: Shard) -> int:
    """Return the bytes that the file has for tensors."""
    return max(0, shard.source.size - shard.header.data_offset)


def header_problems(shard: Shard, log: ProblemLog) -> None:
    """Put what a header's reader noticed into the log."""
    for where, what in shard.header.warnings:
        log.add(Severity.WARNING, where, what)


_SHARD_NAME: Final = re.compile(r"^(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


def open_gguf(path: Path, others: Sequence[Path] = ()) -> Model:
    """Open a GGUF file and, if it is a shard, its siblings.

    Args:
        path: The file.
        others: The shards behind it, in order, where file names do not tell them: in a store they
            are digests.

    Raises:
        FormatError: The file is not GGUF, or its header is damaged.
        SourceError: It cannot be read.
    """
    log = ProblemLog()
    shards: list[Shard] = []
    try:
        opened = _open_shard(path)
        shards.append(opened)
        siblings = [path, *others] if others else _siblings(path, log)
        if siblings:
            shards = _open_siblings(opened, siblings, shards, log)
            _check_split(shards, log)
        else:
            _check_alone(opened, log)
        return _assemble(path, opened, shards, log)
    except ExplorerError:
        for shard in shards:
            shard.source.close()
        raise


def _open_shard(path: Path, file_index: int = 0) -> Shard:
    source = FileSource(path)
    try:
        return Shard(source, read_header(source, file_index))
    except ExplorerError:
        source.close()
        raise


def _siblings(path: Path, log: ProblemLog) -> list[Path]:
    """Return the paths of all shards that are there, by the name's numbering; [] if not split."""
    match = _SHARD_NAME.match(path.name)
    if match is None:
        return []
    count = int(match["count"])
    try:
        present = set(os.listdir(path.parent))
    except OSError as error:
        what = f"the folder cannot be listed: {system_reason(error)}"
        log.add(Severity.WARNING, str(path.parent), what)
        present = {path.name}
    names = [
        f"{match['prefix']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)
    ]
    missing = [name for name in names if name not in present]
    if missing:
        listed = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
        log.add(
            Severity.ERROR,
            path.name,
            f"{len(missing)} of {count} shards are missing: {listed}; "
            "put them into the same folder",
        )
    found = [path.with_name(name) for name in names if name in present]
    cache = hub_cache(path.parent)
    if cache is not None:
        for sibling in [other for other in found if leads_out(other, path.parent, cache)]:
            found.remove(sibling)
            what = "is a link out of the cache; it is not opened"
            log.add(Severity.ERROR, sibling.name, what)
    return found if path in found else [path, *found]


def _open_siblings(
    opened: Shard, siblings: list[Path], shards: list[Shard], log: ProblemLog
) -> list[Shard]:
    """Open the other shards; return all in order. `shards` grows, for closing on failure."""
    ordered: list[Shard] = []
    for sibling in siblings:
        if sibling == opened.source.path:
            ordered.append(opened)
            continue
        try:
            shard = _open_shard(sibling, len(ordered))
        except ExplorerError as error:
            log.add(Severity.ERROR, sibling.name, f"{error.what} {error.where}".rstrip())
            continue
        shards.append(shard)
        ordered.append(shard)
    return ordered


def _check_alone(shard: Shard, log: ProblemLog) -> None:
    """A shard under another name cannot find its siblings: say that they are missing."""
    count = Metadata(shard.header.entries).integer("split.count")
    if count is not None and count > 1:
        log.add(
            Severity.ERROR,
            shard.source.path.name,
            f"is only 1 of {count} shards; give all of them names like "
            f"model-00001-of-{count:05d}.gguf to open the whole model",
        )


def _check_split(shards: list[Shard], log: ProblemLog) -> None:
    """Compare what the names say with the split keys, docs/gguf.md, section 4."""
    declared_tensors = None
    expected = 0
    for shard in shards:
        keys = Metadata(shard.header.entries)
        name = shard.source.path.name
        match = _SHARD_NAME.match(name)
        if match is None:
            continue
        expected = int(match["count"])
        number, count = keys.integer("split.no"), keys.integer("split.count")
        if number != int(match["number"]) - 1:
            log.add(
                Severity.ERROR,
                name,
                f"its split.no is {number}, its name says {int(match['number']) - 1}",
            )
        if count != int(match["count"]):
            log.add(
                Severity.ERROR, name, f"its split.count is {count}, its name says {match['count']}"
            )
        declared_tensors = keys.integer("split.tensors.count") or declared_tensors
    present = sum(shard.header.tensor_count for shard in shards)
    complete = len(shards) == expected
    if complete and declared_tensors is not None and declared_tensors != present:
        log.add(
            Severity.ERROR,
            shards[0].source.path.name,
            f"split.tensors.count is {declared_tensors}, the shards hold {present} tensors",
        )


def _assemble(path: Path, opened: Shard, shards: list[Shard], log: ProblemLog) -> Model:
    for shard in shards:
        header_problems(shard, log)
    tensors = TableBuilder(shards, log).build()
    first = shards[0].header
    files = []
    row = 0
    for shard in shards:
        header = shard.header
        files.append(
            ModelFile(
                source=shard.source,
                header_bytes=header.data_offset,
                table_offset=header.table_offset,
                record_offsets=header.record_offsets(),
                table_end=header.table_end,
                first_tensor=row,
                version=header.version,
                byte_order=header.layout.order,
                alignment=header.alignment,
            )
        )
        row += header.tensor_count
    return Model(
        format="gguf",
        path=path,
        files=tuple(files),
        metadata=Metadata(first.entries),
        tensors=tensors,
        problems=log.problems(),
        version=first.version,
        byte_order=first.layout.order,
        alignment=opened.header.alignment,
    )
