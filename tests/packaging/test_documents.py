"""What packaging/README.md says is what the scripts do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from pytestqt.qtbot import QtBot

from explorer.present.panels import PANELS
from explorer.qt.main_window import MainWindow
from explorer.qt.settings import Settings

TEXT = " ".join(
    (Path(__file__).resolve().parents[2] / "packaging" / "README.md")
    .read_text(encoding="utf-8")
    .replace("\\\n", "")
    .split()
)


@pytest.mark.parametrize("package", ["wheel", "frozen", "appimage"])
def test_a_clean_system_gets_only_the_packages_that_are_named(
    script: Callable[[str], ModuleType], package: str
) -> None:
    names = script("try_clean").LIBRARIES[package]
    assert f"apt-get install --no-install-recommends {' '.join(names)} ```" in TEXT


def test_every_package_is_named(script: Callable[[str], ModuleType]) -> None:
    for name in script("build").PACKAGES:
        assert f"[{name}]" in TEXT
    for name in script("try_clean").INSTALLERS:
        assert f"[{name}]" in TEXT


def test_tools_that_look_at_windows_are_named(script: Callable[[str], ModuleType]) -> None:
    for package in script("screen").TOOLS.values():
        assert package in TEXT


def test_keys_that_scripts_press_show_the_panels_that_they_name(
    qtbot: QtBot, script: Callable[[str], ModuleType]
) -> None:
    window = MainWindow(Settings(fresh=True))
    qtbot.addWidget(window)
    keys = {
        action.shortcut().toString().lower(): action.objectName() for action in window.actions()
    }
    panels = script("screen_reader").PANELS
    shown = {keys[key].partition("_")[2]: name for name, key in panels.items()}
    names = [window.panels.widget(n).objectName() for n in range(window.panels.count())]
    titles = {name: PANELS[name].title for name in names}
    reached = {name.partition("_")[2] for key, name in keys.items() if key}
    assert shown == {name: title for name, title in titles.items() if name in reached}
    for name, key in script("proof").VIEWS.items():
        assert keys[key] == f"page_{name}"
