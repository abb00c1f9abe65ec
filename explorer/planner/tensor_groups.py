"""Bytes of the groups of tensors that Ollama places as one (docs/planner.md, section 2).

Source: Ollama, fs/ggml/ggml.go, `Tensors.GroupLayers` and `Tensor.Size`. A block goes to a device
as a whole, so its tensors are one figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from explorer.formats.tensors import TensorTable
from explorer.planner.devices import quoted
from explorer.quantization.types import OF_IK_LLAMA_CPP, OF_LLAMA_CPP, OTHER_MEANINGS, TensorType

_JOINED: Final = frozenset({"blk", "mm"})
_OLD_SLOT: Final = 4  # Ollama reads this type id as MXFP4
_UPSTREAM: Final = frozenset((
    "F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
    "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "IQ1_M", "MXFP4",
))  # fmt: skip
_NO_OTHERS: Final[Mapping[int, TensorType]] = MappingProxyType({})

_STACKED_EXPERTS: Final = ("blk.0", "ffn_gate_exps.weight")
_SPLIT_EXPERT: Final = ("blk.0", "ffn_gate.0.weight")
_FUSED_BIAS: Final = ("blk.0", "attn_qkv.bias")
_ROPE_WEIGHTS: Final = ("rope_freqs", "weights")  # as the source spells it; files say "weight"


@dataclass(frozen=True, slots=True)
class TensorGroups:
    """What the formulas read of a model's tensors; None where there is no such tensor."""

    nbytes: Mapping[str, int] = field(default_factory=dict)  # bytes of each group
    gate_experts_bytes: int | None = None  # of block 0's stacked gate experts (G)
    expert_width: int | None = None  # of block 0's first split gate expert (W)
    fused_bias_length: int | None = None  # of block 0's fused attention bias (S)
    rope_weights: int = 0  # elements of the tensor ``rope_freqs.weights`` (R); 0 without it
    warnings: tuple[str, ...] = ()  # what is not as Ollama would count it
    foreign: str = ""  # a type of tensors that no version of Ollama loads; "" without any


def split_group(name: str) -> tuple[str, str]:
    """Return the group of a tensor and the rest of its name.

    ``blk.7.attn_q.weight`` is ``attn_q.weight`` of ``blk.7``; ``output.weight`` is ``weight`` of
    ``output``.
    """
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part in _JOINED:
            if len(parts) > place + 2:
                return ".".join(parts[: place + 2]), ".".join(parts[place + 2 :])
            break
    return parts[0], ".".join(parts[1:])


def group_table(table: TensorTable, others: Mapping[int, TensorType] = _NO_OTHERS) -> TensorGroups:
    """Group the tensors of a model; of two with one name the last counts, as in Ollama's map.

    `others` are types to use instead, by row.
    """
    columns, last = table.columns, table.main_rows
    types = [others.get(row, kind) for row, kind in enumerate(columns.types[:last])]
    rows = {split_group(name): row for row, name in enumerate(columns.names[:last])}
    kinds = [OTHER_MEANINGS[_OLD_SLOT] if kind.id == _OLD_SLOT else kind for kind in types]

    def dims(row: int) -> tuple[int, ...]:
        return columns.shapes[row][::-1]  # in GGUF's order

    sizes = {
        row: _tensor_bytes(kinds[row], columns.parameters[row], dims(row))
        if kinds[row].known
        else columns.nbytes[row]
        for row in rows.values()
    }
    nbytes: dict[str, int] = {}
    for (group, _), row in rows.items():
        nbytes[group] = nbytes.get(group, 0) + sizes[row]
    stacked, split = rows.get(_STACKED_EXPERTS), rows.get(_SPLIT_EXPERT)
    bias, rope = rows.get(_FUSED_BIAS), rows.get(_ROPE_WEIGHTS)
    return TensorGroups(
        nbytes=MappingProxyType(nbytes),
        gate_experts_bytes=None if stacked is None else sizes[stacked],
        expert_width=None if split is None else _extent(dims(split), 1),
        fused_bias_length=None if bias is None else _extent(dims(bias), 0),
        rope_weights=0 if rope is None else columns.parameters[rope],
        warnings=tuple(_type_warnings(types)),
        foreign=next((kind.name for kind in types if _is_foreign(kind)), ""),
    )


def _is_foreign(kind: TensorType) -> bool:
    return not kind.known or kind in OF_IK_LLAMA_CPP - OF_LLAMA_CPP


def _extent(dims: tuple[int, ...], axis: int) -> int:
    """Return one dimension; those that are not stored are 1, as in ggml."""
    return dims[axis] if axis < len(dims) else 1


def _tensor_bytes(kind: TensorType, count: int, dims: tuple[int, ...]) -> int:
    """Return the size as Ollama works it out, over the whole tensor and rounded down."""
    rows = count // dims[0] if dims and dims[0] else 1
    blocks = count * kind.block_bytes // kind.block_weights
    return blocks + rows * kind.row_header + kind.trailer


def _type_warnings(types: Sequence[TensorType]) -> Iterable[str]:
    for name, kind in sorted({kind.name: kind for kind in types}.items()):
        if kind.id == _OLD_SLOT:
            yield "tensor type 4 is counted as MXFP4, as Ollama reads it"
        elif kind.id is not None and name not in _UPSTREAM and not _is_foreign(kind):
            yield (
                f"Ollama's estimator counts tensors of type {quoted(name)} as 0 bytes. "
                "Here they have their true size"
            )
