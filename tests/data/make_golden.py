"""Make the small files of expected values that decoders and quantizers are tested with.

  python tests/data/make_golden.py [FOLDER [LIBRARY]]

FOLDER holds `ggml_golden.npz`, made with ggml's C code (`ggml_golden.md` beside it); without, it is
`../shared/reference` beside the repository. Two files are written beside this script:

  decoders_golden.npz   TYPE.blocks, TYPE.weights: some blocks, and what ggml makes of them
  encoders_golden.npz   weights [16, 256]: some weights of each kind; importance [256]: of columns;
                        TYPE.blocks: what ggml makes of the weights, TYPE.weighted: with importance;
                        rows, row_importance: the same of whole rows, TYPE.rows: with importance,
                        for types that weigh by the mean square of a row

LIBRARY is ggml's C code as a shared library, such as libggml-base.so of a build of llama.cpp for
x86-64; with it, a third file is completed, whose weights are kept:

  encoders_hard.npz     weights, importance [32, 256]: found at random, where rounding in other ways
                        than ggml's C makes other bytes (just below a middle between two levels, one
                        weight of a block that counts, weights below 2^-126, -0, ...);
                        TYPE.plain, TYPE.weighted [32]: the CRC-32 of what C makes of each row
"""

from __future__ import annotations

import ctypes
import sys
import zlib
from pathlib import Path

import numpy as np

from explorer.quantization import TENSOR_TYPES
from explorer.quantization.registry import has_encoder
from explorer.quantization.types import OF_LLAMA_CPP

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "reference"
# Quantized weights, random blocks, blocks with scales such as infinity: about how many weights.
COUNTS = {"quant": 512, "rand": 1024, "edge": 1536}
COLUMNS = 256
BY_ROW = ("Q4_0", "Q4_1", "Q5_0", "Q5_1")
WHOLE_ROWS = 3
TYPES = [
    kind
    for name, kind in TENSOR_TYPES.items()
    if (kind.quantized and kind in OF_LLAMA_CPP) or name in ("F16", "BF16")
]


def blocks_to_decode(golden: np.lib.npyio.NpzFile) -> dict[str, np.ndarray]:
    """Return some blocks of each type and their weights."""
    chosen = {}
    for kind in TYPES:
        blocks, weights = [], []
        for what, count in COUNTS.items():
            key = f"{kind.name}.{what}"
            if f"{key}_raw" in golden:
                raw = golden[f"{key}_raw"].reshape(-1, kind.block_bytes)
                some = min(max(4, count // kind.block_weights), len(raw))
                rows = np.linspace(0, len(raw) - 1, some).astype(int)
                blocks.append(raw[rows])
                weights.append(golden[f"{key}_deq"].reshape(len(raw), -1)[rows])
        chosen[f"{kind.name}.blocks"] = np.concatenate(blocks)
        chosen[f"{kind.name}.weights"] = np.concatenate(weights)
    return chosen


def weights_to_encode(golden: np.lib.npyio.NpzFile) -> dict[str, np.ndarray]:
    """Return the first columns of the weights, and the blocks that ggml makes of them."""
    chosen = {"weights": golden["src"][:, :COLUMNS], "importance": golden["imatrix"][:COLUMNS]}
    rows = len(golden["src"])
    chosen["rows"], chosen["row_importance"] = golden["src"][:WHOLE_ROWS], golden["imatrix"]
    for kind in TYPES:
        size = kind.nbytes(COLUMNS)
        for what, name in (("quant", "blocks"), ("imat", "weighted")):
            if f"{kind.name}.{what}_raw" in golden:
                raw = golden[f"{kind.name}.{what}_raw"].reshape(rows, -1)
                if what == "imat" and kind.name in BY_ROW:
                    chosen[f"{kind.name}.rows"] = raw[:WHOLE_ROWS]
                else:
                    chosen[f"{kind.name}.{name}"] = raw[:, :size]
    return chosen


def checksums(library: str, hard: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the CRC-32 of what C makes of each row, plain and with the row's importance."""
    ggml, found = ctypes.CDLL(library), {}
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_requires_imatrix.restype = ctypes.c_bool
    for kind in TYPES:
        if not has_encoder(kind.name) or kind.name in ("F16", "BF16"):
            continue
        ggml.ggml_quantize_init(kind.id)
        for how in ("plain", "weighted"):
            if how == "plain" and ggml.ggml_quantize_requires_imatrix(kind.id):
                continue
            sums = []
            for row, importance in zip(hard["weights"], hard["importance"], strict=True):
                blocks = np.zeros(kind.nbytes(row.size), np.uint8)
                used = ctypes.c_void_p(importance.ctypes.data if how == "weighted" else None)
                start, rows, columns = map(ctypes.c_int64, (0, 1, row.size))
                given, made = ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(blocks.ctypes.data)
                ggml.ggml_quantize_chunk(kind.id, given, made, start, rows, columns, used)
                sums.append(zlib.crc32(blocks))
            found[f"{kind.name}.{how}"] = np.array(sums, np.uint32)
    return found


def main(folder: Path, library: str | None) -> None:
    """Write the files."""
    if library is not None:
        with np.load(HERE / "encoders_hard.npz", allow_pickle=False) as file:
            hard = {key: file[key] for key in ("weights", "importance")}
        np.savez_compressed(HERE / "encoders_hard.npz", **hard, **checksums(library, hard))
    with np.load(folder / "ggml_golden.npz", allow_pickle=False) as golden:
        np.savez_compressed(HERE / "decoders_golden.npz", **blocks_to_decode(golden))
        np.savez_compressed(HERE / "encoders_golden.npz", **weights_to_encode(golden))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED, (*sys.argv, None, None)[2])
