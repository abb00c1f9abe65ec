"""Inverse questions: what is the most that still fits, and what stands in the way of more.

Each is a search over `Engine.plan`, the same for every engine. "Fits" means that all layers are on
GPUs, and no memory is too small with its reserve. Only the largest context has an answer where that
is impossible, too: with the layers that the program puts on GPUs by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from explorer.errors import PlanError
from explorer.parallel import Check, never
from explorer.planner.devices import quoted
from explorer.planner.plans import Engine, Holding, Level, Plan, Trial, Verdict
from explorer.planner.request import PlanRequest
from explorer.planner.searching import MOST_TRIALS, Found, largest, largest_held
from explorer.planner.settings import AUTOMATIC
from explorer.text import bytes_text, counted, integer_text

_MOST_TOKENS: Final = 1 << 30  # where neither the model nor the memory sets a limit
_SHOWN_NAMES: Final = 3
_NO_GPU: Final = "there is no GPU"
_TOO_LITTLE: Final = "there is too little memory"
_COUNTED: Final = {"context": "token", "parallel": "request"}
_BETTER: Final = (Level.NOT, Level.PARTLY, Level.FITS)


@dataclass(frozen=True, slots=True)
class Advice:
    """An answer."""

    what: str  # the question, one of `QUESTIONS`
    value: int | str | None  # the answer, or None if nothing fits
    limited_by: str  # what keeps it from being more (or, of the fewest, less): a clause
    exact: bool = True  # whether no larger value can fit, see `Found`
    also: Mapping[str, Any] = field(default_factory=dict)  # settings that the answer needs besides
    sets: Mapping[str, Any] = field(default_factory=dict)  # settings that take the answer

    def record(self) -> dict[str, Any]:
        """Return what JSON shows of it."""
        return {"what": self.what, "value": self.value, "limited_by": self.limited_by}


def solve(what: str, request: PlanRequest, engine: Engine, check: Check = never) -> Advice:
    """Answer one of `QUESTIONS`; all settings but the one in question stay as they are.

    `check` is called before each plan; it raises to stop the search.

    Raises:
        PlanError: There is no such question, or the model cannot be planned at all.
    """
    if what not in QUESTIONS:
        raise PlanError(f"{quoted(what)!r} cannot be solved for. Use one of {', '.join(QUESTIONS)}")
    if unknown := engine.unknown(request.h):
        return Advice(what, None, f"what {engine.short_title} takes for {unknown} is not known")
    if not request.devices and what not in ("context", "fewest-gpu-layers"):
        return Advice(what, None, _NO_GPU)
    setting = setting_of(what, engine)
    if not setting:
        return Advice(what, None, f"{engine.short_title} has no such setting")
    found = QUESTIONS[what].answer(_Search(request, engine, check))
    return found if found.sets else replace(found, sets={setting: found.value})


def setting_of(what: str, engine: Engine) -> str:
    """Return the setting of an engine that a question is about; empty where it has none."""
    setting = engine.curves[0].setting if what == "kv-cache-type" else QUESTIONS[what].setting
    return setting if setting in {one.name for one in engine.settings} else ""


@dataclass(frozen=True, slots=True)
class _Search:
    """Plans of one request with some settings changed, and with all layers asked onto GPUs.

    Attributes:
        places_all: Whether they are; else layers go where the program puts them by itself.
    """

    request: PlanRequest
    engine: Engine
    check: Check
    places_all: bool = True

    def asking(self, **changes: Any) -> PlanRequest:
        """Return the request with other settings."""
        if self.places_all and "num_gpu" not in changes:
            changes = self.engine.all_on_gpus(self.request) | changes
        return self.request.asking(**changes)

    def plan(self, **changes: Any) -> Plan:
        self.check()
        return self.engine.plan(self.asking(**changes))

    def needed(self, **changes: Any) -> dict[str, Any]:
        """Return what must be asked besides some changes for all layers to go to GPUs."""
        try:
            plan = self.engine.plan(self.request.asking(**changes))
        except PlanError:
            return self.engine.all_on_gpus(self.request)
        fits = plan.fully_offloaded and not plan.verdict.short
        return {} if fits else self.engine.all_on_gpus(self.request)

    @property
    def alone(self) -> _Search:
        """The same with layers where the program puts them by itself."""
        return replace(self, places_all=False)

    def without_host(self) -> _Search:
        return replace(self, request=replace(self.request, host=None))

    def room(self, **changes: Any) -> int | None:
        """Return the bytes that the tightest memory has left; negative: missing; None: refused."""
        try:
            return self.plan(**changes).room
        except PlanError:
            return None

    def trial(self, **changes: Any) -> Trial:
        self.check()
        return self.engine.trial(self.asking(**changes))

    def obstacle(self, subject: str, **changes: Any) -> str:
        """Say why a subject, such as ``"q8_0"``, does not fit; empty if it does."""
        try:
            plan = self.plan(**changes)
        except PlanError as error:
            if error.reason is None and not self.engine.grows:
                raise
            return f"{subject} does not fit: {error}"
        for number in plan.verdict.short:
            return _too_much(subject, plan.holdings[number])
        if plan.verdict.depends_on:
            return f"whether {subject} fits depends on {plan.verdict.depends_on}"
        if plan.gpu_layers == plan.verdict.total_layers:
            return ""
        return f"{subject} does not fit: {self._left(plan)}"

    def _left(self, plan: Plan) -> str:
        """Say why layers are left to the CPU."""
        wanted, total = self.request.settings.num_gpu, plan.verdict.total_layers
        if wanted is not None and 0 <= wanted < total:
            return f"the setting of GPU layers allows {wanted} of {total} layers"
        used = [held for held in plan.gpus if held.is_used] or list(plan.gpus)
        labels = [quoted(held.device.label) for held in used if held.device is not None]
        names = ", ".join(labels[:_SHOWN_NAMES])
        names += f" and {len(labels) - _SHOWN_NAMES} more" if len(labels) > _SHOWN_NAMES else ""
        free = bytes_text(sum(held.free or 0 for held in used))
        return (
            f"only {plan.gpu_layers} of {total} layers fit into the {free} that are free on {names}"
        )

    def answer(self, name: str, found: Found, most: int, limit: str, step: int = 1) -> Advice:
        """Say what keeps a value from being more.

        Args:
            name: The setting, whose name is that of the question, too.
            found: The largest multiple of a step at which all layers fit.
            most: The largest that is possible.
            limit: What limits that.
            step: The step.
        """
        value = (found.value or 0) * step
        if not value or value < most * step:
            step_text = counted(value + step, _COUNTED[name])
            subject = f"the next step, {step_text}," if value else f"even the least, {step_text},"
            limit = self.obstacle(subject, **{name: value + step})
        if not found.exact:
            limit += ". The search was cut short, so a larger value might fit"
        also = self.needed(**{name: value}) if value else {}
        return Advice(name, value or None, limit, found.exact, also)

    def largest(self, name: str, most: int, step: int = 1) -> Found:
        """Return the largest multiple of a step, up to `most` steps, at which all layers fit."""
        if self.engine.grows:
            return Found(
                largest_held(lambda value: self.room(**{name: value * step}), most) or None
            )
        trials = MOST_TRIALS // max(1, len(self.request.devices))
        return largest(lambda value: self.trial(**{name: value * step}), 1, most, trials)

    @property
    def most_steps(self) -> int:
        """The longest context in steps of the engine's."""
        trained = self.request.h.trained_context or _MOST_TOKENS
        return max(1, min(trained, _MOST_TOKENS) // self.engine.context_step)

    def context(self, plan: Plan | None) -> tuple[Found, bool]:
        """Return the largest context in steps, and whether all layers are on GPUs with it.

        `plan` leaves the context open; it is None where the program refuses that.
        """
        engine, step = self.engine, self.engine.context_step
        if engine.unknown(self.request.h):
            return Found(None), False
        whole = plan is not None and plan.fully_offloaded
        placed = None
        if plan is not None and _keeps_its_layers(plan):
            if not whole and plan.gpu_layers and engine.keeps_layers and not plan.verdict.short:
                placed = plan.context_asked  # they move with the context: any that fits will do
            else:
                placed = engine.context_as_placed(plan, self.check)
        if placed and whole and engine.grows and len(self.request.devices) == 1:
            return Found(placed // step), True
        found = Found(None)
        if self.request.devices:  # other shares of several GPUs may hold more
            found = self.largest("context", self.most_steps, step)
        if found.value is None and plan is not None and placed:
            if whole or not plan.gpu_layers:  # on several, the program would lay them out anew
                return Found(placed // step), whole and len(self.request.devices) < 2
            return Found(self._longest_alone() or None), False
        return found, True

    def _longest_alone(self) -> int:
        """Return the largest context in steps that can be asked for; 0 where none can.

        The longer it is, the fewer layers the program puts on GPUs, until main memory is too small.
        """

        def room(value: int) -> int | None:
            try:
                plan = self.alone.plan(context=value * self.engine.context_step)
            except PlanError:
                return None
            left = plan.room if plan.main.room is None else plan.main.room
            return -sum(plan.verdict.short.values()) or max(0, left)

        return largest_held(room, self.most_steps)

    def left_open(self) -> Plan | None:
        """Return the plan with the context that the program takes by itself."""
        self.check()
        try:
            return self.engine.plan(self.request.asking(context=None))
        except PlanError:
            return None


def _keeps_its_layers(plan: Plan) -> bool:
    """Return whether layers have a place at which they could stay with a longer context."""
    found = plan.verdict
    return found.on_cpu or (found.gpu_layers > 0 and len(plan.holdings) - 1 not in found.short)


def largest_context(search: _Search) -> Advice:
    """Return the largest context with all layers on GPUs; where none is, with the CPU's help.

    Then it is the largest that can be asked for without exceeding any memory: the program puts the
    fewer layers on GPUs the longer it is.

    The context that is asked for now changes nothing.
    """
    plan = search.left_open()
    found, whole = search.context(plan)
    step, most = search.engine.context_step, search.most_steps
    trained = search.request.h.trained_context
    limit = f"the model was trained for {integer_text(trained or 0)} tokens"
    if not trained:
        limit = f"more than {integer_text(most * step)} tokens are not tried"
    if whole and search.request.devices:
        return search.answer("context", found, most, limit, step)
    if plan is None or not found.value:
        return Advice("context", None, _NO_GPU if not search.request.devices else _TOO_LITTLE)
    if found.value < most:
        limit = "main memory holds no more"
    if plan.gpu_layers:
        verdict = search.alone.plan(context=found.value * step).verdict
        layers = f"{verdict.gpu_layers} of {verdict.total_layers} layers are on GPUs"
        limit += f". Then {layers}{verdict.split_words}"
    return Advice("context", found.value * step, limit)


def most_parallel(search: _Search) -> Advice:
    """Return the largest number of requests at once at which all layers are on GPUs."""
    engine = search.engine
    if "requests" in (found := search.plan().details.counts()):
        return _held_requests(found["requests"])
    most = engine.most_parallel
    limit = f"{engine.short_title} runs at most {integer_text(most)} requests"
    two = search.without_host().plan(parallel=2).effective["parallel"]
    if two.value == 1:
        most, limit = 1, two.reason
    return search.answer("parallel", search.largest("parallel", most), most, limit)


def _held_requests(ends: tuple[int, int]) -> Advice:
    """Return how many requests of the context a cache holds that takes all that is left."""
    low, high = map(integer_text, ends)
    limit = f"the cache holds {low} to {high} requests of the context, by the peak that is measured"
    if low == high:
        limit = f"the cache holds {low} requests of the context"
    return Advice("parallel", ends[0] or None, limit)


def cache_types(engine: Engine) -> dict[str, dict[str, Any]]:
    """Return the types of the cache that a program has, the best first, with what asks for each.

    One that is larger than what the program takes by itself is none of them.
    """
    kind, both = engine.curves[0], dict.fromkeys(("cache_type_k", "cache_type_v"))
    return {
        one.name: {kind.setting: one.value, **both} for one in kind.values if not one.is_what_if
    }


def best_cache_type(search: _Search) -> Advice:
    """Return the KV cache type with the smallest error at which all layers are on GPUs."""
    what, limit = "kv-cache-type", "there is no better one"
    for name, asked in cache_types(search.engine).items():
        try:
            held = search.without_host().plan(**asked).effective["kv_cache_type"]
        except PlanError as error:
            limit = f"{name} does not fit: {error}"
            continue
        if held.reason:
            return Advice(what, None, f"{limit}, and {name} cannot be used: {held.reason}")
        obstacle = search.obstacle(name, **asked)
        if not obstacle:
            return Advice(what, name, limit, also=search.needed(**asked), sets=asked)
        limit = obstacle
    return Advice(what, None, limit if limit.startswith("whether") else f"even {limit}")


def most_gpu_layers(search: _Search) -> Advice:
    """Return the most layers that can be asked for without exceeding any memory.

    Main memory has the more room the more layers GPUs take: both together would not fall with the
    count, so it is asked last.
    """
    what, total = "gpu-layers", search.request.h.total_layers
    gpus, limit = search.without_host(), "the model has no more layers"
    if search.engine.grows:
        count = largest_held(lambda count: gpus.room(num_gpu=count), total)
    else:
        counts = range(total, -1, -1)
        count = next((count for count in counts if not _overfull(gpus, count)), 0)
    if count < total:
        limit = f"with {counted(count + 1, 'layer')} on GPUs, {_overfull(gpus, count + 1)}"
    if obstacle := _overfull(search, count) or _main_obstacle(search, count):
        return Advice(what, None, f"with {counted(count, 'layer')} on GPUs, {obstacle}")
    return Advice(what, count, limit)


def fewest_gpu_layers(search: _Search) -> Advice:
    """Return the fewest layers that must go to GPUs for the rest to fit into main memory."""
    limit = "main memory holds the whole model"
    for count in range(search.request.h.total_layers + 1):
        obstacle = _main_obstacle(search, count) or _overfull(search, count)
        if not obstacle:
            return Advice("fewest-gpu-layers", count, limit)
        limit = f"with {counted(count, 'layer')} on GPUs, {obstacle}"
    return Advice("fewest-gpu-layers", None, limit)


def _overfull(search: _Search, count: int) -> str:
    """Say why so many layers cannot be on GPUs; empty if they can."""
    try:
        plan = search.plan(num_gpu=count)
    except PlanError as error:
        if error.reason is None and not search.engine.grows:
            raise
        return str(error)
    if plan.gpu_layers != count:
        return f"only {plan.gpu_layers} of them can be placed"
    for held in plan.gpus:
        if held.device is not None and held.layers and held.short:
            return _too_much("the model", held)
    return ""


def _too_much(subject: str, held: Holding) -> str:
    """Say by how much a subject exceeds what is free of a memory, its reserve counted."""
    missing = bytes_text(held.short)
    if held.device is None:
        return f"{subject} needs {missing} more main memory than is free"
    return f"{subject} needs {missing} more than is free on {quoted(held.device.label)}"


def _main_obstacle(search: _Search, count: int) -> str:
    """Say why main memory cannot hold what so many layers on GPUs leave; empty if it can."""
    host = search.request.host
    if host is None or host.macos:
        return ""
    rest = search.without_host().plan(num_gpu=count).main.total
    if rest <= host.free + host.swap:
        return ""
    return f"{bytes_text(rest)} stay on the CPU, more than is free of main memory"


class Question(NamedTuple):
    """The setting that a question is about, and what answers it."""

    setting: str
    answer: Callable[[_Search], Advice]


QUESTIONS: Final[Mapping[str, Question]] = MappingProxyType(
    {
        "context": Question("context", largest_context),
        "parallel": Question("parallel", most_parallel),
        "kv-cache-type": Question("kv_cache_type", best_cache_type),
        "gpu-layers": Question("num_gpu", most_gpu_layers),
        "fewest-gpu-layers": Question("num_gpu", fewest_gpu_layers),
    }
)
"""What can be asked for."""

_PLACING: Final = ("num_gpu", "tensor_split", "cpu_moe_layers")


def automatic_placement(
    request: PlanRequest, engine: Engine, check: Check = never
) -> dict[str, None]:
    """Return the settings that place layers, to be taken back where the model then fits better.

    Nothing where none is asked for, or where it does not help. `check` is called before each plan.
    """
    asked = (name for name in _PLACING if getattr(request.settings, name) not in (None, AUTOMATIC))
    changes = dict.fromkeys(asked)
    if not changes or not request.devices:
        return {}
    try:
        check()
        now = engine.plan(request).verdict.level
        check()
        then = engine.plan(request.asking(**changes)).verdict.level
    except PlanError:
        return {}
    return changes if _BETTER.index(then) > _BETTER.index(now) else {}


def left_alone(request: PlanRequest, engine: Engine) -> Plan:
    """Return the plan if all that the engine can choose by itself were left to it.

    Raises:
        PlanError: The model cannot be planned by it.
    """
    return engine.plan(request.asking(**dict.fromkeys(engine.chooses)))


def context_of(plan: Plan, check: Check = never) -> tuple[int | None, Verdict]:
    """Return the answer to the question ``"context"``, and the verdict with it.

    `plan` is of the same request with any context, or without one. `check` is called before each
    plan; it raises to stop.
    """
    search = _Search(plan.request, plan.engine, check)
    left_open = plan if plan.request.settings.context is None else search.left_open()
    found, whole = search.context(left_open)
    verdict = plan.verdict if left_open is None else left_open.verdict
    tokens = (found.value or 0) * plan.engine.context_step or None
    if tokens and not whole and verdict.gpu_layers:
        verdict = search.alone.plan(context=tokens).verdict
    if whole and plan.request.devices:
        layers = verdict.total_layers
        verdict = replace(
            verdict, level=Level.FITS, gpu_layers=layers, expert_layers=0, all_on_gpus=True
        )
    return tokens, verdict
