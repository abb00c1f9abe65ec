"""The file types that llama-quantize offers, with the type that most of their tensors get.

llama.cpp, tools/quantize/quantize.cpp (`QUANT_OPTIONS`) and src/llama-quant.cpp
(`llama_ftype_get_default_type`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from explorer.errors import ExplorerError
from explorer.formats.enums import FILE_TYPE_KEY, FILE_TYPES, enum_name
from explorer.formats.model import Model
from explorer.quantization.types import TENSOR_TYPES

# The type of tensors that no rule of the recipe singles out, where it is not the recipe's own name.
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


def recipe_named(recipe: Recipe | str) -> Recipe:
    """Return a recipe; a name is looked up.

    Raises:
        ExplorerError: There is none of that name.
    """
    if isinstance(recipe, Recipe):
        return recipe
    found = RECIPES.get(recipe.upper())
    if found is None:
        known = ", ".join(RECIPES)
        raise ExplorerError(f"llama-quantize has no file type {recipe[:80]!r}; it has {known}")
    return found


def declared_recipe(model: Model) -> str | None:
    """Return the file type that a model's metadata name, as a label; None without any.

    The label need not be a recipe: numbers that nobody knows (yet) are labels too.
    """
    try:
        value = model.metadata.integer(FILE_TYPE_KEY)
    except ExplorerError:
        return None
    return None if value is None else enum_name(FILE_TYPE_KEY, value)
