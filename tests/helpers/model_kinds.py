"""A model of each kind, with every file that a model may have: none of them is ever replaced."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from tests.helpers.gguf_files import write_shards
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors
from tests.helpers.ollama_store import OllamaStore

_ARRAYS = arrays_of({"blk.0.ffn_up.weight": (2, 32)})


def _gguf(folder: Path) -> Path:
    (folder / "tokenizer.json").write_text("{}")
    return write_gguf(folder / "model.bin", "llama", _ARRAYS)


def _shards(folder: Path) -> Path:
    first, second, _third = write_shards(folder)
    second.write_bytes(b"not a model")
    return first


def safetensors_model(folder: Path) -> Path:
    """Write a folder of weights with all that may lie beside them; one file is damaged."""
    write_safetensors(folder, _ARRAYS, model_type="llama")
    for name in ("tokenizer.json", "tokenizer.model", "merges.txt", "README.md", "chat.jinja"):
        (folder / name).write_text("{}")
    (folder / "damaged.safetensors").write_bytes(b"\xff" * 16)
    places = {"blk.0.ffn_up.weight": "model.safetensors", "lost": "damaged.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    return folder


def _manifest(folder: Path) -> Path:
    store = OllamaStore(folder / "models")
    weights = write_gguf(folder / "weights", "llama", _ARRAYS)
    content = weights.read_bytes()
    weights.unlink()
    layers = [store.layer("model", content), store.layer("license", "free"), store.layer("x", "y")]
    return store.manifest(layers, config={"model_format": "gguf"})


def _snapshot(folder: Path) -> Path:
    """Return a snapshot of the hub's cache: links to blobs."""
    repository = folder / "models--a--b"
    snapshot = repository / "snapshots" / "1"
    blobs = repository / "blobs"
    for place in (snapshot, blobs, repository / "refs"):
        place.mkdir(parents=True)
    (repository / "refs" / "main").write_text("1")
    write_safetensors(blobs, _ARRAYS, model_type="llama")
    for name in os.listdir(blobs):
        (snapshot / name).symlink_to(Path("../../blobs") / name)
    return snapshot


Kind: TypeAlias = Callable[[Path], Path]

KINDS: Final[tuple[Kind, ...]] = (_gguf, _shards, safetensors_model, _manifest, _snapshot)
"""Each makes a model below a folder, and returns the path to open."""


def digests(folder: Path) -> dict[str, str]:
    """Return the content and the number of names of each file below a folder."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() + str(path.stat().st_nlink)
        for path in folder.rglob("*")
        if path.is_file()
    }
