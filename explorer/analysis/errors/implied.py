"""What a quantized tensor tells of its rounding where nothing is at hand to compare it with."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from explorer.analysis.codes import saturated_codes
from explorer.analysis.codes_and_scales import BlockStatistics
from explorer.analysis.moments import Moments
from explorer.analysis.splitting import level_error


@dataclass(frozen=True, slots=True)
class ImpliedError:
    """Rounding as blocks imply it.

    Attributes:
        rms: Root mean square of the error, if weights were spread evenly between the levels; see
            `splitting.level_error`.
        used_codes: Codes that at least one weight uses.
        codes: All codes.
        saturated: Share of weights with the least or the greatest level of the type, 0 to 1.
        zeros: Share of weights whose level is 0.
        weights_per_scale: Weights that share a scale.
        scales: Effective block scales.
        minima: Effective minima, which are subtracted; None if the type has none.
    """

    rms: float
    used_codes: int
    codes: int
    saturated: float
    zeros: float
    weights_per_scale: int
    scales: Moments
    minima: Moments | None


def implied_error(blocks: BlockStatistics) -> ImpliedError:
    """Return what the statistics of a tensor's blocks imply."""
    levels, counts = blocks.levels, blocks.code_counts
    ends = saturated_codes(levels)
    total = int(counts.sum())
    shares = [int(counts[mask].sum()) / total if total else nan for mask in (ends, levels == 0)]
    return ImpliedError(
        rms=level_error(levels) * blocks.scales.moments.rms,
        used_codes=int((counts > 0).sum()),
        codes=counts.size,
        saturated=shares[0],
        zeros=shares[1],
        weights_per_scale=blocks.weights_per_scale,
        scales=blocks.scales.moments,
        minima=None if blocks.minima is None else blocks.minima.moments,
    )
