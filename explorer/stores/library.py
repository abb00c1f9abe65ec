"""All stores: scan them, read details of one model, find a model by its name.

A scan reads folders and manifests only, never a model: thousands of models are listed in a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, SourceError, unreadable_reason
from explorer.formats import Problem, Severity, open_model
from explorer.formats.facts import describe
from explorer.formats.gguf.llama_cpp import llama_cpp_problems
from explorer.formats.ollama.manifest import MANIFESTS, SCHEME, OllamaName, parse_name
from explorer.formats.ollama.open import open_manifest
from explorer.model_files import GGUF_MAGIC
from explorer.parallel import Check, never
from explorer.sources import FileSource
from explorer.stores.entries import Entry, Part, Place, Store, StoreKind
from explorer.stores.folders import Scan, folder_models
from explorer.stores.huggingface import hub_models, llama_cpp_models
from explorer.stores.ollama import models_folder, ollama_models
from explorer.text import integer_text, listed, quoted

_SHOWN = 5
_FINDERS: Final = {
    StoreKind.OLLAMA: ollama_models,
    StoreKind.HUGGINGFACE: hub_models,
    StoreKind.LLAMA_CPP: llama_cpp_models,
}


def scan(places: Iterable[Place], check: Check = never) -> Iterator[tuple[Place, Entry | Store]]:
    """Read stores one after the other.

    Args:
        places: The stores to read. One that is not there is a store with a problem.
        check: Called now and then; what it raises ends the scan.

    Yields:
        Each model as it is found, and after the models of a store the store itself.
    """
    for place in places:
        check()
        find = _FINDERS.get(place.kind, folder_models)
        for found in Scan(place.kind, place.root, check).run(find):
            yield place, found


def read_stores(places: Iterable[Place]) -> list[Store]:
    """Read stores and return what they hold, in their order; see `scan`."""
    return [found for _, found in scan(places) if isinstance(found, Store)]


@dataclass(frozen=True, slots=True)
class Details:
    """Facts of a model's header. What is not known is None."""

    architecture: str | None = None  # as the file names it; of a checkpoint the models in it
    parameters: int | None = None  # number of weights
    file_type: str | None = None  # type of most weights
    problems: tuple[Problem, ...] = ()  # what is wrong with the model, those of its entry included
    refusals: tuple[Problem, ...] = ()  # why llama.cpp would not read it
    main_type: str | None = None  # the tensor type that most of its bytes are in
    opened: bool = True  # whether it could be opened


def read_details(entry: Entry, check: Check = never) -> Details:
    """Open a model and return its facts; a failure to open it is a problem.

    Args:
        entry: An entry of a store.
        check: Called before each file is opened; raises to cancel.
    """
    return with_problems(entry, read_header(entry, check))


def with_problems(entry: Entry, found: Details) -> Details:
    """Return facts with the problems of their entry, which are not said twice."""
    known = {(problem.severity, problem.where) for problem in entry.problems}
    new = (one for one in found.problems if (one.severity, one.where) not in known)
    return replace(found, problems=(*entry.problems, *new))


def read_header(entry: Entry, check: Check = never) -> Details:
    """Open a model and return its facts, without what the scan found; see `read_details`."""
    if entry.format is None:  # nothing there to open
        return Details(opened=False)
    check()
    try:
        # an Ollama model may have thousands of blobs
        is_ollama = entry.format == "ollama"
        with open_manifest(entry.path, check) if is_ollama else open_model(entry.path) as model:
            facts = describe(model)
            problems = model.problems
            refusals = tuple(llama_cpp_problems(model, check))
    except ExplorerError as error:
        problem = Problem(Severity.ERROR, entry.name, error.without_path)
        return Details(problems=(problem,), opened=False)
    # a checkpoint of several models has no architecture, but says what it has
    parts = listed((one.name for one in facts.components), _SHOWN)
    known_facts = facts.architecture or parts or None, facts.parameters, facts.file_type
    main_type = facts.types[0].name if facts.types else None  # they have most bytes first
    return Details(*known_facts, problems, refusals, main_type)


_SNIFFED: Final = 4096  # bytes of a text that say what it is
_OF_JSON: Final = {  # a field, what a file with it is
    **{"rootfs": "config", "model_format": "config", "model_family": "config"},
    **{"stop": "params", "temperature": "params", "num_ctx": "params", "top_p": "params"},
}


def identify(path: Path, check: Check = never) -> Part:
    """Say what a file of a store is by its content, where no model names it; reads its beginning.

    Of a model the header is read, so that it has its name. A failure is a part without a kind.

    Args:
        check: Called before it is opened; raises to cancel.
    """
    check()
    try:
        with FileSource(path) as source:
            start = source.read(0, min(source.size, _SNIFFED))
        if start.startswith(GGUF_MAGIC) or start[8:9] == b"{":
            return _identify_model(path)
    except ExplorerError as error:
        return Part("", error.without_path)
    text = start.decode("utf-8", "replace")
    if "{{" in text:
        return Part("template")
    if text.lstrip()[:1] in {"{", "["}:
        kinds = (kind for field, kind in _OF_JSON.items() if f'"{field}"' in text)
        return Part("messages" if '"role"' in text else next(kinds, "json"))
    words = text.casefold()
    if any(word in words for word in ("license", "licence", "copyright", "terms of use")):
        return Part("license")
    return Part("system" if "\ufffd" not in text and "\0" not in text else "")


def _identify_model(path: Path) -> Part:
    with open_model(path) as model:
        facts = describe(model)
        if model.format == "safetensors":
            return Part("tensor", next(iter(model.tensors.columns.names), ""))
        kind = "projector" if facts.architecture == "clip" else "model"
        known = (facts.name, facts.architecture, facts.file_type)
        return Part(kind, ", ".join(text for text in known if text))


def resolve(text: str, roots: Sequence[Path]) -> Path:
    """Return the manifest of a named model, from the first store that has it.

    Args:
        text: ``ollama:NAME[:TAG]``.
        roots: The stores to look into.

    Raises:
        FormatError: The name is not a valid one.
        SourceError: No store has the model, or a store cannot be read.
    """
    name = parse_name(text.removeprefix(SCHEME))
    failure: SourceError | None = None
    for root in roots:
        try:
            path = models_folder(root).joinpath(MANIFESTS, *name)
            os.stat(path)
        except FileNotFoundError:
            found = _other_case(root, name)
            if found is not None:
                return found
        except OSError as error:
            what = f"the store cannot be read: {unreadable_reason(error)}"
            failure = failure or SourceError(what, root)
        else:
            return path
    raise failure or _not_found(name, roots)


def _other_case(root: Path, name: OllamaName) -> Path | None:
    """Find a name whose letters differ in case only, as Ollama does."""
    path = models_folder(root) / MANIFESTS
    for part in name:
        try:
            names = os.listdir(path)
        except OSError:
            return None
        same = [found for found in names if found.casefold() == part.casefold()]
        if not same:
            return None
        path /= part if part in same else same[0]
    return path


def _not_found(name: OllamaName, roots: Sequence[Path]) -> SourceError:
    stores = read_stores([Place(StoreKind.OLLAMA, root) for root in roots])
    known = dict.fromkeys(entry.name for store in stores for entry in store.entries)
    first = get_close_matches(str(name), known, n=_SHOWN, cutoff=0.0)  # all, the nearest first
    more = f" and {integer_text(len(known) - _SHOWN)} more" if len(known) > _SHOWN else ""
    hint = f". There are: {', '.join(map(quoted, first))}{more}" if first else ""
    places = ", ".join(map(str, roots)) or "no folder"
    return SourceError(f"the Ollama store ({places}) has no model {str(name)!r}{hint}")
