"""Open a GGUF model: one file, or the shards of a split one.

Shards are named `<prefix>-00001-of-00003.gguf` and numbered from 0 in their `split.no` key (gguf.md
section 4). llama.cpp opens the first shard only and refuses the model when one is missing. Here any
shard opens the whole, and a missing or damaged one is a problem of the model, not its end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, system_reason
from explorer.formats.confinement import hub_cache, leads_out
from explorer.formats.gguf.header import read_header
from explorer.formats.gguf.tensors import Shard, TableBuilder, header_problems
from explorer.formats.metadata import Metadata
from explorer.formats.model import Model, ModelFile, Severity
from explorer.formats.problems import ProblemLog
from explorer.sources import FileSource

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
    """Compare what the names say with the split keys, gguf.md section 4."""
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
