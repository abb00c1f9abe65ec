"""Plans beside what real machines logged: reference/real_plans.json, of 26 published logs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from explorer.analysis.recipes.fits import recipe_types
from explorer.analysis.recipes.tensors import RecipeModel
from explorer.formats import open_model
from explorer.planner import Device, Hyperparameters, Settings
from explorer.planner.engines.llama_cpp.outcome import Outcome
from explorer.planner.engines.registry import ENGINES
from explorer.planner.inputs import with_types
from explorer.planner.plans import Plan
from explorer.planner.request import PlanRequest
from explorer.planner.settings import MOST_LAYERS
from explorer.quantization import TENSOR_TYPES
from tests.planner.models import module_of

_MIB = 1 << 20
_PLENTY = 1 << 38
_OPTIONS: Mapping[str, tuple[str, Any]] = {
    "--context": ("context", None),
    "--parallel": ("parallel", None),
    "--batch": ("batch", None),
    "--ubatch": ("ubatch", None),
    "--gpu-layers": ("num_gpu", None),
    "--cache-type-k": ("cache_type_k", None),
    "--cache-type-v": ("cache_type_v", None),
    "--no-flash-attention": ("flash_attention", False),
    "--kv-unified": ("kv_unified", True),
    "--no-kv-unified": ("kv_unified", False),
}
_SPECULATING = {"qwen36-27b-mtp-cuda": 3}
"""Logs whose state says how many tokens were drafted, which their arguments do not."""

_RECIPES = {"qwen38-27b-b11501-ngl53": "IQ2_M", "qwen35-9b-vulkan-31of33": "Q4_K_M"}
"""What files are that the cases have as F16: the first by its verdict, the second nearly, since its
log names UD-Q4_K_XL. Weights of the CPU are copied for a batch, so their types count."""

_NOT_COMPARABLE = {
    ("qwen35-9b-vulkan-20of33", "GPU"): "its log does not name its file",
    ("qwen36-27b-mtp-cuda", "host"): "it has one of two equal contexts",
}
_BUILDS = {
    **dict.fromkeys(("llama32-3b-llamasharp", "qwen3-4b-spark-c4096"), 9400),
    "dscoder-v2-lite-ollama-2k": 10751,
    "gptoss20b-m5-131k": 7820,
    "qwen3-8b-gfx906-q4kv": 8505,
    "qwen36-27b-mtp-5090": 9129,
}
"""Builds that logs do not name. Of two bindings main memory has masks of 32 bits, so they are older
than 9410, whatever the day of the log; of a log of January 2026 room for given embeddings; of one
with a q4_0 cache no room for turned queries; of one of May 2026 none for what MTP layers read; of
one of August 2026 none for what a sum of experts reads."""


class _Real:
    """The cases, and models that are made from published numbers."""

    def __init__(self, shared: Path, folder: Path) -> None:
        tool = shared.parent / "tools" / "make_models.py"
        self.cases: list[dict[str, Any]] = json.loads(
            (shared / "real_plans.json").read_text("utf-8")
        )["cases"]
        self._tool = module_of(tool)
        self._folder = folder

    @cache  # noqa: B019 - one object a session
    def hyperparameters(self, name: str, recipe: str) -> Hyperparameters:
        before = Path.cwd()
        os.chdir(self._folder)  # the tool writes below it
        try:
            path = self._folder / self._tool.build(name)
        finally:
            os.chdir(before)
        with open_model(path) as model:
            h = Hyperparameters.from_model(model)
            if recipe in ("F16", "MXFP4"):
                return h
            known = set(model.tensors.columns.names) if recipe.startswith("IQ") else None
            types = recipe_types(RecipeModel.of(model), recipe, known).types
            return with_types(model, h, {row: TENSOR_TYPES[one] for row, one in types.items()})

    def plan(self, case: Mapping[str, Any]) -> Plan:
        words = [word for word in case["args"] if word not in ("--profile", "ollama")]
        values: dict[str, Any] = {"num_gpu": MOST_LAYERS}
        while words:
            name, value = _OPTIONS[words.pop(0)]
            values[name] = words.pop(0) if value is None else value
        settings = Settings(
            **values,
            all_logits=case["all_logits"],
            build=_BUILDS.get(case["id"], case["assumed_build"]),
            mtp=_SPECULATING.get(case["id"]),
        )
        devices = tuple(
            Device(str(i), case["backend"], _PLENTY) for i in range(len(case["devices"]))
        )
        engine = ENGINES["ollama" if "ollama" in case["args"] else "llama.cpp"]
        recipe = _RECIPES.get(case["id"], case["recipe"])
        h = self.hyperparameters(case["model"], recipe)
        return engine.plan(PlanRequest(h, settings, devices))

    def figures(self) -> Iterator[tuple[dict[str, Any], str, int, float, float]]:
        """Yield case, buffer, which figure (weights, cache, compute), planned and measured MiB."""
        for case in self.cases:
            details = self.plan(case).details
            assert isinstance(details, Outcome)
            allocation = details.allocation
            for name, measured in case["measured_MiB"].items():
                names = (name, "CPU") if name == "host" else (name,)
                held = [allocation.buffers[one] for one in names if one in allocation.buffers]
                held += [allocation.drafted(one) for one in names]
                sums = [
                    sum(one.weights for one in held),
                    sum(one.cache for one in held),
                    sum(one.compute or 0 for one in held),
                ]
                for which, value in enumerate(measured):
                    if value is not None and (which or case["weights_comparable"]):
                        yield case, name, which, sums[which] / _MIB, value


@pytest.fixture(scope="module")
def real(shared_reference: Path, tmp_path_factory: pytest.TempPathFactory) -> _Real:
    return _Real(shared_reference, tmp_path_factory.mktemp("models"))


def test_caches_and_states_are_as_logged(real: _Real) -> None:
    pairs = [one for one in real.figures() if one[2] == 1]
    assert len(pairs) > 30
    for case, name, _, planned, measured in pairs:
        assert planned == pytest.approx(measured, abs=0.01), (case["id"], name)


def test_weights_are_as_logged(real: _Real) -> None:
    pairs = [one for one in real.figures() if one[2] == 0]
    assert len(pairs) > 15
    for case, name, _, planned, measured in pairs:
        assert planned == pytest.approx(measured, rel=0.016), (case["id"], name)
    close = [abs(planned - measured) < 0.02 for *_, planned, measured in pairs]
    assert sum(close) >= len(close) - 4


@pytest.mark.parametrize(
    ("place", "count", "most", "close"), [("GPU", 27, 0.018, 21), ("host", 17, 0.016, 17)]
)
def test_compute_buffers_are_as_logged(
    real: _Real, place: str, count: int, most: float, close: int
) -> None:
    pairs = [
        (case["id"], planned / measured)
        for case, name, which, planned, measured in real.figures()
        if which == 2 and name.startswith(place) and (case["id"], place) not in _NOT_COMPARABLE
    ]
    assert len(pairs) >= count
    assert {name for name, ratio in pairs if abs(ratio - 1) > most} == set()
    assert sum(abs(ratio - 1) < 0.0011 for _, ratio in pairs) >= close
