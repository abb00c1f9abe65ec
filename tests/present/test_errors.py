"""Errors of tensors: written in one way, and added over the parts that are compared."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.matching.pairing import match_models
from explorer.formats import open_model
from explorer.present.tables.errors import FIGURES
from explorer.report.gather import gather
from tests.helpers.model_pairs import arrays_of, write_gguf

FUSED = "blk.0.attn_qkv.weight"


def test_texts() -> None:
    assert FIGURES["relative_rmse"].write(0.04) == "4.000 %"
    assert FIGURES["relative_rmse"].write(math.inf) == "inf"
    assert FIGURES["sqnr_db"].write(28.5) == "28.50 dB"
    assert FIGURES["sqnr_db"].write(math.inf) == "no error"
    assert FIGURES["rmse"].write(0.123456789) == "1.2346e-01"
    assert FIGURES["rmse"].write(math.nan) == ""


def test_the_report_adds_the_squares_of_parts(tmp_path: Path) -> None:
    """A fused tensor against its parts, which have very different errors."""
    parts = arrays_of({f"blk.0.attn_{one}.weight": (16, 32) for one in "qkv"})
    reference = write_gguf(tmp_path / "parts.gguf", "phi3", parts)
    random = np.random.default_rng(1)
    errors = [random.normal(0, size, (16, 32)) for size in (0.001, 0.01, 0.02)]
    changed = [a + e for a, e in zip(parts.values(), errors, strict=True)]
    fused = {FUSED: np.concatenate(changed).astype(np.float32)}
    candidate = write_gguf(tmp_path / "fused.gguf", "phi3", fused)
    with open_model(candidate) as model, open_model(reference) as other:
        assert len(match_models(other, model).matches) == 3
        (found,) = gather(model, other).tensors
    e = np.concatenate(list(fused.values())) - np.concatenate(list(parts.values()))
    r = np.concatenate(list(parts.values()))
    relative = float(np.sqrt(np.sum(e.astype(float) ** 2) / np.sum(r.astype(float) ** 2)))
    assert found.errors["relative_rmse"] == pytest.approx(relative, rel=1e-6)
    assert found.errors["sqnr_db"] == pytest.approx(-20 * math.log10(relative), rel=1e-6)
