"""What llama.cpp's CUDA, Vulkan and Metal backends reserve; `make_backends.py` ran them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from explorer import planner
from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.planner import Device, Host
from explorer.planner.engines.llama_cpp.allocation import Allocation, Settings, allocate
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.engines.registry import ENGINES
from explorer.planner.inputs import PlanInputs, header_to_plan
from explorer.planner.plans import Level, Plan
from explorer.present.plan import memory_bars
from tests.planner.models import DATA, header_model, module_of, packed

_GOLDEN = {
    one: packed(DATA / f"llama_cpp_{one.lower()}.json.gz") for one in ("CUDA", "Vulkan", "Metal")
}
_FAMILIES = packed(DATA / "llama_cpp_families.json.gz")["models"]


class _Case(NamedTuple):
    """A model with settings, what llama.cpp allocates for it, and what is planned."""

    model: str
    settings: Any  # their name, or what was drawn
    allocation: Allocation
    measured: Mapping[str, list[int]]

    @property
    def planned(self) -> dict[str, list[int]]:
        """Weights, cache and compute of each GPU, and last of main memory."""
        found = {"host": [0, 0, 0]}
        for name, one in self.allocation.buffers.items():
            place = name if name.startswith("GPU") else "host"
            sizes = (one.weights, one.cache, one.compute or 0)
            found[place] = [a + b for a, b in zip(found.get(place, [0, 0, 0]), sizes, strict=True)]
        return found


def _cases(library: str, group: str, models: Mapping[str, Any]) -> Iterator[_Case]:
    known = _GOLDEN[library]["settings"][group]
    for model, found in _GOLDEN[library]["cases"][group].items():
        header = Header.from_model(header_model(*models[model]))
        for name, result in found.items():
            case = _compared(model, name, result, header, known[name] | {"library": library})
            if case is not None:
                yield case


def _compared(
    model: str, settings: Any, result: Any, header: Header, values: Mapping[str, Any]
) -> _Case | None:
    """Plan what was measured; None where llama.cpp ends itself, or makes no context."""
    try:
        allocation = allocate(header, Settings(**values))
    except PlanError:
        assert result is None, (model, settings)
        return None
    if result is None:  # llama.cpp ends itself, or the family is one that is not known
        return None
    n_ctx, n_ctx_seq, memory = result
    assert (allocation.n_ctx, allocation.n_ctx_seq) == (n_ctx, n_ctx_seq), (model, settings)
    measured: dict[str, list[int]] = {"host": [0, 0, 0]}
    for buffer, sizes in memory.items():
        gpu = re.fullmatch(r"(?:CUDA|Vulkan|MTL)(\d+)", buffer)
        place = f"GPU{gpu[1]}" if gpu else "host"
        measured[place] = [
            a + b for a, b in zip(measured.get(place, [0, 0, 0]), sizes, strict=True)
        ]
    return _Case(model, settings, allocation, measured)


def _check(library: str, group: str, models: Mapping[str, Any]) -> Counter[str]:
    """Compare the cases; count compute buffers of GPUs that are called exact, and equal ones."""
    counted = Counter[str]()
    for case in _cases(library, group, models):
        where = case.model, case.settings
        for name, (weights, cache, compute) in case.planned.items():
            sizes = case.measured.get(name, [0, 0, 0])
            assert weights == pytest.approx(sizes[0], abs=_SLACK[library]), (where, name)
            assert cache == sizes[1], (where, name)
            if case.allocation.accuracy != "exact":
                continue
            if name == "host":
                assert compute == pytest.approx(sizes[2], rel=0.02), (where, name)
                continue
            counted["all"] += 1
            counted["equal"] += compute == sizes[2]
            assert compute == pytest.approx(sizes[2], rel=0.01), (where, name)
    return counted


_EQUAL = {"CUDA": 0.97, "Vulkan": 0.95, "Metal": 1.0}
"""The least part of the compute buffers of GPUs that are equal to the byte."""
_DRAWN_EQUAL = {"CUDA": 0.94, "Vulkan": 0.94, "Metal": 1.0}
_SLACK = {"CUDA": 0, "Vulkan": 1024, "Metal": 0}
"""Bytes that buffers in main memory may take more than their tensors."""


@pytest.mark.slow
@pytest.mark.parametrize("library", _GOLDEN)
def test_models_of_every_architecture_take_what_a_backend_reserves(library: str) -> None:
    models = {name: (one["metadata"], one["tensors"]) for name, one in _FAMILIES.items()}
    counted = _check(library, "families", models)
    assert counted["all"] > (600 if library == "Metal" else 1400)  # as a whole: on one device
    assert counted["equal"] / counted["all"] >= _EQUAL[library]


@pytest.mark.slow
@pytest.mark.parametrize("library", _GOLDEN)
def test_large_models_take_what_a_backend_reserves(library: str, shared_reference: Path) -> None:
    maker = module_of(DATA / "make_backends.py")
    golden = packed(shared_reference / "llama_cpp_golden.json.gz")["models"]
    described = {name: (one["metadata"], one["tensors"]) for name, one in golden.items()}
    counted = _check(library, "golden", described)
    tool = shared_reference.parent / "tools" / "make_models.py"
    counted += _check(library, "made", dict(maker._made(tool)))
    assert counted["all"] > (90 if library == "Metal" else 250)
    assert counted["equal"] / counted["all"] >= _EQUAL[library]


@pytest.mark.slow
@pytest.mark.parametrize("library", _DRAWN_EQUAL)
def test_settings_drawn_at_random_take_what_is_allocated(
    library: str, shared_reference: Path
) -> None:
    """Caches on the CPU; with CUDA one, two and three GPUs, experts there, shares, few layers."""
    maker = module_of(DATA / "make_backends.py")
    golden = packed(shared_reference / "llama_cpp_golden.json.gz")["models"]
    described = {name: (one["metadata"], one["tensors"]) for name, one in golden.items()}
    described |= dict(maker._made(shared_reference.parent / "tools" / "make_models.py"))
    described |= maker.gemma3n()
    described |= {name: (one["metadata"], one["tensors"]) for name, one in _FAMILIES.items()}
    counted = Counter[str]()
    for model, cases in _GOLDEN[library]["cases"]["drawn"].items():
        header = Header.from_model(header_model(*described[model]))
        for drawn, result in cases:
            values = maker.USUAL | drawn | {"library": library}
            found = _compared(model, drawn, result, header, values)
            if found is None:
                continue
            for name, (weights, cache, compute) in found.planned.items():
                measured = found.measured.get(name, [0, 0, 0])
                where = model, drawn, name
                assert weights == pytest.approx(measured[0], abs=_SLACK[library]), where
                assert cache == measured[1], where
                if found.allocation.accuracy != "exact":
                    continue
                if name == "host":
                    assert compute == pytest.approx(measured[2], abs=_SLACK[library]), where
                    continue
                limits = found.allocation.buffers[name]
                assert limits.compute_low <= measured[2] <= limits.compute_high, where
                counted["all"] += 1
                counted["equal"] += compute == measured[2]
    assert counted["all"] > 300
    assert counted["equal"] / counted["all"] >= _DRAWN_EQUAL[library]


def test_metal_copies_the_cache_in_16_bits_since_a_build() -> None:
    header = Header.from_model(
        header_model(*(_FAMILIES["llama"][one] for one in ("metadata", "tensors")))
    )
    longest = Settings(context=1 << 17, library="Metal", build=11434)
    new, old, cuda = (
        allocate(header, one).buffers["GPU0"].compute or 0
        for one in (longest, replace(longest, build=10000), replace(longest, library="CUDA"))
    )
    heads, length = header.kv_heads[0], header.key_length
    copies = 2 * 2 * heads * length * (1 << 17)
    assert new - old == pytest.approx(copies, rel=0.1)
    assert old < cuda + copies


def test_metal_is_exact_where_a_model_lies_on_it_as_a_whole() -> None:
    header = Header.from_model(
        header_model(*(_FAMILIES["llama"][one] for one in ("metadata", "tensors")))
    )
    whole = Settings(library="Metal", build=11434)
    for settings, accuracy in (
        (whole, "exact"),
        (replace(whole, offload_kv=False), "exact"),
        (replace(whole, gpu_layers=3), "band"),  # what Mac's CPU computes depends on it
        (replace(whole, devices=2), "band"),
        (replace(whole, build=11401), "band"),
    ):
        assert allocate(header, settings).accuracy == accuracy, settings


def test_the_kernels_of_a_gpu_without_a_block_do_not_count() -> None:
    header = Header.from_model(
        header_model(*(_FAMILIES["llama"][one] for one in ("metadata", "tensors")))
    )
    pair = Settings(library="Metal", type_k="q8_0", type_v="f16", flash_attention=None)
    assert not allocate(header, pair).flash_attention
    assert not allocate(header, replace(pair, gpu_layers=2)).flash_attention
    assert allocate(header, replace(pair, gpu_layers=1)).flash_attention  # the output layer


def test_what_turns_positions_lies_on_each_gpu_and_leaves_no_layer_to_the_cpu(
    tmp_path: Path,
) -> None:
    described = _FAMILIES["llama"]
    assert any(name == "rope_freqs.weight" for name, *_ in described["tensors"])
    path = tmp_path / "llama.gguf"
    maker = module_of(DATA / "make_backends.py")
    maker.write_header(path, described["metadata"], described["tensors"])
    gpus = tuple(Device(str(i), "CUDA", 24 << 30) for i in range(2))
    with open_model(path) as model:
        header = header_to_plan(model)
    for devices, layers in ((gpus, None), (gpus[:1], 3)):
        asked = PlanInputs(planner.Settings(context=4096, num_gpu=layers), devices=devices)
        verdict = ENGINES["llama.cpp"].plan(asked.request(header, {})).verdict
        assert (verdict.gpu_layers, verdict.expert_layers) == (layers or 7, 0)
        assert (verdict.level is Level.FITS) == (layers is None)


def test_a_macs_cpu_has_what_its_gpu_leaves(tmp_path: Path) -> None:
    described = _FAMILIES["llama"]
    path = tmp_path / "llama.gguf"
    maker = module_of(DATA / "make_backends.py")
    maker.write_header(path, described["metadata"], described["tensors"])

    def verdict(total: int) -> Plan:
        mac = Device("0", "Metal", 8 << 30, total=total)
        asked = PlanInputs(planner.Settings(context=32768, num_gpu=3), devices=(mac,))
        return ENGINES["llama.cpp"].plan(asked.request(header, {}))

    with open_model(path) as model:
        header = header_to_plan(model)
        both = verdict(64 << 30).holdings
        needed = sum(held.total for held in both)
        assert [held.free for held in both] == [8 << 30, (64 << 30) - both[0].total]
        bars = memory_bars(verdict(64 << 30), Host(22 << 30, 2 << 30))  # of another machine
        assert [bar.capacity for bar in bars] == [held.free for held in both]
        assert verdict(needed).verdict.level is Level.PARTLY
        assert verdict(needed - 1).verdict.level is Level.NOT


def test_a_gemma_3n_that_lacks_something_has_an_upper_limit_alone() -> None:
    metadata, tensors = module_of(DATA / "make_backends.py").gemma3n()["gemma3n-e2b"]
    lacking = [one for one in tensors if one[0] != "per_layer_model_proj.weight"]
    without_blocks = metadata | {"gemma3n.block_count": 0}
    for described in ((metadata, lacking), (without_blocks, tensors)):
        header = Header.from_model(header_model(*described))
        found = allocate(header, Settings(context=512, gpu_layers=999, devices=1))
        assert found.accuracy == "unknown architecture"
        assert found.buffers["GPU0"].compute is None
