"""Downloaded models: the stores found on this machine, and what each of them holds."""

from explorer.stores.entries import (
    Blob,
    Entry,
    Part,
    PartialDownload,
    Place,
    Store,
    StoreKind,
    default_places,
    present_places,
    this_machine,
)
from explorer.stores.library import Details, identify, read_details, read_stores, scan

__all__ = [
    "Blob",
    "Details",
    "Entry",
    "Part",
    "PartialDownload",
    "Place",
    "Store",
    "StoreKind",
    "default_places",
    "identify",
    "present_places",
    "read_details",
    "read_stores",
    "scan",
    "this_machine",
]
