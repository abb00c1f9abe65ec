"""What the files beside the weights say about how they are quantized. Anything may be wrong in it.

Source: `docs/hf_quantization.md`, section 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from explorer.errors import SourceError
from explorer.formats.model import ProblemLog
from explorer.formats.side_files import CONFIG_NAME, LEADS_OUT, link_escapes, read_object
from explorer.sources.places import exists
from explorer.text import plain_text, shorten

MODELOPT_FILE: Final = "hf_quant_config.json"
GPTQ_FILE: Final = "quantize_config.json"
AWQ_FILE: Final = "quant_config.json"
QUANTO_FILE: Final = "quanto_qmap.json"
SIDE_FILES: Final = (MODELOPT_FILE, GPTQ_FILE, AWQ_FILE, QUANTO_FILE)

MAX_RULES: Final = 64
"""Most rules or groups of a configuration that are held against each module; real ones have ten."""

_DEEPEST: Final = 12  # parts of a path, counted from its end
_SIGNS: Final = frozenset("*+?[](){}|^$\\")  # of a pattern that is no path

LIST_ONLY: Final = frozenset(
    {
        *("exl2", "exl3", "aqlm", "quip", "quip#", "quip_sharp", "vptq", "spqr", "higgs", "eetq"),
        *("fp_quant", "quark", "qqq", "bitblas", "marlin", "gptq_marlin_24", "marlin-24", "sinq"),
        *("svdquant", "nunchaku", "paroquant"),
    }
)
"""Methods whose weights are not decoded: their tensors are listed as they are stored."""

_NESTED: Final = (
    (),
    ("text_config",),
    ("llm_config",),
    ("thinker_config", "text_config"),
    ("thinker_config",),
)
"""Where in config.json a declaration may be, of multimodal models too."""


class Widths(NamedTuple):
    """Lengths of rows of a model's matrices; 0 where they are not said."""

    hidden: int = 0  # of what layers hand on
    inner: int = 0  # of the feed-forward part
    inner_of_expert: int = 0
    heads: int = 0  # of all attention heads together


class Targets(NamedTuple):
    """Which groups of a configuration are for which modules; groups by their numbers.

    Attributes:
        paths: The first group that names a module.
        patterns: Patterns of modules and their groups, in order.
        order: All groups, those for classes of modules first.
    """

    paths: Mapping[str, int]
    patterns: tuple[tuple[str, int], ...]
    order: tuple[int, ...]


@dataclass(frozen=True)
class Declaration:
    """What is said about the quantization of a model.

    Attributes:
        method: `quant_method` in lower case, or what a file of its own implies; "" if not said.
        origin: The file that says so; "" if none does.
        fields: The object that declares it; values of any type.
        files: The other files by name: objects with values of any type.
        widths: What config.json says about the model's lengths.
    """

    method: str = ""
    origin: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    widths: Widths = field(default_factory=Widths)

    @property
    def is_list_only(self) -> bool:
        """Whether the method is one whose weights are not decoded here."""
        return self.method in LIST_ONLY

    @cached_property
    def module_rules(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Patterns of modules with their settings, in order: at most `MAX_RULES`.

        An entry without signs of a pattern is a path, which `own_settings` looks up.
        """
        rules = (rule for fields in self._rule_fields() for rule in fields.items())
        found = (
            (pattern.removeprefix("+:"), settings)
            for pattern, settings in rules
            if isinstance(settings, dict)
            and not pattern.startswith("-:")
            and not _SIGNS.isdisjoint(pattern.removeprefix("+:"))
        )
        return tuple(islice(found, MAX_RULES))

    @cached_property
    def rule_settings(self) -> tuple[Mapping[str, Any], ...]:
        """Settings of all `module_rules`."""
        return tuple(settings for _, settings in self.module_rules)

    @cached_property
    def targets(self) -> Targets:
        """Which of `groups` are for which modules."""
        paths: dict[str, int] = {}
        patterns: list[tuple[str, int]] = []
        others: list[int] = []
        for number, (targets, _) in enumerate(self.groups):
            for target in targets:
                if target.startswith("re:"):
                    patterns.append((target[3:], number))
                else:
                    paths.setdefault(target, number)
            if targets and all("." in one or one.startswith("re:") for one in targets):
                others.append(number)
        classes = [number for number in range(len(self.groups)) if number not in others]
        return Targets(paths, tuple(patterns[:MAX_RULES]), (*classes, *others))

    @cached_property
    def groups(self) -> tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...]:
        """Targets of compressed-tensors' groups, and what each says about weights."""
        groups = self.fields.get("config_groups")
        found = []
        for group in islice(groups.values(), MAX_RULES) if isinstance(groups, dict) else ():
            weights = group.get("weights") if isinstance(group, dict) else None
            if isinstance(weights, dict):
                targets = group.get("targets")
                names = targets[:MAX_RULES] if isinstance(targets, list) else []
                found.append((tuple(name for name in names if isinstance(name, str)), weights))
        return tuple(found)

    def own_settings(self, module: str) -> Iterator[Mapping[str, Any]]:
        """Yield what is said of one module by its path; of `dynamic` also by a path above it."""
        for rules in self._rule_fields():
            path = module
            for _ in range(_DEEPEST if rules is self.fields.get("dynamic") else 1):
                for settings in (rules.get(path), rules.get(f"+:{path}")):
                    if isinstance(settings, dict):
                        yield settings
                path = path.rpartition(".")[0]

    def _rule_fields(self) -> Iterator[Mapping[str, Any]]:
        for key in ("dynamic", "extra_config"):
            rules = self.fields.get(key)
            if isinstance(rules, dict):
                yield rules

    def integer(self, key: str, low: int = 1, high: int = (1 << 31) - 1) -> int | None:
        """Return a field if it is an integer within bounds."""
        return integer_of(self.fields, key, low, high)

    def text(self, key: str) -> str:
        """Return a field in lower case if it is a text, else ""."""
        return text_of(self.fields, key)


def integer_of(
    fields: Mapping[str, Any], key: str, low: int = 1, high: int = (1 << 31) - 1
) -> int | None:
    """Return a value if it is an integer within bounds; a Boolean and a float are none."""
    value = fields.get(key)
    return value if type(value) is int and low <= value <= high else None


def text_of(fields: Mapping[str, Any], key: str) -> str:
    """Return a value in lower case if it is a text, else ""; made plain, and cut if it is long."""
    value = fields.get(key)
    return shorten(plain_text(value), 80).strip().lower() if isinstance(value, str) else ""


def read_declaration(folder: Path, config: Mapping[str, Any], log: ProblemLog) -> Declaration:
    """Return what a folder says about quantization.

    Args:
        folder: The model's folder.
        config: Its parsed ``config.json``; may be empty.
        log: Where files that cannot be used are told.
    """
    files = {name: fields for name in SIDE_FILES if (fields := _read(folder, name, log))}
    found = _declared(config, files)
    groups = (weights.items() for _, weights in found.groups)
    of_groups = (pair for items in groups for pair in items if pair[0] in _BITS | _GROUPS)
    pairs = () if found.is_list_only else (*found.fields.items(), *of_groups)
    odd = dict.fromkeys(key for key, value in pairs if _is_odd(key, value, found.method))
    if odd:
        what = f"{', '.join(odd)}: of a type or size that cannot be, and counts as not said"
        log.add_warning(found.origin, what)
    _tell_differences(found, log)
    if not isinstance(config.get(_DECLARED), dict | None):
        log.add_warning(CONFIG_NAME, f"its {_DECLARED} is not a JSON object, and is left out")
    return found


def _tell_differences(found: Declaration, log: ProblemLog) -> None:
    """Tell what another file says otherwise than the one that counts."""
    for name, whole in found.files.items() if found.fields else ():
        inner = whole.get("quantization")
        fields = inner if name == MODELOPT_FILE and isinstance(inner, dict) else whole
        for keys in _ALSO_SAID:
            other, value = (_first_said(one, keys) for one in (fields, found.fields))
            if name == found.origin or None in {other, value} or other == value:
                continue
            if isinstance(other, frozenset):
                what = f"its {keys[0]} is another list than that of {found.origin}"
            else:
                texts = [shorten(plain_text(str(one)), 60) for one in (other, value)]
                what = f"its {keys[0]} is {texts[0]}, and {texts[1]} in {found.origin}"
            log.add_warning(name, f"{what}, which counts")


def _first_said(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Hashable:
    """Return the first value that can be compared: a text in lower case, a number, a list."""
    for key in keys:
        value = fields.get(key)
        if isinstance(value, str):
            return value.lower()
        is_number = isinstance(value, int) and abs(value) < 1 << 31
        if is_number and isinstance(value, bool) == (key in _SWITCHES):
            return value
        if isinstance(value, list) and key in _LISTS:
            return frozenset(one for one in value[:_MOST_COMPARED] if isinstance(one, str))
    return None


def _declared(config: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> Declaration:
    own, widths = _in_config(config), _widths(config)
    if own is not None:
        return Declaration(text_of(own, "quant_method"), CONFIG_NAME, own, files, widths)
    for name, method in ((MODELOPT_FILE, "modelopt"), (GPTQ_FILE, "gptq"), (AWQ_FILE, "awq")):
        if name in files:
            fields = files[name]
            inner = fields.get("quantization")
            if name == MODELOPT_FILE and isinstance(inner, dict):
                fields = inner
            said = text_of(fields, "quant_method") or method
            return Declaration(said, name, fields, files, widths)
    return Declaration("quanto" if files else "", QUANTO_FILE if files else "", {}, files, widths)


_DECLARED: Final = "quantization_config"
_MOST_BITS: Final = 16
_MOST_COMPARED: Final = 4096  # entries of a list
_SWITCHES: Final = frozenset({"desc_act", "sym", "zero_point"})
_ALSO_SAID: Final = (  # in other words by other files
    *(("quant_algo",), ("bits", "w_bit"), ("group_size", "q_group_size"), ("desc_act",), ("sym",)),
    *(("checkpoint_format",), ("zero_point",), ("version",), ("exclude_modules", "ignore")),
)
_OBJECTS: Final = frozenset({"config_groups", "dynamic", "extra_config"})
_LISTS: Final = frozenset(
    {"modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules", "ignore"}
    | {"exclude_modules"}
)
_TEXTS: Final = frozenset({"quant_method", "checkpoint_format", "packing_format", "quant_algo"})
_BITS: Final = frozenset({"bits", "w_bit", "num_bits"})
_GROUPS: Final = frozenset({"group_size", "q_group_size"})


def _is_odd(key: str, value: object, method: str) -> bool:
    """Return whether a field that would be used is of no type or size that it can have."""
    if value is None:
        return False
    for keys, kind in ((_OBJECTS, dict), (_LISTS, list), (_TEXTS, str)):
        if key in keys:
            return not isinstance(value, kind)
    if key in _BITS:
        return not (type(value) is int and 0 < value <= _MOST_BITS)
    if key == "weight_block_size" or (key in _GROUPS and isinstance(value, list)):
        return not (
            isinstance(value, list)
            and len(value) == 2
            and all(type(side) is int and 0 < side < 1 << 31 for side in value)
        )
    if key in _GROUPS:
        whole = value == 0 and method.startswith("auto")  # auto-round's word for whole tensors
        return not (type(value) is int and -1 <= value < 1 << 31 and (value or whole))
    return False


def _widths(config: Mapping[str, Any]) -> Widths:
    inner = config.get("text_config")
    places = [config, inner] if isinstance(inner, dict) else [config]

    def said(key: str) -> int:
        return next((found for one in places if (found := integer_of(one, key))), 0)

    return Widths(
        said("hidden_size"),
        said("intermediate_size"),
        said("moe_intermediate_size"),
        said("num_attention_heads") * said("head_dim"),
    )


def _in_config(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    places = []
    for path in _NESTED:
        place: Any = config
        for key in path:
            place = place.get(key) if isinstance(place, dict) else None
        if isinstance(place, dict):
            places.append(place)
    for place in places:
        found = place.get(_DECLARED)
        if isinstance(found, dict):
            return found
    found = config.get("compression_config")
    if isinstance(found, dict):
        inner = found.get(_DECLARED)
        fields = inner if isinstance(inner, dict) else found
        return {"quant_method": "compressed-tensors", **fields}
    return None


def _read(folder: Path, name: str, log: ProblemLog) -> Mapping[str, Any]:
    path = folder / name
    try:
        if not exists(path):
            return {}
    except (OSError, SourceError):  # the folder may not be searched, which reading config.json told
        return {}
    if link_escapes(folder, name):
        log.add_error(name, LEADS_OUT)
        return {}
    return read_object(path, name, "", log).fields
