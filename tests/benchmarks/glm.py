"""GLM-4.6, the largest model of experts whose plan is measured."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_BLOCKS, _WIDTH, _HEADS, _KV_HEADS, _EXPERTS, _EXPERT = 93, 5120, 96, 8, 160, 1536


def write_glm_4_6(tool: Path, path: Path) -> None:
    """Write its header, with its MTP layer, by its published numbers; its weights are a hole."""
    spec = importlib.util.spec_from_file_location("make_models", tool)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    tensors = made.moe(_BLOCKS, _WIDTH, _EXPERT, _EXPERTS, _HEADS, _KV_HEADS, 128, 151552)
    ahead = {"eh_proj": (2 * _WIDTH, _WIDTH), "enorm": (_WIDTH,), "hnorm": (_WIDTH,)}
    last = _BLOCKS - 1
    tensors += [made.T(f"blk.{last}.nextn.{name}.weight", *ne) for name, ne in ahead.items()]
    tensors = [
        (name.replace("ffn_norm", "post_attention_norm"), ne, "Q4_K" if kind == "F16" else kind)
        for name, ne, kind in tensors
    ]
    keys = made.bkv(131072, _WIDTH, _BLOCKS, 12288, _HEADS, _KV_HEADS, 128)
    keys |= {"expert_count": _EXPERTS, "expert_used_count": 8, "nextn_predict_layers": 1}
    made.write(str(path), "glm4moe", keys, tensors, 0)
