"""Numbers of a GGUF header, read with checks by every rule that plans a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from explorer.errors import PlanError
from explorer.formats.model import Metadata, MetadataEntry, Value
from explorer.planner.devices import MAX_BLOCKS, MAX_COUNT, quoted, whole

TOKENS: Final = "tokenizer.ggml.tokens"

_INTEGERS: Final = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_INTEGER_LISTS: Final = frozenset(f"array[{kind}]" for kind in _INTEGERS)
_ARCHITECTURE: Final = "general.architecture"
_MAX_ARCHITECTURE_BYTES: Final = 256


class HeaderKeys:
    """Values of `{architecture}.…` keys; keeps origins and warnings.

    A symbol is what a value is called in `origins`; without one, it is the key's suffix.

    Raises:
        PlanError: A value is of the wrong type, negative, or absurdly large.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []
        self.architecture = self._read_architecture()

    def _read_architecture(self) -> str:
        entry = self._metadata.entry(_ARCHITECTURE)
        if entry is None:
            self.warnings.append("the file names no architecture. It is planned as unknown")
            return "unknown"
        short = entry.end - entry.value_offset <= _MAX_ARCHITECTURE_BYTES
        if entry.type_name != "string" or not short or not isinstance(entry.value, str):
            raise PlanError(f"{_ARCHITECTURE} is not a short text. The file is damaged")
        return entry.value or "unknown"

    def _entry(self, suffix: str) -> tuple[str, MetadataEntry | None]:
        key = f"{self.architecture}.{suffix}"
        return key, self._metadata.entry(key)

    def has(self, suffix: str) -> bool:
        """Return whether a key is there, whatever its value."""
        return self._entry(suffix)[1] is not None

    def optional(self, suffix: str, symbol: str = "", most: int = MAX_COUNT) -> int | None:
        """Return a scalar, or None if the key is absent or holds a list."""
        key, entry = self._entry(suffix)
        symbol = symbol or suffix
        if entry is None:
            self.origins[symbol] = f"{quoted(key)} is absent"
            return None
        if entry.length is not None:
            self.origins[symbol] = f"{quoted(key)} is a list and counts as absent"
            return None
        self.origins[symbol] = quoted(key)
        if entry.type_name not in _INTEGERS:
            kind = quoted(entry.type_name)
            raise PlanError(f"{quoted(key)} is a {kind}, where an integer belongs")
        return whole(entry.value, key, most)

    def integer(
        self, suffix: str, symbol: str = "", default: int = 0, most: int = MAX_COUNT
    ) -> int:
        """Return a scalar, or the default if the key is absent or holds a list."""
        value = self.optional(suffix, symbol, most)
        if value is not None:
            return value
        symbol = symbol or suffix
        self.origins[symbol] += f": {default}"
        if suffix in ("block_count", "embedding_length"):
            self.warnings.append(f"{self.origins[symbol]}. The figures are not those of a model")
        return default

    def number(self, suffix: str) -> float:
        """Return a float or an integer; 0 if the key is absent."""
        key, entry = self._entry(suffix)
        if entry is None:
            return 0.0
        value = entry.value if entry.length is None else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            kind = quoted(entry.type_name)
            raise PlanError(f"{quoted(key)} is a {kind}, where a number belongs")
        return float(value)

    def truth(self, suffix: str, *, default: bool = False) -> bool:
        """Return a Boolean, or the default if the key is absent."""
        key, entry = self._entry(suffix)
        if entry is None:
            return default
        value = entry.value if entry.length is None else None
        if not isinstance(value, bool):
            kind = quoted(entry.type_name)
            raise PlanError(f"{quoted(key)} is a {kind}, where a Boolean belongs")
        return value

    def list(self, suffix: str, symbol: str = "") -> tuple[int, ...]:
        """Return a list of integers; empty if the key is absent or holds a scalar."""
        key, entry = self._entry(suffix)
        self.origins[symbol or suffix] = quoted(key)
        if entry is None or entry.length is None:
            return ()
        if entry.type_name not in _INTEGER_LISTS:
            kind = quoted(entry.type_name)
            raise PlanError(f"{quoted(key)} is an {kind}, where a list of integers belongs")
        return tuple(whole(value, key) for value in _elements(key, entry))

    def flags(self, suffix: str, count: int) -> tuple[bool, ...]:
        """Return a Boolean for each block, of a list; empty if there is none, or a scalar."""
        key, entry = self._entry(suffix)
        if entry is None or entry.length is None:
            return ()
        is_plain = entry.type_name == "array[bool]"
        values = _elements(key, entry) if is_plain else self.list(suffix)
        found = tuple(map(bool, values[:count]))
        return found + (False,) * (count - len(found))

    def integers(self, suffix: str, symbol: str = "") -> tuple[int, ...]:
        """Return a list, or a scalar as a list of one; without either, one 1."""
        _, entry = self._entry(suffix)
        if entry is not None and entry.length:
            return self.list(suffix, symbol)
        return (self.integer(suffix, symbol, default=1),)

    def per_block(self, suffix: str, count: int, default: int) -> tuple[int, ...]:
        """Return a value for each block, of a list or of one number for all."""
        _, entry = self._entry(suffix)
        if entry is None or entry.length is None:
            return (self.integer(suffix, default=default),) * count
        found = self.list(suffix)[:count]
        return found + (default,) * (count - len(found))

    def vocabulary(self) -> int:
        """Return the number of tokens, without decoding any."""
        entry = self._metadata.entry(TOKENS)
        if entry is None:
            self.origins["V"] = f"{TOKENS} is absent: 0"
            self.warnings.append(f"{TOKENS} is absent; Ollama would not load it, V counts as 0")
            return 0
        if entry.length is None:
            raise PlanError(f"{TOKENS} is not a list. The file is damaged")
        self.origins["V"] = f"number of {TOKENS}"
        return whole(entry.length, TOKENS)


def _elements(key: str, entry: MetadataEntry) -> Sequence[Value]:
    """Read the elements of a list; raise `PlanError` if they are more than any model has."""
    if (length := entry.length or 0) > MAX_BLOCKS:
        raise PlanError(f"{quoted(key)} has {length:,} entries, more than {MAX_BLOCKS:,}")
    values = entry.value
    assert isinstance(values, Sequence)  # its length says so
    return values
