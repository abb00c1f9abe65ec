"""What formats ask of a place, a path of this machine or an address: open, list, look.

An address has no links, and only a repository of the hub can be listed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, SourceError
from explorer.parallel import Check, current_check, map_in_order
from explorer.sources.files import ByteSource, FileSource
from explorer.sources.remote.addresses import HUB, Address, HubPart, check_allowed
from explorer.sources.remote.requests import counting, current_opening


def open_source(path: Path, first_bytes: int | None = None, *, whole: bool = False) -> ByteSource:
    """Open a file, or what an address names.

    Args:
        path: Where it is.
        first_bytes: How much of an address to fetch at first, if more or less than usual is needed.
        whole: Whether all of it will be read: then an address is fetched at once, up to a limit.

    Raises:
        SourceError: It is missing, unreadable, or not a regular file.
    """
    if not isinstance(path, Address):
        return FileSource(path)
    prepared: ByteSource | None = getattr(_ahead, "take", lambda _: None)(path)
    if prepared is not None:
        return prepared
    check_allowed(path)
    from explorer.sources.remote import source  # noqa: PLC0415 - only where an address was given

    sizes = [] if first_bytes is None else [first_bytes]
    return source.open_address(path, *sizes, whole=whole)


_AT_ONCE: Final = 8  # requests; a model may have hundreds of files
_ahead = threading.local()  # `take`: gives what was opened ahead in this thread's block


@contextmanager
def opening_ahead(paths: Iterable[Path], first_bytes: int | None = None) -> Iterator[None]:
    """Fetch several addresses at a time while the block opens them with `open_source`, in order.

    Files of this machine are left to the block. An error is raised where it is opened.

    Args:
        paths: What will be opened, in this order; it need not be opened in the end.
        first_bytes: See `open_source`.
    """
    wanted = dict.fromkeys(path for path in paths if isinstance(path, Address))
    if len(wanted) < 2:
        yield
        return
    outcomes: dict[Address, ByteSource | ExplorerError] = {}
    opening = current_opening()
    if opening is not None:
        opening.expect(len(wanted))

    def open_one(path: Address, _: Check) -> ByteSource | ExplorerError:
        try:
            with counting(opening):
                return open_source(path, first_bytes)
        except ExplorerError as error:
            return error

    def take(path: Address) -> ByteSource | None:
        while path in wanted and path not in outcomes:
            outcomes.update([next(results)])
        wanted.pop(path, None)
        outcome = outcomes.pop(path, None)
        if isinstance(outcome, ExplorerError):
            raise outcome
        return outcome

    check = current_check()
    with map_in_order(
        list(wanted), open_one, workers=_AT_ONCE, check=check, waiting=check
    ) as results:
        _ahead.take = take
        try:
            yield
        finally:
            del _ahead.take
            for outcome in outcomes.values():
                if isinstance(outcome, ByteSource):
                    outcome.close()


def list_names(folder: Path) -> list[str]:
    """Return the names of what lies in a folder, or at an address of the hub.

    Raises:
        OSError: The folder cannot be listed.
        SourceError: The hub cannot be asked; or the address is not one of the hub.
    """
    if not isinstance(folder, Address):
        return os.listdir(folder)
    if folder.scheme != HUB:
        raise SourceError("is on a server that lists no files", folder)
    return [name for name in names_below(folder) if "/" not in name]


def names_below(folder: Address) -> list[str]:
    """Return the paths of all files of a folder of the hub, those of its folders too.

    Raises:
        SourceError: See `list_names`.
    """
    check_allowed(folder)
    from explorer.sources.remote import hub  # noqa: PLC0415 - only where an address was given

    place = HubPart.of(folder).file
    inside = f"{place}/" if place else ""
    return [
        name.removeprefix(inside) for name in hub.listing(folder).sizes if name.startswith(inside)
    ]


def tags_of(name: Address) -> list[str]:
    """Return the tags of a model of a registry; none where the registry lists no tags.

    Args:
        name: ``ollama://HOST/NAMESPACE/MODEL``.

    Raises:
        FormatError: The list is not what the protocol says.
        SourceError: The registry cannot be asked.
    """
    check_allowed(name)
    from explorer.sources.remote import hub  # noqa: PLC0415 - as above

    return hub.tags(name)


def size_of(path: Path) -> int:
    """Return the bytes of a file; of an address what its hub lists, 0 where nothing does.

    Raises:
        OSError: The file cannot be looked at.
        SourceError: See `list_names`.
    """
    if not isinstance(path, Address):
        return path.stat().st_size
    if path.scheme != HUB:
        return 0
    check_allowed(path)
    from explorer.sources.remote import hub  # noqa: PLC0415 - as above

    return hub.listing(path).sizes.get(HubPart.of(path).file) or 0


def exists(path: Path) -> bool:
    """Return whether a side file is there; of servers that list no files, it never is.

    Raises:
        OSError: The folder may not be searched.
        SourceError: See `list_names`.
    """
    if not isinstance(path, Address):
        return path.exists()
    return path.scheme == HUB and path.name in list_names(path.parent)
