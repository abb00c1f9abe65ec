"""How a Hugging Face model is quantized: in a sentence, and what is declared beside what keys say.

The configuration explains and the stored keys decide; docs/hf_quantization.md, section 1. Where the
two differ, a line is marked. All names come from files, not escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from explorer.formats.model import Model
from explorer.formats.quantized.declaration import MAX_RULES, Declaration
from explorer.formats.quantized.modules import Alike
from explorer.formats.quantized.patterns import bounded_work, matches, matches_wholly
from explorer.formats.safetensors.groups import Assembly
from explorer.formats.tensors import Tensor, parse_name
from explorer.quantization.huggingface.layout import CompanionLayout, Formula, Levels
from explorer.text import integer_text, shorten

_METHODS: Final = {
    **{"gptq": "GPTQ", "awq": "AWQ", "fp8": "FP8", "modelopt": "ModelOpt", "mxfp4": "MXFP4"},
    **{"hqq": "HQQ", "bitnet": "BitNet"},
}
_INTEGERS: Final = frozenset({Levels.UNSIGNED, Levels.SIGNED, Levels.TERNARY})
_GROUPS: Final = "groups of "
_SHOWN: Final = 3
_SHOWN_KINDS: Final = 2


# In a sentence


def quantization_text(model: Model) -> str | None:
    """Say how the weights of a Hugging Face model are quantized; None where no method is known.

    "AWQ, 4 bits, groups of 128; lm_head left alone". It is what the keys say; where something
    else is declared, a problem of the model says so.
    """
    return None if model.declared is None else _sentence(model, model.declared, _look(model))


def _sentence(model: Model, declared: Declaration, found: _Found) -> str | None:
    method = declared.method
    if not found.weights:
        if not method or any(kind.quantized for kind in model.tensors.columns.types):
            return None  # MLX has its own words for it
        return f"{_METHODS.get(method, method)} is declared; tensors are listed as they are stored"
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
    """Return what JSON says of a weight with companions, by stored name; nothing of another one."""
    companions = tensor.companions
    if companions is None:
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

NOT_SAID: Final = "—"
"""Stands for what one of the two does not say."""

_SHOWN_MODULES: Final = 6
_MOST_ENTRIES: Final = MAX_RULES
_MOST_STEPS: Final = 500_000  # of patterns: a sixth of a second


@dataclass(frozen=True, slots=True)
class SaidLine:
    """One property of a quantization.

    Attributes:
        name: What it is, for scripts.
        label: The same for people.
        declared: What the configuration says; `NOT_SAID` if nothing.
        found: What keys and shapes say; `NOT_SAID` if nothing.
        differs: Whether the two contradict each other.
    """

    name: str
    label: str
    declared: str
    found: str
    differs: bool = False


@dataclass(frozen=True, slots=True)
class SaidQuantization:
    """What the files of a model say about its quantization.

    Attributes:
        origin: The file that declares it; "" if none does.
        lines: The properties, in order.
        left_alone: Roles of matrices that are stored plain, each with their number.
        sentence: How weights are quantized, as `quantization_text` says it.
    """

    origin: str
    lines: tuple[SaidLine, ...]
    left_alone: Mapping[str, int]
    sentence: str | None = None

    @property
    def heads(self) -> tuple[str, str]:
        """Headings of the two columns."""
        return f"declared in {self.origin}" if self.origin else "declared", "keys and shapes"

    @property
    def record(self) -> dict[str, Any]:
        """The same for JSON."""
        lines = [
            {
                "name": line.name,
                "declared": None if line.declared == NOT_SAID else line.declared,
                "found": None if line.found == NOT_SAID else line.found,
                "differs": line.differs,
            }
            for line in self.lines
        ]
        return {"origin": self.origin or None, "lines": lines, "left_alone": dict(self.left_alone)}


@dataclass
class _Found:
    """What the keys of all weights say: properties, each with the number of weights."""

    weights: list[tuple[CompanionLayout, int, int]] = field(default_factory=list)
    schemes: Counter[str] = field(default_factory=Counter)
    bits: Counter[int] = field(default_factory=Counter)
    sharing: Counter[str] = field(default_factory=Counter)
    zeros: Counter[str] = field(default_factory=Counter)
    orders: int = 0
    modules: list[str] = field(default_factory=list)
    plain: Counter[str] = field(default_factory=Counter)

    def add(self, alike: Alike, count: int) -> None:
        """Add weights that are stored alike."""
        layout = alike.layout
        assert isinstance(layout, CompanionLayout)
        self.weights.append((layout, alike.spec.nbytes, count))  # bytes of each
        self.schemes[layout.scheme] += count
        self.bits[layout.bits] += count
        self.sharing[_sharing(layout)] += count
        self.zeros[_zeros(layout)] += count
        self.orders += count * any(role.endswith("g_idx") for role in alike.roles)


def said_quantization(model: Model) -> SaidQuantization | None:
    """Return what is declared beside what the keys say; None of a model without either."""
    declared = model.declared
    if declared is None:
        return None
    found = _look(model)
    if not found.schemes and not declared.method:
        return None
    with bounded_work(_MOST_STEPS):
        lines = tuple(_lines(declared, found))
    sentence = _sentence(model, declared, found)
    return SaidQuantization(declared.origin, lines, dict(found.plain), sentence)


def _look(model: Model) -> _Found:
    """Look at all names, without making a tensor of each: a model may have 100,000."""
    found, columns = _Found(), model.tensors.columns
    if not isinstance(model.groups, Assembly):
        return found
    kinds: dict[int, list[Alike]] = {}
    matrices: list[str] = []
    rows = zip(columns.names, columns.shapes, model.groups.alike, strict=True)
    for name, shape, alike in rows:
        if alike is not None and isinstance(alike.layout, CompanionLayout):
            kinds.setdefault(id(alike), []).append(alike)
            found.modules.append(name.removesuffix(".weight"))
        elif len(shape) > 1 and name.endswith(".weight"):
            matrices.append(name)
    for same in kinds.values():
        found.add(same[0], len(same))
    if found.schemes or (model.declared is not None and model.declared.method):
        found.plain.update(parse_name(name).role for name in matrices)
    return found


def _sharing(layout: CompanionLayout) -> str:
    """Return which weights share a scale."""
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


def _counted(found: Counter[Any], unit: str = "") -> str:
    """Return values with the number of weights that have each, where there are several."""
    if not found:
        return NOT_SAID
    if len(found) == 1:
        return f"{next(iter(found))}{unit}"
    shown = found.most_common(_SHOWN)
    parts = [f"{value}{unit} in {_weights(count)}" for value, count in shown]
    return "; ".join(parts) + ("; others" if len(found) > _SHOWN else "")


def _weights(count: int) -> str:
    return "1 weight" if count == 1 else f"{integer_text(count)} weights"


def _lines(declared: Declaration, found: _Found) -> Iterator[SaidLine]:
    method = declared.method
    schemes = Counter({_METHODS.get(name, name): n for name, n in found.schemes.items()})
    aliases = _ALIASES.get(method, {method})
    other = bool(found.schemes and method and aliases and aliases.isdisjoint(found.schemes))
    yield SaidLine("method", "Method", method or NOT_SAID, _counted(schemes), other)
    settings = list(_settings(declared))
    yield _bits_line(settings, found)
    yield _sharing_line(settings, found)
    zeros = _texts(map(_said_zeros, settings))
    stored = _counted(found.zeros)
    wrong = zeros == "asymmetric" and stored == "none" and "compressed-tensors" in found.schemes
    yield SaidLine("zero_points", "Zero points", zeros or NOT_SAID, stored, wrong)
    forms = _texts(
        _text(one.get(key))
        for one in settings
        for key in ("checkpoint_format", "packing_format", "format", "fmt")
    )
    if method == "awq" and not forms:
        forms = declared.text("version")
    if forms:
        yield SaidLine("format", "Format", forms, NOT_SAID)
    orders = _texts(map(_said_order, settings))
    if orders or found.orders:
        text = f"g_idx of {_weights(found.orders)}" if found.orders else "no g_idx"
        yield SaidLine("column_order", "Order of columns", orders or NOT_SAID, text)
    yield _alone_line(declared, found)


_ALIASES: Final[dict[str, set[str]]] = {
    "gptqmodel": {"gptq"},
    "auto-round": {"gptq", "awq"},
    "sparseml": {"compressed-tensors"},
    "fbgemm_fp8": {"fp8", "fbgemm_fp8"},
    "modelopt_fp4": {"modelopt"},
    "nvfp4": {"modelopt"},
}


def _settings(declared: Declaration) -> Iterator[Mapping[str, Any]]:
    """Yield every object that may say something: the whole, its groups, its rules; bounded."""
    yield declared.fields
    for key in ("config_groups", "dynamic", "extra_config", "quantized_layers"):
        inner = declared.fields.get(key)
        for one in islice(inner.values(), _MOST_ENTRIES) if isinstance(inner, dict) else ():
            weights = one.get("weights", one) if isinstance(one, dict) else None
            if isinstance(weights, dict):
                yield weights


def _texts(found: Iterable[str]) -> str:
    return _first(list(dict.fromkeys(filter(None, found))))


def _text(value: object) -> str:
    return shorten(value, 60) if isinstance(value, str) else ""


def _integer(one: Mapping[str, Any], *keys: str) -> int | None:
    found = (one.get(key) for key in keys)
    return next((value for value in found if type(value) is int and -1 <= value < 1 << 31), None)


def _bits_line(settings: Sequence[Mapping[str, Any]], found: _Found) -> SaidLine:
    said = {
        bits
        for one in settings
        if (bits := _integer(one, "bits", "w_bit", "num_bits", "nbits")) is not None
    }
    for key, bits in (("load_in_4bit", 4), ("load_in_8bit", 8)):
        if settings[0].get(key) is True:
            said.add(bits)
    text = ", ".join(map(str, sorted(said))) or NOT_SAID
    differs = bool(said) and not set(found.bits) <= said
    return SaidLine("bits", "Bits of a code", text, _counted(found.bits), differs)


def _sharing_line(settings: Sequence[Mapping[str, Any]], found: _Found) -> SaidLine:
    said = list(dict.fromkeys(filter(None, map(_said_sharing, settings))))
    # what is said of rows is also true of groups as long as rows, and the other way round
    known = {text for text in found.sharing if text != "whole matrices"}
    groups = {text for text in said if text.startswith(("groups", "tiles"))}
    differs = bool(groups and known) and groups.isdisjoint(known) and "rows" not in known
    return SaidLine(
        "sharing",
        "Weights with one scale",
        _first(said) or NOT_SAID,
        _counted(found.sharing),
        differs,
    )


_STRATEGIES: Final = {"channel": "rows", "tensor": "whole matrices", "token": ""}


def _said_sharing(one: Mapping[str, Any]) -> str:
    block = one.get("weight_block_size") or one.get("block_structure")
    if isinstance(block, list) and len(block) == 2 and all(type(side) is int for side in block):
        return f"tiles of {block[0]} × {block[1]}"
    group = _integer(one, "group_size", "q_group_size")
    if group is not None and group > 0:
        return f"groups of {group}"
    if group == -1:
        return "rows"
    strategy = one.get("strategy")
    return _STRATEGIES.get(strategy, "") if isinstance(strategy, str) else ""


def _said_zeros(one: Mapping[str, Any]) -> str:
    for key, without in (("sym", True), ("symmetric", True), ("zero_point", False)):
        value = one.get(key)
        if isinstance(value, bool):
            return "symmetric" if value is without else "asymmetric"
    return ""


def _said_order(one: Mapping[str, Any]) -> str:
    value = one.get("desc_act", one.get("actorder"))
    if isinstance(value, str):
        return shorten(value, 40)
    return (
        {True: "by activation", False: "as they are"}.get(value, "")
        if isinstance(value, bool)
        else ""
    )


# Modules that are left alone

_LISTS: Final = (
    *("modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules", "skip_modules"),
    *("ignore", "exclude_modules"),
)


def _alone_line(declared: Declaration, found: _Found) -> SaidLine:
    entries = list(_entries(declared))
    wrong = next(_quantized_all_the_same(entries, found.modules), None)
    plain = [
        f"{role} ({integer_text(count)})" if count > 1 else role
        for role, count in found.plain.items()
    ]
    said = _first(entries, _SHOWN_MODULES) or NOT_SAID
    text = _first(plain, _SHOWN_MODULES) or "none"
    if wrong is not None:
        entry, module = (shorten(one, 60) for one in wrong)
        text += f"; but {module} is quantized, which {entry!r} leaves alone"
    return SaidLine("left_alone", "Left alone", said, text, wrong is not None)


def _entries(declared: Declaration) -> Iterator[str]:
    for key in _LISTS:
        entries = declared.fields.get(key)
        for entry in entries[:_MOST_ENTRIES] if isinstance(entries, list) else ():
            if isinstance(entry, str) and entry:
                yield entry
    rules = declared.fields.get("dynamic")
    for pattern in islice(rules, _MOST_ENTRIES) if isinstance(rules, dict) else ():
        if pattern.startswith("-:"):
            yield pattern


def _quantized_all_the_same(
    entries: Sequence[str], modules: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield entries with a module that they surely leave alone, and that is quantized.

    Only what all programs that read such a list agree on counts: docs/hf_quantization.md, section
    1. A path means itself, what is below it, and modules whose path ends with it.
    """
    paths = {entry for entry in entries if not _is_pattern(entry)}
    named: dict[str, str] = {}
    for module in modules if paths else ():
        for path in _paths_of(module):
            if path in paths:
                named.setdefault(path, module)
    for entry in entries:
        found = named.get(entry)
        if _is_pattern(entry):
            some = modules[:_MOST_MATCHED]
            found = next((module for module in some if _matches(entry, module)), None)
        if found is not None:
            yield entry, found


_MOST_MATCHED: Final = 2048  # modules that each pattern is held against
_DEEPEST: Final = 12  # parts of a path, counted from either end


def _is_pattern(entry: str) -> bool:
    return entry.startswith(("re:", "-:")) or "*" in entry


def _paths_of(module: str) -> Iterator[str]:
    """Yield a path, the paths above it, and its ends."""
    yield module
    parts = module.split(".")
    for count in range(1, min(len(parts), _DEEPEST)):
        yield ".".join(parts[:count])
        yield ".".join(parts[-count:])


def _matches(entry: str, module: str) -> bool:
    if entry.startswith("re:"):
        return matches(entry[3:], module) is True
    if entry.startswith("-:"):
        return matches(entry[2:], module) is True
    pattern = entry.replace(".", "\\.").replace("*", ".*")
    return matches_wholly(f"({pattern})(\\..*)?", module) is True
