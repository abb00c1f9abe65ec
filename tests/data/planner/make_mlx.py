"""Makes mlx.json.gz of the golden cases of mlx-lm and transformers: what their caches hold.

Run from the repository's root: python tests/data/planner/make_mlx.py PATH/mlx_golden_dev.json.gz
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path


def main() -> None:
    """Write the states without the arrays that they are made of beside this script."""
    with gzip.open(sys.argv[1]) as file:
        golden = json.load(file)
    states = [
        {"model": case["job"]["model"], **{key: state[key] for key in state if key != "layers"}}
        for case in golden["mlx"]
        for state in case["states"]
    ]
    for state in states:
        if "error" in state:
            state["error"] = state["error"][:60]
    subset = {
        "about": golden["about"],
        "configs": golden["configs"],
        "mlx": states,
        "transformers": [
            {key: case[key] for key in ("model", "plan", "bytes")}
            for case in golden["transformers"]
        ],
    }
    text = json.dumps(subset, separators=(",", ":")).encode()
    Path(__file__).with_name("mlx.json.gz").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
