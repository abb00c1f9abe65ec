"""What is wrong with a model, for all that names it: here, and for llama.cpp."""

from __future__ import annotations

from typing import Final

from explorer.formats.gguf.llama_cpp import WHERE, llama_cpp_problems
from explorer.formats.model import Model, Problem, Severity
from explorer.parallel import Check, never

REFUSED: Final = "llama.cpp refuses it"
"""Whether a model fits, of one that llama.cpp will not load."""


def problems_of(model: Model, check: Check = never) -> tuple[Problem, ...]:
    """Return what is wrong with a model; of one that is sound, why llama.cpp will not load it.

    `check` is called now and then; it raises to give up.
    """
    from explorer.planner.engines.llama_cpp.refusals import refusal_of  # noqa: PLC0415 - the first paint is sooner

    problems = *model.problems, *llama_cpp_problems(model, check)
    if not problems and (refused := refusal_of(model)):
        problems = (Problem(Severity.WARNING, WHERE, refused.removeprefix(f"{WHERE} ")),)
    return problems
