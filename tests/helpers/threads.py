"""Threads that a test may have left."""

from __future__ import annotations

import threading


def own_threads() -> list[threading.Thread]:
    """Return the threads that Python began; those of Qt's pools come and go by themselves."""
    return [each for each in threading.enumerate() if not isinstance(each, threading._DummyThread)]
