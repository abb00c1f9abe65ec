"""A plan with other types of tensors is that of a file which has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.rounding import rounded_type
from explorer.formats import open_model
from explorer.planner import Hyperparameters, Settings, plan
from explorer.planner.inputs import PlanInputs, memory_plans, with_types
from tests.helpers.model_pairs import write_gguf, write_safetensors

SHAPES = {
    "token_embd.weight": (64, 256),
    "output_norm.weight": (256,),
    "blk.0.attn_q.weight": (256, 256),
    "blk.0.attn_norm.weight": (256,),
    "blk.0.ffn_gate_exps.weight": (4, 64, 256),
    "blk.1.ffn_down.weight": (256, 512),
}
ARRAYS = {name: np.full(shape, 0.5, np.float32) for name, shape in SHAPES.items()}
NUMBERS = {
    "block_count": 2,
    "embedding_length": 256,
    "attention__head_count": 4,
    "attention__head_count_kv": 2,
    "feed_forward_length": 512,
    "expert_count": 4,
}


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0", "MXFP4", "BF16"])
def test_bytes_enter_the_plan_as_those_of_a_file_with_the_types(tmp_path: Path, kind: str) -> None:
    matrices = {name: kind for name, shape in SHAPES.items() if len(shape) > 1}
    write_gguf(tmp_path / "now.gguf", "llama", ARRAYS, **NUMBERS)
    write_gguf(tmp_path / "then.gguf", "llama", ARRAYS, matrices, **NUMBERS)
    with open_model(tmp_path / "now.gguf") as now, open_model(tmp_path / "then.gguf") as then:
        rows = [row for row, name in enumerate(now.tensors.columns.names) if name in matrices]
        types = {row: rounded_type(kind) for row in rows}
        h = with_types(now, Hyperparameters.from_model(now), types)
        wanted = Hyperparameters.from_model(then)
        assert h.tensors == wanted.tensors
        assert h.file_bytes == wanted.file_bytes
        settings = Settings(context=8192)
        assert plan(h, settings).total == plan(wanted, settings).total
        assert plan(h, settings).total < plan(now, settings).total
        assert with_types(now, Hyperparameters.from_model(now), {}) == Hyperparameters.from_model(
            now
        )


def test_what_a_folder_takes_after_conversion_is_not_told(tmp_path: Path) -> None:
    arrays = {"model.embed_tokens.weight": ARRAYS["token_embd.weight"]}
    folder = write_safetensors(
        tmp_path / "hf", arrays, model_type="llama", num_hidden_layers=1, num_attention_heads=4
    )
    with open_model(folder) as model:
        plans, why = memory_plans(model, PlanInputs(), {"Q8_0": {}}, lambda: None)
    assert not plans
    assert "no GGUF file" in why
