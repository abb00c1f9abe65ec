"""Files beside a model: what they are, what they take, which are proposed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.planner import Device, Hyperparameters, Settings
from explorer.planner.attachments import Attachment, projector_bytes, propose, read_attachment
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.engines.registry import engine_named
from explorer.planner.plans import Plan
from explorer.planner.request import PlanRequest
from tests.helpers.gguf_writer import STRING, U32, GgufFile, TensorSpec
from tests.helpers.sparse_models import Shape

MIB, GIB = 1 << 20, 1 << 30
QWEN = {"embedding_length": 1152, "feed_forward_length": 4304, "patch_size": 16}
"""The projector of a published log: 887.99 MiB of weights, 248.10 of compute."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of a model, what goes with it, and what does not."""
    Shape(blocks=8).write(tmp_path / "model.gguf")
    Shape(blocks=2, width=1024, heads=8, kv_heads=2, feed_forward=2048).write(
        tmp_path / "small.gguf"
    )
    Shape(blocks=2, width=1024, vocabulary=999, heads=8, kv_heads=2).write(
        tmp_path / "other-words.gguf"
    )
    write_projector(tmp_path / "mmproj.gguf", "qwen3vl_merger", **QWEN)
    write_lora(tmp_path / "style.gguf", "blk.0.attn_q.weight")
    write_lora(tmp_path / "of-another.gguf", "blk.99.attn_q.weight")
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF")
    return tmp_path


def write_projector(path: Path, kind: str, **numbers: int) -> Path:
    keys = [("general.architecture", STRING, "clip"), ("clip.projector_type", STRING, kind)]
    keys += [(f"clip.vision.{name}", U32, value) for name, value in numbers.items()]
    return GgufFile(keys=keys, tensors=[TensorSpec("v.w", (256,), 0, bytes(1024))]).write(path)


def write_lora(
    path: Path,
    base: str,
    *,
    of: str = "llama",
    kind: str = "lora",
    width: int = 4096,
    parts: str = "ab",
) -> Path:
    keys = [("general.architecture", STRING, of), ("general.type", STRING, "adapter")]
    keys.append(("adapter.type", STRING, kind))
    tensors = [
        TensorSpec(f"{base}.lora_{part}", dims, 0, bytes(4 * dims[0] * dims[1]))
        for part, dims in zip("abc", ((width, 4), (4, 4096), (4, 4)), strict=True)
        if part in parts
    ]
    return GgufFile(keys=keys, tensors=tensors).write(path)


def planned(folder: Path, *attached: Attachment, engine: str = "llama.cpp", **asked: int) -> Plan:
    with open_model(folder / "model.gguf") as model:
        h = Hyperparameters.from_model(model)
    settings = Settings(context=4096, parallel=1, projector_bytes=projector_bytes(attached))
    devices = (Device("0", "CUDA", 24 * GIB),)
    request = PlanRequest(h, replace(settings, **asked), devices, attached=attached)
    return engine_named(engine).plan(request)


def header(folder: Path) -> Header:
    with open_model(folder / "model.gguf") as model:
        return Header.from_model(model)


def test_what_goes_with_a_model_is_proposed_from_its_folder(folder: Path) -> None:
    found = propose(folder / "model.gguf", header(folder))
    assert [(one.kind, one.path.name) for one in found] == [
        ("projector", "mmproj.gguf"),
        ("lora", "style.gguf"),
        ("draft", "small.gguf"),
    ]


def test_a_projector_is_counted_with_its_weights_and_its_buffer(folder: Path) -> None:
    one = read_attachment(folder / "mmproj.gguf")
    low, high = one.compute
    assert low == high == pytest.approx(248.10 * MIB, abs=0.005 * MIB), "the published log"
    gpu = planned(folder, one).gpus[0]
    assert gpu.projector == one.nbytes + high
    assert gpu.total == planned(folder).gpus[0].total + gpu.projector
    assert any("its largest picture" in note for note in planned(folder, one).notes)


@pytest.mark.parametrize(
    ("kind", "name", "dims", "width"),
    [
        ("gemma3", "mm.input_projection.weight", (2560, 1152), 2560),
        ("gemma3", "mm.input_projection.weight", (4096, 1152), 4096),
        ("mlp", "mm.2.weight", (1024, 4096), 4096),
        ("qwen3vl_merger", "mm.2.weight", (4608, 2048), 2048),
        ("mlp", "mm.2.weight", (4096,), None),
        ("unheard-of", "mm.2.weight", (1024, 4096), None),
    ],
)
def test_a_projector_goes_with_a_model_of_its_width(
    folder: Path, kind: str, name: str, dims: tuple[int, ...], width: int | None
) -> None:
    keys = [("general.architecture", STRING, "clip"), ("clip.projector_type", STRING, kind)]
    tensor = TensorSpec(name, dims, 0, bytes(4 * math.prod(dims)))
    path = GgufFile(keys=keys, tensors=[tensor]).write(folder / "mmproj.gguf")
    one = read_attachment(path)
    assert one.width == width
    goes = width in (None, 4096)
    assert goes == any(one == other for other in propose(folder / "model.gguf", header(folder)))
    if goes:
        planned(folder, one)
    else:
        with pytest.raises(PlanError, match=f"made for a model of width {width}, and this one has"):
            planned(folder, one)


def test_a_projector_of_another_kind_has_a_wide_range(tmp_path: Path) -> None:
    sound = read_attachment(write_projector(tmp_path / "a.gguf", "ultravox"))
    assert sound.compute == (0, sound.nbytes)
    fixed = write_projector(
        tmp_path / "b.gguf", "gemma3", image_size=896, **QWEN | {"patch_size": 14}
    )
    assert read_attachment(fixed).compute[0] == 4 * 64 * 64 * (4304 + 2 * 1152)


@pytest.mark.parametrize("engine", ["llama.cpp", "ik_llama.cpp"])
def test_adapters_lie_with_the_tensors_that_they_change(folder: Path, engine: str) -> None:
    one = read_attachment(folder / "style.gguf")
    twice = planned(folder, one, replace(one, path=folder / "again.gguf"), engine=engine)
    assert [held.adapters for held in twice.holdings] == [2 * one.nbytes, 0]
    few = planned(folder, one, engine=engine, num_gpu=1)
    assert [held.adapters for held in few.holdings] == [0, one.nbytes]


def test_adapters_of_another_model_are_refused_as_llama_cpp_refuses_them(folder: Path) -> None:
    q, path = "blk.0.attn_q.weight", folder / "lora.gguf"
    for name, asked, why in (
        ("blk.99.attn_q.weight", {}, r"changes blk\.99\.attn_q\.weight, which this one lacks"),
        (q, {"of": "qwen3"}, "made for 'qwen3', and this is 'llama'"),
        (q, {"width": 2048}, "do not fit the shape of blk"),
        (q, {"kind": "alora"}, "loads LoRA adapters, and this one is 'alora'"),
        (q, {"parts": "a"}, "lacks a factor"),
        (q, {"parts": "abc"}, r"lora_c is no factor"),
    ):
        with pytest.raises(PlanError, match=why):
            planned(folder, read_attachment(write_lora(path, name, **asked)))


def test_a_draft_model_takes_weights_and_a_context(folder: Path) -> None:
    one = read_attachment(folder / "small.gguf")
    plan = planned(folder, one)
    assert plan.gpus[0].draft > one.nbytes // 2
    assert plan.used("draft_max") == 3
    with pytest.raises(PlanError, match="not by both"):
        planned(folder, one, mtp=2)


def test_what_is_no_gguf_model_is_refused(tmp_path: Path) -> None:
    keys = [("general.architecture", STRING, "llama")]
    vocabulary = GgufFile(keys=keys).write(tmp_path / "v.gguf")
    with pytest.raises(PlanError):
        read_attachment(vocabulary)
