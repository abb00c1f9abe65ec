"""What is said of engines: how sure they are, what they chose, and several side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner.advice import Advice, left_alone
from explorer.planner.engines.registry import engine_named, engines_for
from explorer.planner.plans import Accuracy, Engine, Plan, Range
from explorer.planner.request import PlanRequest
from explorer.present.plan import answer
from explorer.present.speed import Speed, speed_here
from explorer.text import UNKNOWN, bytes_text, integer_text, sentence

_ACCURACY: Final = {
    Accuracy.EXACT: "weights and cache to the byte, compute buffers by the architecture's graph",
    Accuracy.BAND: "weights and cache to the byte, the rest as a range",
    Accuracy.UNKNOWN: (
        "weights and cache to the byte, compute buffers by a similar graph, with their ends"
    ),
}


def accuracy_sentence(plan: Plan) -> str:
    """Say how exact the figures are; nothing of an estimate, which says so by itself."""
    return _ACCURACY.get(plan.details.accuracy, "")


def decision_sentence(plan: Plan) -> str:
    """Say who decided what: "llama.cpp chooses 32,768 tokens, 26 of 33 layers on GPUs"."""
    choice, found = plan.details.choice, plan.verdict
    if choice is None:
        return ""
    layers = f"{found.gpu_layers} of {found.total_layers} layers on GPUs{found.split_words}"
    tokens = f"{integer_text(plan.cells)} tokens"
    if not choice.placement and not choice.context:
        return f"you chose {tokens}, {layers}"
    if not choice.context:
        return f"for {tokens} {choice.by} chooses {layers}"
    return f"{choice.by} chooses {tokens}, {layers}"


def choice_sentence(plan: Plan) -> str:
    """Return what is chosen where all is left to the engine (`advice.left_alone`)."""
    found, choice = plan.verdict, plan.details.choice
    by = plan.engine.short_title if choice is None else choice.by
    layers = f"{found.gpu_layers} of {found.total_layers} layers{found.split_words}"
    return f"{by} would choose: {integer_text(plan.context_asked)} tokens, {layers}"


def choice_changes(plan: Plan) -> dict[str, Any]:
    """Return the settings that take that choice: the placement follows from the context."""
    return {"context": plan.context_asked} | {
        name: None for name in plan.engine.chooses if name != "context"
    }


def range_text(size: Range | None) -> str:
    """Return a size; one that is not exact with its ends: "90 to 140 MiB"."""
    if size is None:
        return UNKNOWN
    high = bytes_text(size.high)
    return high if size.low == size.high else f"{bytes_text(size.low)} to {high}"


def lm_studio_fields(plan: Plan) -> list[tuple[str, str]]:
    """Return what to set in LM Studio's load settings, by the names that it shows.

    Nothing where the engine has no such settings.
    """
    if plan.used("offload_kv") is None:
        return []
    fields = [
        ("Context Length", str(plan.cells)),
        ("GPU Offload", f"{min(plan.gpu_layers, plan.verdict.total_layers - 1)} layers"),
        ("Evaluation Batch Size", str(plan.used("batch"))),
        ("Max Concurrent Predictions", str(plan.used("parallel"))),
        ("Unified KV Cache", _switch(plan, "kv_unified")),
        ("Offload KV Cache to GPU Memory", _switch(plan, "offload_kv")),
        ("Flash Attention", _switch(plan, "flash_attention")),
        ("K Cache Quantization Type", str(plan.used("cache_type_k"))),
        ("V Cache Quantization Type", str(plan.used("cache_type_v"))),
    ]
    if moved := plan.request.settings.cpu_moe_layers:
        layers = str(min(moved, plan.verdict.total_layers - 1))
        fields.append(("Number of layers for which to force MoE weights onto CPU", layers))
    return fields


def _switch(plan: Plan, name: str) -> str:
    return "on" if plan.used(name) else "off"


def lm_studio_lines(plan: Plan) -> list[str]:
    return [f"{name}: {value}" for name, value in lm_studio_fields(plan)]


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A plan beside others: of a scenario, a model, a context or an engine.

    Attributes:
        name: What it is of.
        plan: The plan; None where there is none.
        refusal: Why there is none, or why Ollama would refuse to load the model; else "".
        profile: The name of its engine.
        advice: The answer to a question that was asked, too.
        speed: How fast it is, or why that is not known.
    """

    name: str
    plan: Plan | None = None
    refusal: str = ""
    profile: str = ""
    advice: Advice | None = None
    speed: Speed | str = ""

    @property
    def engine(self) -> Engine:
        """The engine that made the plan, or none."""
        return engine_named(self.profile) if self.plan is None else self.plan.engine

    @property
    def fits(self) -> str:
        """Whether the model fits, in a word or three."""
        return answer(self.plan, self.refusal).word

    @property
    def answer(self) -> str:
        """Whether the model fits, in one sentence."""
        return answer(self.plan, self.refusal).sentence


def side_by_side(
    request: PlanRequest, bandwidths: Mapping[str, int], check: Callable[[], None]
) -> list[PlanRow]:
    """Plan by every engine that can load the model. For a worker: some take 0.3 s.

    `bandwidths` are those that the user gave (`speed_here`). `check` is called before each plan; it
    raises to stop.
    """
    rows = []
    for engine in engines_for(request.h, request.devices):
        check()
        try:
            plan = engine.plan(request)
            row = PlanRow(engine.title, plan, speed=speed_here(plan, bandwidths))
        except PlanError as error:
            row = PlanRow(engine.title, refusal=str(error))
        rows.append(replace(row, profile=engine.name))
    return rows


def left_to_engine(request: PlanRequest, engine: Engine) -> Plan | None:
    """Return what `choice_sentence` is about; None where only the user chooses, or nothing fits."""
    if not engine.chooses:
        return None
    try:
        plan = left_alone(request, engine)
    except PlanError:  # the plan says why
        return None
    return None if plan.verdict.short else plan


def why_engines_differ(rows: Sequence[PlanRow]) -> str:
    """Return a sentence about each engine that is shown; nothing where there is one alone."""
    if len(rows) < 2:
        return ""
    return " ".join(f"{sentence(row.engine.rule)}." for row in rows if row.plan is not None)
