"""What a model is compared with: another open model, or a type."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copy

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from explorer.analysis.errors.compare import compare_tensors
from explorer.analysis.errors.pairs import RoundedPair, Run, WeightsPair
from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.parallel import never
from explorer.qt.document import Document, load_document
from explorer.qt.jobs import JobRunner
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Partner, ReferenceBar, References, Rounding, original_of
from explorer.quantization import dequantize, quantize
from explorer.stores.entries import Entry
from tests.helpers.model_pairs import arrays_of, write_gguf
from tests.helpers.services import RecordingServices
from tests.helpers.window import wait_idle

VALUES = np.random.default_rng(7).standard_normal((6, 512)).astype(np.float32)


class _Job:
    def check(self) -> None:
        pass


@pytest.fixture
def documents(tmp_path: Path) -> list[Document]:
    name = "blk.0.attn_q.weight"
    one = write_gguf(tmp_path / "one.gguf", "llama", {name: VALUES, "other": VALUES})
    two = write_gguf(tmp_path / "two.gguf", "llama", {name: VALUES}, {name: "Q4_K"})
    return [load_document(path, _Job()) for path in (one, two)]  # type: ignore[arg-type]


def partner(references: References, row: int) -> Partner:
    assert references.document is not None
    return references.partner_of(row, references.document.model.tensors.rows[row])


def _both(pair: WeightsPair, run: Run) -> tuple[np.ndarray, np.ndarray]:
    one, other = pair.reader().read(run, never)
    return one.copy(), other.copy()


def test_a_closed_model_is_no_reference(qtbot: QtBot, documents: list[Document]) -> None:
    """A menu or a job that was begun before may still choose it."""
    references = References(RecordingServices(JobRunner()))
    bar = ReferenceBar(references)
    qtbot.addWidget(bar)
    references.set_documents(documents)
    references.show_document(documents[1])
    for before in (None, Rounding("Q4_K")):
        references.choose(before)
        references.set_documents(documents[1:])
        references.choose(documents[0])
        assert references.chosen == before
        assert bar.list.currentText() == ("none" if before is None else "Rounded to Q4_K")
        references.set_documents(documents)


def test_another_model_is_matched_and_read_beside_the_current_one(
    qtbot: QtBot, documents: list[Document]
) -> None:
    references = References(RecordingServices(JobRunner()))
    references.set_documents(documents)
    references.show_document(documents[1])
    assert partner(references, 0).pair is None
    with qtbot.waitSignals([references.changed, references.changed]):
        references.choose(documents[0])
        assert partner(references, 0).waiting
    pair = partner(references, 0).pair
    assert pair is not None
    assert (pair.reference_type, pair.candidate_type) == ("F32", "Q4_K")
    one, other = _both(pair, (100, 700))
    flat = VALUES.reshape(-1)
    np.testing.assert_array_equal(one, flat[100:800])
    np.testing.assert_array_equal(other, dequantize(quantize(VALUES, "Q4_K"), "Q4_K")[100:800])


def test_a_tensor_without_a_partner_says_so(qtbot: QtBot, documents: list[Document]) -> None:
    references = References(RecordingServices(JobRunner()))
    references.set_documents(documents)
    references.show_document(documents[0])
    with qtbot.waitSignals([references.changed, references.changed]):
        references.choose(documents[1])
    found = partner(references, 1)
    assert found.pair is None
    assert "no tensor that matches" in found.reason


def test_a_tensor_of_another_model_has_no_partner(qtbot: QtBot, documents: list[Document]) -> None:
    """Found by the soak: a panel that follows later to the next model asks with its old tensor."""
    references = References(RecordingServices(JobRunner()))
    references.set_documents(documents)
    references.show_document(documents[1])
    with qtbot.waitSignals([references.changed, references.changed]):
        references.choose(documents[0])
    for row, tensor in enumerate(documents[0].model.tensors.rows):
        assert references.partner_of(row, tensor).pair is None
        assert references.partner_of(row, tensor).reason == ""


def test_each_model_keeps_its_reference_until_that_is_closed(
    qtbot: QtBot, documents: list[Document]
) -> None:
    references = References(RecordingServices(JobRunner()))
    references.set_documents(documents)
    references.show_document(documents[0])
    with qtbot.waitSignals([references.changed, references.changed]):
        references.choose(documents[1])
    references.show_document(documents[1])
    references.choose(Rounding("Q8_0"))
    references.show_document(documents[0])
    assert references.chosen is documents[1]
    references.set_documents(documents[:1])
    assert references.chosen is None


def test_a_model_is_not_compared_with_itself(qtbot: QtBot, documents: list[Document]) -> None:
    references = References(RecordingServices(JobRunner()))
    references.set_documents(documents)
    references.show_document(documents[0])
    references.choose(documents[0])
    assert references.chosen is None


@pytest.mark.parametrize("run", [(0, 3072), (1, 1), (31, 2), (255, 258), (3071, 1)])
def test_any_run_of_a_rounded_tensor_is_that_of_the_whole(
    documents: list[Document], run: Run
) -> None:
    pair = RoundedPair(documents[0].model.tensors.rows[0], "Q4_K")
    one, other = _both(pair, run)
    inside = slice(run[0], sum(run))
    np.testing.assert_array_equal(one, VALUES.reshape(-1)[inside])
    np.testing.assert_array_equal(other, dequantize(quantize(VALUES, "Q4_K"), "Q4_K")[inside])


def test_a_type_whose_blocks_do_not_fit_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "odd.gguf", "llama", {"odd": VALUES[:, :500]})
    with open_model(path) as model:
        with pytest.raises(ExplorerError, match="not a whole number of blocks of 32"):
            RoundedPair(model.tensors.rows[0], "Q8_0")
        same = compare_tensors(model.tensors.rows[0], model.tensors.rows[0])
        assert same.rmse == 0


def test_what_a_tensor_is_rounded_to_is_told_without_loading_what_rounds(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "one.gguf", "llama", {"one": VALUES})
    program = (
        "import sys; from explorer.formats import open_model;"
        "from explorer.analysis.errors.pairs import RoundedPair;"
        "tensor = open_model(sys.argv[1]).tensors.rows[0];"
        "print(RoundedPair(tensor, 'Q4_K').candidate_type, 'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Q4_K False\n"


def test_a_rounded_tensor_needs_a_known_type(documents: list[Document]) -> None:
    with pytest.raises(ExplorerError, match="unknown type"):
        RoundedPair(documents[0].model.tensors.rows[0], "Q4_X")


# The model that another was quantized from


SHAPES = {"token_embd.weight": (64, 256), "blk.0.ffn_up.weight": (128, 256)}


def _written(path: Path, types: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = dict.fromkeys(SHAPES, types) if types else {}
    return write_gguf(path, "llama", arrays_of(SHAPES), kinds, block_count=1, embedding_length=256)


def _entry(path: Path) -> tuple[Entry, str]:
    return Entry(path.name, path, "gguf", 1, None), "Ollama"


def test_the_original_is_looked_for_beside_a_model_and_in_the_library(tmp_path: Path) -> None:
    path = _written(tmp_path / "own" / "tiny-chat-Q4_K_M.gguf", "Q4_K")
    document = load_document(path, _Job())  # type: ignore[arg-type]
    assert original_of(document, lambda _check: (), never) is None
    other = _written(tmp_path / "library" / "tiny-chat-F32.gguf")
    broken = tmp_path / "library" / "tiny-chat-BF16.gguf"
    broken.write_bytes(b"GGUF of nothing")
    unlike = _written(tmp_path / "library" / "another-F32.gguf")
    listed = [_entry(each) for each in (broken, unlike, other)]
    assert original_of(document, lambda _check: listed, never) == other
    beside = _written(tmp_path / "own" / "tiny-chat" / "model.gguf")
    assert original_of(document, lambda _check: listed, never) == beside.parent


def test_the_original_is_found_among_many_files_that_are_called_alike(tmp_path: Path) -> None:
    path = _written(tmp_path / "tiny-chat-Q4_K_M-00001-of-00012.gguf", "Q4_K")
    original = _written(tmp_path / "tiny-chat-f32.gguf")
    for number in range(2, 13):
        copy(path, tmp_path / f"tiny-chat-Q{number}_K.gguf")
        copy(path, tmp_path / f"tiny-chat-Q4_K_M-{number:05}-of-00012.gguf")
    (tmp_path / "tiny-chat").symlink_to("tiny-chat")  # to itself
    (tmp_path / "tiny-chat.gguf").symlink_to("gone")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "tiny-chat-BF16.gguf")
    document = load_document(copy(path, tmp_path / "tiny-chat-Q4_K_M.gguf"), _Job())  # type: ignore[arg-type]
    document.model.close()  # by the user, meanwhile
    assert original_of(document, lambda _check: (), never) == original
    plain = load_document(original, _Job())  # type: ignore[arg-type]
    assert (
        original_of(plain, lambda _check: pytest.fail("nothing is to be looked for"), never) is None
    )


def test_the_original_beside_a_model_is_filled_in(
    qtbot: QtBot, make_window: Callable[..., MainWindow], tmp_path: Path
) -> None:
    path = _written(tmp_path / "tiny-chat-Q4_K_M.gguf", "Q4_K")
    original = _written(tmp_path / "tiny-chat-F32.gguf")
    window = make_window(path)
    window.panels.show_page("errors")
    wait_idle(qtbot, window)
    references = window.panels.references
    qtbot.waitUntil(lambda: references.original is not None)
    wait_idle(qtbot, window)
    assert isinstance(references.original, Document)
    assert references.original.path == original
    assert original.name in window.bottom.notice.label.text()
    assert window.current is not None
    assert window.current.path == path
    picture = window.panels.errors.widget.pictures.picture
    assert picture is not None
    assert picture.metrics.compared
    references.choose(None)  # "nothing" is an answer, too
    window.panels.show_page("overview")
    window.panels.show_page("errors")
    assert references.chosen is None
    wait_idle(qtbot, window)


def test_an_open_original_is_what_errors_compare_with_until_something_else_was_chosen(
    qtbot: QtBot, make_window: Callable[..., MainWindow], tmp_path: Path
) -> None:
    path = _written(tmp_path / "tiny-chat-Q4_K_M.gguf", "Q4_K")
    original = _written(tmp_path / "tiny-chat-F32.gguf")
    for chosen in (original, None):  # None: the user has chosen nothing in the session before
        window = make_window(original, path)
        references = window.panels.references
        assert references.chosen is None  # other pages do not ask for it
        window.panels.show_page("errors")
        wait_idle(qtbot, window)
        assert getattr(references.chosen, "path", None) == chosen
        if chosen is not None:
            assert original.name in window.bottom.notice.label.text()
            references.choose(None)
            window.panels.show_page("overview")
            window.panels.show_page("errors")
            assert references.chosen is None
        window.close()


def test_a_model_to_compare_with_is_remembered_while_it_is_not_open(
    qtbot: QtBot, make_window: Callable[..., MainWindow], tmp_path: Path
) -> None:
    path = _written(tmp_path / "tiny-chat-Q4_K_M.gguf", "Q4_K")
    other = _written(tmp_path / "another-F32.gguf")
    for opened in ([other, path], [path], [other, path]):
        window = make_window(*opened)
        references = window.panels.references
        if opened == [path]:
            assert references.chosen is None
        elif not window.panels.memory.knows_reference(window.documents[-1]):
            references.choose(window.documents[0])
        else:
            assert getattr(references.chosen, "path", None) == other
            references.choose(None)
            window.open_paths([_written(tmp_path / "third-F32.gguf")])
            wait_idle(qtbot, window)
            window.open_models.model_chosen.emit(window.documents[1])
            assert references.chosen is None  # what was chosen since counts
        window.close()


def test_a_model_that_is_being_closed_is_not_compared_with(
    qtbot: QtBot, make_window: Callable[..., MainWindow], tmp_path: Path
) -> None:
    path = _written(tmp_path / "tiny-chat-Q4_K_M.gguf", "Q4_K")
    original = _written(tmp_path / "tiny-chat-F32.gguf")
    window = make_window(path, original)
    window.panels.show_page("errors")
    wait_idle(qtbot, window)
    closed = window.current
    assert closed is not None
    assert closed.path == original
    chosen: list[object] = []
    references = window.panels.references
    references.changed.connect(lambda: chosen.append(references.chosen))
    window.close_document(closed)
    assert window.current is window.documents[0]
    assert closed not in chosen
    assert not window.bottom.notice.isVisible()
    wait_idle(qtbot, window)


def test_an_original_on_the_web_is_left_to_the_user(
    app: RecordingServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = _written(tmp_path / "tiny-Q4_K.gguf", "Q4_K"), _written(tmp_path / "tiny-F32.gguf")
    quantized, original = (load_document(path, _Job()) for path in paths)  # type: ignore[arg-type]
    references = References(app)
    references.set_documents((quantized, original))
    references.show_document(quantized)
    assert references.open_original() is original
    monkeypatch.setattr("explorer.qt.references.is_address", original.path.__eq__)
    assert references.open_original() is None


def test_two_open_models_are_compared_at_once(
    qtbot: QtBot, window: MainWindow, small_path: Path
) -> None:
    (demo,) = window.documents
    window.open_paths([small_path])
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    wait_idle(qtbot, window)
    assert window.panels.references.chosen is None
    window.panels.show_page("compare")
    assert window.panels.references.chosen is demo
    wait_idle(qtbot, window)
    assert window.panels.compare.widget.has_content
