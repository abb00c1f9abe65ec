"""Where downloaded models lie: stores found on this machine, and what each of them holds."""

from explorer.stores.entries import (
    Blob,
    Check,
    Entry,
    PartialDownload,
    Place,
    Store,
    StoreKind,
    default_places,
    present_places,
    this_machine,
)
from explorer.stores.library import (
    Details,
    EntryFound,
    Event,
    Library,
    StoreFinished,
    StoreStarted,
    read_details,
    read_library,
    scan,
)

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
