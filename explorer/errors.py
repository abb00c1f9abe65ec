"""Errors that a bad input can cause.

For an input that cannot be used, every package of the core raises a subclass of `ExplorerError` and
nothing else, so that a caller needs one `except`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from explorer.text import plain_text

DEBUG_VARIABLE: Final = "GGUF_EXPLORER_DEBUG"


def trace(error: BaseException) -> None:
    """Print the traceback of an error, if the user has set `GGUF_EXPLORER_DEBUG` to ask for it."""
    if os.environ.get(DEBUG_VARIABLE, "0") in ("", "0") or sys.stderr is None:
        return
    from traceback import format_exception  # noqa: PLC0415 - only here

    sys.stderr.write(plain_text("".join(format_exception(error)), lines=True))


def drop_frames(error: BaseException | None) -> None:
    """Forget the frames that an error came through: they hold the model."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


class ExplorerError(Exception):
    """An input that cannot be used, described in one sentence.

    Attributes:
        what: What is wrong and what to do, without path and offset.
        path: The file or folder at fault, where there is one.
        offset: The byte offset in that file, where it applies.
    """

    def __init__(
        self, what: str, path: Path | str | None = None, offset: int | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.path = Path(path) if isinstance(path, str) else path
        self.offset = offset

    @property
    def where(self) -> str:
        """The place without the path: ``"at byte 24"``, or nothing."""
        return "" if self.offset is None else f"at byte {self.offset}"

    @property
    def without_path(self) -> str:
        """What is wrong and where, for a place that shows the path already."""
        return f"{self.what} {self.where}".rstrip()

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        prefix = f"{self.path}: " if self.path is not None else ""
        return f"{prefix}{self.what}{place}"


class SourceError(ExplorerError):
    """Bytes that could not be read: missing, unreadable, not a regular file, cut short, gone."""


class ManyRequestsError(SourceError):
    """An address whose opening takes more requests than are made without a question.

    Attributes:
        needs: How many it takes, and to which hosts: a sentence without its subject.
        number: How many, as far as is known.
    """

    def __init__(self, what: str, path: Path, needs: str, number: int) -> None:
        super().__init__(what, path)
        self.needs = needs
        self.number = number


class FormatError(ExplorerError, ValueError):
    """A file that is not what it claims to be."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several models that a folder holds.

    Attributes:
        path: What to open.
        name: Its name in the folder.
        nbytes: Its bytes on disk; 0 where a server does not say it.
    """

    path: Path
    name: str
    nbytes: int


class SeveralModelsError(FormatError):
    """A folder or an address that holds more than one model, so that one has to be chosen."""

    def __init__(self, what: str, path: Path, choices: Sequence[Choice]) -> None:
        super().__init__(what, path)
        self.choices = tuple(choices)


class PlanError(ExplorerError, ValueError):
    """A model, settings or devices for which no memory plan can be made.

    Attributes:
        reason: ``"requires full"`` or ``"system memory"`` where Ollama would refuse to load the
            model for that reason; None where the input itself cannot be used.
    """

    def __init__(self, what: str, reason: str | None = None) -> None:
        super().__init__(what)
        self.reason = reason


def system_reason(error: OSError | ValueError) -> str:
    """Return the system's message of an error, for use inside a sentence."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def unreadable_reason(error: OSError | ValueError) -> str:
    """Return why something cannot be read, and what to do where that is known."""
    if isinstance(error, PermissionError):
        return "permission denied. Ask its owner for read access"
    return system_reason(error)
