"""Why weights that should be there cannot be read."""

from __future__ import annotations

from explorer.analysis.surveys import SurveyRow
from explorer.errors import ExplorerError
from explorer.quantization.registry import has_decoder


def damage(row: SurveyRow) -> ExplorerError | None:
    """Return why weights that should be there cannot be read; None for types without a decoder."""
    tensor = row.tensor
    decodable = tensor.has_parts or has_decoder(tensor.type.name)
    return row.error if decodable else None
