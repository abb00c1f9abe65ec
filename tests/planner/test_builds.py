"""What older builds of llama.cpp reserve; `tests/data/planner/make_builds.py` ran three of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from explorer.planner.engines.llama_cpp.allocation import Settings, allocate
from explorer.planner.engines.llama_cpp.header import Header
from tests.planner.models import DATA, header_model, module_of, packed

_CASES = packed(DATA / "llama_cpp_builds.json.gz")["cases"]
_FAMILIES = packed(DATA / "llama_cpp_families.json.gz")["models"]
_OTHER_CACHE = {
    # files that say by a list which layers have windows, which these builds do not read
    *("afmoe-moe", "cohere2", "exaone-moe-moe", "gemma3", "laguna-moe", "smallthinker-moe"),
    # 8635 alone, for three days, did not quantize caches of windows
    "gpt-oss-moe",
    # 8635 and 9441 have no caches of indexers, 10204 has one of an MTP layer
    *("glm-dsa-moe", "glm-dsa that guesses ahead", "deepseek32 that guesses ahead"),
    # before 10605 the bias of the experts of MTP layers is loaded: 6 KB
    "glm4moe that guesses ahead",
}


class _Case(NamedTuple):
    name: str
    build: str
    accuracy: str
    planned: list[int]  # weights, cache and state, compute
    measured: list[int]


def _cases(group: str, models: Mapping[str, Mapping[str, Any]]) -> Iterator[_Case]:
    for of, name, asked, found in _CASES:
        if of != group:
            continue
        made = models[name]
        header = Header.from_model(header_model(made["metadata"], made["tensors"]))
        on_cpu = Settings(**asked, gpu_layers=0, devices=0, library="CPU", all_logits=True)
        for build, measured in found.items():
            planned = allocate(header, replace(on_cpu, build=int(build)))
            buffers = planned.buffers.values()
            figures = [(one.weights, one.cache, one.compute or 0) for one in buffers]
            sums = [sum(column) for column in zip(*figures, strict=True)]
            yield _Case(name, build, planned.accuracy, sums, measured)


@pytest.fixture(scope="module")
def cases() -> list[_Case]:
    return list(_cases("family", _FAMILIES))


def test_weights_and_caches_of_older_builds(cases: list[_Case]) -> None:
    off = {one.name for one in cases if one.planned[:2] != one.measured[:2]}
    assert off <= _OTHER_CACHE


def test_compute_buffers_that_are_called_exact_are_so(cases: list[_Case]) -> None:
    compared = Counter(one.build for one in cases if one.accuracy == "exact")
    assert min(compared.values()) > 60, compared
    for one in cases:
        if one.accuracy == "exact":
            assert one.planned[2] == pytest.approx(one.measured[2], rel=0.01), one


def test_models_of_this_year_in_older_builds(shared_reference: Path) -> None:
    maker = module_of(DATA / "make_backends.py")
    maker.NAMES = {name for group, name, *_ in _CASES if group == "made"}
    tool = shared_reference.parent / "tools" / "make_models.py"
    models = {
        name: {"metadata": keys, "tensors": tensors} for name, (keys, tensors) in maker._made(tool)
    }
    found = list(_cases("made", models))
    assert {one.build for one in found} == {"8635", "9441", "10204", "10605"}
    for one in found:
        assert one.planned[:2] == one.measured[:2], one
        limit = 0.01 if one.accuracy == "exact" else 0.1
        assert one.planned[2] == pytest.approx(one.measured[2], rel=limit), one
