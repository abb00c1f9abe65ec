"""The table of all tensors by what is known of their weights: the worst first, by any figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication

from explorer.present.explanations import tensor_texts
from explorer.present.statistics import Floats
from explorer.present.survey import METRICS, Known, Metric, shares
from explorer.qt.models.contents.tensor_table import tensor_columns
from explorer.qt.models.document import Document
from explorer.qt.models.table import Column
from explorer.text import float_text, plain_text

SHARE = "share"
"""Name of the column that tells a tensor's share of the model's sum."""

_NAMES = tuple(metric.name for metric in METRICS)
_OF_TENSORS = ("name", "layer", "role", "type", "shape", "parameters")


class Reasons(Protocol):
    """Why something cannot be known of tensors."""

    def reason(self, row: int) -> str:
        """Return why not of a tensor, "" if there is no reason."""

    def with_reason(self) -> NDArray[np.bool_]:
        """Return whether there is one, for all tensors, bool [n]."""


class HotSpots:
    """The columns of a table of tensors and their figures, which may change while one looks.

    Attributes:
        metric: What tensors are ranked by.
    """

    def __init__(self, document: Document, reasons: Reasons, metric: Metric) -> None:
        """Begin with tensors of which nothing is known.

        Args:
            document: The model.
            reasons: Why something cannot be known.
            metric: What tensors are ranked by.
        """
        self.metric = metric
        self._reasons = reasons
        self._count = len(document.arrays)
        self._values = {name: np.full(self._count, np.nan) for name in (SHARE, *_NAMES)}
        of_tensors = {column.name: column for column in tensor_columns(document)}
        self._tensors = [of_tensors[name] for name in _OF_TENSORS]

    def learn(self, known: Known, metric: Metric) -> None:
        """Take in what is known by now."""
        self.metric = metric
        for each in METRICS:
            self._values[each.name] = each.of_tensors(known)
        self._values[SHARE] = shares(metric.burden(known))

    def columns(self) -> list[Column]:
        """Return the columns."""
        figures = [self._share_column(), *map(self._metric_column, METRICS)]
        return [*self._tensors, *figures, _reason_column(self._reasons)]

    def known_count(self) -> int:
        """Return of how many tensors the figure is known that they are ranked by."""
        return int((~np.isnan(self._values[self.metric.name])).sum())

    def _metric_column(self, metric: Metric) -> Column:
        return self._column(
            metric.name, metric.title, metric.text, metric.tip, low_is_worse=metric.low_is_worse
        )

    def _share_column(self) -> Column:
        tip = QCoreApplication.translate(
            "HotSpotTable", "What this tensor adds to the sum over all tensors: size counts."
        )
        return self._column(SHARE, self.metric.burden_title, _percent, tip, low_is_worse=False)

    def _column(
        self, name: str, title: str, text: Callable[[float], str], tip: str, *, low_is_worse: bool
    ) -> Column:
        def value(row: int) -> float | None:
            number = float(self._values[name][row])
            return None if np.isnan(number) else number

        def told(row: int) -> str:
            number = value(row)
            return "" if number is None else text(number)

        def keys() -> Floats:
            # what is not known stands where the best are
            values = self._values[name]
            return np.where(np.isnan(values), np.inf if low_is_worse else -np.inf, values)

        return Column(name, title, told, value, keys, numeric=True, tip=tip)


def _reason_column(reasons: Reasons) -> Column:
    def told(row: int) -> str:
        return plain_text(reasons.reason(row))

    title = QCoreApplication.translate("HotSpotTable", "Problem")
    tip = tensor_texts()["problem"]
    return Column("problem", title, told, told, reasons.with_reason, tip=tip)


def _percent(value: float) -> str:
    return f"{float_text(100 * value, 3)} %"
