"""What tests ask of any plan: its formulas, its figures, and the JSON of its engine."""

from __future__ import annotations

import json
from typing import Any

from explorer.planner.inputs import plan_record
from explorer.planner.plans import Plan, Term
from explorer.present.plan import memory_bars

_FUNCTIONS = {"max": max, "min": min, "sum": sum, "int": int}


def evaluate(term: Term) -> int | float:
    """Return what a term's formula gives."""
    inputs = {symbol: given.value for symbol, given in term.inputs.items()}
    value: int | float = eval(term.formula, {"__builtins__": {}}, _FUNCTIONS | inputs)
    return value


def check_terms(made: Plan) -> None:
    """Evaluate each term of a plan, and look for that of its total and of each part of its bars."""
    for term in made.terms:
        assert evaluate(term) == term.value, term
        assert all(given.origin for given in term.inputs.values()), term
    values = {term.name: term.value for term in made.terms}
    assert values["total"] == made.total == plan_record(made)["total"]
    for bar in memory_bars(made, None):
        assert all(not part.term or part.term in values for part in bar.parts)


def record_of(made: Plan, part: str) -> dict[str, Any]:
    """Return the object of a plan's JSON that only its engine has."""
    found: dict[str, Any] = json.loads(json.dumps(plan_record(made)))[part]
    return found
