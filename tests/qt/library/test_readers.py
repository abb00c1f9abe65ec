"""Background work of the panel: what comes first, what gives way, what changes are worth a scan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from explorer.qt.jobs import JobRunner
from explorer.qt.library import commands
from explorer.qt.library.readers import EntryReader, FolderWatch
from explorer.qt.settings import Settings
from explorer.stores.entries import Entry
from explorer.stores.library import Details
from tests.helpers.patience import PATIENCE_S
from tests.helpers.services import RecordingServices

_ENTRIES = [Entry(f"m{number}", Path(f"/m{number}"), "gguf", 1, 1.0) for number in range(6)]


@pytest.fixture
def owner(qapp: object) -> QObject:
    return QObject()


def _read(
    qtbot: QtBot, runner: JobRunner, owner: QObject, on_first: Callable[[EntryReader[Any]], None]
) -> list[str]:
    """Read all entries; return the order in which they were opened."""
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def open_one(entry: Entry, _check: object) -> Details:
        order.append(entry.name)
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return Details(entry.name)

    reader = EntryReader(runner, "Reading", lambda: nullcontext(open_one), owner)
    found: list[object] = []
    reader.found.connect(found.extend)
    with qtbot.waitSignal(reader.finished):
        reader.read(_ENTRIES)
        assert begun.wait(PATIENCE_S)
        on_first(reader)
        go_on.set()
    qtbot.waitUntil(lambda: not runner.jobs)
    assert [entry.name for entry, _ in found] == order  # type: ignore[attr-defined,misc]
    return order


def test_models_in_sight_are_opened_first(qtbot: QtBot, runner: JobRunner, owner: QObject) -> None:
    def scroll(reader: EntryReader[Any]) -> None:
        reader.prefer([_ENTRIES[5], _ENTRIES[0], _ENTRIES[3]])  # the first one is read already
        reader.prefer([_ENTRIES[4], _ENTRIES[3]])

    order = _read(qtbot, runner, owner, scroll)
    assert order == ["m0", "m4", "m3", "m5", "m1", "m2"]


def test_a_cancelled_reading_keeps_what_it_found(
    qtbot: QtBot, runner: JobRunner, owner: QObject
) -> None:
    order = _read(qtbot, runner, owner, lambda _: runner.cancel_all())
    assert order == ["m0"]


def test_many_changes_are_reported_once(qtbot: QtBot, owner: QObject, tmp_path: Path) -> None:
    watch = FolderWatch(owner)
    times: list[int] = []
    watch.changed.connect(lambda: times.append(1))
    watch.watch([tmp_path])
    assert watch.folders == [str(tmp_path)]
    with qtbot.waitSignal(watch.changed):
        for number in range(50):
            (tmp_path / str(number)).write_text("x")
    assert times == [1]
    watch.watch([])
    assert watch.folders == []
    watch.stop()


def test_a_slow_scan_is_not_begun_again_at_once(owner: QObject) -> None:
    watch = FolderWatch(owner)
    paces = []
    for seconds in (0.0, 2.0, 1000.0):
        watch.set_pace(seconds)
        paces.append(watch._timer.interval())
    assert paces == [500, 10_000, 30_000]


def test_a_file_is_shown_in_its_folder_and_a_folder_in_itself(
    qtbot: QtBot, app: RecordingServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    shown: list[Path] = []
    monkeypatch.setattr(commands, "reveal", lambda _path, folder: shown.append(folder))
    for path in (tmp_path / "file", tmp_path, tmp_path / "gone" / "file"):
        commands.show_in_folder(app, path)
        qtbot.waitUntil(lambda: not app.runner.jobs)
    assert shown == [tmp_path, tmp_path, tmp_path / "gone"]


def test_folders_of_the_user_are_remembered(settings_file: Path) -> None:
    settings = Settings(settings_file)
    assert settings.library_folders == []
    settings.library_folders = [Path("/one"), Path("/two, three")]
    assert Settings(settings_file).library_folders == [Path("/one"), Path("/two, three")]
    assert Settings(settings_file, fresh=True).library_folders == []
