"""A model's tensors by the names that rules are written in.

Wrappers put words in front of Hugging Face's names: `model.` usually, `model.language_model.` or
`language_model.model.` where the model sees pictures too. Rules know nothing of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from explorer.formats.model import Model
from explorer.formats.tensors import Tensor

_WRAPPERS: Final = re.compile(r"^(?:(?:model|language_model|text_model|transformer)\.)+")
_GGUF_LAYER: Final = re.compile(r"^blk\.(?P<layer>\d{1,9})\.(?P<rest>.+)$", re.DOTALL)
_LAYER: Final = re.compile(r"^(?:layers|h)\.(?P<layer>\d{1,9})\.(?P<rest>.+)$", re.DOTALL)
_MAX_NAME: Final = 512  # a longer name is no name of the field, and a pattern takes its time on it
_MAX_EXPERTS: Final = 1 << 14  # rules name experts until one is missing


class Role(NamedTuple):
    """What a name says.

    Attributes:
        layer: Its layer, as the name spells it; "" outside of layers.
        role: What is left without layer and suffix.
        suffix: ``"weight"`` or ``"bias"``; a name without either is a weight's.
    """

    layer: str
    role: str
    suffix: str


class Names:
    """The tensors of a model by name.

    Attributes:
        model: The model.
        gguf: Whether names are those of GGUF, and not of Hugging Face.
        tied: Whether a model without an output matrix has the token embedding for it.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.gguf = is_gguf(model)
        self.tied = self.gguf or _ties(model)
        self._rows: dict[str, int] = {}
        for row, name in enumerate(model.tensors.columns.names):
            self._rows.setdefault(self.plain(name), row)

    def plain(self, name: str) -> str:
        """Return a name as rules know it."""
        return name if self.gguf or len(name) > _MAX_NAME else _WRAPPERS.sub("", name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def tensor(self, name: str) -> Tensor:
        """Return the first tensor of that name."""
        return self.model.tensors.rows[self._rows[name]]

    def role(self, name: str) -> Role:
        """Return what a name says; any text is accepted."""
        match = (
            None if len(name) > _MAX_NAME else (_GGUF_LAYER if self.gguf else _LAYER).match(name)
        )
        layer, rest = ("", name) if match is None else (match["layer"], match["rest"])
        role, dot, suffix = rest.rpartition(".")
        if dot and suffix in {"weight", "bias"}:
            return Role(layer, role, suffix)
        return Role(layer, rest, "weight")

    def find(self, patterns: Sequence[str], role: Role) -> list[str] | None:
        """Return the names that patterns stand for, or None if one is missing; see `Rule`."""
        filled = [one.replace("{i}", role.layer).replace("{s}", role.suffix) for one in patterns]
        if not any("{e}" in one for one in filled):
            return filled if all(one in self for one in filled) else None
        found: list[str] = []
        for expert in range(_MAX_EXPERTS):
            names = [one.replace("{e}", str(expert)) for one in filled]
            if not all(one in self for one in names):
                break
            found += names
        return found or None


def is_gguf(model: Model) -> bool:
    """Tell whether a model's tensors have GGUF's names."""
    if model.metadata.text("general.architecture") is not None:
        return True
    return any(name.startswith("blk.") for name in model.tensors.columns.names)


def _ties(model: Model) -> bool:
    inner = model.config.get("text_config")
    configs = (model.config, inner if isinstance(inner, dict) else {})
    return any(config.get("tie_word_embeddings") is True for config in configs)
