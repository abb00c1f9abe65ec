"""Files beside the weights: `config.json` as a mapping and as metadata; chat templates and tokens;
links that lead out.

docs/safetensors_and_blobs.md, section 5: values may be null or of any type. What cannot be used is
a warning; the weights open without it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from explorer.errors import ExplorerError, SourceError, system_reason
from explorer.formats.limits import (
    MAX_CONFIG_ENTRIES,
    MAX_CONFIG_KEY_TEXT,
    MAX_KEY_BYTES,
    MAX_VOCABULARY,
)
from explorer.formats.model import MetadataEntry, Model, ProblemLog, decode_text, loaded_entry
from explorer.formats.strict_json import read_json_file, read_members
from explorer.model_files import GGUF_MAGIC, hub_name
from explorer.parallel import Check, never
from explorer.sources import Address, open_source
from explorer.sources.places import exists
from explorer.text import listed

CONFIG_NAME: Final = "config.json"
INDEX_SUFFIX: Final = ".safetensors.index.json"
SHARD_NAME: Final = re.compile(
    r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.[a-z]+", re.IGNORECASE
)
OUTSIDE_FOLDER: Final = "is a link out of the model's folder. It is not read"
ADAPTER_PREFIX: Final = "adapter_config."
"""What keys of a PEFT adapter's `adapter_config.json` begin with."""

_MOST_NAMED: Final = 5
_ADAPTER_CONFIG: Final = "adapter_config.json"
_PREFIX: Final = "config."
_INT64_MAX: Final = (1 << 63) - 1
_SCALARS: Final = {bool: "bool", int: "int64", float: "float64", str: "string"}


@dataclass(frozen=True)
class Config:
    """What a config.json says.

    Attributes:
        fields: The parsed file; empty if there is none.
        entries: Its values as metadata, ``config.<dotted path>``; null is left out.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[MetadataEntry, ...] = ()


def read_config(folder: Path, log: ProblemLog) -> Config:
    """Read the config.json of a folder, if it has one; of an adapter, its own configuration too."""
    config = read_side_file(folder, CONFIG_NAME, _PREFIX, log)
    if config.fields and not isinstance(folder, Path):  # each look costs a request
        return config
    if isinstance(folder, Path):
        _name_links(folder, log)
    adapter = read_side_file(folder, _ADAPTER_CONFIG, ADAPTER_PREFIX, log)
    return Config(config.fields, (*config.entries, *adapter.entries))


def _name_links(folder: Path, log: ProblemLog) -> None:
    """Report the side files that are read later, or never, where they are links out of a folder."""
    names = [name for _, name in _template_files(folder, log)]
    for name in (*names, _MORE_TEMPLATES, _TOKENIZER_CONFIG, _TOKENIZER, _OLD_VOCABULARY):
        if os.path.lexists(folder / name) and link_escapes(folder, name):
            log.add_error(name, OUTSIDE_FOLDER)


def read_side_file(folder: Path, name: str, prefix: str, log: ProblemLog) -> Config:
    """Read a JSON file beside the weights, if it is there; see `read_object`."""
    path = folder / name
    try:
        if not exists(path):
            return Config()
    except (OSError, SourceError) as error:  # the folder may not be searched
        why = error.what if isinstance(error, SourceError) else system_reason(error)
        log.add_warning(name, f"it cannot be read: {why}")
        return Config()
    if link_escapes(folder, name):
        log.add_error(name, OUTSIDE_FOLDER)
        return Config()
    return read_object(path, name, prefix, log)


def read_object(path: Path, where: str, prefix: str, log: ProblemLog) -> Config:
    """Read a file that should be one JSON object; warn if it cannot be used, or not wholly.

    Args:
        where: What to call it in the warning.
        prefix: What the keys of its metadata begin with.
        log: Where the warning goes.
    """
    try:
        value = read_json_file(path)
    except ExplorerError as error:
        log.add_warning(where, f"it {error.what}, and is left out")
        return Config()
    if not isinstance(value, dict):
        log.add_warning(where, "it is not a JSON object, and is left out")
        return Config()
    entries: list[MetadataEntry] = []
    room = MAX_CONFIG_KEY_TEXT
    for key, leaf in _flatten(value):
        room -= len(key)
        if len(entries) == MAX_CONFIG_ENTRIES or room < 0 or len(key) > MAX_KEY_BYTES:
            what = f"only its first {len(entries)} fields are shown as metadata"
            log.add_warning(where, what)
            break
        entry = _entry(prefix + key, leaf)
        if entry is not None:
            entries.append(entry)
    return Config(value, tuple(entries))


CHAT_TEMPLATE: Final = "tokenizer.chat_template"
"""Key of the chat template; named ones have a point and their name behind it."""

_TEMPLATE_FILE: Final = "chat_template.jinja"
_MORE_TEMPLATES: Final = "additional_chat_templates"
_TOKENIZER_CONFIG: Final = "tokenizer_config.json"
_MAX_TEMPLATE_BYTES: Final = 1 << 22
_MOST_TEMPLATES: Final = 100

_TOKENIZER: Final = "tokenizer.json"
_OLD_VOCABULARY: Final = "vocab.json"
_VOCAB: Final = ("model", "vocab")
_ADDED: Final = ("added_tokens",)


def chat_templates(model: Model, log: ProblemLog) -> dict[str, str]:
    """Return the chat templates of a model by the keys that GGUF has for them.

    Beside weights of Hugging Face they lie in `chat_template.jinja`, and further ones in a folder
    `additional_chat_templates`; in older models in `tokenizer_config.json`.

    Args:
        log: Where it is said if a file cannot be used.
    """
    found: dict[str, str] = {}
    for key in model.metadata:
        if key == CHAT_TEMPLATE or key.startswith(f"{CHAT_TEMPLATE}."):
            text = model.metadata.text(key)
            if text is not None:
                found[key] = text
    folder = _side_folder(model)
    if found or folder is None:
        return found
    for key, name in _template_files(folder, log):
        with _noted(name, log):
            if (path := _side_path(folder, name, log)) is not None:
                with open_source(path, whole=True) as source:
                    found[key] = decode_text(source.read(0, min(source.size, _MAX_TEMPLATE_BYTES)))
    with _noted(_TOKENIZER_CONFIG, log):
        if not found and (path := _side_path(folder, _TOKENIZER_CONFIG, log)) is not None:
            found |= _templates_in(read_json_file(path))
    return found


def _template_files(folder: Path, log: ProblemLog) -> Iterator[tuple[str, str]]:
    """Yield the keys of templates that are files of their own, and the files' names."""
    yield CHAT_TEMPLATE, _TEMPLATE_FILE
    names: list[str] = []
    with _noted(_MORE_TEMPLATES, log):
        if os.path.isdir(folder / _MORE_TEMPLATES) and not link_escapes(folder, _MORE_TEMPLATES):
            names = sorted(name for name in os.listdir(folder / _MORE_TEMPLATES))
    names = [name for name in names if name.endswith(".jinja")]
    for name in names[:_MOST_TEMPLATES]:
        yield f"{CHAT_TEMPLATE}.{name.removesuffix('.jinja')}", f"{_MORE_TEMPLATES}/{name}"


def _templates_in(config: Any) -> dict[str, str]:
    """Return the templates of a tokenizer_config.json: one, or a list of named ones."""
    value = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(value, str):
        return {CHAT_TEMPLATE: value}
    found: dict[str, str] = {}
    for one in value[:_MOST_TEMPLATES] if isinstance(value, list) else ():
        name, text = (one.get("name"), one.get("template")) if isinstance(one, dict) else (0, 0)
        if isinstance(name, str) and isinstance(text, str):
            found[CHAT_TEMPLATE if name == "default" else f"{CHAT_TEMPLATE}.{name}"] = text
    return found


def side_tokens(model: Model, log: ProblemLog, check: Check = never) -> list[str | None] | None:
    """Return the tokens that lie beside weights of Hugging Face, by id; None if none do.

    An id without a token has None. Word pieces are written as converters to GGUF write them.

    Args:
        log: Where it is said if the file cannot be used.
        check: Called now and then; raises to cancel.
    """
    folder = _side_folder(model)
    found: dict[int, str] = {}
    if folder is None:
        return None
    for name in (_TOKENIZER, _OLD_VOCABULARY):
        with _noted(name, log):
            path = _side_path(folder, name, log)
            if found or path is None:
                continue
            members = (_VOCAB, _ADDED) if name == _TOKENIZER else ((),)
            parts = read_members(path, members, check)
            found = _numbered(parts.get(members[0]), parts.get(_ADDED))
            if not found:
                log.add_warning(name, "it has no vocabulary that can be used")
    if not found:
        return None
    tokens: list[str | None] = [None] * (max(found) + 1)
    for number, token in found.items():
        tokens[number] = token
    return tokens


def _numbered(vocabulary: Any, added: Any) -> dict[int, str]:
    """Return the tokens of a vocabulary by id; ids that no vocabulary has are left out."""
    if isinstance(vocabulary, dict):
        pairs = [(number, token) for token, number in vocabulary.items()]
        pieces = any(token.startswith("##") for token in vocabulary)
        pieces = pieces and "[CLS]" in vocabulary and "[SEP]" in vocabulary
    else:  # Unigram: tokens with their scores
        rows = vocabulary if isinstance(vocabulary, list) else []
        pairs = [
            (number, row[0]) for number, row in enumerate(rows) if isinstance(row, list) and row
        ]
        pieces = False
    if pieces:
        pairs = [(number, _word_piece(token)) for number, token in pairs]
    for one in added if isinstance(added, list) else ():
        if isinstance(one, dict):
            pairs.append((one.get("id"), one.get("content")))
    return {
        number: token
        for number, token in pairs
        if type(number) is int and 0 <= number < MAX_VOCABULARY and isinstance(token, str)
    }


def _word_piece(token: str) -> str:
    """Return a token of WordPiece as llama.cpp's converter writes it: a mark before each word."""
    if token.startswith("##"):
        return token[2:]
    return token if token.startswith("[") and token.endswith("]") else f"\u2581{token}"


def _side_folder(model: Model) -> Path | None:
    """Return the folder of a model of Hugging Face on this machine."""
    if model.format != "safetensors" or isinstance(model.path, Address):
        return None
    return model.path if os.path.isdir(model.path) else model.path.parent


def _side_path(folder: Path, name: str, log: ProblemLog) -> Path | None:
    """Return the path of a file beside the weights; None if it is not there or leads out."""
    if not exists(folder / name):
        return None
    if link_escapes(folder, name):
        log.add_error(name, OUTSIDE_FOLDER)
        return None
    return folder / name


@contextmanager
def _noted(name: str, log: ProblemLog) -> Iterator[None]:
    """Note that a file cannot be used, and go on without it."""
    try:
        yield
    except ExplorerError as error:
        log.add_warning(name, f"it {error.without_path}, and is left out")
    except OSError as error:  # the folder may not be searched
        log.add_warning(name, f"it cannot be read: {system_reason(error)}")


def _flatten(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted path and value, objects opened, in file order; the parser bounded the depth.

    An object whose path is too long for a key is not opened: paths of paths grow without bound.
    """
    for key, value in fields.items():
        path = prefix + key
        if isinstance(value, dict) and value and len(path) <= MAX_KEY_BYTES:
            yield from _flatten(value, f"{path}.")
        else:
            yield path, value


def _entry(key: str, value: Any) -> MetadataEntry | None:
    if value is None:
        return None
    if isinstance(value, list):
        kind = _array_type(value)
        if kind is not None:
            return loaded_entry(key, f"array[{kind}]", value)
    elif isinstance(value, int) and abs(value) > _INT64_MAX:
        return loaded_entry(key, "string", str(value))
    elif type(value) in _SCALARS:
        return loaded_entry(key, _SCALARS[type(value)], value)
    return loaded_entry(key, "string", json.dumps(value, ensure_ascii=False))


def _array_type(values: list[Any]) -> str | None:
    """Name the type of a list's elements, or None if they differ: such a list is shown as JSON."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return "float64"
    if kinds == {int} and max(map(abs, values)) > _INT64_MAX:
        return None
    if len(kinds) == 1 and kinds <= _SCALARS.keys():
        return _SCALARS[kinds.pop()]
    if kinds == {list}:
        inner = {_array_type(value) for value in values}
        if len(inner) == 1 and None not in inner:
            return f"array[{inner.pop()}]"
    return None


# Other files found under a model's name, by their first bytes.
_LOOKS_LIKE: Final = (
    (GGUF_MAGIC, "a GGUF file. Give it the ending .gguf"),
    (b"lmgg", "an old GGML file (before GGUF). Convert it with llama.cpp"),
    (b"tjgg", "an old GGJT file (before GGUF). Convert it with llama.cpp"),
    (b"fmgg", "an old GGMF file (before GGUF). Convert it with llama.cpp"),
    (b"FUGG", "a GGUF file with swapped bytes, written on a big-endian machine. Get one for yours"),
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint?). Convert it first"),
    (b"\x80", "a Python pickle (a PyTorch checkpoint?). Convert it first"),
    (b"\x7fELF", "a program (ELF)"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive. Unpack it first"),
    (b"version ", "a Git LFS pointer, not the model. Fetch it with `git lfs pull`"),
    (b"<", "a web page or XML. The download failed or needs a login"),
    (b"{", "JSON text"),
)


def looks_like(start: bytes) -> str:
    """Say what a file looks like that is no model, by its first eight bytes; "" if nothing."""
    text = start.lstrip()
    guess = next((name for magic, name in _LOOKS_LIKE if text.startswith(magic)), None)
    return f"It looks like {guess}" if guess else ""


def missing_shards(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield a file of each model whose names count more files than there are, and which lack."""
    found: dict[tuple[str, int], dict[int, str]] = {}
    for match in filter(None, map(SHARD_NAME.fullmatch, names)):
        here = found.setdefault((match["prefix"], int(match["count"])), {})
        here[int(match["number"])] = match.string
    for (_, count), here in found.items():
        if len(here) < count:
            absent = (str(number) for number in range(1, count + 1) if number not in here)
            missing = f"{count - len(here)} of {count} shards are missing"
            yield next(iter(here.values())), f"{missing}: number {listed(absent, _MOST_NAMED)}"


def escapes(path: Path, *roots: Path) -> bool:
    """Return whether a path, all symbolic links followed, is outside of all the folders given.

    An archive or a repository may bring a link that points anywhere. A folder itself may be a link:
    the user made it. A path that cannot be resolved escapes nowhere.

    Args:
        path: A path that begins in one of the folders.
        roots: Folders that it may lead into.
    """
    try:
        target = Path(os.path.realpath(path))
        return not any(target.is_relative_to(os.path.realpath(root)) for root in roots)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def hub_cache(folder: Path) -> Path | None:
    """Return the Hugging Face cache of which a folder is a snapshot, or lies in one; else None."""
    if isinstance(folder, Address):
        return None
    for parent in (found := Path(os.path.abspath(folder)), *found.parents):
        if parent.parent.name == "snapshots":
            repository = parent.parents[1]
            return repository.parent if hub_name(repository.name) else None
    return None


def link_escapes(folder: Path, name: str) -> bool:
    """Return whether a file of a model is a link to where no file of that folder may be.

    In a snapshot of the hub's cache, links lead to blobs of that cache. Into any other folder an
    older hub client may have put links to blobs of a cache (`--local-dir-use-symlinks`).
    """
    if isinstance(folder, Address):  # which has no links
        return False
    cache = hub_cache(folder)
    path = folder / name
    if cache is not None:
        return escapes(path, folder, cache)
    roots = [folder]
    if folder.parent.name == "snapshots":  # a repository that was taken out of its cache
        roots.append(folder.parents[1] / "blobs")
    if not escapes(path, *roots):
        return False
    try:
        blobs = Path(os.path.realpath(path)).parent
    except OSError:  # it is removed at this moment
        return True
    return not (blobs.name == "blobs" and hub_name(blobs.parent.name))
