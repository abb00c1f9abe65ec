"""Errors of whole models against the one that they were made of, of what is kept or read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from math import nan
from pathlib import Path

from explorer.analysis.columns import ErrorColumns, Summaries, model_summaries, parameter_shares
from explorer.analysis.errors.compare import Comparison, lists_of_all, unread
from explorer.analysis.errors.pairs import MatchedPair
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.surveys import PairRow
from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.formats.model import Model
from explorer.formats.tensors import rows_by_name
from explorer.parallel import Check, never


def error_columns(candidate: Model, rows: Iterable[PairRow]) -> ErrorColumns:
    """Return the errors of each tensor of a model, of the rows, and why some have none."""
    header = candidate.tensors.columns
    columns = ErrorColumns(len(header))
    row_of = rows_by_name(header.names)
    for row in rows:
        parts = row.pair.candidate.tensors
        places = [row_of[part.name] for part in parts]
        if row.errors is not None:
            shares = parameter_shares(places, parts)
            columns.put(shares, row.errors.metrics, row.errors.weighted)
        elif row.error is not None:
            columns.problems |= dict.fromkeys(places, row.error.what)
    return columns


def error_sums(candidate: Model, rows: Iterable[PairRow]) -> Summaries:
    """Return the errors by role, by layer and of a model, of the rows."""
    return model_summaries(candidate, None, error_columns(candidate, rows))


def comparison_of(original: Model, model: Model, matrix: Model | None = None) -> Comparison:
    """Return the comparison of a model with the one that it was made of; its results are kept.

    Raises:
        ExplorerError: They have no tensor in common.
    """
    matches = match_models(original, model).matches
    if not matches:
        raise ExplorerError("has no tensor that matches one of the original", model.path)
    return Comparison(matches, importance=matrix, models=(original, model))


def measured(
    works: Sequence[tuple[Model, Comparison]],
    workers: int,
    check: Check = never,
    progress: Callable[[int], object] | None = None,
) -> list[tuple[Mapping[str, float], ExplorerError | None]]:
    """Return of each model the figures of all matrices, and what could not be read, or None."""
    found = []
    rows_of = lists_of_all([one for _, one in works], workers, check, progress)
    for (model, _), rows in zip(works, rows_of, strict=True):
        problem = next((row.error for row in rows if row.error is not None), None)
        found.append((error_sums(model, rows).matrices.figures, problem))
    return found


class ModelErrors:
    """Several models beside their original; a context manager, which closes what it opens.

    Attributes:
        comparisons: Those that can be compared, by the places of their paths.
        left: The pairs that are to be read, the same.
    """

    def __init__(self, original: Path, paths: Mapping[int, Path], check: Check) -> None:
        """Open them, and look up what is known.

        Raises:
            ExplorerError: The original cannot be read.
        """
        self.comparisons: dict[int, tuple[Model, Comparison]] = {}
        self.left: dict[int, list[MatchedPair]] = {}
        with ExitStack() as opened:
            first = opened.enter_context(open_model(original))
            for place, path in paths.items():
                check()
                try:
                    model = opened.enter_context(open_model(path))
                    comparison = comparison_of(first, model)
                except ExplorerError:
                    continue  # its row says why, or that nothing is known
                self.comparisons[place] = model, comparison
                self.left[place] = comparison.left()
            self._opened = opened.pop_all()

    def __enter__(self) -> ModelErrors:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def unread(self) -> tuple[int, int]:
        """Weights and stored bytes that are to be read."""
        return unread(chain.from_iterable(self.left.values()))

    @property
    def known(self) -> list[int]:
        """The places of those whose errors are all kept."""
        return [place for place, pairs in self.left.items() if not pairs]

    def measure(
        self,
        places: Collection[int],
        workers: int,
        check: Check,
        progress: Callable[[int], object] | None = None,
    ) -> dict[int, float]:
        """Return the relative RMSE of all matrices of each; NaN where a tensor cannot be read.

        `progress` is called with the weights done, of all.
        """
        works = [self.comparisons[place] for place in places]
        found = zip(places, measured(works, workers, check, progress), strict=True)
        return {
            place: figures["relative_rmse"] if problem is None else nan
            for place, (figures, problem) in found
        }
