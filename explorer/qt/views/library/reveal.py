"""Shows a file where the system's file manager has it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from PySide6.QtCore import QProcess, QUrl
from PySide6.QtGui import QDesktopServices


def folder_of(path: Path) -> Path:
    """Return the folder in which a path is to be shown. For a worker: it looks at the disk."""
    return path if os.path.isdir(path) else path.parent


def reveal(path: Path, folder: Path) -> bool:
    """Open the file manager at a file, selected where the system can do that.

    Args:
        path: The file.
        folder: What `folder_of` said about it.

    Returns:
        Whether a file manager was started.
    """
    if sys.platform == "darwin":
        return bool(QProcess.startDetached("open", ["-R", str(path)])[0])
    if sys.platform == "win32":
        return bool(QProcess.startDetached("explorer", ["/select,", str(path)])[0])
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
