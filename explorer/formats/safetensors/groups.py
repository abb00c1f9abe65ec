"""Stored tensors become tensors of a model: a quantized weight and its scales become one.

docs/safetensors_and_blobs.md, section 3. Ollama's blobs and MLX's folders store a quantized weight
as two to four tensors, each with names of its own. `explorer.quantization.grouped.detection` infers
the quantization from metadata, `config.json` and shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple, overload

from explorer.formats.model import ProblemLog
from explorer.formats.quantized.declaration import Declaration
from explorer.formats.quantized.grouping import Grouped, group_members
from explorer.formats.quantized.modules import Found, Member
from explorer.formats.quantized.patterns import bounded_work
from explorer.formats.tensors import (
    CompanionWeights,
    Extent,
    GroupedWeights,
    Spec,
    StoredArray,
    Tensor,
    TensorColumns,
    TensorGroup,
    TensorTable,
)
from explorer.quantization.grouped.detection import Resolution, config_quantization, resolve
from explorer.quantization.grouped.layout import GroupedLayout, Part, Parts
from explorer.quantization.huggingface.layout import CompanionLayout

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
    def part(self) -> Part:
        """Its type and shape, as the resolution wants them."""
        return Part(self.spec.type.name, self.spec.shape)

    @property
    def array(self) -> StoredArray:
        """The same, with its place."""
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


class Weight(NamedTuple):
    """A weight with its companions."""

    weight: Stored
    scale: Stored
    bias: Stored | None
    global_scale: Stored | None

    @property
    def stored(self) -> tuple[Stored, ...]:
        """All of them that there are."""
        return tuple(part for part in self if part is not None)


@dataclass
class Assembly:
    """Tensors of a model, in the order of their weights, and its groups."""

    tensors: list[Tensor] = field(default_factory=list)
    groups: list[TensorGroup] = field(default_factory=list)

    def table(self, draft_prefix: str | None = None) -> TensorTable:
        """Return the table; tensors that begin with the prefix are a draft model's, and last."""
        main = None
        if draft_prefix is not None:
            self.tensors.sort(key=lambda tensor: tensor.name.startswith(draft_prefix))  # is stable
            main = sum(not tensor.name.startswith(draft_prefix) for tensor in self.tensors)
        columns = TensorColumns.of([tensor.name for tensor in self.tensors], self.tensors)
        return TensorTable(columns, self.tensors.__getitem__, main)


class ExpertGroups(Sequence[TensorGroup]):
    """Groups of experts, made on first use: a model may have 90,000 of them."""

    def __init__(self, table: TensorTable) -> None:
        self._table = table

    @cached_property
    def _groups(self) -> tuple[TensorGroup, ...]:
        return tuple(_expert_groups(self._table.rows))

    @overload
    def __getitem__(self, index: int) -> TensorGroup: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TensorGroup, ...]: ...
    def __getitem__(self, index: int | slice) -> TensorGroup | tuple[TensorGroup, ...]:
        return self._groups[index]

    def __len__(self) -> int:
        return len(self._groups)


def join_companions(
    stored: Sequence[Stored], declared: Declaration, config: Mapping[str, Any], log: ProblemLog
) -> Assembly:
    """Make one tensor of each weight of a folder and its companions, whoever quantized it.

    Args:
        stored: All tensors as they are stored, of all shards.
        declared: What the folder says about its quantization.
        config: The parsed ``config.json``.
        log: Where contradictions go.
    """
    members = {
        tensor.name: Member(tensor.name, tensor.spec, tensor.extent, tensor.damage)
        for tensor in reversed(stored)  # of two of one name, the first counts
    }
    metadata: dict[str, str] = {}
    for file in {id(tensor.metadata): tensor.metadata for tensor in reversed(stored)}.values():
        metadata |= file
    with bounded_work():
        grouped = group_members(dict(reversed(members.items())), declared, metadata, log)
    if not grouped.weights:
        return assemble(stored, (MLX_NAMING, OLLAMA_NAMING), config, log)
    rest = [tensor for tensor in stored if tensor.name not in grouped.used]
    assembly = assemble(rest, (MLX_NAMING, OLLAMA_NAMING), config, log)
    _add_weights(assembly, stored, grouped)
    return assembly


def _add_weights(assembly: Assembly, stored: Sequence[Stored], grouped: Grouped) -> None:
    """Add the weights to a model, each in the place of its codes."""
    places: dict[str, int] = {}
    for place, one in enumerate(stored):
        places.setdefault(one.name, place)
    order = [(places[tensor.name], tensor) for tensor in assembly.tensors]
    experts = [one for one in assembly.groups if one.kind != "quantized"]
    groups = [one for one in assembly.groups if one.kind == "quantized"]
    for first, found in grouped.weights.items():
        attached = grouped.attached.get(found.name, ())
        tensor = _tensor_of_parts(found, attached)
        order.append((places[first], tensor))
        groups.append(
            TensorGroup(
                name=found.name,
                kind="quantized",
                tensors=tuple(part.name for part in (*found.parts.values(), *attached)),
                nbytes=tensor.nbytes,
                quant_type=found.layout.name,
                group_size=found.layout.group_size,
            )
        )
    order.sort(key=lambda one: one[0])
    assembly.tensors = [tensor for _, tensor in order]
    known = {one.name for one in experts}
    more = [one for one in _expert_groups(assembly.tensors) if one.name not in known]
    assembly.groups = [*groups, *experts, *more]


def _tensor_of_parts(found: Found, attached: Sequence[Member]) -> Tensor:
    layout, parts = found.layout, found.parts
    damages = (f"{part.name}: {part.damage}" for part in parts.values() if part.damage is not None)
    return Tensor(
        name=found.name,
        shape=layout.shape,
        type=layout.type,
        extents=tuple(part.extent for part in parts.values()),
        parameters=layout.parameters,
        group=group_of_name(found.name) or found.name,
        damage=next(damages, None),
        companions=CompanionWeights(
            layout=layout,
            parts={role: part.array for role, part in parts.items()},
            keys={role: part.name for role, part in parts.items()},
            attached={member.name: member.array for member in attached},
        ),
    )


def assemble(
    stored: Sequence[Stored], namings: Sequence[Naming], config: Mapping[str, Any], log: ProblemLog
) -> Assembly:
    """Make one tensor of each weight of MLX or Ollama and its companions.

    Args:
        stored: All tensors as they are stored.
        namings: How companions may be named.
        config: The parsed ``config.json``; may say how weights are quantized.
        log: Where contradictions go.
    """
    assembly = Assembly()
    weights: dict[int, tuple[Weight, Resolution]] = {}
    consumed: set[int] = set()
    guesses: list[tuple[str, str]] = []
    known: dict[tuple[object, ...], Resolution] = {}
    for weight in find_weights(stored, namings):
        # What belongs to a weight is no weight itself, and the other way round.
        companions = set(map(id, weight.stored[1:]))
        if id(weight.weight) in consumed or companions & weights.keys():
            continue
        found = _resolve(weight, config, known)
        if found.layout is None:
            what = f"its quantization is not known: {found.problem}"
            log.add_error(weight.weight.name, what)
            continue
        if not found.groups_per_global_scale:  # a scale that means nothing stays on its own
            weight = weight._replace(global_scale=None)  # noqa: PLW2901 - the same weight
        if found.problem is not None:
            log.add_warning(weight.weight.name, found.problem)
        if found.guess is not None:
            guesses.append((weight.weight.name, found.guess))
        weights[id(weight.weight)] = weight, found
        consumed.update(map(id, weight.stored[1:]))
    _report_guesses(guesses, log)
    for tensor in stored:
        if id(tensor) in weights:
            assembly.groups.append(_quantized_group(*weights[id(tensor)]))
            assembly.tensors.append(_logical_tensor(*weights[id(tensor)]))
        elif id(tensor) not in consumed:
            assembly.tensors.append(tensor.tensor())
    assembly.groups += _expert_groups(assembly.tensors)
    return assembly


def find_weights(stored: Iterable[Stored], namings: Sequence[Naming]) -> Iterator[Weight]:
    """Yield each weight that has scales in its scope, once."""
    by_name = {(tensor.scope, tensor.name): tensor for tensor in stored}
    found: set[int] = set()
    for (scope, name), scale in by_name.items():
        for naming in namings:
            if not name.endswith(naming.scale):
                continue
            stem = name.removesuffix(naming.scale)
            weight = by_name.get((scope, stem + naming.weight))
            if weight is None or id(weight) in found or weight.spec.type.name not in _PACKED:
                continue
            found.add(id(weight))
            bias = by_name.get((scope, stem + naming.bias))
            yield Weight(weight, scale, bias, by_name.get((scope, stem + naming.global_scale)))


def _resolve(
    weight: Weight, config: Mapping[str, Any], known: dict[tuple[object, ...], Resolution]
) -> Resolution:
    """Return how a weight is quantized; thousands are alike, and are resolved once."""
    stored, metadata = weight.weight, weight.weight.metadata
    bias, global_scale = weight.bias, weight.global_scale
    parts = Parts(
        stored.part, weight.scale.part, bias and bias.part, global_scale and global_scale.part
    )
    quant_type = metadata.get(f"{stored.key}.quant_type", metadata.get("quant_type"))
    group_size = metadata.get(f"{stored.key}.group_size", metadata.get("group_size"))
    said = config_quantization(config, stored.name.removesuffix(".weight"))
    key = (parts, quant_type, group_size, id(said))  # parts of the config, which stays
    if key not in known:
        known[key] = resolve(parts, quant_type, group_size, said)
    return known[key]


def _report_guesses(guesses: Sequence[tuple[str, str]], log: ProblemLog) -> None:
    if guesses:
        name, guess = guesses[0]
        more = f", and {len(guesses) - 1} more like it" if len(guesses) > 1 else ""
        what = f"neither metadata nor config.json says how it is quantized: {guess}{more}"
        log.add_warning(name, what)


def _logical_tensor(weight: Weight, found: Resolution) -> Tensor:
    assert found.layout is not None
    assert found.shape is not None
    bias, global_scale = weight.bias, weight.global_scale
    grouped = GroupedWeights(
        weight=weight.weight.array,
        scales=weight.scale.array,
        biases=bias and bias.array,
        global_scale=global_scale and global_scale.array,
        layout=found.layout,
        groups_per_global_scale=found.groups_per_global_scale,
    )
    damages = (f"{part.key}: {part.damage}" for part in weight.stored if part.damage is not None)
    name = weight.weight.name
    return Tensor(
        name=name,
        shape=found.shape,
        type=found.layout.type,
        extents=tuple(array.extent for array in grouped.arrays),
        parameters=prod(found.shape),
        group=weight.weight.group or name,
        damage=next(damages, None),
        grouped=grouped,
    )


def _quantized_group(weight: Weight, found: Resolution) -> TensorGroup:
    assert found.layout is not None
    return TensorGroup(
        name=weight.weight.name,
        kind="quantized",
        tensors=tuple(part.name for part in weight.stored),
        nbytes=sum(part.extent.nbytes for part in weight.stored),
        quant_type=found.layout.name,
        group_size=found.layout.group_size,
    )


def group_of_name(name: str) -> str | None:
    """Return the experts that a tensor belongs to by its name, or None."""
    if len(name) > _MAX_NAME or not ("expert" in name or "switch_mlp" in name):
        return None
    match = _EXPERTS.match(name)
    return None if match is None else match["group"]


def is_group_name(name: str) -> bool:
    """Return whether a layer's name is that of a group of experts, and so of no tensor."""
    return group_of_name(f"{name}.") == name


def _layout_of(tensor: Tensor) -> GroupedLayout | CompanionLayout | None:
    if tensor.grouped is not None:
        return tensor.grouped.layout
    return None if tensor.companions is None else tensor.companions.layout


def _expert_groups(tensors: Sequence[Tensor]) -> Iterator[TensorGroup]:
    """Yield the groups of experts, each with the quantization that all its weights share."""
    members: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.group is not None and tensor.group != tensor.name:
            members.setdefault(tensor.group, []).append(tensor)
    for name, group in members.items():
        layouts = {_layout_of(tensor) for tensor in group}
        names = {layout.name if layout else None for layout in layouts}
        sizes = {layout.group_size if layout else None for layout in layouts}
        yield TensorGroup(
            name=name,
            kind=next(kind for word, kind in _KINDS.items() if word in name),
            tensors=tuple(tensor.name for tensor in group),
            nbytes=sum(tensor.nbytes for tensor in group),
            quant_type=names.pop() if len(names) == 1 else None,
            group_size=sizes.pop() if len(sizes) == 1 else None,
        )
