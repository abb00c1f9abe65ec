"""What is in a model as branches of a tree: metadata by namespace, tensors by layer, groups.

Children are made when a branch is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from explorer.formats import Problem, Severity
from explorer.formats.tensor_filter import parse_filter
from explorer.formats.tensors import TensorGroup, natural_key, parse_name
from explorer.present.model import gravest, mark
from explorer.qt.document import Document, metadata_mask
from explorer.text import bytes_text, counted, integer_text, plain_text, shape_text, shorten

Make: TypeAlias = Callable[[], Iterable["Node"]]
Holds: TypeAlias = Callable[["int | str"], bool]
T = TypeVar("T")

_MOST_SIBLINGS: Final = 1000
"""More are shown as spans of some: a view lays out every row of a branch that it is given, and a
hostile file may have 100,000 tensors in one."""

SHOWN_PROBLEMS: Final = 8
_SPAN: Final = 256
_LONGEST_TITLE: Final = 200  # a name may have 65,000 letters
_SHORT_TITLE: Final = 40
_FEW_VALUES: Final = 8  # of an array; of a vocabulary the count says more than its beginning


class NodeKind(Enum):
    """What a node of the tree stands for."""

    MODEL = auto()
    METADATA = auto()
    NAMESPACE = auto()
    SPAN = auto()  # some of very many siblings
    KEY = auto()
    TENSORS = auto()
    LAYER = auto()
    ROLE = auto()
    TENSOR = auto()
    PART = auto()  # a stored array of a quantized tensor
    GROUPS = auto()
    GROUP = auto()


@dataclass(eq=False)
class Node:
    """A row of the tree.

    Attributes:
        kind: What it stands for.
        title: Its text, safe to show.
        words: Text of the second column, where it is not a size.
        short: What is shown there of words that are too long; "" if they are not.
        document: The model it belongs to.
        key: Metadata key, of a KEY.
        layer_row: Row of a tensor of it, of a LAYER.
        tensor_row: Row in the model's tensor table, of a TENSOR and of a PART.
        nbytes: Bytes of what it stands for, where the second column shows them.
        make: Makes its children; None of a leaf, and once the branch was opened.
        holds: Whether a tensor (its row) or a key may be below it; None if that is not known.
        children: Children shown.
        parent: The node above, None for a model.
        row: Its place among its siblings.
        problems: What is wrong with it, or below it.
    """

    kind: NodeKind
    title: str
    words: str
    document: Document
    key: str = ""
    short: str = ""
    layer_row: int = -1
    tensor_row: int = -1
    nbytes: int | None = None
    make: Make | None = None
    holds: Holds | None = None
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None
    row: int = 0
    problems: Sequence[Problem] = ()

    def take_apart(self) -> None:
        """Let a branch that is shown no more be freed at once: its nodes hold one another.

        Python's collector would free it at some time, and with it a model of many megabytes.
        """
        left = [self]
        while left:
            node = left.pop()
            left += node.children
            node.children, node.parent, node.make = [], None, None

    @property
    def shown_title(self) -> str:
        """Its title, behind the sign of its gravest problem."""
        grave = gravest(self.problems)
        return self.title if grave is None else f"{mark(grave.severity)} {self.title}"

    @property
    def detail(self) -> str:
        """Text of the second column."""
        if self.kind is NodeKind.MODEL:
            return plain_text(self.document.brief)
        return self.short or self.words if self.nbytes is None else bytes_text(self.nbytes)

    def new_children(self) -> list[Node]:
        """Make the children, unless that was done."""
        made, self.make = list(self.make() if self.make else ()), None
        for row, child in enumerate(made):
            child.parent, child.row = self, row
        return made


@dataclass(frozen=True)
class Filtered:
    """What of a model a filter leaves in the tree: all of it, if nothing is typed.

    The words are those of the filter of tensors; keys and groups must hold each of them.
    """

    text: str = ""

    def keys(self, document: Document) -> NDArray[np.bool_]:
        """Return which entries of the metadata are left, bool [n]."""
        if not self.text.strip():
            return np.ones(len(document.keys.rows), np.bool_)
        return metadata_mask(document, self.text)

    def tensors(self, document: Document) -> NDArray[np.bool_]:
        """Return which tensors are left, bool [n]."""
        parsed = parse_filter(self.text)
        if parsed.is_empty:
            return np.ones(len(document.arrays), np.bool_)
        return parsed.mask(document.arrays)

    @property
    def problems(self) -> Sequence[str]:
        """A sentence for each word that cannot be used."""
        return parse_filter(self.text).problems

    def holds(self, name: str) -> bool:
        """Return whether the name of something else is left."""
        return all(word in name.casefold() for word in self.text.casefold().split())


def model_node(document: Document, left: Filtered = Filtered()) -> Node:
    """Return the branch of one model, with what a filter leaves of it."""
    title, make = _short(document.title), partial(_branches, document, left)
    return Node(NodeKind.MODEL, title, "", document, make=make, problems=document.problems)


def _branches(document: Document, left: Filtered) -> Iterator[Node]:
    model, kind = document.model, NodeKind
    shown = left.keys(document)
    count = int(shown.sum())
    if count:
        branch = Node(kind.METADATA, "Metadata", counted(count, "key"), document)
        branch.make, branch.holds = partial(_namespaces, document, shown), _is_key
        yield branch
    shown = left.tensors(document)
    count = int(shown.sum())
    if count:
        branch = Node(kind.TENSORS, "Tensors", counted(count, "tensor"), document)
        branch.make, branch.holds = partial(_layers, document, shown), _is_row
        branch.problems = _damage(document, range(len(model.tensors.rows)))
        yield branch
    groups = [group for group in model.groups if left.holds(group.name)]
    if groups:
        branch = Node(kind.GROUPS, "Groups", integer_text(len(groups)), document)
        branch.make, branch.holds = partial(_groups, document, groups), lambda _: False
        yield branch


def _is_key(target: int | str) -> bool:
    return isinstance(target, str)


def _is_row(target: int | str) -> bool:
    return isinstance(target, int)


def _namespaces(document: Document, shown: NDArray[np.bool_]) -> Iterator[Node]:
    """Yield the namespaces of the keys that are shown, bool [n]."""
    known = document.keys.namespaces.items()
    found = ((name, [place for place in places if shown[place]]) for name, places in known)
    namespaces = {name: places for name, places in found if places}

    def node(name: str) -> Node:
        places = namespaces[name]
        make = partial(_keys, document, name, places)
        count = integer_text(len(places))
        holds = partial(_is_in_namespace, name)
        return Node(NodeKind.NAMESPACE, _short(name), count, document, make=make, holds=holds)

    yield from _spread(document, list(namespaces), node, holds_of=_one_of_namespaces)


def _one_of_namespaces(names: Sequence[str]) -> Holds:
    members = frozenset(names)
    return lambda target: isinstance(target, str) and target.partition(".")[0] in members


def _is_in_namespace(name: str, target: int | str) -> bool:
    return isinstance(target, str) and target.partition(".")[0] == name


def _keys(document: Document, namespace: str, places: list[int]) -> Iterator[Node]:
    entries, rows = document.model.metadata.entries, document.keys.rows

    def node(place: int) -> Node:
        key = entries[place].key
        title, count = _short(key.removeprefix(f"{namespace}.")), entries[place].length or 0
        short = f"{integer_text(count)} values" if count > _FEW_VALUES else ""
        return Node(NodeKind.KEY, title, rows[place].value, document, key=key, short=short)

    ranks = document.keys.ranks[0]
    names = document.keys.names

    def between(members: Sequence[int]) -> Holds:
        first, last = (_key_order(names[place]) for place in (members[0], members[-1]))
        return lambda key: isinstance(key, str) and first <= _key_order(plain_text(key)) <= last

    yield from _spread(document, _ordered(places, ranks), node, holds_of=between)


def _key_order(name: str) -> tuple[object, str]:
    """Return what decides the place of a key in natural order; see `text_ranks`."""
    return natural_key(name), name


def _layers(document: Document, shown: NDArray[np.bool_]) -> Iterator[Node]:
    """Yield the tensors of no layer, then the layers, of the tensors that are shown, bool [n]."""
    numbers = document.arrays.layers
    outside: list[int] = np.flatnonzero(shown & (numbers < 0)).tolist()
    yield from _tensors(document, "", _by_name(document, outside))
    layers = layers_of(document, np.flatnonzero(shown & (numbers >= 0)).tolist())

    def node(title: str) -> Node:
        rows = layers[title]
        first = parse_name(document.model.tensors.columns.names[rows[0]])
        make = partial(_roles, document, f"{first.stack}.{first.layer}.", rows)
        found = _sized(document, NodeKind.LAYER, title, rows, make)
        found.layer_row = rows[0]
        return found

    yield from _spread(document, list(layers), node, lambda title: layers[title])


def layers_of(document: Document, rows: Iterable[int]) -> dict[str, list[int]]:
    """Return the tensors of each layer by its title, in natural order.

    Args:
        document: The model.
        rows: Tensors that are in layers.
    """
    found: dict[tuple[str, int], list[int]] = {}
    names = document.model.tensors.columns.names
    for row in rows:
        parsed = parse_name(names[row])
        if parsed.layer is not None:
            found.setdefault((parsed.stack, parsed.layer), []).append(row)
    several_stacks = len({stack for stack, _ in found}) > 1
    order = sorted(found, key=lambda key: (natural_key(key[0]), key[1]))
    return {
        f"{stack}.{layer}" if several_stacks else f"Layer {layer}": found[stack, layer]
        for stack, layer in order
    }


def _roles(document: Document, prefix: str, rows: list[int]) -> Iterator[Node]:
    """Yield the tensors of a layer, with a branch for each role that several have."""
    roles: dict[str, list[int]] = {}
    for row in _by_name(document, rows):
        name = document.model.tensors.columns.names[row]
        roles.setdefault(parse_name(name).role, []).append(row)
    tensor = partial(_tensor, document, prefix)

    def node(role: str) -> Node:
        members = roles[role]
        if len(members) == 1:
            return tensor(members[0])
        make = partial(_tensors, document, prefix, members)
        return _sized(document, NodeKind.ROLE, role, members, make)

    yield from _spread(document, list(roles), node, lambda role: roles[role])


def _tensors(document: Document, prefix: str, rows: list[int]) -> Iterator[Node]:
    yield from _spread(document, rows, partial(_tensor, document, prefix), lambda row: [row])


def _tensor(document: Document, prefix: str, row: int) -> Node:
    columns = document.model.tensors.columns
    title = _short(columns.names[row].removeprefix(prefix)) or "(empty name)"
    title = title.removesuffix(".weight") or title  # most have it, none needs it
    kind = columns.types[row]
    node = Node(NodeKind.TENSOR, title, kind.name, document, tensor_row=row)
    node.nbytes, node.problems = columns.nbytes[row], _damage(document, [row])
    if kind.quantized and kind.id is None:  # ggml's types have an id, and no parts
        node.make = partial(_parts, document, row)
    return node


def _parts(document: Document, row: int) -> Iterator[Node]:
    """Yield the stored arrays of a quantized tensor, and those that are attached to its module."""
    tensor = document.model.tensors.rows[row]
    module = tensor.name.rpartition(".")[0] + "."
    for name, stored, attached in tensor.stored_parts:
        words = (stored.type.name, shape_text(stored.shape), "attached" if attached else "")
        text = " · ".join(filter(None, words))
        title = _short(name.removeprefix(module))
        yield Node(NodeKind.PART, title, text, document, key=name, tensor_row=row)


def _groups(document: Document, groups: Sequence[TensorGroup]) -> Iterator[Node]:
    def node(group: TensorGroup) -> Node:
        title = _short(group.name)
        return Node(NodeKind.GROUP, title, "", document, key=group.name, nbytes=group.nbytes)

    order = sorted(groups, key=lambda group: natural_key(group.name))
    yield from _spread(document, order, node)


def _spread(
    document: Document,
    items: Sequence[T],
    node: Callable[[T], Node],
    rows_of: Callable[[T], list[int]] | None = None,
    holds_of: Callable[[Sequence[T]], Holds] | None = None,
) -> Iterator[Node]:
    """Yield a node for each item; of many, branches of some each: no view lays out 60,000 rows.

    Args:
        document: The model.
        items: What the nodes stand for, in order.
        node: Makes one.
        rows_of: Returns the tensors of an item; None if it has none.
        holds_of: Returns whether a target may be below some of the items; None for by `rows_of`.
    """
    if len(items) <= _MOST_SIBLINGS:
        yield from map(node, items)
        return
    for start in range(0, len(items), _SPAN):
        members = items[start : start + _SPAN]
        rows = [] if rows_of is None else [row for item in members for row in rows_of(item)]
        ends = (shorten(node(item).title, _SHORT_TITLE) for item in (members[0], members[-1]))
        count = integer_text(len(members))
        span = Node(NodeKind.SPAN, " … ".join(ends), count, document)
        span.make = partial(map, node, members)
        span.problems = _damage(document, rows) if rows else ()
        span.holds = frozenset(rows).__contains__ if holds_of is None else holds_of(members)
        yield span


def _short(text: str) -> str:
    return shorten(plain_text(text), _LONGEST_TITLE)


def _sized(document: Document, kind: NodeKind, title: str, rows: list[int], make: Make) -> Node:
    """Return a branch that shows the bytes of the tensors below it."""
    nbytes = sum(document.model.tensors.columns.nbytes[row] for row in rows)
    node = Node(kind, _short(title), "", document, nbytes=nbytes, make=make)
    node.problems, node.holds = _damage(document, rows), frozenset(rows).__contains__
    return node


def _damage(document: Document, rows: Sequence[int]) -> Sequence[Problem]:
    """Return the damage of the first damaged tensors among rows."""
    if not document.has_damage:
        return ()
    places = np.flatnonzero(document.arrays.damaged[rows])[:SHOWN_PROBLEMS]
    tensors = (document.model.tensors.rows[rows[place]] for place in places)
    return [Problem(Severity.ERROR, tensor.name, tensor.damage or "") for tensor in tensors]


def _by_name(document: Document, rows: list[int]) -> list[int]:
    return _ordered(rows, document.arrays.name_ranks)


def _ordered(places: list[int], ranks: NDArray[np.int64]) -> list[int]:
    chosen = np.array(places, np.intp)
    ordered: list[int] = chosen[np.argsort(ranks[chosen], kind="stable")].tolist()
    return ordered
