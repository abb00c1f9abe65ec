"""How well each recipe agrees with what is in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.analysis.recipes.expected import (
    agrees,
    expected_nbytes,
    expected_of,
    why_no_recipe,
)
from explorer.analysis.recipes.revisions import CURRENT, EARLIER, Revision
from explorer.analysis.recipes.rules import DEPENDS_ON_IMATRIX, RecipeError
from explorer.analysis.recipes.subject import Category, Subject, SubjectModel
from explorer.analysis.recipes.table import RECIPES, Recipe, declared_recipe
from explorer.formats.model import Model
from explorer.formats.tensors import parse_name

__all__ = ["Deviation", "RecipeFit", "compare_with_recipes", "why_no_recipe"]

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
        parameters: Their weights.
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
    revision: Revision
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
    subjects = SubjectModel.of(model)
    declared = declared_recipe(model)
    nbytes = model.nbytes
    fits = []
    for recipe in RECIPES.values():
        found = list(_fits(subjects, recipe))
        if found:
            best = max(found, key=lambda fit: fit.agreeing)  # the first of equals
            fits.append(replace(best, declared=recipe.name == declared))
    fits.sort(key=lambda fit: (-fit.agreeing, not fit.declared, abs(fit.nbytes - nbytes)))
    return fits


def _fits(model: SubjectModel, recipe: Recipe) -> Iterator[RecipeFit]:
    """Yield a fit for each state of the rules that can make a difference."""
    choices: Sequence[bool | None] = (None,)
    if recipe.name in DEPENDS_ON_IMATRIX:
        choices = (True,) if model.imatrix else (False, True)
    revisions = (CURRENT, EARLIER) if _revision_matters(model) else (CURRENT,)
    for revision in revisions:
        for imatrix in choices:
            try:
                expected = expected_of(model, recipe, revision, imatrix=bool(imatrix))
            except RecipeError:  # left out, as `compare_with_recipes` says
                continue
            yield _fit(model, recipe, revision, imatrix, expected)


def _revision_matters(model: SubjectModel) -> bool:
    fused = (Category.QUERY_KEY_VALUE, Category.KEY_VALUE_B, Category.PER_LAYER_EMBEDDING)
    return any(
        one.quantizable and (one.category in fused or one.columns % _BLOCK)
        for one in model.subjects
    )


def _fit(
    model: SubjectModel,
    recipe: Recipe,
    revision: Revision,
    imatrix: bool | None,
    expected: Sequence[str | None],
) -> RecipeFit:
    pairs = list(zip(model.subjects, expected, strict=True))
    total = sum(tensor.parameters for tensor in model.subjects)
    agreeing = sum(tensor.parameters for tensor, kind in pairs if agrees(tensor, kind))
    return RecipeFit(
        recipe=recipe.name,
        revision=revision,
        imatrix=imatrix,
        share=agreeing / total if total else 1.0,
        agreeing=agreeing,
        parameters=total,
        nbytes=sum(expected_nbytes(tensor, kind) for tensor, kind in pairs),
        deviations=_deviations(
            (tensor, kind) for tensor, kind in pairs if not agrees(tensor, kind)
        ),
    )


def _deviations(pairs: Iterator[tuple[Subject, str | None]]) -> tuple[Deviation, ...]:
    groups: dict[tuple[str, str | None, str], list[Subject]] = {}
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
