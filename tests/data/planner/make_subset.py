"""Makes golden_subset.json of planner_golden.json: some models, with evenly chosen cases.

Run from the repository's root: python tests/data/planner/make_subset.py PATH/planner_golden.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# One of each sort: a row with partial fits, tied embeddings, a replaced cache, an embedding model,
# a hybrid without a row, and those of quirk cases. Models of few tensors, to keep the file small.
MODELS = (
    "command-r-08-2024",
    "llama-3.2-1b",
    "gpt-oss-20b",
    "all-minilm",
    "jamba-mini",
    "phi-2",
    "gemma-2b",
)
PER_MODEL = {"graph_cases": 8, "settings_cases": 5, "layout_cases": 12, "quirk_cases": 5}
WORKED_EXAMPLE = ("g0501", "l0733")


def choose(cases: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return so many cases, evenly spread, and those of the worked example."""
    step = max(1, -(-len(cases) // count))
    return [c for i, c in enumerate(cases) if i % step == 0 or c["id"] in WORKED_EXAMPLE]


def main() -> None:
    """Write the subset beside this script."""
    golden = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    subset: dict[str, Any] = {
        "provenance": golden["provenance"],
        "notes": golden["notes"],
        "models": {name: golden["models"][name] for name in MODELS},
        "model_facts": {name: golden["model_facts"][name] for name in MODELS},
    }
    for kind, count in PER_MODEL.items():
        subset[kind] = [
            case
            for name in MODELS
            for case in choose([c for c in golden[kind] if c["model"] == name], count)
        ]
    target = Path(__file__).with_name("golden_subset.json")
    text = json.dumps(subset, separators=(",", ":"))
    target.write_text(text.replace('],["', '],\n["') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
