"""What is said of two models side by side: sizes, memory, keys, tensors, roles, texts, errors.

The first is called A, the second B: what only B has was added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

from explorer.analysis.columns import AnyErrors, RoleSums
from explorer.analysis.differences import (
    Differences,
    ElementChanges,
    KeyDifference,
    TextDifference,
    VocabularyDifference,
    compare_headers,
    errors_by_role,
)
from explorer.analysis.errors import compare
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.what_if import SizeAfter
from explorer.errors import ExplorerError
from explorer.formats.facts import describe
from explorer.formats.model import MetadataEntry, Model
from explorer.formats.side_files import CHAT_TEMPLATE
from explorer.parallel import Check, never
from explorer.planner.engines.llama_cpp.allocation import Settings, allocate
from explorer.planner.logs.perplexity import Quality
from explorer.present.errors import Side, headline
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.model import kind_of, type_text, value_text
from explorer.present.tables.differences import (
    METRICS,
    QUALITY,
    ROLES,
    TENSORS,
    KeyRow,
    RoleRow,
    SizeRow,
)
from explorer.present.tables.errors import FIGURES
from explorer.present.tables.facts import FACTS
from explorer.present.tables.metadata import entry_record
from explorer.present.tables.table import BITS, BYTES, COUNT, INTEGER, Kind
from explorer.present.tables.what_if import Trial
from explorer.text import counted, integer_text, plain_text, sentence

CONTEXT: Final = 4096
"""Tokens of the plan that both models get, if no other number is asked for."""

DISTANCE: Final = (
    "Without the original these figures are a distance: how far the weights of the two are apart. "
    "They do not say which of them is better."
)
LOSS: Final = (
    "Each model is compared with the original, so these figures are a loss: the model with the "
    "smaller RMSE and the larger SQNR is nearer to the original."
)
NOT_READ: Final = (
    "Only the headers were compared. Equal headers do not mean equal weights. The errors say that."
)
NOTHING_COMPARED: Final = (
    "No weights could be compared: no tensors belong together, or their shapes differ."
)
MEMORY: Final = "What llama.cpp allocates for each model under the same settings."

_SIDES: Final = ("a", "b")
_BETTER: Final = {"relative_rmse": -1, "sqnr_db": 1}  # whether less is better, or more
_VALUE_CHARACTERS: Final = 160
_OF_TEXT: Final = "key", "removed", "added", "lines", "left_out"
_NO_MODEL: Final = "it is not a whole model"


@dataclass(frozen=True, slots=True)
class Memory:
    """What llama.cpp allocates for a model with all of it on one GPU, in bytes.

    Attributes:
        weights: Weights, those in main memory with them.
        cache: KV cache and state.
        compute: Compute buffers; None where they are not known.
        problem: Why there is no plan; "" if there is one.
    """

    weights: int = 0
    cache: int = 0
    compute: int | None = None
    problem: str = ""

    @property
    def total(self) -> int:
        return self.weights + self.cache + (self.compute or 0)

    def figure(self, name: str) -> int | None:
        """Return one of them; None where there is no plan."""
        return None if self.problem else getattr(self, name)


def memory_of(model: Model, context: int) -> Memory:
    """Return the memory of a plan that is the same for every model."""
    if kind_of(model) is not None:
        return Memory(problem=_NO_MODEL)
    if not len(model.tensors):
        return Memory(problem="it holds no weights")
    try:
        found = allocate(model, Settings(context=context))
    except ExplorerError as error:
        return Memory(problem=error.without_path)
    buffers = found.buffers.values()
    compute = [buffer.compute for buffer in buffers]
    known = None if None in compute else sum(one or 0 for one in compute)
    return Memory(
        sum(buffer.weights for buffer in buffers), sum(buffer.cache for buffer in buffers), known
    )


@dataclass(frozen=True)
class Errors:
    """Errors of all weights by role.

    Attributes:
        original: What both are compared with; None where one is compared with the other.
        sums: Of A and of B; of one none where the other is compared with it, or not known.
        problems: Pairs that could not be compared, with the reason.
    """

    original: str | None
    sums: tuple[RoleSums | None, RoleSums | None] = (None, None)
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def sides(self) -> list[Mapping[str, AnyErrors]]:
        """Those of A and of B by role."""
        return [{} if side is None else side.roles for side in self.sums]

    @property
    def totals(self) -> list[AnyErrors | None]:
        """Those of all weights; None where nothing is compared."""
        return [None if side is None else side.total for side in self.sums]

    @property
    def matrices(self) -> list[AnyErrors | None]:
        """Those of all weights but norms and biases."""
        return [None if side is None else side.matrices for side in self.sums]

    @property
    def meaning(self) -> str:
        """What the figures mean, in plain words."""
        return DISTANCE if self.original is None else LOSS


def measure_errors(
    models: tuple[Model, Model],
    original: Model | None,
    workers: int = 1,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Errors:
    """Compare all weights of B with A, or those of each with the original.

    Args:
        models: A and B.
        original: The original, or None.
        workers: Threads.
        progress: Called with the number of weights that were compared, and of all.
    """
    sides = [models] if original is None else [(original, each) for each in models]
    comparisons = [compare.Comparison(match_models(*side).matches, models=side) for side in sides]
    total = sum(comparison.parameters for comparison in comparisons)
    rows = compare.lists_of_all(comparisons, workers, progress=lambda done: progress(done, total))
    sums = [errors_by_role(side, some) for side, some in zip(sides, rows, strict=True)]
    problems = {
        row.pair.candidate_name: row.error.what for some in rows for row in some if row.error
    }
    if original is None:
        return Errors(None, (None, sums[0]), problems)
    return Errors(str(original.path), (sums[0], sums[1]), problems)


@dataclass(frozen=True)
class Comparison:
    """All that is said of two models."""

    found: Differences
    context: int
    memory: tuple[Memory, Memory]
    errors: Errors | None = None
    measured: tuple[Quality | None, Quality | None] = (None, None)  # by others
    other: str = "B"  # what the second is called

    @classmethod
    def of(
        cls, one: Model, other: Model, context: int = CONTEXT, check: Check = never
    ) -> Comparison:
        """Compare two headers; raises what `compare_headers` raises."""
        found = compare_headers(one, other, check)
        return cls(found, context, (memory_of(one, context), memory_of(other, context)))

    def with_errors(self, errors: Errors) -> Comparison:
        return replace(self, errors=errors)

    def with_measured(self, found: Sequence[Quality]) -> Comparison:
        """Add what others measured of A and of B; of several runs the last that says a figure."""

        def of(model: Model) -> Quality | None:
            kind = describe(model).file_type
            runs = [one for one in found if one.is_of(model.path, kind)]
            return reduce(Quality.corrected, runs) if runs else None

        one, other = self.found.models
        return replace(self, measured=(of(one), of(other)))

    @property
    def headline(self) -> str:
        """What B takes and loses beside A, and where; first, if they have nothing in common."""
        errors = self.errors or Errors(None)
        if errors.original is not None and self.other == "B" and None in errors.matrices:
            errors = Errors(None)  # of one of them against a third there is nothing to compare
        names = "A", self.other
        both = zip(names, self.found.models, errors.sides, errors.matrices, strict=True)
        apart = {"added", "gone"} == {tensor.kind for tensor in self.found.tensors}
        first = f"A and {self.other} have no tensor in common. " if apart else ""
        partly = any(errors.matrices) and errors.problems
        last = " Errors are of the tensors that can be read." if partly else ""
        return first + sentence(headline(*(Side.of(*one) for one in both))) + last

    @property
    def is_planned(self) -> bool:
        """Whether there is a plan of either."""
        return not all(one.problem for one in self.memory)

    @property
    def plan(self) -> str:
        """Under which settings they are planned."""
        tokens = f"{integer_text(self.context)} tokens"
        return f"llama.cpp, one GPU with room for all, {tokens}, one request, KV cache in f16"


# Rows of tables


def size_rows(comparison: Comparison) -> Iterator[SizeRow]:
    """Yield sizes and memory of both models."""
    one, other = comparison.found.models
    facts = {"bytes": "nbytes", "keys": "metadata"}  # what they are called there
    rows: list[tuple[str, Kind, Callable[[Model], float | None]]] = [
        ("parameters", COUNT, lambda m: m.parameters),
        ("bytes", BYTES, lambda m: m.nbytes),
        ("file_bytes", BYTES, lambda m: sum(f.source.size for f in m.files)),
        ("bits_per_weight", BITS, lambda m: m.bits_per_weight if m.bits_per_weight > 0 else None),
        ("tensors", INTEGER, lambda m: len(m.tensors.rows)),
        ("keys", INTEGER, lambda m: len(m.metadata.entries)),
    ]
    metrics = [None, None] if comparison.errors is None else comparison.errors.matrices
    for name in _BETTER if any(metrics) else ():
        column = FIGURES[name]
        a, b = (None if side is None else getattr(side, name) for side in metrics)
        yield SizeRow(name, f"{column.title}, matrices", column.kind, (a, b), _BETTER[name])
    for name, label, kind, better in QUALITY:
        figures = [{} if side is None else side.figures for side in comparison.measured]
        a, b = (side.get(name) for side in figures)
        if (a, b) != (None, None):
            within = [max(0.0, side.get(f"{name}_error", 0.0)) for side in figures]
            yield SizeRow(name, label, kind, (a, b), better, (within[0], within[1]))
    for name, kind, value in rows:
        label = "Size of files" if name == "file_bytes" else FACTS[facts.get(name, name)].title
        yield SizeRow(name, label, kind, (value(one), value(other)))
    if not comparison.is_planned:
        return
    for name, label in (
        ("weights", "Memory: weights"),
        ("cache", "Memory: KV cache"),
        ("compute", "Memory: compute"),
        ("total", "Memory in all"),
    ):
        a, b = (
            None if name == "total" and one.compute is None else one.figure(name)
            for one in comparison.memory
        )
        yield SizeRow(f"memory_{name}", label, BYTES, (a, b))


def chart_lines(comparison: Comparison) -> list[Trial]:
    """Return both models as lines of a chart of error against size; errors of all matrices."""
    errors = comparison.errors
    matrices = [None, None] if errors is None or errors.original is None else errors.matrices
    lines = []
    sides = zip("AB", comparison.found.models, matrices, comparison.measured, strict=True)
    for letter, model, metrics, quality in sides:
        facts, nbytes = describe(model), model.nbytes
        size = SizeAfter(model.parameters, nbytes, nbytes, nbytes)
        known = {} if metrics is None else {name: getattr(metrics, name) for name in _BETTER}
        given = {name: value for name, value in known.items() if not math.isnan(value)}
        given |= {} if quality is None else quality.figures
        colour = facts.types[0].name if facts.types else ""
        name = letter if letter == "A" else sentence(comparison.other.removeprefix("the "))
        title = plain_text(f"{name}: {facts.main_type}")
        lines.append(Trial(colour, title, size, size, given=given, front=True, mark=letter))
    return lines


def key_rows(comparison: Comparison, limit: int = _VALUE_CHARACTERS) -> list[KeyRow]:
    """Return the keys that differ; reads the first elements of arrays."""
    one, other = comparison.found.models
    rows = []
    for key in comparison.found.keys:
        sides = [
            "" if entry is None else _value_text(entry, model, limit)
            for entry, model in ((key.before, one), (key.after, other))
        ]
        types = [type_text(entry) for entry in (key.before, key.after) if entry is not None]
        kind = " → ".join(dict.fromkeys(types))
        rows.append(KeyRow(key.key, key.kind, sides[0], sides[1], kind, key_note(key)))
    return rows


def _value_text(entry: MetadataEntry, model: Model, limit: int) -> str:
    try:
        return value_text(entry, limit, model)
    except ExplorerError as error:
        return f"({error.what})"


def key_note(key: KeyDifference) -> str:
    """Say what differs within a value: "12 of 262,144 elements differ, the first at 7"."""
    if key.problem:
        return f"cannot be compared: {key.problem}"
    elements = key.elements
    if elements is None or not elements.count:
        return ""
    sides = [entry for entry in (key.before, key.after) if entry is not None]
    longer = max(entry.length or 0 for entry in sides)
    count = f"{integer_text(elements.count)} of {integer_text(longer)} elements differ"
    return f"{count}, the first at {integer_text(elements.places[0])}"


def role_rows(comparison: Comparison) -> list[RoleRow]:
    """Return the types of each role in both models, with errors where they were read."""
    errors, found = comparison.errors, comparison.found.roles
    if errors is None:
        return [RoleRow(role, sides) for role, sides in found.items()]
    one, other = errors.sides
    return [RoleRow(role, sides, (one.get(role), other.get(role))) for role, sides in found.items()]


def vocabulary_sentence(found: VocabularyDifference, other: str = "B") -> str:
    """Say how far two vocabularies agree."""
    same = f"{integer_text(found.same)} of {integer_text(max(found.before, found.after))} ids"
    parts = [f"{same} stand for the same token"]
    for count, one, many in (
        (found.added, f"token is only in {other}", f"tokens are only in {other}"),
        (found.gone, "token is only in A", "tokens are only in A"),
        (found.moved, "token has another id", "tokens have another id"),
    ):
        if count:
            parts.append(counted(count, one, many))
    return "; ".join(parts) + "."


def vocabulary_lines(found: VocabularyDifference) -> list[str]:
    """Return the ids that differ as a text diff; tokens are as the file has them, not escaped."""
    lines = []
    for place, before, after in found.changes:
        lines += [f"-{place}  {before}"] if before is not None else []
        lines += [f"+{place}  {after}"] if after is not None else []
    if found.left_out:
        lines.append(f"@@ {integer_text(found.left_out)} more ids differ")
    return lines


def text_lines(found: TextDifference) -> list[str]:
    """Return a text diff, with a last line where more was left out."""
    more = [f"@@ {integer_text(found.left_out)} more lines"] if found.left_out else []
    more += ["@@ the texts are longer than what was compared"] if found.cut else []
    return [*found.lines, *more]


# Sentences


def summary(comparison: Comparison) -> list[str]:
    """Say in a few sentences what the two models differ in; first what B takes and loses."""
    has_weights = any(model.nbytes for model in comparison.found.models)
    return [*([comparison.headline] if has_weights else []), *notes(comparison)]


def notes(comparison: Comparison) -> list[str]:
    """Return all sentences but the first."""
    found, other = comparison.found, comparison.other
    lines = ["The headers say the same." if found.equal else _header_sentence(found, other)]
    if found.vocabulary is not None:
        lines.append(f"The vocabularies differ: {vocabulary_sentence(found.vocabulary, other)}")
    elif found.same_tokens:
        lines.append(f"Both have the same vocabulary of {integer_text(found.same_tokens)} tokens.")
    lines += _text_sentences(found, other)
    lines += [f"{problem.where}: {problem.what}." for problem in found.problems]
    for problem in dict.fromkeys(one.problem for one in comparison.memory):
        if problem not in {"", _NO_MODEL}:  # nobody expects a plan of an adapter
            lines.append(f"No plan of memory: {problem}.")
    lines += [NOT_READ] if comparison.errors is None else _error_sentences(comparison.errors)
    return lines


def _header_sentence(found: Differences, other: str) -> str:
    changed = [one for one in found.tensors if one.kind == "changed"]
    types = sum(one.type_changed for one in changed)
    shapes = sum(one.shape_changed for one in changed)
    parts = [
        f"{counted(count, one, many)} {what}"
        for count, one, many, what in (
            (types, "tensor has", "tensors have", "another type"),
            (shapes, "has", "have", "another shape"),
            (found.count("added"), "is", "are", f"only in {other}"),
            (found.count("gone"), "is", "are", "only in A"),
        )
        if count
    ]
    tensors = ", ".join(parts)
    if not found.tensors:
        tensors = "Neither model has tensors"
    elif not parts:
        tensors = "All tensors have the same types and shapes"
    elif not types:
        tensors = f"Of the tensors {tensors}"
    keys = counted(len(found.keys), "metadata key differs", "metadata keys differ")
    return f"{tensors}, and {keys}."


def _text_sentences(found: Differences, other: str) -> Iterator[str]:
    """Say of each chat template how much of it differs."""
    for text in found.texts:
        signs = {line[:1] for line in text.lines}
        if text.key.startswith(CHAT_TEMPLATE) and signs in ({"+"}, {"-"}):
            yield f"Only {other if '+' in signs else 'A'} has a chat template ({text.key})."
        elif text.key.startswith(CHAT_TEMPLATE):
            gone = counted(text.removed, "line", "lines")
            added = integer_text(text.added)
            parts = f"{gone} only in A, {added} only in {other}"
            yield f"The chat templates differ ({text.key}): {parts}."


def _error_sentences(errors: Errors) -> Iterator[str]:
    measured = any(metrics is not None and metrics.compared for metrics in errors.totals)
    yield errors.meaning if measured else NOTHING_COMPARED
    if errors.problems:
        first = next(iter(errors.problems.items()))
        count = counted(len(errors.problems), "pair was", "pairs were")
        yield f"{count} not compared. {first[0]}: {first[1]}."
    if measured:
        yield ABOUT_ERRORS


# JSON


def document(comparison: Comparison, paths: tuple[str, str]) -> dict[str, Any]:
    """Return the whole object of `diff --json`; see docs/interface.md."""
    found = comparison.found
    one, other = found.models
    sizes = {row.name: row.values for row in size_rows(comparison)}
    names = ("parameters", "bytes", "file_bytes", "bits_per_weight", "tensors", "keys")
    by_kind: dict[str, list[dict[str, Any]]] = {"changed": [], "added": [], "gone": []}
    for tensor in found.tensors:
        if tensor.kind != "same":
            by_kind[tensor.kind].append(TENSORS.record(tensor))
    return {
        "a": paths[0],
        "b": paths[1],
        "equal": found.equal,
        "summary": summary(comparison),
        "size": {
            side: {name: sizes[name][place] for name in names} for place, side in enumerate(_SIDES)
        },
        "memory": {
            "context": comparison.context,
            "settings": comparison.plan,
            **{
                side: _memory_record(memory)
                for side, memory in zip(_SIDES, comparison.memory, strict=True)
            },
        },
        "metadata": {
            "same": found.same_keys,
            **{
                kind: [_key_record(key, one, other) for key in found.keys if key.kind == kind]
                for kind in ("changed", "added", "gone")
            },
        },
        "tensors": {"same": found.count("same"), **by_kind},
        "roles": list(map(ROLES.record, role_rows(comparison))),
        "texts": [{name: getattr(text, name) for name in _OF_TEXT} for text in found.texts],
        "vocabulary": None if found.vocabulary is None else _vocabulary_record(found.vocabulary),
        "errors": None if comparison.errors is None else _errors_record(comparison.errors),
        "measured": {
            side: None if one is None else dict(one.figures)
            for side, one in zip(_SIDES, comparison.measured, strict=True)
        },
    }


def _memory_record(memory: Memory) -> dict[str, Any]:
    figures = {name: memory.figure(name) for name in ("weights", "cache", "compute", "total")}
    return {**figures, "problem": memory.problem or None}


def _key_record(key: KeyDifference, one: Model, other: Model) -> dict[str, Any]:
    return {  # a value that cannot be decoded is null, and the problem says why
        "key": key.key,
        "a": None if key.before is None else entry_record(one, key.before),
        "b": None if key.after is None else entry_record(other, key.after),
        "elements": None if key.elements is None else _elements_record(key.elements),
        "problem": key.problem or None,
    }


def _elements_record(elements: ElementChanges) -> dict[str, Any]:
    places = zip(elements.places, elements.before, elements.after, strict=True)
    return {
        "changed": elements.count,
        "first": [{"index": place, "a": a, "b": b} for place, a, b in places],
    }


def _vocabulary_record(found: VocabularyDifference) -> dict[str, Any]:
    return {
        "a": found.before,
        "b": found.after,
        "same": found.same,
        "added": found.added,
        "gone": found.gone,
        "moved": found.moved,
        "changes": [{"id": place, "a": a, "b": b} for place, a, b in found.changes],
        "left_out": found.left_out,
    }


def _errors_record(errors: Errors) -> dict[str, Any]:
    one, other = errors.sides

    def figures(sides: Sequence[AnyErrors | None]) -> dict[str, Any]:
        records = (None if side is None else METRICS.record(side) for side in sides)
        return dict(zip(_SIDES, records, strict=True))

    return {
        "original": errors.original,
        "meaning": errors.meaning,
        "total": figures(errors.totals),
        "matrices": figures(errors.matrices),
        "roles": [
            {"role": role} | figures((one.get(role), other.get(role)))
            for role in dict.fromkeys([*one, *other])
        ],
        "problems": [{"name": name, "what": what} for name, what in errors.problems.items()],
    }
