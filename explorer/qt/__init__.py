"""Everything that imports Qt: `app` starts the program, `main_window` is its window."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from PySide6.QtCore import QObject


def _whole(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def override(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except BaseException:  # noqa: TRY203 - now it is an object, whoever raised it
            raise

    return override


def _guard_overrides(cls: type, /, **options: Any) -> None:
    """Let the exceptions of a class's overrides of Qt's methods arrive whole.

    On Python 3.11 one that C raised (``[][1]``) is a message without an exception until something
    catches it. PySide takes the message for the exception, and the process ends: a fault of one
    panel would take all open models along. See docs/libraries.md, 1.
    """
    super(QObject, cls).__init_subclass__(**options)  # type: ignore[misc]
    of_qt = next(base for base in cls.__mro__ if base.__module__.startswith("PySide6."))
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and name[0] != "_" and hasattr(of_qt, name):
            setattr(cls, name, _whole(method))


def _read_no_sources() -> None:
    """Let PySide not read the source of each module that is imported from now on.

    It looks there for the word PySide6, lest a module be taken for one that uses `__feature__`,
    which none of ours does; and `linecache` keeps every line. See docs/libraries.md, 1.
    """
    feature: Any = sys.modules.get("PySide6.support.feature")
    if hasattr(feature, "_mod_uses_pyside"):
        feature._mod_uses_pyside = lambda _module: True


_read_no_sources()
if sys.version_info < (3, 12):
    QObject.__init_subclass__ = classmethod(_guard_overrides)  # type: ignore[assignment,method-assign]
