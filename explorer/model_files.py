"""Which files are a model's: the program replaces none of them, whatever it is told to write.

Every file that is opened as a model, or as a part of one, is noted here (`sources.files`), and
everything that is written for the user asks here first (`tabular.write_atomically`).
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError, system_reason

MODEL_SUFFIXES: Final = (".gguf", ".safetensors")
"""What names of weights end in; the program writes no such file for the user."""

OWN_SUFFIXES: Final = frozenset(
    {".csv", ".html", ".npy", ".parquet", ".pdf", ".png", ".svg", ".tsv"}
)
"""What the program writes. Only such files are replaced in a folder that a model was opened in:
all others may have come with the model, such as a tokenizer."""

LEGACY_SUFFIXES: Final = (".dat", ".imatrix")
"""What names of importance matrices of older llama.cpp end in; nothing else says what they are."""

GGUF_MAGIC: Final = b"GGUF"
"""The first bytes of a GGUF file."""

_IN_STORE: Final = "lies in a store of downloaded models, where nothing is written"
_HUB_REPOSITORY: Final = "models--"

_noted: set[str] = set()  # resolved paths
_folders: set[str] = set()


def note_model_file(path: Path) -> None:
    """Note that a file, which was opened, is a model's; it stays noted."""
    places = {os.path.abspath(path)}
    with suppress(OSError):  # a link that is removed at this moment
        places.add(os.path.realpath(path))
    _noted.update(places)
    _folders.update(map(os.path.dirname, places))


def refuse_model_file(target: Path | None) -> None:
    """Raise if a file to be written would replace a model's, or join a store of models.

    Links and hard links count as what they lead to. What takes long asks before it begins, once its
    models are open. None, for nothing to be written, is fine.

    Raises:
        ExplorerError: It would, with what to do instead.
    """
    if target is None:
        return
    try:
        fault = _fault(target, Path(os.path.realpath(target)))
    except OSError as error:  # as above
        fault = f"cannot be looked at: {system_reason(error)}"
    if fault:
        raise ExplorerError(f"{fault}. Choose another name", target)


def refuse_folder_in_store(folder: Path | None) -> None:
    """Raise if a folder, in which something will be written, lies in a store of models, or is one.

    Raises:
        ExplorerError: It does.
    """
    if folder is not None and _is_in_store(Path(os.path.realpath(folder)) / "file"):
        raise ExplorerError(f"{_IN_STORE}. Choose another folder", folder)


def hub_name(folder: str) -> str:
    """Return the model's name (owner/name) that a folder of a Hugging Face hub cache is named for.

    Args:
        folder: The folder's own name, such as "models--owner--name".

    Returns:
        The name, or "" if no folder of a hub cache is named so.
    """
    if not folder.startswith(_HUB_REPOSITORY):
        return ""
    return folder.removeprefix(_HUB_REPOSITORY).replace("--", "/")


def _fault(target: Path, place: Path) -> str:
    """Return why a file is not written, "" if it may be; `place` is it with links followed."""
    status = _status(place)
    if status is not None and _is_noted(place, status):
        return "is a file of the model itself"
    if {target.suffix.lower(), place.suffix.lower()} & {*MODEL_SUFFIXES}:
        return "is the name of a model, which is never written"
    if _is_in_store(place):
        return _IN_STORE
    if status is None or not stat.S_ISREG(status.st_mode):
        return ""  # nothing is replaced, neither by a pipe nor by /dev/stdout
    named = Path(os.path.realpath(target.parent), target.name)  # itself a link, maybe out of there
    for each in (place, named):
        if each.suffix.lower() not in OWN_SUFFIXES and str(each.parent) in _folders:
            return "is in the folder of the model, and may be a part of it"
    return _fault_of_content(place)


def _fault_of_content(place: Path) -> str:
    try:
        with open(place, "rb") as file:
            return "is a GGUF model" if file.read(len(GGUF_MAGIC)) == GGUF_MAGIC else ""
    except OSError:
        return "cannot be read, so it may be a model"


def _is_in_store(place: Path) -> bool:
    """Return whether a resolved path is inside of Ollama's store or of a Hugging Face hub cache."""
    for folder in place.parents:
        if hub_name(folder.name) and (folder / "snapshots").is_dir():
            return True
        other = {"blobs": "manifests", "manifests": "blobs"}.get(folder.name)
        if other is not None and (folder.parent / other).is_dir():
            return True
    return False


def _is_noted(place: Path, status: os.stat_result) -> bool:
    """Return whether an existing file is one that was opened, or another name of one.

    Files beside those that were opened count too where the file has several names: which of them
    belong to the model is not known.
    """
    if str(place) in _noted:
        return True
    if status.st_nlink < 2:
        return False
    beside = {name for folder in _folders - {str(place.parent)} for name in _names_in(folder)}
    found = map(_status, _noted | beside)
    return any(one is not None and os.path.samestat(one, status) for one in found)


def _names_in(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:  # it is gone
        return []


def _status(path: Path | str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
