"""What an open model is called: by the name that its users know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from explorer.qt.document import Document
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import tensors_bytes


def test_a_file_goes_by_its_own_name(load: Callable[[Path], Document], demo_path: Path) -> None:
    assert load(demo_path).title == demo_path.name


def test_a_manifest_goes_by_the_model_s_name(
    load: Callable[[Path], Document], demo_path: Path, tmp_path: Path
) -> None:
    store = OllamaStore(tmp_path / "models")
    layers = [store.layer("model", demo_path.read_bytes())]
    assert load(store.manifest(layers)).title == "tiny:latest"
    place = "hf.co/org/repo/Q4_0"
    assert load(store.manifest(layers, place)).title == "hf.co/org/repo:Q4_0"


def test_a_snapshot_goes_by_its_repository(
    load: Callable[[Path], Document], tmp_path: Path
) -> None:
    snapshot = tmp_path / "hub" / "models--some-org--tiny" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(tensors_bytes([("a", "F32", [2])]))
    assert load(snapshot).title == "some-org/tiny"
