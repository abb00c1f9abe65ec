"""Where a frozen program begins; only PyInstaller runs this."""

from __future__ import annotations

import os
import sys


def restore_library_path() -> None:
    """Undo for other programs what PyInstaller's loader did to find the libraries it brings.

    This process has read LD_LIBRARY_PATH already. A file manager that it starts must not load our
    libraries in place of its own (PyInstaller manual, "Launching external programs").
    """
    name = "LD_LIBRARY_PATH"
    before = os.environ.pop(f"{name}_ORIG", None)
    if before is not None:
        os.environ[name] = before
    else:
        os.environ.pop(name, None)


def main() -> int:
    """Run the program."""
    if sys.platform == "linux":
        restore_library_path()

    from explorer.__main__ import main as run  # noqa: PLC0415 - once the surroundings are set

    return run()


if __name__ == "__main__":
    sys.exit(main())
