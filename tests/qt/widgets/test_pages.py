"""The life of every page that reads: the same states, however it is told to stop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QTabWidget, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from explorer.analysis.tensor_map.draw import Quantity
from explorer.errors import ExplorerError
from explorer.parallel import LruCache
from explorer.qt.compare.one_tensor import PicturePages, RoundingPage
from explorer.qt.compare.work import SelectedPair
from explorer.qt.document import Document
from explorer.qt.jobs import Job
from explorer.qt.references import Partner, References, Rounding
from explorer.qt.weights.block.page import BlockPage
from explorer.qt.weights.curves import SelectedTensor
from explorer.qt.weights.histogram import HistogramPage
from explorer.qt.weights.map.page import MapPage
from explorer.qt.weights.panel import BlockPages
from explorer.qt.weights.values import ValuesPage
from explorer.qt.what_if.page import WhatIfPage
from explorer.qt.widgets.pages import ContentPage, Phase, Reader, Refusal, Request
from explorer.qt.widgets.progress import JobBar, ProgressLine
from tests.helpers.services import RecordingServices
from tests.helpers.weight_files import weights_model

FIRST, SECOND = "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"
UNQUANTIZED = "blk.0.attn_q.weight"
READ_AGAIN = {"Continue", "Try again", "Measure the rest"}

Stop = Literal["page", "button"]


class Gate:
    """Holds the work of a reader after it has read, and counts what it shows."""

    def __init__(self, reader: Reader[Any]) -> None:
        self.open = threading.Event()
        self.error: ExplorerError | None = None
        self.shown: list[object] = []
        self._request, self._finish = reader.request, reader._finish
        self._reader = reader
        reader.request = self._gated  # type: ignore[method-assign]
        reader._finish = self._count  # type: ignore[method-assign]

    def _count(self, result: object) -> None:
        if not _is_estimate(self._reader.request_key):
            self.shown.append(self._reader.request_key)
        self._finish(result)

    def _gated(self) -> Request[Any] | Refusal | None:
        wanted = self._request()
        if not isinstance(wanted, Request) or _is_estimate(wanted.key):
            return wanted
        work = wanted.work

        def held(job: Job) -> Any:
            result = work(job)
            while not self.open.is_set():
                job.check()
                time.sleep(0.001)
            if self.error is not None:
                raise self.error
            return result

        return replace(wanted, work=held, known=lambda: None)


def _is_estimate(key: object) -> bool:
    """Whether a request only prepares that of a what-if's errors."""
    return isinstance(key, tuple) and key[0] == "estimate"


class Case:
    """A page in a window, with the status bar's line for jobs."""

    def __init__(self, kind: str, qtbot: QtBot, app: RecordingServices, document: Document) -> None:
        self.qtbot = qtbot
        self.app, self.runner = app, app.runner
        self.document = document
        self.references = References(app)
        self.references.set_documents([document])
        self.references.show_document(document)
        self.recent = LruCache(99)
        self.window = QWidget()
        self.window.resize(900, 700)
        qtbot.addWidget(self.window)
        layout = QVBoxLayout(self.window)
        self.tabs = QTabWidget(self.window)
        layout.addWidget(self.tabs)
        self.bar = JobBar(app.runner, self.window)
        layout.addWidget(self.bar)
        self.kind = kind
        self.reader = self._make(kind, layout)
        self.gate = Gate(self.reader)
        pages = (self.reader,) if isinstance(self.reader, ContentPage) else self.reader._pages
        for page in pages:
            self.tabs.addTab(page, "page")
        self.elsewhere = self.tabs.addTab(QWidget(self.window), "elsewhere")
        self.window.show()
        qtbot.waitExposed(self.window)

    def _make(self, kind: str, layout: QVBoxLayout) -> Reader[Any]:
        app, references = self.app, self.references
        if kind == "pictures":
            line = ProgressLine(self.window)
            layout.addWidget(line)
            return PicturePages(app, line, self.window)
        if kind == "what if":
            page = WhatIfPage(app, references, self.window)
            page.controls.types.set_types(("Q4_0",))
            return page
        makers: dict[str, Callable[[], Reader[Any]]] = {
            "histogram": lambda: HistogramPage(app, self.window),
            "blocks": lambda: BlockPages(app, self.window),
            "values": lambda: ValuesPage(app, self.window),
            "map": lambda: MapPage(app, references, tuple(Quantity), self.window),
            "block": lambda: BlockPage(app, references, self.window),
            "implied": lambda: RoundingPage(app, self.window),
        }
        return makers[kind]()

    def show(self, name: str | None) -> None:
        """Select a tensor, or none."""
        reader: Any = self.reader
        row = None if name is None else self.document.model.tensors.row_of(name)
        subject = None
        if row is not None:
            assert name is not None
            subject = SelectedTensor(row, name, self.document.model.tensors.rows[row])
        if self.kind == "what if":
            if row is None:
                reader.show_subject(None)
            else:
                reader.show_subject(self.document, (row,))
        elif self.kind == "histogram":
            reader.show_subjects(() if subject is None else (subject,), self.recent)
        elif self.kind == "values":
            reader.show_subject(subject)
        elif self.kind == "pictures" and subject is not None:
            self.references.choose(Rounding("Q4_0"))
            partner = self.references.partner_of(subject.row, subject.tensor)
            models = self.document.model, "Q4_0"
            pair = SelectedPair(subject.row, subject.name, subject.tensor, "Q4_0", partner, models)
            reader.show_subject(pair, self.recent)
        else:
            reader.show_subject(subject, self.recent)

    def begin(self, name: str = FIRST) -> Job:
        """Select a tensor and wait until it is read; its result is held back."""
        self.show(name)
        reader = self.reader
        self.qtbot.waitUntil(lambda: reader.busy and not _is_estimate(reader.request_key))
        return self.runner.jobs[-1]

    def wait_for(self, phase: Phase) -> None:
        """Wait until the page has come so far."""
        self.qtbot.waitUntil(lambda: self.reader.phase is phase and not self.runner.jobs)

    def settle(self) -> None:
        """Wait until nothing is read any more."""
        self.qtbot.waitUntil(lambda: not self.runner.jobs)

    def finish(self) -> None:
        """Let the held result go, and wait for it."""
        self.gate.open.set()
        self.wait_for(Phase.COMPLETE)

    def shown(self, *texts: str) -> list[QAbstractButton]:
        """Return the visible buttons with one of these texts."""
        found = self.window.findChildren(QAbstractButton)
        return [each for each in found if each.isVisible() and each.text() in texts]

    @property
    def buttons(self) -> list[QAbstractButton]:
        """The visible buttons that read again."""
        return self.shown(*READ_AGAIN)

    def press(self) -> None:
        """Press a button that reads again."""
        self.qtbot.waitUntil(lambda: bool(self.buttons))
        self.qtbot.mouseClick(self.buttons[0], Qt.MouseButton.LeftButton)


KINDS: Final = ("histogram", "blocks", "values", "map", "block", "pictures", "implied", "what if")


@pytest.fixture
def document(load: Callable[[Path], Document], tmp_path: Path) -> Document:
    return load(weights_model().write(tmp_path / "weights.gguf"))


@pytest.fixture(params=KINDS)
def case(
    request: pytest.FixtureRequest, qtbot: QtBot, app: RecordingServices, document: Document
) -> Iterator[Case]:
    case = Case(request.param, qtbot, app, document)
    yield case
    case.gate.open.set()
    app.runner.cancel_all()
    case.settle()


def test_without_a_tensor_nothing_is_read(case: Case) -> None:
    case.show(None)
    assert case.reader.phase in {Phase.EMPTY, Phase.UNSUPPORTED}
    assert not case.runner.jobs
    assert not case.buttons


def test_reads_to_the_end_and_not_twice(case: Case) -> None:
    case.begin()
    case.finish()
    shown = len(case.gate.shown)
    case.reader.load()
    case.reader.load()
    assert not case.runner.jobs
    assert case.reader.phase is Phase.COMPLETE
    assert len(case.gate.shown) == shown
    assert not case.buttons


def test_shows_what_was_read_so_far(case: Case) -> None:
    case.begin()
    assert case.reader.phase in {Phase.READING, Phase.PARTLY_SHOWN}
    if case.kind == "histogram":
        case.qtbot.waitUntil(lambda: case.reader.phase is Phase.PARTLY_SHOWN)
    case.finish()


@pytest.mark.parametrize("stop", ["page", "button"])
def test_a_cancelled_page_reads_on(case: Case, stop: Stop) -> None:
    job = case.begin()
    if stop == "page":
        case.reader.cancel()
    else:
        case.qtbot.wait(300)  # the status bar shows a job after 200 ms
        (cancel,) = case.shown("Cancel")  # the page's own, else the status bar's: never both
        case.qtbot.mouseClick(cancel, Qt.MouseButton.LeftButton)
    case.wait_for(Phase.CANCELLED)
    assert job.cancelled
    case.window.resize(850, 650)
    case.qtbot.wait(300)  # longer than a view has to rest
    assert case.reader.phase is Phase.CANCELLED
    assert not case.gate.shown
    case.gate.open.set()
    case.press()
    case.wait_for(Phase.COMPLETE)
    assert len(case.gate.shown) == 1


def test_a_failure_says_why_and_can_be_tried_again(case: Case) -> None:
    case.begin()
    case.gate.error = ExplorerError("the disk is on fire")
    case.gate.open.set()
    case.wait_for(Phase.FAILED)
    pages = case.reader._pages
    assert any("the disk is on fire" in page.state.sentence.text() for page in pages)
    case.gate.error = None
    case.press()
    case.wait_for(Phase.COMPLETE)


def test_a_file_that_was_cut_is_named_and_can_be_tried_again(case: Case) -> None:
    case.gate.open.set()
    os.truncate(case.document.path, 64)
    case.show(FIRST)
    case.wait_for(Phase.FAILED)
    texts = [page.state.sentence.text() for page in case.reader._pages]
    assert any("weights.gguf" in text for text in texts)
    case.press()  # the file stays unreadable: only that it is tried counts
    case.wait_for(Phase.FAILED)


def test_a_hidden_page_reads_nothing(case: Case) -> None:
    case.tabs.setCurrentIndex(case.elsewhere)
    case.show(FIRST)
    assert not case.runner.jobs
    case.gate.open.set()
    case.tabs.setCurrentIndex(0)
    case.wait_for(Phase.COMPLETE)


def test_hiding_ends_the_reading_and_showing_takes_it_up(case: Case) -> None:
    job = case.begin()
    case.tabs.setCurrentIndex(case.elsewhere)
    case.qtbot.waitUntil(lambda: job.cancelled)
    case.settle()
    assert not case.gate.shown
    case.gate.open.set()
    case.tabs.setCurrentIndex(0)
    case.wait_for(Phase.COMPLETE)


def test_the_result_for_another_tensor_is_dropped(case: Case) -> None:
    job = case.begin()
    held = case.reader.request_key
    case.show(SECOND)
    assert job.cancelled
    case.gate.open.set()
    case.wait_for(Phase.COMPLETE)
    assert len(case.gate.shown) == 1
    if case.kind not in {"block", "map"}:  # whose keys do not name the tensor
        assert held not in case.gate.shown


@pytest.mark.parametrize("kind", ["blocks", "map", "block", "pictures", "implied", "what if"])
def test_what_is_not_supported_is_explained(
    qtbot: QtBot, app: RecordingServices, document: Document, kind: str
) -> None:
    case = Case(kind, qtbot, app, document)
    reader: Any = case.reader
    if kind == "map":
        reader.controls.quantities.setCurrentIndex(3)  # scales
    if kind == "pictures":
        row = document.model.tensors.row_of(FIRST)
        assert row is not None
        tensor = document.model.tensors.rows[row]
        partner = Partner(None, "Their shapes differ.")
        pair = SelectedPair(row, FIRST, tensor, "other", partner)
        reader.show_subject(pair, case.recent)
    elif kind == "what if":
        reader.controls.types.set_types(())
        case.show(FIRST)
    else:
        case.show(None if kind == "block" else UNQUANTIZED)
    assert reader.phase is Phase.UNSUPPORTED
    assert not app.runner.jobs
    page = reader._pages[0]
    assert page.state.isVisible()
    assert page.state.heading.text()
    assert page.state.sentence.text()
    if kind == "what if":
        assert page.state.button.isVisible()
