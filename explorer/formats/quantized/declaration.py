"""What the files beside the weights say about how they are quantized. Anything may be wrong in it.

Source: `docs/hf_quantization.md`, section 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

from explorer.formats.model import ProblemLog
from explorer.formats.side_files import CONFIG_NAME, LEADS_OUT, link_escapes, read_object
from explorer.text import plain_text, shorten

MODELOPT_FILE: Final = "hf_quant_config.json"
GPTQ_FILE: Final = "quantize_config.json"
AWQ_FILE: Final = "quant_config.json"
QUANTO_FILE: Final = "quanto_qmap.json"
SIDE_FILES: Final = (MODELOPT_FILE, GPTQ_FILE, AWQ_FILE, QUANTO_FILE)

MAX_RULES: Final = 64
"""Most rules or groups of a configuration that are held against each module; real ones have ten."""

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


@dataclass(frozen=True)
class Declaration:
    """What is said about the quantization of a model.

    Attributes:
        method: `quant_method` in lower case, or what a file of its own implies; "" if not said.
        origin: The file that says so; "" if none does.
        fields: The object that declares it; values of any type.
        files: The other files by name: objects with values of any type.
        widths: The model's embedding and feed-forward length; 0 where they are not said.
    """

    method: str = ""
    origin: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    widths: tuple[int, int] = (0, 0)

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

    def own_settings(self, module: str) -> Iterator[Mapping[str, Any]]:
        """Yield what is said of one module by its path."""
        for fields in self._rule_fields():
            settings = fields.get(module)
            if isinstance(settings, dict):
                yield settings

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


def _widths(config: Mapping[str, Any]) -> tuple[int, int]:
    inner = config.get("text_config")
    places = [config, inner] if isinstance(inner, dict) else [config]
    hidden, feed_forward = (
        next((found for one in places if (found := integer_of(one, key))), 0)
        for key in ("hidden_size", "intermediate_size")
    )
    return hidden, feed_forward


def _in_config(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    places = []
    for path in _NESTED:
        place: Any = config
        for key in path:
            place = place.get(key) if isinstance(place, dict) else None
        if isinstance(place, dict):
            places.append(place)
    for place in places:
        found = place.get("quantization_config")
        if isinstance(found, dict):
            return found
    found = config.get("compression_config")
    if isinstance(found, dict):
        inner = found.get("quantization_config")
        fields = inner if isinstance(inner, dict) else found
        return {"quant_method": "compressed-tensors", **fields}
    return None


def _read(folder: Path, name: str, log: ProblemLog) -> Mapping[str, Any]:
    path = folder / name
    try:
        if not path.exists():
            return {}
    except OSError:  # the folder may not be searched, which reading config.json told
        return {}
    if link_escapes(folder, name):
        log.add_error(name, LEADS_OUT)
        return {}
    return read_object(path, name, "", log).fields
