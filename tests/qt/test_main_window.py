"""The window as a person uses it: opening, closing, keys, linked panels, what goes wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import QMimeData, QPointF, QSize, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QPushButton, QTabWidget, QWidget
from pytestqt.qtbot import QtBot

from explorer.present.panels import GROUPS, PANELS, panels_of
from explorer.present.tables.quants import UNREAD
from explorer.qt.app import _open_first
from explorer.qt.document import Document
from explorer.qt.help.guide import KEYS_PAGE
from explorer.qt.library.versions import VersionsDialog
from explorer.qt.machine import PlannedMachine
from explorer.qt.main_window import MainWindow, take_first_size
from explorer.qt.planner.devices import CatalogueDialog, MachineDialog
from explorer.qt.quick_open import QuickOpen
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme, apply_scheme, apply_text_size, is_dark
from explorer.qt.widgets.progress import JobBar
from tests.helpers.gguf_writer import STRING, GgufFile, TensorSpec
from tests.helpers.safetensors_writer import write_tensors
from tests.helpers.window import wait_idle

ALT, CONTROL = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ControlModifier
NONE = Qt.KeyboardModifier.NoModifier


def drop(window: MainWindow, *paths: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    event = QDropEvent(
        QPointF(9, 9), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, ALT
    )
    window.dropEvent(event)


def quick_open(qtbot: QtBot, window: MainWindow, text: str) -> QuickOpen:
    window.activateWindow()  # a dialog that was closed leaves it to the window system
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_K, CONTROL)
    dialog = window.findChildren(QuickOpen)[-1]
    qtbot.keyClicks(dialog.edit, text)
    return dialog


def go_to(qtbot: QtBot, window: MainWindow, text: str) -> None:
    dialog = quick_open(qtbot, window, text)
    with qtbot.waitSignal(dialog.finished):
        qtbot.keyClick(dialog.edit, Qt.Key.Key_Return)


def tree_text(window: MainWindow) -> str:
    return str(window.open_models.tree.currentIndex().data())


def test_numbers_choose_groups_and_pages(qtbot: QtBot, window: MainWindow) -> None:
    window.resize(1280, 800)  # in a narrow window the tree hides itself
    qtbot.waitUntil(window.open_models.isVisible)
    pages = (*panels_of("model"), "compare", "weights", "errors", "survey")
    for number, page in enumerate(pages, 1):
        qtbot.keyClick(window, Qt.Key(Qt.Key.Key_0 + number), CONTROL)
        assert window.panels.page == page
    for number, group in enumerate(GROUPS, 1):
        qtbot.keyClick(window, Qt.Key(Qt.Key.Key_0 + number), ALT)
        assert window.panels.group == group
        assert window.shell.rail.currentIndex() == number - 1
        assert window.open_models.isVisible() is (group != "library")
    qtbot.keyClick(window, Qt.Key.Key_4, ALT)
    assert window.panels.page == "errors"  # the page of the group that was there last
    wait_idle(qtbot, window)


def test_rail_and_head_choose_what_is_in_front(qtbot: QtBot, window: MainWindow) -> None:
    shell = window.shell
    for place, group in enumerate(GROUPS):
        qtbot.mouseClick(
            shell.rail, Qt.MouseButton.LeftButton, pos=shell.rail.tabRect(place).center()
        )
        assert window.panels.group == group
        assert shell.head.pages.isVisible() is (len(panels_of(group)) > 1)
        for number, page in enumerate(panels_of(group) if len(panels_of(group)) > 1 else ()):
            middle = shell.head.pages.tabRect(number).center()
            qtbot.mouseClick(shell.head.pages, Qt.MouseButton.LeftButton, pos=middle)
            assert window.panels.page == page
    wait_idle(qtbot, window)


def test_the_head_names_the_model_and_the_tensor(qtbot: QtBot, window: MainWindow) -> None:
    document = window.documents[0]
    for page in ("weights", "errors"):
        window.panels.selection.select_tensors([3])
        window.panels.show_page(page)
        head = window.shell.head
        assert head.above.text() == document.title
        assert head.title.text() == document.model.tensors.columns.names[3]
    window.shell.head.above.click()
    assert window.panels.page == "overview"
    assert window.shell.head.title.text() == document.title
    wait_idle(qtbot, window)


def test_weights_and_errors_show_the_largest_tensor_at_once(
    qtbot: QtBot, window: MainWindow
) -> None:
    arrays = window.documents[0].arrays
    for page in ("weights", "errors"):
        window.panels.show_page("overview")
        window.panels.selection.select_tensors([])
        assert window.panels.selection.rows == ()
        window.panels.show_page(page)
        (row,) = window.panels.selection.rows
        assert arrays.nbytes[row] == arrays.nbytes.max()
    wait_idle(qtbot, window)


def test_the_status_bar_names_the_machine_and_a_click_changes_it_on_any_page(
    qtbot: QtBot, settings: Settings
) -> None:
    window = MainWindow(settings)  # without a model
    qtbot.addWidget(window)
    window.show()
    window.bottom.machine.show_machine()
    qtbot.waitUntil(lambda: "main memory" in window.bottom.machine.text())
    assert window.bottom.machine.text() == window.panels.machine.text
    for page, title in (("overview", "Start"), ("planner", "Planner"), ("library", "Library")):
        window.panels.show_page(page)
        assert window.shell.head.title.text() == title
    wait_idle(qtbot, window)
    window.bottom.machine.click()
    (dialog,) = window.findChildren(MachineDialog)
    qtbot.waitUntil(dialog.isVisible)
    wait_idle(qtbot, window)
    dialog.devices.ram.setFocus()
    qtbot.keyClick(dialog.devices.ram, Qt.Key.Key_Return)  # takes a value, and closes nothing
    dialog.devices.add.setFocus()
    qtbot.keyClick(dialog.devices.add, Qt.Key.Key_Return)
    (catalogue,) = dialog.findChildren(CatalogueDialog)
    qtbot.keyClicks(catalogue.search.edit, "2x 4070")
    wait_idle(qtbot, window)
    qtbot.keyClick(catalogue.search.edit, Qt.Key.Key_Return)
    assert [each.name for each in window.panels.machine.devices] == [
        "NVIDIA GeForce RTX 4070",
        "NVIDIA GeForce RTX 4070",
    ]
    assert "RTX 4070" in window.bottom.machine.text()
    head = window.shell.head.machine
    assert "8k tokens, f16 cache" in head.text()
    dialog.context.setValue(32768)
    dialog.cache_type.setCurrentText("q8_0")
    assert "32k tokens, q8_0 cache" in head.text()
    assert window.panels.library.widget.target == window.panels.machine.target()
    again = PlannedMachine(window.panels.app, settings)
    assert again.target().settings == window.panels.machine.target().settings
    catalogue.close()
    dialog.devices.ram.size_chosen.emit(None)
    assert window.panels.machine.host is None
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert window.panels.page == "library"
    wait_idle(qtbot, window)


def test_the_tree_is_hidden_and_shown(qtbot: QtBot, window: MainWindow) -> None:
    window.resize(1280, 800)
    qtbot.waitUntil(window.open_models.isVisible)
    qtbot.keyClick(window, Qt.Key.Key_B, CONTROL)
    assert not window.open_models.isVisible()
    window.panels.show_page("tensors")
    assert not window.open_models.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_B, CONTROL)
    assert window.open_models.isVisible()
    wait_idle(qtbot, window)


def test_models_are_dropped_shown_and_closed(
    qtbot: QtBot, window: MainWindow, small_path: Path
) -> None:
    drop(window, small_path)
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    assert "twelve.gguf" in window.windowTitle()
    assert window.panels.tensors.widget.model.rowCount() == 12
    qtbot.keyClick(window, Qt.Key.Key_W, CONTROL)
    assert len(window.documents) == 1
    assert window.panels.tensors.widget.model.rowCount() == 22
    qtbot.keyClick(window, Qt.Key.Key_W, CONTROL)
    assert window.current is None
    assert window.panels.tensors.widget.model.rowCount() == 0
    assert window.windowTitle() == "GGUF Explorer"


def test_a_closed_model_leaves_its_neighbour_selected(
    qtbot: QtBot, window: MainWindow, small_path: Path
) -> None:
    first = window.documents[0]
    drop(window, small_path)
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    window.reveal_model(first)
    qtbot.keyClick(window, Qt.Key.Key_W, CONTROL)
    assert "twelve.gguf" in tree_text(window)
    assert window.current is window.documents[0]


@pytest.mark.parametrize(
    ("asked", "panel", "title"),
    [
        ("histogram", "weights", "Histogram"),
        ("worst tensors", "survey", "Worst tensors"),
        ("texts", "compare", "Texts"),
        ("density", "errors", "Rounding"),  # there are no pictures without an original
        ("use it", "planner", "Use it"),
        ("one tensor", "errors", "Rounding"),
        ("summary", "compare", ""),
    ],
)
def test_a_page_is_found_by_its_own_title_alone(
    qtbot: QtBot, window: MainWindow, asked: str, panel: str, title: str
) -> None:
    go_to(qtbot, window, asked)
    qtbot.waitUntil(lambda: window.panels.page == panel)
    wait_idle(qtbot, window)
    tabs = window.panels.currentWidget().findChildren(QTabWidget)
    shown = [one.tabText(one.currentIndex()) for one in tabs]
    assert not title or title in shown


def test_titles_of_tabs_are_those_of_the_table(qtbot: QtBot, window: MainWindow) -> None:
    for name, panel in PANELS.items():
        window.panels.show_page(name)
        wait_idle(qtbot, window)
        offered = window.panels.offered_tabs(name)
        assert set(offered) <= set(panel.tabs)
        assert bool(offered) == bool(panel.tabs)


def test_no_panel_makes_the_window_large_and_names_stay(qtbot: QtBot, window: MainWindow) -> None:
    for number in range(window.panels.count()):
        window.panels.setCurrentIndex(number)
        wait_idle(qtbot, window)
        least = window.minimumSizeHint()
        assert least.width() <= 640
        assert least.height() <= 420
    window.resize(640, 420)
    window.actions_.show_tree.trigger()
    window.splitter.setSizes([1, 639])
    header = window.open_models.tree.header()
    assert header.sectionSize(0) >= 100
    assert header.sectionSize(0) + header.sectionSize(1) <= window.open_models.width() + 2


def test_what_is_compared_takes_more_lines_in_a_narrow_window(
    qtbot: QtBot, make_window: Callable[..., MainWindow], small_path: Path
) -> None:
    copies = [small_path.with_name(name) for name in ("a.gguf", "b.gguf")]
    for copy in copies:
        shutil.copy(small_path, copy)
    window = make_window(small_path, *copies)
    original, other, _ = window.documents
    window.panels.references.choose_other(other)
    window.panels.references.choose(original)
    window.panels.show_page("error_map")
    wait_idle(qtbot, window)
    bar = window.panels.compare_bar()
    assert bar.scope.isVisible()
    assert window.minimumSizeHint().width() <= 640
    choices = bar.first, bar.second, bar.original, bar.matrix
    for width, lines in ((1280, 1), (640, 2)):
        window.resize(width, 700)
        qtbot.waitUntil(lambda lines=lines: len({one.y() for one in choices}) == lines)
        for part in (*choices, bar.swap, bar.scope):
            assert bar.rect().contains(part.geometry()), part
        assert max(one.geometry().right() for one in choices) > bar.width() - 9


def test_texts_grow_by_keys_with_and_without_shift(
    qtbot: QtBot, window: MainWindow, settings: Settings
) -> None:
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    control = Qt.KeyboardModifier.ControlModifier
    try:
        for key, percent in (
            (Qt.Key.Key_Plus, 110),
            (Qt.Key.Key_Equal, 120),
            (Qt.Key.Key_Minus, 110),
            (Qt.Key.Key_0, 100),
        ):
            qtbot.keyClick(window, key, control)
            assert settings.text_size == percent
        quits = [each.toString() for each in window.actions_.quit.shortcuts()]
        assert "Ctrl+Q" in quits
    finally:
        apply_text_size(100)
    wait_idle(qtbot, window)


def test_a_narrow_head_shortens_the_model_before_the_tensor_and_scrolls_its_pages(
    qtbot: QtBot, window: MainWindow
) -> None:
    head = window.shell.head
    window.panels.selection.select_tensors([3])
    window.panels.show_page("weights")
    name = window.documents[0].title
    window.resize(1280, 700)
    qtbot.waitUntil(lambda: head.above.text() == name)
    window.resize(680, 420)
    qtbot.waitUntil(lambda: "…" in head.above.text())
    assert head.above.accessibleName() == f"Model {name}"
    assert head.title.width() > head.above.width()
    window.panels.show_page("overview")
    last = head.pages.count() - 1
    assert not head.pages.rect().contains(head.pages.tabRect(last))
    window.actions_.pages["raw"].trigger()  # what is chosen is brought into sight
    assert head.pages.currentIndex() == last
    qtbot.waitUntil(lambda: head.pages.rect().contains(head.pages.tabRect(last).center()))
    wait_idle(qtbot, window)


def test_a_long_title_of_a_job_makes_the_window_no_wider(qtbot: QtBot, window: MainWindow) -> None:
    window.resize(640, 420)
    wait_idle(qtbot, window)
    go_on = Event()
    title = "Reading " + "a long name " * 20
    window.runner.run(title, lambda _job: go_on.wait(60), lambda _: None, lambda _: None)
    bar = window.bottom.findChild(JobBar)
    qtbot.waitUntil(bar.isVisible)
    QApplication.processEvents()
    assert window.width() == 640
    assert window.minimumSizeHint().width() < 640
    assert bar.cancel.isVisible()
    go_on.set()
    wait_idle(qtbot, window)


def test_the_first_window_fits_its_screen(qtbot: QtBot, settings: Settings) -> None:
    window = MainWindow(settings)
    qtbot.addWidget(window)
    room = window.screen().availableGeometry().size()
    assert room.width() < 1280  # of the offscreen platform
    assert window.width() <= room.width()
    assert window.height() <= room.height()
    assert window.isMaximized()


@pytest.mark.parametrize(
    ("room", "maximized"),
    [((1920, 1080), False), ((1366, 768), True), ((1280, 800), True), ((1290, 850), False)],
)
def test_the_frame_of_a_first_window_is_on_the_screen_too(
    qtbot: QtBot, room: tuple[int, int], maximized: bool
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    take_first_size(window, QSize(*room))
    assert window.isMaximized() is maximized
    assert window.width() <= room[0]
    assert window.height() <= room[1]


@pytest.mark.parametrize("content", [None, b"", b"GGUF", b"no model at all"])
def test_a_bad_file_is_told_and_the_others_stay(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "bad <b>.gguf"
    if content is not None:
        path.write_bytes(content)
    drop(window, path)
    qtbot.waitUntil(window.message_bar.isVisible)
    assert "bad <b>.gguf" in window.message_bar.messages[-1].label.text()
    assert window.message_bar.messages[-1].label.textFormat() is Qt.TextFormat.PlainText
    assert len(window.documents) == 1


def test_five_bad_files_are_five_errors(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    paths = [tmp_path / f"bad{number}.gguf" for number in range(5)]
    for number, path in enumerate(paths):
        path.write_bytes(b"GGUF"[:number])
    window.open_paths(paths)
    qtbot.waitUntil(lambda: len(window.message_bar.messages) == 5)
    told = [message.label.text() for message in window.message_bar.messages]
    assert all(any(str(path) in text for text in told) for path in paths)
    qtbot.waitUntil(lambda: all(m.visibleRegion() for m in window.message_bar.messages))


def test_a_model_is_opened_to_compare_the_current_one_with(
    qtbot: QtBot, window: MainWindow, small_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = window.current
    chosen = (str(small_path), "")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: chosen)
    window.panels.app.ask_reference()
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    assert window.current is current
    assert window.panels.references.chosen is window.documents[1]
    window.panels.references.choose(None)
    window.panels.app.ask_reference()  # it is open already
    assert window.panels.references.chosen is window.documents[1]
    assert len(window.documents) == 2
    window.close_document(window.documents[1])
    assert window.panels.references.chosen is None
    wait_idle(qtbot, window)


def test_pages_of_a_alone_say_so(
    qtbot: QtBot, window: MainWindow, small_path: Path, tmp_path: Path
) -> None:
    names = "second.gguf", "original.gguf"
    window.open_paths([shutil.copy(small_path, tmp_path / name) for name in names])
    qtbot.waitUntil(lambda: len(window.documents) == 3)
    references = window.panels.references
    second, original = (one for one in window.documents if one is not references.document)
    references.choose_other(second)
    references.choose(original)
    for page, alone in (("error_map", True), ("compare", False)):
        window.panels.show_page(page)
        assert window.panels.bar is not None
        assert window.panels.bar.scope.isVisibleTo(window) == alone
        caption = window.shell.picture_caption()
        assert (f"B: {second.title}" in caption) == (not alone)
        assert f"{original.title} ({original.facts.main_type})" in caption
        assert (f"against the original {original.title}" in caption) == alone
    first = references.document
    window.panels.show_page("error_map")
    window.panels.compare_bar().swap.click()
    qtbot.waitUntil(lambda: references.document is second)
    assert (references.other, references.original) == (first, original)
    assert window.panels.page == "error_map"
    wait_idle(qtbot, window)


def test_quick_open_goes_to_a_tensor_a_key_and_a_model(
    qtbot: QtBot, window: MainWindow, small_path: Path
) -> None:
    window.top.open.setFocus()
    go_to(qtbot, window, "blk.1.ffn_d")
    assert window.panels.tensors.widget.table.selected_content_rows().tolist() == [19]
    assert window.panels.currentWidget() is window.panels.tensors
    search = window.panels.tensors.widget.bar.edit
    qtbot.waitUntil(lambda: window.focusWidget() is search)  # Down leads to the tensor
    go_to(qtbot, window, "general name")
    assert window.panels.metadata.widget.list.table.selected_content_rows().tolist() == [2]
    assert window.panels.currentWidget() is window.panels.metadata
    drop(window, small_path)
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    go_to(qtbot, window, "Q4_0.gguf")
    assert window.current is window.documents[0]
    wait_idle(qtbot, window)


def test_quick_open_runs_a_command(qtbot: QtBot, window: MainWindow) -> None:
    go_to(qtbot, window, "keyboard shortcuts")
    qtbot.waitUntil(lambda: window.help.guide is not None)
    assert window.help.guide is not None
    assert window.help.guide.page == KEYS_PAGE
    window.help.guide.reject()


def test_quick_open_opens_models_of_the_library_and_recent_ones(
    qtbot: QtBot, window: MainWindow, settings: Settings, small_path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "downloads"
    folder.mkdir()
    shutil.copy(small_path, folder / "wonderful-12.gguf")
    settings.library_folders = [folder]
    settings.add_recent(small_path)
    for _ in range(2):  # from a worker's scan, then from what the library lists
        dialog = quick_open(qtbot, window, "wonderful")
        qtbot.waitUntil(lambda dialog=dialog: dialog.found.rowCount() == 1)
        assert dialog.found.index(0).data().startswith("wonderful-12")
        assert "(library — Folder · " in dialog.found.index(0).data()
        dialog.reject()
        window.panels.show_page("library")
        wait_idle(qtbot, window)
    go_to(qtbot, window, small_path.name)
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    dialog = quick_open(qtbot, window, "wonderful")
    qtbot.waitUntil(lambda: dialog.found.rowCount() == 1)
    qtbot.keyClick(dialog.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(window.documents) == 3)
    assert [document.path.name for document in window.documents[1:]] == [
        small_path.name, "wonderful-12.gguf",
    ]  # fmt: skip
    wait_idle(qtbot, window)


def test_quick_open_says_where_commands_stand_and_their_keys(
    qtbot: QtBot, window: MainWindow
) -> None:
    for text, shown in (
        ("close model", "Close model    (command — File · Ctrl+W)"),
        ("dark", "Dark    (command — View: Appearance)"),
        ("demo model", "Open demo model    (command — File)"),
        ("appearance", "As the system    (command — View: Appearance)"),  # by words of its menu
    ):
        dialog = quick_open(qtbot, window, text)
        qtbot.waitUntil(lambda dialog=dialog: not dialog._jobs.busy)
        qtbot.waitUntil(lambda dialog=dialog, shown=shown: dialog.found.index(0).data() == shown)
        dialog.reject()
    wait_idle(qtbot, window)


def test_quick_open_does_not_go_to_a_model_that_was_closed_meanwhile(
    qtbot: QtBot, window: MainWindow
) -> None:
    dialog = quick_open(qtbot, window, "blk.1.ffn_d")
    qtbot.waitUntil(lambda: dialog.found.rowCount() == 1)
    assert window.current is not None
    window.close_document(window.current)
    with qtbot.waitSignal(dialog.finished):
        qtbot.keyClick(dialog.edit, Qt.Key.Key_Return)
    assert window.current is None
    assert window.panels.tensors.widget.model.rowCount() == 0


def test_f1_lists_the_shortcuts(qtbot: QtBot, window: MainWindow) -> None:
    for keys, modifiers in ((Qt.Key.Key_F1, NONE), (Qt.Key.Key_Question, CONTROL)):
        qtbot.keyClick(window, keys, modifiers)
        guide = window.help.guide
        assert guide is not None
        shown = set(guide.text.toPlainText().split("\n"))
        assert {"Ctrl+K", "Ctrl+W", "F1", "Alt+3"} <= shown
        assert {"Go to", "Close model", "Guide", "Metadata"} <= shown
        guide.reject()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)


def test_find_focuses_the_field_of_the_tab(qtbot: QtBot, window: MainWindow) -> None:
    for number, edit in (
        (2, window.panels.metadata.widget.list.bar.edit),
        (3, window.panels.tensors.widget.bar.edit),
        (4, window.panels.vocabulary.widget.bar.edit),
    ):
        qtbot.keyClick(window, Qt.Key(Qt.Key.Key_0 + number), CONTROL)
        qtbot.keyClick(window, Qt.Key.Key_F, CONTROL)
        assert edit.hasFocus()
    wait_idle(qtbot, window)


def test_problems_of_a_model_are_counted_and_copied_all_of_them(
    make_window: Callable[..., MainWindow], tmp_path: Path
) -> None:
    names = [f"odd{number}." for number in range(60)]
    keys: list[tuple[str | bytes, int, object]] = [("general.architecture", STRING, "llama")]
    specs = [TensorSpec(name, (33 + 2 * place,), 2) for place, name in enumerate(names)]
    file = GgufFile(keys=keys, tensors=specs)  # like faults would be one
    window = make_window(file.write(tmp_path / "long.gguf"))
    window.panels.show_page("overview")
    view = window.panels.overview.widget
    count = len(window.documents[0].problems)
    assert count >= 60
    texts = [label.text() for label in view.findChildren(QLabel)]
    assert f"Problems: {count}" in texts
    assert f"and {count - 50} more" in texts
    copy = next(each for each in view.findChildren(QPushButton) if "opy all" in each.text())
    copy.click()
    lines = QApplication.clipboard().text().splitlines()
    assert len(lines) == count
    assert all(any(name in line for line in lines) for name in names)


def test_a_sound_model_is_said_to_be_checked(
    make_window: Callable[..., MainWindow], demo_path: Path
) -> None:
    window = make_window(demo_path)
    window.panels.show_page("overview")
    texts = [label.text() for label in window.panels.overview.widget.findChildren(QLabel)]
    assert "Checked: its structure is sound, for llama.cpp's reader too." in texts


def test_colours_switch_and_are_remembered(
    qtbot: QtBot, window: MainWindow, settings: Settings, qapp: QApplication
) -> None:
    try:
        for scheme, dark in ((Scheme.DARK, True), (Scheme.LIGHT, False)):
            window.actions_.schemes[scheme].trigger()
            assert is_dark(qapp.palette()) is dark
            assert settings.scheme is scheme
        wait_idle(qtbot, window)
    finally:
        apply_scheme(Scheme.SYSTEM)


def test_session_and_layout_are_remembered(
    make_window: Callable[..., MainWindow], demo_path: Path, settings: Settings
) -> None:
    first = make_window(demo_path)
    first.panels.tensors.widget.table.setColumnWidth(2, 321)  # names take the rest
    first.close()
    assert settings.session == [demo_path]
    assert settings.recent == [demo_path]
    second = make_window(demo_path)
    assert second.panels.tensors.widget.table.columnWidth(2) == 321


def test_page_tensor_reference_and_filter_are_remembered(
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    demo_path: Path,
    small_path: Path,
    settings: Settings,
) -> None:
    first = make_window(small_path, demo_path)
    first.panels.tensors.widget.bar.edit.setText("ffn")
    names = first.documents[1].model.tensors.columns.names
    row = next(row for row, name in enumerate(names) if "ffn" in name)  # else it clears the filter
    first.panels.selection.select_tensors([row])
    first.panels.references.choose(first.documents[0])
    first.panels.show_page("errors")
    wait_idle(qtbot, first)
    first.close()
    second = make_window(settings=settings)
    _open_first(second, [])
    qtbot.waitUntil(lambda: len(second.documents) == 2)
    wait_idle(qtbot, second)
    assert second.panels.page == "errors"
    assert second.current is not None
    assert second.current.path == demo_path
    assert second.panels.selection.rows == (row,)
    reference = second.panels.references.chosen
    assert isinstance(reference, Document)
    assert reference.path == small_path
    assert second.panels.tensors.widget.bar.text == "ffn"


def test_the_model_in_front_the_filter_of_the_library_and_splits_are_remembered(
    qtbot: QtBot,
    make_window: Callable[..., MainWindow],
    demo_path: Path,
    small_path: Path,
    settings: Settings,
) -> None:
    first = make_window(small_path, demo_path)
    first.resize(1200, 700)
    first.reveal_model(first.documents[0])
    first.panels.show_page("library")
    first.panels.library.widget.bar.edit.setText("fits:yes")
    first.panels.show_page("metadata")
    first.panels.metadata.widget.list.table.select_row(1)
    first.panels.selection.select_key(1, again=True)
    wait_idle(qtbot, first)
    first.splitter.setSizes([400, 700])
    first.panels.metadata.widget.splitter.setSizes([200, 300])
    tree, pages = first.splitter.sizes()
    above, below = first.panels.metadata.widget.splitter.sizes()
    assert below > 0
    first.panels.library.widget.watch.watch(())
    first.close()
    second = make_window(settings=settings)
    second.resize(1200, 700)
    _open_first(second, [])
    qtbot.waitUntil(lambda: len(second.documents) == 2)
    wait_idle(qtbot, second)
    assert second.panels.page == "metadata"
    assert second.current is not None
    assert second.current.path == small_path  # not the one that was opened last
    qtbot.waitUntil(lambda: second.splitter.sizes() == pytest.approx([tree, pages], abs=4))
    second.panels.selection.select_key(1, again=True)
    wait_idle(qtbot, second)
    sizes = second.panels.metadata.widget.splitter.sizes()
    assert sizes[1] / sum(sizes) == pytest.approx(below / (above + below), abs=0.05)
    second.panels.show_page("library")
    assert second.panels.library.widget.bar.text == "fits:yes"
    wait_idle(qtbot, second)
    second.panels.library.widget.watch.watch(())


def test_closing_while_a_model_is_opened(
    qtbot: QtBot, make_window: Callable[..., MainWindow], demo_path: Path
) -> None:
    window = make_window()
    window.open_paths([demo_path])
    assert window.runner.jobs
    window.close()
    qtbot.waitUntil(lambda: not window.runner.jobs)
    assert window.documents == []


def test_a_folder_of_several_models_lets_the_user_choose(
    qtbot: QtBot, window: MainWindow, small_path: Path, tmp_path: Path, settings: Settings
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    write_tensors(folder / "lora-a.safetensors", ("x", "U8", [1]))
    write_tensors(folder / "lora-b.safetensors", ("y", "U8", [1]))
    shutil.copy(small_path, folder / "twelve.gguf")

    def ask() -> VersionsDialog:
        window.open_paths([folder])
        qtbot.waitUntil(lambda: isinstance(QApplication.activeModalWidget(), VersionsDialog))
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, VersionsDialog)
        qtbot.waitUntil(lambda: all(one.version is not UNREAD for one in dialog.choices))
        return dialog

    dialog = ask()
    names = ["lora-a.safetensors", "lora-b.safetensors", "twelve.gguf"]
    assert [one.name for one in dialog.choices] == names
    assert not dialog.advice.text()  # they are not quants of one model
    dialog.table.select_row(2)
    qtbot.keyClick(dialog.table, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(window.documents) == 2)
    assert window.current is not None
    assert window.current.path == folder / "twelve.gguf"
    dialog = ask()
    dialog.table.selectAll()
    qtbot.mouseClick(dialog.open_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(window.documents) == 4)
    qtbot.mouseClick(ask().add_button, Qt.MouseButton.LeftButton)
    assert settings.library_folders == [folder]
    assert window.panels.currentWidget() is window.panels.library
    wait_idle(qtbot, window)
    window.panels.library.widget.watch.watch(())
    assert not window.message_bar.isVisible()  # it was no fault


def test_the_library_says_which_machine_its_models_fit(qtbot: QtBot, window: MainWindow) -> None:
    button = window.shell.head.machine
    assert not button.isVisible()
    window.panels.show_page("library")
    qtbot.waitUntil(lambda: "main memory" in button.text())
    assert button.isVisible()
    machine = window.panels.machine
    asked = machine.target().asked_text
    assert button.text() == f"Plan for: {machine.text} · {asked} · change…"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    (dialog,) = window.findChildren(MachineDialog)
    dialog.close()
    window.panels.show_page("overview")
    assert not button.isVisible()
    wait_idle(qtbot, window)


def test_what_stands_beside_a_page_follows_the_size_of_text(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.showNormal()
    window.resize(1600, 800)
    window.panels.show_page("weights")
    wait_idle(qtbot, window)
    panel = window.panels.weights.widget.histogram.panel
    header = panel.table.horizontalHeader()

    def widths() -> list[int]:
        return [window.splitter.sizes()[0], panel.splitter.sizes()[1], header.sectionSize(1)]

    usual = widths()
    try:
        for _ in range(3):
            window.actions_.larger.trigger()
        wider = pytest.approx([1.3 * width for width in usual], rel=0.05)
        qtbot.waitUntil(lambda: widths() == wider)
        window.panels.show_page("library")  # without the tree
        window.actions_.usual.trigger()
        window.panels.show_page("weights")
        qtbot.waitUntil(lambda: widths() == pytest.approx(usual, rel=0.05))
    finally:
        apply_text_size(100)
    wait_idle(qtbot, window)
