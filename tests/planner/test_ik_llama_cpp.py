"""ik_llama.cpp: what its source says of weights and cache; compute is said to be unknown."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner import Device, Host, Hyperparameters, Settings, plan
from explorer.planner.advice import solve
from explorer.planner.engines.ik_llama_cpp import IK_LLAMA_CPP
from explorer.planner.engines.llama_cpp.engine import LLAMA_CPP
from explorer.planner.engines.registry import default_engine, engines_for
from explorer.planner.inputs import header_to_plan, plan_record
from explorer.planner.plans import Level, Plan
from explorer.planner.request import PlanRequest
from explorer.present.plan import answer
from explorer.text import bytes_text
from tests.planner.models import header_model
from tests.planner.plans import check_terms

GIB = 1 << 30
EMBEDDING, HEADS, CONTEXT, BLOCKS = 512, 8, 4096, 2
_HEADER: dict[str, Any] = {
    "llama.block_count": BLOCKS,
    "llama.embedding_length": EMBEDDING,
    "llama.context_length": CONTEXT,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": 2,
}
_KV: int = 2 * EMBEDDING // HEADS
_ROWS = {"attn_q": 512, "attn_k": _KV, "attn_v": _KV, "attn_output": 512}
_ROWS |= {"ffn_gate": 512, "ffn_up": 512, "ffn_down": 512}


def _built(kind: str = "IQ4_KS", name: str = "llama", **header: Any) -> Model:
    tensors = [("token_embd.weight", "Q8_0", [EMBEDDING, 50]), ("output_norm.weight", "F32", [512])]
    for i in range(BLOCKS):
        tensors += [(f"blk.{i}.{name}.weight", kind, [512, n]) for name, n in _ROWS.items()]
        tensors += [(f"blk.{i}.{name}_norm.weight", "F32", [512]) for name in ("attn", "ffn")]
    keys = {key.replace("llama.", f"{name}."): value for key, value in _HEADER.items()}
    more = {f"{name}.{key}": value for key, value in header.items()}
    return header_model({**keys, "general.architecture": name, **more}, tensors)


@pytest.fixture(scope="module")
def h() -> Hyperparameters:
    return header_to_plan(_built())


def planned(h: Hyperparameters, free: int = GIB, **settings: Any) -> Plan:
    return plan(h, Settings(**settings), (Device("0", "CUDA", free),), profile="ik_llama.cpp")


def test_what_only_ik_llama_cpp_loads_is_planned_by_it(h: Hyperparameters) -> None:
    assert default_engine(h) is IK_LLAMA_CPP
    assert IK_LLAMA_CPP in engines_for(h)
    plain = header_to_plan(_built("Q8_0"))  # the other engines know more of it
    assert (default_engine(plain), IK_LLAMA_CPP in engines_for(plain)) == (LLAMA_CPP, False)
    assert planned(plain).weights > 0
    with pytest.raises(PlanError, match=r"^llama\.cpp does not load"):
        plan(h, Settings(), (), profile="llama.cpp")
    with pytest.raises(PlanError, match="Ollama does not load tensors of type IQ4_KS"):
        plan(h, Settings(), (), profile="ollama-graphsize")


def test_weights_have_their_rows_headers_and_the_cache_the_whole_context(
    h: Hyperparameters,
) -> None:
    made = planned(h)
    rows = sum(_ROWS.values())
    block = rows * (4 + 512 // 256 * 136) + 2 * 512 * 4
    head = 50 * (512 // 32 * 34)  # as input, and once more as output
    aligned = -(-head // 128) * 128
    assert made.main.weights == head
    assert made.gpus[0].weights == BLOCKS * block + aligned + 512 * 4
    assert made.cache == BLOCKS * CONTEXT * 2 * _KV * 2
    double = planned(h, kv_cache_type="f32", context=1000)
    assert double.cache == BLOCKS * 1024 * 2 * _KV * 4


def test_a_window_stores_no_less() -> None:
    model = _built(name="gemma3", **{"attention.sliding_window": 128})
    window = planned(Hyperparameters.from_model(model))
    assert window.cache == BLOCKS * CONTEXT * 2 * _KV * 2


def test_compute_is_unknown_and_so_is_whether_it_fits(h: Hyperparameters) -> None:
    made = planned(h)
    assert bytes_text(made.total).startswith("at least ")
    assert bytes_text(made.gpus[0].compute.high) == "unknown"
    assert answer(made).sentence.startswith("Should fit: it depends on its compute buffers, of")
    on_cpu = plan(h, Settings(), (), host=Host(GIB), profile="ik_llama.cpp")
    assert answer(on_cpu).sentence.endswith("are left for it.")
    assert planned(h, free=GIB // 64).verdict.level is Level.NOT
    assert plan_record(made)["graph"]["full"] is None
    request = PlanRequest(h, Settings(), (Device("0", "CUDA", GIB),))
    found = solve("context", request, IK_LLAMA_CPP)
    assert (found.value, found.limited_by) == (
        None,
        "what ik_llama.cpp takes for its compute buffers is not known",
    )


def test_every_figure_follows_from_its_formula(h: Hyperparameters) -> None:
    check_terms(planned(h))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (_built("TQ1_0"), "does not load tensors of type TQ1_0; llama.cpp does"),
        (_built(name="apertus"), "does not know the architecture"),
        (_built(name="deepseek2"), "caches of this architecture"),
    ],
)
def test_what_it_does_not_load_is_refused(model: Model, why: str) -> None:
    refusal = IK_LLAMA_CPP.refusal(header_to_plan(model))
    assert why in refusal
