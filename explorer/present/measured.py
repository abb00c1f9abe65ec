"""What is said of a log beside a plan, and of the bound of speed: rows, sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from explorer.planner import settings as planner_settings
from explorer.planner.devices import HOST
from explorer.planner.engines.llama_cpp.allocation import Settings
from explorer.planner.engines.llama_cpp.builds import NEWEST
from explorer.planner.logs.comparison import ALL, Amount, Comparison, Residual, Unaccounted
from explorer.planner.logs.lines import VLLM, Log
from explorer.text import (
    UNKNOWN,
    bytes_text,
    fixed_text,
    float_text,
    integer_text,
    percent_text,
    plain_text,
    sentence,
    signed_text,
)

_KINDS: Final = {
    "weights": "weights",
    "cache": "KV cache and state",
    "compute": "compute buffer",
    "output": "output buffer",
    "total": "in all",
    "draft weights": "draft model's weights",
    "draft cache": "draft's KV cache",
    "draft compute": "draft's compute buffer",
    "draft output": "draft's output buffer",
    "projector": "projector's weights",
    "projector compute": "projector's compute buffer",
    "activation": "activation peak",
    "non-torch": "CUDA and NCCL",
    "graphs": "CUDA graphs",
    "graphs estimate": "CUDA graphs, as estimated",
    "profile": "all but weights and cache",
    "available": "left for the cache",
    "tokens": "tokens of cache",
    "blocks": "blocks of cache",
    "block tokens": "tokens of a block",
    "requests": "requests at once",
}
_SETTINGS: Final = {
    "context": "context",
    "parallel": "requests at once",
    "ubatch": "micro-batch",
    "tensor_split": "the split of layers over the GPUs",
    "cpu_moe_layers": "the blocks whose experts are on the CPU",
    "build": "the build of llama.cpp",
    "all_logits": "which logits the program reserves",
    "utilization": "the part of each GPU that vLLM takes",
    "gpu_memory": "the memory of the GPUs",
}
_OF_OTHERS: Final = ("draft ", "projector")  # rows of another file, or a context of its own
_CUDA_LIKE: Final = ("CUDA", "ROCm", "MUSA")


def place_name(device: str) -> str:
    """Return the name of a place of a plan for people."""
    if device == HOST:
        return "Main memory"
    return {ALL: "All", "GPUs": "All GPUs"}.get(device, device.replace("GPU", "GPU "))


def term_text(one: Residual) -> str:
    """Return what bytes are for, and where they are: "GPU 0: weights"."""
    return f"{place_name(one.device)}: {_KINDS.get(one.kind, one.kind)}"


def _amount_text(one: Residual, amount: Amount) -> str:
    """Return an amount in the unit of its row."""
    if one.unit != "bytes":
        return integer_text(amount) if isinstance(amount, int) else fixed_text(amount, 2)
    return bytes_text(int(amount)) if amount >= 0 else signed_text(int(amount), bytes_text)


def measured_text(one: Residual) -> str:
    """Return what was measured."""
    return _amount_text(one, one.measured)


def planned_text(one: Residual) -> str:
    """Return what was planned; of a band its ends."""
    if one.planned is None:
        return UNKNOWN
    ends = [one.planned] if one.planned_low is None else [one.planned_low, one.planned]
    return " to ".join(dict.fromkeys(_amount_text(one, end) for end in ends))


def difference_text(one: Residual) -> str:
    """Return how much more was measured than planned."""
    if one.difference is None:
        return "not planned" if one.kind.startswith(_OF_OTHERS) else "no formula is known"
    if one.agrees:
        return "none" if one.planned_low is None else "within the range"
    text = signed_text(one.difference, lambda size: _amount_text(one, size))
    if one.nearest:
        text += f" ({signed_text(one.difference / abs(one.nearest), percent_text)})"
    return text


def settings_text(settings: Settings | planner_settings.Settings) -> str:
    """Return the settings that the plan was made with, in a line."""
    if isinstance(settings, planner_settings.Settings):
        return _named_settings(settings)
    sequences = "1 request" if settings.parallel == 1 else f"{settings.parallel} requests"
    shared = " sharing one cache" if settings.kv_unified and settings.parallel > 1 else ""
    types = {settings.type_k, settings.type_v}
    cache = types.pop() if len(types) == 1 else f"{settings.type_k}/{settings.type_v}"
    gpus = f"{settings.gpu_layers} layers on {settings.devices} GPU" if settings.devices else "CPU"
    parts = [
        f"context {integer_text(settings.context)}",
        f"{sequences}{shared}",
        f"batch {settings.batch}/{settings.ubatch}",
        f"cache {cache}",
        f"flash attention {'on' if settings.flash_attention else 'off'}",
        gpus + ("s" if settings.devices > 1 else ""),
    ]
    if settings.cpu_moe_layers and settings.devices:
        parts.append(f"experts of {settings.cpu_moe_layers} blocks on the CPU")
    if settings.mtp:
        parts.append(f"{settings.mtp} tokens drafted by MTP")
    if settings.all_logits:
        parts.append("logits of the whole micro-batch")
    if settings.build != NEWEST:
        parts.append(f"rules of build {settings.build}")
    return ", ".join(parts)


def _named_settings(settings: planner_settings.Settings) -> str:
    """Return settings by the titles of their fields, or what their options call them."""
    asked = settings.record()
    rows = [one for one in planner_settings.VLLM_LOG_SETTINGS if one.name in asked]
    parts = []
    for row in rows:
        value = asked[row.name]
        name = row.options[0].partition("/")[0].removeprefix("--").replace("-", " ")
        if isinstance(value, bool):
            parts.append(f"{name} {'on' if value else 'off'}")
        else:
            shown = integer_text(value) if isinstance(value, int) else str(value)
            parts.append(f"{name} {shown}")
    return ", ".join(parts) or "the settings are vLLM's defaults"


def comparison_notes(comparison: Comparison, log: Log) -> tuple[str, ...]:
    """Return what has to be said of a comparison, and what GPUs hold beyond it, in sentences."""
    notes = map(plain_text, _notes(comparison, log))
    return (*notes, *map(unaccounted_sentence, comparison.unaccounted))


def _notes(comparison: Comparison, log: Log) -> Iterator[str]:
    measured = comparison.measured
    if log.starts > 1:
        which = "the last one of this model" if measured.architecture else "the last one"
        yield f"the log has {integer_text(log.starts)} loads of models. {sentence(which)} counts"
    if log.cut:
        yield "the log is too long. Part of it was not read"
    yield from _notes_on_the_model(comparison)
    if measured.source == VLLM:
        yield from _vllm_notes(comparison)
    elif comparison.assumed:
        names = _listed([_SETTINGS[name] for name in comparison.assumed])
        yield f"the log does not give {names}. The plan uses what is set here"
    if comparison.inferred:
        names = _listed([_SETTINGS[name] for name in comparison.inferred])
        yield f"the log does not give {names}. The measured buffers show it"
    if measured.source == "Ollama's own engine":
        yield (
            "the log is of Ollama's own engine, which writes two digits and allocates in its own "
            "way. The plan is llama.cpp's"
        )
    if measured.source == "ollama ps":
        yield f"`ollama ps` prints rounded sums only, here of {measured.name}"
    if measured.source in {"llama-server", "llama-fit-params"}:
        yield f"{measured.source} estimates in whole MiB, before it loads anything"
    if measured.source == "llama-fit-params":
        yield (
            "llama-fit-params counts the logits of a whole batch, the server those of one token a "
            "sequence: its compute buffers may be larger"
        )
    gpus = [device.name for device in measured.devices]
    if gpus and not any(name.startswith(_CUDA_LIKE) for name in gpus):
        yield (
            f"the plan rounds sizes as CUDA does. {gpus[0]} pads rows of weights less, so a "
            "difference of some KiB is usual"
        )


def _notes_on_the_model(comparison: Comparison) -> Iterator[str]:
    """Yield what lets the log be of another model, though no fact in it says so."""
    if comparison.unlike:
        yield f"the log's model is named {comparison.measured.name}, this one {comparison.unlike}"
    rows = [one for one in comparison.residuals if one.kind == "weights"]
    planned = sum(one.planned or 0 for one in rows)
    if planned and sum(one.measured for one in rows) > 2 * planned:  # mapped ones may count twice
        yield (
            "the log's weights are more than twice as large as this model's. If the log is of "
            "another model, open the model that was loaded"
        )


def _vllm_notes(comparison: Comparison) -> Iterator[str]:
    measured = comparison.measured
    if measured.name:
        yield f"the log's model is {measured.name}"
    if measured.version:
        yield (
            f"the log is of vLLM {measured.version}, the plan follows 0.33: other versions have "
            "other defaults, and other blocks for windows and states"
        )
    if "gpu" in comparison.assumed:
        yield (
            "the log does not give the memory of the GPUs, and no NVIDIA GPU is planned for here. "
            "What was left for the cache is not compared; add the GPU to compare it"
        )
    elif comparison.assumed:
        names = _listed([_SETTINGS[name] for name in comparison.assumed])
        yield (
            f"the log does not give {names}. The plan uses vLLM's default and the GPUs chosen here"
        )
    if measured.others:
        yield f"no plan has what the log also loads: {_listed(measured.others)}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def unaccounted_sentence(rest: Unaccounted) -> str:
    """Return what a GPU holds beyond the plan, and what to do about it."""
    name = plain_text(rest.name or rest.device)
    place = f"{place_name(rest.device)} ({name})"
    if rest.nbytes is None and rest.blind:
        return (
            f"{place}: it reports the same free memory with the model as without, so what is used "
            "beyond the plan is unknown"
        )
    if rest.nbytes is None:
        return (
            f"{place}: the log does not say what is used beyond the buffers. llama-server prints "
            "it at its end (stop it with Ctrl+C)"
        )
    if rest.nbytes <= 0:
        return f"{place}: nothing is used beyond the plan. A reserve of 0 is enough"
    others = ", which may be partly other programs'" if rest.others else ""
    return f"{place}: {bytes_text(rest.nbytes)} are used beyond the plan{others}"


def reserve_sentence(unaccounted: Sequence[Unaccounted]) -> str:
    """Return the option that takes what remains into a plan; nothing if the log does not tell."""
    known = [rest.reserve for rest in unaccounted if rest.reserve is not None]
    if not known:
        return ""
    mib = -(-max(known) >> 20)
    return f"to count it from now on: --reserve {mib}MiB"


# Speed


def share_sentence(measured: float, share: float | None) -> str:
    """Return a measured speed, and its share of the bound where that is known."""
    text = f"measured: {float_text(measured, 4)} tokens/s"
    return text if share is None else f"{text}, {fixed_text(share, 2)} of the bound"
