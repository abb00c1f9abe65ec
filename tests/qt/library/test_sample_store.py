"""The panel over the sample store: three historic layouts of experts, GGUF entries that share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.qt.library.nodes import LibraryColumn
from explorer.stores.entries import Place, StoreKind
from explorer.text import bytes_text
from tests.qt.library.conftest import Panel

COLUMN = LibraryColumn


@pytest.fixture
def sample(make_panel: Callable[..., Panel], shared_data: Path) -> Panel:
    return make_panel(Place(StoreKind.OLLAMA, shared_data / "ollama_store"))


def test_models_are_listed_with_what_they_are(sample: Panel) -> None:
    root = sample.find("Ollama")
    rows = {
        sample.cell(index, COLUMN.NAME): index
        for index in (
            sample.model.index(row, 0, root) for row in range(sample.model.rowCount(root))
        )
    }
    assert list(rows) == [
        *("someuser/my-tiny:v1.2", "hf.co/some-org/Tiny-Classic-GGUF:Q8_0"),
        *("tinyclassic", "tinydense:int4", "tinymoe:latest"),
    ]
    assert sample.cell(rows["tinymoe:latest"], COLUMN.ARCHITECTURE) == "glm4_moe_lite"
    assert sample.cell(rows["tinydense:int4"], COLUMN.QUANTIZATION) == "int4"
    assert sample.cell(root, COLUMN.BYTES) == bytes_text(720_044)


def test_tensor_layers_open_into_groups_tensors_and_their_parts(
    sample: Panel, shared_data: Path
) -> None:
    experts = sample.find("Ollama", "tinymoe", "layers.1.mlp.experts")
    sample.tree.expand(experts)
    names = sample.titles(experts)
    assert names[0] == "0.down_proj.weight"
    weight = sample.find("Ollama", "tinymoe", "layers.1.mlp.experts", names[0])
    assert sample.titles(weight) == ["weight", "weight.scale", "weight.bias"]
    switch = sample.find("Ollama", "tinymoe", "layers.2.mlp.experts")
    sample.tree.expand(switch)
    assert sample.titles(switch)
    dense = sample.find("Ollama", "tinydense")
    manifest = (
        shared_data / "ollama_store/models/manifests/registry.ollama.ai/library/tinydense/int4"
    )
    layers = json.loads(manifest.read_bytes())["layers"]
    sample.tree.expand(dense)
    sample.settle()
    assert sample.model.rowCount(dense) == len(layers) + 1  # and the configuration


def test_one_blob_of_four_models_is_listed_once(sample: Panel) -> None:
    sample.view.lists.setCurrentWidget(sample.view.blobs)
    model = sample.view.blobs.model
    assert model.rowCount() == 60
    rows = [file.users for file in sample.view.blobs.files if len(file.blob.used_by) == 4]
    assert rows
    assert all("tinyclassic:latest" in users for users in rows)
