"""Writes small Ollama stores for tests: blobs named by their digest, manifests, broken ones too.

docs/safetensors_and_blobs.md, section 2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.helpers.safetensors_writer import tensors_bytes

_MEDIA_TYPE = "application/vnd.ollama.image."
Tensors = Sequence[tuple[str, str, list[int]]]


class OllamaStore:
    """A store in a folder.

    Attributes:
        models: The folder that holds ``manifests`` and ``blobs``.
        manifests: The folder of manifests.
        blobs: The folder of blobs.
    """

    def __init__(self, models: Path) -> None:
        self.models = models
        self.manifests = models / "manifests"
        self.blobs = models / "blobs"
        self.manifests.mkdir(parents=True)
        self.blobs.mkdir()

    def blob(self, content: bytes) -> dict[str, Any]:
        """Write a blob; return its digest and size as a manifest has them."""
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / f"sha256-{digest}").write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def blob_path(self, layer: Mapping[str, Any]) -> Path:
        """Return the file of a layer's blob."""
        return self.blobs / str(layer["digest"]).replace(":", "-")

    def layer(self, kind: str, content: bytes | str, name: str | None = None) -> dict[str, Any]:
        """Write a blob; return the layer."""
        raw = content.encode() if isinstance(content, str) else content
        layer = {"mediaType": _MEDIA_TYPE + kind, **self.blob(raw)}
        return layer if name is None else layer | {"name": name}

    def tensor(
        self, name: str, tensors: Tensors, metadata: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Write a blob of tensors; return the layer."""
        return self.layer("tensor", tensors_bytes(tensors, metadata), name)

    def manifest(
        self,
        layers: object,
        place: str = "registry.ollama.ai/library/tiny/latest",
        config: object = None,
    ) -> Path:
        """Write a manifest; return its path."""
        value: dict[str, Any] = {"schemaVersion": 2, "layers": layers}
        if config is not None:
            raw = json.dumps(config).encode()
            kind = "application/vnd.docker.container.image.v1+json"
            value["config"] = {"mediaType": kind, **self.blob(raw)}
        return self.raw_manifest(json.dumps(value).encode(), place)

    def raw_manifest(self, content: bytes, place: str) -> Path:
        """Write any bytes where a manifest lies; return the path."""
        path = self.manifests / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


def store_of(model: Path, folder: Path) -> tuple[Path, Path]:
    """Make a store that holds a GGUF model and its texts; return its manifest and its folder."""
    store = OllamaStore(folder)
    layers = [
        store.layer("model", model.read_bytes()),
        store.layer("template", "{{ .Prompt }}"),
        store.layer("license", "Do what you like.\n"),
        store.layer("params", '{"stop":["<|im_end|>"],"temperature":0.7}'),
    ]
    config = {"model_format": "gguf", "model_family": "llama", "file_type": "Q4_0"}
    return store.manifest(layers, "registry.ollama.ai/library/demo/latest", config), store.models
