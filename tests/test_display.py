"""Metadata as text."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.formats import MetadataEntry, NumberArray
from explorer.formats.model import Value
from explorer.present.model import scalar_text, type_text, value_text


def entry(
    value: Value, type_name: str, key: str = "some.key", length: int | None = None
) -> MetadataEntry:
    return MetadataEntry(key, type_name, length, lambda: value)


@pytest.mark.parametrize(
    ("key", "type_name", "value", "shown"),
    [
        ("a", "bool", True, "true"),
        ("a", "float32", float("nan"), "NaN"),
        ("general.file_type", "uint32", 15, "Q4_K_M (15)"),
        ("general.file_type", "uint32", 99, "99"),
        ("bert.pooling_type", "uint32", 2, "cls (2)"),
        ("a", "uint32", 4096, "4096"),
        ("a", "string", "\x1b[31mred\n", "\\x1b[31mred\\n"),
        ("a", "string", "x" * 500, "x" * 79 + "…"),
    ],
)
def test_scalars(key: str, type_name: str, value: Value, shown: str) -> None:
    assert value_text(entry(value, type_name, key)) == shown


def test_an_array_shows_its_first_elements_and_its_length() -> None:
    tokens = [f"t{i}\u202e" for i in range(2000)]
    text = value_text(entry(tokens, "array[string]", length=2000), limit=40)
    assert text == '["t0\\u202e", "t1\\u202e", "t2\\u202e", …] (2,000)'


def test_token_types_are_named() -> None:
    types = NumberArray(np.array([1, 3, 6, 77], dtype=np.int32))
    shown = value_text(entry(types, "array[int32]", "tokenizer.ggml.token_type", 4))
    assert shown == "[normal, control, byte, 77]"


def test_nested_and_empty_arrays() -> None:
    assert value_text(entry([[1, 2], [3]], "array[array[int32]]", length=2)) == "[[1, 2], [3]]"
    assert value_text(entry([], "array[int32]", length=0)) == "[]"
    assert scalar_text([1.5, "a"]) == "[1.5, a]"


def test_types() -> None:
    assert type_text(entry([], "array[string]", length=262_144)) == "string[262,144]"
    assert type_text(entry([], "array[array[int32]]", length=2)) == "array[int32][2]"
    assert type_text(entry(1, "uint32")) == "uint32"
