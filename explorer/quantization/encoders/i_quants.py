"""IQ types that can be made without an importance matrix."""

from __future__ import annotations

from explorer.quantization.encoders import i_quants_4, i_quants_books

ENCODERS = {**i_quants_4.ENCODERS, **i_quants_books.ENCODERS}
