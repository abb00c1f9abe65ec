"""The demo model, in a folder of the test's own."""

from __future__ import annotations

import shutil
from pathlib import Path

from explorer.paths import demo_model


def copy_demo(folder: Path) -> Path:
    """Return a copy of the demo model in a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(demo_model(), folder))
