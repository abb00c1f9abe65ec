"""Files that are no whole models: what each is, which models of its folder it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.formats.attachments import is_importance_matrix, known_names
from explorer.formats.model import Model
from explorer.parallel import Check, never
from explorer.planner.attachments import models_beside, projected_width
from explorer.present.model import kind_of
from explorer.sources import Address
from explorer.text import counted, plain_text, shorten

_LONGEST: Final = 60  # characters of a file's name
_TOKENS: Final = "tokenizer.ggml.tokens"
_COMPONENTS: Final = {
    "clip": "A projector (mmproj): it lets a language model see pictures or hear sound",
    "controlvector": "A control vector: it steers what a model writes",
}

_ACTIONS: Final = {
    "planner": ("Plan ", " with it"),
    "what_if": ("Compare types for ", " with it"),
    "compare": ("Compare it with ", ""),
}

Page: TypeAlias = Literal["planner", "what_if", "compare"]
Pairing: TypeAlias = Callable[[Model], bool]


@dataclass(frozen=True, slots=True)
class Belonging:
    """A file that is no whole model.

    Attributes:
        what: What it is, as a sentence without its point.
        models: Models of its folder that it belongs to; None where they were not looked for.
        page: Where one of them is shown with it.
    """

    what: str
    models: tuple[Path, ...] | None
    page: Page

    @property
    def sentence(self) -> str:
        """Say what it is, and to what it belongs."""
        if not self.models:
            missing = "" if self.models is None else " No model in its folder goes with it."
            return f"{self.what}.{missing}"
        name, more = _name(self.models[0]), len(self.models) - 1
        others = f" and to {counted(more, 'other model')}" if more else ""
        return f"{self.what}. It belongs to {name}{others} in its folder."

    @property
    def action(self) -> str:
        """The words of the button; empty where no model was found."""
        if not self.models:
            return ""
        return _name(self.models[0]).join(_ACTIONS[self.page])


def _name(path: Path) -> str:
    return shorten(plain_text(path.name), _LONGEST)


def belonging_of(model: Model, check: Check = never) -> Belonging | None:
    """Return what a file is that is no whole model, and what it belongs to; None of a model.

    Headers of its folder are read, so call it in a worker; `check` is called for each of them, and
    raises to stop.
    """
    found = _pairing(model)
    if found is None:
        return None
    what, page, pairs = found
    if model.format != "gguf" or isinstance(model.path, Address):
        return Belonging(what, None, page)
    beside = models_beside(model.path, check)
    return Belonging(what, tuple(path for path in beside if _goes(path, pairs)), page)


def _goes(path: Path, pairs: Pairing) -> bool:
    try:
        with open_model(path) as model:
            return _pairing(model) is None and pairs(model)
    except ExplorerError:  # a file that is damaged, or of another kind, is not proposed
        return False


def _pairing(model: Model) -> tuple[str, Page, Pairing] | None:
    """Return what a file is, where it is used, and whether a model goes with it."""
    kind = kind_of(model)
    if is_importance_matrix(model):
        names = known_names(model)
        return plain_text(kind or ""), "what_if", lambda one: names <= _names(one)
    if kind is not None:
        changed = {name.rpartition(".lora_")[0] for name in model.tensors.columns.names}
        own = model.architecture
        return (
            plain_text(kind),
            "planner",
            lambda one: one.architecture == own and changed <= _names(one),
        )
    component = _COMPONENTS.get(model.architecture or "")
    if component is not None:
        width = projected_width(model)
        return component, "planner", lambda one: width in (None, _width(one))
    tokens = _tokens(model)
    if len(model.tensors) or not tokens:
        return None
    what = f"A vocabulary of {counted(tokens, 'token')}, without weights"
    return what, "compare", lambda one: _tokens(one) == tokens


def _names(model: Model) -> set[str]:
    return set(model.tensors.columns.names)


def _tokens(model: Model) -> int:
    entry = model.metadata.entry(_TOKENS)
    return 0 if entry is None else entry.length or 0


def _width(model: Model) -> int:
    return model.metadata.integer(f"{model.architecture}.embedding_length") or 0
