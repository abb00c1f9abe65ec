"""Types of a model by role, the recipes that fit best, and how it differs from one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.analysis.recipes.fits import (
    MixRow,
    RecipeFit,
    compare_with_recipes,
    rules_source,
    type_mix,
)
from explorer.formats.model import Model
from explorer.present.recipes import verdict
from explorer.present.tables.recipes import DEVIATIONS, FITS, MIX
from explorer.qt.document import Document
from explorer.qt.jobs import Work
from explorer.qt.theme import TextSize, style_text
from explorer.qt.widgets.building import LINE, NOTE, Part
from explorer.qt.widgets.controls import split
from explorer.qt.widgets.labels import plain_label
from explorer.qt.widgets.model_page import ModelPage, below


@dataclass(frozen=True, slots=True)
class TypeMix:
    """Types of a file by role, the recipes that fit, best first, and the result in a sentence."""

    verdict: str
    rows: Sequence[MixRow]
    fits: Sequence[RecipeFit]
    source: str

    @classmethod
    def of(cls, model: Model) -> TypeMix:
        """Compare a model with known recipes; for a worker.

        Raises:
            ExplorerError: The file changed since it was opened.
        """
        fits = compare_with_recipes(model)
        return cls(verdict(model, fits), type_mix(model), fits, rules_source(model))


class TypeMixPage(ModelPage[TypeMix]):
    """Types by role, the recipes, and the deviations from the selected one."""

    doing = "Comparing with known recipes"

    def build(self) -> Part:
        self.about.setAccessibleName("What is in the file")
        self.roles, self.recipes, self.deviations = self.table(), self.table(), self.table()
        self.caption = plain_label(self)
        self.caption.setContentsMargins(*LINE)
        self.recipes.row_selected.connect(self._show_deviations)
        policy = self.deviations.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # the recipes must not jump while one looks at each
        self.deviations.setSizePolicy(policy)
        self.source = source = plain_label(self, wraps=True)
        source.setContentsMargins(*NOTE)
        style_text(source, TextSize.CAPTION)
        right = below((self.recipes, 3), self.caption, (self.deviations, 2))
        return below((split(self, (self.roles, 400), (right, 500)), 1), source)

    def work(self, document: Document) -> Work[TypeMix]:
        return lambda _job: TypeMix.of(document.model)

    def show_result(self, result: TypeMix) -> None:
        self.say(result.verdict)
        self.source.setText(result.source)
        self.roles.show_rows(MIX, result.rows, first=("role", "type", "tensors", "bytes"))
        first = "recipe", "share", "deviations", "bytes"
        self.recipes.show_rows(FITS, result.fits, first=first)
        declared = next((row for row, fit in enumerate(result.fits) if fit.declared), 0)
        if result.fits:
            self.recipes.select_row(declared)
        else:
            self.deviations.show_rows(DEVIATIONS, ())
            self.caption.clear()
        self.show_content()

    def _show_deviations(self, row: int) -> None:
        if self.result is None:
            return
        fit = self.result.fits[row]
        same = f"Nothing is different from {fit.recipe}."
        self.caption.setText(f"Different from {fit.recipe}:" if fit.deviations else same)
        first = "role", "expected", "present", "layers", "tensors"
        self.deviations.show_rows(DEVIATIONS, fit.deviations, first=first)
        self.deviations.setVisible(bool(fit.deviations))
