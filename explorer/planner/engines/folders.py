"""What plans of a folder share, whichever program loads it: how sure they are, layers and sums."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from explorer.errors import PlanError
from explorer.parallel import Check, never
from explorer.planner.devices import CPU, MIB, Device
from explorer.planner.folder import Folder
from explorer.planner.hyperparameters import Hyperparameters
from explorer.planner.plans import (
    Accuracy,
    Details,
    Effective,
    Engine,
    Holding,
    Layer,
    Level,
    NamedBuffer,
    Number,
    Plan,
    Range,
    Term,
    Verdict,
    sum_term,
    term,
)
from explorer.planner.request import PlanRequest
from explorer.planner.searching import largest_held
from explorer.text import integer_text

TERM_NAMES: Final = MappingProxyType(
    {"cache": "kv_cache", "compute": "graph", "reserve": "reserved"}
)
"""Part of a holding → the name of its figure."""

CUDA_CONTEXT: Final = Range(50 * MIB, 600 * MIB)
"""CUDA's context, workspaces and kernels: what logs of vLLM leave over; 595 MiB on an H200."""

TOWERS: Final = "its vision or audio encoder"
"""What of a model that sees or hears is not known of any program."""

_HELD: Final = ("weights", "kv_cache", "graph")
_FIGURES: Final = (*_HELD, "reserved")


class FolderEngine(Engine):
    """A program that loads safetensors as they are."""

    most_parallel = 1
    is_timed = False

    @abstractmethod
    def check(self, folder: Folder) -> None:
        """Raise `PlanError` if the program refuses a model, or makes of it what is not known."""

    @abstractmethod
    def outcome(self, request: PlanRequest, folder: Folder) -> FolderDetails:
        """Return what the program makes of a request; raise `PlanError` where it refuses it."""

    def model_of(self, h: Hyperparameters) -> Folder | None:
        """Return the headers of the files that it loads; None where there are none."""
        return h.folder

    def unknown_of(self, folder: Folder) -> str:
        """Return what of a plan is not known; empty where all is."""
        del folder
        return ""

    def refusal(self, h: Hyperparameters) -> str:
        """Refuse what is no folder, and what the program refuses or nobody knows of it."""
        folder = self.model_of(h)
        if folder is None:
            return f"{self.short_title} loads folders of safetensors with their config.json"
        try:
            self.check(folder)
        except PlanError as error:
            return error.what
        return ""

    def unknown(self, h: Hyperparameters) -> str:
        """Return what of a model's plan is not known."""
        folder = self.model_of(h)
        return "" if folder is None else self.unknown_of(folder)

    def largest(self, request: PlanRequest, check: Check = never) -> int:
        """Return the largest context that has room at the high end; 0 where none has."""
        folder = self.model_of(request.h)
        if folder is None:
            return 0

        def room(context: int) -> int | None:
            check()
            try:
                return self.outcome(request.asking(context=context), folder).used[0].room
            except PlanError:  # a quantized cache that fails from so many tokens on
                return None

        return largest_held(room, folder.trained)

    def context_as_placed(self, plan: Plan, check: Check) -> int | None:
        """Return the largest context that has room: all layers are in one place."""
        return self.largest(plan.request, check) or None

    def plan(self, request: PlanRequest) -> Plan:
        """Return the plan."""
        refusal, folder = self.refusal(request.h), self.model_of(request.h)
        if refusal or folder is None:
            raise PlanError(refusal)
        made = self.outcome(request, folder)
        return Plan(
            engine=self,
            request=request,
            effective=made.effective,
            holdings=made.holdings,
            verdict=made.verdict,
            cache=made.cache,
            cells=made.context,
            details=made,
            notes=tuple(made.notes()),
            warnings=(*request.h.warnings, *made.warnings()),
        )


class Formula(NamedTuple):
    """How a figure is worked out, and its inputs with where they came from."""

    text: str
    inputs: Mapping[str, tuple[Number, str]]


def stated(size: int, origin: str) -> Formula:
    """Return the formula of a figure that is one size."""
    return Formula("size", {"size": (size, origin)})


@dataclass(frozen=True)
class FolderDetails(Details):
    """What an engine works out of a folder's headers."""

    key: ClassVar[str]  # the name of its object in JSON
    request: PlanRequest
    folder: Folder

    # What each engine says

    @property
    def context(self) -> int:
        """Tokens of a request."""
        raise NotImplementedError

    @property
    def cache(self) -> int:
        """Bytes of the cache."""
        raise NotImplementedError

    @property
    def layer_weights(self) -> Sequence[int]:
        """Bytes of the weights of each layer, and last of all that is in none."""
        raise NotImplementedError

    @property
    def effective(self) -> Mapping[str, Effective]:
        """Setting → the value that holds."""
        raise NotImplementedError

    @property
    def holdings(self) -> tuple[Holding, ...]:
        """One for each GPU, the last for main memory."""
        raise NotImplementedError

    @property
    def verdict(self) -> Verdict:
        raise NotImplementedError

    def formulas(self, held: Holding) -> Mapping[str, Formula]:
        """Return how the figures of a holding are worked out, by the end of their names."""
        raise NotImplementedError

    def figures(self) -> Mapping[str, Any]:
        """Return what JSON has of this engine alone."""
        raise NotImplementedError

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know."""
        raise NotImplementedError

    def warnings(self) -> Iterator[str]:
        """Yield what makes the figures doubtful."""
        raise NotImplementedError

    # What they share

    @property
    def accuracy(self) -> Accuracy:
        """Weights and cache are exact, the rest is a range; both only where runs confirm them."""
        return Accuracy.BAND if self.folder.is_confirmed else Accuracy.ESTIMATE

    @property
    def used(self) -> tuple[Holding, ...]:
        """The memories that hold the model."""
        return tuple(held for held in self.holdings if held.layers)

    def judged(self, level: Level, short: Mapping[int, int], depends_on: str) -> Verdict:
        """Return a verdict of all layers together: these programs divide none between devices."""
        total, on_gpu = self.folder.layers + 1, self.used[0].device is not None
        return Verdict(
            level=level,
            gpu_layers=total if on_gpu else 0,
            total_layers=total,
            on_cpu=not on_gpu,
            all_on_gpus=on_gpu,
            short=short if level is Level.NOT else {},
            free=sum(max(0, held.room or 0) for held in self.used) if on_gpu else 0,
            is_exact=False,
            depends_on=depends_on if level is Level.PARTLY else "",
        )

    def beyond_training(self, context: int) -> Iterator[str]:
        """Yield a warning of a context that is longer than the model was trained for."""
        most = self.folder.number("max_position_embeddings", default=0)
        if 0 < most < context:
            yield (
                f"the model was trained for {integer_text(most)} tokens. The program takes "
                f"{integer_text(context)}, but answers get worse beyond"
            )

    def device_of(self, layer: int) -> int | None:
        """Return the number of the GPU that has a layer, or None for the CPU."""
        del layer
        return 0 if self.holdings[0].device is not None else None

    def layers(self) -> Iterator[Layer]:
        """Yield every layer with its weights, the output last, with all that is in no layer."""
        *each, rest = self.layer_weights
        for i, (size, cache) in enumerate(zip(each, self.layer_caches(), strict=True)):
            yield Layer(i, f"blk.{i}", size, cache, self.device_of(i))
        yield Layer(len(each), "output", rest, 0, self.device_of(len(each)))

    def layer_caches(self) -> Sequence[int]:
        """Return an equal part of the cache for each layer."""
        return self._shared(self.cache)

    def _shared(self, nbytes: int) -> Sequence[int]:
        share, rest = divmod(nbytes, self.folder.layers)
        return [share + (i < rest) for i in range(self.folder.layers)]

    def weights_read(self) -> Sequence[int]:
        """Return what a token reads of each layer, and last of the output, on one of its GPUs."""
        return self.folder.read_bytes()

    def cache_read(self, depth: int) -> Sequence[int]:
        """Return what a token reads of each layer's cache of so many tokens, on one of its GPUs."""
        raise NotImplementedError

    def reads(self, depth: int) -> Mapping[str, int]:
        """Return what a token reads; of GPUs that share layers, which read at once, the first."""
        found = Counter[str]()
        parts = zip_longest(self.weights_read(), self.cache_read(depth), fillvalue=0)
        for layer, sizes in enumerate(parts):
            gpu = self.device_of(layer)
            found[CPU if gpu is None else f"GPU{gpu}"] += sum(sizes)
        return found

    def buffers(self) -> list[NamedBuffer]:
        """Return what each memory holds that has layers."""
        return [
            NamedBuffer(
                "CPU" if held.device is None else f"GPU{i}",
                held.weights,
                held.cache,
                held.compute,
                held.reserve.high or None,
            )
            for i, held in enumerate(self.holdings)
            if held.layers
        ]

    def record(self) -> dict[str, Any]:
        """Return the objects `graph` and of the engine's own name of docs/interface.md."""
        compute = max(held.compute.high for held in self.used)
        graph = {"partial": None, "full": compute, "used": "full"}  # they have one figure
        return {"graph": graph, self.key: dict(self.figures())}

    def terms(self) -> Iterator[Term]:
        """Yield the figures of each memory with their formulas, and the sums."""
        for held in self.holdings:
            if held.layers:
                yield from self._terms_of(held)
            else:
                yield from (term(f"{held.place}.{name}", 0, "0") for name in (*_FIGURES, "total"))
        gpus = [held.total for held in self.holdings[:-1]]
        yield sum_term("vram_total", gpus, "devices[*].total")
        totals = [held.total for held in self.holdings]
        yield sum_term("total", totals, "devices[*].total, cpu.total")

    def _terms_of(self, held: Holding) -> Iterator[Term]:
        sizes = (held.weights, held.cache, held.compute.high, held.reserve.high)
        how = {"reserved": stated(sizes[-1], "nothing is held back")} | dict(self.formulas(held))
        for name, size in zip(_FIGURES, sizes, strict=True):
            yield term(f"{held.place}.{name}", size, how[name].text, **how[name].inputs)
        parts = {
            one: (size, f"{held.place}.{one}") for one, size in zip(_HELD, sizes, strict=False)
        }
        yield term(f"{held.place}.total", held.total, " + ".join(parts), **parts)


def not_used(devices: Sequence[Device], first: int) -> Iterator[Holding]:
    """Yield holdings of the GPUs from a number on, of which a program uses none."""
    for number, device in enumerate(devices[first:], first):
        yield Holding(device, f"devices[{number}]", device.free, is_used=False, terms=TERM_NAMES)
