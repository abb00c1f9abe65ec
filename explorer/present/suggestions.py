"""What would make a model fit, and answers to questions of `explorer.planner.advice`, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from explorer.errors import PlanError
from explorer.planner.advice import Advice, automatic_placement, cache_types, solve
from explorer.planner.plans import Engine, Plan
from explorer.planner.request import PlanRequest
from explorer.planner.settings import SETTINGS, Settings
from explorer.text import integer_text, plain_text, sentence, shorten

_LEAST_SUGGESTED: Final = 2048  # tokens with which one can do something


class QuestionText(NamedTuple):
    """How a question of `explorer.planner.advice` is worded."""

    title: str
    full_title: str
    unit: str  # what an answer is a number of, or a type of


QUESTION_TEXTS: Final = {
    "context": QuestionText("Largest context", "Largest context for one request", "tokens"),
    "parallel": QuestionText(
        "Most requests at once", "Most requests with all layers on GPUs", "requests"
    ),
    "kv-cache-type": QuestionText(
        "Best KV cache type that fits", "Best KV cache type with all layers on GPUs", "cache"
    ),
    "gpu-layers": QuestionText("Most layers", "Most layers that the GPUs can hold", "layers"),
    "fewest-gpu-layers": QuestionText(
        "Fewest GPU layers", "Fewest layers that must go to GPUs", "layers"
    ),
}


@dataclass(frozen=True)
class Suggestion:
    """A change of settings that makes all layers fit."""

    words: str  # how it continues "It fits …": ``"at 18,432 tokens"``
    button: str  # text of the button that applies it
    changes: Mapping[str, Any]  # settings to change


def suggestions(
    request: PlanRequest, engine: Engine, check: Callable[[], None]
) -> tuple[Suggestion, ...]:
    """Return single changes that put all layers on GPUs. For a worker: it may take a second.

    `check` is called before each plan; it raises to stop.
    """
    search = _Suggesting(request, engine, check)
    try:
        if found := tuple(search.planned()):
            return found
        return tuple(search.with_gpus() if request.devices else search.without_gpu())
    except PlanError:  # the inputs cannot be planned at all, which the verdict says
        return ()


@dataclass(frozen=True, slots=True)
class _Suggesting:
    """A search for changes, each with all layers asked onto GPUs."""

    request: PlanRequest
    engine: Engine
    check: Callable[[], None]

    def plan(self, **changes: Any) -> Plan | None:
        self.check()
        try:
            return self.engine.plan(self.request.asking(**changes))
        except PlanError:
            return None

    def fits(self, **changes: Any) -> bool:
        """Return whether all is on GPUs and the cache has the type that is asked for."""
        plan = self.plan(**changes)
        if plan is None or not plan.fully_offloaded or plan.verdict.short:
            return False
        wanted = changes.get(setting := self.engine.curves[0].setting)
        return wanted is None or plan.used(setting) == wanted

    def planned(self) -> Iterator[Suggestion]:
        """Yield changes without which there is no plan: of attention, of the context."""
        asked = self.request.settings
        if (asked.flash_attention is not False and asked.context is None) or self.plan():
            return
        if asked.flash_attention is False and self.plan(flash_attention=True):
            changes = {"flash_attention": True}
            yield Suggestion("with flash attention", "Turn flash attention on", changes)
        if asked.context is not None and (plan := self.plan(context=None)):
            text = f"{integer_text(plan.context_asked)} tokens"
            yield Suggestion(f"at {text}", f"Use {text}", {"context": plan.context_asked})

    def without_gpu(self) -> Iterator[Suggestion]:
        """Yield the longest context that main memory holds, where the planned one is too long."""
        if not self.engine.plan(self.request).verdict.short:
            return
        tokens = solve("context", self.request, self.engine, self.check).value
        if isinstance(tokens, int) and tokens >= _LEAST_SUGGESTED:
            text = f"{integer_text(tokens)} tokens"
            yield Suggestion(f"at {text}", f"Use {text}", {"context": tokens})

    def with_gpus(self) -> Iterator[Suggestion]:
        """Yield changes; left alone, llama.cpp keeps 1 GiB of each GPU free, but not if asked."""
        request, settings, engine = self.request, self.request.settings, self.engine
        placed = engine.all_on_gpus(request)
        placed |= {"cpu_moe_layers": None} if settings.cpu_moe_layers else {}
        fits = partial(self.fits, **placed)
        if placed and fits():
            words = "with all layers asked onto GPUs"
            yield Suggestion(words, "Put all layers on GPUs", placed)
            return
        if freed := automatic_placement(request, engine, self.check):
            words = "with layers placed automatically"
            yield Suggestion(words, "Place layers automatically", freed)
        if settings.flash_attention is False and fits(flash_attention=True):
            changes = {"flash_attention": True, **placed}
            yield Suggestion("with flash attention", "Turn flash attention on", changes)
        kept, words = dict[str, Any](), ""
        for kind, types in self._smaller_caches():  # the best cache type that fits
            changes, title = dict(types), f"with {kind} cache"
            if settings.flash_attention is not True and not fits(**changes):
                changes["flash_attention"], title = True, f"{title} and flash attention"
            if fits(**changes):
                yield Suggestion(title, f"Use {kind} cache", changes | placed)
                break
            if settings.flash_attention is not False:
                changes.pop("flash_attention", None)
                kept, words = changes, f" with {kind} cache"
        yield from self._shorter(placed, ({}, ""), (kept, words))
        if (settings.parallel or 1) > 1:
            count = solve("parallel", request, engine, self.check).value
            if isinstance(count, int):
                text = "one request" if count == 1 else f"{integer_text(count)} requests"
                yield Suggestion(f"with {text}", f"Use {text}", {"parallel": count, **placed})

    def _shorter(
        self, placed: Mapping[str, Any], *caches: tuple[Mapping[str, Any], str]
    ) -> Iterator[Suggestion]:
        """Yield the largest context that fits, with the first of some caches that lets it."""
        for kept, words in caches:
            asked = self.request.asking(**kept)
            tokens = solve("context", asked, self.engine, self.check).value
            changes = {"context": tokens, **kept, **placed}
            if isinstance(tokens, int) and self.fits(**changes):  # with all layers on GPUs
                if tokens >= _LEAST_SUGGESTED:
                    text = f"{integer_text(tokens)} tokens{words}"
                    yield Suggestion(f"at {text}", f"Use {text}", changes)
                return

    def _smaller_caches(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the types that take less than what holds now: "a q8_0", and what asks for it."""
        plan, types, kind = self.plan(), cache_types(self.engine), self.engine.curves[0]
        held = getattr(self.request.settings, kind.setting)
        held = held if plan is None else plan.used(kind.setting)
        values = [one.value for one in kind.values]
        own = next(one.value for one in kind.values if not one.is_what_if)
        place = values.index(held if held in values else own)
        for one in kind.values[place + 1 :]:
            if one.name in types:
                yield f"{'an' if one.name[0] in '8f' else 'a'} {one.name}", types[one.name]


def suggestions_sentence(found: tuple[Suggestion, ...]) -> str:
    """Return "It fits at 18,432 tokens, or with a q8_0 cache."; or that nothing helps."""
    if not found:
        return "No other context, cache type or number of requests alone makes it fit."
    return f"It fits {', or '.join(one.words for one in found)}."


def advice_value(advice: Advice) -> str:
    """Return the value of an answer; "" of none."""
    value = advice.value
    return integer_text(value) if isinstance(value, int) else value or ""


def advice_text(advice: Advice) -> str:
    """Return an answer with what keeps it from being more."""
    limit, name = shorten(plain_text(advice.limited_by), 400), QUESTION_TEXTS[advice.what].title
    if advice.value is None:
        return f"{name}: none. {sentence(limit)}."
    also = [
        f"{setting.title.replace('&', '')} at {advice.also[setting.name]}"
        for setting in SETTINGS
        if advice.also.get(setting.name) is not None
    ]
    needs = f" It needs, under Advanced, {' and '.join(also)}." if also else ""
    return f"{name}: {advice_value(advice)}. {sentence(limit)}.{needs}"


def advice_changes(advice: Advice) -> dict[str, Any]:
    """Return the settings that apply an answer; nothing where there is none."""
    if advice.value is None:
        return {}
    return {**advice.sets, **advice.also}


def would_change(changes: Mapping[str, Any], plan: Plan | None, asked: Settings) -> bool:
    """Return whether settings that were asked for would make another plan than this one."""
    others = {name for name, value in changes.items() if getattr(asked, name) != value}
    return any(plan is None or plan.used(name) != changes[name] for name in others)


def advice_offer(advice: Advice, plan: Plan | None, asked: Settings) -> Suggestion | None:
    """Return what takes an answer: "Use 18,432 tokens"; None where it holds already."""
    changes = advice_changes(advice)
    if not would_change(changes, plan, asked):
        return None
    text = f"{advice_value(advice)} {QUESTION_TEXTS[advice.what].unit}"
    return Suggestion(f"with {text}", f"Use {text}", changes)
