"""Tests; laid out as the package is.

They start hundreds of programs, and run in several processes. What Python compiles for one of them
is kept for the others and for the next run, also where nothing may be written beside the sources.
"""

import os
import sys
from pathlib import Path

if sys.dont_write_bytecode:
    _kept = Path(__file__).resolve().parents[1] / ".pytest_cache" / "bytecode"
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(_kept)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
