"""Stored tensors become tensors of a model: a quantized weight and its scales become one.

docs/safetensors_and_blobs.md, section 3. Ollama's blobs and MLX's folders store a quantized weight
as two to four tensors, each with names of its own. `explorer.quantization.grouped.detection` infers
the quantization from metadata, `config.json` and shapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple, Self, overload

from explorer.formats.model import ProblemLog
from explorer.formats.quantized.declaration import Declaration
from explorer.formats.quantized.grouping import group_members
from explorer.formats.quantized.modules import BARE_FP8, FP8_TYPES, Alike, Keys, Weight
from explorer.formats.tensors import (
    CompanionWeights,
    Extent,
    Spec,
    StoredArray,
    Tensor,
    TensorColumns,
    TensorGroup,
    TensorTable,
)
from explorer.quantization.grouped.detection import Resolution, config_quantization, resolve
from explorer.quantization.grouped.layout import GroupParts, Part

_PACKED: Final = frozenset({"U32", "U8"})
_MAX_NAME: Final = 512  # a longer name is no name of the field, and a pattern takes its time on it
_EXPERTS: Final = re.compile(
    r"(?P<group>(?:[^.]+\.)*?layers\.\d+\.(?:[^.]+\.)*?"
    r"(?P<kind>shared_experts?|switch_mlp|experts))\."
)


_KINDS: Final = {  # of groups, by what their name holds; the first that fits
    "shared_expert": "shared_experts",
    "experts": "experts",
    "switch_mlp": "experts",
    "": "packed",
}


class Naming(NamedTuple):
    """How a program names the companions of a weight: endings that replace the weight's own."""

    weight: str
    scale: str
    bias: str
    global_scale: str


_ROLES: Final = ("weight", "scales", "biases", "global_scale")

OLLAMA_NAMING: Final = Naming("", ".scale", ".bias", ".global_scale")
"""Keys within one blob."""

OLD_OLLAMA_NAMING: Final = Naming("", "_scale", "_qbias", "_global_scale")
"""Layers of Ollama up to 0.15; in newer ones, the names that the program uses while it runs."""

MLX_NAMING: Final = Naming(".weight", ".scales", ".biases", ".global_scale")
"""Keys of a folder in MLX's format."""


class Stored(NamedTuple):
    """A tensor as a file stores it."""

    name: str  # its name in the model
    spec: Spec  # its type and shape
    extent: Extent  # where its bytes lie
    damage: str | None  # why they cannot all be read, or None
    key: str  # its name in the file
    metadata: Mapping[str, str]  # what the file says about its tensors
    scope: int = 0  # only tensors of one scope can belong to each other
    packed_in: str | None = None  # name of the group that its blob holds, or None

    @property
    def array(self) -> StoredArray:
        """Its type and shape, with its place."""
        return StoredArray(self.extent, self.spec.type, self.spec.shape)

    @property
    def group(self) -> str | None:
        """The group that it belongs to by its blob or its name, or None."""
        return self.packed_in or group_of_name(self.name)

    def tensor(self) -> Tensor:
        """Return it as a tensor of the model, as it is stored."""
        return Tensor(
            name=self.name,
            shape=self.spec.shape,
            type=self.spec.type,
            extents=(self.extent,),
            parameters=self.spec.parameters,
            group=self.group,
            damage=self.damage,
        )


@dataclass(frozen=True)
class StoredTensors:
    """Tensors as files store them, each of another name; made when they are looked at.

    Attributes:
        names: The name of each in the model.
        specs: Its type and shape.
        at: Returns it by its place.
        read: Returns its bytes by its place; raises `FormatError` where the file is damaged, and
            `SourceError` where they cannot be read.
        scopes: As of `Stored`; empty where all are of one.
        packed_in: As of `Stored`; empty where none is.
    """

    names: Sequence[str]
    specs: Sequence[Spec]
    at: Callable[[int], Stored]
    read: Callable[[int], bytes]
    scopes: Sequence[int] = ()
    packed_in: Sequence[str | None] = ()

    @classmethod
    def of(cls, stored: Sequence[Stored]) -> Self:
        """Return tensors that are there."""
        return cls(
            [one.name for one in stored],
            [one.spec for one in stored],
            stored.__getitem__,
            lambda row: stored[row].tensor().read(),
            [one.scope for one in stored],
            [one.packed_in for one in stored],
        )

    def group_of(self, row: int, name: str) -> str | None:
        """Return the group that one belongs to by its blob or a name, or None."""
        return (self.packed_in[row] if self.packed_in else None) or group_of_name(name)


class Companions(NamedTuple):
    """The places of a weight and its companions."""

    weight: int
    scale: int
    bias: int | None
    global_scale: int | None

    @property
    def stored(self) -> tuple[int, ...]:
        """All of them that there are."""
        return tuple(part for part in self if part is not None)


class Assembly(Sequence[TensorGroup]):
    """Tensors of a model, in the order of their weights; as a sequence, its groups.

    Both are made on first use: a model may have 50,000 weights.

    Args:
        stored: All tensors as they are stored.
        weights: Those that are joined, by the place of their codes.
        used: Places of all parts, and of what is attached.
        draft_prefix: Tensors whose names begin so are a draft model's, and last.
    """

    def __init__(
        self,
        stored: StoredTensors,
        weights: Mapping[int, Weight],
        used: Container[int],
        draft_prefix: str | None = None,
    ) -> None:
        self._stored = stored
        self._weights = weights
        places = [row for row in range(len(stored.names)) if row not in used or row in weights]
        names = [weights[row].name if row in weights else stored.names[row] for row in places]
        main = None
        if draft_prefix is not None:
            is_draft = [name.startswith(draft_prefix) for name in names]
            order = sorted(range(len(names)), key=is_draft.__getitem__)  # is stable
            places, names = [places[row] for row in order], [names[row] for row in order]
            main = is_draft.count(False)
        specs = [weights[row].alike.spec if row in weights else stored.specs[row] for row in places]
        self._places = places
        self.table = TensorTable(TensorColumns.of(names, specs), self.tensor, main)

    @property
    def alike(self) -> Iterator[Alike | None]:
        """What each tensor shares with those stored alike, in order; None of a plain one."""
        for place in self._places:
            weight = self._weights.get(place)
            yield None if weight is None else weight.alike

    def tensor(self, row: int) -> Tensor:
        place = self._places[row]
        weight = self._weights.get(place)
        if weight is None:
            return self._stored.at(place).tensor()
        alike, at = weight.alike, self._stored.at
        parts = [at(place) for place in weight.rows]
        damages = (f"{part.key}: {part.damage}" for part in parts if part.damage is not None)
        attached = [at(place) for place in weight.attached]
        companions = CompanionWeights(
            layout=alike.layout,
            parts=dict(zip(alike.roles, (part.array for part in parts), strict=True)),
            keys=dict(zip(alike.roles, (part.name for part in parts), strict=True)),
            attached={one.name: one.array for one in attached},
        )
        return Tensor(
            name=weight.name,
            shape=alike.spec.shape,
            type=alike.spec.type,
            extents=tuple(part.extent for part in parts),
            parameters=alike.spec.parameters,
            group=self._stored.group_of(place, weight.name) or weight.name,
            damage=next(damages, None),
            companions=companions,
        )

    @cached_property
    def _groups(self) -> tuple[TensorGroup, ...]:
        return (*self._quantized(), *self._experts())

    @overload
    def __getitem__(self, index: int) -> TensorGroup: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TensorGroup, ...]: ...
    def __getitem__(self, index: int | slice) -> TensorGroup | tuple[TensorGroup, ...]:
        return self._groups[index]

    def __len__(self) -> int:
        return len(self._groups)

    def _quantized(self) -> Iterator[TensorGroup]:
        names = self._stored.names
        for place in self._places:
            weight = self._weights.get(place)
            if weight is not None:
                layout = weight.alike.layout
                yield TensorGroup(
                    name=weight.name,
                    kind="quantized",
                    tensors=tuple([names[part] for part in (*weight.rows, *weight.attached)]),
                    nbytes=weight.alike.spec.nbytes,
                    quant_type=layout.name,
                    group_size=layout.group_size,
                )

    def _experts(self) -> Iterator[TensorGroup]:
        """Yield the groups of experts, each with the quantization that all its weights share."""
        members: dict[str, list[int]] = {}
        columns = self.table.columns
        for row, (place, name) in enumerate(zip(self._places, columns.names, strict=True)):
            group = self._stored.group_of(place, name)
            if group is not None and group != name:
                members.setdefault(group, []).append(row)
        for name, rows in members.items():
            found = {self._quantization(row) for row in rows}
            names, sizes = {name for name, _ in found}, {size for _, size in found}
            yield TensorGroup(
                name=name,
                kind=next(kind for word, kind in _KINDS.items() if word in name),
                tensors=tuple([columns.names[row] for row in rows]),
                nbytes=sum(columns.nbytes[row] for row in rows),
                quant_type=names.pop() if len(names) == 1 else None,
                group_size=sizes.pop() if len(sizes) == 1 else None,
            )

    def _quantization(self, row: int) -> tuple[str | None, int | None]:
        """Return the type and the group size of a weight; None for other tensors."""
        weight = self._weights.get(self._places[row])
        if weight is None:
            return None, None
        return weight.alike.layout.name, weight.alike.layout.group_size


def join_companions(
    stored: StoredTensors,
    metadata: Mapping[str, str],
    declared: Declaration,
    config: Mapping[str, Any],
    log: ProblemLog,
) -> Assembly:
    """Make one tensor of each weight of a folder and its companions, whoever quantized it.

    Args:
        stored: All tensors as they are stored, of all shards.
        metadata: What the files say about their tensors.
        declared: What the folder says about its quantization.
        config: The parsed ``config.json``.
        log: Where contradictions go.
    """
    rows = {name: row for row, name in enumerate(stored.names)}
    found = group_members(Keys(rows, stored.specs, stored.read, declared, metadata), log)
    for row in found.used:
        del rows[stored.names[row]]
    weights, used = _grouped_weights(stored, rows, (MLX_NAMING, OLLAMA_NAMING), config, log)
    return Assembly(stored, found.weights | weights, found.used | used)


def assemble(
    stored: StoredTensors,
    namings: Sequence[Naming],
    config: Mapping[str, Any],
    log: ProblemLog,
    draft_prefix: str | None = None,
) -> Assembly:
    """Make one tensor of each weight of MLX or Ollama and its companions.

    Args:
        stored: All tensors as they are stored.
        namings: How companions may be named.
        config: The parsed ``config.json``; may say how weights are quantized.
        log: Where contradictions go.
        draft_prefix: As of `Assembly`.
    """
    rows = {name: row for row, name in enumerate(stored.names)}
    weights, used = _grouped_weights(stored, rows, namings, config, log)
    bare = [
        (stored.names[row], BARE_FP8)
        for row, spec in enumerate(stored.specs)
        if spec.type.name in FP8_TYPES and len(spec.shape) > 1 and row not in used
    ]
    _report_first(bare, log)
    return Assembly(stored, weights, used, draft_prefix)


def _grouped_weights(
    stored: StoredTensors,
    rows: Mapping[str, int],
    namings: Sequence[Naming],
    config: Mapping[str, Any],
    log: ProblemLog,
) -> tuple[dict[int, Weight], set[int]]:
    """Return the weights of MLX or Ollama by the place of their codes, and all their parts."""
    weights: dict[int, Weight] = {}
    consumed: set[int] = set()
    guesses: list[tuple[str, str]] = []
    resolve_one = _Resolver(stored, config)
    for found in find_weights(stored, rows, namings):
        # What belongs to a weight is no weight itself, and the other way round.
        companions = found.stored[1:]
        if found.weight in consumed or not weights.keys().isdisjoint(companions):
            continue
        name = stored.names[found.weight]
        about, alike = resolve_one(found)
        if alike is None:
            log.add_error(name, f"its quantization is not known: {about.problem}")
            continue
        if not about.groups_per_global_scale:  # a scale that means nothing stays on its own
            found = found._replace(global_scale=None)  # noqa: PLW2901 - the same weight
        if about.problem is not None:
            log.add_warning(name, about.problem)
        if about.guess is not None:
            what = f"neither metadata nor config.json says how it is quantized: {about.guess}"
            guesses.append((name, what))
        weights[found.weight] = Weight(name, found.stored, alike)
        consumed.update(found.stored[1:])
    _report_first(guesses, log)
    return weights, consumed.union(weights)


def find_weights(
    stored: StoredTensors, rows: Mapping[str, int], namings: Sequence[Naming]
) -> Iterator[Companions]:
    """Yield each weight that has scales in its scope, once.

    Args:
        stored: All tensors.
        rows: Places by name, of those that may belong to a weight.
        namings: How companions may be named.
    """
    found: set[int] = set()
    endings = tuple(naming.scale for naming in namings)
    scopes = stored.scopes

    def companion(name: str, row: int) -> int | None:
        other = rows.get(name)
        return other if not scopes or other is None or scopes[other] == scopes[row] else None

    for name, row in rows.items():
        for naming in namings if name.endswith(endings) else ():
            if not name.endswith(naming.scale):
                continue
            stem = name.removesuffix(naming.scale)
            weight = companion(stem + naming.weight, row)
            if weight is None or weight in found or stored.specs[weight].type.name not in _PACKED:
                continue
            found.add(weight)
            bias = companion(stem + naming.bias, row)
            yield Companions(weight, row, bias, companion(stem + naming.global_scale, row))


class _Resolver:
    """How weights are quantized; thousands are alike, and are resolved once."""

    def __init__(self, stored: StoredTensors, config: Mapping[str, Any]) -> None:
        self._stored = stored
        self._config = config
        self._known: dict[tuple[object, ...], tuple[Resolution, Alike | None]] = {}

    def __call__(self, weight: Companions) -> tuple[Resolution, Alike | None]:
        specs = [None if row is None else self._stored.specs[row] for row in weight]
        stored = self._stored.at(weight.weight)
        metadata = stored.metadata
        from_config = config_quantization(self._config, stored.name.removesuffix(".weight"))
        quant_type = metadata.get(f"{stored.key}.quant_type", metadata.get("quant_type"))
        group_size = metadata.get(f"{stored.key}.group_size", metadata.get("group_size"))
        # parts of the config, and specs, stay
        key = (*map(id, specs), quant_type, group_size, id(from_config))
        found = self._known.get(key)
        if found is None:
            about = resolve(_parts(*specs), quant_type, group_size, from_config)
            found = self._known[key] = about, _alike(about, specs)
        return found


def _parts(weight: Spec | None, scale: Spec | None, *others: Spec | None) -> GroupParts:
    assert weight is not None
    assert scale is not None
    bias, global_scale = (spec and Part(spec.type.name, spec.shape) for spec in others)
    return GroupParts(
        Part(weight.type.name, weight.shape), Part(scale.type.name, scale.shape), bias, global_scale
    )


def _alike(found: Resolution, specs: Sequence[Spec | None]) -> Alike | None:
    if found.layout is None or found.shape is None:
        return None
    per_scale = found.groups_per_global_scale
    present = [
        (role, spec.nbytes)
        for role, spec in zip(_ROLES, specs, strict=True)
        if spec is not None and (role != "global_scale" or per_scale)
    ]
    nbytes = sum(nbytes for _, nbytes in present)
    spec = Spec(found.layout.type, found.shape, prod(found.shape), nbytes)
    layout = found.layout.companions(found.shape, per_scale)
    return Alike(layout, spec, tuple(role for role, _ in present))


def _report_first(found: Sequence[tuple[str, str]], log: ProblemLog) -> None:
    """Report the first of weights with the like problem, and how many more there are."""
    if found:
        name, what = found[0]
        more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
        log.add_warning(name, f"{what}{more}")


def group_of_name(name: str) -> str | None:
    """Return the experts that a tensor belongs to by its name, or None."""
    if len(name) > _MAX_NAME or not ("expert" in name or "switch_mlp" in name):
        return None
    match = _EXPERTS.match(name)
    return None if match is None else match["group"]


def is_group_name(name: str) -> bool:
    """Return whether a layer's name is that of a group of experts, and so of no tensor."""
    return group_of_name(f"{name}.") == name
