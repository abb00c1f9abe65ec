"""Facts of headers that were read before: a second look at a library opens no model.

With them lies what others made of a model: whether it fits a machine. They lie in one file of the
user's guarded folder, by the identity of all files that a model was read from: device, number,
size, and the times of the last change of content and of anything at all. Nobody can set the latter
on Linux and macOS. A model whose files changed in the last seconds is read again the next time,
because a change after that may leave the same times. What could not be opened is never kept.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from explorer import __version__
from explorer.errors import ExplorerError
from explorer.formats.model import Problem, Severity
from explorer.formats.ollama.manifest import is_manifest_path
from explorer.parallel import Check, never
from explorer.private_folder import PrivateFolder, warn
from explorer.stores.entries import Entry
from explorer.stores.library import Details, read_header, with_problems
from explorer.stores.ollama import manifest_blobs

_FILE_NAME: Final = "headers.json"
_MAX_BYTES: Final = 32 << 20
_MOST_TEXT: Final = 4096  # of the problems of a model: a hostile file may have thousands
_MOST_FILES: Final = 256  # of a model
_MOST_MODELS: Final = 10_000
_SETTLED_S: Final = 2.0  # the coarsest clock of a file system (FAT)

Made = TypeVar("Made")


@contextmanager
def known_headers(
    folder: PrivateFolder | None = None,
) -> Iterator[Callable[[Entry, Check], Details]]:
    """Give a function like `read_details` that opens only what changed; what it read is kept."""
    headers = _Headers(folder or PrivateFolder("library"))
    try:
        yield headers.details
    finally:
        headers.save()


class Memo(NamedTuple, Generic[Made]):
    """What is made of models and kept beside their headers, one of it for each.

    Attributes:
        key: All that it follows from but the files that a model is read from.
        make: Makes it of an entry.
        record: Returns it as JSON holds it; None for what is not to be kept.
        restore: Returns what a record says; None of what `record` did not return.
    """

    key: str
    make: Callable[[Entry, Check], Made]
    record: Callable[[Made], object]
    restore: Callable[[object], Made | None]


@contextmanager
def known_before(
    memo: Memo[Made], folder: PrivateFolder | None = None
) -> Iterator[Callable[[Entry, Check], Made]]:
    """Give what makes something of a model only where header, files or key are not those before."""
    headers = _Headers(folder or PrivateFolder("library"))
    try:
        yield lambda entry, check: headers.made(memo, entry, check)
    finally:
        headers.save()


class _Headers:
    def __init__(self, folder: PrivateFolder) -> None:
        self._folder = folder
        self._known = self._load()
        self._changed = False

    def details(self, entry: Entry, check: Check = never) -> Details:
        check()
        identity = [] if entry.format is None else _identity(entry)
        kept = self._known.pop(str(entry.path), None)
        found = None
        if kept is not None and identity and kept.get("files") == identity:
            found = _details(kept)
        if kept is not None and found is not None:
            self._known[str(entry.path)] = kept  # behind all that were not used since
            return with_problems(entry, found)
        found = read_header(entry, check)
        self._changed = True
        if _is_settled(identity) and _is_sound(found) and _identity(entry) == identity:
            self._known[str(entry.path)] = _record(found) | {"files": identity}
        return with_problems(entry, found)

    def made(self, memo: Memo[Made], entry: Entry, check: Check) -> Made:
        check()
        kept = self._known.get(str(entry.path), {})
        identity = _identity(entry) if kept else []
        is_same = bool(identity) and kept.get("files") == identity
        if is_same and kept.get("key") == memo.key:
            found = memo.restore(kept.get("made"))
            if found is not None:
                return found
        made = memo.make(entry, check)  # of a file that changes now, the next look sees the change
        record = memo.record(made) if is_same else None
        if record is not None:
            kept |= {"key": memo.key, "made": record}
            self._changed = True
        return made

    def _load(self) -> dict[str, Any]:
        try:
            content = self._folder.read(_FILE_NAME, _MAX_BYTES)
            found = {} if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError):
            return {}
        is_ours = isinstance(found, dict) and found.get("version") == __version__
        models = found.get("models") if is_ours else None
        if not isinstance(models, dict):
            return {}
        return {key: one for key, one in models.items() if isinstance(one, dict)}

    def save(self) -> None:
        """Write what is known, if that is more than before."""
        if not self._changed:
            return
        kept = dict(list(self._known.items())[-_MOST_MODELS:])
        content = json.dumps({"version": __version__, "models": kept}).encode()
        if len(content) <= _MAX_BYTES:
            try:
                self._folder.write(_FILE_NAME, content)
            except OSError as error:
                warn(error)


def _is_settled(identity: list[list[int]]) -> bool:
    """Return whether a change from now on would be seen in the times of the files."""
    newest = max((number for one in identity for number in one[-2:]), default=None)
    return newest is not None and time.time() - newest / 1e9 > _SETTLED_S


def _is_sound(found: Details) -> bool:
    """Return whether a model was opened, and not more is said of it than is worth keeping."""
    problems = (*found.problems, *found.refusals)
    return found.opened and sum(len(one.where) + len(one.what) for one in problems) <= _MOST_TEXT


def _identity(entry: Entry) -> list[list[int]]:
    """Return what tells whether all files that a model is read from are those of before.

    Empty if there are too many, or one cannot be looked at.
    """
    found = []
    try:
        for path in islice(_files(entry), _MOST_FILES + 1):
            for one in (os.stat(path), os.lstat(path)):  # of what a link leads to, and of itself
                times = one.st_mtime_ns, one.st_ctime_ns
                found.append([one.st_dev, one.st_ino, one.st_size, *times])
    except (OSError, ExplorerError):
        return []
    return found if len(found) <= 2 * _MOST_FILES else []


def _files(entry: Entry) -> Iterator[Path]:
    yield entry.path
    if is_manifest_path(entry.path):
        yield from (path for _, path, _ in manifest_blobs(entry.path))
        return
    folder = entry.path if entry.path.is_dir() else entry.path.parent
    if entry.format == "gguf" and folder != entry.path and "-of-" not in entry.path.name:
        return
    yield folder  # shards, configurations, tokens: whatever lies beside it
    for place, folders, names in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *sorted(names)))


def _record(found: Details) -> dict[str, Any]:
    return {
        "facts": [found.architecture, found.parameters, found.file_type, found.main_type],
        "problems": [[one.severity, one.where, one.what] for one in found.problems],
        "refusals": [[one.severity, one.where, one.what] for one in found.refusals],
    }


def _details(record: dict[str, Any]) -> Details | None:
    """Return kept details; None of what `_record` did not make."""
    try:
        architecture, parameters, file_type, main_type = record["facts"]
        texts = (architecture, file_type, main_type)
        if not all(text is None or isinstance(text, str) for text in texts):
            return None
        if not (parameters is None or type(parameters) is int):
            return None
        problems, refusals = (
            tuple(Problem(Severity(level), str(where), str(what)) for level, where, what in each)
            for each in (record["problems"], record["refusals"])
        )
    except (KeyError, TypeError, ValueError):
        return None
    return Details(architecture, parameters, file_type, problems, refusals, main_type)
