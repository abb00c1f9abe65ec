"""Recipes and a model: how well each agrees with it, and what each would make of it.

To agree, types are compared and no weight is read. What a recipe would make is rounded in memory,
all of it: nothing is written and nothing is sampled. What two recipes have in common (the same
tensor in the same type) is rounded once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from explorer.analysis.errors.pairs import PairErrors
from explorer.analysis.recipes import ollama, rules
from explorer.analysis.recipes.tensors import Category, RecipeModel, RecipeTensor
from explorer.analysis.rounding import rounded_type
from explorer.analysis.what_if import PRESENT, RunningTotal, SizeAfter, Task, TensorSet, TypeErrors
from explorer.formats.model import Model
from explorer.formats.tensors import TensorColumns, bits_per_weight, parse_name
from explorer.quantization.types import TENSOR_TYPES

MAX_TENSORS = 1 << 13  # the largest real GGUF has some 3,000; beyond, all recipes take seconds


def recipe_names(model: Model) -> tuple[str, ...]:
    """Return the recipes that quantize: llama-quantize's, or Ollama's for what is no GGUF."""
    if model.format != "gguf":
        return tuple(ollama.BITS)
    return tuple(name for name, recipe in rules.RECIPES.items() if recipe.quantized)


def why_no_recipe(model: Model) -> str | None:
    """Return why no recipe can be tried on a model, or None if one can."""
    if model.format == "safetensors":
        if not model.config:
            return "there is no config.json, so Ollama makes no model of it"
        if any(kind.quantized for kind in model.tensors.columns.types):
            return "its weights are quantized, and Ollama's recipes are for those that are not"
    elif model.format not in {"gguf", ollama.FORMAT}:
        return "no recipe applies to this format"
    if not model.tensors.main_rows:
        return "the file has no tensors. No recipe applies"
    if model.tensors.main_rows > MAX_TENSORS:
        return f"it has more than {MAX_TENSORS:,} tensors; with so many, recipes are not compared"
    return None


def why_not_compared(model: Model) -> str | None:
    """Return why no recipe, of llama-quantize or of Ollama, can be compared; None if one can."""
    if model.format == ollama.FORMAT and model.stored:
        return None
    if model.format != "gguf":
        return "not a GGUF file, so no recipe of llama-quantize applies"
    return why_no_recipe(model)


def rules_source(model: Model) -> str:
    """Return where the rules come from that a model is compared with."""
    return ollama.SOURCE if model.format == ollama.FORMAT else rules.RULES_SOURCE


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
    return not tensor.type.quantized if expected is None else tensor.type.name == expected


def _expected_nbytes(tensor: RecipeTensor, expected: str | None) -> int:
    if expected is None:
        return tensor.nbytes
    kind = TENSOR_TYPES[expected]
    return tensor.parameters // kind.block_weights * kind.block_bytes


_SOURCE_BITS = 16  # of weights as they are published, where the model has quantized them
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
        share: Part of the weights whose tensor has the type that the recipe gives, 0 to 1.
        agreeing: Number of these weights.
        parameters: Number of all weights.
        nbytes: Bytes that the tensors would take by the recipe; those that llama-quantize leaves
            alone count as they are.
        file_nbytes: Bytes that they take in the file.
        deviations: What differs, most weights first.
        revision: The state of the rules that agrees best; the current one if none is better.
        imatrix: Whether the rules for a given importance matrix were used; None if the recipe has
            none of its own.
        declared: Whether it is the one that the file's metadata name.
        by: The program whose recipe it is.
    """

    recipe: str
    share: float
    agreeing: int
    parameters: int
    nbytes: int
    file_nbytes: int
    deviations: tuple[Deviation, ...]
    revision: rules.Revision = rules.CURRENT
    imatrix: bool | None = None
    declared: bool = False
    by: str = "llama.cpp"


def compare_with_recipes(model: Model) -> list[RecipeFit]:
    """Return how well every recipe agrees with a model, the best first.

    Recipes that llama-quantize would refuse for such a model are left out. Of those that agree
    equally well the declared one comes first, then the one closest in bytes.

    Args:
        model: Any model; where no recipe applies (`why_no_recipe`) the list is empty.

    Raises:
        ExplorerError: The file changed since it was opened.
    """
    if why_not_compared(model) is not None:
        return []
    declared, nbytes, fits = rules.declared_recipe(model), model.nbytes, []
    if model.format == ollama.FORMAT:
        fits = [_fit_of_ollama(model, asked, declared=asked == declared) for asked in ollama.BITS]
    else:
        tensors = RecipeModel.of(model)
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
    nbytes = sum(_expected_nbytes(tensor, kind) for tensor, kind in pairs)
    return _fit_of(recipe.name, pairs, nbytes, revision=revision, imatrix=imatrix)


def _fit_of_ollama(model: Model, asked: str, *, declared: bool) -> RecipeFit:
    """Compare a model of tensor layers with what `ollama create --quantize` would have made."""
    columns = model.tensors.columns
    pairs: list[tuple[RecipeTensor, str | None]] = []
    nbytes = 0
    for row in range(model.tensors.main_rows):
        name, shape, kind = columns.names[row], columns.shapes[row], columns.types[row]
        layer = parse_name(name).layer
        tensor = RecipeTensor(
            row=row,
            name=name,
            category=Category.OTHER,
            quantizable=True,
            layer=-1 if layer is None else layer,
            columns=shape[-1] if shape else 1,
            parameters=columns.parameters[row],
            stacked=len(shape) > 2,
            type=kind,
            nbytes=columns.nbytes[row],
        )
        expected = ollama.type_of(name, shape, asked, model.config)
        bits = ollama.BITS[expected] if expected else _SOURCE_BITS
        as_is = kind.name == expected or (expected is None and not kind.quantized)
        nbytes += tensor.nbytes if as_is else round(tensor.parameters * bits / 8)
        pairs.append((tensor, expected))
    return _fit_of(asked, pairs, nbytes, declared=declared, by="Ollama")


def _fit_of(
    recipe: str, pairs: Sequence[tuple[RecipeTensor, str | None]], nbytes: int, **more: Any
) -> RecipeFit:
    """Return how well tensors agree with the types expected of them."""
    total = sum(tensor.parameters for tensor, _ in pairs)
    agreeing = sum(tensor.parameters for tensor, kind in pairs if agrees(tensor, kind))
    return RecipeFit(
        recipe=recipe,
        share=agreeing / total if total else 1.0,
        agreeing=agreeing,
        parameters=total,
        nbytes=nbytes,
        file_nbytes=sum(tensor.nbytes for tensor, _ in pairs),
        deviations=_deviations((one, kind) for one, kind in pairs if not agrees(one, kind)),
        **more,
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
    """Tensors of one role and one type."""

    role: str
    type: str
    tensors: int
    parameters: int
    nbytes: int

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight; 0.0 without weights."""
        return bits_per_weight(self.nbytes, self.parameters)


def type_mix(model: Model) -> list[MixRow]:
    """Return the types by role, the role with most bytes first.

    Works for every format; a draft model that comes along is left out, as in the model's totals.
    """
    columns = model.tensors.columns
    sums: dict[tuple[str, str], list[int]] = {}
    for row in range(model.tensors.main_rows):
        key = parse_name(columns.names[row]).role, columns.types[row].name
        one = sums.setdefault(key, [0, 0, 0])
        one[0] += 1
        one[1] += columns.parameters[row]
        one[2] += columns.nbytes[row]
    by_role: dict[str, int] = {}
    for (role, _), one in sums.items():
        by_role[role] = by_role.get(role, 0) + one[2]
    rows = [MixRow(role, kind, *one) for (role, kind), one in sums.items()]
    return sorted(rows, key=lambda row: (-by_role[row.role], row.role, -row.nbytes))


# What llama-quantize, or Ollama, would make of a model by a recipe.


@dataclass(frozen=True)
class RecipeTypes:
    """The types that llama-quantize gives the tensors of a model by a recipe.

    Attributes:
        recipe: The recipe's name.
        imatrix: Whether it is given an importance matrix.
        types: The type's name of each tensor that it changes, by row; empty with a problem.
        problem: Why it would refuse; None if it would not.
    """

    recipe: str
    imatrix: bool
    types: Mapping[int, str]
    problem: str | None = None


def recipe_types(
    model: RecipeModel, name: str, known: Collection[str] | None = None
) -> RecipeTypes:
    """Return the types by a recipe; reads no weight.

    Args:
        model: The model, as the rules see it.
        name: A recipe of `RECIPES`.
        known: Names of the tensors that the importance matrix knows; None without a matrix.
    """
    imatrix = known is not None
    try:
        expected = expected_types(model, rules.RECIPES[name], imatrix=imatrix)
    except rules.RecipeError as error:
        return RecipeTypes(name, imatrix, {}, error.what)
    pairs = [(one, kind) for one, kind in zip(model.tensors, expected, strict=True) if kind]
    for tensor, kind in pairs:
        if rules.needs_importance(tensor, kind, name) and tensor.name not in (known or ()):
            what = "does not know it" if imatrix else "is missing"
            problem = f"{tensor.name[:80]} would be {kind}, and the importance matrix {what}"
            return RecipeTypes(name, imatrix, {}, f"{problem}: llama-quantize refuses")
    return RecipeTypes(name, imatrix, {tensor.row: kind for tensor, kind in pairs})


def types_by_recipes(
    model: Model, names: Iterable[str], known: Collection[str] | None = None
) -> Iterator[RecipeTypes]:
    """Yield the types by each recipe, of llama-quantize or of Ollama; see `recipe_types`."""
    if model.format == "gguf":
        seen = RecipeModel.of(model)
        yield from (recipe_types(seen, name, known) for name in names)
        return
    columns = model.tensors.columns
    for asked in names:
        types = {}
        for row in range(model.tensors.main_rows):
            kind = ollama.type_of(columns.names[row], columns.shapes[row], asked, model.config)
            if kind is not None:
                types[row] = kind
        yield RecipeTypes(asked, imatrix=False, types=types)


def recipe_tasks(sets: Sequence[TensorSet], recipe: RecipeTypes) -> list[Task]:
    """Return the tasks of a recipe; none if llama-quantize would refuse.

    A set whose tensors get several types, as where the original has one tensor in place of several,
    stays as it is, and so does what cannot have its type.
    """
    if recipe.problem is not None:
        return []
    return [Task(one, _type_of(one, recipe)) for one in sets]


def _type_of(one: TensorSet, recipe: RecipeTypes) -> str:
    kinds = {recipe.types.get(row, PRESENT) for row in one.rows}
    name = kinds.pop() if len(kinds) == 1 else PRESENT
    return PRESENT if name == PRESENT or one.problem(name) is not None else name


def recipe_size(
    model: Model, present: SizeAfter, sets: Sequence[TensorSet], recipe: RecipeTypes
) -> SizeAfter:
    """Return the sizes by a recipe; see `what_if.size_after`."""
    if recipe.problem is not None:
        return replace(present, problem=recipe.problem)
    columns = model.tensors.columns
    chosen = {row: _type_of(one, recipe) for one in sets for row in one.rows}
    types = {
        row: rounded_type(name, columns.types[row].name, columns.shapes[row])
        for row, name in chosen.items()
        if name != PRESENT
    }
    kept = len(recipe.types.keys() - types.keys())
    return replace(present.with_types(model, types), kept=kept)


@dataclass(frozen=True, slots=True)
class RoleErrors:
    """The tensors of one role by a recipe.

    Attributes:
        role: Their role: ``"ffn_down"``.
        types: How many tensors get each type; `PRESENT` stands for those that stay as they are.
        parameters: Number of weights.
        nbytes: Their bytes then.
        errors: Their errors together; None before any is known.
    """

    role: str
    types: Mapping[str, int]
    parameters: int
    nbytes: int
    errors: TypeErrors | None

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight; 0.0 without weights."""
        return bits_per_weight(self.nbytes, self.parameters)


def errors_by_role(
    model: Model, tasks: Sequence[Task], found: Callable[[Task], PairErrors | None]
) -> list[RoleErrors]:
    """Return the errors of a recipe, or of a type, by role; the role of most bytes first."""
    columns = model.tensors.columns
    by_role: dict[str, list[Task]] = {}
    for task in tasks:
        role = parse_name(columns.names[task.tensor_set.rows[0]]).role
        by_role.setdefault(role, []).append(task)
    roles = []
    for role, some in by_role.items():
        total = RunningTotal(sum(task.tensor_set.parameters for task in some))
        known = [(task, errors) for task in some if (errors := found(task)) is not None]
        for task, errors in known:
            total.add(task.tensor_set, errors)
        rows = [(row, task.type_name) for task in some for row in task.tensor_set.rows]
        nbytes = (_nbytes(columns, row, name) for row, name in rows)
        roles.append(
            RoleErrors(
                role=role,
                types=Counter(name for _, name in rows),
                parameters=sum(columns.parameters[row] for row, _ in rows),
                nbytes=sum(nbytes),
                errors=total.errors() if known else None,
            )
        )
    return sorted(roles, key=lambda one: (-one.nbytes, one.role))


def _nbytes(columns: TensorColumns, row: int, name: str) -> int:
    if name == PRESENT:
        return columns.nbytes[row]
    kind = rounded_type(name, columns.types[row].name, columns.shapes[row])
    return kind.nbytes_of(columns.shapes[row]) or 0
