"""The demo's quantizers against bytes that ggml's C code made (ggml_golden.npz, see its page)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explorer.demo import DEMO_TYPES, encode
from explorer.quantization import TENSOR_TYPES

STORED = [name for name in DEMO_TYPES if name != "F32"]


@pytest.mark.parametrize("type_name", STORED)
def test_same_bytes_as_ggml(type_name: str, shared_reference: Path) -> None:
    with np.load(shared_reference / "ggml_golden.npz") as golden:
        expected = golden[f"{type_name}.quant_raw"].tobytes()
        assert encode(golden["src"], type_name) == expected


@pytest.mark.parametrize("type_name", STORED)
def test_same_bytes_as_the_gguf_package(type_name: str) -> None:
    gguf = pytest.importorskip("gguf")
    values = np.random.default_rng(7).standard_t(4, (64, 256)).astype(np.float32)
    values[3] = 0
    expected = gguf.quants.quantize(values, gguf.GGMLQuantizationType[type_name])
    assert encode(values, type_name) == expected.tobytes()


@pytest.mark.parametrize("type_name", DEMO_TYPES)
def test_size(type_name: str) -> None:
    raw = encode(np.ones((3, 64), dtype=np.float32), type_name)
    assert len(raw) == TENSOR_TYPES[type_name].nbytes(192)


def test_bfloat16_keeps_nan() -> None:
    raw = encode(np.array([np.nan, 1.0, -2.0], dtype=np.float32), "BF16")
    assert np.frombuffer(raw, "<u2").tolist() == [0x7FC0, 0x3F80, 0xC000]
