"""Tables of a model's metadata, and of the elements of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from explorer.errors import ExplorerError
from explorer.formats import NumberArray
from explorer.formats.model import MetadataEntry, Model, Value
from explorer.parallel import Check, never
from explorer.present.model import plain_value, scalar_text, type_text, value_text
from explorer.present.tables.table import INTEGER, TEXT, Column, Kind, Table
from explorer.text import plain_text, shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST_CELL: Final = 400
_PREVIEW: Final = 64  # characters of a value in a list; the whole of it is shown below


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the metadata as people read it: safe to show."""

    key: str
    type: str
    value: str


def keys_of(model: Model, longest: int, check: Check = never) -> Iterator[Key]:
    """Yield the metadata of a model, each value as a line of at most so many characters."""
    for entry in model.metadata.entries:
        check()
        try:
            value = value_text(entry, longest, model)
        except ExplorerError as error:
            value = plain_text(f"(cannot be shown: {error.what})")
        yield Key(plain_text(entry.key), type_text(entry), value)


def entry_record(
    model: Model, entry: MetadataEntry, failed: Callable[[ExplorerError], object] = str
) -> dict[str, Any]:
    """Return an entry without its key as JSON has it: no text, but the value itself.

    `failed` is told why a value cannot be decoded, which is null then.
    """
    value = None
    try:
        value = plain_value(model, entry)
    except ExplorerError as error:
        failed(error)
    return {"type": entry.type_name, "value": value, "length": entry.length}


def value_preview(text: str) -> str:
    """Return the beginning of a value; of an array, as many whole elements as fit."""
    if len(text) <= _PREVIEW:
        return text
    elements = text[: _PREVIEW - 3].rpartition(", ")[0] if text.startswith("[") else ""
    return f"{elements}, …]" if elements else shorten(text, _PREVIEW)


def metadata_table(
    ranks: Sequence[NDArray[Any]] = (), shown: Callable[[str], str] | None = None
) -> Table[Key]:
    """Return the table of keys, types and values.

    Args:
        ranks: Of these three the place in natural order, [n] each, to sort a long table by.
        shown: Returns what a cell shows of a value; all of it by default.
    """
    keys = [None, None, None] if not ranks else [lambda each=each: each for each in ranks]
    return Table(
        Column("key", "Key", TEXT, "The name of the value in the file.", keys=keys[0]),
        Column(
            *("type", "Type", TEXT),
            "How the value is stored, and how many elements an array has.",
            keys=keys[1],
        ),
        Column(
            *("value", "Value", TEXT),
            "Enumerated values by name; of an array, the first elements",
            text=None if shown is None else lambda row: shown(row.value),
            keys=keys[2],
            stretches=True,
        ),
        title="Metadata",
    )


_NUMBER: Final = Kind(str)


def element_table(key: str, elements: Sequence[Value]) -> Table[int]:
    """Return the table of an array's elements, its rows their places; the key names values."""

    def value(row: int) -> Any:
        found = elements[row]
        return found if isinstance(found, str | bool | int | float) else scalar_text(found)

    def text(row: int) -> str:
        return scalar_text(elements[row], _LONGEST_CELL, key)

    def places() -> NDArray[Any]:
        return np.arange(len(elements))

    def values() -> NDArray[Any]:
        return elements.values if isinstance(elements, NumberArray) else places()

    kind = _NUMBER if isinstance(elements, NumberArray) else TEXT
    of = "The element. Enumerated values by name."
    return Table(
        Column("index", "Index", INTEGER, "Place in the array, from 0 up.", int, keys=places),
        Column("value", "Value", kind, of, value, text=text, keys=values),
        title="Elements of the array",
    )
