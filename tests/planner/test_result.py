"""Every figure of a plan has a term, and every term's formula gives the figure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from explorer.errors import PlanError
from explorer.planner import Device, Hyperparameters, Settings, plan
from explorer.planner.inputs import plan_record
from explorer.planner.plans import Plan
from tests.planner.golden import Golden
from tests.planner.models import (
    GIB,
    groups_of,
    random_devices,
    random_models,
    random_settings,
    small_model,
)
from tests.planner.plans import check_terms

_NO_TERMS = re.compile(
    r"devices\[\d+\]\.(free|projector|layers.*)|layers\[\d+\]\.(index|device)|effective\..*"
    r"|requested\..*|cpu\.layers|gpu_layers|total_layers|(gpu|quick_estimate)_ratio"
)  # what was put in, and counts of layers


def check(p: Plan) -> None:
    """Evaluate each term, and look for a term of each figure."""
    check_terms(p)
    terms = {term.name: term.value for term in p.terms}
    record = plan_record(p)
    for name, value in figures(record):
        assert terms.get(name) == value, name


def figures(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield the figures of a plan's JSON with their names."""
    if name in ("terms", "notes", "warnings", "environment", "model"):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from figures(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from figures(inner, f"{name}[{i}]")
    elif isinstance(value, int) and not isinstance(value, bool) and not _NO_TERMS.fullmatch(name):
        yield name, value


@pytest.mark.parametrize("flash_attention", [False, True])
def test_terms_of_the_golden_models(subset: Golden, flash_attention: bool) -> None:
    devices = [Device("0", "CUDA", 12 * GIB), Device("1", "CUDA", 8 * GIB)]
    for name in subset.content["models"]:
        asked = Settings(context=20_000, parallel=2, flash_attention=flash_attention)
        check(plan(subset.model(name), asked, devices))


@pytest.mark.parametrize(
    ("architecture", "keys", "tensor"),
    [
        ("llama", {}, ("blk.0.ffn_gate_exps.weight", "Q8_0", [64, 32, 8])),
        ("llama", {}, ("blk.0.ffn_gate.0.weight", "Q8_0", [64, 8192])),
        ("chatglm", {}, ("blk.0.attn_qkv.bias", "F32", [6144])),
        (
            "mllama",
            {"attention__cross_attention_layers": [1, 2]},
            ("rope_freqs.weights", "F32", [64]),
        ),
        ("deepseek2", {"attention__key_length": 192}, None),
        ("gemma3", {"attention__sliding_window": 1024}, None),
        ("gemma3n", {}, None),
        ("qwen2", {}, None),
        ("stablelm", {}, None),
        ("nothing", {"ssm__inner_size": 64, "attention__head_count_kv": [0, 8, 0, 8]}, None),
    ],
)
def test_terms_of_each_family(architecture: str, keys: Any, tensor: Any) -> None:
    h = small_model(architecture, **keys)
    if tensor is not None:
        from dataclasses import replace

        h = replace(h, tensors=groups_of([tensor]))
    p = plan(h, Settings(context=9000), [Device("0", "CUDA", 4 * GIB)])
    assert any("no formula" in one for one in p.warnings) is (architecture == "nothing")
    check(p)


@given(h=random_models(), asked=random_settings, devices=random_devices())
def test_terms_of_random_plans(h: Hyperparameters, asked: Settings, devices: list[Device]) -> None:
    try:
        p = plan(h, asked, devices)
    except PlanError:
        return
    check(p)


def test_a_term_says_which_key_a_value_came_from() -> None:
    p = plan(small_model(), Settings(context=9000), [Device("0", "CUDA", 4 * GIB)])
    term = next(term for term in p.terms if term.name == "kv_cache.per_layer[1]")
    assert term.formula == "int(C * (Dk + Dv) * Ki * P)"
    assert term.inputs["Ki"].origin == "llama.attention.head_count_kv, block 1"
    assert "setting context" in term.inputs["C"].origin
    assert "embedding_length // smallest of llama.attention.head_count" in term.inputs["Dk"].origin


def test_terms_are_worked_out_only_when_asked_for() -> None:
    p = plan(small_model(), Settings(), [])
    assert "terms" not in vars(p)
    assert p.terms is p.terms
