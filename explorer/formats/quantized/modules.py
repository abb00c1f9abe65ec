"""What rules of quantization methods are given and give; docs/hf_quantization.md.

A rule looks at one module of a model: the stored tensors whose names begin alike. It says which of
them are parts of one weight, and how they are stored. It reads headers, and small data where only
that tells a shape; never weights, scales or indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple, TypeAlias

from explorer.errors import ExplorerError
from explorer.formats.quantized.declaration import Declaration
from explorer.formats.quantized.patterns import may_read
from explorer.formats.tensors import Extent, Spec, StoredArray
from explorer.quantization.huggingface.layout import MAX_LINE, CompanionLayout, Shape

MAX_SMALL: Final = 64 << 10
"""Most bytes of data that a listing reads of one tensor."""

MAX_WEIGHTS: Final = 1 << 48
"""Most weights of a logical shape."""

FLOAT_TYPES: Final = frozenset({"F16", "BF16", "F32"})


class Member(NamedTuple):
    """A stored tensor of a module."""

    name: str  # its name in the file
    spec: Spec
    extent: Extent
    damage: str | None

    @property
    def dtype(self) -> str:
        """Its type by safetensors' name."""
        return self.spec.type.name

    @property
    def shape(self) -> Shape:
        """Its shape, outermost first."""
        return self.spec.shape

    @property
    def array(self) -> StoredArray:
        """Where it lies."""
        return StoredArray(self.extent, self.spec.type, self.spec.shape)

    def small(self) -> bytes:
        """Return its bytes.

        Raises:
            RuleError: There are more than a listing reads, or they cannot be read.
        """
        if self.damage is not None:
            raise RuleError(f"its {last_part(self.name)} is damaged: {self.damage}")
        if self.extent.nbytes > MAX_SMALL:
            what = f"has {self.extent.nbytes} bytes, more than {MAX_SMALL}"
            raise RuleError(f"its {last_part(self.name)} {what}")
        if not may_read(self.extent.nbytes):
            raise RuleError("there is more data to read than a listing reads of one model")
        try:
            return self.extent.source.read(self.extent.offset, self.extent.nbytes)
        except ExplorerError as error:
            raise RuleError(f"its {last_part(self.name)} {error.what}") from error


class RuleError(Exception):
    """A weight whose parts contradict each other, or of which some are missing; for people."""


class LeftAloneError(RuleError):
    """A weight that is stored as no rule decodes; nothing is told of it."""


def last_part(name: str) -> str:
    """Return the last part of a dotted name."""
    return name.rpartition(".")[2]


class Module:
    """The stored tensors of one module, by what stands behind its path.

    Attributes:
        stem: Its path, such as ``"model.layers.0.mlp.down_proj"``.
        declared: What the model says about its quantization.
        metadata: What the files say about their tensors (``__metadata__``).
        known: What rules found of modules that are alike, by keys of their own: thousands are.
    """

    __slots__ = ("_by_name", "declared", "known", "metadata", "stem")

    def __init__(
        self,
        stem: str,
        by_name: Mapping[str, Member],
        declared: Declaration,
        metadata: Mapping[str, str],
        known: dict[tuple[object, ...], tuple[CompanionLayout, str | None]] | None = None,
    ) -> None:
        self.stem = stem
        self.known = {} if known is None else known
        self.declared = declared
        self.metadata = metadata
        self._by_name = by_name

    def get(self, suffix: str) -> Member | None:
        """Return the tensor whose name is the stem and a suffix, or None."""
        return self._by_name.get(self.stem + suffix)

    def need(self, suffix: str) -> Member:
        """Return the tensor of a suffix.

        Raises:
            RuleError: There is none.
        """
        found = self._by_name.get(self.stem + suffix)
        if found is None:
            raise RuleError(f"its {suffix.lstrip('.')} is missing")
        return found


class Found(NamedTuple):
    """A weight with its parts."""

    name: str  # logical name
    parts: dict[str, Member]  # by role, the codes first
    layout: CompanionLayout
    problem: str | None = None  # where what is declared and the shapes differ, for people


Rule: TypeAlias = Callable[[Module], Found | None]
"""Returns the weight of a module; None if it is none of the rule's.

Raises:
    RuleError: It is one, but its parts contradict each other or some are missing.
    LeftAloneError: It is one, of a kind that is not decoded.
"""


@dataclass(frozen=True, slots=True)
class Matrix:
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
        raise RuleError(f"its {last_part(member.name)} {what}")
    return Matrix(*member.shape)


def check_type(member: Member, *types: str) -> None:
    """Check a stored type.

    Raises:
        RuleError: It is another one.
    """
    if member.dtype not in types:
        what = f"is of type {member.dtype}, and should be {' or '.join(sorted(types))}"
        raise RuleError(f"its {last_part(member.name)} {what}")


def check_shape(member: Member, *shapes: Shape) -> None:
    """Check a stored shape.

    Raises:
        RuleError: It is none of those that fit.
    """
    if member.shape not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        what = f"is of shape {list(member.shape)}, and should be {wanted}"
        raise RuleError(f"its {last_part(member.name)} {what}")


def check_logical(shape: Shape, line: int) -> None:
    """Check a logical shape and the length of its lines.

    Raises:
        RuleError: One is too large, or below 1.
    """
    if not shape or min(shape) < 1 or max(shape) >= 1 << 31 or prod(shape) >= MAX_WEIGHTS:
        raise RuleError(f"a weight cannot be of shape {list(shape)}")
    if not 0 < line <= MAX_LINE:
        raise RuleError(f"rows of {line} weights are longer than {MAX_LINE}")


def says(key: str, said: object, found: object) -> str:
    """Return that a field contradicts the shapes."""
    return f"the configuration says a {key} of {said}, the shapes say {found}"


def other_method(module: Module, methods: frozenset[str], name: str) -> str | None:
    """Return that another method is declared than the keys and shapes are of; None if not."""
    declared = module.declared
    if not declared.method or declared.method in methods:
        return None
    return f"{declared.origin} says {declared.method}, the keys and shapes say {name}"


def joined(*problems: str | None) -> str | None:
    """Return problems as one text; None without any."""
    return "; ".join(filter(None, problems)) or None
