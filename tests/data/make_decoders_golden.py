"""Make `decoders_golden.npz`: a few blocks of each type, and the weights ggml makes of them.

  python tests/data/make_decoders_golden.py [FOLDER]

FOLDER holds `ggml_golden.npz`, made with ggml's C code (`ggml_golden.md` beside it); without, it is
`../shared/reference` beside the repository. IQ types have a file of their own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "reference"
# Quantized weights, random blocks, blocks with scales such as infinity: about how many weights.
COUNTS = {"quant": 512, "rand": 1024, "edge": 1536}
BLOCK_WEIGHTS = {
    **dict.fromkeys(("F16", "BF16"), 1),
    **dict.fromkeys(("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "MXFP4"), 32),
    **dict.fromkeys(("Q2_0", "NVFP4"), 64),
    "Q1_0": 128,
    **dict.fromkeys(("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "TQ1_0", "TQ2_0"), 256),
}


def main(folder: Path) -> None:
    """Write the file beside this script."""
    chosen = {}
    with np.load(folder / "ggml_golden.npz", allow_pickle=False) as golden:
        for name, block_weights in BLOCK_WEIGHTS.items():
            blocks, weights = [], []
            for kind, count in COUNTS.items():
                if f"{name}.{kind}_raw" not in golden:
                    continue
                expected = golden[f"{name}.{kind}_deq"].reshape(-1, block_weights)
                raw = golden[f"{name}.{kind}_raw"].reshape(len(expected), -1)
                some = min(count // block_weights, len(raw))
                rows = np.linspace(0, len(raw) - 1, some).astype(int)
                blocks.append(raw[rows])
                weights.append(expected[rows])
            chosen[f"{name}.blocks"] = np.concatenate(blocks)
            chosen[f"{name}.weights"] = np.concatenate(weights)
    np.savez_compressed(HERE / "decoders_golden.npz", **chosen)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED)
