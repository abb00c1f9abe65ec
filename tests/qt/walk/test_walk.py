"""One walk over everything that the window shows, for all that must hold everywhere.

To ask for more, write a check in this package and name it here, with the least number of things
that it must find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from explorer.qt.app import install_roles
from explorer.qt.locale_numbers import use_locale
from explorer.qt.main_window import MainWindow
from explorer.qt.references import Rounding
from explorer.qt.theme import Scheme, apply_scheme
from explorer.text import PLAIN, set_notation
from tests.helpers.demo import copy_demo
from tests.helpers.everywhere import settle
from tests.helpers.ollama_store import store_of
from tests.helpers.watch import make_read_only, watching
from tests.qt.walk import access, sight, texts
from tests.qt.walk.walking import Check, walk

# the offscreen platform has no window manager that could do these for a menu
pytestmark = pytest.mark.qt_log_ignore("^This plugin does not support", extend=True)

_ALWAYS: Mapping[Check, int] = {
    sight.texts_are_whole: 1_000,
    sight.titles_are_whole: 20,
    sight.pages_have_one_left_edge: 100,
    sight.tables_have_no_boxes: 10,
    access.everything_has_a_name: 250,
    access.buttons_say_what_they_do: 100,
    access.keys_are_listed: 100,
    texts.figures_say_what_they_mean: 80,
    texts.sizes_are_binary: 60,
}
_OF_ALL_PAGES: Mapping[Check, int] = {
    **_ALWAYS,
    sight.controls_are_seen: 400,
    access.tab_comes_everywhere: 600,
    access.menus_lead_on: 40,
    access.pictures_are_copied: 15,
    texts.columns_are_even: 40,
    texts.models_keep_qts_rules: 20,
}
_OTHERWISE: Mapping[Check, int] = {
    sight.pictures_follow_the_scheme: 5,
    sight.controls_are_seen: 400,
    texts.numbers_have_a_comma: 300,
}


@pytest.fixture(autouse=True)
def own_notation() -> Iterator[None]:
    """Give the process its colours and its notation back."""
    yield
    set_notation(PLAIN)
    apply_scheme(Scheme.SYSTEM)


@pytest.fixture
def usual(make_window: Callable[..., MainWindow]) -> Callable[..., MainWindow]:
    """Make a window of the usual size, with models and the longest of all tensors of layers."""

    def make(*paths: Path) -> MainWindow:
        install_roles()
        window = make_window(*paths)
        window.showNormal()
        window.resize(*sight.SIZE)
        document = window.documents[0]
        window.show_document(document)
        matrices = (document.arrays.layers >= 0) * document.arrays.parameters
        window.reveal_tensor(document, int(matrices.argmax()))
        return window

    return make


@pytest.mark.slow
def test_the_demo_model(
    qtbot: QtBot, usual: Callable[..., MainWindow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with nothing, a type and a model; with other numbers and colours.

    No view connects, starts a program, or writes where models lie.
    """
    folder = tmp_path / "models"
    demo = copy_demo(folder)
    manifest, _ = store_of(demo, folder / "store")
    make_read_only(folder)
    with watching(folder) as watch:
        window = usual(demo)
        window.settings.library_folders = [folder]
        panels = window.panels
        panels.setCurrentWidget(panels.library)
        settle(qtbot, window)
        library = panels.library.widget
        library.tree.expandAll()
        library.tree.setCurrentIndex(library.model.index(0, 0))
        assert len(walk(qtbot, window, _ALWAYS)) > 30
        panels.references.choose(Rounding("Q4_0"))
        panels.setCurrentWidget(panels.survey)
        settle(qtbot, window)
        panels.survey.widget.bar.button.click()
        settle(qtbot, window)
        assert len(walk(qtbot, window, _OF_ALL_PAGES)) > 30
        window.close()
        use_locale(QLocale("de_DE"))
        window = usual(demo, manifest)
        window.panels.references.choose(window.documents[1])
        apply_scheme(Scheme.DARK)
        settle(qtbot, window)
        walk(qtbot, window, _OTHERWISE)
        apply_scheme(Scheme.CONTRAST)
        QApplication.processEvents()
        walk(qtbot, window, {sight.controls_are_seen: 400, sight.pictures_follow_the_scheme: 5})
        window.close()
        assert watch.found() == {}


@pytest.mark.slow
def test_a_damaged_model_and_several_tensors(
    qtbot: QtBot, usual: Callable[..., MainWindow], demo_path: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(demo_path.read_bytes()[:-100_000])
    window = usual(cut)
    assert window.documents[0].model.problems
    window.panels.tensors.widget.table.selectAll()
    walk(qtbot, window, _ALWAYS)


@pytest.mark.slow
def test_the_real_model_beside_the_demo(
    qtbot: QtBot, usual: Callable[..., MainWindow], demo_path: Path, real_model: Path
) -> None:
    window = usual(real_model, demo_path)
    window.panels.references.choose(window.documents[1])
    walk(qtbot, window, _ALWAYS)
