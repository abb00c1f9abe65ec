"""`gguf-explorer inspect`: what a model is, its metadata, its tensors."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from explorer.cli import options, output
from explorer.errors import ExplorerError
from explorer.formats import MetadataEntry, Model, Problem, Severity, open_model
from explorer.formats.attachments import is_adapter, is_importance_matrix
from explorer.formats.facts import describe
from explorer.present.model import json_value, type_text
from explorer.present.problems import problems_of
from explorer.present.quantization import declared_quantization
from explorer.present.tables.facts import model_facts
from explorer.present.tables.metadata import entry_record, keys_of, metadata_table
from explorer.present.tables.problems import PROBLEMS
from explorer.present.tables.quantization import declared_record, declared_table
from explorer.present.tables.tensors import COMPONENTS, TYPES, tensor_records, tensor_table
from explorer.text import bytes_text, plain_text

if TYPE_CHECKING:  # few files are adapters or matrices
    from explorer.present.tables.attachments import AttachedTable

_MIN_VALUE_WIDTH: Final = 40
_LONGEST_NAME: Final = 200
_LONGEST_DECLARED: Final = 100
_SHOWN_FILES: Final = 200  # of a model of tensor blobs, which may have thousands


_SHOWN: Final = ("name", "shape", "type", "parameters", "bytes", "offset")
_GROUP: Final = ("name", "kind", "tensors", "bytes", "quant_type", "group_size")


def model_record(model: Model, *, metadata: bool = False, tensors: bool = False) -> dict[str, Any]:
    """Return all that `inspect --json` prints.

    A value that cannot be decoded is null there, and a warning among the problems says why.
    """
    problems = list(problems_of(model))
    entries = (
        [_entry_record(model, e, problems) for e in model.metadata.entries] if metadata else []
    )
    facts = describe(model)
    record: dict[str, Any] = {
        **_fields(model, "path", "format", "version", "byte_order", "architecture", "name"),
        "file_type": facts.file_type,
        **_fields(model, "parameters", "bytes", "bits_per_weight"),
        "tensor_count": len(model.tensors.rows),
        **_fields(model, "alignment", "data_offset"),
        "tensor_types": {
            name: _fields(total, "tensors", "parameters", "bytes")
            for name, total in model.tensors.totals_by_type.items()
        },
        "shards": [str(file.path) for file in model.files],
        "problems": list(map(PROBLEMS.record, problems)),
    }
    if facts.components:
        record["components"] = list(map(COMPONENTS.record, facts.components))
    declared = declared_quantization(model)
    if declared is not None:
        record["quantization"] = declared_record(declared)
    if metadata:
        record["metadata"] = entries
    if tensors:
        record["tensors"] = tensor_records(model)
    record["groups"] = [_fields(group, *_GROUP) for group in model.groups]
    return record


def _entry_record(model: Model, entry: MetadataEntry, problems: list[Problem]) -> dict[str, Any]:
    def failed(error: ExplorerError) -> None:
        what = f"the value cannot be shown: {error.without_path}"
        problems.append(Problem(Severity.WARNING, entry.key, what))

    return {"key": entry.key} | entry_record(model, entry, failed)


def _fields(found: object, *names: str) -> dict[str, Any]:
    """Return attributes of an object as JSON has them, where `nbytes` is "bytes"."""
    return {
        name: json_value(getattr(found, "nbytes" if name == "bytes" else name)) for name in names
    }


@click.command("inspect")
@options.path_argument
@options.root_option
@options.json_option
@click.option("--tensors", is_flag=True, help="List every tensor.")
@click.option("--metadata", is_flag=True, help="List every key with its value.")
@click.option(
    "--measure",
    is_flag=True,
    help="Read the numbers of an adapter or an importance matrix: norms, columns that matter.",
)
@options.path_option(
    "--base", "The model that an adapter changes: shows the norms of its tensors, too.", "PATH"
)
@click.option(
    "recipe", "--recipe", is_flag=True, help="Compare the types by role with llama.cpp's recipes."
)
def inspect_command(  # noqa: PLR0913 - one for each option
    path: str,
    *,
    root: str | None,
    as_json: bool,
    tensors: bool,
    metadata: bool,
    measure: bool,
    base: str | None,
    recipe: bool,
) -> int:
    """Show what the model at PATH is. Reads headers only, never the weights.

    Of a LoRA adapter or an importance matrix, --measure reads the numbers, which are few.

    PATH is a .gguf file (any shard opens the whole), a .safetensors file, its index, a folder of a
    Hugging Face model, an Ollama manifest, or ollama:NAME[:TAG].

    \b
    Examples:
      gguf-explorer inspect model.gguf
      gguf-explorer inspect model.gguf --metadata --tensors
      gguf-explorer inspect model.gguf --json --tensors | jq '.tensors[0]'
      gguf-explorer inspect model-Q4_K_M.gguf --recipe
      gguf-explorer inspect adapter/ --base Llama-3-8B/
      gguf-explorer inspect imatrix.dat --measure
      gguf-explorer inspect ollama:llama3
    """
    if recipe:
        from explorer.cli.inspect_recipe import recipes_record, recipes_text  # noqa: PLC0415 - half of what all else loads
    with open_model(options.model_path(path, root)) as model:
        attached = _attached(model, measure or base is not None, base)
        if as_json:
            record = model_record(model, metadata=metadata, tensors=tensors)
            record |= {} if attached is None else attached.record(model)
            if recipe:
                record["recipes"] = recipes_record(model)
            output.write_json(record)
            return 0
        output.write(_summary(model))
        if attached is not None and attached.is_measured:
            output.write(output.heading(attached.table.title, len(attached.rows)))
            output.write(output.table_of(attached.table, attached.rows, _LONGEST_NAME))
        if recipe:
            output.write(recipes_text(model))
        if metadata:
            output.write(output.heading("Metadata", len(model.metadata.entries)) + _metadata(model))
        if tensors:
            table = tensor_table(model).only(*_SHOWN)
            rows = range(len(model.tensors.rows))
            output.write(output.heading(table.title, len(rows)))
            output.write(output.table_of(table, rows, _LONGEST_NAME))
    return 0


def _attached(model: Model, measure: bool, base: str | None) -> AttachedTable | None:
    """Return what an adapter or an importance matrix holds, measured if that is asked for.

    Raises:
        ExplorerError: It is to be measured, and is neither.
    """
    if not (is_adapter(model) or is_importance_matrix(model)):
        if measure:
            what = "is neither an adapter nor an importance matrix. `survey` measures models"
            raise ExplorerError(what, model.path)
        return None
    from explorer.present.tables.attachments import attached_table  # noqa: PLC0415 - few files are

    with output.Progress(1) as line, ExitStack() as stack:
        other = options.open_given(stack, base if is_adapter(model) else None, open_model)
        progress = partial(line.show, what="tensors")
        return attached_table(model, other, progress=progress, measured=measure)


def _summary(model: Model) -> str:
    facts, declared = describe(model), declared_quantization(model)
    figures = model_facts(model, facts, declared)
    lines = ((one.title, output.name_cell(one.text, 200)) for one in figures)
    parts = [output.style(plain_text(str(model.path)), bold=True) + "\n", output.table(lines)]
    if declared is not None:
        parts += [
            output.heading("Quantization"),
            output.table_of(declared_table(declared), declared.lines, _LONGEST_DECLARED),
        ]
    if facts.components:
        parts += [output.heading(COMPONENTS.title), output.table_of(COMPONENTS, facts.components)]
    if facts.types:
        parts += [output.heading(TYPES.title), output.table_of(TYPES, facts.types)]
    if len(model.files) > 1:
        parts.append(output.heading("Files", len(model.files)))
        files = [(plain_text(str(file.path)), bytes_text(file.source.size)) for file in model.files]
        parts.append(output.table(files[:_SHOWN_FILES]))
        parts.append(output.left_out_text(len(files) - _SHOWN_FILES))
    if problems := problems_of(model):
        parts += [output.heading("Problems", len(problems)), output.problem_lines(problems)]
    return "".join(parts)


def _metadata(model: Model) -> str:
    entries = model.metadata.entries
    columns = [len(plain_text(one.key)) for one in entries], [len(type_text(e)) for e in entries]
    used = sum(min(64, max(widths, default=0)) for widths in columns) + 6
    room = max(_MIN_VALUE_WIDTH, output.line_width() - used)
    longest = max(_LONGEST_NAME, room)
    return output.table_of(metadata_table(), list(keys_of(model, room)), longest)
