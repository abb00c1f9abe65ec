"""Render the icon for packages that cannot use SVG; nothing of this is kept in the repository.

.venv/bin/python packaging/icons.py      write build/icons/: PNG of each size, .ico, .icns
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from tools import BUILD, ICON, NAME, PackagingError, say

FOLDER = BUILD / "icons"
SIZES = (16, 24, 32, 48, 64, 128, 256, 512)
_ICO_SIZES = (16, 24, 32, 48, 64, 256)
# Apple, "Icon Image Format" (icns): the four letters say which size a PNG is of.
_ICNS_KINDS = {b"icp4": 16, b"icp5": 32, b"icp6": 64, b"ic07": 128, b"ic08": 256, b"ic09": 512}
_PNG_BEGIN = b"\x89PNG\r\n\x1a\n"


def render(sizes: tuple[int, ...] = SIZES) -> dict[int, bytes]:
    """Return the icon as PNG files: size in pixels → bytes.

    Raises:
        PackagingError: Qt cannot read the drawing.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QSize  # noqa: PLC0415 - late
    from PySide6.QtGui import QGuiApplication, QIcon  # noqa: PLC0415 - as above

    application = QGuiApplication.instance() or QGuiApplication(sys.argv[:1])
    drawing = QIcon(str(ICON))
    pictures: dict[int, bytes] = {}
    for size in sizes:
        data = QByteArray()
        buffer = QBuffer(data)
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        pixmap = drawing.pixmap(QSize(size, size), 1.0)
        if pixmap.width() != size or not pixmap.save(buffer, "PNG"):
            raise PackagingError(f"{ICON} cannot be drawn at {size} pixels")
        pictures[size] = bytes(data.data())
    del application
    return pictures


def ico(pictures: Mapping[int, bytes]) -> bytes:
    """Return PNG pictures as a Windows icon.

    ICONDIR and ICONDIRENTRY of Microsoft's "Icons" article; PNG is allowed since Windows Vista.

    Args:
        pictures: Width in pixels, at most 256 → PNG.
    """
    head = struct.pack("<HHH", 0, 1, len(pictures))
    offset = len(head) + 16 * len(pictures)
    entries, body = b"", b""
    for size, png in sorted(pictures.items()):
        side = size % 256  # 256 is written as 0
        entries += struct.pack("<BBBBHHII", side, side, 0, 0, 1, 32, len(png), offset + len(body))
        body += png
    return head + entries + body


def icns(pictures: Mapping[int, bytes]) -> bytes:
    """Return PNG pictures as a macOS icon.

    Args:
        pictures: Width in pixels → PNG, of all the sizes that the format has names for.
    """
    body = b""
    for kind, size in _ICNS_KINDS.items():
        body += kind + struct.pack(">I", 8 + len(pictures[size])) + pictures[size]
    return b"icns" + struct.pack(">I", 8 + len(body)) + body


def write_all(folder: Path = FOLDER) -> None:
    """Write every form of the icon."""
    pictures = render()
    folder.mkdir(parents=True, exist_ok=True)
    for size, png in pictures.items():
        if not png.startswith(_PNG_BEGIN):
            raise PackagingError(f"Qt wrote no PNG of {size} pixels")
        (folder / f"{NAME}-{size}.png").write_bytes(png)
    (folder / f"{NAME}.ico").write_bytes(ico({size: pictures[size] for size in _ICO_SIZES}))
    (folder / f"{NAME}.icns").write_bytes(icns(pictures))


if __name__ == "__main__":
    write_all()
    say(f"icons are in {FOLDER}")
