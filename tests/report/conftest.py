"""Models to report on, and a cache that is not the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.planner import Device
from explorer.report.gather import PlanTarget
from tests.helpers.model_pairs import arrays_of, write_gguf

SHAPES = {
    "token_embd.weight": (64, 256),
    "output_norm.weight": (256,),
    **{
        f"blk.{layer}.{role}.weight": shape
        for layer in range(3)
        for role, shape in (
            ("attn_norm", (256,)),
            ("attn_q", (256, 256)),
            ("attn_k", (128, 256)),
            ("ffn_down", (256, 512)),
        )
    },
}
KEYS = {
    "block_count": 3,
    "embedding_length": 256,
    "context_length": 2048,
    "feed_forward_length": 512,
    "attention__head_count": 4,
    "attention__head_count_kv": 2,
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """A model in F32."""
    return write_gguf(tmp_path / "reference.gguf", "llama", arrays_of(SHAPES), **KEYS)


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    """The same with matrices in Q8_0, but for one in Q4_0, and one norm the same."""
    types = {name: "Q8_0" for name, shape in SHAPES.items() if len(shape) > 1}
    types["blk.1.ffn_down.weight"] = "Q4_0"
    folder = tmp_path / "private folder"
    folder.mkdir()
    return write_gguf(folder / "model-q8.gguf", "llama", arrays_of(SHAPES), types, **KEYS)


@pytest.fixture
def target() -> PlanTarget:
    """A machine with one GPU."""
    return PlanTarget("a GPU", (Device("0", "CUDA", 8 << 30, name="RTX"),))
