"""What is said of a plan by llama.cpp's rules, and of several profiles side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from explorer.errors import PlanError
from explorer.planner.engines.llama_cpp import Buffer
from explorer.planner.engines.llama_cpp.outcome import BAND, EXACT, UNKNOWN, Outcome
from explorer.planner.profiles import (
    GRAPH_SIZE,
    LLAMA_CPP,
    OLLAMA,
    PREDICTION,
    left_alone,
    profile_named,
    profiles_for,
)
from explorer.planner.result import Plan, PlanRequest
from explorer.present.plan import plan_value, sequences_text, verdict
from explorer.text import bytes_text, integer_text

RESERVE: Final = "reserve for the driver and what a plan cannot see"
"""What the reserve of a GPU is called."""

BUFFERS: Final = ("Buffer", "Weights", "Cache and state", "Compute", "Reserve")
"""Heads of `buffer_rows`."""

SIDE_BY_SIDE: Final = (
    *("Profile", "Context", "Weights", "KV cache", "Compute", "On GPUs", "In all"),
    *("Fits", "Layers on GPUs"),
)
"""Heads of `profile_rows`."""

_ACCURACY: Final = {
    EXACT: "weights and cache to the byte; compute buffers by the architecture's graph",
    BAND: "weights and cache to the byte; compute buffers with their ends",
    UNKNOWN: "weights and cache to the byte; compute buffers by a similar graph, with their ends",
}
_SHORT_NAMES: Final = {  # where there is little room
    LLAMA_CPP.name: "llama.cpp",
    OLLAMA.name: "Ollama 0.30 and later",
    PREDICTION.name: "Ollama's prediction",
    GRAPH_SIZE.name: "Ollama up to 0.13",
}
_DIFFERENCES: Final = {
    LLAMA_CPP.name: "llama.cpp allocates what its graph needs and lowers what you leave open",
    OLLAMA.name: "Ollama starts the same program with a context, a batch and sequences of its own",
    PREDICTION.name: "its prediction knows the size of the file and a plain cache only",
    GRAPH_SIZE.name: "the old estimate charges a whole attention matrix for each GPU",
}


def accuracy_sentence(outcome: Outcome) -> str:
    """Say how exact the figures are."""
    return _ACCURACY[outcome.accuracy]


def decision_sentence(outcome: Outcome) -> str:
    """Say who decided what: "llama.cpp chooses 32,768 tokens, 26 of 33 layers on GPUs"."""
    layers = f"{outcome.gpu_layers} of {outcome.total_layers} layers on GPUs"
    if experts := len(outcome.expert_layers):
        layers += f", the experts of {experts} of them on the CPU"
    tokens = f"{integer_text(outcome.allocation.n_ctx)} tokens"
    if outcome.decision is None:
        return f"you chose {tokens}, {layers}"
    if outcome.context_was_open:
        return f"llama.cpp chooses {tokens}, {layers}"
    return f"for {tokens} llama.cpp chooses {layers}"


def choice_sentence(outcome: Outcome) -> str:
    """Return what is chosen where all is left to llama.cpp (`profiles.left_alone`)."""
    tokens = integer_text(outcome.allocation.n_ctx)
    layers = f"{outcome.gpu_layers} of {outcome.total_layers} layers"
    experts = len(outcome.expert_layers)
    more = f", experts of {experts} of them on the CPU" if experts else ""
    return f"llama.cpp would choose: {tokens} tokens, {layers}{more}"


def choice_changes(outcome: Outcome) -> dict[str, Any]:
    """Return the settings that take that choice: the placement follows from the context."""
    open_ones = dict.fromkeys(("num_gpu", "tensor_split", "cpu_moe_layers"))
    return {"context": outcome.allocation.n_ctx, **open_ones}


def compute_text(buffer: Buffer, accuracy: str = EXACT) -> str:
    """Return a compute buffer; one that is not exact with its ends: "90 to 140 MiB"."""
    if buffer.compute is not None and accuracy == EXACT:
        return bytes_text(buffer.compute)
    if buffer.compute_high is None:
        return "–"
    low = bytes_text(buffer.compute_low or 0)
    return f"{low} to {bytes_text(buffer.compute_high)}"


def buffer_rows(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    """Yield each buffer with what it holds, as llama.cpp names it."""
    for name, buffer in outcome.allocation.buffers.items():
        reserve = ""
        title = {"host": "host (of the GPU)"}.get(name, name)
        if name.startswith("GPU"):
            title = f"{outcome.buffer_name(name)} ({name})"
            reserve = bytes_text(outcome.gpus[int(name[3:])].reserve)
        compute = compute_text(buffer, outcome.accuracy)
        sizes = (bytes_text(buffer.weights), bytes_text(buffer.cache), compute)
        yield (title, *sizes, reserve)


def lm_studio_fields(outcome: Outcome) -> list[tuple[str, str]]:
    """Return what to set in LM Studio's load settings, by the names that it shows."""
    settings = outcome.settings
    fields = [
        ("Context Length", str(outcome.allocation.n_ctx)),
        ("GPU Offload", f"{min(outcome.gpu_layers, outcome.header.blocks)} layers"),
        ("Evaluation Batch Size", str(settings.batch)),
        ("Max Concurrent Predictions", str(settings.parallel)),
        ("Unified KV Cache", "on" if settings.kv_unified else "off"),
        ("Offload KV Cache to GPU Memory", "on" if settings.offload_kv else "off"),
        ("Flash Attention", "on" if settings.flash_attention else "off"),
        ("K Cache Quantization Type", settings.type_k),
        ("V Cache Quantization Type", settings.type_v),
    ]
    if settings.cpu_moe_layers:
        layers = str(settings.cpu_moe_layers)
        fields.append(("Number of layers for which to force MoE weights onto CPU", layers))
    return fields


def lm_studio_lines(plan: Plan) -> list[str]:
    """Return the fields of `lm_studio_fields`, one a line; none of a plan by other rules."""
    fields = [] if plan.llama_cpp is None else lm_studio_fields(plan.llama_cpp)
    return [f"{name}: {value}" for name, value in fields]


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One profile beside others: its plan, or why there is none."""

    profile: str
    plan: Plan | None
    failure: str = ""

    @property
    def short_name(self) -> str:
        """Its program alone, for a narrow table; `cells` have the whole title."""
        return _SHORT_NAMES[self.profile]

    def cells(self) -> tuple[str, ...]:
        """Return the texts of `SIDE_BY_SIDE`; what a profile does not claim is a dash."""
        title, plan = profile_named(self.profile).title, self.plan
        if plan is None:
            return (title, *["–"] * 6, self.failure, "–")
        names = ("weights", "kv_cache", "graph_total", "vram_total", "total")
        values = [plan_value(plan, name) for name in names]
        sizes = ("–" if value is None else bytes_text(value) for value in values)
        layers = "–"
        if plan.gpu_layers is not None:
            layers = f"{plan.gpu_layers} of {plan.request.h.total_layers}"
        return (title, sequences_text(plan), *sizes, verdict(plan).level.value, layers)


def side_by_side(request: PlanRequest, check: Callable[[], None]) -> list[ProfileRow]:
    """Plan by every profile that can read the model. For a worker: some take 0.3 s.

    `check` is called before each plan; it raises to stop.
    """
    rows = []
    for name in profiles_for(request.h):
        check()
        try:
            rows.append(ProfileRow(name, profile_named(name).plan(request)))
        except PlanError as error:
            rows.append(ProfileRow(name, None, str(error)))
    return rows


def left_to_llama_cpp(request: PlanRequest, profile: str) -> Outcome | None:
    """Return what `choice_sentence` is about; None where nobody but the user chooses.

    For a worker: with a profile of llama.cpp, and a model that it can read.
    """
    if profile not in (LLAMA_CPP.name, OLLAMA.name):
        return None
    try:
        return left_alone(request, profile).llama_cpp
    except PlanError:  # the plan says why
        return None


def why_profiles_differ(rows: Sequence[ProfileRow]) -> str:
    """Return one sentence about the profiles that are shown."""
    parts = [_DIFFERENCES[row.profile] for row in rows if row.plan is not None]
    return f"{'; '.join(parts)}." if parts else ""
