"""Tables of what is stored as which type, and of the recipes that a file may have been made by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication

from explorer.analysis.recipes import (
    Deviation,
    MixRow,
    RecipeFit,
    compare_with_recipes,
    type_mix,
    verdict,
)
from explorer.analysis.recipes.fits import layers_text
from explorer.formats.columns import text_ranks
from explorer.formats.model import Model
from explorer.present.explanations import mix_texts, recipe_texts
from explorer.qt.models.table import Cell, Column
from explorer.text import bytes_text, fixed_text, float_text, integer_text, plain_text

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class TypeMix:
    """What is really in a file.

    Attributes:
        verdict: The outcome in a sentence.
        rows: Its types by role.
        fits: How well each recipe agrees with it, the best first.
        nbytes: Stored bytes of its tensors.
    """

    verdict: str
    rows: Sequence[MixRow]
    fits: Sequence[RecipeFit]
    nbytes: int

    @classmethod
    def of(cls, model: Model) -> TypeMix:
        """Look at a model; for a worker.

        Raises:
            ExplorerError: The file changed since it was opened.
        """
        fits = compare_with_recipes(model)
        return cls(verdict(model, fits), type_mix(model), fits, model.nbytes)


def mix_columns(rows: Sequence[MixRow]) -> list[Column]:
    """Return the columns of the types by role."""
    table = _Columns(rows, mix_texts())
    return [
        table.words("role", _tr("Role"), lambda row: row.role),
        table.words("type", _tr("Type"), lambda row: row.type),
        table.number("tensors", _tr("Tensors"), lambda row: row.tensors, integer_text),
        table.number("parameters", _tr("Parameters"), lambda row: row.parameters, integer_text),
        table.number("bytes", _tr("Size"), lambda row: row.nbytes, bytes_text),
        table.number(
            "bits_per_weight",
            _tr("Bits/weight"),
            lambda row: row.bits_per_weight,
            lambda value: float_text(value, 4),
        ),
    ]


def fit_columns(fits: Sequence[RecipeFit], nbytes: int) -> list[Column]:
    """Return the columns of the recipes.

    Args:
        fits: The recipes.
        nbytes: What the file's tensors take.
    """
    table = _Columns(fits, recipe_texts())
    return [
        table.words("recipe", _tr("Recipe"), _recipe_name),
        table.number("agreeing", _tr("Agreeing"), lambda fit: fit.share, _share_text),
        table.number("groups", _tr("Deviations"), lambda fit: len(fit.deviations), integer_text),
        table.number("bytes", _tr("Size by it"), lambda fit: fit.nbytes, bytes_text),
        table.number(
            "difference", _tr("Difference"), lambda fit: nbytes - fit.nbytes, _signed_bytes
        ),
    ]


def deviation_columns(deviations: Sequence[Deviation]) -> list[Column]:
    """Return the columns of what differs from a recipe."""
    table = _Columns(deviations, mix_texts())
    return [
        table.words("role", _tr("Role"), lambda one: one.role),
        table.words("layers", _tr("Layers"), lambda one: layers_text(one.layers or ())),
        table.words("present", _tr("Type"), lambda one: one.present, "type"),
        table.words(
            "expected",
            _tr("By the recipe"),
            lambda one: one.expected or _tr("left unquantized"),
        ),
        table.number("tensors", _tr("Tensors"), lambda one: one.tensors, integer_text),
        table.number("parameters", _tr("Parameters"), lambda one: one.parameters, integer_text),
    ]


@dataclass(frozen=True)
class _Columns(Generic[_Row]):
    """Makes the columns of a table.

    Attributes:
        rows: What the table lists.
        tips: What its columns mean, by their names.
    """

    rows: Sequence[_Row]
    tips: Mapping[str, str]

    def words(
        self, name: str, title: str, value: Callable[[_Row], str], meaning: str = ""
    ) -> Column:
        """Return a column of texts; what it means may stand under another name."""
        rows = self.rows

        def text(row: int) -> str:
            return plain_text(value(rows[row]))

        def keys() -> NDArray[np.intp]:
            return text_ranks([value(row) for row in rows])

        return Column(name, title, text, text, keys, tip=self.tips[meaning or name])

    def number(
        self, name: str, title: str, value: Callable[[_Row], Cell], text: Callable[..., str]
    ) -> Column:
        """Return a column of numbers."""
        rows = self.rows
        return Column(
            name,
            title,
            lambda row: text(value(rows[row])),
            lambda row: value(rows[row]),
            lambda: np.array([value(row) for row in rows]),
            numeric=True,
            tip=self.tips[name],
        )


def _recipe_name(fit: RecipeFit) -> str:
    return (
        _tr("{recipe} (as the file says)").format(recipe=fit.recipe) if fit.declared else fit.recipe
    )


def _share_text(share: float) -> str:
    if round(100 * share, 1) == 100 and share < 1:
        return f"> {fixed_text(99.9, 1)} %"
    return f"{fixed_text(100 * share, 1)} %"


def _signed_bytes(nbytes: int) -> str:
    sign = "+" if nbytes > 0 else "\N{MINUS SIGN}" if nbytes < 0 else ""
    return sign + bytes_text(abs(nbytes))


def _tr(text: str) -> str:
    return QCoreApplication.translate("TypeMix", text)
