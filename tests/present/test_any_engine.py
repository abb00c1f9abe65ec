"""Whatever an engine plans is said, drawn, searched and exported without asking which it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from explorer.cli.plan import Planned, plan_text
from explorer.planner import Device, Host, Settings
from explorer.planner.advice import QUESTIONS, solve
from explorer.planner.inputs import plan_record
from explorer.planner.plans import (
    Details,
    Effective,
    Engine,
    Holding,
    Layer,
    Level,
    Plan,
    Range,
    Term,
    judge,
    sum_term,
)
from explorer.planner.request import PlanRequest
from explorer.planner.settings import CONTEXT, KV_CACHE_TYPE
from explorer.present import engines as words
from explorer.present.plan import PLAN, answer, memory_bars
from explorer.present.plan_export import environment_lines, modelfile_lines, server_command
from explorer.present.speed import speed_of
from explorer.present.suggestions import suggestions
from explorer.present.tables.plans import ENGINES, PLAN_FILE, PLANS
from tests.planner.models import GIB, MIB, small_model


class _Details(Details):
    """What every engine has to tell."""

    def __init__(self, holding: Holding, layers: int) -> None:
        self.holding, self.count = holding, layers

    def layers(self) -> list[Layer]:
        return [Layer(i, f"blk.{i}", 1, 1, 0) for i in range(self.count)]

    def terms(self) -> Iterator[Term]:
        yield sum_term("weights", [self.holding.weights], "the file")

    def record(self) -> dict[str, Any]:
        graph = {"partial": None, "full": self.holding.compute.high, "used": "full"}
        return {"graph": graph, "other": {"budget": 1}}

    def layer_caches(self) -> Sequence[int]:
        return [self.holding.cache // self.count] * self.count


class Other(Engine):
    """An engine with few settings, whose compute and reserve are known as bands only."""

    name, title, short_title = "other", "Another engine, as of today", "Another engine"
    rule = "it takes a share of the GPU whatever it needs"
    settings = (CONTEXT, KV_CACHE_TYPE)
    ignored = MappingProxyType({})
    context_step, most_parallel = 16, 4

    def plan(self, request: PlanRequest) -> Plan:
        total, context = request.h.total_layers, request.settings.context or 4096
        device = request.devices[0]
        held = Holding(
            device=device,
            place="devices[0]",
            free=device.free,
            weights=300 * MIB,
            cache=context * (64 << 10),
            compute=Range(100 * MIB, 300 * MIB),
            reserve=Range(50 * MIB, 200 * MIB),
            layers=range(total),
        )
        holdings = (held, Holding(None, "cpu", None))
        return Plan(
            engine=self,
            request=request,
            effective={"context": Effective(context), "kv_cache_type": Effective("f16")},
            holdings=holdings,
            verdict=judge(holdings, total, is_exact=False),
            cache=held.cache,
            cells=context,
            details=_Details(held, total),
        )


@pytest.fixture
def request_() -> PlanRequest:
    gpu = Device("0", "CUDA", 2 * GIB, name="GPU")
    return PlanRequest(small_model(), Settings(), (gpu,), Host(GIB))


def test_its_plan_is_said_drawn_and_exported(request_: PlanRequest) -> None:
    plan = Other().plan(request_)
    assert answer(plan).sentence == "Fits: 5 of 5 layers on GPU, about 992 MiB free."
    assert sum(bar.held_bytes for bar in memory_bars(plan, request_.host)) == plan.total
    assert all(figure.of(plan) >= 0 for figure in PLAN.values())
    record = json.loads(json.dumps(plan_record(plan)))
    assert (record["profile"], record["other"]) == ("other", {"budget": 1})
    assert record["effective"]["flash_attention"] is None
    assert record["devices"][0]["reserved"] == 200 * MIB
    found = Planned("model", plan, profile="other")
    assert "Another engine, as of today" in plan_text(found, plan)
    assert PLAN_FILE["total"].value(found) == plan.total
    command = server_command(Path("m.gguf"), plan, Path("p.gguf"))
    assert command == "llama-server --model m.gguf --mmproj p.gguf"
    assert "OLLAMA_CONTEXT_LENGTH=4096" in environment_lines(plan)
    assert modelfile_lines(plan) == ["PARAMETER num_ctx 4096"]
    assert words.lm_studio_lines(plan) == []
    assert words.decision_sentence(plan) == words.accuracy_sentence(plan) == ""
    assert words.left_to_engine(request_, plan.engine) is None
    assert speed_of(plan, {}) == "Speed unknown: what a token reads is not known of Another engine."
    row = words.PlanRow("", plan)
    assert [column.cell(row) for column in ENGINES][:2] == ["Another engine", "Fits"]
    assert all(isinstance(column.cell(words.PlanRow("m", plan)), str) for column in PLANS)


def test_its_questions_are_answered(request_: PlanRequest) -> None:
    engine = Other()
    answers = {what: solve(what, request_, engine) for what in QUESTIONS}
    context = answers["context"].value
    assert isinstance(context, int)
    assert context % engine.context_step == 0
    assert engine.plan(request_.asking(context=context)).verdict.level is Level.FITS
    more = engine.plan(request_.asking(context=context + engine.context_step))
    assert more.verdict.level is Level.NOT
    assert answer(more).sentence.endswith(" too much for GPU.")
    assert speed_of(more, {}) == "No speed: with these settings it does not fit."
    assert answers["kv-cache-type"].value == "f16"
    assert engine.context_as_placed(more, lambda: None) is None  # its layers cannot be told to stay
    tight = replace(request_, settings=Settings(context=context + engine.context_step))
    buttons = [one.button for one in suggestions(tight, engine, lambda: None)]
    assert buttons == [f"Use {context:,} tokens"]
