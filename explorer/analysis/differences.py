"""What two models differ in by their headers: metadata, tensors, vocabulary, texts.

No weight is read. A value that both files hold is compared byte by byte, so that equal vocabularies
are never decoded; one that differs is compared by content. Texts are compared by `difflib`, whose
time grows with the square of the lines that differ: beyond a bound they count as replaced.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Final, Literal, TypeAlias

import numpy as np

from explorer.analysis.columns import RoleSums
from explorer.analysis.errors.metrics import RunningErrors
from explorer.analysis.matching.pairing import Matching, is_gguf, match_models
from explorer.analysis.matching.rules import TIED
from explorer.analysis.matching.views import TensorView
from explorer.analysis.surveys import PairRow
from explorer.errors import ExplorerError
from explorer.formats.limits import MAX_VOCABULARY
from explorer.formats.model import (
    MetadataEntry,
    Model,
    NumberArray,
    Problem,
    ProblemLog,
    StringArray,
    Value,
)
from explorer.formats.side_files import chat_templates, side_tokens
from explorer.formats.tensors import (
    Shape,
    bits_per_weight,
    is_matrix_shape,
    parse_name,
    rows_by_name,
)
from explorer.parallel import Check, never

Kind: TypeAlias = Literal["same", "changed", "added", "gone"]

TOKENS: Final = "tokenizer.ggml.tokens"
MOST_SHOWN: Final = 200
"""Most elements, tokens or lines of one difference that are kept; the others are counted."""

_CHUNK: Final = 1 << 20
_RUN: Final = 1 << 16  # elements that are decoded at once
_LONG_TEXT: Final = 120  # characters of a string from which on it is compared as a text
_MOST_TEXT: Final = 1 << 20  # characters of a text that are compared
_MOST_LINES: Final = 2000  # of a text, beyond the ends that are equal
_CONTEXT: Final = 2  # equal lines around those that differ
_LONGEST_PIECE: Final = 160
_LONGEST_LINE: Final = 400
_PIECES: Final = re.compile(r"(?<=[%}]\})(?=.)")  # behind a tag of a template


@dataclass(frozen=True, slots=True)
class ElementChanges:
    """Elements of two arrays that differ.

    Attributes:
        count: How many at the same place differ; what one array has beyond the other's end counts.
        places: The first of these places.
        before: The elements there, None beyond the end.
        after: The same of the other array.
    """

    count: int
    places: tuple[int, ...]
    before: tuple[Value | None, ...]
    after: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key that one model has alone, or whose value differs.

    Attributes:
        key: The key.
        before: What the first model has; None if it has no such key.
        after: What the second has.
        elements: Of two arrays, what differs in them; None of others, and of arrays of arrays.
        problem: Why the values cannot be compared; "" if they can.
    """

    key: str
    before: MetadataEntry | None
    after: MetadataEntry | None
    elements: ElementChanges | None = None
    problem: str = ""

    @property
    def kind(self) -> Kind:
        """Whether it was added, changed, or is gone."""
        return _kind(self.before, self.after, same=False)


@dataclass(frozen=True, slots=True)
class TensorSide:
    """A tensor of one of the models, or several that are one in the other.

    Attributes:
        name: Its name.
        type_name: Its type; several are joined by a plus sign.
        shape: Row-major, outermost first.
        parameters: Number of weights.
        nbytes: Stored bytes.
        count: Tensors of the file that it is made of.
    """

    name: str
    type_name: str
    shape: Shape
    parameters: int
    nbytes: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class TensorDifference:
    """A tensor of either model, or a pair of them.

    Attributes:
        role: What it does in its layer, as GGUF calls it where one of the files is GGUF.
        before: Of the first model; None if it has none.
        after: Of the second.
        reason: Why the weights of the two cannot be compared; "" if they can.
    """

    role: str
    before: TensorSide | None
    after: TensorSide | None
    reason: str = ""

    @property
    def type_changed(self) -> bool:
        """Whether both have it, in two types."""
        before, after = self.before, self.after
        return before is not None and after is not None and before.type_name != after.type_name

    @property
    def shape_changed(self) -> bool:
        """Whether both have it, in two shapes."""
        before, after = self.before, self.after
        return before is not None and after is not None and before.shape != after.shape

    @property
    def kind(self) -> Kind:
        """Whether it was added, changed (not: in its weights), is gone or the same."""
        return _kind(self.before, self.after, same=not (self.type_changed or self.shape_changed))


def _kind(before: object | None, after: object | None, *, same: bool) -> Kind:
    if before is None:
        return "added"
    if after is None:
        return "gone"
    return "same" if same else "changed"


@dataclass(slots=True)
class RoleSide:
    """The tensors of a role in one model: tensors by type, weights and bytes."""

    types: dict[str, int] = field(default_factory=dict)
    parameters: int = 0
    nbytes: int = 0

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each weight; 0 without weights."""
        return bits_per_weight(self.nbytes, self.parameters)

    def add(self, side: TensorSide) -> None:
        self.types[side.type_name] = self.types.get(side.type_name, 0) + side.count
        self.parameters += side.parameters
        self.nbytes += side.nbytes


@dataclass(frozen=True, slots=True)
class TextDifference:
    """Two texts line by line, as `diff -u` writes them.

    Attributes:
        key: What they are the value of.
        lines: Each with a blank, a minus or a plus sign before it; ``@@`` where lines are left out.
        removed: Lines of the first that the second lacks.
        added: Lines of the second that the first lacks.
        left_out: Lines of the difference beyond those that are kept.
        cut: Whether the texts are longer than what was compared.
    """

    key: str
    lines: tuple[str, ...]
    removed: int
    added: int
    left_out: int = 0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class VocabularyDifference:
    """Two vocabularies.

    Attributes:
        before: Ids of the first.
        after: Ids of the second.
        differing: Ids that do not stand for the same token in both.
        same: Ids that stand for the same token in both.
        added: Tokens that only the second has.
        gone: Tokens that only the first has.
        moved: Tokens of both that have another id.
        changes: The first ids that differ, with the token of each; None where one has none.
    """

    before: int
    after: int
    differing: int
    same: int
    added: int
    gone: int
    moved: int
    changes: tuple[tuple[int, str | None, str | None], ...] = ()

    @property
    def left_out(self) -> int:
        """Ids that differ beyond those in `changes`."""
        return self.differing - len(self.changes)


@dataclass(frozen=True)
class Differences:
    """All that two headers say.

    Attributes:
        models: The two.
        keys: Keys that differ, those that are gone or changed in the order of the first file.
        same_keys: Number of keys with equal values.
        tensors: All tensors, those of the first file in its order.
        texts: Long texts that differ, such as chat templates.
        vocabulary: Tokens that differ; None if they are the same, or one model carries none.
        matching: Which tensors belong together.
        same_tokens: Tokens of a vocabulary that is the same in both; 0 if it is not.
        problems: Files beside the weights that could not be used.
    """

    models: tuple[Model, Model]
    keys: tuple[KeyDifference, ...]
    same_keys: int
    tensors: tuple[TensorDifference, ...]
    texts: tuple[TextDifference, ...]
    vocabulary: VocabularyDifference | None
    matching: Matching
    same_tokens: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def roles(self) -> dict[str, tuple[RoleSide, RoleSide]]:
        """The mix of types of both models by role, the role with most bytes first."""
        found: dict[str, tuple[RoleSide, RoleSide]] = {}
        for tensor in self.tensors:
            sides = found.setdefault(tensor.role, (RoleSide(), RoleSide()))
            for side, part in zip(sides, (tensor.before, tensor.after), strict=True):
                if part is not None:
                    side.add(part)
        order = sorted(found, key=lambda role: -max(side.nbytes for side in found[role]))
        return {role: found[role] for role in order}

    def count(self, kind: Kind) -> int:
        """Return how many tensors are of a kind."""
        return sum(tensor.kind == kind for tensor in self.tensors)

    @property
    def equal(self) -> bool:
        """Whether the headers say the same; the weights may still differ."""
        texts = self.keys or self.texts or self.vocabulary
        return not texts and self.count("same") == len(self.tensors)


def compare_headers(one: Model, other: Model, check: Check = never) -> Differences:
    """Return what two models differ in by their headers.

    Args:
        one: The first.
        other: The second: what only it has was added.
        check: Called now and then; raises to cancel.

    Raises:
        SourceError: A file changed since it was opened.
    """
    matching = match_models(one, other)
    check()
    tensors = tuple(_tensors(one, other, matching))
    keys, same = _keys(one, other, check)
    log = ProblemLog()
    found = _vocabulary(one, other, keys, log, check)
    vocabulary = found if isinstance(found, VocabularyDifference) else None
    texts = tuple(_texts(one, other, keys, log, check))
    return Differences(
        (one, other),
        keys,
        same,
        tensors,
        texts,
        vocabulary,
        matching,
        found if isinstance(found, int) else 0,
        log.problems(),
    )


# Tensors


def _tensors(one: Model, other: Model, matching: Matching) -> Iterator[TensorDifference]:
    """Yield each tensor of both once; one that stands for two is listed with its first partner."""
    first = is_gguf(one) or not is_gguf(other)
    found: list[tuple[int, TensorDifference]] = []
    rows = [rows_by_name(model.tensors.columns.names) for model in (one, other)]
    seen: tuple[set[str], set[str]] = (set(), set())

    def take(names: tuple[str | None, str | None], found_as: TensorDifference) -> None:
        own, its = names
        place = len(rows[0]) + rows[1].get(its or "", 0) if own is None else rows[0].get(own, 0)
        found.append((place, found_as))

    for match in matching.matches:
        views = match.reference, match.candidate
        before, after = (
            None if _is_lent(view) else _side(view, known)
            for view, known in zip(views, seen, strict=True)
        )
        own, its = (None if _is_lent(view) else view.tensors[0].name for view in views)
        take((own, its), TensorDifference(_role(*views, first=first), before, after))
    for pair in matching.not_comparable:
        known = pair.reference_name, pair.candidate_name
        parts = [
            None if name is None or name not in model.tensors else _alone(model, name)
            for name, model in zip(known, (one, other), strict=True)
        ]
        role = parse_name((known[0] if first else known[1]) or known[0] or known[1] or "").role
        take(known, TensorDifference(role, parts[0], parts[1], pair.reason))
    for name in matching.unmatched_reference:
        take((name, None), TensorDifference(parse_name(name).role, _alone(one, name), None))
    for name in matching.unmatched_candidate:
        take((None, name), TensorDifference(parse_name(name).role, None, _alone(other, name)))
    yield from (tensor for _, tensor in sorted(found, key=lambda item: item[0]))


def _is_lent(view: TensorView) -> bool:
    """Return whether a view is the token embedding of a model that has no output of its own."""
    return TIED in view.notes


def _role(one: TensorView, other: TensorView, *, first: bool) -> str:
    """Return the role of a pair, by the name in the first model or in the second."""
    views = (one, other) if first else (other, one)
    view = views[1] if _is_lent(views[0]) else views[0]
    return parse_name(view.tensors[0].name).role


def _side(view: TensorView, seen: set[str]) -> TensorSide:
    """Return a view as one tensor; bytes of a tensor that was listed already count once."""
    fresh = [tensor for tensor in view.tensors if tensor.name not in seen]
    seen.update(tensor.name for tensor in fresh)
    nbytes = sum(tensor.nbytes for tensor in fresh)
    parameters = sum(tensor.parameters for tensor in fresh)
    return TensorSide(view.name, view.type_name, view.shape, parameters, nbytes, len(fresh))


def _alone(model: Model, name: str) -> TensorSide:
    tensor = model.tensors[name]
    kind = tensor.type.name
    return TensorSide(name, kind, tensor.shape, tensor.parameters, tensor.nbytes)


# Metadata


def _keys(one: Model, other: Model, check: Check) -> tuple[tuple[KeyDifference, ...], int]:
    found: list[KeyDifference] = []
    same = 0
    for key in dict.fromkeys([*one.metadata, *other.metadata]):
        check()
        before, after = one.metadata.entry(key), other.metadata.entry(key)
        if before is None or after is None:
            found.append(KeyDifference(key, before, after))
            continue
        try:
            if _same_bytes(one, before, other, after, check) or _same_value(before, after):
                same += 1
                continue
            elements = _elements(before, after, check)
            found.append(KeyDifference(key, before, after, elements))
        except ExplorerError as error:
            found.append(KeyDifference(key, before, after, problem=error.without_path))
    return tuple(found), same


def _same_bytes(
    one: Model, before: MetadataEntry, other: Model, after: MetadataEntry, check: Check
) -> bool:
    """Return whether both files hold the same bytes, if they write values in the same way."""
    if min(before.value_offset, after.value_offset) < 0 or before.type_name != after.type_name:
        return False
    files = one.files[before.file_index], other.files[after.file_index]
    sizes = before.end - before.value_offset, after.end - after.value_offset
    narrow = [file.version == 1 for file in files]
    if sizes[0] != sizes[1] or narrow[0] != narrow[1]:
        return False
    if files[0].byte_order != files[1].byte_order:
        return False
    for place in range(0, sizes[0], _CHUNK):
        check()
        length = min(_CHUNK, sizes[0] - place)
        parts = [
            file.source.read(entry.value_offset + place, length)
            for file, entry in zip(files, (before, after), strict=True)
        ]
        if parts[0] != parts[1]:
            return False
    return True


def _same_value(before: MetadataEntry, after: MetadataEntry) -> bool:
    if before.type_name != after.type_name or before.length != after.length:
        return False
    return _equal(before.value, after.value)


def _equal(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, NumberArray) and isinstance(other, NumberArray):
        number = one.values.dtype.kind in "fc"
        return np.array_equal(one.values, other.values, equal_nan=number)
    if isinstance(one, float) and isinstance(other, float) and isnan(one):
        return isnan(other)
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_equal(left, right) for left, right in pairs)
    return type(one) is type(other) and one == other


def _elements(before: MetadataEntry, after: MetadataEntry, check: Check) -> ElementChanges | None:
    if before.length is None or after.length is None:
        return None
    one, other = before.value, after.value
    if not isinstance(one, Sequence) or not isinstance(other, Sequence):
        return None
    if "array[array" in {before.type_name[:11], after.type_name[:11]}:
        return None
    return _changes(one, other, check)


def _changes(one: Sequence[Value], other: Sequence[Value], check: Check) -> ElementChanges:
    """Compare two arrays place by place."""
    if isinstance(one, NumberArray) and isinstance(other, NumberArray):
        both = min(len(one), len(other))
        left, right = one.values[:both], other.values[:both]
        differs = left != right
        if left.dtype.kind == right.dtype.kind == "f":
            differs &= ~(np.isnan(left) & np.isnan(right))
        places = np.flatnonzero(differs).tolist()
    else:
        places = []
        for start in range(0, min(len(one), len(other)), _RUN):
            check()
            runs = one[start : start + _RUN], other[start : start + _RUN]
            pairs = enumerate(zip(*runs, strict=False), start)
            places += [place for place, (a, b) in pairs if not _equal(a, b)]
    longer = max(len(one), len(other))
    beyond = range(min(len(one), len(other)), longer)
    shown = [*places[:MOST_SHOWN], *beyond[: max(0, MOST_SHOWN - len(places))]]
    return ElementChanges(
        len(places) + len(beyond),
        tuple(shown),
        tuple(one[place] if place < len(one) else None for place in shown),
        tuple(other[place] if place < len(other) else None for place in shown),
    )


# Vocabulary


def _vocabulary(
    one: Model, other: Model, keys: Sequence[KeyDifference], log: ProblemLog, check: Check
) -> VocabularyDifference | int:
    """Compare the vocabularies; return the number of tokens where they are the same.

    It is 0 where one model carries none, or one that is none. Those of two GGUF files are not
    decoded if their keys are equal.
    """
    entries = one.metadata.entry(TOKENS), other.metadata.entry(TOKENS)
    if None not in entries and all(key.key != TOKENS for key in keys):
        return (entries[0] and entries[0].length) or 0
    sides: list[list[str | None]] = []
    for model, entry in zip((one, other), entries, strict=True):
        try:
            tokens = side_tokens(model, log, check) if entry is None else _stored_tokens(entry)
        except ExplorerError:  # the problem of its key says so
            tokens = None
        if not tokens:
            return 0
        sides.append(tokens)
        check()
    before, after = sides
    return len(before) if before == after else _compare_tokens(before, after, check)


def _stored_tokens(entry: MetadataEntry) -> list[str | None] | None:
    tokens = entry.value
    if not isinstance(tokens, StringArray) or len(tokens) > MAX_VOCABULARY:
        return None  # no vocabulary of this world
    return list(tokens.to_list())


def _compare_tokens(
    one: list[str | None], other: list[str | None], check: Check
) -> VocabularyDifference:
    places = [
        {token: place for place, token in reversed(list(enumerate(tokens))) if token is not None}
        for tokens in (one, other)
    ]
    check()
    common = places[0].keys() & places[1].keys()
    longer = max(len(one), len(other))
    sides = [[*tokens, *([None] * (longer - len(tokens)))] for tokens in (one, other)]
    pairs = enumerate(zip(*sides, strict=True))
    changes = [(place, before, after) for place, (before, after) in pairs if before != after]
    both_none = sum(before is after is None for before, after in zip(*sides, strict=True))
    return VocabularyDifference(
        before=len(one),
        after=len(other),
        differing=len(changes),
        same=longer - len(changes) - both_none,
        added=len(places[1]) - len(common),
        gone=len(places[0]) - len(common),
        moved=sum(places[0][token] != places[1][token] for token in common),
        changes=tuple(changes[:MOST_SHOWN]),
    )


# Texts


def _texts(
    one: Model, other: Model, keys: Sequence[KeyDifference], log: ProblemLog, check: Check
) -> Iterator[TextDifference]:
    """Yield the long texts that differ: chat templates of any format, and long strings."""
    templates = chat_templates(one, log), chat_templates(other, log)
    shown: set[str] = set()
    for key in dict.fromkeys([*templates[0], *templates[1]]):
        shown.add(key)
        before, after = (found.get(key) for found in templates)
        if before != after:
            yield compare_texts(key, before, after, check)
    for difference in keys:
        values = _strings(difference)
        if difference.key not in shown and values is not None:
            yield compare_texts(difference.key, *values, check)


def _strings(difference: KeyDifference) -> tuple[str, str] | None:
    """Return the two values if they are long strings."""
    before, after = difference.before, difference.after
    if before is None or after is None or difference.problem:
        return None
    if not before.type_name == after.type_name == "string":
        return None
    one, other = before.value, after.value
    if not isinstance(one, str) or not isinstance(other, str):
        return None
    long = max(len(one), len(other)) > _LONG_TEXT or "\n" in one or "\n" in other
    return (one, other) if long else None


def compare_texts(
    key: str, before: str | None, after: str | None, check: Check = never
) -> TextDifference:
    """Compare two texts of any length line by line; long lines of templates in their tags.

    Args:
        key: What they are the value of.
        before: The first; None if there is none, so that all lines of the other were added.
        after: The second.
        check: Called before the work begins; raises to cancel.
    """
    check()
    cut = max(len(before or ""), len(after or "")) > _MOST_TEXT
    one, other = ([] if text is None else _lines(text[:_MOST_TEXT]) for text in (before, after))
    start = _equal_start(one, other)
    stop = _equal_start(one[start:][::-1], other[start:][::-1])
    middle = one[start : len(one) - stop], other[start : len(other) - stop]
    if max(map(len, middle)) <= _MOST_LINES:
        blocks = difflib.SequenceMatcher(None, *middle).get_opcodes()
    else:
        blocks = [("replace", 0, len(middle[0]), 0, len(middle[1]))]
    first = max(0, start - _CONTEXT)
    lines: list[str] = ["@@"] if first else []
    lines += [f" {line}" for line in one[first:start]]
    removed = added = 0
    for word, i1, i2, j1, j2 in blocks:
        if word == "equal":
            same = [f" {line}" for line in middle[0][i1:i2]]
            if len(same) > 2 * _CONTEXT + 1:
                same = [*same[:_CONTEXT], "@@", *same[-_CONTEXT:]]
            lines += same
            continue
        removed, added = removed + i2 - i1, added + j2 - j1
        lines += [f"-{line}" for line in middle[0][i1:i2]]
        lines += [f"+{line}" for line in middle[1][j1:j2]]
    last = len(one) - stop
    lines += [f" {line}" for line in one[last : last + _CONTEXT]]
    if stop > _CONTEXT:
        lines.append("@@")
    kept = tuple(lines[:MOST_SHOWN])
    return TextDifference(key, kept, removed, added, len(lines) - len(kept), cut)


def _lines(text: str) -> list[str]:
    """Return the lines of a text, those of a template on one line in pieces, one for each tag."""
    found: list[str] = []
    for line in text.split("\n"):
        for piece in _PIECES.split(line) if len(line) > _LONGEST_PIECE else (line,):
            found += [
                piece[start : start + _LONGEST_LINE]
                for start in range(0, max(1, len(piece)), _LONGEST_LINE)
            ]
    return found


def _equal_start(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines two texts have in common from the first on."""
    pairs = zip(one, other, strict=False)
    differing = (place for place, (left, right) in enumerate(pairs) if left != right)
    return next(differing, min(len(one), len(other)))


# Errors by role


def errors_by_role(models: tuple[Model, Model], rows: Iterable[PairRow]) -> RoleSums:
    """Return the errors of two models by role, of all that was compared, and of all matrices."""
    first = is_gguf(models[0]) or not is_gguf(models[1])
    roles, total, matrices = dict[str, RunningErrors](), RunningErrors(), RunningErrors()
    for row in rows:
        if row.errors is not None:
            pair, sums = row.pair, row.errors.sums
            role = _role(pair.reference, pair.candidate, first=first)
            roles.setdefault(role, RunningErrors()).combine(sums)
            total.combine(sums)
            if is_matrix_shape(pair.candidate.shape):
                matrices.combine(sums)
    found = {role: sums.metrics() for role, sums in roles.items()}
    return RoleSums(found, total.metrics(), matrices.metrics())
