"""`gguf-explorer inspect`: what a model is, its metadata, its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from explorer.analysis.recipes import (
    CURRENT,
    RULES_SOURCE,
    Deviation,
    RecipeFit,
    compare_with_recipes,
    declared_recipe,
    deviation_text,
    type_mix,
    verdict,
    why_no_recipe,
)
from explorer.analysis.recipes.fits import percent_text
from explorer.cli.options import json_option, model_path, path_argument, root_option
from explorer.cli.output import (
    line_width,
    name_cell,
    problem_lines,
    style,
    table,
    write,
    write_json,
)
from explorer.errors import ExplorerError
from explorer.formats import (
    MetadataEntry,
    Model,
    Problem,
    Severity,
    Tensor,
    TensorGroup,
    open_model,
)
from explorer.formats.facts import Facts, describe
from explorer.formats.gguf.arrays import first_elements
from explorer.formats.model import Value
from explorer.present.model import model_facts, type_text, value_text
from explorer.text import (
    bytes_text,
    count_text,
    float_text,
    integer_text,
    plain_text,
    shape_text,
    shorten,
)

# What `inspect` says of a model, as the JSON object of docs/interface.md.
#
# Shapes are row-major, offsets absolute in their file, and `bytes` is the sum of the stored bytes
# of the tensors, without headers and padding.


ARRAY_ELEMENTS: Final = 32
"""Elements of an array that JSON shows."""


def model_record(model: Model, *, metadata: bool = False, tensors: bool = False) -> dict[str, Any]:
    """Return all that `inspect --json` prints.

    A value that cannot be decoded is null there, and a warning among the problems says why.
    """
    problems = list(model.problems)
    entries = (
        [_entry_record(model, e, problems) for e in model.metadata.entries] if metadata else []
    )
    record: dict[str, Any] = {
        "path": str(model.path),
        "format": model.format,
        "version": model.version,
        "byte_order": model.byte_order,
        "architecture": model.architecture,
        "name": model.name,
        "file_type": describe(model).file_type,
        "parameters": model.parameters,
        "bytes": model.nbytes,
        "bits_per_weight": model.bits_per_weight,
        "tensor_count": len(model.tensors.rows),
        "alignment": model.alignment,
        "data_offset": model.data_offset,
        "tensor_types": {
            name: {"tensors": t.tensors, "parameters": t.parameters, "bytes": t.nbytes}
            for name, t in model.tensors.totals_by_type.items()
        },
        "shards": [str(file.path) for file in model.files],
        "problems": [problem_record(problem) for problem in problems],
    }
    if metadata:
        record["metadata"] = entries
    if tensors:
        record["tensors"] = [_tensor_record(tensor) for tensor in model.tensors.rows]
    record["groups"] = [_group_record(group) for group in model.groups]
    return record


def problem_record(problem: Problem) -> dict[str, str]:
    """Return a problem as JSON has it."""
    return {"severity": str(problem.severity), "where": problem.where, "what": problem.what}


def _entry_record(model: Model, entry: MetadataEntry, problems: list[Problem]) -> dict[str, Any]:
    value: Value | None
    try:
        if entry.length is None:
            value = entry.value
        else:
            value = first_elements(model, entry, ARRAY_ELEMENTS)
    except ExplorerError as error:
        value = None
        what = f"the value cannot be shown: {error.what} {error.where}".rstrip()
        problems.append(Problem(Severity.WARNING, entry.key, what))
    return {
        "key": entry.key,
        "type": entry.type_name,
        "value": _plain(value),
        "length": entry.length,
    }


def _plain(value: Value | None) -> Any:
    """Return sequences as lists, which is what JSON writes; texts and numbers as they are."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _tensor_record(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "type": tensor.type.name,
        "parameters": tensor.parameters,
        "bytes": tensor.nbytes,
        "offset": tensor.offset,
        "file": str(tensor.file),
        "group": tensor.group,
    }


def _group_record(group: TensorGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "kind": group.kind,
        "tensors": list(group.tensors),
        "bytes": group.nbytes,
        "quant_type": group.quant_type,
        "group_size": group.group_size,
    }


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
            write(recipes_text(model))
        if metadata:
            write(_heading("Metadata", len(model.metadata.entries)) + _metadata(model))
        if tensors:
            write(_heading("Tensors", len(model.tensors.rows)) + _tensors(model))
    return 0


def _record(model: Model, *, metadata: bool, tensors: bool, recipe: bool) -> dict[str, Any]:
    record = model_record(model, metadata=metadata, tensors=tensors)
    if recipe:
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


# What `inspect --recipe` says, as JSON.


def recipes_record(model: Model) -> dict[str, Any]:
    """Return the type mix by role, and how well each recipe of llama-quantize agrees with it."""
    fits = compare_with_recipes(model)
    return {
        "declared": declared_recipe(model),
        "verdict": verdict(model, fits),
        "not_applicable": why_no_recipe(model),
        "rules": RULES_SOURCE,
        "fits": [_fit_record(fit) for fit in fits],
        "type_mix": [
            {
                "role": row.role,
                "type": row.type,
                "tensors": row.tensors,
                "parameters": row.parameters,
                "bytes": row.nbytes,
                "bits_per_weight": row.bits_per_weight,
            }
            for row in type_mix(model)
        ],
    }


def _fit_record(fit: RecipeFit) -> dict[str, Any]:
    return {
        "recipe": fit.recipe,
        "declared": fit.declared,
        "share": fit.share,
        "agreeing": fit.agreeing,
        "parameters": fit.parameters,
        "bytes": fit.nbytes,
        "revision": fit.revision.name,
        "imatrix": fit.imatrix,
        "deviations": [_deviation_record(one) for one in fit.deviations],
    }


def _deviation_record(one: Deviation) -> dict[str, Any]:
    return {
        "role": one.role,
        "expected": one.expected,
        "present": one.present,
        "layers": list(one.layers),
        "tensors": one.tensors,
        "parameters": one.parameters,
    }


# What `inspect --recipe` says, as text.


_LONGEST_ROLE: Final = 48
_SHOWN_FITS: Final = 6
_SHOWN_DEVIATIONS: Final = 12
_SHOWN_ROLES: Final = 200


def recipes_text(model: Model) -> str:
    """Return the verdict, the recipes that agree best, and the type mix by role."""
    fits = compare_with_recipes(model)
    parts = [_recipes_heading("Recipe"), f"  {verdict(model, fits)}\n"]
    if fits:
        parts += ["\n", _fits(fits), _deviations(fits), f"  Rules: {RULES_SOURCE}\n"]
    parts += [_recipes_heading("Types by role"), _mix(model)]
    return "".join(parts)


def _recipes_heading(text: str) -> str:
    return f"\n{style(text, bold=True)}\n"


def _fits(fits: Sequence[RecipeFit]) -> str:
    """Return the best recipes, and the declared one wherever it stands."""
    shown = [fit for place, fit in enumerate(fits) if place < _SHOWN_FITS or fit.declared]
    rows = [
        (
            fit.recipe,
            percent_text(fit.share),
            bytes_text(fit.nbytes),
            float_text(8 * fit.nbytes / fit.parameters, 4) if fit.parameters else "",
            "" if fit.revision is CURRENT else fit.revision.name,
            {None: "", True: "with", False: "without"}[fit.imatrix],
            "declared" if fit.declared else "",
        )
        for fit in shown
    ]
    head = ("recipe", "agrees", "bytes by it", "bits per weight", "rules", "imatrix", "")
    return table([head, *rows], right=(1, 2, 3))


def _deviations(fits: Sequence[RecipeFit]) -> str:
    """Return what differs from the declared recipe, or from the best one."""
    fit = next((fit for fit in fits if fit.declared), fits[0])
    lines = [f"    {deviation_text(one)}\n" for one in fit.deviations[:_SHOWN_DEVIATIONS]]
    left = len(fit.deviations) - len(lines)
    if left:
        lines.append(f"    … and {integer_text(left)} more groups of tensors\n")
    return f"  Not as {fit.recipe} has it:\n{''.join(lines)}" if lines else ""


def _mix(model: Model) -> str:
    mix = type_mix(model)
    rows = [
        (
            name_cell(row.role, _LONGEST_ROLE),
            plain_text(row.type),
            integer_text(row.tensors),
            count_text(row.parameters),
            bytes_text(row.nbytes),
            float_text(row.bits_per_weight, 4),
        )
        for row in mix[:_SHOWN_ROLES]
    ]
    head = ("role", "type", "tensors", "parameters", "bytes", "bits per weight")
    more = len(mix) - len(rows)
    rest = f"  … and {integer_text(more)} more\n" if more else ""
    return table([head, *rows], right=(2, 3, 4, 5)) + rest
