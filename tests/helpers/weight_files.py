"""Models whose weights are known, and ones so large that reading them takes a while."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec

F32, Q4_1, Q8_0, NVFP4 = 0, 3, 8, 40
REMOVED = 31  # Q4_0_4_4, which files must not have any more

LAYERS = 4
ROWS, COLUMNS = 96, 64
OUTLIER = 50.0


def layer_weights(layer: int) -> NDArray[np.float32]:
    """Return the weights of a layer's `attn_q`, float32 [ROWS, COLUMNS], one of them far out."""
    random = np.random.default_rng(layer)
    weights = random.normal(0.01 * layer, 0.02, (ROWS, COLUMNS)).astype(np.float32)
    weights[3, 5] = OUTLIER
    return weights


def expert_weights() -> NDArray[np.float32]:
    """Return weights of three dimensions, float32 [2, 3, 8], counted through."""
    return np.arange(48, dtype=np.float32).reshape(2, 3, 8)


def weights_model() -> GgufFile:
    """Return a file with a tensor for each of the panel's states."""
    random = np.random.default_rng(7)
    tensors = [
        TensorSpec(
            f"blk.{layer}.attn_q.weight", (COLUMNS, ROWS), F32, layer_weights(layer).tobytes()
        )
        for layer in range(LAYERS)
    ]
    scales = random.uniform(0.01, 0.02, (32, 1)).astype("<f2").view(np.uint8)
    codes = random.integers(0, 256, (32, 32), dtype=np.uint8)
    eight = np.concatenate((scales, codes), axis=1).tobytes()
    minima = random.uniform(-0.1, 0.1, (32, 1)).astype("<f2").view(np.uint8)
    four = np.concatenate((scales, minima, codes[:, :16]), axis=1).tobytes()
    tensors += [
        TensorSpec("blk.0.ffn_up.weight", (64, 16), Q8_0, eight),
        TensorSpec("blk.0.ffn_down.weight", (64, 16), Q4_1, four),
        TensorSpec("experts.weight", (8, 3, 2), F32, expert_weights().tobytes()),
        TensorSpec("norm.weight", (40,), F32, np.linspace(0, 1, 40, dtype="<f4").tobytes()),
        TensorSpec("nothing.weight", (4, 2), F32, np.full(8, np.nan, "<f4").tobytes()),
        TensorSpec("equal.weight", (32, 2), F32, np.full(64, 0.25, "<f4").tobytes()),
        TensorSpec("old.weight", (32, 4), REMOVED, bytes(72)),
        TensorSpec("fp4.weight", (64, 2), NVFP4, bytes(range(72))),
        TensorSpec("fp4.scale", (1,), F32, np.ones(1, "<f4").tobytes()),
    ]
    return GgufFile(keys=[("general.architecture", STRING, "llama")], tensors=tensors)


def huge_model(path: Path, weights: int, tensors: int = 1) -> Path:
    """Write a file of F32 tensors that are holes: zeros that take no room on the disk."""
    rows = weights // 4096
    nbytes = 4 * 4096 * rows
    file = GgufFile(keys=[("general.architecture", STRING, "llama")])
    for number in range(tensors):
        name = f"blk.{number}.ffn_up.weight"
        file.tensors.append(TensorSpec(name, (4096, rows), F32, b"", number * nbytes))
    header = file.header()
    start = -(-len(header) // 32) * 32
    with path.open("wb") as stream:
        stream.write(header)
        stream.truncate(start + nbytes * tensors)
    return path
