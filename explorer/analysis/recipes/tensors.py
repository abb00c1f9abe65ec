"""A model as the rules see it: hyperparameters, and the tensors by category in llama.cpp's order.

Everything that does not depend on the recipe is read once here; forty recipes share it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from explorer.errors import ExplorerError
from explorer.formats.model import Metadata, Model
from explorer.formats.tensors import Shape
from explorer.quantization.types import TensorType


class Category(Enum):
    """What a tensor does, as far as the rules care (llama.cpp's `tensor_category`)."""

    TOKEN_EMBEDDING = auto()
    PER_LAYER_EMBEDDING = auto()
    OUTPUT = auto()
    QUERY = auto()
    KEY = auto()
    VALUE = auto()
    QUERY_KEY_VALUE = auto()
    KEY_VALUE_B = auto()
    ATTENTION_OUTPUT = auto()
    FFN_UP = auto()
    FFN_GATE = auto()
    FFN_DOWN = auto()
    OTHER = auto()


# In this order; parts of names, so that the tensors of experts belong too.
_BY_PART: Final = (
    ("attn_qkv.weight", Category.QUERY_KEY_VALUE),
    ("attn_kv_b.weight", Category.KEY_VALUE_B),
    ("attn_v.weight", Category.VALUE),
    ("attn_k.weight", Category.KEY),
    ("attn_q.weight", Category.QUERY),
    ("attn_output.weight", Category.ATTENTION_OUTPUT),
    ("ffn_up", Category.FFN_UP),
    ("ffn_gate", Category.FFN_GATE),
    ("ffn_down", Category.FFN_DOWN),
)
_BY_NAME: Final = {
    "output.weight": Category.OUTPUT,
    "token_embd.weight": Category.TOKEN_EMBEDDING,
    "per_layer_token_embd.weight": Category.PER_LAYER_EMBEDDING,
}
_VALUES: Final = frozenset({Category.VALUE, Category.QUERY_KEY_VALUE, Category.KEY_VALUE_B})

# Parts of names that llama.cpp never quantizes (`tensor_allows_quantization`).
_LEFT_ALONE: Final = re.compile(
    "|".join(
        re.escape(part)
        for part in (
            "_norm.weight",
            "ffn_gate_inp.weight",
            "ffn_gate_tid2eid.weight",
            "altup",
            "laurel",
            "per_layer_model_proj",
            "ssm_conv1d",
            "shortconv.conv.weight",
            "indexer.k_proj.weight",
            "indexer.q_proj.weight",
            "time_mix_first.weight",
            *(f"time_mix_{gate}{i}.weight" for gate in "wva" for i in range(3)),
            "time_mix_g1.weight",
            "time_mix_g2.weight",
            "time_mix_decay_w1.weight",
            "time_mix_decay_w2.weight",
            "time_mix_lerp_fused.weight",
            "attn_rel_b.weight",
            ".position_embd",
            "sam.pos_embd",
            "sam.neck.",
            "sam.net_",
            ".rel_pos",
            ".patch_embd",
            ".patch_merger",
            "a.rvq.codebook",
            "mm.a.code_embd",
        )
    )
)
_LEFT_ALONE_NAMES: Final = frozenset({"position_embd.weight", "token_types.weight"})
GLM5_NEXT: Final = "glm5-next"
"""An architecture that has rules of its own, in `tensor_allows_quantization` and for Q8_0."""
_LEFT_ALONE_OF_GLM5: Final = re.compile(
    r"hc_|indexer\.(attn_q_b|attn_k|proj)|indexer_compressor_(gate|ape)"
    r"|(ssm_(f_a|f_b|g_a|g_b|beta)|attn_(kv_a_mqa|k_b|v_b))\.weight"
)
_LAYER: Final = re.compile(r"blk\.(\d{1,9})")

# Models that llama.cpp's loader calls LLM_TYPE_70B (src/models/*.cpp, `load_arch_hparams`). For
# llama that is so only if heads share keys and values, and with other than eight experts. Layers of
# multi-token prediction do not count there.
_LLAMAS: Final = frozenset({"llama", "llama-embed"})
_LAYERS_OF_70B: Final = {**dict.fromkeys((*_LLAMAS, "deci", "olmo", "qwen2"), 80), "jais2": 68}

_MAX_HEADS: Final = 65_536  # a longer array of head counts is not one


@dataclass(frozen=True, slots=True)
class RecipeTensor:
    """One tensor as the rules see it.

    Attributes:
        row: Its row in the model's table.
        name: Its name.
        category: What it does.
        quantizable: Whether llama-quantize would change its type at all.
        layer: Number of its layer (`blk.N`), or -1.
        columns: Length of a row.
        parameters: Number of weights.
        stacked: Whether it has more than two dimensions, as stacked experts have.
        type: Its present type.
        nbytes: Its present bytes.
    """

    row: int
    name: str
    category: Category
    quantizable: bool
    layer: int
    columns: int
    parameters: int
    stacked: bool
    type: TensorType
    nbytes: int


@dataclass(frozen=True)
class RecipeModel:
    """A model as the rules see it.

    Attributes:
        architecture: Its name, or nothing.
        layers: Number of layers as llama.cpp counts them: those of multi-token prediction included.
        experts: Experts of a layer; 0 if it is not a mixture.
        sharing: Query heads for each key and value head of the first layer (`n_gqa`); 0 if it has
            none.
        is_70b: Whether llama.cpp calls it a model of 70 B, which has a rule of its own.
        imatrix: True if the file says that an importance matrix was used. False says nothing: older
            files do not record it.
        tied: Whether it has no output matrix, the token embedding being used for it.
        value_tensors: Number of tensors that hold attention values.
        tensors: Its tensors in the order in which llama-quantize takes them: by layer, then by
            name.
    """

    architecture: str
    layers: int
    experts: int
    sharing: int
    is_70b: bool
    imatrix: bool
    tied: bool
    value_tensors: int
    tensors: Sequence[RecipeTensor]

    @classmethod
    def of(cls, model: Model) -> RecipeModel:
        """Return what the rules need of a GGUF model; reads its header only.

        Raises:
            ExplorerError: The file changed since it was opened.
        """
        metadata = model.metadata
        architecture = metadata.text("general.architecture") or ""
        predicting = _count(metadata, f"{architecture}.nextn_predict_layers")
        layers = _count(metadata, f"{architecture}.block_count")
        experts = _count(metadata, f"{architecture}.expert_count")
        heads = _first(metadata, f"{architecture}.attention.head_count")
        stored = _first(metadata, f"{architecture}.attention.head_count_kv")
        kv_heads = heads if stored is None else stored
        tensors = _recipe_tensors(model, architecture)
        is_70b = _LAYERS_OF_70B.get(architecture) == layers - predicting
        if architecture in _LLAMAS:
            is_70b = is_70b and heads != kv_heads and experts != 8
        loops = _count(metadata, f"{architecture}.num_loops")
        if architecture == "nanbeige" and loops > 1:
            layers = (layers - predicting) * loops  # each layer is gone through several times
        elif architecture == "graniteswitch":
            layers += 1 - predicting  # its router counts as one that predicts
        return cls(
            architecture=architecture,
            layers=layers,
            experts=experts,
            sharing=heads // kv_heads if heads and kv_heads else 0,
            is_70b=is_70b,
            imatrix=any(key.startswith("quantize.imatrix.") for key in metadata),
            tied=all(one.category is not Category.OUTPUT for one in tensors),
            value_tensors=sum(one.category in _VALUES for one in tensors),
            tensors=tensors,
        )


def _recipe_tensors(model: Model, architecture: str) -> list[RecipeTensor]:
    columns = model.tensors.columns
    found = []
    for row in range(model.tensors.main_rows):
        name, shape = columns.names[row], columns.shapes[row]
        layer = _LAYER.match(name)
        found.append(
            RecipeTensor(
                row=row,
                name=name,
                category=category_of(name),
                quantizable=_is_quantizable(name, shape, architecture),
                layer=-1 if layer is None else int(layer[1]),
                columns=shape[-1] if shape else 1,
                parameters=columns.parameters[row],
                stacked=len(shape) > 2 and shape[-3] > 1,
                type=columns.types[row],
                nbytes=columns.nbytes[row],
            )
        )
    return sorted(found, key=lambda one: (one.layer, one.name))


def category_of(name: str) -> Category:
    """Return what a tensor of that name does."""
    by_part = (category for part, category in _BY_PART if part in name)
    return _BY_NAME.get(name) or next(by_part, Category.OTHER)


def _is_quantizable(name: str, shape: Shape, architecture: str) -> bool:
    """Return whether llama-quantize changes a tensor's type; what it leaves alone is small."""
    rows = [length for length in shape[:-1] if length > 1]  # ggml counts no outer dimensions of 1
    return (
        bool(rows)
        and name.endswith("weight")
        and name not in _LEFT_ALONE_NAMES
        and _LEFT_ALONE.search(name) is None
        and not (architecture == GLM5_NEXT and _LEFT_ALONE_OF_GLM5.search(name))
    )


def _count(metadata: Metadata, key: str) -> int:
    value = metadata.integer(key)
    return value if value is not None and value > 0 else 0


def _first(metadata: Metadata, key: str) -> int | None:
    """Return a count, of the first layer where each has its own; None if it is not there."""
    entry = metadata.entry(key)
    if entry is None:
        return None
    if entry.length is None:
        return _count(metadata, key)
    if not 0 < entry.length <= _MAX_HEADS:
        raise ExplorerError(f"{key} is not a list with a number for each layer")
    value = entry.value
    first = value[0] if isinstance(value, Sequence) else None
    return first if isinstance(first, int) and first > 0 else 0
