"""Which type each tensor of a model would get."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.analysis.recipes.revisions import CURRENT, Revision
from explorer.analysis.recipes.rules import RecipeError, RuleRun
from explorer.analysis.recipes.subject import Subject, SubjectModel
from explorer.analysis.recipes.table import Recipe, recipe_named
from explorer.formats.model import Model
from explorer.quantization.types import TENSOR_TYPES

__all__ = ["ExpectedType", "RecipeError", "expected_nbytes", "expected_of", "expected_types"]

MAX_TENSORS = 1 << 13  # the largest real GGUF has some 3,000; beyond, all recipes take seconds


@dataclass(frozen=True, slots=True)
class ExpectedType:
    """What a recipe says of one tensor.

    Attributes:
        tensor: The tensor's name.
        type: The type that it gets; None if llama-quantize leaves it as the source has it.
        present: The type that it has.
        agrees: Whether the two are the same; of a tensor that is left alone, whether it is not
            quantized.
    """

    tensor: str
    type: str | None
    present: str
    agrees: bool


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
    model: Model,
    recipe: Recipe | str,
    *,
    revision: Revision = CURRENT,
    imatrix: bool | None = None,
) -> list[ExpectedType]:
    """Return the type that a recipe gives each tensor, in the order of the model.

    Args:
        model: A GGUF model; its header is all that is read.
        recipe: A recipe, or its name.
        revision: The state of llama.cpp's rules.
        imatrix: Whether llama-quantize was given an importance matrix; None for what the file says.

    Raises:
        RecipeError: llama-quantize would refuse, or no recipe applies to such a model.
        ExplorerError: There is no such recipe, or the file changed since it was opened.
    """
    chosen = recipe_named(recipe)
    reason = why_no_recipe(model)
    if reason is not None:
        raise RecipeError(reason, model.path)
    subjects = SubjectModel.of(model)
    with_imatrix = subjects.imatrix if imatrix is None else imatrix
    found = expected_of(subjects, chosen, revision, imatrix=with_imatrix)
    rows = sorted(zip(subjects.subjects, found, strict=True), key=lambda pair: pair[0].row)
    return [ExpectedType(one.name, kind, one.type.name, agrees(one, kind)) for one, kind in rows]


def expected_of(
    model: SubjectModel, recipe: Recipe, revision: Revision, *, imatrix: bool
) -> list[str | None]:
    """Return the types of the tensors in the order of `SubjectModel.subjects`.

    Args:
        model: Names, shapes and types, as the rules see them.
        recipe: What llama-quantize is asked for.
        revision: Whose rules.
        imatrix: Whether it is given an importance matrix, which changes some rules.

    Returns:
        A type's name for each tensor; None for one that is not quantized and keeps its type.

    Raises:
        RecipeError: llama-quantize would refuse to make such a file.
    """
    run = RuleRun(model, recipe, revision, imatrix=imatrix)
    return [run.type_of(tensor) for tensor in model.subjects]


def agrees(tensor: Subject, expected: str | None) -> bool:
    """Tell whether a tensor has the type that is expected of it."""
    return not tensor.type.quantized if expected is None else tensor.type.name == expected


def expected_nbytes(tensor: Subject, expected: str | None) -> int:
    """Return the bytes that a tensor would take."""
    if expected is None:
        return tensor.nbytes
    kind = TENSOR_TYPES[expected]
    return tensor.parameters // kind.block_weights * kind.block_bytes
