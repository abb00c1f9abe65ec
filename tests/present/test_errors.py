"""Errors of tensors: written in one way, and added over the parts that are compared."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.matching.pairing import match_models
from explorer.formats import open_model
from explorer.present.errors import Side, headline
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


def _side(
    name: str, nbytes: int, squares: dict[str, float] | None = None, loss: float | None = None
) -> Side:
    return Side(name, nbytes << 20, {"up": nbytes << 19, "down": nbytes << 19}, squares or {}, loss)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (_side("A", 100), _side("B", 150), "B is 50.0 MiB (50.0 %) larger than A."),
        (_side("A", 100), _side("B", 100), "B is as large as A."),
        (  # no role stands out
            _side("A", 100),
            _side("B", 50, {"up": 3.3, "down": 2.7, "k": 3.0}, 0.25),
            "B is 50.0 MiB (50.0 %) smaller than A and differs from it by 25.00 % (relative RMSE).",
        ),
        # B against A
        (
            _side("A", 100),
            _side("B", 50, {"up": 3.0, "down": 1.0}, 0.25),
            "B is 50.0 MiB (50.0 %) smaller than A and differs from it by 25.00 % (relative RMSE); "
            "most of the error is in up.",
        ),
        # both against the original
        (
            _side("A", 100, {"up": 4.0, "down": 4.0}, 0.1),
            _side("B", 150, {"up": 4.0, "down": 1.0}, 0.05),
            "B is 50.0 MiB (50.0 %) larger than A and halves the error (5.000 % instead of 10.00 % "
            "relative RMSE); most of the difference in error is in down.",
        ),
        (
            _side("A", 100, {"up": 1.0, "k": 1.0, "v": 1.0}, 0.1),
            _side("B", 50, {"up": 2.0, "k": 2.6, "v": 2.0}, 0.15),
            "B is 50.0 MiB (50.0 %) smaller than A and has 50.0 % more error (15.00 % instead of "
            "10.00 % relative RMSE); 44.4 % of the difference in error is in k.",
        ),
        (
            _side("A", 100, {}, 0.1),
            _side("B", 50, {}, 0.1),
            "B is 50.0 MiB (50.0 %) smaller than A, with the same error.",
        ),
        (
            _side("A", 100, {}, 0.0),
            _side("B", 50, {}, 0.1),
            "B is 50.0 MiB (50.0 %) smaller than A and has an error (10.00 % instead of 0 % "
            "relative RMSE).",
        ),
    ],
)
def test_a_sentence_says_what_b_takes_and_loses(one: Side, other: Side, said: str) -> None:
    assert headline(one, other) == said
