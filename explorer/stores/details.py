"""What a listed model is: its header is opened, and closed again, for three facts."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.errors import ExplorerError
from explorer.formats import Model, Problem, Severity, open_model
from explorer.formats.facts import Facts, describe
from explorer.formats.ollama.opening import open_manifest
from explorer.stores.entries import Check, Entry


@dataclass(frozen=True, slots=True)
class Details:
    """What a model's header says. What is not known is None.

    Attributes:
        architecture: Its architecture, as the file names it.
        parameters: Number of weights.
        file_type: What most weights are stored as.
        problems: What is wrong with the model, its entry's problems included.
    """

    architecture: str | None = None
    parameters: int | None = None
    file_type: str | None = None
    problems: tuple[Problem, ...] = ()


def read_details(entry: Entry, check: Check = lambda: None) -> Details:
    """Open a model and return what it is; what keeps it from opening is a problem.

    Args:
        entry: An entry of a store.
        check: Called before each file is opened; raises to give up.
    """
    if entry.format is None:  # nothing there to open
        return Details(problems=entry.problems)
    check()
    try:
        with _open_model(entry, check) as model:
            facts = describe(model)
            problems: tuple[Problem, ...] = model.problems
    except ExplorerError as error:
        facts = Facts()
        what = f"{error.what} {error.where}".rstrip()
        problems = (Problem(Severity.ERROR, entry.name, what),)
    # Listing told some of them already, in its own words.
    told = {(problem.severity, problem.where) for problem in entry.problems}
    new = (problem for problem in problems if (problem.severity, problem.where) not in told)
    return Details(facts.architecture, facts.parameters, facts.file_type, (*entry.problems, *new))


def _open_model(entry: Entry, check: Check) -> Model:
    if entry.format == "ollama":  # thousands of blobs
        return open_manifest(entry.path, check)
    return open_model(entry.path)
