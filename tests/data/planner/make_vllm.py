"""Makes vllm.json.gz of the golden cases of vLLM: some models, with a few plans of each case.

Run from the repository's root:

    PYTHONPATH=SHARED/tools python tests/data/planner/make_vllm.py PATH/vllm_golden_dev.json.gz
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from make_hf_folder import expand  # type: ignore[import-not-found]

# One of each sort: plain, windows, latent, Mamba-2, gated delta nets, stacked and MXFP4 experts.
MODELS = (
    *("smollm2-135m", "llama-3.1-8b", "gemma-3-27b-text", "mistral-7b-v0.1", "olmo-3-7b"),
    *("deepseek-v2-lite", "granite-4.0-h-tiny", "qwen3.5-0.8b-text", "qwen3-next-80b-a3b"),
    *("gpt-oss-20b", "qwen3-8b", "phi-4", "mixtral-8x7b"),
)
QUANTIZED = "llama-3.1-8b"
PLANS = 4


def kept(case: dict[str, Any]) -> dict[str, Any]:
    """Return what a test reads of a case."""
    job = {name: value for name, value in case["job"].items() if name not in {"post", "lengths"}}
    found: dict[str, Any] = {"job": job}
    for name in ("error", "block_size_config", "bytes_per_block", "groups"):
        if name in case:
            found[name] = True if name == "groups" else case[name]
    if "error" in found:
        found["error"] = found["error"].splitlines()[-1][:80]
    if "resolved" in case:
        names = ("max_num_batched_tokens", "max_num_seqs", "max_model_len", "max_in_flight_tokens")
        found["resolved"] = {name: case["resolved"][name] for name in names}
    if "plans" in case:
        step = max(1, len(case["plans"]) // PLANS)
        found["plans"] = case["plans"][::step]
    if "ranks" in case:
        names = ("tp_rank", "pp_rank", "params", "buffers", "post")
        found["ranks"] = [
            {name: rank[name] for name in names if rank.get(name) is not None}
            for rank in case["ranks"]
        ]
    return found


def placed(golden: dict[str, Any], key: str) -> list[list[Any]]:
    """Return the tensors of a model that differ by nothing but layer and expert, with these."""
    found: dict[str, list[Any]] = {}
    for name, shape, kind in expand(golden["files"][key]["tensors"], golden["configs"][key]):
        numbers = [int(part) for part in name.split(".") if part.isdecimal()]
        pattern = ".".join("*" if part.isdecimal() else part for part in name.split("."))
        at = json.dumps([pattern, shape, kind])
        row = found.setdefault(at, [pattern, shape, kind, [], 0])
        if numbers and numbers[0] not in row[3]:
            row[3].append(numbers[0])
        if len(numbers) > 1:
            row[4] = max(row[4], numbers[1] + 1)
    return list(found.values())


def main() -> None:
    """Write the subset beside this script."""
    with gzip.open(sys.argv[1]) as file:
        golden = json.load(file)
    keys = [f"{model}|none" for model in MODELS]
    keys += [one for one in golden["configs"] if one.startswith(f"{QUANTIZED}|")]
    keys = list(dict.fromkeys(keys))
    subset = {
        "about": golden["about"],
        "gpus": golden["gpus"],
        "configs": {key: golden["configs"][key] for key in keys},
        "files": {key: placed(golden, key) for key in keys},
        "cases": [
            kept(case)
            for case in golden["cases"]
            if f"{case['job']['model']}|{case['job']['quant']}" in keys
        ],
    }
    text = json.dumps(subset, separators=(",", ":")).encode()
    target = Path(__file__).with_name("vllm.json.gz")
    target.write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
