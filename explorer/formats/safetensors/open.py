"""Open a safetensors file: its header becomes a model, its data stays where it is.

Also what the shards of a sharded model share: each is read into a `SafetensorsFile`, and
`build_model` makes one model of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from explorer.errors import ExplorerError
from explorer.formats.model import Metadata, MetadataEntry, Model, ModelFile, ProblemLog, Severity
from explorer.formats.safetensors.groups import (
    MLX_NAMING,
    OLLAMA_NAMING,
    Assembly,
    ExpertGroups,
    Stored,
    assemble,
    may_hold_weights,
)
from explorer.formats.safetensors.header import (
    LENGTH_BYTES,
    METADATA,
    Header,
    read_header,
    sort_and_check,
)
from explorer.formats.side_files import Config, loaded_entry, read_config
from explorer.formats.tensors import Extent, Tensor, table_of
from explorer.sources import ByteSource, FileSource


@dataclass
class SafetensorsFile:
    """One open safetensors file with its header.

    Attributes:
        source: The file.
        header: Its header, tensors in the order of their data.
        damage: For each damaged row, why its bytes cannot all be read.
    """

    source: ByteSource
    header: Header
    damage: dict[int, str]

    def tensor(self, row: int) -> Tensor:
        """Return one tensor as the file stores it."""
        return self.stored(row).tensor()

    def stored(self, row: int) -> Stored:
        """Return one tensor as the file stores it."""
        header = self.header
        spec, name = header.specs[row], header.names[row]
        extent = Extent(self.source, header.data_offset + header.begins[row], spec.nbytes)
        return Stored(name, spec, extent, self.damage.get(row), name, header.metadata)

    def leave_out(self, names: set[str]) -> None:
        """Drop the tensors of these names."""
        kept = [row for row, name in enumerate(self.header.names) if name not in names]
        damage = {new: self.damage[row] for new, row in enumerate(kept) if row in self.damage}
        self.header.reorder(kept)
        self.damage = damage


def open_safetensors(path: Path) -> Model:
    """Open one safetensors file, with the `config.json` beside it if there is one.

    Raises:
        FormatError: Its header cannot be read.
        SourceError: It cannot be read.
    """
    log = ProblemLog()
    file = open_file(path, log)
    return build_model(path, [file], read_config(path.parent, log), log)


def open_file(path: Path, log: ProblemLog) -> SafetensorsFile:
    """Read one file's header and check it, without `config.json`.

    Args:
        path: The file.
        log: Where problems go that do not keep it from opening.

    Raises:
        FormatError: Its header cannot be read.
        SourceError: It cannot be read.
    """
    source = FileSource(path)
    try:
        header = read_header(source)
    except ExplorerError:
        source.close()
        raise
    for name in header.repeated:
        what = "the tensor name occurs more than once in the header; the last one counts"
        log.add(Severity.WARNING, name, what)
    for key in header.repeated_metadata:
        log.add(Severity.WARNING, key, f"the key occurs more than once in {METADATA}")
    damage = sort_and_check(header, source.size - header.data_offset, path.name, log)
    return SafetensorsFile(source, header, damage)


def build_model(
    path: Path, files: Sequence[SafetensorsFile], config: Config, log: ProblemLog
) -> Model:
    """Make one model of files.

    Args:
        path: What was opened.
        files: At least one file, in the order of shards.
        config: What its config.json says.
        log: All problems found.
    """
    entries: dict[str, MetadataEntry] = {}
    for index, file in enumerate(files):
        for key, value in file.header.metadata.items():
            if key not in entries:
                entries[key] = loaded_entry(key, "string", value, index)
    metadata = Metadata([*entries.values(), *config.entries])
    assembly = _assembly(files, config, log)
    if assembly is None:
        table = table_of([(file.header.names, file.header.specs, file.tensor) for file in files])
    else:
        table = assembly.table()
    return Model(
        format="safetensors",
        path=path,
        files=model_files(files, None if assembly is None else assembly.tensors),
        metadata=metadata,
        tensors=table,
        groups=ExpertGroups(table) if assembly is None else tuple(assembly.groups),
        problems=log.problems(),
        config=config.fields,
    )


def model_files(
    files: Sequence[SafetensorsFile], tensors: Sequence[Tensor] | None = None
) -> tuple[ModelFile, ...]:
    """Return how each file is laid out.

    Args:
        files: The files, in order.
        tensors: The model's tensors, if they are not simply those of the files, in order.
    """
    first_rows: dict[int, int] = {}
    if tensors is None:
        counts = accumulate((len(file.header.names) for file in files), initial=0)
        first_rows = dict(zip((id(file.source) for file in files), counts, strict=False))
    else:
        for row, tensor in enumerate(tensors):
            first_rows.setdefault(id(tensor.extents[0].source), row)
    return tuple(
        ModelFile(
            source=file.source,
            header_bytes=file.header.data_offset,
            table_offset=LENGTH_BYTES,
            table_end=file.header.data_offset,
            first_tensor=first_rows.get(id(file.source), 0),
        )
        for file in files
    )


def _assembly(files: Sequence[SafetensorsFile], config: Config, log: ProblemLog) -> Assembly | None:
    """Put weights and their scales together; None if there can be none to put together."""
    if not may_hold_weights([name for file in files for name in file.header.names]):
        return None
    stored = [file.stored(row) for file in files for row in range(len(file.header.names))]
    return assemble(stored, (MLX_NAMING, OLLAMA_NAMING), config.fields, log)
