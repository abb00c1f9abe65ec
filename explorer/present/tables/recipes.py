"""Tables of recipes: the types in a model beside them, and what each would make of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from explorer.analysis.recipes.fits import Deviation, MixRow, RecipeFit, RoleErrors
from explorer.analysis.recipes.rules import CURRENT
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
    pass

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


# What would be lost by role, in a type or by a recipe


def types_text(types: Mapping[str, int]) -> str:
    """Return ``"Q6_K 9, Q4_K 9"``; tensors that keep their types are ``as they are``."""
    names = sorted(types.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name or 'as they are'} {integer_text(count)}" for name, count in names)


_TYPES: Final = "The types that tensors of the role would get, and how many get each."
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
