"""Open a GGUF model: one file, or the shards of a split one.

Shards are named `<prefix>-00001-of-00003.gguf` and numbered from 0 in their `split.no` key (gguf.md
section 4). llama.cpp opens the first shard only and refuses the model when one is missing. Here any
shard opens the whole, and a missing or damaged one is a problem of the model, not its end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, system_reason
from explorer.formats.gguf.header import GgufHeader, quoted, read_header
from explorer.formats.model import Metadata, Model, ModelFile, ProblemLog, Severity
from explorer.formats.side_files import escapes, hub_cache
from explorer.formats.tensors import Extent, Spec, Tensor, table_of
from explorer.sources import ByteSource, FileSource


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a model with its header."""

    source: ByteSource
    header: GgufHeader

    @property
    def available(self) -> int:
        """Bytes that the file has for tensors."""
        return max(0, self.source.size - self.header.data_offset)

    def tensor(self, row: int) -> Tensor:
        """Return one of its tensors."""
        header, spec = self.header, self.header.specs[row]
        offset = header.data_offsets[row]
        missing = offset + spec.nbytes - self.available
        cut = f"cut short: the last {missing} bytes are not in the file" if missing > 0 else None
        return Tensor(
            name=header.names[row],
            shape=spec.shape,
            type=spec.type,
            extents=(Extent(self.source, header.data_offset + offset, spec.nbytes),),
            parameters=spec.parameters,
            damage=spec.fault or cut,
            byte_order=header.layout.order,
        )


def _check_tensors(shard: Shard, log: ProblemLog) -> None:
    """Report tensors of a file that are misaligned, overlap, are cut, or have no known size.

    ggml accepts tensors only one behind the other; the specification asks for aligned offsets and
    nothing else (docs/gguf.md, section 2), and files with gaps or another order exist.
    """
    header = shard.header
    names, specs, offsets = header.names, header.specs, header.data_offsets
    rows = range(len(names))
    for row in log.first([row for row in rows if specs[row].fault is not None]):
        severity = Severity.ERROR if specs[row].type.known else Severity.WARNING
        log.add(severity, names[row], specs[row].fault or "")
    alignment = header.alignment
    for row in log.first([row for row in rows if offsets[row] % alignment]):
        what = f"offset {offsets[row]} is not a multiple of the alignment {alignment}"
        log.add(Severity.WARNING, names[row], what)
    available = shard.available
    cut = [row for row in rows if offsets[row] + specs[row].nbytes > available]
    if cut:
        log.add(Severity.ERROR, shard.source.path.name, _cut_short(shard, cut))
    for row, owner in log.first(_overlaps(specs, offsets)):
        what = f"shares bytes with tensor {quoted(names[owner])}"
        log.add(Severity.WARNING, names[row], what)


def _cut_short(shard: Shard, rows: list[int]) -> str:
    """Say how much of a file is missing; `rows` are the tensors that are not complete."""
    header, available = shard.header, shard.available
    end = max(header.data_offsets[row] + header.specs[row].nbytes for row in rows)
    listed = ", ".join(quoted(header.names[row]) for row in rows[:3])
    listed += ", …" if len(rows) > 3 else ""
    beyond = sum(header.data_offsets[row] > available for row in rows)
    what = (
        f"the file is cut short: {end - available} bytes are missing, "
        f"{len(rows)} of {len(header.names)} tensors are incomplete ({listed})"
    )
    if beyond:
        what += f", {beyond} of them lie wholly behind the end"
    return f"{what}; download it again"


def _overlaps(specs: Sequence[Spec], offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return each tensor that shares bytes with an earlier one, and the one that reaches it."""
    found = []
    reach, owner = 0, -1
    for row in sorted(range(len(specs)), key=offsets.__getitem__):
        nbytes = specs[row].nbytes
        if not nbytes:
            continue
        if offsets[row] < reach:
            found.append((row, owner))
        if offsets[row] + nbytes >= reach:
            reach, owner = offsets[row] + nbytes, row
    return found


def _check_names(shards: Sequence[Shard], log: ProblemLog) -> None:
    seen: set[str] = set()
    repeated = []
    for shard in shards:
        for name in shard.header.names:
            if name in seen:
                repeated.append(name)
            seen.add(name)
    for name in log.first(repeated):
        log.add(Severity.ERROR, name, "the tensor name occurs more than once")


_SHARD_NAME: Final = re.compile(r"^(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


def open_gguf(path: Path, others: Sequence[Path] = ()) -> Model:
    """Open a GGUF file and, if it is a shard, its siblings.

    Args:
        path: The file.
        others: The other shards, in order, where file names are digests, as in a store.

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
        return assemble(path, opened, shards, log)
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
        for sibling in [other for other in found if escapes(other, path.parent, cache)]:
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
    present = sum(len(shard.header.names) for shard in shards)
    complete = len(shards) == expected
    if complete and declared_tensors is not None and declared_tensors != present:
        log.add(
            Severity.ERROR,
            shards[0].source.path.name,
            f"split.tensors.count is {declared_tensors}, the shards hold {present} tensors",
        )


def assemble(path: Path, opened: Shard, shards: Sequence[Shard], log: ProblemLog) -> Model:
    """Make one model of files whose headers were read.

    Args:
        path: What was opened.
        opened: The file that was opened.
        shards: All files, in order.
        log: All problems found.
    """
    for shard in shards:
        for where, what in shard.header.warnings:
            log.add(Severity.WARNING, where, what)
    for shard in shards:
        _check_tensors(shard, log)
    _check_names(shards, log)
    files = []
    row = 0
    for shard in shards:
        header = shard.header
        files.append(
            ModelFile(
                source=shard.source,
                header_bytes=header.data_offset,
                table_offset=header.table_offset,
                record_offsets=header.record_offsets,
                table_end=header.table_end,
                first_tensor=row,
                version=header.version,
                byte_order=header.layout.order,
                alignment=header.alignment,
            )
        )
        row += len(header.names)
    first = shards[0].header
    return Model(
        format="gguf",
        path=path,
        files=tuple(files),
        metadata=Metadata(first.entries),
        tensors=table_of([(s.header.names, s.header.specs, s.tensor) for s in shards]),
        problems=log.problems(),
        version=first.version,
        byte_order=first.layout.order,
        alignment=opened.header.alignment,
    )
