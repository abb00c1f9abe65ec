"""A reference and a candidate whose weights belong together, read a run at a time.

There are two kinds: two tensors of two models, seen in the same order (`matching`), and a tensor
beside what rounding it to another type would leave of it. Whoever draws or measures errors needs
not know which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from explorer.analysis.errors.lockstep import Pairs, Run, TwoViews
from explorer.analysis.matching.pairing import Match
from explorer.analysis.matching.view_reader import ViewReader
from explorer.analysis.matching.views import TensorView
from explorer.analysis.rounding.rounders import Rounder, rounded_type, rounder
from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape, Tensor
from explorer.formats.weights import Values
from explorer.parallel import Check
from explorer.quantization.kernel_sets import rounding_to


class WeightsPair(Protocol):
    """Two sets of as many weights in the same order.

    Attributes:
        shape: Of both, row-major, outermost first.
        parameters: Number of weights of each.
        reference_name: What the reference is called.
        candidate_name: What the candidate is called.
        reference_type: The type of the reference's weights.
        candidate_type: The type of the candidate's weights.
        kernels: Names of the sets of kernels that reading both takes; see `kernel_sets`.
        notes: What was done to make the two comparable, in words.
    """

    @property
    def shape(self) -> Shape: ...
    @property
    def parameters(self) -> int: ...
    @property
    def reference_name(self) -> str: ...
    @property
    def candidate_name(self) -> str: ...
    @property
    def reference_type(self) -> str: ...
    @property
    def candidate_type(self) -> str: ...
    @property
    def kernels(self) -> frozenset[str]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...

    def pairs(self) -> Pairs:
        """Return what reads runs of both; it owns buffers, so each thread takes its own."""


@dataclass(frozen=True)
class MatchedPair:
    """Two views of two models; see `WeightsPair`.

    Attributes:
        match: The views.
    """

    match: Match

    @property
    def shape(self) -> Shape:
        """Shape of both."""
        return self.match.reference.shape

    @property
    def parameters(self) -> int:
        """Number of weights of each."""
        return self.match.reference.parameters

    @property
    def reference_name(self) -> str:
        """Name of the reference's view."""
        return self.match.reference.name

    @property
    def candidate_name(self) -> str:
        """Name of the candidate's view."""
        return self.match.candidate.name

    @property
    def reference_type(self) -> str:
        """Type of the reference's tensors."""
        return self.match.reference.type_name

    @property
    def candidate_type(self) -> str:
        """Type of the candidate's tensors."""
        return self.match.candidate.type_name

    @property
    def kernels(self) -> frozenset[str]:
        """The types of all tensors of both, which joined views have several of."""
        views = (self.match.reference, self.match.candidate)
        return frozenset(tensor.type.name for view in views for tensor in view.tensors)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to make the two comparable."""
        return (*self.match.reference.notes, *self.match.candidate.notes)

    def pairs(self) -> Pairs:
        """Return a reader of both; see `WeightsPair.pairs`."""
        return TwoViews(self.match.reference, self.match.candidate)


@dataclass(frozen=True)
class RoundedPair:
    """A tensor, and what rounding it to a type leaves of it; see `WeightsPair`.

    Attributes:
        tensor: The reference.
        type_name: The type; see `rounders.rounder`.
    """

    tensor: Tensor
    type_name: str

    def __post_init__(self) -> None:
        """Check that the tensor can have the type.

        Raises:
            ExplorerError: The type is not known, or its blocks do not fit the tensor's rows.
        """
        kind = rounded_type(self.type_name, self.tensor.type.name)
        problem = Folding(self.tensor.shape).block_problem(kind)
        if problem is not None:
            raise ExplorerError(
                f"tensor {self.tensor.name!r} cannot have type {self.type_name}: {problem}"
            )

    @property
    def shape(self) -> Shape:
        """Shape of both."""
        return self.tensor.shape

    @property
    def parameters(self) -> int:
        """Number of weights of each."""
        return self.tensor.parameters

    @property
    def reference_name(self) -> str:
        """Name of the tensor."""
        return self.tensor.name

    @property
    def candidate_name(self) -> str:
        """Name of the tensor, too."""
        return self.tensor.name

    @property
    def reference_type(self) -> str:
        """Type of the tensor."""
        return self.tensor.type.name

    @property
    def candidate_type(self) -> str:
        """The type that it is rounded to."""
        return self.type_name

    @property
    def kernels(self) -> frozenset[str]:
        """The type of the tensor, and what rounds to the other type and reads it again."""
        return frozenset((self.tensor.type.name, rounding_to(self.type_name)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing was done to it."""
        return ()

    def rounder(self) -> Rounder:
        """Return what rounds weights of the tensor."""
        return rounder(self.type_name, self.tensor.type.name)

    def pairs(self) -> Pairs:
        """Return a reader of both; see `WeightsPair.pairs`."""
        return _RoundedRuns(self)


class _RoundedRuns:
    """Reads runs of a tensor before and after rounding; see `lockstep.Pairs`.

    A type rounds whole blocks, so a run that begins or ends inside of one is read to its edges.
    """

    def __init__(self, pair: RoundedPair) -> None:
        self._reader = ViewReader(TensorView.of(pair.tensor))
        self._rounder = pair.rounder()
        self._step = self._rounder.type.block_weights
        self._values: Values = np.empty(0, np.float32)

    def read(self, run: Run, check: Check) -> tuple[Values, Values]:
        """Return both sides of a run; see `Pairs.read`."""
        start, count = run
        first = start - start % self._step
        stop = -(-(start + count) // self._step) * self._step
        if self._values.size < stop - first:
            self._values = np.empty(stop - first, np.float32)
        values = self._values[: stop - first]
        self._reader.read_into(first, values, check)
        rounded = self._rounder.round(values, None)
        inside = slice(start - first, start - first + count)
        return values[inside], rounded[inside]
