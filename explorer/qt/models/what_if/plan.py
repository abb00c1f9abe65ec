"""The memory plan of a model whose tensors have other types. Knows no Qt."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from explorer.errors import PlanError
from explorer.formats.model import Model
from explorer.hardware.detect import Machine
from explorer.planner import Hyperparameters, Settings
from explorer.planner import settings as env
from explorer.planner.inputs import PlanInputs, make_outcome
from explorer.planner.profiles import with_types
from explorer.quantization import TensorType

USUAL_CONTEXT: Final = 8192
"""Tokens that are planned for as long as nobody asked for another context."""


@dataclass(frozen=True, slots=True)
class PlanThen:
    """What a plan comes to.

    Attributes:
        total: Bytes needed in all.
        vram: Bytes on GPUs; None without GPUs, or where no split is claimed.
        gpu_layers: Layers on GPUs; None as before.
        layers: Layers in all.
        refusal: Why Ollama would refuse to load it; "" if it would not.
    """

    total: int
    vram: int | None
    gpu_layers: int | None
    layers: int
    refusal: str = ""


class Plans:
    """Plans for one model.

    Attributes:
        inputs: The settings and devices that are planned for.
        problem: Why there are no plans; "" if there are.

    Args:
        model: The model.
        inputs: What to plan for; None for a usual context on the machine.
        machine: This machine.
    """

    def __init__(self, model: Model, inputs: PlanInputs | None, machine: Machine) -> None:
        if inputs is None:
            settings = Settings(context=USUAL_CONTEXT)
            inputs = PlanInputs(settings, machine.devices, machine.host)
        self.inputs = inputs
        self.problem = ""
        self._model = model
        self._environment = env.used(os.environ)
        self._h: Hyperparameters | None = None
        try:
            h = Hyperparameters.from_model(model)
        except PlanError as error:
            self.problem = error.what
            return
        if h.block_count:
            self._h = h
        else:
            self.problem = "the model says nothing of its layers"

    def plan(self, types: Mapping[int, TensorType]) -> PlanThen | None:
        """Return the plan of the model with other types of tensors, by row; None without one."""
        h = self._h
        if h is None:
            return None
        outcome = make_outcome(with_types(self._model, h, types), self.inputs, self._environment)
        plan = outcome.plan
        if plan is None:
            return None
        on_gpus = bool(self.inputs.devices)
        return PlanThen(
            total=plan.total,
            vram=plan.vram_total if on_gpus else None,
            gpu_layers=plan.gpu_layers if on_gpus else None,
            layers=h.total_layers,
            refusal=outcome.refusal,
        )
