"""Models of several files: a Hugging Face folder, or a safetensors index.

docs/safetensors_and_blobs.md, section 1, "Shards". What the transformers library refuses (a missing
shard, a tensor that is not where the index says) is a problem of the model here, as long as one
shard opens. File names in an index are untrusted: one that leaves the folder is never opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, NamedTuple

from explorer.errors import (
    Choice,
    ExplorerError,
    FormatError,
    SeveralModelsError,
    SourceError,
    system_reason,
)
from explorer.formats.gguf.open import open_gguf
from explorer.formats.limits import MAX_FILE_NAME, MAX_SHARDS
from explorer.formats.model import Model, ProblemLog, Severity
from explorer.formats.safetensors.open import FIRST_BYTES, SafetensorsFile, build_model, open_file
from explorer.formats.side_files import (
    CONFIG_NAME,
    INDEX_SUFFIX,
    OUTSIDE_FOLDER,
    SHARD_NAME,
    escapes,
    hub_cache,
    link_escapes,
    missing_shards,
    read_config,
)
from explorer.formats.strict_json import read_json_file
from explorer.formats.tensors import natural_key
from explorer.json_text import RepeatedKeys
from explorer.sources import Address
from explorer.sources.places import list_names, names_below, opening_ahead, size_of
from explorer.sources.remote.addresses import HUB
from explorer.text import bytes_text, listed, quoted

_SECOND_COPY: Final = "consolidated"  # how files of Mistral begin that repeat the others
_SUFFIX: Final = ".safetensors"
_GGUF: Final = ".gguf"
_INDEX_RANKS: Final = {"model" + INDEX_SUFFIX: 0, "diffusion_pytorch_model" + INDEX_SUFFIX: 1}
_NUMBERED: Final = re.compile(  # as older programs name parts of one model
    r"(?P<prefix>model|pytorch_model|diffusion_pytorch_model|consolidated)[-_.]\d+\.safetensors"
)
_ASIDE: Final = re.compile(r"consolidated|(.*[-_.])?(mmproj|imatrix)")
_LISTED: Final = 20


class _Index(NamedTuple):
    """A shard index, checked: files in natural order, and what the tensors take together."""

    shards: dict[str, list[str]]  # file name as the index spells it → names of its tensors
    places: dict[str, str]  # tensor name → file name
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one folder that make one model.

    Attributes:
        format: "gguf" or "safetensors".
        names: The files with its weights, in natural order.
        opened: The name of what to open; empty for the folder itself.
    """

    format: str
    names: tuple[str, ...]
    opened: str


def group_files(names: Sequence[str]) -> list[FileGroup]:
    """Return the models that the files of a folder make, by their names alone.

    Safetensors are one model where an index, a config.json or the numbers in their names say so.
    """
    gguf = [name for name in names if name.lower().endswith(_GGUF)]
    weights = [name for name in names if name.lower().endswith(_SUFFIX)]
    found = [FileGroup("gguf", shards, shards[0]) for shards in _by_model(gguf)]
    indexes = _by_rank([name for name in names if name.endswith(INDEX_SUFFIX)])
    if indexes or (weights and CONFIG_NAME in names):
        opened = [*indexes, CONFIG_NAME][0] if gguf else ""
        parts = tuple(sorted(weights, key=natural_key))
        return [*found, FileGroup("safetensors", parts, opened)]
    for shards in _by_model(weights):
        whole = not gguf and 1 < len(shards) == len(weights)
        found.append(FileGroup("safetensors", shards, "" if whole else shards[0]))
    return found


def whole_of(path: Path) -> Path | None:
    """Return what to open for the model that a file is one of several of; None where it is all.

    Of an address of the hub that is the index by its usual name. Other servers have no folders.

    Raises:
        SourceError: Its folder cannot be listed.
    """
    if isinstance(path, Address):
        match = SHARD_NAME.fullmatch(path.name)
        is_part = path.scheme == HUB and path.suffix == _SUFFIX
        return path.with_name(match["prefix"] + INDEX_SUFFIX) if match and is_part else None
    group = next((one for one in group_files(_listed(path.parent)) if path.name in one.names), None)
    if group is None or len(group.names) < 2 or group.format != "safetensors":
        return None
    return path.parent / group.opened


def _by_rank(indexes: Sequence[str]) -> list[str]:
    """Return the names of indexes, the usual ones first."""
    ordered = sorted(indexes, key=natural_key)
    return sorted(ordered, key=lambda name: _INDEX_RANKS.get(name, len(_INDEX_RANKS)))


def _by_model(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Put shards of one model together, in order; any other file is a model of its own."""
    models: dict[str, list[str]] = {}
    for name in sorted(names, key=natural_key):
        match = SHARD_NAME.fullmatch(name) or _NUMBERED.fullmatch(name)
        key = f"{match['prefix']}/{match.groupdict().get('count')}" if match else name
        models.setdefault(key, []).append(name)
    return list(map(tuple, models.values()))


def open_folder(path: Path) -> Model:
    """Open the model in a folder: safetensors with or without an index, or one GGUF model.

    Raises:
        SeveralModelsError: It holds several models, and nothing says that they are one.
        FormatError: It holds no model, or none of its files can be used.
        SourceError: The folder or a file cannot be read.
    """
    names = _listed(path)
    groups = group_files(names)
    if isinstance(path, Address):
        groups = [*groups, *_groups_below(path, groups)]
    groups = _main_models(groups)
    if not groups:
        what = "holds no model files (.safetensors or .gguf). Choose a folder that does"
        raise FormatError(what, path)
    if len(groups) > 1:
        raise _several(path, groups)
    if groups[0].format == "gguf":
        return open_gguf(path / groups[0].opened)
    place = PurePosixPath(groups[0].names[0]).parent if groups[0].names else PurePosixPath()
    if place.name:  # of a folder of the hub
        return open_folder(path / place)
    return _open_weights(path, path, names)


def _groups_below(folder: Address, own: Sequence[FileGroup]) -> Iterator[FileGroup]:
    """Yield the models in folders of a folder of the hub: large ones have a folder each.

    Beside a model of the folder's own, only GGUF files count: others are parts or variants of it.
    """
    places: dict[str, list[str]] = {}
    for name in names_below(folder):
        place, _, file = name.rpartition("/")
        if place and not file.startswith("."):
            places.setdefault(place, []).append(file)
    for place in sorted(places, key=natural_key):
        for group in group_files(sorted(places[place], key=natural_key)):
            if group.format == "gguf" or not own:
                names = tuple(f"{place}/{name}" for name in group.names)
                yield FileGroup(group.format, names, f"{place}/{group.opened}".rstrip("/"))


def open_config(path: Path) -> Model:
    """Open the safetensors beside a config.json, which are one model.

    Raises:
        FormatError: It is not a config.json, or there are none, or none can be used.
        SourceError: The folder or a file cannot be read.
    """
    names = _listed(path.parent) if path.name == CONFIG_NAME else []
    if not any(name.lower().endswith(_SUFFIX) for name in names):
        raise FormatError("is a JSON file, not a model. Open its folder instead", path)
    return _open_weights(path, path.parent, names)


def _open_weights(path: Path, folder: Path, names: Sequence[str]) -> Model:
    """Open the safetensors of a folder: as the first index says that can be read, or all."""
    log = ProblemLog()
    for name in _by_rank([name for name in names if name.endswith(INDEX_SUFFIX)]):
        if link_escapes(folder, name):
            log.add_error(name, OUTSIDE_FOLDER)
            continue
        try:
            index = _read_index(folder / name, log)
        except ExplorerError as error:
            log.add_error(name, f"the index is left out: {error.without_path}")
        else:
            return _open_indexed(path, folder, index, log, names)
    weights = [name for name in names if name.lower().endswith(_SUFFIX)]
    if not weights:
        raise _none_opens(path, log)
    return _open_all(path, folder, _without_second_copy(weights, log), log)


def _report_beside(index: _Index, names: Sequence[str], log: ProblemLog) -> None:
    """Report safetensors that the index does not name: some programs load them, most do not."""
    beside = [name for name in names if name.lower().endswith(_SUFFIX) and name not in index.shards]
    if beside:
        what = "the index does not name it; it is not read as a part of the model"
        more = f" ({listed(map(quoted, beside[1:]), 3)} neither)" if beside[1:] else ""
        log.add_warning(beside[0], f"{what}{more}")


def _listed(folder: Path) -> list[str]:
    try:
        listed = list_names(folder)
    except OSError as error:
        raise SourceError(f"the folder cannot be listed: {system_reason(error)}", folder) from error
    # macOS adds hidden files, ._x
    return sorted((name for name in listed if not name.startswith(".")), key=natural_key)


def _main_models(groups: Sequence[FileGroup]) -> list[FileGroup]:
    """Leave out what goes with a model: projectors, importance matrices, second copies."""

    def is_main(group: FileGroup) -> bool:
        first = group.names[0].rpartition("/")[2] if group.names else ""
        return _ASIDE.match(first.lower()) is None

    return list(filter(is_main, groups)) or list(groups)


def _several(folder: Path, groups: Sequence[FileGroup]) -> SeveralModelsError:
    ordered = sorted(groups, key=lambda group: natural_key(group.opened))
    choices = []
    for group in ordered:
        nbytes = 0
        for name in group.names:
            with suppress(OSError):  # opening it tells why
                nbytes += size_of(folder / name)
        opened = group.opened or _whole(folder, group)
        choices.append(Choice(folder / opened, opened or folder.name, nbytes))
    kinds = {group.format for group in groups}
    kind = "GGUF models" if kinds == {"gguf"} else "models"
    names = (
        f"{quoted(one.name)}: {bytes_text(one.nbytes)}" if one.nbytes else quoted(one.name)
        for one in choices
    )
    what = f"holds {len(choices)} {kind} ({listed(names, _LISTED)}). Choose one"
    return SeveralModelsError(what, folder, choices)


def _whole(folder: Path, group: FileGroup) -> str:
    """Return what opens safetensors of a folder of the hub beside the GGUF files of its folders."""
    if not isinstance(folder, Address):
        return ""
    names = _listed(folder)
    sides = [*_by_rank([name for name in names if name.endswith(INDEX_SUFFIX)]), *names]
    return next(
        (name for name in sides if name.endswith((INDEX_SUFFIX, CONFIG_NAME))), group.names[0]
    )


def open_index(path: Path) -> Model:
    """Open the model that a ``*.safetensors.index.json`` describes.

    Raises:
        FormatError: The index is damaged, or none of its shards opens.
        SourceError: The index cannot be read.
    """
    log = ProblemLog()
    return _open_indexed(path, path.parent, _read_index(path, log), log)


def _without_second_copy(names: list[str], log: ProblemLog) -> list[str]:
    """Leave out ``consolidated*.safetensors``, which repeats the weights that other files hold."""
    kept = [name for name in names if not name.lower().startswith(_SECOND_COPY)]
    if not kept:
        return names
    for name in names:
        if name not in kept:
            what = "left out: such a file holds the same weights a second time. Open it by itself"
            log.add_warning(name, what)
    return kept


def _read_index(path: Path, log: ProblemLog) -> _Index:
    value = read_json_file(path)
    places: Any = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(places, dict) or not places:
        raise FormatError("is an index without a weight_map. Download it again", path)
    for repeated in (value, places):
        if isinstance(repeated, RepeatedKeys):
            for key in repeated.repeated:
                what = f"the name occurs more than once in {path.name}. The last one counts"
                log.add_warning(key, what)
    shards: dict[str, list[str]] = {}
    for name, file in places.items():
        if not isinstance(file, str):
            what = f"is an index that names no file for tensor {quoted(name)}. Download it again"
            raise FormatError(what, path)
        shards.setdefault(file, []).append(name)
        if len(shards) > MAX_SHARDS:
            what = f"is an index of more than {MAX_SHARDS} shards. It is damaged"
            raise FormatError(what, path)
    about = value.get("metadata")
    total = about.get("total_size") if isinstance(about, dict) else None
    if isinstance(total, float) and total.is_integer():  # some writers store 1.5e10
        total = int(total)
    ordered = {file: shards[file] for file in sorted(shards, key=natural_key)}
    return _Index(ordered, places, total if type(total) is int else None)


def _leaves_folder(name: str) -> bool:
    """Return whether a file name points out of its folder, by the rules of any system."""
    if len(name) > MAX_FILE_NAME:
        return True  # no system has such a file, and looking at its parts takes long
    kinds = (PurePosixPath(name), PureWindowsPath(name))
    return any(kind.anchor or ".." in kind.parts for kind in kinds) or not kinds[0].name


def _open_indexed(
    path: Path, folder: Path, index: _Index, log: ProblemLog, names: Sequence[str] = ()
) -> Model:
    files: dict[str, SafetensorsFile] = {}
    remote = index.shards if isinstance(folder, Address) else ()
    ahead = (folder / name for name in remote if not _leaves_folder(name))
    try:
        with opening_ahead(ahead, FIRST_BYTES):
            for name, tensors in index.shards.items():
                count = len(tensors)
                lost = (
                    f"{count} {'tensor' if count == 1 else 'tensors'} of the index should be in it"
                )
                if _leaves_folder(name) or link_escapes(folder, name):
                    what = f"the index names a file outside the folder. It is not opened, {lost}"
                    log.add_error(name, what)
                    continue
                try:
                    files[name] = open_file(folder / name, log)
                except ExplorerError as error:
                    log.add_error(name, f"{error.without_path}; {lost}")
        if not files:
            raise _none_opens(path, log)
        _compare_with_index(files, index, log)
        _report_beside(index, names, log)
        return build_model(path, list(files.values()), read_config(folder, log), log)
    except ExplorerError:
        _close(files)
        raise


def _open_all(path: Path, folder: Path, names: list[str], log: ProblemLog) -> Model:
    """Make one model of files without an index; of a tensor in two of them, the first counts."""
    if len(names) > MAX_SHARDS:
        raise FormatError(f"holds {len(names)} files, more than {MAX_SHARDS} shards", folder)
    files: dict[str, SafetensorsFile] = {}
    owners: dict[str, str] = {}
    cache = hub_cache(folder)
    try:
        with opening_ahead([folder / name for name in names], FIRST_BYTES):
            for name in names:
                if cache is not None and escapes(folder / name, folder, cache):
                    log.add_error(name, "is a link out of the cache. It is not opened")
                    continue
                try:
                    file = files[name] = open_file(folder / name, log)
                except ExplorerError as error:
                    log.add_error(name, error.without_path)
                    continue
                copies = {tensor for tensor in file.names if tensor in owners}
                _leave_out(file, name, copies, owners, log)
                owners.update(dict.fromkeys(file.names, name))
        if not files:
            raise _none_opens(path, log)
        for where, what in missing_shards(names):
            log.add_error(where, what)
        return build_model(path, list(files.values()), read_config(folder, log), log)
    except ExplorerError:
        _close(files)
        raise


def _none_opens(path: Path, log: ProblemLog) -> FormatError:
    first = next(p for p in log.problems() if p.severity is Severity.ERROR)
    what = f"none of its files can be opened. {quoted(first.where)}: {first.what}"
    return FormatError(what, path)


def _close(files: dict[str, SafetensorsFile]) -> None:
    for file in files.values():
        file.source.close()


def _leave_out(
    file: SafetensorsFile, name: str, copies: set[str], owners: dict[str, str], log: ProblemLog
) -> None:
    """Drop tensors that another shard holds too, so that nothing is counted twice."""
    for tensor in [tensor for tensor in file.names if tensor in copies]:
        what = f"is also in {quoted(name)}. The one in {quoted(owners[tensor])} is shown"
        log.add_error(tensor, what)
    if copies:
        file.leave_out(copies)


def _compare_with_index(files: dict[str, SafetensorsFile], index: _Index, log: ProblemLog) -> None:
    """Report where index and shards differ, and drop copies that the index doesn't mean."""
    places = index.places
    owners: dict[str, str] = {}  # each tensor's shard: the one in the index if it holds it
    for file, opened in files.items():
        for name in opened.names:
            if name not in owners or places.get(name) == file:
                owners[name] = file
    for file, opened in files.items():
        names = opened.names
        _leave_out(opened, file, {name for name in names if owners[name] != file}, owners, log)
        for name in opened.names:
            place = places.get(name)
            if place is None:
                log.add_warning(name, f"is in {quoted(file)}, but not in the index")
            elif place != file:
                what = f"is in {quoted(file)}, the index says {quoted(place)}"
                log.add_error(name, what)
    for file in files:
        for name in index.shards[file]:
            if name not in owners:
                what = f"is not in {quoted(file)}, where the index says it is, nor elsewhere"
                log.add_error(name, what)
    found = sum(spec.nbytes for opened in files.values() for spec in opened.specs)
    if index.total_bytes not in {None, found} and len(files) == len(index.shards):
        what = f"the index says {index.total_bytes} bytes of tensors, the shards hold {found}"
        log.add_warning("total_size", what)
