"""Tables of what-ifs: tensors, or a model, in other types or by recipes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from explorer.analysis.errors.metrics import ErrorMetrics, WeightedErrors
from explorer.analysis.recipes.fits import RecipeTypes, RoleErrors
from explorer.analysis.what_if import PRESENT, SizeAfter, TypeErrors
from explorer.planner.inputs import PlannedMemory
from explorer.planner.plans import Level
from explorer.present.plan import LEVEL_WORDS, fit_state
from explorer.present.tables.errors import FIGURES, SATURATION, WEIGHTED, errors_of, weighted_of
from explorer.present.tables.recipes import ROLES, types_text
from explorer.present.tables.survey import FolderRow
from explorer.present.tables.table import (
    BITS,
    BYTES,
    INTEGER,
    LIST,
    TEXT,
    TYPE,
    YES_NO,
    Column,
    Kind,
    Table,
)
from explorer.text import UNKNOWN, bytes_text, integer_text, plain_text, signed_text


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried: the tensors in a type, or by a recipe.

    Attributes:
        type_name: The type, or the recipe; `PRESENT` for the tensors as they are.
        title: What to call it.
        size: How large they are then.
        now: How large they are.
        plan: The memory plan then, or None.
        plan_now: The memory plan as it is, or None.
        errors: What is lost, of the weights that were looked at; None if none were.
        measurable: Whether what is lost can be known: of the tensors as they are, only against the
            original.
        front: Whether nothing else is smaller and not worse, or better and not larger.
        recipe: The types of a recipe, which gives each tensor its own; None of a type.
        names: Names of the model's tensors.
        roles: Errors by role, where they were added up.
        present_type: The type that all of the tensors have; "" for several.
        mark: Which of the models that are compared it is: "A" or "B"; "" for what could be.
        given: Figures that are known from elsewhere, by name: of a model as it is, and what others
            measured (see `QUALITY`).
    """

    type_name: str
    title: str
    size: SizeAfter
    now: SizeAfter
    plan: PlannedMemory | None = None
    plan_now: PlannedMemory | None = None
    errors: TypeErrors | None = None
    measurable: bool = True
    front: bool = False
    recipe: RecipeTypes | None = None
    names: Sequence[str] = field(default=(), compare=False, repr=False)
    roles: Sequence[RoleErrors] = ()
    present_type: str = ""
    mark: str = ""
    given: Mapping[str, float] = field(default_factory=dict)

    @property
    def colour(self) -> str | None:
        """The type whose colour stands before the line; None for several."""
        if self.type_name != PRESENT:
            return self.type_name
        return self.present_type or None

    @property
    def complete(self) -> bool:
        """Whether what is lost is known of all weights."""
        return self.errors is not None and self.errors.complete

    def figure(self, name: str) -> float | None:
        """Return a figure by name, of the weights so far; None if it is not known, or NaN."""
        known = self.errors
        if known is None or name in self.given:
            return self.given.get(name)
        if name not in FIGURES.names and name not in WEIGHTED.names:
            return None  # what only others measure, such as perplexity
        errors: ErrorMetrics | WeightedErrors | None = known.metrics
        if name in WEIGHTED.names:
            errors, name = known.weighted, name.removeprefix("weighted_")
        value = math.nan if errors is None else float(getattr(errors, name))
        return None if math.isnan(value) else value


def change_text(nbytes: int) -> str:
    """Return a difference of bytes with its sign."""
    return signed_text(nbytes, bytes_text) if nbytes else f"\N{PLUS-MINUS SIGN}{bytes_text(0)}"


def note_text(line: Trial) -> str:
    return plain_text(", ".join(whole for whole, _ in _notes(line)))


def short_note(line: Trial) -> str:
    """Return what the table has room for of a note; the cell's tool tip has all of it."""
    return plain_text(", ".join(short for _, short in _notes(line) if short))


def _notes(line: Trial) -> Iterator[tuple[str, str]]:
    """Yield what else there is to say, and the same in few words; "" if the table says it."""
    if line.size.problem is not None:
        yield f"cannot be: {line.size.problem}", ""
        return
    if line.errors is not None and not line.errors.complete:
        done = line.errors.done / line.errors.total
        yield (f"{100 * done:.0f} % measured",) * 2
    elif not line.measurable:
        yield "its own error is not known without the original", ""
    elif line.errors is None:
        yield "not measured", ""
    if line.front:
        yield ("best trade-off",) * 2
    if line.recipe is not None and line.size.types:
        yield (types_text(Counter(kind.name for kind in line.size.types.values())),) * 2
    for name, narrow in line.size.substitutes.items():
        n = integer_text(narrow)
        yield (f"{n} too narrow: {name} there, as llama-quantize does", f"{n} in {name}")
    if kept := line.size.kept:
        n, whole = integer_text(kept), "1 tensor cannot have it and stays as it is"
        if kept > 1:
            whole = f"{n} tensors cannot have it and stay as they are"
        yield whole, f"{n} as they are"
    if line.plan is not None and line.plan.refusal:
        yield (line.plan.refusal,) * 2


_CHANGE: Final = Kind(change_text)
_RECIPE: Final = "The recipe of llama-quantize. The first line says what the file is."
_TYPE: Final = "The type that the chosen tensors would have. The first line has their own."
_BITS: Final = "Stored bits for each weight of the chosen tensors."
_BYTES: Final = "Bytes that the tensors above take in this type."
_MORE: Final = "Difference from the present size."
_NOTE: Final = "Remarks, such as how much is measured so far."


def _fitting(value: Callable[[SizeAfter], Any]) -> Callable[[Trial], Any]:
    return lambda line: value(line.size) if line.size.problem is None else None


def _planned(value: Callable[[PlannedMemory, PlannedMemory], Any]) -> Callable[[Trial], Any]:
    def of(line: Trial) -> Any:
        plan, now = line.plan, line.plan_now
        if plan is None or now is None or line.size.problem is not None:
            return None
        return value(plan, now)

    return of


def what_if_table(
    *, by_recipe: bool = False, planned: str = "", weighted: bool = False
) -> Table[Trial]:
    """Return the table of what-ifs.

    Args:
        by_recipe: Whether the lines are recipes.
        planned: What the memory is planned for, in words.
        weighted: Whether there is an importance matrix.
    """

    def memory(
        name: str,
        title: str,
        kind: Kind,
        of: Callable[[PlannedMemory, PlannedMemory], Any],
        **more: Any,
    ) -> Column[Trial]:
        return Column(name, title, kind, planned, _planned(of), sparse=True, **more)

    subject = Column[Trial]("type", "Type", TYPE, _TYPE, lambda line: line.colour)
    if by_recipe:
        subject = Column("type", "Recipe", TEXT, _RECIPE, lambda line: line.title)
    return Table(
        replace(subject, text=lambda line: line.title),
        Column(
            *("bits_per_weight", "Bits/weight", BITS, _BITS),
            _fitting(lambda size: size.bits_per_weight),
            UNKNOWN,
        ),
        Column("bytes", "Size", BYTES, _BYTES, _fitting(lambda size: size.nbytes), UNKNOWN),
        FIGURES["relative_rmse"].at(errors_of, blank=UNKNOWN),
        *(WEIGHTED.at(weighted_of, "weighted_relative_rmse", blank=UNKNOWN) if weighted else ()),
        FIGURES["sqnr_db"].at(errors_of, blank=UNKNOWN, extra=True),
        Column("bytes_change", "Change", _CHANGE, _MORE, _change, UNKNOWN, extra=True),
        memory("memory_total", "Memory", BYTES, lambda plan, _: plan.total),
        memory("memory_change", "Memory change", _CHANGE, _memory_change, extra=True),
        memory("memory_on_gpus", "On GPUs", BYTES, lambda plan, _: plan.vram, extra=True),
        memory("fits", "On this machine", TEXT, _fits),
        Column("note", "Note", TEXT, _NOTE, note_text, text=short_note, stretches=True),
        *FIGURES.at(errors_of, "rmse", "max_abs_error", blank=UNKNOWN, extra=True),
        replace(SATURATION, of=_saturated, blank=UNKNOWN),
        Column(
            *("file_bytes", "File", BYTES, "Bytes of the model's files."),
            _fitting(lambda size: size.file_nbytes),
            UNKNOWN,
            extra=True,
        ),
        title="Recipes" if by_recipe else "Types",
        problem=lambda line: line.size.problem or "",
    )


def _memory_change(plan: PlannedMemory, now: PlannedMemory) -> int:
    return plan.total - now.total


def _fits(plan: PlannedMemory, _now: PlannedMemory) -> str:
    return LEVEL_WORDS[Level.NOT] if plan.refusal else fit_state(plan.verdict)


def _change(line: Trial) -> int | None:
    return None if line.size.problem is not None else line.size.nbytes - line.now.nbytes


def _saturated(line: Trial) -> float | None:
    return None if line.errors is None else line.errors.saturated


# What llama-quantize, or Ollama, would make of a model by each recipe, as the command prints it

_TRIED: Final = "The recipe of llama-quantize, or of Ollama."
_SIZE_BY: Final = "Bytes that all tensors would take."
_NEEDED: Final = "Memory that a plan of the model would need."
_STAYING: Final = "Tensors that cannot have their type and stay as they are."
_NOT_MEASURED: Final = "not measured"


def _memory(trial: Trial) -> int | None:
    return None if trial.plan is None or trial.size.problem is not None else trial.plan.total


def _has_matrix(trial: Trial) -> bool:
    return trial.recipe is not None and trial.recipe.imatrix


def _types_by_name(trial: Trial) -> dict[str, str]:
    types = {} if trial.recipe is None else trial.recipe.types
    return {trial.names[row]: kind for row, kind in types.items()}


def trials_table(*, weighted: bool) -> Table[Trial]:
    """Return the table of recipes; `weighted`: with the errors by importance."""
    figure = partial(FIGURES.at, errors_of, blank=_NOT_MEASURED)
    importance = WEIGHTED.at(weighted_of, blank=_NOT_MEASURED) if weighted else ()
    kept, file_bytes = (_fitting(attrgetter(name)) for name in ("kept", "file_nbytes"))
    return Table(
        Column("recipe", "Recipe", TEXT, _TRIED, lambda trial: trial.title),
        Column("imatrix", "Importance matrix", YES_NO, "", _has_matrix, extra=True),
        Column("problem", "Problem", TEXT, "", lambda trial: trial.size.problem, extra=True),
        Column("bytes", "Size", BYTES, _SIZE_BY, _fitting(lambda size: size.nbytes)),
        Column("file_bytes", "Files", BYTES, "", file_bytes, extra=True),
        Column(
            *("bits_per_weight", "Bits/weight", BITS, "Stored bits for each weight."),
            _fitting(lambda size: size.bits_per_weight),
        ),
        Column("kept", "Stay", INTEGER, _STAYING, kept, extra=True),
        *figure("relative_rmse", "sqnr_db"),
        *importance,
        *figure("rmse", "max_abs_error", extra=True),
        Column(
            *("on_front", "Best trade-off", YES_NO, "No recipe is smaller and not worse."),
            lambda trial: trial.front,
            extra=True,
        ),
        Column("memory", "Memory", BYTES, _NEEDED, _memory),
        Column("types", "Types", LIST, of=_types_by_name, json_only=True),
        Column(
            *("roles", "Roles", LIST),
            of=lambda trial: list(map(ROLES.record, trial.roles)),
            json_only=True,
        ),
        title="Recipes",
        problem=lambda trial: trial.size.problem or "",
    )


@dataclass(frozen=True, slots=True)
class FolderTrial:
    """What a recipe would make of one of several models.

    Attributes:
        model: The model.
        trial: The recipe; None if the model cannot be read.
    """

    model: FolderRow
    trial: Trial | None


def folder_trials_table(*, weighted: bool) -> Table[FolderTrial]:
    """Return the table of recipes of all models of a folder."""
    columns: list[Column[FolderTrial]] = trials_table(weighted=weighted).at(lambda row: row.trial)
    tried = Table(*columns)
    return Table(
        Column("model", "Model", TEXT, "Its name.", lambda row: row.model.model),
        Column("path", "Path", TEXT, "Where it is.", lambda row: row.model.path, extra=True),
        *tried.replacing(
            Column("problem", "Problem", of=_problem, extra=True),
            replace(tried["on_front"], extra=False),
        ),
        title="Recipes of the models of the folder",
        problem=lambda row: _problem(row) or "",
    )


def _problem(row: FolderTrial) -> str | None:
    return row.model.problem if row.trial is None else row.trial.size.problem
