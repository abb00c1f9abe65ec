"""The real Gemma 3 270M model, against ggml's own C code.

`gemma3_270m_expected.json` was made with ggml; its package is among the test dependencies.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.formats import open_model

pytestmark = [pytest.mark.network, pytest.mark.slow]


def test_header_as_ggml_reads_it(real_model: Path, shared_reference: Path) -> None:
    expected = json.loads((shared_reference / "gemma3_270m_expected.json").read_text())
    with open_model(real_model) as model:
        assert model.problems == ()
        assert len(model.metadata) == expected["n_kv"]
        assert len(model.tensors) == expected["n_tensors"]
        assert model.data_offset == expected["data_offset"]
        assert model.parameters == expected["n_weights"]
        assert model.nbytes == expected["tensor_bytes"]
        found = [
            (t.name, t.type.name, list(t.shape[::-1]), t.offset, t.nbytes)
            for t in model.tensors.rows
        ]
    assert found == [
        (t["name"], t["type"], t["ne"], t["file_offset"], t["n_bytes"]) for t in expected["tensors"]
    ]


def test_what_the_model_is(real_model: Path) -> None:
    """docs/gguf.md section 6 says what a "Q4_K_M" of this model holds."""
    with open_model(real_model) as model:
        assert model.architecture == "gemma3"
        assert (model.version, model.byte_order, model.alignment) == (3, "little", 32)
        assert model.bits_per_weight == pytest.approx(7.36, abs=0.005)
        assert {name: total.tensors for name, total in model.tensors.totals_by_type.items()} == {
            "Q5_0": 81,
            "Q4_K": 27,
            "Q8_0": 10,
            "Q6_K": 9,
            "F32": 109,
        }
        tokens = model.metadata["tokenizer.ggml.tokens"]
        assert len(tokens) == 262_144  # type: ignore[arg-type]
