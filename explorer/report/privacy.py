"""Keeps the folders of the person who makes a report out of it.

A report is for others, and paths tell a user's name, a company's, a project's. File names stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.report.html import cut
from explorer.text import plain_text

# An absolute path of any system, not a part of an URL or of another word: its last name is kept.
_NAME = r"[^/\\\s'\"<>|:,;]+"
_ABSOLUTE: Final = re.compile(
    rf"(?<![\w:/.\\])(?:[A-Za-z]:[\\/]|\\\\|/|~[\\/])(?:{_NAME}[\\/])+(?P<last>{_NAME})?"
)
_SEPARATORS: Final = ("/", "\\")


class Privacy:
    """Takes folders out of texts.

    Args:
        paths: Files and folders that were opened, as they were given.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        folders: set[str] = set()
        for path in paths:
            for folder in (path.parent, path.absolute().parent, _resolved(path).parent):
                folders |= {str(folder), folder.as_posix()}
            folders.add(str(path.absolute()) if path.is_dir() else "")
        folders |= {_home(), os.getcwd()}
        known = sorted((f for f in folders if len(f) > 1 and f != ".."), key=len, reverse=True)
        alternatives = "|".join(re.escape(folder) for folder in known)
        # not inside another word or path: "models/" is no folder in "https://host/models/x"
        self._known = re.compile(rf"(?<![\w./\\-])(?:{alternatives})(?P<rest>[/\\]|(?![\w-]))")

    @classmethod
    def of(cls, *models: Model) -> Privacy:
        """Return what keeps the folders of these models out."""
        return cls(
            path for model in models for path in (model.path, *(file.path for file in model.files))
        )

    def clean(self, text: str, lines: bool = False) -> str:
        """Return a text without known folders, safe to show."""
        short = self._known.sub(lambda match: "" if match["rest"] else "…", text)
        return plain_text(short, lines=lines)


def without_paths(text: str) -> str:
    """Return a text in which every absolute path is its last name: for messages and metadata."""
    return _ABSOLUTE.sub(lambda match: f"…/{match['last'] or ''}", text)


def message(error: ExplorerError) -> str:
    """Return what an error says, without the path and the place that it names."""
    return without_paths(error.what)


def shown_name(model: Model) -> str:
    """Return what to call a model: its file's name; of a folder, what it calls itself.

    It is not too long, but not escaped.
    """
    if model.format != "ollama" and model.path.suffix:
        return model.path.name
    try:
        name = model.name
    except ExplorerError:
        name = None
    if name:
        return without_paths(cut(name))
    return model.files[0].path.name if model.files else model.format


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return path


def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError:
        return ""
