"""`gguf-explorer inspect`: what a model is, its metadata, its tensors."""

from __future__ import annotations

from typing import Any

import click

from explorer.cli.arguments import json_option, model_path, path_argument, root_option
from explorer.cli.model_record import model_record
from explorer.cli.output import line_width, style, table, write, write_json
from explorer.cli.problems import problem_lines
from explorer.display import type_text, value_text
from explorer.errors import ExplorerError
from explorer.formats import MetadataEntry, Model, open_model
from explorer.formats.facts import Facts, describe
from explorer.present.model import model_facts
from explorer.text import bytes_text, count_text, integer_text, plain_text, shape_text, shorten

_LEAST_VALUE_WIDTH = 40
_LONGEST_NAME = 200
_SHOWN_FILES = 200  # of a model of tensor blobs, which may have thousands


@click.command("inspect")
@path_argument
@root_option
@json_option
@click.option("--tensors", is_flag=True, help="List every tensor.")
@click.option("--metadata", is_flag=True, help="List every key with its value.")
@click.option(
    "recipe", "--recipe", is_flag=True, help="Compare the types by role with llama.cpp's recipes."
)
def inspect_command(  # noqa: PLR0913, PLR0917 - one for each option; click passes them by name
    path: str, root: str | None, as_json: bool, tensors: bool, metadata: bool, recipe: bool
) -> int:
    """Show what the model at PATH is. Reads headers only, never the weights.

    PATH is a .gguf file (any shard opens the whole), a .safetensors file, its index, a folder of a
    Hugging Face model, an Ollama manifest, or ollama:NAME[:TAG].

    \b
    Examples:
      gguf-explorer inspect model.gguf
      gguf-explorer inspect model.gguf --metadata --tensors
      gguf-explorer inspect model.gguf --json --tensors | jq '.tensors[0]'
      gguf-explorer inspect model-Q4_K_M.gguf --recipe
      gguf-explorer inspect ollama:llama3
    """
    with open_model(model_path(path, root)) as model:
        if as_json:
            write_json(_record(model, metadata=metadata, tensors=tensors, recipe=recipe))
            return 0
        write(_summary(model))
        if recipe:
            from explorer.cli.recipes_text import recipes_text  # noqa: PLC0415 - seldom asked for

            write(recipes_text(model))
        if metadata:
            write(_heading("Metadata", len(model.metadata.entries)) + _metadata(model))
        if tensors:
            write(_heading("Tensors", len(model.tensors.rows)) + _tensors(model))
    return 0


def _record(model: Model, *, metadata: bool, tensors: bool, recipe: bool) -> dict[str, Any]:
    record = model_record(model, metadata=metadata, tensors=tensors)
    if recipe:
        from explorer.cli.recipes_record import recipes_record  # noqa: PLC0415 - as above

        record["recipes"] = recipes_record(model)
    return record


def _heading(text: str, count: int | None = None) -> str:
    number = "" if count is None else f" ({integer_text(count)})"
    return f"\n{style(text + number, bold=True)}\n"


def _summary(model: Model) -> str:
    facts = describe(model)
    parts = [style(plain_text(str(model.path)), bold=True) + "\n"]
    parts.append(
        table((one.label, shorten(plain_text(one.text), 200)) for one in model_facts(model, facts))
    )
    if facts.types:
        parts += [_heading("Tensor types"), _types(facts)]
    if len(model.files) > 1:
        parts.append(_heading("Files", len(model.files)))
        shown = model.files[:_SHOWN_FILES]
        parts.append(table([plain_text(str(f.path)), bytes_text(f.source.size)] for f in shown))
        if len(shown) < len(model.files):
            parts.append(f"  … and {integer_text(len(model.files) - len(shown))} more\n")
    if model.problems:
        parts += [_heading("Problems", len(model.problems)), problem_lines(model.problems)]
    return "".join(parts)


def _types(facts: Facts) -> str:
    rows = [
        (
            plain_text(share.name),
            integer_text(share.tensors),
            count_text(share.parameters),
            bytes_text(share.nbytes),
            f"{share.share:.1%}",
        )
        for share in facts.types
    ]
    head = ("type", "tensors", "parameters", "bytes", "share")
    return table([head, *rows], right=(1, 2, 3, 4))


def _metadata(model: Model) -> str:
    entries = model.metadata.entries
    names = [shorten(plain_text(entry.key), _LONGEST_NAME) for entry in entries]
    types = [type_text(entry) for entry in entries]
    used = min(64, max(map(len, names), default=0)) + min(64, max(map(len, types), default=0)) + 6
    room = max(_LEAST_VALUE_WIDTH, line_width() - used)
    values = [_value(model, entry, room) for entry in entries]
    return table(zip(names, types, values, strict=True))


def _value(model: Model, entry: MetadataEntry, room: int) -> str:
    try:
        return value_text(entry, room, model)
    except ExplorerError as error:
        return plain_text(f"(cannot be shown: {error.what})")


def _tensors(model: Model) -> str:
    head = ("name", "shape", "type", "parameters", "bytes", "offset")
    rows = (
        (
            shorten(plain_text(tensor.name), _LONGEST_NAME),
            shape_text(tensor.shape),
            plain_text(tensor.type.name),
            count_text(tensor.parameters),
            bytes_text(tensor.nbytes),
            integer_text(tensor.offset),
        )
        for tensor in model.tensors.rows
    )
    return table([head, *rows], right=(3, 4, 5))
