"""Make the small files of expected values that decoders and quantizers are tested with.

  python tests/data/make_golden.py [FOLDER]

FOLDER holds `ggml_golden.npz`, made with ggml's C code (`ggml_golden.md` beside it); without, it is
`../shared/reference` beside the repository. Two files are written beside this script:

  decoders_golden.npz   TYPE.blocks, TYPE.weights: some blocks, and what ggml makes of them
  encoders_golden.npz   weights [16, 256]: some weights of each kind; importance [256]: of columns;
                        TYPE.blocks: what ggml makes of the weights, TYPE.weighted: with importance;
                        rows, row_importance: the same of whole rows, TYPE.rows: with importance,
                        for types that weigh by the mean square of a row
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from explorer.quantization import TENSOR_TYPES

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "reference"
# Quantized weights, random blocks, blocks with scales such as infinity: about how many weights.
COUNTS = {"quant": 512, "rand": 1024, "edge": 1536}
COLUMNS = 256
BY_ROW = ("Q4_0", "Q4_1", "Q5_0", "Q5_1")
WHOLE_ROWS = 3
TYPES = [kind for kind in TENSOR_TYPES.values() if kind.quantized or kind.name in ("F16", "BF16")]


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


def main(folder: Path) -> None:
    """Write both files."""
    with np.load(folder / "ggml_golden.npz", allow_pickle=False) as golden:
        np.savez_compressed(HERE / "decoders_golden.npz", **blocks_to_decode(golden))
        np.savez_compressed(HERE / "encoders_golden.npz", **weights_to_encode(golden))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED)
