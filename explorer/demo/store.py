"""Make the demo: a small GGUF file, and a small Ollama store that holds the same model.

Made in a temporary folder beside the place and renamed into it, so that it is there completely or
not at all, and two programs that start at once both end with a good one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from explorer.demo.model import write_model
from explorer.errors import SourceError, system_reason
from explorer.paths import cache_folder, resource

RECIPE_VERSION: Final = 1
"""Raised with every change of what is made; a demo of another version is made again."""

_PREFIX: Final = "recipe-"
_TEMPORARY: Final = "making-"
_MODEL_NAME: Final = "Demo-2.5M-v1.0-Q4_0.gguf"
_MANIFEST: Final = Path("manifests", "registry.ollama.ai", "library", "demo", "latest")
_MEDIA: Final = "application/vnd.ollama.image"
_RECORD: Final = "made.json"
_STALE_S: Final = 3600  # a temporary folder of this age was left by a program that was killed
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """Where the demo lies.

    Attributes:
        model: The GGUF file.
        store: The Ollama store's folder, which holds `manifests` and `blobs`.
        manifest: The model's manifest in that store.
    """

    model: Path
    store: Path
    manifest: Path


def make_demo(folder: Path | None = None) -> DemoPaths:
    """Return the demo model and store, after making them if they are not there.

    Args:
        folder: Where to keep them; the program's cache folder if None.

    Raises:
        SourceError: The folder cannot be written.
    """
    base = cache_folder() / "demo" if folder is None else Path(folder)
    target = base / f"{_PREFIX}{RECIPE_VERSION}"
    try:
        if not _is_complete(target):
            base.mkdir(parents=True, exist_ok=True)
            _make(base, target)
            _remove_leftovers(base, target)
    except OSError as error:
        raise SourceError(
            f"the demo model cannot be made here: {system_reason(error)}; "
            "name another folder with GGUF_EXPLORER_CACHE",
            base,
        ) from error
    return _paths(target)


def _paths(target: Path) -> DemoPaths:
    store = target / "ollama"
    return DemoPaths(target / _MODEL_NAME, store, store / _MANIFEST)


def _is_complete(target: Path) -> bool:
    """Tell whether every file is there in its recorded size; users and cleaners delete files."""
    try:
        sizes = json.loads((target / _RECORD).read_text("utf-8"))
        return all((target / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _make(base: Path, target: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=base))
    try:
        made = work / "demo"
        made.mkdir()
        _fill(made)
        for _ in range(_TRIES):
            if target.exists():  # damaged, or another program was faster
                if _is_complete(target):
                    return
                with suppress(FileNotFoundError):
                    os.rename(target, Path(tempfile.mkdtemp(dir=work)) / "damaged")
            try:
                os.rename(made, target)
            except OSError:
                if not target.exists():
                    raise
            else:
                return
        if not _is_complete(target):
            raise OSError("other programs keep changing the folder")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(folder: Path) -> None:
    paths = _paths(folder)
    with open(paths.model, "xb") as file:
        write_model(file)
    _make_store(paths)
    files = (path for path in folder.rglob("*") if path.is_file())
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    (folder / _RECORD).write_text(json.dumps(sizes, indent=1), "utf-8")


def _make_store(paths: DemoPaths) -> None:
    """Make an Ollama store of one model (docs/safetensors_and_blobs.md, section 2)."""
    blobs = paths.store / "blobs"
    blobs.mkdir(parents=True)
    model = _layer(f"{_MEDIA}.model", *_digest_file(paths.model))
    blob = _blob_path(blobs, model)
    try:
        os.link(paths.model, blob)
    except OSError:  # no hard links here
        shutil.copyfile(paths.model, blob)
    layers = [model]
    for kind in ("template", "system", "license"):
        content = resource(f"demo/{kind}.txt").read_bytes()
        layers.append(_write_blob(blobs, f"{_MEDIA}.{kind}", content))
    params = {"stop": ["<|im_start|>", "<|im_end|>"], "temperature": 0.7}
    layers.append(_write_blob(blobs, f"{_MEDIA}.params", _json(params)))
    config = {
        "model_format": "gguf",
        "model_family": "llama",
        "model_families": ["llama"],
        "model_type": "2.5M",
        "file_type": "Q4_0",
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    container = "application/vnd.docker.container.image.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": _write_blob(blobs, container, _json(config)),
        "layers": layers,
    }
    paths.manifest.parent.mkdir(parents=True)
    paths.manifest.write_bytes(_json(manifest))


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _digest_file(path: Path) -> tuple[str, int]:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


def _layer(media_type: str, digest: str, nbytes: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": nbytes}


def _blob_path(blobs: Path, layer: dict[str, Any]) -> Path:
    return blobs / str(layer["digest"]).replace(":", "-")


def _write_blob(blobs: Path, media_type: str, content: bytes) -> dict[str, Any]:
    layer = _layer(media_type, hashlib.sha256(content).hexdigest(), len(content))
    _blob_path(blobs, layer).write_bytes(content)
    return layer


def _remove_leftovers(base: Path, target: Path) -> None:
    """Remove demos of other recipe versions, and what killed programs left half-made."""
    for path in base.iterdir():
        if path.name.startswith(_PREFIX) and path != target:
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(_TEMPORARY):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE_S:
                    shutil.rmtree(path, ignore_errors=True)
