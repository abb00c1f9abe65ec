"""The same as the `gguf` package says, and as expected values say, on real vocabularies."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from explorer.formats import MetadataEntry
from explorer.formats.gguf.open import open_gguf
from tests.helpers.gguf_oracle import assert_same_as_gguf_package

FILES = pytest.mark.parametrize(
    "name", ["ggml-vocab-aquila.gguf", "ggml-vocab-bert-bge.gguf", "ggml-vocab-phi-3.gguf"]
)


# the package needs 8 s for the third
@pytest.mark.parametrize("name", ["ggml-vocab-bert-bge.gguf", "ggml-vocab-phi-3.gguf"])
def test_every_key_and_tensor_as_the_gguf_package(shared_data: Path, name: str) -> None:
    assert_same_as_gguf_package(shared_data / name)


def _shown(text: str) -> str:
    """Show bytes that are not UTF-8 as the expected values do."""
    return "".join(f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)


def _type_names(entry: MetadataEntry) -> tuple[str, str | None]:
    if entry.length is None:
        return entry.type_name.upper(), None
    return "ARRAY", entry.type_name.removeprefix("array[").removesuffix("]").upper()


@FILES
def test_expected_values(shared_data: Path, name: str) -> None:
    expected: dict[str, Any] = json.loads((shared_data / "vocab_expected.json").read_text())[name]
    path = shared_data / name
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == expected["sha256"]
    assert len(content) == expected["bytes"]
    with open_gguf(path) as model:
        assert model.problems == ()
        assert model.version == expected["version"]
        assert len(model.tensors) == expected["n_tensors"]
        assert list(model.metadata) == list(expected["kv"])
        for key, peer in expected["kv"].items():
            entry = model.metadata.entry(key)
            assert entry is not None
            kind, element = _type_names(entry)
            assert kind == peer["type"], key
            if kind != "ARRAY":
                value, wanted = entry.value, peer["value"]
                if isinstance(wanted, dict):  # a long text, by its digest
                    assert isinstance(value, str)
                    assert len(value) == wanted["chars"]
                    assert hashlib.sha256(value.encode()).hexdigest() == wanted["sha256"]
                else:
                    assert (_shown(value) if isinstance(value, str) else value) == wanted, key
                continue
            assert element == peer["elem"], key
            assert entry.length == peer["n"], key
            values = [_shown(v) if isinstance(v, str) else v for v in entry.value]
            assert values[:3] == peer["first"], key
            assert values[-3:] == peer["last"], key
