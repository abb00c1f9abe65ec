"""What rules of quantization methods are given and give; docs/hf_quantization.md.

A rule looks at one module of a model: the stored tensors whose names begin alike. It says which of
them are parts of one weight, and how they are stored. It reads headers, and small data where only
that tells a shape; never weights, scales or indices.

A model has thousands of modules that are alike. So a rule learns of a module only by
questions, and these are noted with their answers: `Memory` asks them of the next module, and where
all answers are the same the rule need not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from explorer.errors import ExplorerError
from explorer.formats.quantized.declaration import Declaration, Tile
from explorer.formats.tensors import Spec
from explorer.quantization.huggingface.layout import (
    MAX_LINE,
    CompanionLayout,
    Formula,
    Levels,
    Shape,
)

MAX_SMALL: Final = 64 << 10
"""Most bytes of data that a listing reads of one tensor."""

MAX_DATA: Final = 8 << 20
"""Most bytes that the listing of a model reads of all such tensors."""

MAX_WEIGHTS: Final = 1 << 48
"""Most weights of a logical shape."""

FLOAT_TYPES: Final = frozenset({"F16", "BF16", "F32"})
EXPONENT_TYPES: Final = frozenset({"U8", "F8_E8M0"})

_FLOATS: Final[Mapping[str, Levels]] = {
    **{"F8_E4M3": Levels.E4M3, "F8_E5M2": Levels.E5M2},
    **{"F8_E4M3FNUZ": Levels.E4M3_FNUZ, "F8_E5M2FNUZ": Levels.E5M2_FNUZ},
}
FP8_TYPES: Final = frozenset(_FLOATS)
BARE_FP8: Final = "is FP8 without a scale: its values are the bare codes"
SCALE_ROLES: Final = ("weight_scale_inv", "qscale_weight", "scale_weight", "weight.scale")
"""What DeepSeek, Mistral, ComfyUI and others call the scale of an FP8 weight; it is multiplied."""
_LEVELS: Final = {"I8": Levels.SIGNED, **_FLOATS}

_USUAL_RUNS: Final = (128, 64, 32, 256, 16, 512, 1024)
_MOST_REMEMBERED: Final = 4096  # kinds of modules of a model; real ones have a dozen


class RuleError(Exception):
    """A weight whose parts contradict each other, or of which some are missing; for people."""


class LeftAloneError(RuleError):
    """A weight that is stored as no rule decodes; nothing is reported of it."""


class Member(NamedTuple):
    """A stored tensor of a module."""

    suffix: str  # what its name has behind the module's path
    spec: Spec

    @property
    def called(self) -> str:
        return self.suffix.rpartition(".")[2].lstrip("_") or "weight"

    @property
    def dtype(self) -> str:
        """Its type by safetensors' name."""
        return self.spec.type.name

    @property
    def shape(self) -> Shape:
        """Its shape, outermost first."""
        return self.spec.shape


@dataclass(frozen=True)
class Keys:
    """What a listing knows of a model.

    Attributes:
        rows: The place of each stored tensor, by its name.
        specs: Type and shape of each, by its place; those that are equal are mostly one.
        read: Returns the bytes of one by its place, or raises an `ExplorerError`.
        declared: What the model says about its quantization.
        metadata: What the files say about their tensors (``__metadata__``).
        left: How many bytes of small tensors may still be read; one number.
    """

    rows: Mapping[str, int]
    specs: Sequence[Spec]
    read: Callable[[int], bytes]
    declared: Declaration
    metadata: Mapping[str, str]
    left: list[int] = field(default_factory=lambda: [MAX_DATA])

    def small(self, suffix: str, stem: str) -> bytes | str:
        """Return the bytes of a small tensor, or why there are none, for people."""
        row = self.rows[stem + suffix]
        nbytes = self.specs[row].nbytes
        if nbytes > MAX_SMALL:
            return f"has {nbytes} bytes, more than {MAX_SMALL}"
        self.left[0] -= nbytes
        if self.left[0] < 0:
            return "is more data than a listing reads of one model"
        try:
            return self.read(row)
        except ExplorerError:
            return "cannot be read. The file is damaged there"


_Question: TypeAlias = str | Callable[[str], Hashable]
"""A suffix, answered by type and shape of the tensor; or anything that a module's path answers."""


class Module:
    """One module of a model, of which a rule learns by its questions alone.

    Attributes:
        declared: What the model says about its quantization.
        asked: What was asked, and the answers; no suffix twice.
    """

    __slots__ = ("_keys", "_known", "_stem", "asked", "declared")

    def __init__(self, stem: str, keys: Keys) -> None:
        self.declared = keys.declared
        self.asked: list[tuple[_Question, Hashable]] = []
        self._stem = stem
        self._keys = keys
        self._known: dict[str, Member | None] = {}

    def get(self, suffix: str) -> Member | None:
        """Return the tensor whose name is the module's path and a suffix, or None."""
        if suffix not in self._known:
            row = self._keys.rows.get(self._stem + suffix)
            spec = None if row is None else self._keys.specs[row]
            self.asked.append((suffix, None if spec is None else id(spec)))
            self._known[suffix] = None if spec is None else Member(suffix, spec)
        return self._known[suffix]

    def need(self, suffix: str) -> Member:
        """Return the tensor of a suffix.

        Raises:
            RuleError: There is none.
        """
        found = self.get(suffix)
        if found is None:
            raise RuleError(f"its {suffix.lstrip('.')} is missing")
        return found

    def small(self, member: Member) -> bytes:
        """Return the bytes of a small tensor.

        Raises:
            RuleError: There are more than a listing reads, or they cannot be read.
        """
        found = self.ask(partial(self._keys.small, member.suffix))
        if isinstance(found, str):
            raise RuleError(f"its {member.called} {found}")
        assert isinstance(found, bytes)
        return found

    def integers(self, member: Member) -> Shape:
        """Return the numbers of a small tensor.

        Raises:
            RuleError: They are no integers, or cannot be read.
        """
        check_type(member, "I32", "I64")
        width, data = member.spec.type.block_bytes, self.small(member)
        starts = range(0, len(data), width)
        return tuple(int.from_bytes(data[i : i + width], "little", signed=True) for i in starts)

    def metadata(self, suffix: str) -> str:
        """Return what the files say about the tensor of a suffix; "" if nothing.

        Without a suffix, it is the tensor that the module is a part of: `m.x` for `m._x`.
        """
        metadata = self._keys.metadata
        if suffix:
            return str(self.ask(lambda stem: metadata.get(stem + suffix, "")))
        return str(self.ask(lambda stem: metadata.get(".".join(stem.rsplit("._", 1)), "")))

    def ask(self, question: Callable[[str], Hashable]) -> Hashable:
        """Return anything that a module's path answers."""
        answer = question(self._stem)
        self.asked.append((question, answer))
        return answer


class Found(NamedTuple):
    """A weight with its parts."""

    suffix: str  # what its logical name has behind the module's path
    parts: dict[str, Member]  # by role, the codes first
    layout: CompanionLayout
    problem: str | None = None  # what is stored otherwise, or not at all, for people


Rule: TypeAlias = Callable[[Module], Found | None]
"""Returns the weight of a module; None if it is none of the rule's.

Raises:
    RuleError: It is one, but its parts contradict each other or some are missing.
    LeftAloneError: It is one, of a kind that is not decoded.
"""


def sides_of(shape: Shape) -> Tile:
    """Return rows and columns of the matrices that scales lie over: of kernels, one row each."""
    if len(shape) in {2, 3}:
        return shape[-2], shape[-1]
    return shape[0], prod(shape[1:])


def tiles_layout(
    scheme: str, name: str, parts: Mapping[str, Member], tile: Tile
) -> CompanionLayout:
    """Return how bytes with a scale for each tile are stored.

    Args:
        scheme: The method.
        name: The type.
        parts: Codes, scales and zeros, if there are any, by their roles.
        tile: The tile of a scale.
    """
    codes, scales, *zeros = parts
    weight, scale = parts[codes], parts[scales]
    (rows, run), (height, columns) = tile, sides_of(weight.shape)
    is_exponent = scale.dtype in EXPONENT_TYPES
    return CompanionLayout(
        reader="floats.Tiles",
        scheme=scheme,
        name=name,
        bits=8,
        shape=weight.shape,
        group_size=run if rows == 1 and run < columns else None,
        line=columns,
        run=run,
        levels=_LEVELS[weight.dtype],
        formula=Formula.ZERO_FIRST if zeros else Formula.SCALED,
        options=(
            ("codes", codes),
            ("scales", scales),
            ("zeros", zeros[0] if zeros else ""),
            ("rows", max(rows, height)),
            ("tile_rows", rows),
            ("scale_type", "F8_E8M0" if is_exponent else ""),
        ),
        native="BF16" if is_exponent else scale.dtype,
    )


class Alike(NamedTuple):
    """What weights that are stored alike share.

    Attributes:
        layout: How they are stored.
        spec: Their type, shape and bytes, those of all parts.
        roles: What each part is to the layout, the codes first.
        suffixes: What names of parts have behind the module's path.
        suffix: What the logical name has there.
        problem: Where what is declared and the shapes differ, for people.
    """

    layout: CompanionLayout
    spec: Spec
    roles: tuple[str, ...]
    suffixes: tuple[str, ...] = ()
    suffix: str = ""
    problem: str | None = None


class Weight(NamedTuple):
    """A logical weight: its name, and the places of its parts and of what is attached to it."""

    name: str
    rows: tuple[int, ...]
    alike: Alike
    attached: tuple[int, ...] = ()


LEFT_ALONE: Final = object()
"""Outcome of a rule that leaves a weight as it is stored, without a word."""

Outcome: TypeAlias = Alike | str | object | None
"""What a rule says: a weight; what is wrong with it; `LEFT_ALONE`; None if it is none of its."""


class _Asked:
    """A question of a rule, and what came of each answer: another question, or the outcome."""

    __slots__ = ("follows", "question")

    def __init__(self, question: _Question) -> None:
        self.question = question
        self.follows: dict[Hashable, object] = {}


class Memory:
    """Outcomes of rules by the answers that they got."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._first: dict[Rule, object] = {}
        self._known = 0

    def outcome(self, rule: Rule, stem: str) -> Outcome:
        """Return what a rule says of the module of this path."""
        rows, specs = self._keys.rows, self._keys.specs
        found = self._first.get(rule, self)
        while type(found) is _Asked:
            question = found.question
            if type(question) is str:
                row = rows.get(stem + question)
                found = found.follows.get(None if row is None else id(specs[row]), self)
            else:
                found = found.follows.get(question(stem), self)  # type: ignore[operator]
        return self._run(rule, stem) if found is self else found

    def _run(self, rule: Rule, stem: str) -> Outcome:
        module = Module(stem, self._keys)
        outcome: Outcome
        try:
            found = rule(module)
        except LeftAloneError:
            outcome = LEFT_ALONE
        except RuleError as error:
            outcome = str(error)
        else:
            outcome = None if found is None else _alike(found, module.declared)
        if self._known < _MOST_REMEMBERED:
            self._known += 1
            self._note(rule, module.asked, outcome)
        return outcome

    def _note(self, rule: Rule, asked: list[tuple[_Question, Hashable]], outcome: Outcome) -> None:
        place: dict[Any, object] = self._first
        key: Hashable = rule
        for question, answer in asked:
            node = place.setdefault(key, _Asked(question))
            assert isinstance(node, _Asked)
            place, key = node.follows, answer
        place[key] = outcome


def _alike(found: Found, declared: Declaration) -> Alike:
    layout, parts = found.layout, found.parts.values()
    nbytes = sum(part.spec.nbytes for part in parts)
    spec = Spec(layout.type, layout.shape, layout.parameters, nbytes)
    suffixes = tuple(part.suffix for part in parts)
    problems = [*differences(declared, layout).values(), found.problem]
    problem = "; ".join(filter(None, problems)) or None
    return Alike(layout, spec, tuple(found.parts), suffixes, found.suffix, problem)


_SCHEMES: Final[Mapping[str, Sequence[str]]] = {  # of methods with another name, or with several
    "gptqmodel": ("gptq",),
    **dict.fromkeys(("auto-round", "auto_round", "autoround"), ("gptq", "awq")),
    "sparseml": ("compressed-tensors",),
    "fp8": ("fp8", "modelopt"),  # DeepSeek's, whose experts may be NVFP4
    "fbgemm_fp8": ("fp8",),
    **dict.fromkeys(("modelopt_fp4", "nvfp4"), ("modelopt",)),
}


def differences(declared: Declaration, layout: CompanionLayout) -> dict[str, str]:
    """Return what is declared otherwise than keys and shapes say: "method", "bits" or "sharing".

    Only that which no rule of the configuration says differs: any may be that of a module.
    """
    found: dict[str, str] = {}
    if not layout.reader:  # only its sizes are known
        return found
    method, stated = declared.method, f"{declared.origin} says"
    if method and layout.scheme not in _SCHEMES.get(method, (method,)):
        found["method"] = f"{stated} {method}, keys and shapes say {layout.scheme}"
    if None not in declared.bits and layout.bits not in declared.bits:
        found["bits"] = f"{stated} {declared.bits[0]} bits, the shapes say {layout.bits}"
    wanted, tile = _stated_tiles(declared, layout), _tile(layout)
    if wanted and tile not in wanted:
        found["sharing"] = f"{stated} {_sharing(wanted[0])}, the shapes say {_sharing(tile)}"
    return found


def _tile(layout: CompanionLayout) -> Tile:
    rows = int(layout.option("tile_rows", 1))
    return _clipped((rows, layout.group_size or layout.run), layout)


def _stated_tiles(declared: Declaration, layout: CompanionLayout) -> list[Tile]:
    """Return the tiles that the rules of a configuration say; none if one of them says nothing."""
    found: list[Tile] = []
    for tile, group in zip(declared.tiles, declared.groups, strict=True):
        if group is not None:
            found.append((1, layout.shape[-1] if group == -1 else group))
        elif tile is not None and layout.reader == "floats.Tiles":
            found.append(tile)
        else:
            return []
    return [_clipped(tile, layout) for tile in found]


def _clipped(tile: Tile, layout: CompanionLayout) -> Tile:
    *_, rows, columns = 1, *layout.shape
    return min(tile[0], rows), min(tile[1], columns)


def _sharing(tile: Tile) -> str:
    rows, columns = tile
    return f"groups of {columns}" if rows == 1 else f"tiles of {rows} × {columns}"


class Matrix(NamedTuple):
    """A stored tensor of two dimensions."""

    rows: int
    columns: int


def matrix(member: Member, *types: str) -> Matrix:
    """Return the shape of a matrix of one of some types.

    Raises:
        RuleError: It is of another type or has not two dimensions, both above 0.
    """
    check_type(member, *types)
    if len(member.shape) != 2 or 0 in member.shape:
        what = f"is of shape {list(member.shape)}, and should be a matrix"
        raise RuleError(f"its {member.called} {what}")
    return Matrix(*member.shape)


def check_type(member: Member, *types: str) -> None:
    """Check a stored type.

    Raises:
        RuleError: It is another one.
    """
    if member.dtype not in types:
        what = f"is of type {member.dtype}, and should be {' or '.join(sorted(types))}"
        raise RuleError(f"its {member.called} {what}")


def check_shape(member: Member, *shapes: Shape) -> None:
    """Check a stored shape.

    Raises:
        RuleError: It is none of those that fit.
    """
    if member.shape not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        what = f"is of shape {list(member.shape)}, and should be {wanted}"
        raise RuleError(f"its {member.called} {what}")


def check_logical(shape: Shape, line: int) -> None:
    """Check a logical shape and the length of its lines.

    Raises:
        RuleError: One is too large, or below 1.
    """
    if not shape or min(shape) < 1 or max(shape) >= 1 << 31 or prod(shape) >= MAX_WEIGHTS:
        raise RuleError(f"a weight cannot be of shape {list(shape)}")
    if not 0 < line <= MAX_LINE:
        raise RuleError(f"rows of {line} weights are longer than {MAX_LINE}")


def run_length(length: int, count: int, stated: Sequence[int | None]) -> int:
    """Return how many weights share a scale, if a line has `count` scales; the last may be fewer.

    The first size that is said and fits, else equal shares, else a usual size; 0 if none fits.
    """
    for size in stated:
        if size is not None and size > 0 and -(-length // size) == count:
            return size
    if count and length % count == 0:
        return length // count
    return next((run for run in _USUAL_RUNS if -(-length // run) == count), 0)
