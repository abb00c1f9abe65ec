"""What the recipe of the frozen program is made of; the build itself is packaging/build.py."""

from __future__ import annotations

import ast
import os
import plistlib
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from explorer.quantization.kernel_cache import SOURCES

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "packaging" / "pyinstaller" / "gguf-explorer.spec"
needs_objdump = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("objdump") is None, reason="reads ELF by objdump"
)


def test_the_recipe_is_python() -> None:
    tree = ast.parse(SPEC.read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call)
              and isinstance(node.func, ast.Name)}  # fmt: skip
    assert {"Analysis", "PYZ", "EXE", "COLLECT", "BUNDLE"} <= called


def test_the_mac_application_opens_the_types_that_it_declares(
    script: Callable[[str], ModuleType],
) -> None:
    mac = script("mac")
    read = plistlib.loads(plistlib.dumps(mac.info_plist("1.2.3")))
    declared = {entry["UTTypeIdentifier"] for entry in read["UTImportedTypeDeclarations"]}
    used = {kind for entry in read["CFBundleDocumentTypes"] for kind in entry["LSItemContentTypes"]}
    assert used == declared
    suffixes = [
        suffix
        for entry in read["UTImportedTypeDeclarations"]
        for suffix in entry["UTTypeTagSpecification"]["public.filename-extension"]
    ]
    assert suffixes == ["gguf", "safetensors"]
    assert script("tools").APP_ID == mac.APP_ID


def test_all_modules_that_are_imported_by_name_are_collected() -> None:
    text = SPEC.read_text(encoding="utf-8")
    assert 'collect_submodules("explorer")' in text
    assert '"pynvml"' in text
    assert '"urllib3"' in text


@needs_objdump
def test_what_freezing_needs_and_is_not_here_is_named(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = script("frozen")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(frozen, "find_spec", lambda name: object())
    assert frozen.missing() == "objdump; on Debian: apt-get install binutils"
    monkeypatch.setattr(frozen, "find_spec", lambda name: None)
    assert "pip install -e '.[packaging]'" in frozen.missing()
    with pytest.raises(script("tools").PackagingError, match="freezing needs PyInstaller"):
        frozen.build_frozen(tmp_path, tmp_path)
    assert not list(tmp_path.iterdir())


def test_sources_of_kernels_name_modules_that_are_there() -> None:
    for pattern in SOURCES:
        assert list((ROOT / "explorer").glob(pattern)), pattern


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"LD_LIBRARY_PATH": "/opt/p/_internal"}, None),
        ({"LD_LIBRARY_PATH": "/opt/p/_internal:/mine", "LD_LIBRARY_PATH_ORIG": "/mine"}, "/mine"),
        ({}, None),
    ],
)
def test_programs_that_are_started_do_not_get_our_libraries(
    script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    before: dict[str, str],
    after: str | None,
) -> None:
    for name in ("LD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    script("start").restore_library_path()
    assert os.environ.get("LD_LIBRARY_PATH") == after
    assert "LD_LIBRARY_PATH_ORIG" not in os.environ


@needs_objdump
def test_only_libraries_that_something_needs_are_kept(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    trim = script("trim")
    needs = {
        "module": {"liba.so.1", "libGL.so.1"},
        "a": {"libb.so.2", "libstdc++.so.6"},
        "b": {"libc.so.6"},
        "python": {"libc.so.6"},
    }
    monkeypatch.setattr(trim, "needed_by", lambda file: needs[file])
    kept = [
        ("package/module.abi3.so", "module", "EXTENSION"),
        ("libpython3.11.so.1.0", "python", "BINARY"),
        ("PySide6/Qt/lib/liba.so.1", "a", "BINARY"),
        ("libb.so.2", "b", "BINARY"),
    ]
    left_out = [
        ("libunused.so.1", "unused", "BINARY"),
        ("libGL.so.1", "gl", "BINARY"),
        ("libstdc++.so.6", "c++", "BINARY"),
        ("PySide6/Qt/plugins/tls/libqopensslbackend.so", "tls", "BINARY"),
    ]
    assert trim.trimmed([*left_out, *kept]) == kept
    links = [
        ("liba.so.1", "PySide6/Qt/lib/liba.so.1", "SYMLINK"),
        ("libunused.so", "libunused.so.1", "SYMLINK"),
        ("words.txt", "/somewhere/words.txt", "DATA"),
    ]
    assert trim.without_dangling(links, kept) == [links[0], links[2]]


@needs_objdump
def test_what_a_library_needs_is_read_from_it(script: Callable[[str], ModuleType]) -> None:
    assert "libc.so.6" in script("trim").needed_by(sys.executable)


def test_every_dependency_has_a_licence(
    script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    licences = script("licences")
    for name in (
        *("numpy", "numba", "llvmlite", "click", "psutil", "jinja2", "markupsafe"),
        *("pyqtgraph", "PySide6-Essentials", "shiboken6", "urllib3"),
    ):
        assert licences.of_distribution(name, tmp_path / name) >= 1
        assert any(path.stat().st_size > 500 for path in (tmp_path / name).rglob("*"))
    assert (tmp_path / "shiboken6" / "LGPL-3.0.txt").exists()
    assert licences.python_licence().stat().st_size > 2000


def test_a_part_without_a_licence_stops_the_build(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "nobody-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: nobody\nVersion: 1.0\n")
    (folder / "RECORD").write_text("nobody-1.0.dist-info/METADATA,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(script("tools").PackagingError, match="nobody has no licence"):
        script("licences").of_distribution("nobody", tmp_path / "target")


def test_modules_lead_to_their_packages(script: Callable[[str], ModuleType]) -> None:
    found = script("licences").distributions_of(["numpy.linalg", "json", "click", "PySide6.QtCore"])
    assert found == ["click", "numpy", "pyside6-essentials"]


def test_packages_that_are_only_tried_are_strangers(script: Callable[[str], ModuleType]) -> None:
    strangers = script("strangers")
    listed = {"ours": ["NumPy>=2 ; python_version > '3'", "Py_Qt.Graph[x]<1"], "py-qt-graph": ["c"]}
    found = strangers.closure(["ours[gui]>=1"], lambda name: listed.get(name, []))
    assert found == {"ours", "numpy", "py-qt-graph", "c"}
    here = strangers.strangers(["numpy"])
    assert "pytest" in here
    assert "click" in here
    assert "numpy" not in here


def test_texts_of_the_lgpl_are_whole() -> None:
    folder = ROOT / "packaging" / "licences"
    for name, title, end in (
        ("LGPL-3.0.txt", "GNU LESSER GENERAL PUBLIC LICENSE", "Library."),
        ("GPL-3.0.txt", "GNU GENERAL PUBLIC LICENSE", "why-not-lgpl.html>."),
    ):
        text = (folder / name).read_text(encoding="utf-8")
        assert text.split("\n")[0].strip() == title
        assert "Version 3, 29 June 2007" in text
        assert text.rstrip().endswith(end)


def test_the_windows_installer_names_what_the_recipe_makes() -> None:
    script = ROOT / "packaging" / "windows" / "gguf-explorer.iss"
    text = script.read_text(encoding="utf-8")
    defined = dict(re.findall(r'^#define (\w+) "(.*)"$', text, re.MULTILINE))
    recipe = SPEC.read_text(encoding="utf-8")
    assert defined["Window"] == "gguf-explorer-window.exe"
    assert 'f"{NAME}-window"' in recipe
    used = set(re.findall(r"\{#(\w+)\}", text)) - {"Version"}
    assert used <= set(defined)
    for relative in (defined["Folder"], r"..\..\LICENSE"):
        place = (script.parent / relative.replace("\\", "/")).resolve()
        assert place.is_relative_to(ROOT)
    for suffix in (".gguf", ".safetensors"):
        assert rf"Software\Classes\{suffix}\OpenWithProgids" in text
