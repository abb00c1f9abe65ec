"""The panels and Ctrl+K at 262,144 rows: how long each step keeps the GUI thread busy, with paint.

The peer is what Qt itself offers: a `QTableView` over a `QSortFilterProxyModel` over a
`QStandardItemModel`, all C++, with the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QByteArray, QSortFilterProxyModel, QStringListModel, Qt
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QApplication, QListView, QTableView, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.contents.tables import TensorsView, VocabularyView
from explorer.qt.document import Document, load_document
from explorer.qt.jobs import JobRunner
from explorer.qt.quick_open import QuickOpen, search_sources
from explorer.qt.widgets.table_view import ListPanel
from tests.benchmarks.report import Report
from tests.helpers.gguf_writer import ARRAY, F32, I32, STRING, U16, Array, GgufFile, TensorSpec
from tests.helpers.services import RecordingServices

pytestmark = pytest.mark.benchmark

_ROWS = 262_144
_SHARDS = 2  # one file may claim 200,000 tensors
_BUDGET_S = 0.05
_SIZE = (1280, 800)
_WORDS = ("the", "model", "gguf", "token", "weights", "über", "explorer", "q")
_ROLES = ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up", "ffn_down", "attn_norm", "ffn_norm")


class _NoJob:
    def check(self) -> None:
        pass


def _tokens() -> list[str]:
    # a permutation, so that sorting has something to do
    return [f"▁{_WORDS[i % 8]}{(i * 40_503) % _ROWS:x}" for i in range(_ROWS)]


def _names() -> list[str]:
    return [
        f"blk.{(i * 40_503) % _ROWS // 1024}.{_ROLES[i % 8]}.{i % 1024}.weight"
        for i in range(_ROWS)
    ]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Document]:
    folder = tmp_path_factory.mktemp("tables")
    keys = [
        ("general.architecture", STRING, "llama"),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, [t.encode() for t in _tokens()])),
        ("tokenizer.ggml.scores", ARRAY, Array(F32, [-float(i) for i in range(_ROWS)])),
        ("tokenizer.ggml.token_type", ARRAY, Array(I32, [1] * _ROWS)),
    ]
    names = _names()
    for shard in range(_SHARDS):
        file = GgufFile(
            keys=[
                *(keys if shard == 0 else []),
                ("split.no", U16, shard),
                ("split.count", U16, _SHARDS),
                ("split.tensors.count", I32, _ROWS),
            ]
        )
        own = names[shard * _ROWS // _SHARDS : (shard + 1) * _ROWS // _SHARDS]
        for i, name in enumerate(own):
            file.tensors.append(TensorSpec(name, (8 + i % 5, 1), 0, b"", 64 * i))
        path = folder / f"wide-{shard + 1:05d}-of-{_SHARDS:05d}.gguf"
        with path.open("wb") as stream:
            stream.write(file.header())
            stream.truncate(stream.tell() + 64 * (len(own) + 1))
    path = folder / f"wide-00001-of-{_SHARDS:05d}.gguf"
    document = load_document(path, _NoJob())  # type: ignore[arg-type] # only asked whether to stop
    yield document
    document.model.close()


def _busy(step: Callable[[], object]) -> float:
    """Return the seconds that a step and the events and paints that follow from it take."""
    before = time.perf_counter()
    step()
    QApplication.processEvents()
    QApplication.processEvents()
    return time.perf_counter() - before


def _typed(text: str) -> list[str]:
    return [text[:length] for length in range(1, len(text) + 1)]


def _measure_ours(panel: ListPanel, columns: tuple[int, int], text: str) -> dict[str, float]:
    """Return the longest time of each kind of step."""
    text_column, number_column = columns
    times: dict[str, float] = {}
    for name, column in (("sort by text", text_column), ("sort by number", number_column)):
        times[name] = max(
            _busy(lambda o=order, c=column: panel.table.sortByColumn(c, o))
            for order in (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder)
        )
    edit = panel.bar.edit
    times["keystroke, longest"] = max(_busy(lambda t=t: edit.setText(t)) for t in _typed(text))
    return times


def _measure_peer(rows: list[tuple[str, int]], text: str) -> dict[str, float]:
    model = QStandardItemModel()
    for column in zip(*rows, strict=True):
        items = []
        for value in column:
            item = QStandardItem()
            item.setData(value, Qt.ItemDataRole.DisplayRole)
            items.append(item)
        model.appendColumn(items)
    proxy = QSortFilterProxyModel()
    proxy.setSourceModel(model)
    view = QTableView()
    view.resize(*_SIZE)
    view.setModel(proxy)
    view.show()
    view.setSortingEnabled(True)
    QApplication.processEvents()
    times = {}
    for name, column in (("sort by text", 0), ("sort by number", 1)):
        times[name] = max(
            _busy(lambda o=order, c=column: view.sortByColumn(c, o))
            for order in (Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder)
        )
    find = proxy.setFilterFixedString
    times["keystroke, longest"] = max(_busy(lambda t=t: find(t)) for t in _typed(text))
    view.close()
    return times


def _compare(report: Report, title: str, ours: dict[str, float], peer: dict[str, float]) -> None:
    for step, took in ours.items():
        qt = "Qt's own", peer[step]
        report.compare(f"{title}: {step}", took, qt, most=1, budget=_BUDGET_S)


def _show(panel: QWidget) -> None:
    panel.resize(*_SIZE)
    panel.show()
    QApplication.processEvents()


def test_vocabulary_of_262144_tokens_stays_below_50_ms(
    qtbot: QtBot, document: Document, report: Report
) -> None:
    app = RecordingServices(JobRunner())
    panel = VocabularyView(app)
    qtbot.addWidget(panel)
    panel.show_document(document, QByteArray())
    _show(panel)
    qtbot.waitUntil(lambda: panel.model.rowCount() == _ROWS, timeout=60_000)
    text = "model1a2b"
    ours = _measure_ours(panel, (1, 0), text)
    app.runner.close()
    _compare(
        report,
        "262,144 tokens",
        ours,
        _measure_peer([(t, i) for i, t in enumerate(_tokens())], text),
    )


def test_table_of_262144_tensors_stays_below_50_ms(
    qtbot: QtBot, document: Document, report: Report
) -> None:
    app = RecordingServices(JobRunner())
    panel = TensorsView(app)
    qtbot.addWidget(panel)
    panel.show_document(document, QByteArray())
    _show(panel)
    names = [column.name for column in panel.model.columns]
    ours = _measure_ours(
        panel, (names.index("name"), names.index("bytes")), "ffn layer:3-70 size>32"
    )
    app.runner.close()
    peer = _measure_peer([(name, i % 5) for i, name in enumerate(_names())], "ffn_up.12")
    _compare(report, "262,144 tensors", ours, peer)


def _longest_pause(step: Callable[[], object], done: Callable[[], bool]) -> float:
    """Return the longest time without a look at events, from a step until it is done.

    The step's own time counts, and that for which a worker holds up the GUI thread.
    """
    longest, last = 0.0, time.perf_counter()
    step()
    while True:
        QApplication.processEvents()
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        if done():
            return longest


def _measure_quick_open_peer(names: list[str], text: str) -> dict[str, float]:
    view, model, proxy = QListView(), QStringListModel(), QSortFilterProxyModel()
    view.setUniformItemSizes(True)
    view.resize(680, 460)

    def open_list() -> None:
        model.setStringList(names)
        proxy.setSourceModel(model)
        view.setModel(proxy)
        view.show()

    times = {"open": _busy(open_list)}
    find = proxy.setFilterFixedString
    times["keystroke, longest"] = max(_busy(lambda t=t: find(t)) for t in _typed(text))
    view.close()
    return times


def test_going_to_one_of_262144_names_never_holds_up_the_window_for_50_ms(
    qtbot: QtBot, document: Document, report: Report
) -> None:
    runner, dialogs = JobRunner(), []

    def open_dialog() -> None:
        dialogs.append(QuickOpen(search_sources([document], ["Quit"]), runner))
        dialogs[-1].open()

    def rests() -> bool:
        return not runner.jobs

    ours = {"open": _longest_pause(open_dialog, lambda: dialogs[0].found.rowCount() > 0)}
    edit = dialogs[0].edit
    keys = [
        _longest_pause(lambda t=typed: edit.setText(t), rests)
        for typed in _typed("attn_k 17 weight")
    ]
    # the next key is typed before the results of the last one are there
    keys.append(_longest_pause(lambda: [edit.setText(t) for t in _typed("weight blk")], rests))
    ours["keystroke, longest"] = max(keys)
    assert dialogs[0].found.rowCount() == 200
    dialogs[0].reject()
    runner.close()
    _compare(
        report, "Ctrl+K, 262,144 tensors", ours, _measure_quick_open_peer(_names(), "attn_k.17")
    )
