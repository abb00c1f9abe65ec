"""The Flatpak's manifest: what the program may do on a user's machine."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from configparser import ConfigParser
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from explorer.stores.entries import default_places

FOLDER = Path(__file__).resolve().parents[2] / "packaging" / "flatpak"
MANIFEST = FOLDER / "io.github.gguf_explorer.GGUFExplorer.json"


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return content


def test_it_has_no_network_and_writes_to_no_folder_of_the_user(manifest: dict[str, Any]) -> None:
    arguments = manifest["finish-args"]
    assert not [argument for argument in arguments if "network" in argument]
    folders = [a for a in arguments if a.startswith("--filesystem=")]
    assert folders
    assert all(folder.endswith(":ro") for folder in folders)
    allowed = ("--filesystem=", "--socket=wayland", "--socket=fallback-x11", "--share=ipc",
               "--device=dri", "--env=QT_PLUGIN_PATH=")  # fmt: skip
    assert all(argument.startswith(allowed) for argument in arguments)


def test_it_sees_every_folder_of_downloaded_models(manifest: dict[str, Any]) -> None:
    places = [a.removeprefix("--filesystem=").removesuffix(":ro") for a in manifest["finish-args"]]
    for place in default_places({}, Path("~"), "linux"):
        if str(place.root).startswith("~"):  # Flatpak keeps /usr for itself
            assert any(place.root.is_relative_to(folder) for folder in places), place.root


def test_its_files_are_there_and_its_command_is_installed(
    manifest: dict[str, Any], script: Callable[[str], ModuleType]
) -> None:
    (module,) = manifest["modules"]
    wheels, start = module["sources"]
    assert (FOLDER / wheels["path"]).resolve() == script("flatpak").WHEELS
    assert (FOLDER / start["path"]).is_file()
    assert any(f"/app/bin/{manifest['command']}" in line for line in module["build-commands"])
    assert manifest["id"] == MANIFEST.stem


def test_libraries_stay_as_their_makers_built_them_and_only_our_program_is_kept(
    manifest: dict[str, Any],
) -> None:
    assert manifest["build-options"] == {"strip": False, "no-debuginfo": True}
    dropped = manifest["cleanup"]
    assert all(pattern.startswith("/bin/") for pattern in dropped)
    assert not [pattern for pattern in dropped if fnmatch(f"/bin/{manifest['command']}", pattern)]


def test_the_stand_in_for_the_runtime_is_what_the_manifest_asks_for(
    manifest: dict[str, Any], script: Callable[[str], ModuleType]
) -> None:
    trial = script("try_flatpak")
    about = ConfigParser()
    about.read_string(
        trial.METADATA.format(
            name=manifest["sdk"], machine="x86_64", branch=manifest["runtime-version"], **manifest
        )
    )
    assert dict(about["Runtime"]) == {
        "name": "org.kde.Sdk",
        "runtime": "org.kde.Platform/x86_64/6.10",
        "sdk": "org.kde.Sdk/x86_64/6.10",
    }
    # what the manifest takes back must be there, or nothing is tried
    assert about["Environment"]["QT_PLUGIN_PATH"]
    assert "--env=QT_PLUGIN_PATH=" in manifest["finish-args"]
    libraries = {
        *script("run").OFFSCREEN_LIBRARIES.values(),
        *script("run").WINDOW_LIBRARIES.values(),
    }
    assert {name.removesuffix("t64") for name in trial.INCLUDED} >= libraries


def test_models_of_others_are_found_where_they_always_are(tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    python = bin_folder / "python3"
    python.write_text('#!/bin/sh\necho "$HF_HOME|$LLAMA_CACHE|$*"\n', encoding="utf-8")
    python.chmod(0o755)
    environment = {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": "/home/me"}
    said = subprocess.run(
        ["sh", FOLDER / "start.sh", "two words"],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert said == (
        "/home/me/.cache/huggingface|/home/me/.cache/llama.cpp|-P -m explorer two words"
    )


def test_flatpak_builder_reads_it(manifest: dict[str, Any], tmp_path: Path) -> None:
    if shutil.which("flatpak-builder") is None:
        pytest.skip("flatpak-builder is not installed")
    done = subprocess.run(
        ["flatpak-builder", "--show-manifest", MANIFEST],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["finish-args"] == manifest["finish-args"]
    assert "unknown property" not in done.stderr.lower()
