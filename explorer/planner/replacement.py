"""What the formulas would read of a model if some of its tensors had other types.

Weights enter a plan by the bytes of each group of tensors, and by those of block 0's stacked gate
experts, which the size of the compute graph depends on (planner.md sections 2 and 6). Everything
else of a model stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.formats.model import Model
from explorer.planner.config_keys import group_config
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.tensor_groups import group_table
from explorer.quantization import TensorType


def with_types(
    model: Model, h: Hyperparameters, types: Mapping[int, TensorType]
) -> Hyperparameters:
    """Return hyperparameters with other types of tensors.

    Args:
        model: The model.
        h: What was read of it.
        types: The types that tensors get, by row of its table; their rows are whole blocks.
    """
    group = group_table if model.format == "gguf" else group_config
    columns = model.tensors.columns
    more = sum(
        (kind.nbytes(columns.parameters[row]) or 0) - columns.nbytes[row]
        for row, kind in types.items()
    )
    return replace(h, tensors=group(model.tensors, types), file_bytes=max(0, h.file_bytes + more))
