"""Addresses in the window, against a server on the loopback: asked once, opened, refused."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QAction, QDropEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QCheckBox, QMessageBox
from pytestqt.qtbot import QtBot

pytest.importorskip("urllib3", reason="the extra [remote] is not installed")

from explorer.paths import demo_model
from explorer.planner import Device, Host
from explorer.planner.inputs import PlanInputs
from explorer.present.fits import Version
from explorer.present.tables.quants import UNREAD
from explorer.qt import addresses
from explorer.qt.actions import ask_report
from explorer.qt.addresses import AddressDialog, addresses_in
from explorer.qt.library.versions import VersionsDialog
from explorer.qt.main_window import MainWindow
from explorer.qt.quick_open import QuickOpen, ResultKind
from explorer.qt.settings import Settings
from explorer.qt.widgets.saving import FileSaver
from explorer.sources import parse_address
from explorer.sources.remote.addresses import offline, refuse_all
from explorer.text import bytes_text
from tests.helpers.elided import elided
from tests.helpers.patience import PATIENCE_S, SOON_S
from tests.helpers.sparse_models import Shape
from tests.helpers.web import COMMIT, Web, add_hub, add_registry, serving


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No proxy, and addresses allowed again at the end."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    yield
    refuse_all(False)


@pytest.fixture
def web() -> Iterator[Web]:
    """A server with the demo model at /demo.gguf."""
    with serving() as one:
        one.put("/demo.gguf", demo_model().read_bytes())
        yield one


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    """A window with settings of its own."""
    one = MainWindow(Settings(tmp_path / "settings.ini"))
    qtbot.addWidget(one)
    one.show()
    yield one
    one.close()


def answer(press: Callable[[QMessageBox], None], seen: list[str]) -> None:
    """Answer the next question, once it is shown."""

    def act() -> None:
        box = QApplication.activeModalWidget()
        if not isinstance(box, QMessageBox):
            QTimer.singleShot(20, act)
            return
        seen.append(box.text())
        press(box)

    QTimer.singleShot(20, act)


def press_read(box: QMessageBox) -> None:
    """Press Read."""
    next(b for b in box.buttons() if box.buttonRole(b) is QMessageBox.ButtonRole.AcceptRole).click()


def press_cancel(box: QMessageBox) -> None:
    """Press Cancel."""
    box.button(QMessageBox.StandardButton.Cancel).click()


def test_a_host_is_asked_for_once_and_counted(
    qtbot: QtBot, window: MainWindow, web: Web, tmp_path: Path
) -> None:
    asked: list[str] = []
    address = parse_address(web.url + "/demo.gguf")
    answer(press_cancel, asked)
    window.open_paths([address])
    assert len(asked) == 1
    assert asked[0].startswith(f"Read {address} from 127.0.0.1")
    assert "token" not in asked[0]
    assert not window.loading
    assert web.asked == []
    answer(press_read, asked)
    window.open_paths([address])
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    assert len(asked) == 2
    window.close_document(window.documents[0])
    window.open_paths([address])
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    assert len(asked) == 2
    qtbot.waitUntil(lambda: "fetched in" in window.bottom.promise.text())
    assert window.settings.recent == [address]
    assert window.settings.session == []
    with_hosts = Settings(tmp_path / "settings.ini")
    assert with_hosts.recent == [address]


def test_one_may_be_asked_each_time(qtbot: QtBot, window: MainWindow, web: Web) -> None:
    def press(box: QMessageBox) -> None:
        box_ = box.checkBox()
        assert isinstance(box_, QCheckBox)
        box_.setChecked(False)
        press_read(box)

    answer(press, [])
    window.open_paths([parse_address(web.url + "/demo.gguf")])
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    assert window.settings.note("address_hosts") == ""


def test_many_requests_are_asked_for(
    qtbot: QtBot, window: MainWindow, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.settings.set_note("address_hosts", web.url.partition("://")[2])
    monkeypatch.setenv("GGUF_EXPLORER_REQUESTS", "0")
    address, asked = parse_address(web.url + "/demo.gguf"), list[str]()
    answer(press_cancel, asked)
    window.open_paths([address])
    qtbot.waitUntil(lambda: not window.loading)
    qtbot.waitUntil(lambda: len(asked) == 1)
    assert asked[0].startswith(f"Opening {address} takes at least 1 request to '127.0.0.1:")
    assert web.asked == []
    answer(press_read, asked)
    window.open_paths([address])
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    assert not window.message_bar.messages


def test_the_dialog_takes_a_copied_address_and_says_what_is_wrong(qtbot: QtBot) -> None:
    QGuiApplication.clipboard().setText(" hf://owner/name ")
    dialog = AddressDialog()
    qtbot.addWidget(dialog)
    assert dialog.edit.text() == "hf://owner/name"
    assert dialog.open_button.isEnabled()
    dialog.edit.selectAll()
    qtbot.keyClicks(dialog.edit, "file:///etc/passwd")
    assert not dialog.open_button.isEnabled()
    assert "is not an address" in dialog.fault.text()
    dialog.edit.clear()
    assert dialog.fault.text() == ""
    assert dialog.address() is None


def test_the_command_opens_what_is_typed(
    qtbot: QtBot, window: MainWindow, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.settings.set_note("address_hosts", web.url.partition("://")[2])

    def type_address() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, AddressDialog)
        dialog.edit.setText(web.url + "/demo.gguf")
        qtbot.keyClick(dialog.edit, Qt.Key.Key_Return)

    QTimer.singleShot(100, type_address)
    window.actions_.open_address.trigger()
    qtbot.waitUntil(lambda: len(window.documents) == 1)


def test_a_link_can_be_dropped(qtbot: QtBot, window: MainWindow, web: Web) -> None:
    window.settings.set_note("address_hosts", web.url.partition("://")[2])
    mime = QMimeData()
    mime.setUrls([QUrl(web.url + "/demo.gguf"), QUrl("mailto:nobody@example.com")])
    assert addresses_in(mime) == [parse_address(web.url + "/demo.gguf")]
    event = QDropEvent(
        QPointF(5, 5),
        Qt.DropAction.CopyAction,
        mime,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    window.dropEvent(event)
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    text = QMimeData()
    text.setText("some words")
    assert addresses_in(text) == []


def test_addresses_can_be_switched_off(qtbot: QtBot, window: MainWindow, web: Web) -> None:
    window.actions_.offline.trigger()
    window.open_paths([parse_address(web.url + "/demo.gguf")])
    qtbot.waitUntil(lambda: bool(window.message_bar.messages))
    assert "nothing is fetched" in window.message_bar.messages[0].label.text()
    assert web.asked == []
    window.actions_.offline.trigger()
    assert not window.addresses.offline


def test_what_the_command_line_refuses_the_setting_does_not_allow(
    qtbot: QtBot, tmp_path: Path, web: Web
) -> None:
    """`gguf-explorer --offline` opens a window that asks nothing and fetches nothing."""
    with offline():
        window = MainWindow(Settings(tmp_path / "settings.ini"))
        qtbot.addWidget(window)
        window.show()
        assert not window.actions_.offline.isEnabled()
        assert window.actions_.offline.toolTip() == "--offline was given"
        window.open_paths([parse_address(web.url + "/demo.gguf")])  # a question would hang here
        qtbot.waitUntil(lambda: bool(window.message_bar.messages))
        assert "nothing is fetched: --offline" in window.message_bar.messages[0].label.text()
        window.close()
    assert web.asked == []


def test_what_was_copied_is_pasted(qtbot: QtBot, window: MainWindow, web: Web) -> None:
    window.settings.set_note("address_hosts", web.url.partition("://")[2])
    QGuiApplication.clipboard().setText("some words")
    window.actions_.paste.trigger()
    assert not window.loading
    QGuiApplication.clipboard().setText(f"  {web.url}/demo.gguf\n")
    window.actions_.paste.trigger()
    qtbot.waitUntil(lambda: len(window.documents) == 1)


def test_ctrl_v_in_a_line_is_of_the_line(qtbot: QtBot, window: MainWindow, web: Web) -> None:
    QGuiApplication.clipboard().setText(f"{web.url}/demo.gguf")
    dialog = AddressDialog(window)
    dialog.show()
    qtbot.waitUntil(dialog.isVisible)
    dialog.edit.clear()
    qtbot.keyClick(dialog.edit, "V", Qt.KeyboardModifier.ControlModifier)
    assert dialog.edit.text() == f"{web.url}/demo.gguf"
    dialog.reject()
    assert not window.loading
    assert web.asked == []


def test_an_address_can_be_typed_into_the_search(
    qtbot: QtBot, window: MainWindow, web: Web
) -> None:
    window.settings.set_note("address_hosts", web.url.partition("://")[2])
    window.actions_.go_to.trigger()
    dialog = window.findChild(QuickOpen)
    assert isinstance(dialog, QuickOpen)
    dialog.edit.setText(f"{web.url}/demo.gguf")
    qtbot.waitUntil(lambda: [one.kind for one in dialog.found.entries] == [ResultKind.ADDRESS])
    assert web.asked == []
    qtbot.keyClick(dialog.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(window.documents) == 1)


def test_a_report_says_what_it_would_fetch(
    qtbot: QtBot, window: MainWindow, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MUCH", 1000)
    open_demo(qtbot, window, web)
    target = tmp_path / "report.html"
    monkeypatch.setattr(FileSaver, "ask_path", lambda *_args: target)
    asked: list[str] = []
    answer(press_cancel, asked)
    ask_report(window.panels)
    assert "fetches" in asked[0]
    assert not target.exists()
    answer(press_read, asked)
    ask_report(window.panels)
    qtbot.waitUntil(lambda: target.exists() and not window.runner.jobs, timeout=60_000)
    assert "demo.gguf" in target.read_text()


def open_demo(qtbot: QtBot, window: MainWindow, web: Web) -> None:
    """Open the server's model as one that the user has agreed to read."""
    window.settings.set_note("address_hosts", web.url.partition("://")[2])
    window.open_paths([parse_address(web.url + "/demo.gguf")])
    qtbot.waitUntil(lambda: len(window.documents) == 1 and not window.runner.jobs)


def test_a_survey_says_what_it_would_fetch(
    qtbot: QtBot, window: MainWindow, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MUCH", 1000)
    open_demo(qtbot, window, web)
    window.panels.setCurrentWidget(window.panels.survey)
    session = window.panels.survey.widget.session
    qtbot.waitUntil(lambda: not window.runner.jobs)
    asked: list[str] = []
    answer(press_cancel, asked)
    session.start()
    assert "fetches" in asked[0]
    assert session.progress is None
    answer(press_read, asked)
    session.start()
    qtbot.waitUntil(lambda: not window.runner.jobs and not session.missing, timeout=60_000)


def test_no_weights_are_fetched_before_a_tensor_is_chosen(
    qtbot: QtBot, window: MainWindow, web: Web
) -> None:
    open_demo(qtbot, window, web)
    web.asked.clear()
    for page in ("weights", "errors"):
        window.panels.show_page(page)
        qtbot.waitUntil(lambda: not window.runner.jobs)
        assert not window.panels.selection.rows
    assert web.asked == []
    window.panels.show_page("weights")
    tensors = list(window.documents[0].model.tensors.rows)
    last = max(range(len(tensors)), key=lambda row: tensors[row].offset)  # not near the header
    window.panels.selection.select_tensors([last])
    qtbot.waitUntil(lambda: bool(web.asked))
    qtbot.waitUntil(lambda: not window.runner.jobs)


def test_weights_of_a_large_tensor_are_fetched_when_one_agrees(
    qtbot: QtBot, window: MainWindow, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MUCH", 1000)
    open_demo(qtbot, window, web)
    tensors = list(window.documents[0].model.tensors.rows)
    last = max(range(len(tensors)), key=lambda row: tensors[row].offset)
    assert tensors[last].nbytes > 1000
    web.asked.clear()
    window.panels.show_page("weights")
    window.panels.selection.select_tensors([last])
    weights = window.panels.weights.widget
    state = weights.histogram.state
    qtbot.waitUntil(lambda: state.isVisible() and not window.runner.jobs)
    assert "127.0.0.1" in state.sentence.text()
    assert bytes_text(tensors[last].nbytes) in state.button.text()
    assert web.asked == []
    window.panels.show_page("what_if")
    what_if = window.panels.what_if.widget
    qtbot.waitUntil(lambda: what_if.estimate is not None and not window.runner.jobs)
    asked: list[str] = []
    answer(press_cancel, asked)
    what_if.start()  # what is small is measured by itself, but not if it is fetched for that
    assert len(asked) == 1
    assert web.asked == []
    window.panels.show_page("weights")
    qtbot.mouseClick(state.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: weights.histogram.result is not None and not window.runner.jobs)
    assert web.asked
    web.asked.clear()
    window.panels.show_page("what_if")
    what_if.start()
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert len(asked) == 1


def test_searches_and_saving_say_what_they_would_fetch(
    qtbot: QtBot, window: MainWindow, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the bytes of a file, for a block of a tensor, and all values of one."""
    monkeypatch.setattr(addresses, "MUCH", 100)
    open_demo(qtbot, window, web)
    tensors = list(window.documents[0].model.tensors.rows)
    quantized = [row for row, one in enumerate(tensors) if one.type.block_weights > 1]
    last = max(quantized, key=lambda row: tensors[row].offset)
    window.panels.selection.select_tensors([last])
    window.panels.show_page("raw")
    raw = window.panels.raw.widget
    qtbot.waitUntil(lambda: not window.runner.jobs)
    raw.search.mode.setCurrentIndex(raw.search.mode.findData("text"))
    raw.search.edit.setText("nowhere in the file")
    web.asked.clear()
    asked: list[str] = []
    answer(press_cancel, asked)
    raw.find_next(forward=True)
    assert "on to the end, which fetches" in asked[0]
    assert not raw.search.busy
    window.panels.show_page("weights")
    weights = window.panels.weights.widget
    weights.tabs.setCurrentWidget(weights.block_page)
    qtbot.waitUntil(lambda: not window.runner.jobs)
    answer(press_cancel, asked)
    weights.block_page.bar.largest.click()
    weights.tabs.setCurrentWidget(weights.values)
    qtbot.waitUntil(lambda: not window.runner.jobs)
    answer(press_cancel, asked)
    weights.values.ask_export()
    assert len(asked) == 3
    window.panels.show_page("raw")
    answer(press_read, asked)
    raw.find_next(forward=True)
    qtbot.waitUntil(lambda: not window.runner.jobs)
    raw.find_next(forward=False)  # of one file it is asked once
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert len(asked) == 4


@pytest.mark.slow
@pytest.mark.network
def test_pages_of_a_real_model_fetch_what_was_promised(
    qtbot: QtBot, window: MainWindow, web: Web, real_model: Path
) -> None:
    """Overview, planner and all that the header says: 3 requests, 8 MiB; then one histogram."""
    window.settings.set_note("address_hosts", web.url.partition("://")[2])
    window.open_paths([parse_address(web.put("/real.gguf", real_model.read_bytes()))])
    qtbot.waitUntil(lambda: len(window.documents) == 1 and not window.runner.jobs, timeout=60_000)
    for page in ("overview", "metadata", "tensors", "vocabulary"):
        window.panels.show_page(page)
        qtbot.waitUntil(lambda: not window.runner.jobs, timeout=60_000)
    window.panels.show_group("planner")
    qtbot.waitUntil(lambda: not window.runner.jobs, timeout=60_000)
    assert len(web.asked) <= 3
    assert web.sent <= 8 << 20
    web.asked.clear()
    tensors = list(window.documents[0].model.tensors.rows)
    row = [one.name for one in tensors].index("blk.0.ffn_down.weight")
    window.panels.selection.select_tensors([row])
    window.panels.show_page("weights")
    histogram = window.panels.weights.widget.histogram
    qtbot.waitUntil(
        lambda: histogram.result is not None and not window.runner.jobs, timeout=120_000
    )
    assert 0 < web.sent <= tensors[row].nbytes + (2 << 20)


@pytest.mark.parametrize("what", ["header", "weights", "list"])
def test_what_waits_for_a_server_ends_at_once(
    qtbot: QtBot, window: MainWindow, web: Web, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Cancelled in the status bar, or with the window, while the server says nothing."""
    monkeypatch.setenv("HF_ENDPOINT", web.url)
    reached, over = threading.Event(), threading.Event()

    def never_answers(*_: object) -> None:
        reached.set()
        over.wait(PATIENCE_S)

    open_demo(qtbot, window, web)
    for path in ("/demo.gguf", "/silent.gguf", "/api/models/o/n/revision/main"):
        web.routes[path] = never_answers

    def begin() -> None:
        reached.clear()
        if what == "weights":
            tensors = list(window.documents[0].model.tensors.rows)
            last = max(range(len(tensors)), key=lambda row: tensors[row].offset)
            window.panels.show_page("weights")
            window.panels.selection.select_tensors([])
            window.panels.selection.select_tensors([last])
        else:
            address = f"{web.url}/silent.gguf" if what == "header" else "hf://o/n"
            window.open_paths([parse_address(address)])
        qtbot.waitUntil(reached.is_set)

    begin()
    began = time.monotonic()
    for job in list(window.runner.jobs):
        job.cancel()
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert time.monotonic() - began < SOON_S
    begin()
    began = time.monotonic()
    window.close()
    assert time.monotonic() - began < SOON_S  # it saves the session, too
    over.set()


# lists of models

CTRL_SHIFT = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
GPU = Device("0", "CUDA", 3 << 20, name="a small GPU", total=3 << 20)


@pytest.fixture
def quantizations(tmp_path: Path) -> dict[str, bytes]:
    """The files of a repository: one model in three types, one of them in a folder."""
    found = {"README.md": b"text", "mmproj.gguf": b"GGUF"}
    for name in ("Q8_0", "Q4_K", "BF16"):
        shape = Shape(blocks=2, width=256, feed_forward=512, heads=4, kv_heads=2, kind=name)
        data = shape.write(tmp_path / "model.gguf").read_bytes()
        found[f"{'large/' if name == 'BF16' else ''}model-{name}.gguf"] = data
    return found


@pytest.fixture
def hub(
    web: Web,
    window: MainWindow,
    quantizations: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Web:
    """A hub that the user agreed to, with these files as owner/models."""
    monkeypatch.setenv("HF_ENDPOINT", web.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no hub"))
    add_hub(web, "owner/models", quantizations)
    window.settings.set_note("address_hosts", web.url.partition("://")[2])
    window.panels.machine.plan_for(PlanInputs(devices=(GPU,), host=Host(1 << 30, 0)))
    return web


def versions(dialog: VersionsDialog) -> dict[int, Version]:
    """Return what is known of the models, by their places."""
    known = {place: choice.version for place, choice in enumerate(dialog.choices)}
    return {place: version for place, version in known.items() if version is not UNREAD}


def shown_list(qtbot: QtBot, window: MainWindow, address: str) -> VersionsDialog:
    """Open an address of several models; return the list of them."""
    window.open_paths([parse_address(address)])
    qtbot.waitUntil(lambda: isinstance(QApplication.activeModalWidget(), VersionsDialog))
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, VersionsDialog)
    qtbot.waitUntil(dialog.table.hasFocus)
    return dialog


def cells(dialog: VersionsDialog) -> list[list[str]]:
    """Return the texts of the list as it is shown."""
    model = dialog.table.table
    count = model.columnCount()
    return [
        [model.index(row, column).data() for column in range(count)]
        for row in range(model.rowCount())
    ]


def test_a_repository_opens_as_a_list_of_what_fits(
    qtbot: QtBot, window: MainWindow, hub: Web, quantizations: dict[str, bytes]
) -> None:
    dialog = shown_list(qtbot, window, "hf://owner/models")
    qtbot.waitUntil(lambda: len(versions(dialog)) == 3 and not window.runner.jobs)
    rows = cells(dialog)
    assert [row[0] for row in rows] == [
        "model-Q4_K.gguf",
        "model-Q8_0.gguf",
        "large/model-BF16.gguf",
    ]
    assert [row[2] for row in rows][1:] == ["8.518", "16.012"]
    assert all(row[1] and row[3] for row in rows)
    assert elided(dialog.table) == []
    assert dialog.table.horizontalScrollBar().maximum() == 0
    assert dialog.table.horizontalHeader().hiddenSectionCount() == 0
    for place, choice in enumerate(dialog.choices):  # as the planner says of the opened model
        assert choice.listed == len(quantizations[choice.name])
        assert versions(dialog)[place].fit.engine == "llama.cpp"
        assert cells(dialog)[place][3] == versions(dialog)[place].fit.state
    assert "a small GPU" in dialog._target.text()
    assert dialog.advice.text() == "None of them fits with 8k tokens, f16 cache."
    assert not dialog._read_button.isVisible()
    fetched = hub.sent
    dialog.table.sortByColumn(1, Qt.SortOrder.DescendingOrder)
    assert cells(dialog)[0][0] == "large/model-BF16.gguf"
    assert hub.sent == fetched
    dialog.table.select_row(2)
    qtbot.keyClick(dialog.table, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    path = f"hf://owner/models@{COMMIT}/large/model-BF16.gguf"
    assert str(window.documents[0].path) == path
    window.actions_.copy_download.trigger()
    command = f"hf download owner/models large/model-BF16.gguf --revision {COMMIT}"
    assert QGuiApplication.clipboard().text() == command


def test_commands_that_download_are_shown_and_copied(
    qtbot: QtBot, window: MainWindow, hub: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialog = shown_list(qtbot, window, "hf://owner/models")
    qtbot.waitUntil(lambda: len(versions(dialog)) == 3)
    dialog.table.select_row(0)
    first = f"hf download owner/models model-Q4_K.gguf --revision {COMMIT}"
    assert dialog.command.text() == first
    dialog.table.selectAll()
    assert dialog.command.text() == ""
    assert "3" in dialog.command.placeholderText()
    groups: list[list[QAction]] = []
    monkeypatch.setattr(
        "explorer.qt.library.versions.show_menu", lambda _owner, _place, *all_: groups.extend(all_)
    )
    dialog.table.customContextMenuRequested.emit(QPoint(5, 5))
    assert dialog.copy_action in groups[0]
    qtbot.keyClick(dialog.table, "D", CTRL_SHIFT)
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 3
    assert first in lines
    dialog.reject()


def test_many_headers_are_read_when_one_asks_and_can_be_stopped(
    qtbot: QtBot, window: MainWindow, hub: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MUCH", 1000)
    dialog = shown_list(qtbot, window, "hf://owner/models")
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert len(hub.asked) == 1  # the list
    assert "3 headers, 3.00 MiB to 24.0 MiB" in dialog._state.text()
    assert [row[2:] for row in cells(dialog)] == [["", "", "", ""]] * 3
    assert not dialog.advice.isVisible()
    dialog.table.select_row(1)
    qtbot.keyClick(dialog.table, Qt.Key.Key_F5)
    qtbot.waitUntil(lambda: list(versions(dialog)) == [1] and not window.runner.jobs)
    assert "2 headers" in dialog._state.text()
    hub.latency_s = 2.0
    qtbot.mouseClick(dialog._read_button, Qt.MouseButton.LeftButton)
    assert dialog._read_button.text() == "&Stop"
    assert "0 of 2" in dialog._state.text()
    qtbot.mouseClick(dialog._read_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert dialog._read_button.text() == "Read &headers"
    assert len(versions(dialog)) == 1
    hub.latency_s = 0.0
    dialog.read([0])
    dialog.reject()  # nothing goes on behind a list that is gone
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert not window.message_bar.isVisible()


def test_a_model_that_cannot_be_read_says_why(qtbot: QtBot, window: MainWindow, hub: Web) -> None:
    demo = demo_model().read_bytes()
    add_hub(hub, "owner/models", {"good.gguf": demo, "bad.gguf": b"x" * 99})
    dialog = shown_list(qtbot, window, "hf://owner/models")
    qtbot.waitUntil(lambda: len(versions(dialog)) == 2)
    bad = cells(dialog)[0]
    assert bad[0] == "bad.gguf"
    assert bad[3] == "⚠ Cannot be read"
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert "is not a GGUF file" in dialog._state.text()  # of the selected one
    dialog.table.select_row(1)
    assert dialog._state.text() == versions(dialog)[1].fit.sentence
    assert cells(dialog)[1][2]
    dialog.reject()


def test_the_tags_of_a_name_are_a_list_where_the_registry_has_one(
    qtbot: QtBot, window: MainWindow, hub: Web
) -> None:
    demo = demo_model().read_bytes()
    for tag in ("1b", "latest"):
        add_registry(hub, "library/demo", {"model": demo}, tag=tag)
    host = hub.url.removeprefix("http://")
    name = f"ollama://{host}/library/demo"
    window.open_paths([parse_address(name)])  # it lists none: the latest, as Ollama does
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    window.close_document(window.documents[0])
    hub.put("/v2/library/demo/tags/list", b'{"name": "library/demo", "tags": ["latest", "1b", ""]}')
    dialog = shown_list(qtbot, window, name)
    qtbot.waitUntil(lambda: len(versions(dialog)) == 2)
    assert [row[0] for row in cells(dialog)] == ["demo:1b", "demo:latest"]
    assert all(row[1] and row[2] for row in cells(dialog))
    assert dialog.command.text() == f"ollama pull {host}/library/demo:1b"
    dialog.table.row_opened.emit(0)
    qtbot.waitUntil(lambda: len(window.documents) == 1)
    assert str(window.documents[0].path) == f"{name}:1b"
