"""`stats`: the promised JSON, text for people, wrong usage."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.cli.main import main
from tests.helpers.gguf_writer import GgufFile, TensorSpec

Capture = pytest.CaptureFixture[str]

_WEIGHTS = np.random.default_rng(0).normal(0, 0.02, (64, 96)).astype("<f4")
_ODD = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0], "<f4")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    specs = [
        TensorSpec("blk.0.attn_q.weight", (96, 64), 0, _WEIGHTS.tobytes()),
        TensorSpec("odd", (6,), 0, _ODD.tobytes()),
        TensorSpec("quantized", (256,), 12, bytes(144)),
        TensorSpec("empty", (0,), 0, b""),
        TensorSpec("fp4.weight", (64,), 40, bytes(36)),
        TensorSpec("fp4.scale", (1,), 0, bytes(4)),
        TensorSpec("newer", (4,), 999, b""),
        TensorSpec("evil\x1b[31m\n", (2,), 0, bytes(8)),
    ]
    return GgufFile(tensors=specs).write(tmp_path / "model.gguf")


def _json(capsys: Capture, path: Path, name: str, *options: str) -> dict[str, object]:
    assert main(["stats", str(path), name, "--json", *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    record: dict[str, object] = json.loads(out)
    return record


def test_json_as_promised(path: Path, capsys: Capture) -> None:
    record = _json(capsys, path, "blk.0.attn_q.weight", "--bins", "32")
    promised = (
        *("tensor", "type", "shape", "count", "finite", "nan", "inf", "zeros", "min", "max"),
        *("mean", "std", "rms", "abs_max", "kurtosis", "percentiles", "histogram"),
        "step_error_rms",
    )
    assert set(promised) <= set(record)
    exact = _WEIGHTS.astype(np.float64)
    assert (record["tensor"], record["type"]) == ("blk.0.attn_q.weight", "F32")
    assert (record["shape"], record["count"]) == ([64, 96], 6144)
    assert (record["min"], record["max"]) == (exact.min(), exact.max())
    assert record["std"] == pytest.approx(exact.std(), rel=1e-12)
    assert record["step_error_rms"] is None
    assert list(record["percentiles"]) == ["0.1", "1", "5", "50", "95", "99", "99.9"]  # type: ignore[call-overload]
    counts, edges = np.histogram(_WEIGHTS, 32)
    assert record["histogram"] == {
        "low": float(edges[0]),
        "high": float(edges[-1]),
        "counts": counts.tolist(),
    }


def test_a_given_range_and_other_threads(path: Path, capsys: Capture) -> None:
    options = ("--bins", "7", "--range", "-0.01", "0.02", "--workers", "3")
    record = _json(capsys, path, "blk.0.attn_q.weight", *options)
    counts, _ = np.histogram(_WEIGHTS, 7, (-0.01, 0.02))
    assert record["histogram"] == {"low": -0.01, "high": 0.02, "counts": counts.tolist()}
    assert len(_json(capsys, path, "odd")["histogram"]["counts"]) == 256  # type: ignore[index]


def test_what_is_no_number_is_null(path: Path, capsys: Capture) -> None:
    odd = _json(capsys, path, "odd")
    assert (odd["count"], odd["finite"], odd["nan"], odd["inf"], odd["zeros"]) == (6, 3, 1, 2, 2)
    assert (odd["min"], odd["max"]) == (0, 1)
    empty = _json(capsys, path, "empty")
    assert empty["count"] == 0
    assert (empty["min"], empty["mean"], empty["kurtosis"]) == (None, None, None)
    assert empty["percentiles"]["50"] is None  # type: ignore[index]


def test_a_quantized_tensor_shows_its_rounding_error(path: Path, capsys: Capture) -> None:
    record = _json(capsys, path, "quantized")
    assert (record["type"], record["step_error_rms"]) == ("Q4_K", 0)


def test_a_factor_that_is_not_applied_is_noted(path: Path, capsys: Capture) -> None:
    record = _json(capsys, path, "fp4.weight")
    assert record["notes"] == ["the factor in tensor 'fp4.scale' is not applied to these weights"]
    assert main(["stats", str(path), "fp4.weight"]) == 0
    assert "Note: the factor in tensor 'fp4.scale'" in capsys.readouterr().out


def test_text(path: Path, capsys: Capture) -> None:
    assert main(["stats", str(path), "blk.0.attn_q.weight"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "blk.0.attn_q.weight  F32  64 × 96"
    assert ["Count", "6,144"] in [line.split() for line in lines]
    assert "Percentiles (from a histogram of 65,536 bins or more)" in lines
    bars = [line for line in lines if line.endswith("#")]
    assert max(line.count("#") for line in bars) == 40
    assert main(["stats", str(path), "evil\x1b[31m\n"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_errors_are_one_line(path: Path, capsys: Capture) -> None:
    assert main(["stats", str(path), "blk.0.attn_k.weight"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: {path}: it has no tensor 'blk.0.attn_k.weight'. Did you mean")
    assert main(["stats", str(path), "newer"]) == 1
    assert "type unknown (999) cannot be decoded" in capsys.readouterr().err


def test_a_cut_file_names_tensor_and_byte(path: Path, capsys: Capture) -> None:
    path.write_bytes(path.read_bytes()[:-3])
    assert main(["stats", str(path), "evil\x1b[31m\n"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {path}: tensor 'evil")
    assert "cut short" in err
    assert "(at byte " in err


@pytest.mark.parametrize(
    "options",
    [
        ("--bins", "0"),
        ("--bins", "2000000"),
        ("--range", "2", "1"),
        ("--range", "nan", "1"),
        ("--range", "0", "inf"),
        ("--range", "1", "1.0000000000000002"),
        ("--workers", "0"),
    ],
)
def test_wrong_usage(path: Path, capsys: Capture, options: tuple[str, ...]) -> None:
    assert main(["stats", str(path), "odd", *options]) == 2
    assert "error: " in capsys.readouterr().err


def test_progress_only_reaches_a_terminal(
    path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["stats", str(path), "blk.0.attn_q.weight", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "%" in err
    assert json.loads(out)["count"] == 6144
