"""The tensors of a model as a grid: a row for each layer, a column for each role.

Each stack of layers (a vision encoder's beside the language model's) is a section of its own; what
lies outside of layers stands before or behind them. Experts that are a tensor each share a cell.
Only names are read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.formats.tensors import natural_key, parse_name

# Roles in the order in which a layer computes: short names, and the names of GGUF (docs/gguf.md
# section 9) and Hugging Face, which may follow a module's path ("self_attn.q_proj"). The first that
# fits counts. An unknown role keeps its name and stands behind the others.
_ATTENTION: Final = (
    ("norm", r"attn_norm|input_layernorm|ln_?1|layer_norm1|norm1|attention_norm|operator_norm"),
    ("norm 2", r"attn_norm_2"),
    ("qkv", r"attn_qkv|query_key_value|qkv_proj|qkv|c_attn|wqkv"),
    ("q a", r"attn_q_a|q_a_proj"),
    ("q a norm", r"attn_q_a_norm|q_a_layernorm"),
    ("q b", r"attn_q_b|q_b_proj"),
    ("q", r"attn_q|q_proj|query|wq"),
    ("q norm", r"attn_q_norm|q_norm|q_layernorm"),
    ("kv a", r"attn_kv_a_mqa|kv_a_proj_with_mqa"),
    ("kv a norm", r"attn_kv_a_norm|kv_a_layernorm"),
    ("kv b", r"attn_kv_b|kv_b_proj"),
    ("k b", r"attn_k_b"),
    ("k", r"attn_k|k_proj|key|wk"),
    ("k norm", r"attn_k_norm|k_norm|k_layernorm"),
    ("v b", r"attn_v_b"),
    ("v", r"attn_v|v_proj|value|wv"),
    ("sinks", r"attn_sinks|sinks"),
    ("rope", r"rope_freqs|rope_factors_(?:long|short)|inv_freq"),
    ("o gate", r"attn_gate"),
    ("o norm", r"attn_sub_norm"),
    ("o", r"attn_output|attn_out|o_proj|out_proj|wo|attention\.output\.dense|attn\.c_proj"),
    ("post norm", r"post_attention_norm|attn_post_norm|attn_output_norm|post_attention_layernorm"),
    ("ssm in", r"ssm_in|in_proj"),
    ("ssm conv", r"ssm_conv1d|conv1d"),
    ("ssm x", r"ssm_x|x_proj"),
    ("ssm dt", r"ssm_dt|dt_proj"),
    ("ssm a", r"ssm_a|a_log"),
    ("ssm d", r"ssm_d"),
    ("ssm norm", r"ssm_norm"),
    ("ssm out", r"ssm_out"),
)
_FEED_FORWARD: Final = (
    ("ffn norm", r"ffn_norm|pre_feedforward_layernorm|ln_?2|layer_norm2|norm2"),
    ("router", r"ffn_gate_inp|router|mlp\.gate|block_sparse_moe\.gate"),
    ("router bias", r"exp_probs_b|e_score_correction_bias"),
    ("gate+up", r"ffn_gate_up|gate_up_proj"),
    ("gate", r"ffn_gate|gate_proj|w1"),
    ("up", r"ffn_up|up_proj|w3|fc1|c_fc|dense_h_to_4h|intermediate\.dense"),
    ("ffn sub norm", r"ffn_sub_norm"),
    ("down", r"ffn_down|down_proj|w2|fc2|dense_4h_to_h|mlp\.c_proj|output\.dense"),
)
_AFTER: Final = (
    ("ffn post norm", r"post_ffw_norm|post_feedforward_layernorm|ffn_post_norm"),
    ("out norm", r"layer_output_norm"),
)
_UNKNOWN: Final = 3

_EXPERT: Final = re.compile(r"(?P<before>(?:^|\.)experts\.)\d{1,9}(?P<after>\.|$)")
_GROUPS: Final = (  # how a role says that it is one of experts, and what is added to its name
    (2, " shared", re.compile(r"_shexp$"), re.compile(r"(?:^|\.)shared_experts?\.")),
    (1, " experts", re.compile(r"_(?:ch)?exps$"), re.compile(r"(?:^|\.)experts\.")),
)
_SUFFIXES: Final = ("weight", "", "bias", "scale", "input_scale")
_LAST: Final = re.compile(
    r"(?:.*\.)?(?:output_norm|output|lm_head|final_norm|final_layernorm|norm|ln_f|score|classifier)"
)
_MOST_CHARACTERS: Final = 512  # a longer role is none of these, and patterns take their time


def _compiled(words: tuple[tuple[str, str], ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(rf"(?:.*\.)?(?:{pattern})")) for name, pattern in words)


_TABLES: Final = tuple(map(_compiled, (_ATTENTION, _FEED_FORWARD, _AFTER)))


class RoleName(NamedTuple):
    """The role of a tensor, shared by all tensors that do the same in some layer.

    Attributes:
        stack: Prefix of its stack of layers, or "".
        layer: Its layer, or None outside of layers.
        role: Its role; numbers of experts are a ``*``.
        suffix: ``"weight"``, ``"bias"`` …, or "" without one that is known.
    """

    stack: str
    layer: int | None
    role: str
    suffix: str

    @classmethod
    def of(cls, name: str) -> RoleName:
        """Return the role in a tensor's name; any text is accepted."""
        parsed = parse_name(name)
        role = parsed.role
        if "experts." in role and len(role) <= _MOST_CHARACTERS:
            role = _EXPERT.sub(r"\g<before>*\g<after>", role)
        suffix = name.rpartition(".")[2] if name.endswith(_DOTTED) else ""
        return cls(parsed.stack, parsed.layer, role, suffix)

    @property
    def comes_last(self) -> bool:
        """Whether a tensor outside of layers is used behind them."""
        return len(self.role) <= _MOST_CHARACTERS and _LAST.fullmatch(self.role) is not None


_DOTTED: Final = tuple(f".{suffix}" for suffix in _SUFFIXES if suffix)


class Column(NamedTuple):
    """How a role is called in a layer, and where it stands.

    Attributes:
        rank: Sorts the roles of a layer.
        label: A short name; the role itself where none is known.
    """

    rank: tuple[Any, ...]
    label: str


def column_of(role: str, suffix: str = "weight") -> Column:
    """Return the place of a role in its layer's computation, and a short name."""
    place = (_UNKNOWN, 0, 0)
    label = role
    if len(role) <= _MOST_CHARACTERS:
        place, label = _known(role.lower()) or (place, label)
    if suffix not in ("weight", "") and not label.endswith(" bias"):
        label = f"{label} {suffix.replace('_', ' ')}"
    order = _SUFFIXES.index(suffix) if suffix in _SUFFIXES else len(_SUFFIXES)
    return Column((*place, order, natural_key(role)), label)


def _known(role: str) -> tuple[tuple[int, int, int], str] | None:
    group, behind = 0, ""
    for number, words, ending, path in _GROUPS:
        if ending.search(role) is not None or path.search(role) is not None:
            group, behind = number, words
            role = ending.sub("", role)
            break
    for table, words_of in enumerate(_TABLES):
        for place, (label, pattern) in enumerate(words_of):
            if pattern.fullmatch(role) is not None:
                return (table, group, place), label + behind
    return None


_CHECK_EVERY: Final = 4096


class Kind(Enum):
    """What a section shows; sections are in this order."""

    BEFORE = auto()
    LAYERS = auto()
    AFTER = auto()


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A role of a stack, or a tensor outside of layers.

    Attributes:
        label: A short name, unique in its section.
        role: The role as names have it; numbers of experts are a ``*``.
        suffix: ``"weight"``, ``"bias"`` …, or "".
    """

    label: str
    role: str
    suffix: str

    @property
    def name(self) -> str:
        """The role with its suffix, unless that is the usual one."""
        return _own_name(self.role, self.suffix)


FOLDED: Final = GridColumn("norms, biases", "norms and biases", "")
"""The column of all tensors of a layer that quantizers leave as they are."""


@dataclass(frozen=True)
class GridSection:
    """Layers that belong together, or what is outside of them.

    Attributes:
        kind: What it is.
        stack: Prefix of the stack of layers, or "".
        layers: Numbers of the layers, a row each; empty outside of layers, which is one row.
        columns: The roles.
        first_cell: Number of its first cell.
        places: Row and column of each of its cells, int64 [cells, 2].
    """

    kind: Kind
    stack: str
    layers: tuple[int, ...]
    columns: tuple[GridColumn, ...]
    first_cell: int
    places: NDArray[np.int64]

    @property
    def row_count(self) -> int:
        return len(self.layers) or 1

    @cached_property
    def cells(self) -> Mapping[tuple[int, int], int]:
        """Number of the cell by row and column; none where a layer has no such tensor."""
        places = map(tuple, self.places.tolist())
        return {place: number for number, place in enumerate(places, start=self.first_cell)}


@dataclass(frozen=True, slots=True)
class GridCell:
    """One role in one layer."""

    section: int
    row: int
    column: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class ModelGrid:
    """All tensors of a model.

    Attributes:
        sections: What is before the layers, stacks of layers, the largest first, what is behind.
        places: Section, row and column of each cell, int64 [cells, 3]; section by section, row by
            row.
        cell_of: Number of the cell of each tensor, int64 [tensors].
    """

    sections: tuple[GridSection, ...]
    places: NDArray[np.int64]
    cell_of: NDArray[np.int64]

    @cached_property
    def cells(self) -> tuple[GridCell, ...]:
        """All cells. A hostile file has 100,000; sums by role and by layer do without."""
        order = np.argsort(self.cell_of, kind="stable")
        ends = np.cumsum(np.bincount(self.cell_of, minlength=len(self.places)))[:-1]
        rows = [tuple(part.tolist()) for part in np.split(order, ends)]
        return tuple(map(GridCell, *self.places.T.tolist(), rows)) if len(self.places) else ()

    def row_of(self, cell: int, preferred: int) -> int:
        """Return the tensor that stands for a cell: the preferred one if it is there."""
        rows = self.cells[cell].rows
        return preferred if preferred in rows else rows[0]

    def row_in(self, section: int, row: int, preferred: int) -> int:
        """Return a tensor of a row of a section: the preferred one if it is there."""
        there = (self.places[:, :2] == (section, row)).all(axis=1)
        cells = np.flatnonzero(there).tolist()
        own = next((cell for cell in cells if preferred in self.cells[cell].rows), cells[0])
        return self.row_of(own, preferred)

    def layer_of(self, cell: int) -> tuple[int, int] | None:
        """Return section and row of a cell's layer; None outside of layers."""
        section, row, _ = self.places[cell].tolist()
        return (section, row) if self.sections[section].layers else None

    def folded(self, matrices: NDArray[np.bool_]) -> ModelGrid:
        """Return the grid with one column for all norms and biases of a layer, behind the others.

        Args:
            matrices: Which tensors are something else, bool [tensors].
        """
        section, row, column = self.places[self.cell_of].T
        first = np.cumsum([0, *(len(one.columns) for one in self.sections)])
        kept = np.bincount(first[section] + column, matrices, first[-1]) > 0
        columns, places = [], np.zeros(first[-1], np.int64)
        for number, one in enumerate(self.sections):
            part = slice(first[number], first[number + 1])
            if one.kind is not Kind.LAYERS or not kept[part].any():
                kept[part] = True
            stay = kept[part]
            places[part] = np.where(stay, np.cumsum(stay) - 1, stay.sum())
            shown = [each for each, is_kept in zip(one.columns, stay, strict=True) if is_kept]
            columns.append((*shown, *(() if stay.all() else (FOLDED,))))
        found, cell_of, _ = _placed(section, row, places[first[section] + column])
        ends = np.searchsorted(found[:, 0], np.arange(len(self.sections) + 1)).tolist()
        sections = (
            replace(one, columns=columns[n], first_cell=a, places=found[a:b, 1:])
            for n, (one, a, b) in enumerate(zip(self.sections, ends, ends[1:], strict=False))
        )
        return ModelGrid(tuple(sections), found, cell_of)


_Key = tuple[str, str]  # role and suffix


def model_grid(names: Sequence[str], check: Callable[[], object] = lambda: None) -> ModelGrid:
    """Arrange tensors.

    Args:
        names: The names of a model's tensors, in the order of its table.
        check: Called every few thousand names; raises to give up.
    """
    parts: dict[tuple[Kind, str], dict[_Key, int]] = {}  # numbers of roles, over all parts
    layers: list[int] = []
    roles: list[int] = []
    count = 0
    for number, name in enumerate(names):
        if number % _CHECK_EVERY == 0:
            check()
        parsed = RoleName.of(name)
        part = (Kind.LAYERS, parsed.stack)
        if parsed.layer is None:
            part = (Kind.AFTER if parsed.comes_last else Kind.BEFORE, "")
        known = parts.setdefault(part, {})
        role = known.setdefault((parsed.role, parsed.suffix), count)
        count += role == count
        layers.append(parsed.layer or 0)
        roles.append(role)
    layer_of, role_of = np.array(layers, np.int64), np.array(roles, np.int64)
    often = np.bincount(role_of, minlength=count)
    order = sorted(
        parts, key=lambda part: (part[0].value, -int(often[[*parts[part].values()]].sum()))
    )
    section_of, column_of_role = np.zeros(count, np.int64), np.zeros(count, np.int64)
    columns = []
    for section, part in enumerate(order):
        found, numbers = _section_columns(part[0], parts[part], check)
        section_of[numbers], column_of_role[numbers] = section, np.arange(len(numbers))
        columns.append(found)
    places, cell_of, layer_numbers = _placed(section_of[role_of], layer_of, column_of_role[role_of])
    ends = np.searchsorted(places[:, 0], np.arange(len(order) + 1))
    sections = []
    for number, (kind, stack) in enumerate(order):
        first, end = int(ends[number]), int(ends[number + 1])
        rows = layer_numbers[number] if stack else ()
        part_places = places[first:end, 1:]
        sections.append(GridSection(kind, stack, rows, columns[number], first, part_places))
    return ModelGrid(tuple(sections), places, cell_of)


def _placed(
    sections: NDArray[np.int64], layers: NDArray[np.int64], columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, tuple[int, ...]]]:
    """Return `places` and `cell_of` of a grid, and the layers of each section.

    Arguments are those of each tensor, int64 [tensors].
    """
    order = np.lexsort((columns, layers, sections))
    section, layer, column = sections[order], layers[order], columns[order]
    new_section = np.diff(section, prepend=-1) != 0
    new_layer = new_section | (np.diff(layer, prepend=-1) != 0)
    new_cell = new_layer | (np.diff(column, prepend=-1) != 0)
    cell_of = np.empty(len(order), np.int64)
    cell_of[order] = np.cumsum(new_cell) - 1
    row = np.cumsum(new_layer) - 1  # counted over all sections
    row -= row[np.maximum.accumulate(np.where(new_section, np.arange(len(order)), 0))]
    places = np.stack((section, row, column), axis=1)[new_cell]
    found: dict[int, list[int]] = {}
    for number, one in zip(section[new_layer].tolist(), layer[new_layer].tolist(), strict=True):
        found.setdefault(number, []).append(one)
    return places, cell_of, {number: tuple(ones) for number, ones in found.items()}


def _section_columns(
    kind: Kind, roles: Mapping[_Key, int], check: Callable[[], object]
) -> tuple[tuple[GridColumn, ...], list[int]]:
    known: dict[_Key, Column] = {}
    for position, key in enumerate(roles):
        if position % _CHECK_EVERY == 0:
            check()
        known[key] = column_of(*key) if kind is Kind.LAYERS else Column((), _own_name(*key))
    keys = list(known)
    if kind is Kind.LAYERS:
        keys.sort(key=lambda key: known[key].rank)
    return _columns([(key, known[key].label) for key in keys]), [roles[key] for key in keys]


def _columns(labels: Sequence[tuple[_Key, str]]) -> tuple[GridColumn, ...]:
    """Name the columns; two roles of one short name keep their own."""
    often = {label for label, count in Counter(label for _, label in labels).items() if count > 1}
    return tuple(
        GridColumn(_own_name(*key) if label in often else label, *key) for key, label in labels
    )


def _own_name(role: str, suffix: str) -> str:
    return role if suffix in ("weight", "") else f"{role}.{suffix}"
