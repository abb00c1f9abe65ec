"""How a tensor is made of another model's tensors: the converters' transforms, as views.

Source: llama.cpp, convert_hf_to_gguf.py: `LlamaModel.permute`, `GemmaModel.modify_tensors` and its
siblings', `GPT2Model.modify_tensors`, `DeepseekV2Model.modify_tensors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from explorer.analysis.matching.views import TensorPart
from explorer.formats.tensors import GroupedWeights, Shape, StoredArray, Tensor
from explorer.quantization.grouped import GroupedLayout, Mode


class NotComparable(Exception):
    """Two tensors belong together, but nothing could be learned from their difference.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TargetTensor:
    """What is to be made.

    Attributes:
        tensor: The tensor whose weights are wanted, in its order.
        permuted: Whether the architecture's converter permutes the rows of q and k.
        shifted: Whether it adds 1 to the weights of norms.
        heads: Heads of the layer; None if unknown.
        kv_heads: Heads of keys and values; None if unknown.
    """

    tensor: Tensor
    permuted: bool = False
    shifted: bool = False
    heads: int | None = None
    kv_heads: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What a rule makes.

    Attributes:
        parts: Whose weights are the target's, one behind the other.
        notes: What was done, in words.
        shape: Of all parts together; None for that of the only one.
    """

    parts: tuple[TensorPart, ...]
    notes: tuple[str, ...] = ()
    shape: Shape | None = None


Maker: TypeAlias = Callable[[TargetTensor, Sequence[Tensor]], Made]
"""make(target, sources); raises `NotComparable`, or `ValueError` for shapes that do not fit."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to make a tensor.

    Attributes:
        make: Makes it of the sources.
        sources: Names, with ``{i}`` for the layer, ``{s}`` for ``weight`` or ``bias``, and ``{e}``
            for experts, of whom there are as many as there are names.
        suffixes: The suffixes of targets that it makes.
    """

    make: Maker
    sources: tuple[str, ...]
    suffixes: tuple[str, ...] = field(default=("weight", "bias"))


def same(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take a tensor as it is."""
    return Made((TensorPart.whole(sources[0]),))


def joined(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Put tensors one behind the other: q, k and v, or the experts of a layer.

    Experts make a dimension of their own; of each there may be several tensors.

    Raises:
        NotComparable: Their rows differ in length, or they are not those of as many experts.
    """
    inner = sources[0].shape[1:]
    if any(source.shape[1:] != inner for source in sources):
        raise NotComparable("the tensors to be joined have rows of different lengths")
    rows = sum(source.shape[0] for source in sources)
    shape: Shape = (rows, *inner)
    if len(target.tensor.shape) == len(shape) + 1:
        experts = target.tensor.shape[0]
        if len(sources) % experts or len({source.shape for source in sources}) > 1:
            raise NotComparable(f"{len(sources)} tensors are not those of {experts} experts")
        shape = (experts, rows // experts, *inner)
    parts = tuple(map(TensorPart.whole, sources))
    return Made(parts, (f"{len(sources)} tensors are joined",), shape)


def norm(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take a norm; Gemma's weights are stored less 1 by Hugging Face."""
    part = TensorPart.whole(sources[0])
    if not target.shifted or not target.tensor.name.endswith("norm.weight"):
        return Made((part,))
    return Made((part.added(1.0),), ("1 is added to the weights of the norm",))


def vocabulary(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take a matrix of a row for each token; converters leave out rows without a token."""
    part = TensorPart.whole(sources[0])
    rows = target.tensor.shape[0] if target.tensor.shape else 0
    if len(part.shape) != 2 or rows >= part.shape[0]:
        return Made((part,))
    note = f"only its first {rows:,} rows of {part.shape[0]:,} are there on both sides"
    return Made((part.sliced(0, 0, rows),), (note,))


def tied(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take the token embedding for the output, where a model has one matrix for both."""
    made = vocabulary(target, sources)
    return Made(made.parts, ("the token embedding is the output too", *made.notes))


def query(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take queries; see `_permuted`."""
    return _permuted(target, sources[0], target.heads)


def key(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take keys; see `_permuted`."""
    return _permuted(target, sources[0], target.kv_heads)


def _permuted(target: TargetTensor, source: Tensor, heads: int | None) -> Made:
    """Put the rows of each head into the order in which llama.cpp rotates pairs of them.

    Hugging Face pairs row j of a head with row j + half; llama.cpp row 2 j with row 2 j + 1.
    """
    part = TensorPart.whole(source)
    if not target.permuted:
        return Made((part,))
    if heads is None:
        raise NotComparable("rows of heads are permuted, and the number of heads is not known")
    rows, *rest = part.shape
    if heads < 1 or rows % (2 * heads):
        raise NotComparable(f"{rows} rows are not those of {heads} heads")
    order = (0, 2, 1, *range(3, 3 + len(rest)))
    view = part.reshaped(heads, 2, rows // heads // 2, *rest).transposed(*order)
    note = "the rows of each head are permuted as llama.cpp keeps them"
    return Made((view,), (note,), part.shape)


def transposed(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Exchange rows and columns, as for weights of GPT-2's Conv1D."""
    part = TensorPart.whole(sources[0])
    if len(part.shape) != 2:
        return Made((part,))  # a bias
    return Made((part.transposed(1, 0),), ("rows and columns are exchanged",))


def rows_of(position: int) -> Maker:
    """Return what takes queries (0), keys (1) or values (2) out of a fused tensor.

    Keys and values have as many rows as the target; queries have the rest.
    """

    def make(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(sources[0])
        rows, total = target.tensor.shape[0], part.shape[0]
        start = 0 if position == 0 else total - (3 - position) * rows
        return Made((part.sliced(0, start, start + rows),), ("it is a part of a fused tensor",))

    return make


def half(position: int, of: int = 0) -> Maker:
    """Return what takes the first (0) or second (1) half of a fused tensor's dimension."""

    def make(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(sources[0])
        count = part.shape[of] // 2
        view = part.sliced(of, position * count, (position + 1) * count)
        return Made((view,), ("it is a half of a fused tensor",))

    return make


def fused_up(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take gate and up in one tensor, as Phi-3's `ffn_up` has them, or only up's half."""
    if target.tensor.shape == sources[0].shape:
        return same(target, sources)
    return half(1)(target, sources)


def key_up(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take the keys' part of DeepSeek's kv_b, each head transposed: [heads, rank, size]."""
    part = TensorPart.whole(sources[0])
    heads, _rank, size = target.tensor.shape
    rows, rank = part.shape
    view = part.reshaped(heads, rows // heads, rank).sliced(1, 0, size).transposed(0, 2, 1)
    return Made((view,), ("it is a part of a fused tensor, each head transposed",))


def value_up(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take the values' part of DeepSeek's kv_b: [heads, size, rank]."""
    part = TensorPart.whole(sources[0])
    heads, size, _rank = target.tensor.shape
    rows, rank = part.shape
    each = rows // heads
    view = part.reshaped(heads, each, rank).sliced(1, each - size, each)
    return Made((view,), ("it is a part of a fused tensor",))


# How experts are taken out of tensors that hold gates and ups together.
#
# Source: llama.cpp, convert_hf_to_gguf.py, `GptOssModel` (`modify_tensors`, `repack_mxfp4`) and
# `Qwen3MoeModel`; transformers, `modeling_gpt_oss.py`.


def either_way(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take experts in one tensor, whose rows and columns some releases exchange.

    Raises:
        NotComparable: Rows and columns are as many, so that both ways fit.
    """
    part = TensorPart.whole(sources[0])
    _experts, rows, columns = target.tensor.shape
    if part.shape[1:] == (rows, columns) == (columns, rows):
        raise NotComparable("the experts' matrices are square: their layout cannot be told")
    if part.shape[1:] != (columns, rows):
        return Made((part,))
    return Made((part.transposed(0, 2, 1),), ("rows and columns are exchanged",))


def expert_half(position: int) -> Maker:
    """Return what takes gates (0) or ups (1) out of experts' fused tensor, either way round.

    Newer models keep [experts, 2 * rows, columns]; some keep [experts, columns, 2 * rows]. What is
    returned raises `NotComparable` where both would fit.
    """

    def make(target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(sources[0])
        _experts, rows, columns = target.tensor.shape
        plain, turned = (2 * rows, columns), (columns, 2 * rows)
        if part.shape[1:] == plain == turned:
            raise NotComparable("the fused tensor is square: its layout cannot be told")
        if part.shape[1:] == turned:
            part = part.transposed(0, 2, 1)
        view = part.sliced(1, position * rows, (position + 1) * rows)
        return Made((view,), ("it is a half of a fused tensor",))

    return make


def interleaved(position: int) -> Maker:
    """Return what takes every second row of gpt-oss's fused gates (0) and ups (1).

    Weights are [experts, columns, 2 * rows], biases [experts, 2 * rows].
    """

    def make(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(sources[0])
        if len(part.shape) == 3:
            part = part.transposed(0, 2, 1)
        view = part.sliced(1, position, part.shape[1], 2)
        return Made((view,), ("it is every second row of a fused tensor",))

    return make


def in_turn(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Put gpt-oss's gates in front of the ups: what was in turn before."""
    part = TensorPart.whole(sources[0] if len(sources) == 1 else _grouped(sources))
    if len(part.shape) == 3 and len(sources) == 1:  # rows and columns are exchanged
        experts, columns, rows = part.shape
        view = part.reshaped(experts, columns, rows // 2, 2).transposed(0, 3, 2, 1)
        shape: Shape = (experts, rows, columns)
    else:
        experts, rows, *rest = shape = part.shape
        order = (0, 2, 1, 3)[: 3 + len(rest)]
        view = part.reshaped(experts, rows // 2, 2, *rest).transposed(*order)
    return Made((view,), ("every second row is put behind the others",), shape)


def turned_experts(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take gpt-oss's down projections, whose rows and columns are exchanged."""
    part = TensorPart.whole(sources[0]).transposed(0, 2, 1)
    return Made((part,), ("rows and columns are exchanged",))


def mxfp4_blocks(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
    """Take gpt-oss's experts as they were released: codes and scales in two tensors."""
    return Made((TensorPart.whole(_grouped(sources)),))


def mxfp4_interleaved(position: int) -> Maker:
    """Return what takes gates (0) or ups (1) out of these."""

    def make(_target: TargetTensor, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(_grouped(sources))
        view = part.sliced(1, position, part.shape[1], 2)
        return Made((view,), ("it is every second row of a fused tensor",))

    return make


def _grouped(sources: Sequence[Tensor]) -> Tensor:
    """Return codes, U8 [experts, rows, groups, 16], and scales, U8 [.., groups], as one tensor."""
    blocks, scales = sources
    layout = GroupedLayout(Mode.MXFP4, 4, 32, "U8")
    shape = blocks.shape
    if (
        {blocks.type.name, scales.type.name} != {"U8"}
        or len(shape) != 4
        or shape[3] != layout.packed_bytes
        or scales.shape != shape[:3]
    ):
        raise NotComparable(f"{blocks.name!r} and {scales.name!r} are no MXFP4 blocks and scales")
    extents = (blocks.extents[0], scales.extents[0])
    return Tensor(
        name=blocks.name,
        shape=(shape[0], shape[1], shape[2] * layout.group_size),
        type=layout.type,
        extents=extents,
        parameters=scales.parameters * layout.group_size,
        damage=blocks.damage or scales.damage,
        grouped=GroupedWeights(
            weight=StoredArray(extents[0], blocks.type, shape),
            scales=StoredArray(extents[1], scales.type, scales.shape),
            biases=None,
            global_scale=None,
            layout=layout,
        ),
    )
