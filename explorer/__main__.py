"""Run the program: `python -m explorer`, and the command `gguf-explorer`."""

from __future__ import annotations

import sys

from explorer.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
