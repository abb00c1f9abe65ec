"""Run the program: `python -m explorer`, and the command `gguf-explorer`."""

from __future__ import annotations

import atexit
import sys


def main() -> int:
    """Run the program by `sys.argv`; return its exit code."""
    _end_at_ctrl_c()
    from explorer.ends import end_at_once, ignore_signals, on_signals  # noqa: PLC0415 - see above

    on_signals(end_at_once)
    atexit.register(ignore_signals)  # the first to be registered is the last to be called
    from explorer.cli.main import main as run  # noqa: PLC0415 - see above

    return run()


def _end_at_ctrl_c() -> None:
    """End at once and without a word at Ctrl+C, which may come while all the rest is loaded.

    The module `signal` itself takes 10 ms to load, most of them for its enumerations; what it wraps
    is a part of the interpreter.
    """
    import _signal  # type: ignore[import-not-found] # noqa: PLC0415 - only here
    import os  # noqa: PLC0415 - loaded already

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, lambda *_: os._exit(130))


if __name__ == "__main__":
    sys.exit(main())
