"""Desktop entry, AppStream file, MIME types, icons and the wheel's lists: they must agree."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import struct
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from explorer import __version__
from explorer.paths import resource

ROOT = Path(__file__).resolve().parents[2]
LINUX = ROOT / "packaging" / "linux"
APP_ID = "io.github.gguf_explorer.GGUFExplorer"
METAINFO = LINUX / f"{APP_ID}.metainfo.xml"
MIME = LINUX / f"{APP_ID}.xml"
DESKTOP = LINUX / f"{APP_ID}.desktop"
ICONS = (
    ROOT / "resources" / "icons" / "gguf-explorer.svg",
    ROOT / "resources" / "icons" / "gguf-explorer-symbolic.svg",
)
MIME_NAMESPACE = "{http://www.freedesktop.org/standards/shared-mime-info}"
TYPES = {"application/x-gguf", "application/x-safetensors"}
_TEXTS = {".md", ".py", ".xml", ".desktop", ".iss", ".1", ".json", ".spec"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def entry() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # keys have capitals
    parser.read(DESKTOP, encoding="utf-8")
    return parser["Desktop Entry"]


@pytest.fixture(scope="module")
def metainfo() -> ElementTree.Element:
    return ElementTree.parse(METAINFO).getroot()


def texts(root: ElementTree.Element, path: str) -> list[str]:
    return [(element.text or "").strip() for element in root.iterfind(path)]


def agree(*command: str | Path) -> None:
    """Run a tool that says whether files are valid; skip where it is not installed."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_desktop_entry_starts_the_command_that_the_wheel_installs(
    project: dict[str, Any], entry: configparser.SectionProxy
) -> None:
    (command,) = project["project"]["scripts"]
    assert entry["Exec"] == f"{command} %F"
    assert entry["StartupWMClass"] == command


def test_the_desktop_entry_opens_the_types_that_are_defined(
    entry: configparser.SectionProxy, metainfo: ElementTree.Element
) -> None:
    root = ElementTree.parse(MIME).getroot()
    defined = {kind.get("type") for kind in root.iter(f"{MIME_NAMESPACE}mime-type")}
    assert defined == TYPES
    assert set(entry["MimeType"].split(";")) - {""} == TYPES
    assert set(texts(metainfo, "provides/mediatype")) == TYPES


def test_all_files_have_one_id(
    entry: configparser.SectionProxy, metainfo: ElementTree.Element
) -> None:
    from explorer.qt.app import DESKTOP_FILE

    assert texts(metainfo, "id") == [APP_ID]
    assert texts(metainfo, "launchable") == [DESKTOP.name]
    assert entry["Icon"] == APP_ID
    assert DESKTOP_FILE == APP_ID
    icons = ElementTree.parse(MIME).getroot().iter(f"{MIME_NAMESPACE}icon")
    assert {icon.get("name") for icon in icons} == {APP_ID}


def test_the_metainfo_tells_of_this_version_first(metainfo: ElementTree.Element) -> None:
    releases = [release.get("version") for release in metainfo.iter("release")]
    assert releases[0] == __version__


def test_the_metainfo_says_what_the_project_says(
    project: dict[str, Any], metainfo: ElementTree.Element
) -> None:
    assert texts(metainfo, "project_license") == [project["project"]["license"]]
    assert texts(metainfo, "provides/binary") == list(project["project"]["scripts"])


def test_no_file_names_an_address_that_does_not_exist() -> None:
    """The project has no home page; its id is not an address."""
    made_up = re.compile(r"(github\.com|githubusercontent\.com|github\.io)/gguf.explorer", re.I)
    files = [ROOT / "pyproject.toml", *ROOT.glob("*.md")]
    for folder in ("docs", "packaging", "resources/guide", "explorer"):
        files += (path for path in (ROOT / folder).rglob("*") if path.suffix in _TEXTS)
    named = [path for path in files if made_up.search(path.read_text(encoding="utf-8"))]
    assert len(files) > 100
    assert not named


def test_the_wheel_installs_each_file_under_its_name(project: dict[str, Any]) -> None:
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    shared = wheel["shared-data"]
    assert all((ROOT / source).is_file() for source in shared)
    assert {Path(place).name for place in shared.values()} == {
        DESKTOP.name,
        METAINFO.name,
        MIME.name,
        f"{APP_ID}.svg",
        f"{APP_ID}-symbolic.svg",
        "gguf-explorer.1",
    }
    assert wheel["force-include"]["resources/icons"] == "explorer/_resources/icons"


@pytest.mark.parametrize("icon", ICONS, ids=lambda path: path.stem)
def test_an_icon_is_a_small_drawing_that_loads_nothing(icon: Path) -> None:
    text = icon.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert len(text) < 4000
    assert root.get("width") == root.get("height")
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert not re.search(r"href|<image|<style|<script|url\(", text)


def test_the_symbolic_icon_has_one_colour() -> None:
    colours = re.findall(r"#[0-9a-f]{6}", ICONS[1].read_text(encoding="utf-8"))
    assert len(set(colours)) == 1


@pytest.mark.parametrize("size", [16, 22, 32, 64, 256])
def test_the_icon_is_drawn_and_is_legible_on_light_and_dark(qapp: object, size: int) -> None:
    from PySide6.QtCore import QSize
    from PySide6.QtGui import QColor, QIcon

    image = QIcon(str(resource("icons/gguf-explorer.svg"))).pixmap(QSize(size, size), 1.0).toImage()
    assert image.width() == image.height() == size
    assert image.pixelColor(0, size - 1).alpha() == 0  # the corner shows what is behind
    ring = image.pixelColor(round(size * 56 / 128), round(size * 8 / 128))
    bar = image.pixelColor(round(size * 56 / 128), round(size * 74 / 128))
    lens = image.pixelColor(round(size * 32 / 128), round(size * 40 / 128))
    for behind in (QColor("#f2f3f5"), QColor("#25272b")):
        mixed = ring.alphaF() * ring.lightnessF() + (1 - ring.alphaF()) * behind.lightnessF()
        assert abs(mixed - behind.lightnessF()) > 0.15
    assert lens.lightnessF() - bar.lightnessF() > 0.3
    assert bar.alpha() == lens.alpha() == 255


def test_icons_for_other_systems_have_every_size(
    qapp: object, script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    script("icons").write_all(tmp_path)
    for size in (16, 24, 32, 48, 64, 128, 256, 512):
        png = (tmp_path / f"gguf-explorer-{size}.png").read_bytes()
        assert struct.unpack(">II", png[16:24]) == (size, size)
    ico = (tmp_path / "gguf-explorer.ico").read_bytes()
    zero, kind, count = struct.unpack_from("<HHH", ico)
    assert (zero, kind, count) == (0, 1, 6)
    for number in range(count):
        width, *_, length, offset = struct.unpack_from("<BBBBHHII", ico, 6 + 16 * number)
        assert ico[offset : offset + 8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack_from(">I", ico, offset + 16)[0] == (width or 256)
        assert offset + length <= len(ico)
    icns = (tmp_path / "gguf-explorer.icns").read_bytes()
    assert icns[:4] == b"icns"
    assert struct.unpack_from(">I", icns, 4)[0] == len(icns)


def test_the_desktop_entry_is_valid() -> None:
    agree("desktop-file-validate", DESKTOP)


def test_the_metainfo_is_valid() -> None:
    agree("appstreamcli", "validate", "--no-net", METAINFO)


@pytest.mark.parametrize("path", [METAINFO, MIME, *ICONS], ids=lambda path: path.name)
def test_xml_is_well_formed(path: Path) -> None:
    ElementTree.parse(path)
    agree("xmllint", "--noout", "--nonet", path)


def test_files_get_their_types(tmp_path: Path) -> None:
    packages = tmp_path / "mime" / "packages"
    packages.mkdir(parents=True)
    shutil.copy(MIME, packages)
    agree("update-mime-database", "-V", tmp_path / "mime")
    globs = (tmp_path / "mime" / "globs2").read_text(encoding="utf-8")
    assert ":application/x-gguf:*.gguf" in globs
    assert ":application/x-safetensors:*.safetensors" in globs
    assert b"GGUF" in (tmp_path / "mime" / "magic").read_bytes()
    if shutil.which("gio") is None:
        pytest.skip("gio is not installed, which would tell a file's type")
    blob = tmp_path / "sha256-0"  # as a blob of Ollama's store: only its magic tells
    blob.write_bytes(b"GGUF\x03\0\0\0" + bytes(64))
    said = subprocess.run(
        ["gio", "info", "-a", "standard::content-type", blob],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "XDG_DATA_DIRS": "/usr/share"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "application/x-gguf" in said
