"""Which models fit a machine: by headers alone, worded once for the library and its command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.formats.attachments import is_importance_matrix
from explorer.formats.facts import describe
from explorer.formats.model import Model
from explorer.parallel import Check, never
from explorer.planner import Device, Host, Hyperparameters, Settings
from explorer.planner import environment as env
from explorer.planner.advice import context_of
from explorer.planner.devices import MAX_MEMORY
from explorer.planner.engines.llama_cpp.architectures import ARCHITECTURES
from explorer.planner.engines.llama_cpp.refusals import COMPONENTS
from explorer.planner.inputs import (
    NO_LANGUAGE,
    NO_LAYERS,
    NO_WEIGHTS,
    PlanInputs,
    completed,
    header_to_plan,
)
from explorer.planner.plans import Level, Plan, Verdict
from explorer.present.model import kind_of
from explorer.present.plan import (
    answer,
    context_text,
    fit_state,
    fit_text,
    placed_text,
    short_name,
    verdict_word,
)
from explorer.present.problems import REFUSED
from explorer.present.speed import Speed, speed_here
from explorer.private_folder import PrivateFolder
from explorer.stores.entries import Entry
from explorer.stores.known import Memo, known_before
from explorer.text import (
    bits_text,
    bytes_text,
    counted,
    integer_text,
    notation,
    plain_text,
    sentence,
)

DAMAGED: Final = "Damaged"
"""The word for a model that cannot be loaded, however much memory there is."""

FITS_WORD: Final = "fits:"
"""How a word of the library's filter begins that names a `Level`."""


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that models shall fit.

    Attributes:
        devices: Its GPUs; without any, main memory holds the whole model.
        host: Its main memory, or None to check nothing against it.
        environment: Ollama's environment variables.
        bandwidths: Bytes a second that the user gave, by the name of a GPU or ``"CPU"``.
        settings: What is asked of each model alike, its context cut to what the model was trained
            for. Nothing: each is planned as its program starts it.
        also: How many models are loaded already, whose memory is taken off.
    """

    devices: tuple[Device, ...]
    host: Host | None
    environment: Mapping[str, str] = field(default_factory=dict)
    bandwidths: Mapping[str, int] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    also: int = 0

    @property
    def text(self) -> str:
        """ "Planned for: L4, 22.5 GiB free, 61.2 GiB of main memory free; 8k tokens …"."""
        gpus = (f"{short_name(one)}, {bytes_text(one.free)} free" for one in self.devices)
        parts = list(gpus) or ["no GPU"]
        if self.host is None:
            parts.append("main memory is not checked")
        else:
            parts.append(f"{bytes_text(self.host.free)} of main memory free")
        return f"Planned for: {', '.join(parts)}; {self.asked_text}"

    @property
    def brief(self) -> str:
        """ "L4, 22.5 GiB · 61.2 GiB main memory": the machine in a few words."""
        sizes = Counter((short_name(one), bytes_text(one.free)) for one in self.devices)
        parts = [
            f"{n} × {name}, {free}" if n > 1 else f"{name}, {free}"
            for (name, free), n in sizes.items()
        ]
        if self.host is not None:
            parts.append(f"{bytes_text(self.host.free)} main memory")
        if self.also:
            parts.append(f"also loaded: {counted(self.also, 'model')}")
        return " · ".join(parts if self.devices else ["No GPU", *parts])

    @property
    def asked_text(self) -> str:
        """ "8k tokens, f16 cache": what is asked of each model."""
        tokens = self.settings.context
        text = "context of the program" if tokens is None else f"{context_text(tokens)} tokens"
        return f"{text}, {self.settings.kv_cache_type or 'f16'} cache"

    def inputs(self, trained_context: int | None, asked: PlanInputs | None = None) -> PlanInputs:
        """Return what a model is planned with: what is asked of it, or else of all alike."""
        if asked is None:
            settings = self.settings
            if settings.context is not None and trained_context:
                settings = replace(settings, context=min(settings.context, trained_context))
            asked = PlanInputs(settings)
        return replace(asked, devices=self.devices, host=self.host)

    def record(self) -> dict[str, Any]:
        """Return the object ``machine`` of docs/interface.md."""
        return {
            "devices": [
                {"name": one.name or one.key, "library": one.library, "free": one.free}
                for one in self.devices
            ],
            "memory": None if self.host is None else self.host.free,
        }


@dataclass(frozen=True, slots=True)
class ModelFit:
    """How a model fits a machine with what is asked of it.

    Attributes:
        verdict: Whether it fits; None where that cannot be said.
        sentence: Why.
        engine: Name of the engine that it was planned by; empty without one.
        largest_context: The most tokens of one sequence, see `advice.largest_context`; None if not
            known, or if it does not fit.
        word: Where it cannot be said, why, in two or three words.
        speed: How fast it can be; None if that is not known, or if it does not fit.
        context_layers: What of it is on GPUs with that context, where the verdict has another part
            there: "25 layers"; else empty.
        planned_context: The tokens that it was planned with; None without a plan.
    """

    verdict: Verdict | None
    sentence: str
    engine: str = ""
    largest_context: int | None = None
    word: str = ""
    speed: Speed | None = None
    context_layers: str = ""
    planned_context: int | None = None

    @property
    def level(self) -> Level | None:
        """How well it fits; None where that cannot be said."""
        return None if self.verdict is None else self.verdict.level

    @property
    def text(self) -> str:
        """ "yes", "partly, 28 of 49 layers", "no"; "no weights" where it cannot be said."""
        return self.word.lower() if self.verdict is None else fit_text(self.verdict)

    @property
    def brief(self) -> str:
        """The same in a word or three: "Fits", "Fits partly", "Does not fit"."""
        return self.word if self.verdict is None else verdict_word(self.verdict)

    @property
    def part(self) -> str:
        """Of a model that fits partly, what is on GPUs: "28 of 49 layers"; else empty."""
        found = self.verdict
        partly = found is not None and self.level is Level.PARTLY and not found.depends_on
        return placed_text(found) if found is not None and partly else ""

    @property
    def damaged(self) -> bool:
        """Whether it cannot be loaded, however much memory there is."""
        return self.word == DAMAGED

    @property
    def state(self) -> str:
        """The same in a narrow column: "Fits", "28 of 49 layers"."""
        return self.word if self.verdict is None else fit_state(self.verdict)

    @property
    def context_text(self) -> str:
        """The largest context, and with which layers if with others; empty where there is none."""
        return self._context("")

    @property
    def tokens_text(self) -> str:
        """The same in a sentence: "9,728 tokens"."""
        return self._context(" tokens")

    def _context(self, unit: str) -> str:
        if self.largest_context is None:
            return ""
        layers = f" with {self.context_layers}" if self.context_layers else ""
        return f"{integer_text(self.largest_context)}{unit}{layers}"

    @property
    def order(self) -> float | None:
        """A number to sort by, the larger the better it fits; None where it cannot be said."""
        found = self.verdict
        if found is None:
            return None
        if found.level is not Level.PARTLY:
            return 3.0 if found.level is Level.FITS else 0.0
        layers, total = found.gpu_layers, max(1, found.total_layers)
        return 1.0 + (layers - found.expert_layers / 2) / total

    def record(self) -> dict[str, Any]:
        """Return the object ``fit`` of docs/interface.md."""
        found = self.verdict
        total = None if found is None else found.total_layers or None
        return {
            "fits": None if found is None else found.level.value,
            "text": self.text,
            "gpu_layers": None if found is None or total is None else found.gpu_layers,
            "total_layers": total,
            "expert_layers": 0 if found is None else found.expert_layers,
            "largest_context": self.largest_context,
            "profile": self.engine or None,
            "why": self.sentence,
        }


def fit_statement(fit: ModelFit, target: Target) -> str:
    """Say how a model fits a machine: "It fits RTX 4070, with up to 67,000 tokens." """
    found = fit.verdict
    if fit.damaged:  # the problems of the model say how, at length
        return "It is damaged and cannot be loaded as it is."
    if found is None or found.level is Level.NOT:
        return fit.sentence
    names = " and ".join(dict.fromkeys(short_name(one) for one in target.devices))
    tokens = f", with up to {fit.tokens_text}" if fit.tokens_text else ""
    if found.on_cpu:
        return f"It fits main memory{tokens}. There is no GPU."
    if found.level is Level.FITS:
        return f"It fits {names}{tokens}."
    asked = f" with {context_text(fit.planned_context)} tokens" if fit.planned_context else ""
    up_to = f" Up to {fit.tokens_text}." if fit.tokens_text else ""
    return f"It fits partly on {names}{asked}: {fit.part}.{up_to}"


NOTHING_TO_FIT: Final = ModelFit(None, "There is nothing that can be opened.", word="No model")
"""Of an entry of a store without a model."""


def not_fitted(error: ExplorerError) -> ModelFit:
    """Return what is said of a model that cannot be opened or read."""
    return ModelFit(None, plain_text(error.without_path), word=_UNREAD)


@contextmanager
def known_fits(
    target: Target, folder: PrivateFolder | None = None
) -> Iterator[Callable[[Entry, Check], ModelFit]]:
    """Give what says how entries of a store fit, and plans only those that it does not know.

    A fit is kept with the header that it was planned by, for the target of the last time. Free
    memory of GPUs counts to the byte; that of the machine, which is another each second, only where
    it matters.
    """

    def make(entry: Entry, check: Check) -> _Kept:
        nothing = entry.format is None
        return _Kept(NOTHING_TO_FIT) if nothing else _kept_at(entry.path, target, check)

    def restore(record: object) -> _Kept | None:
        found, host = _restored_fit(record), target.host
        if found is None or host is None:
            return found
        return found if found.least <= host.free <= host.free + host.swap <= found.most else None

    host = None if target.host is None else replace(target.host, free=0, swap=0)
    bandwidths = dict(sorted(target.bandwidths.items()))
    asked = replace(target, environment={}, bandwidths=bandwidths, host=host)
    follows = asked, sorted(env.used(target.environment).items()), notation()
    key = blake2b(repr(follows).encode(), digest_size=16).hexdigest()
    with known_before(Memo(key, make, _record_of, restore), folder) as known:
        yield lambda entry, check: known(entry, check).fit


@dataclass(frozen=True, slots=True)
class _Kept:
    """A fit that holds from `least` to `most` bytes of free main memory, swap among the most."""

    fit: ModelFit
    least: int = 0
    most: int = MAX_MEMORY


def _kept_at(path: Path, target: Target, check: Check) -> _Kept:
    """Say how the model at a path fits, for somewhat less and for more main memory, too.

    On a machine with GPUs nobody decides by what is free of it: it holds what it has to, or not. So
    what is said alike of both ends is said of all between.
    """
    host = target.host
    try:
        with open_model(path) as model:
            fits = _Fits(model)
            if host is None:
                return _Kept(fits.on(target, check))
            if target.devices:
                least, most = host.free // 8 * 7, min(2 * (host.free + host.swap), MAX_MEMORY)
                ends = (replace(host, free=free, swap=0) for free in (least, most))
                low, high = (fits.on(replace(target, host=end), check) for end in ends)
                if low == high:
                    return _Kept(low, least, most)
            return _Kept(fits.on(target, check), host.free, host.free)
    except ExplorerError as error:
        return _Kept(not_fitted(error))


def _record_of(kept: _Kept) -> dict[str, Any] | None:
    """Return a fit as JSON holds it; None of what may be read next time, or would be another."""
    record = asdict(kept)
    return record if kept.fit.word != _UNREAD and _restored_fit(record) == kept else None


def _restored_fit(record: object) -> _Kept | None:
    """Return the fit of a record; None of what `_record_of` did not make."""
    try:
        found: _Kept = _restored(_Kept, record)
        speed = found.fit.speed
        speeds = () if speed is None else (speed.empty, speed.full)
        if any({one.device for one in each.bandwidths} != {*each.reads} for each in speeds):
            return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return found


def _restored(kind: Any, value: Any) -> Any:
    """Return what `asdict` and JSON made of a value of a type; raise as they do if it is none."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:  # with None
        return None if value is None else _restored(parts[0], value)
    if origin is tuple:
        return tuple(_restored(parts[0], one) for one in value)
    if origin is Mapping:
        of_key = parts[0]  # a text in JSON
        return {of_key(key): _restored(parts[1], one) for key, one in value.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        if value.keys() != hints.keys():
            raise KeyError
        return kind(**{name: _restored(hint, value[name]) for name, hint in hints.items()})
    if kind is Level:
        return Level(value)
    if type(value) is not kind or (kind is str and plain_text(value) != value):
        raise TypeError
    return value


_hints: Final = cache(get_type_hints)


def fit_of(
    model: Model, target: Target, check: Check = never, asked: PlanInputs | None = None
) -> ModelFit:
    """Say how an opened model fits, by the profile of where it lies; reads headers only.

    Args:
        model: The model.
        target: The machine.
        check: Called now and then; raises to give up.
        asked: What the user asks of this model; None for what is asked of all.

    Raises:
        ExplorerError: Its header, or that of its projector, cannot be read.
    """
    return _Fits(model).on(target, check, asked)


class _Fits:
    """How a model fits machines: what they share is read and worked out once."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def on(self, target: Target, check: Check, asked: PlanInputs | None = None) -> ModelFit:
        check()
        h = self._header
        if isinstance(h, ModelFit):
            return h
        inputs = target.inputs(h.trained_context, asked)
        request = completed(inputs, self._model).request(h, env.used(target.environment))
        engine = inputs.engine_for(h)
        try:
            plan = engine.plan(request)
        except PlanError as error:
            if error.reason is None:
                word = REFUSED if error.what == h.llama_cpp else _UNPLANNED
                return ModelFit(None, _why(error), engine.name, word=word)
            return ModelFit(Verdict(Level.NOT, 0, 0), _why(error), engine.name)
        return _fit(plan, target, check)

    @cached_property
    def _header(self) -> Hyperparameters | ModelFit:
        """What plans follow from, or why there are none."""
        if (found := _not_to_plan(self._model)) is not None:
            return found
        try:
            h = header_to_plan(self._model)
        except PlanError as error:
            word = "Not a language model" if error.what == NO_LANGUAGE else _UNPLANNED
            return ModelFit(None, _why(error), word=word)
        if h.block_count:
            return h
        if h.architecture in ARCHITECTURES:
            return ModelFit(None, _why(NO_LAYERS), word=_UNPLANNED)
        why = "Not a language model: there is nothing to plan."
        return ModelFit(None, why, word="Not a language model")


_UNPLANNED: Final = "No plan"
_UNREAD: Final = "Cannot be read"


def _why(error: PlanError | str) -> str:
    """Say why there is no plan, where a word beside it says that there is none."""
    return f"{sentence(plain_text(str(error)))}."


def _not_to_plan(model: Model) -> ModelFit | None:
    """Say what keeps a model from being loaded at all; None if nothing does."""
    damage, kind = model.damage, kind_of(model)
    if damage is not None:
        return ModelFit(None, f"{DAMAGED}: {plain_text(damage.what)}.", word=DAMAGED)
    if kind is not None:
        word = "Importance matrix" if is_importance_matrix(model) else "Adapter"
        return ModelFit(None, f"{plain_text(kind)}. It is not a whole model.", word=word)
    if not len(model.tensors):
        return ModelFit(None, f"{sentence(NO_WEIGHTS)}.", word="No weights")
    if (what := COMPONENTS.get(model.architecture or "")) is not None:
        word = "Projector" if model.architecture == "clip" else "Control vector"
        return ModelFit(None, f"It is {what}.", word=word)
    return None


def _fit(plan: Plan, target: Target, check: Check) -> ModelFit:
    found, why, (context, longest) = plan.verdict, answer(plan).sentence, context_of(plan, check)
    is_open = plan.request.settings.context is None
    if is_open and found.level is Level.NOT and context is not None:  # its own choice is too long
        whole = found.all_on_gpus or found.on_cpu
        found = replace(found, level=Level.FITS if whole else Level.PARTLY, short={})
        tokens, own = f"{integer_text(context)} tokens", f"{why[:1].lower()}{why[1:]}"
        why = f"Fits with at most {tokens}. What the program takes by itself {own}"
    speed = speed_here(plan, target.bandwidths)
    known = None if isinstance(speed, str) else speed
    layers = _holding(longest)
    layers = "" if found.on_cpu or layers == _holding(found) else layers
    return ModelFit(
        *(found, why, plan.engine.name, context),
        speed=known,
        context_layers=layers,
        planned_context=plan.context_asked,
    )


def _holding(found: Verdict) -> str:
    """Return "all layers", "25 layers" or "experts on the CPU"."""
    if found.expert_layers:
        return f"{found.part} on the CPU"
    return "all layers" if found.gpu_layers == found.total_layers else f"{found.gpu_layers} layers"


HEADER_BYTES: Final = 8 << 20
"""What the header of a model takes at most, as a rule: 0.65 to 6.2 MiB were measured."""


def headers_text(count: int) -> str:
    """Say what it takes to fetch the headers of so many models: "25 headers, 25 MiB to 200 MiB"."""
    what = counted(count, "header")
    return f"{what}, {bytes_text(count << 20)} to {bytes_text(count * HEADER_BYTES)}"


@dataclass(frozen=True, slots=True)
class Version:
    """What the header of one of several models says: how large it is, and how it fits a machine.

    Attributes:
        nbytes: Bytes of its files; None if it could not be opened.
        bits_per_weight: Stored bits for each weight; None if not known.
        file_type: What most weights are stored as, as the file labels itself.
        fit: How it fits, or why that cannot be said.
    """

    nbytes: int | None
    bits_per_weight: float | None
    file_type: str
    fit: ModelFit

    @property
    def bits_text(self) -> str:
        """ "4.850"; empty where it is not known."""
        return "" if self.bits_per_weight is None else bits_text(self.bits_per_weight)


def version_at(path: Path, target: Target, check: Check = never) -> Version:
    """Open one of several models, read its header and say how it fits; a failure is a sentence.

    `check` is called now and then; it raises to give up.
    """
    try:
        with open_model(path) as model:
            facts = describe(model)
            nbytes = sum(file.source.size for file in model.files)
            bits, kind = facts.bits_per_weight, plain_text(facts.file_type or "")
            try:
                fit = fit_of(model, target, check)
            except ExplorerError as error:
                fit = not_fitted(error)
            return Version(nbytes, bits, kind, fit)
    except ExplorerError as error:
        return Version(None, None, "", not_fitted(error))
