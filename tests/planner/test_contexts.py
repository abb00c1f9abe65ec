"""Speculation, logits and flash attention left alone: equal to the byte with llama.cpp's own code.

The cases are what build 11434 allocated for models of these shapes on a device that answers like
CUDA's and holds nothing, as those of docs/planner.md, section 13.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.planner import Device, Hyperparameters, plan
from explorer.planner import Settings as Asked
from explorer.planner.engines.llama_cpp.allocation import Allocation, Settings, allocate
from explorer.planner.engines.llama_cpp.builds import NEWEST
from explorer.planner.engines.llama_cpp.fitting import fit
from explorer.planner.engines.llama_cpp.header import Header
from explorer.text import bytes_text
from tests.planner.models import DATA, GIB, header_model, packed

_CONTENT = packed(DATA / "llama_cpp_contexts.json.gz")
MODELS: dict[str, Any] = _CONTENT["models"]
_CASES: list[dict[str, Any]] = _CONTENT["cases"]


def model_of(name: str) -> Model:
    """Return a model of the cases; a header and nothing else."""
    described = MODELS[name]
    return header_model(described["metadata"], described["tensors"])


@cache
def _header(name: str) -> Header:
    return Header.from_model(model_of(name))


def _settings(case: dict[str, Any]) -> Settings:
    values = dict(case["settings"])
    if "draft" in values:
        values["draft"] = _header(values["draft"])
    return Settings(**values)


def _sizes(allocation: Allocation | None) -> dict[str, list[int]]:
    buffers = {} if allocation is None else allocation.buffers
    found = {name: [one.weights, one.cache, one.compute or 0] for name, one in buffers.items()}
    return {name: sizes for name, sizes in found.items() if any(sizes)}


@pytest.mark.usefixtures("nothing_is_fused")
@pytest.mark.parametrize("model", MODELS)
def test_every_context_is_as_large_as_llama_cpp_s(model: str) -> None:
    cases = [case for case in _CASES if case["model"] == model]
    for case in cases:
        if case.get("error"):
            with pytest.raises(PlanError):
                allocate(_header(model), _settings(case))
            continue
        allocation = allocate(_header(model), _settings(case))
        expected = {
            what: {name.replace("CUDA_Host", "host"): sizes for name, sizes in buffers.items()}
            for what, buffers in case["memory"].items()
        }
        if allocation.accuracy == "unknown architecture":  # of whose main graph no size is known
            for sizes in expected["main"].values():
                sizes[2] = 0
        assert {"main": _sizes(allocation), "draft": _sizes(allocation.draft)} == expected
    assert cases or model in {case["settings"].get("draft") for case in _CASES}


def test_flash_attention_is_off_where_a_device_has_no_kernel() -> None:
    heads = {"heads-512": True, "heads-512-g1": False, "heads-160": False, "heads-80": True}
    settings = Settings(flash_attention=None)
    found = {name: allocate(_header(name), settings).flash_attention for name in heads}
    assert found == heads
    vulkan = Settings(flash_attention=None, library="Vulkan")
    assert allocate(_header("heads-160"), vulkan).flash_attention
    assert allocate(_header("heads-160"), Settings(flash_attention=None, devices=0)).flash_attention


@pytest.mark.parametrize(
    ("library", "build", "types", "computes"),
    [
        ("CUDA", 10816, ("q8_0", "q8_0"), True),
        ("CUDA", 10816, ("q8_0", "f16"), False),
        ("CUDA", 10816, ("f16", "bf16"), False),
        ("ROCm", 10816, ("q8_0", "f16"), False),
        ("CUDA", 10901, ("q8_0", "f16"), True),
        ("Vulkan", 10816, ("q8_0", "f16"), True),
        ("Vulkan", NEWEST, ("bf16", "bf16"), True),
        ("Vulkan", NEWEST, ("q8_0", "bf16"), False),
        ("Metal", NEWEST, ("q8_0", "f16"), False),
    ],
)
def test_a_kernel_is_for_some_pairs_of_types(
    library: str, build: int, types: tuple[str, str], *, computes: bool
) -> None:
    key, value = types
    header = _header("step35")
    left = Settings(flash_attention=None, type_k=key, type_v=value, library=library, build=build)
    assert allocate(header, left).flash_attention is computes
    on, equal = (
        allocate(header, replace(left, flash_attention=True, type_k=one)) for one in (key, value)
    )
    held, usual = (one.buffers["host"].compute or 0 for one in (on, equal))
    assert (held > 1.5 * usual) is not computes  # then the CPU computes it


def test_attention_without_a_kernel_is_exact_where_it_was_compared() -> None:
    plain = Settings(flash_attention=False, library="Vulkan")
    other = replace(plain, type_k="iq4_nl")
    found = [
        allocate(_header("step35"), one).accuracy
        for one in (plain, other, replace(other, flash_attention=True))
    ]
    assert found == ["exact", "band", "exact"]
    assert allocate(_header("step35"), replace(plain, type_k="q8_0", library="CUDA")).accuracy == (
        "exact"
    )


def test_a_plan_says_what_it_costs_that_a_device_has_no_kernel() -> None:
    h, devices = Hyperparameters.from_model(model_of("heads-160")), (Device("0", "CUDA", 24 * GIB),)
    off, on = (
        plan(h, Asked(context=32768, flash_attention=asked), devices, profile="llama.cpp")
        for asked in (None, True)
    )
    more = bytes_text(off.gpus[0].compute.high - on.gpus[0].compute.high)
    assert any(note.endswith(f"That takes {more} more on the GPUs") for note in off.notes)
    assert not any("more on the GPUs" in note for note in on.notes)


def test_a_model_that_guesses_nothing_ahead_is_refused() -> None:
    with pytest.raises(PlanError, match="MTP"):
        allocate(_header("heads-80"), Settings(mtp=2))
    assert allocate(_header("qwen35-mtp"), Settings(mtp=2, build=9222)).draft is not None
    with pytest.raises(PlanError, match=r"9221 does not run .* yet. Build 9222 does"):
        allocate(_header("qwen35-mtp"), Settings(mtp=2, build=9221))


def test_a_decision_counts_what_drafts_tokens() -> None:
    header, settings = _header("qwen35-mtp"), Settings(context=32768)
    plain = allocate(header, settings).buffers["GPU0"].total
    both = allocate(header, Settings(context=32768, mtp=3))
    drafting = both.buffers["GPU0"].total + both.drafted("GPU0").total
    assert plain < drafting
    enough = [drafting + GIB]
    assert fit(header, Settings(context=32768, mtp=3), enough).gpu_layers == -1
    short = [drafting + GIB - 1]
    assert fit(header, Settings(context=32768, mtp=3), short).gpu_layers != -1
    assert fit(header, settings, short).gpu_layers == -1


@pytest.mark.parametrize(
    ("library", "accuracy"),
    [
        ("CUDA", "exact"),
        ("ROCm", "exact"),
        ("Vulkan", "exact"),
        ("Metal", "exact"),
        ("oneAPI", "band"),
    ],
)
def test_only_what_was_compared_is_exact(library: str, accuracy: str) -> None:
    assert allocate(_header("heads-80"), Settings(library=library)).accuracy == accuracy
