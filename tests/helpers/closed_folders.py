"""Folders that may not be looked at, also for the superuser, whom no mode of a file stops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def close_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the system refuse to list a folder, and to look at what is in it."""
    closed = os.path.abspath(folder)

    def refusing(really: Any, itself: bool) -> Any:
        def call(path: Any = ".", *rest: Any, **named: Any) -> Any:
            if isinstance(path, (str, os.PathLike)):
                place = os.path.abspath(path)
                if place.startswith(closed + os.sep) or (itself and place == closed):
                    raise PermissionError(13, "Permission denied", str(path))
            return really(path, *rest, **named)

        return call

    monkeypatch.setattr(os, "stat", refusing(os.stat, itself=False))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, itself=True))
    monkeypatch.setattr(os, "listdir", refusing(os.listdir, itself=True))
