"""How experts are taken out of tensors that hold gates and ups together.

Source: llama.cpp, convert_hf_to_gguf.py, `GptOssModel` (`modify_tensors`, `repack_mxfp4`) and
`Qwen3MoeModel`; transformers, `modeling_gpt_oss.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.analysis.matching.rules import Made, Maker, NotComparable, Target
from explorer.analysis.matching.views import TensorPart
from explorer.formats.tensors import GroupedWeights, Shape, StoredArray, Tensor
from explorer.quantization.grouped import GroupedLayout, Mode


def either_way(target: Target, sources: Sequence[Tensor]) -> Made:
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

    def make(target: Target, sources: Sequence[Tensor]) -> Made:
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

    def make(_target: Target, sources: Sequence[Tensor]) -> Made:
        part = TensorPart.whole(sources[0])
        if len(part.shape) == 3:
            part = part.transposed(0, 2, 1)
        view = part.sliced(1, position, part.shape[1], 2)
        return Made((view,), ("it is every second row of a fused tensor",))

    return make


def in_turn(_target: Target, sources: Sequence[Tensor]) -> Made:
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


def turned_experts(_target: Target, sources: Sequence[Tensor]) -> Made:
    """Take gpt-oss's down projections, whose rows and columns are exchanged."""
    part = TensorPart.whole(sources[0]).transposed(0, 2, 1)
    return Made((part,), ("rows and columns are exchanged",))


def mxfp4_blocks(_target: Target, sources: Sequence[Tensor]) -> Made:
    """Take gpt-oss's experts as they were released: codes and scales in two tensors."""
    return Made((TensorPart.whole(_grouped(sources)),))


def mxfp4_interleaved(position: int) -> Maker:
    """Return what takes gates (0) or ups (1) out of these."""

    def make(_target: Target, sources: Sequence[Tensor]) -> Made:
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
