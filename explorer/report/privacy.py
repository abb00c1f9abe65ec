"""Texts of a report: cut to a length, and without folders; and what renders templates with them.

Reports are passed on, and paths hold names of users, companies and projects. File names stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from explorer.errors import ExplorerError
from explorer.formats.model import Model
from explorer.paths import resource
from explorer.sources import Address
from explorer.text import counted, integer_text, plain_text, shorten

# An absolute path of any system, not a part of an URL or of another word: its last name is kept.
_NAME = r"[^/\\\s'\"<>|:,;]+"
_ABSOLUTE: Final = re.compile(
    rf"(?<![\w:/.\\])(?:[A-Za-z]:[\\/]|\\\\|/|~[\\/])(?:{_NAME}[\\/])+(?P<last>{_NAME})?"
)
LONGEST_NAME: Final = 160

MAX_TEXT: Final = 100_000
"""Most characters of one piece of text; what is longer should have been cut before."""


def cut(name: str, limit: int = LONGEST_NAME) -> str:
    """Return a name of at most `limit` characters, and its length where it was cut."""
    if len(name) <= limit:
        return name
    return f"{shorten(name, limit)} ({integer_text(len(name))} characters)"


class Privacy:
    """Removes folders from texts: those of paths that were opened, and the user's."""

    def __init__(self, paths: Iterable[Path]) -> None:
        folders: set[str] = set()
        for path in paths:
            if isinstance(path, Address):
                folders.add(str(path.parent))
                continue
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
        """Return what removes the folders of these models."""
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
    """Return an error's sentence without its path and offset."""
    return without_paths(error.what)


def shown_name(model: Model) -> str:
    """Return a model's file name, or of a folder the name in its metadata; not escaped."""
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


def environment(privacy: Privacy) -> Environment:
    """Return what renders the template and no other; every text is cleaned."""

    def cleaned(text: str, *, lines: bool = False) -> str:
        if len(text) <= MAX_TEXT:
            return privacy.clean(text, lines)
        return privacy.clean(text[:MAX_TEXT], lines) + f"… (cut, {len(text):,} characters)"

    def finalize(value: object) -> object:
        if isinstance(value, (Markup, int)):  # escaped by a macro or by `lines`
            return value
        if isinstance(value, float):  # a coordinate; hundredths of a pixel are enough
            return f"{value:.2f}".rstrip("0").rstrip(".")
        return cleaned(str(value))

    names = ("page.html", "pictures.html", "picture.svg")
    made = Environment(
        loader=DictLoader({name: resource(f"report/{name}").read_text("utf-8") for name in names}),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        keep_trailing_newline=True,
    )
    made.filters.update(
        counted=counted,
        cut=cut,
        integer=integer_text,
        lines=lambda text: escape(cleaned(text, lines=True)),
        without_paths=without_paths,
    )
    return made
