"""A plan has one shape, whichever engine made it: what each device holds, and whether it fits.

Nothing above `explorer.planner.engines` asks which engine that was. What only one engine knows is
in `Details`, by names that others leave empty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from explorer.parallel import Check
from explorer.planner.devices import Device, quoted
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.request import PlanRequest
from explorer.planner.settings import CACHE_TYPES, MAX_PARALLEL, Setting

Number: TypeAlias = int | float


class Range(NamedTuple):
    """Bytes that are known within two ends; both are the same where they are exact."""

    low: int
    high: int

    @classmethod
    def exactly(cls, nbytes: int) -> Range:
        return cls(nbytes, nbytes)


NOTHING: Final = Range(0, 0)


@dataclass(frozen=True, slots=True)
class Holding:
    """What one GPU holds, or main memory.

    Attributes:
        device: The GPU; None for main memory.
        place: Where its figures stand in the plan's JSON: ``"devices[0]"``.
        free: Free bytes before the model is loaded; None where they are not known.
        weights: Bytes of the model's weights.
        cache: Bytes of keys and values, and of recurrent state.
        compute: Bytes of working memory, for computing a batch.
        projector: Bytes of a separate projector.
        draft: Bytes of a draft model.
        adapters: Bytes of LoRA adapters.
        reserve: Bytes that are held back and in no total.
        layers: Numbers of the layers that are computed here; the output is the last of a model's.
        is_used: Whether the engine places anything of the model here.
        terms: Part (a field's name, or ``"total"``) → the name of its figure, behind `place`.
    """

    device: Device | None
    place: str
    free: int | None
    weights: int = 0
    cache: int = 0
    compute: Range = NOTHING
    projector: int = 0
    draft: int = 0
    adapters: int = 0
    reserve: Range = NOTHING
    layers: Sequence[int] = ()
    is_used: bool = True
    terms: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Bytes that the model takes here, at most."""
        others = self.projector + self.draft + self.adapters
        return self.weights + self.cache + self.compute.high + others

    @property
    def room(self) -> int | None:
        """Bytes that are left, the reserve taken off; negative: missing; None: not known."""
        return None if self.free is None else self.free - self.total - self.reserve.high

    @property
    def short(self) -> int:
        """Bytes that are missing, the reserve counted."""
        return max(0, -(self.room or 0))

    @property
    def best_room(self) -> int | None:
        """The same with all that is a range at its low end."""
        spread = sum(one.high - one.low for one in (self.compute, self.reserve))
        return None if self.room is None else self.room + spread

    @property
    def missing(self) -> int:
        """Bytes that are missing even at the low end of ranges."""
        return max(0, -(self.best_room or 0))

    def term(self, part: str) -> str:
        """Return the name of the figure of a part: ``"devices[0].weights"``."""
        return f"{self.place}.{self.terms.get(part, part)}"


def least_room(rooms: Iterable[int | None]) -> int:
    """Return the bytes that the tightest memory has left, of those that are known; 0 of none."""
    return min((room for room in rooms if room is not None), default=0)


class Level(StrEnum):
    """How well a model fits: all of it, with a part on the CPU, or not; as JSON says it."""

    FITS = "yes"
    PARTLY = "partly"
    NOT = "no"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model fits, and what stands in the way.

    Attributes:
        level: How well.
        gpu_layers: Layers on GPUs, the output being one.
        total_layers: All layers.
        expert_layers: Layers on GPUs with a part (experts, mostly) on the CPU.
        part: What that is: "experts", or, of a model without any, "part".
        cache_on_cpu: Whether the KV cache is kept on the CPU though layers are on GPUs.
        on_cpu: Whether there is no GPU, so that main memory holds everything.
        all_on_gpus: Whether everything is on GPUs.
        short: Holdings that are too small, by their place in the plan, and bytes that they lack.
        free: Bytes that are left on the GPUs that hold layers; without a GPU, none.
        is_exact: Whether these figures are exact, not the ends of bands.
        depends_on: What decides whether it fits, where one end of a band fits and the other does
            not; empty where nothing does.
    """

    level: Level
    gpu_layers: int
    total_layers: int
    expert_layers: int = 0
    part: str = "experts"
    cache_on_cpu: bool = False
    on_cpu: bool = False
    all_on_gpus: bool = False
    short: Mapping[int, int] = field(default_factory=dict)
    free: int = 0
    is_exact: bool = True
    depends_on: str = ""

    @property
    def split_words(self) -> str:
        """What of some layers is on the CPU, behind their number; empty where nothing is.

        ", experts of 12 of them on the CPU"
        """
        layers = self.expert_layers
        return f", {self.part} of {layers} of them on the CPU" if layers else ""


def judge(  # noqa: PLR0913 - what is particular about a plan, by name
    holdings: Sequence[Holding],
    total_layers: int,
    *,
    expert_layers: int = 0,
    part: str = "experts",
    cache_on_cpu: bool = False,
    is_exact: bool = True,
    counts_reserve: bool = True,
    open_question: str = "",
) -> Verdict:
    """Return the verdict of holdings, of which the last is main memory.

    `open_question` is what decides where the high end of a range is too much and the low end fits;
    without one the high end decides.

    Without `counts_reserve` a memory with layers is too small only where more is held than is free:
    of an engine that keeps its reserve only while it looks for a layout.
    """
    gpus = holdings[:-1]
    placed = sum(len(held.layers) for held in gpus)
    whole = placed == total_layers and not expert_layers and not cache_on_cpu
    counted = {
        i: held
        for i, held in enumerate(holdings)
        if held.short and (counts_reserve or (held.layers and held.total > (held.free or 0)))
    }
    short = {
        i: held.missing if open_question and held.device is not None else held.short
        for i, held in counted.items()
    }
    short = {i: missing for i, missing in short.items() if missing}
    is_open = bool(counted) and not short and (whole or not gpus)
    if short:
        level = Level.NOT
    elif not gpus or whole:
        level = Level.PARTLY if is_open else Level.FITS
    else:
        level = Level.PARTLY if placed else Level.NOT
    return Verdict(
        level=level,
        gpu_layers=placed,
        total_layers=total_layers,
        expert_layers=expert_layers,
        part=part,
        cache_on_cpu=cache_on_cpu,
        on_cpu=not gpus,
        all_on_gpus=whole and bool(gpus),
        short=short,
        free=sum(max(0, held.room or 0) for held in gpus if held.layers),
        is_exact=is_exact,
        depends_on=open_question if is_open else "",
    )


class Effective(NamedTuple):
    """The value of a setting that holds.

    Attributes:
        value: The value.
        asked: What was asked for, if that is another; else None.
        reason: Why it is another, as one sentence.
        origin: Where the value came from.
    """

    value: Any
    asked: Any = None
    reason: str = ""
    origin: str = ""


def difference_notes(effective: Mapping[str, Effective]) -> Iterator[str]:
    """Yield where settings are not as asked for."""
    for name, one in effective.items():
        if one.reason:
            yield f"{name} is {one.value} instead of {quoted(str(one.asked))}: {one.reason}"


@dataclass(frozen=True, slots=True)
class Input:
    """The value of a symbol (several are summed), and the key, setting or figure it came from."""

    value: Number | tuple[int, ...]
    origin: str


@dataclass(frozen=True, slots=True)
class Term:
    """One figure of a plan."""

    name: str  # where it stands in the plan's JSON: ``"devices[0].graph"``
    value: Number  # the figure; bytes, but for ratios
    formula: str  # how it is worked out, as Python writes it
    inputs: Mapping[str, Input]  # symbol of the formula → its value


def term(name: str, value: Number, formula: str, **inputs: tuple[Number, str]) -> Term:
    """Return a term; each input is a value and where it came from."""
    return Term(name, value, formula, {key: Input(*given) for key, given in inputs.items()})


def sum_term(name: str, values: Sequence[int], origin: str) -> Term:
    """Return a term of a sum of values that came from one place."""
    return Term(name, sum(values), "sum(parts)", {"parts": Input(tuple(values), origin)})


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a model."""

    index: int  # its number; the output layer is the last
    name: str  # ``"blk.7"`` or ``"output"``
    weights: int  # bytes of its weights
    kv_cache: int  # bytes of its cache
    device: int | None  # number of the holding, or None for the CPU
    is_split: bool = False  # whether some of its weights, such as experts, are on the CPU

    @property
    def nbytes(self) -> int:
        """Weights and cache."""
        return self.weights + self.kv_cache


class Accuracy(StrEnum):
    """How sure the figures are: as computed, within bands, or of a similar model's law."""

    EXACT = "exact"
    BAND = "band"
    UNKNOWN = "unknown architecture"
    ESTIMATE = "estimate"


class Choice(NamedTuple):
    """What an engine chose of a plan by itself."""

    by: str  # the program that chose
    context: bool  # whether it chose the context
    placement: bool  # whether it chose where layers go


class NamedBuffer(NamedTuple):
    """One buffer as the engine itself names it."""

    name: str
    weights: int
    cache: int
    compute: Range | None  # None where no figure is known
    reserve: int | None  # None where nothing is held back


class Details:
    """What an engine knows of its plan beyond the shape of all plans; worked out when asked for.

    What an engine does not know is empty.
    """

    @property
    def accuracy(self) -> Accuracy:
        """How sure the figures are."""
        return Accuracy.ESTIMATE

    @property
    def choice(self) -> Choice | None:
        """What the engine chose by itself; None where it says nothing of that."""
        return None

    def layers(self) -> Iterable[Layer]:
        """Return every layer with its place, the output layer last."""
        raise NotImplementedError

    def terms(self) -> Iterator[Term]:
        """Yield every figure with its formula, named by its place in the plan's JSON."""
        raise NotImplementedError

    def record(self) -> dict[str, Any]:
        """Return what docs/interface.md has of this engine alone, beside ``"graph"`` of all."""
        raise NotImplementedError

    def layer_caches(self) -> Sequence[int]:
        """Return the bytes of the cache of each block."""
        raise NotImplementedError

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Return what is counted of a plan and is no memory, at its low and its high end."""
        return {}

    def arguments(self) -> Sequence[str]:
        """Return the arguments of the engine's server that load the model alike."""
        return ()

    def buffers(self) -> Sequence[NamedBuffer]:
        return ()

    def reads(self, depth: int) -> Mapping[str, int] | None:
        """Return the bytes that a token reads on ``"GPU0"`` … and ``"CPU"``.

        `depth` is the number of tokens in the cache. None where that is not known.
        """
        del depth
        return None


@dataclass(frozen=True)
class Plan:
    """The memory that a model needs.

    Attributes:
        engine: Whose rules were followed.
        request: What was asked for.
        effective: Setting → the value that holds; settings that the engine does not know are
            absent.
        holdings: One for each GPU, the last for main memory.
        verdict: Whether it fits.
        cache: Bytes of the KV cache.
        cells: Tokens that the cache holds, of all sequences.
        details: What the engine knows more.
        notes: What a reader should know.
        warnings: What makes the figures doubtful.
    """

    engine: Engine
    request: PlanRequest
    effective: Mapping[str, Effective]
    holdings: tuple[Holding, ...]
    verdict: Verdict
    cache: int
    cells: int
    details: Details
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[Holding, ...]:
        return self.holdings[:-1]

    @property
    def devices(self) -> list[Device]:
        """The GPUs that are planned with, in the order of `gpus`."""
        return [held.device for held in self.gpus if held.device is not None]

    @property
    def main(self) -> Holding:
        return self.holdings[-1]

    @property
    def weights(self) -> int:
        """Bytes of all weights; of a tied output that is held twice, both."""
        return sum(held.weights for held in self.holdings)

    @property
    def vram_total(self) -> int:
        """Bytes on all GPUs."""
        return sum(held.total for held in self.gpus)

    @property
    def total(self) -> int:
        """Bytes needed in all."""
        return sum(held.total for held in self.holdings)

    @property
    def room(self) -> int:
        """Bytes that the tightest memory has left, its reserve taken off; negative: missing."""
        return least_room(held.room for held in self.holdings)

    @property
    def gpu_layers(self) -> int:
        return self.verdict.gpu_layers

    @property
    def fully_offloaded(self) -> bool:
        """Whether everything is on GPUs."""
        return self.verdict.all_on_gpus

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer with its place, the output layer last."""
        return tuple(self.details.layers())

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Every figure with its formula, named by its place in the plan's JSON.

        The formulas are texts that Python can evaluate with their inputs; a test does so. They are
        made on first use, so that a plan stays fast.
        """
        return tuple(self.details.terms())

    def used(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting that holds; a default where the engine knows it not."""
        found = self.effective.get(name)
        return default if found is None else found.value

    @property
    def drafted(self) -> int:
        """Tokens that are drafted for each one (speculative decoding)."""
        return max(self.used("mtp", 0) or 0, self.used("draft_max", 0) or 0)

    @property
    def context_asked(self) -> int:
        """The context as one asks the engine for it: of a sequence, or of all together."""
        return self.cells if self.engine.shares_context else int(self.used("context"))


class CurveValue(NamedTuple):
    """One curve: the value of a setting."""

    value: Any
    name: str
    like: str = ""  # the tensor type whose colour it has; empty: that of the cache that holds
    is_what_if: bool = False  # whether it is larger than what the program takes by itself


class CurveKind(NamedTuple):
    """What curves show of a plan.

    Attributes:
        title: What they are called.
        setting: The setting of which each value has a curve.
        values: These values; of memory the types of the cache, the best first.
        figure: ``"total"`` for bytes in all, or a name of `Details.counts`.
        along: The setting that changes along them.
    """

    title: str
    setting: str
    values: tuple[CurveValue, ...]
    figure: str = "total"
    along: str = "context"


MEMORY_TITLE: Final = "Memory by context"

MEMORY: Final = CurveKind(
    MEMORY_TITLE,
    "kv_cache_type",
    tuple(CurveValue(one, one, is_what_if=one == "f32") for one in CACHE_TYPES),
)


class Trial(NamedTuple):
    """Whether a request fits, and every decision on the way.

    A decision is a comparison whose outcome can change only once as sizes grow, given that the
    decisions before it are the same. So two trials with equal decisions enclose a range in which
    every value fits, or none does.
    """

    fits: bool
    decisions: Sequence[tuple[int, ...]]
    is_hopeless: bool = False  # whether neither this nor anything larger can fit; no when unsure


class Engine(ABC):
    """A program that loads models, and its rules.

    Attributes:
        name: Its name in commands and JSON.
        title: What it is called.
        short_title: The same where there is little room.
        rule: How its figures come about, in one clause, for who compares engines.
        settings: The settings that it knows.
        first: Settings that most people leave alone, but not those who use it.
        chooses: Settings that it chooses by itself where they are left open.
        shares_context: Whether the context one asks for is that of all sequences together.
        context_step: Contexts are multiples of so many tokens.
        most_parallel: Most sequences at a time.
        grows: Whether what a plan takes never falls as the context or the number of sequences
            grows, so that `Plan.room` says which values fit. If not, `trial` is asked.
        serve: The words that start its server, before model and arguments; empty without one.
        curves: What curves there are of its plans, the first being shown first.
        is_timed: Whether published runs say which part of the bound of speed it reaches.
        keeps_layers: Whether it can be told to leave some layers on the CPU, as a plan has them.
        library: The library of GPUs without which it runs nothing; empty where any machine will do.
    """

    name: str
    title: str
    short_title: str
    rule: str
    settings: Sequence[Setting]
    first: Sequence[str] = ()
    chooses: Sequence[str] = ()
    shares_context: bool = False
    context_step: int = 1
    most_parallel: int = MAX_PARALLEL
    grows: bool = True
    serve: Sequence[str] = ("llama-server",)
    curves: Sequence[CurveKind] = (MEMORY,)
    is_timed: bool = True
    keeps_layers: bool = False
    library: str = ""

    @abstractmethod
    def plan(self, request: PlanRequest) -> Plan:
        """Return the plan of a model.

        Raises:
            PlanError: The model cannot be planned, or the program would refuse to load it (see
                `PlanError.reason`).
        """

    def refusal(self, h: Hyperparameters) -> str:
        """Return why the program cannot load a model's files; empty if it can."""
        del h
        return ""

    def unknown(self, h: Hyperparameters) -> str:
        """Return what of a model's plan is not known: "its KV cache"; empty where all is.

        Then no question about the most is answered.
        """
        del h
        return ""

    def runs_on(self, devices: Sequence[Device]) -> bool:
        """Return whether a machine with these GPUs runs it."""
        return not self.library or any(device.library == self.library for device in devices)

    def command(self, plan: Plan) -> Sequence[str]:
        """Return the words that load a model as planned, before its name and arguments."""
        del plan
        return self.serve

    def is_slow(self, h: Hyperparameters) -> bool:
        """Return whether a plan may take longer than a frame."""
        del h
        return False

    def all_on_gpus(self, request: PlanRequest) -> dict[str, Any]:
        """Return the settings that ask for all layers on GPUs; none where they go there anyway."""
        del request
        return {}

    def layers_asked(self, boundary: int, total: int) -> int:
        """Return the GPU layers to ask for so that the GPUs begin at a layer, of so many."""
        return max(0, total - max(boundary, 0))

    def trial(self, request: PlanRequest) -> Trial:
        """Return whether all layers are on GPUs, and what decides that; see `grows`."""
        raise NotImplementedError

    def context_as_placed(self, plan: Plan, check: Check) -> int | None:
        """Return the largest context that one can ask for with the layers as a plan has them.

        None where nothing fits, or where the layers cannot be told to stay. `check` is called
        before each plan; it raises to stop.
        """
        del plan, check
        return None
