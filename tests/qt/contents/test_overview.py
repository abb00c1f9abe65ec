"""The overview: what a model is in plain words, its chart, and its problems."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from explorer.qt.contents.metadata import OverviewView, TypeMixChart
from explorer.qt.document import Document
from tests.helpers.gguf_writer import ARRAY, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.overview import shown_facts

Load = Callable[[Path], Document]


@pytest.fixture
def view(qtbot: QtBot) -> OverviewView:
    view = OverviewView()
    qtbot.addWidget(view)
    view.resize(800, 700)
    view.show()
    return view


def texts(view: OverviewView) -> list[str]:
    return [label.text() for label in view.widget().findChildren(QLabel)]


def chart(view: OverviewView) -> TypeMixChart:
    return view.widget().findChildren(TypeMixChart)[0]


def test_without_a_model_it_says_how_to_open_one(view: OverviewView) -> None:
    assert "No model is open" in texts(view)
    assert any("Ctrl+O" in text for text in texts(view))
    assert shown_facts(view) == {}


def test_it_tells_what_the_file_says(view: OverviewView, load: Load, tmp_path: Path) -> None:
    keys: list[tuple[str | bytes, int, object]] = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "Little"),
        ("general.license", STRING, "mit"),
        ("general.file_type", U32, 1),
        ("llama.block_count", U32, 2),
        ("llama.context_length", U32, 4096),
        ("llama.embedding_length", U32, 64),
        ("llama.feed_forward_length", U32, 256),
        ("llama.attention.head_count", U32, 8),
        ("llama.attention.head_count_kv", U32, 2),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, ["a", "b", "c"])),
    ]
    tensors = [TensorSpec("token_embd.weight", (64, 3), 1, bytes(384))]
    document = load(GgufFile(keys=keys, tensors=tensors).write(tmp_path / "little.gguf"))
    view.show_document(document)
    assert shown_facts(view) == {
        "Format": "GGUF version 3",
        "Architecture": "llama",
        "Parameters": "192 (192)",
        "File type": "F16",
        "Size of tensors": "384 B",
        "Bits per weight": "16",
        "Context length": "4,096 tokens",
        "Layers": "2",
        "Embedding length": "64",
        "Feed-forward length": "256",
        "Attention heads": "8",
        "KV heads": "2",
        "Key length": "8",
        "Value length": "8",
        "Vocabulary": "3 tokens",
        "Tokenizer": "gpt2",
        "Licence": "mit",
        "Tensors": "1",
        "Metadata keys": "12",
        "Alignment": "32 bytes",
        "Data offset": f"{document.model.data_offset:,} bytes",
    }
    shown = texts(view)
    assert shown[0] == "Little"
    assert shown[1] == str(document.path)
    assert not any("Problems" in text for text in shown)


def test_the_chart_says_its_numbers_as_text(view: OverviewView, demo: Document) -> None:
    view.show_document(demo)
    labels = chart(view).labels
    assert len(labels) == len(demo.facts.types)
    first = demo.facts.types[0]
    assert labels[0].startswith(f"{100 * first.share:.1f} %")
    assert labels[0].endswith(" tensor" if first.tensors == 1 else " tensors")
    assert sum(share.share for share in demo.facts.types) == pytest.approx(1)


def test_problems_are_told_and_not_too_many(view: OverviewView, load: Load, tmp_path: Path) -> None:
    tensors = [TensorSpec(f"t{number}", (4,), 0, b"", 1 << 40) for number in range(80)]
    document = load(GgufFile(tensors=tensors).write(tmp_path / "cut.gguf"))
    view.show_document(document)
    problems = document.model.problems
    assert len(problems) >= 1
    shown = texts(view)
    assert f"Problems: {len(problems)}" in shown
    marked = [text for text in shown if text.startswith(("✘", "⚠"))]
    assert len(marked) == min(50, len(problems))
    assert problems[0].what in marked[0]


def test_another_model_takes_the_place_of_the_first(
    view: OverviewView, demo: Document, small: Document
) -> None:
    view.show_document(demo)
    view.show_document(small)
    chart(view)
    assert shown_facts(view)["Layers"] == "12"
    assert texts(view)[0] == "Twelve"
    view.show_document(None)
    assert "No model is open" in texts(view)
