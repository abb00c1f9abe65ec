"""How a Hugging Face model is quantized: in a sentence, and the configuration beside what keys say.

The stored keys decide; docs/hf_quantization.md, section 1. Of the configuration, fields are shown
as they are written; a line is marked where keys and shapes say another method, other bits or
groups. All names come from files, not escaped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from explorer.formats.model import Model
from explorer.formats.quantized.declaration import MAX_RULES, Declaration
from explorer.formats.quantized.modules import Alike, differences
from explorer.formats.safetensors.groups import Assembly
from explorer.formats.tensors import Tensor, parse_name
from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels
from explorer.text import counted, integer_text, shorten

_METHODS: Final = {
    **{"gptq": "GPTQ", "awq": "AWQ", "fp8": "FP8", "modelopt": "ModelOpt", "mxfp4": "MXFP4"},
    **{"hqq": "HQQ", "bitnet": "BitNet", "comfyui": "ComfyUI", "quark": "Quark", "sdnq": "SDNQ"},
}
_INTEGERS: Final = frozenset({Levels.UNSIGNED, Levels.SIGNED, Levels.TERNARY})
_GROUPS: Final = "groups of "
_SHOWN: Final = 3
_SHOWN_KINDS: Final = 2


# In a sentence


def _sentence(model: Model, declared: Declaration, found: _Found) -> str | None:
    method = declared.method
    if not found.weights:
        if not method or any(kind.quantized for kind in model.tensors.columns.types):
            return None  # MLX has its own words for it
        return f"{_METHODS.get(method, method)} is declared. Tensors are listed as they are stored"
    kinds: Counter[tuple[str, str]] = Counter()  # bytes by method and kind of codes
    sharing: dict[tuple[str, str], Counter[str]] = {}  # the same by which weights share a scale
    for layout, nbytes, count in found.weights:
        kind = _METHODS.get(layout.scheme, layout.scheme), _codes(layout)
        kinds[kind] += nbytes * count
        sharing.setdefault(kind, Counter())[_sharing(layout)] += nbytes * count
    doubled = {layout.scheme for layout, *_ in found.weights if layout.option("nested_block")}
    parts = [
        _kind_text(kind, sharing[kind]) + (", double quantization" if kind[0] in doubled else "")
        for kind, _ in kinds.most_common(_SHOWN_KINDS)
    ]
    if len(kinds) > _SHOWN_KINDS:
        parts.append("other kinds")
    alone = [one for one in found.plain if "embed" not in one]
    return " and ".join(parts) + (f"; {_first(alone)} left alone" if alone else "")


def _codes(layout: CompanionLayout) -> str:
    if not layout.reader:
        return "not read"
    if layout.levels not in _INTEGERS:
        return layout.name.upper()
    return f"{layout.bits} bits" if layout.name[-1].isdigit() else ""


def _kind_text(kind: tuple[str, str], sharing: Counter[str]) -> str:
    """Return method, codes, and groups or tiles; a scale for a row or a matrix is not said."""
    method, codes = kind
    parts = [method] if codes in {"", method} else [method, codes]
    sizes = sorted({int(text[len(_GROUPS) :]) for text in sharing if text.startswith(_GROUPS)})
    if sizes:
        parts.append(_GROUPS + ", ".join(map(str, sizes[:_SHOWN])))
    tiles = (text for text, _ in sharing.most_common() if text.startswith("tiles"))
    parts.extend(islice(tiles, 1))  # those of small matrices are cut
    return ", ".join(parts)


def _first(names: Sequence[str], count: int = _SHOWN) -> str:
    """Return the first of some names, and how many more there are."""
    shown = ", ".join(shorten(one, 60) for one in names[:count])
    more = len(names) - count
    return f"{shown} and {integer_text(more)} more" if more > 0 else shown


def companions_record(tensor: Tensor) -> dict[str, Any]:
    """Return what JSON says of a weight that a method of Hugging Face models made, by stored name.

    Nothing of another one: the types of MLX and Ollama say all.
    """
    companions = tensor.companions
    if companions is None or not companions.layout.scheme:
        return {}
    layout = companions.layout
    return {
        "scheme": layout.scheme,
        "bits": layout.bits,
        "group_size": layout.group_size,
        "companions": dict(companions.keys),
        "attached": list(companions.attached),
    }


# What is declared, beside what keys and shapes say

_SHOWN_MODULES: Final = 6


@dataclass(frozen=True, slots=True)
class DeclaredLine:
    """One property of a quantization.

    Attributes:
        name: What it is, for scripts.
        label: The same for people.
        declared: Fields of the configuration as they are written; None if there are none.
        found: What keys and shapes say; None if nothing.
        differs: Whether the two contradict each other.
    """

    name: str
    label: str
    declared: str | None
    found: str | None
    differs: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredQuantization:
    """What the files of a model say about its quantization.

    Attributes:
        origin: The file that declares it; "" if none does.
        lines: The properties, in order.
        left_alone: Roles of matrices that are stored plain, each with their number.
        sentence: How weights are quantized, as their keys say: "AWQ, 4 bits, groups of 128".
    """

    origin: str
    lines: tuple[DeclaredLine, ...]
    left_alone: Mapping[str, int]
    sentence: str | None = None


@dataclass
class _Found:
    """What the keys of all weights say: properties, each with the number of weights."""

    weights: list[tuple[CompanionLayout, int, int]] = field(default_factory=list)
    schemes: Counter[str] = field(default_factory=Counter)
    bits: Counter[int] = field(default_factory=Counter)
    sharing: Counter[str] = field(default_factory=Counter)
    zeros: Counter[str] = field(default_factory=Counter)
    orders: int = 0
    plain: Counter[str] = field(default_factory=Counter)

    def add(self, alike: Alike, count: int) -> None:
        """Add weights that are stored alike."""
        layout = alike.layout
        self.weights.append((layout, alike.spec.nbytes, count))  # bytes of each
        self.schemes[layout.scheme] += count
        if not layout.reader:  # of which only names and sizes of parts are known
            return
        self.bits[layout.bits] += count
        self.sharing[_sharing(layout)] += count
        self.zeros[_zeros(layout)] += count
        self.orders += count * any(role.endswith("g_idx") for role in alike.roles)


def declared_quantization(model: Model) -> DeclaredQuantization | None:
    """Return what is declared beside what the keys say; None of a model without either."""
    declared = model.declared
    if declared is None:
        return None
    found = _look(model)
    if not found.schemes and not declared.method:
        return None
    sentence = _sentence(model, declared, found)
    lines = tuple(_lines(declared, found))
    return DeclaredQuantization(declared.origin, lines, dict(found.plain), sentence)


def _look(model: Model) -> _Found:
    """Look at all names, without making a tensor of each: a model may have 100,000."""
    found, columns = _Found(), model.tensors.columns
    if not isinstance(model.groups, Assembly):
        return found
    kinds: dict[int, list[Alike]] = {}
    matrices: list[str] = []
    rows = zip(columns.names, columns.shapes, model.groups.alike, strict=True)
    for name, shape, alike in rows:
        if alike is not None and alike.layout.scheme:
            kinds.setdefault(id(alike), []).append(alike)
        elif len(shape) > 1 and name.endswith(".weight"):
            matrices.append(name)
    for same in kinds.values():
        found.add(same[0], len(same))
    if found.schemes or (model.declared is not None and model.declared.method):
        found.plain.update(parse_name(name).role for name in matrices)
    return found


def _sharing(layout: CompanionLayout) -> str:
    columns = layout.shape[-1]
    if layout.reader.startswith("stacked") and not layout.option("one_scale"):
        return f"groups of {layout.group_size or layout.line}"
    rows = int(layout.option("tile_rows", 1))
    if layout.option("one_scale") or (rows > 1 and rows >= int(layout.option("rows", 0))):
        return "whole matrices" if layout.run >= columns else f"tiles of {rows} × {layout.run}"
    if rows > 1:
        return f"tiles of {rows} × {layout.run}"
    if layout.group_size is None or layout.group_size == columns:
        return "rows" if layout.run >= columns else f"groups of {layout.run}"
    return f"groups of {layout.group_size}"


def _zeros(layout: CompanionLayout) -> str:
    return "stored" if layout.formula in {Formula.ZERO_FIRST, Formula.ZERO_LAST} else "none"


def _counted(found: Counter[Any]) -> str | None:
    """Return values with the number of weights that have each, where there are several."""
    if len(found) < 2:
        return next(map(str, found), None)
    parts = [f"{value} in {_weights(count)}" for value, count in found.most_common(_SHOWN)]
    return ", ".join(parts) + (", others" if len(found) > _SHOWN else "")


def _weights(count: int) -> str:
    return counted(count, "weight")


_FIELDS: Final = {
    "bits": ("bits", "w_bit", "num_bits", "nbits", "load_in_4bit", "load_in_8bit"),
    "sharing": ("weight_block_size", "block_structure", "group_size", "q_group_size", "strategy"),
    "zero_points": ("sym", "symmetric", "zero_point"),
    "format": ("checkpoint_format", "packing_format", "format", "fmt"),
    "column_order": ("desc_act", "actorder"),
}
"""Fields of a configuration by the line that shows them."""

_LISTS: Final = (
    *("modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules", "skip_modules"),
    *("ignore", "exclude_modules"),
)
"""Fields with modules that are left alone."""


def _lines(declared: Declaration, found: _Found) -> Iterator[DeclaredLine]:
    schemes = Counter({_METHODS.get(name, name): n for name, n in found.schemes.items()})
    order = f"g_idx of {_weights(found.orders)}" if found.orders else "no g_idx"
    plain = [
        f"{role} ({integer_text(count)})" if count > 1 else role
        for role, count in found.plain.items()
    ]
    written = {name: _written(declared, name) for name in _FIELDS}
    written["method"], written["left_alone"] = (
        declared.method,
        _first(_alone(declared), _SHOWN_MODULES),
    )
    optional = {"format": False, "column_order": bool(found.orders)}
    differs = {name for layout, *_ in found.weights for name in differences(declared, layout)}
    for name, label, text in (
        ("method", "Method", _counted(schemes)),
        ("bits", "Bits of a code", _counted(found.bits)),
        ("sharing", "Weights with one scale", _counted(found.sharing)),
        ("zero_points", "Zero points", _counted(found.zeros)),
        ("format", "Format", None),
        ("column_order", "Order of columns", order),
        ("left_alone", "Left alone", _first(plain, _SHOWN_MODULES) or "none"),
    ):
        if written[name] or optional.get(name, True):
            yield DeclaredLine(name, label, written[name] or None, text, name in differs)


def _written(declared: Declaration, name: str) -> str:
    """Return fields of a line as they are written: those of the whole, and of its rules."""
    is_awq_format = name == "format" and declared.method == "awq"
    keys = (*_FIELDS[name], "version") if is_awq_format else _FIELDS[name]
    found = (
        f"{key} {value if isinstance(value, str) else json.dumps(value)}"
        for one in (declared.fields, *declared.rules)
        for key in keys
        if (value := one.get(key)) is not None
    )
    return _first(list(dict.fromkeys(found)))


def _alone(declared: Declaration) -> list[str]:
    """Return the entries of lists of modules that are left alone, and negative rules."""
    lists = (declared.fields.get(key) for key in _LISTS)
    entries = [entry for one in lists if isinstance(one, list) for entry in one[:MAX_RULES]]
    rules = declared.fields.get("dynamic")
    if isinstance(rules, dict):
        entries += [rule for rule in islice(rules, MAX_RULES) if rule.startswith("-:")]
    return [entry for entry in entries if isinstance(entry, str) and entry]
