"""How well each recipe agrees with a file: expected types, deviations, and a verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.analysis.recipes.rules import (
    CURRENT,
    DEPENDS_ON_IMATRIX,
    EARLIER,
    RECIPES,
    Recipe,
    RecipeError,
    Revision,
    RuleRun,
    declared_recipe,
    recipe_named,
)
from explorer.analysis.recipes.tensors import Category, RecipeModel, RecipeTensor
from explorer.formats.model import Model
from explorer.formats.tensors import parse_name
from explorer.quantization.types import TENSOR_TYPES
from explorer.text import fixed_text, plain_text, runs_text, shorten

MAX_TENSORS = 1 << 13  # the largest real GGUF has some 3,000; beyond, all recipes take seconds


@dataclass(frozen=True, slots=True)
class ExpectedType:
    """The type that a recipe gives a tensor.

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
    model: Model, recipe: Recipe | str, *, revision: Revision = CURRENT, imatrix: bool | None = None
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
    tensors = RecipeModel.of(model)
    with_imatrix = tensors.imatrix if imatrix is None else imatrix
    found = expected_of(tensors, chosen, revision, imatrix=with_imatrix)
    rows = sorted(zip(tensors.tensors, found, strict=True), key=lambda pair: pair[0].row)
    return [ExpectedType(one.name, kind, one.type.name, agrees(one, kind)) for one, kind in rows]


def expected_of(
    model: RecipeModel, recipe: Recipe, revision: Revision, *, imatrix: bool
) -> list[str | None]:
    """Return the types of the tensors in the order of `RecipeModel.tensors`.

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
    return [run.type_of(tensor) for tensor in model.tensors]


def agrees(tensor: RecipeTensor, expected: str | None) -> bool:
    """Return whether a tensor has its expected type."""
    return not tensor.type.quantized if expected is None else tensor.type.name == expected


def expected_nbytes(tensor: RecipeTensor, expected: str | None) -> int:
    """Return the bytes that a tensor would take."""
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
    tensors = RecipeModel.of(model)
    declared = declared_recipe(model)
    nbytes = model.nbytes
    fits = []
    for recipe in RECIPES.values():
        found = list(_fits(tensors, recipe))
        if found:
            best = max(found, key=lambda fit: fit.agreeing)  # the first of equals
            fits.append(replace(best, declared=recipe.name == declared))
    fits.sort(key=lambda fit: (-fit.agreeing, not fit.declared, abs(fit.nbytes - nbytes)))
    return fits


def _fits(model: RecipeModel, recipe: Recipe) -> Iterator[RecipeFit]:
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


def _revision_matters(model: RecipeModel) -> bool:
    fused = (Category.QUERY_KEY_VALUE, Category.KEY_VALUE_B, Category.PER_LAYER_EMBEDDING)
    return any(
        one.quantizable and (one.category in fused or one.columns % _BLOCK) for one in model.tensors
    )


def _fit(
    model: RecipeModel,
    recipe: Recipe,
    revision: Revision,
    imatrix: bool | None,
    expected: Sequence[str | None],
) -> RecipeFit:
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
        nbytes=sum(expected_nbytes(tensor, kind) for tensor, kind in pairs),
        deviations=_deviations(
            (tensor, kind) for tensor, kind in pairs if not agrees(tensor, kind)
        ),
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
        parameters: Their weights.
        nbytes: Their stored bytes.
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
    table = model.tensors
    columns = table.columns
    sums: dict[tuple[str, str], list[int]] = {}
    by_role: dict[str, int] = {}
    for row in range(table.main_rows):
        role, kind = parse_name(columns.names[row]).role, columns.types[row].name
        nbytes = columns.nbytes[row]
        one = sums.setdefault((role, kind), [0, 0, 0])
        one[0] += 1
        one[1] += columns.parameters[row]
        one[2] += nbytes
        by_role[role] = by_role.get(role, 0) + nbytes
    rows = [MixRow(role, kind, *one) for (role, kind), one in sums.items()]
    return sorted(rows, key=lambda row: (-by_role[row.role], row.role, -row.nbytes))


_SHOWN_DEVIATIONS = 2
_SHOWN_RUNS = 6
_LONGEST_ROLE = 60


def verdict(model: Model, fits: Sequence[RecipeFit]) -> str:
    """Return a sentence: what the file says it is, and what is in it. Safe to show.

    Args:
        fits: What `compare_with_recipes` says of it.
    """
    reason = why_no_recipe(model)
    if reason is not None:
        return f"{reason[0].upper()}{reason[1:]}."
    label = declared_recipe(model)
    declared = next((fit for fit in fits if fit.declared), None)
    if declared is not None:
        return f"The file says {label}; {_finding(declared)}.{_better(declared, fits[0])}"
    best = f" The closest recipe is {fits[0].recipe}: {_finding(fits[0])}." if fits else ""
    if label is None:
        return f"The file does not say which recipe it was made by.{best}"
    if label in RECIPES:
        return f"The file says {label}, but {_refusal(model, label)}.{best}"
    return f"The file says {shorten(plain_text(label), 80)}, for which no rule is known.{best}"


def _finding(fit: RecipeFit) -> str:
    variant = f" ({', '.join(_variant(fit))})" if _variant(fit) else ""
    rule = f"the type that llama.cpp's {fit.recipe} rule{variant} gives"
    if not fit.deviations:
        return f"every weight has {rule}"
    shown = [deviation_text(one) for one in fit.deviations[:_SHOWN_DEVIATIONS]]
    left = len(fit.deviations) - len(shown)
    more = f"; {left} more such groups differ" if left else ""
    return f"{percent_text(fit.share)} of the weights have {rule}; {'; '.join(shown)}{more}"


def _variant(fit: RecipeFit) -> list[str]:
    parts = [f"as it was {EARLIER.name}"] if fit.revision is EARLIER else []
    return [*parts, "with an importance matrix"] if fit.imatrix else parts


def _better(declared: RecipeFit, best: RecipeFit) -> str:
    if best.agreeing <= declared.agreeing:
        return ""
    return f" {best.recipe} agrees better, with {percent_text(best.share)} of the weights."


def _refusal(model: Model, label: str) -> str:
    try:
        expected_types(model, label)
    except RecipeError as error:
        return error.what
    return "that recipe was not compared"


def percent_text(share: float) -> str:
    """Return a share in per cent; rounding makes neither a whole nor a nothing of it."""
    text = f"{100 * share:.1f}"
    if share < 1 and text == "100.0":
        return "more than 99.9 %"
    if share > 0 and text == "0.0":
        return "less than 0.1 %"
    return f"{fixed_text(100 * share, 1)} %"


def deviation_text(deviation: Deviation) -> str:
    """Return ``"ffn_down of layers 3–7 is Q8_0 instead of Q6_K"``. Safe to show."""
    role = shorten(plain_text(deviation.role), _LONGEST_ROLE)
    instead = (
        "though llama-quantize leaves it unquantized"
        if deviation.expected is None
        else f"instead of {deviation.expected}"
    )
    where = f" of {layers_text(deviation.layers)}" if deviation.layers else ""
    return f"{role}{where} is {plain_text(deviation.present)} {instead}"


def layers_text(layers: Sequence[int]) -> str:
    """Return ``"layer 3"`` or ``"layers 0, 3–7"``; very scattered ones are only counted."""
    if not layers:
        return ""
    if len(layers) == 1:
        return f"layer {layers[0]}"
    runs = runs_text(layers, _SHOWN_RUNS)
    return f"layers {runs}" if runs else f"{len(layers)} layers"
