"""How well each recipe agrees with a file: expected types, and what deviates from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from explorer.analysis.recipes import rules
from explorer.analysis.recipes.tensors import Category, RecipeModel, RecipeTensor
from explorer.formats.model import Model
from explorer.formats.tensors import parse_name
from explorer.quantization.types import TENSOR_TYPES

MAX_TENSORS = 1 << 13  # the largest real GGUF has some 3,000; beyond, all recipes take seconds


def why_no_recipe(model: Model) -> str | None:
    """Return why no recipe can be held against a model, or None if one can."""
    if model.format != "gguf":
        return "this is no GGUF file, which llama-quantize's recipes are for; no recipe applies"
    if not model.tensors.main_rows:
        return "the file has no tensors; no recipe applies"
    if model.tensors.main_rows > MAX_TENSORS:
        return f"it has more than {MAX_TENSORS:,} tensors; with so many, recipes are not compared"
    return None


def expected_types(
    model: RecipeModel,
    recipe: rules.Recipe,
    revision: rules.Revision = rules.CURRENT,
    *,
    imatrix: bool,
) -> list[str | None]:
    """Return the type that a recipe gives each tensor, in the order of `RecipeModel.tensors`.

    None stands for a tensor that is not quantized and keeps its type.

    Args:
        imatrix: Whether llama-quantize is given an importance matrix, which changes some rules.

    Raises:
        RecipeError: llama-quantize would refuse to make such a file.
    """
    run = rules.RuleRun(model, recipe, revision, imatrix=imatrix)
    return [run.type_of(tensor) for tensor in model.tensors]


def agrees(tensor: RecipeTensor, expected: str | None) -> bool:
    """Return whether a tensor has its expected type."""
    return not tensor.type.quantized if expected is None else tensor.type.name == expected


def _expected_nbytes(tensor: RecipeTensor, expected: str | None) -> int:
    if expected is None:
        return tensor.nbytes
    kind = TENSOR_TYPES[expected]
    return tensor.parameters // kind.block_weights * kind.block_bytes


_BLOCK = 256  # weights of a block of the K and I types; rows of other lengths get another type


@dataclass(frozen=True, slots=True)
class Deviation:
    """Tensors of one role that have another type than a recipe gives them.

    Attributes:
        role: Their role: ``"ffn_down"``.
        expected: The type that the recipe gives; None if llama-quantize leaves such tensors alone.
        present: The type that they have.
        layers: Their layers, ascending; empty for tensors outside the layers.
        tensors: How many there are.
        parameters: Number of weights.
    """

    role: str
    expected: str | None
    present: str
    layers: tuple[int, ...]
    tensors: int
    parameters: int


@dataclass(frozen=True, slots=True)
class RecipeFit:
    """How well one recipe agrees with a file.

    Attributes:
        recipe: Its name.
        revision: The state of the rules that agrees best; the current one if none is better.
        imatrix: Whether the rules for a given importance matrix were used; None if the recipe has
            none of its own.
        share: Part of the weights whose tensor has the type that the recipe gives, 0 to 1.
        agreeing: Number of these weights.
        parameters: Number of all weights.
        nbytes: Bytes that the tensors would take by the recipe; those that llama-quantize leaves
            alone count as they are.
        deviations: What differs, most weights first.
        declared: Whether it is the one that the file's metadata name.
    """

    recipe: str
    revision: rules.Revision
    imatrix: bool | None
    share: float
    agreeing: int
    parameters: int
    nbytes: int
    deviations: tuple[Deviation, ...]
    declared: bool = False


def compare_with_recipes(model: Model) -> list[RecipeFit]:
    """Return how well every recipe agrees with a model, the best first.

    Recipes that llama-quantize would refuse for such a model are left out. Of those that agree
    equally well the declared one comes first, then the one closest in bytes.

    Args:
        model: Any model; where no recipe applies (`why_no_recipe`) the list is empty.

    Raises:
        ExplorerError: The file changed since it was opened.
    """
    if why_no_recipe(model) is not None:
        return []
    tensors = RecipeModel.of(model)
    declared = rules.declared_recipe(model)
    nbytes = model.nbytes
    fits = []
    for recipe in rules.RECIPES.values():
        found = list(_fits(tensors, recipe))
        if found:
            best = max(found, key=lambda fit: fit.agreeing)  # the first of equals
            fits.append(replace(best, declared=recipe.name == declared))
    fits.sort(key=lambda fit: (-fit.agreeing, not fit.declared, abs(fit.nbytes - nbytes)))
    return fits


def _fits(model: RecipeModel, recipe: rules.Recipe) -> Iterator[RecipeFit]:
    """Yield a fit for each state of the rules that can make a difference."""
    choices: Sequence[bool | None] = (None,)
    if recipe.name in rules.DEPENDS_ON_IMATRIX:
        choices = (True,) if model.imatrix else (False, True)
    revisions = (rules.CURRENT, rules.EARLIER) if _revision_matters(model) else (rules.CURRENT,)
    for revision in revisions:
        for imatrix in choices:
            with suppress(rules.RecipeError):  # left out, as `compare_with_recipes` says
                yield _fit(model, recipe, revision, imatrix)


def _revision_matters(model: RecipeModel) -> bool:
    fused = (Category.QUERY_KEY_VALUE, Category.KEY_VALUE_B, Category.PER_LAYER_EMBEDDING)
    return any(
        one.quantizable and (one.category in fused or one.columns % _BLOCK) for one in model.tensors
    )


def _fit(
    model: RecipeModel, recipe: rules.Recipe, revision: rules.Revision, imatrix: bool | None
) -> RecipeFit:
    expected = expected_types(model, recipe, revision, imatrix=bool(imatrix))
    pairs = list(zip(model.tensors, expected, strict=True))
    total = sum(tensor.parameters for tensor in model.tensors)
    agreeing = sum(tensor.parameters for tensor, kind in pairs if agrees(tensor, kind))
    return RecipeFit(
        recipe=recipe.name,
        revision=revision,
        imatrix=imatrix,
        share=agreeing / total if total else 1.0,
        agreeing=agreeing,
        parameters=total,
        nbytes=sum(_expected_nbytes(tensor, kind) for tensor, kind in pairs),
        deviations=_deviations((one, kind) for one, kind in pairs if not agrees(one, kind)),
    )


def _deviations(pairs: Iterator[tuple[RecipeTensor, str | None]]) -> tuple[Deviation, ...]:
    groups: dict[tuple[str, str | None, str], list[RecipeTensor]] = {}
    for tensor, kind in pairs:
        key = (parse_name(tensor.name).role, kind, tensor.type.name)
        groups.setdefault(key, []).append(tensor)
    found = [
        Deviation(
            role=role,
            expected=kind,
            present=present,
            layers=tuple(sorted({one.layer for one in tensors if one.layer >= 0})),
            tensors=len(tensors),
            parameters=sum(one.parameters for one in tensors),
        )
        for (role, kind, present), tensors in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.parameters))


@dataclass(frozen=True, slots=True)
class MixRow:
    """Tensors of one role and one type.

    Attributes:
        role: Their role by name: ``"ffn_down"``.
        type: Their type's name.
        tensors: How many there are.
        parameters: Number of weights.
        nbytes: Stored bytes.
    """

    role: str
    type: str
    tensors: int
    parameters: int
    nbytes: int

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight; 0.0 without weights."""
        return 8 * self.nbytes / self.parameters if self.parameters else 0.0


def type_mix(model: Model) -> list[MixRow]:
    """Return the types by role, the role with most bytes first.

    Works for every format; a draft model that comes along is left out, as in the model's totals.
    """
    columns = model.tensors.columns
    sums: dict[tuple[str, str], list[int]] = {}
    by_role: dict[str, int] = {}
    for row in range(model.tensors.main_rows):
        role, kind = parse_name(columns.names[row]).role, columns.types[row].name
        nbytes = columns.nbytes[row]
        one = sums.setdefault((role, kind), [0, 0, 0])
        one[0] += 1
        one[1] += columns.parameters[row]
        one[2] += nbytes
        by_role[role] = by_role.get(role, 0) + nbytes
    rows = [MixRow(role, kind, *one) for (role, kind), one in sums.items()]
    return sorted(rows, key=lambda row: (-by_role[row.role], row.role, -row.nbytes))
