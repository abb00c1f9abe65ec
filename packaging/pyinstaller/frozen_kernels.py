"""Sets where a frozen program keeps compiled kernels; loaded by Numba alone.

Numba names a kernel's folder by a digest of the absolute path of its source. An AppImage lies at
another path at each start, and a program that was unpacked may be moved: every kernel would be
compiled again, and the old ones stay for ever. The path within the program is always the same. The
folder that holds all of them is one for each version of the sources
(`explorer.quantization.kernel_cache`), and Numba itself compares a digest of the program.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from numba.core import caching


class FrozenLocator(caching.UserProvidedCacheLocator):
    """Numba's locator for a chosen folder, with paths that begin at the program."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> Any:
        path = Path(py_file)
        program = Path(getattr(sys, "_MEIPASS", ""))  # of what PyInstaller unpacked
        if path.is_relative_to(program):
            path = path.relative_to(program)
        return "_".join(path.parent.parts)
