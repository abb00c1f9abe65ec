"""llama.cpp's cache: flat files in older versions, the hub cache's layout since 2026.

safetensors_and_blobs.md section 6. One folder may hold both, after an update.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from explorer.stores.entries import Check, Entry, Store, StoreKind
from explorer.stores.folders import scan_folder
from explorer.stores.huggingface import is_hub_cache, scan_hub_cache


def scan_llama_cpp(root: Path, check: Check) -> Generator[Entry, None, Store]:
    """Read a cache; yield models as they are found, and return the store.

    Folders in it are not searched: ``rpc`` holds tensors of other machines' models.

    Args:
        root: The folder.
        check: Called now and then; raises to give up.
    """
    flat = yield from scan_folder(StoreKind.LLAMA_CPP, root, check, deep=False)
    if not is_hub_cache(root):
        return flat
    hub = yield from scan_hub_cache(root, check, StoreKind.LLAMA_CPP)
    return replace(
        hub,
        entries=flat.entries + hub.entries,
        partials=flat.partials + hub.partials,
        problems=flat.problems + hub.problems,
    )
