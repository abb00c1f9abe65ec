"""Fixtures of the window's tests: settings of their own, and nothing left running behind a test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QProcess, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from explorer.qt.document import Document, load_document
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings
from explorer.qt.theme import Scheme, apply_scheme
from tests.helpers.demo import copy_demo
from tests.helpers.gguf_writer import ARRAY, I32, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.leftovers import leftovers
from tests.helpers.patience import PATIENCE_MS
from tests.helpers.reading import Reading
from tests.helpers.services import RecordingServices
from tests.helpers.window import HOSTILE, wait_idle


@pytest.fixture(autouse=True)
def clean_up_check(qapp: QApplication) -> Iterator[None]:
    """Fail a test that leaves a thread, an active timer or a visible window behind.

    Qt takes Ctrl for held after a test that pressed Ctrl+Z last: a click would then not select.
    """
    if qapp.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
        QTest.keyClick(QWidget(), Qt.Key.Key_Shift)
    assert qapp.keyboardModifiers() == Qt.KeyboardModifier.NoModifier
    yield
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert leftovers(qapp) == []


@pytest.fixture(scope="session", autouse=True)
def own_style(qapp: QApplication) -> None:
    """Draw controls as the program does, from the first widget on."""
    qapp.setStyle("Fusion")
    apply_scheme(Scheme.SYSTEM)


@pytest.fixture(scope="session", autouse=True)
def kernel_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have one folder for compiled kernels, that of `tests/conftest.py` if it could choose one.

    The next fixture moves the user's cache with each test: kernels would be compiled again and
    again.
    """
    if not os.environ.get("NUMBA_CACHE_DIR"):
        base = tmp_path_factory.getbasetemp()
        shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        folder = shared / "kernels"
        folder.mkdir(0o700, exist_ok=True)
        os.environ["NUMBA_CACHE_DIR"] = str(folder)


@pytest.fixture(autouse=True)
def patient_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a closing runner wait for a worker that compiles a kernel, which nothing interrupts."""
    monkeypatch.setattr("explorer.qt.jobs._CLOSE_WAIT_MS", PATIENCE_MS)


@pytest.fixture
def refusals() -> None:
    """Have problems name what llama.cpp will not load."""


@pytest.fixture(autouse=True)
def no_refusals(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Take small models, which lack most of their tensors, for whole, unless a test asks."""
    if "refusals" not in request.fixturenames:
        monkeypatch.setattr(
            "explorer.planner.engines.llama_cpp.refusals.refusal_of", lambda _model: ""
        )


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have plans made at once on any machine: a slow one would show the plan before meanwhile.

    `test_a_slow_plan_is_made_by_a_worker_and_the_last_value_wins` says how long one took.
    """
    monkeypatch.setattr("explorer.qt.planner.state._QUICK_S", 60.0)


@pytest.fixture(autouse=True)
def no_user_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test away from the user's settings and cache, whatever it starts."""
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user_settings"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "user_settings"))


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """What is read of files, and what of it after a job was cancelled."""
    return Reading(monkeypatch)


@pytest.fixture
def no_programs_of_qt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail at a program that Qt starts, of which Python hears nothing."""

    def refuse(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(QProcess, "start", refuse)
    monkeypatch.setattr(QProcess, "startDetached", refuse)


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    """Where the test's settings are."""
    return tmp_path / "settings.ini"


@pytest.fixture
def settings(settings_file: Path) -> Settings:
    """Settings in a file of the test's own."""
    return Settings(settings_file)


@pytest.fixture
def runner(qapp: QApplication) -> Iterator[JobRunner]:
    """Background work, in which nothing may crash."""
    runner = JobRunner()
    crashes: list[Exception] = []
    runner.crashed.connect(crashes.append)
    yield runner
    assert runner.close()
    assert crashes == []


@pytest.fixture
def app(runner: JobRunner) -> RecordingServices:
    """What pages are given in place of a window."""
    return RecordingServices(runner)


@pytest.fixture(scope="session")
def demo_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo model; for reading only."""
    return copy_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture
def hostile_path(tmp_path: Path) -> Path:
    """A file whose keys, values and tensors have names that act on a careless display."""
    keys: list[tuple[str | bytes, int, object]] = [
        ("general.architecture", STRING, HOSTILE[0]),
        ("general.name", STRING, HOSTILE[0]),
        ("general.license", STRING, HOSTILE[2]),
        ("tokenizer.ggml.model", STRING, HOSTILE[1]),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, list(HOSTILE))),
    ]
    keys += [(f"{name}.{name[:50]}", STRING, name) for name in HOSTILE]
    tensors = [TensorSpec(name) for name in HOSTILE]
    tensors += [TensorSpec(f"blk.0.{name}") for name in HOSTILE[:4]]
    return GgufFile(keys=keys, tensors=tensors).write(tmp_path / "<b>%n {0} \u202e.gguf")


@pytest.fixture
def small_path(tmp_path: Path) -> Path:
    """A file of twelve layers, small enough to count by hand."""
    keys: list[tuple[str | bytes, int, object]] = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "Twelve"),
        ("llama.block_count", U32, 12),
        ("some.numbers", ARRAY, Array(I32, [30, -10, 20])),
        ("some.text", STRING, "first line\nsecond needle line\nthird"),
    ]
    tensors = [
        TensorSpec(f"blk.{layer}.attn_norm.weight", (layer + 1,), data=bytes(4 * (layer + 1)))
        for layer in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)
    ]
    return GgufFile(keys=keys, tensors=tensors).write(tmp_path / "twelve.gguf")


@pytest.fixture
def load(qapp: QApplication) -> Iterator[Callable[[Path], Document]]:
    """Load documents as the window does, and close them at the end."""
    documents: list[Document] = []
    runner = JobRunner()

    def load_one(path: Path) -> Document:
        job = Job("", lambda _: None, lambda _: None, runner)
        documents.append(load_document(path, job))
        return documents[-1]

    yield load_one
    for document in documents:
        document.model.close()


@pytest.fixture
def make_window(qtbot: QtBot, settings: Settings) -> Iterator[Callable[..., MainWindow]]:
    """Make windows that are shown, idle, and have opened some models.

    A fault of the program fails the test, unless it says `expect_crash`.
    """
    crashes: list[object] = []

    def make(*paths: Path, settings: Settings = settings, expect_crash: bool = False) -> MainWindow:
        window = MainWindow(settings)
        if not expect_crash:
            window.runner.crashed.connect(crashes.append)
        qtbot.addWidget(window)
        window.show()
        qtbot.waitExposed(window)
        window.activateWindow()
        for count, path in enumerate(paths, 1):
            window.open_paths([path])
            qtbot.waitUntil(lambda count=count: len(window.documents) == count)
        wait_idle(qtbot, window)
        return window

    yield make
    assert crashes == []


@pytest.fixture
def window(make_window: Callable[..., MainWindow], demo_path: Path) -> MainWindow:
    """A window with the demo model."""
    return make_window(demo_path)


@pytest.fixture
def demo(load: Callable[[Path], Document], demo_path: Path) -> Document:
    """The demo model, loaded."""
    return load(demo_path)


@pytest.fixture
def small(load: Callable[[Path], Document], small_path: Path) -> Document:
    """The model of twelve layers, loaded."""
    return load(small_path)


@pytest.fixture
def hostile(load: Callable[[Path], Document], hostile_path: Path) -> Document:
    """The hostile model, loaded."""
    return load(hostile_path)
