"""Background work that spares the GUI thread leaves the interpreter as it found it."""

from __future__ import annotations

import gc
import sys

import pytest

from explorer.qt.jobs import keep_gui_responsive


def settings() -> tuple[float, tuple[int, int, int]]:
    return sys.getswitchinterval(), gc.get_threshold()


def test_the_collector_and_the_lock_are_as_before() -> None:
    before = settings()
    with keep_gui_responsive():
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold()[2] > 1_000_000
        with keep_gui_responsive():
            assert sys.getswitchinterval() < before[0]
        assert sys.getswitchinterval() < before[0]  # the first one still works
    assert settings() == before


def test_an_error_gives_them_back_too() -> None:
    before = settings()
    with pytest.raises(ZeroDivisionError), keep_gui_responsive():
        raise ZeroDivisionError
    assert settings() == before


def test_ends_in_another_order_give_them_back_too() -> None:
    before = settings()
    first, second = keep_gui_responsive(), keep_gui_responsive()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < before[0]
    second.__exit__(None, None, None)
    assert settings() == before
