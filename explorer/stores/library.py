"""Every store found: a scan as a stream of events, and what it comes to.

Listing reads folders and manifests only, never a model, so that thousands of models are listed
while one waits. What a model is, `details.py` finds out for one entry at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from explorer.stores.entries import Check, Entry, Store, StoreKind
from explorer.stores.folders import scan_folder
from explorer.stores.huggingface import scan_hub_cache
from explorer.stores.llama_cpp import scan_llama_cpp
from explorer.stores.ollama import scan_ollama
from explorer.stores.places import Place


@dataclass(frozen=True, slots=True)
class StoreStarted:
    """A store is being read."""

    place: Place


@dataclass(frozen=True, slots=True)
class EntryFound:
    """A model was found in the store that started last."""

    place: Place
    entry: Entry


@dataclass(frozen=True, slots=True)
class StoreFinished:
    """A store was read; its entries have been told one by one."""

    place: Place
    store: Store


Event: TypeAlias = StoreStarted | EntryFound | StoreFinished


@dataclass(frozen=True, slots=True)
class Library:
    """All stores, in the order in which they were read."""

    stores: tuple[Store, ...] = ()

    @property
    def entry_count(self) -> int:
        """Number of models in all stores."""
        return sum(len(store.entries) for store in self.stores)

    @property
    def nbytes(self) -> int:
        """Bytes on disk of all stores; what models of one store share counts once."""
        return sum(store.nbytes for store in self.stores)


def scan(places: Iterable[Place], check: Check = lambda: None) -> Iterator[Event]:
    """Read stores one after the other.

    Args:
        places: The stores to read. One that is not there is a store with a problem.
        check: Called now and then; what it raises ends the scan.

    Yields:
        What happens, as it happens.
    """
    for place in places:
        check()
        yield StoreStarted(place)
        entries = _scanner(place, check)
        while True:
            try:
                entry = next(entries)
            except StopIteration as stop:
                store: Store = stop.value
                break
            yield EntryFound(place, entry)
        yield StoreFinished(place, store)


def read_library(places: Iterable[Place], check: Check = lambda: None) -> Library:
    """Read stores and return what they hold; see `scan`."""
    events = scan(places, check)
    return Library(tuple(event.store for event in events if isinstance(event, StoreFinished)))


def _scanner(place: Place, check: Check) -> Generator[Entry, None, Store]:
    match place.kind:
        case StoreKind.OLLAMA:
            return scan_ollama(place.root, check)
        case StoreKind.HUGGINGFACE:
            return scan_hub_cache(place.root, check)
        case StoreKind.LLAMA_CPP:
            return scan_llama_cpp(place.root, check)
        case _:
            return scan_folder(place.kind, place.root, check)
