"""The answer in plain words, and the changes that would make it a better one. Knows no widgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from PySide6.QtCore import QCoreApplication

from explorer.errors import PlanError
from explorer.planner.advice import Advice, solve
from explorer.planner.inputs import Outcome
from explorer.planner.kv_cache import BYTES_PER_ELEMENT
from explorer.planner.profiles import GRAPH_SIZE
from explorer.planner.result import PlanRequest
from explorer.present.plan import Verdict, verdict
from explorer.qt.models.figure_texts import translated
from explorer.text import integer_text, plain_text, shorten

SETTING_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "context": "context",
        "parallel": "parallel",
        "kv-cache-type": "kv_cache_type",
        "gpu-layers": "num_gpu",
        "fewest-gpu-layers": "num_gpu",
    }
)
"""The setting that answers a question of `explorer.planner.advice`."""


@dataclass(frozen=True)
class Suggestion:
    """A change that makes all layers fit.

    Attributes:
        words: How it continues "It would fit …": ``"at 18,432 tokens"``.
        button: What a button says that applies it.
        changes: Settings to change.
    """

    words: str
    button: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def _tr(text: str) -> str:
    return QCoreApplication.translate("PlannerAnswer", text)


def verdict_of(outcome: Outcome) -> Verdict:
    """Return whether a model fits."""
    return verdict(outcome.plan, outcome.refusal, translated)


def suggestions(
    request: PlanRequest, profile: str, check: Callable[[], None]
) -> tuple[Suggestion, ...]:
    """Return single changes that put all layers on GPUs. For a worker: it may take a second.

    Args:
        request: What does not fit.
        profile: By which profile; only the one with a layout can be asked.
        check: Called between searches; raises to stop.
    """
    if profile != GRAPH_SIZE.name or not request.devices:
        return ()
    found = []
    try:
        for suggest in (_all_layers, _smaller_context, _smaller_cache, _fewer_sequences):
            check()
            found += list(suggest(request))
    except PlanError:  # the inputs cannot be planned at all, which the verdict says
        return ()
    return tuple(found)


def _all_layers(request: PlanRequest) -> Iterator[Suggestion]:
    asked = request.settings.num_gpu
    if asked is not None and asked >= 0 and _fits(request, num_gpu=None):
        words = _tr("with as many GPU layers as fit")
        yield Suggestion(words, _tr("Place layers automatically"), {"num_gpu": None})


def _smaller_context(request: PlanRequest) -> Iterator[Suggestion]:
    answer = solve("context", request)
    if isinstance(answer.value, int):
        tokens = integer_text(answer.value)
        words = _tr("at {n} tokens").format(n=tokens)
        button = _tr("Use {n} tokens").format(n=tokens)
        yield Suggestion(words, button, {"context": answer.value})


def _smaller_cache(request: PlanRequest) -> Iterator[Suggestion]:
    """Yield the least lossy cache type that fits, with flash attention where it needs that."""
    for name in list(BYTES_PER_ELEMENT)[1:]:  # f32 is a what-if
        if name == request.settings.kv_cache_type and request.settings.flash_attention:
            continue
        for attention in (request.settings.flash_attention, True):
            changes = {"kv_cache_type": name, "flash_attention": attention}
            if not _fits(request, **changes):
                continue
            with_attention = attention is True and request.settings.flash_attention is not True
            words = (
                _tr("with a {name} cache and flash attention")
                if with_attention
                else _tr("with a {name} cache")
            )
            button = _tr("Use a {name} cache").format(name=name)
            yield Suggestion(words.format(name=name), button, changes)
            return


def _fewer_sequences(request: PlanRequest) -> Iterator[Suggestion]:
    if (request.settings.parallel or 1) < 2:
        return
    answer = solve("parallel", request)
    if isinstance(answer.value, int):
        count = integer_text(answer.value)
        if answer.value == 1:
            words, button = _tr("with one sequence"), _tr("Use one sequence")
        else:
            words = _tr("with {n} sequences").format(n=count)
            button = _tr("Use {n} sequences").format(n=count)
        yield Suggestion(words, button, {"parallel": answer.value})


def _fits(request: PlanRequest, **changes: Any) -> bool:
    """Tell whether all layers are on GPUs and the cache has the type that is asked for."""
    asked = replace(request, settings=replace(request.settings, **changes))
    try:
        plan = GRAPH_SIZE.plan(asked)
    except PlanError as error:
        if error.reason is None:
            raise
        return False
    wanted = changes.get("kv_cache_type", plan.effective.kv_cache_type)
    return plan.fully_offloaded and plan.effective.kv_cache_type == wanted


def suggestions_sentence(found: tuple[Suggestion, ...]) -> str:
    """Return "It would fit at 18,432 tokens, or with a q8_0 cache."; or that nothing helps."""
    if not found:
        return _tr("No other context, cache type or number of sequences alone makes it fit.")
    return _tr("It would fit {ways}.").format(ways=_tr(", or ").join(one.words for one in found))


def question_name(what: str) -> str:
    """Return what a button says that asks a question of `explorer.planner.advice`."""
    return {
        "context": _tr("Largest context"),
        "parallel": _tr("Most parallel"),
        "kv-cache-type": _tr("Least lossy KV type"),
        "gpu-layers": _tr("Most GPU layers"),
    }[what]


def advice_text(advice: Advice) -> str:
    """Return an answer with what keeps it from being more."""
    limit = shorten(plain_text(advice.limited_by), 400)
    name = question_name(advice.what)
    if advice.value is None:
        return _tr("{question}: none. {limit}.").format(question=name, limit=limit)
    value = integer_text(advice.value) if isinstance(advice.value, int) else advice.value
    words = _tr("{question}: {value}. Limited by {limit}.")
    return words.format(question=name, value=value, limit=limit)


def advice_changes(advice: Advice) -> dict[str, Any]:
    """Return the settings that apply an answer; nothing where there is none."""
    return {} if advice.value is None else {SETTING_OF[advice.what]: advice.value}


class CheckedEnvironment(Mapping[str, str]):
    """Ollama's variables, which a search asks for at every trial: there it can be stopped.

    `explorer.planner.advice` knows no jobs. A search of a second would else go on after a person
    has moved on, and take the time of the frames that are wanted instead.

    Args:
        variables: The variables.
        check: Raises to stop.
    """

    def __init__(self, variables: Mapping[str, str], check: Callable[[], None]) -> None:
        self._variables = variables
        self._check = check

    def __getitem__(self, name: str) -> str:
        self._check()
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)
