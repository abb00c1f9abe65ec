"""Make `i_quants_golden.npz`: a few blocks of each IQ type, and the weights ggml makes of them.

  python tests/data/make_i_quants_golden.py [FOLDER]

FOLDER holds `ggml_golden.npz`, made with ggml's C code (`ggml_golden.md` beside it); without, it is
`../shared/reference` beside the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "reference"
# Quantized weights, random blocks, blocks with scales such as infinity: how many of each.
COUNTS = {"quant": 4, "rand": 8, "edge": 6}
BLOCK_WEIGHTS = {
    "IQ1_S": 256,
    "IQ1_M": 256,
    "IQ2_XXS": 256,
    "IQ2_XS": 256,
    "IQ2_S": 256,
    "IQ3_XXS": 256,
    "IQ3_S": 256,
    "IQ4_NL": 32,
    "IQ4_XS": 256,
}


def main(folder: Path) -> None:
    """Write the file beside this script."""
    chosen = {}
    with np.load(folder / "ggml_golden.npz", allow_pickle=False) as golden:
        for name, block_weights in BLOCK_WEIGHTS.items():
            blocks, weights = [], []
            for kind, count in COUNTS.items():
                expected = golden[f"{name}.{kind}_deq"].reshape(-1, block_weights)
                raw = golden[f"{name}.{kind}_raw"].reshape(len(expected), -1)
                rows = np.linspace(0, len(raw) - 1, count).astype(int)
                blocks.append(raw[rows])
                weights.append(expected[rows])
            chosen[f"{name}.blocks"] = np.concatenate(blocks)
            chosen[f"{name}.weights"] = np.concatenate(weights)
    np.savez_compressed(HERE / "i_quants_golden.npz", **chosen)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED)
