"""What the files beside the weights say about how they are quantized. Anything may be wrong in it.

Keys and shapes decide how weights are stored, and what is said here only what these leave open. So
which rule of a configuration holds for which module is never asked, and no pattern is run: all that
is said may hold, and the first that fits the shapes does.

Source: `docs/hf_quantization.md`, section 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from explorer.formats.model import ProblemLog
from explorer.formats.side_files import CONFIG_NAME, read_side_file
from explorer.text import plain_text, shorten

MODELOPT_FILE: Final = "hf_quant_config.json"
GPTQ_FILE: Final = "quantize_config.json"
AWQ_FILE: Final = "quant_config.json"
QUANTO_FILE: Final = "quanto_qmap.json"
SIDE_FILES: Final = (MODELOPT_FILE, GPTQ_FILE, AWQ_FILE, QUANTO_FILE)

COMFY: Final = "comfyui"
"""The method of files with `COMFY_KEY` among their metadata, and of modules with a marker."""

COMFY_KEY: Final = "_quantization_metadata"

MAX_RULES: Final = 64
"""Most rules or groups of a configuration that are looked at; real ones have ten."""

MAX_BITS: Final = 16

_RULES: Final = ("dynamic", "extra_config", "quantized_layers")
"""Fields with settings of some modules, which are those of the whole where they say nothing."""

LIST_ONLY: Final = frozenset(
    {
        *("exl2", "exl3", "aqlm", "quip", "quip#", "quip_sharp", "vptq", "spqr", "higgs", "eetq"),
        *("fp_quant", "qqq", "bitblas", "marlin", "gptq_marlin_24", "marlin-24", "sinq"),
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


Tile = tuple[int, int]
"""Rows and columns of weights that share a scale."""


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
    def rules(self) -> tuple[Mapping[str, Any], ...]:
        """What may hold for a weight: groups of compressed-tensors; else the whole, then its rules.

        At most `MAX_RULES` of each field.
        """
        groups = [one["weights"] for one in self._objects("config_groups") if "weights" in one]
        found = [one for one in groups if isinstance(one, dict)]
        if found:
            return tuple(found)
        return (self.fields, *(one for key in _RULES for one in self._objects(key)))

    def _objects(self, key: str) -> list[dict[str, Any]]:
        rules = self.fields.get(key)
        some = islice(rules.values(), MAX_RULES) if isinstance(rules, dict) else ()
        return [one for one in some if isinstance(one, dict)]

    def stated(self, *keys: str) -> list[Any]:
        """Return what each of `rules` says under the first key that it has; None if nothing."""
        whole = (self.fields, self.files.get(GPTQ_FILE, {}))

        def value(one: Mapping[str, Any]) -> Any:
            places = (place.get(key) for place in (one, *whole) for key in keys)
            return next((found for found in places if found is not None), None)

        return [value(one) for one in self.rules]

    @cached_property
    def bits(self) -> tuple[int | None, ...]:
        """Bits of a code, as each of `rules` says; None where one says nothing that can be."""
        stated = self.stated("bits", "w_bit", "num_bits")
        return tuple(one if _is_count(one) and one <= MAX_BITS else None for one in stated)

    @cached_property
    def groups(self) -> tuple[int | None, ...]:
        """Weights of a group, as each of `rules` says; -1 for whole rows."""
        stated = self.stated("group_size", "q_group_size")
        return tuple(one if one == -1 or _is_count(one) else None for one in stated)

    @cached_property
    def tiles(self) -> tuple[Tile | None, ...]:
        """Tiles of weights, as each of `rules` says."""
        return tuple(map(sides, self.stated("weight_block_size", "block_structure", "group_size")))

    def text(self, key: str) -> str:
        """Return a field in lower case if it is a text, else ""."""
        return text_of(self.fields, key)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 31


def integer_of(fields: Mapping[str, Any], key: str) -> int | None:
    """Return a value if it is an integer from 1 to 2³¹ - 1; a Boolean and a float are none."""
    value = fields.get(key)
    return value if _is_count(value) else None


def sides(stated: object) -> Tile | None:
    """Return the sides of a tile if they are two integers above 0, or a text such as "128x128"."""
    if isinstance(stated, str) and len(stated) < 20:
        stated = [int(part) for part in stated.split("x") if part.isascii() and part.isdigit()]
    if isinstance(stated, list) and len(stated) == 2 and all(map(_is_count, stated)):
        return stated[0], stated[1]
    return None


def text_of(fields: Mapping[str, Any], key: str) -> str:
    """Return a value in lower case if it is a text, else ""; made plain, and cut if it is long."""
    value = fields.get(key)
    return shorten(plain_text(value), 80).strip().lower() if isinstance(value, str) else ""


def read_declaration(folder: Path, config: Mapping[str, Any], log: ProblemLog) -> Declaration:
    """Return what a folder says about quantization.

    Args:
        folder: The model's folder.
        config: Its parsed ``config.json``; may be empty.
        log: Where files that cannot be used are reported.
    """
    read = ((name, read_side_file(folder, name, "", log).fields) for name in SIDE_FILES)
    files = {name: fields for name, fields in read if fields}
    found = _declared(config, files)
    form, other = (format_of(fields) for fields in (found.fields, files.get(GPTQ_FILE, {})))
    if form and other not in {"", form}:  # zero points depend on it
        what = f"its checkpoint_format is {other}, and {form} in {found.origin}, which counts"
        log.add_warning(GPTQ_FILE, what)
    if not isinstance(config.get(_DECLARED), dict | None):
        log.add_warning(CONFIG_NAME, f"its {_DECLARED} is not a JSON object, and is left out")
    return found


def comfy_declaration(text: str) -> Declaration:
    """Return what ComfyUI's metadata say: under "layers", a marker for each module."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    return Declaration(COMFY, COMFY_KEY, fields if isinstance(fields, dict) else {})


def format_of(fields: Mapping[str, Any]) -> str:
    """Return what is said about the format of GPTQ weights, in lower case; "" if nothing."""
    return text_of(fields, "checkpoint_format") or text_of(fields, "format")


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
            stated = text_of(fields, "quant_method") or method
            return Declaration(stated, name, fields, files, widths)
    return Declaration("quanto" if files else "", QUANTO_FILE if files else "", {}, files, widths)


_DECLARED: Final = "quantization_config"


def _widths(config: Mapping[str, Any]) -> Widths:
    inner = config.get("text_config")
    places = [config, inner] if isinstance(inner, dict) else [config]

    def stated(key: str) -> int:
        return next((found for one in places if (found := integer_of(one, key))), 0)

    return Widths(
        stated("hidden_size"),
        stated("intermediate_size"),
        stated("moe_intermediate_size"),
        stated("num_attention_heads") * stated("head_dim"),
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
