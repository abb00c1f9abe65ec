"""What is said of two models side by side: sizes, memory, keys, tensors, roles, texts, errors.

The first is called A, the second B: what only B has was added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, Final

from explorer.analysis.differences import (
    Differences,
    ElementChanges,
    KeyDifference,
    RoleComparison,
    RoleSide,
    TensorSide,
    TextDifference,
    VocabularyDifference,
    compare_headers,
)
from explorer.analysis.errors.metrics import ErrorMetrics
from explorer.errors import ExplorerError
from explorer.formats.model import MetadataEntry, Model
from explorer.formats.side_files import CHAT_TEMPLATE
from explorer.parallel import Check, never
from explorer.planner.engines.llama_cpp import Settings, allocate
from explorer.present.errors import ABOUT_ERRORS, ERROR_TEXTS, error_label, error_text
from explorer.present.model import kind_of, plain_value, type_text, value_text
from explorer.text import (
    bits_text,
    bytes_text,
    count_text,
    integer_text,
    percent_text,
    shape_text,
    signed_text,
)

CONTEXT: Final = 4096
"""Tokens of the plan that both models get, if no other number is asked for."""

DISTANCE: Final = (
    "Without the original these figures are a distance: how far the weights of B are from those of "
    "A. They do not say which of the two is better."
)
LOSS: Final = (
    "Each model is compared with the original, so these figures are a loss: the smaller one is "
    "nearer to the original."
)
NOT_READ: Final = (
    "Only the headers were compared. Equal headers do not mean equal weights; the errors say that."
)
NOTHING_COMPARED: Final = (
    "No weights could be compared: no tensors belong together, or their shapes differ."
)
TEXTS: Final = {
    "summary": "What the two models differ in, and what the figures mean.",
    "original": "The model that both were made of. Errors are then those of each against it.",
    "measure": "Reads all weights of both models and compares them, pair by pair.",
    "memory": "What llama.cpp allocates for each model under the same settings.",
    "figure": "A figure of both models.",
    "difference": "B minus A, and its share of A.",
    "a": "The model that the current one is compared with.",
    "b": "The current model.",
    "role": "What tensors do in their layer.",
    "types": "The tensors of the role, by their types.",
    "size": "Stored bytes of all tensors of the role.",
    "bits": "Stored bits for each weight of the role, scales included.",
    "relative_rmse": ERROR_TEXTS["relative_rmse"].tip,
    "sqnr_db": ERROR_TEXTS["sqnr_db"].tip,
    "key": "The key in the file.",
    "change": "Added: only B has it. Gone: only A has it. Changed: both have it, and it differs.",
    "type": "How the value or the tensor is stored.",
    "shape": "Lengths of the dimensions, rows first.",
    "bytes_a": "Stored bytes in A; 0 if it is not there, or was counted with another tensor.",
    "bytes_b": "Stored bytes in B; 0 if it is not there, or was counted with another tensor.",
    "tensor": "The name; two names where the models call it differently.",
    "note": "How much of an array differs, or why two tensors cannot be compared.",
    "texts": (
        "Lines with a minus sign are only in A, lines with a plus sign only in B. At @@ equal "
        "lines are left out."
    ),
}
"""What the parts of the page of two models mean."""

_SIDES: Final = ("a", "b")
_VALUE_CHARACTERS: Final = 160
_NO_MODEL: Final = "it is no whole model"
_ERROR_FIGURES: Final = ("relative_rmse", "rmse", "sqnr_db", "max_abs_error", "mean_error")


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
        """All of them."""
        return self.weights + self.cache + (self.compute or 0)


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
        original: What both are compared with; None where B is compared with A.
        sides: Of A and of B by role; of A none where B is compared with A.
        totals: Of all weights; None where nothing is compared.
        matrices: Of all weights but norms and biases; None where nothing is compared.
        problems: Pairs that could not be compared, with the reason.
    """

    original: str | None
    sides: tuple[Mapping[str, ErrorMetrics], Mapping[str, ErrorMetrics]]
    totals: tuple[ErrorMetrics | None, ErrorMetrics | None]
    matrices: tuple[ErrorMetrics | None, ErrorMetrics | None]
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def meaning(self) -> str:
        """What the figures mean, in plain words."""
        return DISTANCE if self.original is None else LOSS


def measure_errors(  # noqa: PLR0913 - all but the first two have a default
    models: tuple[Model, Model],
    original: Model | None,
    workers: int = 1,
    *,
    check: Check = never,
    begin: Callable[[int], object] = lambda _weights: None,
    progress: Callable[[int], object] = lambda _done: None,
) -> Errors:
    """Compare all weights of B with A, or those of each with the original.

    Args:
        models: A and B.
        original: The original, or None.
        workers: Threads.
        check: Called now and then; raises to cancel.
        begin: Called once with the number of weights that will be compared.
        progress: Called with the number that has been.
    """
    one, other = models
    if original is None:
        comparisons = [RoleComparison(one, other)]
    else:
        comparisons = [RoleComparison(original, each) for each in models]
    begin(sum(comparison.parameters for comparison in comparisons))
    done = 0
    problems: dict[str, str] = {}
    for comparison in comparisons:
        start = done
        comparison.run(workers, check, lambda now, start=start: progress(start + now))  # type: ignore[misc] # mypy infers no type of a default
        done += comparison.parameters
        problems |= comparison.problems
    found = [comparison.roles for comparison in comparisons]
    totals = [comparison.total().metrics for comparison in comparisons]
    matrices = [comparison.matrices for comparison in comparisons]
    first = None if original is None else totals[0], None if original is None else matrices[0]
    return Errors(
        None if original is None else str(original.path),
        ({} if original is None else found[0], found[-1]),
        (first[0], totals[-1]),
        (first[1], matrices[-1]),
        problems,
    )


@dataclass(frozen=True)
class Comparison:
    """All that is said of two models.

    Attributes:
        found: What their headers differ in.
        context: Tokens of the plan.
        memory: The plan of each.
        errors: Errors of the weights; None where they were not read.
    """

    found: Differences
    context: int
    memory: tuple[Memory, Memory]
    errors: Errors | None = None

    @classmethod
    def of(
        cls, one: Model, other: Model, context: int = CONTEXT, check: Check = never
    ) -> Comparison:
        """Compare two headers; raises what `compare_headers` raises."""
        found = compare_headers(one, other, check)
        return cls(found, context, (memory_of(one, context), memory_of(other, context)))

    def with_errors(self, errors: Errors) -> Comparison:
        """Return the same with errors."""
        return replace(self, errors=errors)

    @property
    def is_planned(self) -> bool:
        """Whether there is a plan of either."""
        return not all(one.problem for one in self.memory)

    @property
    def plan(self) -> str:
        """Under which settings they are planned."""
        tokens = f"{integer_text(self.context)} tokens"
        return f"llama.cpp, one GPU with room for all, {tokens}, one sequence, KV cache in f16"


# Rows of tables


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A figure of both models: their numbers, None if not known, and texts."""

    name: str
    label: str
    values: tuple[float | None, float | None]
    texts: tuple[str, str]
    difference: str


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key that differs; texts come from the file and are made safe to show."""

    key: str
    kind: str
    type_name: str
    before: str
    after: str
    note: str


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor of either model."""

    name: str
    role: str
    kind: str
    types: tuple[str, str]
    shapes: tuple[str, str]
    nbytes: tuple[int, int]
    note: str


@dataclass(frozen=True, slots=True)
class RoleRow:
    """A role in both models."""

    role: str
    types: tuple[str, str]
    nbytes: tuple[int, int]
    bits: tuple[float, float]
    errors: tuple[ErrorMetrics | None, ErrorMetrics | None]


def size_rows(comparison: Comparison) -> Iterator[SizeRow]:
    """Yield sizes and memory of both models."""
    models = comparison.found.models
    weights = [m.parameters for m in models]
    yield _size("parameters", "Parameters", weights, lambda value: count_text(round(value)))
    yield _size("bytes", "Size of tensors", [m.nbytes for m in models], _bytes)
    files = [sum(file.source.size for file in m.files) for m in models]
    yield _size("file_bytes", "Size of files", files, _bytes)
    bits = [m.bits_per_weight or None for m in models]
    yield _size("bits_per_weight", "Bits per weight", bits, bits_text)
    yield _size("tensors", "Tensors", [len(m.tensors.rows) for m in models], _integer)
    yield _size("keys", "Metadata keys", [len(m.metadata.entries) for m in models], _integer)
    if not comparison.is_planned:
        return
    planned = [None if one.problem else one for one in comparison.memory]
    for name, label in (("weights", "weights"), ("cache", "KV cache"), ("compute", "compute")):
        values = [None if one is None else getattr(one, name) for one in planned]
        yield _size(f"memory_{name}", f"Memory: {label}", values, _bytes)
    totals = [None if one is None or one.compute is None else one.total for one in planned]
    yield _size("memory_total", "Memory in all", totals, _bytes)


def _bytes(value: float) -> str:
    return bytes_text(round(value))


def _integer(value: float) -> str:
    return integer_text(round(value))


def _size(
    name: str, label: str, values: Sequence[float | None], text: Callable[[float], str]
) -> SizeRow:
    one, other = values
    texts = ["–" if value is None else text(value) for value in values]
    difference = ""
    if one is not None and other is not None and one != other:
        by = other - one
        difference = signed_text(by, text)
        if one:
            difference += f" ({signed_text(by / one, percent_text)})"
    return SizeRow(name, label, (one, other), (texts[0], texts[1]), difference)


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
        rows.append(KeyRow(key.key, key.kind, kind, sides[0], sides[1], key_note(key)))
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


def tensor_rows(comparison: Comparison) -> list[TensorRow]:
    """Return all tensors; those that are the same with them."""
    rows = []
    for tensor in comparison.found.tensors:
        before, after = tensor.before, tensor.after
        names = list(dict.fromkeys(side.name for side in (before, after) if side is not None))
        rows.append(
            TensorRow(
                " → ".join(names),
                tensor.role,
                tensor.kind,
                (_of(before, "type_name"), _of(after, "type_name")),
                (_shape(before), _shape(after)),
                (before.nbytes if before else 0, after.nbytes if after else 0),
                tensor.reason,
            )
        )
    return rows


def _of(side: TensorSide | None, name: str) -> str:
    return "" if side is None else str(getattr(side, name))


def _shape(side: TensorSide | None) -> str:
    return "" if side is None else shape_text(side.shape)


def role_rows(comparison: Comparison) -> list[RoleRow]:
    """Return the types of each role in both models, with errors where they were read."""
    errors = comparison.errors
    rows = []
    for role, (one, other) in comparison.found.roles.items():
        found = (None, None) if errors is None else tuple(side.get(role) for side in errors.sides)
        rows.append(
            RoleRow(
                role,
                (types_text(one), types_text(other)),
                (one.nbytes, other.nbytes),
                (one.bits_per_weight or nan, other.bits_per_weight or nan),
                (found[0], found[1]),
            )
        )
    return rows


def types_text(side: RoleSide) -> str:
    """Return the types of a role: "18 Q4_K, 9 Q6_K"; "–" without tensors."""
    parts = [f"{integer_text(count)} {name}" for name, count in side.types.items() if count]
    return ", ".join(parts) or "–"


def vocabulary_sentence(found: VocabularyDifference) -> str:
    """Say how far two vocabularies agree."""
    same = f"{integer_text(found.same)} of {integer_text(max(found.before, found.after))} ids"
    parts = [f"{same} stand for the same token"]
    for count, one, many in (
        (found.added, "token is only in B", "tokens are only in B"),
        (found.gone, "token is only in A", "tokens are only in A"),
        (found.moved, "token has another id", "tokens have another id"),
    ):
        if count:
            parts.append(_counted(count, one, many))
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
    """Say in a few sentences what the two models differ in."""
    found = comparison.found
    lines = ["The headers say the same." if found.equal else _header_sentence(found)]
    one, other = (model.nbytes for model in found.models)
    if one != other and one:
        more = "more" if other > one else "less"
        share = percent_text(abs(other - one) / one)
        lines.append(f"B takes {bytes_text(abs(other - one))} ({share}) {more} than A.")
    if found.vocabulary is not None:
        lines.append(f"The vocabularies differ: {vocabulary_sentence(found.vocabulary)}")
    elif found.same_tokens:
        lines.append(f"Both have the same vocabulary of {integer_text(found.same_tokens)} tokens.")
    lines += _text_sentences(found)
    lines += [f"{problem.where}: {problem.what}." for problem in found.problems]
    for problem in dict.fromkeys(one.problem for one in comparison.memory):
        if problem not in {"", _NO_MODEL}:  # nobody expects a plan of an adapter
            lines.append(f"No plan of memory: {problem}.")
    lines += [NOT_READ] if comparison.errors is None else _error_sentences(comparison.errors)
    return lines


def _header_sentence(found: Differences) -> str:
    changed = [one for one in found.tensors if one.kind == "changed"]
    parts = [
        _counted(sum(one.type_changed for one in changed), "tensor has", "tensors have")
        + " another type",
        _counted(sum(one.shape_changed for one in changed), "has", "have") + " another shape",
        _counted(found.count("added"), "is", "are") + " only in B",
        _counted(found.count("gone"), "is", "are") + " only in A",
    ]
    said = [part for part in parts if not part.startswith("0 ")]
    tensors = ", ".join(said) if said else "All tensors have the same types and shapes"
    if not found.tensors:
        tensors = "Neither model has tensors"
    if said and not said[0].startswith(parts[0][:3]):
        tensors = f"Of the tensors {tensors}"
    keys = _counted(len(found.keys), "metadata key differs", "metadata keys differ")
    return f"{tensors}; {keys}."


def _text_sentences(found: Differences) -> Iterator[str]:
    """Say of each chat template how much of it differs."""
    for text in found.texts:
        signs = {line[:1] for line in text.lines}
        if text.key.startswith(CHAT_TEMPLATE) and signs in ({"+"}, {"-"}):
            yield f"Only {'B' if '+' in signs else 'A'} has a chat template ({text.key})."
        elif text.key.startswith(CHAT_TEMPLATE):
            gone = _counted(text.removed, "line", "lines")
            added = integer_text(text.added)
            yield f"The chat templates differ ({text.key}): {gone} only in A, {added} only in B."


def _counted(count: int, one: str, many: str) -> str:
    return f"{integer_text(count)} {one if count == 1 else many}"


def _error_sentences(errors: Errors) -> Iterator[str]:
    measured = any(metrics is not None and metrics.compared for metrics in errors.totals)
    against = "A" if errors.original is None else "the original"
    label = error_label("relative_rmse")
    for name, total, metrics in zip("AB", errors.totals, errors.matrices, strict=True):
        if total is None or metrics is None or not total.compared:
            continue
        whole = error_text("relative_rmse", total.relative_rmse)
        sentence = f"{label} of {name} against {against}: {whole} over all weights."
        if metrics.compared:
            value = error_text("relative_rmse", metrics.relative_rmse)
            sentence = (
                f"{label} of {name} against {against}: {value} over the "
                f"{count_text(metrics.compared)} weights of all matrices, {whole} with norms and "
                "biases, which are large."
            )
        yield sentence
    yield errors.meaning if measured else NOTHING_COMPARED
    if errors.problems:
        first = next(iter(errors.problems.items()))
        count = _counted(len(errors.problems), "pair was", "pairs were")
        yield f"{count} not compared; {first[0]}: {first[1]}."
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
            by_kind[tensor.kind].append(
                {
                    "role": tensor.role,
                    "a": _tensor_record(tensor.before),
                    "b": _tensor_record(tensor.after),
                    "reason": tensor.reason or None,
                }
            )
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
        "roles": [_role_record(role, sides) for role, sides in found.roles.items()],
        "texts": [_text_record(text) for text in found.texts],
        "vocabulary": None if found.vocabulary is None else _vocabulary_record(found.vocabulary),
        "errors": None if comparison.errors is None else _errors_record(comparison.errors),
    }


def _memory_record(memory: Memory) -> dict[str, Any]:
    names = ("weights", "cache", "compute", "total")
    figures = {name: None if memory.problem else getattr(memory, name) for name in names}
    return {**figures, "problem": memory.problem or None}


def _key_record(key: KeyDifference, one: Model, other: Model) -> dict[str, Any]:
    return {
        "key": key.key,
        "a": None if key.before is None else _entry_record(key.before, one),
        "b": None if key.after is None else _entry_record(key.after, other),
        "elements": None if key.elements is None else _elements_record(key.elements),
        "problem": key.problem or None,
    }


def _entry_record(entry: MetadataEntry, model: Model) -> dict[str, Any]:
    try:
        value = plain_value(model, entry)
    except ExplorerError:  # `problem` of the key says so, or there is nothing to compare with
        value = None
    return {"type": entry.type_name, "value": value, "length": entry.length}


def _elements_record(elements: ElementChanges) -> dict[str, Any]:
    places = zip(elements.places, elements.before, elements.after, strict=True)
    return {
        "changed": elements.count,
        "first": [{"index": place, "a": a, "b": b} for place, a, b in places],
    }


def _tensor_record(side: TensorSide | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "name": side.name,
        "type": side.type_name,
        "shape": list(side.shape),
        "parameters": side.parameters,
        "bytes": side.nbytes,
    }


def _role_record(role: str, sides: tuple[RoleSide, RoleSide]) -> dict[str, Any]:
    return {"role": role} | {
        name: {
            "types": side.types,
            "parameters": side.parameters,
            "bytes": side.nbytes,
            "bits_per_weight": side.bits_per_weight,
        }
        for name, side in zip(_SIDES, sides, strict=True)
    }


def _text_record(text: TextDifference) -> dict[str, Any]:
    return {
        "key": text.key,
        "removed": text.removed,
        "added": text.added,
        "lines": list(text.lines),
        "left_out": text.left_out,
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
    sides = errors.sides
    return {
        "original": errors.original,
        "meaning": errors.meaning,
        "total": {
            side: _metrics_record(total) for side, total in zip(_SIDES, errors.totals, strict=True)
        },
        "matrices": {
            side: _metrics_record(found)
            for side, found in zip(_SIDES, errors.matrices, strict=True)
        },
        "roles": [
            {"role": role}
            | {
                name: _metrics_record(side.get(role))
                for name, side in zip(_SIDES, sides, strict=True)
            }
            for role in dict.fromkeys([*sides[0], *sides[1]])
        ],
        "problems": [{"name": name, "what": what} for name, what in errors.problems.items()],
    }


def _metrics_record(metrics: ErrorMetrics | None) -> dict[str, Any] | None:
    if metrics is None:
        return None
    return {"count": metrics.count} | {name: getattr(metrics, name) for name in _ERROR_FIGURES}
