"""`dequantize`: what it accepts, what it refuses, and what it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.errors import ExplorerError
from explorer.quantization import QuantizationError, dequantize
from explorer.quantization.registry import decoder_kernel

_ROOT = Path(__file__).parents[2]
_ONE = b"\0\x3c"  # the half float 1.0


def _blocks(count: int) -> NDArray[np.uint8]:
    """Return Q8_0 blocks of scale 1 whose weights count up from block to block."""
    blocks = np.empty((count, 34), np.uint8)
    blocks[:, :2] = list(_ONE)
    blocks[:, 2:] = np.arange(count)[:, None]
    return blocks


_THREE = np.repeat(np.arange(3, dtype=np.float32), 32)


@pytest.mark.parametrize(
    "give",
    [
        lambda blocks: blocks,
        lambda blocks: blocks.reshape(-1),
        lambda blocks: blocks.view(np.int8),
        lambda blocks: blocks.tobytes(),
        lambda blocks: bytearray(blocks.tobytes()),
        lambda blocks: memoryview(blocks.tobytes()),
        lambda blocks: memoryview(b"\0" + blocks.tobytes())[1:],
    ],
    ids=["array", "flat array", "int8", "bytes", "bytearray", "memoryview", "odd address"],
)
def test_any_buffer_of_bytes(give: Any) -> None:
    weights = dequantize(give(_blocks(3)), "Q8_0")
    assert weights.dtype == np.float32
    assert weights.shape == (96,)
    assert np.array_equal(weights, _THREE)


def test_one_kernel_serves_writable_and_read_only_buffers() -> None:
    for raw in (_blocks(1), _blocks(1).tobytes()):
        dequantize(raw, "Q8_0")
    assert len(decoder_kernel("Q8_0").signatures) == 1


@pytest.mark.parametrize("raw", [b"", np.empty((0, 34), np.uint8), np.empty(0, np.uint8)])
def test_no_blocks(raw: Any) -> None:
    assert dequantize(raw, "Q8_0").shape == (0,)


def test_out_is_filled_and_returned() -> None:
    out = np.full(96, 7.5, np.float32)
    assert dequantize(_blocks(3), "Q8_0", out) is out
    assert np.array_equal(out, _THREE)


@given(st.integers(0, 8), st.integers(0, 8))
def test_a_slice_decodes_as_in_the_whole_and_touches_nothing_else(first: int, count: int) -> None:
    count = min(count, 8 - first)
    blocks = _blocks(8)
    out = np.full(8 * 32, 7.5, np.float32)
    here = slice(32 * first, 32 * (first + count))
    dequantize(blocks[first : first + count], "Q8_0", out[here])
    wanted = np.full(8 * 32, 7.5, np.float32)
    wanted[here] = dequantize(blocks, "Q8_0")[here]
    assert np.array_equal(out, wanted)


_SHARED = np.zeros(256, np.uint8)
_READ_ONLY = np.zeros(32, np.float32)
_READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((bytes(33), "Q8_0"), "33 bytes are not a whole number of Q8_0 blocks of 34 bytes"),
        ((bytes(34), "Q8_9"), "unknown tensor type 'Q8_9'"),
        ((bytes(34), "removed (Q4_2)"), "unknown tensor type"),
        ((bytes(8), "C64"), "type C64 cannot be decoded: complex numbers"),
        ((np.zeros(34, np.float32), "Q8_0"), "must be bytes (uint8), not elements of 'f'"),
        (("text", "Q8_0"), "must be bytes, not str"),
        ((None, "Q8_0"), "must be bytes, not NoneType"),
        ((np.zeros(68, np.uint8)[::2], "Q8_0"), "one behind the other"),
        ((bytes(34), "Q8_0", np.zeros(31, np.float32)), "shape (32,), not (31,)"),
        ((bytes(34), "Q8_0", np.zeros((1, 32), np.float32)), "shape (32,), not (1, 32)"),
        ((bytes(34), "Q8_0", np.zeros(32)), "float32 array, not float64"),
        ((bytes(34), "Q8_0", np.zeros(32, ">f4")), "float32 array, not >f4"),
        ((bytes(34), "Q8_0", [0.0] * 32), "float32 array, not list"),
        ((bytes(34), "Q8_0", np.zeros(64, np.float32)[::2]), "contiguous"),
        ((bytes(34), "Q8_0", np.zeros(129, np.uint8)[1:].view(np.float32)), "aligned"),
        ((bytes(34), "Q8_0", _READ_ONLY), "writable"),
        ((_SHARED[:34], "Q8_0", _SHARED[:128].view(np.float32)), "overwrite"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(QuantizationError) as caught:
        dequantize(*arguments)
    assert words in str(caught.value)
    assert isinstance(caught.value, ExplorerError)
    assert isinstance(caught.value, ValueError)


def test_numba_is_loaded_by_the_first_decoding_and_not_before() -> None:
    program = """
import sys
import explorer.quantization as quantization
import explorer.quantization.registry
assert "numba" not in sys.modules
try:
    quantization.dequantize(b"?", "Q8_0")
except quantization.QuantizationError:
    assert "numba" not in sys.modules
quantization.dequantize(bytes(34), "Q8_0")
kernel = explorer.quantization.registry.decoder_kernel("Q8_0")
assert len(kernel.signatures) == 1
quantization.dequantize(bytearray(34), "Q8_0")
assert len(kernel.signatures) == 1
"""
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=_ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
