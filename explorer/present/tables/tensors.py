"""The table of a model's tensors, and that of their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from explorer.formats.tensors import TypeShare, bits_per_weight, parse_name
from explorer.present.tables.table import (
    BITS,
    BYTES,
    COUNT,
    INTEGER,
    PART,
    PLACE,
    SHAPE,
    TEXT,
    TYPE,
    Column,
    Kind,
    Table,
)
from explorer.text import sentence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from explorer.formats import Model
    from explorer.formats.columns import TensorArrays

_TIPS: Final = {
    "name": "The tensor's name in the file. Layer 3 is called blk.3 in GGUF.",
    "role": "Its function in its layer",
    "layer": "Number of its layer, from 0 up. Empty for a tensor that is in no layer.",
    "type": "How weights are stored. All types but F32, F16 and BF16 share scales in blocks.",
    "shape": "Rows × columns, outermost first. A GGUF file stores the reverse.",
    "parameters": "Number of weights: the dimensions multiplied.",
    "bytes": "Bytes of the weights in the file, scales included.",
    "bits_per_weight": "Stored bits for each weight, scales included",
    "offset": "First byte in its file",
    "file": "The file of the model in which it is stored.",
    "group": "The weight or the experts that it belongs to.",
    "problem": "What is wrong with the tensor, according to the header.",
}

TENSOR_FILTER: Final = (
    "Filter tensors:  ffn  type:q6_k  size>100M  layer:3-7  -norm",
    "Words must occur in the name. A minus in front excludes.\n"
    "type:q4_k,q6_k   layer:3-7   role:attn   shape:4096   is:damaged\n"
    "size>100M   params>1M   bpw<5",
)
"""What can be typed to filter the table: examples, and all of it."""


def tensor_table(model: Model, arrays: TensorArrays | None = None) -> Table[int]:
    """Return the table of a model's tensors; its rows are their numbers.

    Args:
        model: The model. Only the rows that are asked for are read from its table.
        arrays: By which a table of 100,000 rows is sorted.
    """
    table, tensors = model.tensors.columns, model.tensors.rows

    def column(
        name: str,
        title: str,
        kind: Kind,
        of: Callable[[int], Any],
        keys: Callable[[TensorArrays], NDArray[Any]] | None = None,
        **more: Any,
    ) -> Column[int]:
        made = None if arrays is None or keys is None else lambda: keys(arrays)
        return Column(name, title, kind, _TIPS[name], of, keys=made, **more)

    def bits(row: int) -> float:
        return bits_per_weight(table.nbytes[row], table.parameters[row])

    def file_name(row: int) -> str:
        return tensors[row].file.name

    several, damaged = len(model.files) > 1, arrays is not None and arrays.damaged.any()
    return Table(
        column("name", "Name", TEXT, lambda row: table.names[row], lambda a: a.name_ranks),
        column(
            *("role", "Role", TEXT, lambda row: parse_name(table.names[row]).role),
            lambda a: a.role_ranks,
            extra=True,
        ),
        column(
            *("layer", "Layer", PLACE, lambda row: parse_name(table.names[row]).layer),
            lambda a: a.layers,
        ),
        column("type", "Type", TYPE, lambda row: table.types[row].name, lambda a: a.type_ranks),
        column("shape", "Shape", SHAPE, lambda row: table.shapes[row], lambda a: a.shape_ranks),
        column(
            *("parameters", "Parameters", INTEGER, lambda row: table.parameters[row]),
            lambda a: a.parameters,
        ),
        column("bytes", "Size", BYTES, lambda row: table.nbytes[row], lambda a: a.nbytes),
        column("bits_per_weight", "Bits/weight", BITS, bits, lambda a: a.bits_per_weight),
        column(
            *("offset", "Offset", INTEGER, lambda row: tensors[row].offset),
            lambda a: a.offsets,
            extra=True,
        ),
        column(
            *("file", "File", TEXT, lambda row: str(tensors[row].file)),
            lambda a: a.file_codes,
            text=file_name,
            extra=not several,
        ),
        column("group", "Group", TEXT, lambda row: tensors[row].group, extra=True),
        column(
            *("problem", "Problem", TEXT, lambda row: tensors[row].damage),
            lambda a: a.damaged,
            extra=not damaged,
        ),
        title="Tensors",
    )


_SHARES: Final[tuple[Column[TypeShare], ...]] = (
    Column("tensors", "Tensors", INTEGER, "How many tensors."),
    Column("parameters", "Parameters", COUNT, "How many weights they have together."),
    Column("bytes", "Size", BYTES, "Bytes that they take together.", lambda share: share.nbytes),
    Column("share", "Share", PART, "Part of the model's bytes."),
)

TYPES: Final = Table[TypeShare](
    Column("name", "Type", TYPE, "How weights are stored."), *_SHARES, title="Tensor types"
)
"""The types that occur in a model, most bytes first."""

COMPONENTS: Final = Table[TypeShare](
    Column(
        *("name", "Component", TEXT, "A model within the checkpoint."),
        text=lambda share: sentence(share.name),
    ),
    *_SHARES,
    title="Components",
)
"""The models in a checkpoint of several, most bytes first."""


def tensor_records(model: Model) -> list[dict[str, Any]]:
    """Return what JSON says of each tensor of a model."""
    from explorer.present.quantization import companions_record  # noqa: PLC0415 - not for first paint

    table, tensors = tensor_table(model), model.tensors.rows
    return [table.record(row) | companions_record(tensors[row]) for row in range(len(tensors))]
