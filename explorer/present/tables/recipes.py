"""Tables of recipes: the types in a model beside them, and what each would make of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from explorer.analysis.recipes.fits import Deviation, MixRow, RecipeFit, RecipeTrial, RoleErrors
from explorer.analysis.recipes.rules import CURRENT
from explorer.analysis.what_if import SizeAfter, TypeErrors
from explorer.present.tables.errors import FIGURES, WEIGHTED, errors_of, weighted_of
from explorer.present.tables.table import (
    BITS,
    BYTES,
    BYTES_CHANGE,
    COUNT,
    INTEGER,
    LAYERS,
    LIST,
    PART,
    TEXT,
    TYPE,
    YES_NO,
    Column,
    Kind,
    Table,
)
from explorer.text import integer_text

if TYPE_CHECKING:  # to show a type mix loads no planner
    from explorer.planner.inputs import PlannedMemory
    from explorer.present.tables.survey import FolderRow

_ROLE: Final = "The function of the tensors, in any layer."
_STORED: Final = "How they are stored in this file."

MIX: Final = Table[MixRow](
    Column("role", "Role", tip=_ROLE),
    Column("type", "Type", TYPE, _STORED),
    Column("tensors", "Tensors", INTEGER, "How many tensors."),
    Column("parameters", "Parameters", COUNT, "How many weights they have together."),
    Column("bytes", "Size", BYTES, "Bytes that they take together.", lambda row: row.nbytes),
    Column("bits_per_weight", "Bits/weight", BITS, "Stored bits for each weight, scales included"),
    title="Types by role",
)

_EXPECTED: Final = "The type that the recipe would have given them."

DEVIATIONS: Final = Table[Deviation](
    Column("role", "Role", tip=_ROLE),
    Column("expected", "Expected", TYPE, _EXPECTED, blank="left unquantized"),
    Column("present", "Type", TYPE, _STORED),
    Column("layers", "Layers", LAYERS, "The layers that they are in."),
    Column("tensors", "Tensors", INTEGER, "How many tensors."),
    Column("parameters", "Parameters", COUNT, "How many weights they have together."),
    title="Deviations from the recipe",
)


def _recipe(fit: RecipeFit) -> str:
    return f"{fit.recipe} (as the file says)" if fit.declared else fit.recipe


def _remarks(fit: RecipeFit) -> str:
    remarks = [] if fit.revision is CURRENT else [f"by the rules {fit.revision.name}"]
    if fit.imatrix is not None:
        remarks.append(f"{'with' if fit.imatrix else 'without'} an importance matrix")
    return ", ".join(remarks)


def _deviations(fit: RecipeFit) -> list[dict[str, Any]]:
    return [DEVIATIONS.record(one) for one in fit.deviations]


def _difference(fit: RecipeFit) -> int:
    return fit.file_nbytes - fit.nbytes


_RECIPE: Final = "A rule of llama-quantize, or of Ollama, that gives each tensor a type."
_SHARE: Final = "Part of the weights whose tensor has the type of the recipe"
_AGREEING: Final = "Weights whose tensor has the type of the recipe."
_GROUPS: Final = "Groups of tensors of one role whose type differs from the recipe."
_BYTES: Final = "Bytes that the tensors would take with the recipe"
_REMARKS: Final = "The state of the rules that agrees best, and whether with an importance matrix."

FITS: Final = Table[RecipeFit](
    Column("recipe", "Recipe", tip=_RECIPE, text=_recipe),
    Column("declared", "Declared", YES_NO, "Whether the file says so itself.", extra=True),
    Column("share", "Agreeing", PART, _SHARE),
    Column("agreeing", "Agreeing weights", COUNT, _AGREEING, extra=True),
    Column("parameters", "Parameters", COUNT, "All weights of the model.", extra=True),
    Column("deviations", "Deviations", LIST, _GROUPS, _deviations),
    Column("bytes", "Size by it", BYTES, _BYTES, lambda fit: fit.nbytes),
    Column("difference", "Difference", BYTES_CHANGE, "The file's bytes minus these.", _difference),
    Column("revision", "Remarks", TEXT, _REMARKS, lambda fit: fit.revision.name, text=_remarks),
    Column("imatrix", "Importance matrix", YES_NO, _REMARKS, extra=True),
    title="Recipes, the best first",
)


# What llama-quantize would make of a model by each recipe.


@dataclass(frozen=True, slots=True)
class TriedRecipe:
    """What a recipe would make of a model.

    Attributes:
        trial: Its types, sizes and errors.
        names: Names of the model's tensors.
        plan: The memory that it would need then; None without a plan.
        on_front: Whether no other recipe is smaller and not worse.
    """

    trial: RecipeTrial
    names: Sequence[str] = ()
    plan: PlannedMemory | None = None
    on_front: bool = False

    @property
    def errors(self) -> TypeErrors | None:
        """Its errors, over all weights that llama-quantize changes; None if none is known."""
        return self.trial.errors

    @property
    def size(self) -> SizeAfter | None:
        """How large the model would be; None of what llama-quantize refuses."""
        return None if self.trial.recipe.problem is not None else self.trial.size


def types_text(types: Mapping[str, int]) -> str:
    """Return ``"Q6_K 9, Q4_K 9"``; tensors that keep their types are ``as they are``."""
    names = sorted(types.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name or 'as they are'} {integer_text(count)}" for name, count in names)


def _memory(row: TriedRecipe) -> int | None:
    return None if row.size is None or row.plan is None else row.plan.total


def _types_by_name(row: TriedRecipe) -> dict[str, str]:
    return {row.names[place]: kind for place, kind in row.trial.recipe.types.items()}


_TRIED: Final = "The recipe of llama-quantize. The first line says what the file is."
_TYPES: Final = "The types that tensors of the role would get, and how many get each."
_SIZE_BY: Final = "Bytes that all tensors would take."
_NEEDED: Final = "Memory that a plan of the model would need."
_STAYING: Final = "Tensors that cannot have their type and stay as they are."
_NOT_MEASURED: Final = "not measured"
_REST: Final = {"extra": True, "blank": _NOT_MEASURED}

ROLES: Final = Table[RoleErrors](
    Column("role", "Role", TEXT, "What the tensors do in their layers, by their names."),
    *FIGURES.at(errors_of, "relative_rmse", "sqnr_db", blank=_NOT_MEASURED),
    *(replace(column, sparse=True) for column in WEIGHTED.at(weighted_of)),
    Column(
        *("types", "Types", Kind(types_text, numeric=False), _TYPES),
        lambda role: {name or "as it is": count for name, count in role.types.items()},
        text=lambda role: types_text(role.types),
    ),
    Column("parameters", "Parameters", COUNT, "Number of weights of the role."),
    Column("bytes", "Size", BYTES, "Bytes that they would take.", lambda role: role.nbytes),
    Column("bits_per_weight", "Bits/weight", BITS, "Stored bits for each weight."),
    *FIGURES.at(errors_of, "rmse", "max_abs_error", **_REST),
    title="Errors by role",
)

TRIALS: Final = Table[TriedRecipe](
    Column("recipe", "Recipe", TEXT, _TRIED, lambda row: row.trial.recipe.recipe),
    Column(
        "imatrix", "Importance matrix", YES_NO, "", lambda row: row.trial.recipe.imatrix, extra=True
    ),
    Column("problem", "Problem", TEXT, "", lambda row: row.trial.recipe.problem, extra=True),
    Column("bytes", "Size", BYTES, _SIZE_BY, lambda row: row.size and row.size.nbytes),
    Column(
        "file_bytes", "Files", BYTES, "", lambda row: row.size and row.size.file_nbytes, extra=True
    ),
    Column(
        *("bits_per_weight", "Bits/weight", BITS, "Stored bits for each weight."),
        lambda row: row.size and row.size.bits_per_weight,
    ),
    Column("kept", "Stay", INTEGER, _STAYING, lambda row: row.size and row.size.kept, extra=True),
    *FIGURES.at(errors_of, "relative_rmse", "sqnr_db", blank=_NOT_MEASURED),
    *FIGURES.at(errors_of, "rmse", "max_abs_error", **_REST),
    Column("on_front", "Best trade-off", YES_NO, "No recipe is smaller and not worse.", extra=True),
    Column("memory", "Memory", BYTES, _NEEDED, _memory),
    Column("types", "Types", LIST, of=_types_by_name, json_only=True),
    Column(
        *("roles", "Roles", LIST),
        of=lambda row: [ROLES.record(role) for role in row.trial.roles],
        json_only=True,
    ),
    title="Recipes",
    problem=lambda row: row.trial.recipe.problem or "",
)


def trials_table(*, weighted: bool) -> Table[TriedRecipe]:
    """Return `TRIALS`; with the errors by importance where a matrix is given."""
    columns = list(TRIALS)
    place = TRIALS.names.index("rmse")
    more = WEIGHTED.at(weighted_of, blank=_NOT_MEASURED) if weighted else []
    columns[place:place] = more
    return TRIALS.with_columns(columns)


@dataclass(frozen=True, slots=True)
class FolderTrial:
    """What a recipe would make of one of several models.

    Attributes:
        model: The model.
        tried: The recipe; None if the model cannot be read.
    """

    model: FolderRow
    tried: TriedRecipe | None


def folder_trials_table(*, weighted: bool) -> Table[FolderTrial]:
    """Return the table of recipes of all models of a folder."""
    columns: list[Column[FolderTrial]] = trials_table(weighted=weighted).at(lambda row: row.tried)
    tried = Table(*columns)
    return Table(
        Column("model", "Model", TEXT, "Its name.", lambda row: row.model.model),
        Column("path", "Path", TEXT, "Where it is.", lambda row: row.model.path, extra=True),
        *tried.replacing(
            Column("problem", "Problem", of=_problem, extra=True),
            replace(tried["on_front"], extra=False),
        ),
        title="Recipes of the models of the folder",
        problem=lambda row: _problem(row) or "",
    )


def _problem(row: FolderTrial) -> str | None:
    return row.model.problem if row.tried is None else row.tried.trial.recipe.problem
