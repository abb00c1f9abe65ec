"""Where downloaded models lie: stores found on this machine, and what each of them holds."""

from explorer.stores.details import Details, read_details
from explorer.stores.entries import Blob, Check, Entry, PartialDownload, Store, StoreKind
from explorer.stores.library import (
    EntryFound,
    Event,
    Library,
    StoreFinished,
    StoreStarted,
    read_library,
    scan,
)
from explorer.stores.places import Place, default_places, present_places, this_machine

__all__ = [
    "Blob",
    "Check",
    "Details",
    "Entry",
    "EntryFound",
    "Event",
    "Library",
    "PartialDownload",
    "Place",
    "Store",
    "StoreFinished",
    "StoreKind",
    "StoreStarted",
    "default_places",
    "present_places",
    "read_details",
    "read_library",
    "scan",
    "this_machine",
]
