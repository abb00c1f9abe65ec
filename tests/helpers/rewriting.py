"""Write the same file again and again, as tests of many small changes do."""

from __future__ import annotations

from pathlib import Path


def rewrite(path: Path, content: bytes) -> Path:
    """Write a file anew, in place of one that may be there, and return its path.

    A file that is cut to nothing and written again goes to the disk at once (ext4 does so for
    programs that replace files carelessly): some 3 ms each time. A new one can wait.
    """
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return path
