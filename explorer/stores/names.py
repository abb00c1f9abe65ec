"""From a model's name to its manifest: ``ollama:NAME[:TAG]``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from explorer.errors import SourceError, unreadable_reason
from explorer.formats.bounded_json import shorten
from explorer.formats.ollama.manifest import MANIFESTS
from explorer.formats.ollama.name import SCHEME, OllamaName, parse_name
from explorer.stores.entries import StoreKind
from explorer.stores.library import read_library
from explorer.stores.ollama import models_folder
from explorer.stores.places import Place

_SHOWN = 5


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
            path = models_folder(root).joinpath(MANIFESTS, *name.parts)
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
    for part in name.parts:
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
    library = read_library([Place(StoreKind.OLLAMA, root) for root in roots])
    known = [entry.name for store in library.stores for entry in store.entries]
    near = get_close_matches(str(name), known, n=_SHOWN) or known[:_SHOWN]
    hint = f"; there are: {', '.join(map(shorten, near))}" if near else ""
    places = ", ".join(map(str, roots)) or "no folder"
    return SourceError(f"the Ollama store ({places}) has no model {str(name)!r}{hint}")
