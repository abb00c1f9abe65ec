"""What is said of downloads: what a blob is, what it takes, the commands that remove and fetch.

The program deletes and downloads nothing. It says what would, for people to read and to run.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from explorer.errors import FormatError
from explorer.formats.ollama.manifest import OllamaName, parse_name
from explorer.sources import Address
from explorer.sources.remote.addresses import HUB, REGISTRY, HubPart, query_of
from explorer.stores.entries import Entry, Part, Store, StoreKind
from explorer.text import bytes_text, counted, plain_text, shorten

LAYER_TITLES: Final = {
    "model": "Model (GGUF)",
    "projector": "Projector (GGUF)",
    "adapter": "Adapter (GGUF)",
    "draft": "Draft model (GGUF)",
    "tensor": "Tensor",
    "json": "File of the model",
    "template": "Template",
    "prompt": "Template",
    "system": "System prompt",
    "license": "License",
    "params": "Parameters",
    "messages": "Messages",
    "config": "Configuration",
}
"""What parts of a model are called, by Ollama's names of layers."""

UNKNOWN_CONTENT: Final = "Unknown content"
_LONGEST: Final = 120
_NAME_PARTS: Final = 4  # of the path of a manifest
_HUB_NAME: Final = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_SHARD: Final = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<end>\.[a-z]+)")
_MOST_SHARDS: Final = 200
_PATTERN: Final = re.compile(r"[*?\[\]]")


def part_text(part: Part | None) -> str:
    """Return what a blob is, safe to show: "Licence", "Tensor layer: lm_head.weight"."""
    if part is None:
        return UNKNOWN_CONTENT
    name = shorten(plain_text(part.name), _LONGEST)
    if part.kind == "json" and name:  # the name of a file says it
        return name
    title = LAYER_TITLES.get(part.kind) or shorten(plain_text(part.kind), _LONGEST)
    return ": ".join(filter(None, (title or UNKNOWN_CONTENT, name)))


def reclaimable(stores: Iterable[Store]) -> tuple[int, int]:
    """Return how many files no model uses, unfinished downloads included, and their bytes."""
    sizes: list[int] = []
    for store in stores:
        sizes += [blob.nbytes for blob in store.blobs if not blob.used_by]
        sizes += [partial.nbytes for partial in store.partials]
    return len(sizes), sum(sizes)


def reclaimable_text(count: int, nbytes: int) -> str:
    """Return "2 unused files: removing them frees 5.1 GiB"; nothing for none."""
    if not count:
        return ""
    them = "it" if count == 1 else "them"
    return f"{counted(count, 'unused file')}: removing {them} frees {bytes_text(nbytes)}"


def removal_of_entry(kind: StoreKind, root: Path, entry: Entry) -> str:
    """Return the command that removes a model as its program does; "" where there is none.

    Only a name that its program accepts comes near a shell. What others use stays: Ollama and the
    hub's cache remove files that no other model has.
    """
    if kind is StoreKind.OLLAMA:
        return _of_ollama("rm", entry)
    if kind is StoreKind.HUGGINGFACE:
        name_of_hub = "/".join(entry.name.partition("@")[0].split("/")[:2])
        if not _HUB_NAME.fullmatch(name_of_hub) or plain_text(str(root)) != str(root):
            return ""
        return f"hf cache rm model/{name_of_hub} --cache-dir {_quoted(root)}"
    if entry.path.suffix.lower() not in {".gguf", ".safetensors"}:  # a folder, with all in it
        return ""
    return removal_of_files(_shards(entry.path))


def run_of_entry(kind: StoreKind, entry: Entry) -> str:
    """Return the command that runs a model; "" where there is none."""
    return _of_ollama("run", entry) if kind is StoreKind.OLLAMA else ""


def _of_ollama(command: str, entry: Entry) -> str:
    """Return a command of Ollama; only a valid name may come near a shell."""
    parts = entry.path.parts[-_NAME_PARTS:]
    name = OllamaName(*parts) if len(parts) == _NAME_PARTS else None
    return f"ollama {command} {name}" if name is not None and name.valid else ""


def _shards(path: Path) -> Iterator[Path]:
    found = _SHARD.fullmatch(path.name)
    count = int(found["count"]) if found else 1
    if found is None or count > _MOST_SHARDS:
        yield path
        return
    for number in range(1, count + 1):
        yield path.with_name(f"{found['prefix']}-{number:05}-of-{count:05}{found['end']}")


def removal_of_files(paths: Iterable[Path]) -> str:
    """Return the command that removes files, one line; "" where a name could mislead a shell."""
    found = list(paths)
    if any(plain_text(str(path)) != str(path) for path in found):
        return ""
    names = [_quoted(path) for path in found]
    if sys.platform == "win32":
        return f"Remove-Item -LiteralPath {', '.join(names)}"
    return f"rm -- {' '.join(names)}"


def download_of(path: Path, files: Sequence[Path] = ()) -> str:
    """Return the command that downloads a model of the web, one line; "" where there is none.

    Args:
        path: Its address; there is none of a path of this machine.
        files: Addresses of its files, where it was opened; else those that the name of one part
            of a split model implies.
    """
    if not isinstance(path, Address):
        return ""
    found: Iterable[Path] = [path, *files] if files else _shards(path)
    parts = [part for part in dict.fromkeys(found) if isinstance(part, Address)]
    if any(plain_text(str(part)) != str(part) for part in parts):
        return ""
    if path.scheme == REGISTRY:
        try:
            return f"ollama pull {parse_name(path.rest)}"
        except FormatError:
            return ""
    if path.scheme == HUB:
        return _download_of_hub(HubPart.of(path), parts)
    curl = "curl.exe" if sys.platform == "win32" else "curl"  # else PowerShell takes its own
    urls = [f"{part}?{query}" if (query := query_of(part)) else str(part) for part in parts]
    literal = ["--globoff"] if any(set("[]{}") & set(url) for url in urls) else []
    return " ".join([curl, "-L", *literal, *(f"-O {_quoted(url)}" for url in urls)])


def _download_of_hub(part: HubPart, files: Sequence[Address]) -> str:
    """Return the command of the hub's own client: of a GGUF model its files, else all of a folder.

    huggingface.co/docs/huggingface_hub/guides/cli, "hf download"
    """
    words = ["hf", "download", part.repository]
    version = [] if part.revision == "main" else ["--revision", _quoted(part.revision)]
    folder, _, name = part.file.rpartition("/")
    if name.endswith((".gguf", ".safetensors")):
        names = [_quoted(HubPart.of(file).file) for file in files]
        if part.file.startswith("-"):
            return " ".join([*words, *version, "--", *names])
        return " ".join([*words, *names, *version])
    folder = folder if name.endswith(".json") else part.file
    if _PATTERN.search(folder):
        return ""
    if folder:
        words += ["--include", _quoted(f"{folder}/*")]
    elif part.file:  # one beside GGUF files
        words += ["--exclude", _quoted("*.gguf")]
    return " ".join([*words, *version])


def _quoted(path: Path | str) -> str:
    if sys.platform == "win32":  # PowerShell
        return "'" + str(path).replace("'", "''") + "'"
    return shlex.quote(str(path))
