"""What `inspect` says of a model, as the JSON object of docs/interface.md.

Shapes are row-major, offsets absolute in their file, and `bytes` is the sum of the stored bytes of
the tensors, without headers and padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from explorer.errors import ExplorerError
from explorer.formats import MetadataEntry, Model, Problem, Severity, Tensor, TensorGroup
from explorer.formats.facts import describe
from explorer.formats.gguf.arrays import first_elements
from explorer.formats.model import Value

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
