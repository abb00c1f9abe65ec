"""Ollama's MLX engine: the check before loading by file sizes, and what it then comes to need."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.formats.tensors import Spec
from explorer.planner import Device, Hyperparameters, Settings, plan
from explorer.planner.engines.registry import ENGINES, default_engine
from explorer.planner.folder import Folder
from explorer.planner.inputs import plan_record
from explorer.planner.plans import Accuracy, Level, Plan
from explorer.present.plan_export import server_command
from explorer.quantization import TENSOR_TYPES
from tests.planner.models import GIB, MIB
from tests.planner.plans import check_terms, record_of
from tests.planner.vllm_cases import folder_of

FILES = 16_100_000_000  # the files are larger than their tensors, by their headers


def planned(
    free: int, library: str = "CUDA", files: int = FILES, total: int | None = None, **settings: Any
) -> Plan:
    folder = folder_of("llama-3.1-8b|none")
    h = Hyperparameters(blobs=folder, block_count=folder.layers, layer_bytes=files)
    device = Device("0", library, free, total=total)
    return plan(h, Settings(**settings), (device,), profile="ollama-mlx")


record = partial(record_of, part="ollama_mlx")


@pytest.mark.parametrize(("library", "least"), [("CUDA", 457 * MIB), ("Metal", 512 * MIB)])
def test_a_model_loads_by_its_files_alone(library: str, least: int) -> None:
    enough = FILES + least
    assert record(planned(enough, library))["loads"]
    refused = planned(enough - 1, library)
    assert not record(refused)["loads"]
    assert refused.verdict.level is Level.NOT
    assert refused.verdict.short == {0: 1}
    assert not record(planned(enough, library, overhead=1))["loads"]
    longer = record(planned(enough, library, context=100_000))  # the context does not matter
    assert longer["loads"]
    assert longer["cache_bytes"] > record(planned(enough, library, context=4096))["cache_bytes"]


def test_a_plan_is_an_estimate_and_says_what_is_exact() -> None:
    made = planned(64 * GIB)
    assert made.details.accuracy is Accuracy.ESTIMATE
    assert made.notes[1].startswith("an estimate")
    assert made.notes[0].startswith("Ollama loads it by its files alone: 15.0 GiB against 63.6 GiB")
    assert "refuses it" in planned(8 * GIB).notes[0]


def test_a_model_that_loads_may_outgrow_the_gpu() -> None:
    small = planned(FILES + 600 * MIB, context=4096)
    assert small.verdict.level is Level.PARTLY
    assert any("comes to need" in one for one in small.warnings)
    large = planned(64 * GIB, context=4096)
    assert large.verdict.level is Level.FITS
    assert not large.warnings
    assert record(large)["prefix_cache"] == [0, 8 * GIB]


def test_every_formula_gives_its_figure() -> None:
    made = planned(64 * GIB, context=9000)
    check_terms(made)
    assert server_command(Path("manifest"), made) == ""


def test_the_context_of_the_model_s_own_parameters_holds_where_none_is_asked_for() -> None:
    h = Hyperparameters(
        blobs=folder_of("llama-3.1-8b|none"), block_count=32, layer_bytes=FILES, own_context=2048
    )
    device = Device("0", "Metal", 96 * GIB)
    for asked, used in ((None, 2048), (1024, 1024)):
        made = plan(h, Settings(context=asked), (device,), profile="ollama-mlx")
        assert made.used("context") == used


def test_what_it_does_not_load_is_refused() -> None:
    engine = ENGINES["ollama-mlx"]
    folder = folder_of("llama-3.1-8b|none")
    assert engine.refusal(Hyperparameters(folder=folder))
    other = Hyperparameters(blobs=folder_of("phi-4|none"))
    assert engine.refusal(other)
    with pytest.raises(PlanError, match="name one"):
        plan(Hyperparameters(blobs=folder), profile="ollama-mlx")


def test_the_check_is_exact_of_architectures_whose_caches_are_not_known() -> None:
    own = folder_of("llama-3.1-8b|none")
    folder = Folder({**own.config, "model_type": "gemma4_text"}, own._names, own._specs)
    h = Hyperparameters(blobs=folder, block_count=folder.layers, layer_bytes=16 << 30)
    for free, level in ((24, Level.PARTLY), (16, Level.NOT)):
        made = plan(h, devices=(Device("0", "Metal", free << 30),), profile="ollama-mlx")
        assert made.verdict.level is level
        found = plan_record(made)["ollama_mlx"]
        assert (found["loads"], found["cache_bytes"]) == (free == 24, None)


def test_layers_that_draft_tokens_have_weights_and_a_cache_here_alone() -> None:
    own, size = folder_of("llama-3.1-8b|none"), 2 << 20
    spec = Spec(TENSOR_TYPES["BF16"], (1024, 1024), 0, size)
    folder = Folder(own.config, (*own._names, "mtp.layers.0.fc.weight"), (*own._specs, spec))
    device, asked = Device("0", "Metal", 96 << 30, total=96 << 30), Settings(context=4096)
    ollama, mlx = (
        plan(Hyperparameters(block_count=32, **{part: folder}), asked, (device,), profile=name)
        for name, part in (("ollama-mlx", "blobs"), ("mlx", "folder"))
    )
    assert ollama.weights == mlx.weights + size
    assert 32 * ollama.cache == 33 * mlx.cache


def test_a_model_of_ollama_s_store_has_the_bytes_of_its_layers(shared_data: Path) -> None:
    library = shared_data / "ollama_store/models/manifests/registry.ollama.ai/library"
    with open_model(library / "tinymoe/latest") as model:
        h = Hyperparameters.from_model(model)
        files = sum(file.source.size for file in model.files)
    assert h.folder is None
    assert h.layer_bytes == files
    refusal = ENGINES["ollama-mlx"].refusal(h)
    assert "kv_lora_rank" in refusal  # the tiny model has no latent
    assert default_engine(h).name == "ollama-mlx"  # which says so
