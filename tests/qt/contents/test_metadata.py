"""The panels Overview and Metadata: facts, chart, problems, keys, values and arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from explorer.formats.columns import text_ranks
from explorer.paths import resource
from explorer.present.tables.metadata import element_table, metadata_table, value_preview
from explorer.qt.contents.metadata import ValueView
from explorer.qt.contents.overview import OverviewView, StartPage
from explorer.qt.contents.shares import By, SharesBar, byte_shares
from explorer.qt.document import Document, metadata_mask
from explorer.qt.library.versions import VersionsDialog
from explorer.qt.main_window import MainWindow
from explorer.qt.widgets.labels import ElidedLabel
from explorer.qt.widgets.segments import SegmentBar
from explorer.qt.widgets.table_model import ItemRole, TableModel
from explorer.quantization.types import TENSOR_TYPES
from tests.formats.test_hf_rules import STEM, Part, write_folder
from tests.helpers.gguf_writer import ARRAY, STRING, U32, Array, GgufFile, TensorSpec, small_model
from tests.helpers.overview import shown_facts
from tests.helpers.safetensors_writer import write_tensors
from tests.helpers.services import RecordingServices
from tests.helpers.sparse_models import Shape
from tests.helpers.window import HOSTILE, unsafe_characters
from tests.planner.test_attachments import write_lora

Load = Callable[[Path], Document]


@pytest.fixture
def view(qtbot: QtBot, app: RecordingServices) -> OverviewView:
    view = OverviewView(app)
    qtbot.addWidget(view)
    view.resize(800, 700)
    view.show()
    return view


def texts(view: OverviewView) -> list[str]:
    return [label.text() for label in view.widget().findChildren(QLabel)]


def chart(view: OverviewView) -> SharesBar:
    return view.widget().findChildren(SharesBar)[0]


def test_without_a_model_it_says_how_to_open_one(view: OverviewView) -> None:
    view.show_document(None)
    assert "No model is open" in texts(view)
    assert any("Ctrl+O" in text for text in texts(view))
    assert shown_facts(view) == {}


@pytest.mark.parametrize(
    ("name", "planned"),
    [("model.diffusion_model.blocks.0.w", False), ("model.layers.0.mlp.up_proj.weight", True)],
)
def test_a_checkpoint_for_images_is_not_planned(
    view: OverviewView, load: Load, tmp_path: Path, name: str, *, planned: bool
) -> None:
    path = write_tensors(tmp_path / "model.safetensors", (name, "F16", [4, 4]))
    view.show_document(load(path))
    buttons = [button.text() for button in view.widget().findChildren(QPushButton)]
    assert ("&Plan its memory" in buttons) == planned
    assert ("Which &quant should I take?" in buttons) == planned
    assert ("On this machine" in texts(view)) == planned


def test_it_tells_what_the_file_says(view: OverviewView, load: Load, tmp_path: Path) -> None:
    keys: list[tuple[str | bytes, int, object]] = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "Little"),
        ("general.license", STRING, "mit"),
        ("general.file_type", U32, 1),
        ("llama.block_count", U32, 2),
        ("llama.context_length", U32, 4096),
        ("llama.embedding_length", U32, 64),
        ("llama.feed_forward_length", U32, 12256),
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
        "Bits per weight": "16.000",
        "Context length": "4,096 tokens",
        "Layers": "2",
        "Embedding length": "64",
        "Feed-forward length": "12,256",
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
    assert shown[1] == "A model of 192 weights with 16.0 bits each, for up to 4,096 tokens."
    assert str(document.path) in shown
    assert not any("Problems" in text for text in shown)


def test_the_chart_says_its_numbers_as_text(view: OverviewView, demo: Document) -> None:
    view.show_document(demo)
    labels = chart(view).labels
    assert len(labels) == len(demo.facts.types)
    first = demo.facts.types[0]
    assert labels[0].startswith(f"{100 * first.share:.1f} %")
    assert labels[0].endswith(" tensor" if first.tensors == 1 else " tensors")
    assert sum(share.share for share in demo.facts.types) == pytest.approx(1)


def test_how_weights_are_quantized_stands_in_words_above_what_is_declared(
    view: OverviewView, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: dict[str, Part] = {
        f"{STEM}.weight": ("F8_E4M3", np.zeros((256, 256), np.uint8)),
        f"{STEM}.weight_scale_inv": ("F32", np.ones((2, 2), np.float32)),
        "lm_head.weight": ("BF16", np.zeros((8, 256), np.uint16)),
    }
    declared = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    document = load(write_folder(tmp_path / "fp8", parts, declared))
    # a model may have 100,000 tensors: none is made to say it, as it would hold up the window
    monkeypatch.setattr(document.model.tensors.rows, "_made", {})
    view.show_document(document)
    assert document.model.tensors.rows._made == {}
    shown = texts(view)
    assert shown[shown.index("Quantization") + 1] == "FP8, tiles of 128 × 128; lm_head left alone"
    assert "tiles of 128 × 128" in shown
    assert shown_facts(view)["Quantization"] == "FP8, tiles of 128 × 128; lm_head left alone"


def test_many_types_fill_no_more_of_the_bar_than_they_have(
    load: Callable[[Path], Document], tmp_path: Path
) -> None:
    kinds = [kind for kind in TENSOR_TYPES.values() if kind.known and kind.id is not None][:13]
    specs = [
        TensorSpec(f"blk.{row}.ffn_up.weight", (256, 2), kind.id, bytes(kind.nbytes(512)))
        for row, kind in enumerate(kinds)
    ]
    document = load(GgufFile(tensors=specs).write(tmp_path / "many.gguf"))
    shares = byte_shares(document, By.TYPE)
    assert len(shares) == 12
    assert shares[-1].name == "2 others"
    assert sum(share.nbytes for share in shares) == document.facts.nbytes


@pytest.mark.parametrize("by", [By.TYPE, By.ROLE, By.LAYER])
def test_the_bar_is_of_all_bytes_whatever_they_are_sorted_by(
    view: OverviewView, demo: Document, by: By
) -> None:
    shares = byte_shares(demo, by)
    assert sum(share.nbytes for share in shares) == demo.facts.nbytes
    assert sum(share.tensors for share in shares) == len(demo.model.tensors.rows)
    assert sum(share.share for share in shares) == pytest.approx(1)
    view.show_document(demo)
    view.widget().findChildren(SegmentBar)[0].setCurrentIndex(list(By).index(by))
    assert chart(view).labels == [share.label for share in shares]
    assert shares[0].name in chart(view).accessibleDescription()


def test_the_overview_leads_on(qtbot: QtBot, window: MainWindow) -> None:
    overview = window.panels.overview.widget
    leads = {"Licence": "metadata", "All tensors": "survey", "memory": "planner"}
    for words, page in leads.items():
        window.panels.show_page("overview")
        buttons = overview.widget().findChildren(QPushButton)
        next(button for button in buttons if words in button.text().replace("&", "")).click()
        assert window.panels.page == page
    qtbot.waitUntil(lambda: not window.runner.jobs)
    window.panels.show_page("overview")
    buttons = overview.widget().findChildren(QPushButton)
    next(button for button in buttons if "quant should" in button.text().replace("&", "")).click()
    qtbot.waitUntil(lambda: isinstance(QApplication.activeModalWidget(), VersionsDialog))
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, VersionsDialog)
    qtbot.waitUntil(lambda: bool(dialog.advice.text()))
    assert dialog.choices[0].path == overview._document.path
    assert not dialog.command.isVisible()  # it is downloaded
    dialog.reject()
    qtbot.waitUntil(lambda: not window.runner.jobs)


@pytest.mark.parametrize("kind", ["adapter", "imatrix"])
def test_what_is_no_whole_model_leads_to_what_it_is_for(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, kind: str
) -> None:
    name = "blk.0.attn_q.weight"
    ends = (".lora_a", ".lora_b") if kind == "adapter" else (".in_sum2", ".counts")
    tensors = [TensorSpec(name + end, (1, 1), 0, bytes(4)) for end in ends]
    keys = [("general.type", STRING, kind)]
    path = GgufFile(keys=keys, tensors=tensors).write(tmp_path / f"{kind}.gguf")
    window.bottom.machine.show_machine()
    window.open_paths([path])
    overview = window.panels.overview.widget
    declared = {"adapter": "LoRA adapter of rank 1, for 1 tensor."}.get(
        kind, "Importance matrix of 1 tensor."
    )
    declared = f"{declared} No model in its folder goes with it."
    qtbot.waitUntil(lambda: declared in texts(overview) and not window.runner.jobs)
    shown = " ".join(texts(overview))
    assert "planned" not in shown
    assert "Context length" not in shown
    words = [one.text().replace("&", "") for one in overview.widget().findChildren(QPushButton)]
    assert not any("memory" in text for text in words)
    lead = {"adapter": "What it changes"}.get(kind, "Which columns matter most")
    overview.widget().findChildren(QPushButton)[words.index(lead)].click()
    assert window.panels.page == "survey"
    assert window.panels.survey.widget.attached.isVisible()
    qtbot.waitUntil(lambda: not window.runner.jobs)


def test_what_belongs_to_a_model_is_used_with_it(
    qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    model = Shape(blocks=2).write(tmp_path / "model.gguf")
    write_lora(tmp_path / "style.gguf", "blk.0.attn_q.weight")
    tensors = [TensorSpec("blk.0.attn_q.weight.in_sum2", (4, 1), 0, bytes(16))]
    GgufFile(tensors=tensors).write(tmp_path / "imatrix.gguf")
    window.bottom.machine.show_machine()
    overview = window.panels.overview.widget
    for name, action in (
        ("style.gguf", "Plan model.gguf with it"),
        ("imatrix.gguf", "Compare types for model.gguf with it"),
    ):
        window.panels.show_page("overview")
        window.open_paths([tmp_path / name])

        def offered(action: str = action) -> list[QPushButton]:
            buttons = overview.widget().findChildren(QPushButton)
            return [one for one in buttons if one.text() == action]

        qtbot.waitUntil(lambda: bool(offered()))
        offered()[0].click()
        qtbot.waitUntil(lambda: window.current is not None and window.current.path == model)
    assert window.panels.page == "what_if"
    qtbot.waitUntil(lambda: window.panels.references.matrix is not None)
    window.panels.show_page("planner")
    planner = window.panels.planner.widget
    qtbot.waitUntil(lambda: [one.kind for one in planner.state.inputs.attached] == ["lora"])
    qtbot.waitUntil(lambda: not window.runner.jobs)


def test_it_says_whether_the_model_fits_this_machine(qtbot: QtBot, window: MainWindow) -> None:
    window.bottom.machine.show_machine()
    overview = window.panels.overview.widget
    qtbot.waitUntil(lambda: any("It fits" in text for text in texts(overview)))
    figures = [label.text() for label in overview.widget().findChildren(ElidedLabel)]
    assert "Fits" in figures


def test_the_start_page_leads_to_a_model(qtbot: QtBot, window: MainWindow, demo_path: Path) -> None:
    window.close_document(window.documents[0])
    start = window.panels.overview.widget.widget().findChild(StartPage)
    assert start is not None
    stores = "Where the library looks for downloads"
    qtbot.waitUntil(lambda: stores in [label.text() for label in start.findChildren(QLabel)])
    tips = {label.text(): label.whatsThis() for label in start.findChildren(QLabel)}
    assert tips["Ollama"] == "Where Ollama keeps the models that it downloads."
    again = next(b for b in start.findChildren(QToolButton) if b.text() == demo_path.name)
    again.click()
    qtbot.waitUntil(lambda: [one.path for one in window.documents] == [demo_path])
    qtbot.waitUntil(lambda: not window.runner.jobs)


def test_the_guide_names_the_parts_of_the_overview(view: OverviewView, demo: Document) -> None:
    view.show_document(demo)
    guide = resource("guide/overview.md").read_text(encoding="utf-8")
    named = re.findall(r"\*\*([^*]+)\*\* (?:lists architecture|leads|shows)", guide)
    assert len(named) == 3
    assert set(named) <= set(texts(view))


def test_problems_are_told_and_not_too_many(view: OverviewView, load: Load, tmp_path: Path) -> None:
    tensors = [TensorSpec(f"t{number}", (4,), 0, b"", 1 << 40) for number in range(80)]
    document = load(GgufFile(tensors=tensors).write(tmp_path / "cut.gguf"))
    view.show_document(document)
    problems = document.problems
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


@pytest.fixture
def twelve(make_window: Callable[..., MainWindow], small_path: Path) -> MainWindow:
    window = make_window(small_path)
    window.panels.setCurrentWidget(window.panels.metadata)
    return window


def test_the_filter_finds_keys_and_values(qtbot: QtBot, twelve: MainWindow) -> None:
    panel = twelve.panels.metadata.widget.list
    qtbot.keyClicks(panel.bar.edit, "needle")
    assert [panel.model.index(0, 0).data(), panel.model.rowCount()] == ["some.text", 1]
    twelve.panels.selection.select_key(0)  # hidden by the filter
    assert panel.bar.text == ""
    assert panel.table.selected_content_rows().tolist() == [0]


def test_values_are_shown_in_full(qtbot: QtBot, twelve: MainWindow) -> None:
    view = twelve.panels.metadata.widget
    view.list.table.select_row(4)
    text = "first line\nsecond needle line\nthird"
    qtbot.waitUntil(lambda: view.value.text.text.toPlainText() == text)
    view.list.table.select_row(3)
    qtbot.waitUntil(view.value.array.isVisible)
    elements = view.value.elements
    assert [elements.index(row, 1).data(ItemRole.RAW) for row in range(3)] == [30, -10, 20]


@pytest.mark.parametrize("row", [3, 4])
def test_a_value_goes_with_its_model(qtbot: QtBot, twelve: MainWindow, row: int) -> None:
    value = twelve.panels.metadata.widget.value
    twelve.panels.metadata.widget.list.table.select_row(row)
    qtbot.waitUntil(lambda: value.text.isVisible() or value.array.isVisible())
    assert value.text.text.toPlainText() or value.elements.content_count
    twelve.close_document(twelve.documents[0])
    assert value.text.text.toPlainText() == ""
    assert value.elements.content_count == 0
    assert value.elements.columns == []


def table(document: Document) -> TableModel:
    model = TableModel()
    rows = document.keys.rows
    model.set_content(metadata_table(document.keys.ranks, value_preview), rows)
    return model


def test_rows_show_key_type_and_value(small: Document) -> None:
    model = table(small)
    rows = model.cells(range(5), range(3))
    assert rows == [
        ["general.architecture", "string", "llama"],
        ["general.name", "string", "Twelve"],
        ["llama.block_count", "uint32", "12"],
        ["some.numbers", "int32[3]", "[30, -10, 20]"],
        ["some.text", "string", "first line\\nsecond needle line\\nthird"],
    ]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("GENERAL", [0, 1]),
        ("twelve", [1]),
        ("uint32", [2]),
        ("needle some", [4]),
        ("needle general", []),
    ],
)
def test_every_word_must_occur_in_key_type_or_value(
    small: Document, text: str, rows: list[int]
) -> None:
    assert np.flatnonzero(metadata_mask(small, text)).tolist() == rows


def test_ranks_are_in_natural_order() -> None:
    assert text_ranks(["blk.10", "blk.2", "blk.1"]).tolist() == [2, 1, 0]


@pytest.fixture
def arrays(tmp_path: Path, load: Callable[[Path], Document]) -> Document:
    return load(small_model().write(tmp_path / "arrays.gguf"))


def elements_of(document: Document, key: str) -> TableModel:
    value = document.model.metadata[key]
    model = TableModel()
    model.set_content(element_table(key, value), range(len(value)))
    return model


def column(model: TableModel, role: int = ItemRole.RAW) -> list[object]:
    return [model.index(row, 1).data(role) for row in range(model.rowCount())]


def test_numbers_are_built_in_and_sorted_by_value(small: Document) -> None:
    model = elements_of(small, "some.numbers")
    assert column(model) == [30, -10, 20]
    assert {type(model.raw(model.columns[1], row)) for row in range(3)} == {int}
    model.sort(1)
    assert column(model) == [-10, 20, 30]
    assert [model.index(row, 0).data() for row in range(3)] == ["1", "2", "0"]


def test_elements_of_every_kind(arrays: Document) -> None:
    assert column(elements_of(arrays, "a.bool"))[:2] == [False, True]
    assert column(elements_of(arrays, "a.empty")) == []
    assert column(elements_of(arrays, "a.nested")) == ["[1, 2]", "[]", "[-3]"]
    assert column(elements_of(arrays, "tokenizer.ggml.scores")) == [0.0, -1.0, -2.5, 0.5, 1.5, 2.0]
    tokens = column(elements_of(arrays, "tokenizer.ggml.tokens"))
    assert tokens[3:5] == ["\\xff\\xfe", "a\\x00b"]


def test_hostile_elements_are_safe_and_short(hostile: Document) -> None:
    model = elements_of(hostile, "tokenizer.ggml.tokens")
    texts = column(model, Qt.ItemDataRole.DisplayRole)
    assert len(texts) == len(HOSTILE)
    assert not any(unsafe_characters(str(text)) for text in texts + column(model))
    assert texts[0] == HOSTILE[0]
    assert max(len(str(text)) for text in texts) <= 400


def test_a_value_of_a_million_characters_is_cut_and_says_so(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    keys: list[tuple[str | bytes, int, object]] = [("some.text", STRING, "x" * 1_000_000)]
    document = load(GgufFile(keys=keys).write(tmp_path / "long.gguf"))
    view = ValueView(app)
    qtbot.addWidget(view)
    view.show_entry(document.model.metadata.entries[0])
    qtbot.waitUntil(lambda: "8,192 of 1,000,000 char" in view.text.text.toPlainText())
    assert len(view.text.text.toPlainText()) < 9_000
