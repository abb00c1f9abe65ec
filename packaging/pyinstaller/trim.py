"""Leaves out of a frozen program on Linux what it does not use, and what the system must bring.

PyInstaller takes every plug-in of each Qt library that is imported, and every library that the
building machine has for one of them: with GTK's theme comes half of GTK, which then meets the other
half on the user's machine. Here plug-ins are chosen, and a library stays if something needs it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath

Entry = tuple[str, str, str]
"""Place in the program, place on this machine, kind: one entry of PyInstaller's table."""

DROPPED = (
    "PySide6/Qt/plugins/networkinformation/*",  # addresses are read by urllib3
    "PySide6/Qt/plugins/tls/*",
    "PySide6/QtNetwork.*",
    "PySide6/Qt/plugins/platformthemes/libqgtk3.so",  # Fusion, with colours of our own
    "PySide6/Qt/plugins/egldeviceintegrations/*",  # Qt without a desktop
    "PySide6/Qt/plugins/generic/*",
    "PySide6/Qt/plugins/platforms/libqeglfs.so",
    "PySide6/Qt/plugins/platforms/libqlinuxfb.so",
    "PySide6/Qt/plugins/platforms/libqminimalegl.so",
    "PySide6/Qt/plugins/platforms/libqvkkhrdisplay.so",
    "PySide6/Qt/plugins/platforms/libqvnc.so",
    "PySide6/Qt/plugins/imageformats/libqgif.so",  # the program shows SVG and writes PNG
    "PySide6/Qt/plugins/imageformats/libqicns.so",
    "PySide6/Qt/plugins/imageformats/libqjpeg.so",
    "PySide6/Qt/plugins/imageformats/libqtga.so",
    "PySide6/Qt/plugins/imageformats/libqtiff.so",
    "PySide6/Qt/plugins/imageformats/libqwbmp.so",
    "PySide6/Qt/plugins/imageformats/libqwebp.so",
    "*/lib-dynload/readline.*",  # the program has no Python prompt
    "*/lib-dynload/_curses*",
    "numba/np/ufunc/omppool.*",  # no kernel is parallel in itself; and libgomp comes with it
    "numba/np/ufunc/tbbpool.*",
)
"""Files that are left out, as patterns."""

SYSTEM = (
    "libstdc++.so.*",  # an older one than the graphics driver's keeps that from loading
    "libgcc_s.so.*",
    "libglib-2.0.so.*",  # of these there must be one in a process, with the system's settings
    "libgthread-2.0.so.*",
    "libgobject-2.0.so.*",
    "libgio-2.0.so.*",
    "libgmodule-2.0.so.*",
    "libdbus-1.so.*",
    "libfontconfig.so.*",  # reads the system's configuration of fonts
    "libfreetype.so.*",
    "libX11.so.*",  # reads the system's keyboards and locales
    "libX11-xcb.so.*",
    "libxkbcommon.so.*",
    "libwayland-*.so.*",
    "libEGL.so.*",  # belong to the graphics driver
    "libGL.so.*",
    "libdrm.so.*",
    "libgbm.so.*",
)
"""Libraries that stay the system's; packaging/README.md names their Debian packages."""

_NEEDED = re.compile(r"^\s+NEEDED\s+(\S+)$", re.MULTILINE)


def matches(place: str, patterns: Iterable[str]) -> bool:
    """Return whether a file's place or its mere name matches one of the patterns."""
    name = PurePosixPath(place).name
    return any(fnmatch(place, pattern) or fnmatch(name, pattern) for pattern in patterns)


def needed_by(file: str) -> set[str]:
    """Return the names of the libraries that a program or a library names itself."""
    done = subprocess.run(["objdump", "-p", file], capture_output=True, text=True, check=True)
    return set(_NEEDED.findall(done.stdout))


def is_library(entry: Entry) -> bool:
    """Return whether a file is there only because another one needs it."""
    place, _, kind = entry
    folder = str(PurePosixPath(place).parent)
    python = PurePosixPath(place).name.startswith("libpython")  # the loader opens it
    return kind == "BINARY" and folder in (".", "PySide6/Qt/lib") and not python


def trimmed(binaries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that the program needs and the system does not bring."""
    files = [entry for entry in binaries if not matches(entry[0], (*DROPPED, *SYSTEM))]
    libraries = {PurePosixPath(entry[0]).name: entry for entry in files if is_library(entry)}
    kept = [entry for entry in files if not is_library(entry)]
    for entry in kept:  # grows while it is walked through
        for name in needed_by(entry[1]):
            library = libraries.pop(name, None)
            if library is not None:
                kept.append(library)
    return kept


def without_dangling(datas: Sequence[Entry], binaries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of data without links to libraries that were left out."""
    places = {entry[0] for entry in (*datas, *binaries)}
    return [entry for entry in datas if entry[2] != "SYMLINK" or entry[1] in places]
