"""Fixtures of the formats' tests: bytes that must be refused, and bytes that must open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.errors import FormatError
from explorer.formats import Model
from explorer.formats.gguf.open import open_gguf
from tests.helpers.gguf_files import Accept, Refuse
from tests.helpers.gguf_writer import GgufFile, small_model
from tests.helpers.limits import bounded


@pytest.fixture
def refuse(tmp_path: Path) -> Refuse:
    """Open GGUF bytes that must be refused, within the limits; then a good file, which opens."""

    def check(content: bytes | GgufFile) -> FormatError:
        path = tmp_path / "hostile.gguf"
        path.write_bytes(content if isinstance(content, bytes) else content.build())
        with pytest.raises(FormatError) as caught:
            bounded(lambda: open_gguf(path))
        error = caught.value
        assert error.path == path
        assert "\n" not in error.what
        assert len(error.what) < 400
        assert error.what.isprintable(), "what a file says must be escaped in a message"
        open_gguf(small_model().write(tmp_path / "next.gguf")).close()
        return error

    return check


@pytest.fixture
def accept(tmp_path: Path) -> Iterator[Accept]:
    """Open GGUF bytes that must open within the limits; closed at the end of the test."""
    opened: list[Model] = []

    def check(content: bytes | GgufFile, name: str = "odd.gguf") -> Model:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.build())

        def action() -> Model:
            model = open_gguf(path)
            opened.append(model)
            return model

        return bounded(action)

    yield check
    for model in opened:
        model.close()
